"""Windows of texts that are read from left to right: nothing of a long text is cut, and each token is asked once.

It knows sequences of ids, no tokenizer and no model.
"""

import numpy as np
import torch

from contextual_bert.data.dataset import SequenceDataset
from contextual_bert.data.ragged import offsets_of, places_of


def in_windows(texts: SequenceDataset, *, length: int) -> SequenceDataset:
    """Cut texts into windows, each of which begins with the last token of the one before it.

    The first token of a window follows none, so it is not asked; as the last of the window before it was. Each token
    but the first of a text is so predicted once, from those before it in its window.

    Args:
        texts: with the token before each text and the one behind it.
        length: tokens of a window at most, 2 or more.

    Returns:
        The windows with the context and the example id of their text, and as labels their own tokens.

    Example:
        >>> texts = SequenceDataset([0, 5, 6, 7, 1, 0, 8, 1], [0, 5, 8], context={"age": torch.tensor([1, 2])})
        >>> windows = in_windows(texts, length=3)
        >>> [row.tolist() for row in windows.input_ids.tensor_split(windows.offsets[1:-1])], windows.context["age"]
        ([[0, 5, 6], [6, 7, 1], [0, 8, 1]], tensor([1, 1, 2]))
    """
    sizes = texts.sizes
    num_windows = np.maximum(1, -(-(sizes - 1) // (length - 1)))
    text = np.repeat(np.arange(len(sizes)), num_windows)
    first = window_starts(num_windows, length=length)
    lengths = np.minimum(length, sizes[text] - first)
    starts = np.repeat(texts.offsets.numpy()[:-1][text] + first, lengths)
    ids = texts.input_ids[torch.from_numpy(starts + places_of(lengths))]
    rows = torch.from_numpy(text)
    return SequenceDataset(
        ids,
        offsets_of(lengths),
        context={name: values[rows] for name, values in texts.context.items()},
        labels=ids,
        example_ids=texts.example_ids[rows],
        pad_id=texts.pad_id,
    )


def window_starts(num_windows: np.ndarray, *, length: int) -> np.ndarray:
    """Return the place in its text at which each window begins.

    Args:
        num_windows: of each text, whose windows follow each other.
        length: tokens of a window that is not the last of its text.

    Example:
        >>> window_starts(np.array([2, 1]), length=3)
        array([0, 2, 0])
    """
    return places_of(num_windows) * (length - 1)
