"""Attribution of a run's gain to the features of its context: each is permuted among the rows and all is scored again.

Nothing is trained: a feature is taken from a finished model by giving each set, or text, the value of another, so the
values stay those of the data and only their tie to the items or labels is cut. Which rows swap is a pure function of
seed, feature and number of the permutation: it depends on no other feature and not on the order of the rows.

Paper: not there. Reference: Breiman 2001, section 10. PROTOCOL, points 9 and 10.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import torch
from numpy.typing import NDArray

from contextual_bert.benchmark.building import has_context
from contextual_bert.benchmark.evaluated import Progress
from contextual_bert.benchmark.evaluation import load_evaluation
from contextual_bert.benchmark.run_directories import load_recipe
from contextual_bert.data import SetDataset, TextDataset
from contextual_bert.data.hashing import hash_counters, hash_strings
from contextual_bert.errors import ConfigurationError, DataError
from contextual_bert.evaluation import FeatureImportances, Scores, measure_importances
from contextual_bert.evaluation.importance import ALL_FEATURES
from contextual_bert.frames import Frame

Rows = TypeVar("Rows", SetDataset, TextDataset)


@dataclass(frozen=True, eq=False)
class Attribution:
    """What a run takes from each feature, and what it was measured on.

    Args:
        importances: the numbers.
        num_unknown_targets: positions left out because their item is not in the vocabulary: it cannot be ranked.
        lines: what was read, for people.
    """

    importances: FeatureImportances
    num_unknown_targets: int
    lines: tuple[str, ...]


def attribute_run(
    directory: Path,
    *,
    num_permutations: int = 1,
    seed: int = 0,
    overrides: Mapping[str, Any] | None = None,
    part: str | None = None,
    source: Frame | None = None,
    batch_size: int | None = None,
    progress: Progress | None = None,
) -> Attribution:
    """How much the cross-entropy of a run rises when each feature of its context is permuted among the sets, or texts.

    The model is scored (1 + features) x num_permutations + 1 times.

    Args:
        directory: the run directory.
        num_permutations: of each feature; the mean of more is less a matter of chance.
        seed: of the permutations.
        overrides, part, source, batch_size: what is evaluated and how, as for ``load_evaluation``.
        progress: called with (rows done, rows in all).

    Raises:
        ConfigurationError: the run reads no context.
        RunDirectoryError: the directory is incomplete, from another version, or without weights.
        DataError, SchemaError, UnknownNameError: the table does not fit the run.
    """
    if num_permutations < 1:
        raise ConfigurationError(f"num_permutations={num_permutations}: give 1 or more.")
    recipe = load_recipe(directory)
    if not has_context(recipe):
        raise ConfigurationError(
            f"{directory} was trained with conditioning={recipe.conditioning!r}, which reads no context: there is no "
            "feature to attribute anything to. Name the run of another method."
        )
    data = load_evaluation(directory, overrides=overrides, part=part, source=source, batch_size=batch_size)
    dataset, features = data.dataset, list(data.dataset.context)
    if len(dataset) < 2:
        name = data.settings.set_name
        raise DataError(
            f"only one {name} is evaluated: its context has nothing to be exchanged with",
            file=data.recipe.data,
            fix=f"Name another --part, or a table with more {name}s.",
        )
    groups = [(ALL_FEATURES, features), *((name, [name]) for name in features)]
    num_passes, num_done = len(groups) * num_permutations + 1, 0

    def shown(done: int, total: int) -> None:
        if progress is not None:
            progress(num_done * total + done, num_passes * total)

    true = data.score(dataset, progress=shown)
    permuted: list[list[Scores]] = []
    for name, members in groups:
        permuted.append([])
        for number in range(num_permutations):
            num_done += 1
            donors = donor_of(dataset.example_ids.numpy(), feature=name, number=number, seed=seed)
            exchanged = with_permuted(dataset, members, donors)
            permuted[-1].append(data.score(exchanged, progress=shown).scores)
    importances = measure_importances(
        true.scores,
        dict(zip(features, permuted[1:], strict=True)),
        together=permuted[0],
        clusters=data.customers(true.scores),
        num_items=data.num_choices,
        settings=data.settings,
        permutation_seed=seed,
        provenance=data.provenance(),
    )
    num_unknown = true.num_unknown_targets
    return Attribution(importances, num_unknown, data.lines(num_unknown=num_unknown))


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


def with_permuted(dataset: Rows, features: Iterable[str], donors: NDArray[np.int64]) -> Rows:
    """The same sets or texts, these features of each taken from its donor; the data set given stays as it is."""
    index, own = torch.from_numpy(donors), dataset.context
    return dataset.with_context({**own, **{name: own[name][index] for name in features}})
