"""Why this item? Which fields of the context, and which items of the set, made a completion what it is.

Every number is the model's own prediction for another question: with fewer fields, with another value, with an item
less. So only models that were trained with `field_dropout` are explained. Paper: not there; docs/decisions/013.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch

from contextual_bert.context import Feature
from contextual_bert.errors import ConfigurationError
from contextual_bert.inference.capabilities import why_no_explanation
from contextual_bert.inference.explain.contributions import (
    field_contributions,
    notes_on_fields,
    other_contexts,
    probability_of,
)
from contextual_bert.inference.explain.explanation import Counterfactual, Explanation, ItemContribution
from contextual_bert.inference.explain.item_reasons import item_reasons
from contextual_bert.inference.explain.set_question import SetQuestion
from contextual_bert.inference.explain.shapley import MAX_EXACT_FIELDS
from contextual_bert.inference.pipeline import CompletionPipeline
from contextual_bert.inference.queries import MASK, Request, check_count, check_seed


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
    asked = SetQuestion(pipeline, query, slot=slot, batch_size=batch_size)
    [own] = asked.answers(asked.context)
    best = int(own[0].argmax())
    chosen = asked.place_of(item) if item is not None else best
    features = asked.given_features()
    how = {"max_exact": max_exact_fields, "num_pairs": num_pairs, "seed": seed}
    shares, fields = field_contributions(asked, chosen, features, **how)
    return Explanation(
        items=tuple(asked.items),
        position=asked.positions[slot],
        item=asked.names[chosen],
        best_item=asked.names[best],
        probability=probability_of(shares.whole),
        anonymous_probability=probability_of(shares.empty),
        full_log_odds=shares.whole,
        base_log_odds=shares.empty,
        fields=fields,
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


def contributions_of_items(asked: SetQuestion, chosen: int, *, full: float) -> Iterator[ItemContribution]:
    """Yield the contribution of each visible item. The permitted items stay those of the whole set."""
    visible = [position for position, item in enumerate(asked.items) if item != MASK]
    if not visible:
        return
    without = asked.log_odds(chosen, asked.repeated(len(visible)), asked.without(visible))
    for position, value in zip(visible, without.tolist(), strict=True):
        yield ItemContribution(asked.items[position], position, full - value)


def counterfactuals_of(asked: SetQuestion, best: int) -> Iterator[Counterfactual]:
    """Each other value of a field with a list of values or bins under which another item is the best."""
    if (others := other_contexts(asked)) is None:
        return
    blocks = asked.answers(others.context)
    top = torch.cat([torch.stack(block.softmax(dim=1).max(dim=1), dim=1) for block in blocks])
    for (field, value), (probability, place) in zip(others.changes, top.tolist(), strict=True):
        if int(place) != best:
            yield Counterfactual(field, value, asked.names[int(place)], probability)


def notes_of(asked: SetQuestion, features: Sequence[Feature]) -> Iterator[str]:
    """Yield notes on the numbers for the reader."""
    answer = asked.pipeline.answer(asked.request, [])
    verdicts = asked.pipeline.verdicts
    yield from verdicts.notes(feature.name for feature in features) if verdicts is not None else ()
    yield from asked.context_notes
    yield from answer["notes"]
    if answer["unknown_items"]:
        unknown = ", ".join(answer["unknown_items"])
        yield f"Unknown items, of which the model knows only that something is there: {unknown}."
    yield from notes_on_fields(asked, features, answer["unknown_context"])
