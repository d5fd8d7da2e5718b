"""Why this item? Which fields of the context, and which items of the set, made a completion what it is.

Every number is the model's own prediction for another question: with fewer fields, with another value, with an item
less. So only models that were trained with `field_dropout` are explained. Paper: not there; docs/decisions/013.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from contextual_bert.context import Feature
from contextual_bert.errors import ConfigurationError
from contextual_bert.inference.capabilities import why_no_explanation
from contextual_bert.inference.explain.explanation import (
    Counterfactual,
    Explanation,
    FieldContribution,
    ItemContribution,
)
from contextual_bert.inference.explain.item_reasons import item_reasons
from contextual_bert.inference.explain.question import Question
from contextual_bert.inference.explain.shapley import MAX_EXACT_FIELDS, shapley_values
from contextual_bert.inference.pipeline import CompletionPipeline
from contextual_bert.inference.queries import MASK, Request, check_count, check_seed

MAX_OTHER_VALUES = 1000  # each is a question to the model; a field with more is an identity, not a choice


def explain(
    pipeline: CompletionPipeline,
    query: Mapping[str, Any] | Request,
    *,
    item: str | None = None,
    slot: int = 0,
    max_exact_fields: int = MAX_EXACT_FIELDS,
    num_pairs: int = 64,
    seed: int = 0,
    batch_size: int = 256,
) -> Explanation:
    """Why an item is as probable at a slot as it is: by field, by item, and what others would get.

    A field counts by its Shapley value for the log-odds of the item: what it adds when it becomes known, the mean over
    all orders in which the given fields may become known. The model must have been trained with ``field_dropout``.
    Of a run whose items have features, each feature of the item counts by what it adds to the item's logit, beside the
    average of the permitted items.
    What others would get is asked of each other value of a field; of a field with more than 1,000, none is, and a note
    says so.

    Args:
        pipeline: of the model.
        query: as the pipeline takes it, constraints and guidance too.
        item: what to explain; None: the best item.
        slot: which [MASK] of the set, counted from 0.
        max_exact_fields: with so many given fields or fewer, all their subsets are asked for.
        num_pairs: with more, so many orders are drawn and taken forwards and backwards.
        seed: of these.
        batch_size: questions a forward pass.

    Raises:
        ConfigurationError: the model reads no context, or was never shown one with fields absent; settings that cannot
            work.
        DataError, UnknownNameError: a faulty query, or an item that it does not permit.

    Example:
        >>> from contextual_bert.testing import miniature_model, miniature_processor
        >>> pipeline = CompletionPipeline(miniature_model("concat", field_dropout=0.2), miniature_processor())
        >>> [each.field for each in explain(pipeline, {"items": ["item-2"], "context": {"age": 30}}).fields]
        ['age']
    """
    check_explainable(pipeline)
    check_count("batch_size", batch_size)
    check_seed(seed)
    asked = Question(pipeline, query, slot=slot, batch_size=batch_size)
    [own] = asked.answers(asked.context)
    best = int(own[0].argmax())
    chosen = asked.place_of(item) if item is not None else best
    features = asked.given_features()

    def worth(present: NDArray[np.bool_]) -> NDArray[np.float64]:
        columns = {feature.name: torch.from_numpy(present[:, number]) for number, feature in enumerate(features)}
        return asked.log_odds(chosen, asked.with_only(columns, num_rows=len(present)))

    shares = shapley_values(worth, len(features), max_exact=max_exact_fields, num_pairs=num_pairs, seed=seed)
    verdicts = pipeline.verdicts
    told = {each.name: verdicts.is_told_apart(each.name) for each in features} if verdicts is not None else {}
    own_item = asked.names[chosen]
    numbers = zip(features, shares.values, shares.standard_errors, strict=True)
    contributions = [
        FieldContribution(
            feature.name,
            asked.value_of(feature, item=own_item),
            float(value),
            float(error),
            told.get(feature.name),
        )
        for feature, value, error in numbers
    ]
    return Explanation(
        items=tuple(asked.items),
        position=asked.positions[slot],
        item=own_item,
        best_item=asked.names[best],
        probability=probability_of(shares.whole),
        anonymous_probability=probability_of(shares.empty),
        full_log_odds=shares.whole,
        base_log_odds=shares.empty,
        fields=tuple(sorted(contributions, key=lambda each: -abs(each.log_odds))),
        other_items=tuple(contributions_of_items(asked, chosen, full=shares.whole)),
        counterfactuals=tuple(counterfactuals_of(asked, best)),
        item_reasons=item_reasons(asked, chosen, own[0]),
        is_exact=shares.is_exact,
        num_subsets=shares.num_coalitions,
        notes=tuple(notes_of(asked, features)),
    )


def check_explainable(pipeline: CompletionPipeline) -> None:
    """Raise ConfigurationError unless the model has learned what it would say with fewer fields."""
    if (reason := why_no_explanation(pipeline)) is not None:
        raise ConfigurationError(reason)


def contributions_of_items(asked: Question, chosen: int, *, full: float) -> Iterator[ItemContribution]:
    """Yield the contribution of each visible item. The permitted items stay those of the whole set."""
    visible = [position for position, item in enumerate(asked.items) if item != MASK]
    if not visible:
        return
    without = asked.log_odds(chosen, asked.repeated(len(visible)), asked.without(visible))
    for position, value in zip(visible, without.tolist(), strict=True):
        yield ItemContribution(asked.items[position], position, full - value)


def counterfactuals_of(asked: Question, best: int) -> Iterator[Counterfactual]:
    """Each other value of a field with a list of values or bins under which another item is the best."""
    changes = [
        (name, value, index)
        for name, values, first in other_values(asked)
        if len(values) <= MAX_OTHER_VALUES
        for index, value in enumerate(values, first)
    ]
    changes = [change for change in changes if int(asked.context[change[0]]) != change[2]]
    if not changes:
        return
    context = asked.repeated(len(changes))
    for row, (field, _, index) in enumerate(changes):
        context[field][row] = index
    top = torch.cat([torch.stack(block.softmax(dim=1).max(dim=1), dim=1) for block in asked.answers(context)])
    for (field, value, _), (probability, place) in zip(changes, top.tolist(), strict=True):
        if int(place) != best:
            yield Counterfactual(field, value, asked.names[int(place)], probability)


def other_values(asked: Question) -> Iterator[tuple[str, Sequence[str], int]]:
    """Of each field that has a list of values or bins, and is not sensitive: its name, them, the id of the first."""
    schema: Any = asked.pipeline.processor.schema
    for feature in schema.read_features:
        if feature.choices and not feature.sensitive:
            yield feature.name, feature.choices, feature.layout.num_reserved


def notes_of(asked: Question, features: Sequence[Feature]) -> Iterator[str]:
    """Yield notes on the numbers for the reader."""
    answer = asked.pipeline.answer(asked.request, [])
    verdicts = asked.pipeline.verdicts
    yield from verdicts.notes(feature.name for feature in features) if verdicts is not None else ()
    yield from asked.context_notes
    yield from answer["notes"]
    if answer["unknown_items"]:
        unknown = ", ".join(answer["unknown_items"])
        yield f"Unknown items, of which the model knows only that something is there: {unknown}."
    for name, values in answer["unknown_context"].items():
        yield f"Unknown values of {name}, treated as unknown: {', '.join(values)}."
    absent = [name for name in asked.context if name not in {feature.name for feature in features}]
    if absent:
        yield f"Not given, so without a contribution: {', '.join(absent)}."
    if many := [name for name, values, _ in other_values(asked) if len(values) > MAX_OTHER_VALUES]:
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
