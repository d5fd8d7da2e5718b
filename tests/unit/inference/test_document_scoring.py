"""Ranks of documents: among those of the scored texts alone, whatever the batches; what gives no numbers is told."""

from typing import Any

import numpy as np
import pytest
import torch

from contextual_bert.data import SequenceDataset, ShuffledContext
from contextual_bert.errors import DataError, NonFiniteError
from contextual_bert.inference.texts.document_scoring import document_vectors, embed_texts, score_documents
from contextual_bert.models import ContextualBertForSentenceEmbedding
from contextual_bert.testing.miniature import drawn_anew, miniature_batch, miniature_config

FIELDS: dict[str, Any] = {"has_position_embeddings": True, "classifier_pooling": "mean"}


def model() -> ContextualBertForSentenceEmbedding:
    return drawn_anew(ContextualBertForSentenceEmbedding(miniature_config("global_state", **FIELDS)))


def texts(*, seed: int = 0, labels: bool = True) -> SequenceDataset:
    """Forty texts of one to six tokens, of four people, and their documents among 12."""
    numbers = np.random.default_rng(seed)
    sizes, rows = numbers.integers(1, 7, 40), numbers.integers(0, 4, 40)
    context = {name: values[rows] for name, values in miniature_batch()["context"].items()}
    return SequenceDataset(
        numbers.integers(3, 10, int(sizes.sum())),
        np.concatenate([[0], sizes.cumsum()]),
        context=context,
        labels=torch.from_numpy(numbers.integers(0, 12, 40)) if labels else None,
        example_ids=numbers.permutation(100)[:40],
    )


def documents() -> SequenceDataset:
    sizes = np.arange(1, 13)
    ids = np.random.default_rng(3).integers(3, 10, int(sizes.sum()))
    return SequenceDataset(ids, np.concatenate([[0], sizes.cumsum()]), context={})


@torch.no_grad()
def test_the_rank_is_that_among_the_documents_of_these_texts() -> None:
    own, encoder = texts().subset(range(15)), model()
    found = score_documents(encoder, own, documents(), batch_size=4)
    numbers = sorted({*own.labels.tolist()}) if own.labels is not None else []
    assert 2 < len(numbers) < 12
    vectors = torch.cat([encoder.embed(documents().__getitems__([number]).input_ids) for number in numbers])
    for row, number in enumerate(np.argsort(own.example_ids.numpy())):
        batch = own.__getitems__([int(number)])
        logits = encoder.compare(encoder.embed(batch.input_ids, None, batch.context), vectors)[0]
        right = numbers.index(int(batch.labels)) if batch.labels is not None else -1
        assert found.example_id[row] == int(batch.example_ids)
        assert found.log_probability[row] == pytest.approx(float(logits.log_softmax(0)[right]), abs=1e-4)
        assert found.num_better[row] == int((logits > logits[right] + 1e-5).sum())


def test_batches_change_nothing_and_the_contexts_of_others_do() -> None:
    own, encoder = texts(), model()
    one, other = (score_documents(encoder, own, documents(), batch_size=size) for size in (3, 40))
    assert one.log_probability == pytest.approx(other.log_probability, abs=1e-4)
    shuffled = score_documents(encoder, ShuffledContext(own, seed=1), documents())
    assert np.array_equal(shuffled.example_id, one.example_id)
    assert np.abs(shuffled.log_probability - one.log_probability).max() > 1e-3


def test_documents_have_no_context_and_texts_keep_their_order() -> None:
    encoder, own = model(), texts()
    again = own.with_context({name: values.flip(0) for name, values in own.context.items()})
    how = {"batch_size": 8}
    assert torch.equal(document_vectors(encoder, own, **how), document_vectors(encoder, again, **how))
    found = embed_texts(encoder, own, batch_size=8)
    single = embed_texts(encoder, own.subset([7]), batch_size=1)
    assert found[7] == pytest.approx(single[0], abs=1e-5)


def test_nothing_to_score_and_no_numbers_are_told() -> None:
    with pytest.raises(DataError, match="no text with a document"):
        score_documents(model(), texts(labels=False), documents())
    broken = model()
    with torch.no_grad():
        next(iter(broken.parameters())).fill_(torch.nan)
    with pytest.raises(NonFiniteError, match="weights hold NaN"):
        score_documents(broken, texts(), documents())
