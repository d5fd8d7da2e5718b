"""Neighbours of items in a stylist world: how much of what belongs in an item's place do the ten nearest cover?

An article of an outfit that no run has seen is taken away. The oracle of the world knows which other articles belong in
its place for this customer; their probabilities are summed over the ten articles that each rule names.
Results: docs/decisions/051-items-alike.md.

    python benchmarks/similar_items.py WORLD RUN [RUN ...] --outfits 500
"""

import argparse
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from contextual_bert.data import Oracle, StylistWorld
from contextual_bert.inference import CompletionPipeline

NUM_NAMED, WEIGHTS, SEED = 10, (4, 8, 16, 32), 99


def cosines(rows: Tensor, asked: Tensor, num_reserved: int) -> Tensor:
    """Return the similarity of each asked item with all ids, as ``similar_items`` has it."""
    directions = torch.nn.functional.normalize(rows.float() - rows[num_reserved:].float().mean(dim=0), dim=1)
    return directions[asked] @ directions.T


def rules(pipeline: CompletionPipeline, asked: Tensor, context: Mapping[str, Tensor]) -> Iterator[tuple[str, Tensor]]:
    """Yield each rule with the scores of all ids."""
    model, first = pipeline.model, len(pipeline.processor.items.reserved)
    inputs: dict[str, Any] = {**pipeline.processor.encode_items([["[MASK]"]] * len(asked)), "context": context}
    person = pipeline.logits(inputs)
    yield "the person alone", person
    with torch.no_grad():
        spaces = {"input vectors": model.input_matrix(), "output rows": model.output_matrix()[0]}
    for name, rows in spaces.items():
        similarity = cosines(rows, asked, first)
        yield name, similarity
        for weight in WEIGHTS:
            yield f"{name}, and the person: k = {weight}", person + weight * similarity


def coverage(run: Path, world: StylistWorld, *, num_outfits: int) -> dict[str, float]:
    """Return the probability that the named articles cover, by rule."""
    table = world.sample(num_outfits, seed=SEED)
    pipeline = CompletionPipeline.from_pretrained(run, device="cpu")
    vocabulary, outfits = pipeline.processor.items, table.column("items").to_pylist()
    generator = np.random.default_rng(0)
    places: NDArray[np.int64] = np.array([generator.integers(len(outfit)) for outfit in outfits])
    asked = torch.tensor([vocabulary.id_of(outfit[place]) for outfit, place in zip(outfits, places, strict=True)])
    ids = torch.tensor([vocabulary.id_of(item) for item in world.items])  # each run here knows all articles
    rows = torch.arange(len(asked))
    belonging = torch.zeros(len(asked), len(vocabulary), dtype=torch.float64)
    belonging[:, ids] = torch.from_numpy(Oracle(world).probabilities(table, places))
    belonging[rows, asked] = 0
    belonging /= belonging.sum(dim=1, keepdim=True)
    encoded = pipeline.processor.encode_columns(table)
    assert encoded is not None
    found: dict[str, float] = {}
    for name, scores in rules(pipeline, asked, encoded.tensors):
        others = scores.clone()
        others[:, : len(vocabulary.reserved)] = -torch.inf
        others[rows, asked] = -torch.inf
        named = others.topk(NUM_NAMED, dim=1).indices
        found[name] = float(belonging.gather(1, named).sum(dim=1).mean())
    found["the oracle"] = float(belonging.topk(NUM_NAMED, dim=1).values.sum(dim=1).mean())
    return found


def main() -> None:
    """Print a table in Markdown, a column a run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("world", type=Path)
    parser.add_argument("runs", type=Path, nargs="+")
    parser.add_argument("--outfits", type=int, default=500)
    given = parser.parse_args()
    world = StylistWorld.load(given.world)
    columns = {run.name: coverage(run, world, num_outfits=given.outfits) for run in given.runs}
    print(f"| rule | {' | '.join(columns)} |\n|---|{'---|' * len(columns)}")
    for name in next(iter(columns.values())):
        print(f"| {name} | {' | '.join(f'{column[name]:.3f}' for column in columns.values())} |")


if __name__ == "__main__":
    main()
