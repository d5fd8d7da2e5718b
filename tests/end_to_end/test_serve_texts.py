"""``contextual-bert serve`` for a run of texts: the answers of ``predict``, and what it refuses before it loads."""

import json
from pathlib import Path
from typing import Any

import httpx
import pytest

from contextual_bert import TextPipeline
from contextual_bert.inference import explain_text
from tests.end_to_end.test_server import Server

TRAINING = ("--conditioning", "cnn_context", "--epochs", 5, "--set", "learning_rate=0.01", "--device", "cpu")
TOLD_LESS = ("--set", "context_dropout=0.1", "--set", "field_dropout=0.2")


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
    result = command("train", folder / "rooms.csv", *columns, *TRAINING, *TOLD_LESS, "--output", folder / "run")
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
            why = client.post("/v1/explain?label=bad", json=query).json()
            assert why["label"] == "bad" and [each["field"] for each in why["fields"]] == ["guest"]
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


def test_explain_says_why_a_label_and_refuses_what_is_for_sets(command: Any, trained: Path) -> None:
    query = ("--text", "room 3 was lively", "--context", '{"guest": "student"}')
    result = command("explain", trained, *query, "--label", "bad", "--format", "json")
    assert result.exit_code == 0, (result.output, result.exception)
    found = json.loads(result.stdout)
    asked = {"text": "room 3 was lively", "context": {"guest": "student"}}
    expected = explain_text(TextPipeline.from_pretrained(trained), asked, label="bad")
    assert found == json.loads(expected.to_json())
    assert [each["field"] for each in found["fields"]] == ["guest"]
    table = command("explain", trained, *query)
    assert "What the words do" in table.stdout and "What others would get" in table.stdout
    for options, words in (
        (("--label", "bda"), ("--label", "Did you mean 'bad'")),
        (("--item", "coat"), ("--item belongs to --set",)),
        (("--in-stock",), ("--in-stock belongs to --set",)),
        (("--pair", "word"), ("--pair",)),
        (("--set", "coat"), ("Give either --set", "--text")),
    ):
        refused = command("explain", trained, *query, *options)
        assert refused.exit_code == 2
        said = " ".join(refused.stderr.split())
        assert all(word in said for word in words), said
    other = command("explain", trained, "--set", "coat", "--context", "{}")
    assert other.exit_code == 2 and "--set does not go with a run on labels of texts" in " ".join(other.stderr.split())


@pytest.mark.parametrize("option", [("--max-top", 3), ("--max-blanks", 2), ("--exact",), ("--max-completions", 3)])
def test_options_of_sets_are_refused(command: Any, trained: Path, option: tuple[Any, ...]) -> None:
    result = command("serve", trained, *option)
    assert result.exit_code == 2
    assert f"{option[0]} is for runs of sets, and this one is of texts" in " ".join(result.stderr.split())


def test_options_of_texts_are_refused(command: Any, finished: Path) -> None:
    result = command("serve", finished, "--max-text", 3)
    assert result.exit_code == 2
    assert "--max-text is for runs of texts, and this one is of sets" in " ".join(result.stderr.split())
