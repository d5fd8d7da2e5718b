"""The page of a run whose items have features: what is new is marked, and a reason says what the item is."""

import math
import shutil
import threading
import time
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
import torch
import uvicorn
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect, sync_playwright

from contextual_bert.context import Categorical, ContextSchema
from contextual_bert.inference import Catalogue, CompletionPipeline
from contextual_bert.inference.item_schema import infer_item_schema
from contextual_bert.inference.item_table import encode_catalogue
from contextual_bert.inference.item_updates import with_new_items
from contextual_bert.item_features import ItemLayout
from contextual_bert.models import ContextualBertConfig, ContextualBertForMaskedLM, ContextualBertProcessor
from contextual_bert.server import create_app

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
KNOWN, NEW = [f"{kind}-{number}" for kind in ("coat", "hat", "bag") for number in range(3)], "coat-spring"
SCHEMA = ContextSchema(features=(Categorical(name="gender", values=("female", "male")),))
expect.set_options(timeout=30_000)
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="no browser; on Debian and Ubuntu: apt-get install chromium"),
]


def made() -> CompletionPipeline:
    """An untrained run that a catalogue with a new item is given to."""
    names = [*KNOWN, NEW]
    table = pa.table(
        {
            "id": names,
            "category": [name.partition("-")[0] for name in names],
            "colour": ["dark_red" if number % 2 else "green" for number in range(len(names))],
        }
    )
    torch.manual_seed(0)
    processor = ContextualBertProcessor.from_items(KNOWN, SCHEMA)
    shop = Catalogue(table, processor.items)
    schema = infer_item_schema(shop).schema
    items = encode_catalogue(shop, schema, processor.items)
    layout = ItemLayout(schema.layout, num_places=items.value_ids.shape[1])
    config = ContextualBertConfig.from_schema(
        SCHEMA,
        conditioning="global_state_update",
        vocab_size=len(KNOWN) + 3,
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=16,
        initializer_range=0.5,
        context_dropout=0.1,
        field_dropout=0.1,
        item_features=layout.to_dict(),
    )
    model = ContextualBertForMaskedLM(config).eval()
    model.bert.embeddings.attributes.fill(items, is_new=torch.zeros(len(KNOWN), dtype=torch.bool))
    model, processor, shop = with_new_items(model, processor.with_item_schema(schema), shop)
    return CompletionPipeline(model, processor, catalogue=shop)


@pytest.fixture(scope="module")
def page() -> Iterator[Page]:
    server = uvicorn.Server(uvicorn.Config(create_app(made()), port=0, log_level="warning"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        assert thread.is_alive()
        time.sleep(0.01)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        opened = browser.new_page(viewport={"width": 1280, "height": 900})
        opened.goto(f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}")
        yield opened
        browser.close()
    server.should_exit = True
    thread.join(30)


def settled(page: Page) -> None:
    expect(page.locator("#results[aria-busy]")).to_have_count(0)


def test_a_new_item_is_marked_in_the_search_in_the_set_and_among_the_proposals(page: Page) -> None:
    settled(page)
    page.locator("#search").fill("spring")
    found = page.locator("#found").get_by_role("option").filter(has_text=NEW)
    expect(found.locator(".badge.new")).to_have_text("new")
    answer: Any = made()({"items": ["[MASK]"], "context": {}}, top_k=20)
    assert [each["is_new"] for each in answer["slots"][0]["candidates"]].count(True) == 1
    found.click()
    settled(page)
    card = page.locator("#set .card").filter(has_text=NEW)
    expect(card.locator(".badge.new")).to_have_text("new")
    expect(page.locator("#results")).to_contain_text(f"In the set, new and known by features alone: {NEW}.")


def test_a_reason_says_what_the_item_is(page: Page) -> None:
    settled(page)
    with page.expect_response(lambda response: "/v1/explain" in response.url) as caught:
        page.get_by_role("button", name="Why?").or_(page.get_by_label("Why ")).first.click()
    found = caught.value.json()
    own, dialog = found["item_reasons"], page.get_by_role("dialog")
    table = dialog.get_by_role("table", name=f"What {found['item']} itself is")
    rows = table.get_by_role("row")
    expect(rows).to_have_count(2 + len(own["features"]))  # with the heading and its own vector
    for each in own["features"]:
        row = rows.filter(has_text=each["feature"]).first
        expect(row).to_contain_text(each["value"])
        factor = float(row.locator(".number").inner_text().removeprefix("× "))
        assert factor == pytest.approx(math.exp(each["logit"]), rel=0.06)
    expect(rows.last).to_contain_text("what is its own")
    expect(dialog).to_contain_text("exact, for the features are added up")
    assert Axe().run(page).violations_count == 0
    page.keyboard.press("Escape")
