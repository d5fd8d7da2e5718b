"""Errors carry their parts, and one function renders them."""

import copy
import re
from multiprocessing.reduction import ForkingPickler
from pathlib import Path
from typing import Any

import pytest

import contextual_bert
from contextual_bert.errors import (
    NAME,
    CheckpointError,
    ConfigurationError,
    ContextualBertError,
    DataError,
    Message,
    NonFiniteError,
    QueryError,
    RunDirectoryError,
    SchemaError,
    UnknownNameError,
    did_you_mean,
    in_python,
    joined,
    rendered,
)
from contextual_bert.places import QueryPlace, SettingPlace, TablePlace

SOURCE = Path(contextual_bert.__file__).parents[1]
KINDS = {
    CheckpointError: OSError,
    ConfigurationError: ValueError,
    DataError: ValueError,
    NonFiniteError: FloatingPointError,
    QueryError: ValueError,
    RunDirectoryError: OSError,
    SchemaError: ValueError,
    UnknownNameError: LookupError,
}


def sent(thing: Any) -> Any:
    """Return what arrives in another process."""
    return ForkingPickler.loads(ForkingPickler.dumps(thing))


def option(name: str, value: object) -> str:
    return f"--{name}" if value in (NAME, ...) else f"--{name} {value}"


def test_a_setting_without_a_value_stays_without_one_elsewhere() -> None:
    error = ConfigurationError(Message("needs {time}", time=NAME), setting="split_by")
    for same in (sent(error), copy.deepcopy(error)):
        assert same.value is NAME
        assert str(same) == str(error) == "split_by needs time"
        assert rendered(same, option) == "--split_by needs --time"


@pytest.mark.parametrize(("kind", "builtin"), KINDS.items(), ids=lambda each: each.__name__)
def test_every_error_keeps_its_parts(kind: type[ContextualBertError], builtin: type[Exception]) -> None:
    error = kind("is odd", allowed="Even numbers are allowed.", fix="Give 2.", value=3).at(TablePlace("a.csv", 0, "x"))
    assert isinstance(error, builtin)
    for same in (error, copy.copy(error), sent(error)):
        assert (same.problem, same.allowed, same.fix, same.value) == (error.problem, error.allowed, "Give 2.", 3)
        assert same.location == ("a.csv", 0, "x")
        text = "a.csv, row 1, column 'x': is odd. Even numbers are allowed. Give 2. Rows count from 1, without the "
        assert str(same) == f"{text}header."


def test_a_setting_is_spelled_by_the_reader() -> None:
    error = ConfigurationError(
        Message("needs training without a label, and {label} is set", label="l"),
        setting="masking",
        value="word",
        fix=Message("Leave out {masking} or {label}.", masking=NAME, label=NAME),
    )
    assert error.location == ("masking",)
    assert str(error) == (
        "masking='word' needs training without a label, and label='l' is set. Leave out masking or label."
    )
    assert rendered(error, option) == (
        "--masking word needs training without a label, and --label l is set. Leave out --masking or --label."
    )


def test_a_value_that_looks_like_a_setting_is_not_spelled_again() -> None:
    text = Message("{text} and {label}", text="{label}", label="stars")
    assert text == "text='{label}' and label='stars'"
    assert text.spelled(option) == "--text {label} and --label stars"
    assert Message("{other} stays, {label} does not", label=...) == "{other} stays, label=... does not"
    assert sent(text).spelled(option) == text.spelled(option)


def test_a_query_is_found_step_by_step() -> None:
    inner = QueryError("'x' is no limit", location=("at_most",), value="x")
    assert inner.within("where", 0).within(2).location == (2, "where", 0, "at_most")
    assert str(inner.within(2, "where", 0)) == "query 3, where[0].at_most: 'x' is no limit"
    assert inner.location == ("at_most",)
    unknown = UnknownNameError("unknown key 'itms'", place=QueryPlace(("itms",)), allowed="Known: items.")
    assert isinstance(unknown.within(0), UnknownNameError)
    assert str(unknown.within(0)) == "query 1, itms: unknown key 'itms'. Known: items."


def test_a_file_is_added_once() -> None:
    error = SchemaError("the column 'age' is missing")
    assert error.in_file("a.csv").in_file("b.csv").location == ("a.csv",)
    assert str(error.in_file("a.csv")) == "a.csv: the column 'age' is missing"
    assert str(error.in_file(None)) == "the column 'age' is missing"
    assert ConfigurationError("is odd", setting="x", value=1).in_file("a.csv").location == ("x",)
    assert DataError("odd", row=3).moved(file="a.csv", row=7).location == ("a.csv", 7)
    assert DataError("odd").about("'price'").problem == "'price' odd"


def test_other_words_for_the_place() -> None:
    error = QueryError("'x' is no number", location=(0, "max_price"), fix="Give a number.")
    assert rendered(error, place="--max-price: ") == "--max-price: 'x' is no number. Give a number."
    assert in_python("time", ...) == "time=..."
    assert SettingPlace("time").text("day", in_python) == "time='day' "
    assert QueryPlace(("context", 0)).row is None


def test_joined_texts_keep_their_settings() -> None:
    line = joined("Few steps. ", Message("Give {epochs}", epochs=3), ", or ", Message("{rate}", rate=NAME), ".")
    assert (line, line.spelled(option)) == (
        "Few steps. Give epochs=3, or rate.",
        "Few steps. Give --epochs 3, or --rate.",
    )
    two = joined(Message("{order}", order="a"), " or ", Message("{order}", order="b"))
    assert two.spelled(option) == "--order a or order='b'"


def test_a_list_of_names_has_one_label() -> None:
    told = did_you_mean("outfit", ["outfits"], label="In its folder")
    assert told == "Did you mean 'outfits'? In its folder: outfits."
    many = did_you_mean("?", [f"name-{each}" for each in range(80)], label="In its folder")
    assert many.startswith("In its folder: name-") and many.endswith(" and 72 more.")
    # "In its folder: Known: outfits": a label before the list, which has one of its own.
    sources = [file for top in ("contextual_bert", "contextual_bert_cli") for file in (SOURCE / top).rglob("*.py")]
    doubled = [file.name for file in sources if re.search(r": \{did_you_mean\(", file.read_text("utf-8"))]
    assert sources and not doubled
