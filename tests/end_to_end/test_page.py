"""The page of a server in headless Chromium: what people see, click, type and hear.

The model is not trained: what it proposes is arbitrary, what the page makes of it is not.
"""

import json
import math
import re
import shutil
import threading
import time
from collections.abc import Iterator
from typing import Any

import httpx
import pyarrow as pa
import pytest
import torch
import uvicorn
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, ConsoleMessage, Page, expect, sync_playwright

from contextual_bert.context import infer_schema
from contextual_bert.data import StylistWorld
from contextual_bert.inference import Catalogue, CompletionPipeline
from contextual_bert.models import ContextualBertConfig, ContextualBertForMaskedLM, ContextualBertProcessor
from contextual_bert.server import ServerSettings, create_app

KEY = "a-key-that-nobody-guesses"
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
HOSTILE = "<img src=x onerror=\"document.title='taken over'\">"
PHONE: Any = {"width": 360, "height": 740}
expect.set_options(timeout=30_000)
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="no browser; on Debian and Ubuntu: apt-get install chromium"),
]


class Shop:
    """A server of an untrained model on a port of its own."""

    def __init__(self, *, settings: ServerSettings | None = None, **made: Any) -> None:
        self.pipeline = self.next = _pipeline(**made)
        self.app: Any = create_app(self.pipeline, load=lambda: self.next, settings=settings)
        self.server = uvicorn.Server(uvicorn.Config(self.app, port=0, log_level="warning"))
        self.thread = threading.Thread(target=self.server.run, daemon=True)
        self.thread.start()
        while not self.server.started:
            assert self.thread.is_alive()
            time.sleep(0.01)
        self.url = f"http://127.0.0.1:{self.server.servers[0].sockets[0].getsockname()[1]}"

    def stop(self) -> None:
        self.server.should_exit = True
        self.thread.join(30)


def _pipeline(
    *, is_told_less: bool = True, conditioning: str = "global_state_update", **columns: Any
) -> CompletionPipeline:
    """A pipeline; ``columns``: of the catalogue, each gives the cell of an item, or is None: without it."""
    world = StylistWorld.generate(60)
    outfits = world.sample(300, seed=1)
    schema = infer_schema(outfits.drop_columns(["items", "customer_id"])).schema
    torch.manual_seed(0)
    config = ContextualBertConfig.from_schema(
        schema,
        conditioning=conditioning,
        vocab_size=world.num_items + 3,
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=16,
        initializer_range=0.5,
        context_dropout=0.1 if is_told_less else 0.0,
        field_dropout=0.1 if is_told_less else 0.0,
    )
    processor = ContextualBertProcessor.from_items(world.items, schema)
    table = world.articles.to_table()
    stock = pa.array([name != "tshirt-1" for name in world.items])
    table = table.append_column("in_stock", stock)
    for column, cell in {"name": lambda item: HOSTILE if item == "bag-0" else f"The {item}", **columns}.items():
        table = table.drop_columns([column] if column in table.column_names else [])
        table = table.append_column(column, pa.array(map(cell, world.items))) if cell is not None else table
    catalogue = Catalogue(table, processor.items)
    return CompletionPipeline(ContextualBertForMaskedLM(config), processor, catalogue=catalogue)


@pytest.fixture(scope="module")
def shop() -> Iterator[Shop]:
    served = Shop()
    yield served
    served.stop()


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield found
        found.close()


@pytest.fixture
def complaints() -> list[str]:
    """What the browser's console complained about."""
    return []


@pytest.fixture
def page(browser: Browser, shop: Shop, complaints: list[str]) -> Iterator[Page]:
    context = browser.new_context(viewport={"width": 1280, "height": 900}, reduced_motion="reduce")
    opened = context.new_page()

    def note(message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            complaints.append(message.text)

    opened.on("console", note)
    opened.on("pageerror", lambda error: complaints.append(str(error)))
    opened.goto(shop.url)
    settled(opened)
    yield opened
    context.close()


def settled(page: Page) -> None:
    """Wait for the answer to what was done last: the page is busy from the change on."""
    expect(page.locator("#results[aria-busy]")).to_have_count(0)


def proposals(page: Page) -> list[str]:
    return page.locator(".proposals .card strong").all_inner_texts()


def asked(page: Page, path: str, act: Any) -> dict[str, Any]:
    """The query that the page sends when this is done, not one for what was done before."""
    settled(page)
    with page.expect_request(lambda request: f"/v1/{path}" in request.url) as caught:
        act()
    body = caught.value.post_data
    settled(page)
    return json.loads(body or "null")


def test_it_proposes_something_at_once_and_the_browser_has_nothing_to_complain_of(
    page: Page, shop: Shop, complaints: list[str]
) -> None:
    expect(page.get_by_role("heading", name="Who is it for?")).to_be_visible()
    names = proposals(page)
    items = [name.removeprefix("The ") for name in page.locator("#set .card:not(.blank) strong").all_inner_texts()]
    answer = shop.pipeline({"items": [*items, "[MASK]"], "context": {}}, top_k=5)
    assert names == [f"The {each['item']}" for each in answer["slots"][0]["candidates"]]
    assert page.locator(".proposals svg.picture path.cloth").count() == 5
    assert complaints == []


def test_the_form_has_a_control_for_every_feature_and_the_query_says_what_was_chosen(page: Page, shop: Shop) -> None:
    schema = shop.pipeline.processor.schema
    assert schema is not None
    for feature in schema.features:
        label = feature.name.replace("_", " ")
        assert page.locator(".person").get_by_text(label, exact=True).count() == 1, feature.name
    before = proposals(page)
    query = asked(page, "complete", lambda: page.get_by_label("occasion").select_option("wedding"))
    assert query["context"] == {"occasion": "wedding"}
    query = asked(page, "complete", lambda: page.get_by_label("age", exact=True).fill("34"))
    assert query["context"] == {"occasion": "wedding", "age": 34}
    colours = page.get_by_role("group", name="preferred colours")
    query = asked(page, "complete", lambda: colours.get_by_label("red").check())
    assert query["context"]["preferred_colours"] == ["red"]
    query = asked(page, "complete", lambda: colours.get_by_label("red").uncheck())
    assert query["context"]["preferred_colours"] == []  # known to have none
    query = asked(page, "complete", lambda: colours.get_by_label("known").uncheck())
    assert "preferred_colours" not in query["context"]
    assert proposals(page) != before
    query = asked(page, "complete", lambda: page.get_by_role("button", name="A guest").click())
    assert query["context"] == {}
    assert proposals(page) == before


def test_somebody_at_random_is_somebody_whom_the_model_knows(page: Page) -> None:
    query = asked(page, "complete", lambda: page.get_by_role("button", name="Somebody at random").click())
    assert len(query["context"]) > 10
    expect(page.get_by_text("never saw")).to_have_count(0)


def test_two_customers_stand_side_by_side(page: Page) -> None:
    page.get_by_label("Compare two customers").check()
    settled(page)
    second = page.locator(".person").nth(1)
    second.get_by_label("occasion").select_option("sport")
    settled(page)
    columns = page.locator(".column")
    assert columns.count() == 2
    left, right = (columns.nth(number).locator(".share").all_inner_texts() for number in (0, 1))
    assert left != right  # what is known of the second customer changed the probabilities
    boxes = [columns.nth(number).bounding_box() for number in (0, 1)]
    assert boxes[0] is not None
    assert boxes[1] is not None
    assert boxes[0]["y"] == boxes[1]["y"]


def test_a_blank_takes_a_category_and_what_is_refused_stays_away(page: Page, shop: Shop) -> None:
    asked(page, "complete", lambda: page.get_by_label("What blank 1 may be").select_option("coat"))
    first = proposals(page)
    assert first
    assert all(name.startswith("The coat-") for name in first)
    page.get_by_role("button", name=f"Never propose {first[0]}").click()
    settled(page)
    assert proposals(page)[0] == first[1]
    query = asked(page, "complete", page.get_by_role("button", name=f"The customer owns {first[1]}").click)
    assert query["owned"] == [first[1].removeprefix("The ")]
    assert query["deny"] == [first[0].removeprefix("The ")]
    page.get_by_role("button", name=f"Never no longer: {first[0]}").click()
    settled(page)
    assert proposals(page)[0] == first[0]


def test_the_form_becomes_constraints(page: Page) -> None:
    page.get_by_label("Only what is in stock").check()
    page.get_by_label("Price, at most").fill("60")
    page.get_by_label("At most one per").select_option("category")
    page.get_by_role("button", name="Add a condition").click()
    page.get_by_label("Attribute of condition 1").select_option("colour")
    page.get_by_label("Relation of condition 1").select_option("not_in")
    query = asked(page, "complete", page.get_by_role("group", name="Condition 1").get_by_label("black").check)
    assert query["in_stock"] is True
    assert query["max_price"] == 60
    assert query["at_most_one_per"] == "category"
    assert query["where"] == [{"attribute": "colour", "not_in": ["black"]}]
    prices = [float(each) for each in page.locator(".proposals .price").all_inner_texts()]
    assert prices
    assert max(prices) <= 60
    page.get_by_label("Price, at most").fill("1")
    settled(page)
    assert proposals(page) == []
    expect(page.locator(".empty")).to_contain_text("max_price")
    expect(page.locator("#results")).not_to_contain_text("Item 3:")  # the note that says the same


def test_a_query_is_given_up_with_the_change_that_overtakes_it(page: Page) -> None:
    """Its answer would else be shown as that to the change, which is asked for a moment later."""
    price = page.get_by_label("Price, at most")
    page.clock.install()
    page.clock.pause_at(time.time() + 60)
    page.route("**/v1/complete?*", lambda _: None)
    with page.expect_request("**/v1/complete?*"):
        price.fill("60")
        page.clock.run_for(1_000)
    with page.expect_event("requestfailed"):
        price.fill("50")
    expect(page.locator("#results")).to_have_attribute("aria-busy", "true")
    page.unroute("**/v1/complete?*")
    page.clock.run_for(1_000)
    settled(page)
    prices = [float(each) for each in page.locator(".proposals .price").all_inner_texts()]
    assert prices
    assert max(prices) <= 50


def test_a_proposal_is_taken_and_the_set_starts_over(page: Page) -> None:
    first = proposals(page)[0]
    page.get_by_role("button", name=f"Take {first} for blank 1").click()
    expect(page.locator("#set")).to_contain_text(first)
    expect(page.locator("#status")).to_have_text("Add a blank to get proposals.")
    page.get_by_role("button", name="Add a blank").click()
    settled(page)
    assert first not in proposals(page)
    page.get_by_role("button", name="Start over").click()
    settled(page)
    assert proposals(page)[0] == first


def test_whole_sets_keep_a_budget(page: Page, shop: Shop) -> None:
    page.get_by_role("button", name="Add a blank").click()
    page.get_by_label("together", exact=True).check()
    page.get_by_label("Ways to show").fill("4")
    page.get_by_label("Items that differ").fill("2")
    query = asked(page, "complete-jointly", lambda: page.get_by_label("Budget").fill("70"))
    assert query["budget"] == 70
    answer: Any = shop.pipeline.complete_jointly(query, num_completions=4, diversity=2)
    expected = [[f"The {name}" for name in each["filled"]] for each in answer["completions"]]
    found = page.locator(".completion")
    assert [found.nth(n).locator(".card strong").all_inner_texts() for n in range(found.count())] == expected
    prices = [float(each) for each in found.first.locator(".price").all_inner_texts()]
    assert sum(prices) <= 70
    page.get_by_role("button", name="Take way 1").click()
    for name in expected[0]:
        expect(page.locator("#set")).to_contain_text(name)


def test_the_slider_makes_answers_more_personal(page: Page) -> None:
    page.get_by_role("button", name="Somebody at random").click()
    settled(page)
    slider = page.get_by_label("How personal")
    query = asked(page, "complete", lambda: slider.fill("0"))
    assert query["guidance"] == 0
    anonymous = proposals(page)
    page.get_by_role("button", name="A guest").click()
    settled(page)
    assert proposals(page) == anonymous
    expect(page.locator("#guidance output")).to_have_text("0 · as for anybody")


def test_why_shows_every_known_field_with_its_factor(page: Page) -> None:
    page.get_by_label("occasion").select_option("wedding")
    page.get_by_label("gender").select_option("female")
    settled(page)
    with page.expect_response(lambda response: "/v1/explain" in response.url) as caught:
        page.get_by_role("button", name="Why?").or_(page.get_by_label("Why The")).first.click()
    found = caught.value.json()
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_role("heading", level=2)).to_be_focused()
    expect(dialog.get_by_role("status")).to_contain_text("for somebody of whom nothing is known")
    rows = dialog.get_by_role("table", name="What is known of the customer").get_by_role("row")
    expect(rows).to_have_count(3)  # with the heading
    for contribution in found["fields"]:
        row = rows.filter(has_text=contribution["field"])
        factor = float(row.locator(".number").inner_text().removeprefix("× "))
        assert factor == pytest.approx(math.exp(contribution["log_odds"]), rel=0.06)
        bar = row.locator(".bar")
        assert ("less" in (bar.get_attribute("class") or "")) == (contribution["log_odds"] < 0)
    widths = [box["width"] for bar in dialog.locator(".bar").all() if (box := bar.bounding_box())]
    lane = dialog.locator(".lane").first.bounding_box()
    assert lane is not None
    assert max(widths) == pytest.approx(lane["width"] / 2, rel=0.02)
    page.keyboard.press("Escape")
    expect(dialog).to_be_hidden()


def test_of_a_guest_there_is_nothing_to_leave_out(page: Page) -> None:
    page.get_by_label("Why The").first.click()
    expect(page.get_by_role("dialog")).to_contain_text("from the only subset of the known fields")


def test_on_a_phone_the_bar_of_a_reason_stands_under_its_words(browser: Browser, shop: Shop) -> None:
    page = browser.new_page(viewport=PHONE)
    page.goto(shop.url)
    settled(page)
    page.locator(".person summary").click()
    page.get_by_label("occasion").select_option("wedding")
    settled(page)
    page.get_by_label("Why The").first.click()
    row = page.get_by_role("table", name="What is known of the customer").get_by_role("row").nth(1)
    words, lane = row.get_by_role("rowheader").bounding_box(), row.locator(".lane").bounding_box()
    assert words is not None
    assert lane is not None
    assert lane["y"] >= words["y"] + words["height"]
    assert words["width"] > PHONE["width"] / 2
    page.close()


def test_the_keyboard_alone_finds_and_adds_an_item(page: Page) -> None:
    before = page.locator("#set .card:not(.blank)").count()
    box = page.get_by_role("combobox", name="Add an item")
    box.focus()
    page.keyboard.type("coat")
    expect(page.locator("#found [role=option]").first).to_contain_text("coat")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowUp")
    expect(page.locator("#found [role=option]").first).to_have_attribute("aria-selected", "true")
    expect(box).to_have_attribute("aria-activedescendant", "found-0")
    page.keyboard.press("Enter")
    assert page.locator("#set .card:not(.blank)").count() == before + 1
    expect(page.get_by_role("listbox")).to_be_hidden()
    expect(box).to_be_focused()
    page.keyboard.type("no such thing")
    expect(page.get_by_text("Nothing has this in its name.")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_text("Nothing has this in its name.")).to_be_hidden()


def test_a_search_ends_when_its_box_is_left(page: Page) -> None:
    page.clock.install()
    page.clock.pause_at(time.time() + 60)
    box = page.get_by_role("combobox", name="Add an item")
    box.fill("coat")
    page.keyboard.press("Tab")
    page.clock.run_for(1_000)
    assert page.locator("#found li").count() == 0  # it was not even asked for
    box.focus()
    with page.expect_response("**/v1/items?text=coat*"):
        page.clock.run_for(1_000)
    expect(page.get_by_role("listbox")).to_be_visible()


def test_the_focus_stays_where_it_was_when_the_form_is_drawn_anew(page: Page) -> None:
    page.get_by_label("Compare two customers").check()
    first, second = page.locator(".person").all()
    first.locator("summary").click()
    for name in ("Somebody at random", "A guest"):
        button = second.get_by_role("button", name=name)
        button.focus()
        page.keyboard.press("Enter")
        settled(page)
        expect(button).to_be_focused()
    expect(first).not_to_have_attribute("open", "")
    expect(second).to_have_attribute("open", "")


def test_names_of_a_catalogue_are_text_and_never_markup(page: Page, complaints: list[str]) -> None:
    page.get_by_label("Add an item").fill("img src")
    page.locator("#found [role=option]").first.click()
    settled(page)
    expect(page.locator("#set")).to_contain_text(HOSTILE)
    assert page.title().startswith("Complete a set")
    assert page.locator("#set img").count() == 0
    assert page.locator("#set").get_by_text(HOSTILE).get_attribute("title") == HOSTILE  # whole, where it is cut
    assert complaints == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("viewport", [PHONE, {"width": 1280, "height": 900}], ids=["phone", "desk"])
def test_it_is_accessible_and_nothing_is_cut_off(browser: Browser, shop: Shop, scheme: Any, viewport: Any) -> None:
    context = browser.new_context(viewport=viewport, color_scheme=scheme, reduced_motion="reduce")
    page = context.new_page()
    page.goto(shop.url)
    settled(page)
    page.get_by_label("Compare two customers").check()
    page.get_by_role("button", name="Add a blank").click()
    if viewport is PHONE:
        page.get_by_text("What is allowed").click()
    page.get_by_role("button", name="Add a condition").click()
    settled(page)
    assert page.evaluate("document.scrollingElement.scrollWidth <= document.scrollingElement.clientWidth")
    results = Axe().run(page)
    assert results.violations_count == 0, results.generate_report()
    page.get_by_label("Why The").first.click()
    expect(page.get_by_role("dialog").locator(".quiet").first).to_be_visible()
    results = Axe().run(page, context="dialog")
    assert results.violations_count == 0, results.generate_report()
    context.close()


def test_light_and_dark_are_as_the_system_says_until_somebody_chooses(page: Page) -> None:
    ground = "getComputedStyle(document.body).backgroundColor"
    page.emulate_media(color_scheme="dark")
    page.wait_for_selector("html[data-theme=dark]")
    dark = page.evaluate(ground)
    page.emulate_media(color_scheme="light")
    page.wait_for_selector("html[data-theme=light]")
    assert dark != page.evaluate(ground)
    page.get_by_role("button", name="Dark").click()
    assert page.evaluate(ground) == dark
    page.reload()
    assert page.evaluate(ground) == dark


def test_what_the_server_refuses_is_said_where_the_answer_would_be(page: Page) -> None:
    page.route("**/v1/complete?*", lambda route: route.fulfill(status=429, json={"detail": "The queue is full."}))
    page.get_by_label("occasion").select_option("wedding")
    settled(page)
    expect(page.get_by_role("alert")).to_have_text("The queue is full.")
    expect(page.locator("#status")).to_be_empty()
    page.unroute("**/v1/complete?*")
    page.route("**/v1/complete?*", lambda route: route.fulfill(body="<p>Welcome to the proxy</p>"))
    page.get_by_label("occasion").select_option("party")
    expect(page.get_by_role("alert")).to_contain_text("is not JSON")
    page.unroute("**/v1/complete?*")
    page.get_by_label("occasion").select_option("sport")
    settled(page)
    assert len(proposals(page)) == 5


def test_after_an_outage_the_page_goes_on(page: Page) -> None:
    page.route("**/v1/items?*", lambda route: route.abort())
    page.get_by_role("button", name="Start over").click()
    expect(page.get_by_role("alert")).to_contain_text("cannot be reached")
    settled(page)
    page.unroute("**/v1/items?*")
    page.get_by_label("occasion").select_option("sport")
    settled(page)
    expect(page.get_by_role("alert")).to_be_hidden()
    assert len(proposals(page)) == 5


def test_a_page_that_is_open_follows_stock_and_reloads(browser: Browser) -> None:
    served = Shop()
    page = browser.new_page()
    page.goto(served.url)
    settled(page)
    shown = page.locator("#set .card:not(.blank)")
    expect(shown.get_by_text("out of stock")).to_have_count(0)
    served.app.serving.set_stock({shown.first.locator("strong").inner_text().removeprefix("The "): False})
    asked(page, "complete", lambda: page.get_by_label("occasion").select_option("wedding"))
    expect(shown.get_by_text("out of stock")).to_have_count(1)
    page.get_by_label("Price, at most").fill("90")
    page.get_by_role("button", name="Add a condition").click()
    page.get_by_label("Attribute of condition 1").select_option("style")
    settled(page)
    served.next = _pipeline(price=lambda _: 77.0, style=None)
    served.app.serving.reload()
    page.get_by_label("occasion").focus()
    page.get_by_label("occasion").select_option("sport")
    expect(page.locator("#served")).to_contain_text("version 2")
    settled(page)
    assert {*page.locator(".price").all_inner_texts()} == {"77.00"}
    expect(page.get_by_label("occasion")).to_have_value("sport")
    expect(page.get_by_label("occasion")).to_be_focused()
    expect(page.get_by_label("Price, at most")).to_have_value("90")
    expect(page.get_by_role("group", name="Condition 1")).to_have_count(0)  # there are no styles any more
    page.close()
    served.stop()


@pytest.mark.parametrize(
    "name", [lambda item: len(item), lambda _: "   ", lambda _: None], ids=["number", "blank", "none"]
)
def test_a_name_that_is_a_number_is_shown_and_one_that_is_blank_is_not(browser: Browser, name: Any) -> None:
    served = Shop(name=name, category=lambda _: "gadget")
    page = browser.new_page()
    page.goto(served.url)
    settled(page)
    items = served.pipeline.processor.items.values
    shown = proposals(page)
    assert len(shown) == 5
    assert {*shown} <= {str(name(item) or item).strip() or item for item in items}
    page.close()
    served.stop()


def test_without_a_context_there_are_no_two_customers_to_compare(browser: Browser) -> None:
    served = Shop(is_told_less=False, conditioning="none")
    page = browser.new_page()
    page.goto(served.url)
    settled(page)
    expect(page.get_by_label("Compare two customers")).to_be_disabled()
    expect(page.locator(".people .switch")).to_have_attribute("title", re.compile("reads no context"))
    page.close()
    served.stop()


def test_a_browser_that_keeps_nothing_shows_the_page(browser: Browser, shop: Shop) -> None:
    page = browser.new_page()
    blocked = "get() { throw new DOMException('blocked', 'SecurityError'); }"
    for name in ("localStorage", "sessionStorage"):
        page.add_init_script(f"Object.defineProperty(window, '{name}', {{ {blocked} }});")
    page.goto(shop.url)
    settled(page)
    page.get_by_role("button", name="Dark").click()
    page.wait_for_selector("html[data-theme=dark]")
    assert len(proposals(page)) == 5
    page.close()


def test_a_model_that_was_never_told_less_says_so_instead_of_inventing_reasons(browser: Browser) -> None:
    served = Shop(is_told_less=False)
    page = browser.new_page()
    page.goto(served.url)
    settled(page)
    button = page.get_by_label("Why The").first
    expect(button).to_be_disabled()
    assert "field_dropout" in (button.get_attribute("title") or "")
    page.close()
    served.stop()


def test_the_key_is_asked_for_once_and_kept_in_the_tab(browser: Browser) -> None:
    served = Shop(settings=ServerSettings(api_key=KEY))
    page = browser.new_page()
    page.goto(served.url)
    expect(page.get_by_role("alert")).to_have_count(0)
    page.get_by_label("API key").fill("ein-schlüssel-für-niemanden")  # which no header can hold
    page.get_by_role("button", name="Go on").click()
    expect(page.locator("#key:invalid")).to_have_attribute("title", re.compile("printable ASCII"))
    page.get_by_label("API key").fill("a-key-that-is-not-the-right-one")
    page.get_by_role("button", name="Go on").click()
    expect(page.get_by_role("alert")).to_have_text("That key was not right.")
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_be_hidden()
    expect(page.get_by_role("alert")).to_contain_text("Without its key")
    page.reload()
    page.get_by_label("API key").fill(KEY)  # asked again
    page.get_by_role("button", name="Go on").click()
    settled(page)
    expect(page.locator(".proposals .card")).to_have_count(5)
    page.reload()
    settled(page)
    expect(page.locator(".proposals .card")).to_have_count(5)
    page.close()
    served.stop()


def test_the_files_of_the_page_come_with_a_policy_and_nothing_else_does(shop: Shop) -> None:
    with httpx.Client(base_url=shop.url) as client:
        for path in ("/", "/static/page.js", "/static/page.css"):
            answer = client.get(path)
            assert answer.status_code == 200
            assert "script-src 'self'" in answer.headers["content-security-policy"]
        assert client.get("/static/../app.py").status_code == 404
        assert client.get("/static/%2e%2e/app.py").status_code == 404
        assert client.get("/static/nothing.js").headers["content-type"] == "application/problem+json"
        assert "/static" not in client.get("/openapi.json").text
