"""Runs on hidden words with phrases: from a CSV file, under every method, resumed, evaluated, and what is refused."""

import csv
import json
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pytest
import torch
from transformers import BertConfig, BertForMaskedLM

from contextual_bert.baselines.names import CONTEXT_AS_TEXT
from contextual_bert.conditioning import METHODS
from contextual_bert.data import read_table, write_table
from contextual_bert.errors import ConfigurationError, DataError, UnknownNameError
from contextual_bert.runs import TextModelTask, evaluate_run, inspect_table, prepare, run
from contextual_bert.runs.evaluator import evaluated_recipe
from contextual_bert.runs.run_directory import SCORES_FILE
from contextual_bert.testing.heads import miniature_checkpoint
from contextual_bert.testing.miniature import drawn_anew
from contextual_bert.training import MaskedText, Recipe, task_on_texts

SIZES: dict[str, Any] = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 24}
TRAINING = {"num_train_epochs": 2, "per_device_train_batch_size": 16, "learning_rate": 1e-3}


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bert") / "checkpoint"
    bert = BertForMaskedLM(BertConfig(vocab_size=23, max_position_embeddings=16, **SIZES))
    miniature_checkpoint(drawn_anew(bert), folder)
    return folder


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Each word is followed by its partner: "word2 word3" is a name, wherever it stands."""
    numbers = np.random.default_rng(0)
    path = tmp_path_factory.mktemp("phrases") / "phrases.csv"
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["text", "names", "sex"])
        for row in range(120):
            words, places, length = list[str](), list[list[int]](), 0
            for number in numbers.integers(1, 8, size=numbers.integers(2, 5)).tolist():
                name = f"word{2 * number} word{2 * number + 1}"
                places.append([length, length + len(name)])
                words.append(name)
                length += len(name) + 1
            writer.writerow([" ".join(words), "" if row % 10 == 0 else json.dumps(places), "fm"[row % 2]])
    return path


@pytest.fixture(scope="module")
def recipe(checkpoint: Path, table: Path) -> Recipe:
    task = MaskedText(text="text", phrases="names", checkpoint=str(checkpoint), mask_rate=0.3)
    settings: dict[str, Any] = {"validation": 0.2, "test": 0.2, "training": TRAINING, "device": "cpu"}
    return Recipe(data=str(table), task=task, conditioning="global_state_update", **settings)


@pytest.fixture(scope="module")
def ready(recipe: Recipe) -> TextModelTask:
    return cast(TextModelTask, prepare(recipe))


@pytest.fixture(scope="module")
def finished(recipe: Recipe, ready: TextModelTask, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "names"
    run(recipe, folder, prepared=ready, is_quiet=True)
    return folder


def test_phrases_are_no_context_and_are_counted(ready: TextModelTask) -> None:
    assert ready.processor.schema is not None and ready.processor.schema.names == ("sex",)
    assert any("phrases to mask as a whole" in line for line in ready.lines())


def test_names_are_hidden_whole_in_training_and_tokens_alone_in_evaluation(
    ready: TextModelTask, recipe: Recipe
) -> None:
    dataset = ready.datasets["train"]
    collator: Any = ready._collator(recipe)  # pyright: ignore[reportAttributeAccessIssue]
    rows = dataset.__getitems__(range(len(dataset)))
    hidden = collator(rows)["labels"] >= 0
    goes_on = cast(torch.Tensor, rows.goes_on_phrase)
    assert bool(goes_on.any()) and torch.equal(hidden[:, 1:][goes_on[:, 1:]], hidden[:, :-1][goes_on[:, 1:]])
    plain: Any = prepare(replace(recipe, task=replace(recipe.task, phrases=None), exclude=("names",)))
    for part in ("train", "test"):
        assert torch.equal(plain.datasets[part].input_ids, ready.datasets[part].input_ids)
    assert plain.datasets["train"].goes_on_phrase is None


@pytest.mark.parametrize("unit", ["word", "span"])
def test_words_and_spans_have_phrases_too(ready: TextModelTask, recipe: Recipe, unit: str) -> None:
    other = replace(ready, recipe=replace(recipe, task=replace(recipe.task, masking=unit)))
    rows = ready.datasets["train"].__getitems__(range(40))
    hidden = cast(Any, other)._collator(recipe)(rows)["labels"] >= 0
    goes_on = cast(torch.Tensor, rows.goes_on_phrase)[:, 1:]
    assert torch.equal(hidden[:, 1:][goes_on], hidden[:, :-1][goes_on])


@pytest.mark.parametrize("method", [*sorted(METHODS), CONTEXT_AS_TEXT])
def test_every_method_learns_from_them(ready: TextModelTask, recipe: Recipe, method: str) -> None:
    chosen = replace(recipe, conditioning=method)
    model: Any = ready.build_model(chosen).train()
    dataset: Any = ready.dataset(chosen, "train")
    assert dataset.goes_on_phrase is not None
    batch = cast(Any, ready)._collator(chosen)(dataset.__getitems__(range(16)))
    loss = model(**batch).loss
    loss.backward()
    assert torch.isfinite(loss) and all(
        torch.isfinite(weight.grad).all() for weight in model.parameters() if weight.grad is not None
    )


def metrics_of(evaluation: Any) -> Any:
    return json.loads(evaluation.to_json())["metrics"]


def test_the_recipe_keeps_the_column_and_evaluate_needs_it_not(
    finished: Path, recipe: Recipe, table: Path, tmp_path: Path
) -> None:
    task: Any = Recipe.load(finished).task
    assert (task.kind, task.phrases) == ("masked_text", "names")
    own = json.loads((finished / "metrics.json").read_text())["test"]["metrics"]
    assert metrics_of(evaluate_run(finished)) == own
    read = read_table(table)
    whole = metrics_of(evaluate_run(finished, part="all", source=read))
    write_table(read.drop_columns(["names"]), tmp_path / "without.csv")
    overrides = {"data": str(tmp_path / "without.csv")}
    assert metrics_of(evaluate_run(finished, overrides=overrides, part="all")) == whole
    faulty = read.set_column(1, "names", pa.array(["[[0, 999]]"] * len(read)))
    assert metrics_of(evaluate_run(finished, part="all", source=faulty)) == whole
    assert cast(MaskedText, evaluated_recipe(recipe, {}).task).phrases is None


def test_a_run_is_resumed_with_the_same_masks(
    recipe: Recipe, ready: TextModelTask, finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from contextual_bert.training.objectives import MaskedObjective

    own, calls = MaskedObjective.summarise, list[int]()

    def stops(self: MaskedObjective, prediction: Any) -> dict[str, float]:
        calls.append(1)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return own(self, prediction)

    monkeypatch.setattr(MaskedObjective, "summarise", stops)
    with pytest.raises(KeyboardInterrupt):
        run(recipe, tmp_path / "run", prepared=ready, is_quiet=True)
    monkeypatch.undo()
    run(recipe, tmp_path / "run", prepared=prepare(recipe), is_quiet=True, is_resumed=True)
    first, second = ((each / SCORES_FILE).read_bytes() for each in (finished, tmp_path / "run"))
    assert first == second


@pytest.mark.parametrize(
    ("cell", "message"),
    [
        ("[[0, 5], [4, 9]]", "overlap"),
        ("[[0, 500]]", "leaves its text of"),
        ("[[5, 0]]", "does not end behind its start"),
        ("[[0, 1.5]]", "no pair of whole numbers"),
        ("word1", "no list of phrases"),
    ],
)
def test_a_faulty_phrase_is_named_with_file_row_and_column(
    recipe: Recipe, table: Path, tmp_path: Path, cell: str, message: str
) -> None:
    with table.open(newline="") as file:
        rows = [*csv.reader(file)]
    rows[8][1] = cell  # the eighth row of the table
    with (tmp_path / "faulty.csv").open("w", newline="") as file:
        csv.writer(file).writerows(rows)
    faulty = replace(recipe, data=str(tmp_path / "faulty.csv"))
    with pytest.raises(DataError, match=message) as caught:
        run(faulty, tmp_path / "run", is_quiet=True)
    error = caught.value
    assert (error.file, error.row, error.column) == (str(tmp_path / "faulty.csv"), 7, "names")
    assert error.allowed and error.fix and "line 9" in str(error)
    assert not (tmp_path / "run").exists()
    looked = inspect_table(faulty, has_tokens=False)
    assert [line for line in looked.faults if message in line and "line 9" in line]


def test_inspect_counts_them(recipe: Recipe) -> None:
    assert any("in 108 texts, each hidden as a whole" in line for line in inspect_table(recipe).reading)


def test_columns_and_tasks_that_have_no_phrases(recipe: Recipe, table: Path) -> None:
    with pytest.raises(UnknownNameError, match="no column 'nams'"):
        prepare(replace(recipe, task=replace(recipe.task, phrases="nams")))
    with pytest.raises(ConfigurationError, match="are one column"):
        replace(recipe.task, phrases="text")
    with pytest.raises(ConfigurationError, match="phrases='names' is for hidden tokens, and label='sex' is learned"):
        task_on_texts(text="text", phrases="names", label="sex", checkpoint="bert")
    with pytest.raises(ConfigurationError, match="is for hidden tokens, and objective='causal' is learned"):
        task_on_texts(text="text", phrases="names", objective="causal")
    words = read_table(table)
    words = words.set_column(0, "text", pa.array([each.split() for each in words["text"].to_pylist()]))
    with pytest.raises(DataError, match="column 'text': phrases are places in a text, and this column has lists"):
        prepare(recipe, source=words)
