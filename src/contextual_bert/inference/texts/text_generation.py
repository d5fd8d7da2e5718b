"""Texts that a causal model writes under a context, from a prompt on.

transformers' ``generate`` draws the tokens; what is here is the way from words and records to words. It knows no table
and no training.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from contextual_bert.errors import ConfigurationError, Message
from contextual_bert.inference.queries import check_count
from contextual_bert.inference.query_schema import MAX_WEIGHT
from contextual_bert.inference.scoring import to_device
from contextual_bert.inference.texts.text_sampling import MAX_TEMPERATURE, check_can_write
from contextual_bert.models import ContextualBertForCausalLM, ContextualBertProcessor

DEFAULT_NEW_TOKENS = 60


@dataclass(frozen=True, kw_only=True)
class TextGeneration:
    """Settings for writing texts with a causal model.

    Args:
        max_new_tokens: tokens written at most. None: ``DEFAULT_NEW_TOKENS``, or as many as there is room for.
        temperature: below 1 likelier texts, above 1 more various ones; 0 always takes the likeliest token.
        top_p: draws among the fewest tokens that together have this probability.
        num_beams: 1 draws token by token; more keeps so many beginnings and gives the likeliest texts of them.
        guidance: how much what sets the context apart counts: 0 writes what would be written without it, 1 is the model
            as it is, more goes further than it learned; two forward passes where it is not 1.

    Raises:
        ConfigurationError: a number that cannot work; a temperature or top_p beside beams.

    Reference:
        Holtzman et al. (2020), "The Curious Case of Neural Text Degeneration" (top_p); Ho and Salimans (2021),
        "Classifier-free diffusion guidance".

    Example:
        >>> TextGeneration(temperature=0.7).num_beams
        1
    """

    max_new_tokens: int | None = None
    temperature: float = 1.0
    top_p: float = 1.0
    num_beams: int = 1
    guidance: float = 1.0

    def __post_init__(self) -> None:
        for name, number in (("max_new_tokens", self.max_new_tokens), ("num_beams", self.num_beams)):
            if number is not None:
                check_count(name, number)
        ranges = {
            "temperature": (0 <= self.temperature <= MAX_TEMPERATURE, f"from 0 to {MAX_TEMPERATURE:g}"),
            "top_p": (0 < self.top_p <= 1, "above 0, at most 1"),
            "guidance": (0 <= self.guidance <= MAX_WEIGHT, f"from 0 to {MAX_WEIGHT:g}"),
        }
        for name, (is_allowed, allowed) in ranges.items():
            if not is_allowed:
                raise ConfigurationError(
                    "is not allowed", setting=name, value=getattr(self, name), fix=f"Give a number {allowed}."
                )
        drawing = next((name for name in ("temperature", "top_p") if getattr(self, name) != 1), None)
        if self.num_beams > 1 and drawing is not None:
            raise ConfigurationError(
                Message("is for drawn texts, and {num_beams} searches for the likeliest", num_beams=self.num_beams),
                setting=drawing,
                value=getattr(self, drawing),
                fix="Leave one of the two out.",
            )

    @property
    def settings(self) -> dict[str, Any]:
        """The settings as transformers' ``generate`` takes them."""
        if self.num_beams > 1 or self.temperature == 0:
            return {"do_sample": False, "num_beams": self.num_beams}
        return {"do_sample": True, "temperature": self.temperature, "top_p": self.top_p, "top_k": 0}


def generate_texts(
    model: ContextualBertForCausalLM,
    processor: ContextualBertProcessor,
    *,
    context: Mapping[str, Any] | None = None,
    prompt: str = "",
    num_samples: int = 4,
    generation: TextGeneration | None = None,
    seed: int = 0,
) -> list[str]:
    """Write texts under a context, from left to right, all in one batch.

    Args:
        model: one that writes.
        processor: its own.
        context: one record; None: nothing is known.
        prompt: how the texts begin; "" for texts from their beginning.
        num_samples: texts; with beams, the so many likeliest.
        generation: how they are written; None: ``TextGeneration()``.
        seed: of the draws: the same seed, the same texts, as long as the machine computes the same.

    Returns:
        The texts, prompt included. A text ends where the model ends it, or where no more is to be written.

    Raises:
        ConfigurationError: a prompt and new tokens for which there is no room; more texts than beams; a guidance that
            means nothing to this model; a context that it does not take; a processor with another schema.
        DataError, UnknownNameError: a record that does not fit the schema.
    """
    generation = generation or TextGeneration()
    check_can_write(model, processor, context, guidance=generation.guidance, num_samples=num_samples, seed=seed)
    if generation.num_beams > 1 and num_samples > generation.num_beams:
        raise ConfigurationError(
            Message("is more than {num_beams}: a beam is one text", num_beams=generation.num_beams),
            setting="num_samples",
            value=num_samples,
            fix="Give fewer, or more beams.",
        )
    ids, most = _prompt_ids(model, processor, prompt, new=generation.max_new_tokens)
    given: dict[str, Any] = {}
    if model.config.reads_context:
        encoded: Any = processor(text="", context=[context or {}]).get("context", {})
        given = {"context": to_device({"context": encoded}, model.device)["context"], "guidance": generation.guidance}
    tokenizer: Any = processor.tokenizer
    # Nor what only the model has, as after padding its vocabulary to a round number.
    beyond = [*range(len(tokenizer), model.config.vocab_size)]
    was_training, devices = model.training, [model.device] if model.device.type == "cuda" else []
    try:
        with torch.random.fork_rng(devices=devices):
            torch.manual_seed(seed)
            found: Tensor = model.eval().generate(
                ids.to(model.device),
                attention_mask=torch.ones_like(ids, device=model.device),
                max_new_tokens=most,
                num_return_sequences=num_samples,
                pad_token_id=tokenizer.pad_token_id,
                eos_token_id=tokenizer.eos_token_id,
                suppress_tokens=beyond or None,
                **generation.settings,
                **given,
            )
    finally:
        model.train(was_training)
    return tokenizer.batch_decode(found, skip_special_tokens=True)


def _prompt_ids(model: Any, processor: ContextualBertProcessor, prompt: str, *, new: int | None) -> tuple[Tensor, int]:
    """(1, tokens) the token before a text and those of the prompt, and how many are to be written at most.

    Raises:
        ConfigurationError: no room for them and the new ones.
    """
    tokenizer: Any = processor.tokenizer
    ids = [tokenizer.bos_token_id, *tokenizer(prompt, add_special_tokens=False, verbose=False)["input_ids"]]
    longest = int(model.config.max_position_embeddings)
    room = longest - len(ids)
    if room < 1:
        raise ConfigurationError(
            f"is {len(ids)} tokens with the one before it, and the model reads {longest}: nothing can be written "
            "behind it",
            setting="prompt",
            value=prompt,
            fix="Shorten it.",
        )
    if new is not None and new > room:
        raise ConfigurationError(
            f"is more than there is room for: the model reads {longest} tokens, of which the prompt takes {len(ids)}, "
            "with the one before it",
            setting="max_new_tokens",
            value=new,
            fix=f"Give {room} or fewer.",
        )
    return torch.tensor([ids]), min(room, DEFAULT_NEW_TOKENS) if new is None else new
