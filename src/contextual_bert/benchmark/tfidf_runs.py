"""TF-IDF and logistic regression as rows of a study on texts: the bar that every model has to clear. One fit, no seeds.

It reads what the models read: the same texts, split and context, and the strength of its regularisation is chosen on
the same validation part.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import torch

from contextual_bert.baselines import TfidfClassifier
from contextual_bert.benchmark.reporting import cluster_numbers
from contextual_bert.benchmark.text_preparation import TextPreparation
from contextual_bert.evaluation import LabelledRows, Run, Scores
from contextual_bert.models import rank_labels


def tfidf_runs(ready: TextPreparation, *, say: Callable[[str], None] = print) -> list[Run]:
    """``tfidf`` and, where there is a context, ``tfidf_context``.

    Args:
        ready: the data, with one label a text.
        say: where sentences about the progress go.
    """
    schema = ready.processor.schema
    runs = [("tfidf", False)] + ([("tfidf_context", True)] if schema is not None else [])
    return [_fitted(ready, name, has_context=has_context, say=say) for name, has_context in runs]


def _fitted(ready: TextPreparation, name: str, *, has_context: bool, say: Callable[[str], None]) -> Run:
    say(f"{name}: fitting")
    schema, task = ready.processor.schema, ready.task
    context = [*schema.names] if has_context and schema is not None else []
    parts: dict[str, tuple[list[str], np.ndarray, pa.Table | None]] = {}
    for part in ("train", "validation", "test"):
        table = ready.table.take(pa.array(ready.split.rows(part)))
        labels: Any = ready.datasets[part].labels
        texts = table.column(task.text).to_pylist()
        parts[part] = (texts, labels.numpy(), table.select(context) if context else None)
    model = TfidfClassifier(num_labels=len(ready.labels))
    model.fit(*parts["train"], validation=parts["validation"])
    texts, true, attributes = parts["test"]
    shares = model.log_probabilities(texts, attributes)
    ranks = rank_labels(torch.from_numpy(shares), torch.from_numpy(true))
    rows = ready.split.rows("test")
    place = np.zeros(len(rows), dtype=np.int64)
    scores = Scores(rows, place, *(column.numpy() for column in ranks))
    labelled = LabelledRows(rows, place, predicted=shares.argmax(axis=1), true=true, names=ready.labels)
    return Run(name, 0, scores, cluster_numbers(ready, "test", rows), role="baseline", labelled=labelled)
