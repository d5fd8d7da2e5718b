"""Inspection of finished runs: one way for every task, against another context, nothing known, or the average."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from transformers import BertConfig, BertForMaskedLM

from contextual_bert import CompletionPipeline, TextPipeline
from contextual_bert.errors import WITHHELD, ConfigurationError, DataError, QueryError, UnknownNameError
from contextual_bert.runs import run
from contextual_bert.runs.model_inspection import ModelInspection, inspect_model
from contextual_bert.runs.tasks.classification import ClassificationTask
from contextual_bert.testing.heads import miniature_checkpoint
from contextual_bert.testing.miniature import drawn_anew
from contextual_bert.training import Recipe, task_on_texts

SIZES = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 24}
ROWS = 100
COLUMNS = ("text", "words", "tags", "verdict", "question", "answer")
RUNS: dict[str, dict[str, Any]] = {
    "labels": {"task": {"text": "text", "label": "verdict"}, "training": {"context_dropout": 0.1}},
    "average": {"task": {"text": "text", "label": "verdict"}, "sensitive": ("sex",)},
    "none": {"task": {"text": "text", "label": "verdict"}, "conditioning": "none"},
    "words": {"task": {"text": "text", "label": "verdict"}, "conditioning": "bert_context_as_text"},
    "groups": {"task": {"text": "text", "label": "verdict"}, "conditioning": "multi_attribute"},
    "bag": {"task": {"text": "text", "label": "verdict"}, "conditioning": "ngrams"},
    "tags": {"task": {"text": "words", "label": "tags"}, "conditioning": "new_position"},
    "answers": {"task": {"text": "text", "question": "question", "answer": "answer"}},
    "masked": {"task": {"text": "text"}},
    "causal": {"task": {"text": "text", "objective": "causal"}, "model": SIZES},
}


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    numbers = np.random.default_rng(0)
    words = [[f"word{number}" for number in numbers.integers(0, 18, size=5)] for _ in range(ROWS)]
    columns = {
        "text": [" ".join(row) for row in words],
        "words": words,
        "tags": [["EVEN" if int(word[4:]) % 2 == 0 else "O" for word in row] for row in words],
        "verdict": numbers.choice(["good", "bad"], size=ROWS).tolist(),
        "question": [row[0] for row in words],
        "answer": [row[1] for row in words],
        "sex": numbers.choice(["f", "m"], size=ROWS).tolist(),
        "age": numbers.integers(18, 80, size=ROWS).tolist(),
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
        start = {} if "objective" in fields["task"] else {"checkpoint": str(folder / "checkpoint")}
        task = task_on_texts(**start, **fields["task"])
        recipe = Recipe(
            data=str(table),
            exclude=tuple(column for column in COLUMNS if column not in task.columns),
            device="cpu",
            field_selection="off",
            min_customers=1,
            **{"conditioning": "global_state_update", **fields, "task": task},
        )
        training = {
            "max_steps": 6,
            "learning_rate": 3e-3,
            "per_device_train_batch_size": 16,
            **fields.get("training", {}),
        }
        run(replace(recipe, training=training), folder / name, is_quiet=True)
    return {name: folder / name for name in RUNS}


def inspected(directory: Path, text: str = "word1 word2", **settings: Any) -> ModelInspection:
    context = settings.pop("context", {"sex": "f", "age": 20})
    query = {"text": text, "context": context, **settings.pop("query", {})}
    return inspect_model(directory, query, overrides={"device": "cpu"}, **settings)


def test_a_prediction_is_that_of_the_pipeline_with_and_without_the_context(
    finished: dict[str, Path],
) -> None:
    found = inspected(finished["labels"])
    assert found.compared == "nothing known" and found.heading == "without"
    pipeline = TextPipeline.from_pretrained(finished["labels"])
    answers: Any = pipeline([{"text": "word1 word2", "context": who} for who in ({"sex": "f", "age": 20}, {})])
    for each in found.predictions:
        assert each.place == "label"
        assert each.probability == pytest.approx(answers[0]["probabilities"][each.choice], abs=1e-5)
        assert each.compared == pytest.approx(answers[1]["probabilities"][each.choice], abs=1e-5)
    assert found.maps.tokens == ("[CLS]", "word1", "word2", "[SEP]")
    assert found.maps.moved(0).max() == 0  # the first block's attention has seen no state yet
    assert found.maps.moved(1).max() > 0


def test_another_person_is_the_comparison(finished: dict[str, Path]) -> None:
    found = inspected(finished["labels"], versus={"age": 70})
    assert found.compared == "age=70" and found.heading == "versus"
    expected: Any = TextPipeline.from_pretrained(finished["labels"])(
        {"text": "word1 word2", "context": {"sex": "f", "age": 70}}
    )
    for each in found.predictions:
        assert each.compared == pytest.approx(expected["probabilities"][each.choice], abs=1e-5)
    same = inspected(finished["labels"], versus={"age": 20})
    assert same.maps.moved(1).max() == 0 and same.maps.changes() == []


def test_where_training_took_no_context_away_the_average_stands_for_it(
    finished: dict[str, Path], table: Path, tmp_path: Path
) -> None:
    steps: list[tuple[int, int]] = []
    found = inspected(finished["average"], progress=lambda done, total: steps.append((done, total)))
    assert found.compared == "average of 64 contexts" and steps[-1] == (65, 65)
    assert any("never took the whole context away" in note for note in found.notes)
    assert f"context: sex={WITHHELD}, age=20" in found.asked  # the field is sensitive
    assert "sex=f" not in found.to_html() + found.to_json()
    few = tmp_path / "few.parquet"
    rows = pq.read_table(table).slice(0, 3)
    pq.write_table(rows, few)
    pipeline = TextPipeline.from_pretrained(finished["average"])
    contexts = rows.select(["sex", "age"]).to_pylist()
    answers: Any = pipeline([{"text": "word1 word2", "context": each} for each in contexts])
    query = {"text": "word1 word2", "context": {"sex": "f"}}
    other = inspect_model(finished["average"], query, overrides={"device": "cpu", "data": str(few)})
    assert other.compared == "average of 3 contexts"
    for each in other.predictions:
        mean = np.mean([answer["probabilities"][each.choice] for answer in answers])
        assert each.compared == pytest.approx(mean, abs=1e-5)
    with pytest.raises(DataError):
        inspect_model(finished["average"], query, overrides={"device": "cpu", "data": str(tmp_path / "gone.csv")})


def test_a_model_without_a_context_has_maps_and_no_comparison(finished: dict[str, Path]) -> None:
    found = inspected(finished["none"])
    assert found.compared is None and found.maps.compared is None
    assert all(each.compared is None for each in found.predictions)
    assert "context was not used" in found.notes[0]
    assert [table.title for table in found.tables()] == ["Prediction"]
    with pytest.raises(ConfigurationError, match="says nothing") as refused:
        inspected(finished["none"], versus={"age": 70})
    assert refused.value.location == ("versus",)


def test_words_of_a_context_are_positions_that_are_compared_with_nothing(finished: dict[str, Path]) -> None:
    found = inspected(finished["words"], versus={"sex": None, "age": None})
    assert found.maps.tokens[0] == "[CLS]" and found.maps.shared_tokens == ("[CLS]", "word1", "word2", "[SEP]")
    assert len(found.maps.tokens) > 5
    assert found.maps.layers[0].shape[1] == len(found.maps.tokens)
    assert found.maps.compared is not None and found.maps.compared[0].shape[1] == 4
    assert "age" in found.to_json()


def test_a_position_for_the_context_has_a_name_and_heads_that_of_their_feature(finished: dict[str, Path]) -> None:
    tags = inspected(finished["tags"])
    assert tags.maps.tokens[:2] == ("(context)", "[CLS]")
    assert {each.place for each in tags.predictions} == {"1: word1", "2: word2"}
    heads = inspected(finished["groups"]).maps.heads
    assert heads[0] == ("1", "2") and heads[-1] == ("sex 1", "sex 2", "age 1", "age 2")


@pytest.mark.parametrize(
    ("name", "text", "query", "places"),
    [
        ("answers", "word1 word2", {"question": "word1"}, {"answer begins", "answer ends"}),
        ("masked", "word1 [MASK]", {}, {"[MASK] at 3"}),
        ("causal", "word1", {}, {"next token"}),
    ],
)
def test_other_tasks_go_the_same_way(
    finished: dict[str, Path], name: str, text: str, query: dict[str, Any], places: set[str]
) -> None:
    found = inspected(finished[name], text, query=query)
    assert {each.place for each in found.predictions} == places
    assert all(0 <= each.probability <= 1 for each in found.predictions)
    assert len(found.maps.layers) in (2, 4) and found.compared == "average of 64 contexts"
    assert found.to_markdown().startswith(f"## Inside {name}")


def test_sets_go_the_same_way(tiny_recipe: Recipe, tmp_path: Path) -> None:
    training = {**tiny_recipe.training, "context_dropout": 0.1}
    run(replace(tiny_recipe, training=training), tmp_path / "sets", is_quiet=True)
    pipeline = CompletionPipeline.from_pretrained(tmp_path / "sets")
    items = [*pipeline.processor.items.values[:3]]
    found = inspect_model(tmp_path / "sets", {"items": items}, overrides={"device": "cpu"})
    answer: Any = pipeline({"items": items, "context": {}, "repeats": True}, top_k=1)
    (best,) = answer["slots"][0]["candidates"]
    assert found.maps.tokens == (*items, "[MASK]")
    assert found.predictions[0].choice == best["item"]
    assert found.predictions[0].probability == pytest.approx(best["probability"], rel=0.2)  # visible items may repeat


def test_json_and_page_hold_what_was_found(finished: dict[str, Path]) -> None:
    found = inspected(finished["labels"], text="word1 <b>")
    read = json.loads(found.to_json())
    assert read["asked"] == [*found.asked] and read["compared_with"] == "nothing known"
    assert len(read["layers"]) == 2 and len(read["predictions"]) == 2
    page = found.to_html()
    assert "text: word1 &lt;b&gt;" in page and "Content-Security-Policy" in page and "<script" not in page
    assert page.count("<img") == 2 * 3 * 3


def test_what_cannot_be_inspected_is_refused_by_name(
    finished: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ConfigurationError, match="a run of ngrams") as refused:
        inspected(finished["bag"])
    assert refused.value.location == (str(finished["bag"]),)
    monkeypatch.setattr(ClassificationTask, "inspected", None)
    with pytest.raises(ConfigurationError, match="one query to such a run predicts nothing"):
        inspected(finished["labels"])


@pytest.mark.parametrize(
    ("settings", "location"),
    [
        ({"context": {"sx": "f"}}, (0, "context", "sx")),
        ({"context": {"age": "old"}}, (0, "context", "age")),
        ({"context": "f"}, (0, "context")),
        ({"versus": {"age": "old"}}, (0, "versus", "age")),
        ({"versus": {"sx": 1}}, (0, "versus", "sx")),
        ({"text": ""}, (0, "text")),
    ],
    ids=repr,
)
def test_a_faulty_query_is_named_by_its_place(
    finished: dict[str, Path], settings: dict[str, Any], location: tuple[Any, ...]
) -> None:
    with pytest.raises((QueryError, UnknownNameError)) as refused:
        inspected(finished["labels"], **settings)
    assert refused.value.location == location
