"""What a worker of a cluster does, without a cluster: the same files, and errors that say on which machine."""

import errno
import json
import shutil
import socket
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import torch

from contextual_bert.errors import ContextualBertError, DataError, RunDirectoryError, UnknownNameError
from contextual_bert.inference import BulkSettings, CompletionPipeline, complete_table
from contextual_bert.inference.tables import shard_worker
from contextual_bert.inference.tables.ray_completion import CompletionJob
from contextual_bert.inference.tables.set_shards import SetShardPlan
from contextual_bert.inference.tables.shard_worker import ShardJob, ShardWorker, error_json, error_of, packed, unpacked

HOST = socket.gethostname()


@pytest.fixture
def plan(pipeline: CompletionPipeline, table: pa.Table, tmp_path: Path) -> SetShardPlan:
    plan = SetShardPlan(pipeline, table, tmp_path / "out", settings=BulkSettings(keep=["who"]), shard_size=6)
    plan.output.mkdir()
    (plan.output / "_manifest.json").write_text(plan.manifest, encoding="utf-8")
    return plan


@pytest.fixture
def job(plan: SetShardPlan, run: Path) -> ShardJob:
    return ShardJob(CompletionJob(str(run), BulkSettings(keep=["who"]), None), str(plan.output), plan.manifest, "cpu")


def answers_of(job: ShardJob, plan: SetShardPlan, *numbers: int) -> list[dict[str, Any]]:
    files = pa.concat_tables([packed(number, plan.rows(number)) for number in numbers])
    return ShardWorker(job)(files).to_pylist()


def told_by(job: ShardJob, plan: SetShardPlan) -> str:
    (answer,) = answers_of(job, plan, 0)
    assert (answer["number"], answer["num_rows"]) == (0, 0)
    assert not (plan.output / "part-00000.parquet").exists()
    return str(error_of(answer["error"]))


def test_a_worker_makes_the_same_files(
    job: ShardJob, plan: SetShardPlan, pipeline: CompletionPipeline, table: pa.Table, tmp_path: Path
) -> None:
    complete_table(pipeline, table, tmp_path / "here", settings=BulkSettings(keep=["who"]), shard_size=6)
    found = answers_of(job, plan, 3, 1)  # two files in one call: how Ray cuts its blocks is its own affair
    for answer, (number, num_rows, num_blanks) in zip(found, [(3, 2, 2), (1, 6, 7)], strict=True):
        assert answer["error"] is None
        assert (answer["number"], answer["num_rows"], answer["num_written"]) == (number, num_rows, num_blanks)
        assert (answer["noted"], answer["machine"]) == ([0], HOST)
        name = f"part-{number:05}.parquet"
        assert (plan.output / name).read_bytes() == (tmp_path / "here" / name).read_bytes()


def test_a_worker_knows_the_catalogue(run: Path, table: pa.Table, names: list[str], tmp_path: Path) -> None:
    shop = pa.table({"item": names, "in_stock": [index % 2 == 0 for index in range(len(names))]})
    settings = BulkSettings(constraints={"in_stock": True}, top_k=len(names))
    pipeline = CompletionPipeline.from_pretrained(run, catalogue=shop)
    complete_table(pipeline, table, tmp_path / "out", settings=settings)
    whole = (tmp_path / "out" / "part-00000.parquet").read_bytes()
    (tmp_path / "out" / "part-00000.parquet").unlink()
    plan = SetShardPlan(pipeline, table, tmp_path / "out", settings=settings, shard_size=20_000)
    (answer,) = answers_of(
        ShardJob(CompletionJob(str(run), settings, shop), str(plan.output), plan.manifest, "cpu"), plan, 0
    )
    assert answer["error"] is None
    assert (tmp_path / "out" / "part-00000.parquet").read_bytes() == whole


def test_a_slice_of_a_table_travels_whole_and_alone() -> None:
    columns = {
        "row": range(9),
        "sets": [["a"] * row for row in range(9)],
        "who": pa.array(["b"] * 9).dictionary_encode(),
    }
    table = pa.concat_tables([pa.table(columns), pa.table(columns)])
    rows = unpacked(packed(1, table.slice(7, 4)).column("rows")[0].as_py())
    assert rows == table.slice(7, 4)
    assert rows.schema == table.schema


def test_what_a_worker_does_not_see_is_named_with_its_machine(job: ShardJob, plan: SetShardPlan, run: Path) -> None:
    told = told_by(replace(job, table_job=replace(job.table_job, run="/nowhere/run")), plan)
    assert told.startswith(f"The worker on {HOST} sees no folder /nowhere/run. Give a folder on a file system that all")
    told = told_by(replace(job, output="/nowhere/out"), plan)
    assert told.startswith(f"The worker on {HOST} sees no /nowhere/out/_manifest.json. Give a folder on")
    other = json.dumps(json.loads(job.manifest) | {"table": "of somebody else"})
    told = told_by(replace(job, manifest=other), plan)
    assert told.startswith(f"The worker on {HOST} sees another content of {plan.output}/_manifest.json: ")
    assert "with another table" in told


def test_a_worker_goes_on_in_a_folder_of_an_older_version(job: ShardJob, plan: SetShardPlan) -> None:
    content = json.loads(job.manifest)
    content["settings"]["batch_size"] = 7  # which was part of it
    plan.output.mkdir(exist_ok=True)
    (plan.output / "_manifest.json").write_text(json.dumps(content), encoding="utf-8")
    worker: Any = job.load()
    assert worker.settings == BulkSettings(keep=["who"], separator=",")


def test_another_model_under_the_same_path_is_refused(
    job: ShardJob, plan: SetShardPlan, pipeline: CompletionPipeline, run: Path, tmp_path: Path
) -> None:
    shutil.copytree(run, tmp_path / "run")
    other = CompletionPipeline.from_pretrained(run).model
    with torch.no_grad():
        next(iter(other.parameters()))[0, 0] += 1
    other.save_pretrained(tmp_path / "run")
    told = told_by(replace(job, table_job=replace(job.table_job, run=str(tmp_path / "run"))), plan)
    assert told.startswith(f"The worker on {HOST} sees another model in {tmp_path / 'run'}.")


def test_a_damaged_run_is_named_with_its_machine(job: ShardJob, plan: SetShardPlan, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    told = told_by(replace(job, table_job=replace(job.table_job, run=str(tmp_path / "empty"))), plan)
    assert told.startswith(f"The worker on {HOST}: {tmp_path / 'empty'} is no complete run directory: config.json")


def test_a_gpu_that_pytorch_does_not_find_is_named(
    job: ShardJob, plan: SetShardPlan, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert told_by(replace(job, device="cuda"), plan).startswith(
        f"The worker on {HOST} has a GPU of Ray's, and PyTorch"
    )


class OwnError(ContextualBertError, KeyError):
    """Of a class that nobody else knows."""


@pytest.mark.parametrize(
    "error",
    [
        DataError("'x' is no list", file="sets.csv", row=3, column="items", fix="Give one."),
        DataError("empty"),
        UnknownNameError("no column 'a'. Did you mean 'b'?"),
        RunDirectoryError("runs/gsu is damaged."),
    ],
)
def test_an_error_comes_back_as_it_was(error: ContextualBertError) -> None:
    back = error_of(error_json(error))
    assert (type(back), str(back), vars(back)) == (type(error), str(error), vars(error))


def test_errors_of_the_machine_say_which_one() -> None:
    full = error_of(error_json(OSError(errno.ENOSPC, "No space left on device", "/shared/out/part-1")))
    assert isinstance(full, OSError)
    assert (full.errno, full.filename) == (errno.ENOSPC, "/shared/out/part-1")
    assert f"(on {HOST})" in str(full)
    for error in (MemoryError("3 GB"), torch.OutOfMemoryError("3 GB")):
        back = error_of(error_json(error))
        assert (type(back), str(back)) == (MemoryError, f"3 GB (on {HOST})")
    own = error_of(error_json(OwnError("told")))
    assert (type(own), str(own)) == (ContextualBertError, str(OwnError("told")))


def test_a_bug_is_not_told_in_words(job: ShardJob, plan: SetShardPlan, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr(shard_worker, "write_shard", fail)
    with pytest.raises(ZeroDivisionError):
        answers_of(job, plan, 0)


def test_a_folder_is_not_done_while_a_file_is_missing(plan: SetShardPlan, job: ShardJob) -> None:
    with pytest.raises(ContextualBertError, match="Only 0 of 4 files"):
        plan.run(())
    assert not (plan.output / "_SUCCESS").exists()
