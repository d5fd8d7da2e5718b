"""What the page offers as constraints is what the server takes; the page's own code runs, in the node of playwright."""

import asyncio
from pathlib import Path
from typing import Any

import pyarrow as pa

from contextual_bert.inference import Catalogue, CompletionPipeline

# Given is the schema; out goes what can be chosen under "At most one per".
OFFERED = """
import { noConstraints, showConstraints } from "./constraints.js";

const element = (tag) => ({
  tag, children: [], setAttribute() {}, addEventListener() {}, append(...more) { this.children.push(...more); },
  replaceChildren(...all) { this.children = all; },
});
const constraints = element("section");
globalThis.document = { createElement: element, getElementById: () => constraints };
showConstraints(given, noConstraints(), () => {});
const all = (each) => [each, ...(each.children ?? []).flatMap(all)];
const select = all(constraints).find((each) => each.id === "one-per");
console.log(JSON.stringify(select.children.map((each) => each.value)));
"""


def offered(tools: Any, schema: Any, folder: Path) -> list[str]:
    """The attributes of which the page offers to take at most one item each."""
    nothing, *names = tools.in_node(folder, OFFERED, schema)
    assert nothing == ""
    return names


def test_the_page_offers_at_most_one_per_what_the_server_takes(
    tools: Any, pipeline: CompletionPipeline, tmp_path: Path
) -> None:
    shop = pa.table(
        {
            "id": ["coat", "hat", "bag"],
            "category": ["clothes", "clothes", "bags"],
            "colours": [["red", "blue"], ["red"], []],
            "price": [90.0, 20.0, 60.0],
        }
    )
    catalogue = Catalogue(shop, pipeline.processor.items)

    async def run() -> tuple[list[str], list[int]]:
        app = tools.app(CompletionPipeline(pipeline.model, pipeline.processor, catalogue=catalogue))
        async with tools.served(app) as client:
            names = offered(tools, (await client.get("/v1/schema")).json(), tmp_path)
            asked = [{"items": ["hat"], "at_most_one_per": name} for name in [*names, "colours"]]
            return names, [(await client.post("/v1/complete", json=query)).status_code for query in asked]

    assert asyncio.run(run()) == (["category"], [200, 422])
