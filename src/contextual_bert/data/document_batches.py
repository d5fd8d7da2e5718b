"""Batches of texts with the documents that belong to them, each document of a batch once.

It knows sequences of ids and numbers of documents, no tokenizer and no model.
"""

from collections.abc import Sequence
from typing import Any

from contextual_bert.data.dataset import SequenceBatch, SequenceDataset


class DocumentCollator:
    """Puts the documents of a batch of texts beside them: what texts are compared with while they are learned.

    A document that belongs to several texts of a batch stands there once, so it is no negative of any of them.

    Args:
        texts: whose ``labels`` are the numbers of their documents.
        documents: document i is the sequence i.

    Relation to its siblings:
        ``SequenceDataset.collate_fn`` gives the texts alone.

    Example:
        >>> import torch
        >>> texts = SequenceDataset([5, 6, 7], [0, 1, 2, 3], context={}, labels=torch.tensor([4, 1, 4]))
        >>> documents = SequenceDataset([9, 9, 9, 9, 8], [0, 1, 2, 3, 4, 5], context={})
        >>> batch = DocumentCollator(texts, documents)(texts.__getitems__([0, 1, 2]))
        >>> batch["document_numbers"].tolist(), batch["document_ids"].tolist(), batch["labels"].tolist()
        ([1, 4], [[9], [8]], [4, 1, 4])
    """

    def __init__(self, texts: SequenceDataset, documents: SequenceDataset) -> None:
        self.texts, self.documents = texts, documents

    def __call__(self, batch: SequenceBatch | Sequence[Any]) -> dict[str, Any]:
        inputs = self.texts.collate_fn(batch)
        numbers = inputs["labels"].unique()
        documents = self.documents.__getitems__(numbers).inputs()
        return {
            **inputs,
            "document_ids": documents["input_ids"],
            "document_mask": documents["attention_mask"],
            "document_numbers": numbers,
        }
