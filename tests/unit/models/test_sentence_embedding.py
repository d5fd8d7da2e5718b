"""Vectors of texts under a context: what they are, what reaches them, and the loss by which they find documents."""

import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import BertModel

from contextual_bert.conditioning import METHODS
from contextual_bert.errors import ConfigurationError
from contextual_bert.models import ContextualBertConfig, ContextualBertForSentenceEmbedding
from contextual_bert.models.plain_bert import plain_bert_config
from contextual_bert.testing.miniature import batch_rows, drawn_anew, miniature_batch, miniature_config

TEXT: dict[str, Any] = {"has_position_embeddings": True, "type_vocab_size": 2, "classifier_pooling": "mean"}


def model_of(method: str, **fields: Any) -> ContextualBertForSentenceEmbedding:
    return drawn_anew(ContextualBertForSentenceEmbedding(miniature_config(method, **{**TEXT, **fields})))


def batch() -> dict[str, Any]:
    return {name: value for name, value in miniature_batch().items() if name != "labels"}


@pytest.mark.parametrize("pooling", ["mean", "first"])
def test_without_a_context_the_vector_is_that_of_bert(pooling: str) -> None:
    model = model_of("none", classifier_pooling=pooling)
    bert = BertModel(plain_bert_config(model.config), add_pooling_layer=False).eval()
    bert.load_state_dict({name.removeprefix("bert."): weight for name, weight in model.state_dict().items()})
    inputs = batch()
    with torch.no_grad():
        found = model(**inputs).vectors
        for row in range(len(inputs["input_ids"])):
            ids = inputs["input_ids"][row][inputs["attention_mask"][row].bool()]
            hidden = bert(ids[None]).last_hidden_state[0]
            wanted = hidden.mean(dim=0) if pooling == "mean" else hidden[0]
            assert found[row] == pytest.approx(wanted / wanted.norm(), abs=1e-5)


@pytest.mark.parametrize("method", [*METHODS])
@torch.no_grad()
def test_a_context_reaches_its_own_text_and_padding_none(method: str, tmp_path: Path) -> None:
    model, inputs = model_of(method), batch()
    found = model(**inputs).vectors
    assert found.norm(dim=-1) == pytest.approx(torch.ones(4), abs=1e-5)
    other = model(**{**inputs, "context": batch_rows(inputs, [1, 1, 2, 3])["context"]}).vectors
    assert other[1:] == pytest.approx(found[1:], abs=1e-6)
    assert bool((other[0] - found[0]).abs().max() > 1e-4) == METHODS[method].has_context
    longer = {name: torch.nn.functional.pad(inputs[name], (0, 3)) for name in ("input_ids", "attention_mask")}
    assert model(**{**inputs, **longer}).vectors == pytest.approx(found, abs=1e-5)
    model.save_pretrained(tmp_path)
    loaded = ContextualBertForSentenceEmbedding.from_pretrained(tmp_path).eval()
    assert torch.equal(loaded(**inputs).vectors, found)


def by_hand(vectors: torch.Tensor, documents: torch.Tensor, numbers: list[int], temperature: float) -> float:
    """The loss as its definition says it, with each document of the batch once."""
    different = sorted({*numbers})
    firsts = {number: documents[numbers.index(number)] for number in different}
    losses: list[float] = []
    for vector, own in zip(vectors, numbers, strict=True):
        logits = torch.stack([vector @ firsts[number] / temperature for number in different])
        losses.append(float(logits.logsumexp(0) - vector @ firsts[own] / temperature))
    return sum(losses) / len(losses)


@pytest.mark.parametrize("method", ["none", "global_state_update", "new_position"])
@torch.no_grad()
def test_the_loss_is_that_over_the_different_documents_of_a_batch(method: str) -> None:
    model, inputs = model_of(method, similarity_temperature=0.2), batch()
    ids, mask, numbers = inputs["input_ids"], inputs["attention_mask"], [7, 3, 7, 9]
    chosen = [1, 0, 3]  # the texts of 3, 7, 9
    given = {"document_ids": ids[chosen], "document_mask": mask[chosen], "document_numbers": torch.tensor([3, 7, 9])}
    output = model(**inputs, **given, labels=torch.tensor(numbers))
    vectors, documents = model.embed(**inputs), model.embed(ids[[0, 1, 0, 3]], mask[[0, 1, 0, 3]])
    wanted = by_hand(vectors, documents, numbers, 0.2)
    assert float(output.loss) == pytest.approx(wanted, abs=1e-5)
    halved = model(**inputs, **given, labels=torch.tensor(numbers), num_items_in_batch=8).loss
    assert float(halved) == pytest.approx(wanted / 2, abs=1e-5)
    counted = model(**inputs, **{**given, "document_numbers": None}, labels=torch.tensor([1, 0, 1, 2])).loss
    assert float(counted) == pytest.approx(wanted, abs=1e-5)


@pytest.mark.parametrize("method", [*METHODS])
def test_documents_are_read_without_a_context_and_without_a_warning(method: str) -> None:
    model, inputs = model_of(method).train(), batch()
    given = {"document_ids": inputs["input_ids"], "document_mask": inputs["attention_mask"]}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        loss = model(**inputs, **given, labels=torch.arange(4)).loss
    loss.backward()
    model.eval()
    with torch.no_grad():
        first = model(**inputs, **given).logits
        other = model(**{**inputs, "context": batch_rows(inputs, [1, 1, 2, 3])["context"]}, **given).logits
    assert first[1:] == pytest.approx(other[1:], abs=1e-5)  # of the texts whose own context stayed


@pytest.mark.parametrize("temperature", [0.0, -1.0, float("inf"), float("nan")])
def test_a_temperature_that_cannot_be_is_refused(temperature: float) -> None:
    with pytest.raises(ConfigurationError, match="similarity_temperature"):
        ContextualBertConfig(vocab_size=9, similarity_temperature=temperature)
