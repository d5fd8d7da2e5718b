"""The folder of an export: complete, unchanged, with a record, loaded with errors that name it. It imports no torch."""

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from contextual_bert.errors import ConfigurationError, RunDirectoryError
from contextual_bert.inference.exported.onnx_model import check_installed
from contextual_bert.inference.saved_files import RECORD_FILE, RUN_FILES, check_files
from contextual_bert.json_text import read_json_object
from contextual_bert.memory import is_out_of_memory
from contextual_bert.places import PathPlace


def read_record(directory: Path, *, graph: str) -> dict[str, Any]:
    """Return the record of an export, whose files are all there and unchanged.

    Args:
        directory: the folder.
        graph: name of the file that an export of this kind has.

    Raises:
        RunDirectoryError: no such folder, or a file of it is missing or damaged.
        ConfigurationError: the extra ``onnxruntime`` is not installed.
    """
    check_installed("onnxruntime", extra="onnxruntime")
    files = (graph, RECORD_FILE, *(name for name in RUN_FILES if name != "model.safetensors"))
    missing = [name for name in files if not (directory / name).is_file()]
    if missing:
        raise RunDirectoryError(
            f"is no complete export: {', '.join(missing)} missing",
            fix="Write it with: contextual-bert export RUN --output DIRECTORY.",
            place=PathPlace(directory),
        )
    check_files(directory)
    return read_json_object(directory / RECORD_FILE, fix="Export the run again.")


@contextmanager
def loading(directory: Path) -> Generator[None]:
    """Turn what is amiss in the files of an export into an error that names it.

    Raises:
        RunDirectoryError: a file cannot be loaded.
    """
    try:
        yield
    except RunDirectoryError:
        raise
    except Exception as error:  # onnxruntime's own classes have no common base but this one
        if is_out_of_memory(error):
            raise
        raise RunDirectoryError(
            f"cannot be loaded: {error} Export the run again.", place=PathPlace(directory)
        ) from error


def check_cpu(device: str | None) -> None:
    """Raise ConfigurationError for a device other than the CPU.

    Example:
        >>> check_cpu("cpu")
    """
    if str(device or "cpu").partition(":")[0] != "cpu":
        raise ConfigurationError(
            "is not allowed: an exported model runs on the CPU", setting="device", value=device, fix="Leave it out."
        )
