"""The queries of options and of lines: sets as names with a separator between them or a JSON list, and constraints."""

from pathlib import Path
from typing import Any

import pytest

from contextual_bert.errors import ConfigurationError, QueryError
from contextual_bert_cli.asked_queries import ITEM, SET, Subject, asked_queries, items_of

NOTHING: dict[str, Any] = {
    "queries": None, "context": None, "decimal": None, "allow": None, "deny": None, "owned": None, "in_stock": False,
    "where": None, "max_price": None,
}  # fmt: skip


@pytest.mark.parametrize("subject", [SET, ITEM])
def test_the_options_make_up_one_query(subject: Subject) -> None:
    choices = {**NOTHING, "context": '{"age": 34}', "deny": ["a;b"], "max_price": "80", "where": ["price<=3"]}
    found = asked_queries(choices, subject, {subject.key: "x"}, everywhere={"guidance": 2.0}, separator=";")
    where = [{"attribute": "price", "at_most": 3.0}]
    expected = {"deny": ["a", "b"], "max_price": 80.0, "where": where, "guidance": 2.0, "context": {"age": 34}}
    assert found.queries == [{subject.key: "x", **expected}]
    with pytest.raises(QueryError) as caught, found.placing:
        raise QueryError("is wrong", location=(0, subject.key))
    assert str(caught.value).startswith(f"{subject.option}: is wrong")


@pytest.mark.parametrize("subject", [SET, ITEM])
def test_lines_are_queries_that_say_the_rest_themselves(subject: Subject, tmp_path: Path) -> None:
    (tmp_path / "lines.jsonl").write_text('{"deny": "a;b", "guidance": 3}\n\n{"owned": ["c"]}\n', encoding="utf-8")
    choices = {**NOTHING, "queries": tmp_path / "lines.jsonl"}
    found = asked_queries(choices, subject, {}, everywhere={"guidance": 2.0}, separator=";")
    assert found.queries == [{"deny": ["a", "b"], "guidance": 3}, {"owned": ["c"], "guidance": 2.0}]
    with pytest.raises(QueryError, match=r"lines\.jsonl, line 3"), found.placing:
        raise QueryError("is wrong", location=(1, "owned"))
    for option, value in {"context": "{}", "deny": ["a"], "max_price": "3"}.items():
        with pytest.raises(ConfigurationError, match=f"belongs to {subject.option}.*each line says its own {option}"):
            asked_queries({**choices, option: value}, subject, {}, everywhere={}, separator=";")


@pytest.mark.parametrize("text", ["i1,[MASK]", " i1 , [MASK] ", '["i1", "[MASK]"]', ' [ "i1" , " [MASK] " ]'])
def test_a_set_is_names_with_a_separator_or_a_json_list(text: str) -> None:
    assert items_of(text, ",") == ["i1", "[MASK]"]


def test_names_in_a_json_list_may_hold_the_separator_and_a_mask_may_come_first() -> None:
    assert items_of('["a,b", "[MASK]"]', ",") == ["a,b", "[MASK]"]
    assert items_of("[MASK],i1", ",") == ["[MASK]", "i1"]
    assert items_of("  ", ",") == []


@pytest.mark.parametrize("text", ["['i1', '[MASK]']", '["i1", [MASK]]', '["i1", 2]', '["i1", ""]', '["i1"], "i2"'])
def test_what_looks_like_a_list_and_is_none_is_refused(text: str) -> None:
    with pytest.raises(ConfigurationError, match="looks like a list, and is no JSON list of names"):
        items_of(text, ",")
