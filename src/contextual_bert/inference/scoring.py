"""Scores a data set: for every item of every set the log-probability and the rank of the true one.

Streaming: no matrix of positions and items is ever stored. Anything with ``score_masked`` can be scored, a model or a
baseline; the oracle of the stylist world scores tables itself. This module knows no metric: it gives the rows that
``contextual_bert.evaluation`` summarises.
"""

from collections.abc import Callable, Mapping
from contextlib import nullcontext
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch import distributed as dist

from contextual_bert.data import EveryPosition, MaskingCollator, SequenceDataset
from contextual_bert.errors import DataError
from contextual_bert.evaluation import Scores
from contextual_bert.inference.nonfinite import nonfinite_error
from contextual_bert.models import IGNORED_LABEL, RESERVED_ITEMS


class Scorer(Protocol):
    """Protocol for modules that rank the true item of each masked position."""

    @property
    def device(self) -> torch.device: ...

    def score_masked(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        context: Mapping[str, Tensor] | None = None,
        labels: Tensor | None = None,
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]: ...


class ScoredSet(NamedTuple):
    """Scores of a data set, and what was left out of it.

    ``num_unknown_targets``: positions whose item is unknown to the vocabulary, so cannot be ranked; ``num_possible``:
    positions from which the scored ones were drawn, None where all were scored.
    """

    scores: Scores
    num_unknown_targets: int = 0
    num_possible: int | None = None


def score(
    scorer: Scorer,
    dataset: SequenceDataset,
    *,
    batch_size: int = 1024,
    dtype: torch.dtype = torch.float32,
    is_shared: bool = False,
    tokenizer: Any = None,
    most: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> ScoredSet:
    """Mask every position of every set once, or a sample of them, and rank the true item among all items.

    Args:
        scorer: the model; put it in ``eval()`` mode before.
        dataset: the sets.
        batch_size: masked sets a forward pass.
        dtype: bfloat16 runs the model under autocast.
        is_shared: all processes of the default process group call this and share the batches; each gets all scores. The
            batches are those of one process, and so is every digit.
        tokenizer: of texts: its special tokens are not masked; None for sets.
        most: positions that are scored at most, the same for every scorer, see ``EveryPosition``; None scores all.
        progress: called with (rows done, rows in all) after each batch.

    Returns:
        Scores sorted by (example_id, position). Positions whose item is [UNK] are left out and counted.

    Raises:
        DataError: there is no set.
        NonFiniteError: the scorer gives no numbers, by its weights or for some rows.

    Example:
        >>> from contextual_bert.data import SequenceDataset
        >>> callable(score)
        True
    """
    if len(dataset) == 0:
        raise DataError("there is no set to score", fix="Give a part with at least one set.")
    reserved = range(len(RESERVED_ITEMS)) if tokenizer is None else tokenizer.all_special_ids
    positions = EveryPosition(dataset, leave_out=() if tokenizer is None else reserved, most=most)
    num_processes, process = (dist.get_world_size(), dist.get_rank()) if is_shared else (1, 0)
    mask_id, pad_id = RESERVED_ITEMS.index("[MASK]"), RESERVED_ITEMS.index("[PAD]")
    if tokenizer is not None:
        mask_id, pad_id = tokenizer.mask_token_id, tokenizer.pad_token_id
    collator = MaskingCollator(mask_id=mask_id, pad_id=pad_id)
    device = scorer.device
    autocast = torch.autocast(device.type, dtype=dtype) if dtype != torch.float32 else nullcontext()
    # Filled in place: small results kept from each batch would pin the memory that the batch has freed.
    results = np.empty((len(positions), 5))  # the true id and the four columns of MaskedScores
    for start in range(process * batch_size, len(positions), num_processes * batch_size):
        rows = slice(start, min(start + batch_size, len(positions)))
        inputs = to_device(collator(positions.__getitems__(torch.arange(rows.start, rows.stop))), device)
        with torch.no_grad(), autocast:
            scores = scorer.score_masked(**inputs)
        labels = inputs["labels"]
        columns = (labels[labels != IGNORED_LABEL], *scores)
        results[rows] = torch.stack([column.cpu().double() for column in columns], dim=1).numpy()
        if progress is not None:
            progress(rows.stop, len(positions))
    if is_shared:
        process_of = np.arange(len(positions)) // batch_size % num_processes
        gathered: list[Any] = [None] * num_processes
        dist.all_gather_object(gathered, results[process_of == process])
        for number, rows_of_process in enumerate(gathered):
            results[process_of == number] = rows_of_process
    is_known = ~np.isin(results[:, 0], reserved)
    check_scores(results[is_known, 1], scorer, dataset.example_ids[positions.set_index].numpy()[is_known])
    # Of a text's special tokens, which were not asked for, those that stand for a word are unknown answers, too.
    num_left_out = 0 if tokenizer is None else int((dataset.input_ids == tokenizer.unk_token_id).sum())
    scores = Scores(
        example_id=dataset.example_ids[positions.set_index].numpy()[is_known],
        position=positions.positions.numpy()[is_known],
        log_probability=results[is_known, 1],
        num_better=results[is_known, 2].astype(np.int64),
        num_tied=results[is_known, 3].astype(np.int64),
        confidence=results[is_known, 4],
    )
    num_possible = positions.num_possible if len(positions) < positions.num_possible else None
    return ScoredSet(scores.sorted(), num_left_out + int((~is_known).sum()), num_possible=num_possible)


def check_scores(log_probabilities: NDArray[np.float64], scorer: Any, rows: NDArray[np.int64]) -> None:
    """Raise NonFiniteError unless all are numbers; that of what a scorer rules out is minus infinity.

    Args:
        log_probabilities: of the true items or labels.
        scorer: what gave them.
        rows: of the table, one a log-probability.

    Example:
        >>> check_scores(np.array([-0.5]), None, np.array([7]))
    """
    is_none = np.isnan(log_probabilities)
    if is_none.any():
        raise nonfinite_error(scorer, rows=np.unique(rows[is_none]).tolist())


def to_device(inputs: Mapping[str, Tensor | Mapping[str, Tensor]], device: torch.device) -> dict[str, Any]:
    """The same inputs on ``device``; goes into the context's features."""
    return {
        name: {feature: tensor.to(device) for feature, tensor in value.items()}
        if isinstance(value, Mapping)
        else value.to(device)
        for name, value in inputs.items()
    }
