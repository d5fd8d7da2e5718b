"""Numbers of texts by bins or by the squared error: years of State of the Union passages, on the same frozen vectors.

A logistic regression over bins of the training years (what ``--regression`` learns, here on the vectors of a BERT that
stays as it is) against a ridge regression of the year itself. The strength is chosen on the validation part, that of
the ridge by leaving one out; numbers of bins are compared. Passages of one address are in one part.

    python benchmarks/number_bins.py DATA --checkpoint BERT

Formula: RMSE and MAE in years; coverage of the intervals that should hold nine in ten.
"""

import argparse
import warnings
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression, RidgeCV

from contextual_bert.data.number_bins import NumberBins, usual_bins
from contextual_bert.inference.texts.sentence_encoder import SentenceEncoder

WORDS, PASSAGES = 50, 16  # of a passage; of an address
STRENGTHS = (0.01, 0.1, 1.0, 10.0)


def passages(data: Path) -> tuple[list[str], NDArray[np.float64], NDArray[np.int64]]:
    """Return passages that are spread over each address, their years, and the number of the address."""
    table = pq.read_table(data / "sotu" / "sotu.parquet").to_pydict()
    texts, years, addresses = list[str](), list[float](), list[int]()
    for number, (text, year) in enumerate(zip(table["text"], table["year"], strict=True)):
        words = text.split()
        starts = np.linspace(0, max(0, len(words) - WORDS), PASSAGES).astype(int)
        texts += [" ".join(words[start : start + WORDS]) for start in starts]
        years += [float(year)] * PASSAGES
        addresses += [number] * PASSAGES
    return texts, np.array(years), np.array(addresses)


def measured(predicted: NDArray[np.float64], true: NDArray[np.float64]) -> str:
    return f"| {np.sqrt(np.mean((predicted - true) ** 2)):.1f} | {np.abs(predicted - true).mean():.1f} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--checkpoint", required=True)
    arguments = parser.parse_args()
    texts, years, addresses = passages(arguments.data)
    encoder = SentenceEncoder(arguments.checkpoint, pooling="mean", max_length=64, truncation="head", device="cpu")
    vectors = encoder.read(texts)
    part = np.random.default_rng(0).permutation(np.arange(addresses.max() + 1) % 10)[addresses]
    train, validation, test = part < 7, part == 7, part > 7
    print(f"{train.sum():,} passages in training, {validation.sum()} in validation, {test.sum()} in the test\n")
    print("| learned | RMSE | MAE | interval covers, % |\n|---|---|---|---|")
    middle = np.full(test.sum(), years[train].mean())
    print(f"| the mean year {measured(middle, years[test])} |")
    ridge = RidgeCV(alphas=np.logspace(-3, 3, 13)).fit(vectors[train], years[train])
    print(f"| squared error {measured(ridge.predict(vectors[test]), years[test])} |")
    for most in (5, 10, usual_bins(int(train.sum())), 80):
        bins, best = NumberBins.of(years[train], most=most), (np.inf, np.empty(0))
        for strength in STRENGTHS:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                model = LogisticRegression(C=strength, max_iter=300).fit(vectors[train], bins.place(years[train]))
            shares = model.predict_proba(vectors)
            loss = -np.log(shares[validation, bins.place(years[validation])]).mean()
            best = min(best, (loss, shares), key=lambda found: found[0])
        number, low, high = bins.read(best[1][test]).T
        covered = 100 * ((low <= years[test]) & (years[test] <= high)).mean()
        print(f"| {len(bins)} bins {measured(number, years[test])} {covered:.1f} |")


if __name__ == "__main__":
    main()
