"""The rows of Table 1 on any data: the paper's methods, two beyond it, the controls and the baselines, as recipes.

It decides what is compared with what, once for every study; data, sizes and budget are those of the recipe it is given.
Paper: Table 1. docs/protocol.md, "Controls".
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from contextual_bert.baselines.names import HISTORY_BASELINES, SET_BASELINES
from contextual_bert.conditioning.registry import PAPER_METHODS
from contextual_bert.errors import UnknownNameError, did_you_mean
from contextual_bert.models import PAPER_PARAMETERS, matching_sizes
from contextual_bert.runs.registry import as_row
from contextual_bert.training.recipe import Recipe

BEYOND_THE_PAPER = ("state_flow", "film")
WIDE = ("none", "new_position")
LARGEST = "global_state_update"


def table_rows(base: Recipe, *, baseline_training: Mapping[str, Any]) -> dict[str, Recipe]:
    """Row -> recipe in the table's order: methods first, then the controls, then the baselines.

    The controls: `none` and `new_position` with as many counted parameters as `global_state_update`, which is exact to
    a percent where ``base.model`` leaves the paper's sizes alone and the context has the paper's 736 components; and
    `global_state_update` with the contexts of others.

    Args:
        base: data, model and training of every method; its conditioning does not matter.
        baseline_training: fields of ContextualTrainingArguments for the baselines, which are cheap and small.

    Reference: Table 1; docs/protocol.md, "Controls".

    Example:
        >>> from contextual_bert.training import SetCompletion
        >>> base = Recipe(data="days.parquet", task=SetCompletion(items="items"))
        >>> rows = table_rows(base, baseline_training={"num_train_epochs": 20})
        >>> list(rows)[:3], rows["bag"].training["num_train_epochs"]
        (['none', 'concat', 'new_position'], 20)
    """
    recipes = [
        *(replace(base, conditioning=name) for name in (*PAPER_METHODS, *BEYOND_THE_PAPER)),
        *(
            replace(
                base,
                conditioning=name,
                name=f"{name}_wide",
                model={**base.model, **matching_sizes(name, PAPER_PARAMETERS[LARGEST])},
                is_control=True,
            )
            for name in WIDE
        ),
        replace(base, conditioning=LARGEST, is_context_shuffled=True),
        *(
            as_row(replace(base, training=baseline_training), name)
            for name in SET_BASELINES
            if name not in HISTORY_BASELINES
        ),
    ]
    return {recipe.label: recipe for recipe in recipes}


def named_rows(every: Mapping[str, Recipe], names: Sequence[str], *, beside: Sequence[str] = ()) -> dict[str, Recipe]:
    """The rows of these names, in their order; ``beside`` names those of the study that are no recipes.

    Raises:
        UnknownNameError: no such row.
    """
    for name in names:
        if name not in every:
            raise UnknownNameError(f"No row {name!r} in this study", allowed=did_you_mean(name, [*every, *beside]))
    return {name: every[name] for name in names}
