"""What a command tells of a mistake: its exit code, its words, and the structured place of the error behind them."""

from dataclasses import dataclass
from pathlib import Path

import typer
from typer.testing import Result

from contextual_bert.errors import ContextualBertError

_USAGE = typer.BadParameter.__mro__[1]  # what the parser of options raises; typer has it, and does not export it


@dataclass(frozen=True, init=False)
class At:
    """The structured place of an error: the last keys of its location, a file by its name."""

    keys: tuple[object, ...]

    def __init__(self, *keys: object) -> None:
        object.__setattr__(self, "keys", keys)


def location_of(result: Result) -> tuple[object, ...]:
    """Return the location of the error that a command told."""
    error: BaseException | None = result.exception
    while error is not None and not isinstance(error, ContextualBertError | _USAGE | OSError):
        error = error.__context__
    assert error is not None, "no error with a place was told"
    if isinstance(error, ContextualBertError):
        return tuple(Path(key).name if isinstance(key, str) else key for key in error.location)
    if isinstance(error, _USAGE):  # of the parser of options
        option = getattr(error, "option_name", None) or getattr(getattr(error, "param", None), "opts", [None])[0]
        return (option,) if option is not None else ()
    filename = getattr(error, "filename", None)
    return (filename,) if filename is not None else ()


def refused(result: Result, *expected: str | At, is_placeless: bool = False) -> None:
    """Exit code 2, and one paragraph on stderr that holds all of these, about the place.

    Args:
        result: of the command.
        expected: words of the paragraph, and the place.
        is_placeless: the fault has no place in what the user gave.
    """
    assert result.exit_code == 2, (result.output, result.exception)
    assert "Traceback" not in result.output
    assert result.stdout == ""
    lacking = [text for text in expected if isinstance(text, str) and text not in result.stderr]
    assert not lacking, f"{lacking} not in: {result.stderr}"
    place = location_of(result) if not is_placeless else ()
    assert bool(place) is not is_placeless, f"no place: {result.stderr}"
    for each in expected:
        if isinstance(each, At):
            assert place[-len(each.keys) :] == each.keys, (place, result.stderr)
