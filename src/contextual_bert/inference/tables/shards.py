"""A table is worked through into a folder of files: what is finished is kept when it is started again.

Which files there are, what makes two folders the same, and how one file is computed and written. It knows neither sets
nor texts, and not on which machine that happens.
"""

import itertools
import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as parquet

from contextual_bert.atomic_files import replacing_directory
from contextual_bert.data import write_table
from contextual_bert.errors import ConfigurationError, ContextualBertError
from contextual_bert.inference.encode import naming
from contextual_bert.nouns import counted
from contextual_bert.places import PathPlace

# Readers of a folder of Parquet pass over names that begin so.
MANIFEST, DONE = "_manifest.json", "_SUCCESS"
SHARD_SIZE = 20_000


@dataclass(frozen=True)
class BulkReport:
    """Report on a table that was worked through: rows, blanks, files and remarks.

    Args:
        num_rows: sets, or texts.
        num_shards, num_kept: files in all, and how many were there already.
        unknown: what the model never saw, and what is to be known of an export and of the catalogue, as sentences.
        num_blanks: blanks that were filled, now or before; None of texts, which have none.
        num_empty: blanks without a proposal, since nothing was permitted.
        computed_by: who computed, as a sentence, where it was more than this process.
        noun: what a row holds: a set, a sequence or a text.
        added: columns that were written beside those of the table, of texts.
    """

    num_rows: int
    num_shards: int
    num_kept: int
    unknown: tuple[str, ...]
    num_blanks: int | None = None
    num_empty: int = 0
    computed_by: str = ""
    noun: str = "set"
    added: tuple[str, ...] = ()

    def lines(self) -> list[str]:
        """For people."""
        kept = f", {self.num_kept} of them kept from before" if self.num_kept else ""
        empty = f", {self.num_empty:,} without a proposal: see the column reason" if self.num_empty else ""
        blanks = f"{counted(self.num_blanks, 'blank')} of " if self.num_blanks is not None else ""
        rows, files = counted(self.num_rows, self.noun), counted(self.num_shards, "file")
        return [
            f"{blanks}{rows} in {files}{kept}{empty}",
            *([self.computed_by] if self.computed_by else []),
            *self.unknown,
        ]


class ShardCounts(NamedTuple):
    """Counts of one file: its number, rows of the table, rows that it holds, and what its worker counts of it."""

    number: int
    num_rows: int
    num_written: int
    noted: tuple[int, ...]


class TableWorker(ABC):
    """Rows of a table in, what is written of them out: in this process, or in one of another machine."""

    counted_columns: tuple[str, ...] = ()  # of a file, which ``noted`` reads

    @abstractmethod
    def model_digest(self) -> str:
        """Return a hash of the model: a folder is gone on with by the same one alone."""

    @abstractmethod
    def reads(self, table: pa.Table) -> list[str]:
        """Return the columns of a table that make a difference to what is written of it, as they stand in it."""

    @abstractmethod
    def __call__(self, table: pa.Table) -> pa.Table:
        """Return what is written of these rows.

        Raises:
            DataError, SchemaError, UnknownNameError: a column that is missing or faulty, with its row.
        """

    @abstractmethod
    def noted(self, written: pa.Table) -> tuple[int, ...]:
        """Return what a report says of a file, in numbers, from its ``counted_columns`` and metadata."""

    def counts(self, written: pa.Table, number: int, num_rows: int) -> ShardCounts:
        """Return the counts of a file with these rows."""
        return ShardCounts(number, num_rows, written.num_rows, self.noted(written))


class ShardPlan(ABC):
    """The files that are made of a table: which there are in the folder, and which are to be computed.

    Args:
        worker: makes them.
        table: the rows.
        output: folder of the files; finished ones are kept where they are of the same table, model and settings.
        manifest: what makes two folders the same, as JSON.
        shard_size: rows of the table a file.
        file: path of the table, for errors; None: it has none.

    Raises:
        ConfigurationError: the folder holds something else; a file of no row.

    Relation to its siblings:
        It says what is to be done. ``complete_table`` and ``predict_table`` do it here, ``complete_table_on_ray`` and
        ``predict_table_on_ray`` on a cluster's workers.
    """

    def __init__(
        self, worker: TableWorker, table: pa.Table, output: Path, *, manifest: str, shard_size: int, file: str | None
    ) -> None:
        if shard_size < 1:
            raise ConfigurationError("is not allowed", setting="shard_size", value=shard_size, fix="Give 1 or more.")
        check_same_job(output, manifest)
        self.worker, self.table, self.manifest, self.file = worker, table, manifest, file
        self.output, self.shard_size = output, shard_size
        self.num_shards = -(-table.num_rows // shard_size)
        self.kept = [number for number in range(self.num_shards) if is_whole(shard_path(output, number))]
        self.missing = sorted({*range(self.num_shards)} - {*self.kept})

    @abstractmethod
    def report(self, files: Sequence[ShardCounts]) -> BulkReport:
        """Return the report on all files, from the counts of each."""

    def rows(self, number: int) -> pa.Table:
        """Return the rows of one file."""
        return self.table.slice(number * self.shard_size, self.shard_size)

    def here(self) -> Iterable[ShardCounts]:
        """Compute and write the missing files in this process, one after the other."""
        return (write_shard(self.worker, self.rows(number), number, self.output) for number in self.missing)

    def run(self, computed: Iterable[ShardCounts], progress: Callable[[int, int], None] | None = None) -> BulkReport:
        """Take the files in as they are done, in any order; ``_SUCCESS`` when all are there.

        Args:
            computed: what the missing files hold; the first one is asked for when the manifest stands in the folder.
            progress: called with (rows done, rows in all).

        Raises:
            ContextualBertError: a file was not computed; what computing one raises, with the table's file.
        """
        if not (self.output / MANIFEST).exists():
            with replacing_directory(self.output) as folder:
                (folder / MANIFEST).write_text(self.manifest, encoding="utf-8")
        (self.output / DONE).unlink(missing_ok=True)
        found, num_done, num_rows = dict[int, ShardCounts](), 0, self.table.num_rows
        with naming(self.file):
            for shard in itertools.chain(map(self.counted, self.kept), computed):
                found[shard.number] = shard
                num_done += shard.num_rows
                if progress is not None:
                    progress(num_done, num_rows)
        if len(found) != self.num_shards or num_done != num_rows:
            raise ContextualBertError(
                f"Only {len(found)} of {self.num_shards} files of {self.output} were computed",
                fix="Start the same again.",
            )
        (self.output / DONE).touch()
        return self.report([*found.values()])

    def counted(self, number: int) -> ShardCounts:
        """Return the counts of a file that exists already."""
        written = parquet.read_table(shard_path(self.output, number), columns=[*self.worker.counted_columns])
        return self.worker.counts(written, number, self.rows(number).num_rows)


def write_shard(worker: TableWorker, rows: pa.Table, number: int, output: Path) -> ShardCounts:
    """Compute one file and write it, whole or not at all."""
    written = worker(rows)
    write_table(written, shard_path(output, number))
    return worker.counts(written, number, rows.num_rows)


def shard_path(output: Path, number: int) -> Path:
    """Return the path of a file."""
    return output / f"part-{number:05}.parquet"


def is_whole(path: Path) -> bool:
    """Return True if a file exists with its end. A machine that went down may have kept the end from the disk."""
    try:
        parquet.read_metadata(path)
    except (OSError, pa.ArrowInvalid):
        return False
    return True


def check_same_job(output: Path, text: str) -> None:
    """Raise ConfigurationError where another manifest stands in the folder, or files without one."""
    path = output / MANIFEST
    if not path.exists():
        others = sorted(entry.name for entry in output.glob("part-*"))
        if others:
            raise ConfigurationError(
                f"holds {others[0]} of something else", fix="Give another --output.", place=PathPlace(output)
            )
        return
    here = json.loads(text)
    try:
        there = json.loads(path.read_text(encoding="utf-8"))
        settings = dict(there["settings"])
    except (ValueError, TypeError, LookupError, RecursionError):
        raise ConfigurationError(
            "cannot be read, which says what the files beside it are",
            fix="Remove all, or give another --output.",
            place=PathPlace(path),
        ) from None
    wanted = here.pop("settings") | here
    differing = [name for name in wanted if {**there, **settings}.get(name) != wanted[name]]
    if differing:
        raise ConfigurationError(
            f"was made with another {', '.join(differing)}",
            fix="Give another --output, or the same again.",
            place=PathPlace(output),
        )
