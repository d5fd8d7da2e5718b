"""Worker of a cluster: loads the run once, writes file after file, reports errors as text.

It does not know who calls it. Machines have in common what they see of a shared file system, which is checked here.
"""

import json
import os
import socket
from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import torch

from contextual_bert.errors import (
    NAME,
    CheckpointError,
    ConfigurationError,
    ContextualBertError,
    DataError,
    NonFiniteError,
    QueryError,
    RunDirectoryError,
    SchemaError,
    UnknownNameError,
    shown,
)
from contextual_bert.inference.tables.shards import MANIFEST, ShardCounts, TableWorker, check_same_job, write_shard
from contextual_bert.json_text import json_text
from contextual_bert.places import JsonPlace, PathPlace, QueryPlace, SettingPlace, SettingsPlace, TablePlace

PLAIN = (str, int, type(None))  # values that arrive as they were; of others the text of the message does
ANSWER = pa.schema(
    [
        *((name, pa.int64()) for name in ShardCounts._fields[:-1]),
        (ShardCounts._fields[-1], pa.list_(pa.int64())),
        ("machine", pa.string()),
        ("process", pa.int64()),
        ("error", pa.string()),
    ]
)
EXPECTED = (ContextualBertError, OSError, MemoryError, torch.OutOfMemoryError)
TOLD = {
    kind.__name__: kind
    for kind in (
        CheckpointError, ConfigurationError, DataError, NonFiniteError, QueryError, RunDirectoryError, SchemaError,
        UnknownNameError, ContextualBertError,
    )
}  # fmt: skip
PLACES = {
    place.__name__: place for place in (JsonPlace, PathPlace, QueryPlace, SettingPlace, SettingsPlace, TablePlace)
}
SHARE = "Give a folder on a file system that all machines of the cluster share, under the same path."


@dataclass(frozen=True)
class TableJob(ABC):
    """What a worker loads of a run, the same on each machine.

    Args:
        run: run directory.
    """

    run: str

    @abstractmethod
    def load(self, device: str) -> TableWorker:
        """Return the worker of the run, on "cpu" or "cuda".

        Raises:
            RunDirectoryError, ConfigurationError: a run that is damaged, or does not fit.
        """


@dataclass(frozen=True)
class ShardJob:
    """Description of the work for a worker.

    Args:
        table_job: the run, and what is made of a table.
        output: folder of the files.
        manifest: what stands in the folder, as JSON.
        device: "cpu" or "cuda".
    """

    table_job: TableJob
    output: str
    manifest: str
    device: str

    def load(self) -> TableWorker:
        """The run, if this machine sees the same files as the one that hands out the work.

        Raises:
            ConfigurationError, RunDirectoryError: what it does not see, and on which machine.
        """
        machine, manifest = f"The worker on {socket.gethostname()}", Path(self.output) / MANIFEST
        if not manifest.is_file():
            raise ConfigurationError(f"{machine} sees no {manifest}", fix=SHARE)
        try:
            check_same_job(Path(self.output), self.manifest)
        except ConfigurationError as error:
            raise ConfigurationError(f"{machine} sees another content of {manifest}: {error} {SHARE}") from error
        run = self.table_job.run
        if not Path(run).is_dir():
            raise ConfigurationError(f"{machine} sees no folder {run}", fix=SHARE)
        if self.device == "cuda" and not torch.cuda.is_available():
            raise ConfigurationError(
                f"{machine} has a GPU of Ray's, and PyTorch finds none there",
                fix="Install PyTorch with CUDA, or give 'cpu'.",
            )
        try:
            worker = self.table_job.load(self.device)
        except RunDirectoryError as error:
            raise RunDirectoryError(f"{machine}: {error}") from error
        if worker.model_digest() != json.loads(self.manifest)["model"]:
            raise ConfigurationError(f"{machine} sees another model in {run}", fix=SHARE)
        return worker


class ShardWorker:
    """Rows of ``packed`` in, a row each out: what the file holds, or the error.

    Errors come back as words and not as exceptions: a cluster wraps those, and their class and fields are lost.
    Nothing is loaded before the first file, so that what goes wrong then is told in the same way.

    Args:
        job: what is to be done.
    """

    def __init__(self, job: ShardJob) -> None:
        self.job = job
        self.worker: TableWorker | None = None

    def __call__(self, files: pa.Table) -> pa.Table:
        """Compute and write these files."""
        answers = [self.answer(file["number"], unpacked(file["rows"])) for file in files.to_pylist()]
        return pa.Table.from_pylist(answers, schema=ANSWER)

    def answer(self, number: int, rows: pa.Table) -> dict[str, int | str | None]:
        """Compute and write one file, and say what it holds."""
        shard, told = ShardCounts(number, 0, 0, ()), None
        try:
            if self.worker is None:
                self.worker = self.job.load()
            shard = write_shard(self.worker, rows, number, Path(self.job.output))
        except EXPECTED as error:
            told = error_json(error)
        return {**shard._asdict(), "machine": socket.gethostname(), "process": os.getpid(), "error": told}


def packed(number: int, rows: pa.Table) -> pa.Table:
    """All rows of one file as one row: a table that may be cut and put together anywhere.

    Example:
        >>> packed(3, pa.table({"row": [6, 7]})).select(["number"]).to_pylist()
        [{'number': 3}]
    """
    stream = pa.BufferOutputStream()
    with pa.ipc.new_stream(stream, rows.schema) as writer:
        writer.write_table(rows)
    return pa.table({"number": [number], "rows": pa.array([stream.getvalue().to_pybytes()], pa.large_binary())})


def unpacked(rows: bytes) -> pa.Table:
    """The rows of one file."""
    return pa.ipc.open_stream(rows).read_all()


def error_json(error: BaseException) -> str:
    """Return an error as JSON, which ``error_of`` makes one of again."""
    where = f" (on {socket.gethostname()})"
    if isinstance(error, ContextualBertError):
        kind = next(each.__name__ for each in type(error).__mro__ if each.__name__ in TOLD)
        place = None
        if error.place is not None:
            fields = {n: os.fspath(v) if isinstance(v, os.PathLike) else v for n, v in vars(error.place).items()}
            place = {"kind": type(error.place).__name__, **fields}
        parts: dict[str, Any] = {"problem": error.problem, "allowed": error.allowed, "fix": error.fix}
        if error.value is not NAME:
            parts["value"] = error.value if isinstance(error.value, PLAIN) else shown(error.value)
        return json_text({"kind": kind, "parts": parts, "place": place})
    if isinstance(error, OSError):
        file = str(error.filename) if error.filename is not None else None
        return json_text({"kind": "OSError", "arguments": [error.errno, f"{error.strerror or error}{where}", file]})
    return json_text({"kind": "MemoryError", "arguments": [f"{error}{where}"]})


def error_of(words: str) -> Exception:
    """The error that a worker met.

    Example:
        >>> str(error_of(error_json(DataError("'x' is no number", row=3, column="age", fix="Give a number."))))
        "row 4, column 'age': 'x' is no number. Give a number. Rows count from 1."
        >>> str(error_of(error_json(ConfigurationError("is too small", setting="top_k", value=0))))
        'top_k=0 is too small'
    """
    told = json.loads(words)
    if (kind := TOLD.get(told["kind"])) is None:
        return {"OSError": OSError, "MemoryError": MemoryError}[told["kind"]](*told["arguments"])
    error = kind(told["parts"].pop("problem"), **told["parts"])
    if (fields := told["place"]) is None:
        return error
    place: Any = PLACES[fields.pop("kind")]
    return error.at(place(**{name: tuple(each) if isinstance(each, list) else each for name, each in fields.items()}))
