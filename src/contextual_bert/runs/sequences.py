"""Sequences of items in a recipe: how many of their items a model reads, and the fields of its config that follow."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from contextual_bert.arrow_types import decoded, is_list
from contextual_bert.baselines.names import SET_BASELINES
from contextual_bert.data.instants import times_in
from contextual_bert.data.time_gaps import NUM_GAPS, ItemTimes
from contextual_bert.errors import ConfigurationError, DataError, Message
from contextual_bert.training.recipe import Recipe

if TYPE_CHECKING:
    from contextual_bert.data import SequenceDataset

_NUM_LOOKED_AT = 100_000  # rows in which times are looked for
LONGEST_READ = 200  # of the items of a sequence, where nobody says more; the newest are read


class ColumnOfTimes(NamedTuple):
    """A column with a time for each item of each set, and whether the items stand in its order."""

    name: str
    is_in_order: bool


def column_of_times(recipe: Recipe, table: pa.Table) -> ColumnOfTimes | None:
    """Return the column that has a time for each item of each set; None where there is none.

    Numbers are times where they rise along the items: others are amounts. Dates are times in any order, and a column in
    whose order the items stand comes first.

    Args:
        recipe: names the items, and the columns that are left out.
        table: one row a set.
    """
    found: ColumnOfTimes | None = None
    first = table.slice(0, _NUM_LOOKED_AT)
    beside = (*recipe.task.columns, *recipe.exclude, recipe.customer, recipe.split_column)
    sizes = _list_sizes(first.column(recipe.set_task.items))
    if sizes is None or sizes.max(initial=0) < 2:
        return None
    for name in map(str, first.column_names):
        own = _list_sizes(first.column(name)) if name not in beside else None
        if own is None or not np.array_equal(own, sizes):
            continue
        values = pc.list_flatten(decoded(first.column(name)).combine_chunks())
        if values.null_count or pa.types.is_nested(values.type):
            continue
        try:
            times = times_in(values, column=name, date_formats=recipe.reading.date_formats)
        except DataError:
            continue
        rows = np.repeat(np.arange(len(sizes)), sizes)
        steps = np.diff(times)[np.diff(rows) == 0]
        is_number = pa.types.is_integer(values.type) or pa.types.is_floating(values.type)
        if (steps >= 0).all() and (not is_number or 2 * np.count_nonzero(steps) > len(steps)):
            return ColumnOfTimes(name, True)
        if not is_number and found is None:
            found = ColumnOfTimes(name, False)
    return found


def _list_sizes(column: pa.ChunkedArray) -> "np.ndarray[Any, np.dtype[np.int64]] | None":
    cells = decoded(column)
    if not is_list(cells.type):
        return None
    return pc.fill_null(pc.list_value_length(cells), 0).to_numpy().astype(np.int64)


def predicts_next(recipe: Recipe) -> bool:
    """Return True if a position of the recipe's model reads what stands before it alone."""
    asks_next = recipe.set_task.hide == "next" and recipe.conditioning not in SET_BASELINES
    return asks_next and recipe.model.get("predicts_next", True) is not False


def longest_read(recipe: Recipe, datasets: "Mapping[str, SequenceDataset]") -> int | None:
    """Return how many items of a sequence the recipe's model reads; None: all, for it knows no positions.

    As many as the run has that the model starts from. Of a new model as many as the longest sequence of training has;
    where gaps are filled, of any part, for there no sequence is cut.

    Args:
        recipe: what is asked for.
        datasets: part -> its sequences.
    """
    if recipe.set_task.order is None or recipe.conditioning in SET_BASELINES:
        return None
    found = recipe.model.get("max_position_embeddings", _positions_of_start(recipe))
    if found is not None:
        return found
    if recipe.set_task.hide == "next":
        return min(LONGEST_READ, int(datasets["train"].sizes.max(initial=1)))
    return max(int(each.sizes.max(initial=1)) for each in datasets.values())


def _positions_of_start(recipe: Recipe) -> int | None:
    """Return how many positions the run has that a model starts from; None where none, or none with an order."""
    if recipe.task.run_to_start_from is None:
        return None
    try:
        config = json.loads((Path(recipe.task.run_to_start_from) / "config.json").read_text(encoding="utf-8"))
        return int(config["max_position_embeddings"]) if config["has_position_embeddings"] else None
    except (OSError, ValueError, KeyError, TypeError):  # said where the run is loaded
        return None


def positions_of(model: object) -> int | None:
    """Return how many items of a sequence a model or baseline reads; None: all, for it knows no positions."""
    config: Any = getattr(model, "config", None)
    return config.max_position_embeddings if getattr(config, "has_position_embeddings", False) else None


def order_fields(
    recipe: Recipe, datasets: "Mapping[str, SequenceDataset]", times: ItemTimes | None = None
) -> dict[str, Any]:
    """Return the fields of a new model's config that follow from the order of the items; none where there is none.

    Args:
        recipe: what is asked for.
        datasets: part -> its sequences.
        times: of their items, where the gaps between them are read.
    """
    unit = times.unit if times is not None else None
    longest = longest_read(recipe, datasets)
    if longest is None:
        return {}
    return {
        "has_position_embeddings": True,
        "predicts_next": predicts_next(recipe),
        "max_position_embeddings": longest,
        **({"time_gaps": unit, "type_vocab_size": NUM_GAPS} if unit is not None else {}),
    }


def check_order(recipe: Recipe, datasets: "dict[str, SequenceDataset]") -> None:
    """Raise ConfigurationError where a recipe asks a model for an order that its sets do not have, or the reverse.

    Args:
        recipe: what is asked for.
        datasets: part -> its sets.
    """
    task, model = recipe.set_task, recipe.model
    if task.order is not None and model.get("has_position_embeddings") is False:
        raise ConfigurationError(
            Message("leaves the order out that {order} gives", order=task.order),
            setting="has_position_embeddings",
            value=False,
            fix="Leave one of them out.",
        )
    if model.get("predicts_next") and task.hide != "next":
        raise ConfigurationError(
            Message("goes with {hide} and {order}", hide="next", order=...),
            setting="predicts_next",
            value=True,
            fix="Give them, too, or leave it out.",
        )
    for name in ("masks_per_set", "one_mask_epochs") if predicts_next(recipe) else ():
        if name in recipe.training:
            raise ConfigurationError(
                Message("says how many items are hidden, and with {hide} each is asked for", hide="next"),
                setting=name,
                value=recipe.training[name],
                fix=Message(
                    "Leave it out, or let the model read both sides with {model}.", model={"predicts_next": False}
                ),
            )
    longest = longest_read(recipe, datasets)
    if longest is None or task.hide == "next":
        return
    largest = max(int(each.sizes.max(initial=0)) for each in datasets.values())
    if largest > longest and "max_position_embeddings" not in model:
        raise ConfigurationError(
            f"reads at most {longest:,} items, and a set of {recipe.data} has {largest:,}",
            setting="init_from",
            value=recipe.task.run_to_start_from,
            fix=Message("Cut the sets with {max_size} and {longer}.", max_size=longest, longer="newest"),
        )
    if largest > longest:
        raise ConfigurationError(
            f"and a set of {recipe.data} has {largest:,} items",
            setting="max_position_embeddings",
            value=longest,
            fix=Message(
                "Give a larger number with {model}; or cut the sets with {max_size} and {longer}.",
                model={"max_position_embeddings": largest},
                max_size=longest,
                longer="newest",
            ),
        )
