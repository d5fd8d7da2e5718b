"""Two centuries of State of the Union addresses: hidden words of a passage, given year, president, party and form.

A masked language model starts from the checkpoint and a head of its own; what is judged is the pseudo-perplexity, with
every token hidden once. The addresses are in the public domain.
"""

from pathlib import Path

import pyarrow as pa

from contextual_bert.benchmark.task import TaskCard
from contextual_bert.benchmark.tasks.text_benchmark import METHODS, TextBenchmark, TextSize, required
from contextual_bert.data import read_table
from contextual_bert.training import TextTask
from contextual_bert.training.recipe import Recipe

FILE = "sotu/sotu.parquet"
DIGEST = "c49b72dfe2322582ebeb2f2fad96714e26f246e8a8d835afe8f19bd01f2023fa"
WORDS = 40  # of a passage: about 50 tokens
PASSAGES = 40  # of each address, spread evenly over it
CONTEXT = {"year": "year", "president": "president", "party": "party", "sotu_type": "form"}
TRAINING = {"num_train_epochs": 6, "learning_rate": 3e-4}
SIZES = {
    "small": TextSize(
        seeds=dict.fromkeys(("none", "global_state_update", "global_state_update_shuffled"), 3),
        training=TRAINING,
        max_length=64,
    ),
    "full": TextSize(
        seeds=dict.fromkeys((*METHODS, "global_state_update_shuffled"), 3),
        training={**TRAINING, "num_train_epochs": 12},
        max_length=64,
    ),
}


def read(source: Path, folder: Path) -> pa.Table:
    """Passages of the addresses with their context, as many of each."""
    path = source / FILE
    addresses = required(read_table(path), ("text", *CONTEXT), file=path)
    rows: dict[str, list[object]] = {name: [] for name in ("text", "address", *CONTEXT.values())}
    for number, address in enumerate(addresses.to_pylist()):
        words = address["text"].split()
        passages = [" ".join(words[start : start + WORDS]) for start in range(0, len(words) - WORDS + 1, WORDS)]
        step = max(1, len(passages) // PASSAGES)
        for passage in passages[::step][:PASSAGES]:
            rows["text"].append(passage)
            rows["address"].append(str(number))
            for column, name in CONTEXT.items():
                rows[name].append(address[column])
    return pa.table(rows)


def by_address(table: Path, checkpoint: str) -> Recipe:
    """No address of the test is in training."""
    return Recipe(
        data=str(table),
        texts=TextTask(checkpoint=checkpoint),
        customer="address",
        validation=0.02,
        test=0.08,
    )


TASK = TextBenchmark(
    card=TaskCard(
        name="addresses",
        title="Hidden words of State of the Union addresses, 1790 to 2020",
        description=(
            "Every token of a passage is hidden once and ranked among all, given the others, the year, the president, "
            "the party and whether the address was spoken or written."
        ),
        licence="public domain",
        citation="the R package sotu (Arnold) for the collection",
        split="by address: no passage of an address of the test is in training",
        main_metric="cross_entropy_nats",
    ),
    data_digest=DIGEST,
    read=read,
    recipe=by_address,
    sizes=SIZES,
)
