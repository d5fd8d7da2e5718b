"""``--set``: names with a separator between them, or a JSON list."""

import pytest

from contextual_bert.errors import ConfigurationError
from contextual_bert_cli.complete import items_of


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
