"""The log: a JSON object a line, one line a request. It does not decide what a request says about itself."""

import logging
import sys
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

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


class JsonLines(logging.Formatter):
    """A record as one line of JSON; what was given as ``extra={"details": {...}}`` stands beside the message."""

    def format(self, record: logging.LogRecord) -> str:
        """The line."""
        moment = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        content: dict[str, Any] = {"time": moment, "level": record.levelname.lower(), "event": record.getMessage()}
        content |= getattr(record, "details", {})
        if record.exc_info:
            content["traceback"] = self.formatException(record.exc_info)
        return json_text(without_nonfinite(content), default=str)


def configure_logging() -> None:
    """Let everything go to standard error as lines of JSON."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines())
    logging.root.handlers[:] = [handler]
    for name in ("contextual_bert.server", "uvicorn"):
        logging.getLogger(name).setLevel(logging.INFO)
    logging.getLogger("uvicorn").handlers.clear()
