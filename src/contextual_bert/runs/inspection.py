"""Inspection of a table before training: sizes, features, missing values, faults, left-out columns.

The features are found in the training part of the split that ``train`` would make from the same settings, so that no
bin and no category is learned from the test. It trains nothing and writes nothing. ``text_inspection`` looks at the
texts themselves.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
from rich.box import HORIZONTALS
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from contextual_bert.context import ContextSchema, InferredSchema, Vocabulary
from contextual_bert.context.infer import ColumnNote, SchemaSettings, infer_features
from contextual_bert.context.kinds import KINDS
from contextual_bert.context.row_numbers import clock_of
from contextual_bert.context.seasons import DATE
from contextual_bert.data import Audit, SetTable, Split, TextTable
from contextual_bert.data.splits import PARTS
from contextual_bert.errors import DataError, UnknownNameError, did_you_mean, in_message, joined
from contextual_bert.frames import Frame
from contextual_bert.inference.encode import placed
from contextual_bert.models.reserved_items import RESERVED_ITEMS
from contextual_bert.nouns import counted, plural
from contextual_bert.places import TablePlace
from contextual_bert.runs.catalogue_reading import catalogue_features
from contextual_bert.runs.log_columns import LogColumns, log_columns, log_of_large_file
from contextual_bert.runs.prepared_data import make_split
from contextual_bert.runs.run_schema import (
    alike_values,
    customer_warnings,
    inferred,
    leak_lines,
    not_context,
    withheld_lines,
    without_leaks,
)
from contextual_bert.runs.run_table import RunTable, audit_of, read_data
from contextual_bert.runs.sequences import column_of_times
from contextual_bert.runs.shifts import LEARNED, PartRows, encoded_rows, field_lines, name_drift
from contextual_bert.runs.text_inspection import Look, look_at_texts
from contextual_bert.training.recipe import Recipe

# An item of nearly every set is no choice of anybody, and makes every score look better.
_NEARLY_EVERY_SET = 0.9
_NUM_FREQUENT = 5


@dataclass(frozen=True, eq=False)
class Inspection:
    """Findings on a table.

    Args:
        schema: the features, None where no column is left for a context.
        notes: a note on each column: its kind, or why it was left out.
        num_rows: rows that the notes count: sets, or texts, of the training part.
        reading: the sentences that say what the rows hold: of sets what became of their items, of texts their lengths.
        basis: the sentences that say which rows the features were found in.
        faults: what should be looked at before training.
        is_split: the table can be split as ``train`` would.
        items: what the catalogue says of the items, where one is named.
        log: the columns of a transaction log, where the table looks like one.
        is_whole: all rows were read. Of a large log the first ones alone are, and no column has a note.
        order: the column of times that the items of each set stand in the order of, where nobody named it.
        unordered: a column with a time for each item, where the items stand in another order.

    Example:
        >>> table = pa.table({"items": [["a", "b"], ["a", "c"]] * 50, "sex": ["f", "m", "m", "f"] * 25})
        >>> from contextual_bert.training import SetCompletion
        >>> inspect_table(Recipe(data="days.parquet", task=SetCompletion(items="items")), source=table).schema.names
        ('sex',)
    """

    schema: ContextSchema | None
    notes: tuple[ColumnNote, ...]
    num_rows: int
    reading: tuple[str, ...]
    basis: tuple[str, ...]
    faults: tuple[str, ...]
    is_split: bool = True
    items: InferredSchema | None = None
    log: LogColumns | None = None
    is_whole: bool = True
    order: str | None = None
    unordered: str | None = None

    def lines(self) -> list[str]:
        """Everything but the table of columns, a sentence a line."""
        number = len(self.schema.features) if self.schema is not None else 0
        features = (
            f"{counted(number, 'feature')}, {self.schema.context_size} components in all"
            if self.schema is not None
            else "no feature found: only 'none' can be trained"
        )
        log = [self.log.line()] if self.log is not None else []
        if not self.is_whole:
            return [*self.reading, *log]
        if self.order is not None:
            log.append(
                f"column {self.order!r} has a time for each item, in the order of the items: sequences, of which the "
                f"next item can be learned. To read them as sets, give --exclude {self.order}"
            )
        if self.unordered is not None:
            log.append(
                f"column {self.unordered!r} has a time for each item, and the items stand in another order. If it says "
                f"when each was taken, give --order {self.unordered}: then the next item can be learned"
            )
        return [*self.reading, *self.basis, features, *withheld_lines(self.schema), *self.faults, *log]

    def to_rich(self) -> Group:
        """For a terminal: the sentences, and a row a column of the table."""
        if not self.is_whole:
            return Group(*(Text(line) for line in self.lines()))
        shown: list[RenderableType] = [_columns_table(self.notes, num_rows=self.num_rows)]
        if self.items is not None:
            found = _columns_table(self.items.notes, num_rows=None)
            found.title, found.title_justify = "Columns of the catalogue", "left"
            shown += [Text(), found]
        return Group(*(Text(line) for line in self.lines()), Text(), *shown)


def _columns_table(notes: Iterable[ColumnNote], *, num_rows: int | None) -> Table:
    """Return a row a column; the share of missing values where the number of rows is known."""
    table = Table("column", "kind", "distinct", "missing", "how, or why it was left out", box=HORIZONTALS)
    for note in notes:
        missing = f"{note.missing / max(1, num_rows):.1%}" if num_rows is not None else f"{note.missing:,}"
        cells = (note.column, note.kind or "left out", f"{note.distinct:,}", missing, _untold(note))
        table.add_row(*(Text(cell) for cell in cells))
    for column in table.columns[2:4]:
        column.justify = "right"
    return table


def _untold(note: ColumnNote) -> str:
    """Return the reason of a note without its warning, which stands above the table."""
    told = note.warning.removeprefix("left out: ")
    return note.reason.replace(told, "see the warning") if told else note.reason


def inspect_table(
    recipe: Recipe,
    *,
    overrides: Mapping[str, str] | None = None,
    source: Frame | None = None,
    has_tokens: bool = True,
) -> Inspection:
    """Look at the table of a recipe, of sets or texts. Of a large transaction log the first rows alone are read.

    Args:
        recipe: the table, its columns, the item filters and the split, as for ``run``.
        overrides: column -> a kind of feature or "ignore".
        source: the table, where it is in memory: pyarrow, pandas, polars or `datasets`.
        has_tokens: count texts in tokens too, with the tokenizer of the recipe's checkpoint; False never loads it.

    Raises:
        DataError, UnknownNameError: a fault of the table that ``train`` would stop at too.
        CheckpointError: texts, and no tokenizer there.
    """
    log = log_of_large_file(recipe) if source is None else None
    if log is not None:
        told = f"read {log[1]} of {recipe.data}, which is large"
        return Inspection(None, (), 0, (told,), (), (), log=log[0], is_whole=False)
    overrides = dict(overrides or {})
    # A column that an override makes a feature must have one value in each group.
    needed = [name for name, kind in overrides.items() if kind != "ignore"]
    rows = read_data(recipe, source, codes=overridden_codes(overrides), needed=needed)
    order = unordered = None
    if recipe.task.has_items and recipe.set_task.order is None and not recipe.task.grouping:
        times = column_of_times(recipe.changed(exclude=(*recipe.exclude, *overrides)), rows.table)
        if times is not None:
            order, unordered = (times.name, None) if times.is_in_order else (None, times.name)
        recipe = recipe.changed(order=order) if order is not None else recipe
    with rows.placed():
        return replace(_inspection(recipe, rows, overrides, has_tokens=has_tokens), order=order, unordered=unordered)


def _inspection(recipe: Recipe, rows: RunTable, overrides: Mapping[str, str], *, has_tokens: bool) -> Inspection:
    """Return what is found in a table with one row a set or text."""
    table, left_out = rows.table, rows.left_out
    exclude = [name for name in not_context(recipe, overrides) if name not in left_out]
    overrides = {name: kind for name, kind in overrides.items() if name not in left_out}
    sensitive = [name for name in recipe.sensitive if name not in left_out]
    check_has_columns((*exclude, *overrides, *sensitive), table, file=recipe.data)
    split, sentence = split_of(recipe, table, sizes=rows.sizes)
    counted_rows, cold_items = (split.rows("train"), split.cold_items) if split is not None else (None, ())
    examples = rows.examples(recipe, count_rows=counted_rows, cold_items=cold_items)
    training = split.select(examples, "train") if split is not None else examples
    in_a_part = examples.select(split.is_in_part[examples.rows]) if split is not None else examples
    found = inferred(
        recipe,
        training.table,
        training.rows,
        split,
        exclude=exclude,
        everywhere=in_a_part.table,
        overrides=overrides,
        left_out=tuple(left_out),
    )
    items, item_lines, log = None, list[str](), None
    if isinstance(training, SetTable) and isinstance(examples, SetTable):
        log = log_columns(recipe, rows, examples)
        look = look_at_sets(training)
        if recipe.set_task.catalogue is not None:
            learned = Vocabulary(training.distinct_items(), reserved=RESERVED_ITEMS)
            _, items, _, item_lines = catalogue_features(recipe, learned)
    else:
        look = look_at_texts(table, recipe, split, has_tokens=has_tokens)
    faults = [*look.faults]
    schema, leaking = found.schema, tuple[str, ...]()
    if split is not None:
        leaks = audit_of(split, examples, found.schema, groups=rows.groups)
        if recipe.leaks == "drop":
            schema, leaking = without_leaks(schema, leaks, overrides)
        parts = {part: split.select(examples, part) for part in PARTS}
        faults += [*fault_lines(leaks), *leak_lines(leaking)]
        faults += shift_lines(
            parts, schema=found.schema, has_customer=recipe.customer not in left_out, file=recipe.data
        )
    varying = tuple(ColumnNote(name, None, reason, 0, 0) for name, reason in left_out.items())
    return Inspection(
        schema=schema if schema.features else None,
        is_split=split is not None,
        notes=(*noted_leaks(found.notes, leaking), *varying),
        num_rows=len(training),
        reading=(*rows.lines(), *examples.lines(), *look.lines, *item_lines),
        basis=(sentence, *by_time_lines(recipe, found, training.table, overrides, split=split)),
        faults=(
            *faults,
            *customer_warnings(recipe, examples.table),
            *found.warnings(),
            *alike_values(found.schema, training.table),
        ),
        items=items,
        log=log,
    )


def noted_leaks(notes: Iterable[ColumnNote], leaking: Sequence[str]) -> tuple[ColumnNote, ...]:
    """Return the notes on columns, with those that were left out as leaks marked so."""
    return tuple(
        replace(note, kind=None, reason=f"a leak, see above; override to keep it: {note.reason}")
        if note.column in leaking
        else note
        for note in notes
    )


def shift_lines(
    parts: Mapping[str, SetTable | TextTable], *, schema: ContextSchema, has_customer: bool, file: str
) -> list[str]:
    """Return what ``train`` will say of differences between the parts: of fields, and of items or labels.

    Args:
        parts: part -> its sets or texts.
        schema: what the context consists of.
        has_customer: False where rows are counted in the place of customers.
        file: path of the table, for errors.

    Raises:
        DataError: a value of some part that is none, with its row.
    """
    known = dict[str, PartRows]()
    for part, examples in parts.items():
        try:
            if len(examples) and schema.features:
                customer = examples.customer if has_customer else None
                known[part] = encoded_rows(examples.table, schema, customer=customer)
        except DataError as error:
            raise placed(error, examples.rows, file=file) from error
    part = "test" if len(parts["test"]) else "validation"
    learned, asked = parts[LEARNED].names, parts[part].names
    is_compared = learned is not None and asked is not None
    drift = name_drift(learned, asked, part=part, what=parts[part].named) if is_compared else []
    return [*field_lines(schema, known), *drift]


def overridden_codes(overrides: Mapping[str, str]) -> tuple[str, ...]:
    """Return the columns whose override is a kind of codes, so that they are read as they are spelt."""
    return tuple(name for name, kind in overrides.items() if kind in KINDS and KINDS[kind].has_codes)


def check_has_columns(names: Iterable[str], table: pa.Table, *, file: str) -> None:
    """Raise UnknownNameError for a column that the table lacks, with the closest one."""
    for name in names:
        if name not in table.column_names:
            raise UnknownNameError(
                f"There is no column {name!r} in {file}",
                place=TablePlace(lacking=(name,)),
                allowed=did_you_mean(name, table.column_names),
            )


def fault_lines(found: Audit) -> list[str]:
    """A sentence for each fault."""
    return [f"{fault.severity}: {fault.message}" for fault in found.faults]


def split_of(recipe: Recipe, table: pa.Table, *, sizes: Sequence[int] = ()) -> tuple[Split | None, str]:
    """The split that ``train`` makes, None where the table cannot be split; and where features are found."""
    try:
        split = make_split(recipe, table, sizes=sizes)
    except DataError as error:
        if error.column is not None and error.row is not None:
            raise
        return None, joined("features found in all rows, for the table cannot be split: ", in_message(error))
    share = len(split.rows("train")) / len(split.assignment)
    of = f" of {split.column}" if split.column is not None else ""
    return split, f"features found in the training part ({share:.1%}) of the split by {split.by}{of} that train makes"


def by_time_lines(
    recipe: Recipe,
    found: InferredSchema,
    training: pa.Table,
    overrides: Mapping[str, str],
    *,
    split: Split | None,
) -> list[str]:
    """Return a sentence on the features that a split by time would leave out, none where there are none.

    Args:
        recipe: says how dates are written.
        found: the features, inferred for a split that is not by time.
        training: the rows that they were found in.
        overrides: column -> the kind that was asked for.
        split: where it is by time, the features are those already.
    """
    if split is not None and split.by == "time":
        return []
    formats, columns = recipe.reading.date_formats, found.schema.columns
    dates = [note.column for note in found.notes if note.kind == DATE or note.remark]
    clock = clock_of(training, split_by=None, candidates=dates, date_formats=formats)
    if clock is None:
        return []
    read = training.select([name for name in training.column_names if name in {*columns, clock.column}])
    asked = SchemaSettings(
        exclude=() if clock.column in columns else (clock.column,),
        overrides={name: kind for name, kind in overrides.items() if name in columns},
        min_count=1,
        max_categories=max(1, training.num_rows),
        date_formats=formats,
        time=clock.column,
    )
    kept = infer_features(read, asked).schema.names
    lost = [name for name in found.schema.names if name not in kept]
    listed = ", ".join(map(repr, lost))
    return [f"under a split by time (of {clock.column!r}) no feature either: {listed}"] if lost else []


def _frequencies(sets: SetTable) -> list[tuple[str, float]]:
    """Items and the share of sets they occur in, the most frequent first."""
    counted = sets.values.value_counts()
    counts = np.asarray(counted.field(1))
    order = np.argsort(-counts, kind="stable")[:100]
    return [(counted.field(0)[int(index)].as_py(), int(counts[index]) / max(1, len(sets))) for index in order]


def look_at_sets(training: SetTable) -> Look:
    """Say which items of the training part are most frequent, and which are in nearly every set."""
    frequencies, several = _frequencies(training), plural(training.report.noun)
    listed = ", ".join(f"{item} ({share:.0%} of the {several})" for item, share in frequencies[:_NUM_FREQUENT])
    common = [item for item, share in frequencies if share >= _NEARLY_EVERY_SET]
    advice = (
        f"warning: {', '.join(common)} are in {_NEARLY_EVERY_SET:.0%} of the {several} or more: nobody has to know "
        f"anything to guess them; consider --drop-items {','.join(common)}"
    )
    return Look([f"most frequent items: {listed}"], [advice] if common else [])
