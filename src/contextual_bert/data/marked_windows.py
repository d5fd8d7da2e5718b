"""Windows of texts that are read from both ends: each has a start and an end, and each word is in one of them.

It knows sequences of ids, no tokenizer and no model.
"""

import numpy as np
import torch

from contextual_bert.data.dataset import IGNORED_LABEL, SequenceDataset
from contextual_bert.data.ragged import offsets_of, places_of


def in_marked_windows(texts: SequenceDataset, *, length: int) -> SequenceDataset:
    """Cut texts into windows, each between the start and the end of its text.

    Where a window begins or ends within its text, its start or end says nothing true, and is not asked.

    Args:
        texts: with a start before each text and an end behind it.
        length: tokens of a window at most, 3 or more.

    Returns:
        The windows with the context, the spelling and the example id of their text, and as labels their own tokens.

    Example:
        >>> windows = in_marked_windows(SequenceDataset([1, 5, 6, 7, 2, 1, 8, 2], [0, 5, 8], context={}), length=4)
        >>> [row.tolist() for row in windows.input_ids.tensor_split(windows.offsets[1:-1])]
        [[1, 5, 6, 2], [1, 7, 2], [1, 8, 2]]
        >>> windows.labels.tolist()
        [1, 5, 6, -100, -100, 7, 2, 1, 8, 2]
    """
    room, sizes, offsets = length - 2, texts.sizes, texts.offsets.numpy()
    num_windows = np.maximum(1, -(-(sizes - 2) // room))
    text, window = np.repeat(np.arange(len(sizes)), num_windows), places_of(num_windows)
    lengths = 2 + np.minimum(room, sizes[text] - 2 - window * room)
    bounds = offsets_of(lengths)
    first, last = bounds[:-1], bounds[1:] - 1
    places = np.repeat(offsets[text] + window * room, lengths) + places_of(lengths)
    places[first], places[last] = offsets[text], offsets[text + 1] - 1
    flat, rows = torch.from_numpy(places), torch.from_numpy(text)
    labels = texts.input_ids[flat].clone()
    labels[first[window > 0]] = IGNORED_LABEL
    labels[last[window < num_windows[text] - 1]] = IGNORED_LABEL
    found = SequenceDataset(
        texts.input_ids[flat],
        bounds,
        context={name: values[rows] for name, values in texts.context.items()},
        labels=labels,
        example_ids=texts.example_ids[rows],
        pad_id=texts.pad_id,
    )
    return found.with_spelling(texts.spelt.at(flat) if texts.spelt is not None else None)
