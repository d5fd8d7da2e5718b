"""The commands on texts with several labels at once: inspect, train, evaluate, compare, predict; faulty tables."""

import json
from pathlib import Path
from typing import Any

import pytest

from contextual_bert import TextPipeline
from contextual_bert.data import read_table

READ = ("--text", "text", "--label", "tags", "--multi-label", "--separator", ";")


def ok(result: Any) -> Any:
    assert result.exit_code == 0, (result.output, result.exception)
    return result


@pytest.fixture(scope="module")
def rooms(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Every fourth room has no label; what is lively is noise for families."""
    path = tmp_path_factory.mktemp("rooms") / "rooms.csv"
    rows = ["text,guest,tags"]
    for number in range(160):
        guest = ("family", "student")[number % 3 == 0]
        loud = "fun" if guest == "student" else "noise"
        words, tags = [("quiet cheap", "calm;value"), ("lively", loud), ("lively cheap", f"{loud};value"), ("old", "")][
            number % 4
        ]
        rows.append(f"room {number} was {words},{guest},{tags}")
    path.write_text("\n".join(rows), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def trained(command: Any, rooms: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    output = tmp_path_factory.mktemp("runs") / "run"
    settings = ("--conditioning", "cnn_context", "--epochs", 20, "--set", "learning_rate=0.01", "--device", "cpu")
    result = ok(command("train", rooms, *READ, *settings, "--output", output))
    told = " ".join(result.stderr.split())
    assert "4 labels: calm, fun, noise, value" in told
    assert "training texts have none" in told
    assert "micro F1 (%)" in result.stdout
    return output


def test_inspect_tells_labels_and_the_command_to_train(command: Any, rooms: Path, tmp_path: Path) -> None:
    result = ok(command("inspect", rooms, *READ, "--output", tmp_path / "schema.json"))
    told = " ".join((result.stdout + result.stderr).split())
    assert "4 labels, with the share of texts that have each: value (50.0%)" in told
    assert "--label tags --multi-label --separator ';'" in told


def test_evaluate_and_the_card_have_every_metric(command: Any, trained: Path, rooms: Path) -> None:
    found = json.loads(ok(command("evaluate", trained, "--part", "test", "--format", "json")).stdout)
    for key in ("micro_f1_percent", "macro_f1_percent", "exact_labels_percent", "label_ranking_precision_percent"):
        interval = found["metrics"][key]
        assert interval["low"] <= interval["value"] <= interval["high"]
    assert found["metrics"]["micro_f1_percent"]["value"] > 80
    assert all(each["average_precision_percent"] is None or each["num_true"] for each in found["classes"])
    card = (trained / "README.md").read_text("utf-8")
    assert "exact label match (%)" in card
    assert "average precision (%)" in card


def test_predict_answers_one_text_and_a_table(command: Any, trained: Path, rooms: Path, tmp_path: Path) -> None:
    query = {"text": "room 7 was lively cheap", "context": {"guest": "student"}}
    asked = ("--text", query["text"], "--context", json.dumps(query["context"]))
    answer = json.loads(ok(command("predict", trained, *asked, "--format", "json")).stdout)
    assert answer == TextPipeline.from_pretrained(trained)(query)
    assert answer["label"] == ["fun", "value"]
    assert "fun, value" in ok(command("predict", trained, *asked)).stdout
    output = tmp_path / "tags.parquet"
    ok(command("predict", trained, "--data", rooms, "--output", output))
    found = read_table(output)
    assert found.num_rows == 160
    assert {"predicted_label", "probability", "probability_fun"} <= {*found.column_names}
    refused = command("predict", trained, "--data", rooms, "--output", tmp_path / "tags.csv")
    assert "Give a file that ends in .parquet or .jsonl" in " ".join(refused.stderr.split())


def test_compare_has_the_counted_shares_beside_it(command: Any, rooms: Path, tmp_path: Path) -> None:
    names = ("--baselines", "popularity,context_popularity")
    result = ok(command("compare", rooms, *READ, *names, "--output", tmp_path / "cmp"))
    assert "F1 (%) by label" in (tmp_path / "cmp" / "report.md").read_text("utf-8")
    assert "context_popularity" in result.stdout


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--text", "text", "--multi-label"), "--multi-label is for labels, and none is named"),
        ((*READ[:-2],), "no cell has ',' between its labels"),
        ((*READ, "--ordinal"), "--ordinal is for one grade a text"),
        (("--text", "text", "--label", "tags", "--separator", ";"), "Give --multi-label too"),
        ((*READ[:2], "--label", "number", "--multi-label"), "says no labels"),
        ((*READ, "--conditioning", "tfidf"), "The baseline 'tfidf' cannot learn these labels"),
    ],
)
def test_what_does_not_go_together_is_one_error(
    command: Any, rooms: Path, tmp_path: Path, options: tuple[str, ...], words: str
) -> None:
    text = rooms.read_text("utf-8").splitlines()
    path = tmp_path / "rooms.csv"
    numbered = [f"{text[0]},number", *(f"{line},{row}.5" for row, line in enumerate(text[1:]))]
    path.write_text("\n".join(numbered), encoding="utf-8")
    own = options if "--conditioning" in options else (*options, "--conditioning", "cnn")
    result = command("train", path, *own, "--output", tmp_path / "run")
    assert result.exit_code == 2
    assert words in " ".join(result.stderr.split())
    assert "Traceback" not in result.stderr
