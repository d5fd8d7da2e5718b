"""The commands on texts with numbers: inspect, train, evaluate, predict, export; faulty tables."""

import json
import random
from pathlib import Path
from typing import Any

import pytest

from contextual_bert import TextPipeline
from contextual_bert.data import read_table

READ = ("--text", "text", "--label", "price", "--regression")
BASE = {"coat": 120.0, "shirt": 30.0, "bag": 60.0}


def ok(result: Any) -> Any:
    assert result.exit_code == 0, (result.output, result.exception)
    return result


@pytest.fixture(scope="module")
def prices(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Things are dearer in Paris; prices are written as in Germany."""
    path, drawn = tmp_path_factory.mktemp("prices") / "prices.csv", random.Random(0)
    rows = ["text;city;price"]
    for number in range(300):
        word, city = list(BASE)[number % 3], drawn.choice(["Paris", "Porto"])
        price = BASE[word] * (1.5 if city == "Paris" else 1.0) * drawn.uniform(0.9, 1.1)
        rows.append(f"thing {number}: a {word};{city};{price:.2f}".replace(".", ","))
    path.write_text("\n".join(rows), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def trained(command: Any, prices: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    output = tmp_path_factory.mktemp("runs") / "run"
    settings = ("--conditioning", "cnn_context", "--epochs", 15, "--set", "learning_rate=0.01", "--device", "cpu")
    result = ok(command("train", prices, *READ, "--decimal", ",", *settings, "--output", output))
    told = " ".join(result.stderr.split())
    assert "numbers of 27" in told
    assert "in 12 bins" in told
    assert "RMSE" in result.stdout
    return output


def test_inspect_tells_the_numbers_and_the_command_to_train(command: Any, prices: Path, tmp_path: Path) -> None:
    result = ok(command("inspect", prices, *READ, "--decimal", ",", "--output", tmp_path / "schema.json"))
    told = " ".join((result.stdout + result.stderr).split())
    assert "numbers in 'price' of 27" in told
    assert "--label price --regression" in told


def test_evaluate_and_the_card_have_every_metric(command: Any, trained: Path) -> None:
    found = json.loads(ok(command("evaluate", trained, "--part", "test", "--format", "json")).stdout)["metrics"]
    for key in ("mean_absolute_error", "root_mean_squared_error", "interval_coverage_percent", "interval_width"):
        assert found[key]["low"] <= found[key]["value"] <= found[key]["high"]
    assert found["root_mean_squared_error"]["value"] < 25
    assert found["interval_coverage_percent"]["value"] > 70
    assert "interval coverage (%)" in (trained / "README.md").read_text("utf-8")


def test_predict_answers_one_text_and_a_table(command: Any, trained: Path, prices: Path, tmp_path: Path) -> None:
    query = {"text": "thing 7: a coat", "context": {"city": "Paris"}}
    asked = ("--text", query["text"], "--context", json.dumps(query["context"]))
    answer = json.loads(ok(command("predict", trained, *asked, "--format", "json")).stdout)
    assert answer == TextPipeline.from_pretrained(trained)(query)
    assert answer["interval"][0] < answer["label"] < answer["interval"][1]
    assert answer["label"] == pytest.approx(180, abs=30)
    assert "90% from" in ok(command("predict", trained, *asked)).stdout
    output = tmp_path / "answers.csv"
    ok(command("predict", trained, "--data", prices, "--output", output))
    found = read_table(output)
    assert found.num_rows == 300
    assert {"predicted_label", "predicted_low", "predicted_high"} <= {*found.column_names}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--text", "text", "--regression"), "--regression is for labels, and none is named"),
        (READ, "prices.csv, line 2, column 'price'"),
        ((*READ, "--decimal", ",", "--ordinal"), "--ordinal is for labels, and with --regression they are numbers"),
        ((*READ, "--decimal", ",", "--number-bins", "1"), "Give 2 or more"),
        ((*READ[:-1], "--decimal", ",", "--number-bins", "5"), "Give --regression too"),
        ((*READ[:-1], "--decimal", ","), "or learn the numbers themselves: --regression"),
    ],
)
def test_what_does_not_go_together_is_one_error(
    command: Any, prices: Path, tmp_path: Path, options: tuple[str, ...], words: str
) -> None:
    result = command("train", prices, *options, "--conditioning", "cnn", "--output", tmp_path / "run")
    assert result.exit_code == 2
    assert words in " ".join(result.stderr.split())
    assert "Traceback" not in result.stderr
