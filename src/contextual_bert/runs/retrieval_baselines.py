"""Baselines that rank documents for a text: by the words that they share, or by how often they were right.

Their documents, parts and metrics are the models'. docs/protocol.md, "How baselines are fitted".
"""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from contextual_bert.baselines import LabelShares
from contextual_bert.baselines.logistic import tfidf_vectorizer
from contextual_bert.data import SequenceDataset
from contextual_bert.evaluation import Scores
from contextual_bert.inference.texts.document_scoring import ranked_documents, score_among

TEMPERATURES = (0.02, 0.03, 0.05, 0.07, 0.1, 0.15, 0.2, 0.3, 0.5, 1.0)
DEFAULT_TFIDF_TEMPERATURE = 0.1  # where no validation part can choose one


class TfidfRetrieval(nn.Module):
    """Ranks documents by the cosine of their words and those of the text. Contexts are not read.

    Formula:
        Pr(d | x) = softmax over d of w(x) w(d) / t, w TF-IDF of words and word pairs, of length 1

    Args:
        texts: text of each row of the table.
        documents: text of each document.

    Relation to its siblings:
        ``LogisticClassifier`` reads the same vectors, and learns labels from them.

    Reference:
        Spärck Jones (1972), "A Statistical Interpretation of Term Specificity".
    """

    def __init__(self, texts: NDArray[np.object_], documents: NDArray[np.object_]) -> None:
        super().__init__()
        self.texts, self.documents = texts, documents
        self.vectorizer: Any = tfidf_vectorizer()
        self.temperature = DEFAULT_TFIDF_TEMPERATURE

    @property
    def num_weights(self) -> int:
        """Return the number of words and word pairs that are weighted."""
        return len(self.vectorizer.vocabulary_)

    def fit(self, training: SequenceDataset, validation: SequenceDataset | None) -> dict[str, Any]:
        """Weigh the words of the training texts and documents; return the temperature, chosen on the validation part.

        Args:
            training, validation: whose labels are the numbers of their documents.
        """
        rows, documents = training.example_ids.numpy(), ranked_documents(training).numpy()
        self.vectorizer.fit([*self.texts[rows], *self.documents[documents]])
        if validation is not None:
            losses: list[float] = []
            for self.temperature in TEMPERATURES:
                losses.append(-float(self.score(validation).log_probability.mean()))
            self.temperature = TEMPERATURES[int(np.argmin(losses))]
        return {"temperature": self.temperature}

    def score(self, dataset: SequenceDataset, **how: Any) -> Scores:
        """Rank the document of each text among all of these texts; ``how`` as for ``score_documents``."""
        numbers = ranked_documents(dataset)
        words = self.vectorizer.transform(self.texts[dataset.example_ids.numpy()])
        others = self.vectorizer.transform(self.documents[numbers.numpy()])

        def compare(rows: Tensor) -> Tensor:
            return torch.from_numpy((words[rows.numpy()] @ others.T).toarray()) / self.temperature

        return score_among(self, dataset, numbers, lambda inputs: inputs["rows"], compare=compare, **{**_HOW, **how})


def score_by_shares(model: LabelShares, dataset: SequenceDataset, **how: Any) -> Scores:
    """Rank the document of each text by how often documents are right, for anybody or for somebody like this.

    Args:
        model: of all documents.
        dataset: whose labels are the numbers of their documents.
        **how: as for ``score_documents``.
    """
    numbers = ranked_documents(dataset)

    def read(inputs: dict[str, Any]) -> Tensor:
        return model.shares(inputs.get("context"), num_rows=len(inputs["labels"]))[:, numbers]

    return score_among(model, dataset, numbers, read, compare=lambda logits: logits, **{**_HOW, **how})


_HOW: dict[str, Any] = {"batch_size": 128, "dtype": torch.float32, "is_shared": False, "progress": None}
