"""Read printed lists of words and tags as lists, without importing torch."""

import pyarrow as pa

from contextual_bert.arrow_types import is_list
from contextual_bert.context.printed_lists import as_lists


def with_tag_lists(table: pa.Table, *, text: str, label: str) -> pa.Table:
    """The same table; words and tags that a tool printed into cells of text, such as "['B-PER', 'O']", as lists.

    A column of texts is one of printed words only where the labels are lists, too.

    Raises:
        DataError: one cell is no list, and the others are; with its row.

    Example:
        >>> printed = pa.table({"words": ["['so', 'it']"], "tags": ["['O', 'O']"]})
        >>> with_tag_lists(printed, text="words", label="tags").to_pylist()
        [{'words': ['so', 'it'], 'tags': ['O', 'O']}]
    """
    if label not in table.column_names or text not in table.column_names:
        return table
    tags = table[label] if is_list(table[label].type) else as_lists(table[label].combine_chunks(), name=label)
    if tags is None:
        return table
    words = None if is_list(table[text].type) else as_lists(table[text].combine_chunks(), name=text)
    if words is not None:
        table = table.set_column(table.column_names.index(text), text, words)
    return table.set_column(table.column_names.index(label), label, tags)
