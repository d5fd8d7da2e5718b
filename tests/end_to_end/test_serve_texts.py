"""``contextual-bert serve`` for a run of texts: the answers of ``predict``, and what it refuses before it loads."""

import json
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.end_to_end.test_server import Server

TRAINING = ("--conditioning", "cnn_context", "--epochs", 5, "--set", "learning_rate=0.01", "--device", "cpu")


@pytest.fixture(scope="module")
def trained(command: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("rooms")
    rows = ["text,guest,verdict"]
    for number in range(160):
        guest, mood = ("family", "student")[number % 3 == 0], ("lively", "quiet")[number % 2]
        rows.append(
            f"room {number} was {mood},{guest},{'good' if (guest == 'student') == (mood == 'lively') else 'bad'}"
        )
    (folder / "rooms.csv").write_text("\n".join(rows), encoding="utf-8")
    columns = ("--text", "text", "--label", "verdict")
    result = command("train", folder / "rooms.csv", *columns, *TRAINING, "--output", folder / "run")
    assert result.exit_code == 0, (result.output, result.exception)
    return folder / "run"


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 2])
def test_a_run_of_texts_is_served(command: Any, trained: Path, workers: int) -> None:
    asked = ("--text", "room 3 was lively", "--context", '{"guest": "student"}', "--format", "json")
    expected = json.loads(command("predict", trained, *asked).stdout)
    server = Server(trained, "--workers", workers, "--max-text", 40)
    try:
        with server.client() as client:
            query = {"text": "room 3 was lively", "context": {"guest": "student"}}
            answer = client.post("/v1/predict", json=query).json()
            assert answer == {**expected, "probabilities": pytest.approx(expected["probabilities"], abs=1e-5)}
            assert client.post("/v1/predict", json={"text": "a" * 41}).status_code == 422
            assert client.post("/v1/predict", json={**query, "pair": "a"}).status_code == 422
            assert client.post("/v1/complete", json={"items": []}).status_code == 404
            assert client.post("/v1/admin/reload").json()["number"] == 2
            with httpx.Client(base_url=server.url) as stranger:
                assert stranger.post("/v1/predict", json=query).status_code == 401
        assert server.end() == 0
        assert not server.other_lines, server.other_lines
    finally:
        server.process.kill()


@pytest.mark.parametrize("option", [("--max-top", 3), ("--max-blanks", 2), ("--exact",), ("--computation-deadline", 3)])
def test_options_of_sets_are_refused(command: Any, trained: Path, option: tuple[Any, ...]) -> None:
    result = command("serve", trained, *option)
    assert result.exit_code == 2
    assert f"{option[0]} is for runs of sets, and this one is of texts" in " ".join(result.stderr.split())


def test_options_of_texts_are_refused(command: Any, finished: Path) -> None:
    result = command("serve", finished, "--max-text", 3)
    assert result.exit_code == 2
    assert "--max-text is for runs of texts, and this one is of sets" in " ".join(result.stderr.split())
