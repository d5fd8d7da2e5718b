"""Soak of the server: idle connections, reloads and stops at once, and a count of the requests that were lost.

    python benchmarks/soak.py                              # 5 minutes, 1,000 idle connections
    python benchmarks/soak.py --seconds 30 --idle 300      # the short form, which a slow test runs

1,000 connections send nothing and come back whenever the server closes them. 24 clients ask on kept connections, a
watcher asks for /healthz. A process serves an untrained model, is sent SIGHUP every 3 seconds and SIGTERM every 20, and
is started again on the same port. All of it stays on 127.0.0.1.

A request is lost if it was sent whole on an open connection and no answer came. A connection that is refused, or that
the server closed before anything was sent on it, loses nothing: the client asks anew.
"""

import argparse
import asyncio
import json
import multiprocessing
import os
import resource
import select
import signal
import socket
import sys
import tempfile
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

HEALTH_SECONDS, PAUSES = 30.0, (0.0, 0.002, 0.05, 0.5)
RELOAD_EVERY_SECONDS, STOP_EVERY_SECONDS = 3.0, 20.0


@dataclass
class Seen:
    """What clients and watcher saw."""

    statuses: Counter[int] = field(default_factory=Counter)
    lost: list[str] = field(default_factory=list)
    refused: int = 0
    closed_unasked: int = 0
    healthy: int = 0
    unhealthy: list[str] = field(default_factory=list)
    slowest_health_seconds: float = 0.0
    idle_opened: int = 0
    most_idle: int = 0
    stop_began: float | None = None
    versions: set[int] = field(default_factory=set)


def serve_small_model(port: int, log: str, descriptors: int, num_workers: int) -> None:
    """Serve an untrained model until a signal comes; each reload makes another one."""
    import torch

    from contextual_bert.inference import CompletionPipeline
    from contextual_bert.models import ContextualBertConfig, ContextualBertForMaskedLM, ContextualBertProcessor
    from contextual_bert.server import ServerSettings, create_app, serve, serve_with_workers

    os.dup2(os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT), 2)
    resource.setrlimit(resource.RLIMIT_NOFILE, (descriptors, descriptors))
    torch.set_num_threads(1)
    processor = ContextualBertProcessor.from_items([f"item-{number}" for number in range(200)])
    sizes: dict[str, Any] = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}

    def load() -> CompletionPipeline:
        config = ContextualBertConfig(vocab_size=203, intermediate_size=32, **sizes)
        return CompletionPipeline(ContextualBertForMaskedLM(config), processor)

    settings = ServerSettings(deadline_seconds=20)
    if num_workers > 1:
        serve_with_workers(load(), load=load, settings=settings, num_workers=num_workers, host="127.0.0.1", port=port)
    else:
        serve(create_app(load(), load=load, settings=settings), host="127.0.0.1", port=port)


class ServedProcess:
    """The process that serves, one after the other on the same port, and the logs of all."""

    def __init__(self, port: int, descriptors: int, folder: Path, num_workers: int) -> None:
        self.port, self.descriptors, self.folder, self.num_workers = port, descriptors, folder, num_workers
        self.num_started = 0
        # Its imports take a processor many seconds, so that they are made once and the process forked from them.
        self._context = multiprocessing.get_context("forkserver")
        self._context.set_forkserver_preload(["torch", "contextual_bert.server"])
        self._process: Any = None

    async def start(self) -> None:
        """Start it and wait until it answers."""
        self.num_started += 1
        log = self.folder / f"{self.num_started}.log"
        given = (self.port, str(log), self.descriptors, self.num_workers)
        self._process = self._context.Process(target=serve_small_model, args=given)
        await asyncio.to_thread(self._process.start)
        deadline = time.monotonic() + 300
        while not log.exists() or b"startup complete" not in log.read_bytes():
            if time.monotonic() > deadline or not self._process.is_alive():
                raise RuntimeError(f"the server did not start: {log.read_text() if log.exists() else 'no log'}")
            await asyncio.sleep(0.1)

    def hang_up(self) -> None:
        """Send SIGHUP."""
        os.kill(self._process.pid, signal.SIGHUP)

    async def stop(self) -> int:
        """Send SIGTERM; the exit code."""
        os.kill(self._process.pid, signal.SIGTERM)
        await asyncio.to_thread(self._process.join, 90)
        if self._process.exitcode is None:
            self._process.kill()
        return -99 if self._process.exitcode is None else self._process.exitcode

    def events(self) -> tuple[Counter[str], int]:
        """How often each event was logged, and how many bytes the logs have."""
        texts = [path.read_text("utf-8") for path in sorted(self.folder.glob("*.log"))]
        lines = [line for text in texts for line in text.splitlines()]
        strange = [line for line in lines if not line.startswith("{")]
        print("".join(f"{line}\n" for line in strange[:50]), end="", file=sys.stderr)
        return Counter(json.loads(line)["event"] for line in lines if line.startswith("{")), sum(map(len, texts))


async def answer_of(reader: asyncio.StreamReader) -> tuple[int, dict[str, str]]:
    """Status and headers of the next answer, after its body was read."""
    lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines[1:])}
    await reader.readexactly(int(headers.get("content-length", 0)))
    return int(lines[0].split()[1]), headers


def is_readable(writer: asyncio.StreamWriter) -> bool:
    """Whether the end of the connection, or anything else, has come that was not read."""
    poll = select.poll()
    poll.register(writer.get_extra_info("socket").fileno(), select.POLLIN)
    return bool(poll.poll(0))


async def keep_asking(port: int, seen: Seen, is_over: asyncio.Event, *, pause_seconds: float) -> None:
    """A client that asks on one connection until the server says that it closes it."""
    body = b'{"items": ["item-1", "[MASK]"]}'
    head = f"POST /v1/complete HTTP/1.1\r\nHost: localhost:{port}\r\nContent-Type: application/json\r\n"
    request = f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body
    while not is_over.is_set():
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            seen.refused += 1
            await asyncio.sleep(0.05)
            continue
        while not is_over.is_set():
            # As the pools of clients do before they use a connection again.
            if reader.at_eof() or is_readable(writer):
                seen.closed_unasked += 1
                break
            asked_at = time.monotonic()
            try:
                writer.write(request)
                status, headers = await asyncio.wait_for(answer_of(reader), 30)
            except (OSError, asyncio.IncompleteReadError, TimeoutError) as error:
                after = "" if seen.stop_began is None else f", asked {asked_at - seen.stop_began:.3f} s after a stop"
                seen.lost.append(f"{type(error).__name__} ({pause_seconds} s between requests{after}): {error}")
                break
            seen.statuses[status] += 1
            seen.versions.add(int(headers.get("x-model-version", 0)))
            if headers.get("connection") == "close":
                break
            await asyncio.sleep(pause_seconds)
        writer.close()


async def stay_silent(port: int, seen: Seen, is_over: asyncio.Event) -> None:
    """A connection that sends nothing and comes back."""
    while not is_over.is_set():
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            await asyncio.sleep(0.5)
            continue
        seen.idle_opened += 1
        with suppress(OSError, TimeoutError):
            async with asyncio.timeout(60):
                waiting = {asyncio.ensure_future(each) for each in (reader.read(1), is_over.wait())}
                await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
                for each in waiting:
                    each.cancel()
        writer.close()
        await asyncio.sleep(1)


async def watch(port: int, seen: Seen, is_over: asyncio.Event, is_stopped: asyncio.Event) -> None:
    """Ask for the server's health on a new connection each time; while it is started again, nobody has to answer."""
    request = f"GET /metrics HTTP/1.1\r\nHost: localhost:{port}\r\nConnection: close\r\n\r\n".encode()
    while not is_over.is_set():
        await asyncio.sleep(0.2)
        if is_stopped.is_set():
            continue
        started = time.perf_counter()
        for path in ("/healthz", "/metrics"):
            try:
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.write(request.replace(b"/metrics", path.encode()))
                answer = await asyncio.wait_for(reader.read(), HEALTH_SECONDS)
                writer.close()
            except (OSError, TimeoutError) as error:
                if not is_stopped.is_set():
                    seen.unhealthy.append(f"{path}: {type(error).__name__} {error}")
                break
            if path == "/metrics":
                lines = [line.split() for line in answer.decode("latin-1").splitlines() if line[:1] == "c"]
                names = ("contextual_bert_connections", "contextual_bert_connections{worker")
                open_now = sum(float(each[1]) for each in lines if each[0].partition("=")[0] in names)
                seen.most_idle = max(seen.most_idle, int(open_now))
            elif answer.startswith(b"HTTP/1.1 200"):
                seen.healthy += 1
                seen.slowest_health_seconds = max(seen.slowest_health_seconds, time.perf_counter() - started)
            elif not is_stopped.is_set():
                seen.unhealthy.append(answer[:80].decode("latin-1"))


async def soak(
    *, seconds: float, num_idle: int, num_clients: int, descriptors: int, folder: Path, num_workers: int = 1
) -> dict[str, Any]:
    """Run everything at once and return what was seen; the logs are written into the folder."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    seen, is_over, is_stopped = Seen(), asyncio.Event(), asyncio.Event()
    server = ServedProcess(port, descriptors, folder, num_workers)
    await server.start()
    tasks = [
        *(asyncio.create_task(stay_silent(port, seen, is_over)) for _ in range(num_idle)),
        *(
            asyncio.create_task(keep_asking(port, seen, is_over, pause_seconds=PAUSES[number % len(PAUSES)]))
            for number in range(num_clients)
        ),
        asyncio.create_task(watch(port, seen, is_over, is_stopped)),
    ]
    end, stop_at, hangups, stops = time.monotonic() + seconds, time.monotonic() + STOP_EVERY_SECONDS, 0, 0
    codes: Counter[int] = Counter()
    while (now := time.monotonic()) < end:
        await asyncio.sleep(min(RELOAD_EVERY_SECONDS, end - now))
        if time.monotonic() >= stop_at and end - time.monotonic() > 5:
            is_stopped.set()
            seen.stop_began = time.monotonic()
            codes[await server.stop()] += 1
            stops += 1
            await server.start()
            is_stopped.clear()
            stop_at = time.monotonic() + STOP_EVERY_SECONDS
        else:
            server.hang_up()
            hangups += 1
    is_stopped.set()
    seen.stop_began = time.monotonic()
    codes[await server.stop()] += 1
    is_over.set()
    await asyncio.gather(*tasks, return_exceptions=True)
    events, log_bytes = server.events()
    return {
        "seconds": seconds,
        "idle_connections": num_idle,
        "clients": num_clients,
        "descriptors": descriptors,
        "workers": num_workers,
        "answers": dict(seen.statuses),
        "lost": seen.lost,
        "refused_while_stopped": seen.refused,
        "closed_before_anything_was_sent": seen.closed_unasked,
        "stops": stops + 1,
        "exit_codes": dict(codes),
        "sighups": hangups,
        "reloads": events["reloaded"],
        "highest_version": max(seen.versions, default=0),
        "health_checks": seen.healthy,
        "health_failures": seen.unhealthy,
        "slowest_health_check_seconds": round(seen.slowest_health_seconds, 3),
        "idle_connections_opened": seen.idle_opened,
        "most_open_connections": seen.most_idle,
        "log_bytes": log_bytes,
        "log_lines_about_connections": events["too many connections"],
        "other_events": {
            name: count
            for name, count in events.items()
            if name not in ("request", "reloading", "reloaded", "too many connections")
        },
    }


def main() -> None:
    """Run the soak of the command line; exit code 1 if a request was lost or a health check failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=300)
    parser.add_argument("--idle", type=int, default=1000)
    parser.add_argument("--clients", type=int, default=24)
    parser.add_argument("--descriptors", type=int, default=1024, help="most file descriptors of the server")
    parser.add_argument("--workers", type=int, default=1, help="processes that answer on the port")
    parser.add_argument("--output", type=Path, default=None)
    given = parser.parse_args()
    settings = {"num_clients": given.clients, "descriptors": given.descriptors, "num_workers": given.workers}
    with tempfile.TemporaryDirectory() as folder:
        found = asyncio.run(soak(seconds=given.seconds, num_idle=given.idle, folder=Path(folder), **settings))
    from results import write_result  # which imports torch

    write_result(found, given.output)
    sys.exit(bool(found["lost"] or found["health_failures"] or set(found["exit_codes"]) != {0}))


if __name__ == "__main__":
    main()
