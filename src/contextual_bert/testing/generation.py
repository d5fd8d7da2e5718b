"""Contract of a method in blocks that read from left to right: what follows a token does not count, nor does a cache.

The function takes the name of a registered method and raises AssertionError with the reason. It knows no method.
"""

import tempfile
from typing import Any

import torch
from torch import Tensor
from transformers import AutoModelForCausalLM

from contextual_bert.conditioning import get_method
from contextual_bert.errors import ConfigurationError
from contextual_bert.models import IGNORED_LABEL, ContextualBertConfig, ContextualBertForCausalLM
from contextual_bert.testing.miniature import (
    batch_rows,
    blocks_of,
    drawn_anew,
    miniature_batch,
    miniature_config,
    relative_difference,
    require,
)

ROUNDING = 1e-5  # float32: the same sums in another order
NUM_NEW = 4


def check_generation(method_name: str) -> None:
    """Left to right: each token sees those before it alone; a text is written the same with a cache and without, in a
    batch and alone, and under its own context. A method whose state reads the whole text is refused, and one that
    conditions attention where blocks have none."""
    for name in ("gpt2", "lstm", "gru"):
        with blocks_of(name):
            _check_blocks(method_name, miniature_config(method_name, eos_token_id=None))


def _check_blocks(method_name: str, config: ContextualBertConfig) -> None:
    try:
        model = drawn_anew(ContextualBertForCausalLM(config))
    except ConfigurationError:
        state, block = config.method.state(config.sizes), config.method.block(config.sizes, 0)
        attends = block is not None and block.point == "attend" and not config.blocks.has_attention
        reads_on = state is not None and state.reads_sequence
        require(attends or reads_on, f"{method_name}: refused from left to right")
        return
    state = model.bert.encoder.conditioning
    require(state is None or not state.reads_sequence, f"{method_name}: its state sees the tokens that follow")
    has_context = get_method(method_name).has_context
    batch = {key: value for key, value in miniature_batch().items() if key != "labels"}
    if not has_context:
        del batch["context"]
    _check_direction(method_name, model, batch)
    _check_written(method_name, model, batch)
    _check_loss(method_name, model, batch)
    if has_context:
        _check_context(method_name, model, batch)
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        loaded = AutoModelForCausalLM.from_pretrained(folder, trust_remote_code=False).eval()
    same = torch.equal(_logits(loaded, batch), _logits(model, batch))
    require(same, f"{method_name}: the loaded model gives other outputs")


@torch.no_grad()
def _logits(model: Any, batch: dict[str, Any]) -> Tensor:
    return model(**batch).logits


def _check_direction(name: str, model: Any, batch: dict[str, Any]) -> None:
    logits, changed = _logits(model, batch), batch["input_ids"].clone()
    changed[:, 2] = (changed[:, 2] + 1) % model.config.vocab_size
    other = _logits(model, {**batch, "input_ids": changed})
    is_same = relative_difference(other[:, :2], logits[:, :2]) <= ROUNDING
    require(is_same, f"{name}: a token changes what is said of those before it")
    require(not torch.equal(other[:, 2], logits[:, 2]), f"{name}: a token changes nothing behind it")
    longest = batch["input_ids"].shape[1]
    for row, length in enumerate(batch["attention_mask"].sum(dim=1).tolist()):
        alone = batch_rows(batch, [row])
        alone |= {key: alone[key][:, :length] for key in ("input_ids", "attention_mask")}
        difference = relative_difference(logits[row, :length], _logits(model, alone)[0])
        require(difference <= ROUNDING, f"{name}: alone a text is {difference} away from the same in a batch")
        in_front = torch.zeros(1, longest - length, dtype=torch.int64)
        padded = {key: torch.cat([in_front, alone[key]], dim=1) for key in ("input_ids", "attention_mask")}
        places = (padded["attention_mask"].cumsum(dim=1) - 1).clamp(min=0)
        found = _logits(model, {**alone, **padded, "position_ids": places})[0, longest - length :]
        difference = relative_difference(found, logits[row, :length])
        require(difference <= ROUNDING, f"{name}: padding in front changes what is said, by {difference}")


def _check_written(name: str, model: Any, batch: dict[str, Any]) -> None:
    whole = batch_rows(batch, [0, 0, 0, 0]) | ({"context": batch["context"]} if "context" in batch else {})
    settings: dict[str, Any] = {"max_new_tokens": NUM_NEW, "do_sample": False, "pad_token_id": 0}
    for num_beams in (1, 2):
        wished = {**settings, "num_beams": num_beams}
        written = model.generate(**whole, **wished)
        require(
            torch.equal(written, model.generate(**whole, **wished, use_cache=False)),
            f"{name}: with a cache something else is written than without, with {num_beams} beams",
        )
        for row in range(len(written)):
            alone = model.generate(**batch_rows(whole, [row]), **wished)
            require(torch.equal(alone[0], written[row]), f"{name}: alone another text is written, {num_beams} beams")


def _check_loss(name: str, model: Any, batch: dict[str, Any]) -> None:
    labels = batch["input_ids"].masked_fill(batch["attention_mask"] == 0, IGNORED_LABEL)
    logits = _logits(model, batch)[:, :-1].flatten(0, 1)
    expected = torch.nn.functional.cross_entropy(logits, labels[:, 1:].flatten(), ignore_index=IGNORED_LABEL)
    scores = model.score_next(labels=labels, **batch)
    found = {"evaluation": model(labels=labels, **batch).loss, "scores": -scores.log_probability.mean()}
    model.train()
    model.zero_grad()
    found["training"] = model(labels=labels, **batch).loss
    found["training"].backward()
    model.eval()
    for where, loss in found.items():
        difference = relative_difference(loss.detach(), expected)
        require(difference <= ROUNDING, f"{name}: the loss of {where} is {difference} away from the cross-entropy")
    dead = [key for key, weight in model.named_parameters() if weight.grad is None]
    require(not dead, f"{name}: no gradient reaches {dead}")


def _check_context(name: str, model: Any, batch: dict[str, Any]) -> None:
    logits = _logits(model, batch)
    other = _logits(model, {**batch, "context": batch_rows(batch, [1, 1, 2, 3])["context"]})
    require(not torch.equal(other[0], logits[0]), f"{name}: a context changes nothing in its own row")
    require(torch.equal(other[1:], logits[1:]), f"{name}: a context changes other rows")
    state = model.encode_context(batch["context"])
    difference = relative_difference(_logits(model, {**batch, "context": state}), logits)
    require(difference <= ROUNDING, f"{name}: an encoded context is {difference} away from the context")
    prompts = {"input_ids": batch["input_ids"][:, :2], "max_new_tokens": NUM_NEW, "do_sample": False, "pad_token_id": 0}
    for num_beams in (1, 2):
        without = model.generate(**prompts, num_beams=num_beams)
        guided = model.generate(**prompts, context=batch["context"], guidance=0.0, num_beams=num_beams)
        require(torch.equal(guided, without), f"{name}: guidance 0 writes something else than without a context")
