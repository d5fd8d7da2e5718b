"""Reports on the texts and the questions of a table: what was read of them, and what the schema does not know.

They know no model, and import no torch.
"""

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from contextual_bert.context import EncodedContext, Outside, outside_lines, unknown_in_words
from contextual_bert.inference.texts.text_layout import NO_START, Layout, num_special
from contextual_bert.models.token_marks import num_separators
from contextual_bert.nouns import agreeing, counted


@dataclass(frozen=True)
class TextReport:
    """Counts of the texts of a table: texts, cut texts and words behind the cut.

    Args:
        num_texts: texts encoded.
        num_cut: texts that were longer than allowed.
        num_unread_words: of lists of words, those behind the cut: they are neither learned nor scored.
        max_length: tokens allowed in a text, [CLS] and [SEP] included.
        unknown: feature -> context value that the schema does not know -> how often it occurred.
        outside: feature -> the rows whose number is far from those of training, and was clipped.
        shared: feature -> context value that shares the vector of its bucket -> how often it occurred.
        remarks: lines on fields that are given and not read, and on those that rows lack and training hardly ever did.
        num_empty: texts in which the tokenizer finds nothing to read.
        num_phrases: phrases that are masked as a whole.
        num_unread_phrases: those of which no token is read: behind the cut, or without one.
    """

    num_texts: int
    num_cut: int
    num_unread_words: int
    max_length: int
    unknown: dict[str, dict[str, int]] = field(default_factory=dict[str, dict[str, int]])
    outside: dict[str, Outside] = field(default_factory=dict[str, Outside])
    shared: dict[str, dict[str, int]] = field(default_factory=dict[str, dict[str, int]])
    remarks: tuple[str, ...] = ()
    num_empty: int = 0
    num_phrases: int = 0
    num_unread_phrases: int = 0

    @property
    def fault(self) -> str:
        """Return why nothing can be learned of the texts or scored; empty where some of them can be read."""
        return "each text is empty" if 0 < self.num_texts == self.num_empty else ""

    def at(self, rows: NDArray[np.int64]) -> "TextReport":
        """The same report with the rows of the file, where it is of a part of it."""
        return replace(self, outside={name: each.at(rows) for name, each in self.outside.items()})

    def lines(self, *, has_taught: bool = False) -> list[str]:
        """For people.

        Args:
            has_taught: whether the schema is of these rows.
        """
        cut = f"{self.num_cut:,} of them cut to {self.max_length:,} tokens" if self.num_cut else "none of them cut"
        unread = f", {counted(self.num_unread_words, 'word')} behind the cut" if self.num_unread_words else ""
        unknown = unknown_in_words(self.unknown, shared=self.shared, has_taught=has_taught)
        return [
            f"{counted(self.num_texts, 'text')}, {cut}{unread}",
            *([f"{counted(self.num_empty, 'empty text')}: nothing to read there"] if self.num_empty else []),
            *self._phrase_lines(),
            *unknown,
            *outside_lines(self.outside),
            *self.remarks,
        ]

    def _phrase_lines(self) -> list[str]:
        lost = self.num_unread_phrases
        unread = f", {lost:,} of them behind the cut or without a token" if lost else ""
        return [f"{counted(self.num_phrases, 'phrase')} to mask as a whole{unread}"] if self.num_phrases else []


@dataclass(frozen=True)
class QuestionReport:
    """Counts of the questions of a table: answers, windows, and what could not be used.

    Args:
        num_questions, num_windows: how many there are; a text that is longer than a window has several.
        num_unanswered: questions without an answer in the table.
        num_lost: answers that no window holds whole, or of which the tokenizer keeps nothing: learned as if there were
            none.
        unknown: feature -> context value that the schema does not know -> how often it occurred.
        outside: feature -> the rows whose number is far from those of training, and was clipped.
        shared: feature -> context value that shares the vector of its bucket -> how often it occurred.
        remarks: lines on fields that are given and not read, and on those that rows lack and training hardly ever did.
    """

    num_questions: int
    num_windows: int
    num_unanswered: int
    num_lost: int
    unknown: dict[str, dict[str, int]] = field(default_factory=dict[str, dict[str, int]])
    outside: dict[str, Outside] = field(default_factory=dict[str, Outside])
    shared: dict[str, dict[str, int]] = field(default_factory=dict[str, dict[str, int]])
    remarks: tuple[str, ...] = ()

    @property
    def fault(self) -> str:
        """Return why nothing can be learned of the questions or scored; empty where some have an answer."""
        return "no question has an answer in its text" if 0 < self.num_questions == self.num_unanswered else ""

    def at(self, rows: NDArray[np.int64]) -> "QuestionReport":
        """The same report with the rows of the file, where it is of a part of it."""
        return replace(self, outside={name: each.at(rows) for name, each in self.outside.items()})

    def lines(self, *, has_taught: bool = False) -> list[str]:
        """For people.

        Args:
            has_taught: whether the schema is of these rows.
        """
        found = [f"{counted(self.num_questions, 'question')} in {counted(self.num_windows, 'window')}"]
        if self.num_unanswered:
            number = self.num_unanswered
            found.append(f"{counted(number, 'question')} {agreeing('have', number)} no answer")
        if self.num_lost:
            lost = f"{counted(self.num_lost, 'answer')} {agreeing('are', self.num_lost)} whole in no window"
            found.append(f"{lost}, or {agreeing('have', self.num_lost)} no token: learned as none")
        return (
            found
            + unknown_in_words(self.unknown, shared=self.shared, has_taught=has_taught)
            + [*outside_lines(self.outside), *self.remarks]
        )


def context_counts(context: EncodedContext | None) -> dict[str, Any]:
    """Return the fields of a report that count the values of the contexts.

    Args:
        context: of the rows; None where there is none.
    """
    if context is None:
        return {}
    return {"unknown": context.unknown, "outside": context.outside, "shared": context.shared}


def layout_report(layout: Layout, tokenizer: Any, *, limit: int, is_pair: bool) -> TextReport:
    """Return the report on texts, without their contexts.

    Args:
        layout: of the texts.
        tokenizer: that laid them out.
        limit: tokens allowed in a text.
        is_pair: True where each text has a second one.
    """
    word_starts = layout.word_starts()
    least = num_special(num_separators(tokenizer) if is_pair else 0)
    return TextReport(
        num_texts=len(layout.is_cut),
        num_cut=int(layout.is_cut.sum()),
        num_unread_words=layout.num_words - int((word_starts != NO_START).sum()) if word_starts is not None else 0,
        max_length=limit,
        num_empty=int((np.diff(layout.offsets) <= least).sum()),
    )
