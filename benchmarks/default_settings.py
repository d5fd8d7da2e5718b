"""Default settings against others that are tried: how far is a default run from the best of them, on real tables?

A run a setting; the cross-entropy of the validation and the test part. What is done already is not done again.
Results: docs/decisions/030-default-training.md.

    python benchmarks/default_settings.py grades --data DATA --checkpoint BERT --output FOLDER
    python benchmarks/default_settings.py groceries --data groceries.csv --output FOLDER --method none
    python benchmarks/default_settings.py tafeng --data ta_feng_all_months_merged.csv --output FOLDER --method none
    python benchmarks/default_settings.py tags --data DATA --checkpoint BERT --output FOLDER --only default,"decay 0.1"

Texts are cut to 32 tokens, in bfloat16, and only the first two layers of the checkpoint are taken, so that a training
takes minutes.
"""

import argparse
import csv
import json
import os
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import compute
from torch import nn
from transformers import AutoTokenizer, BertModel, BertTokenizer

from contextual_bert.data import SetPolicy, StylistWorld, read_table, write_table
from contextual_bert.runs import Task, prepare, run
from contextual_bert.runs.selected_fields import with_selected_fields
from contextual_bert.training import Classification, SetCompletion, Tagging
from contextual_bert.training.recipe import Recipe
from studies import crossner, popquorn

NUM_LAYERS, MAX_LENGTH = 2, 32
NUM_COMMENTS, NUM_SENTENCES, NUM_BASKETS, NUM_PEOPLE, NUM_OUTFITS = 600, 1_500, 20_000, 21_000, 7_900
RANDOM_CATEGORIES = (5, 50, 1_000)
ATUS_COMMON = ("010101", "110101", "010201", "120303")  # sleep, meals, grooming, television

# Name -> fields of ContextualTrainingArguments, and of the model's config below "model".
TEXTS: Mapping[str, Mapping[str, Any]] = {
    "default": {},
    "rate 5e-5": {"learning_rate": 5e-5},
    "rate 1e-4": {"learning_rate": 1e-4},
    "rate 2e-4": {"learning_rate": 2e-4},
    "rate 3e-4": {"learning_rate": 3e-4},
    "rate 1e-3": {"learning_rate": 1e-3},
    "rate 5e-5, new 2e-4": {"learning_rate": 5e-5, "new_weights_learning_rate": 2e-4},
    "rate 2e-5, new 1e-3": {"learning_rate": 2e-5, "new_weights_learning_rate": 1e-3},
    "rate 2e-5, new 3e-3": {"learning_rate": 2e-5, "new_weights_learning_rate": 3e-3},
    "rate 5e-5, new 1e-3": {"learning_rate": 5e-5, "new_weights_learning_rate": 1e-3},
    "rate 1e-4, new 3e-4": {"learning_rate": 1e-4, "new_weights_learning_rate": 3e-4},
    "rate 1e-4, new 1e-3": {"learning_rate": 1e-4, "new_weights_learning_rate": 1e-3},
    "rate 2e-4, new 1e-3": {"learning_rate": 2e-4, "new_weights_learning_rate": 1e-3},
    "rate 3e-4, new 1e-3": {"learning_rate": 3e-4, "new_weights_learning_rate": 1e-3},
    "rate 3e-4, new 2e-3": {"learning_rate": 3e-4, "new_weights_learning_rate": 2e-3},
    "rate 6e-4, new 1e-3": {"learning_rate": 6e-4, "new_weights_learning_rate": 1e-3},
    "rate 6e-4, new 2e-3": {"learning_rate": 6e-4, "new_weights_learning_rate": 2e-3},
    "batch 16": {"per_device_train_batch_size": 16},
    "batch 64": {"per_device_train_batch_size": 64},
    "2 epochs": {"num_train_epochs": 2},
    "3 epochs": {"num_train_epochs": 3},
    "6 epochs": {"num_train_epochs": 6},
    "8 epochs": {"num_train_epochs": 8},
    "20 epochs": {"num_train_epochs": 20},
    "decay 0.1": {"weight_decay": 0.1},
    "decay 0.3": {"weight_decay": 0.3},
    "dropout 0": {"model": {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}},
    "dropout 0.2": {"model": {"hidden_dropout_prob": 0.2, "attention_probs_dropout_prob": 0.2}},
    "warmup 0.2": {"warmup_steps": 0.2},
    "cosine": {"lr_scheduler_type": "cosine"},
    "no clipping": {"max_grad_norm": 0.0},
}
SETS: Mapping[str, Mapping[str, Any]] = {
    "default": {},
    "rate 5e-4": {"learning_rate": 5e-4},
    "batch 128": {"per_device_train_batch_size": 128},
    "item dropout 0.3": {"model": {"hidden_dropout_prob": 0.3}},
    "one mask": {"masks_per_set": 1},
    "linear": {"lr_scheduler_type": "linear"},
    "beta2 0.98": {"adam_beta2": 0.98},
}


@dataclass(frozen=True)
class Source:
    """What the tables are made from: where the data are, and where their copies go."""

    data: Path
    checkpoint: Path | None
    folder: Path


def grades(source: Source) -> Recipe:
    """POPQUORN: the ratings of 600 comments that are drawn, split by comment."""
    table = popquorn.read(source.data, source.folder)
    comments = np.unique(table.column(popquorn.COMMENT).to_numpy(zero_copy_only=False))
    drawn = np.random.default_rng(0).choice(comments, NUM_COMMENTS, replace=False)
    chosen = table.filter(compute.is_in(table.column(popquorn.COMMENT), pa.array(drawn)))
    return Recipe(
        data=written(chosen, source, "grades.parquet"),
        task=Classification(
            checkpoint=short_checkpoint(source, chosen.column(popquorn.TEXT).to_pylist()),
            text=popquorn.TEXT,
            label=popquorn.GRADE,
            max_length=MAX_LENGTH,
        ),
        customer=popquorn.COMMENT,
        dtype="bfloat16",
        validation=0.15,
        test=0.4,
    )


def tags(source: Source) -> Recipe:
    """CrossNER: 1,500 sentences of all domains and parts, split by sentence."""
    table = drawn_rows(crossner.read(source.data, source.folder), NUM_SENTENCES)
    return Recipe(
        data=written(table, source, "tags.parquet"),
        task=Tagging(
            checkpoint=short_checkpoint(source, chain.from_iterable(table.column("tokens").to_pylist())),
            text="tokens",
            label="tags",
            max_length=MAX_LENGTH,
        ),
        dtype="bfloat16",
        validation=0.15,
        test=0.35,
    )


def atus(source: Source) -> Recipe:
    """ATUS: the days of 21,000 people, 4 to 8 activities, without travel and the four commonest."""
    policy = SetPolicy(drop_items=ATUS_COMMON, drop_prefixes=("18",), min_count=20, min_size=4, max_size=8)
    table = drawn_rows(read_table(source.data / "atus" / "atus.parquet"), NUM_PEOPLE)
    path = written(table, source, "atus.parquet")
    return Recipe(data=path, task=SetCompletion(items="items", policy=policy), exclude=("person_id", "date"))


def groceries(source: Source) -> Recipe:
    """Groceries of the R package arules: a basket a line."""
    with source.data.open(newline="") as file:
        baskets = [list(dict.fromkeys(basket)) for basket in csv.reader(file)]
    path = written(pa.table({"items": baskets}), source, "groceries.parquet")
    return Recipe(data=path, task=SetCompletion(items="items", policy=SetPolicy(min_count=5, min_size=2)))


def baskets(source: Source) -> pa.Table:
    """Ta-Feng: a row a customer and day, of 4 to 8 products."""
    kept = ["TRANSACTION_DT", "CUSTOMER_ID", "AGE_GROUP", "PIN_CODE", "PRODUCT_ID"]
    table = read_table(source.data).select(kept).rename_columns(["date", "customer", "age", "area", "items"])
    date = compute.strptime(table.column("date").cast(pa.string()), format="%m/%d/%Y", unit="s").cast(pa.date32())
    table = table.set_column(0, "date", date)
    for name in ("customer", "age", "area", "items"):
        at = table.column_names.index(name)
        table = table.set_column(at, name, compute.utf8_trim_whitespace(table.column(name).cast(pa.string())))
    # One table a day and customer; the order of the groups is that of the file.
    grouped = table.group_by(["date", "customer"], use_threads=False).aggregate(
        [("age", "first"), ("area", "first"), ("items", "distinct")]
    )
    grouped = grouped.rename_columns(["date", "customer", "age", "area", "items"])
    size = compute.list_value_length(grouped.column("items"))
    return grouped.filter(compute.and_(compute.greater_equal(size, 4), compute.less_equal(size, 8)))


def tafeng(source: Source) -> Recipe:
    """Ta-Feng: 20,000 baskets that are drawn, split by customer."""
    path = written(drawn_rows(baskets(source), NUM_BASKETS), source, "tafeng.parquet")
    task = SetCompletion(items="items", policy=SetPolicy(min_count=5, min_size=2))
    return Recipe(data=path, task=task, customer="customer", exclude=("date",))


def tafeng_by_time(source: Source) -> Recipe:
    """Ta-Feng: all baskets, split by time."""
    path = written(baskets(source), source, "tafeng-by-time.parquet")
    task = SetCompletion(items="items", policy=SetPolicy(min_count=5, min_size=2))
    return Recipe(data=path, task=task, customer="customer", time="date", split_by="time", exclude=("date",))


def tafeng_with_noise(source: Source) -> Recipe:
    """Ta-Feng: 20,000 baskets that are drawn, split by time, with five fields of random values."""
    table = drawn_rows(baskets(source), NUM_BASKETS)
    random = np.random.default_rng(0)
    for number in RANDOM_CATEGORIES:
        values = [f"value {value}" for value in random.integers(number, size=table.num_rows)]
        table = table.append_column(f"random_{number}", pa.array(values))
    for name in ("random_uniform", "random_normal"):
        values = random.random(table.num_rows) if name == "random_uniform" else random.normal(size=table.num_rows)
        table = table.append_column(name, pa.array(values))
    path = written(table, source, "tafeng-with-noise.parquet")
    task = SetCompletion(items="items", policy=SetPolicy(min_count=5, min_size=2))
    return Recipe(data=path, task=task, customer="customer", time="date", split_by="time", exclude=("date",))


def stylist(source: Source) -> Recipe:
    """The stylist world with interactions: 1,000 articles, 7,900 outfits, split by customer."""
    path = written(StylistWorld.generate(1_000, seed=0).sample(NUM_OUTFITS, seed=0), source, "stylist.parquet")
    return Recipe(data=path, task=SetCompletion(items="items"), customer="customer_id")


TABLES = {
    "grades": grades,
    "tags": tags,
    "atus": atus,
    "groceries": groceries,
    "tafeng": tafeng,
    "tafeng-by-time": tafeng_by_time,
    "tafeng-with-noise": tafeng_with_noise,
    "stylist": stylist,
}


def drawn_rows(table: pa.Table, number: int) -> pa.Table:
    """Return so many rows of a table, drawn with seed 0, in their order."""
    chosen = np.random.default_rng(0).choice(table.num_rows, min(number, table.num_rows), replace=False)
    return table.take(pa.array(np.sort(chosen)))


def written(table: pa.Table, source: Source, name: str) -> str:
    """Write a table beside the runs and return its path."""
    path = source.folder / name
    write_table(table, path)
    return str(path)


def short_checkpoint(source: Source, texts: Iterable[str]) -> str:
    """Return the path of a copy of the checkpoint: its first layers, and of its vocabulary what the texts hold.

    Tokens that no text holds have no gradient. Without them a step is shorter, and the texts have the same tokens.
    """
    assert source.checkpoint is not None, "texts need --checkpoint"
    path = source.folder / "checkpoint"
    tokenizer = AutoTokenizer.from_pretrained(source.checkpoint)
    bert = BertModel.from_pretrained(source.checkpoint, num_hidden_layers=NUM_LAYERS)
    used = sorted({*tokenizer.all_special_ids, *chain.from_iterable(tokenizer(list(texts))["input_ids"])})
    embeddings = bert.embeddings.word_embeddings
    embeddings.weight = nn.Parameter(embeddings.weight.detach()[used])
    bert.config.vocab_size, bert.config.pad_token_id = len(used), used.index(tokenizer.pad_token_id)
    bert.save_pretrained(path)
    words = tokenizer.convert_ids_to_tokens(used)
    (path / "vocab.txt").write_text("".join(f"{word}\n" for word in words))
    BertTokenizer(str(path / "vocab.txt"), do_lower_case=True).save_pretrained(path)
    if (pooling := source.checkpoint / "1_Pooling").exists():
        shutil.copytree(pooling, path / "1_Pooling", dirs_exist_ok=True)
    return str(path)


def tried(recipe: Recipe, ready: Task, settings: Mapping[str, Any], output: Path) -> dict[str, Any]:
    """Train with these settings and return the cross-entropy of both parts, and what it cost."""
    training = {name: value for name, value in settings.items() if name != "model"}
    recipe = recipe.changed(training=training, model=settings.get("model", {}))
    run(recipe, output, prepared=ready, is_quiet=True, is_overwritten=True)
    shutil.rmtree(output / "checkpoints", ignore_errors=True)
    found = json.loads((output / "metrics.json").read_text())
    parts = {part: found[part]["metrics"] for part in ("validation", "test")}
    return {**parts, "seconds": found["cost"]["training_seconds"]}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("table", choices=TABLES)
    parser.add_argument("--data", type=Path, default=Path(os.environ.get("CONTEXTUAL_BERT_DATA", ".")))
    parser.add_argument("--checkpoint", type=Path)
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--method", default="global_state_update")
    parser.add_argument("--only", type=lambda names: tuple(next(csv.reader([names]))), default=())
    arguments = parser.parse_args()
    folder: Path = arguments.output
    folder.mkdir(parents=True, exist_ok=True)
    recipe = TABLES[arguments.table](Source(arguments.data, arguments.checkpoint, folder))
    recipe = recipe.changed(conditioning=arguments.method)
    ready = with_selected_fields(prepare(recipe), [recipe])
    candidates = TEXTS if arguments.table in ("grades", "tags") else SETS
    for name in arguments.only or candidates:
        output = folder / f"{arguments.table}-{arguments.method}-{name.replace(' ', '-').replace(',', '')}"
        file = output.with_suffix(".json")
        if not file.exists():
            file.write_text(json.dumps(tried(recipe, ready, candidates[name], output)))
        found = json.loads(file.read_text())
        figures = [f"{found[part]['cross_entropy_nats']['value']:.3f}" for part in ("validation", "test")]
        print(f"| {name} | {' | '.join(figures)} | {found['seconds']:.0f} |", flush=True)


if __name__ == "__main__":
    main()
