"""The options of the recipe's fields: made of what the fields declare, read back into their values.

``with_recipe_options`` gives a command the options. ``values_of`` returns the values of a settings class.
"""

import inspect
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import cache, wraps
from pathlib import Path
from typing import Annotated, Any, Protocol

import typer

from contextual_bert.data.policies import SetPolicy
from contextual_bert.data.read_settings import ReadSettings
from contextual_bert.errors import ConfigurationError
from contextual_bert.options import GROUPS, DeclaredOption, declared_options
from contextual_bert.training.recipe import Recipe
from contextual_bert.training.setting_checks import SettingsWithOptions
from contextual_bert.training.tasks import TEXT_TASKS, SetCompletion
from contextual_bert_cli.inputs import checking, one_of
from contextual_bert_cli.option_values import assigned, number_or_all, split_commas
from contextual_bert_cli.typed_numbers import number_as_typed

# What a recipe is made of, in the order in which commands are printed.
_SETTINGS = (SetCompletion, *TEXT_TASKS, Recipe, SetPolicy, ReadSettings, SettingsWithOptions)


# Names of the options that say how the file of a table is written.
READING = tuple(each.key for each in declared_options(ReadSettings).values())
# The same without what features of a context keep: no feature is made of a log.
READING_OF_LOGS = tuple(name for name in READING if name != "missing_value")


# Key among the options of a command under which the names of those stand that were typed, whatever their values.
TYPED = "typed options"
_CALL = "call_of_command"


class _Command(Protocol):
    def __call__(self, *arguments: Any, **options: Any) -> None: ...


@cache
def recipe_options() -> Mapping[str, DeclaredOption]:
    """Return all options of a recipe, by the name that they have among a command's arguments."""
    found: dict[str, DeclaredOption] = {}
    for settings in _SETTINGS:
        for each in declared_options(settings).values():
            former = found.get(each.key)
            found[each.key] = each if former is None or former.form == each.form else _of_both(former, each)
    return found


def _of_both(of_sets: DeclaredOption, of_texts: DeclaredOption) -> DeclaredOption:
    """Return the option of two fields of one name, of which one is a column of sets and the other a list for texts."""
    both = replace(
        of_texts.option,
        help=f"{of_sets.option.help} {of_texts.option.help}",
        group=of_sets.option.group,
        metavar=f"{of_sets.metavar}|{of_texts.metavar}",
    )
    return replace(of_texts, option=both)


def data_options() -> tuple[str, ...]:
    """Return the names of the options that say what is read."""
    return tuple(name for name, each in recipe_options().items() if each.option.is_of_data)


def option_info(name: str, *, is_grouped: bool = False) -> Any:
    """Return the option of a field as typer takes it, for the annotation of a command's argument.

    Args:
        name: among the arguments.
        is_grouped: it stands under its heading in ``--help``.
    """
    declared = recipe_options()[name]
    named, is_word = declared.option.names, bool(declared.words) and not declared.is_number_or_word
    how: dict[str, Any] = one_of(declared.words, setting=declared.field) if is_word else {"metavar": declared.metavar}
    if named is not None:
        how["callback"] = checking(named)
    return typer.Option(
        declared.flag,
        **how,
        help=declared.option.help,
        rich_help_panel=declared.option.group if is_grouped else None,
    )


def with_recipe_options(
    *, only: Collection[str] | None = None, without: Collection[str] = ()
) -> Callable[[_Command], _Command]:
    """Give a command the options of the recipe, grouped; it finds their values in its argument ``given``.

    Args:
        only: names of the options; None takes all.
        without: names of those that it does not have, or has in another form.
    """
    names = [name for name in recipe_options() if (only is None or name in only) and name not in without]
    names.sort(key=lambda name: GROUPS.index(recipe_options()[name].option.group))

    def decorated(command: _Command) -> _Command:
        @wraps(command)
        def taking(*arguments: Any, **options: Any) -> None:
            # Of a command that Python calls there is none.
            call = options.get(own_call[0]) if own_call else options.pop(_CALL, None)
            typed = {TYPED: _typed_names(call)} if call is not None else {}
            given = {name: options.pop(name, defaults[name]) for name in names} | typed
            command(*arguments, **options, given=given)

        own = [each for name, each in inspect.signature(command).parameters.items() if name != "given"]
        # Typer hands its context over once: to the command itself where that asks for it.
        own_call = [each.name for each in own if each.annotation is typer.Context]
        call = inspect.Parameter(_CALL, inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context)
        parameters = [*own, *([] if own_call else [call]), *map(_parameter, names)]
        defaults = {each.name: each.default for each in parameters}
        taking.__signature__ = inspect.Signature(parameters)  # pyright: ignore[reportAttributeAccessIssue]
        taking.__annotations__ = {each.name: each.annotation for each in parameters}
        return taking

    return decorated


def _typed_names(call: typer.Context) -> frozenset[str]:
    """Return the names of the arguments that stand on the command line, also those with the value of their default."""
    sources = {name: call.get_parameter_source(name) for name in call.params}
    return frozenset(name for name, source in sources.items() if source is not None and source.name == "COMMANDLINE")


def _parameter(name: str) -> inspect.Parameter:
    """Return the argument of a command for an option."""
    declared = recipe_options()[name]
    default = declared.default if declared.option.has_default else None
    kind: Any = declared.kind
    if declared.form in ("names", "texts", "pairs"):
        kind, default = list[str] | None, None
    elif declared.form == "path":
        kind = Path | None
    elif default is None:
        kind = declared.kind | None
    annotation = Annotated[kind, option_info(name, is_grouped=True)]
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def is_given(declared: DeclaredOption, value: object) -> bool:
    """Return whether the value of an option says something else than its default."""
    default = declared.default if declared.option.has_default else None
    return value is not None and value is not False and value != [] and value != default


def values_of(settings: type, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return field -> value of a settings class, of the options that are given.

    Raises:
        ConfigurationError: a value that cannot be read.

    Example:
        >>> values_of(SetPolicy, {"min_count": 5, "drop_items": ["bag,tag"], "max_size": None})
        {'drop_items': ('bag', 'tag'), 'min_count': 5}
    """
    given: dict[str, Any] = {}
    for name, declared in declared_options(settings).items():
        value = options.get(declared.key)
        if is_given(declared, value):
            given[name] = _read(declared, value)
    return given


def _read(declared: DeclaredOption, value: Any) -> Any:
    if declared.form == "names":
        return split_commas(value)
    if declared.form == "value" and _is_list(value):  # of an option that is a list for texts
        return _one_column(declared, [*value])
    if declared.form == "texts":
        return tuple(value)
    if declared.form == "pairs":
        return assigned(value, option=declared.flag)
    if declared.form == "path":
        return str(value)
    return number_or_all(value, option=declared.flag) if declared.is_number_or_word else value


def _is_list(value: object) -> bool:
    return isinstance(value, list)


def _one_column(declared: DeclaredOption, values: list[str]) -> str:
    """Return the one name of a list.

    Raises:
        ConfigurationError: there are several.
    """
    names = split_commas(values)
    if len(names) != 1:
        raise ConfigurationError(
            "names one column where sets are read",
            setting=declared.flag,
            value=", ".join(names),
            fix="A list of labels is for texts: name their column with --text.",
        )
    return str(next(iter(names)))


def typed(names: Sequence[str], options: Mapping[str, Any]) -> list[str]:
    """Return the options that are given, as they are typed.

    Args:
        names: of the options that may be among them.
        options: name -> value.

    Example:
        >>> typed(["items", "exclude", "ordinal"], {"items": "items", "exclude": ["a", "b,c"], "ordinal": False})
        ['--items', 'items', '--exclude', 'a,b,c']
    """
    chosen: list[str] = []
    for name, declared in recipe_options().items():
        value = options.get(name)
        if name not in names or not is_given(declared, value):
            continue
        if declared.form == "flag":
            chosen.append(declared.flag)
        elif declared.form == "names":
            chosen += [declared.flag, ",".join(split_commas(value))]
        elif declared.form in ("texts", "pairs"):
            chosen += [part for each in value or () for part in (declared.flag, each)]
        else:
            chosen += [
                declared.flag,
                number_as_typed(value, at=declared.flag) if isinstance(value, float) else str(value),
            ]
    return chosen
