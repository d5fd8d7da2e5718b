"""Checkpoints of other families: what becomes of their positions, segments and widths, and what is refused."""

from pathlib import Path
from typing import Any, cast

import pytest
import torch
from transformers import AlbertConfig, AutoModel, AutoModelForMaskedLM, AutoModelForSequenceClassification

from contextual_bert import ContextualBertProcessor, TextPipeline
from contextual_bert.errors import CheckpointError, ConfigurationError
from contextual_bert.models import (
    ContextualBertConfig,
    ContextualBertForMaskedLM,
    ContextualBertForQuestionAnswering,
    ContextualBertForSequenceClassification,
    ContextualBertModel,
)
from contextual_bert.models.backbones import BACKBONES
from contextual_bert.models.checkpoint_files import pooling_of
from contextual_bert.models.context_words import FIRST_WORD
from contextual_bert.runs.text_starts import head_lines
from contextual_bert.testing import miniature_schema
from contextual_bert.testing.heads import miniature_checkpoint
from contextual_bert.testing.miniature import drawn_anew, miniature_plain_config

SCHEMA = miniature_schema()
OTHERS = sorted(name for name, backbone in BACKBONES.items() if name != "bert" and not backbone.is_causal)
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
    # These leave out the rows of the padding.
    longest = {"roberta": 11, "xlm-roberta": 11, "camembert": 11, "mpnet": 10}.get(model_type, 12)
    model = ContextualBertForMaskedLM.from_checkpoint(tmp_path, conditioning="none").eval()
    processor = ContextualBertProcessor.from_checkpoint(tmp_path)
    assert model.config.max_position_embeddings == processor.tokenizer.model_max_length == longest
    ids = torch.arange(longest).add(5).unsqueeze(0)
    with torch.no_grad():
        found = model(ids, torch.ones_like(ids), logits_at="all").logits
    atol = 0 if BACKBONES[model_type].is_exact else 1e-5
    torch.testing.assert_close(found, plain(ids).logits, rtol=0, atol=atol)


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


@pytest.mark.parametrize("implementation", ["sdpa", "eager"])
def test_mpnets_distances_weigh_as_in_transformers(implementation: str, tmp_path: Path) -> None:
    plain = saved("mpnet", tmp_path, AutoModel, max_position_embeddings=300)
    model = ContextualBertModel.from_checkpoint(tmp_path, conditioning="none").eval()
    model.set_attn_implementation(implementation)
    ids = torch.randint(5, 23, (2, 290), generator=torch.Generator().manual_seed(0))  # beyond the last bucket
    mask = torch.ones_like(ids)
    mask[1, 200:] = 0
    ids = ids.where(mask.bool(), 1)
    with torch.no_grad():
        found, expected = (each(ids, mask, output_hidden_states=True) for each in (model, plain))
    for ours, theirs in zip(found.hidden_states, expected.hidden_states, strict=True):
        torch.testing.assert_close(ours[mask.bool()], theirs[mask.bool()], rtol=0, atol=1e-5)
    with torch.no_grad():
        wider = model(ids[1:, :200], mask[1:, :200]).last_hidden_state
        unpadded = model(ids[1:, :200]).last_hidden_state
    torch.testing.assert_close(wider[0], found.last_hidden_state[1, :200], rtol=0, atol=1e-5)
    torch.testing.assert_close(unpadded, wider, rtol=0, atol=1e-5)


def test_words_in_front_of_a_text_have_mpnets_distances(tmp_path: Path) -> None:
    plain = saved("mpnet", tmp_path, AutoModel)
    model = ContextualBertForMaskedLM.from_checkpoint(
        tmp_path, conditioning="none", has_context_as_text=True, num_separators=2
    ).eval()
    text = torch.tensor([[3, 7, 8, 9, 4], [3, 10, 11, 12, 4]])
    words = torch.tensor([[11, 12], [13, -FIRST_WORD]]) + FIRST_WORD  # the second customer has one word
    separator = cast(int, model.config.eos_token_id)
    with torch.no_grad():
        found = model.bert(text, torch.ones_like(text), {"sex": words}).last_hidden_state
        for row, said in enumerate([[11, 12], [13]]):
            whole = torch.tensor([[3, *said, separator, separator, *text[row, 1:].tolist()]])
            expected = plain(whole, torch.ones_like(whole)).last_hidden_state[0]
            theirs = torch.cat([expected[:1], expected[len(said) + 3 :]])
            torch.testing.assert_close(found[row], theirs, rtol=0, atol=1e-5)


def test_an_attention_that_adds_no_biases_is_refused_for_mpnet(tmp_path: Path) -> None:
    saved("mpnet", tmp_path, AutoModel)
    model = ContextualBertModel.from_checkpoint(tmp_path, conditioning="none")
    model.config._attn_implementation = "flex_attention"  # pyright: ignore[reportPrivateUsage]
    with pytest.raises(ConfigurationError, match=r"attn_implementation.*cannot add biases of distances"):
        model(IDS)


@pytest.mark.parametrize(("name", "value"), [("pad_token_id", 0), ("relative_attention_num_buckets", 16)])
def test_an_mpnet_that_transformers_computes_otherwise_is_refused(name: str, value: int, tmp_path: Path) -> None:
    saved("mpnet", tmp_path, AutoModel, **cast(Any, {name: value}))
    with pytest.raises(CheckpointError, match=f"its {name} is {value}"):
        ContextualBertModel.from_checkpoint(tmp_path, schema=SCHEMA)


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


def modernbert(folder: Path, auto_class: Any = AutoModel, **fields: Any) -> Any:
    """Every second block sees two positions to either side."""
    kinds = ["full_attention", "sliding_attention", "full_attention"]
    return saved("modernbert", folder, auto_class, local_attention=4, layer_types=kinds, **fields)


@pytest.mark.parametrize("implementation", ["sdpa", "eager"])
def test_modernberts_blocks_see_what_they_see_in_transformers(implementation: str, tmp_path: Path) -> None:
    plain = modernbert(tmp_path)
    model = ContextualBertModel.from_checkpoint(tmp_path, conditioning="none").eval()
    for each in (plain, model):
        each.set_attn_implementation(implementation)
    ids, mask = torch.arange(5, 23).view(2, 9), torch.ones(2, 9, dtype=torch.long)
    mask[1, 6:] = 0
    wanted: dict[str, Any] = {"output_hidden_states": True, "output_attentions": implementation == "eager"}
    with torch.no_grad():
        found, expected = model(ids, mask, **wanted), plain(ids, mask, **wanted)
    real = mask.bool()
    assert torch.equal(found.last_hidden_state[real], expected.last_hidden_state[real])
    assert len(found.hidden_states) == len(expected.hidden_states) == 4
    for ours, theirs in zip(found.hidden_states[:3], expected.hidden_states[:3], strict=True):
        assert torch.equal(ours[real], theirs[real])
    if implementation == "eager":
        assert len(found.attentions) == 3
        for ours, theirs in zip(found.attentions, expected.attentions, strict=True):
            assert torch.equal(ours[0], theirs[0])


def test_words_in_front_of_a_text_turn_its_positions_by_their_number(tmp_path: Path) -> None:
    plain = modernbert(tmp_path)
    model = ContextualBertForMaskedLM.from_checkpoint(tmp_path, conditioning="none", has_context_as_text=True).eval()
    text = torch.tensor([[3, 7, 8, 9, 4], [3, 10, 11, 12, 4]])
    words = torch.tensor([[11, 12], [13, -FIRST_WORD]]) + FIRST_WORD  # the second customer has one word
    with torch.no_grad():
        found = model.bert(text, torch.ones_like(text), {"sex": words}).last_hidden_state
        for row, said in enumerate([[11, 12], [13]]):
            whole = torch.tensor([[3, *said, model.config.eos_token_id, *text[row, 1:].tolist()]])
            expected = plain(whole, torch.ones_like(whole)).last_hidden_state[0]
            theirs = torch.cat([expected[:1], expected[len(said) + 2 :]])
            torch.testing.assert_close(found[row], theirs, rtol=0, atol=1e-5)
        hidden = torch.zeros_like(text).bool()
        hidden[0, 1] = hidden[1, 3] = True
        everywhere = model(text, torch.ones_like(text), {"sex": words}, logits_at="all").logits
        asked = model(text, torch.ones_like(text), {"sex": words}, logits_at=hidden).logits
    torch.testing.assert_close(asked, everywhere[hidden], rtol=0, atol=1e-5)


@pytest.mark.parametrize("pooling", ["cls", "first"])
def test_the_first_position_goes_through_modernberts_head_or_not(pooling: str, tmp_path: Path) -> None:
    modernbert(tmp_path, AutoModelForSequenceClassification)
    model = ContextualBertForSequenceClassification.from_checkpoint(
        tmp_path, schema=SCHEMA, classifier_pooling=pooling
    ).eval()
    assert (model.bert.pooler is None) == (pooling == "first")
    with torch.no_grad():
        hidden = model.bert(IDS, torch.ones_like(IDS)).last_hidden_state
        read = hidden[:, 0] if pooling == "first" else model.bert.pooler(hidden)
        torch.testing.assert_close(model(IDS, torch.ones_like(IDS)).logits, model.classifier(read))


def test_a_classifier_that_reads_the_mean_goes_on_reading_it(tmp_path: Path) -> None:
    plain = modernbert(tmp_path, AutoModelForSequenceClassification, classifier_pooling="mean")
    model = ContextualBertForSequenceClassification.from_checkpoint(tmp_path, schema=SCHEMA).eval()
    assert model.config.classifier_pooling == pooling_of(tmp_path) == "mean"
    with torch.no_grad():
        torch.testing.assert_close(
            model(IDS, torch.ones_like(IDS)).logits, plain(IDS, torch.ones_like(IDS)).logits, rtol=0, atol=1e-5
        )


def test_new_blocks_on_top_of_a_modernbert_see_all_positions(tmp_path: Path) -> None:
    modernbert(tmp_path)
    model = ContextualBertModel.from_checkpoint(tmp_path, schema=SCHEMA, conditioning="film", num_extra_layers=2)
    kinds = [layer.attention_type for layer in model.encoder.layer]
    assert kinds == ["full_attention", "sliding_attention", *["full_attention"] * 3]
    cut = ContextualBertModel.from_checkpoint(tmp_path, schema=SCHEMA, conditioning="film", num_hidden_layers=2)
    assert [layer.attention_type for layer in cut.encoder.layer] == kinds[:2]


def test_dropouts_that_are_given_reach_a_modernberts_blocks(tmp_path: Path) -> None:
    modernbert(tmp_path)
    rates = {"hidden_dropout_prob": 0.3, "attention_probs_dropout_prob": 0.2}
    model = ContextualBertModel.from_checkpoint(tmp_path, schema=SCHEMA, **rates)
    block: Any = model.encoder.layer[0]
    assert (block.mlp.drop.p, block.attn.attention_dropout) == (0.3, 0.2)


def test_positions_that_are_stretched_are_refused(tmp_path: Path) -> None:
    scaled = {"rope_type": "linear", "factor": 2.0, "rope_theta": 10_000.0}
    saved("modernbert", tmp_path, rope_parameters={"full_attention": scaled, "sliding_attention": scaled})
    with pytest.raises(CheckpointError, match=r"its rope_parameters of full_attention are of type 'linear'"):
        ContextualBertModel.from_checkpoint(tmp_path, schema=SCHEMA)


@pytest.mark.parametrize("fields", [{"has_position_embeddings": True}, {"backbone_settings": {}}])
def test_a_modernbert_of_sets_or_without_its_settings_is_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match=r"backbone='modernbert' goes with has_position_embeddings=True"):
        ContextualBertConfig(vocab_size=9, backbone="modernbert", **fields)


@pytest.mark.parametrize("model_type", ["bert", *OTHERS])
def test_a_run_says_only_of_weights_that_are_not_there_that_they_start_at_random(
    model_type: str, tmp_path: Path
) -> None:
    plain = saved(model_type, tmp_path / "head", AutoModelForSequenceClassification)
    labels = [*plain.config.id2label.values()]
    assert head_lines(str(tmp_path / "head"), head="sequence", labels=labels, reads_pooler=True) == []
    others = head_lines(str(tmp_path / "head"), head="sequence", labels=["a", "b", "c"], reads_pooler=True)
    assert len(others) == 1 and "Its own starts at random" in others[0]
    saved(model_type, tmp_path / "words")
    lines = head_lines(str(tmp_path / "words"), head="sequence", labels=["a", "b"], reads_pooler=True)
    # ModernBERT reads hidden words and labels through the same layer.
    assert len(lines) == (0 if model_type == "modernbert" else 1)
    assert head_lines(str(tmp_path / "words"), head="masked_text", labels=[], reads_pooler=False) == []
