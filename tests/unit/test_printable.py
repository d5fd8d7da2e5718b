"""What comes from data, files and folders cannot steer the terminal of who looks at it."""

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from rich.console import Console, Group
from rich.table import Table as RichTable
from rich.text import Text
from typer.testing import CliRunner

from contextual_bert.evaluation.pages import Picture, Section, render_markdown_page
from contextual_bert.evaluation.tables import Table, render_markdown, render_rich
from contextual_bert.printable import printable, printable_argument, printable_json
from contextual_bert.runs.card import write_card
from contextual_bert.training import Classification, Recipe
from contextual_bert_cli import output
from contextual_bert_cli.failures import say
from contextual_bert_cli.main import app

EVIL = "coat\x1b]52;c;ZWNobw==\x07\x9b2J\u202eabc\u2066\x7f\r\x00"
ESCAPED = r"coat\x1b]52;c;ZWNobw==\x07\x9b2J\u202eabc\u2066\x7f\x0d\x00"
STEERING = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")


def test_what_steers_a_terminal_is_spelt_out():
    assert printable(EVIL) == ESCAPED
    assert printable("a\tb\nc") == "a\tb\nc"
    assert printable("a\nb", is_one_line=True) == r"a\nb"
    assert printable("café 👩‍👩‍👧 עברית [MASK]") == "café 👩‍👩‍👧 עברית [MASK]"
    assert printable("\udcff") == r"\udcff"  # a byte of a file's name that is no text


def test_json_stays_valid_and_means_the_same():
    text = json.dumps({EVIL: [EVIL]}, ensure_ascii=False)
    assert json.loads(printable_json(text)) == {EVIL: [EVIL]}
    assert not STEERING.search(printable_json(text))


def test_a_command_can_be_pasted():
    for name in (EVIL.replace("\x00", ""), "it's\x1b", "back\\slash\x1b'\n"):
        quoted = printable_argument(name)
        assert not STEERING.search(quoted)
        found = subprocess.run(["bash", "-c", f"printf %s {quoted}"], capture_output=True, check=True).stdout
        # bash writes \x9b as one byte, which is no character of UTF-8 by itself
        assert found.decode("latin-1").replace("â\x80®", "\u202e").replace("â\x81¦", "\u2066") == name
    assert printable_argument("my table") == "'my table'"


def test_layouts_show_no_raw_name(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(output, "console", lambda **_: Console(width=300, highlight=False, markup=False))
    plain = RichTable("name", "kind")
    plain.add_row(Text(EVIL), "x")
    table = Table(EVIL, (EVIL, "n"), ((EVIL, "1"),))
    output.show(Group(Text(EVIL), plain, render_rich(EVIL, [table], [EVIL])))
    output.show_text(f"{EVIL}\nsecond line")
    output.remark(f"{EVIL}\nforged: line")
    output.next_commands(["train", EVIL])
    say(f"{EVIL} is wrong")
    out, err = capsys.readouterr()
    assert not STEERING.search(out + err)
    assert out.count(r"\x9b2J\u202eabc") >= 7
    assert r"\nforged: line" in out
    assert r"\x1b]52" in err


def command(*words: Any) -> Any:
    return CliRunner(env={"COLUMNS": "200"}).invoke(app, [str(word) for word in words])


def test_commands_show_no_raw_name_of_a_table(tmp_path: Path):
    name = EVIL.replace("\x00", "")
    sets = [[f"{name}{row % 5}", "hat", "bag"] for row in range(60)]
    columns = {"items": sets, name: ["a", "b"] * 30, "kind": [name, "other"] * 30}
    path = tmp_path / f"table{name.replace('/', '')}.parquet"
    pq.write_table(pa.table(columns), path)
    shown = command("inspect", path, "--items", "items", "--output", tmp_path / "schema.json")
    wrong = command("inspect", path, "--items", f"{name}x", "--output", tmp_path / "other.json")
    absent = command("inspect", tmp_path / f"{name}.parquet", "--items", "items")
    assert shown.exit_code == 0, shown.output
    assert (wrong.exit_code, absent.exit_code) == (2, 2)
    for result in (shown, wrong, absent):
        assert not STEERING.search(result.output), result.output
        assert r"\x1b]52" in result.output


def test_markdown_files_show_no_raw_name(tmp_path: Path):
    table = Table(EVIL, (EVIL, "n"), ((EVIL, "1"),))
    page = render_markdown_page(EVIL, [Section(EVIL, (EVIL,), (table,), (Picture("a.png", "", EVIL),), (EVIL,))])
    for text in (table.to_markdown(), render_markdown("age\x9b2J", [table], [EVIL]), page):
        assert not STEERING.search(text)
        assert ESCAPED in text
    place = "/home/ann/table\x1b]0;t\x07<u>.csv"
    recipe = Recipe(
        data=place,
        conditioning="none",
        schema={"features": [{"name": "age\x9b2J"}]},
        task=Classification(checkpoint="bert", text="text\x1b", label="label\x9b"),
    )
    write_card(tmp_path, recipe, {}, [f"context 'age\x9b2J' of {place}"])
    card = (tmp_path / "README.md").read_text(encoding="utf-8")
    assert not STEERING.search(card)
    assert r"age\x9b2J" in card
    assert r"label\x9b" in card
    assert r"table\x1b]0;t\x07" in card
    assert "ann" not in card
