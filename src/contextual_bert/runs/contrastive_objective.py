"""The objective of vectors: texts find their documents, among those of a batch in training, among all in evaluation."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from transformers import EvalPrediction

from contextual_bert.data import SequenceDataset
from contextual_bert.data.document_batches import DocumentCollator
from contextual_bert.evaluation import metric_key
from contextual_bert.inference.texts.document_scoring import document_vectors, ranked_documents
from contextual_bert.models import rank_labels
from contextual_bert.training import ContextualTrainingArguments
from contextual_bert.training.objectives import Objective, summarise_rows, summarise_sets

RECALL_KS = (1, 5, 10)
NDCG_KS = (10,)


class ContrastiveObjective(Objective):
    """Find the document of each text by vectors.

    The vectors of all documents are computed once an evaluation.

    Args:
        texts: training texts, whose labels are the numbers of their documents.
        documents: of all parts: document i is the sequence i.
        args: of the training.
    """

    ks = RECALL_KS
    label_metrics = (metric_key("ndcg@10"), metric_key("map@10"))

    def __init__(self, texts: SequenceDataset, documents: SequenceDataset, args: ContextualTrainingArguments) -> None:
        self.collate = DocumentCollator(texts, documents)
        self.documents = documents
        self.how = {
            "batch_size": args.per_device_eval_batch_size,
            "dtype": torch.bfloat16 if args.bf16 else torch.float32,
        }
        self._numbers: Tensor | None = None
        self._vectors: Tensor | None = None

    def evaluated(self, dataset: SequenceDataset) -> SequenceDataset:
        """Return the texts as they are, and remember which documents are ranked."""
        self._numbers, self._vectors = ranked_documents(dataset), None
        return dataset

    def sampler(self, dataset: Any, *, batch_size: int) -> Sequence[int] | None:
        """Score texts of one length together: padding is not paid for."""
        return dataset.by_length().tolist() if isinstance(dataset, SequenceDataset) else None

    def rank(
        self, model: Any, inputs: dict[str, Any], forward: Callable[..., Any]
    ) -> tuple[tuple[Tensor, ...], Tensor]:
        """Rank the documents of the evaluated part."""
        assert self._numbers is not None
        if self._vectors is None:
            self._vectors = document_vectors(model, self.documents.subset(self._numbers), **self.how)
        labels = inputs["labels"]
        given = {name: value for name, value in inputs.items() if name in ("input_ids", "attention_mask", "context")}
        logits = model.compare(forward(**given)["vectors"].float(), self._vectors.to(labels.device))
        return tuple(rank_labels(logits, torch.searchsorted(self._numbers.to(labels.device), labels))), labels

    def summarise(self, prediction: EvalPrediction) -> dict[str, float]:
        """Return the metrics of ranks, and of sets of one; the next evaluation computes the documents anew."""
        self._vectors = None
        labels = np.asarray(prediction.label_ids)[:, None]
        is_asked = np.ones_like(labels, dtype=np.bool_)
        columns = tuple(np.asarray(each)[:, None] for each in prediction.predictions)
        sets = summarise_sets(columns, labels, is_asked, ks=NDCG_KS)
        return {**summarise_rows(prediction.predictions, is_asked[:, 0], ks=self.ks), **sets}
