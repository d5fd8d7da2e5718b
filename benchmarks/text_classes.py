"""Seconds to learn 1,000 classes of short texts: the baseline fasttext against fastText's own package, in the same run.

    pip install fasttext-wheel
    OMP_NUM_THREADS=1 python benchmarks/text_classes.py --texts 1000000 --output text_classes.json

Texts of 5 to 11 words are drawn: three words in ten from 30 that a class likes, the others by Zipf's law from 50,000.
Both sides have one thread, the same texts, epochs, width, buckets, n-grams of 3 to 6 characters, word bigrams and a
hierarchical softmax. fastText takes a step a text, ours a step a batch, so each has learning rates of its own, and what
it has learned is given beside its seconds: the accuracy on texts that it has not seen. fastText's seconds are those of
``train_supervised``, from a file that is written already. Ours are those of the dictionary, the ids and the Trainer,
from texts in memory.
"""

import argparse
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from results import version_of, write_result

from contextual_bert.baselines import FastText
from contextual_bert.baselines.fasttext import HierarchicalSoftmax
from contextual_bert.data import SequenceDataset
from contextual_bert.training import ContextualBertTrainer, ContextualTrainingArguments

CLASSES, WORDS, LIKED, TEST = 1000, 50_000, 30, 20_000
WIDTH, BUCKETS = 100, 262_144
PADDING, UNKNOWN = 0, 1
Labelled = tuple[list[str], NDArray[np.int64]]


def draw(num_texts: int, *, seed: int = 0) -> Labelled:
    """Return texts and their classes."""
    random = np.random.default_rng(seed)
    letters = np.array(list("abcdefghijklmnopqrstuvwxyz"))
    vocabulary = np.array(["".join(random.choice(letters, length)) for length in random.integers(3, 11, WORDS)])
    shares = [1 / np.arange(1, count + 1) ** power for count, power in ((WORDS, 1.0), (CLASSES, 0.5))]
    of_words, of_classes = (share / share.sum() for share in shares)
    classes = random.choice(CLASSES, num_texts, p=of_classes)
    liked = random.integers(0, WORDS, (CLASSES, LIKED))
    lengths = random.integers(5, 12, num_texts)
    words = random.choice(WORDS, (num_texts, 11), p=of_words)
    is_liked = random.random(words.shape) < 0.3
    words = np.where(is_liked, liked[classes[:, None], random.integers(0, LIKED, words.shape)], words)
    return [" ".join(vocabulary[row[:length]]) for row, length in zip(words, lengths, strict=True)], classes


def dataset_of(texts: Sequence[str], classes: NDArray[np.int64], vocabulary: dict[str, int]) -> SequenceDataset:
    """Return the ids of the words of texts."""
    rows = [[vocabulary.get(word, UNKNOWN) for word in text.split()] for text in texts]
    bounds = np.cumsum([0, *map(len, rows)])
    ids = np.fromiter((word for row in rows for word in row), dtype=np.int64, count=int(bounds[-1]))
    return SequenceDataset(ids, bounds, context={}, labels=torch.from_numpy(classes))


def ours(train: Labelled, test: Labelled, *, epochs: int, rate: float, batch_size: int) -> dict[str, Any]:
    """Train the baseline by the Trainer of the package."""
    start = time.perf_counter()
    vocabulary = {"[PAD]": PADDING, "[UNK]": UNKNOWN}
    for text in train[0]:
        for word in text.split():
            vocabulary.setdefault(word, len(vocabulary))
    texts = dataset_of(*train, vocabulary)
    encoded = time.perf_counter()
    torch.manual_seed(0)
    model = FastText(
        [*vocabulary], num_labels=CLASSES, reserved_ids=(PADDING, UNKNOWN), hidden_size=WIDTH, num_buckets=BUCKETS
    )
    assert isinstance(model.head.output, HierarchicalSoftmax)
    model.head.output.grow(np.bincount(train[1], minlength=CLASSES).tolist(), at_shares=True)
    with tempfile.TemporaryDirectory() as folder:
        arguments = ContextualTrainingArguments(
            output_dir=folder,
            use_cpu=True,
            dataloader_pin_memory=False,
            per_device_train_batch_size=batch_size,
            learning_rate=rate,
            num_train_epochs=epochs,
            lr_scheduler_type="linear",
            save_strategy="no",
            eval_strategy="no",
            load_best_model_at_end=False,
            logging_strategy="no",
            disable_tqdm=True,
            report_to=[],
        )
        ContextualBertTrainer(model, arguments, train_dataset=texts).train()
    end = time.perf_counter()
    model.eval()
    unseen, hits = dataset_of(*test, vocabulary), 0
    for rows in torch.arange(len(test[0])).split(1000):
        inputs: Any = unseen.__getitems__(rows).inputs()
        labels = inputs.pop("labels")
        with torch.no_grad():
            hits += int((model(**inputs)["logits"].argmax(dim=1) == labels).sum())
    return {
        "seconds": end - start,
        "of_these_to_encode": encoded - start,
        "accuracy": hits / len(test[0]),
        "learning_rate": rate,
        "batch_size": batch_size,
    }


def peer(train: Labelled, test: Labelled, *, epochs: int, rate: float) -> dict[str, Any]:
    """Train fastText's package on the same texts."""
    import fasttext

    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder) / name for name in ("train.txt", "test.txt")]
        for path, (texts, classes) in zip(paths, (train, test), strict=True):
            lines = (f"__label__{label} {text}\n" for label, text in zip(classes, texts, strict=True))
            path.write_text("".join(lines), encoding="utf-8")
        start = time.perf_counter()
        model = fasttext.train_supervised(
            str(paths[0]),
            lr=rate,
            dim=WIDTH,
            epoch=epochs,
            wordNgrams=2,
            minn=3,
            maxn=6,
            bucket=BUCKETS,
            loss="hs",
            thread=1,
            verbose=0,
        )
        seconds = time.perf_counter() - start
        return {"seconds": seconds, "accuracy": model.test(str(paths[1]))[1], "learning_rate": rate}


def measure(*, num_texts: int, epochs: int, rates: tuple[float, float], batch_size: int) -> dict[str, Any]:
    """The result as plain values; ``rates`` are ours and fastText's."""
    texts, classes = draw(num_texts + TEST)
    train, test = (texts[:num_texts], classes[:num_texts]), (texts[num_texts:], classes[num_texts:])
    found = {
        "fasttext_package": peer(train, test, epochs=epochs, rate=rates[1]),
        "ours": ours(train, test, epochs=epochs, rate=rates[0], batch_size=batch_size),
    }
    return {
        "num_texts": num_texts,
        "num_classes": CLASSES,
        "epochs": epochs,
        **found,
        "times_the_texts_per_second_of_the_peer": found["fasttext_package"]["seconds"] / found["ours"]["seconds"],
        "peer_version": version_of("fasttext-wheel") or version_of("fasttext"),
    }


def main() -> None:
    """Measure and print, and write the result where asked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--texts", type=int, default=1_000_000, help="texts to learn from")
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--rate", type=float, default=0.2, help="our learning rate")
    parser.add_argument("--peer-rate", type=float, default=0.5, help="fastText's learning rate")
    parser.add_argument("--batch-size", type=int, default=4096)
    parser.add_argument("--output", type=Path, help="write the result there as JSON")
    given = parser.parse_args()
    torch.set_num_threads(1)
    result = measure(
        num_texts=given.texts, epochs=given.epochs, rates=(given.rate, given.peer_rate), batch_size=given.batch_size
    )
    write_result(result, given.output)


if __name__ == "__main__":
    main()
