"""Pairs of a text that is read and one that is written, as one sequence each, and back in batches.

It knows sequences of ids, no tokenizer and no model.
"""

from typing import Any

import numpy as np
import torch

from contextual_bert.data.dataset import IGNORED_LABEL, SequenceDataset
from contextual_bert.data.ragged import offsets_of


def join_targets(sources: SequenceDataset, targets: SequenceDataset) -> SequenceDataset:
    """Return one sequence a pair: the source, and behind it the target without the token before its text.

    Args:
        sources: with the context.
        targets: as many, each with a token before its text and one behind it.

    Returns:
        The pairs, with the tokens of the targets as labels, and no label for those of the sources.

    Example:
        >>> sources = SequenceDataset([2, 5, 3, 2, 6, 7, 3], [0, 3, 7], context={"age": torch.tensor([1, 2])})
        >>> pairs = join_targets(sources, SequenceDataset([2, 8, 3, 2, 9, 3], [0, 3, 6], context={}))
        >>> pairs.__getitems__([0]).input_ids, pairs.__getitems__([0]).labels
        (tensor([[2, 5, 3, 8, 3]]), tensor([[-100, -100, -100,    8,    3]]))
    """
    own, other = sources.offsets.diff(), targets.offsets.diff() - 1
    is_first = torch.zeros(len(targets.input_ids), dtype=torch.bool)
    is_first[targets.offsets[:-1]] = True
    is_target = torch.repeat_interleave(
        torch.tensor([False, True]).repeat(len(own)), torch.stack([own, other], dim=1).flatten()
    )
    ids = torch.empty(len(is_target), dtype=torch.int64)
    ids[~is_target], ids[is_target] = sources.input_ids, targets.input_ids[~is_first]
    return SequenceDataset(
        ids,
        offsets_of(np.asarray(own + other)),
        context=sources.context,
        labels=ids.masked_fill(~is_target, IGNORED_LABEL),
        example_ids=sources.example_ids,
        pad_id=sources.pad_id,
    )


def split_targets(inputs: dict[str, Any], *, pad_id: int) -> dict[str, Any]:
    """Return a batch of pairs with the sources as input_ids and the targets as labels.

    Args:
        inputs: of ``join_targets``: input_ids, attention_mask, labels, and a context where there is one.
        pad_id: behind the end of a source.

    Example:
        >>> mask, labels = torch.tensor([[1, 1, 1, 1]]), torch.tensor([[-100, -100, 8, 3]])
        >>> found = split_targets({"input_ids": mask + 4, "attention_mask": mask, "labels": labels}, pad_id=0)
        >>> found["input_ids"].tolist(), found["labels"].tolist()
        ([[5, 5]], [[8, 3]])
    """
    labels, mask = inputs["labels"], inputs["attention_mask"]
    num_target = (labels != IGNORED_LABEL).sum(dim=1)
    num_source = mask.sum(dim=1) - num_target
    places = torch.arange(int(num_target.max()))
    is_target = places < num_target[:, None]
    chosen = (num_source[:, None] + places).clamp(max=labels.shape[1] - 1)
    longest = int(num_source.max())
    is_source = torch.arange(longest) < num_source[:, None]
    return {
        **inputs,
        "input_ids": inputs["input_ids"][:, :longest].masked_fill(~is_source, pad_id),
        "attention_mask": is_source.long(),
        "labels": labels.gather(1, chosen).masked_fill(~is_target, IGNORED_LABEL),
    }
