"""The entry point: the global flags, and the exit codes."""

from contextual_bert_cli.interruption import ending_at_interrupt, ignore_hangups, remember_interrupts, say_if_unsaid

ignore_hangups()
with ending_at_interrupt():  # first, for the imports take the first half of a second
    import os
    import sys
    from typing import Annotated

    import typer

    from contextual_bert_cli.failures import DEBUG_VARIABLE, INTERRUPTED, MISTAKE, say
    from contextual_bert_cli.help_pages import Commands
    from contextual_bert_cli.streams import make_writable

# Verbatim, line for line, in the help text.
EXAMPLE = """\b
Example:
  contextual-bert world generate --output world
  contextual-bert inspect world/outfits.parquet --items items --customer customer_id
  contextual-bert train world/outfits.parquet --items items --customer customer_id --output runs/gsu
  contextual-bert complete runs/gsu --set 'coat-1,[MASK]' --context '{"age": 34}'
"""

SHARED = ("train", "compare")  # the commands whose work several processes share

app = typer.Typer(
    cls=Commands,
    help="Masked models of sets of items that know who is asking: train, evaluate and use them on your own table.",
    epilog=EXAMPLE,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
)


def _show_version(is_wanted: bool) -> None:
    if is_wanted:
        from importlib import metadata  # takes a quarter of the time of --help

        typer.echo(f"contextual-bert {metadata.version('contextual-bert')}")
        raise typer.Exit


@app.callback()
def options(
    call: typer.Context,
    debug: Annotated[
        bool, typer.Option("--debug", help=f"Show the traceback of an error; {DEBUG_VARIABLE}=1 does the same.")
    ] = False,
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Global flags, given before the command."""
    if debug:
        os.environ[DEBUG_VARIABLE] = "1"
    if os.environ.get("WORLD_SIZE", "1") != "1" and call.invoked_subcommand not in SHARED:
        say(
            f"Under torchrun each process would do all of {call.invoked_subcommand}: only {', '.join(SHARED)} share "
            "their work. Start it without."
        )
        raise SystemExit(MISTAKE)


def main() -> None:
    """Run the command line: exit code 0, 2 for a mistake, 130 after Ctrl-C, 143 after SIGTERM in a training."""
    make_writable()
    remember_interrupts()
    try:
        app(prog_name="contextual-bert")
    except KeyboardInterrupt:  # before a command ran, or after
        say("Interrupted.")
        sys.exit(INTERRUPTED)
    except SystemExit:
        say_if_unsaid()  # typer ends so while it reads the options
        raise


if __name__ == "__main__":
    main()
