"""``contextual-bert serve`` in a real process: sockets, signals, the log, and what it says when it cannot start."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from safetensors.torch import load_file, save_file

from contextual_bert import CompletionPipeline
from contextual_bert.manifest import write_manifest

KEY = "a-key-that-nobody-guesses"


class Server:
    """A process that serves a run, its address and its log."""

    def __init__(self, *arguments: object) -> None:
        settings = {"OMP_NUM_THREADS": "1", "CONTEXTUAL_BERT_API_KEY": KEY, "COLUMNS": "120"}
        line = [sys.executable, "-m", "contextual_bert_cli.main", "serve", *map(str, arguments), "--port", "0"]
        self.process = subprocess.Popen(line, env=os.environ | settings, stderr=subprocess.PIPE, text=True)
        self.log: list[dict[str, Any]] = []
        self.other_lines: list[str] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self.url = self.wait_for("listening")["url"]
        self.wait_for("started")

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            (self.log if line.startswith("{") else self.other_lines).append(
                json.loads(line) if line.startswith("{") else line  # pyright: ignore[reportArgumentType]
            )

    def wait_for(self, event: str, *, seconds: float = 300) -> dict[str, Any]:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if found := [line for line in list(self.log) if line["event"] == event]:
                return found[0]
            assert self.process.poll() is None, "".join(self.other_lines)
            time.sleep(0.02)
        raise AssertionError(f"no {event!r} in {self.log}")

    def client(self) -> httpx.Client:
        return httpx.Client(base_url=self.url, headers={"X-API-Key": KEY}, timeout=60)

    def end(self, number: int = signal.SIGTERM) -> int:
        if self.process.poll() is None:
            self.process.send_signal(number)
        code = self.process.wait(60)
        self._reader.join(10)
        return code


@pytest.fixture
def run_directory(finished: Path, tmp_path: Path) -> Path:
    return shutil.copytree(finished, tmp_path / "run")


@pytest.fixture
def shop(run_directory: Path, tmp_path: Path) -> Path:
    items = CompletionPipeline.from_pretrained(run_directory).processor.items.values
    path = tmp_path / "shop.parquet"
    pq.write_table(pa.table({"id": items, "price": [float(n) for n in range(len(items))]}), path)
    return path


@pytest.fixture
def server(run_directory: Path, shop: Path) -> Iterator[Server]:
    """The shop's table as a German spreadsheet writes it."""
    rows = pq.read_table(shop).to_pylist()
    lines = ["id;price", *(f"{row['id']};{row['price']:.2f}".replace(".", ",") for row in rows)]
    written = shop.with_suffix(".csv")
    written.write_text("\n".join(lines) + "\n", encoding="utf-8")
    computations = (
        "--max-forward-passes",
        50,
        "--max-completions",
        4,
        "--max-computations",
        3,
        "--max-exact-fields",
        2,
    )
    reading = ("--catalogue", written, "--decimal", ",", "--delimiter", ";")
    started = Server(run_directory, *reading, "--max-wait", 20, *computations, "--computation-deadline", 45)
    yield started
    if started.process.poll() is None:
        started.process.kill()
        started.process.wait()


@pytest.mark.slow
def test_a_run_is_served(server: Server, run_directory: Path, shop: Path) -> None:
    pipeline = CompletionPipeline.from_pretrained(run_directory, catalogue=shop)
    item = pipeline.processor.items.values[0]
    query = {"items": [item, "[MASK]"], "max_price": 30}
    with server.client() as client:
        answer = client.post("/v1/complete?top_k=3", json=query)
        expected: Any = pipeline(query, top_k=3)
        found = answer.json()["slots"][0]["candidates"]
        assert [each["item"] for each in found] == [each["item"] for each in expected["slots"][0]["candidates"]]
        assert found[0]["probability"] == pytest.approx(expected["slots"][0]["candidates"][0]["probability"], rel=1e-3)
        assert client.get("/openapi.json").json()["paths"].keys() >= {"/v1/complete", "/v1/schema", "/v1/items"}
        assert "server" not in answer.headers

        limits = client.get("/v1/schema").json()["limits"]
        assert [limits[name] for name in ("max_forward_passes", "max_completions", "max_computations")] == [50, 4, 3]
        assert (limits["max_exact_fields"], limits["computation_deadline_seconds"]) == (2, 45)
        blanks = {"items": [item, "[MASK]", "[MASK]"], "budget": 40}
        joint = client.post("/v1/complete-jointly?num_completions=4", json=blanks).json()
        whole: Any = pipeline.complete_jointly(blanks, num_completions=4, max_forward_passes=50)
        assert [each["items"] for each in joint["completions"]] == [each["items"] for each in whole["completions"]]
        assert (joint["method"], joint["num_forward_passes"]) == (whole["method"], whole["num_forward_passes"])
        refused = client.post("/v1/explain", json=blanks)
        assert (refused.status_code, "without field_dropout" in refused.json()["detail"]) == (409, True)

        # SIGHUP and the address load it again; a run that is damaged meanwhile does not.
        server.process.send_signal(signal.SIGHUP)
        server.wait_for("reloaded")
        assert client.post("/v1/complete", json=query).headers["x-model-version"] == "2"
        assert reload_under_load(server, query, found) == 5
        (run_directory / "model.safetensors").write_bytes(b"damaged")
        failed = client.post("/v1/admin/reload")
        assert failed.status_code == 500
        assert str(run_directory) not in failed.text
        assert client.post("/v1/complete", json=query).headers["x-model-version"] == "5"
    assert server.end() == 0
    requests = [line for line in server.log if line["event"] == "request"]
    assert {line["status"] for line in requests if line["route"] == "/v1/complete"} == {200}
    assert server.wait_for("reload failed")["traceback"]
    assert not [line for line in server.other_lines if "Traceback" in line]


def reload_under_load(server: Server, query: dict[str, Any], expected: Any) -> int:
    """The run is read three times from its folder while eight clients ask for twenty seconds; the last version.

    Each request is answered once, with its own answer: it has an id of its own, and as many proposals as it asked for.
    """
    is_over, answers = threading.Event(), list[tuple[str, int, httpx.Response]]()

    def ask(number: int) -> list[str]:
        sent: list[str] = []
        with server.client() as client:
            while not is_over.is_set():
                sent.append(f"client-{number}-{len(sent)}")
                top_k = 1 + len(sent) % 3
                headers = {"X-Request-ID": sent[-1]}
                answers.append(
                    (sent[-1], top_k, client.post(f"/v1/complete?top_k={top_k}", json=query, headers=headers))
                )
        return sent

    with ThreadPoolExecutor(8) as pool, server.client() as client:
        asking = [pool.submit(ask, number) for number in range(8)]
        numbers: list[int] = []
        for _ in range(3):
            time.sleep(5)
            numbers.append(client.post("/v1/admin/reload").json()["number"])
        time.sleep(5)
        is_over.set()
        sent = [request for each in asking for request in each.result(60)]
    assert sorted(request for request, _, _ in answers) == sorted(sent)
    assert {each.headers["x-model-version"] for _, _, each in answers} == {"2", *map(str, numbers)}
    for request, top_k, each in answers:
        assert (each.status_code, each.headers["x-request-id"]) == (200, request)
        found = each.json()["slots"][0]["candidates"]
        assert [one["item"] for one in found] == [one["item"] for one in expected[:top_k]]
        assert found[0]["probability"] == pytest.approx(expected[0]["probability"], rel=1e-3)
    logged = [line["request_id"] for line in list(server.log) if line.get("request_id", "").startswith("client-")]
    assert len(logged) == len(set(logged)) >= len(sent) - 8  # the last lines may still be on their way
    return numbers[-1]


@pytest.fixture(scope="module")
def with_features(command: Any, world: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of a run whose items have features."""
    output = tmp_path_factory.mktemp("features") / "run"
    shop = ("--catalogue", world / "articles.parquet")
    result = command("train", world / "outfits.parquet", *command.small, *shop, "--output", output)
    assert result.exit_code == 0, result.output
    return output


@pytest.mark.slow
def test_a_changed_catalogue_is_taken_in_while_clients_ask(
    command: Any, with_features: Path, world: Path, tmp_path: Path
) -> None:
    """New items are known after a reload, removed ones never proposed, and half a catalogue changes nothing."""
    articles = pq.read_table(world / "articles.parquet")
    key = articles.column_names[0]
    gone, kept = articles.column(key).to_pylist()[:2]
    shop, link = tmp_path / "shop.parquet", tmp_path / "current"
    pq.write_table(articles, shop)
    link.symlink_to(with_features)
    server, is_over, statuses, seen = Server(link, "--catalogue", shop), threading.Event(), list[int](), set[str]()

    def ask() -> None:
        with server.client() as client:
            while not is_over.is_set():
                answer = client.post("/v1/complete?top_k=100", json={"items": [kept, "[MASK]"]})
                statuses.append(answer.status_code)
                seen.update(each["item"] for each in answer.json()["slots"][0]["candidates"])

    def proposed(client: httpx.Client) -> dict[str, bool]:
        answer = client.post("/v1/complete?top_k=100", json={"items": [kept, "[MASK]"]}).json()
        return {each["item"]: each["is_new"] for each in answer["slots"][0]["candidates"]}

    with ThreadPoolExecutor(4) as pool, server.client() as client:
        asking = [pool.submit(ask) for _ in range(4)]
        try:
            assert gone in proposed(client) and "coat-spring" not in proposed(client)
            new = articles.slice(0, 1).set_column(0, key, pa.array(["coat-spring"]))
            pq.write_table(pa.concat_tables([articles, new]), tmp_path / "next.parquet")
            (tmp_path / "next.parquet").replace(shop)
            without = ("--item", gone, "--output", tmp_path / "sale")
            assert command("catalogue", "remove", with_features, *without).exit_code == 0
            (tmp_path / "next").symlink_to(tmp_path / "sale")
            (tmp_path / "next").replace(link)
            assert client.post("/v1/admin/reload").json()["number"] == 2
            now = proposed(client)
            assert now["coat-spring"] and not now.get(gone, False) and gone not in now
            found = client.get("/v1/items", params={"item": ["coat-spring", gone]}).json()["items"]
            assert [(each["is_new"], each["is_removed"]) for each in found] == [(True, False), (False, True)]
            assert client.post("/v1/similar", json={"item": "coat-spring"}).status_code == 200

            whole = shop.read_bytes()
            for broken in (whole[: len(whole) // 2], b"", None):
                shop.write_bytes(broken) if broken is not None else shop.unlink()
                assert client.post("/v1/admin/reload").status_code == 500
                assert proposed(client) == now
                version = client.get("/v1/schema").json()["version"]
                assert version["number"] == 2 and version["reload_failed_at"] is not None
                assert "contextual_bert_last_reload_succeeded 0.0" in client.get("/metrics").text
            shop.write_bytes(whole)
            assert client.post("/v1/admin/reload").json() | {"loaded_at": ""} == {
                "number": 3, "loaded_at": "", "reload_failed_at": None,
            }  # fmt: skip
        finally:
            is_over.set()
        for each in asking:
            each.result(60)
    assert server.end() == 0
    assert len(statuses) > 20 and {*statuses} == {200} and "coat-spring" in seen
    failed = [line for line in server.log if line["event"] == "reload failed"]
    assert len(failed) == 3 and all("shop.parquet" in line["reason"] and line["version"] == 2 for line in failed)
    reloaded = server.wait_for("reloaded")
    assert reloaded["new_items"] >= 1 and any("features alone" in note for note in reloaded["notes"])


@pytest.mark.slow
def test_an_export_is_served(command: Any, run_directory: Path, shop: Path, tmp_path: Path) -> None:
    assert command("export", run_directory, "--output", tmp_path / "onnx", "--top", 4).exit_code == 0
    refused = command("serve", tmp_path / "onnx", "--device", "cuda")
    assert (refused.exit_code, "runs on the CPU" in refused.stderr) == (2, True)
    query = {"items": ["coat-1", "[MASK]"], "context": {"age": 34}, "max_price": 30}
    expected: Any = CompletionPipeline.from_pretrained(run_directory, catalogue=shop)(query, top_k=4)
    server = Server(tmp_path / "onnx", "--catalogue", shop)
    with server.client() as client:
        found = client.post("/v1/complete?top_k=4", json=query).json()["slots"][0]["candidates"]
        assert [each["item"] for each in found] == [each["item"] for each in expected["slots"][0]["candidates"]]
        too_many = client.post("/v1/complete?top_k=5", json=query)
        assert too_many.status_code == 422
        [fault] = too_many.json()["errors"]
        assert (fault["parameter"], "more than 4" in fault["problem"]) == ("top_k", True)
        allowed = {**query, "allow": [f"{kind}-0" for kind in ("coat", "hat", "bag", "dress", "shirt", "skirt")]}
        assert client.post("/v1/complete?top_k=5", json=allowed).status_code == 422  # the graph holds no more than 4
        assert client.post("/v1/complete-jointly", json=query).status_code == 409
        server.process.send_signal(signal.SIGHUP)
        server.wait_for("reloaded")
    assert server.end() == 0


@pytest.mark.slow
def test_sigterm_finishes_what_was_accepted(run_directory: Path) -> None:
    # The model waits a second for more queries: all are accepted, and none is computed, when the signal comes.
    server = Server(run_directory, "--max-wait", 1500, "--deadline", 60)
    with server.client() as client, ThreadPoolExecutor(12) as pool:
        asked = [pool.submit(client.post, "/v1/complete", json={"items": []}) for _ in range(12)]
        deadline = time.monotonic() + 30
        while "contextual_bert_queue_queries 12.0" not in client.get("/metrics").text:
            assert time.monotonic() < deadline
        server.process.send_signal(signal.SIGTERM)
        assert [each.result(60).status_code for each in asked] == [200] * 12
    assert server.end() == 0
    assert "stopped" in [line["event"] for line in server.log]


@pytest.mark.slow
def test_a_hangup_during_a_reload_is_followed_by_another_reload(run_directory: Path, shop: Path) -> None:
    items = pq.read_table(shop).column("id")

    def write(price: float) -> None:
        pq.write_table(pa.table({"id": items, "price": [price] * len(items)}), shop.with_suffix(".new"))
        shop.with_suffix(".new").replace(shop)

    server = Server(run_directory, "--catalogue", shop)
    with server.client() as client:
        for turn in range(3):
            for step in range(4):
                write(100.0 * turn + step)
                server.process.send_signal(signal.SIGHUP)
                time.sleep(0.02)
            deadline = time.monotonic() + 60
            while client.get("/v1/items?limit=1").json()["items"][0]["attributes"]["price"] != 100 * turn + 3:
                assert time.monotonic() < deadline
                time.sleep(0.05)
    assert server.end() == 0
    assert not [line for line in server.log if line["event"] == "reload failed"]


@pytest.mark.slow
def test_hangups_before_and_after_the_server_end_nothing(run_directory: Path, tmp_path: Path) -> None:
    # One at the first heavy import, one when the server is done, one when Python ends.
    hook = tmp_path / "sitecustomize.py"
    hook.write_text(
        "import atexit, os, signal, sys\n"
        "def hang_up(*_): os.kill(os.getpid(), signal.SIGHUP)\n"
        "atexit.register(hang_up)\n"
        "class Finder:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name in ('typer', 'torch', 'uvicorn'): hang_up()\n"
        "sys.meta_path.insert(0, Finder())\n"
        "class Late:\n"
        "    def __del__(self, kill=os.kill, process=os.getpid(), number=signal.SIGHUP): kill(process, number)\n"
        "sys.late = Late()\n"
    )
    before = os.environ.get("PYTHONPATH", "")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", f"{tmp_path}{os.pathsep}{before}")
        server = Server(run_directory)
    server.process.send_signal(signal.SIGTERM)
    deadline = time.monotonic() + 60
    while server.process.poll() is None and time.monotonic() < deadline:
        server.process.send_signal(signal.SIGHUP)
        time.sleep(0.002)
    assert server.end() == 0, "".join(server.other_lines)


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 2])
def test_the_soak_loses_no_request(workers: int) -> None:
    soak = Path(__file__).parents[2] / "benchmarks" / "soak.py"
    line = [
        sys.executable,
        str(soak),
        "--seconds",
        "30",
        "--idle",
        "300",
        "--descriptors",
        "400",
        "--workers",
        str(workers),
    ]
    done = subprocess.run(line, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(done.stdout)
    assert found["lost"] == []
    assert found["answers"].keys() == {"200"}
    assert found["stops"] >= 1
    assert found["exit_codes"].keys() == {"0"}
    assert found["most_open_connections"] > 200
    assert found["health_checks"] > 0
    assert found["log_bytes"] < 20_000_000


def test_a_run_that_diverged_is_not_served(command: Any, finished: Path, tmp_path: Path) -> None:
    shutil.copytree(finished, tmp_path / "run")
    weights = load_file(tmp_path / "run" / "model.safetensors")
    broken = {name: torch.full_like(weight, torch.nan) for name, weight in weights.items()}
    save_file(broken, tmp_path / "run" / "model.safetensors", metadata={"format": "pt"})
    write_manifest(tmp_path / "run")
    result = command("serve", tmp_path / "run", "--port", 0)
    assert result.exit_code == 2
    assert "The model gives no numbers, because its weights hold NaN or infinity" in result.stderr


def test_faults_of_the_start_are_sentences(
    command: Any, finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        result = command("serve", finished, "--port", port)
    assert (result.exit_code, result.stdout) == (2, "")
    assert f"127.0.0.1:{port} cannot be listened on" in result.stderr
    result = command("serve", finished, "--workers", 0)
    assert (result.exit_code, result.stdout) == (2, "")
    assert "--workers" in result.stderr
    result = command("serve", finished, "--api-key-file", tmp_path / "none")
    assert result.exit_code == 2
    assert "--api-key-file" in result.stderr
    (tmp_path / "key").write_text("too-short\n")
    result = command("serve", finished, "--api-key-file", tmp_path / "key")
    assert result.exit_code == 2
    assert "at least 16" in result.stderr
    assert "too-short" not in result.stderr
    result = command("serve", tmp_path)
    assert result.exit_code == 2
    for name in [name for name in sys.modules if name.startswith("contextual_bert.server")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "fastapi", None)
    result = command("serve", finished)
    assert result.exit_code == 2
    assert "pip install 'contextual-bert[serve]'" in " ".join(result.stderr.split())
