"""Texts drawn from a masked model under a context: BERT as a Markov random field, sampled by Gibbs.

Each step hides one token of each text and draws it anew from what the model says of it, given the others and the
context. It knows no table and no training. Wang and Cho (2019), "BERT has a Mouth, and It Must Speak".
"""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from contextual_bert.errors import ConfigurationError
from contextual_bert.inference.scoring import to_device
from contextual_bert.inference.texts.text_layout import num_readable
from contextual_bert.models import ContextualBertForMaskedLM, ContextualBertProcessor


@torch.no_grad()
def sample_texts(
    model: ContextualBertForMaskedLM,
    processor: ContextualBertProcessor,
    *,
    context: Mapping[str, Any] | None = None,
    prompt: str | int = 12,
    num_samples: int = 4,
    num_sweeps: int = 20,
    temperature: float = 1.0,
    seed: int = 0,
) -> list[str]:
    """Draw texts under a context by Gibbs sampling; independent chains side by side.

    Formula:
        x_i ~ Pr(x_i | x_-i, c) ** (1 / temperature), normalised, for each free i of a sweep in random order. The
        conditionals of a masked model need not belong to one joint distribution: what a long chain gives is the
        stationary distribution of this procedure, not the model's, for it has none.

    Args:
        model: for text.
        processor: its own.
        context: one record; None: nothing is known.
        prompt: a text with [MASK] where a token is free, the rest stays; or a number of tokens, all of them free.
        num_samples: texts, each a chain of its own.
        num_sweeps: how often every free token is drawn.
        temperature: below 1 likelier texts, above 1 more various ones.
        seed: of the draws: the same seed, the same texts.

    Raises:
        ConfigurationError: nothing is free; a prompt too long; a number that cannot work; a processor for items.
        DataError, UnknownNameError: a record that does not fit the schema.

    Example:
        >>> from contextual_bert import ContextualBertConfig, ContextualBertForMaskedLM
        >>> from contextual_bert.testing import miniature_text_processor
        >>> processor = miniature_text_processor()
        >>> sizes = {"hidden_size": 8, "num_attention_heads": 2, "num_hidden_layers": 1, "intermediate_size": 16}
        >>> text = {"has_position_embeddings": True, "reserved_token_ids": [0, 1, 2, 3, 4], "vocab_size": 23}
        >>> model = ContextualBertForMaskedLM(ContextualBertConfig(**text, **sizes))
        >>> [len(words.split()) for words in sample_texts(model, processor, prompt=5, num_samples=2, num_sweeps=1)]
        [5, 5]
    """
    for name, value in (("num_samples", num_samples), ("num_sweeps", num_sweeps)):
        if value < 1:
            raise ConfigurationError(f"{name}={value}: give 1 or more.")
    if temperature <= 0:
        raise ConfigurationError(f"temperature={temperature}: give a number above 0.")
    tokenizer: Any = processor.tokenizer
    text = " ".join([tokenizer.mask_token] * prompt) if isinstance(prompt, int) else prompt
    batch = processor(text=text, context=[context or {}], truncation=False)
    ids: Tensor = batch["input_ids"].repeat(num_samples, 1)
    longest = num_readable(model.config, tokenizer)
    if ids.shape[1] > longest:
        raise ConfigurationError(
            f"The prompt has {ids.shape[1]} tokens, [CLS] and [SEP] included. The model reads {longest}: shorten it."
        )
    free = (ids[0] == tokenizer.mask_token_id).nonzero(as_tuple=True)[0]
    if not len(free):
        raise ConfigurationError(f"prompt={prompt!r} has no {tokenizer.mask_token}, so there is nothing to draw.")
    generator = torch.Generator().manual_seed(seed)
    conditional = _conditional(model.eval(), batch.get("context"), num_samples, temperature)
    chains = torch.arange(num_samples)
    for _ in range(num_sweeps):
        # Every chain has an order of its own: in each step all of them are at other places.
        orders = torch.rand(num_samples, len(free), generator=generator).argsort(dim=1)
        for places in free[orders].unbind(dim=1):
            ids[chains, places] = tokenizer.mask_token_id
            probabilities = conditional(ids, places)
            ids[chains, places] = torch.multinomial(probabilities, 1, generator=generator).squeeze(1)
    return tokenizer.batch_decode(ids, skip_special_tokens=True)


def _conditional(
    model: ContextualBertForMaskedLM, context: Mapping[str, Tensor] | None, num_samples: int, temperature: float
) -> Callable[[Tensor, Tensor], Tensor]:
    """(ids, place of each row) -> the probabilities of the token there, (rows, vocabulary), on the CPU in float32."""
    device = model.device
    repeated = {name: values.repeat(num_samples, *[1] * (values.dim() - 1)) for name, values in (context or {}).items()}
    inputs = to_device({"context": repeated}, device) if repeated else {}
    reserved = torch.as_tensor(model.config.reserved_token_ids, dtype=torch.long, device=device)

    def probabilities(ids: Tensor, places: Tensor) -> Tensor:
        rows = (torch.arange(len(ids)) * ids.shape[1] + places).to(device)
        hidden = model.bert(input_ids=ids.to(device), rows=rows, **inputs).last_hidden_state
        logits = model.cls(hidden).float() / temperature
        logits[:, reserved] = -torch.inf
        return logits.softmax(dim=-1).cpu()

    return probabilities
