"""Why this item and not another: what each feature of an item, such as its colour, adds to its logit.

A logit is a product of the state at the slot and the item's vector. The vector is a sum over the features, and so is
the logit. Where a network reads the features, there is no such sum, and Shapley values stand in for it. Not in the
paper.
"""

from itertools import pairwise
from typing import cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from contextual_bert.context import Feature, FeatureLayout, missing_like
from contextual_bert.inference.explain.explanation import FeatureContribution, ItemReasons
from contextual_bert.inference.explain.set_question import SetQuestion
from contextual_bert.inference.explain.shapley import shapley_values
from contextual_bert.inference.scoring import to_device
from contextual_bert.item_features import ItemAttributes, ItemEncoder


@torch.inference_mode()
def item_reasons(asked: SetQuestion, chosen: int, logits: Tensor) -> ItemReasons | None:
    """Return what the features of an item do; None for a model whose items are names alone.

    Args:
        asked: the slot.
        chosen: which of its permitted items.
        logits: (permitted,) of all of them.
    """
    model, schema = asked.pipeline.model, asked.pipeline.processor.features_of_items
    attributes: ItemAttributes | None = model.bert.embeddings.attributes
    if attributes is None or schema is None:
        return None
    encoder, _ = model.item_encoders()[-1]
    index, state = int(asked.permitted[chosen]), state_of(asked)
    mine = feature_vectors(encoder, attributes, asked.permitted[chosen : chosen + 1])
    average = feature_vectors(encoder, attributes, asked.permitted)
    if encoder.network is None:
        found, errors = ((mine - average) @ state).numpy(), np.zeros(len(mine))
    else:

        def worth(present: NDArray[np.bool_]) -> NDArray[np.float64]:
            is_mine = torch.from_numpy(present).double()
            features = (is_mine @ mine + (1 - is_mine) @ average).to(encoder.values.weight)
            read = features + cast(torch.nn.Module, encoder.network)(features)
            return (read.double().cpu() @ state).numpy()

        shares = shapley_values(worth, len(mine))
        found, errors = shares.values, shares.standard_errors
    values = [value_of_item(attributes, feature, index, schema.features[n]) for n, feature in enumerate(schema.layout)]
    contributions = [
        FeatureContribution(feature.name, value, float(logit), float(error))
        for feature, value, logit, error in zip(schema.features, values, found, errors, strict=True)
    ]
    together = float(logits[chosen] - logits.mean())
    return ItemReasons(
        features=tuple(sorted(contributions, key=lambda each: -abs(each.logit))),
        own_logit=together - float(found.sum()),
        logit=together,
        num_items=len(logits),
        is_new=bool(attributes.is_new[index]),
        is_sum=encoder.network is None,
    )


def state_of(asked: SetQuestion) -> Tensor:
    """Return what the vectors of the items are multiplied with at the slot: (size,), float64.

    With guidance it is w times that of the context, and 1 - w times that of somebody of whom nothing is known.
    """
    model, weight = asked.pipeline.model, asked.request.guidance

    def state(context: dict[str, Tensor]) -> Tensor:
        encoded = {**asked.encoded([asked.items], [asked.gaps]), "context": context}
        inputs = to_device(encoded, model.device)
        ids: Tensor = inputs["input_ids"]
        rows = model.masked_rows(ids, None)
        read = (ids, inputs.get("attention_mask"), inputs["context"], inputs.get("token_type_ids"))
        hidden = model.with_context(model.bert(*read, rows=rows), rows // ids.shape[1])
        return model.read_by(hidden)[asked.slot].double().cpu()

    found = state(asked.context)
    if weight == 1:
        return found
    without = state({name: missing_like(values) for name, values in asked.context.items()})
    return without + weight * (found - without)


def feature_vectors(encoder: ItemEncoder, attributes: ItemAttributes, ids: Tensor) -> Tensor:
    """Return what each feature adds to the vectors of some items, on average: (features, size), float64."""
    layout, ids = attributes.layout, ids.to(attributes.value_ids.device)
    weights = torch.zeros(layout.num_values, dtype=torch.float64, device=ids.device)
    places, shares = attributes.value_ids[ids].flatten(), attributes.value_weights[ids].flatten().double()
    weights.index_add_(0, places, shares / len(ids))
    values = encoder.values.weight.double()
    starts = layout.starts
    found = torch.stack([weights[a:b] @ values[a:b] for a, b in pairwise(starts)])
    vectors = zip(layout.vectors, encoder.projections, attributes.vectors, strict=True)
    for feature, projection, stored in vectors:
        matrix = cast(torch.nn.Linear, projection).weight.double()
        found[layout.features.index(feature)] += matrix @ stored[ids].double().mean(dim=0)
    return found.cpu()


def value_of_item(attributes: ItemAttributes, layout: FeatureLayout, index: int, feature: Feature) -> str:
    """Return the value of a feature of an item, as the model reads it."""
    number = [each.name for each in attributes.layout.features].index(layout.name)
    first, end = attributes.layout.starts[number : number + 2]
    ids, is_there = attributes.value_ids[index], attributes.value_weights[index] != 0
    mine = (ids[is_there & (ids >= first) & (ids < end)] - first).cpu().numpy()
    if layout.form == "vector":
        return "(missing)" if len(mine) else "given"
    [names] = feature.names(mine[None] if layout.form == "id_list" else mine)
    return ", ".join(names) if isinstance(names, list) else str(names)
