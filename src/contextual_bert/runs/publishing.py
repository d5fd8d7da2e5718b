"""A run on the Hugging Face Hub: which of its files go there, and what they keep to themselves.

What answers and what a reader wants to know goes; scores of single rows, checkpoints and curves stay, and of paths the
names alone go. It trains nothing. Not in the papers.
"""

import shutil
import tempfile
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

from huggingface_hub import HfApi, constants
from huggingface_hub.errors import HfHubHTTPError, HFValidationError
from huggingface_hub.utils import validate_repo_id

from contextual_bert.errors import ConfigurationError, ContextualBertError
from contextual_bert.inference.saved_files import check_files
from contextual_bert.json_text import json_text, read_json_object
from contextual_bert.manifest import MANIFEST_FILE, RECIPE_FILE, write_manifest
from contextual_bert.runs.card import paths_in, without_folders
from contextual_bert.runs.run_directory import RUN_FILES, SCORES_FILE, load_recipe
from contextual_bert.training.recipe import Recipe

_KEPT_BACK = (SCORES_FILE, MANIFEST_FILE)  # a number for each row, and digests of what changes on the way
_OF_TRAINING = ("output_dir", "logging_dir")
_LOG_IN = "Log in with `hf auth login`, or set HF_TOKEN to a token that may write there."


def published_files(directory: str | Path) -> list[str]:
    """Return the names of the files of a run that are published, beside a manifest of them.

    Raises:
        RunDirectoryError: no complete run, or a file of it was changed.
    """
    folder = Path(directory)
    load_recipe(folder)
    check_files(folder)
    return sorted(name for name in RUN_FILES if name not in _KEPT_BACK and (folder / name).is_file())


def stage_run(directory: str | Path, target: str | Path) -> list[str]:
    """Copy what is published of a run into an empty folder, and return the names of all that is there then.

    Of each path that the recipe names the last part is kept.

    Raises:
        RunDirectoryError: as ``published_files``.
    """
    source, folder = Path(directory), Path(target)
    names = published_files(source)
    for name in names:
        shutil.copyfile(source / name, folder / name)
    recipe = without_paths(read_json_object(source / RECIPE_FILE), Recipe.load(source))
    (folder / RECIPE_FILE).write_text(json_text(recipe) + "\n", encoding="utf-8")
    write_manifest(folder)
    return sorted([*names, MANIFEST_FILE])


def check_repository(name: str) -> None:
    """Raise ConfigurationError for what is no OWNER/NAME of a repository.

    Example:
        >>> check_repository("my-shop/outfits")
    """
    fix = "Give OWNER/NAME, as my-shop/outfits."
    try:
        validate_repo_id(name)
    except HFValidationError as error:
        raise ConfigurationError(f"{name!r} is no repository: {_first_line(error)}", fix=fix) from error
    if "/" not in name:
        raise ConfigurationError(f"{name!r} is no repository: it has no owner", fix=fix)


def publish_run(directory: str | Path, repository: str, *, is_private: bool = True, token: str | None = None) -> str:
    """Upload a run to the Hub as one commit, and return its address.

    Args:
        directory: of a complete run.
        repository: OWNER/NAME; it is made where it is not there.
        is_private: whether a repository that is made is private; one that is there stays what it is.
        token: that may write there; None: the one of `hf auth login`, or of HF_TOKEN.

    Raises:
        RunDirectoryError: no complete run, or a file of it was changed.
        ConfigurationError: no name of a repository; the Hub does not let this token write there; HF_HUB_OFFLINE is set.
        ContextualBertError: the Hub is not reached, or answers an error. Nothing is half there: a commit has all files.
    """
    check_repository(repository)
    published_files(directory)
    if constants.HF_HUB_OFFLINE:
        raise ConfigurationError("HF_HUB_OFFLINE is set, so that nothing is sent to the Hub", fix="Unset it.")
    api = HfApi(token=token, library_name="contextual-bert", library_version=version("contextual-bert"))
    with tempfile.TemporaryDirectory() as folder:
        stage_run(directory, folder)
        try:
            made = api.create_repo(repository, private=is_private, exist_ok=True)
            message = f"Upload a run of contextual-bert {version('contextual-bert')}"
            api.upload_folder(repo_id=made.repo_id, folder_path=folder, commit_message=message)
        except HfHubHTTPError as error:
            status = error.response.status_code
            if status in (401, 403):
                problem = f"The Hub does not let this token write to {repository}: it answers {status}"
                raise ConfigurationError(problem, fix=_LOG_IN) from error
            raise ContextualBertError(f"The Hub answers {status}: {_first_line(error)}", fix="Try again.") from error
        except Exception as error:  # of the HTTP library that the client has, which differs by its version
            raise ContextualBertError(
                f"The Hub at {api.endpoint} is not reached: {_first_line(error)}",
                fix="Look at the network, or HF_ENDPOINT.",
            ) from error
    return str(made)


def _first_line(error: Exception) -> str:
    return str(error).strip().split("\n")[0]


def without_paths(content: Mapping[str, Any], recipe: Recipe) -> dict[str, Any]:
    """Return the content of a recipe's file with the last part of each path alone, in sentences too.

    The name of a checkpoint on the Hub stays whole.

    Args:
        content: of the file.
        recipe: that it holds.

    Example:
        >>> from contextual_bert.training import SetCompletion
        >>> recipe = Recipe(data="/home/ann/sets.csv", task=SetCompletion(items="items"))
        >>> resolved = {"lines": ["read /home/ann/sets.csv"]}
        >>> found = without_paths({"recipe": recipe.to_dict(), "resolved": resolved}, recipe)
        >>> found["recipe"]["data"], found["resolved"]["lines"]
        ('sets.csv', ['read sets.csv'])
    """
    given, resolved = dict(content["recipe"]), dict(content.get("resolved") or {})
    given["task"] = dict(given["task"])
    for name, path in paths_in(given, given["task"]).items():
        (given if name in given else given["task"])[name] = Path(path).name
    if "training" in resolved:
        resolved["training"] = {
            name: Path(value).name if name in _OF_TRAINING and value else value
            for name, value in resolved["training"].items()
        }
    if "lines" in resolved:
        resolved["lines"] = [without_folders(line, recipe) for line in resolved["lines"]]
    return {**content, "recipe": given, "resolved": resolved}
