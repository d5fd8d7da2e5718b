"""Tables of texts: one file or a folder of them, gone on with, and faults named by their rows in the file."""

import json
import socket
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as parquet
import pytest
import torch

from contextual_bert.context import ContextSchema, Numerical
from contextual_bert.data import ReadSettings, read_table
from contextual_bert.errors import ConfigurationError, DataError, RunDirectoryError, UnknownNameError
from contextual_bert.inference import PredictionSettings, TablePredictor, TextReport, predict_table
from contextual_bert.inference.tables.ray_predictions import PredictionJob, predict_table_on_ray
from contextual_bert.inference.tables.shard_worker import ShardJob, ShardWorker, error_of, packed
from contextual_bert.inference.tables.text_tables import TextShardPlan
from contextual_bert.models import (
    ContextualBertConfig,
    ContextualBertForQuestionAnswering,
    ContextualBertForSeq2SeqLM,
    ContextualBertForSequenceClassification,
    ContextualBertForTokenClassification,
)
from contextual_bert.testing import miniature_text_processor
from contextual_bert.testing.miniature import drawn_anew

SIZES: dict[str, Any] = {
    "conditioning": "global_state", "vocab_size": 23, "hidden_size": 16, "num_hidden_layers": 1,
    "num_attention_heads": 2, "intermediate_size": 16, "has_position_embeddings": True, "type_vocab_size": 2,
    "max_position_embeddings": 20, "id2label": {0: "low", 1: "middle", 2: "high"},
}  # fmt: skip
HEADS: dict[str, tuple[Any, dict[str, Any]]] = {
    "label": (ContextualBertForSequenceClassification, {}),
    "labels": (ContextualBertForSequenceClassification, {"problem_type": "multi_label_classification"}),
    "number": (ContextualBertForSequenceClassification, {"id2label": {0: "value"}}),
    "tags": (ContextualBertForTokenClassification, {}),
    "answer": (ContextualBertForQuestionAnswering, {}),
    "text": (
        ContextualBertForSeq2SeqLM,
        {"decoder_type": "gru", "decoder_start_token_id": 3, "eos_token_id": 4},
    ),
}
LONG = " ".join(f"word{number % 15}" for number in range(40))
TABLE = pa.table(
    {
        "text": ["word1 word2", LONG, "", "word3", "word4 word5 word6", LONG, "word7"],
        "question": ["word1"] * 7,
        "sex": ["f", "m", None, "x", "f", "f", "m"],
        "kept": [*range(7)],
    }
)


def saved(folder: Path, head: str = "label") -> Path:
    torch.manual_seed(0)
    processor, (kind, fields) = miniature_text_processor(), HEADS[head]
    config = ContextualBertConfig.from_schema(processor.schema, **{**SIZES, **fields})
    drawn_anew(kind(config)).save_pretrained(folder)
    processor.save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return saved(tmp_path_factory.mktemp("run"))


def predictor_of(run: Path, **settings: Any) -> TablePredictor:
    return TablePredictor.from_run(run, PredictionSettings(**settings))


def parts(folder: Path) -> list[Path]:
    return sorted(folder.glob("part-*.parquet"))


@pytest.mark.parametrize("head", HEADS)
def test_the_files_of_a_folder_hold_what_one_file_does(head: str, tmp_path: Path) -> None:
    # An empty text has no question in it, and no word to tag or to write from.
    table = TABLE if head in ("label", "labels", "number") else TABLE.filter(pa.array([True, True, False] + [True] * 4))
    run = saved(tmp_path / "run", head)
    single = predict_table(predictor_of(run), table, tmp_path / "single.parquet")
    told: list[tuple[int, int]] = []
    report = predict_table(
        predictor_of(run), table, tmp_path / "out", shard_size=3, progress=lambda *done: told.append(done)
    )
    files = [read_table(path) for path in parts(tmp_path / "out")]
    assert [each.num_rows for each in files] == [3, 3, 1][: len(files)]
    found, expected = pa.concat_tables(files), read_table(tmp_path / "single.parquet")
    assert found.column_names == expected.column_names == [*table.column_names, *report.added]
    for name in found.column_names:
        assert found[name].type == expected[name].type
        for one, other in zip(found[name].to_pylist(), expected[name].to_pylist(), strict=True):
            assert one == (pytest.approx(other, abs=1e-5) if isinstance(other, float) else pytest.approx(other))
    assert (tmp_path / "out" / "_SUCCESS").exists()
    assert told[-1] == (table.num_rows, table.num_rows)
    # What was cut, empty or unknown is told of all files as of the one.
    assert report.unknown == single.unknown
    assert report.lines()[0] == f"{table.num_rows} texts in {len(files)} files"
    again = predict_table(predictor_of(run), table, tmp_path / "out", shard_size=3)
    assert again.unknown == single.unknown
    assert again.num_kept == len(files)


def test_finished_files_are_kept(run: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    predict_table(predictor_of(run), TABLE, out, shard_size=2)
    before = [path.read_bytes() for path in parts(out)]
    parts(out)[1].unlink()
    parts(out)[-1].write_bytes(before[-1][:-9])  # the end is lost
    (out / "_SUCCESS").unlink()
    predictor = predictor_of(run, batch_size=1)  # which is no part of what a folder is
    computed: list[int] = []
    predict = predictor.predict
    predictor.predict = lambda table, progress=None: (computed.append(table.num_rows), predict(table, progress))[1]  # type: ignore[method-assign]
    report = predict_table(predictor, TABLE, out, shard_size=2)
    assert (computed, report.num_kept, report.num_shards) == ([2, 1], 2, 4)
    assert [len(path.read_bytes()) > 0 for path in parts(out)] == [True] * 4
    assert parts(out)[0].read_bytes() == before[0]
    assert report.lines()[0] == "7 texts in 4 files, 2 of them kept from before"


def test_a_folder_of_something_else_is_refused(run: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    predict_table(predictor_of(run), TABLE, out, shard_size=4)
    others: list[tuple[Any, Any, int, str]] = [
        (predictor_of(run), TABLE.slice(1), 4, "table"),
        (predictor_of(run), TABLE.set_column(3, "kept", [[0] * 7]), 4, "table"),
        (predictor_of(run), TABLE, 5, "shard_size"),
        (predictor_of(run, truncation="head_tail"), TABLE, 4, "truncation"),
        (predictor_of(saved(tmp_path / "other", "number")), TABLE, 4, "model"),
    ]
    before = [path.read_bytes() for path in parts(out)]
    for predictor, table, size, differing in others:
        with pytest.raises(ConfigurationError, match=f"was made with another .*{differing}"):
            predict_table(predictor, table, out, shard_size=size)
    assert [path.read_bytes() for path in parts(out)] == before
    with pytest.raises(ConfigurationError, match="shard_size=0 is not allowed"):
        predict_table(predictor_of(run), TABLE, tmp_path / "none", shard_size=0)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "part-1.csv").touch()
    with pytest.raises(ConfigurationError, match=r"holds part-1\.csv of something else"):
        predict_table(predictor_of(run), TABLE, tmp_path / "mine")


def test_faults_of_whole_columns_are_told_before_anything_is_written(run: Path, tmp_path: Path) -> None:
    path, out = tmp_path / "texts.csv", tmp_path / "out"
    path.write_text("text,sex\nword1,f\n,m\n", encoding="utf-8")
    with pytest.raises(DataError, match=r"texts\.csv, line 3, column 'text': the cell is missing"):
        predict_table(predictor_of(run), path, out, shard_size=1)
    with pytest.raises(UnknownNameError, match="There is no column 'review'"):
        predict_table(predictor_of(run, text="review"), path, out)
    with pytest.raises(DataError, match="column 'probability': the table has this column"):
        predict_table(predictor_of(run), TABLE.append_column("probability", [[0.5] * 7]), out)
    with pytest.raises(ConfigurationError, match="batch_size=0"):
        PredictionSettings(batch_size=0)
    assert not out.exists()
    with pytest.raises(DataError, match=r"files that end in '\.xlsx' are not written"):
        predict_table(predictor_of(run), TABLE, tmp_path / "out.xlsx")


def test_a_coverage_needs_a_label_and_a_calibration(run: Path, tmp_path: Path) -> None:
    with pytest.raises(RunDirectoryError, match="was not calibrated"):
        predictor_of(run, coverage=0.9)
    with pytest.raises(ConfigurationError, match="is for runs that give a label or an item"):
        predictor_of(saved(tmp_path / "run", "answer"), coverage=0.9)


class Echo:
    """A pipeline that repeats texts; it refuses one, by its row among those that it was given."""

    columns = pa.schema([("predicted_label", pa.string())])

    def __init__(self, schema: ContextSchema | None = None, refused: str = "") -> None:
        self.processor: Any = SimpleNamespace(schema=schema, code_columns=())
        self.model: Any = SimpleNamespace(config=SimpleNamespace(reads_context=False))
        self.refused, self.read = refused, list[pa.Table]()

    def notes(self) -> list[str]:
        return []

    def label_table(self, table: pa.Table, *, text: str, **_: Any) -> Any:
        texts = table[text].to_pylist()
        if self.refused in texts:
            raise DataError("cannot be read", row=texts.index(self.refused), column=text)
        self.read.append(table)
        report = TextReport(len(texts), 0, 0, max_length=9)
        return SimpleNamespace(table=table.append_column(self.columns.field(0), [pa.array(texts)]), report=report)


ROWS = "text,sex\nso it goes,f\na,b,c\n,m\nand so,f\n"


@pytest.mark.parametrize("output", ["out", "out.parquet"])
def test_rows_are_numbered_as_in_the_file_where_some_are_left_out(output: str, tmp_path: Path) -> None:
    path, target = tmp_path / "texts.csv", tmp_path / output

    def predicted(pipeline: Echo) -> Any:
        settings = PredictionSettings(reading=ReadSettings(on_bad_row="drop"))
        report = predict_table(TablePredictor(pipeline, tmp_path, settings), path, target, shard_size=1)
        return report, pa.concat_tables(map(read_table, parts(target) or [target]))

    path.write_text(ROWS, encoding="utf-8")
    with pytest.raises(DataError, match=r"texts\.csv, row 4, column 'text': cannot be read"):
        predicted(Echo(refused="and so"))
    report, found = predicted(Echo())
    assert found.to_pydict() == {
        "text": ["so it goes", "and so"], "sex": ["f", "f"], "row": [0, 3], "predicted_label": ["so it goes", "and so"]
    }  # fmt: skip
    assert report.added == ("row", "predicted_label")
    told = " ".join(report.unknown)
    assert "1 with more or fewer cells than the header, 1 without a value of 'text'" in told
    assert f"the column 'row' has the number of each row in {path}, counted from 0" in told
    path.write_text(ROWS.replace("sex", "row"), encoding="utf-8")
    with pytest.raises(DataError, match="column 'row': the table has this column"):
        predicted(Echo())
    target = tmp_path / f"other-{output}"
    path.write_text("text,row\nso,f\n", encoding="utf-8")
    assert predicted(Echo())[1].column_names == ["text", "row", "predicted_label"]


@pytest.mark.parametrize("output", ["out", "out.parquet"])
def test_the_columns_of_the_file_are_written_as_they_are_spelt(output: str, tmp_path: Path) -> None:
    path, target = tmp_path / "texts.csv", tmp_path / output
    path.write_text('text,paid\nso,"70,46"\nso,-\n', encoding="utf-8")
    pipeline = Echo(ContextSchema(features=(Numerical(name="paid", edges=(50.0,)),)))
    settings = PredictionSettings(reading=ReadSettings(decimal=",", missing_values=("paid=-",)))
    predict_table(TablePredictor(pipeline, tmp_path, settings), path, target)
    assert pipeline.read[0]["paid"].to_pylist() == [70.46, None]
    found = read_table((parts(target) or [target])[0])
    assert found.column_names == ["text", "paid", "predicted_label"]
    assert found["paid"].to_pylist() == ["70,46", "-"]


@pytest.mark.parametrize("head", ["label", "answer", "text"])
def test_a_worker_of_a_cluster_makes_the_same_files(head: str, tmp_path: Path) -> None:
    run, table = saved(tmp_path / "run", head), TABLE.filter(pa.array([True, True, False] + [True] * 4))
    predict_table(predictor_of(run), table, tmp_path / "here", shard_size=4)
    plan = TextShardPlan(predictor_of(run), table, tmp_path / "there", shard_size=4)
    plan.output.mkdir()
    (plan.output / "_manifest.json").write_text(plan.manifest, encoding="utf-8")
    job = ShardJob(PredictionJob(str(run), PredictionSettings()), str(plan.output), plan.manifest, "cpu")
    rows = plan.rows(1).select(plan.worker.reads(plan.table))
    (answer,) = ShardWorker(job)(packed(1, rows)).to_pylist()
    assert answer["error"] is None
    here = tmp_path / "here" / "part-00001.parquet"
    assert (plan.output / "part-00001.parquet").read_bytes() == here.read_bytes()
    assert tuple(answer["noted"]) == plan.worker.noted(parquet.read_table(here, columns=[]))
    other = replace(job, manifest=json.dumps(json.loads(plan.manifest) | {"model": "of somebody else"}))
    (plan.output / "_manifest.json").write_text(other.manifest, encoding="utf-8")
    (answer,) = ShardWorker(other)(packed(0, rows)).to_pylist()
    assert str(error_of(answer["error"])).startswith(
        f"The worker on {socket.gethostname()} sees another model in {run}"
    )


def test_a_cluster_writes_no_single_file(run: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="is one file, and workers write a file each"):
        predict_table_on_ray(run, TABLE, tmp_path / "out.parquet", settings=PredictionSettings())
