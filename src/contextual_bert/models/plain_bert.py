"""The plain BERT that a model without a context is: transformers' own class with the same weights."""

from typing import Any

import torch
from transformers import BertConfig, BertModel

from contextual_bert.errors import ConfigurationError, Message
from contextual_bert.models.configuration_contextual_bert import ContextualBertConfig


def plain_bert_config(config: ContextualBertConfig) -> BertConfig:
    """Return the config of the BERT that a model without a context is: what transformers' own classes are built from.

    Example:
        >>> plain_bert_config(ContextualBertConfig(vocab_size=9)).model_type
        'bert'
    """
    known = BertConfig().to_dict().keys() - {"model_type"}
    return BertConfig(**{key: value for key, value in config.to_dict().items() if key in known})


@torch.no_grad()
def plain_bert(encoder: Any) -> BertModel:
    """Return transformers' BertModel with the weights of an encoder without a context: it computes the same.

    Args:
        encoder: a ContextualBertModel for texts.

    Raises:
        ConfigurationError: it reads a context, or its blocks, its embeddings or its positions are none of BERT's.
    """
    config: ContextualBertConfig = encoder.config
    fix = "Load it with this package."
    if config.reads_context:
        what = "has_context_as_text" if config.has_context_as_text else "conditioning"
        raise ConfigurationError(
            "reads a context, for which a plain BERT has no place",
            setting=what,
            value=getattr(config, what),
            fix=Message("Load it with this package, or train it with {conditioning}.", conditioning="none"),
        )
    differing = {"backbone": "bert", "embedding_size": None, "position_embedding": "learned"}
    for name, needed in differing.items():
        if getattr(config, name) != needed:
            raise ConfigurationError("is not what BERT has", setting=name, value=getattr(config, name), fix=fix)
    if not config.has_position_table:
        raise ConfigurationError("is what a BERT of texts needs", setting="has_position_embeddings", value=False)
    theirs = plain_bert_config(config)
    theirs.type_vocab_size = max(1, config.type_vocab_size)
    bert = BertModel(theirs)
    for name, weight in bert.named_parameters():
        if name.startswith(("pooler.", "embeddings.token_type")):
            weight.zero_()  # where the encoder has none: a pooler is not read
    bert.load_state_dict(encoder.state_dict(), strict=False)
    return bert.eval()
