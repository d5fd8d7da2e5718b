"""From a table with a column of text to token ids, labels and contexts: whole columns at once.

A text that is too long is cut as asked, and counted; a label is never guessed. Knows no model.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from contextual_bert.arrow_types import is_list, is_text, with_truth_in_words
from contextual_bert.context import (
    ContextSchema,
    Vocabulary,
    canonical,
    canonical_array,
)
from contextual_bert.context.forms import missing_context
from contextual_bert.data import SequenceDataset, read_table
from contextual_bert.data.checked_columns import checked_column
from contextual_bert.data.spelt_tokens import SpeltTokens
from contextual_bert.data.text_table import with_tag_lists
from contextual_bert.errors import ConfigurationError, DataError
from contextual_bert.frames import Frame
from contextual_bert.inference.queries import check_count
from contextual_bert.inference.texts.text_layout import NO_START, Layout, check_whole, lay_out_texts, token_limit
from contextual_bert.inference.texts.text_reports import TextReport, context_counts, layout_report
from contextual_bert.models import IGNORED_LABEL, ContextualBertProcessor
from contextual_bert.models.truncation import Truncation, check_truncation
from contextual_bert.models.word_characters import spelt_marks, spelt_words


@dataclass(frozen=True, eq=False)
class EncodedTexts:
    """A data set, the labels' names in the order of their ids, and what became of the texts.

    Args:
        dataset: ids, labels and contexts.
        labels: names of the classes or tags.
        report: how many texts there are, and how many are cut.
        is_cut: (texts,), the texts that were longer than allowed.
        word_starts: (tokens,), the word that begins at each token, counted over all texts, -1 where none begins; None
            where the texts are no lists of words.
    """

    dataset: SequenceDataset
    labels: tuple[str, ...]
    report: TextReport

    def with_schema(self, schema: ContextSchema) -> "EncodedTexts":
        """Return the same texts for a schema in which other features are silenced; nothing is tokenized again."""
        known = {shape.name for shape in schema.layout} - {*schema.silenced_names}
        own: Mapping[str, Tensor] = self.dataset.context
        missing = missing_context(schema.layout, len(self.dataset)) if not known else {}
        report = replace(
            self.report,
            unknown={name: values for name, values in self.report.unknown.items() if name in known},
            outside={name: rows for name, rows in self.report.outside.items() if name in known},
            shared={name: values for name, values in self.report.shared.items() if name in known},
        )
        context = {shape.name: own[shape.name] for shape in schema.layout if shape.name in known} or missing
        return replace(self, dataset=self.dataset.with_context(context), report=report)

    is_cut: NDArray[np.bool_]
    word_starts: NDArray[np.int64] | None


def encode_texts(
    table: Frame,
    processor: ContextualBertProcessor,
    *,
    text: str,
    pair: str | None = None,
    label: str | None = None,
    labels: Sequence[str] | None = None,
    max_length: int | NDArray[np.int64] | None = None,
    truncation: Truncation | None = None,
) -> EncodedTexts:
    """Encode a table with a column of text, or of lists of words that each have a tag.

    Args:
        table: the rows: pyarrow, pandas, polars or `datasets`, as ``read_table`` takes them.
        processor: for text; its schema says which columns are the context, and with ``max_characters`` batches have the
            characters of each token's word.
        text: name of the column of texts; a column of lists of words where ``label`` is one of lists of tags.
        pair: name of a column of second texts.
        label: name of the column to learn: names or whole numbers of classes, fractional numbers, lists of tags, or,
            where a text may have several labels, lists with a 0 or a 1 for each.
        labels: the classes or tags, in the order of their ids; None takes those that occur, sorted; ``()`` says that
            whole numbers are numbers, not classes.
        max_length: tokens kept of a text, [CLS] and [SEP] included, or of each text in an array; None: as many as the
            tokenizer allows.
        truncation: what is kept of a longer text: its "head", or the first quarter and the end ("head_tail"); None: as
            the processor says.

    Raises:
        UnknownNameError: no such column.
        DataError: a cell that is missing, no text, no label, or a list of tags of another length than its words.
        ConfigurationError: settings that do not go together, or more tokens than the model reads.

    Example:
        >>> from contextual_bert.testing import miniature_text_processor
        >>> table = pa.table({"text": ["word1 word2", "word3"], "stars": [5, 1], "sex": ["f", "m"]})
        >>> encoded = encode_texts(table, miniature_text_processor(), text="text", label="stars")
        >>> encoded.dataset[0]["input_ids"].tolist(), encoded.labels
        ([3, 6, 7, 4], ('1', '5'))
    """
    kept = processor.truncation if truncation is None else truncation
    check_truncation(kept)
    if not isinstance(table, pa.Table):
        named = (label,) if labels is not None else ()  # without names the labels are numbers
        table = read_table(table, text_columns=(text, pair), code_columns=(*named, *processor.code_columns))
    if label is not None:
        table = with_tag_lists(table, text=text, label=label)
    tokenizer: Any = processor.tokenizer
    if max_length is not None and not isinstance(max_length, np.ndarray):
        check_count("max_length", max_length)
    limit = token_limit(tokenizer, None if max_length is None else int(np.max(max_length, initial=1)))
    limits = limit if max_length is None else max_length
    is_spelt = processor.max_characters is not None
    layout = lay_out_texts(table, tokenizer, text=text, pair=pair, limit=limits, truncation=kept, is_spelt=is_spelt)
    word_starts = layout.word_starts()
    if isinstance(labels, str) or len(set(labels or ())) < len(labels or ()):
        raise ConfigurationError(
            "is not allowed", setting="labels", value=labels, fix="Give the name of each label once, in a list."
        )
    targets, names = None, tuple(labels or ())
    if label is not None and word_starts is not None:
        tags, names = _tags(checked_column(table, label, complete=True), table[text], label, labels)
        targets = _at_starts(tags, word_starts)
    elif label is not None:
        targets, names = _targets(checked_column(table, label, complete=True), label, labels)
    is_pair = pair is not None
    return encoded_layout(table, processor, layout, limit=limit, is_pair=is_pair, targets=targets, names=names)


def encoded_layout(
    table: pa.Table,
    processor: ContextualBertProcessor,
    layout: Layout,
    *,
    limit: int,
    is_pair: bool = False,
    targets: NDArray[Any] | None = None,
    names: tuple[str, ...] = (),
) -> EncodedTexts:
    """Return laid out texts with their contexts, and the report of them.

    Args:
        table: of the texts and the context.
        processor: has the tokenizer and the schema.
        layout: which tokens are kept.
        limit: tokens allowed in a text.
        is_pair: True where each text has a second one.
        targets: labels of the texts or tokens.
        names: of the labels.
    """
    tokenizer: Any = processor.tokenizer
    context = processor.encode_columns(table)
    halves, word_starts = layout.token_type_ids, layout.word_starts()
    dataset = SequenceDataset(
        torch.from_numpy(layout.ids(tokenizer)),
        torch.from_numpy(layout.offsets),
        context=context.tensors if context is not None else {},
        labels=torch.from_numpy(targets) if targets is not None else None,
        token_type_ids=torch.from_numpy(halves) if halves is not None else None,
        pad_id=tokenizer.pad_token_id,
    )
    if processor.max_characters is not None:
        dataset = dataset.with_spelling(spelt_tokens(layout, processor.max_characters))
    report = replace(layout_report(layout, tokenizer, limit=limit, is_pair=is_pair), **context_counts(context))
    return EncodedTexts(dataset, names, report, layout.is_cut, word_starts)


def spelt_tokens(layout: Layout, max_characters: int) -> SpeltTokens | None:
    """Return the characters of each token's word, of the start for [CLS] and of the end for [SEP].

    Args:
        layout: of the texts.
        max_characters: as for ``spelt_words``.

    Returns:
        None where texts are not spelt.
    """
    spelt = layout.first.spelt
    if spelt is None:
        return None
    words = [spelt_marks(max_characters), spelt_words(spelt.words, max_characters=max_characters)]
    numbers = layout.spread(spelt.numbers + 2 * (spelt.numbers > 0), around=2)
    numbers[layout.offsets[:-1]] = 1
    return SpeltTokens(torch.from_numpy(numbers), functional.pad(torch.cat(words), (0, 0, 1, 0)).short())


def _at_starts(tags: NDArray[np.int64], word_starts: NDArray[np.int64]) -> NDArray[np.int64]:
    """The tag of each word at its first token, IGNORED_LABEL everywhere else."""
    is_start = word_starts != NO_START
    targets = np.full(len(word_starts), IGNORED_LABEL, dtype=np.int64)
    targets[is_start] = tags[word_starts[is_start]]
    return targets


def _tags(
    tags: pa.ChunkedArray, words: pa.ChunkedArray, name: str, labels: Sequence[str] | None
) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    if not is_list(tags.type):
        raise DataError(f"the column is of type {tags.type}", column=name, fix="Give lists: a tag for each word.")
    lengths = [pc.list_value_length(column).to_numpy() for column in (words, tags)]
    differing = np.flatnonzero(lengths[0] != lengths[1])
    if len(differing):
        row = int(differing[0])
        raise DataError(
            f"{lengths[1][row]} tags for {lengths[0][row]} words", row=row, column=name, fix="Give one tag a word."
        )
    values = pc.list_flatten(tags)
    check_whole(values, lengths[1], what="tag", column=name)
    rows = np.repeat(np.arange(len(lengths[1])), lengths[1])
    return _classes(values, name, labels, rows)


def _targets(column: pa.ChunkedArray, name: str, labels: Sequence[str] | None) -> tuple[NDArray[Any], tuple[str, ...]]:
    if is_list(column.type):
        return _several(column, name, labels)
    if labels or (labels is None and not pa.types.is_floating(column.type)):
        return _classes(column, name, labels, np.arange(len(column)))
    if not (pa.types.is_floating(column.type) or pa.types.is_integer(column.type)):
        raise DataError(f"the column is of type {column.type}", column=name, fix="Give numbers, or names of labels.")
    return column.cast(pa.float32()).to_numpy().copy(), ()  # Arrow's memory is read-only, a tensor's is not


def _several(
    column: pa.ChunkedArray, name: str, labels: Sequence[str] | None
) -> tuple[NDArray[np.float32], tuple[str, ...]]:
    """(texts, labels), 1 for each label that a text has; the labels' names, where they are given."""
    kind = column.type.value_type
    if not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)):
        raise DataError(
            f"the column is of type {column.type}",
            column=name,
            fix="Tags need a text column of lists of words; of several labels give a 0 or a 1 for each.",
        )
    sizes = pc.list_value_length(column).to_numpy()
    num_labels = len(labels) if labels else int(sizes[0]) if len(sizes) else 0
    values = pc.list_flatten(column).cast(pa.float32()).to_numpy(zero_copy_only=False)
    is_faulty = sizes != num_labels
    np.logical_or.at(is_faulty, np.repeat(np.arange(len(sizes)), sizes), (values != 0) & (values != 1))
    if is_faulty.any():
        row = int(is_faulty.argmax())
        fix = f"Give {num_labels} numbers, 1 for each label that the text has and 0 for the others."
        raise DataError(f"{column[row].as_py()!r:.80} says not which labels a text has", row=row, column=name, fix=fix)
    return values.reshape(len(sizes), num_labels).copy(), tuple(labels or ())


def _classes(
    column: pa.ChunkedArray, name: str, labels: Sequence[str] | None, rows: NDArray[np.int64]
) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    column = with_truth_in_words(column)
    if labels is None:
        values = canonical_array(column) if is_text(column.type) else column
        labels = sorted(pc.unique(values.drop_null()).to_pylist())
    labels = list(dict.fromkeys(canonical(value) for value in labels))  # 1, 1.0 and "1" are one label
    ids = Vocabulary(labels).find(canonical_array(column, column=name))
    is_unknown = ids < 0
    if is_unknown.any():
        unknown = int(is_unknown.argmax())
        raise DataError(
            f"the label {column[unknown].as_py()!r} is not among {', '.join(map(repr, labels))}",
            row=int(rows[unknown]),
            column=name,
            fix="Correct the cell, or leave the row out; to learn this label, train with rows that have it.",
        )
    return ids, tuple(labels)
