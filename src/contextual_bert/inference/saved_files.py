"""The files of a saved model before a library reads them: readable, unchanged, JSON objects, no name twice.

Commands look here first, so nothing heavy is imported.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, cast

from contextual_bert.data.policies import noun_of_rows
from contextual_bert.errors import Message, RunDirectoryError, shown
from contextual_bert.json_text import read_json_object, unreadable
from contextual_bert.manifest import (
    MODEL_FILES,
    NAME_A_RUN,
    RECIPE_FILE,
    RESULT_FILES,
    check_has_recipe,
    check_manifest,
    check_readable,
    check_recipe_format,
)
from contextual_bert.places import JsonPlace, PathPlace

BASELINE_FILE = "baseline.json"
RUN_FILES = ("config.json", "model.safetensors", "processor_config.json", "tokenizer.json", "tokenizer_config.json")
RECORD_FILE = "export.json"  # of an export
LARGEST_SET = "largest_set"  # key of what a recipe resolved to, and of the record of an export
RECORDS = {  # file -> where it says the fields of TrainedSets, in their order
    "recipe.json": (
        "recipe.task.policy.separator", f"resolved.{LARGEST_SET}", "recipe.task.items", "recipe.task.group_by",
        "recipe.reading", "recipe.task.order",
    ),
    RECORD_FILE: ("separator", LARGEST_SET, "items", "group_by", "reading", "order"),
}  # fmt: skip
_KIND_OF_HEAD: Mapping[str, str] = {
    "ContextualBertForCausalLM": "causal_text",
    "ContextualBertForQuestionAnswering": "question_answering",
    "ContextualBertForSentenceEmbedding": "contrastive_text",
    "ContextualBertForSeq2SeqLM": "text_to_text",
    "ContextualBertForSequenceClassification": "classification",
    "ContextualBertForTokenClassification": "tagging",
}
_FILLS_WORDS_OR_SETS = "ContextualBertForMaskedLM"
FILLING = ("masked_text", "next_sentence")  # kinds of tasks whose models fill hidden words of texts
PairUse = Literal["none", "optional", "required"]
SEPARATORS = (";", ",", "|", "\t")
FIX = "Copy the folder again, or train again."
# Read by us or by transformers, which answers another type of value with errors of its own.
_OBJECTS = sorted(name for name in MODEL_FILES if name.endswith(".json") and name not in ("vocab.json", "export.json"))


@dataclass(frozen=True)
class TrainedTexts:
    """Reading rules of the training texts: columns, and how the file was read; None where the run does not say.

    Args:
        text: the column of texts.
        pair: that of second texts.
        question: that of questions.
        reading: settings of ``ReadSettings`` by name.
    """

    text: str | None = None
    pair: str | None = None
    question: str | None = None
    reading: Mapping[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True)
class TrainedSets:
    """Reading rules of the training sets: separator, size of the largest set, columns, and how the file was read.

    Args:
        separator: what stood between the items of one text.
        largest: items of the largest set, None where the run does not say.
        items: the column of items, None where the run does not say.
        group_by: the columns that name a set, where the table had one item a row.
        reading: settings of ``ReadSettings`` by name.
        order: the column that put the items of a set in order, None where order meant nothing.

    Example:
        >>> TrainedSets().separator
        ','
    """

    separator: str = ","
    largest: int | None = None
    items: str | None = None
    group_by: tuple[str, ...] = ()
    reading: Mapping[str, Any] = field(default_factory=dict[str, Any])
    order: str | None = None

    @property
    def row_noun(self) -> str:
        """Return what a row holds: a set, or where items have an order a sequence."""
        return noun_of_rows(self.order)

    def separator_in(self, item: str) -> str | None:
        """Return the separator that an item holds, the run's own first; None where it holds none."""
        return next((each for each in dict.fromkeys((self.separator, *SEPARATORS)) if each in item), None)


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
        raise RunDirectoryError(f"cannot be loaded: {error}", place=PathPlace(directory)) from error
    if "tokenizer.json" in found:
        _check_vocabulary(folder / "tokenizer.json", found["tokenizer.json"])
    elif (folder / "vocab.txt").is_file():
        lines = (folder / "vocab.txt").read_text(encoding="utf-8", errors="replace").splitlines()
        if len({*lines}) < len(lines):
            raise RunDirectoryError(
                "has a token in two lines: its ids are not certain", fix=FIX, place=PathPlace(folder / "vocab.txt")
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
            place = JsonPlace(("model", "vocab", name), str(path))
            raise RunDirectoryError(f"{shown(number)} is no whole number", place=place, value=number, fix=FIX)
        if number in names:
            raise RunDirectoryError(
                f"{names[number]!r} and {name!r} have the same id {number}",
                fix=FIX,
                place=JsonPlace(("model", "vocab", name), str(path)),
            )
        names[number] = name


def check_run(directory: str | Path, *, fix: str = NAME_A_RUN) -> None:
    """Raise RunDirectoryError where a run was interrupted, or where a file stands in the place of a folder.

    Args:
        directory: folder of a run.
        fix: what to name in place of a file.

    Example:
        >>> check_run("runs/verdict")
    """
    folder = Path(directory)
    try:
        is_file, is_complete = folder.is_file(), (folder / "metrics.json").is_file()
    except OSError as error:
        raise unreadable(directory, error) from error
    if is_file:
        raise RunDirectoryError("is a file", fix=fix, place=PathPlace(directory))
    if not is_complete and (folder / "checkpoints" / "recipe.json").is_file():
        raise RunDirectoryError(
            f"holds an interrupted run: go on with contextual-bert train ... --output {directory} --resume.",
            place=PathPlace(directory),
        )


def check_trained(directory: str | Path, *, takes_exports: bool = True) -> None:
    """Raise RunDirectoryError unless a folder holds a run, or an export, by the names of its files.

    Args:
        directory: the folder.
        takes_exports: False where an export will not do.

    Example:
        >>> check_trained("runs/no-run")
        Traceback (most recent call last):
        contextual_bert.errors.RunDirectoryError: ...
    """
    folder, further = Path(directory), ", or that of an export" if takes_exports else ""
    fix = f"{NAME_A_RUN.removesuffix('.')}{further}."
    check_run(folder, fix=fix)
    if not takes_exports or not folder.is_dir():
        check_has_recipe(folder, fix=fix)
    elif not (folder / RECORD_FILE).exists() and not (folder / RECIPE_FILE).exists():
        problem = f"is neither a run nor an export: it has no {RECIPE_FILE} and no {RECORD_FILE}"
        raise RunDirectoryError(problem, place=PathPlace(directory), fix=fix)


def check_recipe_file(directory: str | Path) -> None:
    """Raise RunDirectoryError unless the recipe of a run is as it was written, and of this version.

    Example:
        >>> check_recipe_file("runs/no-run")
        Traceback (most recent call last):
        contextual_bert.errors.RunDirectoryError: ...
    """
    folder = Path(directory)
    check_manifest(folder, RESULT_FILES)
    path = folder / RECIPE_FILE
    content: Any = read_json_object(path, fix=FIX).get("recipe")
    if not isinstance(content, dict):
        raise RunDirectoryError("holds no recipe", fix=FIX, place=PathPlace(path))
    try:
        check_recipe_format(cast("dict[str, Any]", content).get("format"))
    except RunDirectoryError as error:
        raise error.at(JsonPlace(("recipe", "format"), str(path))) from None


def check_is_folder(directory: str | Path) -> None:
    """Raise RunDirectoryError where a run was interrupted, or where there is no folder.

    Example:
        >>> check_is_folder(".")
    """
    check_run(directory)
    if not Path(directory).is_dir():
        raise RunDirectoryError(
            "cannot be loaded: there is no such folder",
            fix="Name the one that model and processor were saved in with save_pretrained.",
            place=PathPlace(directory),
        )


def trained_sets(directory: str | Path) -> TrainedSets:
    """Return the reading rules of a run or export. Defaults stand in for what the folder does not say."""
    for name, path in RECORDS.items():
        try:
            content: Any = json.loads((Path(directory) / name).read_text(encoding="utf-8"))
            found = [_at(content, keys) for keys in path]
        except (OSError, ValueError, RecursionError):
            continue
        separator, largest, items, group_by, reading, order = found
        return TrainedSets(
            separator if isinstance(separator, str) and separator else ",",
            largest if type(largest) is int and largest > 0 else None,
            items if isinstance(items, str) and items else None,
            tuple(map(str, cast("list[Any]", group_by))) if isinstance(group_by, list) else (),
            _without_lists(cast("dict[str, Any]", reading)) if isinstance(reading, dict) else {},
            order if isinstance(order, str) and order else None,
        )
    return TrainedSets()


def trained_texts(directory: str | Path) -> TrainedTexts:
    """Return the reading rules of a run on texts, or of its export; nothing of a folder that does not say them."""
    for name, start, reading in ((RECIPE_FILE, "recipe.task.", "recipe.reading"), (RECORD_FILE, "", "reading")):
        try:
            content: Any = json.loads((Path(directory) / name).read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError):
            continue
        columns = [_at(content, start + key) for key in ("text", "pair", "question")]
        text, pair, question = (each if isinstance(each, str) and each else None for each in columns)
        given = _at(content, reading)
        return TrainedTexts(
            text, pair, question, _without_lists(cast("dict[str, Any]", given)) if isinstance(given, dict) else {}
        )
    return TrainedTexts()


def _without_lists(reading: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: tuple(cast("list[Any]", value)) if isinstance(value, list) else value for name, value in reading.items()
    }


def _at(content: Any, keys: str) -> Any:
    for key in keys.split("."):
        content = cast("dict[str, Any]", content).get(key) if isinstance(content, dict) else None
    return content


def holds_baseline(directory: str | Path) -> bool:
    """Return True if a folder holds a baseline for texts."""
    return (Path(directory) / BASELINE_FILE).is_file()


def check_holds_model(directory: str | Path) -> None:
    """Raise RunDirectoryError for the run of a baseline of which no model is kept; and for one that lost its config."""
    folder = Path(directory)
    if (folder / "metrics.json").is_file() and not (folder / "config.json").is_file() and not holds_baseline(folder):
        check_manifest(folder)
        raise RunDirectoryError(
            "is the run of a baseline, of which scores and metrics are kept and no model",
            fix="Name the run of a method.",
            place=PathPlace(directory),
        )


def check_holds_elmo(directory: str | Path) -> None:
    """Raise RunDirectoryError unless a folder holds a language model in both directions, by its config.

    Example:
        >>> check_holds_elmo("runs/no-run")
        Traceback (most recent call last):
        contextual_bert.errors.RunDirectoryError: ...
    """
    check_is_folder(directory)
    path = Path(directory) / "config.json"
    if not path.is_file() or read_json_object(path, fix=FIX).get("model_type") != "bidirectional_lm":
        raise RunDirectoryError(
            "holds no language model in both directions",
            fix=Message("Name a run that was trained with {objective}.", objective="bidirectional"),
            place=PathPlace(directory),
        )


def learned_kind(directory: str | Path) -> str | None:
    """Return the kind of the task that a run learned; None where the folder does not say it.

    A recipe says it; without one, the head of the model, where it has one task alone, or the record of an export.
    """
    places = (
        (RECIPE_FILE, "recipe.task.kind", None),
        ("config.json", "architectures", _KIND_OF_HEAD),
        (RECORD_FILE, "kind", None),
    )
    for name, keys, kinds in places:
        try:
            found = _at(json.loads((Path(directory) / name).read_text(encoding="utf-8")), keys)
        except (OSError, ValueError, RecursionError):
            continue
        if kinds is not None:
            head = cast("list[Any]", found)[0] if isinstance(found, list) and found else None
            found = kinds.get(head) if isinstance(head, str) else None
            if head == _FILLS_WORDS_OR_SETS and _has_text_tokens(directory):
                found = FILLING[0]
        if isinstance(found, str):
            return found
    return None


def _has_text_tokens(directory: str | Path) -> bool:
    """Return True where the tokenizer of a folder is of texts: the names of items have no first token."""
    try:
        found = json.loads((Path(directory) / "tokenizer_config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(_at(found, "cls_token"), str)


def trained_pairs(directory: str | Path) -> PairUse:
    """Return whether a run, or that of an export, learned from pairs of texts; "optional" where nothing says it."""
    learned = trained_texts(directory)
    if learned.text is None:
        return "optional"
    return "none" if learned.pair is None else "required"
