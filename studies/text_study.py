"""The contextual NLP benchmark: what its tasks share, from the files of a task to its study.

A task says what is read, how it is split and which rows a size has; methods, controls and baselines are the same for
all. The checkpoint is whatever BERT is at hand, and stands in every recipe.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pyarrow.parquet as parquet

from contextual_bert.atomic_files import replacing_directory
from contextual_bert.baselines.names import TEXT_BASELINES, baselines_of
from contextual_bert.data import read_table, table_digest
from contextual_bert.data.checked_columns import checked_column
from contextual_bert.errors import ConfigurationError, DataError, UnknownNameError, did_you_mean
from contextual_bert.evaluation import Run, Study
from contextual_bert.runs import TextModelTask, prepare
from contextual_bert.runs.grid import named_rows
from contextual_bert.runs.registry import check_jobs, checked_epochs
from contextual_bert.runs.run_directory import START, WEIGHTS_FILE, is_complete
from contextual_bert.runs.study_report import Peers, study
from contextual_bert.runs.sweep import run_directory, train_missing
from contextual_bert.training.recipe import Recipe
from studies.cards import TaskCard
from studies.text_grid import RowSettings, text_rows

DATA_FOLDER, TABLE_FILE, SPLIT_FILE = "data", "table.parquet", "split.json"


@dataclass(frozen=True, kw_only=True)
class ExtraRows:
    """Which of a task's ``extra_rows`` are wanted, and how: as the arguments of ``run_text_study``."""

    names: Sequence[str]
    num_seeds: int
    is_report_only: bool
    num_jobs: int
    say: Callable[[str], None]


@dataclass(frozen=True, kw_only=True)
class TextSize:
    """Which rows a size has and how long they train.

    Args:
        seeds: row -> how many seeds it has at most.
        training: fields of ContextualTrainingArguments of every model that starts from the checkpoint.
        baseline_training: those of what starts from nothing.
        max_length: tokens of a text.
        row_settings: row -> in what it differs from the others.
        start: training of one model without a context, from which every other starts; None: from the checkpoint itself.
    """

    seeds: Mapping[str, int]
    training: Mapping[str, Any]
    max_length: int
    baseline_training: Mapping[str, Any] = field(
        default_factory=lambda: {"num_train_epochs": 20, "learning_rate": 1e-3, "lr_scheduler_type": "cosine"}
    )
    row_settings: Mapping[str, RowSettings] = field(default_factory=dict[str, RowSettings])
    start: Mapping[str, Any] | None = None


@dataclass(frozen=True, kw_only=True)
class TextBenchmark:
    """A task on texts.

    Args:
        card: what it is about.
        read: (folder of the raw files, folder to write split.json into where the split is given) -> the table.
        recipe: (path of the table, path of a given split) -> columns, split and schema, without a checkpoint's sizes.
        sizes: name -> size.
        extra_rows: names of rows that are not trained from such a recipe.
        extra: (data, folder of the runs, which rows and how) -> the runs of these.
    """

    card: TaskCard
    read: Callable[[Path, Path], pa.Table]
    recipe: Callable[[Path, str], Recipe]
    sizes: Mapping[str, TextSize]
    extra_rows: tuple[str, ...] = ()
    extra: "Callable[[TextStudyData, Path, ExtraRows], Sequence[Run]]" = lambda *_: ()


@dataclass(frozen=True, eq=False)
class TextStudyData:
    """The texts of a task, read, split and encoded for all rows."""

    task: TextBenchmark
    prepared: TextModelTask
    size: TextSize

    @property
    def start(self) -> Recipe | None:
        """The run that every row starts from, None where it is the checkpoint."""
        training = self.size.start
        recipe = self.prepared.recipe
        return replace(recipe, conditioning="none", name=START, training=training) if training is not None else None

    def starting_from(self, run: Path) -> "TextStudyData":
        """The same for rows that start from the model of a run without a context."""
        recipe = self.prepared.recipe
        texts = replace(self.prepared.recipe.text_task, checkpoint=str(run))
        return replace(self, prepared=replace(self.prepared, recipe=replace(recipe, task=texts)))

    def rows(self, names: Sequence[str] = ()) -> dict[str, Recipe]:
        """Row -> recipe, in the table's order; all rows of the size unless some are named.

        Raises:
            UnknownNameError: no such row.
        """
        every = text_rows(replace(self.prepared.recipe, training=self.size.training), self.size.baseline_training)
        for row, own in self.size.row_settings.items():
            if row not in every:  # of a baseline that this task cannot have
                continue
            every[row] = replace(
                every[row],
                training={**every[row].training, **own.get("training", {})},
                model={**every[row].model, **own.get("model", {})},
            )
        possible = baselines_of(self.prepared.head)
        every = {
            row: recipe
            for row, recipe in every.items()
            if recipe.conditioning not in TEXT_BASELINES or recipe.conditioning in possible
        }
        own = names or [row for row in every if row in self.size.seeds]
        return named_rows(every, own, beside=self.task.extra_rows)

    def chosen(self, names: Sequence[str]) -> tuple[dict[str, Recipe], list[str]]:
        """The recipes of these rows, and which of them are the task's ``extra_rows``; all if none is named.

        Raises:
            UnknownNameError: no such row.
            ConfigurationError: nothing but extra rows, which stand beside others.
        """
        extra = [name for name in self.task.extra_rows if name in names or not names]
        own = [name for name in names if name not in extra]
        if names and not own:
            raise ConfigurationError(
                f"{', '.join(extra)} stands beside rows that are trained",
                fix="Name one of these too, for instance none.",
            )
        return self.rows(own), extra


def task_table(task: TextBenchmark, source: Path, folder: Path) -> Path:
    """The table of a task in ``folder``, read from the raw files where it is not there yet."""
    path = folder / TABLE_FILE
    if not path.exists():
        with replacing_directory(folder) as written:
            parquet.write_table(task.read(source, written), written / TABLE_FILE)
    return path


def prepare_text_study(
    task: TextBenchmark,
    source: Path,
    folder: Path,
    *,
    checkpoint: str,
    size: str = "small",
    epochs: int | None = None,
    device: str = "auto",
    dtype: str = "bfloat16",
) -> TextStudyData:
    """Read the raw files of a task into ``folder``, or take what is there, and prepare them.

    Args:
        task: the task.
        source: folder of its raw files.
        folder: where the table and a given split are kept.
        checkpoint: folder of a BERT, or its name on the Hub.
        size: of the task's sizes.
        epochs: of all that starts from the checkpoint; None: those of the size.
        device: of the runs.
        dtype: of the runs: "bfloat16", "float32" for a processor that must emulate it, or "auto".

    Raises:
        UnknownNameError: no such size.
        ConfigurationError: no epochs.
        DataError: the raw files are missing or others.
    """
    if size not in task.sizes:
        raise UnknownNameError(f"Unknown size {size!r}", allowed=did_you_mean(size, task.sizes))
    chosen = task.sizes[size]
    if epochs is not None:
        asked = {"num_train_epochs": checked_epochs(epochs)}
        start = {**chosen.start, **asked} if chosen.start is not None else None
        chosen = replace(chosen, training={**chosen.training, **asked}, start=start)
    path = task_table(task, source, folder)
    recipe = task.recipe(path, checkpoint)
    table = read_table(path)
    digest = table_digest(table)
    if digest != task.card.data_digest:
        raise DataError(
            f"the table has the hash {digest[:16]}, that of the task {str(task.card.data_digest)[:16]}",
            file=str(path),
            fix="Give the files that the task's card names, in an empty output folder.",
        )
    whole = recipe.changed(max_length=chosen.max_length, training=chosen.training, device=device, dtype=dtype)
    prepared = cast(TextModelTask, prepare(whole, source=table))
    return TextStudyData(task, prepared, chosen)


def run_text_study(
    data: TextStudyData,
    output: Path,
    *,
    rows: Sequence[str] = (),
    num_seeds: int = 3,
    reference: str | None = None,
    is_report_only: bool = False,
    num_jobs: int = 1,
    say: Callable[[str], None] = print,
) -> Study:
    """Train what is missing of the rows and compare all of them on the same labels or hidden tokens.

    Args:
        data: of ``prepare_text_study``.
        output: folder of the runs; a complete run is not run again.
        rows: names of rows; all of the size and the task's ``extra_rows`` if none is given.
        num_seeds: seeds of each row, but no more than the size gives it.
        reference: the row that the others are compared with; None: ``none``, or the first row where that is not there.
        is_report_only: train nothing and compare the runs that are complete.
        num_jobs: how many runs are trained beside each other, see ``train_missing``.
        say: where sentences about the progress go.

    Raises:
        ConfigurationError: a run in the folder has other settings; nothing to report on.
        UnknownNameError: no such row; the reference is not among the rows.
    """
    if num_seeds < 1:
        raise ConfigurationError("is not allowed", setting="num_seeds", value=num_seeds, fix="Give 1 or more.")
    check_jobs(num_jobs)
    about = data.task.card.lines()[1:]
    data.chosen(rows)  # a misspelt row is found before the start is trained
    start = data.start
    folder = run_directory(output, start) if start is not None else None
    if start is not None and folder is not None:
        if not is_report_only or is_complete(folder):
            train_missing([(start, data.prepared)], output, say=say)
        data = data.starting_from(folder)
        epochs = start.training["num_train_epochs"]
        about.append(
            f"every row starts from one model without a context ({START}, seed {start.seed}), trained for {epochs} "
            "epochs on the same training part; its seconds are in none of theirs"
        )
    chosen, extra_names = data.chosen(rows)
    extra = ExtraRows(names=extra_names, num_seeds=num_seeds, is_report_only=is_report_only, num_jobs=num_jobs, say=say)
    most = data.size.seeds
    recipes = [
        recipe.with_seed(seed)
        for seed in range(num_seeds)
        for recipe in chosen.values()
        if seed < most.get(recipe.label, num_seeds)
    ]
    if folder is not None and not is_report_only and not (folder / WEIGHTS_FILE).is_file():
        missing = [recipe.label for recipe in recipes if not is_complete(run_directory(output, recipe))]
        if missing:
            raise ConfigurationError(
                f"{missing[0]} starts from {folder}, whose weights were not kept",
                fix="Give another output, or remove that folder and the rows that started from it: trained again "
                "elsewhere it is another start.",
            )
    found = study(
        data.task.card.title,
        recipes,
        output,
        prepared=data.prepared,
        peers=Peers(reference=reference, extra=data.task.extra(data, output, extra)),
        is_report_only=is_report_only,
        num_jobs=num_jobs,
        say=say,
    )
    return replace(found, about=tuple(about))


def required(table: pa.Table, columns: Sequence[str], *, file: Path) -> pa.Table:
    """These columns of a table, complete.

    Raises:
        UnknownNameError, DataError: one is not there, or a cell of it is missing.
    """
    return pa.table({name: checked_column(table, name, file=str(file), complete=True) for name in columns})
