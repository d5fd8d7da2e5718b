"""``audit`` for tables of texts: leaks of a split, and of the context's columns to the labels.

Three questions. Does a text of one part stand in another? Is a customer in two parts? Do the rows that share a value of
a column have nearly all the same label? The last one is judged against the same column shuffled, so that a label that
nearly every row has is not taken for a leak. It changes nothing, and knows no model. docs/protocol.md, "Splits".
"""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from contextual_bert.arrow_types import decoded, is_list, is_text
from contextual_bert.data.audit import Audit, Fault, first_rows, same_customer
from contextual_bert.data.checked_columns import checked_column
from contextual_bert.data.column_codes import codes_of, is_identifier, shuffled
from contextual_bert.data.hashing import hash_counters
from contextual_bert.data.splits import PARTS, Split
from contextual_bert.nouns import agreeing, counted

__all__ = ["audit_texts", "joined_words"]

# Of the rows, in excess of the shuffled column: people may always give the same grade, whole tables do not.
_SHARE = 0.1
_LEAK_SHARE = 0.5
_GROUP = 20  # rows a value needs before "always this label" is more than a coincidence
_ALWAYS = 0.99


def audit_texts(
    split: Split,
    table: pa.Table,
    *,
    text: str,
    pair: str | None = None,
    label: str | None = None,
    customer: str | None = None,
    columns: Sequence[str] = (),
) -> Audit:
    """Look for leaks between the parts of a split of texts, and from the columns to the labels.

    Args:
        split: of this table.
        table: all rows.
        text: column of texts, or of lists of words.
        pair: column of second texts.
        label: column of labels, or of lists of tags; of tags no column is asked whether it tells them.
        customer: column that says whose text it is; without one that check is left out, and said.
        columns: those that are a context.

    Example:
        >>> from contextual_bert.data import split_by_row
        >>> table = pa.table({"text": ["the same"] * 60, "label": ["good", "bad"] * 30, "sign": ["+", "-"] * 30})
        >>> split = split_by_row(table, validation=0.2, test=0.2)
        >>> [fault.kind for fault in audit_texts(split, table, text="text", label="label", columns=["sign"]).faults]
        ['duplicate_text', 'duplicate_text', 'column_determines_label']
    """
    parts, rows = split.assignment.astype(np.int64), np.arange(table.num_rows)
    texts = joined_words(checked_column(table, text))
    written = pc.fill_null(pc.not_equal(pc.utf8_trim_whitespace(texts), ""), False).to_numpy(zero_copy_only=False)
    keys = hash_counters(codes_of(texts), codes_of(checked_column(table, pair)) if pair is not None else 0)
    alike = keys
    compared = [name for name in columns if not is_identifier(table.column(name))]
    for name in (*([label] if label is not None else []), *compared):
        column = table.column(name)
        alike = hash_counters(alike.view(np.int64), codes_of(joined_words(column) if name == label else column))
    faults = _duplicate_texts(
        np.where(written, parts, len(PARTS)), keys, alike, num_compared=len(compared), has_label=label is not None
    )
    if customer is not None:
        faults += same_customer(table, parts, customer, by=split.by, rows=rows)
    has_classes = label is not None and not pa.types.is_nested(table.schema.field(label).type)
    for name in columns if has_classes and label is not None else ():
        faults += _determines_label(name, codes_of(table.column(name)), codes_of(table.column(label)))
    checked = (
        f"equal texts in two parts ({counted(table.num_rows, 'text')})",
        f"customers in two parts ({customer})"
        if customer
        else "customers in two parts: NOT checked, no customer column was named",
        f"columns that tell the label ({len(columns)})" if has_classes else "columns that tell the label: NOT checked",
    )
    return Audit(tuple(faults), checked)


def joined_words(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Lists of words as one text each, categories as their names; what is neither stays as it is.

    Example:
        >>> joined_words(pa.chunked_array([[["a", "b"], ["c"]]])).to_pylist()
        ['a b', 'c']
    """
    column = decoded(column)
    kind = column.type
    is_words = is_list(kind) and is_text(kind.value_type)
    return pc.binary_join(column.cast(pa.list_(pa.string())), " ") if is_words else column


def _duplicate_texts(
    parts: NDArray[np.int64],
    keys: NDArray[np.uint64],
    alike: NDArray[np.uint64],
    *,
    num_compared: int,
    has_label: bool,
) -> list[Fault]:
    """The same text in two parts: a leak where most have label and context alike, else several people's views."""
    faults: list[Fault] = []
    for later, earlier in ((1, (0,)), (2, (0, 1))):
        own, before = parts == later, np.isin(parts, earlier)
        seen = own & np.isin(keys, keys[before])
        copied = own & np.isin(alike, alike[before])
        if not seen.any():
            continue
        where = " or ".join(PARTS[part] for part in earlier)
        what = [
            *(["label"] if has_label else []),
            *([f"value in {counted(num_compared, 'column')}"] if num_compared else []),
        ]
        same = f", {int(copied.sum()):,} of them with the same {' and the same '.join(what)}" if what else ""
        message = (
            f"{int(seen.sum()):,} of {counted(int(own.sum()), f'{PARTS[later]} text')} ({seen.sum() / own.sum():.1%}) "
            f"{agreeing('occur', int(seen.sum()))} in {where} too, word for word{same}. Where these are "
            "copies, remove them; where several people read one text, name the text as the customer, or say so beside "
            "the score"
        )
        # Where several people read one text, some of them are alike and say the same by chance.
        is_copied = 2 * copied.sum() > seen.sum()
        severity, shown = ("leak", copied) if is_copied else ("warning", seen)
        faults.append(
            Fault("duplicate_text", severity, message, int(seen.sum()), first_rows(np.arange(len(parts)), shown))
        )
    return faults


def _determines_label(name: str, values: NDArray[np.int64], labels: NDArray[np.int64]) -> list[Fault]:
    """Have nearly all rows that share a value the same label, in more of the rows than by chance?"""

    def told(values: NDArray[np.int64]) -> NDArray[np.bool_]:
        rows_of = np.bincount(values)
        width = int(labels.max()) + 1
        group, count = np.unique(values * width + labels, return_counts=True)
        most = np.zeros(len(rows_of), dtype=np.int64)
        np.maximum.at(most, group // width, count)
        return ((rows_of >= _GROUP) & (most >= _ALWAYS * rows_of))[values]

    found = told(values)
    if found.mean() - told(values[shuffled(len(values))]).mean() <= _SHARE:
        return []
    share = float(found.mean())
    message = (
        f"the column {name!r} tells the label: in {share:.1%} of the rows, all rows of its value have the same one; "
        "leave it out of the context if it is known only after the label"
    )
    rows = first_rows(np.arange(len(values)), found)
    return [
        Fault(
            "column_determines_label",
            "leak" if share > _LEAK_SHARE else "warning",
            message,
            int(found.sum()),
            rows,
            name,
        )
    ]
