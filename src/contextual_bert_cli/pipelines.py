"""The pipeline of the model that a command uses."""

from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Union

from contextual_bert_cli.output import remark, working

if TYPE_CHECKING:
    from contextual_bert import CompletionPipeline, OnnxCompletionPipeline
    from contextual_bert.data import ReadSettings


def load_with_notes(
    directory: Path, *, device: str, catalogue: Path | None, reading: "ReadSettings | None" = None
) -> Union["CompletionPipeline", "OnnxCompletionPipeline"]:
    """Return what ``load_pipeline`` does, and say what is to be known of an export and of the catalogue."""
    with working(f"loading {directory}"):
        pipeline = load_pipeline(directory, device=device, catalogue=catalogue, reading=reading)
    remark(*pipeline.notes())
    return pipeline


def load_pipeline(
    directory: Path, *, device: str, catalogue: Path | None, reading: "ReadSettings | None" = None
) -> Union["CompletionPipeline", "OnnxCompletionPipeline"]:
    """Return the pipeline for a run directory or an export.

    Args:
        directory: of the run or export.
        device: where to run.
        catalogue: file of the shop's items.
        reading: how that file is written.

    Raises:
        RunDirectoryError: it is neither a finished run nor an export.
        ConfigurationError: a device that is not there, or that an export cannot run on; a run without torch.
    """
    from contextual_bert.errors import ConfigurationError
    from contextual_bert.inference.saved_files import RECORD_FILE, check_recipe_file, check_trained

    check_trained(directory)
    if (directory / RECORD_FILE).is_file():
        from contextual_bert import OnnxCompletionPipeline

        place = None if device == "auto" else device
        return OnnxCompletionPipeline.from_pretrained(directory, device=place, catalogue=catalogue, reading=reading)
    check_recipe_file(directory)
    if find_spec("torch") is None:
        from contextual_bert.places import PathPlace

        raise ConfigurationError(
            "is a run, and torch, which computes it, is not installed here",
            fix="Name the folder of an export, or run: pip install contextual-bert.",
            place=PathPlace(directory),
        )
    from contextual_bert import CompletionPipeline
    from contextual_bert.training import chosen_device

    place = chosen_device(device)
    return CompletionPipeline.from_pretrained(directory, device=place, catalogue=catalogue, reading=reading)
