"""Two centuries of State of the Union addresses: hidden words of a passage, given year, president, party and form.

A head for hidden words is learned without a context, once, and every row starts from there; what is judged is the
pseudo-perplexity, with every token hidden once. The addresses are in the public domain.

    python -m studies.addresses --data DATA --checkpoint BERT --output studies/results/addresses-small
"""

from pathlib import Path

import numpy as np
import pyarrow as pa

from contextual_bert.baselines.names import CONTEXT_AS_TEXT
from contextual_bert.data import read_table, split_by_customer
from contextual_bert.data.splits import PARTS
from contextual_bert.training import MaskedText
from contextual_bert.training.recipe import Recipe
from studies.cards import TaskCard
from studies.commands import run_command, text_command
from studies.text_grid import (
    ATTRIBUTE_TRAINING,
    METHODS,
    NEW_BLOCKS,
    SHUFFLED,
    RowSettings,
    with_one_new_block,
)
from studies.text_study import SPLIT_FILE, TextBenchmark, TextSize, required

FILE = "sotu/sotu.parquet"
DIGEST = "2b342e42961bd692394546b82e842236388c96f3d7cadc40f44b1ea5fa23a9c1"
WORDS = 40  # of a passage: about 50 tokens
PASSAGES = 40  # of each address at most, evenly from its start to its end
SCORED_EVERY = 10  # of the others' passages: each is read as often as it has tokens
VALIDATION, TEST = 0.08, 0.25  # of the addresses: intervals over few of them would mean little
CONTEXT = {"year": "year", "president": "president", "party": "party", "sotu_type": "form"}
MASK_RATE = 0.4  # a new head learns from what is hidden: with 15% as many steps end higher, see docs/log.md
# The checkpoint has no head for hidden words. It is learned once, without a context: anew in every row it would take
# most of the time, and its noise would be larger than what the context says.
START = {"num_train_epochs": 4, "learning_rate": 3e-4, "new_weights_learning_rate": 1e-3}
# Fields are left out at times, so that a model can be asked for a year alone (``sample --context '{"year": 1800}'``).
TRAINING = {
    "num_train_epochs": 2,
    "per_device_train_batch_size": 16,
    "learning_rate": 1e-4,
    "context_learning_rate": 1e-4,  # at ten times that the context costs more than it says
    "field_dropout": 0.3,
}
# A new block starts from nothing, on top of what has been learned.
WITH_BLOCK = {"new_weights_learning_rate": 1e-3}
ROWS: dict[str, RowSettings] = {
    **dict.fromkeys(("multi_attribute", SHUFFLED), RowSettings(training={**ATTRIBUTE_TRAINING, **WITH_BLOCK})),
    NEW_BLOCKS: {"training": WITH_BLOCK},
}
METHODS_OF_SMALL = ("none", "global_state_update", "multi_attribute", "global_state_update_shuffled", CONTEXT_AS_TEXT)
SIZES = {
    "small": TextSize(
        seeds={**dict.fromkeys(METHODS_OF_SMALL, 3), **dict.fromkeys((SHUFFLED, NEW_BLOCKS), 1)},
        start=START,
        training=TRAINING,
        max_length=64,
        row_settings=with_one_new_block(ROWS),
    ),
    "full": TextSize(
        seeds=dict.fromkeys((*METHODS, "global_state_update_shuffled", SHUFFLED, NEW_BLOCKS, CONTEXT_AS_TEXT), 3),
        start={**START, "num_train_epochs": 12},
        training={**TRAINING, "num_train_epochs": 6},
        max_length=64,
        row_settings=ROWS,
    ),
}


def read(source: Path, folder: Path, *, num_words: int = WORDS) -> pa.Table:
    """Passages of so many words of the addresses with their context, as many of each, and the split: by address."""
    path = source / FILE
    addresses = required(read_table(path), ("text", *CONTEXT), file=path)
    rows: dict[str, list[object]] = {name: [] for name in ("text", "address", *CONTEXT.values())}
    places: list[int] = []
    for number, address in enumerate(addresses.to_pylist()):
        words = address["text"].split()
        passages = [" ".join(words[at : at + num_words]) for at in range(0, len(words) - num_words + 1, num_words)]
        count = min(len(passages), PASSAGES)
        for place in range(count):
            places.append(place)
            rows["text"].append(passages[place * len(passages) // count])
            rows["address"].append(str(number))
            for column, name in CONTEXT.items():
                rows[name].append(address[column])
    written = pa.table(rows)
    split = split_by_customer(written, "address", validation=VALIDATION, test=TEST)
    is_read = (split.assignment == PARTS.index("train")) | (np.array(places) % SCORED_EVERY == 0)
    split.restricted(is_read).save(folder / SPLIT_FILE)
    return written


def by_address(table: Path, checkpoint: str) -> Recipe:
    """No address of the test is in training. Its values are of public speeches, so one address is enough for one."""
    split = str(table.parent / SPLIT_FILE)
    task = MaskedText(checkpoint=checkpoint, mask_rate=MASK_RATE, scored_tokens="all")
    return Recipe(data=str(table), task=task, customer="address", split=split, min_customers=1)


TASK = TextBenchmark(
    card=TaskCard(
        name="addresses",
        title="Hidden words of State of the Union addresses, 1790 to 2020",
        description=(
            "Every token of a passage is hidden once and ranked among all, given the others, the year, the president, "
            "the party and whether the address was spoken or written."
        ),
        context=tuple(CONTEXT.values()),
        licence="public domain",
        citation="the R package sotu (Arnold) for the collection",
        split="by address: no passage of an address of the test is in training",
        main_metric="cross_entropy_nats",
        data_digest=DIGEST,
    ),
    read=read,
    recipe=by_address,
    sizes=SIZES,
)


if __name__ == "__main__":
    run_command(text_command(TASK))
