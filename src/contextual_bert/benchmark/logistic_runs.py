"""Logistic regressions as rows of a study on texts: the bar that every model has to clear. One fit, no seeds.

They have the models' split and context, and the strength of the regularisation is chosen on the same validation part.
``tfidf`` reads the words of the whole text, also where the models' is cut; ``embeddings`` a vector of what the models
read, by the checkpoint as it is, which nothing trains. A row's training time is that of the fits, all strengths, with
the reading of the vectors.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self, cast

import numpy as np
import pyarrow as pa
import torch
from numpy.typing import NDArray
from torch.nn import functional

from contextual_bert.baselines import LogisticClassifier
from contextual_bert.baselines.logistic import LabelledPart
from contextual_bert.benchmark.environment import hardware
from contextual_bert.benchmark.reporting import cluster_numbers
from contextual_bert.benchmark.resources import PeakMemory
from contextual_bert.benchmark.text_preparation import TextPreparation
from contextual_bert.evaluation import Cost, LabelledRows, Run, Scores
from contextual_bert.inference import encode_texts
from contextual_bert.inference.scoring import to_device
from contextual_bert.models import ContextualBertModel, ContextualBertProcessor, rank_labels
from contextual_bert.models.sequence_classification import vector_of_text
from contextual_bert.training.devices import chosen_device
from contextual_bert.training.progress import counting

# Row -> what it reads.
LOGISTIC: Mapping[str, frozenset[str]] = {
    "tfidf": frozenset({"words"}),
    "tfidf_context": frozenset({"words", "context"}),
    "embeddings": frozenset({"embeddings"}),
    "embeddings_context": frozenset({"embeddings", "context"}),
}
_BATCH_SIZE = 64


class SentenceVectors:
    """Vectors of texts by a BERT that stays as it is, in the place of a vectoriser of scikit-learn.

    Formula:
        v = z / |z|;  z the mean of the last block over the text where the checkpoint was trained for that, otherwise
        its first position

    Shapes:
        texts (rows,) -> (rows, hidden) float32.

    Args:
        ready: whose checkpoint it is, and how its texts are cut. A text that was met before is not read again.

    Attributes:
        num_parameters: of the checkpoint that reads; 0 before it has read anything.

    Reference:
        Reimers and Gurevych (2019), "Sentence-BERT", section 3.
    """

    def __init__(self, ready: TextPreparation) -> None:
        self.task, self.pooling = ready.task, ready.pooling
        self.device = chosen_device(ready.recipe.device)
        self.known: dict[str, NDArray[np.float32]] = {}
        self.num_parameters = 0

    def fit(self, texts: Sequence[str]) -> Self:
        """Nothing is learned."""
        return self

    def transform(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """A row a text."""
        new = sorted({*texts} - {*self.known})
        if new:
            self.known.update(zip(new, self._read(new), strict=True))
        return np.stack([self.known[text] for text in texts])

    @torch.no_grad()
    def _read(self, texts: Sequence[str]) -> NDArray[np.float32]:
        model: Any = ContextualBertModel.from_bert(self.task.checkpoint, conditioning="none")
        model.eval().to(self.device)
        self.num_parameters = model.num_parameters()
        dataset = encode_texts(
            pa.table({"text": texts}),
            ContextualBertProcessor.from_bert(self.task.checkpoint),
            text="text",
            max_length=self.task.max_length,
            truncation=cast(Any, self.task.truncation),
        ).dataset
        found = np.empty((len(texts), model.config.hidden_size), dtype=np.float32)
        order = dataset.sizes.argsort(stable=True)  # texts of one length beside each other, so that none is padded much
        with counting("vectors of texts") as progress:
            for start in range(0, len(order), _BATCH_SIZE):
                chosen = order[start : start + _BATCH_SIZE]
                inputs = to_device(dataset.__getitems__(chosen), self.device)
                hidden = model(**inputs).last_hidden_state
                vectors = vector_of_text(hidden, inputs["attention_mask"], pooling=self.pooling)
                found[chosen.numpy()] = functional.normalize(vectors, dim=-1).cpu().numpy()
                if progress is not None:
                    progress(start + len(chosen), len(order))
        return found


def logistic_runs(ready: TextPreparation, names: Sequence[str], *, say: Callable[[str], None] = print) -> list[Run]:
    """The rows of these names.

    Args:
        ready: the data, with one label a text.
        names: of ``LOGISTIC``.
        say: where sentences about the progress go.
    """
    schema = ready.processor.schema
    context = [] if schema is None else [*schema.columns]
    parts = {part: _labelled(ready, part, context) for part in ("train", "validation", "test")}
    return [_run(name, ready, parts, say=say) for name in names]


def _labelled(ready: TextPreparation, part: str, context: Sequence[str]) -> LabelledPart:
    table = ready.table.take(pa.array(ready.split.rows(part)))
    labels: Any = ready.datasets[part].labels
    return table.column(ready.task.text).to_pylist(), labels.numpy(), table.select(context) if context else None


def _run(
    name: str,
    ready: TextPreparation,
    parts: Mapping[str, LabelledPart],
    *,
    say: Callable[[str], None],
) -> Run:
    say(f"{name}: fitting")
    # Each row has its own, so that the reading is part of its time and memory.
    vectors = SentenceVectors(ready) if "embeddings" in LOGISTIC[name] else None
    if "context" not in LOGISTIC[name]:
        parts = {part: (texts, labels, None) for part, (texts, labels, _) in parts.items()}
    memory, started = PeakMemory(), time.perf_counter()
    model = LogisticClassifier(num_labels=len(ready.labels), vectorizer=vectors)
    model.fit(*parts["train"], validation=parts["validation"])
    num_parameters = model.num_weights + (vectors.num_parameters if vectors is not None else 0)
    cost = Cost(num_parameters, time.perf_counter() - started, memory.bytes(), hardware())
    texts, labels, attributes = parts["test"]
    true = np.asarray(labels)
    shares = model.log_probabilities(texts, attributes)
    ranks = rank_labels(torch.from_numpy(shares), torch.from_numpy(true))
    rows = ready.split.rows("test")
    place = np.zeros(len(rows), dtype=np.int64)
    scores = Scores(rows, place, *(column.numpy() for column in ranks))
    learned = {"names": ready.labels, "is_ordinal": ready.task.is_ordinal}
    labelled = LabelledRows(rows, place, predicted=shares.argmax(axis=1), true=true, **learned)
    return Run(name, 0, scores, cluster_numbers(ready, "test", rows), cost, "baseline", labelled)
