"""Permutation importance of a run's features: each is permuted among the rows, and all rows are scored again.

Nothing is trained: a feature is taken from a finished model by giving each set, or text, the value of another, so the
values stay those of the data and only their tie to the items or labels is cut. Which rows swap is a pure function of
seed, feature and number of the permutation: it depends on no other feature and not on the order of the rows. A feature
that says the same in every row has no other value to give: it can only be called missing.

Paper: not there. Reference: Breiman 2001, section 10. docs/protocol.md, "Controls" and "Seeds and intervals".
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import torch
from numpy.typing import NDArray
from torch import Tensor

from contextual_bert.baselines.names import CONTEXT_AS_TEXT
from contextual_bert.context.forms import missing_context
from contextual_bert.data import SequenceDataset
from contextual_bert.data.hashing import hash_counters, hash_strings
from contextual_bert.data.next_items import with_shuffled_items
from contextual_bert.data.ragged_rows import rows_of
from contextual_bert.errors import ConfigurationError, DataError, Message
from contextual_bert.evaluation import FeatureImportances, Scores, measure_importances
from contextual_bert.evaluation.importance import ALL_FEATURES, ORDER_OF_ITEMS, Replacement
from contextual_bert.frames import Frame
from contextual_bert.places import PathPlace
from contextual_bert.runs.evaluation import load_evaluation
from contextual_bert.runs.evaluator import Evaluator, Progress
from contextual_bert.runs.model_factory import has_context
from contextual_bert.runs.run_directory import FinishedRun, finished_run
from contextual_bert.runs.sequences import positions_of
from contextual_bert.runs.shifts import constant_features

_TAKE_AWAY = ", or call each feature missing (--replace missing, in Python ablate_features)"


@dataclass(frozen=True, eq=False)
class RunImportance:
    """Importance of each feature for a run, and the data it was measured on.

    Args:
        importances: the numbers.
        num_unknown_targets: positions left out because their item is not in the vocabulary: it cannot be ranked.
        lines: what was read, for people.
    """

    importances: FeatureImportances
    num_unknown_targets: int
    lines: tuple[str, ...]


def permute_features(
    directory: Path | FinishedRun,
    *,
    num_permutations: int = 1,
    seed: int = 0,
    overrides: Mapping[str, Any] | None = None,
    part: str | None = None,
    source: Frame | None = None,
    batch_size: int | None = None,
    progress: Progress | None = None,
) -> RunImportance:
    """Measure permutation importance: the rise of the cross-entropy when one context feature is permuted among sets or
    texts. Of sequences whose next item is learned, so is the order of the items before it.

    The model is scored (1 + features) x num_permutations + 1 times. Features that say the same in every row are
    named and have no figure: ``ablate_features`` judges them.

    Args:
        directory: the run directory; or what ``finished_run`` gave for it.
        num_permutations: of each feature; the mean of more is less a matter of chance.
        seed: of the permutations.
        overrides, part, source, batch_size: what is evaluated and how, as for ``load_evaluation``.
        progress: called with (rows done, rows in all).

    Raises:
        ConfigurationError: the run reads no context.
        RunDirectoryError: the directory is incomplete, from another version, or without weights.
        DataError: each feature is the same in every row.
        DataError, SchemaError, UnknownNameError: the table does not fit the run.
    """
    if num_permutations < 1:
        raise ConfigurationError(
            "is not allowed", setting="num_permutations", value=num_permutations, fix="Give 1 or more."
        )
    how = _Replacing("permute", num_permutations, seed)
    return _importance(
        directory, how, overrides=overrides, part=part, source=source, batch_size=batch_size, progress=progress
    )


def ablate_features(
    directory: Path | FinishedRun,
    *,
    overrides: Mapping[str, Any] | None = None,
    part: str | None = None,
    source: Frame | None = None,
    batch_size: int | None = None,
    progress: Progress | None = None,
) -> RunImportance:
    """Measure importance by absence: the rise of the cross-entropy when one context feature is missing everywhere.

    A feature that says the same in every row is judged, too. The model is scored 2 + features times. Where training
    never lacked a feature, its state missing was never learned.

    Args:
        directory: the run directory; or what ``finished_run`` gave for it.
        overrides, part, source, batch_size: what is evaluated and how, as for ``load_evaluation``.
        progress: called with (rows done, rows in all).

    Raises:
        ConfigurationError, RunDirectoryError, DataError, SchemaError, UnknownNameError: as ``permute_features``.
    """
    how = _Replacing("missing", 1, 0)
    return _importance(
        directory, how, overrides=overrides, part=part, source=source, batch_size=batch_size, progress=progress
    )


class _Replacing(NamedTuple):
    """Way of replacing a feature: by other rows' values or by missing, how often, and the seed."""

    by: Replacement
    num: int
    seed: int


def _importance(
    directory: Path | FinishedRun,
    how: _Replacing,
    *,
    overrides: Mapping[str, Any] | None,
    part: str | None,
    source: Frame | None,
    batch_size: int | None,
    progress: Progress | None,
) -> RunImportance:
    """Score a run with each feature replaced, and all together."""
    run = finished_run(directory)
    # Of sequences the order is permuted as well.
    is_sequence = run.recipe.task.has_items and run.recipe.set_task.hide == "next"
    further = [ORDER_OF_ITEMS] if is_sequence and how.by == "permute" else []
    if not has_context(run.recipe) and not further:
        raise ConfigurationError(
            Message(
                "was trained with {conditioning}, which reads no context: there is no feature to attribute anything to",
                conditioning=run.recipe.conditioning,
            ),
            place=PathPlace(run.directory),
            fix="Name the run of another method.",
        )
    data = load_evaluation(run, overrides=overrides, part=part, source=source, batch_size=batch_size)
    dataset = data.dataset
    if how.by == "permute" and len(dataset) < 2:
        name = data.settings.set_name
        raise DataError(
            f"only one {name} is evaluated: its context has nothing to be exchanged with",
            file=data.recipe.data,
            fix=f"Name another --part, or a table with more {name}s.",
        )
    nothing = _without_context(data)
    read = {name: tensor for name, tensor in dataset.context.items() if name not in data.silenced}
    read = read if has_context(run.recipe) else {}
    if not read and not further:
        raise DataError(
            f"{run.directory} silenced each field of its context ({', '.join(data.silenced)}): it reads none to judge",
            file=data.recipe.data,
            fix=Message("Train with {field_selection}.", field_selection="off"),
        )
    same = constant_features(read)
    if how.by == "missing":
        same = tuple(name for name in same if _is_equal(dataset.context[name], nothing[name]))
    features = [*(name for name in read if name not in same), *further]
    if not features:
        where = f"of the {part} part" if part is not None else "that is evaluated"
        raise DataError(
            f"each feature of the context is the same in every {data.settings.set_name} {where} ({', '.join(same)}), "
            "so none can be judged there",
            file=data.recipe.data,
            fix=f"Name another --part{_TAKE_AWAY if how.by == 'permute' else ''}.",
        )
    of_context = [name for name in features if name not in further]
    together = [(ALL_FEATURES, of_context)] if of_context else []  # of the order alone there is nothing else
    groups = [*together, *((name, [name]) for name in features)]
    num_passes, num_done = len(groups) * how.num + 1, 0

    def shown(done: int, total: int) -> None:
        if progress is not None:
            progress(num_done * total + done, num_passes * total)

    true = data.score(dataset, progress=shown)
    permuted: list[list[Scores]] = []
    for name, members in groups:
        permuted.append([])
        for number in range(how.num):
            num_done += 1
            if members == further:
                exchanged = with_shuffled_items(dataset, number=number, seed=how.seed, longest=positions_of(data.model))
            elif how.by == "missing":
                exchanged = dataset.with_context({**dataset.context, **{each: nothing[each] for each in members}})
            else:
                donors = donor_of(dataset.example_ids.numpy(), feature=name, number=number, seed=how.seed)
                exchanged = with_permuted(dataset, members, donors)
            permuted[-1].append(data.score(exchanged, progress=shown))
    importances = measure_importances(
        true,
        dict(zip(features, permuted[len(together) :], strict=True)),
        together=permuted[0],
        clusters=data.customers(true),
        num_items=data.num_choices,
        settings=data.settings,
        permutation_seed=how.seed,
        provenance=data.provenance(),
    )
    importances = replace(importances, constant=same, replaced_by=how.by)
    if not together:
        importances = replace(importances, rows=importances.rows[1:])
    num_unknown = true.num_unknown_targets
    return RunImportance(importances, num_unknown, data.lines(num_unknown=num_unknown))


def _without_context(data: Evaluator) -> dict[str, Tensor]:
    """The context of rows of which nothing is known, as the run's model reads it."""
    own: Mapping[str, Tensor] = data.dataset.context
    if data.schema is None or data.recipe.conditioning == CONTEXT_AS_TEXT:  # words, of which none are said
        return {name: torch.zeros_like(ids) for name, ids in own.items()}
    return missing_context(data.schema.layout, len(data.dataset))


def _is_equal(one: Tensor, other: Tensor) -> bool:
    return one.shape == other.shape and bool((one[:] == other).all())


def donor_of(example_ids: NDArray[np.int64], *, feature: str, number: int, seed: int) -> NDArray[np.int64]:
    """For each row the place of the row whose value it is given: a permutation of the sets or texts.

    Args:
        example_ids: of the sets or texts; rows that share one, windows of a question, are given the same value.
        feature: what is permuted.
        number: which of several permutations.
        seed: of all of them.

    Example:
        >>> sorted(donor_of(np.array([7, 3, 9]), feature="age", number=0, seed=0).tolist())
        [0, 1, 2]
    """
    name = hash_strings(pa.array([feature]), seed=seed).view(np.int64)
    # The receivers in the order of their ids, so that the same two meet whatever the order of the rows.
    ids, places, receiver = np.unique(example_ids, return_index=True, return_inverse=True)
    keys = hash_counters(name, number, ids)
    return places[np.argsort(keys, kind="stable")][receiver]


def with_permuted(dataset: SequenceDataset, features: Iterable[str], donors: NDArray[np.int64]) -> SequenceDataset:
    """The same sets or texts, these features of each taken from its donor; the data set given stays as it is."""
    index, own = torch.from_numpy(donors), dataset.context
    return dataset.with_context({**own, **{name: rows_of(own[name], index) for name in features}})
