"""Options of the command line, declared beside the fields of the recipe that they set.

A field says in its annotation how a command asks for it: ``Annotated[int, Option("Drop sets of fewer items.", ...)]``.
The command line makes its options of these declarations, so it has what the library has. Imports nothing heavy, for the
sake of ``--help``.
"""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from contextual_bert.errors import ConfigurationError, did_you_mean

# Groups of options, in the order of ``--help``.
MAIN = "Most needed"
SPLIT = "Parts of the table"
CONTEXT = "Context"
SETS = "Sets of items"
ITEMS = "Features of the items"
TEXTS = "Texts"
FILE = "Reading the file"
TRAINING = "Training"
GROUPS = (MAIN, SPLIT, CONTEXT, SETS, ITEMS, TEXTS, FILE, TRAINING)

Form = Literal["value", "flag", "names", "texts", "pairs", "path"]
Named = Literal[
    "table",
    "file",
    "run",
    "runs",
    "run of sets",
    "run that is explained",
    "run of sets or export",
    "served run or export",
    "model of labels",
    "model of words",
    "model that writes",
    "model of vectors",
    "language model",
    "checkpoint",
]


@dataclass(frozen=True)
class Option:
    """The option of a command that sets a field.

    Args:
        help: what the field does, in the words of the command line.
        group: the heading in ``--help``, one of ``GROUPS``.
        name: without hyphens before it; "" is the field's name.
        metavar: what stands for the value; "" is the list of the allowed words, or the name of the type.
        form: how it is typed. "names" is a list with commas, or an option that is repeated; "texts" are values that
            may hold commas; "pairs" are NAME=VALUE. None follows from the field's type.
        names: what has to be there under the value, where it is a path.
        minimum, maximum: the smallest and the largest value, where there is one.
        has_default: False where ``--help`` names no default, because the command finds one.
        is_of_data: the option says what is read, so that commands before a training have it, too.

    Example:
        >>> Option("Drop sets of fewer items.", SETS, metavar="NUMBER").group
        'Sets of items'
    """

    help: str
    group: str
    name: str = ""
    metavar: str = ""
    form: Form | None = None
    names: Named | None = None
    minimum: int | float | None = None
    maximum: int | float | None = None
    has_default: bool = True
    is_of_data: bool = False

    @property
    def bounds(self) -> str:
        """Return the allowed numbers in words.

        Example:
            >>> Option("Share of the rows.", SPLIT, minimum=0, maximum=1000).bounds
            '0 to 1,000'
        """
        least, most = (f"{bound:,}" if bound is not None else "" for bound in (self.minimum, self.maximum))
        return f"{least} to {most}" if least and most else f"{least} or more" if least else f"{most} or less"


@dataclass(frozen=True)
class DeclaredOption:
    """An option, with what the field that it sets says of it.

    Args:
        field: name of the field.
        option: as it was declared.
        kind: type of one value: str, int, float or bool.
        default: of the field; None of lists and mappings.
        words: the allowed ones, where the type is a ``Literal`` of texts.
        is_number_or_word: a whole number is allowed, too.
    """

    field: str
    option: Option
    kind: type
    default: Any
    words: tuple[str, ...] = ()
    is_number_or_word: bool = False

    @property
    def key(self) -> str:
        """Return the name among a command's arguments."""
        return (self.option.name or self.field).replace("-", "_")

    @property
    def flag(self) -> str:
        """Return the option as it is typed.

        Example:
            >>> DeclaredOption("is_ordinal", Option("Grades.", TEXTS, name="ordinal"), bool, False).flag
            '--ordinal'
        """
        return f"--{self.key.replace('_', '-')}"

    @property
    def form(self) -> Form:
        """Return how it is typed."""
        return self.option.form or ("flag" if self.kind is bool else "value")

    @property
    def metavar(self) -> str | None:
        """Return what stands for the value in ``--help``; None for the name of the type."""
        return self.option.metavar or "|".join(self.words) or None


@cache
def declared_options(settings: type) -> Mapping[str, DeclaredOption]:
    """Return the options that the fields of a dataclass declare, by field.

    Example:
        >>> @dataclasses.dataclass
        ... class Reading:
        ...     on_bad_row: Annotated[Literal["error", "drop"], Option("What happens to a broken row.", FILE)] = "error"
        >>> found = declared_options(Reading)["on_bad_row"]
        >>> found.flag, found.words, found.default
        ('--on-bad-row', ('error', 'drop'), 'error')
    """
    hints = get_type_hints(settings, include_extras=True)
    found: dict[str, DeclaredOption] = {}
    for field in dataclasses.fields(settings):
        hint = hints[field.name]
        option = next((each for each in getattr(hint, "__metadata__", ()) if isinstance(each, Option)), None)
        if option is not None:
            found[field.name] = _declared(field.name, hint, option, field.default)
    return found


def check_declared(settings: object) -> None:
    """Check the fields of a dataclass by what they declare: columns, words of a ``Literal``, bounds of an ``Option``.

    Raises:
        ConfigurationError: a column without a name, a word that is unknown, or a number out of bounds.

    Example:
        >>> @dataclasses.dataclass
        ... class Sizes:
        ...     smallest: Annotated[int, Option("Drop sets of fewer items.", SETS, minimum=1)] = 1
        >>> check_declared(Sizes(2))
    """
    for name, declared in declared_options(type(settings)).items():
        value, option = getattr(settings, name), declared.option
        if value is None:
            continue
        if option.metavar == "COLUMN" or declared.form == "names":
            _check_names(name, value, is_list=declared.form == "names")
            continue
        if declared.words and not declared.is_number_or_word and value not in declared.words:
            raise ConfigurationError(
                "is unknown", setting=name, value=value, allowed=did_you_mean(value, declared.words)
            )
        is_below = option.minimum is not None and value < option.minimum
        if is_below or (option.maximum is not None and value > option.maximum):
            raise ConfigurationError("is not allowed", setting=name, value=value, fix=f"Give {option.bounds}.")


def _check_names(setting: str, value: Any, *, is_list: bool) -> None:
    """Raise ConfigurationError unless a value is a name, or a list of names."""
    names: tuple[object, ...] = tuple(value) if is_list and not isinstance(value, str) else (value,)
    if not all(isinstance(each, str) and each.strip() for each in names):
        fix = "Give names that are no empty texts." if is_list else "Give the name of a column."
        raise ConfigurationError("is not allowed", setting=setting, value=value, fix=fix)


def _declared(name: str, hint: Any, option: Option, default: object) -> DeclaredOption:
    """Return an option with the type of its values."""
    parts = [*_parts(hint)]
    words = [word for part in parts if get_origin(part) is Literal for word in get_args(part)]
    origin = next((origin for part in parts if (origin := get_origin(part)) in (tuple, Mapping)), None)
    if origin is not None and option.form is None:
        option = dataclasses.replace(option, form="names" if origin is tuple else "pairs")
    plain = [part for part in parts if part in (str, int, float, bool)]
    kind: type = plain[0] if plain and not words and origin is None else str
    is_plain = default is None or isinstance(default, str | int | float)
    return DeclaredOption(
        name, option, kind, default if is_plain else None, tuple(map(str, words)), bool(words and plain)
    )


def _parts(hint: Any) -> list[Any]:
    """Return the types that a hint allows, without None and without what annotates them."""
    if get_origin(hint) is Annotated:
        return _parts(get_args(hint)[0])
    if get_origin(hint) in (Union, UnionType):
        return [part for each in get_args(hint) for part in _parts(each)]
    return [] if hint is NoneType else [hint]
