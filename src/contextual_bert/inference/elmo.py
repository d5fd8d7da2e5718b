"""The language model in both directions of a folder, whose vectors another model reads beside its words.

It knows no table and no training.
"""

from pathlib import Path
from typing import Any

from contextual_bert.errors import RunDirectoryError
from contextual_bert.inference.saved import check_weights
from contextual_bert.inference.saved_files import check_files, check_holds_elmo
from contextual_bert.memory import is_out_of_memory
from contextual_bert.models.bidirectional_lm import BidirectionalLM, BidirectionalLMConfig
from contextual_bert.models.checkpoint_files import first_line
from contextual_bert.places import PathPlace


def elmo_config(directory: str | Path) -> BidirectionalLMConfig:
    """Return the config of the language model of a folder.

    Raises:
        RunDirectoryError: no such folder, files that are damaged, an interrupted run, or a model of another kind.

    Example:
        >>> elmo_config("runs/no-run")
        Traceback (most recent call last):
        contextual_bert.errors.RunDirectoryError: ...
    """
    check_holds_elmo(directory)
    check_files(directory)
    try:
        return BidirectionalLMConfig.from_pretrained(directory)
    except Exception as error:  # see load_saved
        raise _damaged(directory, error) from error


def load_elmo(directory: str | Path) -> BidirectionalLM:
    """Return the language model of a folder.

    Raises:
        RunDirectoryError: as ``elmo_config``; weights that are damaged, or not all and only those of the model.
    """
    config = elmo_config(directory)
    try:
        loaded: Any = BidirectionalLM.from_pretrained(directory, config=config, output_loading_info=True)
    except Exception as error:  # see load_saved
        if is_out_of_memory(error):
            raise
        raise _damaged(directory, error) from error
    model, found = loaded
    check_weights(directory, found)
    return model


def _damaged(directory: str | Path, error: Exception) -> RunDirectoryError:
    return RunDirectoryError(
        f"cannot be loaded: {first_line(error)} Its files are damaged or from another version",
        fix="Train again.",
        place=PathPlace(directory),
    )
