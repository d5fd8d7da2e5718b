"""Help pages: a command's options under their headings, and the list of commands. Commands load when they are used."""

import inspect
from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Any

import typer
from typer.core import TyperCommand

from contextual_bert_cli.failures import InWords

# In the order of ``--help``.
COMMANDS = (
    *("inspect", "split", "train", "evaluate", "calibrate", "importance", "complete", "similar", "explain", "vectors"),
    *("export", "serve", "compare", "tune", "predict", "embed", "sample", "generate", "inspect-model", "parameters"),
    *("catalogue", "index", "histories", "publish", "forget", "world"),
)
_REST = "Options"


class GroupedCommand(TyperCommand):
    """A command whose options stand under headings in ``--help``: ``rich_help_panel``, without rich."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the arguments, then each group of options in the order in which the groups come.

        The options of the command itself come last, but first where no group is of those that most people need.
        """
        from contextual_bert.options import MAIN

        arguments: list[tuple[str, str]] = []
        groups: dict[str, list[tuple[str, str]]] = {}
        parameters = sorted(self.get_params(ctx), key=_place)
        if MAIN not in map(_heading, parameters):
            parameters.sort(key=lambda each: _heading(each) != _REST)
        for parameter in parameters:
            line = parameter.get_help_record(ctx)
            if line is None:
                continue
            if parameter.param_type_name == "argument":
                arguments.append(line)
            else:
                groups.setdefault(_heading(parameter), []).append(line)
        for heading, lines in {"Arguments": arguments, **groups}.items():
            if lines:
                with formatter.section(heading):
                    formatter.write_dl(lines)


def _heading(parameter: Any) -> str:
    return getattr(parameter, "rich_help_panel", None) or _REST


def _place(parameter: Any) -> int:
    """Return the number of a parameter's heading. Those of a command itself come before the last one."""
    from contextual_bert.options import GROUPS

    heading = _heading(parameter)
    return GROUPS.index(heading) if heading in GROUPS else len(GROUPS) + (heading == _REST)


class LazyCommands(Mapping[str, Any]):
    """Name -> command. A command is imported when it is asked for, so that no other one waits for it."""

    def __init__(self) -> None:
        self._made: dict[str, Any] = {}

    def __iter__(self) -> Iterator[str]:
        return iter(COMMANDS)

    def __len__(self) -> int:
        return len(COMMANDS)

    def __getitem__(self, name: str) -> Any:
        if name not in COMMANDS:
            raise KeyError(name)
        if name not in self._made:
            self._made[name] = _command(name)
        return self._made[name]

    def summary(self, name: str, *, limit: int) -> str:
        """Return the first sentence on a command, without its options."""
        module = _module(name)
        text = module.app.info.help if hasattr(module, "app") else inspect.getdoc(module.command)
        return TyperCommand(name, help=text).get_short_help_str(limit)


class Commands(InWords):
    """The group of all commands."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.commands: Any = LazyCommands()

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write a line a command."""
        limit = formatter.width - 6 - max(map(len, COMMANDS))
        with formatter.section("Commands"):
            formatter.write_dl([(name, self.commands.summary(name, limit=limit)) for name in COMMANDS])


def _module(name: str) -> Any:
    return import_module(f"contextual_bert_cli.{name.replace('-', '_')}")


def _command(name: str) -> Any:
    module = _module(name)
    if hasattr(module, "app"):
        app = module.app
        for each in app.registered_commands:
            each.cls = GroupedCommand
    else:
        app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)
        app.command(name, cls=GroupedCommand, epilog=module.EXAMPLE)(module.command)
    return typer.main.get_command(app)
