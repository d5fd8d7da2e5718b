"""The table of names that changed leads to names that are there."""

import importlib
import re
from pathlib import Path
from typing import Any

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "decisions" / "043-a-union-of-tasks.md"
NAMES = re.findall(r"^\|.*\| `(contextual_bert[\w.]*)` \|$", PAGE.read_text(encoding="utf-8"), flags=re.M)


def test_the_table_is_read() -> None:
    assert len(NAMES) > 15


@pytest.mark.parametrize("name", dict.fromkeys(NAMES))
def test_a_new_name_is_there(name: str) -> None:
    parts = name.split(".")
    for number in range(len(parts), 0, -1):
        try:
            found: Any = importlib.import_module(".".join(parts[:number]))
        except ModuleNotFoundError:
            continue
        for part in parts[number:]:
            found = getattr(found, part)
        return
    pytest.fail(f"{name} is not there")
