"""Change the items of a model that knows their features: new ones, removed ones, other values. Nothing is trained."""

import copy
from collections.abc import Sequence
from typing import Any, cast

import torch
from torch import Tensor

from contextual_bert.context.forms import missing_context
from contextual_bert.item_features import EncodedItems, ItemAttributes, encode_items
from contextual_bert.models.masked_lm import ContextualBertForMaskedLM

NO_ID = -1


@torch.no_grad()
def change_items(
    model: ContextualBertForMaskedLM, former: Sequence[int], items: EncodedItems, *, learned: Tensor | None = None
) -> ContextualBertForMaskedLM:
    """Return a model of other items; those that it had keep their vectors, new ones are known by their features.

    Args:
        model: whose items have features; it is not changed.
        former: for each new id, reserved ones first, the id that the item had; ``NO_ID`` where it is new.
        items: the features of the items behind the reserved ids.
        learned: (items,), True for new items that will be trained: they get vectors of their own, which start where
            the features put them. None: none will.

    Example:
        >>> from contextual_bert.context import FeatureLayout
        >>> from contextual_bert.item_features import ItemLayout, encode_items
        >>> from contextual_bert.models import ContextualBertConfig
        >>> colour = FeatureLayout("colour", "categorical", 5, 0, 8)
        >>> sizes = {"hidden_size": 8, "num_attention_heads": 2, "num_hidden_layers": 1, "intermediate_size": 16}
        >>> layout = ItemLayout((colour,), num_places=1).to_dict()
        >>> model = ContextualBertForMaskedLM(ContextualBertConfig(vocab_size=5, item_features=layout, **sizes)).eval()
        >>> items = encode_items([colour], {"colour": torch.tensor([3, 4, 3])})
        >>> change_items(model, [0, 1, 2, 3, 4, NO_ID], items)(input_ids=torch.tensor([[5, 1]])).logits.shape
        torch.Size([1, 6])
    """
    config = copy.deepcopy(model.config)
    layout = model.config.item_layout
    assert layout is not None
    places = max(layout.num_places, items.value_ids.shape[1])
    config.vocab_size, config.item_features = len(former), {**layout.to_dict(), "num_places": places}
    changed: Any = type(model)(config)
    changed.to(device=model.device, dtype=model.dtype).train(model.training)
    index = torch.as_tensor(former, device=model.device)
    is_new = index == NO_ID
    of_items, attributes = _of_items(model), _attributes(changed)
    state: dict[str, Tensor] = {}
    for name, value in model.state_dict().items():
        if name in of_items:
            state[name] = value[index.clamp(min=0)]
        elif f".{ATTRIBUTES}." not in name:
            state[name] = value
    changed.load_state_dict(state, strict=False)
    was_new = _attributes(model).is_new[index.clamp(min=0)]
    attributes.fill(items, is_new=(is_new | was_new)[attributes.num_reserved :])
    for encoder, own in changed.item_encoders():
        own[attributes.is_new] = encoder.new.weight[0]
    changed.get_output_embeddings().bias[attributes.is_new] = changed.new_item_bias.weight[0, 0]
    if learned is not None:
        attributes.is_new[attributes.num_reserved :] &= ~learned.to(attributes.is_new)
    return changed


def kept_features(model: ContextualBertForMaskedLM, former: Sequence[int]) -> EncodedItems:
    """Return the features that a model stores of these items; of a new one nothing is known.

    Args:
        model: whose items have features.
        former: for each item the id that it has; ``NO_ID`` where it is new.
    """
    attributes = _attributes(model)
    features = attributes.layout.features
    index = torch.as_tensor(former, device=attributes.value_ids.device)
    lacking = encode_items(features, missing_context(features, 1))
    width = attributes.value_ids.shape[1] - lacking.value_ids.shape[1]
    names = [feature.name for feature in attributes.layout.vectors]

    def of_items(stored: Tensor, missing: Tensor) -> Tensor:
        return torch.cat([stored, missing.to(stored)])[index]  # -1 is the last row

    return EncodedItems(
        of_items(attributes.value_ids, torch.nn.functional.pad(lacking.value_ids, (0, width))),
        of_items(attributes.value_weights, torch.nn.functional.pad(lacking.value_weights, (0, width))),
        {name: of_items(stored, lacking.vectors[name]) for name, stored in zip(names, attributes.vectors, strict=True)},
    )


ATTRIBUTES = "attributes"  # the name of the module that has the features


def _attributes(model: ContextualBertForMaskedLM) -> ItemAttributes:
    return cast(ItemAttributes, model.bert.embeddings.attributes)


def _of_items(model: ContextualBertForMaskedLM) -> set[str]:
    """Return the names of the weights that have a row an item."""
    output: Any = model.get_output_embeddings()
    found = {id(model.get_input_embeddings().weight), id(output.weight), id(output.bias)}
    return {name for name, value in model.state_dict(keep_vars=True).items() if id(value) in found}
