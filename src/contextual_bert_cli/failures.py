"""Rendering of errors: a user's mistake is one paragraph on standard error and exit code 2.

Knows the classes of errors by name, so that ``--help`` need not import the library.
"""

import contextlib
import errno
import os
import sys
from collections.abc import Generator
from pathlib import Path
from typing import Any

import typer
from typer.core import TyperGroup

from contextual_bert_cli import interruption
from contextual_bert_cli.typed_numbers import remember_typed
from contextual_bert_cli.wording import option_of

MISTAKE, INTERRUPTED = 2, 130
DEBUG_VARIABLE = "CONTEXTUAL_BERT_DEBUG"
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
# What Rust, and torch's writer of archives, say of a full disk: the last two, that the file does not hold what was
# written.
_FULL_WORDS = (
    "No space left on device",
    "Disk quota exceeded",
    "File too large",
    "PytorchStreamWriter failed",
    "iostream error",
    "unexpected pos",
)
_FULL_ADVICE = (
    "Free some space or give another --output. What was complete before is whole; nothing was left half written."
)
# What the package requires, and an installation that serves exports alone leaves out.
LEFT_OUT = (
    "accelerate",
    "huggingface_hub",
    "jaxtyping",
    "jinja2",
    "markupsafe",
    "matplotlib",
    "safetensors",
    "scipy",
    "tensorboard",
    "torch",
    "transformers",
)
NOTHING_LEFT = "Interrupted. Nothing half written was left."


class Interrupted(KeyboardInterrupt):
    """Ctrl-C, with a sentence on what is left."""


class InWords(TyperGroup):
    """The group of all commands: runs one and turns what it raises into a sentence and an exit code."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the command line, and keep it for messages."""
        remember_typed(args)
        return super().parse_args(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        """Run the command; see the module's docstring."""
        try:
            with in_words():
                result = super().invoke(ctx)
                sys.stdout.flush()
        except BrokenPipeError:
            # The reader has read enough. The rest goes nowhere, also what the interpreter flushes at the end.
            with contextlib.suppress(OSError):  # a stream without a file, as in tests, has nothing to flush
                os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise typer.Exit(0) from None
        return result


@contextlib.contextmanager
def in_words() -> Generator[None]:
    """Turns what a command or a recipe raises into a sentence and an exit code; a bug of ours keeps its traceback."""
    try:
        yield
    except BrokenPipeError:
        raise
    except KeyboardInterrupt as error:
        say(str(error) or NOTHING_LEFT)
        interruption.is_said = True
        raise SystemExit(INTERRUPTED) from None
    except SystemExit as error:
        if (sentence := getattr(error, "sentence", "")) and not is_debugging():
            say(sentence)
        raise
    except Exception as error:
        if interruption.is_interrupted:  # some code takes whatever ends its import for a fault of what it imports
            say(NOTHING_LEFT)
            interruption.is_said = True
            raise SystemExit(INTERRUPTED) from None
        sentence = advice_for(error)
        if sentence is None or is_debugging():
            raise
        say(sentence, everywhere="ContextualBertError" not in _names_of(error))
        raise SystemExit(MISTAKE) from None


@contextlib.contextmanager
def resumable(output: Path) -> Generator[None]:
    """Holds the lock of a study's folder, and says after Ctrl-C or SIGTERM that it goes on where it was."""
    from contextual_bert.folder_lock import locked_folder
    from contextual_bert.runs.sigterm import Terminated, ending_at_sigterm

    left = f"Complete runs and checkpoints below {output} are whole: the same command goes on there."
    try:
        with locked_folder(output), ending_at_sigterm(f"Stopped by SIGTERM. {left}"):
            yield
    except KeyboardInterrupt:
        raise Interrupted(f"Interrupted. {left}") from None
    except Terminated:
        raise Terminated(f"Stopped by SIGTERM. {left}") from None


def is_debugging() -> bool:
    """Return True if tracebacks are wanted."""
    return os.environ.get(DEBUG_VARIABLE, "") not in ("", "0")


def is_main_process() -> bool:
    """Return True in the process that prints, of those that ``torchrun`` started."""
    return rank() == "0"


def rank() -> str:
    """The number of this process, where ``torchrun`` started several."""
    return os.environ.get("RANK", "0")


def say(sentence: str, *, everywhere: bool = False) -> None:
    """One paragraph on standard error.

    Args:
        sentence: what to say.
        everywhere: whether any process says it: what happens to a machine may happen to one of them alone.
    """
    if everywhere or is_main_process():
        from contextual_bert.printable import printable

        speaker = "contextual-bert" if is_main_process() else f"contextual-bert, process {rank()}"
        typer.echo(f"{speaker}: {printable(' '.join(sentence.split()))}", err=True)


def _names_of(error: Exception) -> set[str]:
    """Of its classes but Python's own."""
    return {kind.__name__ for kind in type(error).__mro__ if kind.__module__ != "builtins"}


def advice_for(error: Exception) -> str | None:
    """Return the advice for an error, or None for a bug."""
    names, text = _names_of(error), str(error)
    if "ContextualBertError" in names and not is_full(error):
        from contextual_bert.errors import ContextualBertError, rendered

        return rendered(error, option_of) if isinstance(error, ContextualBertError) else text
    if is_full(error):
        place = getattr(error, "filename", None)
        return f"No space is left on the disk{f' ({place})' if place else ''}: {text.rstrip('.')}. {_FULL_ADVICE}"
    if isinstance(error, EOFError):
        return "A file ends where more of it should follow: it is damaged. Make it anew, or look at the disk."
    if "SafetensorError" in names:
        return f"A file of weights is damaged or cannot be written: {text}. Train again, or look at the disk."
    if _is_out_of_memory(error):
        reason = " ".join(text.split()).partition("DefaultCPUAllocator: ")[2] or text or "the machine has no more"
        return f"Not enough memory: {reason.rstrip('.')}. Give a smaller --batch-size."
    if isinstance(error, ModuleNotFoundError) and (package := (error.name or "").partition(".")[0]) in LEFT_OUT:
        return f"This needs {package}, which is not installed here. Run: pip install contextual-bert."
    if isinstance(error, OSError):
        if error.filename is not None and error.strerror:
            text = f"{error.filename}: {error.strerror}"
        return f"{text}. Check the path, its permissions and the disk."
    return None


def _is_out_of_memory(error: BaseException) -> bool:
    """Return whether the machine or an accelerator has no memory left; libraries say so in their own words."""
    if "contextual_bert" not in sys.modules:
        return isinstance(error, MemoryError)
    from contextual_bert import memory

    return memory.is_out_of_memory(error)


def is_full(error: BaseException) -> bool:
    """Return True if the disk or the quota is full. Libraries raise errors of their own for it."""
    causes = [error, *([error.__cause__] if error.__cause__ is not None else [])]
    return any(
        (isinstance(each, OSError) and each.errno in _FULL) or any(words in str(each) for words in _FULL_WORDS)
        for each in causes
    )
