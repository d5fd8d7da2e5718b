"""From a table with a column of text to token ids, labels and contexts: whole columns at once.

A text that is too long is cut as asked, and counted; a label is never guessed. Knows no model.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import torch
from numpy.typing import NDArray

from contextual_bert.context import encode_table
from contextual_bert.data import TextDataset
from contextual_bert.data.columns import checked_column
from contextual_bert.data.ragged import offsets_of, places_of
from contextual_bert.errors import ConfigurationError, DataError
from contextual_bert.models import IGNORED_LABEL, ContextualBertProcessor

Truncation = Literal["head", "head_tail"]
HEAD_SHARE = 0.25  # of the kept tokens, with head_tail: 128 of 510 in MA-BERT's code


@dataclass(frozen=True)
class TextReport:
    """What became of the texts of a table.

    Args:
        num_texts: texts encoded.
        num_cut: texts that were longer than allowed.
        max_length: tokens allowed in a text, [CLS] and [SEP] included.
        unknown: feature -> context value that the schema does not know -> how often it occurred.
    """

    num_texts: int
    num_cut: int
    max_length: int
    unknown: dict[str, dict[str, int]]

    def lines(self) -> list[str]:
        """For people."""
        found = [f"{self.num_texts:,} texts, {self.num_cut:,} of them cut to {self.max_length} tokens"]
        for feature, values in self.unknown.items():
            found.append(f"context {feature!r}: {sum(values.values()):,} rows have values never seen in training")
        return found


@dataclass(frozen=True, eq=False)
class EncodedTexts:
    """A data set, the labels' names in the order of their ids, and what became of the texts."""

    dataset: TextDataset
    labels: tuple[str, ...]
    report: TextReport


def encode_texts(
    table: pa.Table,
    processor: ContextualBertProcessor,
    *,
    text: str,
    pair: str | None = None,
    label: str | None = None,
    labels: Sequence[str] | None = None,
    max_length: int | None = None,
    truncation: Truncation = "head",
) -> EncodedTexts:
    """Encode a table with a column of text, or of lists of words that each have a tag.

    Args:
        table: the rows.
        processor: for text; its schema says which columns are the context.
        text: name of the column of texts; a column of lists of words where ``label`` is one of lists of tags.
        pair: name of a column of second texts.
        label: name of the column to learn: names or whole numbers of classes, fractional numbers, or lists of tags.
        labels: the classes or tags, in the order of their ids; None takes those that occur, sorted; ``()`` says that
            whole numbers are numbers, not classes.
        max_length: tokens kept of a text, [CLS] and [SEP] included; None: as many as the tokenizer allows.
        truncation: what is kept of a longer text: its "head", or the first quarter and the end ("head_tail").

    Raises:
        UnknownNameError: no such column.
        DataError: a cell that is missing, no text, no label, or a list of tags of another length than its words.
        ConfigurationError: settings that do not go together.

    Example:
        >>> from contextual_bert.testing import miniature_text_processor
        >>> table = pa.table({"text": ["word1 word2", "word3"], "stars": [5, 1], "sex": ["f", "m"]})
        >>> encoded = encode_texts(table, miniature_text_processor(), text="text", label="stars")
        >>> encoded.dataset[0]["input_ids"].tolist(), encoded.labels
        ([3, 6, 7, 4], ('1', '5'))
    """
    if truncation not in get_args(Truncation):
        raise ConfigurationError(f"truncation={truncation!r}: give 'head' or 'head_tail'.")
    tokenizer: Any = processor.tokenizer
    limit = int(min(tokenizer.model_max_length, 10**9)) if max_length is None else max_length
    room = limit - (3 if pair is not None else 2)
    if room < 1:
        raise ConfigurationError(f"max_length={limit} leaves no room for a text beside [CLS] and [SEP]. Give more.")
    column = checked_column(table, text, complete=True)
    has_words = _is_list(column.type)
    if pair is not None and (has_words or truncation == "head_tail"):
        raise ConfigurationError("Pairs are two columns of text, cut at their ends: give no words and no 'head_tail'.")
    first = _words(column, tokenizer, text) if has_words else _tokens(column, tokenizer, text)
    second = _tokens(checked_column(table, pair, complete=True), tokenizer, pair) if pair is not None else None
    sizes = np.diff(first.offsets)
    kept = np.minimum(sizes, room)
    if second is not None:
        # As the tokenizers do it: the longer text is cut until both are of a length, then both.
        others = np.diff(second.offsets)
        shorter = np.minimum(np.minimum(sizes, others), room // 2)
        kept = np.where(sizes <= others, shorter, np.minimum(sizes, room - shorter))
        kept_others = np.where(sizes <= others, np.minimum(others, room - shorter), shorter)
        layout, num_cut = _Layout(kept, kept_others), int(((kept < sizes) | (kept_others < others)).sum())
    else:
        layout, num_cut = _Layout(kept, None), int((kept < sizes).sum())
    head = np.ceil(kept * HEAD_SHARE).astype(np.int64) if truncation == "head_tail" else kept
    source = _chosen(first.offsets, kept, head)
    ids = layout.empty(tokenizer.sep_token_id)
    ids[layout.offsets[:-1]] = tokenizer.cls_token_id
    ids[layout.first()] = first.values[source]
    if second is not None:
        ids[layout.second()] = second.values[_chosen(second.offsets, layout.second_sizes, layout.second_sizes)]
    targets, names = None, tuple(labels or ())
    if label is not None and first.word_of is not None:
        tags, names = _tags(checked_column(table, label, complete=True), column, label, labels)
        targets = layout.empty(IGNORED_LABEL)
        is_word_start = np.diff(first.word_of, prepend=-1) > 0
        targets[layout.first()] = np.where(is_word_start, tags[first.word_of], IGNORED_LABEL)[source]
    elif label is not None:
        targets, names = _targets(checked_column(table, label, complete=True), label, labels)
    schema = processor.schema
    context = encode_table(schema, table) if schema is not None else None
    dataset = TextDataset(
        torch.from_numpy(ids),
        torch.from_numpy(layout.offsets),
        context=context.tensors if context is not None else {},
        labels=torch.from_numpy(targets) if targets is not None else None,
        second_starts=torch.from_numpy(layout.first_sizes + 2) if second is not None else None,
        pad_id=tokenizer.pad_token_id,
    )
    report = TextReport(table.num_rows, num_cut, limit, context.unknown if context is not None else {})
    return EncodedTexts(dataset, names, report)


@dataclass(frozen=True, eq=False)
class _Tokens:
    """Token ids of all texts, flat; for words also which word each token is of."""

    values: NDArray[np.int64]
    offsets: NDArray[np.int64]
    word_of: NDArray[np.int64] | None = None


class _Layout:
    """Where the tokens of [CLS] first [SEP] or [CLS] first [SEP] second [SEP] stand in one flat array."""

    def __init__(self, first_sizes: NDArray[np.int64], second_sizes: NDArray[np.int64] | None) -> None:
        self.first_sizes = first_sizes
        self.second_sizes = np.zeros_like(first_sizes) if second_sizes is None else second_sizes
        num_special = 2 if second_sizes is None else 3
        self.offsets = offsets_of(first_sizes + self.second_sizes + num_special)

    def empty(self, value: int) -> NDArray[np.int64]:
        return np.full(int(self.offsets[-1]), value, dtype=np.int64)

    def first(self) -> NDArray[np.int64]:
        return np.repeat(self.offsets[:-1] + 1, self.first_sizes) + places_of(self.first_sizes)

    def second(self) -> NDArray[np.int64]:
        starts = self.offsets[:-1] + self.first_sizes + 2
        return np.repeat(starts, self.second_sizes) + places_of(self.second_sizes)


def _chosen(offsets: NDArray[np.int64], kept: NDArray[np.int64], head: NDArray[np.int64]) -> NDArray[np.int64]:
    """Where the kept tokens lie: the first ``head`` of each text and the rest from its end."""
    places = places_of(kept)
    skipped = np.repeat(np.diff(offsets) - kept, kept) * (places >= np.repeat(head, kept))
    return np.repeat(offsets[:-1], kept) + places + skipped


def _tokens(column: pa.ChunkedArray, tokenizer: Any, name: str) -> _Tokens:
    if not (pa.types.is_string(column.type) or pa.types.is_large_string(column.type)):
        raise DataError(f"the column is of type {column.type}", column=name, fix="Give a column of text.")
    texts: list[str] = column.to_pylist()
    wanted = {"add_special_tokens": False, "return_attention_mask": False, "return_token_type_ids": False}
    rows = tokenizer(texts, verbose=False, **wanted)  # a long text is cut later
    return _flat(rows["input_ids"])


def _words(column: pa.ChunkedArray, tokenizer: Any, name: str) -> _Tokens:
    words = pc.list_flatten(column)
    if words.null_count or not (pa.types.is_string(words.type) or pa.types.is_large_string(words.type)):
        raise DataError(f"the column is of type {column.type}, or a word is missing", column=name, fix="Give words.")
    pieces = _tokens(words, tokenizer, name)
    is_lost = np.diff(pieces.offsets) == 0  # a word of which the tokenizer leaves nothing keeps its place
    values = np.insert(pieces.values, pieces.offsets[:-1][is_lost], tokenizer.unk_token_id)
    sizes = np.where(is_lost, 1, np.diff(pieces.offsets))
    word_of = np.repeat(np.arange(len(sizes)), sizes)
    word_offsets = offsets_of(pc.list_value_length(column).to_numpy().astype(np.int64))
    return _Tokens(values, offsets_of(sizes)[word_offsets], word_of)


def _flat(rows: Sequence[Sequence[int]]) -> _Tokens:
    sizes = np.array([len(row) for row in rows], dtype=np.int64)
    values = np.fromiter((number for row in rows for number in row), dtype=np.int64, count=int(sizes.sum()))
    return _Tokens(values, offsets_of(sizes))


def _tags(
    tags: pa.ChunkedArray, words: pa.ChunkedArray, name: str, labels: Sequence[str] | None
) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    if not _is_list(tags.type):
        raise DataError(f"the column is of type {tags.type}", column=name, fix="Give lists: a tag for each word.")
    lengths = [pc.list_value_length(column).to_numpy() for column in (words, tags)]
    differing = np.flatnonzero(lengths[0] != lengths[1])
    if len(differing):
        row = int(differing[0])
        raise DataError(
            f"{lengths[1][row]} tags for {lengths[0][row]} words", row=row, column=name, fix="Give one tag a word."
        )
    rows = np.repeat(np.arange(len(lengths[1])), lengths[1])
    return _classes(pc.list_flatten(tags), name, labels, rows)


def _targets(column: pa.ChunkedArray, name: str, labels: Sequence[str] | None) -> tuple[NDArray[Any], tuple[str, ...]]:
    if _is_list(column.type):
        raise DataError(
            f"the column is of type {column.type}", column=name, fix="Tags need a text column of lists of words."
        )
    if pa.types.is_floating(column.type) or (labels is not None and not len(labels)):
        return column.cast(pa.float32()).to_numpy(), ()
    return _classes(column, name, labels, np.arange(len(column)))


def _classes(
    column: pa.ChunkedArray, name: str, labels: Sequence[str] | None, rows: NDArray[np.int64]
) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    if labels is None:
        labels = [str(value) for value in sorted(pc.unique(column.drop_null()).to_pylist())]
    ids = pc.index_in(column.cast(pa.string()), value_set=pa.array(list(labels), type=pa.string()))
    unknown = pc.index(pc.is_null(ids), True).as_py()
    if unknown >= 0:
        raise DataError(
            f"the label {column[unknown].as_py()!r} is not among {', '.join(map(repr, labels))}",
            row=int(rows[unknown]),
            column=name,
            fix="Correct the cell, or name all labels with labels=....",
        )
    return ids.to_numpy().astype(np.int64), tuple(labels)


def _is_list(kind: pa.DataType) -> bool:
    return pa.types.is_list(kind) or pa.types.is_large_list(kind)
