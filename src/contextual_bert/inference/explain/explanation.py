"""Why an item was proposed, as numbers and for people: what each field did, what each item did, what others would get.

This module does not know how the numbers are found; `explainer` finds them. Paper: not there.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rich.console import Group

from contextual_bert.evaluation.serialization import JsonText
from contextual_bert.evaluation.tables import Table, render_markdown, render_rich

BAR_WIDTH = 10
MOST_NAMED = 3  # features in the sentence on an item


@dataclass(frozen=True)
class FieldContribution:
    """Contribution of one context field to the log-odds of the item.

    Args:
        field: its name.
        value: what was given, as the model reads it.
        log_odds: its Shapley value.
        standard_error: of the value, by sampling; 0 where it is exact.
        is_told_apart: whether the run's own report tells the field from nothing; None where it does not say.
    """

    field: str
    value: str
    log_odds: float
    standard_error: float
    is_told_apart: bool | None = None


@dataclass(frozen=True)
class ItemContribution:
    """Contribution of one other item: the fall of the log-odds when it is taken out of the set."""

    item: str
    position: int
    log_odds: float


@dataclass(frozen=True)
class FeatureContribution:
    """Contribution of a feature of the item itself, such as its colour, to its logit.

    Args:
        feature: its name.
        value: of the item, as the model reads it.
        logit: what it adds, less what the feature adds to the permitted items on average.
        standard_error: of the logit, by sampling; 0 where it is exact.
    """

    feature: str
    value: str
    logit: float
    standard_error: float


@dataclass(frozen=True)
class ItemReasons:
    """Contributions of the features of the item to its logit, beside the average of the permitted items.

    Formula:
        l_i - mean_j l_j = sum_k h (w_k[a_k(i)] - mean_j w_k[a_k(j)]) + h (e_i - mean_j e_j) + b_i - mean_j b_j

    Symbols: l_i logit of item i; j the permitted items; h the state at the slot; a_k(i) the value of its feature k, w_k
        the vectors of its values; e_i and b_i its own vector and bias, of a new item those of all new ones.

    Args:
        features: the largest contribution first.
        own_logit: what its own vector and bias add, and what the features do not explain.
        logit: all of it. exp(logit) is how much more probable the item is than the permitted items on average, in
            their geometric mean.
        num_items: permitted ones.
        is_new: whether no set of training held the item.
        is_sum: whether the features are added up, so that the contributions are exact. False: a network reads them,
            and each contribution is a Shapley value, with the average of the permitted items for a feature that is
            left out.
    """

    features: tuple[FeatureContribution, ...]
    own_logit: float
    logit: float
    num_items: int
    is_new: bool
    is_sum: bool

    def sentence(self, item: str) -> str | None:
        """Return the features that count for the item most, as a sentence; None where none does.

        Example:
            >>> green = FeatureContribution("colour", "green", 0.7, 0.0)
            >>> ItemReasons((green,), 0.1, 0.8, 9, is_new=False, is_sum=True).sentence("hat-3")
            'For hat-3 itself speaks: colour green (× 2.01).'
        """
        best = [each for each in self.features if each.logit > 0][:MOST_NAMED]
        named = ", ".join(f"{each.feature} {each.value} ({factor(each.logit)})" for each in best)
        return f"For {item} itself speaks: {named}." if named else None


@dataclass(frozen=True)
class Counterfactual:
    """If the field were this value, and all else as it is, this item would be the best, with this probability."""

    field: str
    value: str
    item: str
    probability: float


class PersonExplanation(JsonText):
    """Base of explanations of one choice for one person: its fields stand first, what else there is behind them.

    A subclass is a dataclass with these fields, a ``_heading``, a ``footer`` and ``_other_tables``.
    """

    full_log_odds: float
    base_log_odds: float
    fields: tuple[FieldContribution, ...]
    is_exact: bool

    def to_markdown(self) -> str:
        return render_markdown(self._heading(), self._tables(has_bars=False), self.footer())

    def to_rich(self) -> Group:
        return render_rich(self._heading(), self._tables(has_bars=True), self.footer())

    def footer(self) -> list[str]:
        """Return a line on the meaning of the numbers, and the notes."""
        raise NotImplementedError

    def _heading(self) -> str:
        raise NotImplementedError

    def _other_tables(self, *, has_bars: bool) -> list[Table]:
        raise NotImplementedError

    def _tables(self, *, has_bars: bool) -> list[Table]:
        gain = self.full_log_odds - self.base_log_odds
        own = field_table(self.fields, gain=gain, is_exact=self.is_exact, has_bars=has_bars)
        return [own, *self._other_tables(has_bars=has_bars)]


@dataclass(frozen=True)
class Explanation(PersonExplanation):
    """Why an item is as probable at a slot as it is, for this person and not for anybody.

    Formula:
        sum over fields of log_odds = full_log_odds - base_log_odds; log-odds = log(p / (1 - p))

    Symbols: p probability of the item at the slot among the permitted ones.

    Args:
        items: the set, with its [MASK].
        position: of the slot.
        item: what is explained.
        best_item: the most probable one there.
        probability: p with the context that was given.
        anonymous_probability: p where nothing is known of the person.
        full_log_odds, base_log_odds: the same as log-odds.
        fields: the given fields, the largest contribution first.
        other_items: the visible items, in the order of the set.
        counterfactuals: other values under which another item would be the best.
        is_exact: whether the contributions are from all subsets of the fields.
        num_subsets: how many subsets were asked for.
        notes: what the reader should know.
        item_reasons: what the features of the item do; None where the run's items are names alone.

    Relation to its siblings: `explain` makes it; `FeatureImportances` says what a model takes from a field on average.

    Reference: docs/decisions/013.

    Example:
        >>> from contextual_bert.inference import CompletionPipeline, explain
        >>> from contextual_bert.testing import miniature_model, miniature_processor
        >>> model = miniature_model("global_state", context_dropout=0.1, field_dropout=0.1)
        >>> query = {"items": ["item-1"], "context": {"sex": "f", "age": 30}}
        >>> found = explain(CompletionPipeline(model, miniature_processor()), query)
        >>> gain = found.full_log_odds - found.base_log_odds
        >>> len(found.fields), abs(sum(each.log_odds for each in found.fields) - gain) < 1e-9
        (2, True)
    """

    items: tuple[str, ...]
    position: int
    item: str
    best_item: str
    probability: float
    anonymous_probability: float
    full_log_odds: float
    base_log_odds: float
    fields: tuple[FieldContribution, ...]
    other_items: tuple[ItemContribution, ...]
    counterfactuals: tuple[Counterfactual, ...]
    is_exact: bool
    num_subsets: int
    notes: tuple[str, ...]
    item_reasons: ItemReasons | None

    def footer(self) -> list[str]:
        footer = lines_on_fields(self.fields, num_subsets=self.num_subsets, is_exact=self.is_exact)
        if self.other_items:
            footer.append(
                "Items: by how much the log-odds fall without it. Items may say the same: this need not sum up."
            )
        if (own := self.item_reasons) is not None:
            how = "Exact, for the features are added up."
            if not own.is_sum:
                how = (
                    "A network reads all features at once: Shapley values, with the average for a feature that is left "
                    "out. The row of its own vector has the rest, too."
                )
            footer.append(
                f"Features of the item: what each adds to its logit, beside the average of the {own.num_items:,} "
                f"permitted items. {how}"
            )
            footer += [each for each in [own.sentence(self.item)] if each is not None]
        if self.counterfactuals:
            footer.append(f"Others: one field changed, all else as it is; {self.best_item} is best as it is.")
        return [*footer, *self.notes]

    def _heading(self) -> str:
        best = "" if self.item == self.best_item else f" (the best is {self.best_item})"
        return (
            f"Why {self.item}{best} as item {self.position + 1} of {', '.join(self.items)}: "
            f"{self.probability:.2%}, and {self.anonymous_probability:.2%} where nothing is known of the person"
        )

    def _other_tables(self, *, has_bars: bool) -> list[Table]:
        tables: list[Table] = []
        if self.other_items:
            rows = [(each.item, each.log_odds) for each in self.other_items]
            tables.append(log_odds_table("What the other items do", "item", rows, has_bars=has_bars))
        if self.item_reasons is not None:
            tables.append(self._feature_table(self.item_reasons, has_bars=has_bars))
        if self.counterfactuals:
            tables.append(self._other_table())
        return tables

    def _feature_table(self, own: ItemReasons, *, has_bars: bool) -> Table:
        mine = "what all new items have in common" if own.is_new else "its own vector"
        listed = [(each.feature, each.value, each.logit, each.standard_error) for each in own.features]
        listed.append((mine, "", own.own_logit, 0.0))
        largest = max(abs(logit) for _, _, logit, _ in listed)
        rows = [
            (
                name,
                value,
                *([bar(logit, largest=largest)] if has_bars else []),
                f"{logit:+.3f}" + (f" ± {error:.3f}" if error else ""),
                factor(logit),
            )
            for name, value, logit, error in listed
        ]
        rows.append(("together", "", *([""] if has_bars else []), f"{own.logit:+.3f}", factor(own.logit)))
        columns = ("feature", "value", *([""] if has_bars else []), "logit", "odds")
        return Table(f"What {self.item} itself is", columns, tuple(rows), num_label_columns=len(columns) - 2)

    def _other_table(self) -> Table:
        values: dict[tuple[str, str], list[str]] = {}
        for each in self.counterfactuals:
            values.setdefault((each.field, each.item), []).append(each.value)
        rows = tuple((field, with_or(given), item) for (field, item), given in values.items())
        return Table("What others would get", ("if", "were", "the best item"), rows, num_label_columns=3)


def field_table(fields: Sequence[FieldContribution], *, gain: float, is_exact: bool, has_bars: bool) -> Table:
    """Return the contributions of fields as a table.

    Args:
        fields: in the order of the rows.
        gain: what they sum to.
        is_exact: whether they have no standard errors.
        has_bars: whether the table has a column of bars.
    """
    largest = max((abs(each.log_odds) for each in fields), default=0.0)
    rows = [
        (
            f"{each.field} (?)" if each.is_told_apart is False else each.field,
            each.value,
            *([bar(each.log_odds, largest=largest)] if has_bars else []),
            f"{each.log_odds:+.3f}" + ("" if is_exact else f" ± {each.standard_error:.3f}"),
            factor(each.log_odds),
        )
        for each in fields
    ]
    rows.append(("together", "", *([""] if has_bars else []), f"{gain:+.3f}", factor(gain)))
    columns = ("field", "value", *([""] if has_bars else []), "log-odds", "odds")
    return Table("What is known of the person", columns, tuple(rows), num_label_columns=len(columns) - 2)


def log_odds_table(title: str, heading: str, rows: Sequence[tuple[str, float]], *, has_bars: bool) -> Table:
    """Return by how much the log-odds fall without each of some parts, as a table.

    Args:
        title: of the table.
        heading: what a part is.
        rows: name of a part and the fall, one or more.
        has_bars: whether the table has a column of bars.
    """
    largest = max(abs(fall) for _, fall in rows)
    cells = tuple(
        (name, *([bar(fall, largest=largest)] if has_bars else []), f"{fall:+.3f}", factor(fall)) for name, fall in rows
    )
    columns = (heading, *([""] if has_bars else []), "log-odds", "odds")
    return Table(title, columns, cells, num_label_columns=len(columns) - 2)


def lines_on_fields(fields: Sequence[FieldContribution], *, num_subsets: int, is_exact: bool) -> list[str]:
    """Return what the contributions of fields mean.

    Args:
        fields: their contributions.
        num_subsets: of the fields, that were asked for.
        is_exact: whether these are all.
    """
    how = f"all {num_subsets:,} subsets of the fields"
    if not is_exact:
        how = f"{num_subsets:,} sampled subsets of the fields; ± is one standard error"
    lines = [
        f"Fields: Shapley values from {how}. They sum to what the context adds to the log-odds; the odds are "
        "multiplied by the factor. They say what this model does, not what causes a choice.",
    ]
    if any(each.is_told_apart is False for each in fields):
        lines.append("(?): could not be told from nothing where the run was evaluated, as noted below.")
    return lines


def bar(value: float, *, largest: float) -> str:
    """A bar to the right of the middle, or to the left where the value is negative.

    Example:
        >>> bar(1.0, largest=2.0)
        '          │█████     '
    """
    blocks = "█" * round(BAR_WIDTH * abs(value) / largest) if largest else ""
    left, right = (blocks, "") if value < 0 else ("", blocks)
    return f"{left:>{BAR_WIDTH}}│{right:<{BAR_WIDTH}}"


def factor(log_odds: float) -> str:
    """By what the odds are multiplied.

    Example:
        >>> factor(0.0), factor(math.log(2.5)), factor(-3.0), factor(20.0)
        ('× 1.00', '× 2.50', '× 0.0498', '× 4.85e+08')
    """
    value = math.exp(min(log_odds, 700.0))
    return f"× {value:.2f}" if 0.1 <= value < 100 else f"× {value:.3g}"


def with_or(values: Iterable[str]) -> str:
    """The values with "or" before the last.

    Example:
        >>> with_or(["a"]), with_or(["a", "b", "c"])
        ('a', 'a, b or c')
    """
    *first, last = values
    return f"{', '.join(first)} or {last}" if first else last
