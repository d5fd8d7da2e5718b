"""Forward and backward language models side by side: formulas, what each direction sees, the mixture, errors."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from contextual_bert.errors import ConfigurationError
from contextual_bert.models.bidirectional_lm import (
    BidirectionalLM,
    BidirectionalLMConfig,
    CharacterCNN,
    ElmoFeatures,
    LayerMixture,
    asked_both_ways,
)
from contextual_bert.models.masked_lm import IGNORED_LABEL
from contextual_bert.models.word_characters import encode_words, most_frequent_words

TEXTS = [["a", "red", "hat", "and", "a", "coat"], ["a", "hat"], ["café", "x" * 80, "coat"]]
WORDS = most_frequent_words(TEXTS, vocab_size=7)


def language_model(**sizes: Any) -> BidirectionalLM:
    torch.manual_seed(0)
    small: dict[str, Any] = {"hidden_size": 6, "filters": [[1, 3], [2, 4]], "num_hidden_layers": 2}
    return BidirectionalLM(BidirectionalLMConfig(WORDS, **{**small, **sizes})).eval()


def encoded(texts: list[list[str]]) -> dict[str, Tensor]:
    return encode_words(texts, vocabulary=WORDS, max_characters=12)


def test_the_loss_is_that_of_both_directions_word_by_word() -> None:
    model, batch = language_model(), encoded(TEXTS)
    found = model(**batch)
    losses: list[list[Tensor]] = [[], []]
    for row, words in enumerate(TEXTS):
        length = len(words) + 2
        vectors = model.words(batch["characters"][row : row + 1, :length])
        labels = batch["labels"][row, :length]
        for direction, layers in enumerate((model.forward_layers, model.backward_layers)):
            read, numbers = (vectors, labels) if direction == 0 else (vectors.flip(1), labels.flip(0))
            first = layers[0](read)[0]
            last = layers[1](first)[0] + first
            chances = model.softmax.log_prob(last[0, :-1])
            losses[direction] += [-chances[place, number] for place, number in enumerate(numbers[1:])]
            states = last if direction == 0 else last.flip(1)
            half = found.hidden_states[2][row, :length].chunk(2, dim=-1)[direction]
            torch.testing.assert_close(half, states[0], rtol=1e-5, atol=1e-6)
    expected = (torch.stack(losses[0]).mean() + torch.stack(losses[1]).mean()) / 2
    torch.testing.assert_close(found.loss, expected, rtol=1e-5, atol=1e-6)


def test_a_character_cnn_is_filters_a_maximum_a_highway_and_a_projection() -> None:
    cnn: Any = CharacterCNN(language_model().config)
    word = encoded([["red"]])["characters"][0, 1]
    embedded = cnn.embeddings(word)
    found = []
    for filters, width in zip(cnn.filters, (1, 2), strict=True):
        places = [embedded[first : first + width] for first in range(len(word) - width + 1)]
        each = torch.stack([torch.einsum("owd,dw->o", filters.weight.transpose(1, 2), place.T) for place in places])
        found.append((each + filters.bias).amax(dim=0))
    y = torch.cat(found).clamp(min=0)
    changed, gate = cnn.highways[0](y).chunk(2)
    y = gate.sigmoid() * changed.clamp(min=0) + (1 - gate.sigmoid()) * y
    torch.testing.assert_close(cnn(word), cnn.projection(y), rtol=1e-5, atol=1e-6)


def test_forward_sees_no_later_word_and_backward_no_earlier_one() -> None:
    model = language_model()
    before = model(**encoded([["a", "red", "hat"]])).hidden_states
    after = model(**encoded([["a", "blue", "hat"]])).hidden_states
    for layer in (1, 2):
        own, other = before[layer][0].chunk(2, dim=1), after[layer][0].chunk(2, dim=1)
        torch.testing.assert_close(own[0][:2], other[0][:2])  # the changed word stands at 2, behind the start
        assert not torch.isclose(own[0][2:], other[0][2:]).all(dim=1).any()
        torch.testing.assert_close(own[1][3:], other[1][3:])
        assert not torch.isclose(own[1][:3], other[1][:3]).all(dim=1).any()


def test_a_text_is_read_alike_whatever_is_beside_it() -> None:
    model = language_model()
    together, alone = model(**encoded(TEXTS)).hidden_states, model(**encoded(TEXTS[1:2])).hidden_states
    for many, one in zip(together, alone, strict=True):
        torch.testing.assert_close(many[1, :4], one[0], rtol=1e-5, atol=1e-6)
        assert not many[1, 4:].any()


def test_training_lowers_the_loss_of_both_directions() -> None:
    model, batch = language_model(dropout=0.0).train(), encoded(TEXTS)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.02)
    losses = []
    for _ in range(60):
        loss = model(**batch).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert all(weight.grad is not None for weight in model.parameters())
    assert losses[-1] < losses[0] / 2


def test_a_saved_model_gives_the_same_states(tmp_path: Path) -> None:
    model, batch = language_model(), encoded(TEXTS)
    model.save_pretrained(tmp_path)
    loaded = BidirectionalLM.from_pretrained(tmp_path).eval()
    assert tuple(loaded.config.vocabulary) == WORDS
    own, theirs = model(**batch), loaded(**batch)
    assert torch.equal(own.loss, theirs.loss)
    assert all(torch.equal(*both) for both in zip(own.hidden_states, theirs.hidden_states, strict=True))


def test_a_mixture_is_scaled_shares_of_the_layers() -> None:
    layers = [torch.randn(2, 3, 4) for _ in range(3)]
    mixture = LayerMixture(3)
    torch.testing.assert_close(mixture(layers), sum(layers) / 3)
    with torch.no_grad():
        mixture.weights.copy_(torch.tensor([0.0, 1.0, -2.0]))
        mixture.scale.fill_(3.0)
    exponentials = torch.tensor([0.0, 1.0, -2.0]).exp()
    shares = exponentials / exponentials.sum()
    torch.testing.assert_close(
        mixture(layers), 3 * (shares[0] * layers[0] + shares[1] * layers[1] + shares[2] * layers[2])
    )
    mixture(layers).sum().backward()
    assert mixture.weights.grad is not None
    assert mixture.scale.grad is not None


def test_words_are_spelt_in_bytes_and_cut_and_rare_ones_are_unknown() -> None:
    batch = encoded(TEXTS)
    cafe, long = batch["characters"][2, 1], batch["characters"][2, 2]
    assert cafe.tolist() == [259, *(byte + 1 for byte in "café".encode()), 260, 0, 0, 0, 0, 0]
    assert long.tolist() == [259, *[ord("x") + 1] * 10, 260]
    assert batch["labels"][2].tolist()[:3] == [1, 0, 0]
    assert batch["attention_mask"].sum(dim=1).tolist() == [8, 4, 5]
    assert most_frequent_words(TEXTS, vocab_size=99, min_count=2) == ("<unk>", "<s>", "</s>", "a", "coat", "hat")


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"hidden_size": 0}, "hidden_size"),
        ({"filters": []}, "filters"),
        ({"filters": [[0, 3]]}, "filters"),
        ({"num_hidden_layers": 0}, "num_hidden_layers"),
        ({"num_highways": -1}, "num_highways"),
        ({"max_characters": 2}, "max_characters"),
        ({"hidden_size": "6"}, "Give a whole number, 1 or more"),
        ({"dropout": 1.0}, "dropout"),
    ],
)
def test_sizes_that_cannot_be_are_named(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        language_model(**settings)


def test_what_cannot_be_read_is_named() -> None:
    with pytest.raises(ConfigurationError, match="vocabulary"):
        BidirectionalLM(BidirectionalLMConfig())
    batch = encoded(TEXTS)
    with pytest.raises(ConfigurationError, match="Pad texts on the right"):
        language_model()(batch["characters"], batch["attention_mask"].flip(1))
    with pytest.raises(ConfigurationError, match="list of words"):
        encoded(["a red hat"])  # pyright: ignore[reportArgumentType]
    with pytest.raises(ConfigurationError, match="no word at a place of text 1"):
        encoded([["a"], ["a", ""]])
    with pytest.raises(ConfigurationError, match="holds no text"):
        encoded([])
    with pytest.raises(ConfigurationError, match="max_characters"):
        encode_words(TEXTS, vocabulary=WORDS, max_characters=2)
    with pytest.raises(ConfigurationError, match="vocab_size"):
        most_frequent_words(TEXTS, vocab_size=3)
    with pytest.raises(ConfigurationError, match="num_layers"):
        LayerMixture(0)
    with pytest.raises(ConfigurationError, match="Give 3"):
        LayerMixture(2)([torch.zeros(1, 1, 1)] * 3)


def test_each_word_is_scored_from_both_sides() -> None:
    model, batch = language_model(), encoded(TEXTS)
    found = model.score_words(**batch)
    states = model(**batch).hidden_states[-1]
    expected = []
    for row, words in enumerate(TEXTS):
        labels, end = batch["labels"][row].tolist(), len(words) + 1
        forward, backward = states[row].chunk(2, dim=1)
        expected += [
            model.softmax.log_prob(forward[place - 1 : place])[0, labels[place]] for place in range(1, end + 1)
        ]
        expected += [model.softmax.log_prob(backward[place + 1 : place + 2])[0, labels[place]] for place in range(end)]
    torch.testing.assert_close(found.log_probability, torch.stack(expected), rtol=1e-5, atol=1e-6)
    asked = asked_both_ways(batch["labels"], batch["attention_mask"])
    assert (asked != IGNORED_LABEL).sum() == len(expected)
    torch.testing.assert_close(-found.log_probability.mean(), model(**batch).loss, rtol=1e-5, atol=1e-6)


def features_of() -> ElmoFeatures:
    features = ElmoFeatures(language_model(dropout=0.5))
    torch.nn.init.normal_(features.mixture.weights)
    return features


def test_features_are_the_mixture_of_the_layers_of_each_word() -> None:
    features = features_of().train()  # dropout of the language model stays off
    batch = encoded(TEXTS)
    is_real = batch["attention_mask"].bool()
    found = features(batch["characters"], is_real)
    for row, text in enumerate(TEXTS):
        states = features.model(**{name: encoded([text])[name] for name in ("characters", "attention_mask")})
        torch.testing.assert_close(found[row, : len(text) + 2], features.mixture(states.hidden_states)[0])
    assert not found[~is_real].any()
    assert found.shape == (*is_real.shape, features.size)


def test_the_pieces_of_a_word_have_its_vector() -> None:
    features, batch = features_of(), encoded([["a", "hat"]])
    characters = batch["characters"][:, [0, 1, 2, 2, 2, 3]]
    characters[:, 3:5] = 0
    is_real = torch.ones(1, 6, dtype=torch.bool)
    whole = features(batch["characters"], is_real[:, :4])
    torch.testing.assert_close(features(characters, is_real), whole[:, [0, 1, 2, 2, 2, 3]])


def test_of_features_the_mixture_alone_is_learned() -> None:
    features, batch = features_of(), encoded([["a", "hat"]])
    features(batch["characters"], batch["attention_mask"].bool()).sum().backward()
    learned = {name for name, weight in features.named_parameters() if weight.grad is not None}
    assert learned == {"mixture.weights", "mixture.scale"}
