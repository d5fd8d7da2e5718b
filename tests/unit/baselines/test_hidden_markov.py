"""The hidden Markov model is what was counted, and its probabilities are those of all label sequences."""

from collections import Counter
from itertools import product

import numpy as np
import pytest
import torch

from contextual_bert.baselines import HiddenMarkovTagger
from contextual_bert.baselines.hidden_markov import TaggedWords
from contextual_bert.errors import ConfigurationError

# Token 1 stands for [CLS]: it has no label, and the chain does not pass it.
TEXTS = [
    ([1, 3, 4, 5], [-100, 0, 1, 2]),
    ([1, 4, 4], [-100, 1, 1]),
    ([1, 3], [-100, 0]),
    ([1, 5, 3, 3], [-100, 2, 0, -100]),
]
VOCABULARY, LABELS = 7, 3


def tagged(texts: list[tuple[list[int], list[int]]]) -> TaggedWords:
    rows = [
        (word, label, row)
        for row, (words, labels) in enumerate(texts)
        for word, label in zip(words, labels, strict=True)
        if label >= 0
    ]
    return TaggedWords(*torch.tensor(rows).reshape(-1, 3).unbind(dim=1))


def joint(words: list[int], labels: tuple[int, ...], *, of_word: float, of_label: float) -> float:
    """Pr(labels, words) by the formula, with counts of Python."""
    known = [[(word, label) for word, label in zip(*text, strict=True) if label >= 0] for text in TEXTS]
    written, firsts, pairs, totals = Counter(), Counter(), Counter(), Counter()
    for text in known:
        firsts[text[0][1]] += 1
        for place, (word, label) in enumerate(text):
            written[word, label] += 1
            totals[label] += 1
            pairs[label, text[place + 1][1] if place + 1 < len(text) else "end"] += 1
    probability = (firsts[labels[0]] + of_label) / (len(known) + of_label * LABELS)
    for place, (word, label) in enumerate(zip(words, labels, strict=True)):
        probability *= (written[word, label] + of_word) / (totals[label] + of_word * VOCABULARY)
        following = labels[place + 1] if place + 1 < len(labels) else "end"
        probability *= (pairs[label, following] + of_label) / (totals[label] + of_label * (LABELS + 1))
    return probability


def test_its_marginals_and_best_sequences_are_those_of_all_sequences() -> None:
    tagger = HiddenMarkovTagger(VOCABULARY, num_labels=LABELS)
    settings = tagger.fit(tagged(TEXTS))
    assert settings == {"word_prior_count": 0.1, "label_prior_count": 1.0}
    words = [3, 6, 5]  # 6 is in no text of training
    every = {
        labels: joint(words, labels, of_word=0.1, of_label=1.0) for labels in product(range(LABELS), repeat=len(words))
    }
    ids = torch.tensor([[1, *words]])
    is_asked = ids > 1
    logits = tagger(ids)["logits"]
    found = tagger.crf.marginals(logits, is_asked)[0, 1:].exp()
    for place, label in product(range(3), range(LABELS)):
        expected = sum(share for labels, share in every.items() if labels[place] == label) / sum(every.values())
        assert float(found[place, label]) == pytest.approx(expected, rel=1e-5)
    best = max(every, key=lambda labels: every[labels])
    assert tagger.crf.decode(logits, is_asked)[0, 1:].tolist() == list(best)
    labels = torch.tensor([[-100, 0, 1, 2]])
    loss = -float(np.log(every[0, 1, 2] / sum(every.values()))) / 3
    assert float(tagger(ids, labels=labels)["loss"]) == pytest.approx(loss, rel=1e-5)


def test_prior_counts_are_chosen_on_validation() -> None:
    draw = np.random.default_rng(0)

    def texts(number: int) -> list[tuple[list[int], list[int]]]:
        made = []
        for _ in range(number):
            labels = (draw.integers(LABELS) + np.arange(4)) % LABELS  # each follows another, always
            made.append(((3 + (labels + draw.integers(2, size=4)) % LABELS).tolist(), labels.tolist()))
        return made

    training, validation, test = (tagged(texts(number)) for number in (300, 100, 100))
    tagger = HiddenMarkovTagger(VOCABULARY, num_labels=LABELS)
    chosen = tagger.fit(training, validation)
    assert chosen["label_prior_count"] < 1  # what never follows is hardly expected
    words, labels, is_there = test.padded()
    predicted = tagger.crf.decode(tagger(words)["logits"], is_there)
    # A word has two labels that are as likely; two words of four leave one sequence of three in most texts.
    assert float((predicted == labels).float().mean()) > 0.85
    alone = tagger.emissions(words).argmax(dim=2)
    assert float((alone == labels).float().mean()) < 0.7


def test_without_a_label_there_is_nothing_to_count() -> None:
    with pytest.raises(ConfigurationError, match="No word of the training part has a label"):
        HiddenMarkovTagger(VOCABULARY, num_labels=2).fit(tagged([([3, 4], [-100, -100])]))
    with pytest.raises(ConfigurationError, match="num_labels=1"):
        HiddenMarkovTagger(VOCABULARY, num_labels=1)
