"""Options become a recipe without a decision on the way."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from contextual_bert.context import Categorical, ContextSchema
from contextual_bert.data import ReadSettings
from contextual_bert.errors import ConfigurationError, rendered
from contextual_bert_cli.option_values import assigned, split_commas
from contextual_bert_cli.recipes import check_reads, example_context, reading_over, recipe_of
from contextual_bert_cli.records import read_context, read_queries
from contextual_bert_cli.serve import read_key
from contextual_bert_cli.wording import option_of


def test_files_that_an_editor_marked_as_utf_8_are_read(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("a-key-of-a-shop\n", encoding="utf-8-sig")
    assert read_key(tmp_path / "key") == "a-key-of-a-shop"
    (tmp_path / "queries.jsonl").write_text('{"items": ["coat"]}\n', encoding="utf-8-sig")
    assert read_queries(tmp_path / "queries.jsonl") == ([1], [{"items": ["coat"]}])


def test_half_a_character_is_named_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "queries.jsonl").write_text('{"items": ["coat"]}\n{"items": ["\\ud800"]}\n', encoding="utf-8")
    with pytest.raises(ConfigurationError, match=r"queries.jsonl, line 2: .*d800.* is half of a character"):
        read_queries(tmp_path / "queries.jsonl")


def test_a_name_that_comes_twice_is_refused() -> None:
    with pytest.raises(
        ConfigurationError, match=r"--context: the name 'sex' stands in one object more than once. Give it once."
    ):
        read_context('{"sex": "f", "age": 3, "sex": "m"}')
    with pytest.raises(ConfigurationError, match="the name 'a' stands in one object more than once"):
        read_context('{"nested": {"a": 1, "a": 2}}')


def test_a_checkpoint_that_is_to_be_replaced_is_not_looked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("contextual_bert.runs.text_starts.context_config", lambda _: pytest.fail("looked for"))
    options = {"data": "texts.csv", "text": "text", "checkpoint": "bert-base-uncased"}
    assert recipe_of(options, has_checkpoint=False).task.kind == "masked_text"


def test_a_comma_that_would_be_ignored_where_rows_are_grouped_is_refused() -> None:
    options = {"data": "days.csv", "items": "item", "group_by": ["order"]}
    with pytest.raises(ConfigurationError, match=r"--separator ',' is not acted on with --group-by"):
        recipe_of({**options, "separator": ","})
    assert recipe_of({**options, "separator": ";"}).set_task.policy.separator == ";"
    assert recipe_of({**options, "separator": None}).set_task.policy.separator == ","
    assert recipe_of({**options, "group_by": None, "separator": ","}).set_task.policy.separator == ","


def test_lists_take_commas_and_repetition() -> None:
    assert split_commas(["a, b", "c,"]) == ("a", "b", "c")
    assert split_commas(None) == ()


def test_values_are_read_as_json_where_they_are() -> None:
    settings = ["a=1", "b=0.5", "c=true", "d=linear", "e=[1, 2]", "weight-decay=1e-3", "f=None", "g=x=y"]
    expected = {"a": 1, "b": 0.5, "c": True, "d": "linear", "e": [1, 2], "weight_decay": 0.001, "f": None, "g": "x=y"}
    assert assigned(settings, option="--set") == expected


@pytest.mark.parametrize("settings", [["a"], ["=1"], ["a=1", "a=2"]])
def test_what_is_no_assignment_is_refused(settings: list[str]) -> None:
    with pytest.raises(ConfigurationError, match="--set"):
        assigned(settings, option="--set")


def test_every_option_reaches_the_recipe() -> None:
    options = {
        "data": "days.parquet",
        "items": "codes",
        "customer": "person",
        "drop_items": ["a,b"],
        "drop_prefixes": ["18"],
        "min_count": 20,
        "min_size": 4,
        "max_size": 8,
        "longer": "sample",
        "duplicates": "drop",
        "separator": ";",
        "epochs": 3.0,
        "batch_size": 32,
        "learning_rate": 0.1,
        "masks_per_set": 2,
        "compile": True,
        "set": ["weight_decay=0"],
        "model": ["hidden_size=64"],
        "trained_weights": None,
        "lora": None,
        "conditioning": "concat",
        "seed": 4,
        "patience": 2,
        "dtype": "bfloat16",
    }
    recipe = recipe_of(options)
    assert recipe.training == {
        "weight_decay": 0,
        "num_train_epochs": 3.0,
        "per_device_train_batch_size": 32,
        "learning_rate": 0.1,
        "masks_per_set": 2,
        "torch_compile": True,
    }
    assert recipe.model == {"hidden_size": 64}
    assert (recipe.set_task.items, recipe.customer, recipe.conditioning, recipe.seed) == (
        "codes",
        "person",
        "concat",
        4,
    )
    assert (recipe.patience, recipe.dtype) == (2, "bfloat16")
    policy = recipe.set_task.policy
    assert (policy.drop_items, policy.drop_prefixes, policy.min_count) == (("a", "b"), ("18",), 20)
    assert (policy.min_size, policy.max_size, policy.longer) == (4, 8, "sample")
    assert (policy.duplicates, policy.separator) == ("drop", ";")


def test_low_rank_changes_are_asked_for_by_name() -> None:
    texts = {"data": "days.csv", "text": "text", "label": "stars", "checkpoint": "bert"}
    recipe = recipe_of({**texts, "trained_weights": "lora", "lora": ["rank=4", "alpha=8.5"]})
    assert (recipe.trained_weights, recipe.lora) == ("lora", {"rank": 4, "alpha": 8.5})
    assert recipe_of(texts).trained_weights == "all"
    with pytest.raises(ConfigurationError, match="for instance --lora rank=4"):
        recipe_of({**texts, "trained_weights": "lora", "lora": ["rank"]})


@pytest.mark.parametrize(
    "option", [{"min_customers": 5}, {"max_categories": 3}, {"hash_buckets": 3}, {"leaks": "keep"}]
)
def test_settings_of_an_inferred_schema_are_refused_where_one_is_given(tmp_path: Path, option: dict[str, Any]) -> None:
    schema = tmp_path / "schema.json"
    ContextSchema(features=(Categorical(name="sex", values=("f", "m")),)).save(schema)
    (name,) = option
    flag = f"--{name.replace('_', '-')}"
    options = {"data": "days.csv", "items": "items", **option}
    assert recipe_of(options).schema is None
    with pytest.raises(ConfigurationError, match=f"{name}.*and --schema brings them") as raised:
        recipe_of({**options, "schema": schema})
    assert rendered(raised.value, option_of).startswith(flag)
    if name != "min_customers":  # of a run that is gone on from it says which new values are named
        with pytest.raises(ConfigurationError, match="and --init-from brings them"):
            recipe_of({**options, "init_from": "runs/may"})


def test_an_encoding_that_is_none_names_the_option() -> None:
    with pytest.raises(ConfigurationError, match="'nope'") as raised:
        recipe_of({"data": "days.csv", "items": "items", "encoding": "nope"})
    assert rendered(raised.value, option_of).startswith("--encoding nope is not known")


def test_options_of_a_file_replace_those_of_the_run_one_by_one() -> None:
    own = ReadSettings(delimiter=";", decimal=",", missing_values=("n/a",))
    nothing = {"delimiter": None, "on_bad_row": "error", "missing_value": None, "items": "goods"}
    assert reading_over(own, nothing) == own
    given = {**nothing, "encoding": "cp1252", "date_format": ["%d.%m.%Y"], "decimal": "."}
    expected = replace(own, encoding="cp1252", date_formats=("%d.%m.%Y",), decimal=".")
    assert reading_over(own, given) == expected


def test_an_option_of_a_file_needs_the_file() -> None:
    options = {"on_bad_row": "error", "decimal": ",", "catalogue": None, "data": None}
    with pytest.raises(ConfigurationError, match="--decimal says how the file of --catalogue or --data is written"):
        check_reads(options, ("catalogue", "data"))
    check_reads({**options, "catalogue": "shop.csv"}, ("catalogue", "data"))
    check_reads({**options, "decimal": None}, ("catalogue", "data"))


def test_the_context_of_the_next_command_has_what_the_run_reads() -> None:
    schema = ContextSchema(
        features=(Categorical(name="sex", values=("f", "m")), Categorical(name="day", values=("mo",)))
    )
    recipe = recipe_of({"data": "days.csv", "items": "items"})
    assert example_context(recipe.changed(schema=schema.to_dict())) == ["--context", '{"sex": "f", "day": "mo"}']
    silenced = schema.with_silenced(["sex"])
    assert example_context(recipe.changed(schema=silenced.to_dict())) == ["--context", '{"day": "mo"}']
    for name in ("none", "popularity"):
        assert example_context(recipe.changed(schema=schema.to_dict(), conditioning=name)) == []
