"""Encoder-decoders: each decoder learns to copy, is saved whole, and sees nothing of what it is to write."""

from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForSeq2SeqLM

from contextual_bert import ContextualBertConfig, ContextualBertForSeq2SeqLM
from contextual_bert.errors import ConfigurationError
from contextual_bert.models.positions import SinusoidalPositions
from contextual_bert.models.seq2seq_lm import DECODER_CLASSES

SIZES: dict[str, Any] = {
    "hidden_size": 16,
    "num_attention_heads": 2,
    "num_hidden_layers": 1,
    "intermediate_size": 32,
    "num_decoder_layers": 2,
}
IDS: dict[str, Any] = {"vocab_size": 12, "decoder_start_token_id": 2, "eos_token_id": 3, "pad_token_id": 0}


def model_of(decoder: str, **fields: Any) -> ContextualBertForSeq2SeqLM:
    torch.manual_seed(0)
    config = ContextualBertConfig(decoder_type=decoder, has_position_embeddings=True, **{**SIZES, **IDS, **fields})
    return ContextualBertForSeq2SeqLM(config).eval()


def pairs() -> tuple[torch.Tensor, torch.Tensor]:
    sources = torch.randint(4, 12, (6, 5), generator=torch.Generator().manual_seed(1))
    return sources, torch.cat([sources.flip(1), torch.full((6, 1), 3)], dim=1)


@pytest.mark.parametrize("position_embedding", ["learned", "sinusoidal"])
@pytest.mark.parametrize("decoder", DECODER_CLASSES)
def test_a_decoder_learns_and_writes_what_it_ranked_first(
    decoder: str, position_embedding: str, tmp_path: Path
) -> None:
    model = model_of(decoder, position_embedding=position_embedding, hidden_dropout_prob=0.0)
    sources, targets = pairs()
    optimizer = torch.optim.AdamW(model.parameters(), 1e-2)
    for _ in range(60):
        loss = model(sources, labels=targets).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    mask = torch.ones_like(sources)
    written = model.generate(sources, attention_mask=mask, max_new_tokens=6)[:, 1:]
    ranks = model.score_targets(sources, targets, mask)
    is_first = ((ranks.num_better == 0) & (ranks.num_tied == 1)).view(targets.shape).all(dim=1)
    same = [row[: len(target)].tolist() == target.tolist() for row, target in zip(written, targets, strict=True)]
    assert same == is_first.tolist() and sum(same) >= 4
    model.save_pretrained(tmp_path)
    loaded, found = AutoModelForSeq2SeqLM.from_pretrained(tmp_path, output_loading_info=True)
    assert not found["missing_keys"] and not found["unexpected_keys"]
    assert torch.equal(loaded.eval()(sources, labels=targets).logits, model(sources, labels=targets).logits)


@pytest.mark.parametrize("decoder", DECODER_CLASSES)
def test_a_token_sees_neither_what_follows_nor_padding(decoder: str) -> None:
    model, (sources, targets) = model_of(decoder), pairs()
    mask = torch.ones_like(sources)
    before = model(sources, mask, labels=targets)
    changed = targets.clone()
    changed[:, 3:5] = 4
    assert torch.allclose(before.logits[:, :4], model(sources, mask, labels=changed).logits[:, :4], atol=1e-5)
    padded = torch.nn.functional.pad(sources, (0, 2), value=0)
    found = model(padded, torch.nn.functional.pad(mask, (0, 2)), labels=targets)
    assert torch.allclose(before.logits, found.logits, atol=1e-5)
    if decoder == "gru":
        assert found.cross_attentions is None
    else:
        assert torch.allclose(found.cross_attentions.sum(dim=-1), torch.ones(1), atol=1e-5)
        assert found.cross_attentions[..., 5:].max() == 0


@pytest.mark.parametrize("backbone", ["bert", "bigru"])
@pytest.mark.parametrize("position_embedding", ["learned", "sinusoidal"])
def test_a_transformer_decoder_knows_the_order_of_what_is_written(backbone: str, position_embedding: str) -> None:
    """Whatever the encoder is: one block without positions reads the tokens before as a bag."""
    model = model_of("transformer", backbone=backbone, position_embedding=position_embedding, num_decoder_layers=1)
    sources, targets = pairs()
    targets[:, :2] = torch.tensor([4, 5])
    swapped = targets.clone()
    swapped[:, :2] = torch.tensor([5, 4])
    first, second = (model(sources, labels=each).logits[:, 3].detach() for each in (targets, swapped))
    assert float((first - second).abs().max()) > 1e-3


def test_settings_that_make_no_encoder_decoder_are_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"decoder_type=None is missing.*gru_luong"):
        ContextualBertForSeq2SeqLM(ContextualBertConfig(vocab_size=9))
    with pytest.raises(ConfigurationError, match="decoder_start_token_id=None is missing"):
        ContextualBertForSeq2SeqLM(ContextualBertConfig(vocab_size=9, decoder_type="gru"))
    for number in (-1, 9):
        with pytest.raises(ConfigurationError, match=f"decoder_start_token_id={number} is no id of the vocabulary"):
            ContextualBertForSeq2SeqLM(
                ContextualBertConfig(vocab_size=9, decoder_type="gru", decoder_start_token_id=number)
            )
    faulty: dict[str, Any] = {"decoder_type": "lstm", "position_embedding": "rotary", "num_decoder_layers": 0}
    for name, value in faulty.items():
        with pytest.raises(ConfigurationError, match=name):
            ContextualBertConfig(vocab_size=9, **{name: value})


def test_sinusoidal_positions_have_the_scale_of_a_learned_table() -> None:
    found = SinusoidalPositions(64, scale=0.02)(torch.arange(100))
    assert found.shape == (100, 64) and found.square().mean().sqrt().item() == pytest.approx(0.02, rel=1e-4)


@pytest.mark.parametrize("num_beams", [1, 3])
@pytest.mark.parametrize("decoder", DECODER_CLASSES)
def test_a_cache_changes_nothing_that_is_written(decoder: str, num_beams: int) -> None:
    model, (sources, _) = model_of(decoder, num_decoder_layers=3, initializer_range=0.7), pairs()
    mask = torch.ones_like(sources)
    mask[1:3, 3:] = 0
    given: dict[str, Any] = {
        "attention_mask": mask,
        "num_beams": num_beams,
        "max_new_tokens": 12,
        "return_dict_in_generate": True,
    }
    scores = [
        model.generate(sources, use_cache=use_cache, output_logits=True, min_new_tokens=12, **given)
        for use_cache in (True, False)
    ]
    assert torch.equal(scores[0].sequences, scores[1].sequences)
    for with_cache, without in zip(scores[0].logits, scores[1].logits, strict=True):
        assert torch.allclose(with_cache, without, atol=1e-4)
    cache = scores[0].past_key_values
    assert cache is not None and cache.get_seq_length() == 12 and scores[1].past_key_values is None


@pytest.mark.parametrize("decoder", DECODER_CLASSES)
def test_bfloat16_changes_little(decoder: str) -> None:
    model, (sources, targets) = model_of(decoder), pairs()
    expected = model(sources, labels=targets)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = model(sources, labels=targets)
        written = model.generate(sources, attention_mask=torch.ones_like(sources), max_new_tokens=4)
    found.loss.backward()
    assert found.loss.dtype == torch.float32 and torch.allclose(found.loss, expected.loss, rtol=0.02)
    assert written.shape[0] == len(sources)


@pytest.mark.parametrize("decoder", DECODER_CLASSES)
def test_a_beginning_is_written_on_from(decoder: str) -> None:
    model, (sources, targets) = model_of(decoder), pairs()
    whole = model(sources, labels=targets)
    before = model.shifted(targets)
    start = model(sources, decoder_input_ids=before[:, :3], use_cache=True)
    rest = model(sources, decoder_input_ids=before[:, 3:], past_key_values=start.past_key_values)
    assert torch.allclose(whole.logits, torch.cat([start.logits, rest.logits], dim=1), atol=1e-5)
