"""Several workers on one port answer as one server: reloads, stock, metrics, a worker that dies, and the end."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future
from multiprocessing import Pipe
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest

from contextual_bert.errors import ConfigurationError
from contextual_bert.server import ServerSettings, check_can_fork
from contextual_bert.server.worker_messages import WorkerFailedError, WorkerLink, WorkerMessage, merged_metrics
from contextual_bert.server.workers import exit_in_words, shares_of, workers_remark

KEY = "a-key-that-nobody-guesses"
# A file named broken makes a reload fail.
SCRIPT = f"""
import sys
from pathlib import Path
import pyarrow as pa
import torch
from contextual_bert.inference import Catalogue, CompletionPipeline
from contextual_bert.models import ContextualBertConfig, ContextualBertForMaskedLM, ContextualBertProcessor
from contextual_bert.server import ServerSettings, serve_with_workers, with_one_thread

items, folder = ["coat", "hat", "bag"], Path(sys.argv[1])
processor = ContextualBertProcessor.from_items(items)
sizes = dict(hidden_size=8, num_attention_heads=2, num_hidden_layers=1, intermediate_size=16)

def load():
    if (folder / "broken").exists():
        raise ValueError("the run is broken")
    model = ContextualBertForMaskedLM(ContextualBertConfig(vocab_size=6, **sizes))
    shop = Catalogue(pa.table({{"id": items, "in_stock": [True] * 3}}), processor.items)
    return CompletionPipeline(model, processor, catalogue=shop)

with with_one_thread():
    first = load()
settings = ServerSettings(api_key={KEY!r}, stop_grace_seconds=0.2)
serve_with_workers(first, load=load, settings=settings, num_workers=2, host="127.0.0.1", port=0)
"""


class Served:
    """Two workers in processes of their own, and their log."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        line = [sys.executable, "-c", SCRIPT, str(folder)]
        self.process = subprocess.Popen(line, stderr=subprocess.PIPE, text=True, env=os.environ)
        self.log: list[dict[str, Any]] = []
        self.others: list[str] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self.url = self.events("listening", 1)[0]["url"]
        self.events("started", 2)

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            if line.startswith("{"):
                self.log.append(json.loads(line))
            else:
                self.others.append(line)

    def events(self, name: str, count: int) -> list[dict[str, Any]]:
        """So many lines of the log about an event, once they are there."""
        deadline = time.monotonic() + 120
        while len(found := [line for line in list(self.log) if line["event"] == name]) < count:
            assert self.process.poll() is None or name == "stopped", "".join(self.others)
            assert time.monotonic() < deadline, (name, self.log)
            time.sleep(0.02)
        return found

    def ask(self, method: str, path: str, **given: Any) -> httpx.Response:
        """An answer on a connection of its own, which either worker may take."""
        headers = {"X-API-Key": KEY, "Content-Type": "application/json"}
        return httpx.request(method, f"{self.url}{path}", headers=headers, timeout=60, **given)

    def metric(self, name: str) -> list[float]:
        """The values of a metric, one a worker where it has a label."""
        lines = self.ask("GET", "/metrics").text.splitlines()
        return [
            float(line.split()[-1]) for line in lines if line.partition("{")[0].split()[0] == f"contextual_bert_{name}"
        ]

    def in_stock(self) -> list[bool]:
        """Whether a hat is in stock, by the word of whichever worker answers, several times."""
        answers = [self.ask("GET", "/v1/items?item=hat").json()["items"][0]["in_stock"] for _ in range(12)]
        return sorted({*answers})


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    found = Served(tmp_path_factory.mktemp("workers"))
    yield found
    if found.process.poll() is None:
        found.process.kill()
    found.process.wait()


def test_metrics_are_those_of_each_worker(served: Served) -> None:
    answers = [served.ask("POST", "/v1/complete", json={"items": ["hat"]}) for _ in range(8)]
    assert {each.status_code for each in answers} == {200}
    text = served.ask("GET", "/metrics").text
    assert 'contextual_bert_model_version{worker="1"} 1.0' in text
    assert 'contextual_bert_model_version{worker="2"} 1.0' in text
    assert text.count("# TYPE contextual_bert_requests_total counter") == 1
    assert served.metric("workers") == [2.0]
    counted = [line for line in text.splitlines() if line.startswith("contextual_bert_requests_total{")]
    lines = [line for line in counted if 'route="/v1/complete",status="200"' in line]
    assert sum(float(line.split()[-1]) for line in lines) == 8


def test_stock_is_posted_to_all_and_kept_by_new_workers(served: Served) -> None:
    answer = served.ask("POST", "/v1/admin/stock", json={"out_of_stock": ["hat", "kilt"]})
    assert answer.json() == {"changed": 1, "unknown_items": ["kilt"]}
    assert served.in_stock() == [False]
    reloaded = served.ask("POST", "/v1/admin/reload").json()
    assert reloaded["number"] == 2
    assert served.metric("model_version") == [2.0, 2.0]
    assert served.in_stock() == [False]


def test_a_worker_that_dies_is_started_anew(served: Served) -> None:
    before = len(served.events("started", 2))
    begun = [line for line in served.log if line["event"].startswith("Started server process") and line["worker"] == 1]
    os.kill(int(begun[-1]["event"].partition("[")[2].rstrip("]")), signal.SIGKILL)
    (died,) = served.events("a worker died", 1)
    assert (died["worker"], died["exit"]) == (1, "signal SIGKILL")
    assert served.events("started", before + 1)[-1]["worker"] == 1
    assert served.metric("workers") == [2.0]
    assert served.metric("worker_restarts_total") == [1.0]
    # It has the number of the version and the stock that the others have.
    assert set(served.metric("model_version")) == {2.0}
    assert served.in_stock() == [False]


def test_a_reload_that_fails_is_told_and_leaves_all_as_they_were(served: Served) -> None:
    (served.folder / "broken").touch()
    failed = served.ask("POST", "/v1/admin/reload")
    (served.folder / "broken").unlink()
    assert failed.status_code == 500
    assert failed.json()["type"].endswith("reload-failed")
    assert served.metric("model_version") == [2.0, 2.0]
    assert sorted(served.metric("last_reload_succeeded")) == [0.0, 1.0]
    before = len([line for line in served.log if line["event"] == "reloaded"])
    served.process.send_signal(signal.SIGHUP)
    assert {line["version"] for line in served.events("reloaded", before + 2)[-2:]} == {3}


def test_the_end_answers_everything(served: Served) -> None:
    served.process.send_signal(signal.SIGTERM)
    assert served.process.wait(60) == 0
    assert {line["worker"] for line in served.events("stopped", 2)} == {1, 2}
    assert served.others == []


def test_shares_of_one_worker_are_the_whole() -> None:
    settings = ServerSettings(max_queue=100, max_connections=7)
    assert shares_of(settings, 1) is settings
    share = shares_of(settings, 3)
    # A request of 64 queries must fit into the queue of the worker that gets it.
    assert (share.max_queue, share.max_connections, share.max_computations) == (64, 3, 6)


def test_more_workers_than_processors_are_remarked() -> None:
    assert workers_remark(2, 2) == workers_remark(2, None) == []
    assert workers_remark(3, 2)[0].startswith("3 workers share 2 processors: ")


def test_a_model_on_a_gpu_is_not_forked() -> None:
    pipeline: Any = SimpleNamespace(model=SimpleNamespace(device=SimpleNamespace(type="cuda")))
    with pytest.raises(ConfigurationError, match="workers=2 is not possible with a model on cuda"):
        check_can_fork(pipeline, 2)


def test_exits_are_named() -> None:
    assert [exit_in_words(code) for code in (-9, 1)] == ["signal SIGKILL", "exit code 1"]


def test_a_link_answers_and_asks() -> None:
    ours, theirs = Pipe()
    is_lost = threading.Event()
    link = WorkerLink(theirs, worker=1, on_lost=is_lost.set)

    def broken(_: Any) -> "Future[Any]":
        done = Future[Any]()
        done.set_exception(ValueError("no file"))
        return done

    link.start({"reload": broken})
    ours.send(WorkerMessage(5, "reload", 2))
    assert ours.recv() == WorkerMessage(5, "reload", None, is_answer=True, error="no file")
    asked = link.ask("stock", {"hat": True})
    assert ours.recv() == WorkerMessage(1, "stock", {"hat": True})
    ours.send(WorkerMessage(1, "stock", is_answer=True, error="worker 2 died"))
    with pytest.raises(WorkerFailedError, match="worker 2 died"):
        asked.result(10)
    ours.close()
    assert is_lost.wait(10)


def test_metrics_keep_their_own_labels() -> None:
    about = "# HELP a_total A.\n# TYPE a_total counter\n"
    merged = merged_metrics({1: f'{about}a_total{{route="/{{x}}"}} 1.0\n', 2: f"{about}a_total 2.0\n"})
    assert merged == f'{about}a_total{{worker="1",route="/{{x}}"}} 1.0\na_total{{worker="2"}} 2.0\n'
