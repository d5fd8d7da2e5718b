"""The tables, the checkpoint and the queries of the frozen runs, drawn from numpy's PCG64 on every machine."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from transformers import BertConfig, BertForSequenceClassification

from contextual_bert.context import Categorical, ContextSchema, MultiCategorical, Numerical, Vector
from contextual_bert.testing.heads import miniature_checkpoint
from contextual_bert.testing.miniature import drawn_anew

NUM_ITEMS, NUM_WORDS = 20, 18
SIZES = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 24}
MASK = "[MASK]"
CONTEXT = ("sex", "age", "brands", "style", "date")
SCHEMA = ContextSchema(
    features=(
        Categorical(name="sex", values=("f", "m")),
        Numerical(name="age", edges=(30.0, 50.0)),
        MultiCategorical(name="brands", values=("acme", "hooli", "initech")),
        Vector(name="style", size=2, embedding_size=4),
        Categorical(name="month", values=tuple(str(number) for number in range(1, 13)), source="date", part="month"),
    )
)


def write_sets(path: Path, *, num_rows: int = 200) -> None:
    """Write outfits whose items follow the age and the sex of the customer, with one context column of each kind."""
    draw = np.random.default_rng(1)
    rows: dict[str, list[Any]] = {name: [] for name in ("items", "customer", *CONTEXT)}
    for row in range(num_rows):
        sex, age = str(draw.choice(["f", "m"])), int(draw.integers(18, 70))
        first = (age - 18) // 6 + (8 if sex == "m" else 0)
        chosen = (first + draw.permutation(8)[: int(draw.integers(3, 6))]) % NUM_ITEMS
        brands = [str(name) for name in draw.permutation(["acme", "hooli", "initech"])[: int(draw.integers(0, 3))]]
        rows["items"].append([f"item-{number}" for number in chosen])
        rows["customer"].append(f"customer {row % 100}")
        rows["sex"].append(sex)
        rows["age"].append(age if row % 17 else None)
        rows["brands"].append(brands)
        rows["style"].append([float(value) for value in draw.normal(size=2).round(3)])
        rows["date"].append(f"2020-{1 + row % 12:02d}-{1 + row % 28:02d}")
    pq.write_table(pa.table(rows), path)


def write_texts(path: Path, *, num_rows: int = 160) -> None:
    """Write texts with a label and a grade that follow from the first word and the writer, and a tag for each word."""
    draw = np.random.default_rng(2)
    rows: dict[str, list[Any]] = {name: [] for name in ("text", "words", "tags", "verdict", "stars", "sex", "writer")}
    for row in range(num_rows):
        numbers, sex = draw.integers(0, NUM_WORDS, int(draw.integers(3, 9))), str(draw.choice(["f", "m"]))
        is_good = (numbers[0] < NUM_WORDS // 2) == (sex == "f")
        rows["text"].append(" ".join(f"word{number}" for number in numbers))
        rows["words"].append([f"word{number}" for number in numbers])
        rows["tags"].append(["B-EVEN" if number % 2 == 0 else "O" for number in numbers])
        rows["verdict"].append("good" if is_good else "bad")
        rows["stars"].append(int(numbers[0] % 2 + 1 + is_good))
        rows["sex"].append(sex)
        rows["writer"].append(f"writer {row % 40}")
    pq.write_table(pa.table(rows), path)


def write_questions(path: Path, *, num_rows: int = 120) -> None:
    """Write questions whose answer is the first word for her and the last for him; every eighth has none."""
    draw = np.random.default_rng(3)
    rows: dict[str, list[Any]] = {name: [] for name in ("passage", "question", "answer", "start", "sex", "reader")}
    for row in range(num_rows):
        words = [f"word{number}" for number in draw.integers(2, NUM_WORDS, int(draw.integers(3, 20)))]
        sex, has_none = str(draw.choice(["f", "m"])), row % 8 == 0
        rows["passage"].append(" ".join(words))
        rows["question"].append("word0" if has_none else "word1")
        rows["answer"].append(None if has_none else words[0] if sex == "f" else words[-1])
        rows["start"].append(None if has_none else 0 if sex == "f" else len(" ".join(words)) - len(words[-1]))
        rows["sex"].append(sex)
        rows["reader"].append(f"reader {row % 40}")
    pq.write_table(pa.table(rows), path)


def write_checkpoint(folder: Path) -> None:
    """Write a small BERT whose weights look trained, and its tokenizer."""
    config = BertConfig(vocab_size=NUM_WORDS + 5, num_labels=2, max_position_embeddings=40, **SIZES)
    miniature_checkpoint(drawn_anew(BertForSequenceClassification(config)), folder)


def set_queries() -> list[dict[str, Any]]:
    """Return ten queries: each kind of feature given, missing and unknown; one blank and two; constraints; guidance."""
    known = {"sex": "f", "age": 30, "brands": ["acme"], "style": [0.5, -1.0], "date": "2020-05-04"}
    return [
        {"items": ["item-1", MASK, "item-3"], "context": known},
        {"items": ["item-1", MASK, "item-3"], "context": {**known, "sex": "m"}},
        {"items": ["item-1", MASK, "item-3"], "context": {}},
        {"items": [MASK, "item-9", MASK], "context": {"age": 61}},
        {"items": ["item-12"], "context": {"sex": "unheard of", "brands": ["hooli", "unheard of"]}},
        {"items": ["item-4", "item-5"], "context": known, "guidance": 2.0},
        {"items": ["item-4", "item-5"], "context": known, "guidance": 0.0},
        {"items": ["item-4", "nothing we sell"], "context": {"brands": []}},
        {"items": ["item-7"], "context": known, "deny": ["item-1", "item-2"]},
        {"items": ["item-7"], "context": known, "allow": ["item-1", "item-2", "item-8"]},
    ]


def text_queries(*, has_words: bool = False) -> list[dict[str, Any]]:
    """Return ten queries on texts: her, him, nobody known, guidance."""
    draw = np.random.default_rng(4)
    found: list[dict[str, Any]] = []
    for row in range(10):
        words = [f"word{number}" for number in draw.integers(0, NUM_WORDS, 3 + row)]
        context = [{"sex": "f"}, {"sex": "m"}, {}, {"sex": "unheard of"}][row % 4]
        query: dict[str, Any] = {"text": words if has_words else " ".join(words), "context": context}
        found.append({**query, "guidance": 1.5} if row == 9 else query)
    return found


def question_queries() -> list[dict[str, Any]]:
    """Return the ten texts with a question each; the longest are read in windows."""
    return [
        {
            "question": f"word{row % 2}",
            "text": " ".join([each["text"]] * (1 + row % 3)),
            "context": each["context"],
        }
        for row, each in enumerate(text_queries())
    ]
