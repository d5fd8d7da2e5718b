"""A plain BERT that reads the context as words before the text: what one would do without this package.

The words are put in front and taken away again inside the model, so that labels, masks and heads are those of the text
alone. It knows neither columns nor a tokenizer. Reference: Shi et al. (2021), "Benchmarking Multimodal AutoML for
Tabular Data with Text Fields", section 4, where such a model is called "All-Text".
"""

from collections.abc import Mapping
from typing import Any, cast

import torch
from torch import Tensor
from transformers import Cache

from contextual_bert.errors import NAME, ConfigurationError, Message
from contextual_bert.models.configuration_contextual_bert import ContextualBertConfig
from contextual_bert.models.context_state import ContextState
from contextual_bert.models.context_words import FIRST_WORD
from contextual_bert.models.modeling_contextual_bert import (
    Context,
    ContextualBertModel,
    ContextualBertModelOutput,
    warn_without_context,
)


class ContextAsText(ContextualBertModel):
    """BERT's encoder for [CLS] words of the context [SEP] text [SEP], with as many [SEP] as ``num_separators``.

    Formula:
        X(N) = Encoder([CLS]; w_1; ...; w_F; [SEP]; text), of which [CLS] and the text are given back

    Symbols:
        w_f the tokens of what is known of feature f, in the order of the features.

    Shapes:
        as ContextualBertModel's; context each (batch, width): ids of tokens, FIRST_WORD higher than the tokenizer's;
        what is below FIRST_WORD is not read: padding, and features that were left out; None where nothing is known of
        any row. The blocks' hidden states, where they are asked for, have the words, too.

    Args:
        config: with ``has_context_as_text``; its ``eos_token_id`` is [SEP].
        has_pooler: as ContextualBertModel's.

    Raises:
        ConfigurationError: embeddings or positions are given in place of ids; more tokens than positions.

    Relation to its siblings:
        ``new_position``, a method of the paper, puts one vector of the context in front. Here all weights are BERT's:
        those of any ContextualBertModel without a context fit.

    Reference:
        Shi et al. (2021), section 4.

    Example:
        >>> from contextual_bert.models import ContextualBertConfig
        >>> sizes = {"hidden_size": 8, "num_attention_heads": 2, "num_hidden_layers": 1, "intermediate_size": 16}
        >>> text = {"has_position_embeddings": True, "vocab_size": 9, "eos_token_id": 3}
        >>> model = ContextAsText(ContextualBertConfig(has_context_as_text=True, **text, **sizes))
        >>> model(torch.tensor([[2, 5, 3]]), context={"sex": torch.tensor([[FIRST_WORD + 7]])}).last_hidden_state.shape
        torch.Size([1, 3, 8])
    """

    reads_words = True

    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        context: Context | ContextState | None = None,
        token_type_ids: Tensor | None = None,
        position_ids: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
        rows: Tensor | None = None,
        past_key_values: Cache | None = None,
        **kwargs: Any,
    ) -> ContextualBertModelOutput:
        if input_ids is None or position_ids is not None:
            raise ConfigurationError(
                "A context as text is put before ids of tokens", fix="Give input_ids, no position_ids."
            )
        if not context and self.training:
            warn_without_context("has_context_as_text=True")
        words = _word_ids(context, input_ids)
        is_read = words >= FIRST_WORD
        separator = words.new_full((words.shape[0], self.config.num_separators), cast(int, self.config.eos_token_id))
        added = words.shape[1] + self.config.num_separators
        tokens = (words - FIRST_WORD).where(is_read, cast(int, self.config.pad_token_id))
        in_front = torch.cat([tokens, separator], dim=1)
        real = torch.ones_like(input_ids) if attention_mask is None else attention_mask
        real = _with_second(real, torch.cat([is_read, torch.ones_like(separator)], dim=1).to(real))
        if token_type_ids is not None:
            token_type_ids = _with_second(token_type_ids, torch.zeros_like(in_front))
        length = input_ids.shape[1]
        if rows is not None:
            of_text = rows // length
            rows = rows + added * (of_text + (rows > of_text * length))
        # What is left out has no place: the positions of all others are as if it were not there.
        places = (real.cumsum(dim=1) - 1).clamp(min=0)
        ids, num_positions = _with_second(input_ids, in_front), self.config.max_position_embeddings
        # Rows that are long in different columns fit although all of the columns are wider together. A graph does not
        # look: what asks it cuts the texts.
        if not torch.compiler.is_exporting() and ids.shape[1] > num_positions and int(places.max()) >= num_positions:
            raise ConfigurationError(
                f"A text has {int(places.max()) + 1} tokens with the words of its context and the [SEP] between "
                f"them, and the model reads {num_positions}",
                fix=Message("Cut the texts ({max_length}).", max_length=NAME),
            )
        kwargs["return_dict"] = True
        back = None
        if not self.config.has_position_table:
            # Blocks that see a window of columns, not of places: what has no place goes behind the rest.
            is_real = real > 0
            behind = real.sum(dim=1, keepdim=True) + (1 - real).cumsum(dim=1) - 1
            back = torch.where(is_real, places, behind)  # a stable sort, of which ONNX has none
            columns = torch.arange(ids.shape[1], device=ids.device).expand(ids.shape)
            order = torch.zeros_like(columns).scatter(1, back, columns)
            ids, real, places = (each.gather(1, order) for each in (ids, real, places))
            token_type_ids = token_type_ids.gather(1, order) if token_type_ids is not None else None
            if rows is not None:
                in_row = rows // ids.shape[1]
                rows = in_row * ids.shape[1] + back[in_row, rows - in_row * ids.shape[1]]
        outputs = super().forward(ids, real, None, token_type_ids, places, None, rows, past_key_values, **kwargs)
        if rows is None:
            hidden = cast(Tensor, outputs.last_hidden_state)
            if back is not None:
                hidden = hidden.gather(1, back.unsqueeze(2).expand(-1, -1, hidden.shape[2]))
            outputs.last_hidden_state = cast(Any, torch.cat([hidden[:, :1], hidden[:, added + 1 :]], dim=1))
        return outputs


def text_encoder(config: ContextualBertConfig, *, has_pooler: bool = False) -> ContextualBertModel:
    """The encoder of a head, which reads the context as the config says."""
    return (ContextAsText if config.has_context_as_text else ContextualBertModel)(config, has_pooler=has_pooler)


def _word_ids(context: Context | ContextState | None, ids: Tensor) -> Tensor:
    """(batch, words) of all features."""
    if not context:
        return ids.new_zeros((ids.shape[0], 0))
    words = [*context.values()] if isinstance(context, Mapping) else []
    are_words = [each.ndim == 2 and each.shape[0] == ids.shape[0] and not each.is_floating_point() for each in words]
    if not words or not all(are_words):
        raise ConfigurationError(
            "This model reads a context as words",
            fix="Give for each feature the ids of its words, (batch, width), as its own processor does.",
        )
    return torch.cat(words, dim=1)


def _with_second(values: Tensor, second: Tensor) -> Tensor:
    """(batch, length) with what comes second behind the first column."""
    return torch.cat([values[:, :1], second, values[:, 1:]], dim=1)
