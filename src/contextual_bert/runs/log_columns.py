"""Signs that a table of sets is a transaction log: one item a row, users who come again, and times."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from contextual_bert.arrow_types import decoded, is_text
from contextual_bert.context.dates import are_iso_dates, date_formats_of
from contextual_bert.data import SetTable
from contextual_bert.data.column_codes import codes_of
from contextual_bert.data.large_files import read_first_rows
from contextual_bert.errors import ContextualBertError
from contextual_bert.runs.run_table import RunTable, read_data
from contextual_bert.training.recipe import Recipe

__all__ = ["LogColumns", "log_columns", "log_of_large_file"]

_USER = re.compile(
    r"(?i)(^|[^a-z])(user|customer|client|member|person|account|visitor|household|shopper|listener|kunde)"
)
_TIME = re.compile(r"(?i)(^|[^a-z])(time|timestamp|date|day|ts|at)($|[^a-z])")
_NUM_LOOKED_AT = 1_000_000  # rows
_SECONDS, _MILLISECONDS = (1e8, 1e10), (1e11, 1e13)  # since 1970, as computers count
_LEAST_AGAIN = 0.5  # of the users have several times


@dataclass(frozen=True)
class LogColumns:
    """Columns of a transaction log.

    Args:
        user, item, time: their names.
        basket: the column that names a basket, where rows are grouped by one.

    Example:
        >>> LogColumns("customer", "article", "date").options()
        ['--user', 'customer', '--item', 'article', '--time', 'date']
    """

    user: str
    item: str
    time: str
    basket: str | None = None

    def options(self) -> list[str]:
        """Return the options of ``contextual-bert histories`` that name the columns."""
        basket = ["--basket", self.basket] if self.basket is not None else []
        return ["--user", self.user, "--item", self.item, "--time", self.time, *basket]

    def line(self) -> str:
        """Return a sentence on what the table looks like."""
        return (
            f"one item a row, and most of {self.user!r} come at several times of {self.time!r}: a transaction log. "
            "Sets with what each had before are made of it by contextual-bert histories; with --sequences one row of "
            "all that each had"
        )


def log_columns(recipe: Recipe, rows: RunTable, sets: SetTable) -> LogColumns | None:
    """Return the columns of a transaction log, None where the table does not look like one.

    Args:
        recipe: names the items, and the customers, times and groups as far as they are known.
        rows: the table, grouped if the recipe says so.
        sets: those of the table.
    """
    task = recipe.set_task
    sizes = np.diff(sets.offsets)
    if rows.groups is None and (not len(sizes) or sizes.max() > 1):
        return None
    table, grouping = rows.table.slice(0, _NUM_LOOKED_AT), task.group_by
    named_group = grouping[0] if len(grouping) == 1 else None
    others = [name for name in table.column_names if name not in (task.items, named_group)]
    time = recipe.time or _time_column(table, others, recipe.reading.date_formats)
    if time is None or time not in table.column_names:
        return None
    times = codes_of(table[time])
    named = [recipe.customer] if recipe.customer is not None else _user_columns(table, others)
    users = [name for name in named if name != time and name in table.column_names and _come_again(table[name], times)]
    return LogColumns(users[0], task.items, time, named_group) if users else None


def log_of_large_file(recipe: Recipe) -> tuple[LogColumns, str] | None:
    """Return the columns of a large file that its first rows show to be a transaction log, and how many rows those are.

    None of a file that is not large or no log, and where the recipe says what is made of its rows: ``group_by`` and
    ``hide``, a split, or other files.

    Args:
        recipe: names the file and the items.
    """
    task = recipe.set_task if recipe.task.has_items else None
    others = (recipe.validation_data, recipe.test_data, recipe.split)
    if task is None or task.group_by or task.hide == "set" or any(each is not None for each in others):
        return None
    columns = {"text_columns": task.text_columns, "code_columns": recipe.code_columns}
    try:
        first = read_first_rows(Path(recipe.data), settings=recipe.reading, **columns)
        if first is None:
            return None
        rows = read_data(recipe, first.table)
        sets = rows.examples(recipe, count_rows=None)
        found = log_columns(recipe, rows, sets) if isinstance(sets, SetTable) else None
    except (ContextualBertError, OSError, pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return None  # it is told of all rows
    return (found, first.share) if found is not None else None


def _time_column(table: pa.Table, names: Sequence[str], formats: Sequence[str]) -> str | None:
    """Return the first column of times: those of their own type come before text, and text before numbers."""
    found = dict[int, str]()
    for name in names:
        cells = decoded(table[name])
        kind = cells.type
        if cells.null_count == len(cells):
            continue
        if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
            found.setdefault(0, name)
        elif is_text(kind) and (date_formats_of(cells, formats) or are_iso_dates(cells)):
            found.setdefault(1, name)
        elif pa.types.is_integer(kind) and _TIME.search(name):
            ends = pc.min_max(cells)
            low, high = ends["min"].as_py(), ends["max"].as_py()
            if any(least <= low and high < most for least, most in (_SECONDS, _MILLISECONDS)):
                found.setdefault(2, name)
    return found[min(found)] if found else None


def _user_columns(table: pa.Table, names: Sequence[str]) -> list[str]:
    """Return columns that may name users: those that are called so, then text of many values."""
    plain = [name for name in names if is_text(decoded(table[name]).type) or pa.types.is_integer(table[name].type)]
    called = [name for name in plain if _USER.search(name)]
    texts = [name for name in plain if name not in called and is_text(decoded(table[name]).type)]
    return [*called, *sorted(texts, key=lambda name: -pc.count_distinct(table[name]).as_py())]


def _come_again(users: pa.ChunkedArray, times: NDArray[np.int64]) -> bool:
    """Return whether there are several users, and most of them have several times."""
    codes = codes_of(users)
    num_times = int(times.max()) + 1
    per_user = np.bincount(np.unique(codes * num_times + times) // num_times)
    per_user = per_user[per_user > 0]
    return len(per_user) > 1 and float((per_user > 1).mean()) >= _LEAST_AGAIN
