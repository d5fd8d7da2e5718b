"""The pipeline of the model that a command uses."""

from collections.abc import Generator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Union

from contextual_bert_cli.output import remark, working

if TYPE_CHECKING:
    from contextual_bert import CompletionPipeline, OnnxCompletionPipeline, TextToTextPipeline
    from contextual_bert.data import ReadSettings
    from contextual_bert.inference.texts.base_question_answering import BaseQuestionAnsweringPipeline
    from contextual_bert.inference.texts.base_text_pipeline import BaseTextPipeline
    from contextual_bert.models.truncation import Truncation


def load_with_notes(
    directory: Path,
    *,
    device: str,
    catalogue: Path | None,
    reading: "ReadSettings | None" = None,
    is_exact: bool = False,
) -> Union["CompletionPipeline", "OnnxCompletionPipeline"]:
    """Return what ``load_pipeline`` does, and say what is to be known of an export and of the catalogue."""
    with working(f"loading {directory}"):
        pipeline = load_pipeline(directory, device=device, catalogue=catalogue, reading=reading, is_exact=is_exact)
    remark(*pipeline.notes())
    return pipeline


def load_pipeline(
    directory: Path,
    *,
    device: str,
    catalogue: Path | None,
    reading: "ReadSettings | None" = None,
    is_exact: bool = False,
) -> Union["CompletionPipeline", "OnnxCompletionPipeline"]:
    """Return the pipeline for a run directory or an export.

    Args:
        directory: of the run or export.
        device: where to run.
        catalogue: file of the shop's items.
        reading: how that file is written.
        is_exact: whether all items are ranked where the run has an index of them, too.

    Raises:
        RunDirectoryError: it is neither a finished run nor an export.
        ConfigurationError: a device that is not there, or that an export cannot run on; a run without torch.
    """
    from contextual_bert.inference.saved_files import RECORD_FILE, check_recipe_file, check_trained

    check_trained(directory)
    if (directory / RECORD_FILE).is_file():
        from contextual_bert import OnnxCompletionPipeline

        place = None if device == "auto" else device
        return OnnxCompletionPipeline.from_pretrained(directory, device=place, catalogue=catalogue, reading=reading)
    check_recipe_file(directory)
    check_has_torch(directory)
    from contextual_bert import CompletionPipeline
    from contextual_bert.training import chosen_device

    place = chosen_device(device)
    return CompletionPipeline.from_pretrained(
        directory, device=place, catalogue=catalogue, reading=reading, is_exact=is_exact
    )


def load_text_with_notes(
    directory: Path, *, device: str, kind: str | None, truncation: "Truncation | None" = None
) -> "BaseTextPipeline | BaseQuestionAnsweringPipeline | TextToTextPipeline":
    """Return what ``load_text_pipeline`` does, and say what is to be known of an export."""
    with working(f"loading {directory}"):
        pipeline = load_text_pipeline(directory, device=device, kind=kind, truncation=truncation)
    remark(*pipeline.notes())
    return pipeline


def load_text_pipeline(
    directory: Path, *, device: str, kind: str | None, truncation: "Truncation | None" = None
) -> "BaseTextPipeline | BaseQuestionAnsweringPipeline | TextToTextPipeline":
    """Return the pipeline of a text model that labels, answers or writes, or of its export.

    Args:
        directory: of the model or export.
        device: where to run.
        kind: of the task that it learned; None: of labels, where the folder does not say it.
        truncation: what is kept of longer texts by a model that labels; None: as in training.

    Raises:
        RunDirectoryError: files are missing or damaged.
        ConfigurationError: a device that is not there, or that an export cannot run on; a run without torch.
    """
    from contextual_bert.inference.saved_files import RECORD_FILE
    from contextual_bert.inference.texts.loaded_pipeline import text_pipeline_of

    if (directory / RECORD_FILE).is_file():
        place = None if device == "auto" else device
        return text_pipeline_of(directory, kind=kind, device=place, truncation=truncation)
    check_has_torch(directory)
    from contextual_bert.training import chosen_device

    return text_pipeline_of(directory, kind=kind, device=chosen_device(device), truncation=truncation)


def calibrate_by(pipeline: Any, directory: Path, coverage: float | None) -> None:
    """Let a pipeline answer by the calibration of its run, where a coverage is asked for.

    Args:
        pipeline: of labels or of sets.
        directory: of the run.
        coverage: how often prediction sets hold the true one; None: answers are as the model gives them.

    Raises:
        RunDirectoryError: a run that was not calibrated, or an export.
        ConfigurationError: a coverage that it was not calibrated for; a model that gives no single label or item.
    """
    if coverage is None:
        return
    from contextual_bert.inference.applied_calibration import calibrate_by_run

    with naming_option("coverage"):
        calibrate_by_run(pipeline, directory, coverage)


@contextmanager
def naming_option(setting: str) -> Generator[None]:
    """Name the option in place of the setting of the same name, where that is at fault.

    Args:
        setting: such as "coverage".
    """
    from contextual_bert.errors import ConfigurationError
    from contextual_bert.places import SettingPlace

    try:
        yield
    except ConfigurationError as error:
        if error.place != SettingPlace(setting):
            raise
        raise error.at(SettingPlace(f"--{setting}")) from error


def check_has_torch(directory: Path) -> None:
    """Raise ConfigurationError where torch, which computes a run, is not installed.

    Args:
        directory: of the run.
    """
    from contextual_bert.errors import ConfigurationError
    from contextual_bert.places import PathPlace

    if find_spec("torch") is None:
        raise ConfigurationError(
            "is a run, and torch, which computes it, is not installed here",
            fix="Name the folder of an export, or run: pip install contextual-bert.",
            place=PathPlace(directory),
        )
