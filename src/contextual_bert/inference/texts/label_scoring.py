"""Scores labelled texts or words: the log-probability and the rank of each true label, and which label was best.

Anything that gives logits can be scored, a model or a baseline, with labels that are a chain or not. It knows no metric
and no column names.
"""

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any

import numpy as np
import torch
from torch import distributed as dist

from contextual_bert.data import SequenceDataset
from contextual_bert.errors import DataError
from contextual_bert.evaluation import LabelPredictions, Scores
from contextual_bert.inference.scoring import ScoredSet, check_scores, to_device
from contextual_bert.models import IGNORED_LABEL, best_labels, label_logits, rank_labels


def score_labels(
    model: Any,
    dataset: SequenceDataset,
    *,
    names: Sequence[str],
    is_ordinal: bool = False,
    batch_size: int = 64,
    dtype: torch.dtype = torch.float32,
    is_shared: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> ScoredSet:
    """Rank the true label of each text, or of each word, among all.

    Args:
        model: gives logits; put it in ``eval()`` mode before. Where its labels are a chain, they are ranked by their
            marginal probabilities and chosen together.
        dataset: the texts with their labels.
        names: of the labels, in the order of their ids.
        is_ordinal: the labels are grades of one scale, the lowest first.
        batch_size: texts a forward pass.
        dtype: bfloat16 runs the model under autocast.
        is_shared: all processes of the default process group call this and share the batches; each gets all scores.
        progress: called with (texts done, texts in all) after each batch.

    Returns:
        Scores sorted by (example_id, position); the position of a word is that of its first token.

    Raises:
        DataError: there is no text, or none has a label.
        NonFiniteError: the model gives no numbers.

    Example:
        >>> class Undecided(torch.nn.Module):
        ...     def forward(self, input_ids, **inputs):
        ...         return {"logits": torch.zeros(len(input_ids), 2)}
        >>> texts = SequenceDataset(torch.tensor([2, 3]), torch.tensor([0, 2]), context={}, labels=torch.tensor([1]))
        >>> score_labels(Undecided(), texts, names=("bad", "good")).scores.num_tied.tolist()
        [2]
    """
    if len(dataset) == 0 or dataset.labels is None:
        raise DataError("there is no text with a label to score", fix="Give a part with at least one, and its labels.")
    device = next((parameter.device for parameter in model.parameters()), torch.device("cpu"))
    autocast = torch.autocast(device.type, dtype=dtype) if dtype != torch.float32 else nullcontext()
    num_processes, process = (dist.get_world_size(), dist.get_rank()) if is_shared else (1, 0)
    order = dataset.by_length()
    parts: list[np.ndarray] = []
    for start in range(process * batch_size, len(order), num_processes * batch_size):
        chosen = order[start : start + batch_size]
        inputs = dataset.__getitems__(chosen).inputs()
        labels = inputs.pop("labels")
        with torch.no_grad(), autocast:
            logits = model(**to_device(inputs, device))["logits"].float()
        own = labels.to(device)
        predicted, logits = best_labels(model, logits, own).cpu(), label_logits(model, logits, own).cpu()
        asked = labels != IGNORED_LABEL
        places = asked.view(len(chosen), -1).nonzero()
        true = labels[asked]
        columns = (dataset.example_ids[chosen[places[:, 0]]], places[:, 1], true, predicted[asked])
        ranks = rank_labels(logits[asked], true)
        parts.append(torch.stack([column.double() for column in (*columns, *ranks)], dim=1).numpy())
        if progress is not None:
            progress(min(start + batch_size, len(order)), len(order))
    if is_shared:
        gathered: list[Any] = [None] * num_processes
        dist.all_gather_object(gathered, parts)
        parts = [part for parts_of_process in gathered for part in parts_of_process]
    rows = np.concatenate(parts)
    if len(rows) == 0:
        raise DataError("no text or word has a label", fix="Give a part with at least one.")
    example_id, position, true_label, predicted, log_probability, num_better, num_tied, confidence = rows.T
    check_scores(log_probability, model, example_id.astype(np.int64))
    places = {"example_id": example_id.astype(np.int64), "position": position.astype(np.int64)}
    scores = Scores(
        **places,
        log_probability=log_probability,
        num_better=num_better.astype(np.int64),
        num_tied=num_tied.astype(np.int64),
        confidence=confidence,
        predictions=LabelPredictions(
            **places,
            predicted=predicted.astype(np.int64),
            true=true_label.astype(np.int64),
            names=tuple(names),
            is_ordinal=is_ordinal,
        ),
    )
    return ScoredSet(scores.sorted())
