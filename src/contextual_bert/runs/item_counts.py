"""How often each item stands in the sets that a finished run learned from. Not in the paper."""

from pathlib import Path
from typing import NamedTuple, cast

import pyarrow.compute as pc

from contextual_bert.data import SetTable, Split
from contextual_bert.errors import ContextualBertError
from contextual_bert.runs.evaluator import evaluated_recipe, evaluated_rows
from contextual_bert.runs.run_directory import FinishedRun
from contextual_bert.runs.shifts import LEARNED


class ItemCounts(NamedTuple):
    """The counts by item, None where they are not known; and the reason for that, in a sentence."""

    counts: dict[str, int] | None
    reason: str | None


def item_counts(run: FinishedRun) -> ItemCounts:
    """Count the items of the training sets of a run, where the table of its recipe is still there and the same."""
    directory, own = run
    file = own.data
    if not Path(file).is_file():
        return ItemCounts(None, f"training_count is empty: {file} is not there.")
    recipe = evaluated_recipe(own, {})
    try:
        rows = evaluated_rows(recipe, own, None)
        split = Split.load(directory / "split.json")
        if not split.is_of(rows.table):
            return ItemCounts(None, f"training_count is empty: {file} is not the table that the run was trained with.")
        examples = rows.examples(recipe, count_rows=split.rows(LEARNED))
    except ContextualBertError as error:
        return ItemCounts(None, f"training_count is empty: {error}")
    learned = split.select(cast(SetTable, examples), LEARNED)
    found = pc.value_counts(learned.values)
    return ItemCounts(dict(zip(found.field(0).to_pylist(), found.field(1).to_pylist(), strict=True)), None)
