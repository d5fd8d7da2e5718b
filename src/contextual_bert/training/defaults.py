"""Training settings that nobody gave: they follow from how many rows there are to learn from.

An epoch of a small table is a few steps, one of a large table is thousands. So defaults count steps, not epochs alone.
What somebody gives is obeyed as it is. The search behind the numbers is decision 030. Knows no model and no data.
"""

import math
import os
from collections.abc import Mapping
from typing import Any

SMALLEST_BATCH, LARGEST_BATCH = 64, 256
STEPS_PER_EPOCH = 256  # a batch grows until an epoch has about so many
LEARNING_RATE = 1e-3
BAG_LEARNING_RATE = 3e-3  # of a bag of items, which has one hidden layer
EPOCHS, FEWEST_STEPS, MOST_EPOCHS = 10, 2_000, 40
# What AdamW takes from each weight in an epoch: learning rate * decay * steps. A model that forgets nothing learns the
# sets by heart, the sooner the fewer times it sees an item: up to twice as much is forgotten.
FORGOTTEN_PER_EPOCH = 0.12
MANY_SIGHTINGS = 100
LEAST_DECAY, MOST_DECAY = 0.01, 2.0
NUM_MASKS = 2
LARGEST_EXACT = 200_000  # items that are compared exactly: with more a step takes several times one over drawn items
LEAST_SIZE_FOR_TWO_MASKS = 4  # a smaller set with two masks shows next to nothing
# Of whole sets, decision 054: more epochs learn who bought what by heart.
STEPS_PER_EPOCH_OF_WHOLE_SETS, EPOCHS_OF_WHOLE_SETS, FEWEST_STEPS_OF_WHOLE_SETS = 104, 6, 400
WHOLE_SET_LEARNING_RATE, WHOLE_SET_DECAY = 2e-3, 0.1
# Of sequences, decision 057: a sequence asks for each of its items, so that a few hundred steps suffice.
EPOCHS_OF_SEQUENCES, FEWEST_STEPS_OF_SEQUENCES, MOST_EPOCHS_OF_SEQUENCES = 5, 600, 40
SEQUENCE_DECAY = 0.01
# Of texts: from 200 steps on the 192 reviews of docs/guides/text.md are learned.
FEWEST_STEPS_OF_TEXTS, MOST_EPOCHS_OF_TEXTS = 200, 100


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


def default_epochs(num_rows: int, batch_size: int, *, usual: float, fewest_steps: int, most: int) -> float:
    """Return the epochs where nobody gives a number: the usual ones, or more where they are too few steps.

    Args:
        num_rows: training rows.
        batch_size: rows a step, of all devices and accumulated batches.
        usual: epochs of a table that is large enough.
        fewest_steps: steps that a training takes at least.
        most: epochs that it takes at most to get there.

    Example:
        >>> default_epochs(192, 32, usual=4, fewest_steps=200, most=100)
        34
        >>> default_epochs(20, 256, usual=4, fewest_steps=200, most=100)
        100
    """
    return max(usual, min(most, math.ceil(fewest_steps / steps_of_epoch(num_rows, batch_size))))


def set_defaults(
    num_sets: int,
    *,
    median_size: float,
    sightings: float,
    given: Mapping[str, Any],
    default_rate: float = LEARNING_RATE,
) -> dict[str, Any]:
    """Return the settings for models of sets that ``given`` lacks.

    Args:
        num_sets: sets in the training part.
        median_size: their median number of items.
        sightings: how often an item occurs in them, on average.
        given: fields of ContextualTrainingArguments that the user chose; the others follow from them.
        default_rate: peak learning rate where none is given.

    Source:
        Wang and Aitchison (2024), "How to set AdamW's weight decay as you scale model and dataset size".

    Example:
        >>> chosen = set_defaults(16_384, median_size=5, sightings=200, given={"num_train_epochs": 3})
        >>> chosen["per_device_train_batch_size"], chosen["one_mask_epochs"], chosen["weight_decay"]
        (64, 1, 0.46875)
    """
    chosen: dict[str, Any] = {}

    def settle(name: str, value: Any) -> Any:
        if name not in given:
            chosen[name] = value
        return given.get(name, value)

    others = _rows_beside(given)
    wanted = min(max(_power_of_two(num_sets / STEPS_PER_EPOCH), SMALLEST_BATCH), LARGEST_BATCH)
    batch_size = others * settle("per_device_train_batch_size", max(1, wanted // others))
    steps = steps_of_epoch(num_sets, batch_size)
    usual = default_epochs(num_sets, batch_size, usual=EPOCHS, fewest_steps=FEWEST_STEPS, most=MOST_EPOCHS)
    epochs = 0 if _has_steps(given) else settle("num_train_epochs", usual)
    can_hide_two = median_size >= LEAST_SIZE_FOR_TWO_MASKS or "one_mask_epochs" in given
    num_masks = settle("masks_per_set", NUM_MASKS if can_hide_two else 1)
    if num_masks > 1 and (half := int(epochs // 2)):
        settle("one_mask_epochs", half)
    rate = settle("learning_rate", default_rate)
    forgotten = FORGOTTEN_PER_EPOCH * min(max(1.0, math.sqrt(MANY_SIGHTINGS / max(sightings, 1.0))), 2.0)
    settle("weight_decay", min(max(forgotten / (rate * steps), LEAST_DECAY), MOST_DECAY))
    return chosen


def whole_set_defaults(num_sets: int, *, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings for models of whole sets that ``given`` lacks.

    Args:
        num_sets: sets of an epoch, baskets of histories among them.
        given: fields of ContextualTrainingArguments that the user chose.

    Example:
        >>> chosen = whole_set_defaults(26_650, given={})
        >>> chosen["per_device_train_batch_size"], chosen["num_train_epochs"], chosen["learning_rate"]
        (256, 6, 0.002)
    """
    rates = {"learning_rate": WHOLE_SET_LEARNING_RATE, "weight_decay": WHOLE_SET_DECAY}
    steps = {"usual": EPOCHS_OF_WHOLE_SETS, "fewest_steps": FEWEST_STEPS_OF_WHOLE_SETS, "most": MOST_EPOCHS}
    return _with_batch_and_epochs(rates, num_sets, STEPS_PER_EPOCH_OF_WHOLE_SETS, steps, given=given)


def next_item_defaults(num_sequences: int, *, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings for models that tell what comes next that ``given`` lacks.

    Args:
        num_sequences: sequences of the training part, long ones counted as the pieces that are read.
        given: fields of ContextualTrainingArguments that the user chose.

    Example:
        >>> next_item_defaults(1_000, given={"learning_rate": 2e-3})
        {'per_device_train_batch_size': 64, 'weight_decay': 0.01, 'num_train_epochs': 38}
    """
    rates = {"learning_rate": LEARNING_RATE, "weight_decay": SEQUENCE_DECAY}
    steps = {
        "usual": EPOCHS_OF_SEQUENCES,
        "fewest_steps": FEWEST_STEPS_OF_SEQUENCES,
        "most": MOST_EPOCHS_OF_SEQUENCES,
    }
    return _with_batch_and_epochs(rates, num_sequences, STEPS_PER_EPOCH, steps, given=given)


def _with_batch_and_epochs(
    rates: Mapping[str, float],
    num_rows: int,
    steps_per_epoch: int,
    steps: Mapping[str, int],
    *,
    given: Mapping[str, Any],
) -> dict[str, Any]:
    """Return rates, a batch with which an epoch has about so many steps, and epochs; without what is given."""
    others = _rows_beside(given)
    wanted = min(max(_power_of_two(num_rows / steps_per_epoch), SMALLEST_BATCH), LARGEST_BATCH)
    chosen: dict[str, Any] = {"per_device_train_batch_size": max(1, wanted // others), **rates}
    if not _has_steps(given):
        batch_size = others * given.get("per_device_train_batch_size", chosen["per_device_train_batch_size"])
        chosen["num_train_epochs"] = default_epochs(num_rows, batch_size, **steps)
    return {name: value for name, value in chosen.items() if name not in given}


def text_epochs(num_texts: int, *, usual: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the epochs for models of texts, or nothing where ``given`` has epochs or steps.

    Args:
        num_texts: texts, or windows of texts, in the training part.
        usual: the settings of a table that is large enough.
        given: fields of ContextualTrainingArguments that the user chose.

    Example:
        >>> text_epochs(192, usual={"num_train_epochs": 4, "per_device_train_batch_size": 32}, given={})
        {'num_train_epochs': 34}
    """
    if "num_train_epochs" in given or _has_steps(given):
        return {}
    batch_size = _rows_beside(given) * {**usual, **given}["per_device_train_batch_size"]
    epochs = default_epochs(
        num_texts,
        batch_size,
        usual=usual["num_train_epochs"],
        fewest_steps=FEWEST_STEPS_OF_TEXTS,
        most=MOST_EPOCHS_OF_TEXTS,
    )
    return {"num_train_epochs": epochs}


def _has_steps(given: Mapping[str, Any]) -> bool:
    return given.get("max_steps", -1) > 0


def _rows_beside(given: Mapping[str, Any]) -> int:
    """Return how many batches of a device make one step: of processes and of accumulation."""
    return given.get("gradient_accumulation_steps", 1) * int(os.environ.get("WORLD_SIZE", "1"))


def _power_of_two(number: float) -> int:
    """Return the nearest power of two, by the logarithm."""
    return 2 ** max(0, round(math.log2(max(number, 1.0))))
