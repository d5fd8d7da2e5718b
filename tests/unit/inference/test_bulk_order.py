"""Bulk completion of sequences: the items of each row are put in order before the model reads them."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import torch

from contextual_bert.data import ReadSettings, read_table
from contextual_bert.errors import ConfigurationError, DataError, QueryError, UnknownNameError
from contextual_bert.inference import BulkSettings, CompletionPipeline, complete_table
from contextual_bert.inference.inspected_queries import InspectedSet
from contextual_bert.inference.saved_files import TrainedSets
from contextual_bert.models import ContextualBertConfig, ContextualBertForMaskedLM, ContextualBertProcessor

SIZES: dict[str, Any] = {
    "hidden_size": 8, "num_attention_heads": 2, "num_hidden_layers": 1, "intermediate_size": 16,
}  # fmt: skip
ITEMS = ["coat", "hat", "bag", "belt", "scarf"]


def pipeline_of(*, predicts_next: bool = True, softmax_over: str = "items", **sets: Any) -> CompletionPipeline:
    """A model that reads three items before the next one, of a run that read its sets so."""
    fields: dict[str, Any] = {"softmax_over": softmax_over}
    fields |= {"has_position_embeddings": True, "predicts_next": predicts_next, "max_position_embeddings": 4}
    processor = ContextualBertProcessor.from_items(ITEMS)
    config = ContextualBertConfig(vocab_size=len(processor.items), initializer_range=1.0, **SIZES, **fields)
    pipeline = CompletionPipeline(ContextualBertForMaskedLM(config).eval(), processor)
    pipeline.sets = TrainedSets(**sets)
    return pipeline


def rows_of(folder: Path, name: str) -> list[list[float]]:
    return read_table(folder / name / "part-00000.parquet")["probabilities"].to_pylist()


def answers_of(pipeline: CompletionPipeline, *sets: list[str]) -> list[Any]:
    found: Any = pipeline([{"items": each} for each in sets], top_k=5)
    return [pytest.approx([each["probability"] for each in one["slots"][0]["candidates"]], abs=1e-6) for one in found]


GROUPED = pa.table(
    {
        "who": ["ann", "bob", "ann", "ann", "bob"],
        "items": ["bag", "hat", "coat", "hat", "belt"],
        "at": ["2024-01-03", "2024-01-01", "2024-01-01", "2024-01-02", "2024-01-02"],
    }
)


def test_grouped_rows_are_put_in_the_order_of_the_run(tmp_path: Path) -> None:
    pipeline = pipeline_of(items="items", group_by=("who",), order="at")
    in_order = answers_of(pipeline, ["coat", "hat", "bag"], ["hat", "belt"])
    as_they_stand = answers_of(pipeline, ["bag", "coat", "hat"], ["hat", "belt"])
    settings = BulkSettings(group_by=["who"], top_k=5)
    report = complete_table(pipeline, GROUPED, tmp_path / "own", settings=settings)
    assert rows_of(tmp_path, "own") == in_order
    assert "items put in order by 'at', as in training" in report.lines()
    assert report.lines()[0] == "2 blanks of 2 sequences in 1 file"

    other = GROUPED.rename_columns(["who", "items", "when"])
    report = complete_table(pipeline, other, tmp_path / "absent", settings=settings)
    assert rows_of(tmp_path, "absent") == as_they_stand
    assert any("in which they stand: the run put them in order by 'at'" in line for line in report.lines())

    settings = BulkSettings(group_by=["who"], top_k=5, order="when")
    complete_table(pipeline, other, tmp_path / "named", settings=settings)
    assert rows_of(tmp_path, "named") == in_order


def test_lists_are_put_in_order_beside_lists_of_times(tmp_path: Path) -> None:
    pipeline = pipeline_of(items="items", order="at")
    table = pa.table({"items": [["bag", "coat", "hat"], ["hat"]], "at": [[3, 1, 2], [9]]})
    settings = BulkSettings(top_k=5)
    complete_table(pipeline, table, tmp_path / "own", settings=settings)
    assert rows_of(tmp_path, "own") == answers_of(pipeline, ["coat", "hat", "bag"], ["hat"])
    in_order = BulkSettings(top_k=5, order="items")
    complete_table(pipeline, table, tmp_path / "as-they-stand", settings=in_order)
    assert rows_of(tmp_path, "as-they-stand") == answers_of(pipeline, ["bag", "coat", "hat"], ["hat"])
    with pytest.raises(ConfigurationError, match="another order, table"):
        complete_table(pipeline, table, tmp_path / "own", settings=in_order)


def test_a_written_blank_needs_no_time(tmp_path: Path) -> None:
    pipeline = pipeline_of(items="items", order="at")
    table = pa.table({"items": [["hat", "coat", "[MASK]"], ["[MASK]", "bag"]], "at": [[2, 1], [None, 1]]})
    for number, on_bad_row in enumerate(("error", "drop")):
        settings = BulkSettings(top_k=5, reading=ReadSettings(on_bad_row=on_bad_row))
        complete_table(pipeline, table, tmp_path / str(number), settings=settings)
        assert rows_of(tmp_path, str(number)) == answers_of(pipeline, ["coat", "hat"], ["bag"])
    rows = pa.table({"who": ["x", "y", "x"], "items": ["hat", "[MASK]", "[MASK]"], "at": [1, None, None]})
    settings = BulkSettings(top_k=5, group_by=["who"], reading=ReadSettings(on_bad_row="drop"))
    complete_table(pipeline, rows, tmp_path / "rows", settings=settings)
    assert rows_of(tmp_path, "rows") == answers_of(pipeline, ["hat"], [])


def test_rows_with_broken_lists_of_times_are_left_out(tmp_path: Path) -> None:
    pipeline = pipeline_of(items="items", order="at")
    lists = [["hat", "coat"], ["hat", "coat"], ["hat", "bag"], ["hat", "bag"]]
    table = pa.table({"items": lists, "at": [[1], [2, 1], [None, 1], [1, 2]]})
    with pytest.raises(DataError, match="row 1, column 'at'"):
        complete_table(pipeline, table, tmp_path / "none", settings=BulkSettings(top_k=5))
    settings = BulkSettings(top_k=5, reading=ReadSettings(on_bad_row="drop"))
    report = complete_table(pipeline, table, tmp_path / "out", settings=settings)
    assert rows_of(tmp_path, "out") == answers_of(pipeline, ["coat", "hat"], ["hat", "bag"])
    assert read_table(tmp_path / "out" / "part-00000.parquet")["row"].to_pylist() == [1, 3]
    assert any("left out as broken: 1 with another number of values of 'at'" in line for line in report.lines())


def test_long_sequences_are_counted(tmp_path: Path) -> None:
    pipeline = pipeline_of(items="items", order="items")
    table = pa.table({"items": [["bag", "coat", "hat", "belt"], ["hat", "coat", "bag", "[MASK]"]]})
    report = complete_table(pipeline, table, tmp_path / "out", settings=BulkSettings(top_k=5))
    assert "read of 1 sequence: the newest 4, items and [MASK]" in report.lines()


def test_both_sides_of_long_sequences_are_read_from_their_end(tmp_path: Path) -> None:
    pipeline = pipeline_of(items="items", order="items", predicts_next=False)
    long = ["bag", "coat", "hat", "belt"]
    answer: Any = pipeline({"items": long}, top_k=5)
    assert [each["item"] for each in answer["slots"][0]["candidates"]] == ["scarf"]
    assert "Read: the newest 3 of 4 items; none is proposed again." in answer["notes"]
    gap: Any = pipeline({"items": ["bag", "coat", "hat", "[MASK]", "belt"]}, top_k=5)
    assert gap["slots"][0]["position"] == 3
    assert "Read: the newest 3 of 4 items; none is proposed again." in gap["notes"]
    complete_table(pipeline, pa.table({"items": [long]}), tmp_path / "out", settings=BulkSettings(top_k=5))
    assert rows_of(tmp_path, "out") == answers_of(pipeline, long)
    for ask in (pipeline, pipeline.complete_jointly):
        with pytest.raises(
            QueryError, match=r"5 items, blanks included, and the model reads at most 4.*among its last"
        ):
            ask({"items": ["[MASK]", *long]})


@pytest.mark.parametrize("predicts_next", [True, False])
def test_what_is_read_of_a_long_sequence_is_the_same_however_it_is_asked(predicts_next: bool) -> None:
    pipeline = pipeline_of(items="items", order="items", predicts_next=predicts_next, softmax_over="candidates")
    note = "Read: the newest 3 of 4 items; none is proposed again."
    query = {"items": ["bag", "coat", "hat", "belt"]}
    jointly: Any = pipeline.complete_jointly(query)
    [only] = jointly["completions"]
    assert only["filled"] == ["scarf"]
    assert only["log_probability"] == pytest.approx(0, abs=1e-6)
    assert note in jointly["notes"]
    asked = InspectedSet(pipeline.model, pipeline.processor, query, room=9)
    assert asked.tokens == ("coat", "hat", "belt", "[MASK]")
    assert note in asked.notes
    with torch.inference_mode():
        [share] = asked.shares(pipeline.model(**asked.inputs)).values()
    assert share[pipeline.processor.items.id_of_value("scarf")] == pytest.approx(1)
    if not predicts_next:
        two: Any = pipeline.complete_jointly({"items": ["bag", "coat", "hat", "[MASK]", "[MASK]"]})
        assert [sorted(each["filled"]) for each in two["completions"]] == [["belt", "scarf"]]
        assert two["excluded_probability"] == pytest.approx(0, abs=1e-6)


def test_faults_of_the_order_are_named(tmp_path: Path) -> None:
    pipeline = pipeline_of(items="items", group_by=("who",), order="at")
    holes = GROUPED.set_column(2, "at", pa.array(["2024-01-03", None, "2024-01-01", "2024-01-02", "2024-01-02"]))
    settings = BulkSettings(group_by=["who"], top_k=5)
    with pytest.raises(DataError, match="row 2, column 'at'"):
        complete_table(pipeline, holes, tmp_path / "holes", settings=settings)
    dropping = BulkSettings(group_by=["who"], top_k=5, reading=ReadSettings(on_bad_row="drop"))
    complete_table(pipeline, holes, tmp_path / "dropped", settings=dropping)
    assert rows_of(tmp_path, "dropped") == answers_of(pipeline, ["coat", "hat", "bag"], ["belt"])
    with pytest.raises(UnknownNameError, match="'nowhere'"):
        complete_table(pipeline, GROUPED, tmp_path / "no", settings=BulkSettings(group_by=["who"], order="nowhere"))
    with pytest.raises(ConfigurationError, match="one value for a whole set"):
        BulkSettings(group_by=["who"], order="who")
    pipeline.model.config.predicts_next = pipeline.model.config.has_position_embeddings = False
    with pytest.raises(ConfigurationError, match="trained on sets without one"):
        complete_table(pipeline, GROUPED, tmp_path / "no", settings=BulkSettings(group_by=["who"], order="at"))
