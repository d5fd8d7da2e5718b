"""Reloads that come during a reload: none is lost, they share the next one, and what fails is logged and counted."""

import asyncio
import threading
import time
from concurrent.futures import CancelledError
from typing import Any

import pytest

from contextual_bert.server import ServerSettings
from contextual_bert.server.reloading import Reloader
from contextual_bert.server.state import Serving


class Files:
    """A run directory that changes while it is read."""

    def __init__(self, tools: Any) -> None:
        self.tools, self.content, self.read = tools, 0, list[int]()
        self.has_begun, self.may_end, self.is_damaged = threading.Event(), threading.Event(), False

    def load(self) -> Any:
        found = self.content
        self.read.append(found)
        self.has_begun.set()
        assert self.may_end.wait(20)
        if self.is_damaged:
            raise OSError("the run is damaged")
        return self.tools.make_pipeline(found)


def test_what_changed_during_a_reload_is_served_in_the_end(tools: Any, caplog: pytest.LogCaptureFixture) -> None:
    files = Files(tools)
    serving = Serving(tools.make_pipeline(), load=files.load)
    reloader = Reloader(serving)
    caplog.set_level("INFO")
    reloader.start()
    first = reloader.ask()
    assert files.has_begun.wait(20)
    files.content = 1  # the first reload has read the files as they were
    later = [reloader.ask() for _ in range(50)]
    files.may_end.set()
    assert first.result(20).number == 2
    assert {each.result(20).number for each in later} == {3}
    assert files.read == [0, 1]
    assert [each.getMessage() for each in caplog.records] == ["reloading", "reloaded"] * 2
    details = caplog.records[1].__dict__["details"]
    assert (details["version"], details["items"]) == (2, len(tools.items))
    assert any("never proposes: kilt" in note for note in details["notes"])
    reloader.close()


def test_a_stop_gives_up_what_waits(tools: Any, caplog: pytest.LogCaptureFixture) -> None:
    files = Files(tools)
    reloader = Reloader(Serving(tools.make_pipeline(), load=files.load))
    caplog.set_level("INFO")
    reloader.start()
    running = reloader.ask()
    assert files.has_begun.wait(20)
    waiting = reloader.ask()
    files.is_damaged = True
    reloader.close(timeout_seconds=0.1)  # the thread is amid the first
    files.may_end.set()
    reloader.close()
    with pytest.raises(OSError):
        running.result(20)
    with pytest.raises(CancelledError):
        waiting.result(20)
    assert files.read == [0]
    assert [each.getMessage() for each in caplog.records] == ["reloading", "reload given up"]


def test_a_failed_reload_does_not_end_the_next_one(tools: Any, metric: Any, caplog: pytest.LogCaptureFixture) -> None:
    files = Files(tools)
    app = tools.app(tools.make_pipeline(), load=files.load, settings=ServerSettings(api_key=tools.key))

    async def run() -> list[int]:
        async with tools.served(app) as client:
            client.headers["X-API-Key"] = tools.key
            files.is_damaged = True
            failing = [asyncio.create_task(client.post("/v1/admin/reload"))]
            await asyncio.to_thread(files.has_begun.wait, 20)
            app.reload()  # what SIGHUP does
            # Asked after it, so the answer says that both are over.
            failing.append(asyncio.create_task(client.post("/v1/admin/reload")))
            await asyncio.sleep(0.3)
            files.may_end.set()
            statuses = [(await each).status_code for each in failing]
            files.is_damaged = False
            answer = await client.post("/v1/admin/reload")
            text = (await client.get("/metrics")).text
            assert metric(text, "model_version") == answer.json()["number"] == 2
            assert metric(text, "last_reload_succeeded") == 1
            assert (await client.get("/v1/schema")).json()["version"]["reload_failed_at"] is None
            assert 'reloads_total{outcome="failed"} 2.0' in text
            return statuses

    assert asyncio.run(run()) == [500, 500]
    assert [each.getMessage() for each in caplog.records if each.exc_info] == ["reload failed"] * 2


def test_a_reload_without_anything_to_load_is_logged_and_counted(tools: Any, caplog: pytest.LogCaptureFixture) -> None:
    app = tools.app(tools.make_pipeline())

    async def run() -> str:
        async with tools.served(app) as client:
            app.reload()
            end = time.monotonic() + 20
            while 'outcome="failed"} 1.0' not in (text := (await client.get("/metrics")).text):
                assert time.monotonic() < end
            return text

    asyncio.run(run())
    assert "nothing to reload from" in caplog.text
