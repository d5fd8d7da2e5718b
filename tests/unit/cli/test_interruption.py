"""Ctrl-C and SIGTERM at any moment: a sentence and an exit code, no traceback."""

import os
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from contextual_bert.runs.sigterm import Terminated
from contextual_bert_cli import interruption
from contextual_bert_cli.failures import in_words, is_full, resumable
from contextual_bert_cli.interruption import ending_at_interrupt, ignore_hangups, remember_interrupts
from contextual_bert_cli.train import command


def ended(act: object, output: Path) -> tuple[int, str]:
    """The exit code of a process that calls ``act``, and what it said."""
    child = os.fork()
    if child == 0:
        target = os.open(output, os.O_WRONLY | os.O_CREAT)
        os.dup2(target, 2)
        sys.stderr = os.fdopen(2, "w", closefd=False)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        code = 0
        try:
            act()  # pyright: ignore[reportCallIssue]
        except SystemExit as error:
            code = int(error.code or 0)
        except BaseException as error:
            print(f"Traceback of {error!r}", file=sys.stderr)
            code = 99
        sys.stderr.flush()
        os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), output.read_text()


def test_an_interrupt_while_the_command_line_is_imported_is_a_sentence(tmp_path: Path) -> None:
    def importing() -> None:
        with ending_at_interrupt():
            os.kill(os.getpid(), signal.SIGINT)
            raise ImportError("what an import makes of it")

    assert ended(importing, tmp_path / "said") == (130, "contextual-bert: Interrupted.\n")


def test_python_hears_interrupts_again_when_all_is_imported() -> None:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with ending_at_interrupt():
            assert signal.getsignal(signal.SIGINT) is not signal.default_int_handler
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)


def handler_after(arguments: list[str], before: Any) -> Any:
    kept, argv = signal.signal(signal.SIGHUP, before), sys.argv
    try:
        sys.argv = ["contextual-bert", *arguments]
        ignore_hangups()
        return signal.getsignal(signal.SIGHUP)
    finally:
        sys.argv = argv
        signal.signal(signal.SIGHUP, kept)


@pytest.mark.parametrize("arguments", [["serve", "runs/gsu"], ["--debug", "serve", "runs/gsu"]], ids=len)
def test_a_server_ignores_hangups_until_it_has_a_handler(arguments: list[str]) -> None:
    def own(number: int, frame: object) -> None:
        pass

    assert handler_after(arguments, signal.SIG_DFL) == signal.SIG_IGN
    assert handler_after(arguments, own) is own


@pytest.mark.parametrize("arguments", [[], ["train", "serve"], ["--version"]], ids=len)
def test_a_hangup_ends_other_commands(arguments: list[str]) -> None:
    assert handler_after(arguments, signal.SIG_DFL) == signal.SIG_DFL


def test_an_import_that_takes_an_interrupt_for_a_fault_is_interrupted_too(tmp_path: Path) -> None:
    def importing() -> None:
        remember_interrupts()
        with in_words():
            try:
                os.kill(os.getpid(), signal.SIGINT)
            except KeyboardInterrupt:
                raise ImportError("numpy.core.multiarray failed to import") from None

    code, said = ended(importing, tmp_path / "said")
    assert (code, said) == (130, "contextual-bert: Interrupted. Nothing half written was left.\n")
    assert not interruption.is_interrupted, "in this process"


def test_sigterm_in_a_study_says_how_to_go_on(tmp_path: Path) -> None:
    def studying() -> None:
        with in_words(), resumable(tmp_path / "study"):
            os.kill(os.getpid(), signal.SIGTERM)

    code, said = ended(studying, tmp_path / "said")
    assert code == 143
    assert said.startswith("contextual-bert: Stopped by SIGTERM. Complete runs and checkpoints below")
    assert not (tmp_path / "study").exists(), "an empty folder"


def test_sigterm_before_the_first_step_of_a_run_is_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stopped(*_: object, **__: object) -> None:
        raise Terminated("Stopped by SIGTERM")

    monkeypatch.setattr("contextual_bert.runs.prepare", stopped)
    with pytest.raises(Terminated) as raised:
        (tmp_path / "days.csv").write_text("items\na\n")
        command(tmp_path / "days.csv", items="items", output=tmp_path / "run")
    assert raised.value.code == 143
    assert raised.value.sentence == "Stopped by SIGTERM before the first checkpoint: there is nothing to go on with."


@pytest.mark.parametrize(
    "text",
    [
        "basic_ios::clear: iostream error",
        "[enforce fail at inline_container.cc:672] . unexpected pos 69376 vs 69268",
        "Error while serializing: I/O error: File too large (os error 27)",
    ],
)
def test_what_torch_says_of_a_full_disk_is_understood(text: str) -> None:
    assert is_full(RuntimeError(text))
