"""Texts drawn from a masked model under a context: BERT as a Markov random field, sampled by Gibbs.

Each step hides one token of each text and draws it anew from what the model says of it, given the others and the
context. It knows no table and no training. Wang and Cho (2019), "BERT has a Mouth, and It Must Speak".
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from contextual_bert.errors import ConfigurationError, Message
from contextual_bert.inference.capabilities import guidance_notes
from contextual_bert.inference.guidance import guided_logits
from contextual_bert.inference.queries import check_count, check_seed
from contextual_bert.inference.query_schema import MAX_WEIGHT
from contextual_bert.inference.scoring import to_device
from contextual_bert.inference.texts.mask_filling import tokens_never_written
from contextual_bert.inference.texts.text_layout import num_readable, room_beside
from contextual_bert.models import ContextualBertForMaskedLM, ContextualBertProcessor, check_processor
from contextual_bert.places import SettingsPlace

MAX_TEMPERATURE = 1e6  # all tokens are equally likely long before, and float32 holds it


@dataclass(frozen=True, kw_only=True)
class TextSampling:
    """Settings for drawing texts from a masked model.

    Args:
        num_sweeps: how often every free token is drawn.
        temperature: below 1 likelier texts, above 1 more various ones.
        guidance: how much what sets the context apart counts: 0 draws what would be said without it, 1 is the model as
            it is, more goes further than it learned; two forward passes where it is not 1.

    Raises:
        ConfigurationError: a number that cannot work.

    Example:
        >>> TextSampling(temperature=0.7).num_sweeps
        20
    """

    num_sweeps: int = 20
    temperature: float = 1.0
    guidance: float = 1.0

    def __post_init__(self) -> None:
        if type(self.num_sweeps) is not int or self.num_sweeps < 1:
            raise ConfigurationError(
                "is not allowed", setting="num_sweeps", value=self.num_sweeps, fix="Give a whole number, 1 or more."
            )
        if not 0 < self.temperature <= MAX_TEMPERATURE:
            raise ConfigurationError(
                "is not allowed",
                setting="temperature",
                value=self.temperature,
                fix=f"Give a number above 0, at most {MAX_TEMPERATURE:g}.",
            )
        if not 0 <= self.guidance <= MAX_WEIGHT:
            raise ConfigurationError(
                "is not allowed",
                setting="guidance",
                value=self.guidance,
                fix=f"Give a number between 0 and {MAX_WEIGHT:g}.",
            )


@torch.no_grad()
def sample_texts(
    model: ContextualBertForMaskedLM,
    processor: ContextualBertProcessor,
    *,
    context: Mapping[str, Any] | None = None,
    prompt: str | int = 12,
    num_samples: int = 4,
    sampling: TextSampling | None = None,
    seed: int = 0,
) -> list[str]:
    """Draw texts under a context by Gibbs sampling; independent chains side by side.

    Formula:
        x_i ~ Pr(x_i | x_-i, c) ** (1 / temperature), normalised, for each free i of a sweep in random order; Pr from
        the logits without + guidance (with - without the context), over what is neither reserved nor unused in the
        vocabulary. The conditionals of a masked model need not belong
        to one joint distribution: what a long chain gives is the stationary distribution of this procedure, not the
        model's, for it has none.

    Args:
        model: for text.
        processor: its own.
        context: one record; None: nothing is known.
        prompt: a text with [MASK] where a token is free, the rest stays, a word that the tokenizer does not know as
            [UNK]; or a number of tokens, all of them free.
        num_samples: texts, each a chain of its own.
        sampling: how they are drawn; None: ``TextSampling()``.
        seed: of the draws: the same seed, the same texts.

    Raises:
        ConfigurationError: nothing is free; a prompt too long; no texts; a guidance that means nothing to this model; a
            context that it does not take; a processor for items, or with another schema.
        DataError, UnknownNameError: a record that does not fit the schema.

    Example:
        >>> from contextual_bert import ContextualBertConfig, ContextualBertForMaskedLM
        >>> from contextual_bert.testing import miniature_text_processor
        >>> processor = miniature_text_processor()
        >>> sizes = {"hidden_size": 8, "num_attention_heads": 2, "num_hidden_layers": 1, "intermediate_size": 16}
        >>> text = {"has_position_embeddings": True, "reserved_token_ids": [0, 1, 2, 3, 4], "vocab_size": 23}
        >>> model = ContextualBertForMaskedLM(ContextualBertConfig(**text, **sizes))
        >>> [len(words.split()) for words in sample_texts(model, processor, prompt=5, num_samples=2)]
        [5, 5]
    """
    sampling = sampling or TextSampling()
    check_can_write(model, processor, context, guidance=sampling.guidance, num_samples=num_samples, seed=seed)
    tokenizer: Any = processor.tokenizer
    text = " ".join([tokenizer.mask_token] * prompt) if isinstance(prompt, int) else prompt
    batch = processor(text=text, context=[context or {}], truncation=False)
    ids: Tensor = batch["input_ids"].repeat(num_samples, 1)
    readable = num_readable(model.config, tokenizer)
    longest = int(np.min(room_beside(batch.get("context", {}), model.config, longest=readable)))
    if ids.shape[1] > longest:
        problem = f"is {ids.shape[1]} tokens, [CLS] and [SEP] included, and the model reads {longest}"
        fix = "Shorten it." if isinstance(prompt, str) else f"Ask for {longest - ids.shape[1] + prompt} or fewer."
        raise ConfigurationError(problem, setting="prompt", value=prompt, fix=fix)
    free = (ids[0] == tokenizer.mask_token_id).nonzero(as_tuple=True)[0]
    if not len(free):
        raise ConfigurationError(
            f"has no {tokenizer.mask_token}, so there is nothing to draw",
            setting="prompt",
            value=prompt,
            fix="Write it, in these letters, for each token that is to be drawn.",
        )
    generator = torch.Generator().manual_seed(seed)
    never = tokens_never_written(model, tokenizer)
    was_training = model.training
    conditional = _conditional(model.eval(), batch.get("context"), num_samples, sampling, never=never)
    chains = torch.arange(num_samples)
    try:
        for _ in range(sampling.num_sweeps):
            # Every chain has an order of its own: in each step all of them are at other places.
            orders = torch.rand(num_samples, len(free), generator=generator).argsort(dim=1)
            for places in free[orders].unbind(dim=1):
                ids[chains, places] = tokenizer.mask_token_id
                probabilities = conditional(ids, places)
                ids[chains, places] = torch.multinomial(probabilities, 1, generator=generator).squeeze(1)
    finally:
        model.train(was_training)
    return tokenizer.batch_decode(ids[:, 1:-1])  # without [CLS] and [SEP]; what the prompt says stays, also as [UNK]


def check_can_write(
    model: Any,
    processor: ContextualBertProcessor,
    context: Mapping[str, Any] | None,
    *,
    guidance: float,
    num_samples: int,
    seed: int,
) -> None:
    """Raise ConfigurationError where a model cannot be asked for texts under a context.

    Args:
        model: for text, of any direction.
        processor: its own.
        context: one record; None: nothing is known.
        guidance: how much what sets the context apart counts.
        num_samples: texts.
        seed: of the draws.
    """
    check_count("num_samples", num_samples)
    check_seed(seed)
    for reason in guidance_notes(model, guidance):
        raise ConfigurationError(reason, place=SettingsPlace(("guidance",)))
    check_processor(model.config, processor)
    if context and not model.config.reads_context:
        raise ConfigurationError(
            Message("is not allowed: {conditioning} takes none", conditioning=model.config.conditioning),
            setting="context",
            value=dict(context),
            fix="Leave it out.",
        )


def _conditional(
    model: ContextualBertForMaskedLM,
    context: Mapping[str, Tensor] | None,
    num_samples: int,
    sampling: TextSampling,
    *,
    never: Sequence[int],
) -> Callable[[Tensor, Tensor], Tensor]:
    """(ids, place of each row) -> the probabilities of the token there, (rows, vocabulary), on the CPU in float32."""
    repeated = {name: values.repeat(num_samples, *[1] * (values.dim() - 1)) for name, values in (context or {}).items()}
    inputs = to_device({"context": repeated}, model.device) if repeated else {}
    forbidden = torch.as_tensor(never, dtype=torch.long, device=model.device)
    chains, weights = torch.arange(num_samples), [sampling.guidance] * num_samples

    def probabilities(ids: Tensor, places: Tensor) -> Tensor:
        asked = torch.zeros_like(ids, dtype=torch.bool)
        asked[chains, places] = True
        logits = guided_logits(model, {"input_ids": ids, "logits_at": asked, **inputs}, weights, rows=chains)
        logits = logits.index_fill(1, forbidden, -torch.inf)
        # Of differences to the best: the logits themselves overflow at low temperatures.
        lowest = torch.finfo(logits.dtype).tiny
        differences = logits - logits.amax(dim=-1, keepdim=True)
        return (differences / max(sampling.temperature, lowest)).softmax(dim=-1).cpu()

    return probabilities
