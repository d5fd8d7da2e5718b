"""Whoever leaves waits for no study, and nobody waits for the study of who has left."""

import asyncio
import json
from typing import Any

import pytest

from contextual_bert.inference import CompletionPipeline
from contextual_bert.server import ServerSettings

JOINTLY, EXPLAIN = "/v1/complete-jointly", "/v1/explain"


class Client:
    """A client that asks an app for one study and goes when it is told to, if it ever is."""

    def __init__(self, app: Any, item: str, *, address: str = JOINTLY, **constraints: Any) -> None:
        self.is_gone, self.answer = asyncio.Event(), list[Any]()
        self.body: bytes | None = json.dumps({"items": [item], **constraints}).encode()
        scope: dict[str, Any] = {"type": "http", "method": "POST", "path": address, "query_string": b""}
        scope["headers"] = [(b"host", b"localhost"), (b"content-type", b"application/json")]
        scope |= {"raw_path": address.encode(), "root_path": "", "scheme": "http"}
        self.asking = asyncio.create_task(app(scope, self._receive, self._send))

    async def _receive(self) -> dict[str, Any]:
        if (body := self.body) is not None:
            self.body = None
            return {"type": "http.request", "body": body, "more_body": False}
        await self.is_gone.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: Any) -> None:
        self.answer.append(message)

    async def status(self) -> int | None:
        """What it was answered; None where it was not."""
        await asyncio.wait_for(self.asking, 10)
        return self.answer[0]["status"] if self.answer else None

    async def leave(self) -> int | None:
        self.is_gone.set()
        return await self.status()


@pytest.mark.parametrize("address", [JOINTLY, EXPLAIN])
def test_a_study_whose_client_has_left_is_not_computed(tools: Any, held: Any, metric: Any, address: str) -> None:
    async def run() -> tuple[list[int | None], str]:
        app = tools.app(held, settings=ServerSettings(max_computations=1))
        async with tools.served(app) as client:

            async def counted(name: str) -> None:
                async with asyncio.timeout(10):
                    while metric((await client.get("/metrics")).text, name) < 1:
                        await asyncio.sleep(0.01)

            before, first = asyncio.all_tasks(), Client(app, "tie")
            assert await asyncio.to_thread(held.is_studying.wait, 30)
            held.is_studying.clear()
            second = Client(app, "hat", address=address)
            await counted("queue_computations")
            assert await second.leave() is None
            third = Client(app, "bag")  # gets the only place, which was the second's
            await counted("dropped_total")
            held.study_gate.set()
            statuses = [await first.status(), await third.status()]
            assert asyncio.all_tasks() == before
            return statuses, (await client.get("/metrics")).text

    statuses, metrics = asyncio.run(run())
    assert statuses == [200, 200]
    assert held.studied == [["tie"], ["bag"]]
    assert f'route="{address}",status="499"}} 1.0' in metrics
    assert metric(metrics, "dropped_total") == 1


def test_a_client_that_leaves_while_the_model_computes_is_let_go(
    tools: Any, held: Any, caplog: pytest.LogCaptureFixture
) -> None:
    async def run() -> list[int | None]:
        app = tools.app(held)
        async with tools.served(app):
            before, first = asyncio.all_tasks(), Client(app, "tie")
            assert await asyncio.to_thread(held.is_studying.wait, 30)
            left = await first.leave()
            assert asyncio.all_tasks() == before
            second = Client(app, "bag")
            held.study_gate.set()
            return [left, await second.status()]

    assert asyncio.run(run()) == [None, 200]
    assert not [record for record in caplog.records if record.exc_info]


def test_nobody_listens_for_a_client_that_was_answered(tools: Any, pipeline: CompletionPipeline) -> None:
    async def run() -> list[int | None]:
        app = tools.app(pipeline)
        async with tools.served(app):
            before = asyncio.all_tasks()
            clients = [Client(app, "tie", address=address) for address in (JOINTLY, EXPLAIN)]
            clients.append(Client(app, "tie", where={"colour": "red"}))  # found only in the catalogue
            statuses = [await each.status() for each in clients]
            assert asyncio.all_tasks() == before
            return statuses

    assert asyncio.run(run()) == [200, 200, 422]
