"""TF-IDF and logistic regression as rows of a study on texts: the bar that every model has to clear. One fit, no seeds.

It reads what the models read: the same texts, split and context, and the strength of its regularisation is chosen on
the same validation part.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import torch

from contextual_bert.baselines import TfidfClassifier
from contextual_bert.benchmark.reporting import cluster_numbers
from contextual_bert.benchmark.text_preparation import TextPreparation
from contextual_bert.evaluation import LabelledRows, Run, Scores
from contextual_bert.models import rank_labels

# Row -> whether it has the context.
TFIDF: Mapping[str, bool] = {"tfidf": False, "tfidf_context": True}


def tfidf_run(ready: TextPreparation, *, has_context: bool, say: Callable[[str], None] = print) -> Run:
    """The row ``tfidf``, or ``tfidf_context``.

    Args:
        ready: the data, with one label a text.
        has_context: whether the features of the schema stand beside the words.
        say: where sentences about the progress go.
    """
    name = next(each for each, wanted in TFIDF.items() if wanted == has_context)
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
