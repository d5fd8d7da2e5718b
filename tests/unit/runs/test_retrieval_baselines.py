"""Baselines that rank documents: words that are shared, and counts; the temperature is that of the validation."""

import numpy as np
import pytest
import torch

from contextual_bert.baselines import LabelShares
from contextual_bert.baselines.shares import Observations
from contextual_bert.data import SequenceDataset
from contextual_bert.runs.retrieval_baselines import TEMPERATURES, TfidfRetrieval, score_by_shares

TEXTS = np.array(["red coat", "blue hat", "red hat", "blue coat", "green scarf"] * 4, dtype=object)
DOCUMENTS = np.array(["a red coat", "a blue hat", "a red hat", "a blue coat", "a wool scarf"], dtype=object)


def rows(chosen: list[int], labels: list[int], **context: torch.Tensor) -> SequenceDataset:
    """Texts whose tokens nobody reads."""
    count = len(chosen)
    return SequenceDataset(
        [5] * count, [*range(count + 1)], context=context, labels=torch.tensor(labels), example_ids=chosen
    )


def test_shared_words_find_the_document() -> None:
    model = TfidfRetrieval(TEXTS, DOCUMENTS)
    training, asked = rows([*range(10)], [0, 1, 2, 3, 4] * 2), rows([10, 11, 12, 13], [0, 1, 2, 0])
    assert model.fit(training, asked)["temperature"] in TEMPERATURES
    found = model.score(asked)
    assert found.num_better.tolist() == [0, 0, 0, 0]  # of the last, a blue coat, two documents share as much
    assert found.num_tied.tolist() == [1, 1, 1, 2]
    words = model.vectorizer.transform(TEXTS[[10]]) @ model.vectorizer.transform(DOCUMENTS[:3]).T
    logits = torch.from_numpy(words.toarray()[0]) / model.temperature
    assert found.log_probability[0] == pytest.approx(float(logits.log_softmax(0)[0]), abs=1e-5)
    best = min(TEMPERATURES, key=lambda each: _loss(model, asked, each))
    assert model.temperature == pytest.approx(best) and model.num_weights > 4


def _loss(model: TfidfRetrieval, asked: SequenceDataset, temperature: float) -> float:
    before, model.temperature = model.temperature, temperature
    found = -float(model.score(asked).log_probability.mean())
    model.temperature = before
    return found


def test_without_a_validation_part_the_temperature_is_the_usual_one() -> None:
    assert TfidfRetrieval(TEXTS, DOCUMENTS).fit(rows([*range(10)], [0, 1, 2, 3, 4] * 2), None) == {"temperature": 0.1}


def test_counts_rank_the_documents_of_the_part_alone() -> None:
    model = LabelShares(num_labels=5)
    model.fit(Observations(torch.tensor([0, 0, 0, 1, 1, 2]), torch.arange(6), {}))
    found = score_by_shares(model, rows([7, 3, 9], [1, 2, 4]))
    assert found.example_id.tolist() == [3, 7, 9]
    assert found.num_better.tolist() == [1, 0, 2]
    assert float(np.exp(found.log_probability).sum()) == pytest.approx(1, abs=1e-5)
