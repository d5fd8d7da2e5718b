"""Probes of finished runs: a layer that reads the context tells it, with the contexts of others it does not."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from transformers import BertConfig, BertForMaskedLM

from contextual_bert.errors import ConfigurationError, DataError
from contextual_bert.manifest import write_manifest
from contextual_bert.models import ContextualBertForSequenceClassification
from contextual_bert.runs import probing, run
from contextual_bert.runs.probing import LABEL, RunProbes, probe_run
from contextual_bert.runs.run_directory import finished_run
from contextual_bert.testing.heads import miniature_checkpoint
from contextual_bert.testing.miniature import drawn_anew
from contextual_bert.training import Recipe, task_on_texts

SIZES = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 24}
ROWS = 400
COLUMNS = ("text", "words", "tags", "verdict")
USUAL: dict[str, Any] = {"conditioning": "global_state_update", "validation": 0.0, "test": 0.25}
RUNS: dict[str, dict[str, Any]] = {
    "labels": {"task": {"text": "text", "label": "verdict"}, "sensitive": ("secret",)},
    "reads": {"task": {"text": "text", "label": "verdict"}, "exclude": ("secret", "likes", "town", *COLUMNS[1:3])},
    "none": {"task": {"text": "text", "label": "verdict"}, "conditioning": "none"},
    "tags": {"task": {"text": "words", "label": "tags"}},
    "words": {"task": {"text": "text", "label": "verdict"}, "conditioning": "bert_context_as_text"},
    "whole": {"task": {"text": "text", "label": "verdict"}, "test": 0.0},
}


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The verdict is in all words together, the tag in the word itself; who writes is in none."""
    numbers = np.random.default_rng(0)
    words = [[f"word{number}" for number in numbers.integers(0, 18, size=5)] for _ in range(ROWS)]
    columns = {
        "text": [" ".join(row) for row in words],
        "words": words,
        "tags": [["EVEN" if int(word[4:]) % 2 == 0 else "O" for word in row] for row in words],
        "verdict": ["good" if sum(int(word[4:]) for word in row) < 43 else "bad" for row in words],
        "sex": numbers.choice(["f", "m"], size=ROWS).tolist(),
        "secret": numbers.choice(["x", "y"], size=ROWS).tolist(),
        "likes": [[f"like{number}" for number in numbers.integers(0, 3, size=2)] for _ in range(ROWS)],
        "town": [f"town {row % 59}" for row in range(ROWS)],
    }
    path = tmp_path_factory.mktemp("texts") / "texts.parquet"
    pq.write_table(pa.table(columns), path)
    return path


@pytest.fixture(scope="module")
def finished(table: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("runs")
    bert = drawn_anew(BertForMaskedLM(BertConfig(vocab_size=23, max_position_embeddings=40, **SIZES)))
    miniature_checkpoint(bert, folder / "checkpoint")
    for name, fields in RUNS.items():
        task = task_on_texts(checkpoint=str(folder / "checkpoint"), **fields["task"])
        exclude = tuple(column for column in COLUMNS if column not in task.columns)
        recipe = Recipe(
            data=str(table),
            device="cpu",
            field_selection="off",
            min_customers=1,
            training={"max_steps": 1, "per_device_train_batch_size": 16},
            **{**USUAL, "exclude": exclude, **fields, "task": task},
        )
        run(recipe, folder / name, is_quiet=True)
    # Trained enough to read the state of who asks.
    model = ContextualBertForSequenceClassification.from_pretrained(folder / "reads")
    drawn_anew(model).save_pretrained(folder / "reads")
    write_manifest(folder / "reads")
    return {name: folder / name for name in RUNS}


def probed(directory: Path, **settings: Any) -> RunProbes:
    return probe_run(finished_run(directory), overrides={"device": "cpu", **settings.pop("overrides", {})}, **settings)


def test_a_layer_behind_the_state_tells_who_asks_and_the_text_alone_does_not(finished: dict[str, Path]) -> None:
    steps: list[tuple[int, int]] = []
    found = probed(finished["reads"], progress=lambda done, total: steps.append((done, total)))
    curves = {each.target: each for each in found.curves}
    assert [*curves] == [LABEL, "the context's sex"]
    sex = curves["the context's sex"]
    assert sex.shuffled is not None and len(sex.layers) == len(sex.shuffled) == len(sex.weights) == 3
    assert sex.num_classes == 2 and sex.num_train + sex.mixture.num_rows == ROWS
    # What the first layer reads is the text; the state of who asks is read behind its attention.
    assert sex.layers[0].value == sex.shuffled[0].value
    best = max(range(3), key=lambda layer: sex.layers[layer].value)
    assert sex.layers[best].value > 75 and sex.layers[best].low > sex.shuffled[best].high
    assert curves[LABEL].layers[0].value > 65  # the mean of the words tells it
    assert steps[-1][0] == steps[-1][1] and [done for done, _ in steps] == [*range(1, steps[-1][1] + 1)]
    assert not found.notes


def test_what_is_no_single_value_or_nobodys_business_is_left_out_and_named(finished: dict[str, Path]) -> None:
    found = probed(finished["labels"])
    assert [each.target for each in found.curves] == [LABEL, "the context's sex"]
    assert [*found.notes] == [
        "Not probed: secret is sensitive.",
        "Not probed: the context's likes has no single value a row.",
        "Not probed: the context's town has 59 values.",
    ]


def test_a_model_without_a_context_has_no_control(finished: dict[str, Path]) -> None:
    found = probed(finished["none"])
    assert [each.target for each in found.curves] == [LABEL, "the context's sex", "the context's secret"]
    assert all(each.shuffled is None for each in found.curves)
    for each in found.curves[1:]:
        assert max(accuracy.value for accuracy in each.layers) < 70  # nothing of it is in a text


def test_a_tag_is_probed_at_its_word(finished: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    found = probed(finished["tags"])
    label = found.curves[0]
    assert label.target == LABEL and label.num_train == 5 * probing.NUM_TAGGED
    assert label.mixture.num_rows == 5 * label.mixture.num_clusters > 400  # words of a text go together
    assert label.layers[0].value > 80  # the word is what the first layer reads
    monkeypatch.setattr(probing, "NUM_TAGGED", 50)
    assert probed(finished["tags"]).curves[0].num_train == 5 * 50


@pytest.mark.slow
def test_sets_are_probed_for_who_asks(tiny_recipe: Recipe, tmp_path: Path) -> None:
    recipe = replace(tiny_recipe, conditioning="concat", validation=0.0, test=0.3)
    run(recipe, tmp_path / "sets", is_quiet=True)
    found = probed(tmp_path / "sets")
    assert found.curves and all(each.target.startswith("the context's ") for each in found.curves)
    gender = next(each for each in found.curves if each.target == "the context's gender")
    assert gender.mixture.num_clusters <= gender.mixture.num_rows  # customers have several outfits


def test_what_cannot_be_probed_is_refused_by_name(finished: dict[str, Path], table: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="reads a context in words") as refused:
        probed(finished["words"])
    assert refused.value.location == ("probes",)
    with pytest.raises(ConfigurationError, match="held nothing out"):
        probed(finished["whole"])
    other = tmp_path / "other.parquet"
    pq.write_table(pq.read_table(table).slice(0, 100), other)
    with pytest.raises(ConfigurationError, match="is not the table that the run was trained with") as refused:
        probed(finished["labels"], overrides={"data": str(other)})
    assert refused.value.location == ("data",)
    with pytest.raises(DataError):
        probed(finished["labels"], overrides={"data": str(tmp_path / "gone.parquet")})
