"""Gibbs sampling: its chain is the one of the model's conditionals, under the context, and what is fixed stays."""

import copy
import itertools
from typing import Any

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer
from transformers import PreTrainedTokenizerFast

from contextual_bert.context import Categorical, ContextSchema
from contextual_bert.errors import ConfigurationError, DataError, UnknownNameError
from contextual_bert.inference import TextSampling, sample_texts
from contextual_bert.models import (
    ContextFeatureExtractor,
    ContextualBertConfig,
    ContextualBertForMaskedLM,
    ContextualBertProcessor,
)
from contextual_bert.testing import miniature_text_processor
from contextual_bert.testing.miniature import drawn_anew, miniature_tokenizer

SCHEMA = ContextSchema(features=(Categorical(name="sex", values=("f", "m")),))
WORDS = (5, 6, 7)  # word0, word1, word2: the others are reserved here, so that all texts can be counted


@pytest.fixture(scope="module")
def processor() -> ContextualBertProcessor:
    return miniature_text_processor()


@pytest.fixture(scope="module")
def model() -> ContextualBertForMaskedLM:
    reserved = [number for number in range(23) if number not in WORDS]
    sizes = {"hidden_size": 16, "num_attention_heads": 2, "num_hidden_layers": 2, "intermediate_size": 16}
    fields: dict[str, Any] = {
        "has_position_embeddings": True,
        "reserved_token_ids": reserved,
        "vocab_size": 23,
        **sizes,
    }
    config = ContextualBertConfig.from_schema(SCHEMA, conditioning="global_state", **fields)
    model = drawn_anew(ContextualBertForMaskedLM(config))
    with torch.no_grad():
        model.cls.predictions.decoder.weight.mul_(8)
    return model


def stationary(model: ContextualBertForMaskedLM, sex: int) -> dict[tuple[int, ...], float]:
    """The distribution that drawing one of two places, chosen at random, does not change."""
    states = list(itertools.product(WORDS, repeat=2))
    kernel = np.zeros((len(states), len(states)))
    for row, state in enumerate(states):
        for place in range(2):
            ids = torch.tensor([[3, *state, 4]])
            ids[0, 1 + place] = 1
            with torch.no_grad():
                logits = model(ids, context={"sex": torch.tensor([sex])}).logits[0]
            for word, probability in zip(WORDS, logits[list(WORDS)].softmax(dim=0).tolist(), strict=True):
                target = list(state)
                target[place] = word
                kernel[row, states.index(tuple(target))] += probability / 2
    found = np.linalg.matrix_power(kernel, 2000)[0]
    return dict(zip(states, found.tolist(), strict=True))


@pytest.mark.parametrize("sex", ["f", "m"])
def test_long_chains_have_the_stationary_distribution(
    sex: str, model: ContextualBertForMaskedLM, processor: ContextualBertProcessor
) -> None:
    texts = sample_texts(
        model, processor, context={"sex": sex}, prompt=2, num_samples=4000, sampling=TextSampling(num_sweeps=15)
    )
    expected = stationary(model, {"f": 2, "m": 3}[sex])
    assert max(expected.values()) < 0.9
    for state, probability in expected.items():
        text = " ".join(f"word{number - 5}" for number in state)
        assert texts.count(text) / 4000 == pytest.approx(probability, abs=0.035)


def test_places_that_no_text_uses_are_never_drawn(model: ContextualBertForMaskedLM) -> None:
    known: Any = miniature_tokenizer()
    renamed = Tokenizer.from_str(known.backend_tokenizer.to_str().replace('"word1"', '"[unused1]"'))
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=renamed, **known.special_tokens_map)
    other = ContextualBertProcessor(ContextFeatureExtractor(SCHEMA.to_dict()), tokenizer)
    drawn: list[set[str]] = []
    for processor in (miniature_text_processor(), other):
        texts = sample_texts(model, processor, prompt=2, num_samples=200, sampling=TextSampling(num_sweeps=3))
        drawn.append({word for text in texts for word in text.split()})
    assert drawn == [{"word0", "word1", "word2"}, {"word0", "word2"}]


def test_what_is_not_masked_stays(model: ContextualBertForMaskedLM, processor: ContextualBertProcessor) -> None:
    texts = sample_texts(
        model, processor, prompt="word9 [MASK] word8", num_samples=20, sampling=TextSampling(num_sweeps=3)
    )
    assert {text.split()[0] for text in texts} == {"word9"} and {text.split()[2] for text in texts} == {"word8"}
    assert {text.split()[1] for text in texts} <= {"word0", "word1", "word2"}


def test_the_seed_decides(model: ContextualBertForMaskedLM, processor: ContextualBertProcessor) -> None:
    def draw(*, seed: int = 0, temperature: float = 1.0) -> list[str]:
        sampling = TextSampling(num_sweeps=2, temperature=temperature)
        return sample_texts(model, processor, prompt=6, num_samples=8, sampling=sampling, seed=seed)

    assert draw(seed=3) == draw(seed=3)
    assert draw(seed=3) != draw(seed=4)
    assert len(set(draw(temperature=0.01))) <= len(set(draw(temperature=5.0)))


def test_guidance_goes_from_nobody_to_beyond_what_was_learned(
    model: ContextualBertForMaskedLM, processor: ContextualBertProcessor
) -> None:
    """One free token, so that a draw is a draw of the formula's distribution."""
    own = copy.deepcopy(model)
    own.config.context_dropout = 0.1
    with torch.no_grad():
        own.cls.predictions.decoder.weight.mul_(0.1)
    ids = torch.tensor([[3, 1, 4]])
    with torch.no_grad():
        told, untold = (own(ids, context={"sex": torch.tensor([sex])}).logits[0, list(WORDS)] for sex in (3, 0))
    likeliest: list[float] = []
    for weight in (0.0, 1.0, 100.0):
        sampling = TextSampling(num_sweeps=1, guidance=weight)
        settings: Any = {"prompt": 1, "num_samples": 4000, "sampling": sampling}
        texts = sample_texts(own, processor, context={"sex": "m"}, **settings)
        expected = (untold + weight * (told - untold)).softmax(dim=0).tolist()
        for word, probability in zip(WORDS, expected, strict=True):
            assert texts.count(f"word{word - 5}") / 4000 == pytest.approx(probability, abs=0.03)
        if not weight:
            assert texts == sample_texts(own, processor, **settings)
        likeliest.append(max(expected))
    assert likeliest[-1] - likeliest[0] > 0.1


def test_without_a_context_all_is_missing(model: ContextualBertForMaskedLM, processor: ContextualBertProcessor) -> None:
    texts = [sample_texts(model, processor, context=context, prompt=4) for context in (None, {})]
    assert texts[0] == texts[1]


def test_ids_that_only_the_model_has_are_never_drawn(
    model: ContextualBertForMaskedLM, processor: ContextualBertProcessor
) -> None:
    padded = copy.deepcopy(model)
    padded.resize_token_embeddings(64, mean_resizing=False)  # as to a round number
    with torch.no_grad():
        padded.cls.predictions.bias[23:] = 50
    assert all(len(text.split()) == 4 for text in sample_texts(padded, processor, prompt=4, num_samples=3))


def test_a_model_without_a_context(processor: ContextualBertProcessor) -> None:
    sizes = {"hidden_size": 16, "num_attention_heads": 2, "num_hidden_layers": 1, "intermediate_size": 16}
    plain = ContextualBertForMaskedLM(ContextualBertConfig(vocab_size=23, reserved_token_ids=[0, 1, 2, 3, 4], **sizes))
    without = ContextualBertProcessor(type(processor.feature_extractor)(), processor.tokenizer)
    assert all(len(text.split()) == 3 for text in sample_texts(plain, without, prompt=3))


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"prompt": "word1 word2"}, ConfigurationError, r"has no \[MASK\], so there is nothing to draw"),
        ({"prompt": 0}, ConfigurationError, "nothing to draw"),
        ({"prompt": 511}, ConfigurationError, "513 tokens.*the model reads 512. Ask for 510"),
        ({"num_samples": 0}, ConfigurationError, "num_samples=0 is not allowed. Give a whole number, 1 or more"),
        ({"num_samples": "3"}, ConfigurationError, "num_samples='3' is not allowed. Give a whole number"),
        ({"prompt": "a\ud800 [MASK]"}, DataError, "row 1, column 'text': .*d800.*half of a character"),
        ({"sampling": TextSampling(guidance=2)}, ConfigurationError, "guidance=2 starts from .* context_dropout=0.1"),
        ({"context": {"sexx": "f"}}, UnknownNameError, "Did you mean 'sex'"),
    ],
)
def test_settings_that_cannot_work(
    settings: dict[str, Any],
    error: type[Exception],
    message: str,
    model: ContextualBertForMaskedLM,
    processor: ContextualBertProcessor,
) -> None:
    with pytest.raises(error, match=message):
        sample_texts(model, processor, **settings)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"num_sweeps": 0}, "num_sweeps=0 is not allowed. Give a whole number, 1 or more"),
        ({"num_sweeps": 1.5}, "num_sweeps=1.5 is not allowed. Give a whole number"),
        ({"temperature": float("inf")}, "temperature=inf is not allowed. Give a number above 0"),
        ({"temperature": 0.0}, "temperature=0.0 is not allowed. Give a number above 0"),
        ({"temperature": float("nan")}, "temperature=nan is not allowed. Give a number above 0"),
        ({"guidance": -0.5}, "guidance=-0.5 is not allowed. Give a number between 0 and 100"),
        ({"guidance": float("nan")}, "guidance=nan is not allowed. Give a number between 0 and 100"),
    ],
)
def test_ways_to_draw_that_cannot_work(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        TextSampling(**settings)


@pytest.mark.parametrize("temperature", [1e-30, 1e-40, 1e-300])
def test_a_low_temperature_draws_the_likeliest(
    temperature: float, model: ContextualBertForMaskedLM, processor: ContextualBertProcessor
) -> None:
    sampling = TextSampling(temperature=temperature, num_sweeps=3)
    assert len(set(sample_texts(model, processor, prompt="word1 [MASK] word2", num_samples=8, sampling=sampling))) == 1


def test_a_model_in_training_stays_there(model: ContextualBertForMaskedLM, processor: ContextualBertProcessor) -> None:
    training = copy.deepcopy(model).train()
    sample_texts(training, processor, prompt=2)
    assert training.training
    sample_texts(model.eval(), processor, prompt=2)
    assert not model.training


def test_a_word_that_the_tokenizer_does_not_know_stays_a_word(
    model: ContextualBertForMaskedLM, processor: ContextualBertProcessor
) -> None:
    (found,) = sample_texts(model, processor, prompt="word1 pizza [MASK] word2", num_samples=1)
    assert found.split()[:2] + found.split()[3:] == ["word1", "[UNK]", "word2"]


def test_a_context_that_would_not_be_read_is_refused(
    model: ContextualBertForMaskedLM, processor: ContextualBertProcessor
) -> None:
    """A processor whose schema was forgotten, and a model that takes no context."""
    forgotten = ContextualBertProcessor(type(processor.feature_extractor)(), processor.tokenizer)
    with pytest.raises(ConfigurationError, match="The model and the schema disagree on: sex"):
        sample_texts(model, forgotten, context={"sex": "f"}, prompt=3)
    sizes = {"hidden_size": 16, "num_attention_heads": 2, "num_hidden_layers": 1, "intermediate_size": 16}
    plain = ContextualBertForMaskedLM(ContextualBertConfig(vocab_size=23, reserved_token_ids=[0, 1, 2, 3, 4], **sizes))
    with pytest.raises(ConfigurationError, match="conditioning='none' takes none"):
        sample_texts(plain, forgotten, context={"sex": "f"}, prompt=3)
