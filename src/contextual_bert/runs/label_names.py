"""The labels of a table: their names in the order of their ids, what is wrong with them, which cannot be learned."""

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from contextual_bert.arrow_types import is_list, is_single, value_type
from contextual_bert.context import alike_warning, canonical
from contextual_bert.context.spelling import FLOAT, alike
from contextual_bert.data import Split
from contextual_bert.data.checked_columns import odd_names
from contextual_bert.data.splits import PARTS
from contextual_bert.data.text_table import label_values
from contextual_bert.errors import NAME, DataError, Message, joined
from contextual_bert.evaluation import has_grades
from contextual_bert.nouns import agreeing, counted
from contextual_bert.runs.shifts import single_lines
from contextual_bert.training.recipe import Recipe

NUM_SHOWN = 12  # labels that a sentence names


def check_whole_texts(table: pa.Table, recipe: Recipe, *, what: str, setting: str) -> None:
    """Raise DataError where texts are lists of words, which have a tag each.

    Args:
        table: the texts.
        recipe: names their column.
        what: is learned of whole texts.
        setting: of the task, that asks for it.
    """
    column = recipe.text_task.text
    if is_list(table.schema.field(column).type):
        raise DataError(
            f"the column holds lists of words, and {what} are of whole texts",
            file=recipe.data,
            column=column,
            fix=Message(f"Give a column of text, or leave {{{setting}}} out to learn tags.", **{setting: True}),
        )


def label_names(
    column: pa.ChunkedArray, file: str, name: str, *, is_ordinal: bool = False, order: Sequence[str] = ()
) -> tuple[str, ...]:
    """The labels or tags of a column, sorted; grades of one scale from the lowest to the highest.

    Whole numbers may be floats, as pandas has them where one is missing: 1.0 is the label "1". Halves are labels, too,
    and grades may be other fractions. A grade of ``order`` that is a number is named as the cells spell it.

    Args:
        column: the labels, or lists of tags.
        file: where the column comes from, for messages.
        name: of the column, for messages.
        is_ordinal: the labels are grades of one scale.
        order: all grades, the lowest first; none takes numbers in their order.

    Raises:
        DataError: numbers with a fraction instead of classes, or less than two classes; grades that are tags, have no
            order or are not in ``order``; neither labels nor lists of them.
    """
    kind = value_type(column.type)
    if not is_single(value_type(kind.value_type) if is_list(kind) else kind):
        raise DataError(
            f"the column is of type {column.type}, which says no label",
            file=file,
            column=name,
            fix="Give names or whole numbers, or lists of tags.",
        )
    if is_ordinal and is_list(column.type):
        asked = "order" if order else "is_ordinal"
        raise DataError(
            f"the column is of type {column.type}: tags of words, and no grades of one scale",
            file=file,
            column=name,
            fix=Message(f"Leave {{{asked}}} out.", **{asked: NAME}),
        )
    values = label_values(column)
    names = sorted(pc.unique(values.drop_null()).to_pylist())
    fraction = next((each for each in names if isinstance(each, float) and not each.is_integer()), None)
    fraction = _spelt_fraction(names) if fraction is None else fraction
    num_values = len(values) - values.null_count
    if fraction is not None and not order:
        fault = _fault_of_fraction(fraction, names, num_values, is_ordinal=is_ordinal)
        if fault is not None:
            row = None if is_list(column.type) else _row_of(fraction, values)
            raise DataError(fault[0], file=file, row=row, column=name, fix=fault[1])
    spelt = _spelt_as_in_cells(order, [canonical(each) for each in names], file=file, column=name)
    stray = next((each for each in names if canonical(each) not in spelt), None) if order else None
    if stray is not None:
        raise DataError(
            f"the label {canonical(stray)!r} is not in the order {some_labels(order)}",
            file=file,
            row=_row_of(stray, values),
            column=name,
            fix=Message("Name it in {order} where it belongs, or correct the cell.", order=NAME),
        )
    names = list(dict.fromkeys(canonical(each) for each in names))  # -0.0 is 0
    if len(names) < 2:
        raise DataError(f"only the label {names} occurs", file=file, column=name, fix="Give two labels or more.")
    if order:
        return spelt
    if not is_ordinal:
        return tuple(names)
    if not has_grades(names):
        raise DataError(
            f"the labels {some_labels(names)} are no numbers, and as grades of one scale they need an order",
            file=file,
            column=name,
            fix=Message(
                "Name all of them with {order}, the lowest first, or leave {is_ordinal} out.",
                order=NAME,
                is_ordinal=NAME,
            ),
        )
    grades = sorted(names, key=float)
    for low, high in pairwise(grades):
        if float(low) == float(high):
            raise _two_spellings(low, high, file=file, column=name)
    return tuple(grades)


def _spelt_as_in_cells(order: Sequence[str], names: Sequence[str], *, file: str, column: str) -> tuple[str, ...]:
    """Return the grades of an order as the cells spell them: 1 as 1.0, where a cell is 1.0.

    Raises:
        DataError: cells that spell one grade in two ways.
    """
    grade_of = {number: grade for grade in order if (number := _number(grade)) is not None}
    if len(grade_of) < len(order):  # words, or codes such as 10.1 and 10.10
        return tuple(order)
    spelt: dict[str, str] = {}
    for name in names:
        grade = grade_of.get(number) if (number := _number(name)) is not None else None
        if grade is not None and spelt.setdefault(grade, name) != name:
            raise _two_spellings(spelt[grade], name, file=file, column=column)
    return tuple(spelt.get(grade, grade) for grade in order)


def _number(name: str) -> float | None:
    return float(name) if re.fullmatch(FLOAT, name) else None


def _two_spellings(low: str, high: str, *, file: str, column: str) -> DataError:
    return DataError(
        f"the labels {low!r} and {high!r} are one number, and two grades of a scale",
        file=file,
        column=column,
        fix=Message("Write each grade in one way, or leave {is_ordinal} out.", is_ordinal=NAME),
    )


def _fault_of_fraction(
    fraction: float | str, names: Sequence[object], num_values: int, *, is_ordinal: bool
) -> tuple[str, str] | None:
    """Return why a number with a fraction is no label, and what to do; None of a grade.

    A grade is one where most grades occur twice. Without an order it is a class where all are halves.
    """
    is_grade = math.isfinite(_number_of(fraction)) and (len(names) < 3 or 2 * len(names) <= num_values)
    if is_grade and (is_ordinal or all((2 * _number_of(each)).is_integer() for each in names)):
        return None
    problem = f"the label {fraction} is no whole number and no half grade: these are numbers and no classes"
    fix: str = "Give whole numbers or names, such as bins of the numbers"
    if is_ordinal and math.isfinite(_number_of(fraction)):
        problem = f"{len(names):,} numbers, such as {fraction}, are no grades: hardly one occurs twice"
    elif is_grade:
        fix = Message(f"{fix}, or {{is_ordinal}} where they are grades of one scale", is_ordinal=NAME)
    return problem, joined(fix, Message("; or learn the numbers themselves: {is_regression}.", is_regression=True))


def _row_of(label: object, values: pa.ChunkedArray) -> int:
    """Return the first row with a label."""
    return pc.index(values, pa.scalar(label, values.type)).as_py()


def _spelt_fraction(names: Sequence[object]) -> str | None:
    """The first number with a fraction where all labels are spelt numbers, and no two of them the same one.

    Where "10.1" stands beside "10.10" they are codes. A comma is a decimal mark where no label has a point.
    """
    has_comma = not any("." in str(name) for name in names)
    spelt = [str(name).replace(",", ".", 1) if has_comma else str(name) for name in names]
    if not all(isinstance(name, str) for name in names) or not all(re.fullmatch(FLOAT, each) for each in spelt):
        return None
    numbers = [float(each) for each in spelt]
    if len(set(numbers)) < len(numbers):
        return None
    return next((str(name) for name, number in zip(names, numbers, strict=True) if not number.is_integer()), None)


def _number_of(label: object) -> float:
    return float(str(label).replace(",", "."))


def label_warnings(table: pa.Table, names: Sequence[str], label: str, split: Split | None) -> list[str]:
    """Sentences on labels that are one to a person who reads them, and on those that no training row has.

    Args:
        table: the texts.
        names: of ``label_names``.
        label: the column of the labels.
        split: which rows are for training, None where that is not known.
    """
    found = [warning for group in alike(names) for warning in alike_warning(group, what="the labels", each="a class")]
    found += odd_names(pa.array(names, pa.string()), what="the labels", each="a class")
    if split is None:
        return found
    counts = {part: label_counts(table.column(label).take(pa.array(split.rows(part)))) for part in PARTS}
    lacking = [name for name in names if name not in counts["train"]]
    if lacking:
        shares = _shares_of(lacking, counts)
        found.append(
            f"warning: no row of the training part has the {'label' if len(lacking) == 1 else 'labels'} "
            f"{some_labels(lacking)}{f' ({shares})' if shares else ''}: "
            f"{'it' if len(lacking) == 1 else 'they'} cannot be learned"
        )
    return [*found, *single_lines(counts, column=label, what="label")]


def label_counts(column: pa.ChunkedArray) -> Counter[str]:
    """Return label -> how often it occurs."""
    found = Counter[str]()
    for each in pc.value_counts(label_values(column).drop_null()).to_pylist():
        found[canonical(each["values"])] += int(each["counts"])
    return found


def _shares_of(names: Sequence[str], counts: Mapping[str, Counter[str]]) -> str:
    """Return the share of some labels in each part that has one of them."""
    shares = {part: sum(own[name] for name in names) / own.total() for part, own in counts.items() if own.total()}
    return ", ".join(f"{share:.1%} of the {part} part" for part, share in shares.items() if share)


def some_labels(names: Sequence[str]) -> str:
    """The first of them.

    Example:
        >>> some_labels(["bad", "good"])
        'bad, good'
    """
    return ", ".join(names[:NUM_SHOWN]) + (", ..." if len(names) > NUM_SHOWN else "")


def several_line(sizes: NDArray[np.int64], *, what: str) -> str:
    """Return a sentence on how many labels texts have.

    Args:
        sizes: labels of each text.
        what: the texts are called.

    Example:
        >>> several_line(np.array([2, 0, 1]), what="text")
        'labels a text: 1.00 on average, 2 at most; 1 of 3 texts has none'
    """
    none = int((sizes == 0).sum())
    lacking = f"; {none:,} of {counted(len(sizes), what)} {agreeing('have', none)} none" if none else ""
    line = f"labels a text: {sizes.mean():.2f} on average, {sizes.max():,} at most{lacking}"
    if sizes.max() < 2:
        line = f"warning: no {what} has two labels, so one label a text is what is to be learned; {line}"
    return line
