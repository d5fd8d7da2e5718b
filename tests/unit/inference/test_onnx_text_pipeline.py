"""Exported models of texts: the graphs compute what the model does, and the answers are those of the run."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as parquet
import pytest
import torch

from contextual_bert.conditioning import METHODS
from contextual_bert.context import ContextSchema
from contextual_bert.errors import ConfigurationError, NonFiniteError, RunDirectoryError
from contextual_bert.inference import (
    CompletionPipeline,
    OnnxCompletionPipeline,
    OnnxQuestionAnsweringPipeline,
    OnnxTextPipeline,
    QuestionAnsweringPipeline,
    TextPipeline,
    export_onnx,
)
from contextual_bert.inference.exported import onnx_model
from contextual_bert.models import (
    ContextFeatureExtractor,
    ContextualBertForQuestionAnswering,
    ContextualBertForSequenceClassification,
    ContextualBertForTokenClassification,
    ContextualBertProcessor,
)
from contextual_bert.testing.miniature import (
    blocks_of,
    drawn_anew,
    miniature_config,
    miniature_model,
    miniature_processor,
    miniature_schema,
    miniature_tokenizer,
)
from tests.unit.inference.test_onnx import modules_beside

HEADS: dict[str, tuple[Any, dict[str, Any]]] = {
    "label": (ContextualBertForSequenceClassification, {"id2label": {0: "low", 1: "middle", 2: "high"}}),
    "tags": (ContextualBertForTokenClassification, {"id2label": {0: "O", 1: "NAME"}}),
    "answer": (ContextualBertForQuestionAnswering, {}),
}
AS_TEXT = "context as text"
BACKBONES = ("bert", "mpnet", "modernbert")
QUICK = (("label", "global_state_update", "bert"), ("answer", AS_TEXT, "bert"))
GRID = [(head, method, backbone) for head in HEADS for method in (*sorted(METHODS), AS_TEXT) for backbone in BACKBONES]
RECORDS: tuple[dict[str, Any], ...] = (
    {"sex": "f", "age": 12, "brands": ["a", "b"], "style": [0.5, -1.0]},
    {"sex": "nobody knows", "age": 70, "brands": []},
    {},
)
LONG = " ".join(f"word{number % 18}" for number in range(90))
TEXTS = ("word1 word2 word3", "word4", LONG)
MANY = {"sex": "m", "age": 33, "brands": ["b", "c", "a"]}


def schema(*, has_vector: bool) -> ContextSchema:
    return ContextSchema(features=miniature_schema().features[: 4 if has_vector else 3])


def model_of(head: str, method: str, backbone: str = "bert", **fields: Any) -> Any:
    kind, own = HEADS[head]
    layout = {"has_position_embeddings": True, "max_position_embeddings": 64, "type_vocab_size": 2}
    if method == AS_TEXT:
        layout |= {"has_context_as_text": True, "eos_token_id": 4}
    with blocks_of(backbone):
        config = miniature_config(
            "none" if method == AS_TEXT else method, **{"num_hidden_layers": 2, **layout, **own, **fields}
        )
    return drawn_anew(kind(config))


def pipeline_of(head: str, method: str, backbone: str = "bert", **fields: Any) -> Any:
    tokenizer = miniature_tokenizer()
    tokenizer.model_max_length = 40
    extractor = ContextFeatureExtractor(schema(has_vector=method != AS_TEXT).to_dict())
    processor = ContextualBertProcessor(extractor, tokenizer, has_context_as_text=method == AS_TEXT)
    kind: Any = QuestionAnsweringPipeline if head == "answer" else TextPipeline
    return kind(model_of(head, method, backbone, **fields), processor)


def exported_of(head: str, folder: Path) -> Any:
    return (OnnxQuestionAnsweringPipeline if head == "answer" else OnnxTextPipeline)(folder)


def queries_of(head: str, method: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for text in TEXTS:
        for record in (*RECORDS, MANY):
            own = {name: value for name, value in record.items() if method != AS_TEXT or name != "style"}
            found.append({"text": text, "context": own} | ({"question": "word5 word6"} if head == "answer" else {}))
    return found


def check_alike(found: Any, wanted: Any) -> None:
    """Numbers agree to rounding, and all else to the letter."""
    if isinstance(wanted, dict):
        assert found.keys() == wanted.keys()
        for name, value in wanted.items():
            check_alike(found[name], value)
    elif isinstance(wanted, list):
        assert len(found) == len(wanted)
        for one, other in zip(found, wanted, strict=True):
            check_alike(one, other)
    elif isinstance(wanted, float):
        assert found == pytest.approx(wanted, abs=1e-4)
    else:
        assert found == wanted


@pytest.mark.parametrize(
    ("head", "method", "backbone"),
    [case if case in QUICK else pytest.param(*case, marks=pytest.mark.slow) for case in GRID],
)
def test_the_graphs_compute_what_the_model_does(head: str, method: str, backbone: str, tmp_path: Path) -> None:
    eager = pipeline_of(head, method, backbone)
    record = export_onnx(eager, tmp_path)
    assert record["parity"]["max_difference"] <= 1e-4
    fast, queries = exported_of(head, tmp_path), queries_of(head, method)
    for batch_size in (1, 64):
        check_alike(fast(queries, batch_size=batch_size), eager(queries, batch_size=batch_size))


@pytest.fixture(scope="module")
def labels(tmp_path_factory: pytest.TempPathFactory) -> tuple[TextPipeline, Path]:
    """One model and its export, for the tests in which method and head do not matter."""
    folder, eager = tmp_path_factory.mktemp("export"), pipeline_of("label", "global_state")
    export_onnx(eager, folder)
    return eager, folder


def test_notes_pairs_and_guidance_are_those_of_the_run(labels: tuple[TextPipeline, Path]) -> None:
    eager, folder = labels
    fast = OnnxTextPipeline(folder)
    queries = [
        {"text": LONG, "context": {"sex": "x", "age": 4000}},
        {"text": "strange stranger", "context": MANY, "guidance": 2.5},
        {"text": "word1", "guidance": 0},
    ]
    for asked in (queries, [{**query, "pair": "word7 word8"} for query in queries]):
        found: Any = fast(asked)
        check_alike(found, eager(asked))
    assert "longer than the model reads" in found[0]["notes"][0]
    assert found[0]["unknown_context"] == {"sex": ["x"]}


def test_a_table_is_labelled_as_by_the_run(labels: tuple[TextPipeline, Path]) -> None:
    eager, folder = labels
    rows = [{"text": text, **record} for text in TEXTS for record in RECORDS]
    table = pa.Table.from_pylist(rows, schema=pa.schema([
        ("text", pa.string()), ("sex", pa.string()), ("age", pa.int64()),
        ("brands", pa.list_(pa.string())), ("style", pa.list_(pa.float64())),
    ]))  # fmt: skip
    found, wanted = (pipeline.label_table(table, batch_size=2) for pipeline in (OnnxTextPipeline(folder), eager))
    check_alike(found.table.to_pylist(), wanted.table.to_pylist())
    assert found.report.lines() == wanted.report.lines()


@pytest.mark.slow
@pytest.mark.parametrize(
    "fields",
    [
        {"is_ordinal": True},
        {"problem_type": "multi_label_classification"},
        {"id2label": {0: "value"}},
        {"id2label": {0: "low", 1: "high"}, "number_bins": [[0.0, 1.5, 1.0], [2.0, 9.0, 3.5]]},
        {"classifier_pooling": "mean"},
        {"classifier_pooling": "first"},
        {"pooler_act": "relu", "embedding_size": 16},
        {"position_embedding": "sinusoidal"},
        {"type_vocab_size": 0},
    ],
    ids=str,
)
def test_grades_several_labels_numbers_and_what_a_head_may_be(fields: dict[str, Any], tmp_path: Path) -> None:
    eager = pipeline_of("label", "global_state_update", **fields)
    assert export_onnx(eager, tmp_path)["parity"]["max_difference"] <= 1e-4
    queries = queries_of("label", "global_state_update")
    check_alike(OnnxTextPipeline(tmp_path)(queries), eager(queries))


def test_the_end_of_a_long_text_is_read_where_it_is_asked(labels: tuple[TextPipeline, Path]) -> None:
    eager, folder = labels
    eager = TextPipeline(eager.model, eager.processor, truncation="head_tail")
    fast = OnnxTextPipeline.from_pretrained(folder, truncation="head_tail")
    check_alike(fast({"text": LONG}), eager({"text": LONG}))


def test_no_path_of_this_machine_is_in_an_export(labels: tuple[TextPipeline, Path]) -> None:
    places = (Path(torch.__file__).parents[1], Path(__file__).parents[3])  # of packages, of this code
    for file in labels[1].iterdir():
        content = file.read_bytes()
        assert not [place for place in places if bytes(place) in content], file.name


def test_the_folder_says_what_it_holds(labels: tuple[TextPipeline, Path]) -> None:
    record = json.loads((labels[1] / "export.json").read_text("utf-8"))
    assert (record["kind"], record["conditioning"], record["opset"]) == ("classification", "global_state", 23)
    assert record["context_features"] == ["sex", "age", "brands", "style"]
    assert 0 < record["parity"]["max_difference"] <= 1e-4
    assert sorted(path.name for path in labels[1].iterdir()) == [
        "config.json", "context.onnx", "export.json", "manifest.json", "processor_config.json", "text.onnx",
        "tokenizer.json", "tokenizer_config.json",
    ]  # fmt: skip


def refused(folder: Path, kind: str) -> Path:
    """A folder that says which task its model learned."""
    folder.mkdir()
    (folder / "recipe.json").write_text(json.dumps({"recipe": {"task": {"kind": kind}}}), encoding="utf-8")
    return folder


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        ("masked_text", "it fills hidden words"),
        ("causal_text", "it writes token by token"),
        ("text_to_text", "its decoder writes token by token"),
        ("bidirectional_text", "by recurrent layers"),
    ],
)
def test_runs_of_other_kinds_are_refused(kind: str, reason: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=reason):
        export_onnx(refused(tmp_path / kind, kind), tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"backbone": "bilstm"}, "backbone='bilstm' cannot be written as a graph of texts"),
        ({"segment_length": 16, "segment_overlap": 4, "num_segment_layers": 1}, "segment_length=16 cannot be exported"),
    ],
)
def test_models_of_other_kinds_are_refused(fields: dict[str, Any], reason: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=reason):
        export_onnx(pipeline_of("label", "none", **fields), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_settings_of_sets_are_refused(labels: tuple[TextPipeline, Path], tmp_path: Path) -> None:
    export: Any = export_onnx
    for settings in ({"top_k": 3}, {"output_matrix": "int8"}):
        with pytest.raises(ConfigurationError, match="is for runs of sets, and this model reads texts"):
            export(labels[0], tmp_path / "out", **settings)


def test_a_model_without_numbers_is_not_written(tmp_path: Path) -> None:
    eager = pipeline_of("label", "none")
    with torch.no_grad():
        eager.model.classifier.bias[0] = float("nan")
    with pytest.raises(NonFiniteError):
        export_onnx(eager, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_faults_are_named(labels: tuple[TextPipeline, Path], tmp_path: Path) -> None:
    _, folder = labels
    fast = OnnxTextPipeline(folder)
    with pytest.raises(ConfigurationError, match="runs on the CPU"):
        OnnxTextPipeline.from_pretrained(folder, device="cuda")
    with pytest.raises(RunDirectoryError, match=r"no complete export: text.onnx, export.json"):
        OnnxTextPipeline(tmp_path)
    with pytest.raises(RunDirectoryError, match=r"has kind='classification'"):
        OnnxQuestionAnsweringPipeline(folder)
    with pytest.raises(RunDirectoryError, match=r"no complete export: completion.onnx"):
        OnnxCompletionPipeline(folder)
    copy = shutil.copytree(folder, tmp_path / "copy")
    (copy / "text.onnx").write_bytes(b"damaged")
    with pytest.raises(RunDirectoryError, match=r"text.onnx"):
        OnnxTextPipeline(copy)
    (copy / "manifest.json").unlink()
    with pytest.raises(RunDirectoryError, match="cannot be loaded"):
        OnnxTextPipeline(copy)
    for query, place in (({"text": 3}, "text"), ({"text": "word1", "context": {"agx": 1}}, "context")):
        with pytest.raises(Exception, match=place):
            fast(query)


def test_a_folder_of_sets_is_no_export_of_texts(tmp_path: Path) -> None:
    sets = CompletionPipeline(miniature_model("none"), miniature_processor())
    export_onnx(sets, tmp_path)
    with pytest.raises(RunDirectoryError, match=r"text.onnx"):
        OnnxTextPipeline(tmp_path)


def test_an_export_that_is_older_than_its_run_says_so(tmp_path: Path) -> None:
    run, output = tmp_path / "run", tmp_path / "onnx"
    eager = pipeline_of("label", "none")
    for each in (eager.model, eager.processor):
        each.save_pretrained(run)
    export_onnx(run, output)
    assert OnnxTextPipeline(output).origin_notes == []
    with torch.no_grad():
        eager.model.classifier.bias[0] += 1
    eager.model.save_pretrained(run)
    [note] = OnnxTextPipeline(output).origin_notes
    assert "holds another model now (other weights or settings)" in note
    assert note.endswith(f"contextual-bert export {run} --output {output}.")


WITHOUT_TORCH = """
import json, sys

class Refusal:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in refused:
            raise ModuleNotFoundError(f"{name} is refused", name=name)

refused = set(sys.argv[3].split())
assert {"torch", "transformers", "peft", "accelerate", "datasets", "safetensors", "scipy"} <= refused
sys.meta_path.insert(0, Refusal())
from contextual_bert import OnnxTextPipeline
from contextual_bert_cli.main import app as command

folder, query = sys.argv[1], json.loads(sys.argv[2])
print(json.dumps(OnnxTextPipeline(folder)(query)))
sys.stdout.flush()
shown = ["--text", query["text"], "--context", json.dumps(query["context"])]
command(["predict", folder, *shown, "--format", "json"], standalone_mode=False)
command(["predict", folder, *shown], standalone_mode=False)
command(["predict", folder, "--data", sys.argv[4], "--output", sys.argv[5]], standalone_mode=False)
"""


def test_an_export_answers_where_torch_cannot_be_imported(labels: tuple[TextPipeline, Path], tmp_path: Path) -> None:
    eager, folder = labels
    query: dict[str, Any] = {"text": "word1 word2", "context": {"sex": "f", "age": 12}}
    table = pa.table({"text": TEXTS, "sex": ["f", "x", None], "age": [12, 33, 70]})
    parquet.write_table(table, tmp_path / "texts.parquet")
    source = Path(onnx_model.__file__).parents[3]
    text = (source.parent / "requirements-export.txt").read_text("utf-8")
    listed = [line for line in text.splitlines() if not line.startswith("#")]
    files = [str(tmp_path / name) for name in ("texts.parquet", "out.parquet")]
    result = subprocess.run(
        [sys.executable, "-c", WITHOUT_TORCH, str(folder), json.dumps(query), " ".join(modules_beside(listed)), *files],
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(source), os.environ.get("PYTHONPATH", "")])},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert result.returncode == 0, result.stderr
    first, _, rest = result.stdout.partition("\n")
    shown, end = json.JSONDecoder().raw_decode(rest)
    for found in (json.loads(first), shown):
        check_alike(found, eager(query))
    assert "label" in rest[end:]
    wanted = eager.label_table(table).table.to_pylist()
    check_alike(parquet.read_table(files[1]).to_pylist(), wanted)
