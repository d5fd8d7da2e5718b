"""The pipeline of a folder: that of a run, or of what ``export`` wrote."""

from pathlib import Path
from typing import TYPE_CHECKING, Union

if TYPE_CHECKING:
    from contextual_bert import CompletionPipeline, OnnxCompletionPipeline
    from contextual_bert.data import ReadSettings

EXPORT_FILE = "export.json"  # as in contextual_bert.inference.saved_files


def check_folder(directory: Path) -> None:
    """Raise RunDirectoryError where a folder is neither a finished run nor an export. No model is imported."""
    if (directory / EXPORT_FILE).is_file():
        return
    from contextual_bert.runs.run_directories import load_recipe

    load_recipe(directory)


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
        ConfigurationError: a device that is not there, or that an export cannot run on.
    """
    check_folder(directory)
    if (directory / EXPORT_FILE).is_file():
        from contextual_bert import OnnxCompletionPipeline

        place = None if device == "auto" else device
        return OnnxCompletionPipeline.from_pretrained(directory, device=place, catalogue=catalogue, reading=reading)
    from contextual_bert import CompletionPipeline
    from contextual_bert.training import chosen_device

    place = chosen_device(device)
    return CompletionPipeline.from_pretrained(directory, device=place, catalogue=catalogue, reading=reading)
