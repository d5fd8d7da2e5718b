"""What a command tells of a mistake: its exit code, its words, and the structured place of the error behind them."""

from dataclasses import dataclass
from pathlib import Path

from typer.testing import Result

from contextual_bert.errors import ContextualBertError


@dataclass(frozen=True, init=False)
class At:
    """The structured place of an error: the last keys of its location, a file by its name."""

    keys: tuple[object, ...]

    def __init__(self, *keys: object) -> None:
        object.__setattr__(self, "keys", keys)


def location_of(result: Result) -> tuple[object, ...]:
    """Return the location of the error that a command told."""
    error: BaseException | None = result.exception
    while error is not None and not isinstance(error, ContextualBertError):
        error = error.__context__
    assert error is not None, "no error of this package was told"
    return tuple(Path(key).name if isinstance(key, str) else key for key in error.location)


def refused(result: Result, *expected: str | At) -> None:
    """Exit code 2, and one paragraph on stderr that holds all of these, about the place."""
    assert result.exit_code == 2, (result.output, result.exception)
    assert "Traceback" not in result.output
    assert result.stdout == ""
    lacking = [text for text in expected if isinstance(text, str) and text not in result.stderr]
    assert not lacking, f"{lacking} not in: {result.stderr}"
    for place in expected:
        if isinstance(place, At):
            assert location_of(result)[-len(place.keys) :] == place.keys, result.stderr
