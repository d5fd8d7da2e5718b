"""Evaluation data of a finished run: rows of a table, their scores and the provenance of the numbers.

It scores nothing.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from rich.console import Group

from contextual_bert.context import ContextSchema
from contextual_bert.data import Split, table_digest
from contextual_bert.data.splits import PARTS
from contextual_bert.errors import ConfigurationError
from contextual_bert.evaluation import EvaluationSettings, Provenance, Report, Scores
from contextual_bert.inference import ScoredSet
from contextual_bert.runs.environment import commit, hardware
from contextual_bert.runs.prepared import check_grouping, num_trained_by
from contextual_bert.training.recipe import READY_PARTS, SPLIT_FIELDS, Recipe

Progress = Callable[[int, int], None]
BATCH_SIZE = "per_device_eval_batch_size"
WHOLE = "all"
EVALUATED = "evaluated"  # the name of rows that are no part of a split


@dataclass(frozen=True, eq=False)
class Evaluation:
    """A report and what it is about.

    Args:
        report: the numbers.
        scores: the rows they were computed from.
        num_unknown_targets: positions left out because their item is not in the vocabulary: it cannot be ranked.
        lines: what was read, for people.
    """

    report: Report
    scores: Scores
    num_unknown_targets: int
    lines: tuple[str, ...]

    def to_json(self) -> str:
        """Return the report as JSON."""
        return self.report.to_json()

    def to_markdown(self, *, num_segments: int | None = None) -> str:
        """Return tables and footer; at most ``num_segments`` segments, the worst first, or all in order."""
        return self.report.to_markdown(num_segments=num_segments)

    def to_rich(self, *, num_segments: int | None = 10) -> Group:
        """Return the same for a terminal."""
        return self.report.to_rich(num_segments=num_segments)


class EvaluationData(Protocol):
    """A finished run and what it is evaluated on, loaded once and scored as often as asked.

    Relation to its siblings:
        ``EvaluatedSets`` and ``EvaluatedTexts`` are its two kinds; ``load_evaluation`` makes the one of a run.
    """

    @property
    def recipe(self) -> Recipe:
        """That of the run, with what was overridden."""
        ...

    @property
    def dataset(self) -> Any:
        """The encoded rows, a SequenceDataset or a SequenceDataset."""
        ...

    @property
    def schema(self) -> ContextSchema | None:
        """Return the schema of the context, or None for a run without one."""
        ...

    @property
    def num_choices(self) -> int:
        """Among how many items, labels or tokens the true one is ranked."""
        ...

    @property
    def settings(self) -> EvaluationSettings:
        """Return the evaluation settings, with the names of rows."""
        ...

    def score(self, dataset: Any, *, progress: Progress | None = None) -> ScoredSet:
        """The scores of the run's model on ``dataset``: its own, or the same rows with other contexts."""
        ...

    def customers(self, scores: Scores) -> NDArray[np.str_] | None:
        """The customer of each scored row, None where no column names one."""
        ...

    def evaluate(self, *, progress: Progress | None = None) -> Evaluation:
        """Score the data set and report on it."""
        ...

    def lines(self, *, num_unknown: int) -> tuple[str, ...]:
        """Return sentences on what was read and could not be ranked."""
        ...

    def provenance(self) -> Provenance:
        """Return the provenance of the numbers."""
        ...


def evaluated_recipe(own: Recipe, overrides: Mapping[str, Any]) -> Recipe:
    """The recipe of what is evaluated: in float32 like the numbers of the run itself, whatever it was trained in.

    Where another split is named, how the run's own was made is not said.

    Example:
        >>> own = Recipe(data="days.parquet", items="items", test=0.2, dtype="bfloat16")
        >>> found = evaluated_recipe(own, {"split": "split.json"})
        >>> found.split, found.test, found.dtype
        ('split.json', 0.1, 'float32')
    """
    none = dict.fromkeys(READY_PARTS)
    made = {**SPLIT_FIELDS, **none} if overrides.get("split") is not None else {}
    if overrides.get("data") is not None:
        made = {**made, **none}  # the other table is one file, and has no parts
    changes = dict(overrides)
    scored_tokens = changes.pop("scored_tokens", None)
    if scored_tokens is not None and own.texts is None:
        raise ConfigurationError(
            "is for hidden tokens of texts, and this run is on sets",
            setting="scored_tokens",
            value=scored_tokens,
            fix="Leave it out.",
        )
    if scored_tokens is not None and own.texts is not None:
        changes["texts"] = replace(own.texts, scored_tokens=scored_tokens)
    return replace(own, **{"split": None, "dtype": "float32", **made, **changes})


def evaluated_part(part: str | None) -> str:
    """The part of a split that is evaluated: that of test if none was named, which all rows are, too."""
    return "test" if part is None or part == WHOLE else part


def split_for(recipe: Recipe, directory: Path, table: pa.Table, part: str | None) -> tuple[Split | None, str]:
    """The split that the part is of, None for all rows; and the sentence that says so.

    All rows but those of customers who were left out are the test part of a split.
    """
    own = Split.load(directory / "split.json")
    if part == WHOLE:
        sentence = "evaluated: all rows, those of the training part too if the table has them"
        split = Split.load(recipe.split) if recipe.split is not None else own
        if not split.is_of(table) or split.is_in_part.all():
            return None, sentence
        whole = replace(split, assignment=np.full_like(split.assignment, PARTS.index("test")))
        left = int((~split.is_in_part).sum())
        return whole.restricted(
            split.is_in_part
        ), f"{sentence}; left out: {left:,} rows that are in no part of the split"
    if recipe.split is not None:
        split = Split.load(recipe.split)
        check_grouping(split, recipe)
        split.check(table, file=recipe.data)
        num_rows, learned = len(split.rows(part or "test")), num_trained_by(own, split, part or "test")
        warned = f"; warning: the run was trained on {learned:,} of these {num_rows:,} rows" if learned else ""
        return split, f"evaluated: the {part or 'test'} part of {recipe.split}{warned}"
    if own.is_of(table):
        if part is None and not any(len(own.rows(each)) for each in ("validation", "test")):
            raise ConfigurationError(
                f"{directory} was trained on all rows of {recipe.data}: nothing was held out",
                fix="Name another table with --data. Or give --part all for figures on the rows that it has learned.",
            )
        return own, f"evaluated: the {part or 'test'} part of the split that the run was trained with"
    if part is not None:
        raise ConfigurationError(
            f"of which split? {recipe.data} is not the table that the run was trained with",
            setting="part",
            value=part,
            fix="Name a split file with --split, or leave --part out to evaluate all rows.",
        )
    return None, "evaluated: all rows, for this is not the table that the run was trained with"


def shuffled_lines(own: Recipe) -> tuple[str, ...]:
    """That a control, trained with the contexts of others, is given the true ones here; nothing of other runs."""
    told = "trained with the contexts of others, evaluated with the true ones: not what its metrics.json has"
    return (told,) if own.is_context_shuffled else ()


def provenance_of(table: pa.Table, *, seed: int, recipe: str) -> Provenance:
    """Return the provenance of the numbers."""
    return Provenance(
        data_digest=table_digest(table)[:16], commit=commit(), seeds=(seed,), hardware=hardware(), recipe=recipe
    )
