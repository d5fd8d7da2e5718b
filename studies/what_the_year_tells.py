"""How much the year of a State of the Union address says about its words, and how much of that the passage says itself.

Single words, without a network: p(word) from the training passages, mixed with p(word) of the passages that lie near in
time. Near is judged by the address's year, or by a guess of it that was learned from words: half of a passage (every
other word) is the evidence, the other half is scored. What the true year adds to the guess is the most that a model
with the rest of the passage in view could gain from it, as far as single words go.

    python -m studies.what_the_year_tells ../shared/data                          # seconds
    python -m studies.what_the_year_tells ../shared/data --words 10 40 160 640    # longer passages tell more

Words are those of two letters or more that the training passages hold. Mixture and width are chosen on the validation
part; intervals over addresses of the test part.
"""

import argparse
import itertools
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer
from sklearn.linear_model import Ridge

from contextual_bert.data import Split
from contextual_bert.evaluation import Interval, cluster_interval, metric_of, paired_bootstrap
from contextual_bert.evaluation.tables import Table, interval_cell, render_markdown
from contextual_bert_cli.failures import in_words
from studies.addresses import WORDS, read
from studies.text_study import SPLIT_FILE

SMOOTHING = 0.1  # pseudo-counts of a word
WIDTHS = (5.0, 10.0, 20.0, 40.0)  # years
SHARES = (0.3, 0.6, 0.8, 0.9)

Losses = NDArray[np.float64]
Years = NDArray[np.float64]


def word_losses(counts: sparse.csr_matrix, probabilities: NDArray[np.float64]) -> tuple[Losses, NDArray[np.int64]]:
    """Nats of each word and the passage it is of; probabilities: one distribution, or one per passage."""
    words: Any = counts.tocoo()
    rows: NDArray[np.int64] = np.repeat(words.row, words.data)
    columns: NDArray[np.int64] = np.repeat(words.col, words.data)
    chosen = probabilities[columns] if probabilities.ndim == 1 else probabilities[rows, columns]
    return -np.log(chosen), rows


class NearInTime:
    """Words of the training passages, weighted by how near in time they were said."""

    def __init__(self, counts: sparse.csr_matrix, years: Years) -> None:
        self._counts, self._years = counts, years
        total = np.asarray(counts.sum(axis=0)).ravel() + SMOOTHING
        self.anywhen: NDArray[np.float64] = total / total.sum()

    def mixed(self, years: Years, *, width: float, share: float) -> NDArray[np.float64]:
        """Passages x words: ``share`` of it from near the years, the rest from any time."""
        weights = np.exp(-np.abs(years[:, None] - self._years[None]) / width)
        near: NDArray[np.float64] = weights @ self._counts
        near /= near.sum(axis=1, keepdims=True)
        return share * near + (1 - share) * self.anywhen


def halves(texts: Sequence[str]) -> tuple[list[str], list[str]]:
    """Every other word of each passage, and the words between."""
    words = [text.split() for text in texts]
    return [" ".join(each[::2]) for each in words], [" ".join(each[1::2]) for each in words]


def measure(source: Path, *, num_words: int = WORDS) -> tuple[list[tuple[str, Interval]], float]:
    """The gains over words without a time, in nats a word, and by how many years the guess is off.

    Args:
        source: folder that holds sotu/sotu.parquet.
        num_words: of a passage.
    """
    with tempfile.TemporaryDirectory() as folder:
        table = read(source, Path(folder), num_words=num_words)
        split = Split.load(Path(folder) / SPLIT_FILE)
    years = table.column("year").to_numpy().astype(np.float64)
    addresses = np.asarray(table.column("address").to_pylist())
    evidence, scored = halves(table.column("text").to_pylist())
    train, validation, test = (split.rows(part) for part in ("train", "validation", "test"))
    counter: Any = CountVectorizer().fit([scored[row] for row in train])
    counts = counter.transform(scored)
    tfidf: Any = TfidfVectorizer(ngram_range=(1, 2), min_df=3, sublinear_tf=True)
    guesser = Ridge().fit(tfidf.fit_transform([evidence[row] for row in train]), years[train])
    guessed: Years = guesser.predict(tfidf.transform(evidence))
    near = NearInTime(counts[train], years[train])

    def losses(rows: NDArray[np.int64], told: Years, width: float, share: float) -> Losses:
        return word_losses(counts[rows], near.mixed(told[rows], width=width, share=share))[0]

    without, passage = word_losses(counts[test], near.anywhen)
    clusters = addresses[test][passage]
    found = [("no time", cluster_interval(without, clusters))]
    by_source: dict[str, Losses] = {}
    for name, told in (("the year guessed from the passage", guessed), ("the year", years)):
        best = min(
            itertools.product(WIDTHS, SHARES), key=lambda choice: float(losses(validation, told, *choice).mean())
        )
        by_source[name] = losses(test, told, *best)
        found.append((f"{name}, gain over no time", paired_bootstrap(without, by_source[name], clusters).interval))
    guess, truth = by_source.values()
    found.append(("the year, gain over the guess", paired_bootstrap(guess, truth, clusters).interval))
    return found, float(np.abs(guessed[test] - years[test]).mean())


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, help="folder that holds sotu/sotu.parquet")
    parser.add_argument("--words", type=int, nargs="+", default=[WORDS], help="of a passage; several: a table of each")
    chosen = parser.parse_args(arguments)
    for num_words in chosen.words:
        found, error = measure(chosen.data, num_words=num_words)
        table = Table(
            "Nats a word",
            ("told", "value"),
            tuple((name, interval_cell(interval, metric_of("cross_entropy_nats"))) for name, interval in found),
        )
        title = f"Words of State of the Union addresses, each by itself, in passages of {num_words:,}"
        print(render_markdown(title, [table], [f"The guess is {error:.1f} years off on average."]))


if __name__ == "__main__":
    with in_words():
        main()
