"""Runs on texts: from a table and a checkpoint to a directory that predicts, for every head and baseline."""

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import BertConfig, BertForSequenceClassification

from contextual_bert import CompletionPipeline, TextPipeline, encode_texts
from contextual_bert.baselines.names import (
    BASELINES,
    BERTLESS_BASELINES,
    CHAINS,
    CONTEXT_AS_TEXT,
    LOGISTIC,
    TAG_BASELINES,
)
from contextual_bert.errors import ConfigurationError, DataError, RunDirectoryError, UnknownNameError
from contextual_bert.models.context_words import FIRST_WORD
from contextual_bert.runs import TextModelTask, as_row, evaluate_run, load_run, prepare, run, study
from contextual_bert.runs.card import about, write_card
from contextual_bert.runs.model_factory import arguments_of
from contextual_bert.runs.run_directory import SCORES_FILE, last_checkpoint, load_scores, trainer_state
from contextual_bert.testing.heads import miniature_checkpoint
from contextual_bert.testing.miniature import drawn_anew
from contextual_bert.training import Classification, Recipe, task_on_texts, training_arguments
from contextual_bert.training.param_groups import own_rates

SIZES = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 24}
TRAINING = {"num_train_epochs": 2, "per_device_train_batch_size": 16, "learning_rate": 1e-3}
NUM_ROWS = 160


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bert") / "checkpoint"
    bert = BertForSequenceClassification(BertConfig(vocab_size=23, num_labels=2, max_position_embeddings=16, **SIZES))
    miniature_checkpoint(drawn_anew(bert), folder)
    return folder


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a text is called depends on who says so; a word is a name if its number is even."""
    numbers = np.random.default_rng(0)
    words = [[f"word{number}" for number in numbers.integers(0, 18, size=size)] for size in numbers.integers(3, 9, 160)]
    sex = numbers.choice(["f", "m"], size=NUM_ROWS).tolist()
    is_first = [int(row[0][4:]) < 9 for row in words]
    verdict = ["good" if first == (who == "f") else "bad" for first, who in zip(is_first, sex, strict=True)]
    tags = [["B-EVEN" if int(word[4:]) % 2 == 0 else "O" for word in row] for row in words]
    columns = {
        "text": [" ".join(row) for row in words],
        "words": words,
        "tags": tags,
        "sex": sex,
        "verdict": verdict,
        "stars": [1 + 2 * (each == "good") for each in verdict],
        "price": [0.5] * NUM_ROWS,
        "writer": [f"writer {number % 40}" for number in range(NUM_ROWS)],
    }
    path = tmp_path_factory.mktemp("texts") / "texts.parquet"
    pq.write_table(pa.table(columns), path)
    return path


HEADS: dict[str, dict[str, Any]] = {
    "classification": {"text": "text", "label": "verdict"},
    "tags": {"text": "words", "label": "tags"},
    "masked_lm": {"text": "text"},
}


@pytest.fixture(scope="module")
def prepared(checkpoint: Path, table: Path) -> dict[str, TextModelTask]:
    columns = ("text", "words", "tags", "verdict", "stars", "price")
    found: dict[str, TextModelTask] = {}
    for head, task in HEADS.items():
        texts = task_on_texts(checkpoint=str(checkpoint), **task)
        exclude = tuple(name for name in columns if name not in task.values())
        recipe = Recipe(
            data=str(table),
            task=texts,
            customer="writer",
            exclude=exclude,
            validation=0.2,
            test=0.2,
            training=TRAINING,
            device="cpu",
        )
        found[head] = prepare(recipe)
    return found


@pytest.fixture(scope="module")
def finished(prepared: dict[str, TextModelTask], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("runs")
    for head, ready in prepared.items():
        run(replace(ready.recipe, conditioning="global_state_update"), folder / head, prepared=ready, is_quiet=True)
    return {head: folder / head for head in prepared}


def metrics_of(directory: Path) -> dict[str, Any]:
    return json.loads((directory / "metrics.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("head", HEADS)
def test_the_head_follows_from_the_table(prepared: dict[str, TextModelTask], head: str) -> None:
    ready = prepared[head]
    assert ready.head == {"tags": "tagging", "masked_lm": "masked_text"}.get(head, head)
    assert ready.processor.schema is not None
    assert ready.processor.schema.names == ("sex",)
    writers = [set(ready.customers(part)) for part in ("train", "validation", "test")]  # pyright: ignore[reportArgumentType]
    assert all(writers)
    assert not writers[0] & writers[2]


def test_training_says_what_leaks(prepared: dict[str, TextModelTask], table: Path) -> None:
    """As inspect does: a column that tells the label, a text and a writer that are in two parts."""
    recipe, read = prepared["classification"].recipe, pq.read_table(table)
    assert "no leak found" in prepared["classification"].lines()
    told = read.append_column("told", read["verdict"])
    twice = pa.concat_tables([told, told])
    ready = prepare(replace(recipe, schema=None, split_by="row"), source=twice)
    assert ready.processor.schema is not None
    assert ready.processor.schema.names == ("sex",)
    lines = ready.lines()
    leaks = [line for line in lines if line.startswith("leak: ")]
    assert len(leaks) == 4
    assert sum("word for word" in line for line in leaks) == 2
    assert any("of 40 customers (column 'writer') are in more than one part" in line for line in leaks)
    assert any("the column 'told' tells the label" in line for line in leaks)
    assert any(line.startswith("left out of the context as leaks: 'told'") for line in lines)


def test_a_text_that_several_people_read_is_its_own_customer(prepared: dict[str, TextModelTask]) -> None:
    recipe = prepared["classification"].recipe
    ready = replace(prepared["classification"], recipe=replace(recipe, customer="text"))
    assert (ready.settings.set_name, ready.settings.cluster_name) == ("text", "distinct text")


@pytest.mark.parametrize("conditioning", ["none", "global_state_update", "multi_attribute", CONTEXT_AS_TEXT])
def test_labels_and_tags_have_rates_of_their_own(
    conditioning: str, prepared: dict[str, TextModelTask], tmp_path: Path
) -> None:
    def defaults(head: str, **settings: Any) -> tuple[float, float | None]:
        ready = prepared[head]
        recipe = replace(ready.recipe, **{"training": {}, "conditioning": conditioning, **settings})
        found = ready.default_training(recipe)
        return found["learning_rate"], found.get("new_weights_learning_rate")

    is_measured = conditioning in ("none", "global_state_update")
    assert defaults("classification") == ((5e-5, 1e-3) if is_measured else (1e-4, None))
    assert defaults("classification", training={"learning_rate": 2e-5}) == (1e-4, None)  # and what is given counts
    assert defaults("classification", trained_weights="lora") == (1e-4, None)
    assert defaults("tags") == (3e-4, 1e-3)
    assert defaults("tags", training={"learning_rate": 2e-5}) == (1e-4, None)
    assert defaults("tags", conditioning="bilstm_crf") == (1e-3, None)
    for head in ("tags", "classification") if is_measured else ("tags",):
        ready = prepared[head]
        recipe = replace(ready.recipe, training={}, conditioning=conditioning)
        arguments = arguments_of(recipe, tmp_path, has_validation=True, defaults=ready.default_training(recipe))
        model = ready.build_model(recipe)
        rates = own_rates(model, arguments)
        found = {name: rates[id(weight)] for name, weight in model.named_parameters() if name.startswith("classifier.")}
        assert found == {"classifier.weight": 1e-3, "classifier.bias": 1e-3}


@pytest.mark.usefixtures("cells_of_one")
def test_new_customers_are_told_apart_when_a_run_is_evaluated_again(
    prepared: dict[str, TextModelTask], tmp_path: Path
) -> None:
    """Of a split by row, where some writers are in training and some are not."""
    recipe = replace(prepared["classification"].recipe, split_by="row", test=0.3, conditioning="none")
    run(recipe, tmp_path / "run", is_quiet=True)
    segments = metrics_of(tmp_path / "run")["test"]["segments"]
    assert {each["value"] for each in segments if each["feature"] == "customer in training"} == {"yes", "no (cold)"}
    again = evaluate_run(tmp_path / "run").report
    assert json.loads(again.to_json())["segments"] == segments
    everything = evaluate_run(tmp_path / "run", part="all").report
    assert not any(each.feature == "customer in training" for each in everything.segments)


@pytest.mark.parametrize("is_from_scratch", [False, True])
@pytest.mark.parametrize("head", HEADS)
def test_a_model_is_built_with_the_attention_chosen(
    prepared: dict[str, TextModelTask], head: str, is_from_scratch: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    ready = prepared[head]
    recipe = replace(ready.recipe, device="cpu", task=replace(ready.recipe.text_task, is_from_scratch=is_from_scratch))
    work = replace(ready, recipe=recipe)
    for attention in ("eager", "sdpa"):
        monkeypatch.setattr("contextual_bert.runs.tasks.text.attention_for", lambda *_, chosen=attention: chosen)
        model: Any = work.build_model(recipe)
        assert model.config._attn_implementation == attention


@pytest.mark.parametrize("head", HEADS)
def test_a_run_is_evaluated_again_to_the_same_digits(finished: dict[str, Path], head: str) -> None:
    metrics = metrics_of(finished[head])
    again = evaluate_run(finished[head])
    assert json.loads(again.report.to_json())["metrics"] == metrics["test"]["metrics"]
    validation = evaluate_run(finished[head], part="validation")
    assert json.loads(validation.report.to_json())["metrics"] == metrics["validation"]["metrics"]


@pytest.mark.parametrize(
    ("head", "own"),
    [
        *((head, {}) for head in HEADS),
        ("classification", {"trained_weights": "lora"}),
        ("classification", {"conditioning": "bert_concat_text"}),
        ("tags", {"conditioning": "bilstm_context"}),
    ],
)
def test_what_was_trained_in_bfloat16_is_scored_as_it_is_loaded(
    prepared: dict[str, TextModelTask],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    head: str,
    own: dict[str, Any],
) -> None:
    """In the precision of its weights, and not in that of the training."""
    ready = prepared[head]
    recipe = replace(ready.recipe, **{"conditioning": "global_state_update", "dtype": "bfloat16", **own})
    scored: list[bool] = []
    linear = torch.nn.functional.linear

    def watched(*args: Any) -> torch.Tensor:
        if not torch.is_grad_enabled():
            scored.append(linear(*args).dtype == torch.float32)
        return linear(*args)

    score = TextModelTask.score

    def watching(self: TextModelTask, *args: Any, **kwargs: Any) -> Any:
        with monkeypatch.context() as patch:
            patch.setattr(torch.nn.functional, "linear", watched)
            return score(self, *args, **kwargs)

    monkeypatch.setattr(TextModelTask, "score", watching)
    run(recipe, tmp_path / "run", prepared=ready, is_quiet=True)
    assert scored and all(scored)
    if own.get("conditioning") != "bert_concat_text":  # of which no weights are kept
        again = evaluate_run(tmp_path / "run").report
        assert json.loads(again.to_json())["metrics"] == metrics_of(tmp_path / "run")["test"]["metrics"]


def test_weights_that_are_replaced_in_their_place_are_others(
    prepared: dict[str, TextModelTask], checkpoint: Path, tmp_path: Path
) -> None:
    ready, folder = prepared["classification"], shutil.copytree(checkpoint, tmp_path / "start" / "bert")
    recipe = replace(ready.recipe, task=replace(ready.recipe.text_task, checkpoint=str(folder)), conditioning="none")
    run(recipe, tmp_path / "run", is_quiet=True)
    resolved = json.loads((tmp_path / "run" / "recipe.json").read_text())["resolved"]
    digests = prepare(recipe).digests
    assert digests.items() <= resolved.items()
    weights = load_file(folder / "model.safetensors")
    save_file({name: 2 * weight for name, weight in weights.items()}, folder / "model.safetensors")
    now = prepare(recipe).digests
    assert {name for name, digest in now.items() if digest != digests[name]} == {"checkpoint_digest"}
    unread = replace(recipe, task=replace(ready.recipe.text_task, checkpoint=str(folder), is_from_scratch=True))
    assert "checkpoint_digest" not in prepare(unread).digests


def test_accuracy_is_that_of_the_pipeline(finished: dict[str, Path], prepared: dict[str, TextModelTask]) -> None:
    ready, directory = prepared["classification"], finished["classification"]
    rows = ready.split.rows("test")
    test = ready.examples.table.take(pa.array(rows)).to_pylist()
    queries = [{"text": row["text"], "context": {"sex": row["sex"]}} for row in test]
    answers: Any = TextPipeline.from_pretrained(directory)(queries)
    accuracy = 100 * np.mean([answer["label"] == row["verdict"] for answer, row in zip(answers, test, strict=True)])
    assert metrics_of(directory)["test"]["metrics"]["recall_at_1_percent"]["value"] == pytest.approx(accuracy)
    labels: Any = load_scores(directory / SCORES_FILE)[0].predictions
    assert [labels.names[number] for number in labels.predicted] == [answer["label"] for answer in answers]
    assert labels.example_id.tolist() == rows.tolist()
    evaluated = evaluate_run(directory).report
    assert evaluated.metrics["accuracy_percent"].value == pytest.approx(accuracy)


def test_tags_are_scored_once_a_word(finished: dict[str, Path], prepared: dict[str, TextModelTask]) -> None:
    ready = prepared["tags"]
    test = ready.examples.table.take(pa.array(ready.split.rows("test"))).column("tags").to_pylist()
    labels: Any = load_scores(finished["tags"] / SCORES_FILE)[0].predictions
    assert [labels.names[number] for number in labels.true] == [tag for tags in test for tag in tags]


@pytest.mark.parametrize(
    ("head", "metric", "best"), [("tags", "eval_recall_at_1_percent", max), ("masked_lm", "eval_loss", min)]
)
def test_the_best_epoch_of_tags_has_most_of_them_right(
    finished: dict[str, Path], head: str, metric: str, best: Callable[[list[float]], float]
) -> None:
    state = trainer_state(last_checkpoint(finished[head]) or finished[head])
    assert state["best_metric"] == best([each[metric] for each in state["log_history"] if metric in each])


def test_a_missing_customer_is_no_customer_of_its_own(
    finished: dict[str, Path], prepared: dict[str, TextModelTask]
) -> None:
    ready = prepared["classification"]
    writers = ready.examples.table.column("writer").to_pylist()
    row = int(ready.split.rows("test")[3])
    writers[row] = None
    column = ready.examples.table.column_names.index("writer")
    table = ready.examples.table.set_column(column, "writer", pa.array(writers))
    with pytest.raises(DataError, match=r"row .*, column 'writer': the cell is missing"):
        evaluate_run(finished["classification"], source=table)


def test_every_token_is_hidden_once_and_no_special_one(
    finished: dict[str, Path], prepared: dict[str, TextModelTask]
) -> None:
    ready = prepared["masked_lm"]
    texts = ready.examples.table.take(pa.array(ready.split.rows("test"))).column("text").to_pylist()
    scores = load_run(finished["masked_lm"], name="x").scores
    assert len(scores) == sum(len(text.split()) for text in texts)
    assert scores.position.min() == 1
    assert (scores.num_better + scores.num_tied).max() <= ready.num_choices == 18


@pytest.mark.parametrize("name", ["bert_concat_text", "bert_concat_word"])
def test_what_is_only_compared_with_trains_and_keeps_no_weights(
    prepared: dict[str, TextModelTask], tmp_path: Path, name: str
) -> None:
    ready = prepared["classification"]
    report = run(replace(ready.recipe, conditioning=name), tmp_path / "run", prepared=ready, is_quiet=True)
    assert report is not None
    assert report.num_rows == len(ready.split.rows("test"))
    assert "recall_at_1_percent" in report.metrics
    assert not (tmp_path / "run" / "model.safetensors").exists()
    with pytest.raises(
        RunDirectoryError, match=r"is the run of a baseline, of which scores and metrics are kept and no model"
    ):
        TextPipeline.from_pretrained(tmp_path / "run")
    with pytest.raises(RunDirectoryError, match=f"a run of the baseline '{name}'"):
        evaluate_run(tmp_path / "run")


@pytest.mark.parametrize("name", [*LOGISTIC])
def test_logistic_regressions_run_on_a_table_of_ones_own(
    prepared: dict[str, TextModelTask], tmp_path: Path, name: str
) -> None:
    ready = prepared["classification"]
    report = run(as_row(ready.recipe, name), tmp_path / "run", prepared=ready, is_quiet=True)
    assert report is not None
    bar = run(as_row(ready.recipe, "popularity"), tmp_path / "bar", prepared=ready, is_quiet=True)
    assert bar is not None
    assert report.num_rows == bar.num_rows == len(ready.datasets["test"])
    assert report.metrics["cross_entropy_nats"].value < bar.metrics["cross_entropy_nats"].value + 0.1
    chosen = json.loads((tmp_path / "run" / "recipe.json").read_text())["resolved"]["training"]
    assert chosen["inverse_strength"] > 0
    assert not (tmp_path / "run" / "model.safetensors").exists()


def test_a_label_that_training_lacks_is_improbable_and_not_impossible(checkpoint: Path, tmp_path: Path) -> None:
    part = ["train"] * 8 + ["validation"] * 4 + ["test"] * 4
    texts, labels = ["good coat", "bad coat"] * 8, ["good", "bad"] * 7 + ["odd", "bad"]
    path = tmp_path / "reviews.parquet"
    pq.write_table(pa.table({"text": texts, "label": labels, "part": part}), path)
    task = Classification(checkpoint=str(checkpoint), text="text", label="label")
    recipe = Recipe(data=str(path), task=task, split_column="part", conditioning="tfidf")
    ready = prepare(recipe)
    report = run(ready.recipe, tmp_path / "run", prepared=ready, is_quiet=True)
    assert report is not None
    assert report.metrics["cross_entropy_nats"].value < 10


OF_TEXTS = [("classification", name) for name in (*BERTLESS_BASELINES, CONTEXT_AS_TEXT) if name not in CHAINS]
OF_WORDS = [("tags", name) for name in (*TAG_BASELINES, CONTEXT_AS_TEXT)]


@pytest.mark.parametrize(("head", "name"), [*OF_TEXTS, *OF_WORDS])
def test_a_baseline_predicts_what_it_was_scored_with(
    prepared: dict[str, TextModelTask], tmp_path: Path, head: str, name: str
) -> None:
    ready, folder = prepared[head], tmp_path / "run"
    report = run(as_row(ready.recipe, name), folder, prepared=ready, is_quiet=True)
    assert report is not None
    labels: Any = load_scores(folder / SCORES_FILE)[0].predictions
    assert evaluate_run(folder).report.metrics["cross_entropy_nats"] == report.metrics["cross_entropy_nats"]
    rows = pa.array(ready.split.rows("test"))
    pipeline = TextPipeline.from_pretrained(folder)
    found = pipeline.label_table(ready.examples.table.take(rows), text=ready.recipe.text_task.text, batch_size=7).table
    predicted = found.column("predicted_label").combine_chunks()
    flat = predicted.flatten() if head == "tags" else predicted
    assert flat.to_pylist() == [labels.names[number] for number in labels.predicted.tolist()]
    # The probability of what is predicted is that of the scores, wherever it is the likeliest label.
    likeliest = load_run(folder, name=name).scores.confidence
    shares = found.column("probability").combine_chunks()
    given = (shares.flatten() if head == "tags" else shares).to_numpy(zero_copy_only=False)
    is_best = np.isclose(given, likeliest, atol=1e-6)
    assert is_best.all() if "_crf" not in name else is_best.mean() > 0.9 and (given <= likeliest + 1e-6).all()
    others = {row["sex"]: pipeline({**QUERY[head], "context": row})["label"] for row in ({"sex": "f"}, {"sex": "m"})}
    assert pipeline.model.config.reads_context == ("context" in BASELINES[name])
    assert all(others.values())


QUERY: dict[str, dict[str, Any]] = {"classification": {"text": "word1 word2"}, "tags": {"text": ["word1", "word2"]}}


def test_a_baseline_of_grades_and_what_is_damaged_of_it(prepared: dict[str, TextModelTask], tmp_path: Path) -> None:
    own = prepared["classification"].recipe
    task = replace(own.text_task, label="stars", is_ordinal=True)
    exclude = ("words", "tags", "verdict", "price")
    recipe = replace(own, task=task, exclude=exclude, schema=None, conditioning="cnn_context", training=TRAINING)
    ready, folder = prepare(recipe), tmp_path / "run"
    run(replace(recipe, training={**TRAINING, "context_dropout": 0.2}), folder, prepared=ready, is_quiet=True)
    answer = cast(Any, TextPipeline.from_pretrained(folder)({"text": "word1", "context": {"sex": "f"}, "guidance": 2}))
    assert set(answer["probabilities"]) == {"1", "3"}
    assert sum(answer["probabilities"].values()) == pytest.approx(1)
    assert answer["notes"] == []  # with context_dropout it has learned what it says of nobody
    assert "TextPipeline" in (folder / "README.md").read_text("utf-8")
    assert "starts from" not in (folder / "README.md").read_text("utf-8")
    with pytest.raises(RunDirectoryError, match=r"holds TextBaseline.*TextPipeline, or contextual-bert predict"):
        CompletionPipeline.from_pretrained(folder)
    other = tmp_path / "other.parquet"
    pq.write_table(pq.read_table(own.data).drop(["stars"]).rename_columns({"tags": "stars"}), other)
    with pytest.raises(DataError, match=r"these are tags of words, and .* learned labels of texts"):
        evaluate_run(folder, overrides={"data": str(other)})
    older = tmp_path / "older"
    shutil.copytree(folder, older)
    (older / "baseline.json").unlink()  # weights of baselines were not kept
    with pytest.raises(RunDirectoryError, match="of which scores and metrics are kept and no weights"):
        evaluate_run(older)
    for name, content in (("baseline.json", "{}"), ("baseline.json", "["), ("model.safetensors", "")):
        damaged = tmp_path / "damaged"
        shutil.rmtree(damaged, ignore_errors=True)
        shutil.copytree(folder, damaged)
        (damaged / name).write_text(content)
        with pytest.raises(RunDirectoryError, match=r"cannot be loaded: .*rain again"):
            TextPipeline.from_pretrained(damaged)


@pytest.mark.parametrize("head", ["tags", "masked_lm"])
def test_a_context_as_text_is_neither_asked_for_nor_counted(
    prepared: dict[str, TextModelTask], finished: dict[str, Path], tmp_path: Path, head: str
) -> None:
    ready = prepared[head]
    recipe = replace(ready.recipe, conditioning=CONTEXT_AS_TEXT)
    report = run(recipe, tmp_path / "run", prepared=ready, is_quiet=True)
    assert report is not None
    assert evaluate_run(tmp_path / "run").report.metrics == pytest.approx(report.metrics)
    own, other = (load_run(folder, name="x").scores for folder in (tmp_path / "run", finished[head]))
    np.testing.assert_array_equal(own.example_id, other.example_id)
    np.testing.assert_array_equal(own.position, other.position)


def in_words(ready: TextModelTask, first: str, second: str) -> TextModelTask:
    """The same texts, with the sexes as words that the tokenizer knows."""
    sexes = [first if sex == "f" else second for sex in ready.examples.table.column("sex").to_pylist()]
    table = ready.examples.table.set_column(ready.examples.table.column_names.index("sex"), "sex", [sexes])
    recipe = replace(ready.recipe, schema=None, conditioning=CONTEXT_AS_TEXT)
    return prepare(recipe, source=table)


def test_a_context_as_text_is_that_of_its_row_or_of_another(prepared: dict[str, TextModelTask]) -> None:
    ready = in_words(prepared["classification"], "word1", "word2")
    work, tokenizer = ready, ready.processor.tokenizer
    own, dealt = (
        cast(Any, work.dataset(replace(ready.recipe, is_context_shuffled=is_shuffled), "test"))
        for is_shuffled in (False, True)
    )
    rows = torch.arange(len(own))
    said, shuffled = (each.__getitems__(rows).inputs()["context"]["sex"] - FIRST_WORD for each in (own, dealt))
    true = ready.examples.table.take(pa.array(ready.split.rows("test"))).column("sex").to_pylist()
    assert [tokenizer.decode(row) for row in said] == [f"[UNK] [UNK] {sex} [UNK]" for sex in true]
    assert not torch.equal(said, shuffled)
    assert torch.equal(said.sort(dim=0).values, shuffled.sort(dim=0).values)


def test_a_context_as_text_that_does_not_fit_is_refused(prepared: dict[str, TextModelTask]) -> None:
    """16 positions, and texts of up to 10 tokens: four words too many."""
    ready = in_words(prepared["classification"], "word1 word2 word3 word4 word5", "word1")
    with pytest.raises(ConfigurationError, match=r"as text the context of the train part has up to 9 tokens.*max_len"):
        ready.build_model(ready.recipe)


def test_texts_longer_than_the_positions_of_a_new_model_are_refused(prepared: dict[str, TextModelTask]) -> None:
    recipe = prepared["classification"].recipe
    scratch = replace(
        recipe, task=replace(recipe.text_task, is_from_scratch=True), model={"max_position_embeddings": 6}
    )
    ready = prepare(replace(scratch, schema=None))
    with pytest.raises(
        ConfigurationError, match=r"max_position_embeddings=6 is too few: a text has 10 tokens.*max_length"
    ):
        ready.build_model(ready.recipe)


@pytest.mark.parametrize(("head", "name"), [("tags", "cnn"), ("masked_lm", "ngrams"), ("classification", "bag")])
def test_a_baseline_that_cannot_do_it_says_so(prepared: dict[str, TextModelTask], head: str, name: str) -> None:
    ready = prepared[head]
    with pytest.raises(UnknownNameError, match=f"'{name}' is no baseline for "):
        replace(ready.recipe, conditioning=name)


@pytest.fixture
def sentence_checkpoint(checkpoint: Path, tmp_path: Path) -> Path:
    """The checkpoint as sentence-transformers would save it."""
    folder = tmp_path / "sentences"
    shutil.copytree(checkpoint, folder)
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling" / "config.json").write_text('{"pooling_mode_mean_tokens": true}', encoding="utf-8")
    return folder


def test_values_that_training_never_shows_are_pointed_out(
    prepared: dict[str, TextModelTask], table: Path, tmp_path: Path
) -> None:
    own = prepared["classification"]
    sex = np.array(own.examples.table.column("sex").to_pylist(), dtype=object)
    sex[own.split.rows("test")[0]] = "x"
    path, columns = tmp_path / "texts.parquet", pq.read_table(table)
    pq.write_table(columns.set_column(columns.column_names.index("sex"), "sex", pa.array(sex)), path)
    lines = prepare(replace(own.recipe, data=str(path))).lines()
    assert any("test: context 'sex': 1 row has values never seen in training" in line for line in lines)
    assert any(line.startswith("context 'sex': ") and "is not learned. Set field_dropout=0.1" in line for line in lines)
    assert not any("is not learned" in line for line in own.lines())


def started_from(ready: TextModelTask, checkpoint: Path, model: dict[str, Any]) -> TextModelTask:
    texts = replace(ready.recipe.text_task, checkpoint=str(checkpoint))
    return replace(ready, recipe=replace(ready.recipe, task=texts, conditioning="global_state_update", model=model))


def test_a_label_is_read_as_the_checkpoint_was_trained(
    prepared: dict[str, TextModelTask], sentence_checkpoint: Path, tmp_path: Path
) -> None:
    ready, output = started_from(prepared["classification"], sentence_checkpoint, {}), tmp_path / "run"
    assert "labels are read from the mean over their texts (classifier_pooling='mean')" in ready.lines()
    run(ready.recipe, output, prepared=ready, is_quiet=True)
    shutil.rmtree(sentence_checkpoint)
    again = evaluate_run(output)
    assert json.loads(again.report.to_json())["metrics"] == metrics_of(output)["test"]["metrics"]
    assert TextPipeline.from_pretrained(output).model.config.classifier_pooling == "mean"


def test_what_a_label_is_read_from_can_be_said(
    prepared: dict[str, TextModelTask], checkpoint: Path, sentence_checkpoint: Path
) -> None:
    mean, first = {"classifier_pooling": "mean"}, {"classifier_pooling": "cls"}
    for folder, model, expected in (
        (checkpoint, {}, "cls"),
        (checkpoint, mean, "mean"),
        (sentence_checkpoint, first, "cls"),
    ):
        ready = started_from(prepared["classification"], folder, model)
        built: Any = ready.build_model(ready.recipe)
        assert built.config.classifier_pooling == ready.pooling == expected
        assert any("classifier_pooling" in line for line in ready.lines()) == (expected == "mean")
    (sentence_checkpoint / "1_Pooling" / "config.json").write_text("{", encoding="utf-8")
    assert started_from(prepared["classification"], sentence_checkpoint, first).pooling == "cls"  # not looked at
    for head in ("tags", "masked_lm"):
        ready = started_from(prepared[head], checkpoint, mean)
        with pytest.raises(ConfigurationError, match=r"classifier_pooling.*Leave it out"):
            ready.build_model(ready.recipe)


def test_new_weights_alone_are_trained(prepared: dict[str, TextModelTask], checkpoint: Path, tmp_path: Path) -> None:
    ready = prepared["classification"]
    recipe = replace(ready.recipe, conditioning="multi_attribute", trained_weights="new")
    run(recipe, tmp_path / "run", prepared=ready, is_quiet=True)
    old, new = load_file(checkpoint / "model.safetensors"), load_file(tmp_path / "run" / "model.safetensors")
    shared = [name for name in old if ".layer." in name]
    assert len(shared) == 2 * 16
    assert all(torch.equal(old[name], new[name]) for name in shared)


def test_a_shuffled_context_is_that_of_others(prepared: dict[str, TextModelTask]) -> None:
    for head in ("classification", "masked_lm"):
        ready = prepared[head]
        recipe = replace(ready.recipe, is_context_shuffled=True)
        own: Any = ready.datasets["train"]
        dealt: Any = ready.dataset(recipe, "train")
        rows = torch.arange(len(own))
        true = own.context["sex"]
        first = context_of(dealt.__getitems__(rows).inputs())
        dealt.set_epoch(1)
        second = context_of(dealt.__getitems__(rows).inputs())
        assert sorted(first.tolist()) == sorted(true.tolist())
        assert not torch.equal(first, true)
        assert not torch.equal(first, second)
        assert torch.equal(dealt.context["sex"], true), "segments name the true values"


def context_of(batch: Any) -> torch.Tensor:
    return batch["context"]["sex"] if isinstance(batch, dict) else batch.context["sex"]


def test_a_study_of_texts_has_labels_and_no_paper(prepared: dict[str, TextModelTask], tmp_path: Path) -> None:
    ready = prepared["classification"]
    recipes = [as_row(ready.recipe, name) for name in ("none", "context_popularity")]
    found = study("Verdicts", recipes, tmp_path, prepared=ready, say=lambda _: None)
    assert [row.name for row in found.comparison.rows] == ["none", "context_popularity"]
    rows = {row.name: row.metrics for row in found.comparison.rows}
    ranked = {row.name: row.metrics["recall_at_1_percent"].mean for row in found.comparison.rows}
    assert {name: metrics["accuracy_percent"].mean for name, metrics in rows.items()} == pytest.approx(ranked)
    page = found.to_markdown()
    assert "Beside the paper" not in page
    assert "labels of" in page
    assert "writers" in page


def test_grades_are_ordered(prepared: dict[str, TextModelTask], checkpoint: Path, tmp_path: Path) -> None:
    base = prepared["classification"].recipe
    texts = Classification(checkpoint=str(checkpoint), label="stars", is_ordinal=True)
    recipe = replace(base, task=texts, exclude=("words", "tags", "verdict", "price"), schema=None)
    ready = prepare(recipe)
    assert ready.labels == ("1", "3")
    run(recipe, tmp_path / "run", prepared=ready, is_quiet=True)
    assert "classifier.thresholds" in load_file(tmp_path / "run" / "model.safetensors")
    metrics = evaluate_run(tmp_path / "run").report.metrics
    wrong = 1 - metrics["accuracy_percent"].value / 100
    assert metrics["root_mean_squared_error"].value == pytest.approx(2 * wrong**0.5)


@pytest.mark.parametrize("name", ["ngrams_context", "bert_concat_word"])
def test_a_baseline_orders_grades_as_the_models_do(
    prepared: dict[str, TextModelTask], checkpoint: Path, name: str
) -> None:
    texts = Classification(checkpoint=str(checkpoint), label="stars", is_ordinal=True)
    recipe = replace(prepared["classification"].recipe, task=texts, exclude=("words", "tags", "verdict", "price"))
    ready = prepare(replace(recipe, schema=None, conditioning=name))
    model: Any = ready.build_model(ready.recipe)
    assert [each for each, _ in model.named_parameters() if "thresholds" in each] == ["head.output.thresholds"]
    inputs: Any = ready.datasets["test"].__getitems__(torch.arange(3)).inputs()
    outputs = model(**inputs)
    torch.testing.assert_close(outputs["logits"].exp().sum(dim=-1), torch.ones(3))
    outputs["loss"].backward()
    assert model.head.output.thresholds.grad.abs().sum() > 0


@pytest.mark.parametrize(
    ("name", "task"),
    [
        ("none", {"is_from_scratch": True}),
        ("global_state_update", {"label": "stars", "is_ordinal": True}),
        ("global_state_update", {}),
        ("ngrams_context", {}),
        ("bert_concat_text", {"label": "stars", "is_ordinal": True}),
    ],
)
def test_a_new_head_starts_at_the_shares_of_training(
    prepared: dict[str, TextModelTask], checkpoint: Path, name: str, task: dict[str, Any]
) -> None:
    """A head that the checkpoint has for as many labels is kept."""
    texts = task_on_texts(checkpoint=str(checkpoint), **{"label": "verdict", **task})
    exclude = ("words", "tags", "verdict", "stars", "price")
    recipe = replace(prepared["classification"].recipe, task=texts, schema=None, conditioning=name)
    ready = prepare(replace(recipe, exclude=tuple(each for each in exclude if each != texts.label)))
    model: Any = ready.build_model(ready.recipe)
    column = ready.examples.table.column(str(texts.label)).take(pa.array(ready.split.rows("train"))).to_pylist()
    counts = torch.tensor([float(sum(str(each) == label for each in column)) for label in ready.labels])
    inputs: Any = ready.datasets["test"].__getitems__(torch.arange(3)).inputs()
    found = model.eval()(**inputs)["logits"].softmax(dim=-1)
    is_at_shares = torch.allclose(found, (counts + 0.5) / (counts + 0.5).sum(), atol=1e-5)
    assert is_at_shares == ((name, task) != ("global_state_update", {}))


@pytest.mark.parametrize("pooling", ["cls", "mean"])
@pytest.mark.parametrize("name", ["bert_concat_text", "bert_concat_word"])
def test_a_label_on_a_frozen_bert_is_read_where_the_methods_read_it(
    prepared: dict[str, TextModelTask], name: str, pooling: str
) -> None:
    recipe = replace(prepared["classification"].recipe, conditioning=name, model={"classifier_pooling": pooling})
    ready = prepare(recipe)
    model: Any = ready.build_model(ready.recipe).eval()
    inputs: Any = ready.datasets["test"].__getitems__(torch.arange(3)).inputs()
    ids, mask = inputs["input_ids"], inputs["attention_mask"]
    last = model.features.module.model if name == "bert_concat_text" else model.encoder
    hidden: list[Any] = []
    read: list[torch.Tensor] = []
    last.register_forward_hook(lambda _module, _inputs, output: hidden.append(output))
    model.head.register_forward_pre_hook(lambda _module, inputs: read.append(inputs[0]))
    model(**inputs)
    states = getattr(hidden[0], "last_hidden_state", hidden[0])
    weights = mask.float() if pooling == "mean" else (torch.arange(ids.shape[1]) == 0).expand_as(mask).float()
    expected = torch.einsum("bl,blh->bh", weights / weights.sum(dim=1, keepdim=True), states)
    torch.testing.assert_close(read[0], expected)


def test_grades_written_as_text_are_ordered_as_numbers(checkpoint: Path) -> None:
    table = pa.table({"text": ["so it goes"] * 40, "stars": ["10", "9", "8", "10"] * 10})
    texts = Classification(checkpoint=str(checkpoint), label="stars", is_ordinal=True)
    recipe = Recipe(data="t.csv", task=texts, conditioning="none")
    assert prepare(recipe, source=table).labels == ("8", "9", "10")


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        ({"label": "price"}, DataError, "only the label \\['0.5'\\] occurs"),
        ({"label": "verdict", "is_ordinal": True}, DataError, "are no numbers, and as grades of one scale they need"),
        ({"text": "words", "label": "tags", "is_ordinal": True}, DataError, "tags of words, and no grades"),
        ({"label": "verdcit"}, UnknownNameError, "Did you mean 'verdict'"),
        ({"text": "stars", "label": "verdict"}, DataError, "Give a column of text"),
        ({"text": "text", "label": "tags"}, DataError, "Tags need a text column of lists of words"),
    ],
)
def test_a_faulty_table_is_named(
    prepared: dict[str, TextModelTask], checkpoint: Path, change: dict[str, Any], error: type[Exception], words: str
) -> None:
    base = prepared["classification"].recipe
    with pytest.raises(error, match=words):
        prepare(replace(base, task=task_on_texts(checkpoint=str(checkpoint), **change), schema=None, exclude=()))


def test_decimals_are_labels(checkpoint: Path) -> None:
    table = pa.table({"text": ["word1", "word2"] * 20, "price": [Decimal("1.00"), Decimal("2.50")] * 20})
    recipe = Recipe(data="t.csv", task=Classification(checkpoint=str(checkpoint), label="price"), conditioning="none")
    assert prepare(recipe, source=table).labels == ("1", "2.5")


def test_several_labels_a_text_are_no_tags(checkpoint: Path) -> None:
    table = pa.table({"text": ["word1", "word2"] * 20, "topics": [[1, 0], [0, 1]] * 20})
    recipe = Recipe(data="t.csv", task=Classification(checkpoint=str(checkpoint), label="topics"))
    with pytest.raises(DataError, match=r"column 'topics'.*several labels a text need is_multi_label=True"):
        prepare(recipe, source=table)


def test_a_label_that_the_run_does_not_know_is_named_by_its_row(finished: dict[str, Path], table: Path) -> None:
    other = pq.read_table(table)
    verdicts = other.column("verdict").to_pylist()
    verdicts[7] = "so-so"
    other = other.set_column(other.column_names.index("verdict"), "verdict", pa.array(verdicts))
    with pytest.raises(DataError, match=r"row 8, column 'verdict': the label 'so-so' is not among"):
        evaluate_run(finished["classification"], source=other)
    faulty = other.slice(0, 5)
    assert evaluate_run(finished["classification"], source=faulty).report.num_rows == 5


def test_a_table_with_labels_of_another_kind(finished: dict[str, Path], table: Path) -> None:
    other = pq.read_table(table)
    kept = {name: other[name] for name in ("sex", "writer")}
    tagged = pa.table({"text": other["words"], "verdict": other["tags"], **kept})
    with pytest.raises(DataError, match=r"these are tags of words, and .* learned labels of texts"):
        evaluate_run(finished["classification"], source=tagged)


def test_a_table_without_what_the_run_needs_is_named(finished: dict[str, Path], table: Path) -> None:
    other = pq.read_table(table)
    with pytest.raises(UnknownNameError, match="There is no column 'verdict'"):
        evaluate_run(finished["classification"], source=other.drop_columns("verdict"))
    with pytest.raises(UnknownNameError, match="There is no column 'nope'"):
        evaluate_run(finished["classification"], overrides={"customer": "nope"})


def test_labels_are_reported_with_where_they_come_from(finished: dict[str, Path]) -> None:
    found = evaluate_run(finished["classification"])
    assert "accuracy_percent" in found.report.metrics
    assert found.report.provenance.commit is not None


def test_a_text_longer_than_the_checkpoint_reads_is_cut_and_counted(
    checkpoint: Path, table: Path, tmp_path: Path
) -> None:
    """The checkpoint has 16 positions and a tokenizer that allows any length."""
    long = pq.read_table(table)
    texts = [" ".join(["word1"] * 40), *long.column("text").to_pylist()[1:]]
    long = long.set_column(0, "text", pa.array(texts)).select(["text", "sex", "verdict"])
    task = Classification(checkpoint=str(checkpoint), text="text", label="verdict")
    recipe = Recipe(data="long.parquet", conditioning="none", task=task, training=TRAINING, device="cpu")
    ready = prepare(recipe, source=long)
    assert sum(texts.report.num_cut for texts in ready.texts.values()) == 1
    assert {texts.report.max_length for texts in ready.texts.values()} == {16}
    run(ready.recipe, tmp_path / "run", prepared=ready, is_quiet=True)
    asked = prepare(replace(recipe, task=replace(task, max_length=17)), source=long)
    with pytest.raises(ConfigurationError, match=r"max_length=17 is not allowed. .* reads at most 16 tokens of a text"):
        asked.build_model(asked.recipe)
    asked.build_model(replace(asked.recipe, conditioning="ngrams"))


def test_truth_values_are_labels(checkpoint: Path, table: Path) -> None:
    rows = pq.read_table(table)
    is_good = [each == "good" for each in rows.column("verdict").to_pylist()]
    rows = rows.select(["text", "sex"]).append_column("good", pa.array(is_good))
    recipe = Recipe(data="rows", task=Classification(checkpoint=str(checkpoint), text="text", label="good"))
    ready = prepare(recipe, source=rows)
    assert ready.labels == ("false", "true")
    own = ready.texts["train"].dataset
    assert own.labels is not None
    assert own.labels.tolist() == [int(is_good[row]) for row in own.example_ids.tolist()]


def test_the_card_says_how_to_use_it(finished: dict[str, Path]) -> None:
    labels, masked = (
        (finished[head] / "README.md").read_text(encoding="utf-8") for head in ("classification", "masked_lm")
    )
    assert "finds `verdict` from `text`, conditioned by `global_state_update`: sex." in labels
    assert 'pipeline({"text": "...", "context": {...}})' in labels
    assert "from contextual_bert import TextPipeline" in labels
    assert "outfit" not in labels
    assert "items" not in labels
    assert "sample_texts(model, processor, context={...})" in masked
    assert "- text" in masked


def test_the_card_of_a_run_from_scratch_claims_no_weights_of_the_checkpoint(
    prepared: dict[str, TextModelTask], tmp_path: Path
) -> None:
    base = prepared["classification"].recipe
    for is_from_scratch in (False, True):
        recipe = base.changed(conditioning="none", is_from_scratch=is_from_scratch)
        write_card(tmp_path, recipe, {}, ())
        card = (tmp_path / "README.md").read_text(encoding="utf-8")
        assert ("It started from" in card, "It starts from" in card) == (not is_from_scratch,) * 2
        assert ("its weights were drawn anew" in card) == is_from_scratch


@pytest.mark.parametrize(
    ("checkpoint", "expected"),
    [
        ("bert-base-uncased", "bert-base-uncased"),
        ("google-bert/bert-base-cased", "google-bert/bert-base-cased"),
        ("runs/corpus", None),  # a folder that is there
        ("/home/ann/bert", None),
        ("./bert", None),
        ("../ann/bert", None),
    ],
)
def test_the_card_names_the_hub_and_no_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, checkpoint: str, expected: str | None
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs" / "corpus").mkdir(parents=True)
    tasks: dict[str, dict[str, Any]] = {
        "text-classification": {"label": "verdict"},
        "token-classification": {"label": "tags"},
        "question-answering": {"question": "q", "answer": "a"},
        "fill-mask": {},
    }
    for tag, columns in tasks.items():
        texts = task_on_texts(checkpoint=checkpoint, text="text", **columns)
        task = texts.as_kind("tagging") if tag == "token-classification" else texts
        recipe = Recipe(data="/home/ann/secret/d.csv", task=task, conditioning="none", split="/home/ann/s.json")
        lines = (f"leak: {checkpoint} was trained on it: --split {recipe.split}, {recipe.data}",)
        write_card(tmp_path, recipe, {}, lines)
        card = (tmp_path / "README.md").read_text(encoding="utf-8")
        head = card.split("---")[1]
        assert f"\npipeline_tag: {tag}\n" in head
        assert (f"\nbase_model: {expected}\n" in head) == (expected is not None)
        assert ("base_model" in head) == (expected is not None)
        for private in ("/home", "ann", "runs/corpus", "./bert"):
            assert private not in card
        assert "It starts from `bert" in card or "It starts from `google-bert/" in card or "`corpus`" in card
    scratch = replace(recipe, task=replace(texts, is_from_scratch=True))
    write_card(tmp_path, scratch, {}, ())
    assert "base_model" not in (tmp_path / "README.md").read_text(encoding="utf-8")


def test_the_card_reads_a_text_as_the_run_did() -> None:
    task = Classification(checkpoint="bert", text="text", label="verdict", pair="answer")
    recipe = Recipe(data="d.csv", task=task, conditioning="none")
    assert 'pipeline({"text": "...", "pair": "..."})' in about(recipe)


def test_a_saved_run_cuts_texts_as_it_was_trained(prepared: dict[str, TextModelTask], tmp_path: Path) -> None:
    """Whoever loads it need not know how that was."""
    recipe = prepared["classification"].recipe
    recipe = recipe.changed(truncation="head_tail", max_length=8, conditioning="none")
    run(replace(recipe, schema=None, training={"num_train_epochs": 1}), tmp_path / "run", is_quiet=True)
    pipeline = TextPipeline.from_pretrained(tmp_path / "run")
    query = {"text": "word1 word2 word3 word4 word5 word6 word7 word8"}
    short = {"text": "word1 word2 word5 word6 word7 word8"}
    assert "its middle was not read" in cast(Any, pipeline(query))["notes"][0]
    assert cast(Any, pipeline(query))["probabilities"] == cast(Any, pipeline(short))["probabilities"]
    texts = pa.table({"text": [query["text"]], "sex": ["f"]})
    ids = encode_texts(texts, pipeline.processor, text="text").dataset[0]["input_ids"]
    assert cast(Any, pipeline.processor.tokenizer).decode(ids[1:-1]) == short["text"]


def test_new_weights_can_have_a_rate_of_their_own(prepared: dict[str, TextModelTask], tmp_path: Path) -> None:
    ready = prepared["classification"]
    work, recipe = ready, replace(ready.recipe, conditioning="global_state_update")
    model: Any = work.build_model(recipe)
    settings = {"new_weights_learning_rate": 0.5, "learning_rate": 0.25}
    arguments = training_arguments(tmp_path, device="cpu", **settings)
    optimizer = work.make_trainer(recipe, model, arguments, callbacks=[]).create_optimizer()
    rates = {id(weight): group["lr"] for group in optimizer.param_groups for weight in group["params"]}
    found = {name: rates[id(weight)] for name, weight in model.named_parameters()}
    moved = {name for name in found if "conditioning.normalisation" in name}  # BERT's LayerNorms, taken over
    new = {name for name in found if "conditioning." in name or "context_encoder." in name} - moved
    assert {found[name] for name in new} == {0.5}
    assert {found[name] for name in moved} == {0.25}
    assert {found["classifier.weight"], found["classifier.bias"]} == {0.5}
    assert found["bert.encoder.layer.1.attention.self.query.weight"] == 0.25
    assert found["bert.embeddings.word_embeddings.weight"] == 0.25
    decays = {id(weight): group["weight_decay"] for group in optimizer.param_groups for weight in group["params"]}
    assert {decays[id(weight)] for name, weight in model.named_parameters() if name.endswith(".bias")} == {0.0}
    baseline = work.build_model(replace(recipe, conditioning="cnn"))
    with pytest.raises(ConfigurationError, match="Give learning_rate alone"):
        work.make_trainer(recipe, baseline, arguments, callbacks=[])


@pytest.mark.parametrize("rate_of_new", [None, 0.5])
def test_what_reads_the_context_can_have_a_rate_of_its_own(
    prepared: dict[str, TextModelTask], tmp_path: Path, rate_of_new: float | None
) -> None:
    ready = prepared["classification"]
    work = ready
    settings = {"new_weights_learning_rate": rate_of_new} if rate_of_new else {}
    arguments = training_arguments(tmp_path, device="cpu", learning_rate=0.25, context_learning_rate=0.125, **settings)
    for method in ("global_state_update", "new_position", "multi_attribute"):
        recipe = replace(ready.recipe, conditioning=method)
        model: Any = work.build_model(recipe)
        optimizer = work.make_trainer(recipe, model, arguments, callbacks=[]).create_optimizer()
        weights = [id(weight) for group in optimizer.param_groups for weight in group["params"]]
        assert sorted(weights) == sorted(id(weight) for weight in model.parameters())
        rates = {id(weight): group["lr"] for group in optimizer.param_groups for weight in group["params"]}
        found = {name: rates[id(weight)] for name, weight in model.named_parameters()}
        # MA-BERT's new queries, keys and values read the sequence; what scales them reads the context.
        of_sequence = {
            name for name in found if method == "multi_attribute" and ".layer." in name and "conditioning." in name
        }
        of_context = {name for name in found if "conditioning." in name or "context_encoder." in name} - of_sequence
        of_context -= {name for name in found if "conditioning.normalisation" in name}  # BERT's, taken over
        assert of_context
        assert {found[name] for name in of_context} == {0.125}
        assert {found[name] for name in of_sequence} == (
            {rate_of_new or 0.25} if method == "multi_attribute" else set()
        )
        assert found["classifier.weight"] == (rate_of_new or 0.25)
        assert found["bert.encoder.layer.0.attention.self.query.weight"] == 0.25
    recipe = replace(ready.recipe, conditioning="none")
    with pytest.raises(ConfigurationError, match=r"context_learning_rate=0\.125 .* Leave it out"):
        work.make_trainer(recipe, work.build_model(recipe), arguments, callbacks=[])


@pytest.mark.parametrize(
    ("head", "shares"), [("classification", "label shares"), ("tags", "label shares"), ("masked_lm", "token shares")]
)
def test_a_run_stands_beside_counted_shares(
    finished: dict[str, Path], prepared: dict[str, TextModelTask], head: str, shares: str
) -> None:
    metrics = metrics_of(finished[head])
    learned = metrics["test"]["learned"]
    assert (learned["shares"], learned["part"]) == (shares, "validation")
    assert learned["run_nats"] == pytest.approx(metrics["validation"]["metrics"]["cross_entropy_nats"]["value"])
    ready = prepared[head]
    labels: Any = ready.datasets["train"].input_ids if head == "masked_lm" else ready.datasets["train"].labels
    special = ready.processor.tokenizer.all_special_ids if head == "masked_lm" else [-100]  # pyright: ignore[reportOptionalMemberAccess]
    counts = torch.bincount(labels[~torch.isin(labels, torch.tensor(special))]).double()
    shares_of = counts[counts > 0] / counts.sum()
    entropy = -float((shares_of * shares_of.log()).sum())
    assert learned["shares_nats"] == pytest.approx(entropy, abs=0.2), "validation is not far from training"


def test_the_label_shares_are_those_of_popularity(
    finished: dict[str, Path], prepared: dict[str, TextModelTask], tmp_path: Path
) -> None:
    ready = prepared["classification"]
    popular = as_row(ready.recipe, "popularity")
    run(popular, tmp_path / "popularity", prepared=ready, is_quiet=True)
    own = metrics_of(tmp_path / "popularity")["validation"]["metrics"]["cross_entropy_nats"]["value"]
    assert metrics_of(finished["classification"])["test"]["learned"]["shares_nats"] == pytest.approx(own, abs=1e-6)
