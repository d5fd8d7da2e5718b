"""A plain BERT that reads the context as words before the text: what one would do without this package.

The words are put in front and taken away again inside the model, so that labels, masks and heads are those of the text
alone. It knows neither columns nor a tokenizer. Reference: Shi et al. (2021), "Benchmarking Multimodal AutoML for
Tabular Data with Text Fields", section 4, where such a model is called "All-Text".
"""

from collections.abc import Mapping
from typing import Any, cast

import pyarrow as pa
import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence
from transformers import Cache

from contextual_bert.context.kinds import MULTI_RESERVED
from contextual_bert.errors import NAME, ConfigurationError, Message
from contextual_bert.models.configuration_contextual_bert import ContextualBertConfig
from contextual_bert.models.context_state import ContextState
from contextual_bert.models.modeling_contextual_bert import (
    Context,
    ContextualBertModel,
    ContextualBertModelOutput,
    warn_without_context,
)
from contextual_bert.models.tokenization import with_space

FIRST_WORD = len(MULTI_RESERVED)  # token t of a vocabulary is the value t + FIRST_WORD of a list


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
        separator = words.new_full((len(words), self.config.num_separators), cast(int, self.config.eos_token_id))
        added = words.shape[1] + self.config.num_separators
        tokens = (words - FIRST_WORD).where(is_read, cast(int, self.config.pad_token_id))
        in_front = torch.cat([tokens, separator], dim=1)
        real = torch.ones_like(input_ids) if attention_mask is None else attention_mask
        real = _with_second(real, torch.cat([is_read, torch.ones_like(separator)], dim=1).to(real))
        if token_type_ids is not None:
            token_type_ids = _with_second(token_type_ids, torch.zeros_like(in_front))
        length = input_ids.shape[1]
        if rows is not None:
            rows = rows + added * (rows // length + (rows % length > 0))
        # What is left out has no place: the positions of all others are as if it were not there.
        places = (real.cumsum(dim=1) - 1).clamp(min=0)
        ids, num_positions = _with_second(input_ids, in_front), self.config.max_position_embeddings
        # Rows that are long in different columns fit although all of the columns are wider together.
        if ids.shape[1] > num_positions and int(places.max()) >= num_positions:
            raise ConfigurationError(
                f"A text has {int(places.max()) + 1} tokens with the words of its context and the [SEP] between "
                f"them, and the model reads {num_positions}",
                fix=Message("Cut the texts ({max_length}).", max_length=NAME),
            )
        kwargs["return_dict"] = True
        back = None
        if not self.config.has_position_table:
            # Blocks that see a window of columns, not of places: what has no place goes behind the rest.
            order = real.argsort(dim=1, descending=True, stable=True)
            ids, real, places = (each.gather(1, order) for each in (ids, real, places))
            token_type_ids = token_type_ids.gather(1, order) if token_type_ids is not None else None
            back = order.argsort(dim=1)
            if rows is not None:
                in_row = rows // ids.shape[1]
                rows = in_row * ids.shape[1] + back[in_row, rows % ids.shape[1]]
        outputs = super().forward(ids, real, None, token_type_ids, places, None, rows, past_key_values, **kwargs)
        if rows is None:
            hidden = cast(Tensor, outputs.last_hidden_state)
            hidden = hidden if back is None else hidden.take_along_dim(back.unsqueeze(2), dim=1)
            outputs.last_hidden_state = cast(Any, torch.cat([hidden[:, :1], hidden[:, added + 1 :]], dim=1))
        return outputs


def text_encoder(config: ContextualBertConfig, *, has_pooler: bool = False) -> ContextualBertModel:
    """The encoder of a head, which reads the context as the config says."""
    return (ContextAsText if config.has_context_as_text else ContextualBertModel)(config, has_pooler=has_pooler)


def _word_ids(context: Context | ContextState | None, ids: Tensor) -> Tensor:
    """(batch, words) of all features."""
    if not context:
        return ids.new_zeros((len(ids), 0))
    words = [*context.values()] if isinstance(context, Mapping) else []
    are_words = [each.ndim == 2 and len(each) == len(ids) and not each.is_floating_point() for each in words]
    if not words or not all(are_words):
        raise ConfigurationError(
            "This model reads a context as words",
            fix="Give for each feature the ids of its words, (batch, width), as its own processor does.",
        )
    return torch.cat(words, dim=1)


def _with_second(values: Tensor, second: Tensor) -> Tensor:
    """(batch, length) with what comes second behind the first column."""
    return torch.cat([values[:, :1], second, values[:, 1:]], dim=1)


def word_ids(sentences: Mapping[str, pa.Array], tokenizer: Any) -> dict[str, Tensor]:
    """Column -> (rows, width) ids of the tokens of its sentences, padded with 0.

    Args:
        sentences: a sentence a row, null where nothing is said.
        tokenizer: of the model that reads them; each sentence is tokenised once.

    Returns:
        Ids ``FIRST_WORD`` higher than the tokenizer's.

    Example:
        >>> from contextual_bert.testing import miniature_text_processor
        >>> tokenizer = miniature_text_processor().tokenizer
        >>> words = word_ids({"word1": pa.array(["word1 word2", None])}, tokenizer)["word1"]
        >>> tokenizer.decode(words[0] - FIRST_WORD), words[1].tolist()
        ('word1 word2', [0, 0])
    """
    return {name: _ids(said, tokenizer) for name, said in sentences.items()}


def _ids(said: pa.Array, tokenizer: Any) -> Tensor:
    distinct = said.dictionary_encode()
    sentences = with_space(distinct.dictionary, tokenizer).to_pylist()
    tokens: list[list[int]] = tokenizer(sentences, add_special_tokens=False)["input_ids"] if sentences else []
    nothing = torch.zeros(1, dtype=torch.int64)  # the last row: nothing is known
    ids = pad_sequence([*(torch.tensor(row) + FIRST_WORD for row in tokens), nothing], batch_first=True)
    return ids[torch.from_numpy(distinct.indices.fill_null(len(sentences)).to_numpy().astype("int64"))]
