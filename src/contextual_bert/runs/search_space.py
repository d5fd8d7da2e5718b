"""Settings that a search tries: how they are written, and the trials that are drawn from them.

It trains nothing. Not in the papers.
"""

import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from contextual_bert.errors import ConfigurationError
from contextual_bert.json_text import json_text, spelled_value
from contextual_bert.training.recipe import Recipe

MODEL = "model."  # before the name of a field of the model's config
WRITTEN = "Give NAME=LOW..HIGH for numbers between two, or NAME=A,B,C for these values."
_LARGEST = sys.float_info.max / 2  # of which the difference is a number, too
_RATIO_OF_SCALES = 10  # from where a range is drawn from by its logarithm


@dataclass(frozen=True)
class SearchedSetting:
    """A setting and what it may be.

    Args:
        name: a field of ContextualTrainingArguments, or "model." and a field of the model's config.
        choices: its values; none where it is a range.
        low, high: of a range, both included; whole numbers give whole numbers. Where ``high`` is ten times ``low`` or
            more, each scale is as likely as the next one.

    Example:
        >>> SearchedSetting.read("learning_rate=1e-4..1e-2")
        SearchedSetting(name='learning_rate', choices=(), low=0.0001, high=0.01)
        >>> SearchedSetting.read("model.hidden_size=64,128").choices
        (64, 128)
    """

    name: str
    choices: tuple[Any, ...] = ()
    low: float = 0
    high: float = 0

    @classmethod
    def read(cls, text: str) -> "SearchedSetting":
        """Return the setting that a text describes.

        Raises:
            ConfigurationError: it describes none.
        """
        name, sign, values = (part.strip() for part in text.partition("="))
        if not sign or not name or not values:
            raise ConfigurationError("is no setting to search", setting="search", value=text, fix=WRITTEN)
        if ".." in values:
            low, high = (spelled_value(part.strip(), setting="search") for part in values.split("..", 1))
            if not all(isinstance(each, int | float) and not isinstance(each, bool) for each in (low, high)):
                raise ConfigurationError("is no range of numbers", setting="search", value=text, fix=WRITTEN)
            if not -_LARGEST <= low < high <= _LARGEST:
                raise ConfigurationError(
                    "is no range: the first number is not below the second", setting="search", value=text, fix=WRITTEN
                )
            return cls(name, (), low, high)
        parts = [part.strip() for part in values.split(",")]
        choices = tuple(spelled_value(part, setting="search") for part in parts)
        if len({json_text(each) for each in choices}) < len(choices) or "" in parts:
            raise ConfigurationError("names a value twice, or none", setting="search", value=text, fix=WRITTEN)
        return cls(name, choices)

    def draw(self, generator: np.random.Generator) -> Any:
        """Return one of the values."""
        if self.choices:
            return self.choices[int(generator.integers(len(self.choices)))]
        low, high = self.low, self.high
        is_whole = isinstance(low, int) and isinstance(high, int)
        if is_whole:  # each whole number has the room of itself
            low, high = low - 0.5, high + 0.5
        if self.low > 0 and self.high / self.low >= _RATIO_OF_SCALES:
            drawn = math.exp(generator.uniform(math.log(low), math.log(high)))
        else:
            drawn = float(generator.uniform(low, high))
        if is_whole:
            return min(max(round(drawn), int(self.low)), int(self.high))
        return float(f"{min(max(drawn, low), high):.4g}")


def drawn_trials(space: Sequence[SearchedSetting], num_trials: int, *, seed: int = 0) -> list[dict[str, Any]]:
    """Return the settings of each trial, no two alike: at most ``num_trials``, fewer where there are fewer.

    Example:
        >>> drawn_trials([SearchedSetting("warmup_steps", (0, 100))], 9)
        [{'warmup_steps': 100}, {'warmup_steps': 0}]
    """
    generator, trials, seen = np.random.default_rng(seed), list[dict[str, Any]](), set[str]()
    for _ in range(100 * num_trials):
        drawn = {each.name: each.draw(generator) for each in space}
        key = json_text(drawn)
        if key not in seen:
            seen.add(key)
            trials.append(drawn)
        if len(trials) == num_trials:
            break
    return trials


def with_drawn(recipe: Recipe, drawn: Mapping[str, Any], *, name: str) -> Recipe:
    """Return the recipe with the settings of a trial, under a name of its own.

    Raises:
        ConfigurationError: a setting that cannot be.
    """
    model = {key.removeprefix(MODEL): value for key, value in drawn.items() if key.startswith(MODEL)}
    training = {key: value for key, value in drawn.items() if not key.startswith(MODEL)}
    return recipe.changed(name=name, training={**recipe.training, **training}, model={**recipe.model, **model})


def as_options(drawn: Mapping[str, Any]) -> list[str]:
    """Return the settings of a trial as options of ``train``.

    Example:
        >>> as_options({"learning_rate": 0.003, "model.hidden_size": 64})
        ['--set', 'learning_rate=0.003', '--model', 'hidden_size=64']
    """
    found: list[str] = []
    for key, value in drawn.items():
        option = "--model" if key.startswith(MODEL) else "--set"
        written = value if isinstance(value, str) else json_text(value)
        found += [option, f"{key.removeprefix(MODEL)}={written}"]
    return found
