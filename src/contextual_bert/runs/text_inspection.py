"""What ``inspect`` says of the texts of a table: lengths, labels, faults.

A cell that ``train`` would stop at is counted and not raised, so that one look shows all that there is to mend. It
loads a tokenizer only where it is asked to, no weights, and trains nothing.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from contextual_bert import inference, models, runs  # loaded when used: words are counted without transformers
from contextual_bert.arrow_types import decoded, is_list, is_text
from contextual_bert.data import Split
from contextual_bert.data.answers import find_answers
from contextual_bert.data.neighbour_sentences import neighbours_in
from contextual_bert.data.number_bins import numbers_to_learn, spelt_number
from contextual_bert.data.phrases import read_phrases
from contextual_bert.data.text_audit import joined_words
from contextual_bert.errors import DataError, Message, in_message, joined
from contextual_bert.evaluation import has_grades
from contextual_bert.nouns import agreeing, counted
from contextual_bert.places import place_of_row
from contextual_bert.runs.label_names import (
    NUM_SHOWN,
    check_whole_texts,
    label_counts,
    label_names,
    label_warnings,
    several_line,
)
from contextual_bert.training.recipe import Recipe
from contextual_bert.training.tasks import AnyTextTask

if TYPE_CHECKING:
    from contextual_bert.models import ContextualBertProcessor

_UNLIMITED = 10**9
_BEGIN = "B-"
_STOP = "train stops there; fill them in or leave the rows out"


@dataclass(frozen=True)
class Look:
    """Sentences on what a kind of data holds, and on what is wrong with it."""

    lines: list[str]
    faults: list[str]


_LEARNED = {
    "masked_text": "no --label: hidden words are learned (masked language model)",
    "text_to_text": "--target: it is written from the text (encoder-decoder)",
    "next_sentence": "--objective next_sentence: hidden words are learned, and which sentence follows",
    "causal_text": "--objective causal: each word is learned from those before it (left-to-right language model)",
    "contrastive_text": "--objective contrastive: vectors of texts are learned that find the documents of --pair",
    "bidirectional_text": "--objective bidirectional: each word is learned from those before it, and from those behind "
    "it (ELMo)",
}


def look_at_texts(table: pa.Table, recipe: Recipe, split: Split | None, *, has_tokens: bool = True) -> Look:
    """Say how long the texts are, which labels, tags or answers they have, and which cells ``train`` would stop at.

    Args:
        table: all texts.
        recipe: names the columns and the checkpoint.
        split: of the table, None where it cannot be split.
        has_tokens: count the texts in tokens too, with the tokenizer of the recipe's checkpoint; False never loads it.

    Raises:
        CheckpointError: no tokenizer there.
        DataError, UnknownNameError: a column that is missing or of another type.
    """
    task = recipe.text_task
    looks = [_texts(table, recipe, task, has_tokens=has_tokens)]
    if task.answer is not None:
        looks.append(_answers(table, recipe, task))
    elif task.label_lists is not None:
        looks.append(_several_labels(table, recipe, task, split))
    elif task.kind == "regression":
        looks.append(_numbers(table, recipe, str(task.label)))
    elif task.phrase_column is not None:
        looks.append(_phrases(table, recipe, task.text, task.phrase_column))
    else:
        looks.append(_labels(table, recipe, task, split) if task.label is not None else Look([_LEARNED[task.kind]], []))
    return Look([line for look in looks for line in look.lines], [fault for look in looks for fault in look.faults])


def _texts(table: pa.Table, recipe: Recipe, task: AnyTextTask, *, has_tokens: bool) -> Look:
    """Inspect the number and length of the texts, and texts with nothing to read."""
    lines, faults = [counted(table.num_rows, "row")], list[str]()
    readable = np.ones(table.num_rows, dtype=np.bool_)
    alone = task.alone[0] if task.alone is not None else None
    for name in filter(None, (task.text, task.second, alone)):
        column = decoded(table.column(name))
        may_be_words = name == task.text and task.question is None
        if not is_text(column.type) and not (is_list(column.type) and may_be_words):
            fix = "Give a column of text, or of lists of words with --label naming lists of tags."
            raise DataError(f"the column is of type {column.type}", file=recipe.data, column=name, fix=fix)
        sizes = _num_words(column)
        missing, empty = sizes < 0, sizes == 0
        faults += _counted(missing, "missing cell", f"in {name!r}", f"error: {{}}: {_STOP}")
        fate = f"error: {{}}: {_STOP}" if name == alone else "warning: {}: there is nothing to read"
        faults += _counted(empty, "empty cell", f"in {name!r}", fate)
        has_gap = _has_gap(column)
        faults += _counted(has_gap, "row", f"of {name!r} without a word", f"error: {{}}: {_STOP}")
        readable &= ~missing & ~has_gap
        distinct = pc.count_distinct(joined_words(column), mode="only_valid").as_py()
        lines[0] += f", {distinct:,} different texts in {name!r}"
        if (sizes > 0).any():
            what = f"words a text{f' in {name!r}' if name != task.text else ''}"
            lines.append(_sizes_line(sizes[sizes > 0], what))
    if task.reads_pairs and task.second is None:
        pairs = _sentences(table.take(pa.array(np.flatnonzero(readable))), recipe, task.text)
        return Look([*lines, *pairs.lines], [*faults, *pairs.faults])
    if has_tokens and task.checkpoint is not None and readable.any():
        tokens = _tokens(table.take(pa.array(np.flatnonzero(readable))), recipe, task)
        lines, faults = lines + tokens.lines, faults + tokens.faults
    return Look(lines, faults)


def _sentences(table: pa.Table, recipe: Recipe, text: str) -> Look:
    """Inspect the pairs of neighbouring sentences, and texts without one."""
    try:
        found = neighbours_in(table, text=text)
    except DataError as error:
        raise error.moved(file=recipe.data, row=None) from error
    num_texts, alone = len(np.unique(found.rows)), found.num_alone
    lines = [f"{counted(len(found.rows), 'pair')} of neighbouring sentences in {counted(num_texts, 'text')}"]
    if alone:
        lines.append(f"{counted(alone, 'text')} {agreeing('have', alone)} one sentence or none: left out")
    fault = "error: fewer than two texts have a second sentence: train stops there; give a sentence a line, or lists"
    return Look(lines, [fault] if num_texts < 2 else [])


def _tokens(table: pa.Table, recipe: Recipe, task: AnyTextTask) -> Look:
    """Inspect the length of the texts in tokens, and the number of cut texts."""
    processor = runs.reader_of(recipe) or models.ContextualBertProcessor.from_checkpoint(task.bert)
    longest = processor.tokenizer.model_max_length
    limit = task.kept_length or longest
    if task.question is not None:
        return _windows(table, recipe, task, processor)
    processor.tokenizer.model_max_length = _UNLIMITED
    fate = "read in windows" if task.kind == "causal_text" else "cut"
    lines = list[str]()
    columns: list[tuple[str, str | None, str]] = [(task.text, task.second, "text")]
    if task.alone is not None:
        columns.append((task.alone[0], None, task.alone[1]))
    for name, pair, noun in columns:
        try:
            sizes = inference.encode_texts(table, processor, text=name, pair=pair).dataset.sizes
        except DataError as error:
            raise error.moved(file=recipe.data, row=None) from error
        lines += [_sizes_line(sizes, f"tokens a {noun}, [CLS] and [SEP] included"), _cut_line(sizes, limit, noun, fate)]
    beyond = Message(
        f"warning: {task.bert} reads at most {longest:,} tokens: with {{max_length}} train stops there",
        max_length=limit,
    )
    return Look(lines, [beyond] if limit > longest and not task.long_documents else [])


def _cut_line(sizes: NDArray[np.int64], limit: int, noun: str, fate: str) -> str:
    """How many texts are longer than the limit, and what becomes of them."""
    cut = int((sizes > limit).sum())
    if not cut:
        return f"no {noun} is longer than {limit:,} tokens"
    share = f"{cut:,} of {counted(len(sizes), noun)} ({cut / len(sizes):.1%})"
    return f"{share} {agreeing('are', cut)} longer than {limit:,} tokens and {fate}"


def _windows(table: pa.Table, recipe: Recipe, task: AnyTextTask, processor: "ContextualBertProcessor") -> Look:
    """Inspect the number of windows of the questions and their texts."""
    columns = {"question": str(task.question), "text": task.text}
    try:
        found = inference.encode_questions(table, processor, **columns, max_length=task.max_length)
    except DataError as error:
        return Look([], [joined("error: ", in_message(error.moved(file=recipe.data, row=None)))])
    sizes = found.dataset.sizes
    return Look([*found.report.lines(), _sizes_line(sizes, "tokens a window, question, [CLS] and [SEP] included")], [])


def _answers(table: pa.Table, recipe: Recipe, task: AnyTextTask) -> Look:
    """Inspect the number of answered questions, and answers that are not in their texts."""
    texts, name = table.column(task.text).cast(pa.string()).to_pylist(), str(task.answer)
    try:
        _, bounds = find_answers(table, texts, name, task.answer_start)
    except DataError as error:
        raise error.moved(file=recipe.data, row=None) from error
    starts, ends = bounds.T
    has_none = (starts == 0) & (ends == 0)
    number = int((~has_none).sum())
    lines = [f"{number:,} of {counted(len(has_none), 'question')} {agreeing('have', number)} an answer in {name!r}"]
    fault = "error: {}: train stops there; give each letter by letter, and where it begins where that is named"
    return Look(lines, _counted(starts < 0, "answer", f"in {name!r} without a place in the text", fault))


def _phrases(table: pa.Table, recipe: Recipe, text: str, name: str) -> Look:
    """Inspect the number of phrases, and one that is none."""
    readable = table.filter(pc.is_valid(table.column(text)))
    rows = np.flatnonzero(pc.is_valid(table.column(text)).to_numpy())
    try:
        found = read_phrases(readable, text=text, name=name)
    except DataError as error:
        row = int(rows[error.row]) if error.row is not None else None
        return Look([], [joined("error: ", in_message(error.moved(file=recipe.data, row=row)))])
    sizes = np.diff(found.offsets)
    number, of_texts = counted(len(found), "phrase"), counted(int((sizes > 0).sum()), "text")
    return Look([_LEARNED["masked_text"], f"{number} in {of_texts}, each hidden as a whole"], [])


def _labels(table: pa.Table, recipe: Recipe, task: AnyTextTask, split: Split | None) -> Look:
    """The labels or tags and their shares, and what is wrong with them."""
    name = str(task.label)
    column, words = table.column(name), table.column(task.text)
    has_tags = is_list(column.type)
    if has_tags != is_list(words.type):
        fix = "Tags are lists, a tag a word, and their texts lists of words; labels and their texts are no lists."
        kinds = f"{column.type} and {task.text!r} of type {words.type}"
        raise DataError(f"the column is of type {kinds}", file=recipe.data, column=name, fix=fix)
    missing = pc.is_null(column, nan_is_null=True).to_numpy(zero_copy_only=False)
    faults = _counted(missing, "missing cell", f"in {name!r}", f"error: {{}}: {_STOP}")
    if is_text(column.type):
        empty = pc.fill_null(pc.equal(column, ""), False).to_numpy(zero_copy_only=False)
        faults += _counted(empty, "empty cell", f"in {name!r}", "warning: {}: empty is a label of its own")
    if has_tags:
        differing = _num_words(column) != _num_words(words)
        faults += _counted(
            differing & ~missing, "row", "with another number of tags than words", "error: {}: train stops there"
        )
        faults += _counted(_has_gap(column), "row", f"of {name!r} without a tag for a word", f"error: {{}}: {_STOP}")
    try:
        names = label_names(column, recipe.data, name, is_ordinal=task.is_ordinal, order=task.order)
    except DataError as error:
        return Look([], [*faults, joined("error: ", in_message(error))])
    counts = label_counts(column)
    if not has_tags and len(names) > 2 and len(names) * 2 > sum(counts.values()):
        faults.append("warning: hardly a label occurs twice: is this the column of labels? CSV holds no lists of tags")
    lines = _label_lines(names, counts, task, has_tags=has_tags)
    return Look(lines, [*faults, *label_warnings(table, names, name, split)])


def _numbers(table: pa.Table, recipe: Recipe, name: str) -> Look:
    """The numbers to learn: how far they spread, and what is wrong with them."""
    check_whole_texts(table, recipe, what="numbers", setting="is_regression")
    missing = pc.is_null(table.column(name), nan_is_null=True).to_numpy(zero_copy_only=False)
    faults = _counted(missing, "missing cell", f"in {name!r}", f"error: {{}}: {_STOP}")
    rows = np.flatnonzero(~missing)
    try:
        numbers = numbers_to_learn(table.take(pa.array(rows)), name)
    except DataError as error:
        row = int(rows[error.row]) if error.row is not None else None
        return Look([], [*faults, joined("error: ", in_message(error.moved(file=recipe.data, row=row)))])
    if not len(numbers):
        return Look([], faults)
    least, low, middle, high, most = (spelt_number(float(each)) for each in np.quantile(numbers, np.arange(5) / 4))
    distinct = len(np.unique(numbers))
    lines = [
        f"numbers in {name!r} of {least} to {most}, half of them of {low} to {high}, the middle one {middle}; "
        f"{distinct:,} different ones"
    ]
    return Look(lines, faults)


def _several_labels(table: pa.Table, recipe: Recipe, task: AnyTextTask, split: Split | None) -> Look:
    """The labels of texts that may have several, how many texts have each, and what is wrong with them."""
    name = str(task.label)
    column = table.column(name)
    check_whole_texts(table, recipe, what="several labels", setting="is_multi_label")
    try:
        names = label_names(column, recipe.data, name)
    except DataError as error:
        return Look([], [joined("error: ", in_message(error))])
    counts = label_counts(column)
    by_size = sorted(names, key=lambda each: -counts[each])
    listed = ", ".join(f"{each} ({counts[each] / table.num_rows:.1%})" for each in by_size[:NUM_SHOWN])
    more = f" and {len(names) - NUM_SHOWN:,} more" if len(names) > NUM_SHOWN else ""
    told = several_line(_num_words(column), what="text")
    faults = [told] if told.startswith("warning") else []
    lines = [f"{len(names):,} labels, with the share of texts that have each: {listed}{more}"]
    return Look([*lines, *([] if faults else [told])], [*faults, *label_warnings(table, names, name, split)])


def _label_lines(names: tuple[str, ...], counts: Mapping[str, int], task: AnyTextTask, *, has_tags: bool) -> list[str]:
    total = sum(counts.values())
    is_scale = has_grades(names) and not has_tags
    by_size = sorted(names, key=float) if is_scale else sorted(names, key=lambda name: -counts[name])
    ordered = names if task.is_ordinal else by_size
    listed = ", ".join(f"{name} ({counts[name] / total:.1%})" for name in ordered[:NUM_SHOWN])
    more = f" and {len(names) - NUM_SHOWN:,} more" if len(names) > NUM_SHOWN else ""
    what = "grades, the lowest first" if task.is_ordinal else "labels"
    what = f"tags of {counted(total, 'word')}" if has_tags else what
    lines = [f"{len(names):,} {what}: {listed}{more}"]
    begun = {tag.removeprefix(_BEGIN): counts[tag] for tag in ordered if has_tags and tag.startswith(_BEGIN)}
    if begun:
        lines.append(
            f"{sum(begun.values()):,} entities: " + ", ".join(f"{name} {count:,}" for name, count in begun.items())
        )
    return lines


def _num_words(column: pa.ChunkedArray) -> NDArray[np.int64]:
    """Words of each cell, -1 where it is missing."""
    counts = pc.list_value_length(column) if is_list(column.type) else pc.count_substring_regex(column, r"\S+")
    return pc.fill_null(counts, -1).to_numpy().astype(np.int64)


def _has_gap(column: pa.ChunkedArray) -> NDArray[np.bool_]:
    """Which rows have a list in which a word, or a tag, is missing."""
    found = np.zeros(len(column), dtype=np.bool_)
    if is_list(column.type):
        lists = column.combine_chunks()
        found[pc.list_parent_indices(lists).filter(pc.is_null(pc.list_flatten(lists))).to_numpy()] = True
    return found


def _sizes_line(sizes: NDArray[np.int64], what: str) -> str:
    half, most = (int(np.quantile(sizes, share, method="inverted_cdf")) for share in (0.5, 0.95))
    return (
        f"{what}: {sizes.min():,} to {sizes.max():,}, half of them have {half:,} or fewer, 95% have {most:,} or fewer"
    )


def _counted(mask: NDArray[np.bool_], noun: str, rest: str, sentence: str) -> list[str]:
    """The sentence with how many rows it is about and which is the first, none where there is no such row."""
    if not mask.any():
        return []
    rows = np.flatnonzero(mask)
    return [sentence.format(f"{counted(len(rows), noun)} {rest} (the first in {place_of_row(int(rows[0]))})")]
