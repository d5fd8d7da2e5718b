"""Lines of the log are written together, and none is lost."""

import io
import json
import logging
import threading
import time

from contextual_bert.server.logs import GatheringHandler, JsonLines


def record(message: str, *, level: int = logging.INFO, **details: object) -> logging.LogRecord:
    """A record of the log."""
    return logging.makeLogRecord({"msg": message, "levelno": level, "levelname": "INFO", "details": details})


def test_lines_wait_for_others_and_are_written_soon() -> None:
    stream = io.StringIO()
    handler = GatheringHandler(stream, seconds=0.05)
    handler.setFormatter(JsonLines())
    for number in range(3):
        handler.handle(record("request", number=number))
    assert stream.getvalue() == ""
    deadline = time.monotonic() + 10
    while not stream.getvalue() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert [json.loads(line)["number"] for line in stream.getvalue().splitlines()] == [0, 1, 2]
    handler.close()


def test_a_warning_is_written_at_once_and_in_order() -> None:
    stream = io.StringIO()
    handler = GatheringHandler(stream, seconds=60)
    handler.handle(record("request"))
    handler.handle(record("too many connections", level=logging.WARNING))
    assert stream.getvalue() == "request\ntoo many connections\n"
    handler.handle(record("stopped"))
    handler.close()
    assert stream.getvalue().endswith("stopped\n")


def test_threads_lose_no_line() -> None:
    stream = io.StringIO()
    handler = GatheringHandler(stream, seconds=0.001)
    threads = [threading.Thread(target=lambda: [handler.handle(record("line")) for _ in range(200)]) for _ in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    handler.close()
    assert stream.getvalue() == "line\n" * 800


def test_a_number_that_is_none_is_written_as_null() -> None:
    line = JsonLines().format(record("request", seconds=float("nan"), place=JsonLines))
    assert json.loads(line)["seconds"] is None
