"""The manifest of a folder: the size and SHA-256 of each file that decides what a model answers.

A folder without a manifest is taken as it is: models that somebody saved with ``save_pretrained`` have none.
"""

import hashlib
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any, cast

from contextual_bert.atomic_files import replacing_file
from contextual_bert.errors import RunDirectoryError, shown
from contextual_bert.json_text import json_text, read_json_object, unreadable
from contextual_bert.nouns import counted
from contextual_bert.places import JsonPlace, PathPlace

MANIFEST_FILE = "manifest.json"
RECIPE_FORMAT = "contextual-bert recipe 1"
RECIPE_FILE = "recipe.json"  # of a run
FORMAT = "contextual-bert manifest 1"
NAME_A_RUN = "Name the folder of a run, the --output of train."
# What loading a model reads, and transformers and tokenizers with it: such a file that was added changes the answer.
MODEL_FILES = frozenset(
    {
        "adapter_config.json",
        "adapter_model.safetensors",
        "added_tokens.json",
        "baseline.json",
        "chat_template.jinja",
        "chat_template.json",
        "completion.onnx",
        "completion.onnx.data",
        "config.json",
        "context.onnx",
        "context.onnx.data",
        "export.json",
        "generation_config.json",
        "merges.txt",
        "model.safetensors",
        "model.safetensors.index.json",
        "preprocessor_config.json",
        "processor_config.json",
        "pytorch_model.bin",
        "pytorch_model.bin.index.json",
        "special_tokens_map.json",
        "text.onnx",
        "text.onnx.data",
        "tokenizer.json",
        "tokenizer_config.json",
        "vocab.json",
        "vocab.txt",
    }
)
# What else a run is evaluated and compared by. Its report, metrics.json and history.json, decides no answer.
SCORE_FILES = frozenset({"test_scores.safetensors"})
RESULT_FILES = frozenset({RECIPE_FILE, "schema.json", "split.json"}) | SCORE_FILES
# What a training goes on by. Of several processes each writes its own random state, when it likes: these are left out.
CHECKPOINT_FILES = frozenset(
    {
        "adapter_model.safetensors",
        "model.safetensors",
        "optimizer.pt",
        "rng_state.pth",
        "scaler.pt",
        "scheduler.pt",
        "trainer_state.json",
    }
)
_LISTED = MODEL_FILES | RESULT_FILES | CHECKPOINT_FILES


def write_manifest(folder: str | Path) -> Path:
    """Write ``manifest.json`` for the files that a folder holds now, and return its path.

    What decides no answer is left out and may change: README.md, metrics.json, evaluations, TensorBoard logs.

    Args:
        folder: of a model, a run, an export or a checkpoint.

    Raises:
        RunDirectoryError: no such folder, or a file that cannot be read.

    Example:
        >>> from contextual_bert.testing import miniature_processor
        >>> _ = miniature_processor().save_pretrained("shop")
        >>> write_manifest("shop").name
        'manifest.json'
    """
    directory = Path(folder)
    if not directory.is_dir():
        raise RunDirectoryError(
            "is no folder", fix="Name the folder that a model was saved in.", place=PathPlace(folder)
        )
    decisive = [path for path in sorted(directory.iterdir()) if path.name in _LISTED and path.is_file()]
    files = {path.name: _entry(path) for path in decisive}
    path = directory / MANIFEST_FILE
    with replacing_file(path) as partial:
        partial.write_text(json_text({"format": FORMAT, "files": files}, indent=1) + "\n", encoding="utf-8")
    return path


def check_manifest(folder: str | Path, names: Collection[str] = MODEL_FILES) -> None:
    """Raise RunDirectoryError unless these files of a folder are those of its manifest; without a manifest do nothing.

    Args:
        folder: of a model, a run, an export or a checkpoint.
        names: the files that are going to be read.

    Raises:
        RunDirectoryError: a file that was changed, removed or added since, or cannot be read; names it.

    Example:
        >>> check_manifest("runs/verdict")
    """
    directory = Path(folder)
    path = directory / MANIFEST_FILE
    if not has_manifest(directory):
        return
    if not path.is_file():
        kind = "a link to nothing that is a file" if path.is_symlink() else "no file"
        raise RunDirectoryError(f"is {kind}", fix=_fix(path), place=PathPlace(path))
    listed = _read(path)
    for name in (name for name in listed if name in names):
        _check(directory / name, listed[name])
    for added in sorted(name for name in names if name not in listed and (directory / name).exists()):
        raise RunDirectoryError(
            f"is not in {path}: it was added after the files were written, and loading would read it",
            fix="Remove it.",
            place=PathPlace(directory / added),
        )


def has_manifest(folder: str | Path) -> bool:
    """Return whether a folder has an entry ``manifest.json``, be it a damaged file, a folder or a dangling link.

    Raises:
        RunDirectoryError: the folder cannot be searched.

    Example:
        >>> has_manifest("runs")
        False
    """
    path = Path(folder) / MANIFEST_FILE
    try:
        path.lstat()
    except (FileNotFoundError, NotADirectoryError, ValueError):  # the last: a name that no file can have
        return False
    except OSError as error:
        raise unreadable(path, error) from error
    return True


def listed_files(folder: str | Path) -> frozenset[str]:
    """Return the names of the files that the manifest of a folder lists.

    Raises:
        RunDirectoryError: the manifest is missing or damaged.
    """
    return frozenset(_read(Path(folder) / MANIFEST_FILE))


def model_digests(folder: str | Path) -> dict[str, str]:
    """Return the SHA-256 of each file of a folder's model: what the manifest says, or of the files without one.

    Raises:
        RunDirectoryError: the manifest is damaged, or a file cannot be read.
    """
    directory = Path(folder)
    if has_manifest(directory):
        return {
            name: entry["sha256"] for name, entry in _read(directory / MANIFEST_FILE).items() if name in MODEL_FILES
        }
    return {name: digest_of(directory / name) for name in sorted(MODEL_FILES) if (directory / name).is_file()}


def weights_digest(folder: str | Path) -> str:
    """Return one SHA-256 for all files of a folder's model, see ``model_digests``.

    Example:
        >>> len(weights_digest("runs/verdict"))
        64
    """
    return hashlib.sha256(json_text(sorted(model_digests(folder).items())).encode()).hexdigest()


def digest_of(path: Path) -> str:
    """Return the SHA-256 of a file, as hexadecimal digits.

    Raises:
        RunDirectoryError: it cannot be read.
    """
    try:
        with path.open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError as error:
        raise unreadable(path, error) from error


def check_has_recipe(folder: Path, *, fix: str = NAME_A_RUN) -> None:
    """Raise RunDirectoryError unless a folder has the recipe that a training writes.

    Args:
        folder: of a run.
        fix: what to do else.
    """
    if folder.is_file():
        raise RunDirectoryError("is a file", place=PathPlace(folder), fix=fix)
    if not folder.exists():
        raise RunDirectoryError("does not exist", place=PathPlace(folder), fix=fix)
    if not (folder / RECIPE_FILE).exists():
        raise RunDirectoryError(f"is no run directory: it has no {RECIPE_FILE}", place=PathPlace(folder), fix=fix)


def check_recipe_format(found: object) -> None:
    """Raise RunDirectoryError unless a recipe is of the format that this version writes.

    Args:
        found: what the recipe says of its format.
    """
    if found != RECIPE_FORMAT:
        raise RunDirectoryError(
            f"{shown(found)} is not {RECIPE_FORMAT!r}, the format of this version",
            place=JsonPlace(("format",)),
            value=found,
            fix="It is from another version: train again.",
        )


def check_readable(folder: str | Path, names: Iterable[str] = MODEL_FILES) -> None:
    """Raise RunDirectoryError where a file is there and this process may not read it.

    Libraries take such a file for a missing one, or for a damaged one.

    Args:
        folder: of a model.
        names: the files that are going to be read.
    """
    try:
        there = {path.name for path in Path(folder).iterdir()}
    except OSError as error:
        raise unreadable(folder, error) from error
    for path in (Path(folder) / name for name in sorted(there & {*names})):
        try:
            with path.open("rb"):
                pass
        except OSError as error:
            raise unreadable(path, error) from error


def _entry(path: Path) -> dict[str, Any]:
    return {"bytes": path.stat().st_size, "sha256": digest_of(path)}


def _fix(path: Path) -> str:
    return f"Copy the folder again; if its files are right, remove {path.name} and write it with write_manifest."


def _read(path: Path) -> Mapping[str, Mapping[str, Any]]:
    fix = _fix(path)
    content = read_json_object(path, fix=fix)
    files: object = content.get("files")
    if content.get("format") != FORMAT or not isinstance(files, dict):
        raise RunDirectoryError(f"is no {FORMAT!r}", fix=fix, place=PathPlace(path))
    entries = cast("dict[str, dict[str, Any]]", files)
    for entry in cast("dict[str, object]", files).values():
        given = cast("dict[str, Any]", entry) if isinstance(entry, dict) else {}
        if type(given.get("bytes")) is not int or not isinstance(given.get("sha256"), str):
            raise RunDirectoryError("lacks the size or the hash of a file", fix=fix, place=PathPlace(path))
    return entries


def _check(path: Path, entry: Mapping[str, Any]) -> None:
    try:
        size = path.stat().st_size
    except FileNotFoundError as error:
        raise RunDirectoryError(
            f"is missing, and {MANIFEST_FILE} lists it",
            fix="Copy the whole folder again, or train again.",
            place=PathPlace(path),
        ) from error
    except OSError as error:
        raise unreadable(path, error) from error
    if size != entry["bytes"]:
        found = f"it has {counted(size, 'byte')}, and had {entry['bytes']:,} when it was written"
    elif path.is_file() and digest_of(path) != entry["sha256"]:
        found = "its content is another than was written"
    elif not path.is_file():
        found = "it is no file"
    else:
        return
    raise RunDirectoryError(
        f"differs from {MANIFEST_FILE}: {found}",
        fix="Copy the folder again, or train again. If the change is meant, write the manifest anew with "
        "contextual_bert.manifest.write_manifest.",
        place=PathPlace(path),
    )
