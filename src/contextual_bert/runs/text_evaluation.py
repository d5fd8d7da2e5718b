"""Load a finished run on texts and the rows that it is evaluated on."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pyarrow as pa

from contextual_bert.data import Split, reading_lines
from contextual_bert.data.columns import checked_column
from contextual_bert.data.splits import PARTS
from contextual_bert.errors import ConfigurationError, DataError, RunDirectoryError
from contextual_bert.frames import Frame
from contextual_bert.inference.saved import check_weights
from contextual_bert.inference.saved_files import check_files, holds_baseline
from contextual_bert.inference.text_baseline import load_text_baseline
from contextual_bert.memory import is_out_of_memory
from contextual_bert.models import ContextualBertProcessor
from contextual_bert.runs.evaluator import (
    BATCH_SIZE,
    EVALUATED,
    WHOLE,
    Evaluator,
    LearnedRows,
    all_rows,
    evaluated_part,
    evaluated_recipe,
    evaluated_rows,
    shuffled_lines,
    split_for,
)
from contextual_bert.runs.prepared_texts import PreparedTexts
from contextual_bert.runs.shifts import LEARNED
from contextual_bert.runs.tasks import task_of
from contextual_bert.runs.tasks.text import TRAINING, TextModelTask
from contextual_bert.training import LabelTask, chosen_device, chosen_dtype
from contextual_bert.training.recipe import Recipe


def load_texts(
    directory: Path,
    own: Recipe,
    *,
    overrides: Mapping[str, Any] | None = None,
    part: str | None = None,
    source: Frame | None = None,
    batch_size: int | None = None,
) -> Evaluator:
    """Load a finished run on texts and read what it is evaluated on.

    Args:
        directory: the run directory.
        own: its recipe.
        overrides, part, source, batch_size: what is evaluated and how, as for ``load_evaluation``.

    Raises:
        ConfigurationError: a column of items.
        RunDirectoryError: the directory is incomplete or from another version.
        DataError, SchemaError, UnknownNameError: the table does not fit the run.
    """
    changes = overrides or {}
    if changes.get("items") is not None:
        raise ConfigurationError(
            f"is for runs on sets, and {directory} was trained on texts",
            setting="items",
            value=changes["items"],
            fix="Leave it out.",
        )
    recipe = evaluated_recipe(own, changes)
    rows = evaluated_rows(recipe, own, source)
    table = rows.table
    for name in (*recipe.task.columns, *([recipe.customer] if recipe.customer is not None else [])):
        checked_column(table, name, file=recipe.data)
    split, sentence = split_for(recipe, directory, table, part)
    chosen = evaluated_part(part)
    is_whole = split is None or part == WHOLE
    if split is None:
        split = all_rows(table)
    if not len(split.rows(chosen)):
        raise DataError(f"no text of the part {chosen!r} is left", file=recipe.data, fix="Name another --part.")
    check_files(directory)
    try:
        processor = ContextualBertProcessor.from_pretrained(directory).with_context_as("values")  # those of segments
        unlabelled = PreparedTexts(
            recipe=recipe,
            split=split,
            processor=processor,
            table=table,
            labels=(),
            origin=rows.without_rows(),
            part_name=WHOLE if is_whole else None,
        )
        asked = cast(TextModelTask, task_of(unlabelled)).model_class
        loaded = load_text_baseline(directory) if holds_baseline(directory) else _loaded(asked, directory)
    except RunDirectoryError:
        raise
    except Exception as error:  # see load_saved
        if is_out_of_memory(error):
            raise
        raise RunDirectoryError(f"{directory} cannot be loaded: {error} Train it again with --overwrite.") from error
    model: Any = loaded[0]
    check_head(model, directory, recipe, asked=asked.__name__)
    names = model.config.id2label if isinstance(recipe.task, LabelTask) else {}
    ready = replace(unlabelled, labels=tuple(names[number] for number in sorted(names)))
    # Only the part that is evaluated: labels that the run does not know may stand in others.
    ready = replace(ready, split=split.restricted(split.assignment == PARTS.index(chosen)))
    with rows.placed():
        ready.customers_of(ready.split.rows(chosen))  # a missing one is found before anything is scored
        cut = ready.texts[chosen].report.lines()
    evaluated = cast(TextModelTask, task_of(ready))
    if model.config.has_context_as_text:
        evaluated.check_words(num_positions=model.config.max_position_embeddings)
    learned = None
    if split.digest == Split.load(directory / "split.json").digest:
        trained = split.rows(LEARNED)
        learned = LearnedRows(table.take(pa.array(trained)), ready.customers_of(trained), ready.names_of(trained))
    return Evaluator(
        directory=directory,
        task=evaluated,
        model=model.to(chosen_device(recipe.device)).eval(),
        part=chosen,
        part_name=EVALUATED if is_whole else chosen,
        batch_size=batch_size or own.training.get(BATCH_SIZE, TRAINING[BATCH_SIZE]),
        dtype=chosen_dtype(recipe.dtype),
        reading=(*reading_lines(table), *rows.lines(), "; ".join((sentence, *shuffled_lines(own))), *cut),
        learned=learned,
        table=table,
    )


def check_head(model: Any, directory: Path, recipe: Recipe, *, asked: str) -> None:
    """Raise DataError where the table's labels ask for another model than the one that was saved."""
    learned = model.config.architectures or []
    if asked not in learned:
        raise DataError(
            f"the labels ask for a {asked}, and {directory} holds a {', '.join(learned)}",
            file=recipe.data,
            column=recipe.text_task.label,
            fix="Give a label for each text where the run had one, and lists of words and tags where it had these.",
        )


def _loaded(model_class: Any, directory: Path) -> tuple[Any]:
    model, found = model_class.from_pretrained(directory, output_loading_info=True)
    if model.config.architectures == [model_class.__name__]:  # that of another head is said by check_head
        check_weights(directory, found)
    return (model,)
