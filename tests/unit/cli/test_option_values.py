"""``--where``: every sign, with and without blanks, and what is none."""

from typing import Any

import pytest

from contextual_bert.errors import ConfigurationError, UnknownNameError
from contextual_bert.places import QueryPlace
from contextual_bert_cli.option_values import amount_of, condition_of
from contextual_bert_cli.records import at_options

SIGNS: list[tuple[str, dict[str, Any]]] = [
    ("stock>0", {"above": 0.0}),
    ("stock<5", {"below": 5.0}),
    ("stock>=0.5", {"at_least": 0.5}),
    ("stock<=5", {"at_most": 5.0}),
    ("stock>-1", {"above": -1.0}),
    ("stock=5", {"in": ["5"]}),
    ("stock==5", {"in": ["5"]}),
    ("stock!=5|6", {"not_in": ["5", "6"]}),
    ("stock>2016-03-05", {"above": "2016-03-05"}),
    ("stock<=2016-03-05 10:00", {"at_most": "2016-03-05 10:00"}),
    ("stock>=M", {"at_least": "M"}),
    ("stock in a, b", {"in": ["a", "b"]}),
    ("stock in a|b", {"in": ["a", "b"]}),
    ("stock IN [a,b]", {"in": ["a", "b"]}),
    ("stock not in (a, b)", {"not_in": ["a", "b"]}),
    ("stock='new in'", {"in": ["new in"]}),
    ('stock=15"', {"in": ['15"']}),
]


@pytest.mark.parametrize(("text", "expected"), SIGNS)
def test_every_sign_is_a_test(text: str, expected: dict[str, Any]) -> None:
    assert condition_of(text) == {"attribute": "stock", **expected}
    assert condition_of(f" 1: {text} ") == {"attribute": "stock", **expected, "blank": 1}
    for sign in ("<=", ">=", "==", "!=", "<", ">", "="):
        if sign in text:
            assert condition_of(text.replace(sign, f"  {sign} ")) == {"attribute": "stock", **expected}
            break


@pytest.mark.parametrize(
    "text",
    ["stock", "stock>", ">0", "stock=<5", "stock=>5", "stock<>5", "stock===5", "stock = ", "", "in", "stock in "],
)
def test_what_is_no_condition(text: str) -> None:
    with pytest.raises(ConfigurationError, match=r"is no condition\. Give 'category=coat|jacket'"):
        condition_of(text)


@pytest.mark.parametrize(
    ("text", "said"), [("price<=cheap", "'cheap', which is no number"), ("stock=a||b", "names an empty value")]
)
def test_a_faulty_value(text: str, said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        condition_of(text)


@pytest.mark.parametrize(
    ("typed", "decimal", "amount"),
    [("80", None, 80.0), ("70.46", None, 70.46), ("70,46", ",", 70.46), ("1.200,50", ",", 1200.5)],
)
def test_an_amount_is_read_by_its_decimal_mark(typed: str, decimal: str | None, amount: float) -> None:
    assert amount_of(typed, option="--max-price", decimal=decimal) == amount


@pytest.mark.parametrize(
    ("typed", "decimal", "advice"),
    [
        ("70,46", None, "--decimal ','"),
        ("1_000", None, "70.46"),
        ("٣", None, "70.46"),
        ("nan", None, "70.46"),
        ("x", ",", "70,46"),
    ],
)
def test_an_amount_that_is_no_number_is_refused(typed: str, decimal: str | None, advice: str) -> None:
    with pytest.raises(ConfigurationError, match="is no number") as failure:
        amount_of(typed, option="--max-price", decimal=decimal)
    assert advice in failure.value.fix


def test_a_condition_that_a_catalogue_cannot_answer_is_named_as_it_was_typed() -> None:
    texts = ["price<=80", "stok>0"]
    fault = UnknownNameError("the catalogue has no attribute 'stok'", place=QueryPlace((0, "where", 1, "attribute")))
    named = at_options({"where": "--where"}, given={"where": texts})
    with pytest.raises(UnknownNameError, match=r"^--where 'stok>0': the catalogue"), named:
        raise fault
