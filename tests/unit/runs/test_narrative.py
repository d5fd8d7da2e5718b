"""Where the commonest items of the training part are asked for, in the data of a run."""

from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from contextual_bert.evaluation import Interval, Scores
from contextual_bert.runs import prepare
from contextual_bert.runs.narrative import about_contexts, commonest_targets, gaps_in_words
from contextual_bert.training import Recipe, SetCompletion


def test_the_commonest_items_of_training_are_found_where_they_are_asked_for(tmp_path: Path) -> None:
    generator = np.random.default_rng(0)
    names = [f"item-{number:02}" for number in range(30)]
    shares = np.arange(30, 0, -1.0) ** 2
    sets = [list(generator.choice(names, size=4, replace=False, p=shares / shares.sum())) for _ in range(200)]
    table = pa.table({"items": sets, "age": generator.integers(18, 80, 200)})
    ready = prepare(
        Recipe(data=str(tmp_path / "memory"), task=SetCompletion(items="items"), split_by="row"), source=table
    )
    rows = ready.datasets["test"].example_ids.numpy()
    places = [(row, position) for row in rows for position in range(4)]
    shuffled = np.random.default_rng(1).permutation(len(places))
    example, position = np.array(places)[shuffled].T
    ones = np.ones(len(places))
    scores = Scores(example, position, -ones, ones, ones, ones / 2)
    few = commonest_targets(ready, "test", scores)
    assert few is not None
    training = ready.split.rows("train")
    counts = Counter(name for row in training for name in sets[row])
    # By the count, and of equal counts by the name.
    assert few.names == tuple(sorted(counts, key=lambda name: (-counts[name], name))[:3])
    asked = [ready.processor.items.values[int(identifier) - 3] for identifier in ready.datasets["test"].input_ids]
    assert few.is_few.tolist() == [name in few.names for name in asked]
    assert 0 < few.is_few.sum() < len(few.is_few)


@pytest.mark.parametrize(("size", "said"), [(0.00003, "no significant difference"), (0.003, "harms")])
def test_a_difference_of_which_no_digit_is_shown_is_none(size: float, said: str) -> None:
    gap = Interval(size, size / 2, 2 * size, size / 4, 90, 30)
    paired: Any = SimpleNamespace(difference=lambda name, other: SimpleNamespace(interval=gap))
    task = SetCompletion(items="items")
    recipes = {name: Recipe(data="t.csv", task=task, conditioning=name) for name in ("none", "film")}
    (line,) = about_contexts(recipes, dict.fromkeys(recipes, "method"), paired)
    assert said in line
    told = gaps_in_words("film", {"bag": gap}, "cross_entropy_nats")
    assert ("level with `bag`" in told) == (said != "harms")
