"""Models that write: what transformers' GPT-2 computes, guidance, and which heads and blocks do not go together."""

from pathlib import Path
from typing import Any, cast

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoModelForMaskedLM

from contextual_bert import ContextualBertForCausalLM, ContextualBertForMaskedLM, ContextualBertProcessor
from contextual_bert.errors import CheckpointError, ConfigurationError
from contextual_bert.models import ContextualBertConfig, ContextualBertForSequenceClassification
from contextual_bert.models.causal_lm import GuidedCache, GuidedState
from contextual_bert.testing import miniature_schema
from contextual_bert.testing.heads import miniature_checkpoint
from contextual_bert.testing.miniature import blocks_of, drawn_anew, miniature_config, miniature_plain_config

PROMPTS = torch.tensor([[5, 6, 7]]).repeat(32, 1)
SETTINGS: dict[str, Any] = {"max_new_tokens": 5, "do_sample": False, "pad_token_id": 0}


def written(method: str, **fields: Any) -> ContextualBertForCausalLM:
    with blocks_of("gpt2"):
        return drawn_anew(ContextualBertForCausalLM(miniature_config(method, eos_token_id=None, **fields)))


def contexts(rows: int) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(1)
    sex = torch.randint(2, 4, (rows,), generator=generator)
    none = {"age": torch.zeros(rows, dtype=torch.int64), "brands": torch.zeros(rows, 1, dtype=torch.int64)}
    return {"sex": sex, **none, "style": (sex - 2.5)[:, None].repeat(1, 3) * 20}


@pytest.mark.parametrize("implementation", ["sdpa", "eager"])
@pytest.mark.parametrize("num_beams", [1, 3])
def test_without_a_context_it_writes_what_gpt2_writes(implementation: str, num_beams: int, tmp_path: Path) -> None:
    plain = drawn_anew(
        AutoModelForCausalLM.from_config(miniature_plain_config("gpt2"), attn_implementation=implementation)
    )
    miniature_checkpoint(plain, tmp_path)
    model = ContextualBertForCausalLM.from_checkpoint(
        tmp_path, conditioning="none", attn_implementation=implementation
    ).eval()
    assert torch.equal(model(PROMPTS[:2]).logits, plain(PROMPTS[:2], use_cache=False).logits)
    ours, theirs = (
        each.generate(PROMPTS[:2], num_beams=num_beams, **SETTINGS, eos_token_id=None) for each in (model, plain)
    )
    assert torch.equal(ours, theirs)


def test_32_texts_are_written_in_one_batch_each_under_its_own_context() -> None:
    model, context = written("global_state_update"), contexts(32)
    with torch.no_grad():
        for layer in model.bert.encoder.layer:
            cast(Any, layer).conditioning.value.weight.mul_(20)  # so that the context decides what is written
    found = model.generate(PROMPTS, context=context, **SETTINGS)
    assert found.shape == (32, 8)
    by_sex = {int(sex): found[context["sex"] == sex].unique(dim=0) for sex in (2, 3)}
    assert len(by_sex[2]) == len(by_sex[3]) == 1 and not torch.equal(by_sex[2], by_sex[3])


def test_one_context_serves_all_prompts_and_is_encoded_once() -> None:
    model, calls = written("global_state_update"), 0

    def count(*_: Any) -> None:
        nonlocal calls
        calls += 1

    model.bert.context_encoder.register_forward_hook(count)
    one = {name: values[:1] for name, values in contexts(1).items()}
    found = model.generate(PROMPTS, context=one, **SETTINGS)
    assert calls == 1 and len(found.unique(dim=0)) == 1


@torch.no_grad()
@pytest.mark.parametrize("guidance", [1.0, 2.0])
@pytest.mark.parametrize(("method", "part"), [("global_state_update", "value"), ("film", "modulation")])
def test_what_depends_on_the_state_alone_is_computed_once_a_text(method: str, part: str, guidance: float) -> None:
    model, context, calls = written(method), contexts(2), list[str]()
    for name, module in model.named_modules():
        if f".conditioning.{part}" in name and isinstance(module, torch.nn.Linear):
            module.register_forward_hook(lambda *_, name=name: calls.append(name))
    model.generate(PROMPTS[:2], context=context, guidance=guidance, **SETTINGS)
    assert len(calls) == len(set(calls)) * (1 if guidance == 1 else 2) > 0


@torch.no_grad()
@pytest.mark.parametrize("method", ["global_state", "global_state_update", "film"])
def test_what_is_held_of_a_state_changes_no_logits(method: str) -> None:
    model = written(method)
    state = model.encode_context(contexts(2))
    held = model.holding(state)
    assert len(held.held) == model.config.num_hidden_layers
    found, expected = (model(PROMPTS[:2], context=each.rows(torch.tensor([1, 0]))).logits for each in (held, state))
    assert torch.allclose(found, expected, atol=1e-6)
    both = held.joined(model.holding(model.encode_context(contexts(1))))
    assert [len(each) for each in both.held if each is not None] == [4] * model.config.num_hidden_layers


@pytest.mark.parametrize("method", ["concat", "new_position", "multi_attribute"])
def test_methods_whose_blocks_make_nothing_of_a_state_alone_hold_nothing(method: str) -> None:
    model = written(method)
    assert model.holding(model.encode_context(contexts(2))).held == ()


def test_the_cache_holds_the_tokens_alone() -> None:
    model, state = written("global_state_update"), written("global_state_update").encode_context(contexts(2))
    cache = model(PROMPTS[:2], context=state, use_cache=True).past_key_values
    assert cache.get_seq_length() == PROMPTS.shape[1]


@torch.no_grad()
def test_guidance_moves_the_logits_away_from_those_without_a_context() -> None:
    model, context = written("global_state_update"), contexts(2)
    state = model.encode_context(context)
    without = model.encode_context(model.bert.context_encoder.missing(1))
    inputs = {"input_ids": PROMPTS[:2], "past_key_values": GuidedCache(config=model.config)}
    guided = model(**inputs, context=GuidedState(state.joined(without), weight=3.0)).logits
    own, other = model(PROMPTS[:2], context=state).logits, model(PROMPTS[:2]).logits
    torch.testing.assert_close(guided, other + 3 * (own - other), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("given", [{"context": contexts(1)}, {"guidance": 2.0}])
def test_a_model_without_a_context_takes_none(given: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match=r"this model reads no context\. Leave it out"):
        written("none").generate(PROMPTS[:1], **given, **SETTINGS)


def test_contexts_of_another_number_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="2 rows"):
        written("global_state_update").generate(PROMPTS[:3], context=contexts(2), **SETTINGS)


def test_heads_and_blocks_of_two_directions_are_refused() -> None:
    gpt = {"backbone": "gpt2", "has_position_embeddings": True}
    with pytest.raises(ConfigurationError, match=r"backbone='bert' reads in both directions.*Take backbone='gpt2'"):
        ContextualBertForCausalLM(ContextualBertConfig(vocab_size=9))
    for head in (ContextualBertForMaskedLM, ContextualBertForSequenceClassification):
        with pytest.raises(ConfigurationError, match=r"reads from left to right.*Take backbone='bert'"):
            head(ContextualBertConfig(vocab_size=9, **gpt))
    with pytest.raises(ConfigurationError, match=r"a set has no order\. Give has_position_embeddings=True"):
        ContextualBertConfig(vocab_size=9, backbone="gpt2")
    with pytest.raises(ConfigurationError, match="has_context_as_text=True does not go with backbone='gpt2'"):
        ContextualBertConfig(vocab_size=9, has_context_as_text=True, **gpt)


@pytest.mark.parametrize(
    ("model_type", "auto_class", "head"),
    [
        ("gpt2", AutoModelForCausalLM, ContextualBertForMaskedLM),
        ("gpt2", AutoModelForCausalLM, ContextualBertForSequenceClassification),
        ("bert", AutoModelForMaskedLM, ContextualBertForCausalLM),
        ("roberta", AutoModelForMaskedLM, ContextualBertForCausalLM),
    ],
)
def test_a_checkpoint_of_the_other_direction_is_refused(
    model_type: str, auto_class: Any, head: Any, tmp_path: Path
) -> None:
    miniature_checkpoint(auto_class.from_config(miniature_plain_config(model_type)), tmp_path)
    with pytest.raises(CheckpointError) as refused:
        head.from_checkpoint(tmp_path, schema=miniature_schema())
    said = str(refused.value)
    assert f"its architecture is {model_type!r}" in said
    assert ("Allowed: gpt2." in said) == (head is ContextualBertForCausalLM)


def test_a_text_has_a_token_before_it_and_one_behind_it(tmp_path: Path) -> None:
    miniature_checkpoint(AutoModelForCausalLM.from_config(miniature_plain_config("gpt2")), tmp_path / "plain")
    processor = ContextualBertProcessor.from_checkpoint(tmp_path / "plain")
    processor.save_pretrained(tmp_path / "own")
    for each in (processor, ContextualBertProcessor.from_pretrained(tmp_path / "own")):
        tokenizer = each.tokenizer
        found = each(text=["word1 word2", "word3"], padding=True)
        first, last = tokenizer.bos_token_id, tokenizer.eos_token_id
        assert found["input_ids"].tolist() == [[first, 6, 7, last], [tokenizer.pad_token_id, first, 8, last]]
        assert found["attention_mask"].tolist() == [[1, 1, 1, 1], [0, 1, 1, 1]]
