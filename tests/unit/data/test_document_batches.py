"""Batches of texts with their documents, each once, from whole batches and from rows one by one."""

import torch

from contextual_bert.data import SequenceDataset
from contextual_bert.data.document_batches import DocumentCollator

TEXTS = SequenceDataset(
    [5, 6, 7, 8, 9], [0, 2, 3, 5], context={"age": torch.tensor([1, 2, 3])}, labels=torch.tensor([2, 0, 2])
)
DOCUMENTS = SequenceDataset([11, 12, 12, 13], [0, 1, 3, 4], context={})


def test_a_document_of_several_texts_stands_once() -> None:
    found = DocumentCollator(TEXTS, DOCUMENTS)(TEXTS.__getitems__([0, 1, 2]))
    assert found["labels"].tolist() == [2, 0, 2]
    assert found["document_numbers"].tolist() == [0, 2]
    assert found["document_ids"].tolist() == [[11], [13]]
    assert found["document_mask"].tolist() == [[1], [1]]
    assert found["context"]["age"].tolist() == [1, 2, 3]


def test_rows_one_by_one_give_the_same() -> None:
    collate = DocumentCollator(TEXTS, DOCUMENTS)
    whole, single = collate(TEXTS.__getitems__([0, 1])), collate([TEXTS[0], TEXTS[1]])
    names = ("input_ids", "labels", "document_ids", "document_mask", "document_numbers")
    assert all(torch.equal(whole[name], single[name]) for name in names)
