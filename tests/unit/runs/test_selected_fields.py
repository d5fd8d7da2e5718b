"""Fields that say nothing are silenced before a run, and the run, its files and its answers know it."""

from dataclasses import replace
from pathlib import Path
from typing import cast

import numpy as np
import pyarrow as pa
import pytest
from safetensors.numpy import load_file
from transformers import BertConfig, BertForSequenceClassification

from contextual_bert import CompletionPipeline
from contextual_bert.context import ContextSchema
from contextual_bert.context.encoding import is_missing
from contextual_bert.inference.verdicts import FieldVerdicts
from contextual_bert.runs import SetCompletionTask, TextModelTask, evaluate_run, permute_features, prepare, run
from contextual_bert.runs import selected_fields as selected
from contextual_bert.runs.run_directory import load_metrics
from contextual_bert.runs.selected_fields import folds_of, with_selected_fields
from contextual_bert.runs.text_baselines import LogisticBaseline, contexts_as_text
from contextual_bert.testing.heads import miniature_checkpoint
from contextual_bert.testing.miniature import drawn_anew
from contextual_bert.training import Classification, QuestionAnswering, Recipe, SetCompletion, field_selection

NUM_SETS = 1_400
MODEL = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}


def table(num_sets: int = NUM_SETS, seed: int = 0, *, share_told: float = 1.0) -> pa.Table:
    """Sets of which the first item follows the taste, in this share of them; of the others it follows another's."""
    random = np.random.default_rng(seed)
    taste = random.integers(0, 4, num_sets)
    followed = taste if share_told == 1.0 else np.where(random.random(num_sets) < share_told, taste, np.roll(taste, 1))
    items = 10 * followed[:, None] + np.stack([random.permutation(10)[:4] for _ in range(num_sets)])
    items[:, 1:] = np.stack([random.permutation(40)[:3] for _ in range(num_sets)])
    return pa.table(
        {
            "items": [[f"item-{item}" for item in {*row}] for row in items.tolist()],
            "taste": [f"taste-{value}" for value in taste],
            "noise": [f"noise-{value}" for value in random.integers(0, 20, num_sets)],
            "day": random.integers(0, 1_000, num_sets),
        }
    )


def recipe(**fields: object) -> Recipe:
    training = {"num_train_epochs": 1, "per_device_train_batch_size": 256}
    return replace(
        Recipe(data="sets", task=SetCompletion(items="items"), exclude=("day",), model=MODEL, training=training),
        **fields,
    )


@pytest.fixture(scope="module")
def sets() -> pa.Table:
    return table()


def test_the_field_without_a_message_is_silenced_and_said(sets: pa.Table) -> None:
    ready = prepare(recipe(), source=sets)
    chosen = with_selected_fields(ready, [recipe()])
    schema = chosen.processor.schema
    assert schema is not None
    assert schema.silenced_names == ("noise",)
    assert [tuple(data.context) for data in chosen.datasets.values()] == [("taste",)] * 3
    assert len(chosen.datasets["train"].context["taste"].unique()) == 4
    assert not any("'noise'" in line for line in chosen.shift_lines)
    told = " ".join(chosen.lines())
    assert "1 of 2 fields of the context is silenced" in told
    assert "'noise'" in told
    assert "field_selection='off'" in told
    assert len(ready.datasets["train"].context["noise"].unique()) > 10  # the data that were given stay


def test_a_context_that_tells_little_is_silenced_as_a_whole() -> None:
    ready = prepare(recipe(), source=table(share_told=0.5))
    chosen = with_selected_fields(ready, [recipe()])
    schema = chosen.processor.schema
    assert schema is not None
    assert schema.silenced_names == ("taste", "noise")
    told = " ".join(chosen.lines())
    assert "'taste', 'noise'. What the values tell" in told
    assert "or is too little" in told
    assert "'taste' 0.007; over the whole training part 14 nats at least" in told
    assert "fewer than 130" in told
    off = recipe(field_selection="off")
    kept = with_selected_fields(prepare(off, source=table(share_told=0.5)), [off]).processor.schema
    assert kept is not None and not kept.silenced_names


@pytest.mark.parametrize(
    ("share_told", "least", "silenced"),
    [
        (0.5, 10.0, ("noise",)),
        (0.5, 20.0, ("taste", "noise")),  # the taste tells 14 nats in all
        (1.0, 1e9, ("noise",)),  # and here 0.06 an item, which is no little
    ],
)
def test_what_a_context_tells_is_counted_over_all_items(
    share_told: float, least: float, silenced: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(field_selection, "LEAST_GAIN", least)
    source = table(share_told=share_told)
    schema = with_selected_fields(prepare(recipe(), source=source), [recipe()]).processor.schema
    assert schema is not None
    assert schema.silenced_names == silenced


@pytest.mark.parametrize(
    ("fields", "methods"),
    [
        ({"field_selection": "off"}, ["global_state"]),
        ({}, ["none"]),
        ({}, ["context_popularity", "bag"]),
    ],
)
def test_all_fields_stay_where_nobody_asks(
    sets: pa.Table, fields: dict[str, object], methods: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(selected, "field_gains", lambda *_, **__: pytest.fail("nothing is to be measured"))
    asked = recipe(**fields)
    ready = prepare(asked, source=sets)
    assert with_selected_fields(ready, [replace(asked, conditioning=name) for name in methods]) is ready


def test_a_run_is_the_same_to_the_last_digit_without_the_field(sets: pa.Table, tmp_path: Path) -> None:
    with_noise, without = tmp_path / "with", tmp_path / "without"
    run(recipe(), with_noise, table=sets, is_quiet=True)
    run(recipe(), without, table=sets.drop_columns(["noise"]), is_quiet=True)
    weights = [load_file(folder / "model.safetensors") for folder in (with_noise, without)]
    assert weights[0].keys() == weights[1].keys()
    assert all(np.array_equal(weights[0][name], weights[1][name]) for name in weights[0])
    figures = [load_metrics(folder)["test"]["metrics"] for folder in (with_noise, without)]
    assert figures[0] == figures[1]


def test_small_tables_keep_all_fields() -> None:
    ready = prepare(recipe(), source=table(300))
    assert with_selected_fields(ready, [recipe()]) is ready


def test_a_schema_with_silenced_fields_is_taken_as_it_is(sets: pa.Table) -> None:
    schema = prepare(recipe(), source=sets).processor.schema
    assert schema is not None
    given = recipe(schema=schema.with_silenced(["taste"]).to_dict())
    ready = prepare(given, source=sets)
    assert with_selected_fields(ready, [given]) is ready
    assert ready.processor.schema is not None
    assert ready.processor.schema.silenced_names == ("taste",)


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bert") / "checkpoint"
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    config = BertConfig(vocab_size=23, num_labels=2, max_position_embeddings=16, **sizes)
    miniature_checkpoint(drawn_anew(BertForSequenceClassification(config)), folder)
    return folder


def comments(num_texts: int = 2_700) -> pa.Table:
    random = np.random.default_rng(3)
    words = random.integers(0, 18, (num_texts, 5))
    reader = random.integers(0, 3, num_texts)
    is_good = np.where(random.random(num_texts) < 0.5, words[:, 0] < 9, reader > 0)
    return pa.table(
        {
            "text": [" ".join(f"word{number}" for number in row) for row in words.tolist()],
            "verdict": np.where(is_good, "good", "bad"),
            "reader": [f"reader-{number}" for number in reader],
            "noise": [f"noise-{number}" for number in random.integers(0, 20, num_texts)],
            "level": random.normal(size=num_texts),
        }
    )


def test_texts_are_those_without_the_fields_that_say_nothing(bert: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selected, "is_too_little", lambda *_: pytest.fail("a checkpoint starts without its context"))
    asked = Recipe(data="texts", task=Classification(text="text", label="verdict", checkpoint=str(bert)))
    table = comments()
    ready = prepare(asked, source=table)
    chosen = with_selected_fields(ready, [asked])
    without = prepare(asked, source=table.drop_columns(["noise", "level"]))
    assert chosen.processor.schema is not None
    assert chosen.processor.schema.silenced_names == ("noise", "level")
    assert chosen.processor.schema.layout == without.processor.schema.layout  # type: ignore[union-attr]
    for part, dataset in chosen.datasets.items():
        other = without.datasets[part]
        assert dataset.input_ids is ready.datasets[part].input_ids  # no text is tokenized again
        assert (dataset.labels == other.labels).all()
        assert dataset.context.keys() == other.context.keys() == {"reader"}
        assert (dataset.context["reader"] == other.context["reader"]).all()
    assert chosen.recipe.schema == chosen.processor.schema.to_dict()
    assert "2 of 3 fields of the context are silenced" in " ".join(chosen.lines())
    encoded = chosen.processor.encode_columns(table.slice(0, 5))
    assert encoded is not None
    assert [*encoded.tensors] == ["reader"]
    assert encoded.unread.keys() == {"noise", "level"}
    assert with_selected_fields(ready, [replace(asked, conditioning="none")]) is ready
    logistic = LogisticBaseline(cast(TextModelTask, chosen), "tfidf_context")
    assert [*logistic.columns] == ["reader"]


def test_baselines_without_a_checkpoint_have_their_fields_chosen_too() -> None:
    asked = Recipe(
        data="texts", task=Classification(text="text", label="verdict", checkpoint=None), conditioning="tfidf_context"
    )
    chosen = with_selected_fields(prepare(asked, source=comments()), [asked])
    assert chosen.processor.schema is not None
    assert chosen.processor.schema.silenced_names == ("noise", "level")


def test_few_texts_keep_all_fields(bert: Path) -> None:
    asked = Recipe(data="texts", task=Classification(text="text", label="verdict", checkpoint=str(bert)))
    ready = prepare(asked, source=comments(900))
    assert with_selected_fields(ready, [asked]) is ready


def test_texts_of_which_no_field_says_anything_have_all_missing(bert: Path) -> None:
    asked = Recipe(
        data="texts", task=Classification(text="text", label="verdict", checkpoint=str(bert)), exclude=("reader",)
    )
    chosen = with_selected_fields(prepare(asked, source=comments()), [asked])
    assert chosen.processor.schema is not None
    assert chosen.processor.schema.silenced_names == ("noise", "level")
    context = chosen.datasets["test"].context
    assert {name: bool(is_missing(values.numpy()).all()) for name, values in context.items()} == {"noise": True}
    words = contexts_as_text(cast(TextModelTask, chosen))["test"]
    assert {name: bool((ids == 0).all()) for name, ids in words.items()} == {"noise": True}


def test_answers_to_questions_keep_all_fields(bert: Path) -> None:
    table = comments()
    table = table.append_column("question", pa.array(["word1 word2"] * table.num_rows))
    task = QuestionAnswering(text="text", question="question", answer="verdict", checkpoint=str(bert))
    table = table.set_column(1, "verdict", pa.array([text.split()[0] for text in table["text"].to_pylist()]))
    asked = Recipe(data="texts", task=task)
    ready = prepare(asked, source=table)
    assert with_selected_fields(ready, [asked]) is ready


def test_of_a_split_by_time_the_later_half_is_asked_about(sets: pa.Table) -> None:
    ready = prepare(recipe(time="day", split_by="time"), source=sets)
    assert isinstance(ready, SetCompletionTask)
    (asked,) = folds_of(ready, np.arange(len(ready.datasets["train"])))
    days = np.array(ready.split.select(ready.examples, "train").table["day"].to_pylist())
    assert np.delete(days, asked).max() < days[asked].min()
    assert abs(2 * len(asked) - len(days)) < 20


def test_a_run_keeps_the_choice_and_a_resume_does_not_choose_again(
    sets: pa.Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = prepare(recipe(), source=sets).processor.schema
    assert given is not None
    asked = recipe(schema=given.to_dict())  # as inspect writes it and train --schema takes it
    report = run(asked, tmp_path, table=sets, is_quiet=True)
    assert "taste" in {segment.feature for segment in report.segments}
    assert "noise" not in {segment.feature for segment in report.segments}
    verdicts = FieldVerdicts.from_run(tmp_path)
    assert verdicts is not None
    assert set(verdicts.rises) == {"taste"}
    importance = permute_features(tmp_path, source=sets)
    assert [row.feature for row in importance.importances.rows] == ["all features", "taste"]
    assert importance.importances.constant == ()
    assert not any("'noise'" in line for line in importance.lines)
    assert "context, silenced: noise. The run does not read them: they have no segments" in importance.lines
    assert ContextSchema.load(tmp_path / "schema.json").silenced_names == ("noise",)
    kept = Recipe.load(tmp_path)
    assert kept.field_selection == "auto"
    monkeypatch.setattr(selected, "field_gains", lambda *_, **__: pytest.fail("it was chosen already"))
    again = with_selected_fields(prepare(asked, source=sets), [asked], remembered=[tmp_path])
    assert again.processor.schema is not None
    assert again.processor.schema.silenced_names == ("noise",)
    assert again.resolve(asked).schema == kept.schema
    complete = CompletionPipeline.from_pretrained(tmp_path)
    answers = [
        complete({"items": ["item-1"], "context": {"taste": "taste-0", "noise": noise}})["slots"]
        for noise in ("noise-1", "new", None)
    ]
    assert answers[0] == answers[1] == answers[2]
    assert answers[0] != complete({"items": ["item-1"], "context": {"taste": "taste-3", "noise": "noise-1"}})["slots"]
    note = complete({"items": ["item-1"], "context": {"taste": "taste-0", "noise": "noise-1"}})["notes"]
    assert any("Not read: noise." in each for each in note)
    new = table(300, seed=1)  # a table of today need not have the column
    found, whole = (evaluate_run(tmp_path, source=each).report for each in (new.drop_columns(["noise"]), new))
    assert found.metrics == whole.metrics
