"""The oracle of a stylist world as one more row of a comparison: the best score any model can reach on these sets."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow.compute as pc

from contextual_bert.data import Oracle, StylistWorld
from contextual_bert.evaluation import Run, Scores
from contextual_bert.runs.reporting import cluster_numbers
from contextual_bert.runs.tasks.set_completion import SetCompletionTask


def oracle_run(
    world: StylistWorld, ready: SetCompletionTask, *, progress: Callable[[int, int], None] | None = None
) -> Run:
    """Score the test sets with the true probabilities of the world they were drawn from.

    An item that the training part lacks is left out of the sets, so no model is asked for it, nor answers with it.
    Neither does the oracle: its probabilities are those given that the masked item is one that training has. Of the
    other items of a set it still sees such a one, and knows more than any model can.

    Args:
        world: the world.
        ready: the data of the study.
        progress: called with (rows done, rows in all).

    Returns:
        A run named "oracle" on the same masked positions as every model.
    """
    part = ready.evaluated_part or "test"
    sets = ready.split.select(ready.examples, part)
    scored = Oracle(world).score_table(
        sets.table, example_ids=sets.rows, among=ready.processor.items.values, progress=progress
    )
    columns: dict[str, Any] = dict(scored)
    known = ready.processor.items.lookup(pc.list_flatten(sets.table.column(sets.items)).combine_chunks()) >= 0
    columns = {name: values[known] for name, values in columns.items()}
    columns["position"] = np.arange(len(sets.values)) - np.repeat(sets.offsets[:-1], sets.sizes)
    scores = Scores(**columns)
    return Run("oracle", 0, scores, cluster_numbers(ready, part, scores.example_id), role="oracle")
