"""Connections that are silent, slow, too many, ambiguous or kept: over real sockets, with the server in a thread."""

import http.client
import json
import resource
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from contextual_bert.inference import CompletionPipeline
from contextual_bert.server import ServerSettings, accepting, connections
from contextual_bert.server.serving import LimitedServer

HEALTH = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"


class Listening:
    """A server in a thread of this process."""

    def __init__(self, app: Any) -> None:
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=accepting.BACKLOG)
        self.port = self.listener.getsockname()[1]
        self.server = LimitedServer(app, self.listener, host="127.0.0.1")
        self.thread = threading.Thread(target=self.server.run)
        self.thread.start()
        while not self.server.started:
            time.sleep(0.01)

    def stop(self) -> None:
        self.server.should_exit = True

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=20)

    def answer(self, sent: bytes) -> bytes:
        """Everything that comes back on one connection until the server closes it."""
        with self.connect() as client:
            client.sendall(sent)
            return rest(client)

    def get(self, path: str) -> tuple[int, str]:
        client = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        client.request("GET", path)
        response = client.getresponse()
        found = response.status, response.read().decode()
        client.close()
        return found


def rest(client: socket.socket) -> bytes:
    pieces: list[bytes] = []
    while piece := client.recv(65536):
        pieces.append(piece)
    return b"".join(pieces)


def one_answer(client: socket.socket) -> bytes:
    """The next answer on a connection that is kept."""
    received = b""
    while b"\r\n\r\n" not in received:
        received += client.recv(65536)
    head, _, body = received.partition(b"\r\n\r\n")
    length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
    while len(body) < length:
        body += client.recv(65536)
    return head + b"\r\n\r\n" + body


@contextmanager
def listening(app: Any) -> Iterator[Listening]:
    server = Listening(app)
    try:
        yield server
    finally:
        server.stop()
        server.thread.join(60)


def count_of(text: str, reason: str) -> float:
    name = f'contextual_bert_closed_connections_total{{reason="{reason}"}} '
    return sum(float(line.removeprefix(name)) for line in text.splitlines() if line.startswith(name))


def test_silent_connections_make_room_for_those_who_ask(tools: Any, pipeline: CompletionPipeline) -> None:
    app = tools.app(pipeline, settings=ServerSettings(max_connections=20))
    with listening(app) as server, ExitStack() as stack:
        kept = stack.enter_context(server.connect())
        kept.sendall(HEALTH)
        assert b"200 OK" in one_answer(kept)
        silent = [stack.enter_context(server.connect()) for _ in range(60)]
        for _ in range(3):
            assert server.get("/healthz")[0] == 200
        assert server.server._limit.size <= 20
        text = server.get("/metrics")[1]
        assert count_of(text, "limit") >= 41
        assert rest(silent[0]) == b""  # the oldest has gone, and the kept one has not
        kept.sendall(HEALTH)
        assert b"200 OK" in one_answer(kept)


def test_a_busy_connection_is_never_closed_for_another(tools: Any, held: Any) -> None:
    app = tools.app(held, settings=ServerSettings(max_connections=2, deadline_seconds=30))
    with listening(app) as server, ExitStack() as stack:
        body = b'{"items": ["hat"]}'
        head = b"POST /v1/complete HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        busy = [stack.enter_context(server.connect()) for _ in range(2)]
        for each in busy:
            each.sendall(head + b"Content-Length: %d\r\n\r\n" % len(body) + body)
        assert held.is_computing.wait(20)
        deadline = time.monotonic() + 20
        while len(server.server._limit._by_stage[connections.Stage.BUSY]) < 2 and time.monotonic() < deadline:
            time.sleep(0.01)
        refused = server.answer(b"")
        assert b"HTTP/1.1 503" in refused
        assert b"Retry-After: 1" in refused or b"retry-after: 1" in refused
        held.gate.set()
        assert all(b"200 OK" in one_answer(each) for each in busy)


def test_heads_and_idle_connections_have_deadlines(tools: Any, pipeline: CompletionPipeline) -> None:
    app = tools.app(pipeline, settings=ServerSettings(header_seconds=0.3, idle_seconds=0.4))
    with listening(app) as server:
        started = time.monotonic()
        assert server.answer(b"") == b""
        assert b"408 Request Timeout" in server.answer(b"GET /healthz HT")
        with server.connect() as client:  # a byte now and then does not move the deadline
            with suppress(OSError):
                for _ in range(20):
                    client.sendall(b"G")
                    time.sleep(0.05)
            assert b"408 Request Timeout" in rest(client)
        answered = server.answer(HEALTH)
        assert b"200 OK" in answered
        assert time.monotonic() - started < 15
        text = server.get("/metrics")[1]
        assert count_of(text, "header deadline") >= 2
        assert count_of(text, "idle") == 1


def test_a_body_has_a_deadline_also_where_no_route_reads_it(tools: Any, pipeline: CompletionPipeline) -> None:
    app = tools.app(pipeline, settings=ServerSettings(deadline_seconds=0.3))
    length = b"Host: localhost\r\nContent-Type: application/json\r\nContent-Length: 10\r\n\r\n{"
    with listening(app) as server:
        late = server.answer(b"POST /v1/complete HTTP/1.1\r\n" + length)
        assert b"408 Request Timeout" in late
        assert b"connection: close" in late
        unread = server.answer(b"GET /healthz HTTP/1.1\r\n" + length)
        assert b"200 OK" in unread
        assert b"connection: close" in unread


def test_a_client_that_takes_no_answer_is_dropped(
    tools: Any, pipeline: CompletionPipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "SECONDS_TO_TAKE_AN_ANSWER", 0.3)
    with listening(tools.app(pipeline)) as server, server.connect() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        one = b"GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n"
        deadline = time.monotonic() + 20
        client.setblocking(False)
        while not count_of(server.get("/metrics")[1], "answer not taken") and time.monotonic() < deadline:
            try:
                client.send(one * 50)
            except OSError:
                time.sleep(0.02)
        assert count_of(server.get("/metrics")[1], "answer not taken") == 1


def test_without_descriptors_the_server_recovers_and_says_so_once(
    tools: Any, pipeline: CompletionPipeline, caplog: pytest.LogCaptureFixture
) -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    with listening(tools.app(pipeline, settings=ServerSettings(max_connections=500))) as server, ExitStack() as stack:
        highest = max(
            int(each.name) for each in Path("/dev/fd").iterdir()
        )  # other tests of this process may leave some open
        caplog.clear()
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (highest + 60, before[1]))
            opened = [socket.socket() for _ in range(10)]
            for each in opened:
                each.settimeout(5)
                stack.enter_context(each)
                each.connect(("127.0.0.1", server.port))
            hoard: list[socket.socket] = []
            with pytest.raises(OSError):
                while True:
                    hoard.append(socket.socket())
            asking = hoard.pop()
            asking.settimeout(20)
            asking.connect(("127.0.0.1", server.port))  # the system accepts it, the server cannot
            time.sleep(1.2)
            for each in hoard:
                each.close()
            asking.sendall(HEALTH)
            assert b"200 OK" in one_answer(asking)
            asking.close()
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, before)
    lines = [each.getMessage() for each in caplog.records if "accept" in each.getMessage()]
    assert lines == ["cannot accept connections"]


def test_the_limit_fits_the_descriptors(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []
    for soft, hard, wanted, expected in (
        (1024, 1024, 1000, 896),
        (1024, 4096, 1000, 1000),
        (64, 64, 1000, 32),
        (1024, 1024, 10, 10),
        (256, resource.RLIM_INFINITY, 1000, 1000),
    ):
        monkeypatch.setattr(resource, "getrlimit", lambda _, found=(soft, hard): found)
        monkeypatch.setattr(resource, "setrlimit", lambda _, limits: asked.append(limits))
        assert accepting.room_for_connections(wanted) == expected
    assert asked[1] == (1128, 4096)
    assert asked[-1] == (1128, resource.RLIM_INFINITY)


COMPLETE = b"POST /v1/complete HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
AMBIGUOUS = {
    "both": COMPLETE + b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
    "both, the other way": COMPLETE + b"Transfer-Encoding: chunked\r\nContent-Length: 2\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
    "two lengths": COMPLETE + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}",
    "the same length twice": COMPLETE + b"Content-Length: 2\r\nContent-Length: 2\r\n\r\n{}",
    "a list of lengths": COMPLETE + b"Content-Length: 2, 2\r\n\r\n{}",
    "a signed length": COMPLETE + b"Content-Length: +2\r\n\r\n{}",
    "two encodings": COMPLETE + b"Transfer-Encoding: gzip, chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
    "an unknown encoding": COMPLETE + b"Transfer-Encoding: xchunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
    "a folded header": COMPLETE + b"X-A: 1\r\n Content-Length: 2\r\n\r\n{}",
    "a blank before the colon": COMPLETE + b"Content-Length : 2\r\n\r\n{}",
    "line feeds alone": COMPLETE.replace(b"\r\n", b"\n") + b"Content-Length: 2\n\n{}",
    "one line feed alone": COMPLETE + b"X-A: 1\nContent-Length: 2\r\n\r\n{}",
    "a carriage return alone": COMPLETE + b"X-A: 1\rContent-Length: 2\r\n\r\n{}",
    "chunks before HTTP/1.1": COMPLETE.replace(b"HTTP/1.1", b"HTTP/1.0")
    + b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
    "a zero byte": COMPLETE + b"X-A: 1\x00\r\nContent-Length: 2\r\n\r\n{}",
    "two hosts": COMPLETE + b"Host: shop\r\nContent-Length: 2\r\n\r\n{}",
    "no host": COMPLETE.replace(b"Host: localhost\r\n", b"") + b"Content-Length: 2\r\n\r\n{}",
    "a chunk that is longer than it says": COMPLETE + b"Transfer-Encoding: chunked\r\n\r\n1\r\n{}\r\n0\r\n\r\n",
    "a signed chunk": COMPLETE + b"Transfer-Encoding: chunked\r\n\r\n+2\r\n{}\r\n0\r\n\r\n",
}


@pytest.fixture(scope="module")
def open_server(tools: Any, pipeline: CompletionPipeline) -> Iterator[Listening]:
    with listening(tools.app(pipeline)) as server:
        yield server


@pytest.mark.parametrize("name", AMBIGUOUS)
def test_what_two_servers_could_read_in_two_ways_ends_the_connection(open_server: Listening, name: str) -> None:
    answer = open_server.answer(AMBIGUOUS[name] + HEALTH)
    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 400 "), answer
    assert answer.count(b"HTTP/1.1 ") == 1  # what follows is not taken for a request
    assert b"connection: close" in head
    assert b"x-content-type-options: nosniff" in head
    assert json.loads(body)["type"].endswith("malformed-request")


def test_heads_have_a_size(open_server: Listening) -> None:
    for many in (b"X-A: 1\r\n" * 200, b"X-A: " + b"1" * 40_000 + b"\r\n", b"X-A: " + b"1" * 300_000 + b"\r\n"):
        assert b"HTTP/1.1 431 " in open_server.answer(HEALTH[:-2] + many + b"\r\n")
    assert b"HTTP/1.1 431 " in open_server.answer(b"GET /" + b"x" * 40_000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n")


@pytest.mark.parametrize(
    ("target", "host", "status"),
    [
        (b"http://localhost/healthz", b"localhost", b"200"),
        (b"http://localhost:8000/healthz?a=b", b"localhost", b"200"),
        (b"HTTP://localhost/healthz", b"elsewhere.example", b"200"),  # the address counts
        (b"http://evil.example/healthz", b"localhost", b"421"),
        (b"http://localhost@evil.example/healthz", b"localhost", b"421"),
        (b"http://localhost", b"localhost", b"200"),
        (b"http://localhost/nowhere", b"localhost", b"404"),
    ],
)
def test_a_whole_address_as_target_is_its_path_and_its_host(
    open_server: Listening, target: bytes, host: bytes, status: bytes
) -> None:
    answer = open_server.answer(b"GET " + target + b" HTTP/1.1\r\nHost: " + host + b"\r\nConnection: close\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 " + status), answer


def test_a_body_of_tiny_chunks_is_refused(open_server: Listening) -> None:
    chunks = b"1\r\n \r\n" * 50_000
    started = time.monotonic()
    answer = open_server.answer(COMPLETE + b"Transfer-Encoding: chunked\r\n\r\n" + chunks)
    assert b"HTTP/1.1 400 " in answer
    assert b"chunks" in answer
    assert time.monotonic() - started < 2


def test_requests_one_after_the_other_in_one_piece_are_all_answered(open_server: Listening) -> None:
    last = HEALTH.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")
    assert open_server.answer(HEALTH * 9 + last).count(b"200 OK") == 10


def test_an_answer_before_the_end_of_a_large_body_arrives(open_server: Listening) -> None:
    head = COMPLETE + b"Content-Length: 30000000\r\n\r\n"
    with open_server.connect() as client:
        client.sendall(head)
        with suppress(OSError):
            for _ in range(30):
                client.sendall(b" " * 1_000_000)
        assert b"HTTP/1.1 413 " in rest(client)


def kept_clients(server: Listening, *, number: int, pause_seconds: float) -> list[tuple[str, Any]]:
    """What clients saw that ask on kept connections until the server has said that it ends them."""
    seen: list[tuple[str, Any]] = []
    answered = [threading.Event() for _ in range(number)]

    def ask(turn: int) -> None:
        client = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)
        body = json.dumps({"items": ["hat"]})
        while True:
            try:
                client.request("POST", "/v1/complete", body, {"Content-Type": "application/json"})
                response = client.getresponse()
                response.read()
            except (OSError, http.client.HTTPException) as error:
                seen.append(("lost", error))
                return
            answered[turn].set()
            seen.append(("answer", response.status))
            if response.headers.get("connection") == "close":
                seen.append(("told", turn))
                client.close()
                return
            time.sleep(pause_seconds)

    threads = [threading.Thread(target=ask, args=(turn,)) for turn in range(number)]
    for each in threads:
        each.start()
    assert all(each.wait(30) for each in answered)
    server.stop()
    for each in threads:
        each.join(60)
    server.thread.join(60)
    assert not server.thread.is_alive()
    return seen


@pytest.mark.parametrize("pause_seconds", [0.0, 0.02, 0.5])
def test_stopping_loses_no_request_on_kept_connections(
    tools: Any, pipeline: CompletionPipeline, pause_seconds: float
) -> None:
    with listening(tools.app(pipeline)) as server:
        seen = kept_clients(server, number=24, pause_seconds=pause_seconds)
    assert [what for kind, what in seen if kind == "lost"] == []
    assert {what for kind, what in seen if kind == "answer"} == {200}
    assert len([what for kind, what in seen if kind == "told"]) == 24


def test_stopping_closes_idle_connections_and_answers_what_was_read(tools: Any, held: Any) -> None:
    app = tools.app(held, settings=ServerSettings(stop_grace_seconds=0.3))
    with listening(app) as server, server.connect() as idle, server.connect() as silent, server.connect() as busy:
        idle.sendall(HEALTH)
        assert b"connection: close" not in one_answer(idle)
        busy.sendall(COMPLETE + b'Content-Length: 13\r\n\r\n{"items": []}')
        assert held.is_computing.wait(20)
        server.stop()
        assert rest(idle) == b""
        assert rest(silent) == b""
        with pytest.raises(ConnectionRefusedError):
            server.connect()
        held.gate.set()
        answer = rest(busy)
        assert b"200 OK" in answer
        assert b"connection: close" in answer


def test_a_server_that_stops_is_not_ready_but_answers(tools: Any, pipeline: CompletionPipeline) -> None:
    app = tools.app(pipeline, settings=ServerSettings(stop_grace_seconds=5))
    with listening(app) as server, server.connect() as client, server.connect() as other:
        for each in (client, other):
            each.sendall(HEALTH)
            assert b"200 OK" in one_answer(each)
        server.stop()
        while not app.process.is_stopping:
            time.sleep(0.01)
        client.sendall(HEALTH.replace(b"/healthz", b"/readyz"))
        assert b"503 Service" in rest(client)
        other.sendall(COMPLETE + b"Content-Length: 2\r\n\r\n{}")
        assert b"200 OK" in rest(other)
        started = time.monotonic()
        server.thread.join(30)
        assert time.monotonic() - started < 3  # nobody is left to wait for
