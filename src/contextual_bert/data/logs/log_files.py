"""Files of a log to tables of some rows each, one after the other: a log need not fit in memory.

A block of a file of text is read as a file of its own, by the reader of whole files: so each finds the same faults.
"""

import codecs
import csv
import io
from collections import Counter
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from os import PathLike
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as parquet

from contextual_bert.arrow_types import is_text, without_views
from contextual_bert.data.column_types import EVERY_COLUMN
from contextual_bert.data.csv_tables import check_names, end_of_whole_rows
from contextual_bert.data.read_settings import ReadSettings
from contextual_bert.data.readers import read_table, read_text
from contextual_bert.data.reading_notes import ReadingNotes, reading_notes
from contextual_bert.data.table_paths import REVIEW_SUFFIX, TABLE_SUFFIXES, check_exists, file_type
from contextual_bert.data.text_files import marked_encoding
from contextual_bert.errors import DataError, UnknownNameError, did_you_mean
from contextual_bert.foreign_metadata import with_class_names, with_known_times
from contextual_bert.frames import as_table
from contextual_bert.places import TablePlace, lines_of_rows, rows_are_lines

__all__ = ["LogBatch", "LogFiles"]

_ROWS = 1 << 20  # of Parquet at a time
_BLOCK_BYTES = 32 << 20  # of text at a time
_BUFFER_BYTES = 1 << 20  # of a column of Parquet at a time
# Bytes that a row of text takes at least, and packed: the number of rows is not known before they are read.
_BYTES_A_ROW, _PACKED_BYTES_A_ROW = 24, 5
_MOST_REMARKS = 5
_MEMORY = "the log"
_NO_VALUE = "__HIVE_DEFAULT_PARTITION__"


@dataclass(frozen=True, eq=False)
class LogBatch:
    """Some rows of a log.

    Args:
        table: the rows.
        file: path of their file; None of a table in memory.
        first_row: which row of the file the first one is, counted from 0.
        bytes_done: of all files, as far as they were read.
    """

    table: pa.Table
    file: str | None
    first_row: int
    bytes_done: int


@dataclass(eq=False)
class LogFiles:
    """The files of a log, in the order of their paths, or one table in memory.

    Args:
        source: a file; a folder, all tables in which are one log; or a table in memory.
        settings: how files of text are written, and what becomes of broken rows.
        block_bytes: of text at a time.
        block_rows: of other tables at a time.

    Raises:
        DataError: nothing is there, a folder without tables, a file of another kind.
    """

    source: Any
    settings: ReadSettings = field(default_factory=ReadSettings)
    block_bytes: int = field(default_factory=lambda: _BLOCK_BYTES)
    block_rows: int = _ROWS
    notes: ReadingNotes = field(default_factory=ReadingNotes, init=False)
    paths: tuple[Path, ...] = field(default=(), init=False)
    _told: dict[str, None] = field(default_factory=dict[str, None], init=False)

    def __post_init__(self) -> None:
        if isinstance(self.source, str | PathLike):
            self.paths = _paths_of(Path(self.source))

    @property
    def name(self) -> str:
        """The log in messages."""
        return str(self.source) if self.paths else _MEMORY

    @property
    def num_bytes(self) -> int:
        """The bytes of all files; of a table in memory its own."""
        return sum(path.stat().st_size for path in self.paths) if self.paths else as_table(self.source).nbytes

    @property
    def has_texts(self) -> bool:
        """Return whether a column may come as text in one block and as numbers in another."""
        return any(file_type(path)[0] != ".parquet" for path in self.paths)

    def about_rows(self) -> int:
        """Return the number of rows: exact of Parquet and memory, of text rather more than there are."""
        if not self.paths:
            return as_table(self.source).num_rows
        total = 0
        for path in self.paths:
            suffix, compression = file_type(path)
            if suffix == ".parquet":
                total += _opened(path).metadata.num_rows
            else:
                total += path.stat().st_size // (_BYTES_A_ROW if compression is None else _PACKED_BYTES_A_ROW)
        return total

    def schemas(self) -> Iterator[pa.Schema]:
        """Yield the columns of each table whose types are known before it is read."""
        if not self.paths:
            yield as_table(self.source).schema
        for path in self.paths:
            if file_type(path)[0] == ".parquet":
                yield without_views(_opened(path).schema_arrow.empty_table()).schema

    def batches(self, needed: Sequence[str], others: Sequence[str] | None) -> Iterator[LogBatch]:
        """Yield the rows in order, with the columns that are named.

        Args:
            needed: columns that each file has to have.
            others: further ones; None takes all.

        Raises:
            UnknownNameError: a column that a file lacks, with the closest one.
            DataError: a file or row that is broken; no file has a row.
        """
        has_rows, done, told, dropped = False, 0, dict[str, None](), Counter[str]()
        for path in self.paths or (None,):
            file = str(path) if path is not None else None
            tables = self._tables(path, needed, others)
            with closing(tables):
                for first_row, table, read in tables:
                    table = _with_columns(table, self._of_folders(path))
                    _check_columns(table.column_names, (*needed, *(others or ())), file or self.name)
                    notes = reading_notes(table)
                    told |= dict.fromkeys(notes.remarks)
                    dropped += Counter(notes.rows_dropped)
                    wanted = table.column_names if others is None else [*dict.fromkeys((*needed, *others))]
                    table = with_known_times(with_class_names(without_views(table), file=file), file=file)
                    has_rows |= table.num_rows > 0
                    yield LogBatch(table.select(wanted), file, first_row, done + read)
            done += path.stat().st_size if path is not None else 0
        if not has_rows:
            raise DataError("the log has no rows", file=self.name, fix="It needs at least one, besides column names.")
        self.notes = ReadingNotes(tuple({**self._told, **told})[:_MOST_REMARKS], dict(dropped))

    def _of_folders(self, path: Path | None) -> dict[str, str | None]:
        """Return the columns that the names of a file's folders have, as in ``date=2024-03-01/part-0.parquet``."""
        if path is None or path == self.paths[0] == Path(self.source):
            return {}
        parts = path.relative_to(self.source).parts[:-1]
        pairs = [part.split("=", 1) for part in parts if "=" in part]
        return {name: None if value == _NO_VALUE else unquote(value) for name, value in pairs}

    def _tables(
        self, path: Path | None, needed: Sequence[str], others: Sequence[str] | None
    ) -> Generator[tuple[int, pa.Table, int]]:
        """Yield first row, rows and bytes read of one file."""
        if path is None:
            table = as_table(self.source)
            check_names(table.column_names, None)
            for start in range(0, max(1, table.num_rows), self.block_rows):
                yield start, table.slice(start, self.block_rows), table.nbytes * start // max(1, table.num_rows)
            return
        suffix, compression = file_type(path)
        size = path.stat().st_size
        if size == 0:
            raise DataError(
                "the file is empty (0 bytes)", file=str(path), fix="Write it again: it needs at least one row."
            )
        try:
            if suffix == ".parquet":
                if compression is not None:
                    raise DataError("packed Parquet files are not read", file=str(path), fix="Unpack it.")
                yield from self._parquet_tables(path, needed, others)
            elif suffix in (".json", REVIEW_SUFFIX):  # no line of them is a row by itself
                yield 0, read_table(path, settings=self.settings, text_columns=EVERY_COLUMN), size
            else:
                yield from self._text_tables(path, suffix, compression)
        except OSError as error:
            raise DataError(
                f"the file cannot be read: {error}", file=str(path), fix="Check its permissions and content."
            ) from error

    def _parquet_tables(
        self, path: Path, needed: Sequence[str], others: Sequence[str] | None
    ) -> Iterator[tuple[int, pa.Table, int]]:
        opened, size = _opened(path, dictionaries=needed), path.stat().st_size
        names = opened.schema_arrow.names
        check_names(names, str(path))
        _check_columns([*names, *self._of_folders(path)], (*needed, *(others or ())), str(path))
        own = [name for name in (*needed, *(others or ())) if name in names]
        columns = None if others is None else [*dict.fromkeys(own)] or names[:1]
        first, total = 0, opened.metadata.num_rows
        try:
            for batch in opened.iter_batches(self.block_rows, columns=columns):
                yield first, pa.Table.from_batches([batch]), size * first // max(1, total)
                first += batch.num_rows
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise _no_parquet(path, error) from error
        finally:
            opened.close()

    def _text_tables(self, path: Path, suffix: str, compression: str | None) -> Iterator[tuple[int, pa.Table, int]]:
        file, first, lines = str(path), 0, 0
        for header, block, position in self._blocks(path, suffix, compression):
            rows_are_lines(file, None)  # of the block before
            num_headers = header.count(b"\n")
            shift = lines - num_headers if lines else 0
            try:
                table, notes = read_text(
                    header + block, file, suffix, settings=self._settings, text_columns=EVERY_COLUMN
                )
                check_names(table.column_names, file)
            except DataError as error:
                self._place_rows(file, first, shift)
                raise error.moved(row=None if error.row is None else first + error.row) from error
            self._place_rows(file, first, shift)
            yield first, notes.noted(table), position
            first += table.num_rows + len(notes.dropped_rows)
            lines += block.count(b"\n") + (0 if lines else num_headers)

    @property
    def _settings(self) -> ReadSettings:
        """The settings of blocks, which are in UTF-8 whatever the file is in."""
        return replace(self.settings, encoding=None)

    def _place_rows(self, file: str, first_row: int, shift: int) -> None:
        """Let errors name the line of each row of the block that was read last."""
        lines = lines_of_rows(file)
        if lines is not None:
            rows_are_lines(file, _BlockLines(first_row, shift, lines))

    def _blocks(self, path: Path, suffix: str, compression: str | None) -> Iterator[tuple[bytes, bytes, int]]:
        """Yield the header, whole rows, and how many bytes of the file were read before."""
        size, header, rest = path.stat().st_size, b"", b""
        has_header, is_first = suffix in (".csv", ".tsv"), True
        for piece, position in self._pieces(path, compression):
            rest += piece
            if has_header and not header:
                end = _end_of_header(rest)
                if end is None:
                    continue
                header, rest = rest[:end], rest[end:]
            end = _end_of_rows(rest, is_quoted=has_header) if len(rest) >= self.block_bytes else None
            if end is not None:
                yield header, rest[:end], min(position, size)
                is_first, rest = False, rest[end:]
        if rest.strip() or is_first:
            yield header, rest, size

    def _pieces(self, path: Path, compression: str | None) -> Iterator[tuple[bytes, int]]:
        """Yield the text of a file in UTF-8, and the bytes of the file that were read."""
        with path.open("rb") as raw:
            marked = raw.read(4)
            raw.seek(0)
            encoding = self.settings.encoding
            if encoding is None and compression is None and (found := marked_encoding(marked)) is not None:
                encoding = found
                self._told[f"{path}: read as {encoding.upper()}, which its first bytes say"] = None
            try:
                stream = pa.CompressedInputStream(raw, compression) if compression is not None else raw
                decoder = codecs.getincrementaldecoder(encoding)() if encoding is not None else None
                is_first, num_read = True, 0
                while piece := stream.read(self.block_bytes):
                    num_read += len(piece)
                    if decoder is not None:
                        piece = decoder.decode(piece).encode(errors="surrogateescape")
                    yield (
                        (piece.removeprefix(codecs.BOM_UTF8) if is_first else piece),
                        (raw.tell() if compression is None else num_read // 4),
                    )
                    is_first = False
            except UnicodeError as error:
                raise DataError(
                    f"the file is not in {encoding}", file=str(path), fix="Name the encoding of the file: --encoding."
                ) from error
            except OSError as error:
                if compression is None:
                    raise
                raise DataError(
                    f"it is not packed as its name says, or damaged: {error}",
                    file=str(path),
                    fix=f"Leave {path.suffix} out of the name of a file that is not packed; else pack it again.",
                ) from error


@dataclass(frozen=True)
class _BlockLines(Sequence[int]):
    """The lines of the rows of a block, by the number that a row has in its file."""

    first_row: int
    shift: int
    lines: Sequence[int]

    def __len__(self) -> int:
        return self.first_row + len(self.lines)

    def __getitem__(self, row: Any) -> Any:
        return self.lines[max(0, row - self.first_row)] + self.shift


def _paths_of(path: Path) -> tuple[Path, ...]:
    """Return the tables of a folder and of those in it, or the file itself."""
    check_exists(path)
    if not path.is_dir():
        if file_type(path)[0] not in TABLE_SUFFIXES:
            read_table(path)  # says which files are read
        return (path,)
    found = [each for each in path.rglob("*") if each.is_file() and file_type(each)[0] in TABLE_SUFFIXES]
    inside = [each.relative_to(path).parts for each in found]
    shown = [
        each
        for each, parts in zip(found, inside, strict=True)
        if not any(part.startswith((".", "_")) for part in parts)  # of programs that write folders
    ]
    if not shown:
        raise DataError(
            "the folder has no table",
            file=str(path),
            fix=f"Name a folder with files that end in one of: {', '.join(sorted(TABLE_SUFFIXES))}.",
        )
    return tuple(sorted(shown))


def _with_columns(table: pa.Table, values: Mapping[str, str | None]) -> pa.Table:
    """Return a table with columns of one value each, where it has none of the name."""
    for name, value in values.items():
        if name not in table.column_names:
            cells = pa.nulls(table.num_rows, pa.string()) if value is None else pa.repeat(value, table.num_rows)
            table = table.append_column(name, cells.cast(pa.string()))
    return table


def _opened(path: Path, *, dictionaries: Sequence[str] = ()) -> Any:
    """Return a file of Parquet; some columns of text come as dictionaries, as they mostly are stored."""
    how: dict[str, Any] = {"buffer_size": _BUFFER_BYTES, "pre_buffer": False}
    try:
        opened = parquet.ParquetFile(path, **how)
        texts = [each.name for each in opened.schema_arrow if each.name in dictionaries and is_text(each.type)]
        if texts:
            opened.close()
            opened = parquet.ParquetFile(path, read_dictionary=texts, **how)
        return opened
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise _no_parquet(path, error) from error


def _no_parquet(path: Path, error: Exception) -> DataError:
    if path.stat().st_size == 0:
        return DataError("the file is empty (0 bytes)", file=str(path), fix="Write it again.")
    return DataError(f"this is not a whole Parquet file: {error}", file=str(path), fix="Write the file again.")


def _check_columns(known: Sequence[str], wanted: Sequence[str], file: str) -> None:
    for name in wanted:
        if name not in known:
            raise UnknownNameError(
                f"There is no column {name!r} in {file}",
                place=TablePlace(lacking=(name,)),
                allowed=did_you_mean(name, known),
            )


def _end_of_header(content: bytes) -> int | None:
    """Return where the first row after the column names begins; None where the names are not all there yet."""
    start = len(content) - len(content.lstrip(b"\r\n"))
    if content[start : start + 4].lower() == b"sep=":  # as spreadsheets write it for themselves
        start = content.find(b"\n", start) + 1 or len(content)
    end = start
    while (end := content.find(b"\n", end) + 1) and content.count(b'"', start, end) % 2:
        pass
    return end or None


def _end_of_rows(content: bytes, *, is_quoted: bool) -> int | None:
    """Return where the last row ends that is whole; None where none is."""
    end = content.rfind(b"\n") + 1
    if not is_quoted or not end:
        return end or None
    if (whole := end_of_whole_rows(content)) > 0:
        return whole
    # A mark of inches is no quote. Python's reader of CSV tells, slowly.
    return end if not _is_within_quotes(content[:end]) else None


def _is_within_quotes(content: bytes) -> bool:
    text = io.StringIO(content.decode(errors="replace"), newline="")
    try:
        for _ in csv.reader(text, strict=True):
            pass
    except csv.Error:
        return True
    return False
