"""The files of a saved model before a library reads them: readable, unchanged, JSON objects, no name twice."""

from pathlib import Path
from typing import Any, cast

from contextual_bert.errors import RunDirectoryError
from contextual_bert.json_files import read_json_object
from contextual_bert.manifest import MODEL_FILES, check_manifest, check_readable

FIX = "Copy the folder again, or train again."
# Read by us or by transformers, which answers another type of value with errors of its own.
_OBJECTS = sorted(name for name in MODEL_FILES if name.endswith(".json") and name not in ("vocab.json", "export.json"))


def check_files(directory: str | Path) -> None:
    """Raise RunDirectoryError where a file of a saved model cannot be read, was changed, or is no JSON object.

    Args:
        directory: folder of a run, an export or a model that was saved with ``save_pretrained``.

    Raises:
        RunDirectoryError: names the file.

    Example:
        >>> from contextual_bert.testing import miniature_processor
        >>> _ = miniature_processor().save_pretrained("shop")
        >>> check_files("shop")
    """
    folder = Path(directory)
    check_readable(folder)
    there = [name for name in _OBJECTS if (folder / name).is_file()]
    try:
        check_manifest(folder)
        found = {name: read_json_object(folder / name, fix=FIX, has_unique_keys=True) for name in there}
    except RunDirectoryError as error:
        raise RunDirectoryError(f"{directory} cannot be loaded: {error}") from error
    if "tokenizer.json" in found:
        _check_vocabulary(folder / "tokenizer.json", found["tokenizer.json"])
    elif (folder / "vocab.txt").is_file():
        lines = (folder / "vocab.txt").read_text(encoding="utf-8", errors="replace").splitlines()
        if len({*lines}) < len(lines):
            raise RunDirectoryError(
                f"{folder / 'vocab.txt'} has a token in two lines: its ids are not certain", fix=FIX
            )


def _check_vocabulary(path: Path, content: dict[str, Any]) -> None:
    model: object = content.get("model")
    vocabulary: object = cast("dict[str, Any]", model).get("vocab") if isinstance(model, dict) else None
    if not isinstance(vocabulary, dict):
        return  # of other kinds of tokenizers, whose library checks them
    ids = cast("dict[str, Any]", vocabulary)
    names: dict[Any, str] = {}
    for name, number in ids.items():
        if type(number) is not int or number < 0:
            raise RunDirectoryError(f"{path}: the id of {name!r} is {number!r:.40}, no whole number", fix=FIX)
        if number in names:
            raise RunDirectoryError(f"{path}: {names[number]!r} and {name!r} have the same id {number}", fix=FIX)
        names[number] = name
