"""Contracts 7, 9 and 10: saving, counting, and other ways to compute the same.

Each function takes the name of a registered method and raises AssertionError with the reason. It knows no method.
Paper: Table 1 (contract 9).
"""

import tempfile
from typing import Any, NamedTuple

import torch
from torch import Tensor
from transformers import AutoConfig, AutoModelForMaskedLM, AutoProcessor

from contextual_bert.conditioning import get_method
from contextual_bert.models import ContextualBertForMaskedLM
from contextual_bert.models.parameter_count import table1
from contextual_bert.testing.miniature import (
    RECORDS,
    SETS,
    miniature_batch,
    miniature_model,
    miniature_processor,
    relative_difference,
    require,
)

SAME_OPERATIONS = 1e-5  # relative; checkpointing repeats the operations, aot_eager keeps them
FUSED_OPERATIONS = 1e-4  # relative; inductor fuses and reorders them
BFLOAT16 = 0.05  # relative; 8 bits of mantissa (2**-8 = 0.004) through three blocks


def check_save_and_load(method_name: str) -> None:
    """Contract 7: what is saved comes back, weight by weight and logit by logit, through the Auto classes too."""
    model, processor, batch = miniature_model(method_name), miniature_processor(), miniature_batch()
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        processor.save_pretrained(folder)
        direct = ContextualBertForMaskedLM.from_pretrained(folder)
        automatic = AutoModelForMaskedLM.from_pretrained(folder, trust_remote_code=False)
        config = AutoConfig.from_pretrained(folder, trust_remote_code=False)
        reloaded = AutoProcessor.from_pretrained(folder, trust_remote_code=False)
    require(
        config.conditioning == method_name and config.layout == model.config.layout,
        f"{method_name}: the saved config says conditioning={config.conditioning!r} with {config.layout}",
    )
    weights = model.state_dict()
    for other in (direct, automatic):
        require(type(other) is type(model), f"{method_name}: loaded as {type(other).__name__}")
        loaded = other.state_dict()
        require(
            loaded.keys() == weights.keys(), f"{method_name}: keys changed: {sorted(loaded.keys() ^ weights.keys())}"
        )
        changed = [name for name in weights if not torch.equal(loaded[name], weights[name])]
        require(
            not changed,
            f"{method_name}: loading changed {changed}. An `initialise` may use torch.nn.init only: it leaves loaded "
            "weights alone, writing into them directly does not",
        )
        with torch.no_grad():
            same = torch.equal(other.eval()(**batch).logits, model(**batch).logits)
        require(same, f"{method_name}: the loaded model gives other logits")
    before, after = (each(items=SETS, context=RECORDS) for each in (processor, reloaded))
    same = torch.equal(before["input_ids"], after["input_ids"]) and all(
        torch.equal(tensor, after["context"][feature]) for feature, tensor in before["context"].items()
    )
    require(same, f"{method_name}: the loaded processor encodes otherwise")


def check_parameters(method_name: str) -> None:
    """Contract 9: the paper's count for the paper's methods; for others, BERT's parts unchanged and no weight twice."""
    rows = {row.conditioning: row for row in table1()}
    row, plain = rows[method_name], rows["none"].count.parts
    if row.paper is not None:
        require(
            row.count.counted == row.paper, f"{method_name}: {row.count.counted} parameters, Table 1 says {row.paper}"
        )
    for part in ("feed_forward", "head"):
        require(row.count.parts[part] == plain[part], f"{method_name}: changes the size of BERT's {part}")
    slots = sum(row.count.parts.get(part, 0) for part in ("input", "state", "block"))
    has_context = get_method(method_name).has_context
    require((slots > 0) == has_context, f"{method_name}: has_context={has_context} and {slots} parameters in its slots")


def check_gradient_checkpointing(method_name: str) -> None:
    """Contract 10: computing the blocks twice to save memory changes neither loss nor gradients."""
    model = miniature_model(method_name).train()
    expected = _loss_and_gradients(model, model)
    model.gradient_checkpointing_enable()
    require(model.is_gradient_checkpointing, f"{method_name}: gradient checkpointing did not switch on")
    found = _loss_and_gradients(model, model)
    _compare(found, expected, tolerance=SAME_OPERATIONS, text=f"{method_name}: gradient checkpointing")


def check_bfloat16(method_name: str) -> None:
    """Contract 10: under bfloat16 autocast logits stay within ``BFLOAT16`` of float32 and the loss is float32."""
    model, batch = miniature_model(method_name), miniature_batch()
    with torch.no_grad():
        expected = model(**batch)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            found = model(**batch)
    require(found.loss.dtype == torch.float32, f"{method_name}: the loss is {found.loss.dtype} under autocast")
    for name in ("logits", "loss"):
        difference = relative_difference(found[name], expected[name])
        require(difference <= BFLOAT16, f"{method_name}: bfloat16 changes the {name} by {difference}, over {BFLOAT16}")


def check_compile(method_name: str, *, backend: str = "aot_eager") -> None:
    """Contract 10: ``torch.compile`` changes neither loss nor logits nor gradients.

    Args:
        method_name: a registered method.
        backend: "inductor" takes about half a minute.
    """
    tolerance = FUSED_OPERATIONS if backend == "inductor" else SAME_OPERATIONS
    model = miniature_model(method_name, num_hidden_layers=2)  # the fewest with a transition between blocks
    expected = _loss_and_gradients(model, model)
    torch.compiler.reset()
    compiled = torch.compile(model, backend=backend)
    found = _loss_and_gradients(model, compiled)
    torch.compiler.reset()
    _compare(found, expected, tolerance=tolerance, text=f"{method_name}: compiled with {backend}")


class _Computed(NamedTuple):
    loss: Tensor
    logits: Tensor
    gradients: dict[str, Tensor]


def _loss_and_gradients(model: ContextualBertForMaskedLM, function: Any) -> _Computed:
    model.zero_grad()
    outputs = function(**miniature_batch(), logits_at="masked")
    outputs.loss.backward()
    gradients = {name: weight.grad for name, weight in model.named_parameters() if weight.grad is not None}
    return _Computed(outputs.loss.detach(), outputs.logits.detach(), gradients)


def _compare(found: _Computed, expected: _Computed, *, tolerance: float, text: str) -> None:
    for name in ("loss", "logits"):
        difference = relative_difference(getattr(found, name), getattr(expected, name))
        require(difference <= tolerance, f"{text} changes the {name} by {difference}, over {tolerance}")
    once = sorted(expected.gradients.keys() ^ found.gradients.keys())
    require(not once, f"{text}: these weights have a gradient on one side only: {once}")
    # Relative to the largest of all: some gradients, as that of a key's bias, are zero but for rounding.
    scale = max(float(gradient.abs().max()) for gradient in expected.gradients.values())
    for name, gradient in expected.gradients.items():
        difference = float((found.gradients[name] - gradient).abs().max()) / scale
        require(difference <= tolerance, f"{text} changes the gradient of {name} by {difference}, over {tolerance}")
