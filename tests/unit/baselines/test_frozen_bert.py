"""What stands on a frozen BERT."""

import torch
from torch import Tensor, nn

from contextual_bert.baselines.frozen_bert import ConcatWord
from contextual_bert.context import Categorical, ContextSchema


class Features(nn.Module):
    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        return torch.zeros(*input_ids.shape, 4)


def test_each_new_layer_has_a_start_of_its_own() -> None:
    layout = ContextSchema(features=(Categorical(name="sex", values=("f", "m")),)).layout
    model = ConcatWord(
        Features(), lambda hidden, is_real: hidden[:, 0], num_labels=2, layout=layout, hidden_size=4, num_layers=3,
        num_heads=2, intermediate_size=8,
    )  # fmt: skip
    first, second, third = model.encoder.layers
    for name, weight in first.named_parameters():
        if weight.ndim > 1:
            assert not torch.equal(weight, second.get_parameter(name))
            assert not torch.equal(second.get_parameter(name), third.get_parameter(name))
