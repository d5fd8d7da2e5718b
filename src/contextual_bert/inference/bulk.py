"""Completes all rows of a table into a folder of shards: what is finished is kept when it is started again.

``TableCompleter`` does one batch of rows and is what Ray Data's ``map_batches`` takes for more than one machine. It
knows no training.
"""

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as parquet
import torch

from contextual_bert.context import encode_table
from contextual_bert.data import read_table, table_digest, write_table
from contextual_bert.data.columns import checked_column
from contextual_bert.errors import ConfigurationError, DataError, SchemaError
from contextual_bert.evaluation.whole_files import replacing_directory
from contextual_bert.inference.permission import constraint_keys
from contextual_bert.inference.pipeline import CompletionPipeline
from contextual_bert.inference.queries import read_request

MANIFEST, DONE = "manifest.json", "_SUCCESS"
FORMAT = "contextual-bert completions 1"
ROW = "row"
COLUMNS = pa.schema(
    [
        (ROW, pa.int64()),
        ("position", pa.int64()),
        ("candidates", pa.list_(pa.string())),
        ("probabilities", pa.list_(pa.float64())),
        ("num_permitted", pa.int64()),
        ("excluded_probability", pa.float64()),
        ("reason", pa.string()),
    ]
)


@dataclass(frozen=True, kw_only=True)
class BulkSettings:
    """How the rows of a table are completed.

    Args:
        items: column of sets: lists, or text with a separator; a set without [MASK] gets one more item.
        separator: what stands between the items of a text.
        keep: columns that go into the output beside the proposals: the customer, for instance.
        constraints: for all rows, as a query has them; a column with the name of a constraint holds it for its row.
        top_k: proposals a blank.
        batch_size: sets a forward pass.

    Raises:
        ConfigurationError: a number below 1, or no constraint of that name.

    Example:
        >>> BulkSettings(items="outfit", constraints={"deny": ["fur-1"]}).top_k
        10
    """

    items: str = "items"
    separator: str = ","
    keep: Sequence[str] = ()
    constraints: Mapping[str, Any] = field(default_factory=dict[str, Any])
    top_k: int = 10
    batch_size: int = 256

    def __post_init__(self) -> None:
        for name in ("top_k", "batch_size"):
            if getattr(self, name) < 1:
                raise ConfigurationError(f"{name}={getattr(self, name)}: give 1 or more.")
        read_request({"items": [], **self.constraints}, row=0)


@dataclass(frozen=True)
class BulkReport:
    """What was done.

    Args:
        num_rows: sets.
        num_blanks: blanks that were filled, now or before.
        num_empty: blanks without a proposal, since nothing was permitted.
        num_shards, num_kept: files in all, and how many were there already.
        unknown: what the model never saw, as sentences.
    """

    num_rows: int
    num_blanks: int
    num_empty: int
    num_shards: int
    num_kept: int
    unknown: tuple[str, ...]

    def lines(self) -> list[str]:
        """For people."""
        kept = f", {self.num_kept} of them kept from before" if self.num_kept else ""
        empty = f", {self.num_empty:,} without a proposal: see the column reason" if self.num_empty else ""
        blanks = f"{self.num_blanks:,} blanks of {self.num_rows:,} sets in {self.num_shards} files{kept}{empty}"
        return [blanks, *self.unknown]


class TableCompleter:
    """Rows of a table in, a row a blank out.

    Args:
        pipeline: the model, or its run directory.
        settings: columns, constraints and sizes.

    Relation to its siblings:
        ``CompletionPipeline`` answers queries. The contexts here are columns, encoded whole.

    Example:
        >>> from contextual_bert.models import ContextualBertConfig, ContextualBertForMaskedLM, ContextualBertProcessor
        >>> sizes = {"hidden_size": 8, "num_attention_heads": 2, "num_hidden_layers": 1, "intermediate_size": 16}
        >>> model = ContextualBertForMaskedLM(ContextualBertConfig(vocab_size=5, **sizes))
        >>> pipeline = CompletionPipeline(model, ContextualBertProcessor.from_items(["coat", "hat"]))
        >>> complete = TableCompleter(pipeline, BulkSettings(keep=["who"]))
        >>> found = complete(pa.table({"who": ["ann"], "items": [["hat"]]}))
        >>> found.select(["who", "position", "candidates"]).to_pylist()
        [{'who': 'ann', 'position': 1, 'candidates': ['coat']}]
    """

    def __init__(self, pipeline: CompletionPipeline | str | Path, settings: BulkSettings) -> None:
        is_loaded = isinstance(pipeline, CompletionPipeline)
        self.pipeline = pipeline if is_loaded else CompletionPipeline.from_pretrained(pipeline)
        self.settings = settings

    def __call__(self, table: pa.Table) -> pa.Table:
        """The proposals for these rows; a column ``row`` is theirs, else they are numbered.

        Raises:
            DataError, SchemaError, UnknownNameError: a column that is missing or faulty, with its row.
        """
        settings, schema = self.settings, self.pipeline.processor.schema
        numbers = table.column(ROW).to_pylist() if ROW in table.column_names else list(range(table.num_rows))
        sets = item_lists(table, settings.items, settings.separator).to_pylist()
        given = [name for name in constraint_keys() if name in table.column_names]
        own = table.select(given).to_pylist() if given else [{}] * table.num_rows
        rows = enumerate(zip(sets, own, strict=True))
        requests = [
            read_request({"items": items, **settings.constraints, **constraints}, row=numbers[index])
            for index, (items, constraints) in rows
        ]
        context = encode_table(schema, table).tensors if schema is not None else None
        found: dict[str, list[Any]] = {name: [] for name in COLUMNS.names}
        for start in range(0, len(requests), settings.batch_size):
            batch = slice(start, start + settings.batch_size)
            encoded = {name: values[batch] for name, values in context.items()} if context is not None else None
            permitted = [
                self.pipeline.permitted(request, row=number)
                for request, number in zip(requests[batch], numbers[batch], strict=True)
            ]
            asked = [request.items for request in requests[batch]]
            guidance = [request.guidance for request in requests[batch]]
            filled = self.pipeline.fill(asked, encoded, permitted, top_k=settings.top_k, guidance=guidance)
            for number, slots in zip(numbers[batch], filled, strict=True):
                for slot in slots:
                    found[ROW].append(number)
                    found["candidates"].append([candidate["item"] for candidate in slot["candidates"]])
                    found["probabilities"].append([candidate["probability"] for candidate in slot["candidates"]])
                    for name in ("position", "num_permitted", "excluded_probability", "reason"):
                        found[name].append(slot[name])
        completed = pa.table(found, schema=COLUMNS)
        if not settings.keep:
            return completed
        places = np.searchsorted(np.array(numbers), np.array(found[ROW], dtype=np.int64))
        for name in reversed(settings.keep):
            completed = completed.add_column(0, table.schema.field(name), table.column(name).take(pa.array(places)))
        return completed


def complete_table(
    pipeline: CompletionPipeline,
    source: str | Path | pa.Table,
    output: Path,
    *,
    settings: BulkSettings,
    shard_size: int = 20_000,
    progress: Callable[[int, int], None] | None = None,
) -> BulkReport:
    """Complete all rows of a table into ``<output>/part-00000.parquet`` and so on, and ``_SUCCESS`` when all are there.

    Args:
        pipeline: the model.
        source: the table: a path or a table.
        output: folder of the shards; finished ones are kept where they are of the same table, model and settings.
        settings: columns, constraints and sizes.
        shard_size: rows of the table a file.
        progress: called with (rows done, rows in all).

    Raises:
        ConfigurationError: the folder holds the completions of something else.
        DataError, SchemaError, UnknownNameError: a faulty table, before anything is computed where columns are whole.
    """
    if shard_size < 1:
        raise ConfigurationError(f"shard_size={shard_size}: give 1 or more.")
    table = read_table(source)
    file = str(source) if isinstance(source, str | Path) else None
    for name in settings.keep:
        checked_column(table, name, file=file)
    clashing = [name for name in settings.keep if name in COLUMNS.names]
    if clashing:
        raise SchemaError(f"keep={clashing[0]!r} is a column of the output, too. Rename the table's.")
    try:
        unknown = unknown_lines(table, pipeline, settings)
    except DataError as error:
        raise DataError(error.problem, file=file, row=error.row, column=error.column, fix=error.fix) from error
    output.mkdir(parents=True, exist_ok=True)
    check_manifest(output, manifest_of(table, pipeline, settings, shard_size))
    numbered = table.drop_columns([ROW]) if ROW in table.column_names else table
    numbered = numbered.append_column(ROW, [pa.array(np.arange(table.num_rows))])
    complete, num_kept, shards = TableCompleter(pipeline, settings), 0, list[Path]()
    for number, start in enumerate(range(0, table.num_rows, shard_size)):
        shards.append(output / f"part-{number:05}.parquet")
        if shards[-1].exists():
            num_kept += 1
        else:
            write_table(complete(numbered.slice(start, shard_size)), shards[-1])
        if progress is not None:
            progress(min(start + shard_size, table.num_rows), table.num_rows)
    (output / DONE).touch()
    permitted = [parquet.read_table(shard, columns=["num_permitted"]).column(0) for shard in shards]
    num_empty = sum(pc.sum(pc.equal(column, 0)).as_py() or 0 for column in permitted)
    return BulkReport(
        table.num_rows, sum(len(column) for column in permitted), num_empty, len(shards), num_kept, tuple(unknown)
    )


def item_lists(table: pa.Table, name: str, separator: str) -> pa.ChunkedArray:
    """The column of sets as lists of strings; a missing cell is the empty set.

    Raises:
        UnknownNameError, DataError: no such column, or one of another kind.
    """
    column = checked_column(table, name)
    if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
        trimmed = pc.utf8_trim_whitespace(column)
        parts = pc.split_pattern(trimmed, separator)
        return pc.if_else(pc.equal(trimmed, ""), pa.scalar([], parts.type), parts)
    if not (pa.types.is_list(column.type) or pa.types.is_large_list(column.type)):
        raise DataError(f"the column is of type {column.type}", column=name, fix="Give lists of items, or text.")
    return column.cast(pa.list_(pa.string()))


def unknown_lines(table: pa.Table, pipeline: CompletionPipeline, settings: BulkSettings) -> list[str]:
    """What of the items and contexts the model never saw, whole columns at once."""
    names = pc.list_flatten(item_lists(table, settings.items, settings.separator)).drop_null()
    vocabulary = pa.array([*pipeline.processor.items.values, *pipeline.processor.items.reserved])
    num_strangers = len(names) - (pc.sum(pc.is_in(names, value_set=vocabulary)).as_py() or 0)
    lines = [f"{num_strangers:,} of {len(names):,} items are unknown to the model"] if num_strangers else []
    schema = pipeline.processor.schema
    for feature, values in (encode_table(schema, table).unknown if schema is not None else {}).items():
        lines.append(f"context {feature!r}: {sum(values.values()):,} rows have values never seen in training")
    return lines


def manifest_of(
    table: pa.Table, pipeline: CompletionPipeline, settings: BulkSettings, shard_size: int
) -> dict[str, Any]:
    """What makes two folders of completions the same."""
    weights = hashlib.sha256()
    for name, weight in sorted(pipeline.model.state_dict().items()):
        weights.update(name.encode())
        weights.update(weight.detach().cpu().contiguous().view(torch.uint8).numpy().tobytes())
    catalogue = table_digest(pipeline.catalogue.table) if pipeline.catalogue is not None else None
    content = {"table": table_digest(table), "model": weights.hexdigest(), "catalogue": catalogue}
    return {"format": FORMAT, **content, "settings": asdict(settings), "shard_size": shard_size}


def check_manifest(output: Path, manifest: Mapping[str, Any]) -> None:
    """Write the manifest into a new folder; raise ConfigurationError where another one is there."""
    path, text = output / MANIFEST, json.dumps(manifest, indent=1, default=list) + "\n"
    if not path.exists():
        strangers = sorted(entry.name for entry in output.glob("part-*"))
        if strangers:
            raise ConfigurationError(f"{output} holds {strangers[0]} of something else. Give another --output.")
        with replacing_directory(output) as folder:
            (folder / MANIFEST).write_text(text, encoding="utf-8")
        return
    there, here = json.loads(path.read_text(encoding="utf-8")), json.loads(text)
    differing = [name for name in here if there.get(name) != here[name]]
    if differing:
        raise ConfigurationError(
            f"{output} holds completions with another {', '.join(differing)}. Give another --output, or the same again."
        )
