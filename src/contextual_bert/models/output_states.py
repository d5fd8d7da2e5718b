"""What the output matrix reads at each masked position: all that a ranking by other means than all logits needs.

No way of searching is known here. Paper: h of equation 6.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor

from contextual_bert.models.masked_lm import ContextualBertForMaskedLM
from contextual_bert.models.repeat_scores import AddedLogits


class OutputStates(NamedTuple):
    """The logits of row i are W read_i + b, and what ``added`` says on top.

    Shapes: read (masked, size) float32.
    """

    read: Tensor
    added: AddedLogits | None


def output_states(model: ContextualBertForMaskedLM, inputs: Mapping[str, Any]) -> OutputStates:
    """Return what the output matrix reads at every [MASK] of a batch, row after row.

    Args:
        model: in ``eval()`` mode.
        inputs: what its ``forward`` takes, on its device: input_ids, attention_mask, context and the like.

    Relation to its siblings:
        ``model(**inputs).logits`` are these, times the output matrix, over all ids.

    Example:
        >>> from contextual_bert.testing import miniature_model
        >>> model = miniature_model("none").eval()
        >>> inputs = {"input_ids": torch.tensor([[3, 1, 1]])}
        >>> states = output_states(model, inputs)
        >>> weight, bias = model.output_matrix()
        >>> with torch.no_grad():
        ...     bool(torch.allclose(states.read @ weight.T + bias, model(**inputs).logits, atol=1e-5))
        True
    """
    given = dict(inputs)
    input_ids, context = given["input_ids"], given.get("context")
    rows = (input_ids == model.config.mask_token_id).flatten().nonzero(as_tuple=True)[0]
    with torch.inference_mode():
        outputs: Any = model.bert(**given, rows=rows, return_dict=True)
        set_of = rows // input_ids.shape[1]
        scored = model.with_context(outputs, set_of)
        added = model.added_logits(scored, context, set_of, num_sets=len(input_ids))
        return OutputStates(model.read_by(scored).float(), added)
