"""The plain BERT of a model without a context: the same numbers, and what has none is refused."""

from typing import Any

import pytest
import torch

from contextual_bert.errors import ConfigurationError
from contextual_bert.models import ContextualBertModel
from contextual_bert.models.plain_bert import plain_bert
from contextual_bert.testing.miniature import drawn_anew, miniature_batch, miniature_config


@pytest.mark.parametrize("type_vocab_size", [0, 2])
@torch.no_grad()
def test_it_computes_what_the_encoder_does(type_vocab_size: int) -> None:
    fields = {"has_position_embeddings": True, "type_vocab_size": type_vocab_size}
    encoder = drawn_anew(ContextualBertModel(miniature_config("none", **fields)))
    inputs = {name: miniature_batch()[name] for name in ("input_ids", "attention_mask")}
    found = plain_bert(encoder)(**inputs).last_hidden_state
    assert torch.equal(found, encoder(**inputs).last_hidden_state)


@pytest.mark.parametrize(
    ("method", "fields", "setting"),
    [
        ("film", {}, "conditioning"),
        ("none", {"backbone": "bigru"}, "backbone"),
        ("none", {"embedding_size": 8}, "embedding_size"),
        ("none", {"position_embedding": "sinusoidal"}, "position_embedding"),
    ],
)
def test_what_bert_has_no_place_for_is_refused(method: str, fields: dict[str, Any], setting: str) -> None:
    encoder = ContextualBertModel(miniature_config(method, has_position_embeddings=True, **fields))
    with pytest.raises(ConfigurationError, match=setting):
        plain_bert(encoder)
