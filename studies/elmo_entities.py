"""What ELMo is worth to a tagger: a BiLSTM-CRF on CrossNER with the mixture of a language model's layers and without.

Forward and backward LSTMs learn the 1.98 million words of State of the Union; every twentieth address is held out for
their perplexity. Then the tagger learns the 700 training sentences of five domains, by words of its own alone, or with
the frozen language model's vectors beside them; its epoch is chosen by entity F1 on the validation sentences. A control
has the vectors of a language model that was never trained: what the characters alone are worth. Three seeds each.
Results: studies/results/elmo-entities; what they say: docs/guides/text-studies.md.

    python -m studies.elmo_entities ../shared/data            # two hours on one core
    python -m studies.elmo_entities ../shared/data --epochs 1 --tagger-epochs 5 --seeds 1

Paper: Peters et al. (2018). The tagger: Huang, Xu and Yu (2015). The tags: Liu et al. (2021).
"""

import argparse
import random
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils.rnn import pad_sequence

from contextual_bert.atomic_files import replacing_file
from contextual_bert.baselines import BiLSTMTagger
from contextual_bert.data import read_table
from contextual_bert.evaluation import ClusterBootstrap, Interval, LabelPredictions, metric_of
from contextual_bert.evaluation.metrics import ENTITY_F1
from contextual_bert.evaluation.tables import Table, interval_cell, render_markdown
from contextual_bert.models import IGNORED_LABEL
from contextual_bert.models.bidirectional_lm import BidirectionalLM, BidirectionalLMConfig, ElmoFeatures
from contextual_bert.models.word_characters import encode_words, most_frequent_words, spelt_marks, spelt_words
from contextual_bert_cli.failures import in_words
from contextual_bert_cli.output import calm_transformers
from studies.addresses import FILE
from studies.crossner import DOMAINS, FILES

RESULTS = Path(__file__).parent / "results" / "elmo-entities"
LONGEST = 40  # words of a sentence; longer ones are cut into several
HELD_OUT_EVERY = 20  # addresses
VOCAB_SIZE, MIN_COUNT, NUM_CHARACTERS = 8_000, 2, 20
BATCH, LEARNING_RATE, WARM_UP = 64, 3e-3, 0.05
TAGGER_BATCH, TAGGER_RATE, HIDDEN, DROPOUT = 16, 2e-3, 128, 0.5
CHECKED_EVERY = 4  # epochs of a tagger
ROWS = ("bilstm_crf", "bilstm_crf, ELMo never trained", "bilstm_crf, ELMo")

Sentences = list[list[str]]


def sentences_of(text: str) -> Sentences:
    """Return the words of each sentence of a text, punctuation marks among them.

    Example:
        >>> sentences_of("Peace, at last. We rest.")
        [['Peace', ',', 'at', 'last', '.'], ['We', 'rest', '.']]
    """
    found: Sentences = []
    for sentence in re.split(r"(?<=[.!?;])\s+|\n+", text):
        words = re.findall(r"\w+(?:[-'’]\w+)*|[^\w\s]", sentence)
        found += [words[first : first + LONGEST] for first in range(0, len(words), LONGEST)]
    return found


def addresses(source: Path) -> tuple[Sentences, Sentences]:
    """Return the sentences of the addresses that are learned, and of those that are held out."""
    texts = read_table(source / FILE).column("text").to_pylist()
    parts: tuple[Sentences, Sentences] = ([], [])
    for number, text in enumerate(texts):
        parts[number % HELD_OUT_EVERY == HELD_OUT_EVERY - 1].extend(sentences_of(text))
    return parts


def batches(sentences: Sentences, chooser: random.Random) -> Iterator[Sentences]:
    """Return batches of sentences of about one length, in an order by chance."""
    order = sorted(range(len(sentences)), key=lambda each: (len(sentences[each]), chooser.random()))
    starts = [*range(0, len(order), BATCH)]
    chooser.shuffle(starts)
    for start in starts:
        yield [sentences[each] for each in order[start : start + BATCH]]


def pretrain(source: Path, folder: Path, *, epochs: int) -> None:
    """Train the language model and save it, with its perplexity on the addresses that are held out."""
    torch.manual_seed(0)
    learned, held_out = addresses(source)
    vocabulary = most_frequent_words(learned, vocab_size=VOCAB_SIZE, min_count=MIN_COUNT)
    model = BidirectionalLM(BidirectionalLMConfig(vocabulary))
    chooser = random.Random(0)
    steps = epochs * -(-len(learned) // BATCH)
    optimizer = torch.optim.AdamW(model.parameters(), lr=LEARNING_RATE)
    scheduler = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, LEARNING_RATE, total_steps=steps, pct_start=WARM_UP, div_factor=100.0
    )
    done, nats = 0, float("nan")
    for epoch in range(epochs):
        model.train()
        for texts in batches(learned, chooser):
            loss: Any = model(**encode_words(texts, vocabulary=vocabulary, max_characters=NUM_CHARACTERS)).loss
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            scheduler.step()
            done += 1
            if done % 200 == 0:
                print(f"language model: step {done:,} of {steps:,}, loss {float(loss):.3f} nats", flush=True)
        nats = held_out_nats(model, held_out)
        print(f"language model: epoch {epoch + 1}, {nats:.3f} nats a word held out, perplexity {np.exp(nats):.1f}")
    model.config.held_out_nats = nats
    model.save_pretrained(folder)


@torch.no_grad()
def held_out_nats(model: BidirectionalLM, sentences: Sentences) -> float:
    """Return the mean of both directions' cross-entropies, a word."""
    model.eval()
    total = count = 0.0
    for texts in batches(sentences, random.Random(0)):
        given = encode_words(texts, vocabulary=model.config.vocabulary, max_characters=NUM_CHARACTERS)
        asked = int(given["attention_mask"].sum()) - len(texts)
        loss: Any = model(**given).loss
        total += float(loss) * asked
        count += asked
    return total / count


class TaggedSentence(NamedTuple):
    """Words and tags of a sentence, by their numbers."""

    words: Tensor
    tags: Tensor


@dataclass(frozen=True)
class Corpus:
    """CrossNER: all domains, by part.

    Args:
        words: each word of all parts; those that training has come first.
        num_known: words of training.
        tags: their names.
        parts: part -> sentences.
    """

    words: tuple[str, ...]
    num_known: int
    tags: tuple[str, ...]
    parts: dict[str, list[TaggedSentence]]


def read_corpus(source: Path) -> Corpus:
    """Read the sentences of all domains."""
    rows: dict[str, list[Any]] = {
        part: [
            row for domain in DOMAINS for row in read_table(source / "crossner" / f"{domain}.{name}.jsonl").to_pylist()
        ]
        for part, name in FILES.items()
    }
    learned = dict.fromkeys(word for row in rows["train"] for word in row["tokens"])
    words = tuple(
        dict.fromkeys([*learned, *(word for part in rows.values() for row in part for word in row["tokens"])])
    )
    tags = tuple(sorted({tag for part in rows.values() for row in part for tag in row["tags"]}))
    of_words, of_tags = ({each: number for number, each in enumerate(names)} for names in (words, tags))
    parts = {
        part: [
            TaggedSentence(
                torch.tensor([of_words[word] for word in row["tokens"]]),
                torch.tensor([of_tags[tag] for tag in row["tags"]]),
            )
            for row in found
        ]
        for part, found in rows.items()
    }
    return Corpus(words, len(learned), tags, parts)


class KnownWords(nn.Embedding):
    """Embeddings of the words of training; all others share the last one."""

    def forward(self, words: Tensor) -> Tensor:  # pyright: ignore[reportIncompatibleMethodOverride]
        return super().forward(words.clamp(max=self.num_embeddings - 1))


class RememberedFeatures(ElmoFeatures):
    """``ElmoFeatures`` of words by their numbers: each sentence is read once, for its states stay as they are.

    The language model reads a start and an end around each sentence, and the tagger does not.
    """

    def __init__(self, model: BidirectionalLM, words: Sequence[str]) -> None:
        super().__init__(model)
        spelt = spelt_marks(NUM_CHARACTERS), spelt_words(words, max_characters=NUM_CHARACTERS)
        self.spellings = torch.cat(spelt)
        self.known: dict[bytes, Tensor] = {}

    def marked(self, words: Tensor, is_real: Tensor) -> list[Tensor]:
        lengths = is_real.sum(dim=1, keepdim=True)
        numbers = functional.pad((words + 2).masked_fill(~is_real, 0), (1, 1)).scatter(1, lengths + 1, 1)
        mask = torch.arange(numbers.shape[1]) <= lengths + 1
        return [each[:, 1:-1] for each in super().states(self.spellings[numbers], mask)]

    def states(self, characters: Tensor, is_real: Tensor) -> list[Tensor]:
        words = characters.squeeze(2)
        names = [row[real].numpy().tobytes() for row, real in zip(words, is_real, strict=True)]
        new = [row for row, name in enumerate(names) if name not in self.known]
        if new:
            layers = torch.stack(self.marked(words[new], is_real[new]), dim=2)
            for row, states in zip(new, layers, strict=True):
                self.known[names[row]] = states[is_real[row]].clone()
        return [*pad_sequence([self.known[name] for name in names], batch_first=True).unbind(dim=2)]


def tagger_of(corpus: Corpus, model: BidirectionalLM | None) -> BiLSTMTagger:
    """Return an untrained tagger, which reads a language model's vectors, too, if there is one."""
    tagger = BiLSTMTagger(1, num_labels=len(corpus.tags), has_crf=True, hidden_size=HIDDEN, dropout=DROPOUT)
    tagger.states.embeddings = KnownWords(corpus.num_known + 1, HIDDEN)
    if model is not None:
        features = RememberedFeatures(model, corpus.words)
        tagger.read_beside(features, size=features.size)
    return tagger


def padded(sentences: Sequence[TaggedSentence]) -> tuple[Tensor, Tensor, Tensor]:
    """Return words, which of them are real, and tags, of several sentences."""
    words, tags = (pad_sequence([each[part] for each in sentences], batch_first=True) for part in (0, 1))
    is_real = pad_sequence([torch.ones(len(each.words)) for each in sentences], batch_first=True).bool()
    return words, is_real, tags.masked_fill(~is_real, IGNORED_LABEL)


def train_tagger(tagger: BiLSTMTagger, corpus: Corpus, *, epochs: int, seed: int) -> LabelPredictions:
    """Train a tagger and return the tags of the test sentences after the checked epoch with the best validation F1."""
    chooser = random.Random(seed)
    weights = [weight for weight in tagger.parameters() if weight.requires_grad]
    optimizer = torch.optim.AdamW(weights, lr=TAGGER_RATE)
    train, best, kept = [*corpus.parts["train"]], -1.0, None
    for epoch in range(epochs):
        tagger.train()
        chooser.shuffle(train)
        for start in range(0, len(train), TAGGER_BATCH):
            words, is_real, tags = padded(train[start : start + TAGGER_BATCH])
            loss = tagger(words, is_real.long(), labels=tags, characters=words.unsqueeze(2))["loss"]
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(weights, 5.0)
            optimizer.step()
        if (epoch + 1) % CHECKED_EVERY:
            continue
        f1 = entity_f1(predicted(tagger, corpus, "validation"))
        if f1 > best:
            best, kept = f1, predicted(tagger, corpus, "test")
    assert kept is not None
    return kept


@torch.no_grad()
def predicted(tagger: BiLSTMTagger, corpus: Corpus, part: str) -> LabelPredictions:
    """Return the tags of a part."""
    tagger.eval()
    columns: list[list[NDArray[np.int64]]] = []
    sentences = corpus.parts[part]
    for start in range(0, len(sentences), 64):
        words, is_real, tags = padded(sentences[start : start + 64])
        found = tagger.predict(words, is_real.long(), characters=words.unsqueeze(2))
        row, place = is_real.nonzero(as_tuple=True)
        columns.append([each.numpy() for each in (row + start, place, found[is_real], tags[is_real])])
    return LabelPredictions(*(np.concatenate(column) for column in zip(*columns, strict=True)), names=corpus.tags)


def entity_f1(predictions: LabelPredictions) -> float:
    """Return the entity F1 in percent."""
    return float(predictions.metrics(predictions.columns().mean(axis=0))[ENTITY_F1])


def compared(rows: dict[str, list[LabelPredictions]]) -> Table:
    """Return the entity F1 of each row, the mean over its seeds, and its difference from the first, over sentences."""
    draws = ClusterBootstrap(next(iter(rows.values()))[0].example_id, num_resamples=2_000, seed=0)
    values, replicates = dict[str, float](), dict[str, NDArray[np.float64]]()
    for name, seeds in rows.items():
        values[name] = float(np.mean([entity_f1(each) for each in seeds]))
        drawn = [each.metrics(draws.resampled_means(each.columns()))[ENTITY_F1] for each in seeds]
        replicates[name] = np.mean(drawn, axis=0)
    first, form = next(iter(rows)), metric_of(ENTITY_F1)
    lines: list[tuple[str, ...]] = []
    for name, seeds in rows.items():
        own = draws.interval(values[name], replicates[name])
        gain = draws.difference(values[name] - values[first], replicates[name] - replicates[first]).interval
        each = ", ".join(f"{entity_f1(one):.2f}" for one in seeds)
        lines.append((name, _cell(own, form), "" if name == first else _cell(gain, form), each))
    header = ("tagger", "entity F1, percent", f"beyond {first}", "by seed")
    return Table("Entities of CrossNER", header, tuple(lines))


def _cell(interval: Interval, form: Any) -> str:
    return interval_cell(interval, form)


def main(arguments: Sequence[str] | None = None) -> None:
    """Train what is missing, compare, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, help="folder that holds sotu and crossner")
    parser.add_argument("--epochs", type=int, default=2, help="of the language model")
    parser.add_argument("--tagger-epochs", type=int, default=24)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--output", type=Path, default=RESULTS, help="folder of the language model and the report")
    chosen = parser.parse_args(arguments)
    folder = chosen.output / "runs" / "language-model"
    if not (folder / "config.json").exists():
        pretrain(chosen.data, folder, epochs=chosen.epochs)
    corpus, found = read_corpus(chosen.data), {row: list[LabelPredictions]() for row in ROWS}
    for seed in range(chosen.seeds):
        for row in ROWS:
            kept = folder.parent / f"{row.replace(', ', '-').replace(' ', '-')}-{seed}.npz"
            if kept.exists():  # where the study was interrupted
                found[row].append(LabelPredictions(**np.load(kept), names=corpus.tags))
                continue
            torch.manual_seed(seed)
            trained = BidirectionalLM.from_pretrained(folder)
            model = {ROWS[0]: None, ROWS[1]: BidirectionalLM(trained.config), ROWS[2]: trained}[row]
            torch.manual_seed(seed)
            tagger = tagger_of(corpus, model)
            found[row].append(train_tagger(tagger, corpus, epochs=chosen.tagger_epochs, seed=seed))
            with replacing_file(kept) as partial, partial.open("wb") as file:
                arrays: Any = found[row][-1].as_arrays()
                np.savez(file, **arrays)
            mixed = tagger.elmo
            shares = mixed.mixture.weights.softmax(dim=0).tolist() if isinstance(mixed, ElmoFeatures) else []
            said = f", shares of the layers {', '.join(f'{each:.2f}' for each in shares)}" if shares else ""
            print(f"{row}, seed {seed}: entity F1 {entity_f1(found[row][-1]):.2f}{said}", flush=True)
    nats = BidirectionalLM.from_pretrained(folder).config.held_out_nats
    about = (f"Language model: {nats:.3f} nats a word of addresses held out, perplexity {np.exp(nats):.1f}.",)
    report = render_markdown("What ELMo is worth to a tagger", [compared(found)], about)
    (chosen.output / "report.md").write_text(report, encoding="utf-8")
    print(report)


if __name__ == "__main__":
    calm_transformers()
    with in_words():
        main()
