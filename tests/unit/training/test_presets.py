"""A preset is the paper's setting, one by one; what is given beside it wins, and what contradicts it is refused."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import pytest
from transformers import BertForMaskedLM
from typer.testing import CliRunner

from contextual_bert.errors import ConfigurationError, ContextualBertError, UnknownNameError
from contextual_bert.runs.registry import as_row, check_kind
from contextual_bert.testing.heads import miniature_checkpoint
from contextual_bert.testing.miniature import drawn_anew, miniature_plain_config
from contextual_bert.training import Classification, MaskedText, Recipe, SetCompletion, Tagging, task_on_texts
from contextual_bert.training.presets import PRESETS, PresetName, get_preset, in_flags, settings_of_preset
from contextual_bert_cli.main import app
from contextual_bert_cli.recipe_options import TYPED
from contextual_bert_cli.recipes import preset_lines, recipe_of

LABELS = Classification(text="text", label="rating", checkpoint="bert")
MA_BERT = Recipe(data="reviews.csv", task=LABELS, preset="ma-bert")
OPTIONS: dict[str, Any] = {"data": "reviews.csv", "text": "text", "label": "rating", "checkpoint": "bert"}


@pytest.fixture(autouse=True)
def reviews(working_folder: Path) -> None:
    (working_folder / "reviews.csv").write_text("user,product,rating,text\na,b,1,good\n", encoding="utf-8")


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bert")
    miniature_checkpoint(drawn_anew(BertForMaskedLM(miniature_plain_config("bert"))), folder)
    return folder


def asked(**options: Any) -> Recipe:
    """The recipe of options that were all typed; a method is named by the command, as ``train`` does."""
    given = {**OPTIONS, "preset": "ma-bert", **options}
    return recipe_of({"conditioning": "global_state_update", **given, TYPED: frozenset(given)}, has_checkpoint=False)


def test_ma_bert_is_the_papers_setting() -> None:
    assert (MA_BERT.conditioning, MA_BERT.patience, MA_BERT.field_selection) == ("multi_attribute", 3, "off")
    assert (MA_BERT.min_customers, MA_BERT.hash_buckets) == (1, 0)
    assert MA_BERT.max_categories > 4_818 + 4_194  # the users and the products of Yelp-2014
    assert (MA_BERT.text_task.is_ordinal, MA_BERT.text_task.truncation) == (False, "head_tail")
    assert isinstance(MA_BERT.task, Classification) and MA_BERT.task.label_start == "random"
    assert MA_BERT.trained_weights == "all"
    assert MA_BERT.model == {
        "attribute_start": "paper",
        "attribute_width": "model",
        "attribute_act": "relu",
        "has_attribute_values": True,
        "classifier_pooling": "first",
    }
    assert MA_BERT.training == {
        "learning_rate": 2e-5,
        "new_weights_learning_rate": None,
        "context_learning_rate": None,
        "lr_scheduler_type": "linear",
        "warmup_steps": 0.1,
        "num_train_epochs": 20,
        "per_device_train_batch_size": 16,
        "weight_decay": 0.01,
        "metric_for_best_model": "accuracy",
    }
    assert get_preset("ma-bert").num_seeds == 5
    named = Recipe(data="reviews.csv", task=Classification(text="text", label="rating"), preset="ma-bert")
    assert named.text_task.checkpoint == "bert-base-uncased"
    check_kind(MA_BERT)


def test_what_it_gave_is_in_the_record() -> None:
    assert MA_BERT.preset_settings == {
        name: value for name, value in PRESETS["ma-bert"].settings.items() if name != "checkpoint"
    }
    stored = json.loads(json.dumps(MA_BERT.to_dict()))
    assert stored["preset"] == "ma-bert"
    assert stored["preset_settings"]["training"]["learning_rate"] == 2e-5
    assert Recipe.from_dict(stored) == MA_BERT
    assert MA_BERT.changed(patience=None, truncation="head").patience is None


def test_the_command_line_has_the_same() -> None:
    assert asked() == MA_BERT
    (line,) = preset_lines(asked())
    assert line.startswith("--preset ma-bert gives --truncation head_tail, --label-start random, --conditioning multi")
    assert preset_lines(Recipe(data="reviews.csv", task=LABELS)) == []


def test_what_is_typed_wins_with_the_value_of_its_default_too() -> None:
    recipe = asked(
        truncation="head",
        field_selection="auto",
        epochs=2.0,
        set=["weight_decay=0.1"],
        model=["attribute_start=ones", "num_extra_layers=1"],
        ordinal=True,
    )
    assert (recipe.text_task.truncation, recipe.field_selection, recipe.text_task.is_ordinal) == ("head", "auto", True)
    training = {**MA_BERT.training, "num_train_epochs": 2.0, "weight_decay": 0.1}
    assert recipe.training == training
    assert recipe.model == {**MA_BERT.model, "attribute_start": "ones", "num_extra_layers": 1}
    gives = recipe.preset_settings or {}
    assert not gives.keys() & {"truncation", "field_selection"}
    assert not gives["training"].keys() & {"num_train_epochs", "weight_decay"}
    assert "attribute_start" not in gives["model"]
    assert gives["patience"] == 3


def test_what_is_given_in_python_wins() -> None:
    recipe = Recipe(
        data="reviews.csv", task=LABELS, preset="ma-bert", patience=5, training={"learning_rate": 1e-4}, seed=3
    )
    assert (recipe.patience, recipe.training["learning_rate"], recipe.seed) == (5, 1e-4, 3)
    assert "patience" not in (recipe.preset_settings or {})
    assert recipe.with_seed(4).training == recipe.training


def test_a_recipe_file_names_it() -> None:
    """Each key of the file wins, with the value of its default too."""
    content: dict[str, Any] = {
        "format": MA_BERT.to_dict()["format"],
        "data": "reviews.csv",
        "task": {"kind": "classification", "text": "text", "label": "rating", "checkpoint": "bert"},
        "preset": "ma-bert",
    }
    assert Recipe.from_dict(content) == MA_BERT
    own = Recipe.from_dict({**content, "patience": None, "model": {"attribute_act": "model"}})
    assert (own.patience, own.model["attribute_act"], own.model["attribute_start"]) == (None, "model", "paper")


def test_a_schema_that_is_given_has_decided_on_the_values() -> None:
    assert not settings_of_preset("ma-bert", {"schema": {}}).keys() & {"min_customers", "max_categories"}


SETS, WORDS = SetCompletion(items="items"), MaskedText(text="text", checkpoint="bert")
TAGS = Tagging(text="words", label="tags", checkpoint="bert")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"task": SETS}, r"preset='ma-bert' learns one label for each text, and this is for sets of items. Name texts"),
        ({"task": WORDS}, "preset='ma-bert' learns one label for each text, and this is for hidden words"),
        ({"task": TAGS}, "preset='ma-bert' learns one label for each text, and this is for tags"),
        ({"conditioning": "none"}, "preset='ma-bert' is multi_attribute, and conditioning='none' is another method"),
        (
            {"task": replace(LABELS, is_from_scratch=True), "conditioning": "film"},
            "preset='ma-bert' is multi_attribute",
        ),
        ({"preset": "mabert"}, "preset='mabert' is unknown. Did you mean 'ma-bert'"),
        ({"preset": None, "preset_settings": {}}, "preset_settings says what a preset gave, and preset=None names"),
    ],
)
def test_what_contradicts_it_is_refused(changes: dict[str, Any], message: str) -> None:
    arguments: dict[str, Any] = {"data": "reviews.csv", "task": LABELS, "preset": "ma-bert", **changes}
    with pytest.raises(ContextualBertError, match=message):
        Recipe(**arguments)


def test_what_it_gave_is_not_blamed_on_who_gave_nothing() -> None:
    with pytest.raises(
        ConfigurationError, match=r"preset='ma-bert' chooses an epoch .*, or leave preset out"
    ) as caught:
        Recipe(data="reviews.csv", task=LABELS, preset="ma-bert", validation=0)
    assert caught.value.location == ("preset",)
    with pytest.raises(ConfigurationError, match=r"patience=5 chooses an epoch .*, or leave patience out"):
        Recipe(data="reviews.csv", task=LABELS, preset="ma-bert", validation=0, patience=5)


def test_pairs_are_not_cut_in_the_middle() -> None:
    pairs = replace(LABELS, pair="product")
    message = r"truncation='head_tail' is for single texts, and pair='product' names second.*Give truncation='head'"
    with pytest.raises(ConfigurationError, match=message):
        Recipe(data="reviews.csv", task=pairs, preset="ma-bert")
    recipe = asked(pair="product", truncation="head")
    assert (recipe.text_task.pair, recipe.text_task.truncation) == ("product", "head")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"label": "rating", "label_start": "share"}, "label_start='share' is unknown. Did you mean 'shares'"),
        (
            {"label_start": "random"},
            "label_start='random' is for labels, and none is named. Name the column with label",
        ),
    ],
)
def test_where_a_layer_of_labels_starts_is_checked(given: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        task_on_texts(text="text", checkpoint="bert", **given)


def test_a_table_of_tags_contradicts_it() -> None:
    with pytest.raises(ConfigurationError, match="learns one label for each text, and this is for tags of words"):
        MA_BERT.on_data(schema=None, task=TAGS)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--preset", "unknown"), "--preset unknown is unknown. Known: ma-bert."),
        (("reviews.csv", "--items", "text", "--preset", "ma-bert"), "--preset ma-bert learns one label for each text"),
        (
            ("reviews.csv", "--text", "text", "--preset", "ma-bert"),
            "and this is for hidden words of texts. Name texts ",
        ),
    ],
)
@pytest.mark.parametrize("command", ["train", "compare"])
def test_the_command_line_refuses_it_in_one_line(command: str, words: tuple[str, ...], message: str) -> None:
    output = () if len(words) == 2 else ("--output", "new")
    result = CliRunner().invoke(app, [command, *words, *output])
    assert result.exit_code == 2
    assert message in " ".join(result.output.split())


@pytest.mark.parametrize(
    ("command", "method", "message"),
    [
        ("train", "none", "--preset ma-bert is multi_attribute, and --conditioning none is another method"),
        ("compare", "none,concat", "lacks 'multi_attribute', the method of --preset ma-bert. Name it, too"),
    ],
)
def test_another_method_is_refused(command: str, method: str, message: str) -> None:
    words = ("reviews.csv", "--text", "text", "--label", "rating", "--preset", "ma-bert", "--conditioning", method)
    result = CliRunner().invoke(app, [command, *words, "--output", "new"])
    assert result.exit_code == 2
    assert message in " ".join(result.output.split())


@pytest.mark.parametrize(
    ("words", "rows"),
    [
        ((), ["multi_attribute"] * 5),
        (("--seeds", "3"), ["multi_attribute"] * 3),  # the default of compare, typed
        (("--conditioning", "none,multi_attribute", "--seeds", "1"), ["none", "multi_attribute"]),
    ],
)
def test_a_comparison_has_the_papers_five_seeds(
    words: tuple[str, ...], rows: list[str], checkpoint: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found: list[Recipe] = []

    def stop(recipes: list[Recipe], **_: Any) -> None:
        found.extend(recipes)
        raise ConfigurationError("Enough")

    monkeypatch.setattr("contextual_bert.runs.registry.check_study", stop)
    asked = ("reviews.csv", "--text", "text", "--label", "rating", "--preset", "ma-bert", "--output", "new")
    result = CliRunner().invoke(app, ["compare", *asked, "--checkpoint", str(checkpoint), *words])
    assert "Enough" in result.output
    assert [recipe.conditioning for recipe in found] == rows
    assert {recipe.preset for recipe in found if recipe.conditioning == "multi_attribute"} == {"ma-bert"}


@pytest.mark.parametrize("command", ["train", "compare"])
def test_help_says_what_it_sets(command: str) -> None:
    text = "".join(CliRunner(env={"COLUMNS": "4000"}).invoke(app, [command, "--help"]).output.split())
    assert "".join(in_flags(PRESETS["ma-bert"].settings).split()) in text
    assert "ofcompare--seeds5" in text


def test_rows_beside_it_have_its_settings_and_not_its_name() -> None:
    row = as_row(MA_BERT, "none")
    assert (row.preset, row.preset_settings, row.model) == (None, None, {"classifier_pooling": "first"})
    assert "context_learning_rate" not in row.training
    assert (row.training["learning_rate"], row.patience) == (2e-5, 3)
    assert as_row(MA_BERT, "multi_attribute") == MA_BERT


def test_names_are_those_of_the_data() -> None:
    assert {*PRESETS} == {*get_args(PresetName)}
    with pytest.raises(UnknownNameError, match="Known: ma-bert"):
        get_preset(None)
