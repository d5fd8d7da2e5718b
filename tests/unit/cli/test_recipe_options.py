"""Options come from the fields of the recipe, so that library and command line cannot differ."""

import dataclasses
from typing import Annotated, Any, Literal

import pytest
import typer
from typer.testing import CliRunner

from contextual_bert.data import ReadSettings, SetPolicy
from contextual_bert.options import GROUPS, MAIN, SETS, TRAINING, Option, declared_options
from contextual_bert.training import Recipe, SetCompletion
from contextual_bert.training.tasks import TEXT_TASKS
from contextual_bert_cli.main import app
from contextual_bert_cli.recipe_options import TYPED, recipe_options, typed, values_of, with_recipe_options

# Fields that no option sets: the table is an argument, the others are for studies.
WITHOUT_OPTION = {
    Recipe: {"data", "task", "reading", "name", "is_control", "is_context_shuffled", "preset_settings", "forgotten"},
    SetCompletion: {"kind", "policy"},
    SetPolicy: {"seed", "keeps_last", "keeps_new", "cold_items", "known_items"},
    ReadSettings: set[str](),
    **{kind: {"kind"} for kind in TEXT_TASKS},
}


def options_of(command: str) -> dict[str, Any]:
    group: Any = typer.main.get_command(app)
    return {each.name: each for each in group.commands[command].params if each.param_type_name == "option"}


@pytest.mark.parametrize("settings", WITHOUT_OPTION, ids=lambda kind: kind.__name__)
def test_each_field_has_an_option(settings: type) -> None:
    names = {field.name for field in dataclasses.fields(settings)}
    assert names - declared_options(settings).keys() == WITHOUT_OPTION[settings]


@pytest.mark.parametrize(
    ("command", "lacking"),
    [("train", set[str]()), ("compare", {"init_from", "retire_missing_items"})],
)
def test_a_training_has_each_option_of_the_recipe(command: str, lacking: set[str]) -> None:
    assert recipe_options().keys() - options_of(command).keys() == lacking


@pytest.mark.parametrize("command", ["train", "compare"])
def test_the_ten_options_that_most_need_come_first(command: str) -> None:
    found = options_of(command).values()
    assert len([each for each in found if getattr(each, "rich_help_panel", None) == MAIN]) == 10
    text = CliRunner(env={"COLUMNS": "120"}).invoke(app, [command, "--help"]).stdout
    places = [text.index(f"\n{group}:\n") for group in ("Arguments", *GROUPS, "Options")]
    assert places == sorted(places)
    assert places[1] < text.index("--epochs") < places[2]


@dataclasses.dataclass
class Bag:
    """Settings as any class of the recipe has them."""

    straps: Annotated[int, Option("How many.", SETS, minimum=1)] = 2
    colour: Annotated[Literal["red", "blue"], Option("Which.", SETS, name="paint")] = "red"
    marks: Annotated[tuple[str, ...], Option("Marks, with commas.", SETS, form="texts")] = ()
    owners: Annotated[tuple[str, ...], Option("Names.", SETS)] = ()
    extras: Annotated[dict[str, Any] | None, Option("Others.", TRAINING, form="pairs")] = None
    weight: Annotated[int | Literal["any"] | None, Option("In grams.", SETS)] = None
    is_open: Annotated[bool, Option("Open.", SETS, name="open")] = False
    secret: str = ""


def test_a_declaration_becomes_an_option() -> None:
    found = declared_options(Bag)
    assert list(found) == ["straps", "colour", "marks", "owners", "extras", "weight", "is_open"]
    assert [each.form for each in found.values()] == ["value", "value", "texts", "names", "pairs", "value", "flag"]
    assert (found["colour"].flag, found["colour"].metavar, found["colour"].default) == ("--paint", "red|blue", "red")
    assert (found["straps"].kind, found["straps"].default, found["straps"].metavar) == (int, 2, None)
    assert (found["weight"].kind, found["weight"].is_number_or_word) == (str, True)


def test_what_is_typed_becomes_values() -> None:
    options = {"straps": 3, "paint": "red", "marks": ["a,b"], "owners": ["a,b", "c"], "extras": ["x=1"], "weight": "80"}
    assert values_of(Bag, options) == {
        "straps": 3,
        "marks": ("a,b",),
        "owners": ("a", "b", "c"),
        "extras": {"x": 1},
        "weight": 80,
    }


def test_zero_is_a_value_and_a_default_is_none() -> None:
    assert values_of(Recipe, {"hash_buckets": 0, "validation": 0.0, "test": 0.1, "seed": 0}) == {
        "validation": 0.0,
        "hash_buckets": 0,
    }


def test_options_are_typed_again() -> None:
    options = {
        "items": "items",
        "text": None,
        "ordinal": True,
        "exclude": ["a", "b"],
        "missing_value": ["x=9", "n,a"],
        "validation": 0.25,
        "test": 0.1,
        "min_count": 1,
        "seed": 7,
    }
    names = [name for name in recipe_options() if name != "seed"]
    assert typed(names, options) == [
        *("--items", "items", "--ordinal", "--validation", "0.25", "--exclude", "a,b"),
        *("--missing-value", "x=9", "--missing-value", "n,a"),
    ]


def test_a_command_that_asks_for_the_call_itself_gets_it() -> None:
    seen: list[Any] = []
    with_own, without = typer.Typer(), typer.Typer()

    @with_own.command()
    @with_recipe_options(only={"delimiter"})
    def asking(context: typer.Context, *, given: dict[str, Any]) -> None:
        seen.append((context, given.get(TYPED)))

    @without.command()
    @with_recipe_options(only={"delimiter"})
    def plain(*, given: dict[str, Any]) -> None:
        seen.append((None, given[TYPED]))

    for commands in (with_own, without):
        assert CliRunner().invoke(commands, ["--delimiter", ";"]).exit_code == 0
    (context, named), (_, others) = seen
    assert context.params["delimiter"] == ";"
    assert named == others == {"delimiter"}
    asking(context)
    assert seen[-1] == (context, None)  # Python calls it: nothing is typed
