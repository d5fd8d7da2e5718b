"""Answers to queries about texts as plain records that become JSON.

Pipelines of trained models and of exports give the same records, and a server describes them.
"""

from typing import NotRequired

from typing_extensions import TypedDict


class TextAnswer(TypedDict):
    """Answer to a text query: label or tags, with probabilities.

    ``label``: the likeliest label, all labels above one half where a text may have several, a number, or for words a
    tag each (None behind the longest text that the model reads); ``probabilities``: of the labels, for words of the tag
    that each got; ``unknown_context``: values that the model never saw; ``notes``: what the reader should know.
    """

    label: str | float | list[str] | list[str | None]
    probabilities: dict[str, float] | list[float | None]
    unknown_context: dict[str, list[str]]
    notes: list[str]


class TextNumber(TextAnswer):
    """Answer to a text query of a run that learned numbers: ``label`` is the number, and no label has a probability.

    ``interval``: the ends between which the number lies with a probability of nine in ten, as far as the model is
    right; of models that learned bins of numbers.
    """

    interval: NotRequired[list[float]]


class SureTextAnswer(TextAnswer):
    """Answer to a text query with the labels that the true one is among.

    ``prediction_set``: labels, the likeliest first; ``coverage``: how often such sets hold the true one, 0 to 1.
    """

    prediction_set: list[str]
    coverage: float


class TextSpan(TypedDict):
    """Answer to a question: a piece of the text with its place and probability.

    ``answer``: a piece of the text, which is ``text[start:end]``; ``probability``: that it begins and ends there, in
    the window that holds it; ``no_answer_probability``: that the text has no answer, in the window where that is least
    likely, for models that have learned of such questions; ``unknown_context``: values that the model never saw;
    ``notes``: what the reader should know.
    """

    answer: str
    start: int
    end: int
    probability: float
    no_answer_probability: float
    unknown_context: dict[str, list[str]]
    notes: list[str]


class TextWritten(TypedDict):
    """Text that was written for another.

    ``written``: the text; ``is_whole``: whether the model ended it, and not the limit of tokens; ``unknown_context``:
    values that the model never saw; ``notes``: what the reader should know.
    """

    written: str
    is_whole: bool
    unknown_context: dict[str, list[str]]
    notes: list[str]


class WordCandidate(TypedDict):
    """Proposal for a [MASK] of a text: ``word``, which goes on the word before where it begins with ##."""

    word: str
    probability: float


class TextBlank(TypedDict):
    """The proposals for one [MASK] of a text.

    ``start``: the character where it begins; ``candidates``: from the most to the least probable, of all tokens that
    stand for a piece of text.
    """

    start: int
    candidates: list[WordCandidate]


class TextFilled(TypedDict):
    """Answer to a text with [MASK].

    ``filled``: the text with the likeliest word for each; ``slots``: one a [MASK] that the model read;
    ``unknown_context``: values that the model never saw; ``notes``: what the reader should know.
    """

    filled: str
    slots: list[TextBlank]
    unknown_context: dict[str, list[str]]
    notes: list[str]


class TextVector(TypedDict):
    """Vector of a text under a context.

    ``vector``: numbers, of length 1 together; ``unknown_context``: values that the model never saw; ``notes``: what the
    reader should know.
    """

    vector: list[float]
    unknown_context: dict[str, list[str]]
    notes: list[str]
