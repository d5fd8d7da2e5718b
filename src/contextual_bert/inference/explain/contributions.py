"""What every explanation asks: the contribution of each field, other values of the fields, and notes on the numbers.

It knows neither sets nor texts, only a ``Question`` and its choices. Paper: not there; docs/decisions/013.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from contextual_bert.context import Feature
from contextual_bert.inference.explain.explanation import FieldContribution
from contextual_bert.inference.explain.question import Question
from contextual_bert.inference.explain.shapley import ShapleyValues, shapley_values

MAX_OTHER_VALUES = 1000  # each is a question to the model; a field with more is an identity, not a choice


class FieldShares(NamedTuple):
    """The contributions of the given fields, the largest first, and the Shapley values that they are."""

    shares: ShapleyValues
    fields: tuple[FieldContribution, ...]


class OtherValues(NamedTuple):
    """Contexts in each of which one field has another value.

    ``changes``: the field and its value, a row each; ``context``: a row each.
    """

    changes: Sequence[tuple[str, str]]
    context: Mapping[str, Tensor]


def field_contributions(
    asked: Question, chosen: int, features: Sequence[Feature], *, max_exact: int, num_pairs: int, seed: int
) -> FieldShares:
    """Return what each given field contributes to the log-odds of a choice.

    Args:
        asked: the question.
        chosen: which of its choices.
        features: the given fields.
        max_exact: with so many fields or fewer, all their subsets are asked for.
        num_pairs: with more, so many orders are drawn and taken forwards and backwards.
        seed: of these.
    """

    def worth(present: NDArray[np.bool_]) -> NDArray[np.float64]:
        columns = {feature.name: torch.from_numpy(present[:, number]) for number, feature in enumerate(features)}
        return asked.log_odds(chosen, asked.with_only(columns, num_rows=len(present)))

    shares = shapley_values(worth, len(features), max_exact=max_exact, num_pairs=num_pairs, seed=seed)
    verdicts = asked.pipeline.verdicts
    told = {each.name: verdicts.is_told_apart(each.name) for each in features} if verdicts is not None else {}
    numbers = zip(features, shares.values, shares.standard_errors, strict=True)
    contributions = [
        FieldContribution(
            feature.name,
            asked.value_of(feature, chosen=chosen),
            float(value),
            float(error),
            told.get(feature.name),
        )
        for feature, value, error in numbers
    ]
    return FieldShares(shares, tuple(sorted(contributions, key=lambda each: -abs(each.log_odds))))


def other_contexts(asked: Question) -> OtherValues | None:
    """Return the contexts of the query with each other value of each field; None where there is none."""
    changes = [
        (name, value, index)
        for name, values, first in _listed_values(asked)
        if len(values) <= MAX_OTHER_VALUES
        for index, value in enumerate(values, first)
    ]
    changes = [change for change in changes if int(asked.context[change[0]]) != change[2]]
    if not changes:
        return None
    context = asked.repeated(len(changes))
    for row, (field, _, index) in enumerate(changes):
        context[field][row] = index
    return OtherValues([(field, value) for field, value, _ in changes], context)


def _listed_values(asked: Question) -> Iterator[tuple[str, Sequence[str], int]]:
    """Of each field that has a list of values or bins, and is not sensitive: its name, them, the id of the first."""
    schema: Any = asked.pipeline.processor.schema
    for feature in schema.read_features:
        if feature.choices and not feature.sensitive and asked.context[feature.name].ndim == 1:
            yield feature.name, feature.choices, feature.layout.num_reserved


def notes_on_fields(
    asked: Question, features: Sequence[Feature], unknown: Mapping[str, Sequence[str]]
) -> Iterator[str]:
    """Yield notes on the contributions of fields and on other values, for the reader.

    Args:
        asked: the question.
        features: the given fields.
        unknown: field -> values that the model never saw.
    """
    for name, values in unknown.items():
        yield f"Unknown values of {name}, treated as unknown: {', '.join(values)}."
    absent = [name for name in asked.context if name not in {feature.name for feature in features}]
    if absent:
        yield f"Not given, so without a contribution: {', '.join(absent)}."
    if many := [name for name, values, _ in _listed_values(asked) if len(values) > MAX_OTHER_VALUES]:
        yield f"With more than {MAX_OTHER_VALUES:,} values, so what others would get was not asked: {', '.join(many)}."
    if not asked.pipeline.model.has_learned_anonymous:
        yield (
            "Trained without context_dropout: the model was hardly ever shown a person of whom nothing is known, which "
            "is where the contributions begin."
        )


def probability_of(log_odds: float) -> float:
    """p of log(p / (1 - p)).

    Example:
        >>> probability_of(0.0)
        0.5
    """
    return float(torch.tensor(log_odds, dtype=torch.float64).sigmoid())
