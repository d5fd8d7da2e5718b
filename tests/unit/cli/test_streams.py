"""Streams of the command line that are closed, or lack letters: no traceback."""

import os
import subprocess
import sys
import tempfile

PROGRAM = "from contextual_bert_cli.{module} import {name}; {name}()"


def test_a_closed_stream_leads_nowhere() -> None:
    program = PROGRAM.format(module="main", name="main")
    command = ["sh", "-c", 'exec "$@" >&-', "sh", sys.executable, "-c", program, "--help"]
    result = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert (result.returncode, result.stderr) == (0, "")


def test_a_stream_without_a_letter_escapes_it() -> None:
    program = PROGRAM.format(module="streams", name="make_writable")
    result = subprocess.run(
        [sys.executable, "-c", f"{program}; print('caf\\u00e9')"],
        capture_output=True,
        timeout=60,
        check=False,
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
    )
    assert result.stdout.strip() == b"caf\\xe9"
    assert result.stderr == b""


def test_a_file_that_became_a_pipe_stays_as_it_is() -> None:
    program = PROGRAM.format(module="streams", name="make_writable")
    swap = "import os, sys; there, here = os.pipe(); os.dup2(here, 1); "
    with tempfile.TemporaryFile() as file:
        result = subprocess.run(
            [sys.executable, "-c", f"print('before', flush=True); {swap}{program}"],
            stdout=file,
            stderr=subprocess.PIPE,
            text=True,
            timeout=60,
            check=False,
        )
    assert (result.returncode, result.stderr) == (0, "")
