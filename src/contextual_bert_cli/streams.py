"""Standard output and error that take any text, whatever started the command.

A job of cron may have no output at all, and a terminal may lack the letters of a name or the lines of a table.
"""

import io
import os
import sys
from contextlib import suppress
from pathlib import Path


def make_writable() -> None:
    """Let a closed stream lead nowhere, and escape letters that the encoding of a stream lacks.

    JSON that the commands print is ASCII, so only tables and sentences are escaped.
    """
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, Path(os.devnull).open("w", encoding="utf-8"))  # noqa: SIM115  (as long as the process)
        elif isinstance(stream, io.TextIOWrapper):
            with suppress(OSError):  # a file that was made a pipe below the stream says that it can seek, and cannot
                stream.reconfigure(errors="backslashreplace")
