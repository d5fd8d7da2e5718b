"""Completes the rows of a table: rows in, a row a blank out, under constraints that are columns, too.

It writes nothing: ``set_shards`` makes a folder of what it returns. It knows no training.
"""

from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from contextual_bert import inference
from contextual_bert.arrow_types import without_views
from contextual_bert.context import canonical
from contextual_bert.context.printed_lists import read_cell
from contextual_bert.context.vocabulary import to_doubles
from contextual_bert.data import ReadSettings
from contextual_bert.data.checked_columns import checked_column, flatten_items
from contextual_bert.data.policies import check_differs
from contextual_bert.errors import ConfigurationError, QueryError, SchemaError, UnknownNameError, did_you_mean
from contextual_bert.frames import Frame, as_table
from contextual_bert.inference.base_pipeline import BaseCompletionPipeline
from contextual_bert.inference.constraints import constraint_keys
from contextual_bert.inference.queries import check_count, read_request
from contextual_bert.inference.query_schema import GUIDANCE, TRUTH_WORDS
from contextual_bert.inference.query_times import table_gaps
from contextual_bert.inference.reread import SPELT, spelt_columns
from contextual_bert.inference.tables.shards import TableWorker
from contextual_bert.places import QueryPlace, SettingPlace, TablePlace

ROW = "row"
TIMES_COLUMN = "times of the items"  # what ``complete_table`` adds where the model reads gaps of time: lists of numbers
NAMES = ("allow", "deny", "owned")  # constraints that are lists of items
NEVER = ("deny", "owned")  # lists of what is not proposed
_LIMITS = ("max_price", "budget")  # in which NaN is a fault
FLAGS = ("in_stock", "repeats", "budget_includes_visible")
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
SETS = pa.schema([("prediction_set", pa.list_(pa.string())), ("num_forbidden", pa.int64())])  # of a calibrated run
IS_NEW = pa.field("is_new", pa.list_(pa.bool_()))  # of each candidate


@dataclass(frozen=True, kw_only=True)
class BulkSettings:
    """Settings for completing the rows of a table.

    Args:
        items: column of sets: lists, or text with a separator; a set without [MASK] gets one more item.
        separator: what stands between the items of a text; None: as the run was trained.
        group_by: columns that name a set, where the table has one item a row; they are kept in the output.
        order: column by which ``complete_table`` puts the items of a set in order, of a run that reads their order: as
            that of ``SetCompletion``. None: that of the run, where the table has it.
        keep: columns that go into the output beside the proposals: the customer, for instance.
        constraints: for all rows, as a query has them; a column with the name of a constraint holds that of its row,
            which comes before it, or to it where it says what is never proposed (``deny``, ``owned``).
        top_k: proposals a blank.
        batch_size: sets a forward pass.
        reading: how the file of the table is read.
        catalogue_reading: how the file of the catalogue is read, where ``complete_table_on_ray`` reads it.
        is_exact: whether ``complete_table_on_ray`` ranks all items where the run has an index of them, too.
        coverage: how often the prediction set of a blank holds the true item: workers of ``complete_table_on_ray``
            calibrate by it, a pipeline of ``complete_table`` is calibrated before. None: there are no sets.

    Raises:
        ConfigurationError: a number below 1, or an order by a column that names a set.
        UnknownNameError: no constraint of that name.
        SchemaError: a column to keep that has the name of one that is written.

    Example:
        >>> BulkSettings(items="outfit", constraints={"deny": ["fur-1"]}).top_k
        10
    """

    items: str = "items"
    separator: str | None = None
    group_by: Sequence[str] = ()
    order: str | None = None
    keep: Sequence[str] = ()
    constraints: Mapping[str, Any] = field(default_factory=dict[str, Any])
    top_k: int = 10
    batch_size: int = 256
    reading: ReadSettings = field(default_factory=ReadSettings)
    catalogue_reading: ReadSettings = field(default_factory=ReadSettings)
    is_exact: bool = False
    coverage: float | None = None

    def __post_init__(self) -> None:
        for name in ("top_k", "batch_size"):
            check_count(name, getattr(self, name))
        known = (*constraint_keys(), GUIDANCE)
        for name in self.constraints:
            if name not in known:
                place, allowed = QueryPlace((name,)), did_you_mean(name, known)
                raise UnknownNameError(f"unknown key {name!r} in the constraints", place=place, allowed=allowed)
        read_request({"items": [], **self.constraints}, row=0)
        check_differs(self.order, self.group_by)
        check_kept((*self.group_by, *self.keep), pa.unify_schemas([COLUMNS, SETS]))
        object.__setattr__(self, "keep", tuple(dict.fromkeys((*self.group_by, *self.keep))))


class TableCompleter(TableWorker):
    """Rows of a table in, a row a blank out.

    Of a run whose items have features, the column ``is_new`` says of each candidate whether no set of training held it.
    A pipeline that is calibrated has a ``prediction_set`` of each blank, and says how many items of it were forbidden.

    Args:
        pipeline: the model, or its run directory.
        settings: columns, constraints and sizes.

    Relation to its siblings:
        ``CompletionPipeline`` answers queries. The contexts here are columns, encoded whole.

    Example:
        >>> from contextual_bert.inference import CompletionPipeline
        >>> from contextual_bert.models import ContextualBertConfig, ContextualBertForMaskedLM, ContextualBertProcessor
        >>> sizes = {"hidden_size": 8, "num_attention_heads": 2, "num_hidden_layers": 1, "intermediate_size": 16}
        >>> model = ContextualBertForMaskedLM(ContextualBertConfig(vocab_size=5, **sizes))
        >>> pipeline = CompletionPipeline(model, ContextualBertProcessor.from_items(["coat", "hat"]))
        >>> complete = TableCompleter(pipeline, BulkSettings(keep=["who"]))
        >>> found = complete(pa.table({"who": ["ann"], "items": [["hat"]]}))
        >>> found.select(["who", "position", "candidates"]).to_pylist()
        [{'who': 'ann', 'position': 1, 'candidates': ['coat']}]
    """

    counted_columns = ("num_permitted",)

    def __init__(self, pipeline: BaseCompletionPipeline | str | Path, settings: BulkSettings) -> None:
        is_loaded = isinstance(pipeline, BaseCompletionPipeline)
        self.pipeline = pipeline if is_loaded else inference.CompletionPipeline.from_pretrained(pipeline)
        self.settings = settled(settings, self.pipeline)
        self.columns = columns_of(self.pipeline)

    def model_digest(self) -> str:
        return self.pipeline.model_digest()

    def reads(self, table: pa.Table) -> list[str]:
        kept = (*self.settings.keep, *(SPELT + name for name in self.settings.keep))
        read = {ROW, TIMES_COLUMN, self.settings.items, *kept, *constraint_keys(), *context_columns(self.pipeline)}
        return [name for name in table.column_names if name in read]

    def __call__(self, table: Frame) -> pa.Table:
        """The proposals for these rows; a column ``row`` is theirs, else they are numbered.

        Raises:
            DataError, SchemaError, UnknownNameError: a column that is missing or faulty, with its row.
        """
        settings, processor, table = self.settings, self.pipeline.processor, without_views(as_table(table))
        numbers = table.column(ROW).to_pylist() if ROW in table.column_names else list(range(table.num_rows))
        sets = item_lists(table, settings.items, str(settings.separator)).to_pylist()
        features = context_columns(self.pipeline)
        given = [name for name in constraint_keys() if name in table.column_names and name not in features]
        told = _as_spelt(table.select(given)).to_pylist() if given else [{}] * table.num_rows
        own = [
            {name: constraint_of(name, _told(value), settings.separator) for name, value in row.items()} for row in told
        ]
        for name in settings.keep:
            checked_column(table, name)
        times = table.column(TIMES_COLUMN).to_pylist() if TIMES_COLUMN in table.column_names else [None] * len(sets)
        with self._in_cells(given):
            requests = [
                read_request({"items": items, **combined(settings.constraints, constraints)}, row=number)
                for number, items, constraints in zip(numbers, sets, own, strict=True)
            ]
        # The times are numbers already, whatever those of the table are.
        gaps = [
            table_gaps(each, self.pipeline.model.config, num_items=len(request.items))
            for each, request in zip(times, requests, strict=True)
        ]
        context = processor.encode_columns(table)
        found: dict[str, list[Any]] = {name: [] for name in self.columns.names}
        of_slots = [name for name in found if name not in (ROW, "candidates", "probabilities", IS_NEW.name)]
        places: list[int] = []  # of each proposal's row in the table
        for start in range(0, len(requests), settings.batch_size):
            batch = slice(start, start + settings.batch_size)
            encoded = context.arrays_of(batch) if context is not None else None
            with self._in_cells(given):
                permitted = [
                    self.pipeline.permitted(request, row=number)
                    for request, number in zip(requests[batch], numbers[batch], strict=True)
                ]
            asked = [request.items for request in requests[batch]]
            how: dict[str, Any] = {"top_k": settings.top_k, "guidance": [each.guidance for each in requests[batch]]}
            read_gaps = [each for each in gaps[batch] if each is not None]
            filled = self.pipeline.fill(asked, encoded, permitted, gaps=read_gaps or None, **how)
            for place, slots in enumerate(filled, start):
                for slot in slots:
                    places.append(place)
                    found[ROW].append(numbers[place])
                    found["candidates"].append([candidate["item"] for candidate in slot["candidates"]])
                    found["probabilities"].append([candidate["probability"] for candidate in slot["candidates"]])
                    if IS_NEW.name in found:
                        found[IS_NEW.name].append([candidate.get(IS_NEW.name) for candidate in slot["candidates"]])
                    for name in of_slots:
                        found[name].append(slot[name])
        completed = pa.table(found, schema=self.columns)
        kept = spelt_columns(table, settings.keep).take(pa.array(places, pa.int64()))
        for name in reversed(settings.keep):
            completed = completed.add_column(0, kept.schema.field(name), kept.column(name))
        return completed

    def noted(self, written: pa.Table) -> tuple[int, ...]:
        """Return the number of blanks without a proposal."""
        return (pc.sum(pc.equal(written.column("num_permitted"), 0)).as_py() or 0,)

    @contextmanager
    def _in_cells(self, columns: Sequence[str]) -> Generator[None]:
        """Name the cell of the table where a query is at fault, and the constraint where the settings are."""
        try:
            yield
        except (QueryError, UnknownNameError, SchemaError) as error:
            if not isinstance(error.place, QueryPlace):
                raise
            key = str(error.place.inner[0]) if error.place.inner else None
            if key in columns or key in ("items", None):
                column = self.settings.items if key == "items" else key
                raise error.at(TablePlace(row=error.place.row, column=column)) from None
            raise error.at(QueryPlace(error.place.inner)) from None


def settled(settings: BulkSettings, pipeline: BaseCompletionPipeline) -> BulkSettings:
    """The same settings, with the separator of the run where they name none.

    Raises:
        SchemaError: a column to keep that has the name of one that is written.
        ConfigurationError: another coverage than that of the pipeline.
    """
    check_kept(settings.keep, columns_of(pipeline))
    calibration = pipeline.calibration
    if settings.coverage is not None and (calibration is None or calibration.coverage != settings.coverage):
        raise ConfigurationError(
            "is not that of the pipeline",
            setting="coverage",
            value=settings.coverage,
            fix="Call calibrate_by_run with the pipeline, its run and this coverage before.",
        )
    return replace(settings, separator=settings.separator or pipeline.sets.separator)


def columns_of(pipeline: BaseCompletionPipeline) -> pa.Schema:
    """Return the columns of the completions of a table, without those that are kept of it."""
    found = COLUMNS if pipeline.calibration is None else pa.unify_schemas([COLUMNS, SETS])
    return found if pipeline.is_new is None else found.append(IS_NEW)


def check_kept(names: Sequence[str], columns: pa.Schema) -> None:
    """Raise SchemaError for a column to keep that has the name of one that is written."""
    if clashing := [name for name in names if name in columns.names]:
        raise SchemaError(
            "is a column of the output, too",
            place=SettingPlace("keep"),
            value=clashing[0],
            fix="Rename the table's column.",
        )


def constraint_of(name: str, value: Any, separator: str | None) -> Any:
    """The value of a constraint as a query has it, of a cell as tables without lists and truth values have it.

    Example:
        >>> constraint_of("deny", "fur; silk", ";"), constraint_of("deny", " ", ";"), constraint_of("in_stock", 1, ";")
        (['fur', 'silk'], None, True)
        >>> constraint_of("deny", "['fur', 'silk']", ",")
        ['fur', 'silk']
    """
    is_lacking = value != value and name not in _LIMITS
    if is_lacking or (isinstance(value, str) and not value.strip()):
        return None
    if isinstance(value, str) and name not in (*FLAGS, *_LIMITS) and (found := read_cell(value, is_known=False)):
        return [canonical(each) for each in found if each is not None]
    if name in NAMES and isinstance(value, str | int | float):
        return [part.strip() for part in canonical(value).split(separator or ",") if part.strip()]
    if name in FLAGS and isinstance(value, str | int | float):
        return TRUTH_WORDS.get(canonical(value).strip().lower(), value)
    return value


def context_columns(pipeline: BaseCompletionPipeline) -> tuple[str, ...]:
    """The columns that the model reads as context, which are nothing else beside it."""
    schema = pipeline.processor.schema
    return schema.columns if schema is not None else ()


def _as_spelt(table: pa.Table) -> pa.Table:
    """Decimals and short floats as the numbers that are spelt like them, as the catalogue's prices are."""
    for place, name in enumerate(table.column_names):
        kind = table.column(name).type
        if pa.types.is_decimal(kind) or pa.types.is_floating(kind):
            table = table.set_column(place, name, to_doubles(table.column(name).combine_chunks()))
    return table


def _told(value: Any) -> Any:
    """The same value without the keys that say nothing, None where none is left: arrow gives each row those of all."""
    if isinstance(value, dict):
        return {key: told for key, each in value.items() if (told := _told(each)) is not None} or None
    return [_told(each) for each in value] if isinstance(value, list) else value


def combined(everywhere: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """The constraints of a row: its own before those for all rows; where it has none, and of what is never proposed
    both.

    Example:
        >>> combined({"deny": ["fur"], "max_price": 80}, {"deny": ["silk"], "max_price": None})
        {'deny': ['fur', 'silk'], 'max_price': 80}
    """
    found = dict(everywhere)
    for name, value in own.items():
        if value is None:
            continue
        is_added = name in NEVER and name in found and isinstance(value, list)
        found[name] = [*found[name], *value] if is_added else value
    return found


def item_lists(table: pa.Table, name: str, separator: str) -> pa.LargeListArray:
    """The column of sets as lists of names, read as in training; a missing cell is the empty set.

    Raises:
        UnknownNameError, DataError: no such column, or one of another kind; an item without a name.
    """
    flat = flatten_items(checked_column(table, name), items=name, separator=separator, file=None)
    return flat.lists(table.num_rows)
