"""Contracts 1 to 6: what a method must and must not change in the model's outputs.

Each function takes the name of a registered method and raises AssertionError with the reason. It knows no method.
Paper: section 3.
"""

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from transformers import BertForMaskedLM

from contextual_bert.conditioning import get_method
from contextual_bert.models import ContextualBertForMaskedLM
from contextual_bert.models.plain_bert import plain_bert_config
from contextual_bert.testing.miniature import (
    batch_rows,
    miniature_batch,
    miniature_config,
    miniature_model,
    relative_difference,
    require,
)

ROUNDING = 1e-5  # float32: the same sums in another order


def check_bert(method_name: str) -> None:
    """Contract 1: without a slot the model is transformers' BERT bit for bit; a slot only adds weights with its names.

    A block entered at ``attend`` takes the place of self-attention, so those weights of BERT may be absent.
    """
    fields: dict[str, Any] = {"has_position_embeddings": True, "type_vocab_size": 2}
    model = miniature_model(method_name, **fields)
    bert = BertForMaskedLM(plain_bert_config(model.config)).eval()
    ours, theirs = set(model.state_dict()), set(bert.state_dict())
    new = {key for key in ours if "conditioning." in key or "context_encoder." in key}
    require(
        ours - new <= theirs,
        f"{method_name}: weights that neither BERT has nor contain 'conditioning.' or 'context_encoder.': "
        f"{sorted(ours - new - theirs)}",
    )
    replaced = {key for key in theirs if ".attention.self." in key} if _attends(model) else set[str]()
    require(theirs - ours <= replaced, f"{method_name}: weights of BERT are gone: {sorted(theirs - ours - replaced)}")
    if new:
        return
    bert.load_state_dict(model.state_dict())
    batch = miniature_batch()
    inputs = {name: batch[name] for name in ("input_ids", "attention_mask")}
    inputs["token_type_ids"] = torch.arange(5).ge(2).long().expand_as(batch["input_ids"])
    with torch.no_grad():
        same = torch.equal(model(**inputs, logits_at="all").logits, bert(**inputs).logits)
    require(same, f"{method_name}: fills no slot, yet its logits are not those of transformers' BertForMaskedLM")


def check_length(method_name: str) -> None:
    """Contract 2: as many outputs as inputs, in every layer, whatever the method puts in front."""
    batch = miniature_batch()
    labels, shape = batch.pop("labels"), tuple(batch["input_ids"].shape)
    model = miniature_model(method_name)
    with torch.no_grad():
        outputs = model(**batch, logits_at="all", output_hidden_states=True)
        hidden = model.bert(**batch).last_hidden_state
    num_layers, width = model.config.num_hidden_layers, model.config.hidden_size
    require(tuple(hidden.shape) == (*shape, width), f"{method_name}: {tuple(hidden.shape)} for input_ids {shape}")
    require(
        [tuple(states.shape) for states in outputs.hidden_states] == [(*shape, width)] * (num_layers + 1),
        f"{method_name}: hidden_states {[tuple(states.shape) for states in outputs.hidden_states]} for {shape}",
    )
    require(
        tuple(outputs.logits.shape) == (*shape, model.config.vocab_size),
        f"{method_name}: logits {tuple(outputs.logits.shape)} for input_ids {shape}",
    )
    with torch.no_grad():
        masked = model(**batch, labels=labels).logits
    difference = relative_difference(masked, outputs.logits[labels >= 0])
    require(
        difference <= ROUNDING, f"{method_name}: logits at masked positions differ from those at all ({difference})"
    )


def check_attentions(method_name: str) -> None:
    """``output_attentions`` gives the weights of each layer: shares of the real positions that add up to 1."""
    batch = miniature_batch()
    del batch["labels"]
    model = miniature_model(method_name, attn_implementation="eager")
    with torch.no_grad():
        outputs = model(**batch, logits_at="all", output_attentions=True)
        plain = model(**batch, logits_at="all").logits
    require(torch.equal(outputs.logits, plain), f"{method_name}: recording the attention changes the logits")
    is_real, added = batch["attention_mask"].bool(), model.bert.num_added_positions
    is_read = torch.cat([is_real.new_ones(len(is_real), added), is_real], dim=1)
    for layer, weights in enumerate(outputs.attentions):
        length = is_read.shape[1]
        fits = weights.ndim == 4 and (weights.shape[0], *weights.shape[2:]) == (len(is_read), length, length)
        require(fits, f"{method_name}: layer {layer} has attentions {tuple(weights.shape)} for {length} positions")
        rows = weights.transpose(1, 2)[is_read]
        off = float((rows.sum(dim=-1) - 1).abs().max())
        require(off <= ROUNDING, f"{method_name}: the shares of layer {layer} add up to 1 but for {off}")
        beside = weights.masked_select(~is_read[:, None, None, :])
        require(not bool(beside.any()), f"{method_name}: layer {layer} attends to padding")


def check_padding(method_name: str) -> None:
    """Contract 3: neither the amount of padding nor what stands in it changes a real position."""
    batch = miniature_batch()
    del batch["labels"]
    model = miniature_model(method_name)
    is_real = batch["attention_mask"].bool()
    with torch.no_grad():
        padded = model(**batch, logits_at="all").logits
        filled = {**batch, "input_ids": torch.where(is_real, batch["input_ids"], 7)}
        require(
            torch.equal(model(**filled, logits_at="all").logits[is_real], padded[is_real]),
            f"{method_name}: the ids behind the end of a set change its output; respect the mask",
        )
        for row in range(len(is_real)):
            alone = batch_rows(batch, [row])
            length = int(is_real[row].sum())
            inputs = {"input_ids": alone["input_ids"][:, :length], "context": alone["context"]}
            found = model(**inputs, logits_at="all").logits[0]
            difference = relative_difference(padded[row, :length], found)
            require(difference <= ROUNDING, f"{method_name}: padding row {row} changes its output by {difference}")


def check_rows(method_name: str) -> None:
    """Contract 4: the context of one row never reaches another, and it does reach its own."""
    batch = miniature_batch()
    del batch["labels"]
    others = {**batch, "context": batch_rows(batch, [1, 1, 2, 3])["context"]}
    model = miniature_model(method_name)
    for mode in (model.eval, model.train):  # a normalisation over the batch mixes rows in training only
        mode()
        with torch.no_grad():
            before, after = model(**batch, logits_at="all").logits, model(**others, logits_at="all").logits
        require(
            torch.equal(before[1:], after[1:]),
            f"{method_name}: another context in row 0 changes other rows (training={model.training})",
        )
        changes = not torch.equal(before[0], after[0])
        expected = get_method(method_name).has_context
        require(changes == expected, f"{method_name}: has_context={expected}, but another context changes: {changes}")


def check_permutation(method_name: str) -> None:
    """Contract 5: without positions, permuting the items permutes the outputs: a set has no order."""
    batch = batch_rows(miniature_batch(), [0, 3])  # two full rows
    order = torch.tensor([3, 0, 4, 1, 2])
    model = miniature_model(method_name)
    inputs = {"context": batch["context"], "logits_at": "all"}
    with torch.no_grad():
        straight = model(batch["input_ids"], **inputs).logits
        permuted = model(batch["input_ids"][:, order], **inputs).logits
    difference = relative_difference(permuted, straight[:, order])
    require(difference <= ROUNDING, f"{method_name}: the order of the items changes the output by {difference}")


def check_context_gradient(method_name: str) -> None:
    """Contract 6: the gradient of the output reaches every feature of the context; without a context there is none."""
    batch = miniature_batch()
    model = miniature_model(method_name)
    if not get_method(method_name).has_context:
        require(
            model.bert.context_encoder is None, f"{method_name}: has_context is False, yet it has a context encoder"
        )
        with torch.no_grad():
            logits, bare = model(**batch).logits, model(**{**batch, "context": None}).logits
        require(torch.equal(logits, bare), f"{method_name}: has_context is False, yet a context changes the output")
        return
    with _embedded_features(model) as features:
        model(**batch).loss.backward()
    require(len(features) > 0, f"{method_name}: the context encoder was not called")
    for name, embedded in features.items():
        gradient = embedded.grad if embedded.grad is not None else torch.zeros_like(embedded)
        rows = gradient.abs().sum(dim=-1) > 0
        require(
            bool(rows.all()),
            f"{method_name}: no gradient reaches the feature {name!r} in rows {(~rows).nonzero().tolist()}",
        )
    silent = [
        name
        for name, weight in model.named_parameters()
        if "conditioning." in name and (weight.grad is None or not bool(weight.grad.any()))
    ]
    require(not silent, f"{method_name}: weights of the method that no gradient reaches: {silent}")


@contextmanager
def _embedded_features(model: ContextualBertForMaskedLM) -> Generator[dict[str, Tensor]]:
    """The embedding of each feature as the forward pass makes it, with its gradient kept."""
    kept: dict[str, Tensor] = {}
    encoder: Any = model.bert.context_encoder

    def keep(name: str) -> Any:
        def hook(module: object, inputs: object, embedded: Tensor) -> None:
            embedded.retain_grad()
            kept[name] = embedded

        return hook

    handles = [module.register_forward_hook(keep(name)) for name, module in encoder.features.items()]
    try:
        yield kept
    finally:
        for handle in handles:
            handle.remove()


def _attends(model: ContextualBertForMaskedLM) -> bool:
    method, sizes = get_method(model.config.conditioning), miniature_config(model.config.conditioning).sizes
    blocks = [method.block(sizes, layer) for layer in range(sizes.num_layers)]
    return any(block is not None and block.point == "attend" for block in blocks)
