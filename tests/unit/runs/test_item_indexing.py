"""A run with an index of its items: the same answers as without, and an index that is no longer its own."""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from contextual_bert.context import Categorical, ContextSchema, History
from contextual_bert.errors import ConfigurationError
from contextual_bert.inference import CompletionPipeline, index_ranking, item_index
from contextual_bert.inference.item_index import INDEX_FOLDER, INDEX_RECORD_FILE, ItemIndex
from contextual_bert.inference.output_rows import OutputRows
from contextual_bert.models import ContextualBertConfig, ContextualBertForMaskedLM, ContextualBertProcessor
from contextual_bert.runs import item_indexing, run
from contextual_bert.runs.item_indexing import index_items
from contextual_bert.testing.miniature import drawn_anew
from contextual_bert.training.recipe import Recipe
from contextual_bert_cli.main import app

ITEMS = [f"item-{number}" for number in range(60)]
SIZES = {"hidden_size": 16, "num_attention_heads": 2, "num_hidden_layers": 2, "intermediate_size": 16}
QUERIES: list[dict[str, Any]] = [
    {"items": ["item-1"]},
    {"items": ["item-1", "[MASK]", "item-2", "[MASK]"], "context": {"sex": "f"}},
    {"items": ["item-4"], "context": {"sex": "m"}, "deny": ["item-7"], "guidance": 2.5},
    {"items": ["item-4"], "context": {"sex": "m"}, "allow": ["item-7", "item-9"]},
    {"items": ["item-4"], "context": {"sex": "m"}, "guidance": 0, "repeats": True},
    {"items": ["never seen", "item-5"], "context": {"sex": "m"}, "allow": ["item-5"]},
]


@pytest.fixture(autouse=True)
def of_few_items(monkeypatch: pytest.MonkeyPatch) -> None:
    """The index is searched, though so few items could all be ranked."""
    monkeypatch.setattr(index_ranking, "FEW", 0)
    monkeypatch.setattr(item_indexing, "FEWEST", 5)


def pipeline_of(*features: Any, **fields: Any) -> CompletionPipeline:
    schema = ContextSchema(features=(Categorical(name="sex", values=("f", "m")), *features)).for_items(ITEMS)
    processor = ContextualBertProcessor.from_items(ITEMS, schema)
    config = ContextualBertConfig.from_schema(schema, vocab_size=len(processor.items), **{**SIZES, **fields})
    return CompletionPipeline(drawn_anew(ContextualBertForMaskedLM(config)), processor)


def index_for(pipeline: CompletionPipeline) -> ItemIndex:
    rows = OutputRows(*(each.detach().numpy() for each in pipeline.model.output_matrix()))
    states = np.random.default_rng(0).normal(size=(8, SIZES["hidden_size"])).astype(np.float32)
    return ItemIndex.build(rows, first_id=len(pipeline.processor.items.reserved), states=states, files={})


def numbers(answers: Any) -> list[Any]:
    """The answers with rounded probabilities."""
    return json.loads(json.dumps(answers), parse_float=lambda text: round(float(text), 5))


@pytest.mark.parametrize(
    "fields",
    [
        {"conditioning": "global_state_update"},
        {"conditioning": "concat", "softmax_over": "candidates"},
        {"conditioning": "global_state", "has_context_at_output": True},
        {"conditioning": "none"},
    ],
    ids=lambda fields: ", ".join(map(str, fields.values())),
)
def test_answers_are_those_without_the_index(fields: dict[str, Any]) -> None:
    pipeline = pipeline_of(**fields)
    expected, exact_digest = numbers(pipeline(QUERIES, top_k=7)), pipeline.model_digest()
    pipeline.rank_by(index_for(pipeline))
    assert numbers(pipeline(QUERIES, top_k=7)) == expected
    assert pipeline.model_digest() != exact_digest  # a table is gone on with in the same way alone
    pipeline.rank_by(None)
    assert pipeline.model_digest() == exact_digest


def test_what_somebody_had_before_is_found_wherever_it_lies() -> None:
    pipeline = pipeline_of(History(name="before"), conditioning="global_state_update")
    with torch.no_grad():
        for module in pipeline.model.repeats.parameters():
            module.mul_(3)
    before = [["item-50", "item-51"], ["item-50"]]
    queries = [
        {"items": ["item-1"], "context": {"before": before}},
        {"items": ["item-1", "[MASK]"], "context": {"before": before, "sex": "f"}, "guidance": 3},
        {"items": ["item-1"], "context": {"sex": "f"}},
    ]
    expected = numbers(pipeline(queries, top_k=60))
    pipeline.rank_by(index_for(pipeline))
    assert numbers(pipeline(queries, top_k=60)) == expected


@pytest.fixture(scope="module")
def finished(tiny_recipe: Recipe, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("run") / "gsu"
    run(tiny_recipe.changed(conditioning="global_state_update"), folder)
    return folder


@pytest.fixture
def indexed(finished: Path, tmp_path: Path) -> Path:
    folder = tmp_path / "gsu"
    shutil.copytree(finished, folder)
    index_items(folder)
    return folder


def test_a_run_ranks_by_its_index_and_says_so(indexed: Path) -> None:
    pipeline = CompletionPipeline.from_pretrained(indexed)
    exact = CompletionPipeline.from_pretrained(indexed, is_exact=True)
    assert pipeline.ranker is not None and exact.ranker is None
    assert pipeline.ranker.index.record.num_items == len(pipeline.processor.items.values)
    assert pipeline.ranker.index.record.recall["1"] == 1
    [note] = pipeline.notes()
    assert "ranks the items: of the ten best it found 100.0%" in note and exact.notes() == []
    item = pipeline.processor.items.values[3]
    assert numbers(pipeline({"items": [item]})) == numbers(exact({"items": [item]}))


def test_an_index_of_other_weights_is_left_alone(indexed: Path) -> None:
    path = indexed / INDEX_FOLDER / INDEX_RECORD_FILE
    record = json.loads(path.read_text())
    record["files"]["model.safetensors"] = "0" * 64
    path.write_text(json.dumps(record))
    pipeline = CompletionPipeline.from_pretrained(indexed)
    assert pipeline.ranker is None
    assert pipeline.notes() == [
        f"{indexed / INDEX_FOLDER} is not used: it is of other weights. Run: contextual-bert index {indexed}. All "
        "items are ranked, which takes longer."
    ]


def test_without_faiss_all_items_are_ranked(indexed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(item_index, "find_spec", lambda _: None)
    pipeline = CompletionPipeline.from_pretrained(indexed)
    assert pipeline.ranker is None and "pip install 'contextual-bert[index]'" in pipeline.notes()[0]


@pytest.mark.parametrize("recall", [0, 1.2, float("nan")])
def test_a_recall_that_cannot_be(finished: Path, recall: float) -> None:
    with pytest.raises(ConfigurationError, match="recall"):
        index_items(finished, recall=recall)


def test_few_items_need_no_index(finished: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(item_indexing, "FEWEST", 1000)
    with pytest.raises(ConfigurationError, match="59 items: of fewer than 1,000, all are ranked as fast"):
        index_items(finished)
    assert not (finished / INDEX_FOLDER).exists()


def test_the_command_says_what_was_measured(finished: Path, tmp_path: Path) -> None:
    folder = tmp_path / "gsu"
    shutil.copytree(finished, folder)
    result = CliRunner().invoke(app, ["index", str(folder)])
    assert result.exit_code == 0, result.output
    assert "finds 100.0% of the ten best" in result.output and "a product with all items" in result.output
    asked = ["complete", str(folder), "--set", "[MASK]", "--format", "json"]
    found, exact = (CliRunner().invoke(app, [*asked, *more]) for more in ([], ["--exact"]))
    assert "ranks the items" in found.output and "ranks the items" not in exact.output
    assert numbers(json.loads(found.stdout)) == numbers(json.loads(exact.stdout))
