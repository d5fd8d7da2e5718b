"""A field that decides the answer changes it when it is flipped, noise does not; numbers are those of the answers."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from transformers import BertConfig, BertForSequenceClassification
from typer.testing import CliRunner

from contextual_bert import CompletionPipeline, TextPipeline
from contextual_bert.data import Split
from contextual_bert.errors import ConfigurationError
from contextual_bert.runs import run
from contextual_bert.runs.flips import flip_field
from contextual_bert.testing.heads import miniature_checkpoint
from contextual_bert.testing.miniature import drawn_anew
from contextual_bert.training import Recipe, SetCompletion, task_on_texts
from contextual_bert_cli.main import app

SIZES = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
ROWS = 300


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    generator = np.random.default_rng(0)
    moods = generator.choice(["glad", "sad", "calm"], ROWS)
    columns = {
        "items": [[f"coat-{mood}", f"hat-{generator.integers(4)}"] for mood in moods],
        "said": [f"word{number}" for number in generator.integers(2, 17, ROWS)],
        "verdict": ["good" if mood == "glad" else "bad" for mood in moods],
        "mood": [
            mood if number else None for mood, number in zip(moods, generator.integers(9, size=ROWS), strict=True)
        ],
        "secret": moods,
        "coin": generator.choice(["heads", "tails"], ROWS),
        "age": generator.integers(18, 80, ROWS),
        "likes": [["a", "b"] if number else ["c"] for number in generator.integers(2, size=ROWS)],
        "writer": [f"writer {number}" for number in generator.integers(0, 90, ROWS)],
    }
    path = tmp_path_factory.mktemp("rows") / "rows.parquet"
    pq.write_table(pa.table(columns), path)
    return path


@pytest.fixture(scope="module")
def finished(table: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("runs")
    bert = BertForSequenceClassification(BertConfig(vocab_size=23, num_labels=2, max_position_embeddings=16, **SIZES))
    miniature_checkpoint(drawn_anew(bert), folder / "bert")
    checkpoint = str(folder / "bert")
    labels = task_on_texts(checkpoint=checkpoint, text="said", label="verdict")
    tasks: dict[str, tuple[Any, dict[str, Any]]] = {
        "sets": (SetCompletion(items="items"), {"exclude": ("said", "verdict", "secret")}),
        "labels": (labels, {"exclude": ("items", "secret")}),
        "secret": (labels, {"exclude": ("items", "mood"), "sensitive": ("secret",)}),
        "words": (task_on_texts(checkpoint=checkpoint, text="said"), {"exclude": ("items", "verdict", "secret")}),
        "none": (SetCompletion(items="items"), {"conditioning": "none"}),
    }
    for name, (task, fields) in tasks.items():
        recipe = Recipe(
            data=str(table),
            task=task,
            customer="writer",
            test=0.4,
            leaks="keep",
            field_selection="off",
            model=SIZES if task.has_items else {},
            training={"num_train_epochs": 12, "learning_rate": 0.005, "per_device_train_batch_size": 16},
            device="cpu",
            **fields,
        )
        run(recipe, folder / name, is_quiet=True)
    return {name: folder / name for name in tasks}


@pytest.mark.parametrize("name", ["sets", "labels"])
def test_what_decides_changes_answers_and_noise_does_not(finished: dict[str, Path], name: str) -> None:
    mood, coin, age = (flip_field(finished[name], field).flips for field in ("mood", "coin", "age"))
    assert mood.overall.changed.low > 0.2
    assert mood.overall.moved.value > 0.2
    assert coin.overall.changed.value < 0.1
    assert {each.after for each in mood.values} == {"glad", "sad", "calm"}
    assert {each.before for each in mood.pairs} >= {"glad", "sad", "calm"}
    assert all(each.before != each.after for each in mood.pairs)
    assert len(age.values) > 2
    if name == "labels":
        [flipped] = [each for each in mood.pairs if (each.before, each.after) == ("sad", "glad")]
        assert flipped.commonest == ("bad", "good")
        assert flipped.share_of_commonest == pytest.approx(flipped.changed.value)


def test_the_numbers_are_those_of_the_answers_of_labels(finished: dict[str, Path], table: Path) -> None:
    found, rows = flip_field(finished["labels"], "mood").flips, _test_rows(finished["labels"], table)
    pipeline = TextPipeline.from_pretrained(finished["labels"])

    def answers(mood: str | None) -> list[Any]:
        queries = [
            {"text": row["said"], "context": {**row["context"], **({"mood": mood} if mood else {})}} for row in rows
        ]
        return list(pipeline(queries))

    own = answers(None)
    for each in found.values:
        flipped = answers(each.after)
        pairs = [
            (before, after)
            for row, before, after in zip(rows, own, flipped, strict=True)
            if row["context"]["mood"] != each.after
        ]
        assert each.num_rows == len(pairs)
        assert each.changed.value == pytest.approx(np.mean([a["label"] != b["label"] for a, b in pairs]))
        moved = [abs(a["probabilities"]["good"] - b["probabilities"]["good"]) for a, b in pairs]
        assert each.moved.value == pytest.approx(np.mean(moved), abs=1e-5)


def test_the_numbers_are_those_of_the_answers_of_sets(finished: dict[str, Path], table: Path) -> None:
    found, rows = flip_field(finished["sets"], "coin").flips, _test_rows(finished["sets"], table)
    pipeline = CompletionPipeline.from_pretrained(finished["sets"])
    changed: list[bool] = []
    for row in rows:
        for place in range(2):
            items = [item if place != number else "[MASK]" for number, item in enumerate(row["items"])]
            other = "heads" if row["context"]["coin"] == "tails" else "tails"
            contexts = (row["context"], {**row["context"], "coin": other})
            first, second = (
                pipeline({"items": items, "context": context, "repeats": True})["slots"][0]["candidates"][0]["item"]
                for context in contexts
            )
            changed.append(first != second)
    assert found.overall.changed.value == pytest.approx(np.mean(changed))


def test_values_of_a_sensitive_field_stand_in_no_report(finished: dict[str, Path]) -> None:
    flips = flip_field(finished["secret"], "secret").flips
    assert flips.overall.changed.value > 0.2
    assert (flips.values, flips.pairs) == ((), ())
    assert not any(word in flips.to_markdown() + flips.to_json() for word in ("glad", "calm"))


@pytest.mark.parametrize(
    ("name", "field", "problem"),
    [
        ("labels", "likes", "no list of values"),
        ("labels", "weather", "no field that the run reads"),
        ("none", "mood", "reads no context"),
        ("words", "mood", "choose one label"),
    ],
)
def test_what_cannot_be_flipped_is_refused(finished: dict[str, Path], name: str, field: str, problem: str) -> None:
    with pytest.raises(ConfigurationError, match=problem):
        flip_field(finished[name], field)


def test_the_command_line_flips_a_field(finished: dict[str, Path], tmp_path: Path) -> None:
    words = ["importance", str(finished["labels"]), "--flip", "mood"]
    found = CliRunner().invoke(app, [*words, "--format", "json", "--output", str(tmp_path / "flips")])
    assert found.exit_code == 0, found.output
    assert json.loads(found.stdout)["field"] == "mood"
    assert {path.name for path in (tmp_path / "flips").iterdir()} == {"flips.md", "flips.json", "flips.png"}
    assert CliRunner().invoke(app, [*words, "--permutations", "2"]).exit_code != 0


def _test_rows(directory: Path, table: Path) -> list[dict[str, Any]]:
    rows = Split.load(directory / "split.json").rows("test").tolist()
    found = pq.read_table(table).take(rows).to_pylist()
    fields = ("mood", "coin", "age", "likes")
    return [{**each, "context": {name: each[name] for name in fields}} for each in found]
