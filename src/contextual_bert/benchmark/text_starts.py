"""What a run on texts starts from: a BERT, or another run, with a context, that it goes on from."""

from pathlib import Path
from typing import cast

from contextual_bert.benchmark.checks import CONTEXT_AS_TEXT
from contextual_bert.benchmark.prepared import check_brought, check_unlearned, num_trained_by
from contextual_bert.benchmark.run_directories import is_run, load_recipe
from contextual_bert.context import ContextSchema
from contextual_bert.data import Split
from contextual_bert.errors import CheckpointError, ConfigurationError
from contextual_bert.inference.text_baseline import holds_baseline
from contextual_bert.models import ContextualBertProcessor
from contextual_bert.models.continued import context_config
from contextual_bert.training import TextTask
from contextual_bert.training.recipe import Recipe


def method_of(checkpoint: str) -> str | None:
    """The method, as recipes name it, of the model with a context that is gone on from; None where it is a BERT.

    Args:
        checkpoint: folder or name on the Hub.
    """
    found = context_config(checkpoint)
    if found is None:
        return None
    return CONTEXT_AS_TEXT if found.has_context_as_text else found.conditioning


def reader_of(recipe: Recipe) -> ContextualBertProcessor | None:
    """The processor of the model with a context that a recipe goes on from; None where it starts from a BERT.

    Raises:
        RunDirectoryError: an interrupted run, or one whose weights were not kept.
        CheckpointError: a run on sets, or of a baseline; its processor cannot be read.
        ConfigurationError: the recipe asks for other features, draws all weights, or learns what the run reads.
    """
    task = cast(TextTask, recipe.texts)
    folder = Path(task.checkpoint)
    if is_run(folder):
        if load_recipe(folder).texts is None:
            raise CheckpointError(f"{folder} is a run on sets of items, and these are texts. Give a BERT.")
        if holds_baseline(folder):
            raise CheckpointError(f"{folder} is a run of a baseline, which has no BERT. Give a run of a method.")
    if (config := context_config(task.checkpoint)) is None:
        return None
    if task.is_from_scratch:
        raise ConfigurationError(
            f"{task.checkpoint} has a context already, and is_from_scratch (--from-scratch) takes the sizes of a BERT. "
            "Name that BERT, or leave it out."
        )
    try:
        processor = ContextualBertProcessor.from_pretrained(task.checkpoint).with_context_as("values")
    except (OSError, ValueError) as error:
        raise CheckpointError(
            f"{task.checkpoint}: its processor cannot be read ({str(error).strip().splitlines()[0]}). Give the folder "
            "of a whole run, with processor_config.json and tokenizer.json."
        ) from error
    schema = processor.schema
    check_brought(recipe, run=task.checkpoint)
    if recipe.exclude:
        raise ConfigurationError(
            f"exclude={recipe.exclude} (--exclude) says what of the table is no context, and {task.checkpoint} brings "
            "the features. Leave it out."
        )
    if recipe.schema is not None and ContextSchema.from_dict(dict(recipe.schema)) != schema:
        raise ConfigurationError(
            f"{task.checkpoint} was trained with another schema. Leave --schema out: the run brings its own."
        )
    check_unlearned(schema, recipe, run=task.checkpoint)
    processor.tokenizer.model_max_length = config.max_position_embeddings  # not what that run was cut to
    return processor


def seen_lines(checkpoint: str, split: Split, part: str) -> list[str]:
    """A warning where the run that is gone on from was trained on rows that are to be evaluated now.

    Args:
        checkpoint: folder or name on the Hub.
        split: of the new run.
        part: what is evaluated.
    """
    path = Path(checkpoint) / "split.json"
    seen = num_trained_by(Split.load(path), split, part) if path.is_file() else 0
    if not seen:
        return []
    rows = f"{seen:,} of the {len(split.rows(part)):,} rows of the {part} part"
    return [f"leak: {checkpoint} was trained on {rows}. Give its split: --split {path}"]
