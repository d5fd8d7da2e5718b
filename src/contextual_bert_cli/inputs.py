"""What the value of an option names: a table, a run, a checkpoint, a word of a list.

An option says it once, with ``checking`` or ``one_of``. typer then checks each value while it reads the command line,
so a value that names nothing is told before the command imports what it works with.
"""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from contextual_bert.data import ReadSettings
    from contextual_bert.options import Named
    from contextual_bert.training import Recipe

PARTS = ("train", "validation", "test", "all")


def checking(named: "Named") -> Callable[..., Any]:
    """Return the callback of an option whose value names something that has to be there."""
    check = _CHECKS[named]

    def callback(parameter: typer.CallbackParam, value: Any) -> Any:
        if value is not None:
            check(value, parameter.opts[0])
        return value

    return callback


def one_of(words: Iterable[str], *, setting: str | None = None) -> dict[str, Any]:
    """Return the arguments of ``typer.Option`` for an option that takes one of these words.

    Args:
        words: that are allowed.
        setting: argument of the library that the option sets. None: it sets none, and stands for itself.

    Example:
        >>> one_of(("table", "json"))["metavar"]
        'table|json'
    """
    allowed = tuple(words)

    def callback(parameter: typer.CallbackParam, value: Any) -> Any:
        from contextual_bert.errors import ConfigurationError, did_you_mean

        if value is not None and value not in allowed:
            known = did_you_mean(value, allowed)
            raise ConfigurationError("is unknown", setting=setting or parameter.opts[0], value=value, allowed=known)
        return value

    return {"metavar": "|".join(allowed), "callback": callback}


def _check_table(value: str | Path, option: str) -> None:
    """Raise DataError where no file is there."""
    from contextual_bert.data.table_paths import check_exists

    check_exists(value)


def _check_file(value: Path, option: str) -> None:
    """Raise DataError where no file is there, with the name of one in its folder that is alike."""
    from contextual_bert.errors import DataError, did_you_mean

    if value.is_file():
        return
    problem = "this is a folder" if value.is_dir() else "there is no such file"
    ending = value.suffix or ".json"
    near = [each.name for each in value.parent.glob(f"*{ending}")] if value.parent.is_dir() else []
    advice = " " + did_you_mean(value.name, near, label="In its folder") if near else ""
    raise DataError(problem, file=str(value), fix=f"Check the path of {option}.{advice}")


def _check_run(value: str | Path, option: str) -> None:
    """Raise RunDirectoryError where a folder is no run."""
    from contextual_bert.inference.saved_files import check_trained

    check_trained(value, takes_exports=False)


def _check_folders(value: Iterable[Path], option: str) -> None:
    """Raise RunDirectoryError where one of several folders is not there."""
    from contextual_bert.errors import RunDirectoryError
    from contextual_bert.places import PathPlace

    for folder in value:
        if not folder.is_dir():
            problem = "is a file" if folder.is_file() else "does not exist"
            raise RunDirectoryError(problem, fix="Name a run, or a folder of runs.", place=PathPlace(folder))


def _check_run_of_sets(value: str | Path, option: str) -> None:
    """Raise RunDirectoryError where a folder is no run whose model completes sets."""
    _check_run(value, option)
    _check_used_with(value, "complete")


def _check_run_that_is_explained(value: str | Path, option: str) -> None:
    """Raise RunDirectoryError where a folder is no run that completes sets or predicts about texts."""
    _check_run(value, option)
    _check_used_with(value, "complete", "predict")


def _check_run_or_export(value: str | Path, option: str) -> None:
    """Raise RunDirectoryError where a folder is neither a run whose model completes sets, nor an export."""
    from contextual_bert.inference.saved_files import check_trained

    check_trained(value)
    _check_used_with(value, "complete")


def _check_served_run_or_export(value: str | Path, option: str) -> None:
    """Raise RunDirectoryError where a folder is no run that completes sets or predicts about texts, and no export."""
    from contextual_bert.inference.saved_files import check_trained

    check_trained(value)
    _check_used_with(value, "complete", "predict")


def is_asked_by_predict(directory: str | Path) -> bool:
    """Return whether ``predict`` asks the model of a run, by the kind of task that it learned."""
    from contextual_bert.inference.saved_files import learned_kind
    from contextual_bert.training.tasks import TASK_SETTINGS

    task = TASK_SETTINGS.get(learned_kind(directory) or "")
    return task is not None and "predict" in (task.command, *task.other_commands)


def _check_model_of_labels(value: str | Path, option: str) -> None:
    """Raise RunDirectoryError where a folder has no model that predicts labels, tags or answers."""
    from contextual_bert.inference.saved_files import check_is_folder

    check_is_folder(value)
    _check_used_with(value, "predict")


def _check_model_of_words(value: str | Path, option: str) -> None:
    """Raise RunDirectoryError where a folder has no model of hidden words."""
    from contextual_bert.inference.saved_files import check_is_folder

    check_is_folder(value)
    _check_used_with(value, "sample")


def _check_model_that_writes(value: str | Path, option: str) -> None:
    """Raise RunDirectoryError where a folder has no model that writes texts."""
    from contextual_bert.inference.saved_files import check_is_folder

    check_is_folder(value)
    _check_used_with(value, "generate")


def _check_model_of_vectors(value: str | Path, option: str) -> None:
    """Raise RunDirectoryError where a folder has no model that makes vectors of texts."""
    from contextual_bert.inference.saved_files import check_is_folder

    check_is_folder(value)
    _check_used_with(value, "embed")


def _check_language_model(value: str | Path, option: str) -> None:
    """Raise RunDirectoryError where a folder has no language model in both directions."""
    from contextual_bert.inference.saved_files import check_holds_elmo

    check_holds_elmo(value)


def _check_used_with(directory: str | Path, *commands: str) -> None:
    """Raise RunDirectoryError for a run that none of these commands asks, or whose model was not kept.

    A folder without a recipe does not say what its model learned.
    """
    from contextual_bert.errors import RunDirectoryError
    from contextual_bert.inference.saved_files import check_holds_model, learned_kind
    from contextual_bert.places import PathPlace
    from contextual_bert.training.tasks import TASK_SETTINGS

    task = TASK_SETTINGS.get(learned_kind(directory) or "")
    if task is not None and not {task.command, *task.other_commands} & {*commands}:
        asked = next(each.noun for each in TASK_SETTINGS.values() if each.command == commands[0])
        fix = f"Give it to contextual-bert {task.command}, or name another, such as one on {asked}."
        raise RunDirectoryError(f"is a run on {task.noun}", fix=fix, place=PathPlace(directory))
    check_holds_model(directory)


def _check_checkpoint(value: str, option: str) -> None:
    """Raise CheckpointError for a path that leads nowhere. What may be a name on the Hub is left to transformers."""
    from contextual_bert.errors import CheckpointError, did_you_mean

    path = Path(value).expanduser()
    is_path = path.is_absolute() or value.startswith((".", "~")) or len(path.parts) > 2
    folders = [each for each in path.parent.iterdir() if each.is_dir()] if path.parent.is_dir() else []
    models = [each.name for each in folders if any((each / name).is_file() for name in ("config.json", "recipe.json"))]
    # A name on the Hub has one part before its own, which may be that of a folder here. Runs beside it tell them apart.
    if path.exists() or not (is_path or (models and len(path.parts) == 2)):
        return
    near = " " + did_you_mean(path.name, models, label="In its folder") if models else ""
    fix = f"Check the path, or give a name on the Hub.{near}"
    from contextual_bert.places import PathPlace

    raise CheckpointError("there is no such folder", place=PathPlace(value, is_subject=False), fix=fix)


def check_asked_columns(
    file: str | Path, names: Iterable[str | None], *, settings: "ReadSettings | None" = None
) -> None:
    """Raise UnknownNameError where a file lacks a column, before it is read and torch is loaded.

    Args:
        file: of the table.
        names: of the columns. None names none.
        settings: how the file is read.
    """
    wanted = [name for name in names if name is not None]
    if wanted:
        from contextual_bert.data.file_columns import check_file_columns

        check_file_columns(file, wanted, settings=settings)


def check_recipe_columns(recipe: "Recipe") -> None:
    """Raise UnknownNameError where the table of a recipe lacks a column that the recipe names."""
    named = (recipe.customer, recipe.time, recipe.split_column, *recipe.exclude, *recipe.sensitive)
    columns = dict.fromkeys((*recipe.task.columns, *recipe.task.grouping, *named))
    check_asked_columns(recipe.data, columns, settings=recipe.reading)


_CHECKS: dict["Named", Callable[[Any, str], None]] = {
    "table": _check_table,
    "file": _check_file,
    "run": _check_run,
    "runs": _check_folders,
    "run of sets": _check_run_of_sets,
    "run that is explained": _check_run_that_is_explained,
    "run of sets or export": _check_run_or_export,
    "served run or export": _check_served_run_or_export,
    "model of labels": _check_model_of_labels,
    "model of words": _check_model_of_words,
    "model that writes": _check_model_that_writes,
    "model of vectors": _check_model_of_vectors,
    "language model": _check_language_model,
    "checkpoint": _check_checkpoint,
}
