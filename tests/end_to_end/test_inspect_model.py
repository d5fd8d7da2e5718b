"""``inspect-model``: what is printed, the page in headless Chromium, and what is refused."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, expect, sync_playwright

from contextual_bert import CompletionPipeline
from contextual_bert.runs import probing

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
PHONE: Any = {"width": 360, "height": 740}


def items_of_run(run: Path) -> str:
    values = CompletionPipeline.from_pretrained(run).processor.items.values
    return json.dumps([*values[:4], "[MASK]"])


def ok(result: Any) -> Any:
    assert result.exit_code == 0, (result.output, result.exception)
    return result


@pytest.mark.slow
def test_one_set_for_people_for_programs_and_as_a_page(
    command: Any, finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    query = ("--set", items_of_run(finished), "--context", '{"age": 30}')
    output = tmp_path / "pages" / "set.html"
    shown = ok(command("inspect-model", finished, *query, "--output", output))
    for words in ("Prediction", "Attention that the context moves", "context: age=30", "compared with: average of 64"):
        assert words in shown.stdout
    assert f"wrote {output}" in " ".join(shown.stderr.split())
    assert [path.name for path in output.parent.iterdir()] == ["set.html"]
    read = json.loads(ok(command("inspect-model", finished, *query, "--format", "json")).stdout)
    assert read["tokens"][-1] == "[MASK]" and len(read["tokens"]) == 5
    assert read["compared_with"] == "average of 64 contexts"
    versus = ok(command("inspect-model", finished, *query, "--versus", '{"age": 70}', "--format", "markdown")).stdout
    assert "| place | choice | with | versus | difference, points |" in versus
    few = command("inspect-model", finished, *query, "--probes")
    assert few.exit_code == 2 and "gender is known of fewer than 20 rows of a part" in " ".join(few.stderr.split())
    monkeypatch.setattr(probing, "FEWEST_ROWS", 5)
    probed = ok(command("inspect-model", finished, *query, "--probes", "--output", tmp_path / "probes.html"))
    assert "Probe of the context's gender" in probed.stdout
    page = (tmp_path / "probes.html").read_text("utf-8")
    assert "What each layer tells" in page and "weights of the layers in the learned mixture" in page
    again = command("inspect-model", finished, *query, "--output", output)
    assert again.exit_code == 2 and "exists already" in again.stderr
    ok(command("inspect-model", finished, *query, "--output", output, "--overwrite"))


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ((), "--set: there is no set. Give"),
        (("--text", "a"), "--text: unknown key 'text'"),
        (("--set", "a,[MASK]", "--context", '{"agx": 3}'), "--context, feature 'agx': the context has no feature"),
        (("--set", "a,[MASK]", "--context", "{"), "--context: not valid JSON"),
        (("--set", "a,[MASK]", "--versus", "[1]"), "--versus: '[1]' is no JSON object"),
        (("--set", "a,[MASK]", "--versus", '{"age": "old"}'), "--versus, 'age': 'old' is a string"),
        (("--set", "a,[MASK]", "--output", "page.pdf"), "page.pdf does not end with .html"),
        (("--set", "a,[MASK]", "--data", "gone.csv"), "gone.csv"),
    ],
    ids=repr,
)
def test_a_mistake_names_its_option(command: Any, finished: Path, options: tuple[str, ...], expected: str) -> None:
    result = command("inspect-model", finished, *options)
    assert result.exit_code == 2
    assert expected in " ".join(result.stderr.split())
    assert "Traceback" not in result.stderr


def test_a_folder_that_is_no_run(command: Any, tmp_path: Path) -> None:
    result = command("inspect-model", tmp_path, "--text", "a")
    assert result.exit_code == 2 and str(tmp_path) in result.stderr


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield found
        found.close()


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason="no browser; on Debian and Ubuntu: apt-get install chromium")
def test_the_page_shows_the_chosen_head_and_runs_no_script(
    command: Any, finished: Path, browser: Browser, tmp_path: Path
) -> None:
    output = tmp_path / "set.html"
    ok(command("inspect-model", finished, "--set", items_of_run(finished), "--output", output))
    page, said = browser.new_page(java_script_enabled=False), list[str]()
    page.on("console", lambda message: said.append(message.text))
    page.goto(output.as_uri())
    first = page.locator("figure").first
    expect(first.locator("img:visible")).to_have_count(1)
    mean = first.locator("img:visible").get_attribute("alt") or ""
    assert "mean of heads" in mean
    page.get_by_label("1", exact=True).first.check()  # the layer
    page.get_by_label("2", exact=True).last.check()  # the head
    expect(page.locator("figure img:visible")).to_have_count(3)
    assert (first.locator("img:visible").get_attribute("alt") or "").startswith(
        "Attention with the context, layer 1, 2"
    )
    box = first.locator("img:visible").bounding_box()
    assert box is not None and box["width"] == box["height"] > 5 * 16
    assert said == []
    page.close()


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason="no browser; on Debian and Ubuntu: apt-get install chromium")
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_can_be_used_by_everybody(
    command: Any, finished: Path, browser: Browser, tmp_path: Path, scheme: Any
) -> None:
    output = tmp_path / "set.html"
    ok(command("inspect-model", finished, "--set", items_of_run(finished), "--output", output))
    page = browser.new_page(viewport=PHONE, color_scheme=scheme)
    page.goto(output.as_uri())
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
    found = Axe().run(page, options={"runOnly": ["wcag2a", "wcag2aa"]})
    assert found.violations_count == 0, found.generate_report()
    page.close()
