"""Completion of raw sets: what is asked, what is permitted, what is said about it."""

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch

from contextual_bert.context import Categorical, ContextSchema, MultiCategorical, Numerical
from contextual_bert.errors import (
    ConfigurationError,
    ContextualBertError,
    DataError,
    QueryError,
    RunDirectoryError,
    UnknownNameError,
)
from contextual_bert.inference import CONSTRAINTS, CompletionPipeline, ConstraintInput, constraint
from contextual_bert.inference.queries import TrainedSets
from contextual_bert.models import ContextualBertConfig, ContextualBertForMaskedLM, ContextualBertProcessor

ITEMS = ("coat", "hat", "bag", "belt", "shoes", "17")
SCHEMA = ContextSchema(
    features=(
        Categorical(name="gender", values=("female", "male")),
        Numerical(name="age", edges=(30, 60)),
        MultiCategorical(name="brands", values=("acme", "hooli")),
    )
)


def pipeline_for(
    conditioning: str = "global_state_update", schema: ContextSchema | None = SCHEMA
) -> CompletionPipeline:
    torch.manual_seed(0)
    config = ContextualBertConfig.from_schema(
        schema,
        conditioning=conditioning,
        vocab_size=len(ITEMS) + 3,
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=16,
        initializer_range=0.5,
    )
    return CompletionPipeline(ContextualBertForMaskedLM(config), ContextualBertProcessor.from_items(ITEMS, schema))


@pytest.fixture(scope="module")
def pipeline() -> CompletionPipeline:
    return pipeline_for()


def candidates(answer: Any, slot: int = 0) -> dict[str, float]:
    return {each["item"]: each["probability"] for each in answer["slots"][slot]["candidates"]}


def test_a_folder_is_loaded_with_one_processor(tmp_path: Path, monkeypatch: Any) -> None:
    pipeline, loaded = pipeline_for(), list[Any]()
    pipeline.model.save_pretrained(tmp_path)
    pipeline.processor.save_pretrained(tmp_path)
    load = ContextualBertProcessor.from_pretrained
    monkeypatch.setattr(
        ContextualBertProcessor, "from_pretrained", lambda folder: loaded.append(load(folder)) or loaded[-1]
    )
    again = CompletionPipeline.from_pretrained(tmp_path)
    assert [each is again.processor for each in loaded] == [True]


def test_one_query_gives_one_answer_and_a_list_a_list(pipeline: CompletionPipeline) -> None:
    query = {"items": ["hat", "[MASK]", "bag"], "context": {"age": 34}}
    single: Any = pipeline(query, top_k=2)
    assert single["items"] == ["hat", "[MASK]", "bag"]
    assert [slot["position"] for slot in single["slots"]] == [1]
    assert len(candidates(single)) == 2
    assert pipeline([query], top_k=2) == [single]
    assert pipeline([]) == []


def test_the_best_come_first_with_the_probabilities_of_the_model(pipeline: CompletionPipeline) -> None:
    query = {"items": ["hat", "[MASK]"], "context": {"gender": "female", "brands": ["acme"]}, "repeats": True}
    found = candidates(pipeline(query, top_k=len(ITEMS)))
    inputs = pipeline.processor(items=[query["items"]], context=[query["context"]])
    with torch.no_grad():
        logits = pipeline.model(**inputs).logits[0, 3:]
    assert list(found.values()) == sorted(found.values(), reverse=True)
    for item, probability in zip(ITEMS, logits.softmax(dim=0).tolist(), strict=True):
        assert found[item] == pytest.approx(probability, rel=1e-5)


def test_probabilities_sum_to_one_over_what_is_permitted(pipeline: CompletionPipeline) -> None:
    query = {"items": ["hat"], "context": {"age": 50}, "deny": ["bag"]}
    found = candidates(pipeline(query, top_k=100))
    assert found.keys() == {"coat", "belt", "shoes", "17"}
    assert sum(found.values()) == pytest.approx(1)
    everything = candidates(pipeline({"items": ["hat"], "context": {"age": 50}, "repeats": True}, top_k=100))
    assert everything.keys() == set(ITEMS)
    assert found["coat"] / found["belt"] == pytest.approx(everything["coat"] / everything["belt"], rel=1e-4)


def test_answers_do_not_depend_on_the_batch(pipeline: CompletionPipeline) -> None:
    generator = np.random.default_rng(0)
    queries = [
        {
            "items": [*generator.choice(ITEMS, int(generator.integers(0, 5)), replace=False).tolist(), "[MASK]"],
            "context": {"age": int(generator.integers(20, 70)), "brands": ["acme", "hooli"][: row % 3]},
        }
        for row in range(70)
    ]
    whole: Any = pipeline(queries, top_k=3, batch_size=64)
    single: Any = pipeline(queries, top_k=3, batch_size=1)
    for left, right in zip(whole, single, strict=True):
        assert left["items"] == right["items"]
        for item, probability in candidates(left).items():
            assert candidates(right)[item] == pytest.approx(probability, rel=1e-4)


def test_only_who_said_something_unknown_is_told_so(pipeline: CompletionPipeline) -> None:
    contexts: list[dict[str, Any]] = [
        {"gender": "female", "age": 3},
        {"gender": "x"},
        {},
        {"brands": ["acme", "y"]},
        {"brands": []},
        {"brands": ["z"]},
    ]
    answers: Any = pipeline([{"items": ["hat"], "context": context} for context in contexts], batch_size=4)
    expected = [{}, {"gender": ["x"]}, {}, {"brands": ["y"]}, {}, {"brands": ["z"]}]
    assert [answer["unknown_context"] for answer in answers] == expected


def test_the_context_matters(pipeline: CompletionPipeline) -> None:
    young, old = (candidates(pipeline({"items": ["hat"], "context": {"age": age}}, top_k=9)) for age in (20, 70))
    assert max(abs(young[item] - old[item]) for item in young) > 0.01


def test_without_a_mask_one_more_item_is_proposed(pipeline: CompletionPipeline) -> None:
    answer: Any = pipeline({"items": ["hat", "bag"]})
    assert answer["items"] == ["hat", "bag", "[MASK]"]
    assert answer["slots"][0]["position"] == 2


def test_several_masks_are_filled_each_by_itself(pipeline: CompletionPipeline) -> None:
    answer: Any = pipeline({"items": ["[MASK]", "hat", "[MASK]"]}, top_k=9)
    assert [slot["position"] for slot in answer["slots"]] == [0, 2]
    both: Any = pipeline([{"items": ["[MASK]", "hat", "[MASK]"]}, {"items": ["bag"]}], top_k=9)
    assert [len(each["slots"]) for each in both] == [2, 1]
    assert candidates(both[0], 1) == pytest.approx(candidates(answer, 1), rel=1e-5)


def test_an_empty_set_is_completed_from_the_context_alone(pipeline: CompletionPipeline) -> None:
    for query in ({"items": [], "context": {"gender": "male"}}, {"context": {"gender": "male"}}, {}):
        answer: Any = pipeline(query, top_k=9)
        assert answer["items"] == ["[MASK]"]
        assert sum(candidates(answer).values()) == pytest.approx(1)


def test_constraints(pipeline: CompletionPipeline) -> None:
    query = {"items": ["hat", "coat"]}
    assert candidates(pipeline(query, top_k=9)).keys() == {"bag", "belt", "shoes", "17"}
    assert candidates(pipeline({**query, "repeats": True}, top_k=9)).keys() == set(ITEMS)
    assert candidates(pipeline({**query, "allow": ["bag", "coat"]}, top_k=9)) == {"bag": pytest.approx(1)}
    found = candidates(pipeline({**query, "allow": ["bag", "belt", "17"], "deny": ["belt"]}, top_k=9))
    assert found.keys() == {"bag", "17"}
    assert sum(found.values()) == pytest.approx(1)


def test_nothing_permitted_is_an_empty_slot_with_a_note(pipeline: CompletionPipeline) -> None:
    first, second = pipeline([{"items": ["hat"], "allow": ["hat"]}, {"items": ["hat"]}])  # pyright: ignore
    reason = "No item is left after repeats: of 6 items, allow took 5, repeats took 1."
    assert first["slots"] == [
        {
            "position": 1,
            "candidates": [],
            "normalised_over": "permitted items",
            "num_permitted": 0,
            "excluded_probability": 1.0,
            "removed": {"allow": 5, "repeats": 1},
            "reason": reason,
        }
    ]
    assert first["notes"] == [f"Item 2: {reason}"]
    assert len(second["slots"][0]["candidates"]) == 5
    assert second["notes"] == []


def test_a_permitted_item_of_probability_zero_comes_before_a_forbidden_one(
    pipeline: CompletionPipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    forward = pipeline.model.forward

    def extreme(**inputs: Any) -> Any:
        output = forward(**inputs)
        output.logits = torch.tensor([[0.0, 0, 0, 500, 0, -500, -600, -700, -800]])
        return output

    monkeypatch.setattr(pipeline.model, "forward", extreme)
    found = candidates(pipeline({"items": ["hat"], "deny": []}, top_k=5))
    assert list(found) == ["coat", "bag", "belt", "shoes", "17"]
    assert list(found.values()) == [1, 0, 0, 0, 0]


def test_numbers_are_the_items_of_that_name(pipeline: CompletionPipeline) -> None:
    answer: Any = pipeline({"items": [17, "[MASK]"], "deny": [17.0]}, top_k=9)
    assert answer["items"] == ["17", "[MASK]"]
    assert answer["unknown_items"] == answer["notes"] == []
    assert "17" not in candidates(answer)


def test_what_is_unknown_is_reported(pipeline: CompletionPipeline) -> None:
    answer: Any = pipeline(
        {
            "items": ["hat", "kilt", "[MASK]"],
            "context": {"gender": "robot", "brands": ["acme", "umbrella"], "age": 200},
            "deny": ["kilt", "bag"],
        },
        top_k=9,
    )
    assert answer["unknown_items"] == ["kilt"]
    assert answer["unknown_context"] == {"gender": ["robot"], "brands": ["umbrella"]}
    assert answer["notes"] == ["deny names 1 unknown item to no effect: kilt."]
    assert sum(candidates(answer).values()) == pytest.approx(1)


def test_duplicates_are_read_and_reported(pipeline: CompletionPipeline) -> None:
    answer: Any = pipeline({"items": ["hat", "hat", "[MASK]", "[MASK]"]})
    assert answer["notes"] == ["In the set more than once, and read so: hat."]
    assert len(answer["slots"]) == 2


def test_top_k_beyond_the_vocabulary_gives_all(pipeline: CompletionPipeline) -> None:
    assert len(candidates(pipeline({"repeats": True}, top_k=10_000))) == len(ITEMS)


@pytest.mark.parametrize("schema", [SCHEMA, None], ids=["schema", "no-schema"])
def test_a_model_without_conditioning_says_that_the_context_was_not_used(schema: ContextSchema | None) -> None:
    blind = pipeline_for("none", schema)
    plain: Any = blind({"items": ["hat"]}, top_k=9)
    answer: Any = blind({"items": ["hat"], "context": {"gender": "male"}}, top_k=9)
    assert plain["notes"] == []
    assert answer["notes"] == ["The context was not used: this model was trained with conditioning='none'."]
    assert answer["slots"] == plain["slots"]


FAULTS: list[tuple[Any, type[ContextualBertError], tuple[int | str, ...], str]] = [
    ({"itms": ["hat"]}, UnknownNameError, ("itms",), "unknown key 'itms'. Did you mean 'items'"),
    ({"context": {"gendr": "male"}}, UnknownNameError, ("context", "gendr"), "'gendr'. Did you mean 'gender'"),
    ({"context": ["male"]}, QueryError, ("context",), r"\['male'\] is not a record"),
    ({"context": {"age": "old"}}, QueryError, ("context", "age"), "'old'"),
    ({"context": {"age": float("inf")}}, QueryError, ("context", "age"), "finite"),
    ({"context": {"brands": 3}}, QueryError, ("context", "brands"), ""),
    ({"items": "hat"}, QueryError, ("items",), "'hat' is not a list"),
    ({"items": ["hat", None]}, QueryError, ("items", 1), "None"),
    ({"items": [["hat"]]}, QueryError, ("items", 0), r"\['hat'\] is a list"),
    ({"items": ["hat"], "locked": ["bag"]}, QueryError, ("locked", 0), "'bag' is not in the set"),
    ({"deny": "hat"}, QueryError, ("deny",), "'hat' is not a list"),
    ({"repeats": "yes"}, QueryError, ("repeats",), "'yes' is neither true nor false"),
    ("hat", QueryError, (), "'hat' is not a query"),
]


@pytest.mark.parametrize(("query", "kind", "keys", "message"), FAULTS)
def test_a_faulty_query_is_named_by_its_row(
    pipeline: CompletionPipeline,
    query: Any,
    kind: type[ContextualBertError],
    keys: tuple[int | str, ...],
    message: str,
) -> None:
    with pytest.raises(kind, match=message) as caught:
        pipeline([*[{"items": ["hat"]}] * 300, query])
    assert caught.value.location == (300, *keys)


@pytest.mark.parametrize("settings", [{"top_k": 0}, {"batch_size": 0}, {"top_k": 0.0}, {"batch_size": True}])
def test_settings_that_cannot_work(pipeline: CompletionPipeline, settings: dict[str, int]) -> None:
    with pytest.raises(ConfigurationError, match="Give a whole number, 1 or more"):
        pipeline([{}], **settings)


@pytest.mark.parametrize("queries", ["hat", 3, None])
def test_what_is_no_query_at_all(pipeline: CompletionPipeline, queries: Any) -> None:
    with pytest.raises(DataError, match="neither a query nor a list"):
        pipeline(queries)


@pytest.fixture
def short_names() -> Iterator[None]:
    @constraint
    def shorter_than(asked: ConstraintInput, value: int) -> np.ndarray:
        return asked.among([name for name in asked.vocabulary.values if len(name) < value])

    yield
    del CONSTRAINTS["shorter_than"]


def test_a_constraint_is_one_function(pipeline: CompletionPipeline, short_names: None) -> None:
    found = candidates(pipeline({"items": ["hat"], "shorter_than": 4, "deny": ["17"]}, top_k=9))
    assert found == {"bag": pytest.approx(1)}


def test_the_value_of_a_constraint_is_checked_by_its_annotation(
    pipeline: CompletionPipeline, short_names: None
) -> None:
    with pytest.raises(QueryError, match=r"query 1, shorter_than: 'x' is not allowed. Give a whole number"):
        pipeline({"items": ["hat"], "shorter_than": "x"})


def test_a_constraint_that_is_not_registered_is_an_unknown_key(pipeline: CompletionPipeline) -> None:
    with pytest.raises(UnknownNameError, match="shorter_than"):
        pipeline({"items": ["hat"], "shorter_than": 4})


@pytest.fixture
def directory(pipeline: CompletionPipeline, tmp_path: Path) -> Path:
    pipeline.model.save_pretrained(tmp_path)
    pipeline.processor.save_pretrained(tmp_path)
    return tmp_path


def test_a_run_directory_is_all_that_is_needed(pipeline: CompletionPipeline, directory: Path) -> None:
    queries = [{"items": ["hat"], "context": {"gender": "male", "age": 3}}, {"items": ["bag", "kilt"]}]
    assert CompletionPipeline.from_pretrained(directory)(queries) == pipeline(queries)
    assert CompletionPipeline.from_pretrained(directory, device="cpu")(queries) == pipeline(queries)


@pytest.mark.parametrize("name", ["config.json", "model.safetensors", "processor_config.json", "tokenizer.json"])
def test_an_incomplete_directory(directory: Path, name: str) -> None:
    (directory / name).unlink()
    with pytest.raises(RunDirectoryError, match=f"no complete run directory: {name} missing"):
        CompletionPipeline.from_pretrained(directory)


@pytest.mark.parametrize("name", ["config.json", "model.safetensors", "processor_config.json", "tokenizer.json"])
def test_a_damaged_directory(directory: Path, name: str) -> None:
    content = (directory / name).read_bytes()
    (directory / name).write_bytes(content[: len(content) // 2])
    with pytest.raises(RunDirectoryError, match="cannot be loaded"):
        CompletionPipeline.from_pretrained(directory)


def test_no_directory(tmp_path: Path) -> None:
    with pytest.raises(RunDirectoryError, match=r"nowhere is no complete run directory"):
        CompletionPipeline.from_pretrained(tmp_path / "nowhere")


def test_a_directory_of_another_version(directory: Path) -> None:
    config = json.loads((directory / "config.json").read_text())
    (directory / "config.json").write_text(json.dumps({**config, "conditioning": "telepathy"}))
    with pytest.raises(RunDirectoryError, match="telepathy"):
        CompletionPipeline.from_pretrained(directory)


def test_a_model_and_a_processor_that_do_not_belong_together(
    pipeline: CompletionPipeline, directory: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    fewer = ContextualBertProcessor.from_items(ITEMS[:-1], SCHEMA)
    with pytest.raises(ConfigurationError, match="processor knows 8 items and the model 9"):
        CompletionPipeline(pipeline.model, fewer)
    schema = ContextSchema(features=(*SCHEMA.features[:2], MultiCategorical(name="brands", values=("acme",))))
    other = tmp_path_factory.mktemp("other")
    ContextualBertProcessor.from_items(ITEMS, schema).save_pretrained(other)
    shutil.copy(other / "processor_config.json", directory)
    with pytest.raises(ConfigurationError, match="model and the schema disagree on: brands"):
        CompletionPipeline.from_pretrained(directory)
    with pytest.raises(ConfigurationError, match="disagree on: age, brands, gender"):
        CompletionPipeline(pipeline.model, ContextualBertProcessor.from_items(ITEMS))


def saved_run(folder: Path, pipeline: CompletionPipeline, *, separator: str = ";", largest: int | None = 3) -> Path:
    pipeline.model.save_pretrained(folder)
    pipeline.processor.save_pretrained(folder)
    recipe = {"recipe": {"task": {"policy": {"separator": separator}}}, "resolved": {"largest_set": largest}}
    (folder / "recipe.json").write_text(json.dumps(recipe))
    return folder


def test_a_set_unlike_those_of_training_is_said(pipeline: CompletionPipeline, tmp_path: Path) -> None:
    trained = CompletionPipeline.from_pretrained(saved_run(tmp_path, pipeline))
    assert (trained.sets.separator, trained.sets.largest) == (";", 3)
    assert trained({"items": ["coat", "hat", "[MASK]"]})["notes"] == []
    (note,) = trained({"items": ["coat", "hat", "bag", "[MASK]"]})["notes"]
    assert note == "The set has 4 items, and no set of training had more than 3."
    assert note in trained.complete_jointly({"items": ["coat", "hat", "bag", "[MASK]"]})["notes"]
    notes = trained({"items": ["kilt;sari", "[MASK]"]})["notes"]
    assert notes == [
        "The model knows none of the items of the set, only how many they are.",
        "'kilt;sari' was read as one item, which holds the separator ';'.",
    ]


@pytest.mark.parametrize(
    "content", ["null", "[]", "{", '{"recipe": []}', '{"recipe": {"task": {"policy": {"separator": 3}}}}']
)
def test_a_run_that_does_not_say_how_it_read_sets(pipeline: CompletionPipeline, tmp_path: Path, content: str) -> None:
    saved_run(tmp_path, pipeline)
    (tmp_path / "recipe.json").write_text(content)
    assert CompletionPipeline.from_pretrained(tmp_path).sets == TrainedSets(",", None)


@pytest.mark.parametrize(
    ("items", "separator"),
    [
        (["coat;hat"], ";"),
        (["coat; hat", "bag"], ";"),
        (["coat|hat"], "|"),
        (["coat,kilt,[MASK]"], ","),
        (["coat\that"], "\t"),
        (["coat hat"], " "),
    ],
)
def test_several_items_in_one_text_are_refused(pipeline: CompletionPipeline, items: list[str], separator: str) -> None:
    with pytest.raises(DataError, match=rf"query 2, items\[\d\]: .* is one item here.*{re.escape(repr(separator))}"):
        pipeline([{"items": ["coat"]}, {"items": items}])
    with pytest.raises(DataError, match="is one item here"):
        pipeline.complete_jointly({"items": [*items, "[MASK]"]})


def test_an_unknown_item_may_hold_a_separator(pipeline: CompletionPipeline) -> None:
    answer: Any = pipeline({"items": ["coat", "kilt, red", "coat hanger"]})
    assert answer["unknown_items"] == ["kilt, red", "coat hanger"]
    assert answer["notes"] == ["'kilt, red' was read as one item, which holds the separator ','."]


@pytest.mark.parametrize("items", [None, float("nan"), 3, "coat", {"coat": 1}, ["coat", None]])
def test_a_set_that_is_missing_is_refused_by_its_row(pipeline: CompletionPipeline, items: Any) -> None:
    with pytest.raises(DataError, match="query 2, items"):
        pipeline([{"items": ["coat"]}, {"items": items}])


def test_items_and_contexts_as_numpy_and_pandas_have_them(pipeline: CompletionPipeline) -> None:
    pd: Any = pytest.importorskip("pandas")
    expected: Any = pipeline({"items": ["17", "hat"], "context": {"age": 34, "brands": ["acme"]}})
    row = pd.Series({"age": np.int64(34), "gender": float("nan"), "brands": np.array(["acme"])})
    for items in (np.array(["17", "hat"]), pd.Series([17, "hat"]), ("17", "hat"), pa.array(["17", "hat"])):
        assert pipeline({"items": items, "context": row}) == expected
        assert pipeline([{"items": items, "context": row.to_dict()}]) == [expected]
    assert pipeline({"items": np.array([17.0, 3.0])})["items"] == ["17", "3", "[MASK]"]
    assert pipeline(pd.Series([{"items": ["hat"]}])) == [pipeline({"items": ["hat"]})]


def test_a_run_of_a_baseline_says_that_it_has_no_model(tmp_path: Path) -> None:
    (tmp_path / "metrics.json").write_text("{}")
    with pytest.raises(RunDirectoryError, match=r"is the run of a baseline, of which .* no model"):
        CompletionPipeline.from_pretrained(tmp_path)


@pytest.mark.parametrize("item", ["MASK", "[mask]", "<mask>", "[Mask]", '"[MASK]"]', "hat.[MASK]"])
def test_a_blank_in_another_spelling_is_refused(item: str, pipeline: CompletionPipeline) -> None:
    with pytest.raises(DataError, match=r"is no item that the model knows, and no \[MASK\]. Write \[MASK\] by itself"):
        pipeline({"items": ["coat", item]})


@pytest.mark.parametrize("item", ["coat\n[MASK]", "coat\r\nhat", "new\n[MASK]"])
def test_a_line_break_between_items_is_refused(item: str, pipeline: CompletionPipeline) -> None:
    with pytest.raises(DataError, match="is one item here, and its parts"):
        pipeline({"items": [item]})


def test_an_unknown_item_that_speaks_of_masks_is_an_item(pipeline: CompletionPipeline) -> None:
    assert pipeline({"items": ["face-mask", "[MASK]"]})["slots"]
