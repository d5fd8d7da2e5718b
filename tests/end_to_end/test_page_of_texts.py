"""The page of a run of texts in headless Chromium: labels, tags, answers and written texts, for one person or two.

The models are not trained: what they answer is arbitrary, what the page makes of it is not.
"""

import json
import math
import re
import shutil
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
import torch
import uvicorn
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, ConsoleMessage, Page, expect, sync_playwright

from contextual_bert.context import Categorical, ContextSchema, MultiCategorical, Numerical, Vector
from contextual_bert.inference import (
    FillMaskPipeline,
    QuestionAnsweringPipeline,
    TextPipeline,
    TextToTextPipeline,
    explain_text,
)
from contextual_bert.models import (
    ContextFeatureExtractor,
    ContextualBertConfig,
    ContextualBertForMaskedLM,
    ContextualBertForQuestionAnswering,
    ContextualBertForSeq2SeqLM,
    ContextualBertForSequenceClassification,
    ContextualBertForTokenClassification,
    ContextualBertProcessor,
)
from contextual_bert.server import ServerSettings, create_app
from contextual_bert.testing.miniature import drawn_anew, miniature_tokenizer

KEY = "a-key-that-nobody-guesses"
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
HOSTILE = "<img src=x onerror=\"document.title='taken over'\"> word1 word2"
PHONE: Any = {"width": 390, "height": 800}
SCHEMA = ContextSchema(
    features=(
        Categorical(name="guest", values=("student", "family")),
        Numerical(name="age", edges=(30, 60)),
        MultiCategorical(name="tastes", values=("vegan", "spicy")),
        Vector(name="style", size=2),
    )
)
LABELS = {0: "low", 1: "middle", 2: "high"}
TAGS = {0: "O", 1: "B-place", 2: "I-place", 3: "B-person"}
KINDS: dict[str, tuple[Any, dict[str, Any]]] = {
    "label": (ContextualBertForSequenceClassification, {"id2label": LABELS}),
    "labels": (
        ContextualBertForSequenceClassification,
        {"id2label": LABELS, "problem_type": "multi_label_classification"},
    ),
    "number": (ContextualBertForSequenceClassification, {"id2label": {0: "value"}}),
    "many": (ContextualBertForSequenceClassification, {"id2label": {each: f"topic-{each}" for each in range(30)}}),
    "tags": (ContextualBertForTokenClassification, {"id2label": TAGS}),
    "answer": (ContextualBertForQuestionAnswering, {}),
    "words": (ContextualBertForMaskedLM, {"reserved_token_ids": [0, 1, 2, 3, 4]}),
    "text": (ContextualBertForSeq2SeqLM, {"decoder_type": "gru", "decoder_start_token_id": 3, "eos_token_id": 4}),
}
expect.set_options(timeout=30_000)
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="no browser; on Debian and Ubuntu: apt-get install chromium"),
]


def made(kind: str, **fields: Any) -> Any:
    model, own = KINDS[kind]
    sizes: dict[str, Any] = {
        "conditioning": "global_state_update",
        "vocab_size": 23,
        "hidden_size": 16,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "intermediate_size": 16,
        "has_position_embeddings": True,
        "type_vocab_size": 2,
        "max_position_embeddings": 24,
        "initializer_range": 0.5,
        "context_dropout": 0.1,
        "field_dropout": 0.2,
    }
    torch.manual_seed(0)
    processor = ContextualBertProcessor(ContextFeatureExtractor(SCHEMA.to_dict()), miniature_tokenizer())
    config = ContextualBertConfig.from_schema(SCHEMA, **{**sizes, **own, **fields})
    trained: Any = drawn_anew(model(config))
    if kind == "answer":
        return QuestionAnsweringPipeline(trained, processor, max_answer_tokens=3)
    if kind == "text":
        return TextToTextPipeline(trained, processor, max_new_tokens=3)
    if kind == "words":
        return FillMaskPipeline(trained, processor, top_k=3)
    return TextPipeline(trained, processor, pair="none")


class Desk:
    """A server of an untrained model of texts on a port of its own."""

    def __init__(self, kind: str = "label", *, settings: ServerSettings | None = None, **fields: Any) -> None:
        self.pipeline = self.next = made(kind, **fields)
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


@pytest.fixture(scope="module")
def desks() -> Iterator[dict[str, Desk]]:
    served = {kind: Desk(kind) for kind in KINDS}
    yield served
    for each in served.values():
        each.stop()


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
def page(browser: Browser, complaints: list[str]) -> Iterator[Page]:
    context = browser.new_context(viewport={"width": 1280, "height": 900}, reduced_motion="reduce")
    opened = context.new_page()

    def note(message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            complaints.append(message.text)

    opened.on("console", note)
    opened.on("pageerror", lambda error: complaints.append(str(error)))
    yield opened
    context.close()


def settled(page: Page) -> None:
    """Wait for the answer to what was done last: the page is busy from the change on."""
    expect(page.locator("#results[aria-busy]")).to_have_count(0)


def opened(page: Page, desk: Desk, **texts: str) -> None:
    page.goto(desk.url)
    settled(page)
    for label, text in texts.items():
        page.get_by_label(label.replace("_", " "), exact=True).fill(text)
    settled(page)


def asked(page: Page, path: str, act: Any) -> Any:
    """The query that the page sends when this is done."""
    settled(page)
    with page.expect_request(lambda request: f"/v1/{path}" in request.url) as caught:
        act()
    body = caught.value.post_data
    settled(page)
    return json.loads(body or "null")


def shares(page: Page, column: int = 0) -> list[str]:
    return page.locator(".column").nth(column).locator(".labels .number").all_inner_texts()


def test_it_asks_for_a_text_and_shows_each_label_with_its_probability(
    page: Page, desks: dict[str, Desk], complaints: list[str]
) -> None:
    opened(page, desks["label"])
    expect(page.locator("#status")).to_have_text("Write a text to get a label.")
    expect(page.locator("#served")).to_have_text("3 labels · 4 features · reads 24 tokens · version 1")
    query = asked(page, "predict", lambda: page.get_by_label("Text", exact=True).fill("word1 word2"))
    assert query == {"text": "word1 word2", "context": {}}
    answer = desks["label"].pipeline(query)
    expect(page.locator(".verdict")).to_have_text(answer["label"])
    assert page.locator(".labels .label").all_inner_texts() == ["low", "middle", "high"]
    for said, share in zip(shares(page), answer["probabilities"].values(), strict=True):
        assert float(said.removesuffix("%")) == pytest.approx(100 * share, abs=0.06)
    expect(page.locator(".labels .given .label")).to_have_text(answer["label"])
    asked(page, "predict", lambda: page.get_by_label("Text", exact=True).fill("word1 word3"))
    page.get_by_label("Text", exact=True).fill("  ")
    expect(page.locator("#status")).to_have_text("Write a text to get a label.")
    expect(page.locator("#results")).to_be_empty()
    assert complaints == []


def test_two_people_stand_side_by_side(page: Page, desks: dict[str, Desk]) -> None:
    opened(page, desks["label"], Text="word1 word2")
    page.get_by_label("Compare two people").check()
    settled(page)
    second = page.locator(".person").nth(1)
    query = asked(page, "predict", lambda: page.locator(".person").first.get_by_label("age").fill("34"))
    assert query["context"] == {"age": 34}
    second.get_by_label("guest").select_option("family")
    settled(page)
    assert shares(page, 0) != shares(page, 1)
    boxes: Any = [page.locator(".column").nth(number).bounding_box() for number in (0, 1)]
    assert boxes[0]["y"] == boxes[1]["y"]
    second.get_by_role("button", name="Anybody").click()
    page.locator(".person").first.get_by_role("button", name="Anybody").click()
    settled(page)
    assert shares(page, 0) == shares(page, 1)


def test_several_labels_numbers_and_many_labels(page: Page, desks: dict[str, Desk]) -> None:
    opened(page, desks["labels"], Text="word1 word2")
    given = desks["labels"].pipeline({"text": "word1 word2"})["label"]
    expect(page.locator(".verdict")).to_have_text(", ".join(given) or "no label")
    assert page.locator(".labels .given .label").all_inner_texts() == given
    opened(page, desks["number"], Text="word1 word2")
    number = desks["number"].pipeline({"text": "word1 word2"})["label"]
    assert float(page.locator(".verdict").inner_text()) == pytest.approx(number, rel=1e-3)
    opened(page, desks["many"], Text="word1 word2")
    expect(page.locator(".labels li")).to_have_count(12)
    expect(page.locator(".column")).to_contain_text("18 labels are less likely.")
    percentages = [float(each.removesuffix("%")) for each in shares(page)]
    assert percentages == sorted(percentages, reverse=True)


def test_words_of_a_tag_are_marked_in_colour_and_in_words(page: Page, desks: dict[str, Desk]) -> None:
    text = "word1 word2  word3\nword9 strange word5 word6 word7"
    opened(page, desks["tags"])
    query = asked(page, "predict", lambda: page.get_by_label("Text", exact=True).fill(text))
    assert query["text"] == text.split()
    tags = desks["tags"].pipeline(query)["label"]
    marked = page.locator(".tagged mark")
    kinds = {re.sub("^[BI]-", "", tag) for tag in tags if tag != "O"}
    assert kinds
    for number in range(marked.count()):
        said = marked.nth(number).locator("small").inner_text()
        assert said.split()[0] in kinds
        assert re.fullmatch(r"\w+ [\d.]+%", said)
    words = " ".join(marked.evaluate_all("marks => marks.map(each => each.firstChild.textContent)")).split()
    assert words == [word for word, tag in zip(text.split(), tags, strict=True) if tag != "O"]
    page.get_by_label("Text", exact=True).fill("word1 " * 40)
    expect(page.locator(".tagged .unread").first).to_be_visible()
    expect(page.locator(".column")).to_contain_text("longer than the model reads")


def test_an_answer_is_marked_where_it_stands(page: Page, desks: dict[str, Desk]) -> None:
    text = "\U0001f389\U0001f389 word1 word2 word3"
    opened(page, desks["answer"])
    expect(page.locator("#status")).to_have_text("Write a question to get an answer.")
    page.get_by_label("Question").fill("word4")
    expect(page.locator("#status")).to_have_text("Write a text to get an answer.")
    page.get_by_label("Text", exact=True).fill(text)
    settled(page)
    found = desks["answer"].pipeline({"question": "word4", "text": text})
    assert found["answer"]
    expect(page.locator(".verdict")).to_have_text(found["answer"])
    mark = page.locator(".tagged mark")
    assert mark.evaluate("mark => mark.firstChild.textContent") == text[found["start"] : found["end"]]
    expect(page.locator("#guidance")).to_be_hidden()


def test_written_texts_are_shown(page: Page, desks: dict[str, Desk]) -> None:
    opened(page, desks["text"], Text="word1 word2 word3")
    found = desks["text"].pipeline({"text": "word1 word2 word3"})
    expect(page.locator(".written")).to_have_text(found["written"] or "(nothing)")
    if not found["is_whole"]:
        expect(page.locator(".column")).to_contain_text("no more tokens are written")


def test_words_are_proposed_for_each_mask(page: Page, desks: dict[str, Desk], complaints: list[str]) -> None:
    opened(page, desks["words"], Text="word1 word2")
    expect(page.locator("#status")).to_have_text("Write a text with [MASK] to get words.")
    expect(page.get_by_label("Text", exact=True)).to_have_accessible_description("Write [MASK] where a word is wanted.")
    text = "word1 [MASK] word3 [MASK]"
    query = asked(page, "predict", lambda: page.get_by_label("Text", exact=True).fill(text))
    found = desks["words"].pipeline(query)
    expect(page.locator(".verdict")).to_have_text(found["filled"])
    words = [each["word"] for slot in found["slots"] for each in slot["candidates"]]
    assert page.locator(".labels .label").all_inner_texts() == words
    expect(page.get_by_role("list", name="[MASK] 2")).to_be_visible()
    expect(page.locator(".column")).to_contain_text("filled by itself")
    page.get_by_label("guest").select_option("student")
    settled(page)
    assert shares(page) != [f"{100 * each['probability']:.1f}%" for each in found["slots"][0]["candidates"]]
    assert complaints == []


def test_why_shows_fields_words_and_what_others_would_get(page: Page, desks: dict[str, Desk]) -> None:
    text = "\U0001f389 word1, word2 word9"
    opened(page, desks["label"], Text=text)
    page.get_by_label("guest").select_option("student")
    page.get_by_label("age").fill("34")
    settled(page)
    page.get_by_role("button", name="Why high for person A?").click()
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_role("heading", level=2)).to_be_focused()
    expect(dialog.get_by_role("status")).to_contain_text("for somebody of whom nothing is known")
    found = explain_text(
        desks["label"].pipeline, {"text": text, "context": {"guest": "student", "age": 34}}, label="high"
    )
    for name, key, rows in (
        ("What is known of the person", "field", found.fields),
        ("What the words do", "word", found.words),
    ):
        shown = dialog.get_by_role("table", name=name).locator("tbody tr")
        expect(shown).to_have_count(len(rows))
        for number, each in enumerate(rows):
            row = shown.nth(number)
            expect(row.get_by_role("rowheader")).to_contain_text(getattr(each, key))
            factor = float(row.locator(".number").inner_text().removeprefix("× "))
            assert factor == pytest.approx(math.exp(each.log_odds), rel=0.06)
            assert ("less" in (row.locator(".bar").get_attribute("class") or "")) == (each.log_odds < 0)
    largest = max(abs(each.log_odds) for each in found.words)
    marked = [each.word for each in found.words if abs(each.log_odds) >= 0.1 * largest]
    assert dialog.locator(".pulled mark").all_inner_texts() == marked
    assert dialog.locator(".pulled").inner_text() == text
    expect(dialog).to_contain_text("Each word is hidden in turn as [MASK]")
    [family] = [each for each in found.counterfactuals if each.field == "guest"]
    expect(dialog.get_by_role("listitem").first).to_contain_text(f"If guest were family: {family.label}")
    page.keyboard.press("Escape")
    expect(dialog).to_be_hidden()


def test_a_model_that_was_never_told_less_says_so_instead_of_inventing_reasons(browser: Browser) -> None:
    served = Desk(field_dropout=0.0)
    page = browser.new_page()
    opened(page, served, Text="word1")
    button = page.get_by_role("button", name="Why low for person A?")
    expect(button).to_be_disabled()
    assert "field_dropout" in (button.get_attribute("title") or "")
    page.close()
    served.stop()


def test_what_is_refused_is_said_beside_its_field(page: Page, desks: dict[str, Desk]) -> None:
    opened(page, desks["label"], Text="word1")
    box = page.get_by_label("style")
    box.fill("1, 2, 3")
    box.press("Tab")
    expect(box).to_have_attribute("aria-invalid", "true")
    expect(box).to_have_accessible_description(re.compile("2 numbers with commas between them.*has shape"))
    expect(page.locator(".column").get_by_role("alert")).to_be_visible()
    box.fill("1, 2")
    box.press("Tab")
    settled(page)
    expect(box).not_to_have_attribute("aria-invalid", "true")
    expect(page.locator(".fault")).to_have_count(0)
    expect(box).to_have_accessible_description("2 numbers with commas between them")
    expect(page.locator(".labels li")).to_have_count(3)


def test_what_is_unknown_and_what_is_cut_is_said(page: Page, desks: dict[str, Desk]) -> None:
    opened(page, desks["label"], Text="word1 " * 60)
    expect(page.locator(".column")).to_contain_text("longer than the model reads: its end was not read")
    page.get_by_label("Text", exact=True).fill("strange")
    expect(page.locator(".column")).to_contain_text("The tokenizer knows no word of the text")


def test_the_keyboard_alone_asks_compares_and_gets_reasons(page: Page, desks: dict[str, Desk]) -> None:
    opened(page, desks["label"])
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to the answers")).to_be_focused()

    def reach(name: Any, role: Any = None) -> None:
        target = page.get_by_role(role, name=name).last if role else page.get_by_label(name, exact=True).last
        for _ in range(60):
            if target.evaluate("element => element === document.activeElement"):
                return
            page.keyboard.press("Tab")
        raise AssertionError(f"{name} was not reached")

    reach("Compare two people")
    page.keyboard.press("Space")
    reach("guest")
    page.keyboard.type("family")
    reach("Text")
    page.keyboard.type("word1 word2")
    settled(page)
    expect(page.locator(".column")).to_have_count(2)
    assert shares(page, 0) != shares(page, 1)
    reach("Why high for person B?", "button")
    page.keyboard.press("Enter")
    dialog = page.get_by_role("dialog")
    expect(dialog.locator("table").first).to_be_visible()
    page.keyboard.press("Escape")
    expect(dialog).to_be_hidden()
    expect(page.get_by_role("button", name="Why high for person B?")).to_be_focused()


def test_texts_are_text_and_never_markup(page: Page, desks: dict[str, Desk], complaints: list[str]) -> None:
    opened(page, desks["label"], Text=HOSTILE)
    page.get_by_role("button", name="Why low for person A?").click()
    expect(page.get_by_role("dialog").locator(".pulled")).to_have_text(HOSTILE)
    opened(page, desks["tags"], Text=HOSTILE)
    opened(page, desks["answer"], Question=HOSTILE, Text=HOSTILE)
    assert page.title().startswith("Ask about a text")
    assert page.locator("main img").count() == 0
    assert complaints == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("viewport", [PHONE, {"width": 1280, "height": 900}], ids=["phone", "desk"])
@pytest.mark.parametrize("kind", ["label", "tags", "answer", "text"])
def test_it_is_accessible_and_nothing_is_cut_off(
    browser: Browser, desks: dict[str, Desk], kind: str, scheme: Any, viewport: Any
) -> None:
    context = browser.new_context(viewport=viewport, color_scheme=scheme, reduced_motion="reduce")
    page = context.new_page()
    question = {"Question": "word4"} if kind == "answer" else {}
    opened(page, desks[kind], **question, Text="word1 word2, word3 word9 " + "w" * 200)
    page.get_by_label("Compare two people").check()
    page.evaluate("document.querySelectorAll('details').forEach((each) => (each.open = true))")
    page.get_by_label("style").first.fill("1")
    page.get_by_label("style").first.press("Tab")
    expect(page.locator(".fault")).to_be_visible()
    settled(page)
    assert page.evaluate("document.scrollingElement.scrollWidth <= document.scrollingElement.clientWidth")
    results = Axe().run(page)
    assert results.violations_count == 0, results.generate_report()
    if kind == "label":
        page.get_by_role("button", name="Why high for person B?").click()
        expect(page.get_by_role("dialog").locator(".pulled")).to_be_visible()
        results = Axe().run(page, context="dialog")
        assert results.violations_count == 0, results.generate_report()
    context.close()


def test_the_key_is_asked_for_once_and_a_reload_is_followed(browser: Browser) -> None:
    served = Desk(settings=ServerSettings(api_key=KEY))
    page = browser.new_page()
    page.goto(served.url)
    page.get_by_label("API key").fill(KEY)
    page.get_by_role("button", name="Go on").click()
    settled(page)
    page.get_by_label("Text", exact=True).fill("word1 word2")
    settled(page)
    expect(page.locator(".labels li")).to_have_count(3)
    served.next = made("label", id2label={0: "bad", 1: "good"})
    served.app.serving.reload()
    page.get_by_label("Text", exact=True).fill("word1 word3")
    expect(page.locator("#served")).to_contain_text("version 2")
    settled(page)
    assert page.locator(".labels .label").all_inner_texts() == ["bad", "good"]
    expect(page.get_by_label("Text", exact=True)).to_have_value("word1 word3")
    expect(page.get_by_label("Text", exact=True)).to_be_focused()
    page.close()
    served.stop()
