"""A small GPT of State of the Union addresses that is told the year: what that is worth, and what it writes.

Rows: ``none``, ``global_state_update`` with the year, and the same trained with the years of others. The model that was
told the true years is also asked with those of other addresses and without a year. The gain is given by how many tokens
of the window came before, since these tell the time, too. Then ten texts of each year are written from their beginning,
none chosen.

    python -m studies.written_from_a_year ../shared/data --output runs/written    # hours on two cores

Figures: docs/guides/text-studies.md, "Written from left to right".
"""

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray

from contextual_bert import ContextSchema, ContextualBertForCausalLM, Numerical, TextGeneration, generate_texts
from contextual_bert.data import SequenceDataset
from contextual_bert.evaluation import Interval, cluster_interval, metric_of, paired_bootstrap
from contextual_bert.evaluation.tables import Table, interval_cell, render_markdown
from contextual_bert.inference import load_text_model
from contextual_bert.runs import prepare
from contextual_bert.runs.sweep import run_directory, train_missing
from contextual_bert.training import CausalText
from contextual_bert.training.recipe import Recipe
from contextual_bert_cli.failures import in_words
from contextual_bert_cli.output import calm_transformers
from studies.addresses import FILE

LARGEST = "global_state_update"
YEARS = (1800, 2010)
# The quantiles of the training addresses that ``inspect --override year=numerical`` finds.
EDGES = (1802.5, 1817.5, 1833.5, 1848.5, 1865.5, 1881.0, 1894.5, 1910.5, 1927.5, 1942.5, 1955.5, 1969.5, 1980.5, 1993.5, 2005.5)  # fmt: skip # noqa: E501
PLACES = (1, 4, 16, 64)  # tokens before: where the next range begins
NUM_DEALS = 3  # of years among the addresses
CONTEXT_DROPOUT = 0.1  # what guidance, and asking without a year, needs

Losses = NDArray[np.float32]


def rows(source: Path, *, vocab_size: int, training: Mapping[str, Any], model: Mapping[str, Any]) -> list[Recipe]:
    """The recipes of the rows: ``none`` first, then with the year, then with the years of others."""
    schema = ContextSchema(features=(Numerical(name="year", edges=EDGES),))
    task = CausalText(text="text", vocab_size=vocab_size)
    base = Recipe(data=str(source / FILE), task=task, schema=schema.to_dict(), training=training, model=model)
    told = base.changed(conditioning=LARGEST, training={**training, "context_dropout": CONTEXT_DROPOUT})
    return [base.changed(conditioning="none"), told, told.changed(is_context_shuffled=True)]


@torch.no_grad()
def next_losses(directory: Path, windows: SequenceDataset, context: Mapping[str, torch.Tensor]) -> Losses:
    """Nats of each asked token, window after window.

    Args:
        directory: of the run.
        windows: of the texts.
        context: with a row a window; empty: nothing is known.
    """
    model, _ = load_text_model(directory, ContextualBertForCausalLM)
    found: list[torch.Tensor] = []
    for start in range(0, len(windows), 16):
        chosen = range(start, min(start + 16, len(windows)))
        batch: Any = windows.collate_fn([windows[row] for row in chosen])
        told = {name: values[list(chosen)] for name, values in context.items()} or None
        logits = model.eval()(batch["input_ids"], batch["attention_mask"], told).logits[:, :-1]
        losses = torch.nn.functional.cross_entropy(logits.mT, batch["input_ids"][:, 1:], reduction="none")
        found.append(losses[batch["attention_mask"][:, 1:].bool()])
    return torch.cat(found).numpy()


def dealt(windows: SequenceDataset, *, seed: int) -> dict[str, torch.Tensor]:
    """The contexts of the windows, each address with that of another."""
    _, address = windows.example_ids.unique(return_inverse=True)
    order = torch.from_numpy(np.random.default_rng(seed).permutation(int(address.max()) + 1))
    others = order.roll(1)[order.argsort()]  # one after it in a random circle: nobody's own
    first = torch.stack([(address == each).nonzero()[0, 0] for each in others])
    return {name: values[first[address]] for name, values in windows.context.items()}


def asked(directory: Path, windows: SequenceDataset) -> dict[str, Losses]:
    """The losses of a run under the true years, under those of others, and without one."""
    deals = [next_losses(directory, windows, dealt(windows, seed=seed)) for seed in range(NUM_DEALS)]
    return {
        "the year": next_losses(directory, windows, windows.context),
        "years of others": np.stack(deals).mean(axis=0),
        "no year": next_losses(directory, windows, {}),
    }


def gains(found: Mapping[str, Losses], addresses: NDArray[np.int64], places: NDArray[np.int64]) -> Table:
    """What the year gains over the years of others and over none, by the tokens before."""
    lines: list[tuple[str, ...]] = []
    last = int(places.max()) + 1
    starts = [first for first in PLACES if first < last]
    for first, end in [*zip(starts, [*starts[1:], last], strict=True), (1, last)]:
        part = (places >= first) & (places < end)
        told, clusters = found["the year"][part], addresses[part]
        over = [paired_bootstrap(found[name][part], told, clusters).interval for name in ("years of others", "no year")]
        lines.append((f"{first} to {end - 1}", f"{told.mean():.3f}", *(_cell(each) for each in over)))
    header = ("tokens before", "nats with the year", "gain over the years of others", "gain over no year")
    return Table("What the year gains, nats a token", header, tuple(lines))


def _cell(interval: Interval) -> str:
    return interval_cell(interval, metric_of("cross_entropy_nats"))


def perplexities(by_row: Mapping[str, Losses], addresses: NDArray[np.int64]) -> Table:
    """Nats a token and perplexity of each row, over addresses."""
    lines = [
        (name, _cell(cluster_interval(losses, addresses)), f"{np.exp(losses.mean()):.1f}")
        for name, losses in by_row.items()
    ]
    return Table("Perplexity", ("model, and what it is told", "nats a token", "perplexity"), tuple(lines))


def written(directory: Path, *, guidance: float, num_samples: int) -> str:
    """The texts of each year, from their beginning."""
    model, processor = load_text_model(directory, ContextualBertForCausalLM)
    how = TextGeneration(temperature=0.8, top_p=0.95, max_new_tokens=40, guidance=guidance)
    blocks: list[str] = []
    for year in YEARS:
        wish: dict[str, Any] = {"context": {"year": year}, "num_samples": num_samples, "generation": how}
        texts = [" ".join(text.split()) for text in generate_texts(model, processor, **wish)]
        blocks.append("\n".join([f"{year}, guidance {guidance:g}", *(f"  {text}" for text in texts)]))
    return "```text\n" + "\n".join(blocks) + "\n```"


def main(arguments: Sequence[str] | None = None) -> None:
    """Train what is missing, measure, write, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, help="folder that holds sotu/sotu.parquet")
    parser.add_argument("--output", type=Path, default=Path("runs/written-from-a-year"), help="folder of the runs")
    parser.add_argument("--epochs", type=float, default=4.0)
    parser.add_argument("--width", type=int, default=128, help="of the model, in whole heads of 32")
    parser.add_argument("--blocks", type=int, default=4)
    parser.add_argument("--vocab-size", type=int, default=4_000)
    parser.add_argument("--num-samples", type=int, default=10, help="texts a year")
    parser.add_argument("--jobs", type=int, default=1, help="runs trained beside each other")
    chosen = parser.parse_args(arguments)
    sizes = {
        "hidden_size": chosen.width,
        "num_attention_heads": chosen.width // 32,
        "intermediate_size": 4 * chosen.width,
        "num_hidden_layers": chosen.blocks,
        "hidden_dropout_prob": 0.0,  # a few epochs do not learn it by heart
    }
    training = {"num_train_epochs": chosen.epochs, "per_device_train_batch_size": 8}
    recipes = rows(chosen.data, vocab_size=chosen.vocab_size, training=training, model=sizes)
    planned = [(recipe, prepare(recipe)) for recipe in recipes]
    train_missing(planned, chosen.output, num_jobs=chosen.jobs)
    none, told, shuffled = (run_directory(chosen.output, recipe) for recipe in recipes)
    windows = cast(SequenceDataset, planned[1][1].datasets["test"])
    sizes_asked = windows.sizes - 1  # the first token of a window follows none
    addresses = np.repeat(windows.example_ids.numpy(), sizes_asked)
    places = np.concatenate([np.arange(1, size + 1) for size in sizes_asked])
    found = asked(told, windows)
    by_row = {
        "none": next_losses(none, windows, {}),
        **{f"{LARGEST}, {name}": losses for name, losses in found.items()},
        f"{LARGEST}, trained with the years of others": next_losses(shuffled, windows, windows.context),
    }
    tables = [perplexities(by_row, addresses), gains(found, addresses, places)]
    print(render_markdown("Addresses written from a year", tables, ()))
    for guidance in (1.0, 2.0):
        print(written(told, guidance=guidance, num_samples=chosen.num_samples))


if __name__ == "__main__":
    calm_transformers()
    with in_words():
        main()
