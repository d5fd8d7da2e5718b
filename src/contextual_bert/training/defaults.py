"""Training settings that nobody gave: they follow from how many sets there are to learn from.

The search behind the numbers is decision 030. Knows no model and no data.
"""

import math
import os
from collections.abc import Mapping
from typing import Any

SMALLEST_BATCH, LARGEST_BATCH = 64, 256
STEPS_PER_EPOCH = 256  # a batch grows until an epoch has about so many
LEARNING_RATE = 5e-4  # of the smallest batch; that of a larger one grows with the square root
BAG_LEARNING_RATE = 3e-3  # of a bag of items, which has one hidden layer
FEWEST_STEPS = 2_000
FEWEST_EPOCHS, MOST_EPOCHS = 10, 40
# What AdamW takes from each weight in an epoch: learning rate * decay * steps. Sets are few beside the vectors of items
# that are learned from them, and a model that forgets nothing learns them by heart.
FORGOTTEN_PER_EPOCH = 0.12
LEAST_DECAY, MOST_DECAY = 0.01, 2.0
NUM_MASKS = 2
LEAST_SIZE_FOR_TWO_MASKS = 4  # a smaller set with two masks shows next to nothing


def set_defaults(
    num_sets: int, *, median_size: float, given: Mapping[str, Any], base_rate: float = LEARNING_RATE
) -> dict[str, Any]:
    """Return the settings for models of sets that ``given`` lacks.

    Args:
        num_sets: sets in the training part.
        median_size: their median number of items.
        given: fields of ContextualTrainingArguments that the user chose; the others follow from them.
        base_rate: peak learning rate with the smallest batch.

    Source:
        The decay by epoch: Wang and Aitchison (2024), "How to set AdamW's weight decay as you scale model and dataset
        size". The rate by batch: Malladi et al. (2022), "On the SDEs and Scaling Rules for Adaptive Gradient
        Algorithms".

    Example:
        >>> set_defaults(16_384, median_size=5, given={"num_train_epochs": 3})
        {'per_device_train_batch_size': 64, 'masks_per_set': 2, 'one_mask_epochs': 1, 'learning_rate': 0.0005, \
'weight_decay': 0.9375}
    """
    chosen: dict[str, Any] = {}

    def settle(name: str, value: Any) -> Any:
        if name not in given:
            chosen[name] = value
        return given.get(name, value)

    num_processes = int(os.environ.get("WORLD_SIZE", "1"))
    accumulated = given.get("gradient_accumulation_steps", 1) * num_processes
    wanted = min(max(_power_of_two(num_sets / STEPS_PER_EPOCH), SMALLEST_BATCH), LARGEST_BATCH)
    per_device = settle("per_device_train_batch_size", max(1, wanted // accumulated))
    batch_size = per_device * accumulated
    steps = max(1, math.ceil(num_sets / batch_size))
    has_steps = given.get("max_steps", -1) > 0
    epochs = given.get("num_train_epochs", 0)
    if not has_steps:
        epochs = settle("num_train_epochs", min(max(math.ceil(FEWEST_STEPS / steps), FEWEST_EPOCHS), MOST_EPOCHS))
    can_hide_two = median_size >= LEAST_SIZE_FOR_TWO_MASKS or "one_mask_epochs" in given
    num_masks = settle("masks_per_set", NUM_MASKS if can_hide_two else 1)
    if num_masks > 1 and not has_steps and (half := int(epochs // 2)):
        settle("one_mask_epochs", half)
    rate = settle("learning_rate", base_rate * math.sqrt(max(1.0, batch_size / SMALLEST_BATCH)))
    settle("weight_decay", min(max(FORGOTTEN_PER_EPOCH / (rate * steps), LEAST_DECAY), MOST_DECAY))
    return chosen


def _power_of_two(number: float) -> int:
    """Return the nearest power of two, by the logarithm."""
    return 2 ** max(0, round(math.log2(max(number, 1.0))))
