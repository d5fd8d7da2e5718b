"""Why a text got its label, as numbers and for people: what each field did, what each word did, what others would get.

This module does not know how the numbers are found; `text_explainer` finds them. Paper: not there.
"""

from dataclasses import dataclass

from contextual_bert.evaluation.tables import Table
from contextual_bert.inference.explain.explanation import (
    FieldContribution,
    PersonExplanation,
    lines_on_fields,
    log_odds_table,
    with_or,
)
from contextual_bert.nouns import counted

MOST_VALUES = 12  # of a field in a row of a table
MOST_WORDS = 12  # in the table of a terminal; all are in the JSON


@dataclass(frozen=True)
class WordContribution:
    """Contribution of one word: the fall of the log-odds when it is hidden.

    Args:
        key: of the query, whose text has the word.
        word: ``text[start:end]``.
        start, end: where it stands, in characters.
        log_odds: the fall.
    """

    key: str
    word: str
    start: int
    end: int
    log_odds: float


@dataclass(frozen=True)
class TextCounterfactual:
    """If the field were this value, and all else as it is, this would be the likeliest label, with this probability.

    ``explained_probability``: of the label that is explained.
    """

    field: str
    value: str
    label: str
    probability: float
    explained_probability: float


@dataclass(frozen=True)
class TextExplanation(PersonExplanation):
    """Why a label is as probable for a text as it is, for this person and not for anybody.

    Formula:
        sum over fields of log_odds = full_log_odds - base_log_odds; log-odds = log(p / (1 - p))

    Symbols: p probability of the label.

    Args:
        label: what is explained.
        best_label: the likeliest one.
        probability: p with the context that was given.
        anonymous_probability: p where nothing is known of the person.
        full_log_odds, base_log_odds: the same as log-odds.
        fields: the given fields, the largest contribution first.
        words: that are read, in the order of the texts.
        hidden_as: the token that stood for a hidden word; None where no word was hidden.
        counterfactuals: each other value of each field with a list of values or bins.
        is_exact: whether the contributions of fields are from all subsets of them.
        num_subsets: how many subsets were asked for.
        notes: what the reader should know.

    Relation to its siblings: `explain_text` makes it; `Explanation` says the same of an item of a set.

    Reference: docs/decisions/013.

    Example:
        >>> field, word = FieldContribution("guest", "student", 0.7, 0.0), WordContribution("text", "bar", 0, 3, 0.2)
        >>> other = TextCounterfactual("guest", "family", "noise", 0.8, 0.2)
        >>> shares = {"probability": 0.6, "anonymous_probability": 0.43, "full_log_odds": 0.4, "base_log_odds": -0.3}
        >>> found = TextExplanation(
        ...     label="praise",
        ...     best_label="praise",
        ...     **shares,
        ...     fields=(field,),
        ...     words=(word,),
        ...     hidden_as="[MASK]",
        ...     counterfactuals=(other,),
        ...     is_exact=True,
        ...     num_subsets=2,
        ...     notes=(),
        ... )
        >>> found.to_markdown().partition(":")[0]
        '## Why praise'
    """

    label: str
    best_label: str
    probability: float
    anonymous_probability: float
    full_log_odds: float
    base_log_odds: float
    fields: tuple[FieldContribution, ...]
    words: tuple[WordContribution, ...]
    hidden_as: str | None
    counterfactuals: tuple[TextCounterfactual, ...]
    is_exact: bool
    num_subsets: int
    notes: tuple[str, ...]

    def footer(self) -> list[str]:
        footer = lines_on_fields(self.fields, num_subsets=self.num_subsets, is_exact=self.is_exact)
        if self.words:
            most = f" The {MOST_WORDS} largest are shown." if len(self.words) > MOST_WORDS else ""
            footer.append(
                f"Words: by how much the log-odds fall when the word is hidden as {self.hidden_as}. Words may say the "
                f"same: this need not sum up.{most}"
            )
        if self.counterfactuals:
            footer.append(f"Others: one field changed, all else as it is; the label is {self.best_label} as it is.")
        return [*footer, *self.notes]

    def _heading(self) -> str:
        best = "" if self.label == self.best_label else f" (the likeliest is {self.best_label})"
        return (
            f"Why {self.label}{best}: {self.probability:.2%}, and {self.anonymous_probability:.2%} where nothing is "
            "known of the person"
        )

    def _other_tables(self, *, has_bars: bool) -> list[Table]:
        tables: list[Table] = []
        if self.words:
            tables.append(log_odds_table("What the words do", "word", self._shown_words(), has_bars=has_bars))
        if self.counterfactuals:
            tables.append(self._other_table())
        return tables

    def _shown_words(self) -> list[tuple[str, float]]:
        """The words that count most, in the order in which they are read, and what each does."""
        shown = sorted(self.words, key=lambda each: -abs(each.log_odds))[:MOST_WORDS]
        shown.sort(key=lambda each: (-["text", "pair"].index(each.key), -each.start), reverse=True)
        return [(each.word if each.key == "text" else f"{each.word} ({each.key})", each.log_odds) for each in shown]

    def _other_table(self) -> Table:
        grouped: dict[tuple[str, str], list[TextCounterfactual]] = {}
        for each in self.counterfactuals:
            grouped.setdefault((each.field, each.label), []).append(each)
        rows = [
            (
                field,
                _named([each.value for each in given]),
                label,
                _span([each.explained_probability for each in given]),
            )
            for (field, label), given in grouped.items()
        ]
        columns = ("if", "were", "the label", f"{self.label} has")
        return Table("What others would get", columns, tuple(rows), num_label_columns=3)


def _named(values: list[str]) -> str:
    """The values; of many the first ones and the number of the others."""
    if len(values) <= MOST_VALUES:
        return with_or(values)
    shown = values[: MOST_VALUES - 2]
    return with_or([*shown, counted(len(values) - len(shown), "other value")])


def _span(shares: list[float]) -> str:
    lowest, highest = f"{min(shares):.2%}", f"{max(shares):.2%}"
    return lowest if lowest == highest else f"{lowest} to {highest}"
