"""How the page writes values and numbers, and what it keeps of what was said when the server has another version."""

from pathlib import Path
from typing import Any

WORDS = """
import { rounded, spokenAmong } from "./dom.js";
const { values, numbers } = given;
console.log(JSON.stringify([values.map((each) => spokenAmong(values, each)), numbers.map(rounded)]));
"""
FIT = """
import { fit } from "./versions.js";
fit(given.state, given.before, given.after);
console.log(JSON.stringify(given.state));
"""

CARDS = """
globalThis.document = new Proxy({}, {
  get: (_, called) => called === "baseURI" ? "http://server/" : () => ({
    children: [], style: { setProperty() {} }, classList: { toggle() {} }, setAttribute() {},
    append(...more) { this.children.push(...more); },
  }),
});
globalThis.CSS = { supports: () => true };
globalThis.fetch = async () => ({ ok: true, headers: { get: () => null }, json: async () => ({ items: given }) });
const { describe } = await import("./api.js");
const { itemCard } = await import("./cards.js");
const badges = (part) =>
  part.children?.flatMap((each) => (each.className?.startsWith("badge") ? each.children : badges(each))) ?? [];
await describe(given.map((each) => each.item), 10);
console.log(JSON.stringify(given.map((each) => badges(itemCard(each.item)))));
"""


def test_a_card_says_that_an_item_is_new(tools: Any, tmp_path: Path) -> None:
    item = {"item": "coat", "in_stock": True, "attributes": {}}
    given = [item, {**item, "item": "hat", "is_new": False}, {**item, "item": "bag", "is_new": True}]
    given.append({**given[2], "item": "belt", "in_stock": False})
    given.append({**item, "item": "tie", "is_removed": True})
    assert tools.in_node(tmp_path, CARDS, given) == [[], [], ["new"], ["new", "out of stock"], ["proposed no more"]]


def test_values_are_spoken_where_no_other_reads_the_same_and_numbers_are_short(tools: Any, tmp_path: Path) -> None:
    values = ["smart_casual", "a_b", "a b"]
    numbers = [58050.94382649867, 0.123456, -2.5, 2016, 20240131.4, 0]
    said = [["smart casual", "a_b", "a b"], [58051, 0.1235, -2.5, 2016, 20240131, 0]]
    assert tools.in_node(tmp_path, WORDS, {"values": values, "numbers": numbers}) == said


def test_of_what_was_said_stays_what_the_next_version_knows(tools: Any, tmp_path: Path) -> None:
    def version(**kinds: str) -> dict[str, Any]:
        described = [{"name": name, "kind": kind, "values": None} for name, kind in kinds.items()]
        return {"features": described, "attributes": described}

    def state(context: Any, conditions: list[str], **constraints: Any) -> dict[str, Any]:
        return {
            "people": [{"context": context}],
            "places": [{"blank": True, "category": "coat"} if constraints["max_price"] else {"blank": True}],
            "together": {"budget": constraints["max_price"]},
            "constraints": {"conditions": [{"attribute": each} for each in conditions], **constraints},
        }

    before, after = (
        version(age="number", size="number", category="text", price="number"),
        version(age="number", size="text"),
    )
    said = state({"age": 3, "size": 4}, ["age", "size"], max_price=9, at_most_one_per="category", in_stock=True)
    kept = state({"age": 3}, ["age"], max_price="", at_most_one_per="", in_stock=True)
    given = {"state": said, "before": before}
    assert tools.in_node(tmp_path, FIT, {**given, "after": before}) == said
    assert tools.in_node(tmp_path, FIT, {**given, "after": after}) == kept
