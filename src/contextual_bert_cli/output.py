"""Output streams: results go to standard output, all else to standard error, from the first process alone.

Text is printed as it is, "[MASK]" is an item and no markup; only what would steer a terminal is spelt out.
"""

import os
import sys
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any, Literal, Protocol

from contextual_bert.printable import printable, printable_argument, printable_json
from contextual_bert_cli.failures import is_main_process
from contextual_bert_cli.wording import in_options

if TYPE_CHECKING:
    from pathlib import Path

    from rich.console import Console, RenderableType

Format = Literal["table", "markdown", "json"]


def check_output_path(path: "Path | None") -> None:
    """Raise OSError where nothing can be written: before the work whose result is wanted there."""
    if path is None:
        return
    from contextual_bert.atomic_files import check_can_be_made

    check_can_be_made(path)


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
    console().print(_printable_layout(result))


def show_text(text: str) -> None:
    """A result that a program may read: nothing is added but the escapes of what steers a terminal."""
    if is_main_process():
        print(printable(text))


def show_json(*values: object, indent: int | None = None) -> None:
    """Results as JSON, one after the other.

    Raises:
        NonFiniteError: a number in them is none.
    """
    from contextual_bert.json_text import json_text

    show_json_text("\n".join(json_text(each, ensure_ascii=False, indent=indent) for each in values))


def show_json_text(text: str) -> None:
    """A result that is JSON already."""
    if is_main_process():
        print(printable_json(text))


def remark(*lines: str) -> None:
    """Sentences about what happens, beside the result, a line each. The settings that they name are options here."""
    writer = console(is_error=True)
    for line in lines:
        writer.print(printable(in_options(line), is_one_line=True), soft_wrap=True)


def remark_unknown(context: Mapping[str, Sequence[str]]) -> None:
    """Values of a context that the model never saw, by feature."""
    for feature, values in context.items():
        remark(f"unknown values of {feature}, treated as unknown: {', '.join(values)}")


def show_numbers(numbers: Any, output_format: str) -> None:
    """Print a report as --format says.

    Args:
        numbers: with ``to_json``, ``to_markdown`` and ``to_rich``.
        output_format: json, markdown or table.
    """
    if output_format == "json":
        show_json_text(numbers.to_json())
    elif output_format == "markdown":
        show_text(numbers.to_markdown())
    else:
        show(numbers.to_rich())


def next_commands(*commands: Sequence[str | None]) -> None:
    """Print the commands to run next, ready to be copied. Parts that are None are left out."""
    remark("", "next:")
    for command in commands:
        parts = [printable_argument(part) for part in command if part is not None]
        remark(" ".join(["  contextual-bert", *parts]))


@contextmanager
def working(label: str) -> Generator[Callable[[], None]]:
    """A sign of life for work that cannot say how far it is; yield what ends it, where a part of the work can."""
    from rich.text import Text

    writer = console(is_error=True)
    with writer.status(Text(printable(label, is_one_line=True))) if writer.is_terminal else nullcontext() as sign:
        yield sign.stop if sign is not None else lambda: None


def calm_transformers() -> None:
    """Silence warnings and progress bars of transformers: the library says what matters of them.

    Where transformers is not imported yet, its variables say so, and a command that fails early need not import it.
    """
    if "transformers" in sys.modules:
        from transformers.utils.logging import disable_progress_bar, set_verbosity_error

        disable_progress_bar()
        set_verbosity_error()
    else:
        os.environ |= {"TRANSFORMERS_VERBOSITY": "error", "HF_HUB_DISABLE_PROGRESS_BARS": "1"}


def _printable_layout(result: Any) -> Any:
    """The same layout, in which every name and every cell is printable."""
    from rich.console import Group
    from rich.table import Table as RichTable
    from rich.text import Text

    from contextual_bert.evaluation.tables import Table

    if isinstance(result, str):
        return printable(result)
    if isinstance(result, Text):
        return Text(printable(result.plain), style=result.style)
    if isinstance(result, Group):
        return Group(*map(_printable_layout, result.renderables))
    if isinstance(result, Table):
        rows = tuple(tuple(map(printable, row)) for row in result.rows)
        columns = tuple(map(printable, result.columns))
        return Table(printable(result.title), columns, rows, num_label_columns=result.num_label_columns)
    if isinstance(result, RichTable):
        for column in result.columns:
            column.header = _printable_layout(column.header)
            cells = [_printable_layout(cell) for cell in column.cells]
            column._cells = cells  # pyright: ignore[reportPrivateUsage]  (rich has no other way to change a cell)
    return result
