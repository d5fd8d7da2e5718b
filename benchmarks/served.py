"""A server in a process of its own, and a client that costs little: what ``serving.py`` measures, and what with.

    python benchmarks/served.py batched       # serves until it is ended; the port stands in its log

The model is of the paper's sizes with random weights: what it answers does not matter here, how long it takes does.
"""

import asyncio
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field
from typing import Any

import torch
from workload import Workload

from contextual_bert.inference import CompletionPipeline, OnnxCompletionPipeline, export_onnx
from contextual_bert.models import ContextualBertForMaskedLM, ContextualBertProcessor
from contextual_bert.server import ServerSettings, create_app, serve, serve_with_workers, with_one_thread

KEY = "a-key-for-benchmarks"
# Way -> queries of a batch.
WAYS = {"batched": 64, "one by one": 1, "exported": 64, "two workers": 64, "exported, two workers": 64, "empty": None}


def pipeline_of(num_items: int, *, seed: int) -> CompletionPipeline:
    """A pipeline of the paper's sizes."""
    drawn = Workload.draw(num_items=num_items, num_sets=500)
    model: Any = drawn.model("global_state_update", seed=seed)
    schema: Any = drawn.processor.schema
    schema = schema.with_embedding_sizes({each.name: each.embedding_size for each in model.config.layout})
    return CompletionPipeline(model, ContextualBertProcessor.from_items(drawn.processor.items.values, schema))


def run(way: str, *, num_items: int) -> None:
    """Serve one of WAYS until a signal comes."""
    if way == "empty":
        from fastapi import FastAPI

        app = FastAPI(docs_url=None, redoc_url=None)

        @app.post("/v1/complete")
        async def nothing() -> dict[str, str]:
            return {}

        serve(app, host="127.0.0.1", port=0)
        return
    seeds = iter(range(1, 1 << 30))
    with with_one_thread():
        first = pipeline_of(num_items, seed=0)

    def load() -> CompletionPipeline:
        torch.manual_seed(next(seeds))
        return CompletionPipeline(ContextualBertForMaskedLM(first.model.config), first.processor)

    if way.startswith("exported"):
        with tempfile.TemporaryDirectory() as folder:
            export_onnx(first, f"{folder}/onnx")
            first = OnnxCompletionPipeline(f"{folder}/onnx")
    settings = ServerSettings(max_batch=WAYS[way] or 1, api_key=KEY, deadline_seconds=60)
    if way.endswith("two workers"):
        serve_with_workers(first, load=load, settings=settings, num_workers=2, host="127.0.0.1", port=0)
    else:
        serve(create_app(first, load=load, settings=settings), host="127.0.0.1", port=0)


class Process:
    """A server of one of WAYS; its log is read and dropped."""

    def __init__(self, way: str, *, num_items: int) -> None:
        command = [sys.executable, __file__, way, str(num_items)]
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=os.environ)
        assert self.process.stderr is not None
        for line in self.process.stderr:
            if line.startswith("{") and "url" in (event := json.loads(line)):
                self.port = int(event["url"].rpartition(":")[2])
                break
            print(line, end="", file=sys.stderr)
        else:
            raise RuntimeError(f"the server {way!r} did not start")
        threading.Thread(target=self._drop, args=(self.process.stderr,), daemon=True).start()

    @staticmethod
    def _drop(lines: Any) -> None:
        for _ in lines:
            pass

    def resident_mib(self) -> float:
        """Memory of the process and its workers at this moment; what they share counts once."""
        each = [process.memory_full_info() for process in self.processes()]
        return sum(found.pss if len(each) > 1 else found.rss for found in each) / 2**20

    def processor_seconds(self) -> float:
        """Seconds of the processor that the process and its workers have taken."""
        return sum(sum(process.cpu_times()[:2]) for process in self.processes())

    def processes(self) -> list[Any]:
        """The process and its workers."""
        import psutil

        own = psutil.Process(self.process.pid)
        return [own, *own.children(recursive=True)]

    def end(self) -> None:
        """Stop it."""
        self.process.terminate()
        self.process.wait(60)


@dataclass
class Replies:
    """What came back: seconds of every request, how many of each status, of each version."""

    seconds: list[float] = field(default_factory=list)
    statuses: dict[int, int] = field(default_factory=dict)
    versions: dict[str, int] = field(default_factory=dict)


class Connection:
    """HTTP/1.1 by hand over one socket: on two cores a whole client would take the time that is measured."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.reader: asyncio.StreamReader | None = None
        self.writer: asyncio.StreamWriter | None = None

    async def ask(self, method: str, path: str, body: bytes = b"") -> tuple[int, dict[str, str], bytes]:
        """Status, headers and body of the answer."""
        if self.writer is None or self.writer.is_closing():
            self.reader, self.writer = await asyncio.open_connection("127.0.0.1", self.port)
        assert self.reader is not None
        head = f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nX-API-Key: {KEY}\r\nContent-Type: application/json\r\n"
        self.writer.write(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        lines = (await self.reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines[1:])}
        content = await self.reader.readexactly(int(headers.get("content-length", 0)))
        if headers.get("connection") == "close":
            self.writer.close()
        return int(lines[0].split()[1]), headers, content


async def load_with(port: int, bodies: list[bytes], *, num_clients: int, seconds: float) -> Replies:
    """A closed loop: every client asks again as soon as it has its answer."""
    replies, end = Replies(), time.perf_counter() + seconds

    async def client(number: int) -> None:
        connection, turn = Connection(port), number
        while (start := time.perf_counter()) < end:
            status, headers, _ = await connection.ask("POST", "/v1/complete", bodies[turn % len(bodies)])
            replies.seconds.append(time.perf_counter() - start)
            replies.statuses[status] = replies.statuses.get(status, 0) + 1
            version = headers.get("x-model-version", "none")
            replies.versions[version] = replies.versions.get(version, 0) + 1
            turn += num_clients

    await asyncio.gather(*(client(number) for number in range(num_clients)))
    return replies


if __name__ == "__main__":
    run(sys.argv[1], num_items=int(sys.argv[2]) if len(sys.argv) > 2 else 30_000)
