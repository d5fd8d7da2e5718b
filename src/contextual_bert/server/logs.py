"""The log: a JSON object a line, one line a request. It does not decide what a request says about itself."""

import json
import logging
import sys
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, TextIO

from contextual_bert.json_text import json_text, without_nonfinite

REQUESTS = logging.getLogger("contextual_bert.server.requests")
EVENTS = logging.getLogger("contextual_bert.server")


@dataclass
class RequestRecord:
    """Log record of a request. Whoever answers it fills in ``details``."""

    request_id: str
    started_at: float = field(default_factory=time.perf_counter)
    details: dict[str, Any] = field(default_factory=dict[str, Any])

    @property
    def seconds(self) -> float:
        """Since the request came in."""
        return time.perf_counter() - self.started_at


_ENCODER = json.JSONEncoder(default=str, allow_nan=False)


class JsonLines(logging.Formatter):
    """A record as one line of JSON; what was given as ``extra={"details": {...}}`` stands beside the message.

    Args:
        worker: number of the process among several, which each line names.
    """

    def __init__(self, worker: int | None = None) -> None:
        super().__init__()
        self._of_all: dict[str, Any] = {} if worker is None else {"worker": worker}

    def format(self, record: logging.LogRecord) -> str:
        """The line."""
        moment = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        content: dict[str, Any] = {"time": moment, "level": record.levelname.lower(), "event": record.getMessage()}
        content |= self._of_all
        content |= getattr(record, "details", {})
        if record.exc_info:
            content["traceback"] = self.formatException(record.exc_info)
        try:
            return _ENCODER.encode(content)
        except ValueError:  # a number that is none, or what refers to itself
            return json_text(without_nonfinite(content), default=str)


class GatheringHandler(logging.Handler):
    """Writes lines to a stream, those of a moment together: a write for each would cost more than to make it.

    What is worse than information is written at once, with all that came before.

    Args:
        stream: where the lines go.
        seconds: how long a line waits at most for others.

    Example:
        >>> handler = GatheringHandler(sys.stdout, seconds=60)
        >>> handler.handle(logging.makeLogRecord({"msg": "a line", "levelno": logging.INFO}))
        True
        >>> handler.flush()
        a line
        >>> handler.close()
    """

    def __init__(self, stream: TextIO, *, seconds: float = 0.02) -> None:
        super().__init__()
        self._stream, self._seconds = stream, seconds
        self._lines: list[str] = []
        self._has_lines, self._is_closed = threading.Event(), threading.Event()
        self._writer: threading.Thread | None = None

    def emit(self, record: logging.LogRecord) -> None:
        """Take a line."""
        try:
            self._lines.append(self.format(record))
        except Exception:
            self.handleError(record)
            return
        if record.levelno > logging.INFO:
            self.flush()
        elif not self._has_lines.is_set():
            self._has_lines.set()
            if self._writer is None:
                self._writer = threading.Thread(target=self._write_on, name="contextual-bert-log", daemon=True)
                self._writer.start()

    def flush(self) -> None:
        """Write what waits."""
        assert self.lock is not None
        with self.lock:
            lines, self._lines = self._lines, []
            self._has_lines.clear()
            if lines:
                with suppress(OSError, ValueError):  # nobody reads it any more
                    self._stream.write("".join(f"{line}\n" for line in lines))
                    self._stream.flush()

    def close(self) -> None:
        """Write what waits, and end."""
        self.flush()
        self._is_closed.set()
        self._has_lines.set()
        super().close()

    def _write_on(self) -> None:
        while not self._is_closed.is_set():
            self._has_lines.wait()
            self._is_closed.wait(self._seconds)
            self.flush()


def configure_logging(*, worker: int | None = None, is_gathering: bool = True) -> None:
    """Let everything go to standard error as lines of JSON.

    Args:
        worker: number of this process among several.
        is_gathering: whether lines of a moment are written together, by a thread.
    """
    handler = GatheringHandler(sys.stderr) if is_gathering else logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines(worker))
    logging.root.handlers[:] = [handler]
    for name in ("contextual_bert.server", "uvicorn"):
        logging.getLogger(name).setLevel(logging.INFO)
    logging.getLogger("uvicorn").handlers.clear()
