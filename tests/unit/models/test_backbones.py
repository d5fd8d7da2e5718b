"""Checkpoints of other families: what becomes of their positions, segments and widths, and what is refused."""

from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AlbertConfig, AutoModel, AutoModelForMaskedLM, AutoModelForSequenceClassification

from contextual_bert import ContextualBertProcessor, TextPipeline
from contextual_bert.errors import CheckpointError, ConfigurationError
from contextual_bert.models import (
    ContextualBertForMaskedLM,
    ContextualBertForQuestionAnswering,
    ContextualBertForSequenceClassification,
    ContextualBertModel,
)
from contextual_bert.models.backbones import BACKBONES
from contextual_bert.models.context_as_text import FIRST_WORD
from contextual_bert.testing import miniature_schema
from contextual_bert.testing.heads import miniature_checkpoint
from contextual_bert.testing.miniature import drawn_anew, miniature_plain_config

SCHEMA = miniature_schema()
OTHERS = sorted({*BACKBONES} - {"bert"})
IDS = torch.tensor([[2, 7, 8, 9, 3]])


def saved(model_type: str, folder: Path, auto_class: Any = AutoModelForMaskedLM, **fields: Any) -> Any:
    config = miniature_plain_config(model_type)
    for name, value in fields.items():
        setattr(config, name, value)
    plain = drawn_anew(auto_class.from_config(config, trust_remote_code=False))
    miniature_checkpoint(plain, folder)
    return plain


@pytest.mark.parametrize("model_type", OTHERS)
def test_texts_may_be_as_long_as_the_checkpoint_has_positions(model_type: str, tmp_path: Path) -> None:
    plain = saved(model_type, tmp_path, max_position_embeddings=12)
    longest = 11 if model_type in ("roberta", "xlm-roberta", "camembert") else 12  # these leave out the padding's row
    model = ContextualBertForMaskedLM.from_checkpoint(tmp_path, conditioning="none").eval()
    processor = ContextualBertProcessor.from_checkpoint(tmp_path)
    assert model.config.max_position_embeddings == processor.tokenizer.model_max_length == longest
    ids = torch.arange(longest).add(5).unsqueeze(0)
    with torch.no_grad():
        assert torch.equal(model(ids, torch.ones_like(ids), logits_at="all").logits, plain(ids).logits)


@pytest.mark.parametrize("model_type", OTHERS)
def test_a_run_without_a_context_is_a_checkpoint_again(model_type: str, tmp_path: Path) -> None:
    plain = saved(model_type, tmp_path / "plain", AutoModelForSequenceClassification)
    first = ContextualBertForSequenceClassification.from_checkpoint(tmp_path / "plain", conditioning="none")
    first.save_pretrained(tmp_path / "run")
    ContextualBertProcessor.from_checkpoint(tmp_path / "plain").save_pretrained(tmp_path / "run")
    again = ContextualBertForSequenceClassification.from_checkpoint(tmp_path / "run", schema=SCHEMA).eval()
    assert (again.config.embedding_size, again.config.pooler_act) == (
        first.config.embedding_size,
        first.config.pooler_act,
    )
    with torch.no_grad():
        torch.testing.assert_close(again(IDS).logits, plain(IDS).logits, rtol=0, atol=1e-5)


@pytest.mark.parametrize("model_type", OTHERS)
def test_a_checkpoint_without_a_head_has_a_new_one(model_type: str, tmp_path: Path) -> None:
    saved(model_type, tmp_path, AutoModel)
    assert ContextualBertForSequenceClassification.from_checkpoint(tmp_path, schema=SCHEMA).has_new_head
    assert ContextualBertForQuestionAnswering.from_checkpoint(tmp_path, schema=SCHEMA).config.type_vocab_size == 2


@pytest.mark.parametrize("model_type", ["roberta", "distilbert"])
def test_a_second_text_is_read_where_the_checkpoint_had_no_segments(model_type: str, tmp_path: Path) -> None:
    plain = saved(model_type, tmp_path, AutoModelForSequenceClassification)
    model = ContextualBertForSequenceClassification.from_checkpoint(tmp_path, conditioning="none").eval()
    processor = ContextualBertProcessor.from_checkpoint(tmp_path)
    batch = processor(text="word1", text_pair="word2")
    assert batch["token_type_ids"].tolist() == [[0, 0, 0, 1, 1]]
    with torch.no_grad():
        torch.testing.assert_close(model(**batch).logits, plain(batch["input_ids"]).logits, rtol=0, atol=1e-5)
    answer = TextPipeline(model, processor)({"text": "word1", "pair": "word2"})
    assert set(answer["probabilities"]) == {"LABEL_0", "LABEL_1"}


def test_words_of_a_context_are_set_apart_by_as_many_separators_as_two_texts(tmp_path: Path) -> None:
    plain = saved("roberta", tmp_path, AutoModel)
    model = ContextualBertForMaskedLM.from_checkpoint(
        tmp_path, conditioning="none", has_context_as_text=True, num_separators=2
    ).eval()
    text, words = torch.tensor([[2, 7, 8, 3]]), torch.tensor([[11, 12]])
    separator = model.config.eos_token_id
    with torch.no_grad():
        found = model.bert(text, torch.ones_like(text), {"sex": words + FIRST_WORD}).last_hidden_state
        whole = torch.tensor([[2, 11, 12, separator, separator, 7, 8, 3]])
        expected = plain(whole, torch.ones_like(whole)).last_hidden_state
    torch.testing.assert_close(found, expected[:, [0, 5, 6, 7]], rtol=0, atol=1e-5)


def test_an_architecture_whose_blocks_are_others_is_refused_with_the_reason(tmp_path: Path) -> None:
    AlbertConfig().save_pretrained(tmp_path)
    with pytest.raises(CheckpointError, match=r"'albert': all of its blocks share their weights.*Allowed: bert, camem"):
        ContextualBertModel.from_checkpoint(tmp_path, schema=SCHEMA)


@pytest.mark.parametrize("model_type", ["roberta", "electra"])
def test_two_activations_in_one_checkpoint_are_refused(model_type: str, tmp_path: Path) -> None:
    saved(model_type, tmp_path, hidden_act="relu")
    with pytest.raises(CheckpointError, match=r"its hidden_act is 'relu', and its head for hidden tokens has 'gelu'"):
        ContextualBertModel.from_checkpoint(tmp_path, schema=SCHEMA)


@pytest.mark.parametrize("value", ["swish", ""])
def test_an_unknown_activation_of_the_pooler_is_refused(value: str, tmp_path: Path) -> None:
    saved("bert", tmp_path)
    with pytest.raises(ConfigurationError, match=r"pooler_act.*is unknown"):
        ContextualBertModel.from_checkpoint(tmp_path, schema=SCHEMA, pooler_act=value)


def test_the_former_name_is_the_same() -> None:
    for each in (ContextualBertModel, ContextualBertProcessor):
        assert each.from_bert.__func__ is each.from_checkpoint.__func__  # pyright: ignore[reportFunctionMemberAccess]
