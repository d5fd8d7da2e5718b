"""Whole sets through the commands' way: trained, scored, asked, exported; the history is what is learned."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet
import pytest
import torch

from contextual_bert import CompletionPipeline, explain
from contextual_bert.errors import ConfigurationError, SchemaError
from contextual_bert.runs import evaluate_run, inspect_table, prepare, run
from contextual_bert.runs.next_table import history_item_lines, item_lines
from contextual_bert.runs.run_directory import load_run
from contextual_bert.training import Recipe, SetCompletion
from contextual_bert_cli.recipes import use_of

NUM_ITEMS = 40
SIZES = {"num_hidden_layers": 1, "hidden_size": 32, "intermediate_size": 32, "num_attention_heads": 4}


def shoppers(path: Path, count: int = 500) -> Path:
    """People who take two of their four favourites each time, and anything else."""
    rng = np.random.default_rng(0)
    rows: list[dict[str, Any]] = []
    for number in range(count):
        favourites = rng.choice(NUM_ITEMS, 4, replace=False)

        def basket(favourites: Any = favourites) -> list[str]:
            return [f"p{item}" for item in {*rng.choice(favourites, 2).tolist(), int(rng.integers(NUM_ITEMS))}]

        history = [basket() for _ in range(int(rng.integers(0, 6)))]
        rows.append({"customer": f"c{number}", "sex": "fm"[number % 2], "history": history, "items": basket()})
    # An item that only a history has, in ten rows of the training part and more.
    for row in rows[::3]:
        row["history"] = [["old-1"], *row["history"]]
    parquet.write_table(pa.Table.from_pylist(rows), path)
    return path


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("whole-sets")
    recipe = Recipe(
        data=str(shoppers(folder / "sets.parquet")),
        task=SetCompletion(items="items", hide="set"),
        customer="customer",
        model=SIZES,
        training={"num_train_epochs": 6, "field_dropout": 0.1, "context_dropout": 0.1},
    )
    run(recipe, folder / "run", is_quiet=True)
    return folder / "run"


def test_inspect_finds_the_history(trained: Path) -> None:
    recipe = Recipe(data=str(trained.parent / "sets.parquet"), task=SetCompletion(items="items"), customer="customer")
    found = inspect_table(recipe)
    assert found.schema is not None
    assert {each.name: each.kind for each in found.schema.features}["history"] == "history"
    assert not any("leak" in fault for fault in found.faults)


def test_what_was_had_before_is_proposed_again(trained: Path) -> None:
    pipeline = CompletionPipeline.from_pretrained(trained)
    items = ("p3", "p17")
    before = [[items[0], items[1]], [items[0]], [items[0], "p5"]]
    with_history, without = (
        pipeline({"items": ["[MASK]"], "context": {"sex": "f", "history": history}}, top_k=NUM_ITEMS + 1)
        for history in (before, [])
    )
    ranks = [
        {each["item"]: each["probability"] for each in answer["slots"][0]["candidates"]}
        for answer in (with_history, without)
    ]
    assert next(iter(ranks[0])) == "p3"
    assert all(ranks[0][item] > 2 * ranks[1][item] for item in items)
    assert sum(ranks[0].values()) == pytest.approx(1, abs=1e-4)


def test_an_explanation_says_what_was_had_before_and_what_is_unknown(trained: Path) -> None:
    pipeline = CompletionPipeline.from_pretrained(trained)
    found = explain(pipeline, {"items": ["[MASK]"], "context": {"history": [["p3"], ["p3", "tent"]]}}, item="p3")
    (field,) = found.fields
    assert (field.field, field.value) == ("history", "p3 in 2 of 2 baskets, the last one") and field.log_odds > 0
    assert "Unknown values of history, treated as unknown: tent." in found.notes
    (nothing,) = explain(pipeline, {"items": ["[MASK]"], "context": {"history": "[]"}}).fields
    assert nothing.value == "nothing before"


def test_the_next_command_asks_for_a_whole_set(trained: Path) -> None:
    words = use_of(Recipe.load(trained), trained)
    assert words[words.index("--set") + 1] == "[MASK]"
    assert json.loads(words[words.index("--context") + 1])["history"] == [["old-1"]]


def test_an_item_that_only_histories_have_is_known(trained: Path) -> None:
    assert "old-1" in CompletionPipeline.from_pretrained(trained).processor.items


def test_each_item_of_a_set_is_scored_and_again_the_same(trained: Path) -> None:
    scores = load_run(trained, name="run").scores
    test = json.loads((trained / "metrics.json").read_text())["test"]["metrics"]
    again = evaluate_run(trained, part="test")
    assert again.scores.log_probability == pytest.approx(scores.log_probability, abs=1e-5)
    sets = parquet.read_table(trained.parent / "sets.parquet")["items"].to_pylist()
    counts = {
        int(row): int(number) for row, number in zip(*np.unique(scores.example_id, return_counts=True), strict=True)
    }
    assert counts == {row: len(sets[row]) for row in counts}
    assert test["cross_entropy_nats"]["value"] == pytest.approx(-scores.log_probability.mean(), abs=1e-6)
    # Two of four favourites come again: far better than by chance, 1 / 41.
    assert -scores.log_probability.mean() < 0.97 * np.log(41)


def test_baskets_of_histories_are_for_hidden_sets() -> None:
    with pytest.raises(ConfigurationError, match="hide"):
        SetCompletion(items="items", history_baskets="any")


def test_a_history_that_holds_the_set_is_a_leak(tmp_path: Path) -> None:
    table = parquet.read_table(shoppers(tmp_path / "sets.parquet"))
    rows = table.to_pylist()
    for row in rows:
        row["history"] = [*row["history"], row["items"]]
    parquet.write_table(pa.Table.from_pylist(rows), tmp_path / "leaking.parquet")
    recipe = Recipe(data=str(tmp_path / "leaking.parquet"), task=SetCompletion(items="items"), customer="customer")
    found = inspect_table(recipe)
    assert any("newest basket of the history 'history' holds the whole set" in fault for fault in found.faults)
    assert found.schema is not None and "history" not in found.schema.names


@pytest.mark.parametrize("setting", ["masks_per_set", "one_mask_epochs"])
def test_hidden_sets_have_no_number_of_masks(setting: str) -> None:
    with pytest.raises(ConfigurationError, match=setting):
        Recipe(data="sets.parquet", task=SetCompletion(items="items", hide="set"), training={setting: 3})


@pytest.mark.parametrize("conditioning", ["none", "global_state_update"])
def test_baskets_of_histories_need_a_history(tmp_path: Path, conditioning: str) -> None:
    table = parquet.read_table(shoppers(tmp_path / "sets.parquet", count=100)).drop_columns(["history"])
    parquet.write_table(table, tmp_path / "plain.parquet")
    recipe = Recipe(
        data=str(tmp_path / "plain.parquet"),
        task=SetCompletion(items="items", hide="set", history_baskets="past"),
        conditioning=conditioning,
        model=SIZES,
    )
    with pytest.raises(ConfigurationError, match="baskets of one history"):
        run(recipe, tmp_path / "run", is_quiet=True)


def test_the_next_command_shows_no_item_of_a_sensitive_history(trained: Path) -> None:
    recipe = Recipe.load(trained)
    assert recipe.schema is not None
    features = [{**each, "sensitive": each["kind"] == "history"} for each in recipe.schema["features"]]
    hidden = replace(recipe, schema={**recipe.schema, "features": features})
    assert "old-1" not in " ".join(use_of(hidden, trained))
    shown = replace(hidden, task=replace(hidden.set_task, hide="items"))
    assert "old-1" not in " ".join(use_of(shown, trained))


def test_an_item_that_histories_tell_of_is_not_retired_and_keeps_its_vector(trained: Path, tmp_path: Path) -> None:
    rows = parquet.read_table(trained.parent / "sets.parquet").to_pylist()
    rows = [{**row, "items": [each for each in row["items"] if each != "p3"] or ["p4"]} for row in rows]
    rows = [{**row, "items": [*row["items"], "new"]} if number % 2 else row for number, row in enumerate(rows)]
    for row in rows:
        row["history"] = [[item for item in basket if item != "p5"] for basket in row["history"]]
        row["items"] = [item for item in row["items"] if item != "p5"] or ["p4"]
    parquet.write_table(pa.Table.from_pylist(rows), tmp_path / "next.parquet")
    task = SetCompletion(items="items", hide="set", init_from=str(trained), retire_missing_items=True)
    recipe = Recipe(data=str(tmp_path / "next.parquet"), task=task, customer="customer")
    ready = prepare(recipe)
    model = ready.build_model(recipe)
    before, items = CompletionPipeline.from_pretrained(trained), ready.processor.items
    assert "p5" not in items and "new" in items
    old, own = (each.get_input_embeddings().weight for each in (before.model, model))
    for item in ("p3", "old-1", "p4"):
        assert torch.equal(own[items.id_of(item)], old[before.processor.items.id_of(item)])


def test_missing_items_that_a_sensitive_history_may_have_had_are_not_named(trained: Path) -> None:
    known = CompletionPipeline.from_pretrained(trained).processor
    lines = item_lines(known, pa.array(["p4"]), ["old-1"], run="run", file="t.parquet", are_withheld=True)
    assert "1 of 41 items" in "".join(map(str, lines)) and "old-1" not in "".join(map(str, lines))


def test_new_items_of_sets_and_of_histories_are_counted_apart(trained: Path, tmp_path: Path) -> None:
    rows = parquet.read_table(trained.parent / "sets.parquet").to_pylist()
    for number, row in enumerate(rows):
        row["items"] = [*row["items"], "new"] if number % 2 else row["items"]
        row["history"] = [["new", "attic-1", *(["attic-2"] if number % 3 else [])], *row["history"]]
    parquet.write_table(pa.Table.from_pylist(rows), tmp_path / "next.parquet")
    task = SetCompletion(items="items", hide="set", init_from=str(trained))
    ready = prepare(Recipe(data=str(tmp_path / "next.parquet"), task=task, customer="customer"))
    assert {"new", "attic-1", "attic-2"} <= {*ready.processor.items.values}
    said = "\n".join(map(str, ready.remarks))
    assert f"1 item of the sets is new to {trained}, appended to its vocabulary: new (" in said
    assert f"2 items of histories alone are new to {trained}, too, appended to its vocabulary: attic-1, attic-2" in said
    known = CompletionPipeline.from_pretrained(trained).processor
    (hidden,) = history_item_lines(known, ["attic-1"], pa.array(["p4"]), run="run", are_withheld=True)
    assert hidden.startswith("1 item of histories alone is new to run") and "attic" not in hidden


def test_baskets_are_drawn_from_one_history_alone(tmp_path: Path) -> None:
    table = parquet.read_table(shoppers(tmp_path / "sets.parquet"))
    parquet.write_table(table.append_column("seen", table["history"]), tmp_path / "two.parquet")
    for asked, is_refused in ((None, False), ("past", True)):
        task = SetCompletion(items="items", hide="set", history_baskets=asked)
        recipe = Recipe(data=str(tmp_path / "two.parquet"), task=task, customer="customer", model=SIZES)
        ready: Any = prepare(recipe)
        if is_refused:
            with pytest.raises(ConfigurationError, match="one history, and 2 columns"):
                ready.build_model(recipe)
        else:
            assert ready.num_learned_rows(recipe) == len(ready.datasets["train"])


@pytest.mark.parametrize("hide", ["items", "set"])
@pytest.mark.parametrize("column", ["history", "sex"])
def test_a_column_of_a_schema_that_the_table_lacks_is_named(tmp_path: Path, column: str, hide: Any) -> None:
    whole = shoppers(tmp_path / "sets.parquet", count=100)
    schema = inspect_table(Recipe(data=str(whole), task=SetCompletion(items="items"), customer="customer")).schema
    assert schema is not None and set(schema.names) == {"history", "sex"}
    parquet.write_table(parquet.read_table(whole).drop_columns([column]), tmp_path / "plain.parquet")
    recipe = Recipe(
        data=str(tmp_path / "plain.parquet"),
        task=SetCompletion(items="items", hide=hide),
        schema=schema.to_dict(),
        customer="customer",
        model=SIZES,
        training={"num_train_epochs": 1},
    )
    with pytest.raises(SchemaError, match=f"lacks the context column '{column}'"):
        run(recipe, tmp_path / "run", is_quiet=True)
    assert not (tmp_path / "run").exists()
    silenced = schema.with_silenced([column]).to_dict()
    run(replace(recipe, schema=silenced), tmp_path / "without", is_quiet=True)
    assert (tmp_path / "without" / "model.safetensors").exists()
