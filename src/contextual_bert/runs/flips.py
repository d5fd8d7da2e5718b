"""Counterfactual changes of a run's answers: one field of the context is set to each of its values, all others stay.

Nothing is trained. Each batch is answered once as it is and once under each value. Paper: not there;
docs/decisions/064.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from contextual_bert.baselines.names import CONTEXT_AS_TEXT
from contextual_bert.context import Feature
from contextual_bert.errors import ConfigurationError, Message
from contextual_bert.evaluation.field_flips import FieldFlips, FlippedChoices, measure_flips
from contextual_bert.frames import Frame
from contextual_bert.inference.encode import set_index
from contextual_bert.inference.whole_rows import FlippedRows
from contextual_bert.places import PathPlace
from contextual_bert.runs.calibrated_evaluation import Steps, choices_of, clusters_of, read_choices
from contextual_bert.runs.evaluation import load_evaluation
from contextual_bert.runs.evaluator import Evaluator, Progress
from contextual_bert.runs.model_factory import has_context
from contextual_bert.runs.run_directory import FinishedRun, finished_run

MAX_VALUES = 100  # each is a pass over the rows; a field with more is an identity, not a choice


@dataclass(frozen=True, eq=False)
class RunFlips:
    """What changes when a field says something else, and what was read, for people."""

    flips: FieldFlips
    lines: tuple[str, ...]


def flip_field(
    directory: Path | FinishedRun,
    field: str,
    *,
    overrides: Mapping[str, Any] | None = None,
    part: str | None = None,
    source: Frame | None = None,
    batch_size: int | None = None,
    progress: Progress | None = None,
) -> RunFlips:
    """Measure how often the best answer changes, and how far probabilities move, when one field says something else.

    Numbers are set to each of their bins. The values of a sensitive field stand in no report: all of them are measured
    together.

    Args:
        directory: the run directory; or what ``finished_run`` gave for it.
        field: of the context.
        overrides, part, source, batch_size: what is evaluated and how, as for ``load_evaluation``.
        progress: called with (rows done, rows in all).

    Raises:
        ConfigurationError: a field that the run does not read, or of which no list of values is known; a run without
            choices between labels or items.
        RunDirectoryError, DataError, SchemaError, UnknownNameError: as for ``load_evaluation``.
    """
    run = finished_run(directory)
    if not has_context(run.recipe) or run.recipe.conditioning == CONTEXT_AS_TEXT:
        read = "no context" if not has_context(run.recipe) else "the context as words"
        raise ConfigurationError(
            Message(f"was trained with {{conditioning}}, which reads {read}", conditioning=run.recipe.conditioning),
            fix="Name the run of another method.",
            place=PathPlace(run.directory),
        )
    data = load_evaluation(run, overrides=overrides, part=part, source=source, batch_size=batch_size)
    feature = _flippable(data, field)
    steps = Steps(progress, num_passes=2)
    scored = data.score(data.dataset, progress=steps.next())
    targets, dataset = choices_of(data, scored), data.dataset
    first, choices = feature.layout.num_reserved, [*feature.choices]
    values = [torch.tensor([first + number]) for number in range(len(choices))]
    found = read_choices(data, FlippedRows(targets, data.num_choices, field, values), scored, progress=steps.next())
    ids = dataset.context[field].numpy()[set_index(dataset, scored.example_id)]
    own = np.where((ids >= first) & (ids < first + len(choices)), ids - first, -1)
    others, states = np.unique(ids[own < 0], return_inverse=True)
    own[own < 0] = len(choices) + states
    flips = measure_flips(
        field,
        [*choices, *map(str, feature.names(others))],
        FlippedChoices(
            own=own,
            best=found[:, [0, *range(1, found.shape[1], 2)]].astype(np.int64),
            moved=found[:, 2::2],
            sets=scored.example_id,
            clusters=clusters_of(data, scored),
        ),
        name_of=data.ready.name_of_choice,
        settings=data.settings,
        is_sensitive=feature.sensitive,
        provenance=data.provenance(),
    )
    return RunFlips(flips, data.lines(num_unknown=scored.num_unknown_targets))


def _flippable(data: Evaluator, field: str) -> Feature:
    """Return the feature of a field that can be set to each of its values.

    Raises:
        ConfigurationError: the run does not read it, or it has no list of values, or too many.
    """
    read = {each.name: each for each in data.schema.read_features} if data.schema is not None else {}
    listed = [name for name, each in read.items() if 2 <= len(each.choices) <= MAX_VALUES]
    allowed = f"Allowed: {', '.join(listed)}." if listed else "No field of the run can be flipped."
    problem = None
    if field in data.silenced:
        problem = "is silenced: the run does not read it, and no answer changes"
    elif field not in read:
        problem = "is no field that the run reads"
    elif len(read[field].choices) < 2:
        problem = "has no list of values, or one alone, so there is nothing else to set it to"
    elif len(read[field].choices) > MAX_VALUES:
        problem = f"has {len(read[field].choices):,} values, and each of at most {MAX_VALUES} is tried"
    if problem is not None:
        raise ConfigurationError(problem, setting="flip", value=field, allowed=allowed)
    return read[field]
