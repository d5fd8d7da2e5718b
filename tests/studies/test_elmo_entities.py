"""The study of a tagger with a language model's layers: its data, and a small run of it."""

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from studies.crossner import DOMAINS
from studies.elmo_entities import ROWS, main, read_corpus, sentences_of


def write_corpus(folder: Path) -> None:
    """Tagged sentences whose names begin with a capital, and addresses."""
    numbers = np.random.default_rng(0)
    (folder / "crossner").mkdir(parents=True)
    (folder / "sotu").mkdir()
    for domain in DOMAINS:
        for part, count in (("train", 8), ("dev", 4), ("test", 4)):
            rows = []
            for _ in range(count):
                words = ["we", "met", f"Bob{numbers.integers(99)}", "in", f"Rome{part}", "."]
                rows.append({"domain": domain, "tokens": words, "tags": ["O", "O", "B-PER", "O", "B-LOC", "O"]})
            text = "\n".join(map(json.dumps, rows))
            (folder / "crossner" / f"{domain}.{part}.jsonl").write_text(text, encoding="utf-8")
    texts = [f"We met Bob{number} in Rome. Peace, at last." for number in range(40)]
    pq.write_table(pa.table({"text": texts}), folder / "sotu" / "sotu.parquet")


def test_long_sentences_are_cut_and_marks_are_words() -> None:
    assert sentences_of("It's well-known; so be it!") == [["It's", "well-known", ";"], ["so", "be", "it", "!"]]
    assert [len(each) for each in sentences_of("word " * 90)] == [40, 40, 10]


def test_words_of_training_come_first(tmp_path: Path) -> None:
    write_corpus(tmp_path)
    corpus = read_corpus(tmp_path)
    assert "Rometrain" in corpus.words[: corpus.num_known] and "Rometest" in corpus.words[corpus.num_known :]
    assert corpus.tags == ("B-LOC", "B-PER", "O")
    first = corpus.parts["test"][0]
    assert corpus.words[int(first.words[4])] == "Rometest" and corpus.tags[int(first.tags[4])] == "B-LOC"


@pytest.mark.slow
def test_the_study_compares_its_rows(tmp_path: Path) -> None:
    write_corpus(tmp_path)
    output = tmp_path / "out"
    main([str(tmp_path), "--epochs", "1", "--tagger-epochs", "8", "--seeds", "1", "--output", str(output)])
    report = (output / "report.md").read_text(encoding="utf-8")
    assert all(f"| {row} |" in report for row in ROWS) and "perplexity" in report
