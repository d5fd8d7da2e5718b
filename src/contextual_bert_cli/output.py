"""Where text goes: results to standard output, everything else to standard error, and only from the first process.

Text is printed as it is: "[MASK]" is an item and no markup.
"""

import shlex
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Literal, Protocol

from contextual_bert_cli.failures import is_main_process

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

Format = Literal["table", "markdown", "json"]


class Showable(Protocol):
    """A report or a comparison."""

    def to_json(self) -> str: ...

    def to_markdown(self) -> str: ...

    def to_rich(self) -> "RenderableType": ...


def console(*, is_error: bool = False) -> "Console":
    """A console; the streams are those of this moment."""
    from rich.console import Console

    return Console(stderr=is_error, highlight=False, markup=False, quiet=not is_main_process())


def show(result: "RenderableType") -> None:
    """A result, laid out for a terminal."""
    console().print(result)


def show_text(text: str) -> None:
    """A result that a program may read: not a character is added."""
    if is_main_process():
        print(text)


def remark(*lines: str) -> None:
    """Sentences about what happens, beside the result."""
    writer = console(is_error=True)
    for line in lines:
        writer.print(line, soft_wrap=True)


def remark_unknown(context: Mapping[str, Sequence[str]]) -> None:
    """Values of a context that the model never saw, by feature."""
    for feature, values in context.items():
        remark(f"unknown values of {feature}, treated as unknown: {', '.join(values)}")


def next_commands(*commands: Sequence[str | None]) -> None:
    """What to type next, ready to be copied; parts that are None are left out."""
    remark("", "next:")
    for command in commands:
        remark("  contextual-bert " + shlex.join(part for part in command if part is not None))


@contextmanager
def working(label: str) -> Generator[None]:
    """A sign of life for work that cannot say how far it is."""
    writer = console(is_error=True)
    with writer.status(label) if writer.is_terminal else nullcontext():
        yield


def calm_transformers() -> None:
    """No warnings and progress bars of transformers: what matters of them, the library says itself."""
    from transformers.utils.logging import disable_progress_bar, set_verbosity_error

    disable_progress_bar()
    set_verbosity_error()
