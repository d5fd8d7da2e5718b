"""Evaluate a finished run on one part of a table: the evaluator, which rows it takes, where its numbers come from."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import pyarrow as pa
import torch
from numpy.typing import NDArray
from rich.console import Group
from torch import nn

from contextual_bert.context import ContextSchema
from contextual_bert.data import SequenceDataset, SetTable, Split, TextTable, table_digest
from contextual_bert.data.policies import no_order
from contextual_bert.data.splits import PARTS
from contextual_bert.errors import ConfigurationError, DataError
from contextual_bert.evaluation import EvaluationSettings, Provenance, Report, Scores
from contextual_bert.evaluation.calibrated_answers import CalibratedAnswers
from contextual_bert.frames import Frame
from contextual_bert.inference import set_index
from contextual_bert.inference.reread import reread_context
from contextual_bert.places import PathPlace
from contextual_bert.runs.loss_checks import with_new_item_calibration
from contextual_bert.runs.prepared_data import check_grouping, customers_of, num_trained_by
from contextual_bert.runs.provenance import commit, hardware
from contextual_bert.runs.reporting import report_on
from contextual_bert.runs.run_table import RunTable, read_data
from contextual_bert.runs.shifts import LEARNED, encoded_rows, field_lines, name_drift, part_rows
from contextual_bert.runs.tasks import Task
from contextual_bert.training.recipe import READY_PARTS, RECIPE_FILE, SPLIT_FIELDS, Recipe

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
        calibrated: the numbers of calibrated answers, of a run that was calibrated; else None.
    """

    report: Report
    scores: Scores
    num_unknown_targets: int
    lines: tuple[str, ...]
    calibrated: CalibratedAnswers | None = None

    def to_json(self) -> str:
        """Return the report as JSON."""
        return self.report.to_json()

    def to_markdown(self, *, num_segments: int | None = None) -> str:
        """Return tables and footer; at most ``num_segments`` segments, the worst first, or all in order."""
        told = self.report.to_markdown(num_segments=num_segments)
        return told if self.calibrated is None else f"{told}\n{self.calibrated.to_markdown()}"

    def to_rich(self, *, num_segments: int | None = 10) -> Group:
        """Return the same for a terminal."""
        told = self.report.to_rich(num_segments=num_segments)
        return told if self.calibrated is None else Group(told, "", self.calibrated.to_rich())


@dataclass(frozen=True, eq=False, kw_only=True)
class Evaluator:
    """A finished run and the rows that it is evaluated on, loaded once and scored as often as asked.

    Args:
        directory: the run directory.
        ready: the rows, with the run's vocabulary or labels; of no other part than the evaluated one.
        model: that of the run.
        part: the part of the split that is evaluated.
        part_name: what it is called: ``part``, or ``EVALUATED`` for all rows.
        batch_size: rows a forward pass.
        dtype: what the model runs in.
        reading: what was read and which rows are evaluated, for people.
        learned: the sets or texts that the run learned from, where they are in this table.
        table: as it was read.
    """

    directory: Path
    ready: Task
    model: nn.Module
    part: str
    part_name: str
    batch_size: int
    dtype: torch.dtype
    reading: tuple[str, ...]
    learned: SetTable | TextTable | None
    table: pa.Table

    @property
    def recipe(self) -> Recipe:
        """The recipe of the run, with what was overridden."""
        return self.ready.recipe

    @property
    def dataset(self) -> SequenceDataset:
        """The encoded rows."""
        return cast(SequenceDataset, self.ready.dataset(self.recipe, self.part))

    @property
    def schema(self) -> ContextSchema | None:
        """What the context consists of, None of a run without one."""
        return self.ready.processor.schema

    @property
    def num_choices(self) -> int:
        """Among how many items, labels or tokens the true one is ranked."""
        return self.ready.num_choices

    @property
    def settings(self) -> EvaluationSettings:
        """How the rows are evaluated, and what they are called."""
        return self.ready.settings

    def score(self, dataset: SequenceDataset, *, progress: Progress | None = None) -> Scores:
        """Score the run's model on its own rows, or on the same rows with other contexts.

        Raises:
            DataError: the vocabulary knows none of the items; there is nothing to read in the texts.
        """
        self.ready.check_readable(self.part)
        found = self.ready.score_dataset(
            self.model, dataset, self.part, batch_size=self.batch_size, dtype=self.dtype, progress=progress
        )
        if not len(found):
            raise DataError(
                f"none of the {found.num_unknown_targets:,} items is in the vocabulary of {self.directory}",
                file=self.recipe.data,
                column=next(iter(self.recipe.task.columns), None),
                fix="Name the column and the separator that the run was trained with.",
            )
        return found

    def customers(self, scores: Scores) -> NDArray[np.str_] | None:
        """Return the customer of each scored row, None where no column names one."""
        customers = self.ready.customers(self.part)
        return None if customers is None else customers[set_index(self.ready.datasets[self.part], scores.example_id)]

    def evaluate(self, *, progress: Progress | None = None) -> Evaluation:
        """Score every row once and return an ``Evaluation``."""
        scored = self.score(self.dataset, progress=progress)
        report = report_on(
            self.part,
            scored,
            self.ready,
            segments=self.ready.segments(self.part, scored),
            seed=self.recipe.seed,
            known_customers=customers_of(self.learned) if self.learned is not None else None,
        )
        report = with_new_item_calibration(
            report,
            scored,
            self.ready,
            self.model,
            self.dataset,
            part=self.part,
            batch_size=self.batch_size,
            dtype=self.dtype,
            progress=progress,
        )
        return Evaluation(
            replace(report, provenance=self.provenance()),
            scored,
            scored.num_unknown_targets,
            self.lines(num_unknown=scored.num_unknown_targets),
        )

    def lines(self, *, num_unknown: int) -> tuple[str, ...]:
        """Return what was read, how it differs from training, and what could not be ranked, for people."""
        shifts, unranked = self._shift_lines(), self.ready.unranked_lines(self.part, num_unknown)
        return (*self.reading, *self._silenced_lines(), *shifts, *unranked)

    @property
    def silenced(self) -> tuple[str, ...]:
        """Names of the fields that the run's own selection silenced."""
        return self.schema.silenced_names if self.schema is not None else ()

    def _silenced_lines(self) -> list[str]:
        """Return a line on the fields that the run does not read, so that nobody looks for them among the segments."""
        if not self.silenced:
            return []
        return [f"context, silenced: {', '.join(self.silenced)}. The run does not read them: they have no segments"]

    def _shift_lines(self) -> list[str]:
        """Return what differs between training, where it is known, and what is evaluated."""
        parts = {self.part_name: part_rows(self.ready.datasets[self.part], self.ready.customers(self.part))}
        learned, drift = self.learned, list[str]()
        if learned is not None and self.part_name != LEARNED:
            asked = self.ready.split.select(self.ready.examples, self.part).names
            if learned.names is not None and asked is not None:
                drift = name_drift(learned.names, asked, part=self.part_name, what=learned.named)
            if self.schema is not None:
                parts = {LEARNED: encoded_rows(learned.table, self.schema, customer=self.recipe.customer), **parts}
        return [*field_lines(self.schema, parts), *drift]

    def provenance(self) -> Provenance:
        """Return where the numbers come from."""
        return provenance_of(self.table, seed=self.recipe.seed, recipe=f"{self.directory.name}/{RECIPE_FILE}")


def evaluated_recipe(own: Recipe, overrides: Mapping[str, Any]) -> Recipe:
    """The recipe of what is evaluated: in float32 like the numbers of the run itself, whatever it was trained in.

    Where another split is named, how the run's own was made is not said.

    Raises:
        ConfigurationError: a setting of another task, or an order of a run on sets without one.

    Example:
        >>> from contextual_bert.training import SetCompletion
        >>> own = Recipe(data="days.parquet", task=SetCompletion(items="items"), test=0.2, dtype="bfloat16")
        >>> found = evaluated_recipe(own, {"split": "split.json"})
        >>> found.split, found.test, found.dtype
        ('split.json', 0.1, 'float32')
    """
    if overrides.get("order") is not None and own.task.has_items and own.set_task.order is None:
        raise no_order(overrides["order"])
    none = dict.fromkeys(READY_PARTS)
    made = {**SPLIT_FIELDS, **none} if overrides.get("split") is not None else {}
    if overrides.get("data") is not None:
        made = {**made, **none}  # the other table is one file, and has no parts
    fixed = {"split": None, "dtype": "float32", "is_context_shuffled": False, **own.task.unscored_fields}
    changes = {**fixed, **made, **overrides}
    if own.task.has_items and overrides.get("order") == overrides.get("items", own.set_task.items):
        changes["time_gaps"] = False  # items in their order have no times: all gaps are unknown
    return own.changed(**changes)


def evaluated_rows(recipe: Recipe, own: Recipe, source: Frame | None, *, needed: Sequence[str] = ()) -> RunTable:
    """Read the rows that a run is evaluated on; where they are written in another way, its features read them so.

    Args:
        recipe: what ``evaluated_recipe`` says.
        own: the recipe of the run.
        source: the table, where it is in memory.
        needed: as for ``read_data``.
    """
    rows = read_data(recipe, source, needed=needed)
    if recipe.reading == own.reading or recipe.schema is None:
        return rows
    schema = ContextSchema.from_dict(dict(recipe.schema))
    return replace(rows, table=reread_context(rows.table, schema, recipe.reading))


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
                f"was trained on all rows of {recipe.data}: nothing was held out",
                fix="Name another table with --data. Or give --part all for figures on the rows that it has learned.",
                place=PathPlace(directory),
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


def gap_lines(own: Recipe, recipe: Recipe) -> tuple[str, ...]:
    """Return a sentence where a run reads how much time passed between items, and its table has no times."""
    if not own.task.has_items or own.set_task.time_gaps == recipe.set_task.time_gaps:
        return ()
    return ("how much time passed between items is not known: they are read in the order in which they stand",)


def shuffled_lines(own: Recipe) -> tuple[str, ...]:
    """That a control, trained with the contexts of others, is given the true ones here; nothing of other runs."""
    told = "trained with the contexts of others, evaluated with the true ones: not what its metrics.json has"
    return (told,) if own.is_context_shuffled else ()


def provenance_of(table: pa.Table, *, seed: int, recipe: str) -> Provenance:
    """Return the provenance of the numbers."""
    return Provenance(
        data_digest=table_digest(table)[:16], commit=commit(), seeds=(seed,), hardware=hardware(), recipe=recipe
    )


def all_rows(table: pa.Table) -> Split:
    """Return a split in which all rows are the test part."""
    return Split(
        assignment=np.full(table.num_rows, PARTS.index("test"), dtype=np.uint8),
        by="row",
        column=None,
        fractions=(0.0, 1.0),
        seed=None,
        data_digest=table_digest(table),
    )
