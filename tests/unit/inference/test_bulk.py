"""Bulk completion: the answers of the pipeline, as shards that survive an interruption."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from contextual_bert.context import FeatureLayout, infer_schema
from contextual_bert.data import ReadSettings, read_table, write_table
from contextual_bert.errors import ConfigurationError, DataError, SchemaError, UnknownNameError
from contextual_bert.inference import BulkSettings, Catalogue, CompletionPipeline, TableCompleter, complete_table
from contextual_bert.inference.queries import TrainedSets
from contextual_bert.item_features import ItemLayout
from contextual_bert.models import ContextualBertConfig, ContextualBertForMaskedLM, ContextualBertProcessor
from contextual_bert.testing import miniature_model, miniature_processor


def queries_of(table: pa.Table, pipeline: CompletionPipeline) -> list[dict[str, Any]]:
    schema = pipeline.processor.schema
    assert schema is not None
    rows = table.to_pylist()
    return [{"items": row["items"], "context": {name: row[name] for name in schema.names}} for row in rows]


def test_the_proposals_are_those_of_the_pipeline(
    pipeline: CompletionPipeline, table: pa.Table, names: list[str], tmp_path: Path
) -> None:
    settings = BulkSettings(keep=["who"], constraints={"deny": [names[0]]}, top_k=3, batch_size=3)
    report = complete_table(pipeline, table, tmp_path / "out", settings=settings, shard_size=6)
    files = sorted(path.name for path in (tmp_path / "out").iterdir())
    assert files == ["_SUCCESS", "_manifest.json", *(f"part-{number:05}.parquet" for number in range(4))]
    whole = pa.concat_tables(read_table(tmp_path / "out" / name) for name in files[2:])
    assert pq.read_table(tmp_path / "out").equals(whole), "other tools read the folder as one table"
    found = whole.to_pylist()
    asked = [{**query, "deny": [names[0]]} for query in queries_of(table, pipeline)]
    answers: Any = pipeline(asked, top_k=3)
    expected = [(row, slot) for row, answer in enumerate(answers) for slot in answer["slots"]]
    assert len(found) == len(expected) == report.num_blanks == 25
    for mine, (row, slot) in zip(found, expected, strict=True):
        assert (mine["row"], mine["position"], mine["who"]) == (row, slot["position"], f"customer {row}")
        assert mine["candidates"] == [each["item"] for each in slot["candidates"]]
        assert mine["probabilities"] == pytest.approx([each["probability"] for each in slot["candidates"]], abs=1e-6)
        assert mine["excluded_probability"] == pytest.approx(slot["excluded_probability"], abs=1e-6)
    assert "5 of 30 items are unknown to the model" in report.lines()


def test_finished_shards_are_kept(
    pipeline: CompletionPipeline, table: pa.Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings, output = BulkSettings(top_k=2), tmp_path / "out"
    complete_table(pipeline, table, output, settings=settings, shard_size=6)
    whole = {path.name: path.read_bytes() for path in output.glob("part-*")}
    (output / "part-00001.parquet").unlink()
    (output / "_SUCCESS").unlink()
    seen: list[int] = []
    call = TableCompleter.__call__
    monkeypatch.setattr(TableCompleter, "__call__", lambda self, rows: seen.append(rows.num_rows) or call(self, rows))
    report = complete_table(pipeline, table, output, settings=settings, shard_size=6)
    assert seen == [6]
    assert (report.num_shards, report.num_kept) == (4, 3)
    assert {path.name: path.read_bytes() for path in output.glob("part-*")} == whole
    assert (output / "_SUCCESS").exists()
    for name, value in (("top_k", 3), ("constraints", {"repeats": True})):
        with pytest.raises(ConfigurationError, match=f"with another {name}. Give"):
            complete_table(pipeline, table, output, settings=BulkSettings(**{"top_k": 2, name: value}), shard_size=6)
    with pytest.raises(ConfigurationError, match="another table"):
        complete_table(pipeline, table.slice(1), output, settings=settings, shard_size=6)


def test_what_a_stopped_machine_left_is_computed_again_and_smaller_batches_go_on(
    pipeline: CompletionPipeline, table: pa.Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stopped(self: TableCompleter, rows: pa.Table) -> pa.Table:
        raise KeyboardInterrupt

    output = tmp_path / "out"
    complete_table(pipeline, table, output, settings=BulkSettings(batch_size=64), shard_size=6)
    whole = {path.name: path.read_bytes() for path in output.glob("part-*")}
    (output / "part-00001.parquet").write_bytes(b"")
    (output / "part-00002.parquet").write_bytes(whole["part-00002.parquet"][:-9])
    report = complete_table(pipeline, table, output, settings=BulkSettings(batch_size=64), shard_size=6)
    assert (report.num_shards, report.num_kept) == (4, 2)
    assert {path.name: path.read_bytes() for path in output.glob("part-*")} == whole
    (output / "part-00003.parquet").unlink()
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(TableCompleter, "__call__", stopped)
        complete_table(pipeline, table, output, settings=BulkSettings(batch_size=2), shard_size=6)
    assert not (output / "_SUCCESS").exists(), "a folder that lacks a file does not say that it is complete"
    report = complete_table(pipeline, table, output, settings=BulkSettings(batch_size=2), shard_size=6)
    assert report.num_kept == 3, "what asks for less memory goes on where more was too much"
    for text in ("", "[]", '{"format"', "{}"):
        (output / "_manifest.json").write_text(text, encoding="utf-8")
        with pytest.raises(ConfigurationError, match=r"_manifest.json cannot be read.*another --output"):
            complete_table(pipeline, table, output, settings=BulkSettings(), shard_size=6)


def test_a_row_brings_its_own_constraints(pipeline: CompletionPipeline, table: pa.Table, names: list[str]) -> None:
    rows = table.slice(0, 2).append_column("owned", pa.array([[names[3]], None], pa.list_(pa.string())))
    found = TableCompleter(pipeline, BulkSettings(top_k=len(names)))(rows).to_pylist()
    assert names[3] not in found[0]["candidates"]
    assert names[3] in found[1]["candidates"]


def test_a_row_without_a_constraint_of_its_own_keeps_those_for_all(
    pipeline: CompletionPipeline, table: pa.Table, names: list[str]
) -> None:
    rows = table.slice(0, 2).append_column("deny", pa.array([None, [names[3]]], pa.list_(pa.string())))
    rows = rows.append_column("allow", pa.array([None, [names[2], names[3], names[4]]], pa.list_(pa.string())))
    everywhere = {"deny": [names[4]], "allow": [names[3], names[4]]}
    found = TableCompleter(pipeline, BulkSettings(constraints=everywhere))(rows).to_pylist()
    assert [row["candidates"] for row in found] == [[names[3]], [names[2]], [names[2]]]


def test_rows_are_whose_they_are_in_any_order(pipeline: CompletionPipeline, table: pa.Table) -> None:
    numbers = [7, 3, 3, 9]
    rows = table.slice(0, 4).append_column("row", pa.array(numbers))
    found = TableCompleter(pipeline, BulkSettings(keep=["who"], top_k=1))(rows)
    who = dict(zip(["customer 0", "customer 1", "customer 2", "customer 3"], numbers, strict=True))
    assert [who[each["who"]] for each in found.to_pylist()] == found["row"].to_pylist() == [7, 3, 3, 3, 9]


def test_the_columns_that_are_read_are_those_of_the_table(tmp_path: Path) -> None:
    rows = pa.table({"items": [["coat", "hat"]] * 4, "day": ["2016-03-05", "2016-04-06"] * 2, "who": list("abcd")})
    schema = infer_schema(rows, exclude=("items", "who"), overrides={"day": "date"}).schema
    assert set(schema.columns) == {"day"} != set(schema.names)
    processor = ContextualBertProcessor.from_items(["coat", "hat", "bag"], schema)
    sizes = {"hidden_size": 8, "num_attention_heads": 2, "num_hidden_layers": 1, "intermediate_size": 16}
    config = ContextualBertConfig.from_schema(schema, conditioning="global_state", vocab_size=6, **sizes)
    complete = TableCompleter(CompletionPipeline(ContextualBertForMaskedLM(config), processor), BulkSettings())
    assert complete(rows.select(complete.reads(rows))) == complete(rows)


def test_nothing_permitted_is_an_empty_list_with_a_reason(
    pipeline: CompletionPipeline, table: pa.Table, tmp_path: Path
) -> None:
    settings = BulkSettings(constraints={"allow": []})
    report = complete_table(pipeline, table.slice(0, 1), tmp_path / "out", settings=settings)
    row = read_table(tmp_path / "out" / "part-00000.parquet").to_pylist()[0]
    assert row["candidates"] == []
    assert "allow" in row["reason"]
    assert report.num_empty == 1


def test_items_may_be_text(pipeline: CompletionPipeline, table: pa.Table) -> None:
    texts = pa.array([" , ".join(row) if row else "" for row in table.column("items").to_pylist()])
    other = table.set_column(table.column_names.index("items"), "items", texts)
    expected = TableCompleter(pipeline, BulkSettings())(table)
    assert TableCompleter(pipeline, BulkSettings())(other) == expected
    words = pa.array([text.replace("never seen", "unseen").replace(" , ", "  ") for text in texts.to_pylist()])
    spaced = other.set_column(other.column_names.index("items"), "items", words)
    assert TableCompleter(pipeline, BulkSettings(separator=" "))(spaced) == expected


def test_a_table_that_another_model_was_trained_on(
    pipeline: CompletionPipeline, table: pa.Table, tmp_path: Path, names: list[str]
) -> None:
    strangers = pa.table({**table.to_pydict(), "items": [["kilt"]] * table.num_rows})
    with pytest.raises(DataError, match="none of the 20 items is known to the model, such as 'kilt'"):
        complete_table(pipeline, strangers, tmp_path / "out", settings=BulkSettings())
    texts = pa.table({**table.to_pydict(), "items": [f"{names[0]}; {names[1]}"] * table.num_rows})
    with pytest.raises(DataError, match=r"no cell has ',' between its items, and 20 of 20 have ';'"):
        complete_table(pipeline, texts, tmp_path / "out", settings=BulkSettings())
    assert not (tmp_path / "out").exists()
    settings = BulkSettings(separator=";", top_k=1)
    assert complete_table(pipeline, texts, tmp_path / "out", settings=settings, shard_size=7).num_blanks == 20


@pytest.mark.parametrize(
    ("settings", "error", "words"),
    [
        ({"items": "itms"}, UnknownNameError, "Did you mean 'items'"),
        ({"keep": ["whom"]}, UnknownNameError, "Did you mean 'who'"),
    ],
)
def test_faulty_columns_are_named(
    pipeline: CompletionPipeline, table: pa.Table, tmp_path: Path, settings: Any, error: Any, words: str
) -> None:
    write_table(table, tmp_path / "sets.parquet")
    for source, place in ((table, ""), (tmp_path / "sets.parquet", "sets.parquet.*")):
        with pytest.raises(error, match=f"{place}{words}"):
            complete_table(pipeline, source, tmp_path / "out", settings=BulkSettings(**settings))
    assert not (tmp_path / "out").exists()


def test_a_feature_that_the_file_lacks_is_missing_as_in_a_query(
    pipeline: CompletionPipeline, table: pa.Table, tmp_path: Path
) -> None:
    schema = pipeline.processor.schema
    assert schema is not None
    for column in schema.columns:
        path, output = tmp_path / "sets.parquet", tmp_path / column
        write_table(table.drop_columns([column]), path)
        report = complete_table(pipeline, path, output, settings=BulkSettings(top_k=3))
        assert any(
            f"the table lacks context columns, which are missing in each row: {column!r}" in line
            for line in report.lines()
        )
        found = read_table(output / "part-00000.parquet").to_pylist()
        queries = queries_of(table, pipeline)
        for query in queries:
            del query["context"][column]
        answers: Any = pipeline(queries, top_k=3)
        expected = [slot["candidates"] for answer in answers for slot in answer["slots"]]
        assert [row["candidates"] for row in found] == [[each["item"] for each in slot] for slot in expected]
    write_table(table.drop_columns(schema.columns), path)
    with pytest.raises(SchemaError, match=r"the table has no column of the context"):
        complete_table(pipeline, path, tmp_path / "none", settings=BulkSettings())


def test_rows_are_counted_as_in_the_file_where_some_were_left_out(
    pipeline: CompletionPipeline, names: list[str], tmp_path: Path
) -> None:
    path = tmp_path / "sets.jsonl"
    rows = [f'{{"items": ["{name}"], "age": 34}}' for name in names[:2]]
    path.write_text("\n".join([rows[0], '{"items": [', rows[1]]))
    settings = BulkSettings(top_k=1, reading=ReadSettings(on_bad_row="drop"))
    complete_table(pipeline, path, tmp_path / "out", settings=settings)
    assert read_table(tmp_path / "out" / "part-00000.parquet")["row"].to_pylist() == [0, 2]


def test_a_kept_column_of_the_context_is_as_the_file_spells_it(
    pipeline: CompletionPipeline, names: list[str], tmp_path: Path
) -> None:
    path, expected = tmp_path / "sets.csv", ["34,50", "-", "1.034,0"]
    path.write_text("\n".join(["items;age", *(f"{names[0]} {names[1]};{age}" for age in expected)]), encoding="utf-8")
    reading = ReadSettings(delimiter=";", decimal=",", missing_values=("age=-",))
    for number, (group_by, keep) in enumerate((((), ["age"]), (("order",), ["age"]))):
        if group_by:
            rows = [f"{order};{names[0]};{age}" for order, age in enumerate(expected)]
            path.write_text("\n".join(["order;items;age", *rows]), encoding="utf-8")
        settings = BulkSettings(top_k=1, keep=keep, separator=" ", reading=reading, group_by=group_by)
        complete_table(pipeline, path, tmp_path / f"out-{number}", settings=settings)
        found = read_table(tmp_path / f"out-{number}" / "part-00000.parquet")
        assert [*dict.fromkeys(found["age"].to_pylist())] == expected
        assert found.column_names[: len(group_by) + 2] == [*group_by, "age", "row"]


def test_other_faults_are_named(pipeline: CompletionPipeline, table: pa.Table, tmp_path: Path) -> None:
    with pytest.raises(UnknownNameError, match="unknown key 'dny'"):
        BulkSettings(constraints={"dny": ["a"]})
    with pytest.raises(DataError, match="is not a list of items"):
        BulkSettings(constraints={"deny": "a"})
    with pytest.raises(ConfigurationError, match="top_k=0"):
        BulkSettings(top_k=0)
    kept = table.append_column("position", pa.array(range(table.num_rows)))
    with pytest.raises(SchemaError, match="'position' is a column of the output"):
        complete_table(pipeline, kept, tmp_path / "out", settings=BulkSettings(keep=["position"]))
    (tmp_path / "other").mkdir()
    write_table(table, tmp_path / "other" / "part-00000.parquet")
    with pytest.raises(ConfigurationError, match="of something else"):
        complete_table(pipeline, table, tmp_path / "other", settings=BulkSettings())


def test_progress_counts_what_was_kept_and_what_was_computed(
    pipeline: CompletionPipeline, table: pa.Table, tmp_path: Path
) -> None:
    output, seen = tmp_path / "out", list[tuple[int, int]]()
    complete_table(pipeline, table, output, settings=BulkSettings(), shard_size=6)
    (output / "part-00001.parquet").unlink()
    report = complete_table(
        pipeline, table, output, settings=BulkSettings(), shard_size=6, progress=lambda *done: seen.append(done)
    )
    assert seen == [(6, 20), (12, 20), (14, 20), (20, 20)]  # three of them kept, the last of which holds two rows
    assert (report.num_blanks, report.num_empty) == (25, 0)


def test_a_fault_of_one_row_says_in_which_file(
    pipeline: CompletionPipeline, table: pa.Table, tmp_path: Path, names: list[str]
) -> None:
    denied = pa.array([[names[0]]] * 13 + [[names[0], None]] + [[names[0]]] * 6)
    write_table(table.append_column("deny", denied), tmp_path / "sets.parquet")
    with pytest.raises(DataError, match=r"sets\.parquet, row 14, column 'deny': None is"):
        complete_table(pipeline, tmp_path / "sets.parquet", tmp_path / "out", settings=BulkSettings(), shard_size=6)
    files = {path.name for path in (tmp_path / "out").iterdir()}
    assert files == {"_manifest.json", "part-00000.parquet", "part-00001.parquet"}


def with_feature(name: str, values: list[int]) -> tuple[CompletionPipeline, pa.Table]:
    items = [f"item {number}" for number in range(9)]
    table = pa.table({"items": [items[:2]] * len(values), name: values})
    schema = infer_schema(table, exclude=["items"], min_count=1, overrides={name: "numerical"}).schema
    processor = ContextualBertProcessor.from_items(items, schema)
    sizes = {"hidden_size": 8, "num_attention_heads": 2, "num_hidden_layers": 1, "intermediate_size": 16}
    config = ContextualBertConfig.from_schema(
        schema, conditioning="global_state_update", vocab_size=len(processor.items), initializer_range=0.5, **sizes
    )
    return CompletionPipeline(ContextualBertForMaskedLM(config), processor), table


def test_a_feature_with_the_name_of_a_constraint_is_the_context(tmp_path: Path) -> None:
    pipeline, table = with_feature("max_price", [50, 200, 50, 200])
    answers: Any = pipeline(queries_of(table, pipeline), top_k=3)
    found = TableCompleter(pipeline, BulkSettings(top_k=3))(table).to_pylist()
    for mine, answer in zip(found, answers, strict=True):
        assert mine["candidates"] == [each["item"] for each in answer["slots"][0]["candidates"]]
    report = complete_table(pipeline, table, tmp_path / "out", settings=BulkSettings(), shard_size=2)
    assert "the column 'max_price' is a feature of the context here, no constraint" in report.lines()


def test_a_feature_that_is_called_row_is_refused(tmp_path: Path) -> None:
    pipeline, table = with_feature("row", [5, 20, 5, 20])
    with pytest.raises(SchemaError, match="'row' numbers the rows of the output"):
        complete_table(pipeline, table, tmp_path / "out", settings=BulkSettings(), shard_size=2)
    assert not (tmp_path / "out").exists()


def test_a_set_longer_than_the_positions_is_refused() -> None:
    items = ["a", "b", "c", "d"]
    sizes = {"hidden_size": 8, "num_attention_heads": 2, "num_hidden_layers": 1, "intermediate_size": 16}
    config = ContextualBertConfig(vocab_size=7, has_position_embeddings=True, max_position_embeddings=3, **sizes)
    pipeline = CompletionPipeline(ContextualBertForMaskedLM(config), ContextualBertProcessor.from_items(items))
    assert len(pipeline({"items": ["a", "b"]})["slots"]) == 1
    with pytest.raises(DataError, match="the set has 4 items, blanks included, and the model reads at most 3"):
        pipeline({"items": ["[MASK]", "a", "b", "c"]})
    with pytest.raises(DataError, match="row 2, column 'items'"):
        TableCompleter(pipeline, BulkSettings())(pa.table({"items": [["a"], ["[MASK]", "a", "b", "c"]]}))


@pytest.mark.parametrize("kind", [pa.float32(), pa.decimal128(9, 2), pa.float64()])
def test_a_limit_of_a_row_is_the_number_that_it_is_spelt_like(kind: pa.DataType) -> None:
    items = ["a", "b", "c"]
    sizes = {"hidden_size": 8, "num_attention_heads": 2, "num_hidden_layers": 1, "intermediate_size": 16}
    model = ContextualBertForMaskedLM(ContextualBertConfig(vocab_size=6, **sizes))
    prices = pa.table({"id": items, "price": pa.array([19.99, 19.98, 20.01])})
    processor = ContextualBertProcessor.from_items(items)
    pipeline = CompletionPipeline(model, processor, catalogue=Catalogue(prices, processor.items))
    limits = pa.array([19.99, None], pa.float64()).cast(kind)
    empty = pa.array([[], []], pa.list_(pa.string()))
    found = TableCompleter(pipeline, BulkSettings())(pa.table({"items": empty, "max_price": limits})).to_pylist()
    assert [{*row["candidates"]} for row in found] == [{"a", "b"}, {"a", "b", "c"}]


def test_rows_may_test_different_attributes(pipeline: CompletionPipeline, table: pa.Table, names: list[str]) -> None:
    """Arrow gives every row the keys of all."""
    shop = pa.table({"id": names, "colour": ["red", "blue"] * (len(names) // 2), "brand": ["acme"] * len(names)})
    catalogue = Catalogue(shop, pipeline.processor.items)
    asking = CompletionPipeline(pipeline.model, pipeline.processor, catalogue=catalogue)
    where = [{"colour": "red"}, {"brand": {"in": ["acme"]}}, {"colour": None}]
    rows = table.slice(0, 3).append_column("where", pa.array(where))
    found = TableCompleter(asking, BulkSettings(top_k=len(names)))(rows).to_pylist()
    red, whatever, anything = (next(row for row in found if row["row"] == number)["candidates"] for number in range(3))
    assert {names.index(item) % 2 for item in red} == {0}
    assert {names.index(item) % 2 for item in whatever} == {names.index(item) % 2 for item in anything} == {0, 1}


@pytest.mark.parametrize("nothing", [None, {"colour": None}])
def test_a_row_that_says_nothing_keeps_the_conditions_for_all(
    nothing: Any, pipeline: CompletionPipeline, table: pa.Table, names: list[str]
) -> None:
    shop = pa.table({"id": names, "colour": ["red", "blue"] * (len(names) // 2)})
    catalogue = Catalogue(shop, pipeline.processor.items)
    asking = CompletionPipeline(pipeline.model, pipeline.processor, catalogue=catalogue)
    settings = BulkSettings(constraints={"where": {"colour": "red"}}, top_k=len(names))
    rows = table.slice(0, 2).append_column("where", pa.array([{"colour": "blue"}, nothing]))
    found = TableCompleter(asking, settings)(rows).to_pylist()
    colours = {row: {names.index(item) % 2 for item in found[row]["candidates"]} for row in range(2)}
    assert colours == {0: {1}, 1: {0}}


@pytest.mark.parametrize("name", ["items", "context", "colour"])
def test_what_is_no_constraint_is_refused(name: str) -> None:
    with pytest.raises(UnknownNameError, match=f"unknown key '{name}' in the constraints"):
        BulkSettings(constraints={name: []})


def test_a_column_is_kept_once(pipeline: CompletionPipeline, table: pa.Table) -> None:
    found = TableCompleter(pipeline, BulkSettings(keep=["who", "who"]))(table)
    assert found.column_names.count("who") == 1
    with pytest.raises(UnknownNameError, match="Did you mean 'who'"):
        TableCompleter(pipeline, BulkSettings(keep=["whom"]))(table)


def test_constraints_of_a_table_of_text(pipeline: CompletionPipeline, table: pa.Table, names: list[str]) -> None:
    count = table.num_rows
    denied = [f"{names[0]};{names[1]}", "", None, names[2]] * count
    texts = table.append_column("deny", pa.array(denied[:count])).append_column(
        "repeats", pa.array([1, 0] * count)[:count]
    )
    lists = [[part for part in cell.split(";") if part] if cell else None for cell in denied[:count]]
    whole = table.append_column("deny", pa.array(lists)).append_column(
        "repeats", pa.array([True, False] * count)[:count]
    )
    settings = BulkSettings(separator=";", top_k=3)
    assert TableCompleter(pipeline, settings)(texts) == TableCompleter(pipeline, settings)(whole)
    printed = table.append_column("deny", pa.array([str(row) if row else None for row in lists])).append_column(
        "repeats", whole["repeats"]
    )
    assert TableCompleter(pipeline, settings)(printed) == TableCompleter(pipeline, settings)(whole)
    with pytest.raises(DataError, match="row 1, column 'repeats': 'soon' is neither true nor false"):
        TableCompleter(pipeline, settings)(table.append_column("repeats", pa.array(["soon"] * count)))


def test_what_a_table_has_unlike_training_is_said(
    pipeline: CompletionPipeline, table: pa.Table, names: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pipeline, "sets", TrainedSets(";", 2), raising=False)
    sets = pa.array([[names[0]] * 5, None, [names[0], "[MASK]"], [names[1]]])
    rows = table.slice(0, 4).set_column(table.column_names.index("items"), "items", sets)
    rows = rows.append_column("deny", pa.array([[names[2]], None, None, None]))
    report = complete_table(pipeline, rows, tmp_path / "out", settings=BulkSettings(constraints={"repeats": True}))
    assert report.lines()[1:4] == [
        "1 set is missing (null), completed from the context alone",
        "1 set has up to 5 items, and no set of training had more than 2",
        "taken for constraints of their rows, because of their names: the columns 'deny'",
    ]


def test_the_separator_is_that_of_the_run(
    pipeline: CompletionPipeline, table: pa.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pipeline, "sets", TrainedSets(";"), raising=False)
    texts = [";".join(row) for row in table.column("items").to_pylist()]
    spelt = table.set_column(table.column_names.index("items"), "items", pa.array(texts))
    assert TableCompleter(pipeline, BulkSettings())(spelt) == TableCompleter(pipeline, BulkSettings())(table)


def test_a_table_of_pandas_is_completed(pipeline: CompletionPipeline, table: pa.Table, tmp_path: Path) -> None:
    pytest.importorskip("pandas")
    frame = table.to_pandas()
    settings = BulkSettings(keep=["who"], top_k=2)
    found, expected = (TableCompleter(pipeline, settings)(rows).to_pylist() for rows in (frame, table))
    assert found == expected
    assert complete_table(pipeline, frame, tmp_path / "out", settings=settings).num_rows == table.num_rows


def test_files_of_a_run_with_features_say_which_candidates_are_new(table: pa.Table, tmp_path: Path) -> None:
    layout = ItemLayout((FeatureLayout("colour", "categorical", 5, 0, 8),), num_places=1).to_dict()
    model = miniature_model("global_state_update", item_features=layout)
    model.bert.embeddings.attributes.is_new[3] = True
    pipeline = CompletionPipeline(model, miniature_processor())
    new, settings = pipeline.processor.items.value_of(3), BulkSettings(keep=["who"], top_k=20)
    own = table.append_column("is_new", pa.array(range(table.num_rows)))
    report = complete_table(pipeline, own, tmp_path / "out", settings=settings, shard_size=6)
    for row in pq.read_table(tmp_path / "out").to_pylist():
        assert row["is_new"] == [each == new for each in row["candidates"]]
    assert any("new to the model, and read by features alone" in line for line in report.lines())
    with pytest.raises(SchemaError, match="is a column of the output"):
        TableCompleter(pipeline, BulkSettings(keep=["is_new"]))


def test_files_of_a_run_without_features_keep_their_columns(
    pipeline: CompletionPipeline, table: pa.Table, tmp_path: Path
) -> None:
    own = table.append_column("is_new", pa.array(range(table.num_rows)))
    complete_table(pipeline, own, tmp_path / "out", settings=BulkSettings(keep=["is_new"]), shard_size=6)
    assert pq.read_table(tmp_path / "out").schema.field("is_new").type == pa.int64()


def test_a_folder_is_not_gone_on_with_where_an_item_was_removed(
    pipeline: CompletionPipeline, table: pa.Table, names: list[str], tmp_path: Path
) -> None:
    settings = BulkSettings(keep=["who"])
    complete_table(pipeline, table, tmp_path / "out", settings=settings, shard_size=6)
    fewer = CompletionPipeline(pipeline.model, pipeline.processor.with_removed([names[0]]))
    with pytest.raises(ConfigurationError, match="another model"):
        complete_table(fewer, table, tmp_path / "out", settings=settings, shard_size=6)
