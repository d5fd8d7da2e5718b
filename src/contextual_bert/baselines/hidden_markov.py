"""A hidden Markov model of the labels of words: counted, not trained. The smallest tagger there is.

Labels follow labels, and each writes its word; of words that are in training too rarely the tokenizer's unknown word
stands for all. It knows no context. Paper: Rabiner (1989), "A Tutorial on Hidden Markov Models".
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from contextual_bert.baselines.crf import LinearChainCRF
from contextual_bert.baselines.label_model import LabelModel
from contextual_bert.errors import ConfigurationError

PRIOR_COUNTS = (0.001, 0.01, 0.1, 1.0, 10.0)  # tried on validation, of words and of labels
USUAL_COUNTS = (0.1, 1.0)  # of a word, of a label, where no validation part can choose them
TEXTS_AT_ONCE = 256


class TaggedWords(NamedTuple):
    """Words with labels, text after text.

    Shapes:
        words, labels, texts (n,): ids, numbers of labels, and of the text of each word, which rise.
    """

    words: Tensor
    labels: Tensor
    texts: Tensor

    def padded(self) -> tuple[Tensor, Tensor, Tensor]:
        """Return words, labels and which of them are there, a row a text: (texts, longest) each.

        Example:
            >>> words = TaggedWords(torch.tensor([3, 4, 3]), torch.tensor([0, 1, 0]), torch.tensor([5, 5, 9]))
            >>> words.padded()[0].tolist(), words.padded()[2].tolist()
            ([[3, 4], [3, 0]], [[True, True], [True, False]])
        """
        _, rows, sizes = self.texts.unique_consecutive(return_inverse=True, return_counts=True)
        places = torch.arange(len(rows)) - (sizes.cumsum(dim=0) - sizes)[rows]
        is_there = torch.arange(int(sizes.max())) < sizes[:, None]
        grids = [torch.zeros(is_there.shape, dtype=torch.long) for _ in range(2)]
        for grid, values in zip(grids, (self.words, self.labels), strict=True):
            grid[rows, places] = values
        return grids[0], grids[1], is_there


class HiddenMarkovTagger(LabelModel):
    """A label for each word from what the labels before and behind it may be, and which words they write.

    Formula:
        Pr(y, w) = Pr(y_1) prod_t Pr(w_t | y_t) Pr(y_{t+1} | y_t), y_{n+1} the end;
        Pr(w | y) = (n(w, y) + a) / (n(y) + a V);  Pr(y' | y) = (n(y, y') + b) / (n(y) + b (L + 1))

    Symbols:
        n counts in training; V tokens of the vocabulary, L labels; a and b prior counts, chosen on validation.

    Shapes:
        input_ids, attention_mask (batch, length); labels (batch, length), -100 where nothing is asked; logits (batch,
        length, labels): log Pr(w_t | y_t), the emissions of ``crf``.

    Args:
        vocab_size: ids, reserved ones included.
        num_labels: labels.

    Raises:
        ConfigurationError: less than two labels.

    Relation to its siblings:
        Its chain is a ``LinearChainCRF`` whose weights are logarithms of counted shares. ``BiLSTMTagger`` learns them.

    Example:
        >>> words = TaggedWords(torch.tensor([3, 4, 3]), torch.tensor([0, 1, 0]), torch.tensor([0, 0, 1]))
        >>> tagger = HiddenMarkovTagger(5, num_labels=2)
        >>> tagger.fit(words)
        {'word_prior_count': 0.1, 'label_prior_count': 1.0}
        >>> tagger.crf.decode(tagger(torch.tensor([[3, 4]]))["logits"], torch.tensor([[True, True]]))
        tensor([[0, 1]])
    """

    def __init__(self, vocab_size: int, *, num_labels: int) -> None:
        super().__init__()
        self.emissions = nn.Embedding(vocab_size, num_labels)
        nn.init.zeros_(self.emissions.weight)
        self.crf = LinearChainCRF(num_labels)

    def logits(self, input_ids: Tensor, is_real: Tensor, context: Mapping[str, Tensor] | None) -> Tensor:
        return self.emissions(input_ids)

    def total_loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        return -self.crf(logits, labels).sum()

    @torch.no_grad()
    def fit(self, training: TaggedWords, validation: TaggedWords | None = None) -> dict[str, Any]:
        """Count, and choose the prior counts by the loss of each label in the validation part.

        Raises:
            ConfigurationError: no word of the training part has a label.
        """
        counts = self._counts(training)
        best = USUAL_COUNTS
        if validation is not None and len(validation.labels):
            for place in (0, 1):
                tried = [(each, best[1]) if place == 0 else (best[0], each) for each in PRIOR_COUNTS]
                best = min(tried, key=lambda priors: self._loss(counts, priors, validation))
        self._fill(counts, best)
        return {"word_prior_count": best[0], "label_prior_count": best[1]}

    def _counts(self, tagged: TaggedWords) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Return how often labels write words, come first, follow each other (before, behind) and come last."""
        vocab_size, num_labels = self.emissions.weight.shape
        words, labels, texts = tagged
        if not len(labels):
            raise ConfigurationError("No word of the training part has a label", fix="Give words with labels.")
        is_same = texts[1:] == texts[:-1]
        is_first = torch.cat([torch.tensor([True]), ~is_same])
        is_last = torch.cat([~is_same, torch.tensor([True])])
        pairs = (labels[:-1] * num_labels + labels[1:])[is_same]
        written = torch.bincount(words * num_labels + labels, minlength=vocab_size * num_labels)
        return (
            written.view(-1, num_labels).double(),
            torch.bincount(labels[is_first], minlength=num_labels).double(),
            torch.bincount(pairs, minlength=num_labels**2).view(num_labels, num_labels).double(),
            torch.bincount(labels[is_last], minlength=num_labels).double(),
        )

    def _fill(self, counts: tuple[Tensor, Tensor, Tensor, Tensor], priors: tuple[float, float]) -> None:
        of_words, first, pairs, last = counts
        of_word, of_label = priors
        written = (of_words + of_word) / (of_words.sum(dim=0) + of_word * len(of_words))
        following = torch.cat([pairs, last[:, None]], dim=1) + of_label
        following = following / following.sum(dim=1, keepdim=True)
        first = (first + of_label) / (first + of_label).sum()
        self.emissions.weight.copy_(written.log())
        self.crf.start.copy_(first.log())
        self.crf.transitions.copy_(following[:, :-1].log())
        self.crf.end.copy_(following[:, -1].log())

    def _loss(
        self, counts: tuple[Tensor, Tensor, Tensor, Tensor], priors: tuple[float, float], tagged: TaggedWords
    ) -> float:
        """Return the mean loss of a label, whatever the others are, with these prior counts."""
        self._fill(counts, priors)
        total = 0.0
        grids = (grid.split(TEXTS_AT_ONCE) for grid in tagged.padded())
        for words, labels, is_there in zip(*grids, strict=True):
            found = self.crf.marginals(self.emissions(words), is_there)
            true = found.gather(2, labels.unsqueeze(2)).squeeze(2)
            total -= float(true[is_there].double().sum())
        return total / len(tagged.labels)
