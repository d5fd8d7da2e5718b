"""Exported models: the graph computes what the model does for every method, and proposes nothing that is forbidden."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict, replace
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet
import pytest
import torch
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from contextual_bert.conditioning import METHODS
from contextual_bert.context import Categorical, ContextSchema
from contextual_bert.errors import ConfigurationError, ContextualBertError, RunDirectoryError
from contextual_bert.inference import (
    BulkSettings,
    CompletionPipeline,
    OnnxCompletionPipeline,
    complete_table,
    export_onnx,
)
from contextual_bert.inference.exported import export as exporting
from contextual_bert.inference.exported import onnx_model
from contextual_bert.inference.exported.completion_graph import ContextGraph, carried, example
from contextual_bert.inference.exported.onnx_model import OnnxModel, numbered
from contextual_bert.inference.queries import TrainedSets
from contextual_bert.models import ContextualBertConfig, ContextualBertForMaskedLM, ContextualBertProcessor
from contextual_bert.testing.miniature import ITEMS, RECORDS, SETS, drawn_anew, miniature_config, miniature_schema

TOP_K = 5
TRAINED = TrainedSets(";", 5, items="outfit", group_by=(), reading={"date_formats": ("%d/%m/%Y",)})
METHOD = "global_state_update"  # where one suffices: an export takes seconds
QUICK = (METHOD, "none")
QUERIES: list[dict[str, Any]] = [
    {"items": list(items), "context": record} for items, record in zip(SETS, RECORDS, strict=True)
] + [
    {"items": ["[MASK]", "item-3", "[MASK]", "nobody knows"], "context": RECORDS[0], "deny": ["item-1", "item-2"]},
    {"items": ["[MASK]"]},
    {"items": ["item-1"], "allow": ["item-1"]},
    {"items": ["item-1"], "allow": ["item-1", "item-4"], "repeats": True},
]


def pipeline_of(method_name: str, **fields: Any) -> CompletionPipeline:
    model = drawn_anew(ContextualBertForMaskedLM(miniature_config(method_name, **{"num_hidden_layers": 2, **fields})))
    return CompletionPipeline(model, ContextualBertProcessor.from_items(ITEMS, miniature_schema()))


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> tuple[CompletionPipeline, Path]:
    """One model and its export, for the tests in which the method does not matter."""
    folder, eager = tmp_path_factory.mktemp("export"), pipeline_of(METHOD, has_position_embeddings=True)
    eager.sets = TRAINED
    export_onnx(eager, folder, top_k=TOP_K)
    return eager, folder


def logits_of(pipeline: CompletionPipeline, items: list[str], context: dict[str, Any]) -> torch.Tensor:
    """The model's own logits at the [MASK] of a set, (blanks, vocabulary)."""
    with torch.no_grad():
        return pipeline.model(**pipeline.processor(items=[items], context=[context])).logits


@pytest.mark.parametrize(
    "method_name",
    [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in sorted(METHODS)],
)
def test_the_graph_computes_what_the_model_does(
    method_name: str, exported: tuple[CompletionPipeline, Path], tmp_path: Path
) -> None:
    eager, folder = exported if method_name == METHOD else (pipeline_of(method_name), tmp_path)
    if method_name != METHOD:
        export_onnx(eager, folder, top_k=TOP_K)
    check_answers(OnnxCompletionPipeline(folder), eager)


def test_the_context_that_is_added_at_the_output_is_exported(tmp_path: Path) -> None:
    eager = pipeline_of(METHOD, has_context_at_output=True, num_hidden_layers=1)
    export_onnx(eager, tmp_path, top_k=TOP_K)
    check_answers(OnnxCompletionPipeline(tmp_path), eager)


def check_answers(fast: OnnxCompletionPipeline, eager: CompletionPipeline) -> None:
    assert fast.record["parity"]["max_difference_nats"] <= 1e-4
    assert fast.record["parity"]["recall"] == 1
    for batch_size in (1, 64):
        answers: Any = fast(QUERIES, top_k=TOP_K, batch_size=batch_size)
        for answer, expected in zip(answers, eager(QUERIES, top_k=TOP_K), strict=True):
            assert {**answer, "slots": None} == {**expected, "slots": None}
            assert [slot["position"] for slot in answer["slots"]] == [slot["position"] for slot in expected["slots"]]
            for slot, true in zip(answer["slots"], expected["slots"], strict=True):
                assert [each["item"] for each in slot["candidates"]] == [each["item"] for each in true["candidates"]]
                found, wanted = (np.log([each["probability"] for each in side["candidates"]]) for side in (slot, true))
                np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-4)
                assert slot["excluded_probability"] == pytest.approx(true["excluded_probability"], abs=1e-4)


ODD_NAMES = ("price [EUR]", "vector", "state_0", "input_ids", "self", 'item\'s "size"', "x/y:z\n", "\x1b[31m")


def oddly_named() -> CompletionPipeline:
    """A model whose features are named as no input of a graph can be."""
    schema = ContextSchema(features=tuple(Categorical(name=name, values=("a", "b")) for name in ODD_NAMES))
    fields: dict[str, Any] = {"vocab_size": len(ITEMS) + 3, "hidden_size": 8, "num_attention_heads": 2}
    config = ContextualBertConfig.from_schema(
        schema, conditioning=METHOD, num_hidden_layers=1, intermediate_size=8, **fields
    )
    model = drawn_anew(ContextualBertForMaskedLM(config))
    return CompletionPipeline(model, ContextualBertProcessor.from_items(ITEMS, schema))


def test_no_name_of_a_column_reaches_a_graph() -> None:
    eager = oddly_named()
    encoded = eager.processor.encode_context([dict.fromkeys(ODD_NAMES, "a")], num_rows=1)
    assert encoded is not None
    given = numbered(encoded.tensors, eager.model.config.layout)
    graph = ContextGraph(eager.model)
    parts = {part for key, _ in graph.named_modules() for part in key.split(".")}
    assert all(name.isidentifier() or name.isdecimal() for name in {*given, *parts} - {""})
    wanted = carried(eager.model, eager.model.encode_context(encoded.tensors))
    for found, tensor in zip(graph(given), wanted.values(), strict=True):
        torch.testing.assert_close(found, tensor)


@pytest.mark.slow
def test_columns_of_any_name_are_exported(tmp_path: Path) -> None:
    eager = oddly_named()
    assert export_onnx(eager, tmp_path, top_k=3)["context_features"] == list(ODD_NAMES)
    fast = OnnxCompletionPipeline(tmp_path)
    for index, name in enumerate(ODD_NAMES):
        query: Any = {"items": ["item-1", "[MASK]"], "context": {name: "b", ODD_NAMES[index - 1]: "a"}}
        found, wanted = (side(query, top_k=3)["slots"][0]["candidates"] for side in (fast, eager))
        assert [each["item"] for each in found] == [each["item"] for each in wanted]
        np.testing.assert_allclose(
            *([each["probability"] for each in side] for side in (found, wanted)), rtol=0, atol=1e-4
        )


@pytest.mark.parametrize("seed", range(20))
def test_nothing_forbidden_is_proposed(exported: tuple[CompletionPipeline, Path], seed: int) -> None:
    eager, folder = exported
    generator = np.random.default_rng(seed)
    inputs = example(eager.model, batch_size=9, length=5, seed=seed)
    permitted = generator.random((9, len(ITEMS) + 3)) < generator.choice([0.02, 0.1, 0.5, 1.0], (9, 1))
    permitted[0] = False
    permitted[:, :3] = False  # reserved ids never are
    given = inputs.graph_inputs._replace(permitted=permitted)
    exported_model = OnnxModel(folder, eager.model.config)
    ids, log_probabilities, excluded = exported_model(given, exported_model.encode_context(inputs.context))
    with torch.no_grad():
        hidden = eager.model.bert(*inputs[:2], inputs.context).last_hidden_state
        shares = eager.model.cls(hidden[torch.arange(9), inputs.position]).double().softmax(dim=-1).numpy()
    for row, allowed in enumerate(permitted):
        wanted = sorted(np.flatnonzero(allowed), key=lambda index: -shares[row, index])[:TOP_K]
        proposed = ids[row][log_probabilities[row] > -np.inf]
        assert proposed.tolist() == wanted
        np.testing.assert_allclose(
            log_probabilities[row][: len(wanted)], np.log(shares[row, wanted] / shares[row, allowed].sum()), atol=1e-4
        )
        real = shares[row, 3:] / shares[row, 3:].sum()
        assert excluded[row] == pytest.approx(real[~allowed[3:]].sum(), abs=1e-5)
    assert not np.isnan(log_probabilities).any()


def test_a_permitted_item_of_probability_zero_comes_before_a_forbidden_one(tmp_path: Path) -> None:
    eager = pipeline_of("none", num_hidden_layers=1)
    with torch.no_grad():
        eager.model.get_output_embeddings().bias[3:] = torch.tensor([-300.0, -200.0, *[500.0] * 18])
    export_onnx(eager, tmp_path, top_k=3)
    query: Any = {"items": [], "allow": ["item-0", "item-1"]}
    assert OnnxCompletionPipeline(tmp_path).max_top_k == 3
    answer: Any = OnnxCompletionPipeline(tmp_path)(query, top_k=3)
    expected: Any = eager(query, top_k=3)
    assert [each["item"] for each in answer["slots"][0]["candidates"]] == ["item-1", "item-0"]
    assert answer["slots"][0]["candidates"][0]["probability"] == pytest.approx(1)
    slot, true = answer["slots"][0], expected["slots"][0]
    assert {**slot, "excluded_probability": 0} == {**true, "excluded_probability": 0}
    assert slot["excluded_probability"] == pytest.approx(true["excluded_probability"])


def test_the_excluded_mass_and_the_kept_items_are_all(exported: tuple[CompletionPipeline, Path]) -> None:
    eager, folder = exported
    fast, permitted = OnnxCompletionPipeline(folder), np.zeros((1, len(ITEMS) + 3), dtype=bool)
    permitted[0, [4, 7, 9]] = True
    context = eager.processor.encode_context([RECORDS[0]], num_rows=1)
    assert context is not None
    found = fast.rank([SETS[1]], context.arrays, permitted)
    shares = logits_of(eager, list(SETS[1]), RECORDS[0])[0].softmax(dim=0)
    assert found.excluded[0] == pytest.approx(1 - float(shares[[4, 7, 9]].sum() / shares[3:].sum()), abs=1e-5)
    assert np.exp(found.log_probabilities[0, :3]).sum() == pytest.approx(1, abs=1e-5)
    assert found.log_probabilities[0, 3:].tolist() == [-np.inf, -np.inf]


def test_the_state_of_one_customer_serves_many_sets(exported: tuple[CompletionPipeline, Path]) -> None:
    eager, folder = exported
    fast, sets = OnnxCompletionPipeline(folder), [*SETS, ("[MASK]", "item-2", "[MASK]")]
    num_blanks = sum(items.count("[MASK]") for items in sets)
    permitted = np.ones((num_blanks, len(ITEMS) + 3), dtype=bool)
    context = eager.processor.encode_context([RECORDS[1]] * len(sets), num_rows=len(sets))
    assert context is not None
    expected = fast.rank(sets, context.arrays, permitted)
    # Tensors are taken, too: they are what a processor's other methods give.
    for one in (context.arrays_of(slice(0, 1)), context.rows(slice(0, 1))):
        found = fast.rank(sets, fast.encode_context(one), permitted)
        assert found.ids.tolist() == expected.ids.tolist()
        np.testing.assert_allclose(found.log_probabilities, expected.log_probabilities, atol=1e-4)
    with pytest.raises(ConfigurationError, match="context has 2 rows and input_ids 5"):
        fast.rank(sets, fast.encode_context(context.arrays_of(slice(0, 2))), permitted)


def test_each_blank_has_the_context_of_its_own_set(exported: tuple[CompletionPipeline, Path]) -> None:
    eager, folder = exported
    fast, sets = OnnxCompletionPipeline(folder), [["[MASK]", "item-2", "[MASK]"], ["item-1", "item-2"]]
    context = eager.processor.encode_context(RECORDS[:2], num_rows=2)
    own = eager.processor.encode_context(RECORDS[:1], num_rows=1)
    assert context is not None
    assert own is not None
    permitted = np.ones((2, len(ITEMS) + 3), dtype=bool)
    found, alone = fast.rank(sets, context.arrays, permitted), fast.rank(sets[:1], own.arrays, permitted)
    assert found.ids.tolist() == alone.ids.tolist()
    np.testing.assert_allclose(found.log_probabilities, alone.log_probabilities, atol=1e-5)


def test_a_run_is_not_hidden_by_its_export(exported: tuple[CompletionPipeline, Path], tmp_path: Path) -> None:
    eager, _ = exported
    eager.model.save_pretrained(tmp_path)
    with pytest.raises(ConfigurationError, match="holds a model, which an export would hide"):
        export_onnx(eager, tmp_path)
    assert not (tmp_path / "export.json").exists()


@pytest.fixture(scope="module")
def int8(tmp_path_factory: pytest.TempPathFactory) -> tuple[CompletionPipeline, OnnxCompletionPipeline]:
    """A model of 2,000 items and its export with an output matrix of 8 bits."""
    torch.manual_seed(0)
    names = [str(number) for number in range(2000)]
    model = ContextualBertForMaskedLM(
        miniature_config("film", vocab_size=2003, hidden_size=64, initializer_range=0.3, num_hidden_layers=1)
    )
    folder = tmp_path_factory.mktemp("int8")
    eager = CompletionPipeline(model, ContextualBertProcessor.from_items(names, miniature_schema()))
    export_onnx(eager, folder, top_k=10, output_matrix="int8")
    return eager, OnnxCompletionPipeline(folder)


@pytest.mark.slow
def test_int8_finds_the_same_items(int8: tuple[CompletionPipeline, OnnxCompletionPipeline]) -> None:
    eager, fast = int8
    assert fast.record["output_matrix"] == "int8"
    assert fast.record["parity"]["recall"] >= 0.99
    assert fast.record["parity"]["max_difference_nats"] < 0.05
    queries = [{"items": [str(number)], "context": RECORDS[number % 4]} for number in range(40)]
    both: Any = zip(fast(queries, top_k=10), eager(queries, top_k=10), strict=True)
    names_of = [[{each["item"] for each in side["slots"][0]["candidates"]} for side in pair] for pair in both]
    assert np.mean([len(found & wanted) / 10 for found, wanted in names_of]) >= 0.99
    nothing: Any = fast({"items": ["1"], "allow": ["1"]})
    assert nothing["slots"][0]["candidates"] == []
    assert {each["item"] for each in fast({"items": [], "allow": ["5", "6"]})["slots"][0]["candidates"]} == {"5", "6"}  # pyright: ignore


@pytest.mark.parametrize("num_permitted", [1, 2, 10, 40])
def test_int8_gives_as_few_items_as_it_scores_again_the_probabilities_of_the_run(
    int8: tuple[CompletionPipeline, OnnxCompletionPipeline], num_permitted: int
) -> None:
    eager, fast = int8
    queries = [
        {"items": [], "context": RECORDS[start % 4], "allow": [str(start + 7 * step) for step in range(num_permitted)]}
        for start in range(20)
    ]
    both: Any = zip(fast(queries, top_k=10), eager(queries, top_k=10), strict=True)
    for found, wanted in ([side["slots"][0]["candidates"] for side in pair] for pair in both):
        assert [each["item"] for each in found] == [each["item"] for each in wanted]
        probabilities = [each["probability"] for each in found]
        assert probabilities == pytest.approx([each["probability"] for each in wanted], abs=1e-5)
        assert num_permitted > 10 or sum(probabilities) == pytest.approx(1, abs=1e-5)


def test_no_path_of_this_machine_is_in_an_export(exported: tuple[CompletionPipeline, Path]) -> None:
    places = (Path(torch.__file__).parents[1], Path(__file__).parents[3])  # of packages, of this code
    for file in exported[1].iterdir():
        content = file.read_bytes()
        assert not [place for place in places if bytes(place) in content], file.name


def test_the_folder_says_what_it_holds(exported: tuple[CompletionPipeline, Path]) -> None:
    _, folder = exported
    record = json.loads((folder / "export.json").read_text("utf-8"))
    assert (record["conditioning"], record["top_k"], record["opset"]) == ("global_state_update", TOP_K, 23)
    assert record["context_features"] == ["sex", "age", "brands", "style"]
    assert {"torch", "onnx", "onnxruntime"} <= record["versions"].keys()
    assert 0 < record["parity"]["max_difference_nats"] <= 1e-4
    assert sorted(path.name for path in folder.iterdir()) == [
        "completion.onnx", "config.json", "context.onnx", "export.json", "manifest.json", "processor_config.json",
        "tokenizer.json", "tokenizer_config.json",
    ]  # fmt: skip


def test_an_export_reads_sets_as_its_run(exported: tuple[CompletionPipeline, Path]) -> None:
    again = OnnxCompletionPipeline(exported[1])
    assert again.sets == TRAINED
    notes = again({"items": [*again.processor.items.values[:5], "[MASK]"]}, top_k=1)["notes"]  # pyright: ignore
    assert notes == ["The set has 6 items, and no set of training had more than 5."]


def test_a_graph_that_computes_something_else_is_not_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(*_: Any, **__: Any) -> dict[str, float]:
        return {"num_rows": 1, "max_difference_nats": float("nan"), "recall": 1.0}

    monkeypatch.setattr(exporting, "write_graphs", lambda *_: None)
    monkeypatch.setattr(exporting, "OnnxModel", lambda *_: None)
    monkeypatch.setattr(exporting, "parity", wrong)
    with pytest.raises(ContextualBertError, match="nan nats from the model"):
        export_onnx(pipeline_of("none"), tmp_path / "out")
    assert list((tmp_path / "out").iterdir()) == []


def test_the_parity_sees_another_model(exported: tuple[CompletionPipeline, Path]) -> None:
    _, folder = exported
    other = pipeline_of("global_state_update", has_position_embeddings=True).model
    with torch.no_grad():
        other.bert.encoder.conditioning.context[2].bias += 1
    assert exporting.parity(other, OnnxModel(folder, other.config), top_k=TOP_K)["max_difference_nats"] > 0.1


def test_faults_are_named(exported: tuple[CompletionPipeline, Path], tmp_path: Path) -> None:
    eager, folder = exported
    fast = OnnxCompletionPipeline.from_pretrained(folder)
    with pytest.raises(ConfigurationError, match=r"top_k=6 is too many: this model was exported with top_k=5"):
        fast({"items": []}, top_k=6)
    inputs = example(eager.model, batch_size=2, length=1)
    state = fast.exported.encode_context(inputs.context)
    assert state is not None
    with pytest.raises(ConfigurationError, match="made with conditioning='film', and the model has"):
        fast.exported(inputs.graph_inputs, replace(state, conditioning="film"))
    with pytest.raises(ConfigurationError, match="This model takes a context"):
        fast.exported(inputs.graph_inputs, None)
    with pytest.raises(ConfigurationError, match="runs on the CPU"):
        OnnxCompletionPipeline.from_pretrained(folder, device="cuda")
    with pytest.raises(RunDirectoryError, match=r"no complete export: completion.onnx, export.json"):
        OnnxCompletionPipeline(tmp_path)
    for name in folder.iterdir():
        (tmp_path / name.name).write_bytes(name.read_bytes())
    (tmp_path / "completion.onnx").write_bytes(b"damaged")
    with pytest.raises(RunDirectoryError, match="cannot be loaded"):
        OnnxCompletionPipeline(tmp_path)
    for arguments, message in (({"top_k": 0}, "top_k=0"), ({"output_matrix": "int4"}, "output_matrix='int4'")):
        with pytest.raises(ConfigurationError, match=message):
            partial(export_onnx, **arguments)(eager, tmp_path / "out")  # pyright: ignore


@pytest.mark.parametrize("value", [None, "10", [], {}, 0, -1, True, 1.5, "absent"], ids=str)
def test_a_record_of_another_type_is_refused(
    exported: tuple[CompletionPipeline, Path], tmp_path: Path, value: object
) -> None:
    folder = shutil.copytree(exported[1], tmp_path / "copy")
    (folder / "manifest.json").unlink()
    record = json.loads((folder / "export.json").read_text("utf-8")) | {"top_k": value}
    if value == "absent":
        del record["top_k"]
    (folder / "export.json").write_text(json.dumps(record), encoding="utf-8")
    with pytest.raises(RunDirectoryError, match=r"export.json has top_k=.*Export the run again"):
        OnnxCompletionPipeline(folder)


def test_without_the_extra_the_message_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(onnx_model, "find_spec", lambda name: None)
    with pytest.raises(ConfigurationError, match=r"pip install 'contextual-bert\[export\]'"):
        export_onnx(tmp_path, tmp_path / "out")
    with pytest.raises(ConfigurationError, match=r"pip install 'contextual-bert\[onnxruntime\]'"):
        OnnxCompletionPipeline(tmp_path)


def test_what_needs_logits_is_refused(exported: tuple[CompletionPipeline, Path]) -> None:
    fast = OnnxCompletionPipeline(exported[1])
    with pytest.raises(ConfigurationError, match="no logits"):
        fast({"items": ["item-1"], "guidance": 2}, top_k=1)
    with pytest.raises(ConfigurationError, match="no logits"):
        fast.complete_jointly({"items": ["item-1", "[MASK]", "[MASK]"]}, num_completions=1)


@pytest.mark.parametrize(
    ("file", "change", "message"),
    [
        (
            "config.json",
            {"softmax_over": "all"},
            r"config.json, softmax_over: 'all' is not allowed. Export the run again",
        ),
        ("config.json", {"vocab_size": None}, r"config.json, vocab_size"),
        ("config.json", {"context_features": [{"name": "sex"}]}, r"config.json, context_features.*kind"),
        ("config.json", {"vocab_size": 7}, r"The processor knows 23 items and the model 7"),
        ("config.json", {"context_features": None}, r"completion.onnx does not read what config.json"),
        ("config.json", {"context_features": [asdict(miniature_schema().layout[0])]}, r"context.onnx does not read"),
        ("tokenizer.json", {"model": {}}, r"tokenizer.json has no vocabulary of items"),
        (
            "tokenizer.json",
            {"model": {"vocab": {"[PAD]": 0, "[MASK]": 1, "hat": 2}}},
            r"ids are those of another model",
        ),
        ("tokenizer.json", {"model": {"vocab": {"[PAD]": 0, "[MASK]": 1, "[UNK]": 3}}}, r"ids are those of another"),
        ("processor_config.json", {"feature_extractor": []}, r"processor_config.json has no feature_extractor"),
        ("processor_config.json", {"value_spelling": None}, r"this version does not have"),
        ("processor_config.json", {"feature_extractor": {"context_schema": {}}}, r"a context schema is an object"),
    ],
)
def test_a_damaged_file_of_an_export_is_named(
    exported: tuple[CompletionPipeline, Path], tmp_path: Path, file: str, change: dict[str, Any], message: str
) -> None:
    folder = shutil.copytree(exported[1], tmp_path / "copy")
    (folder / "manifest.json").unlink()
    content = json.loads((folder / file).read_text("utf-8"))
    (folder / file).write_text(json.dumps(content | change), encoding="utf-8")
    with pytest.raises(ContextualBertError, match=message):
        OnnxCompletionPipeline(folder)


WITHOUT_TORCH = """
import asyncio, json, sys

class Refusal:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in refused:
            raise ModuleNotFoundError(f"{name} is refused", name=name)

refused = set(sys.argv[3].split())
assert {"torch", "transformers", "peft", "accelerate", "datasets", "tokenizers", "safetensors", "scipy"} <= refused
sys.meta_path.insert(0, Refusal())
import httpx
from contextual_bert import OnnxCompletionPipeline
from contextual_bert.server import create_app
from contextual_bert_cli.main import app as command

folder, query = sys.argv[1], json.loads(sys.argv[2])
fast = OnnxCompletionPipeline(folder)
served = create_app(fast)

async def ask():
    async with served.router.lifespan_context(served):
        client = httpx.AsyncClient(transport=httpx.ASGITransport(served), base_url="http://localhost")
        answer = await client.post("/v1/complete?top_k=3", json=query)
        why = await client.post("/v1/explain", json=query)
        return answer.json(), why.status_code, len((await client.get("/v1/schema")).json()["features"])

print(json.dumps({"library": fast(query, top_k=3), "server": asyncio.run(ask())}))
shown = ["--set", ",".join(query["items"]), "--deny", *query["deny"], "--context", json.dumps(query["context"])]
sys.stdout.flush()
command(["complete", folder, *shown, "--separator", ",", "--top", "3", "--format", "json"], standalone_mode=False)
command(["complete", folder, *shown, "--separator", ",", "--top", "3"], standalone_mode=False)
command(["complete", folder, "--data", sys.argv[4], "--output", sys.argv[5], "--top", "3"], standalone_mode=False)
"""


def modules_beside(requirements: Sequence[str]) -> list[str]:
    """The installed modules but those of this package, of these distributions and of all that they require."""
    names, found = [Requirement(each).name for each in requirements], {"contextual-bert"}
    while names:
        if (name := canonicalize_name(names.pop())) not in found:
            found.add(name)
            needed = map(Requirement, metadata.requires(name) or [])
            names += [each.name for each in needed if each.marker is None or each.marker.evaluate({"extra": ""})]
    given = metadata.packages_distributions().items()
    return sorted(module for module, owners in given if found.isdisjoint(map(canonicalize_name, owners)))


def test_an_export_answers_where_torch_cannot_be_imported(
    exported: tuple[CompletionPipeline, Path], tmp_path: Path
) -> None:
    eager, folder = exported
    table = pa.Table.from_pylist(
        [{**record, "outfit": list(items)} for items, record in zip(SETS, RECORDS, strict=True)]
    )
    parquet.write_table(table, tmp_path / "sets.parquet")
    tables = [tmp_path / name for name in ("sets.parquet", "completions")]
    query = {"items": ["item-5", "[MASK]", "item-2"], "context": RECORDS[1], "deny": ["item-1"]}
    source = Path(onnx_model.__file__).parents[3]
    text = (source.parent / "requirements-export.txt").read_text("utf-8")
    lines = [line for line in text.splitlines() if not line.startswith(("#", "tokenizers"))]  # which texts need
    listed = [*lines, "httpx"]  # which asks the server
    result = subprocess.run(
        [
            sys.executable,
            "-c",
            WITHOUT_TORCH,
            str(folder),
            json.dumps(query),
            " ".join(modules_beside(listed)),
            *tables,
        ],
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(source), os.environ.get("PYTHONPATH", "")])},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert result.returncode == 0, result.stderr
    first, _, rest = result.stdout.partition("\n")
    found, (shown, end) = json.loads(first), json.JSONDecoder().raw_decode(rest)
    assert "rank" in rest[end:] and "probability" in rest[end:]  # the table
    served, explained, num_features = found["server"]
    assert (explained, num_features) == (409, len(RECORDS[0]))
    expected: Any = eager(query, top_k=3)
    for answer in (found["library"], served, shown):
        assert {**answer, "slots": []} == {**expected, "slots": []}
        [slot], [true] = answer["slots"], expected["slots"]
        assert [each["item"] for each in slot["candidates"]] == [each["item"] for each in true["candidates"]]
        for name in ("position", "num_permitted", "removed", "reason"):
            assert slot[name] == true[name]
        wanted = pytest.approx([each["probability"] for each in true["candidates"]], abs=1e-5)
        assert [each["probability"] for each in slot["candidates"]] == wanted
        assert slot["excluded_probability"] == pytest.approx(true["excluded_probability"], abs=1e-5)
    complete_table(eager, table, tmp_path / "of the run", settings=BulkSettings(items="outfit", top_k=3))
    theirs, own = (parquet.read_table(tmp_path / name / "part-00000.parquet") for name in ("completions", "of the run"))
    assert theirs.select(["row", "position", "candidates"]).equals(own.select(["row", "position", "candidates"]))
    probabilities = [table["probabilities"].combine_chunks().flatten().to_numpy() for table in (theirs, own)]
    np.testing.assert_allclose(*probabilities, atol=1e-5)
