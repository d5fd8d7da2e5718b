"""How many epochs a table gets where nobody says: defaults count optimizer steps, not epochs alone.

Four epochs of 192 rows in batches of 32 are 24 steps, after which a model has learned nothing. An epoch of a large
table is thousands. So a small table gets more epochs. A number of epochs that somebody gives is obeyed as it is.
"""

import math

LEAST_STEPS = 200  # optimizer steps, from which on the guide's 192 reviews are learned (docs/log.md)
MOST_EPOCHS = 100  # of a table that is smaller than a few batches: each epoch ends with an evaluation and a checkpoint


def steps_of_epoch(num_rows: int, batch_size: int) -> int:
    """Return the number of optimizer steps of an epoch.

    Args:
        num_rows: training rows: sets, texts or windows of texts.
        batch_size: rows a step, of all devices and accumulated batches.

    Example:
        >>> steps_of_epoch(192, 32), steps_of_epoch(193, 32)
        (6, 7)
    """
    return math.ceil(num_rows / batch_size)


def least_epochs(num_rows: int, batch_size: int) -> int:
    """Return the fewest whole epochs that take ``LEAST_STEPS`` steps, but no more than ``MOST_EPOCHS``.

    Args:
        num_rows: training rows.
        batch_size: rows a step, of all devices and accumulated batches.

    Example:
        >>> least_epochs(192, 32), least_epochs(100_000, 256), least_epochs(20, 256)
        (34, 1, 100)
    """
    return min(MOST_EPOCHS, math.ceil(LEAST_STEPS / steps_of_epoch(num_rows, batch_size)))


def default_epochs(num_rows: int, batch_size: int, *, usual: float) -> float:
    """Return the epochs of a table where nobody gives a number: the usual ones, or more where they are too few steps.

    Args:
        num_rows: training rows.
        batch_size: rows a step, of all devices and accumulated batches.
        usual: epochs of a table that is large enough.

    Example:
        >>> default_epochs(192, 32, usual=4), default_epochs(12_000, 256, usual=10)
        (34, 10)
    """
    return max(usual, least_epochs(num_rows, batch_size))
