"""Errors of the library, as parts that programs read and one function renders.

An error has a problem, a place, the faulty value, what is allowed, and a fix. ``rendered`` makes three short sentences
of them. The command line and the server render the same parts in their own words. Nobody takes a sentence apart.
"""

import copy
import difflib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Self
from unicodedata import normalize

from contextual_bert.places import Key, Place, QueryPlace, SettingPlace, Spelling, TablePlace

_MOST_NAMES, _SOME = 60, 8  # so many known names are listed, and of more than these the closest so many
WITHHELD = "(withheld)"  # what stands for a value of a sensitive feature


class _Name:
    """Stands in the place of a setting's value: the setting itself is named, without a value."""

    def __reduce__(self) -> str:
        return "NAME"  # the same one in each process, and in each copy


NAME: Any = _Name()


def in_python(name: str, value: object) -> str:
    """Return a setting as Python spells it; ``...`` stands for a value that is to be given.

    Example:
        >>> in_python("split_by", "time"), in_python("time", ...), in_python("min_count", NAME)
        ("split_by='time'", 'time=...', 'min_count')
    """
    return name if value is NAME else f"{name}=..." if value is ... else f"{name}={shown(value)}"


class Message(str):
    """A text that names settings: a string in Python's spelling, and in another one where ``spelled`` is asked.

    Args:
        template: the text, with ``{name}`` where a setting stands.
        settings: name -> value, ``NAME`` or ``...``. Other braces of the template stay as they are.

    Example:
        >>> text = Message("{split_by} needs {time}.", split_by="time", time=...)
        >>> print(text)
        split_by='time' needs time=....
        >>> text.spelled(lambda name, value: f"--{name}")
        '--split_by needs --time.'
    """

    template: str
    settings: Mapping[str, object]

    def __new__(cls, template: str, /, **settings: object) -> Self:
        """Make the text, and keep its parts."""
        text = super().__new__(cls, _filled(template, settings, in_python))
        text.template, text.settings = template, settings
        return text

    def __reduce__(self) -> tuple[Any, ...]:
        return _message, (self.template, dict(self.settings))

    def spelled(self, spelling: Spelling) -> str:
        """Return the text with its settings in another spelling."""
        return _filled(self.template, self.settings, spelling)


def joined(*parts: str) -> Message:
    """Return texts as one, which names the settings that they name.

    Example:
        >>> joined("Few steps. ", Message("Give {max_steps}.", max_steps=...)).spelled(lambda name, value: "--steps")
        'Few steps. Give --steps.'
    """
    settings: dict[str, object] = {}
    texts: list[str] = []
    for part in parts:
        # A setting that has another value already stays in Python's spelling.
        if isinstance(part, Message) and all(
            settings.get(name, value) is value for name, value in part.settings.items()
        ):
            settings |= part.settings
            texts.append(part.template)
        else:
            texts.append(part)
    return Message("".join(texts), **settings)


def _message(template: str, settings: Mapping[str, object]) -> Message:
    return Message(template, **settings)


def _filled(template: str, settings: Mapping[str, object], spelling: Spelling) -> str:
    """Return a template with its settings; what a setting brings in is not looked at again."""
    done: list[str] = []
    rest = template
    while found := [(rest.index(mark), mark, name) for name in settings if (mark := f"{{{name}}}") in rest]:
        start, mark, name = min(found)
        done += [rest[:start], spelling(name, settings[name])]
        rest = rest[start + len(mark) :]
    return "".join([*done, rest])


def spelled(text: str, spelling: Spelling = in_python) -> str:
    """Return a text with the settings that it names, if it names any, in a spelling."""
    return text.spelled(spelling) if isinstance(text, Message) else str(text)


class ContextualBertError(Exception):
    """Base of every error this package raises on purpose; the command line prints its text and exits with 2.

    Args:
        problem: what is wrong, without a full stop. After a place it is a phrase. After a setting it is the rest of the
            sentence. ``Message`` names further settings.
        place: where.
        value: what stands there. NAME where there is none, or where it is withheld.
        allowed: what is allowed, as a sentence.
        fix: what to do, as a sentence.

    Example:
        >>> error = ConfigurationError("is not allowed", setting="min_count", value=0, fix="Give 1 or more.")
        >>> error.location, str(error)
        (('min_count',), 'min_count=0 is not allowed. Give 1 or more.')
    """

    def __init__(
        self, problem: str, *, place: Place | None = None, value: object = NAME, allowed: str = "", fix: str = ""
    ) -> None:
        self.problem, self.place, self.value, self.allowed, self.fix = problem, place, value, allowed, fix
        super().__init__(rendered(self))

    def __str__(self) -> str:
        return rendered(self)

    @property
    def location(self) -> tuple[Key, ...]:
        """The keys that lead to the fault, the outermost first: of a table file, row and column."""
        return self.place.keys if self.place is not None else ()

    @property
    def advice(self) -> str:
        """Return the sentences on allowed values and the fix."""
        return " ".join(part for part in (self.allowed, self.fix) if part)

    def at(self, place: Place | None) -> Self:
        """Return the same error at another place."""
        return self._with(place=place)

    def within(self, *keys: Key) -> Self:
        """Return the same error in a query that stands at these keys.

        Example:
            >>> UnknownNameError("unknown key 'itms'", place=QueryPlace(("itms",))).within(2).location
            (2, 'itms')
        """
        own = self.place.keys if isinstance(self.place, QueryPlace) else ()
        return self.at(QueryPlace((*keys, *own)))

    def about(self, subject: str) -> Self:
        """Return the same error whose problem begins with what it is about."""
        return self._with(problem=f"{subject} {self.problem}")

    def _with(self, **parts: object) -> Self:
        changed = copy.copy(self)
        vars(changed).update(parts)
        changed.args = (rendered(changed),)
        return changed

    def advised(self, fix: str) -> Self:
        """Return the same error with a fix, where it has none."""
        return self if self.fix else self._with(fix=fix)

    def further(self, advice: str) -> Self:
        """Return the same error with more advice behind its own."""
        return self._with(fix=joined(*([self.fix, " "] if self.fix else []), advice))

    def withheld(self) -> Self:
        """Return the same error without the value."""
        return self._with(problem=f"the value {WITHHELD} is not allowed", value=NAME)

    def in_file(self, file: str | None) -> Self:
        """Return the same error with the file, where it is of a table and does not name one yet."""
        place = self.place if self.place is not None else TablePlace()
        if file is None or not isinstance(place, TablePlace) or place.file is not None:
            return self
        return self.at(replace(place, file=file))


def rendered(error: ContextualBertError, spelling: Spelling = in_python, *, place: str | None = None) -> str:
    """Return an error as text: what is wrong and where, what is allowed, what to do.

    Args:
        error: to say.
        spelling: of settings.
        place: other words for the place, as the beginning of the sentence.

    Example:
        >>> error = ConfigurationError(Message("needs {time}", time=...), setting="split_by", value="time")
        >>> rendered(error, lambda name, value: f"--{name}")
        '--split_by needs --time'
    """
    if place is None:
        place = error.place.text(error.value, spelling) if error.place is not None else ""
    parts = [spelled(part, spelling) for part in (error.allowed, error.fix) if part]
    remark = error.place.remark if isinstance(error.place, TablePlace) else ""
    text = f"{place}{spelled(error.problem, spelling)}"
    if parts and not text.endswith((".", "!", "?")):
        text += "."
    text = " ".join([text, *parts])
    return f"{text.removesuffix('.')}. {remark}" if remark else text


def in_message(error: ContextualBertError) -> Message:
    """Return an error as a text that names the settings that it names.

    Example:
        >>> error = ConfigurationError(Message("needs {time}", time=...), setting="split_by", value="time")
        >>> in_message(error).spelled(lambda name, value: f"--{name}")
        '--split_by needs --time'
    """
    settings: dict[str, object] = {}

    def kept(name: str, value: object) -> str:
        if settings.setdefault(name, value) is not value:
            return in_python(name, value)  # one of two values stays in Python's spelling, as in ``joined``
        return f"{{{name}}}"

    return Message(rendered(error, kept), **settings)


class ConfigurationError(ContextualBertError, ValueError):
    """A setting that cannot work: raised when the object is made, not when it is used.

    Args:
        problem: what is wrong. With ``setting`` it is the rest of the sentence that begins with the setting.
        setting: name of the argument in Python.
        value: that was given for it.
        allowed: what is allowed, as a sentence.
        fix: what to do, as a sentence.
        place: where, if it is no setting.
    """

    def __init__(
        self,
        problem: str,
        *,
        setting: str | None = None,
        value: object = NAME,
        allowed: str = "",
        fix: str = "",
        place: Place | None = None,
    ) -> None:
        place = SettingPlace(setting) if setting is not None else place
        super().__init__(problem, place=place, value=value, allowed=allowed, fix=fix)


class SchemaError(ContextualBertError, ValueError):
    """A context schema that is not valid, or does not fit the table it is used with."""


class UnknownNameError(ContextualBertError, LookupError):
    """A name that is not registered, not a column, not an option."""


class RunDirectoryError(ContextualBertError, OSError):
    """A run directory that is incomplete, from another version, or in use."""


class CheckpointError(ContextualBertError, OSError):
    """A pretrained checkpoint that is absent, incomplete or of another architecture."""


class NonFiniteError(ContextualBertError, FloatingPointError):
    """A number that is none: a model gave NaN or infinity, from its weights or its inputs."""


class DataError(ContextualBertError, ValueError):
    """A faulty table: names the file, the row, the column and the value.

    Args:
        problem: what is wrong with the value, as a phrase.
        file: path of the table, if it came from one.
        row: zero-based row of the table. The text names the line of an editor where the reader knows it, else the row
            counted from 1, without the header.
        column: name of the column (or of the context feature).
        value: the faulty value; NAME where it is not named.
        allowed: what is allowed, as a sentence.
        fix: what to do, as a sentence.

    Example:
        >>> str(DataError("'abc' is not a number", file="days.csv", row=3, column="age", fix="Give a number."))
        "days.csv, row 4, column 'age': 'abc' is not a number. Give a number. Rows count from 1, without the header."
    """

    def __init__(
        self,
        problem: str,
        *,
        file: str | None = None,
        row: int | None = None,
        column: str | None = None,
        value: object = NAME,
        allowed: str = "",
        fix: str = "",
    ) -> None:
        place = TablePlace(file, row, column)
        super().__init__(problem, place=place if place.keys else None, value=value, allowed=allowed, fix=fix)

    @property
    def file(self) -> str | None:
        """Path of the table, if it came from one."""
        return self.place.file if isinstance(self.place, TablePlace) else None

    @property
    def row(self) -> int | None:
        """Zero-based row of the table, or number of the query."""
        return self.place.row if isinstance(self.place, TablePlace | QueryPlace) else None

    @property
    def column(self) -> str | None:
        """Name of the column."""
        return self.place.column if isinstance(self.place, TablePlace) else None

    def moved(self, **place: str | int | None) -> Self:
        """Return the same error with another ``file``, ``row`` or ``column``.

        Example:
            >>> str(DataError("'x' is no number", row=3).moved(row=None, column="age"))
            "column 'age': 'x' is no number"
        """
        own = self.place if isinstance(self.place, TablePlace) else TablePlace()
        return self.at(replace(own, **place))  # pyright: ignore[reportArgumentType]


class QueryError(DataError):
    """A faulty query: names its number, the keys that lead to the value, and the value.

    Args:
        problem: what is wrong with the value, as a phrase.
        location: the number of the query, counted from 0, and the keys in it. The number may be added later, by
            ``within``.
        value: the faulty value; NAME where it is not named.
        allowed: what is allowed, as a sentence.
        fix: what to do, as a sentence.

    Example:
        >>> str(QueryError("'old' is no number", location=(0, "context", "age"), fix="Give a number."))
        "query 1, context.age: 'old' is no number. Give a number."
    """

    def __init__(
        self, problem: str, *, location: Sequence[Key] = (), value: object = NAME, allowed: str = "", fix: str = ""
    ) -> None:
        super().__init__(problem, value=value, allowed=allowed, fix=fix)
        self.place = QueryPlace(tuple(location))
        self.args = (rendered(self),)


def shown(value: object, *, longest: int = 80) -> str:
    """A value as a message names it, cut short; Python itself spells no whole number of more than 4,300 digits.

    Example:
        >>> shown("old"), shown(10**5000)
        ("'old'", 'a whole number of about 5000 digits')
    """
    try:
        return f"{value!r:.{longest}}"
    except ValueError:
        digits = round(int(value).bit_length() * 0.30103) if isinstance(value, int) else 0
        return f"a whole number of about {digits} digits" if digits else f"a {type(value).__name__} of such numbers"


def type_in_words(value: object) -> str:
    """Return what kind of value this is, in words of JSON where JSON has it.

    Example:
        >>> [type_in_words(value) for value in ("old", True, 3, ["a"], {"a": 1}, None, {1})]
        ['a string', 'a truth value', 'a number', 'a list', 'an object', 'null', 'a set']
    """
    if value is None:
        return "null"
    words = ((str, "a string"), (bool, "a truth value"), (int | float, "a number"), (list | tuple, "a list"))
    found = next((word for kind, word in words if isinstance(value, kind)), None)
    return found or ("an object" if isinstance(value, Mapping) else f"a {type(value).__name__}")


def did_you_mean(name: str, known: Iterable[str], *, label: str = "Known") -> str:
    """A sentence that suggests the closest known name and lists the others, of many the closest ones.

    Args:
        name: that is not there.
        known: the names that are.
        label: of the list.

    Example:
        >>> did_you_mean("globl_state", ["none", "global_state"])
        "Did you mean 'global_state'? Known: global_state, none."
    """
    names = sorted(known)
    close = difflib.get_close_matches(name, names, n=1)
    if not close:  # in other capitals
        lower = {each.casefold(): each for each in names}
        close = [lower[each] for each in difflib.get_close_matches(name.casefold(), lower, n=1)]
    suggestion = f"Did you mean {close[0]!r}? " if close else ""
    if close and _looks_like(name, close[0]):
        suggestion = f"Did you mean {close[0]!r}, of the characters {close[0]!a} and not {name!a}? "
    if len(names) > _MOST_NAMES:
        some = [*close, *difflib.get_close_matches(name, [each for each in names if each not in close], _SOME, 0.0)]
        return f"{suggestion}{label}: {', '.join(some[:_SOME])} and {len(names) - _SOME:,} more."
    return f"{suggestion}{label}: {', '.join(names) or '(nothing)'}."


def _looks_like(name: str, known: str) -> bool:
    """Return whether two names differ in blanks at their ends or in the form of their accents alone."""
    return name != known and normalize("NFC", name).strip() == normalize("NFC", known).strip()


def check_choice(setting: str, value: object, allowed: Iterable[str]) -> None:
    """Raise ConfigurationError unless the value of a setting is one of the allowed words.

    Example:
        >>> check_choice("split", "time", ["last", "time"])
    """
    known = [*allowed]
    if value not in known:
        raise ConfigurationError("is unknown", setting=setting, value=value, allowed=did_you_mean(str(value), known))
