"""Features of a run on texts, permuted one by one: for labels, tags and hidden tokens, by the same code as for sets.

In the planted table the mood decides the label, the tags and the first word of the title; the coin is noise.
"""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from transformers import BertConfig, BertForSequenceClassification

from contextual_bert.data import SequenceDataset, Split
from contextual_bert.errors import ConfigurationError, DataError, RunDirectoryError
from contextual_bert.runs import (
    RunImportance,
    ablate_features,
    evaluate_run,
    permute_features,
    run,
    write_importance,
)
from contextual_bert.runs.permutation_importance import donor_of, with_permuted
from contextual_bert.testing.heads import miniature_checkpoint
from contextual_bert.testing.miniature import drawn_anew
from contextual_bert.training import Recipe, task_on_texts

SIZES = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
ROWS = 240
HEADS: dict[str, dict[str, Any]] = {
    "labels": {"text": "said", "pair": "second", "label": "verdict"},
    "tags": {"text": "words", "label": "tags"},
    "masked": {"text": "title"},
}


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Recipe]:
    folder = tmp_path_factory.mktemp("planted")
    bert = BertForSequenceClassification(BertConfig(vocab_size=23, num_labels=2, max_position_embeddings=16, **SIZES))
    miniature_checkpoint(drawn_anew(bert), folder / "bert")
    generator = np.random.default_rng(0)
    moods = generator.choice(["glad", "sad"], ROWS)
    # The words say nothing of the mood, but for the first one of the titles.
    words = [[f"word{number}" for number in row] for row in generator.integers(2, 18, (ROWS, 2))]
    columns = {
        "said": [" ".join(row) for row in words],
        "second": [f"word{number}" for number in generator.integers(18, size=ROWS)],
        "words": words,
        "title": [f"word{int(mood == 'glad')} {row[1]}" for mood, row in zip(moods, words, strict=True)],
        "tags": [["B-GLAD" if mood == "glad" else "O", "O"] for mood in moods],
        "verdict": ["good" if mood == "glad" else "bad" for mood in moods],
        "mood": moods,
        "coin": generator.choice(["heads", "tails"], ROWS),
        "writer": [f"writer {number}" for number in generator.integers(0, 60, ROWS)],
    }
    pq.write_table(pa.table(columns), folder / "texts.parquet")
    recipes: dict[str, Recipe] = {}
    for head, task in HEADS.items():
        kept = {"mood", "coin", "writer", *task.values()}
        recipes[head] = Recipe(
            data=str(folder / "texts.parquet"),
            task=task_on_texts(checkpoint=str(folder / "bert"), **task),
            customer="writer",
            exclude=tuple(name for name in columns if name not in kept),
            test=0.4,
            leaks="keep",  # the mood decides the label
            training={"num_train_epochs": 15, "learning_rate": 0.003, "per_device_train_batch_size": 16},
            device="cpu",
        )
    return recipes


@pytest.fixture(scope="module")
def finished(planted: dict[str, Recipe], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("attributed")
    for head, recipe in planted.items():
        run(recipe, folder / head, is_quiet=True)
    return {head: folder / head for head in planted}


@pytest.fixture(scope="module")
def found(finished: dict[str, Path]) -> dict[str, RunImportance]:
    return {head: permute_features(directory, num_permutations=2) for head, directory in finished.items()}


@pytest.mark.parametrize("head", HEADS)
def test_the_feature_that_decides_comes_first_and_noise_is_nothing(found: dict[str, RunImportance], head: str) -> None:
    together, first, noise = found[head].importances.rows
    assert [row.feature for row in (together, first, noise)] == ["all features", "mood", "coin"]
    assert first.rise_nats.interval.low > 0.1
    assert first.rise_nats.adjusted_p_value is not None
    assert first.rise_nats.adjusted_p_value < 0.01
    assert abs(noise.rise_nats.interval.value) < 0.2 * first.rise_nats.interval.value


@pytest.mark.parametrize("head", HEADS)
def test_the_true_context_gives_the_numbers_of_the_run(
    found: dict[str, RunImportance], finished: dict[str, Path], head: str
) -> None:
    metrics = json.loads((finished[head] / "metrics.json").read_text("utf-8"))["test"]
    importances = found[head].importances
    for key in ("cross_entropy_nats", "recall_at_1_percent"):
        assert importances.unpermuted[key].value == metrics["metrics"][key]["value"]
        assert importances.unpermuted[key].low == metrics["metrics"][key]["low"]
    for name in ("num_rows", "num_sets", "num_clusters", "num_items"):
        assert getattr(importances, name) == metrics[name]
    assert found[head].lines[0] == "evaluated: the test part of the split that the run was trained with"


@pytest.mark.parametrize("head", HEADS)
def test_a_rise_is_that_of_a_table_with_the_column_permuted(
    finished: dict[str, Path], planted: dict[str, Recipe], head: str
) -> None:
    """Another route: permute the raw values in the table, and evaluate that."""
    found = permute_features(finished[head], seed=3).importances
    rows = Split.load(finished[head] / "split.json").rows("test")
    table = pq.read_table(planted[head].data)
    values = table.column("mood").to_pylist()
    donors = rows[donor_of(rows, feature="mood", number=0, seed=3)]
    for row, donor in zip(rows.tolist(), donors.tolist(), strict=True):
        values[row] = table.column("mood")[donor].as_py()
    changed = table.set_column(table.column_names.index("mood"), "mood", pa.array(values)).take(pa.array(rows))
    report = evaluate_run(finished[head], source=changed, part="all").report
    expected = report.metrics["cross_entropy_nats"].value - found.unpermuted["cross_entropy_nats"].value
    row = next(row for row in found.rows if row.feature == "mood")
    assert row.rise_nats.interval.value == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize(
    ("head", "rows"), [("labels", "labels of"), ("tags", "words of"), ("masked", "hidden tokens of")]
)
def test_texts_are_called_texts(found: dict[str, RunImportance], head: str, rows: str, tmp_path: Path) -> None:
    importances = found[head].importances
    heading, *_ = importances.to_markdown().splitlines()
    counts = f"{importances.num_rows} {rows} {importances.num_sets} texts, {importances.num_clusters} writers"
    assert heading == f"## What the model takes from each feature: {counts}"
    words = importances.to_markdown().replace(",", " ").replace(".", " ").split()
    assert not {"set", "sets", "item", "items", "positions"} & set(words)
    assert len(write_importance(importances, tmp_path)) == 3


def test_other_columns_and_parts_can_be_named(finished: dict[str, Path], planted: dict[str, Recipe]) -> None:
    table = pq.read_table(planted["labels"].data)
    importances = permute_features(finished["labels"], overrides={"customer": "second"}, part="validation").importances
    assert importances.settings.cluster_name == "second"
    assert importances.num_rows == len(Split.load(finished["labels"] / "split.json").rows("validation"))
    same = table.set_column(table.column_names.index("coin"), "coin", pa.array(["heads"] * ROWS))
    assert permute_features(finished["labels"], source=same).importances.constant == ("coin",)
    taken = ablate_features(finished["labels"], source=same).importances
    assert {row.feature for row in taken.rows} == {"all features", "mood", "coin"}


def test_a_baseline_with_a_context_is_measured_too(planted: dict[str, Recipe], tmp_path: Path) -> None:
    training = {"num_train_epochs": 10, "learning_rate": 0.05}
    run(replace(planted["labels"], conditioning="cnn_context", training=training), tmp_path / "run", is_quiet=True)
    _, first, noise = permute_features(tmp_path / "run").importances.rows
    assert [first.feature, noise.feature] == ["mood", "coin"]
    assert first.rise_nats.interval.low > 0.1
    assert abs(noise.rise_nats.interval.value) < 0.2 * first.rise_nats.interval.value


def test_permuting_leaves_labels_pairs_and_the_data_set_as_they_were() -> None:
    context = {"a": torch.tensor([1, 2]), "b": torch.tensor([[3], [4]])}
    own: dict[str, Any] = {
        "labels": torch.tensor([1, 0]),
        "token_type_ids": torch.tensor([0, 1, 0, 1]),
        "example_ids": torch.tensor([7, 3]),
    }
    texts = SequenceDataset(torch.tensor([5, 6, 7, 8]), torch.tensor([0, 2, 4]), context=context, pad_id=9, **own)
    other = with_permuted(texts, ["b"], np.array([1, 0]))
    assert other.context["b"].tolist() == [[4], [3]]
    assert other.context["a"].tolist() == [1, 2]
    assert texts.context["b"].tolist() == [[3], [4]]
    assert all(torch.equal(getattr(other, name), values) for name, values in own.items())
    before, after = (each.__getitems__([1, 0]).inputs() for each in (texts, other))
    assert all(torch.equal(before[name], after[name]) for name in before if name != "context")
    assert other.pad_id == 9


def test_what_has_no_importance(finished: dict[str, Path], planted: dict[str, Recipe], tmp_path: Path) -> None:
    once = replace(planted["labels"], training={"num_train_epochs": 1})
    run(replace(once, conditioning="none"), tmp_path / "none", is_quiet=True)
    with pytest.raises(ConfigurationError, match="reads no context"):
        permute_features(tmp_path / "none")
    run(replace(once, conditioning="bert_concat_text"), tmp_path / "control", is_quiet=True)
    with pytest.raises(RunDirectoryError, match="baseline 'bert_concat_text'"):
        permute_features(tmp_path / "control")
    with pytest.raises(DataError, match=r"only one text is evaluated.*a table with more texts"):
        permute_features(finished["tags"], source=pq.read_table(once.data).slice(0, 1))
    with pytest.raises(ConfigurationError, match="items='words' is for sets of items, and this is for tags of words"):
        permute_features(finished["tags"], overrides={"items": "words"})
