"""A feature that is constant where it is evaluated: importance says so, and taking it away shows the harm.

In the planted table the month decides one of the items in training; all test sets are of a month whose promoted coat
is no longer bought.
"""

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner, Result

from contextual_bert.errors import DataError
from contextual_bert.runs import ablate_features, evaluate_run, permute_features, run
from contextual_bert.training import Recipe, SetCompletion
from contextual_bert_cli.main import app

pytestmark = pytest.mark.slow  # one training that all of them look at
TINY = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
NUM_TRAINING, NUM_LATER = 300, 60


def planted(path: Path) -> Path:
    generator = np.random.default_rng(0)
    before = NUM_TRAINING + NUM_LATER
    months = np.concatenate([generator.permutation(np.arange(NUM_TRAINING) % 4), np.arange(NUM_LATER) % 4])
    months, promoted = np.append(months, np.full(NUM_LATER, 1)), np.append(months, np.full(NUM_LATER, 2))
    columns = {
        "items": [[f"coat-{coat}", f"hat-{generator.integers(4)}"] for coat in promoted],
        "month": [f"m{month}" for month in months],
        "sex": generator.choice(["f", "m"], len(months)),
        "photo": [None if row < before and row % 2 else "yes" for row in range(len(months))],
        "part": ["train"] * NUM_TRAINING + ["validation"] * NUM_LATER + ["test"] * NUM_LATER,
    }
    pq.write_table(pa.table(columns), path)
    return path


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("constant")
    training = {"num_train_epochs": 60, "learning_rate": 0.01, "per_device_train_batch_size": 32, "field_dropout": 0.2}
    recipe = Recipe(
        data=str(planted(folder / "sets.parquet")),
        task=SetCompletion(items="items"),
        split_column="part",
        leaks="keep",
        model=TINY,
        training=training,
        device="cpu",
    )
    run(recipe, folder / "run", is_quiet=True)
    return folder / "run"


def test_a_constant_feature_is_acquitted_by_no_figure(finished: Path) -> None:
    found = permute_features(finished).importances
    assert found.constant == ("month", "photo")
    assert [row.feature for row in found.rows[1:]] == ["sex"]
    assert "| month | constant in this part, cannot be told |" in found.to_markdown()


def test_taking_the_feature_away_shows_the_harm(finished: Path) -> None:
    found = ablate_features(finished).importances
    assert found.replaced_by == "missing"
    assert found.constant == ()
    rises = {row.feature: row.rise_nats.interval for row in found.rows}
    assert rises["month"].high < -0.1  # the model does better without
    assert abs(rises["sex"].value) < abs(rises["month"].value) / 4
    table = pq.read_table(json.loads((finished / "recipe.json").read_text("utf-8"))["recipe"]["data"])
    test = table.slice(NUM_TRAINING + NUM_LATER)
    without = test.set_column(test.column_names.index("month"), "month", pa.nulls(len(test), pa.string()))
    expected = evaluate_run(finished, source=without, part="all").report.metrics["cross_entropy_nats"].value
    own = found.unpermuted["cross_entropy_nats"].value
    assert rises["month"].value == pytest.approx(expected - own, abs=1e-6)


def test_features_that_are_missing_already_cannot_be_taken_away(finished: Path) -> None:
    table = pa.table(
        {
            "items": [["coat-1", "hat-1"], ["coat-2", "hat-0"]] * 10,
            "month": ["m1"] * 20,
            "sex": pa.nulls(20, pa.string()),
            "photo": pa.nulls(20, pa.string()),
        }
    )
    found = ablate_features(finished, source=table).importances
    assert found.constant == ("sex", "photo")
    told = r"the same in every set that is evaluated \(month, sex, photo\).*--replace missing"
    with pytest.raises(DataError, match=told):
        permute_features(finished, source=table)


def test_reports_name_field_part_and_shares(finished: Path) -> None:
    lines = json.loads((finished / "recipe.json").read_text("utf-8"))["resolved"]["lines"]
    told = "context 'month': constant in the test part ('m1' in every row, 25.0% of the training rows)"
    assert any(line.startswith(told) for line in lines)
    assert any(line.startswith("items whose share changed most from training to test: 'coat-2' 12.") for line in lines)
    again = evaluate_run(finished).lines
    assert any(line.startswith(told) for line in again)
    assert any("'coat-2' 12." in line for line in again)
    for part in ("train", "validation"):
        assert not any("'month'" in line for line in evaluate_run(finished, part=part).lines)


def test_the_command_says_so_too(finished: Path) -> None:
    def asked(*options: str) -> Result:
        return CliRunner().invoke(app, ["importance", str(finished), "--format", "markdown", *options])

    assert "| month | constant in this part, cannot be told |" in asked().stdout
    assert "| missing | rise of" in asked("--replace", "missing").stdout
    refused = asked("--replace", "missing", "--permutations", "2")
    assert refused.exit_code != 0
    assert "--permutations 2 is for --replace permute" in f"{refused.output}{refused.exception}"
