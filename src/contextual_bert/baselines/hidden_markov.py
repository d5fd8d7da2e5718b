"""A hidden Markov model of the labels of words: counted, not trained. The smallest tagger there is.

Labels follow labels, and each writes its word; of words that are in training too rarely the tokenizer's unknown word
stands for all. It knows no context. Paper: Rabiner (1989), "A Tutorial on Hidden Markov Models".
"""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from contextual_bert.baselines.bag import IGNORED_LABEL
from contextual_bert.baselines.crf import LinearChainCRF
from contextual_bert.baselines.label_model import LabelModel
from contextual_bert.data import SequenceDataset
from contextual_bert.errors import ConfigurationError

PRIOR_COUNTS = (0.001, 0.01, 0.1, 1.0, 10.0)  # tried on validation, of words and of labels
USUAL_COUNTS = (0.1, 1.0)  # of a word, of a label, where no validation part can choose them
ROWS_AT_ONCE = 256


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
        >>> data = SequenceDataset([3, 4, 3], [0, 2, 3], context={}, labels=torch.tensor([0, 1, 0]))
        >>> tagger = HiddenMarkovTagger(5, num_labels=2)
        >>> tagger.fit(data)
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
    def fit(self, training: SequenceDataset, validation: SequenceDataset | None = None) -> dict[str, Any]:
        """Count, and choose the prior counts by the loss of each label in the validation part.

        Raises:
            ConfigurationError: no word of the training part has a label.
        """
        counts = self._counts(training)
        best = USUAL_COUNTS
        if validation is not None and bool((_labels_of(validation) != IGNORED_LABEL).any()):
            for place in (0, 1):
                tried = [(each, best[1]) if place == 0 else (best[0], each) for each in PRIOR_COUNTS]
                best = min(tried, key=lambda priors: self._loss(counts, priors, validation))
        self._fill(counts, best)
        return {"word_prior_count": best[0], "label_prior_count": best[1]}

    def _counts(self, dataset: SequenceDataset) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Return how often labels write words, come first, follow each other (before, behind) and come last."""
        vocab_size, num_labels = self.emissions.weight.shape
        is_asked = _labels_of(dataset) != IGNORED_LABEL
        words, labels = dataset.input_ids[is_asked], _labels_of(dataset)[is_asked]
        if not len(labels):
            raise ConfigurationError("No word of the training part has a label", fix="Give words with labels.")
        rows = torch.repeat_interleave(torch.from_numpy(dataset.sizes))[is_asked]
        is_same = rows[1:] == rows[:-1]
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
        self, counts: tuple[Tensor, Tensor, Tensor, Tensor], priors: tuple[float, float], dataset: SequenceDataset
    ) -> float:
        """Return the mean loss of a label, whatever the others are, with these prior counts."""
        self._fill(counts, priors)
        total, number = 0.0, 0
        for rows in dataset.by_length().split(ROWS_AT_ONCE):
            batch = dataset.__getitems__(rows).inputs()
            labels, is_asked = batch["labels"], batch["labels"] != IGNORED_LABEL
            found = self.crf.marginals(self.emissions(batch["input_ids"]), is_asked)
            true = found.gather(2, labels.clamp(min=0).unsqueeze(2)).squeeze(2)
            total, number = total - float(true[is_asked].double().sum()), number + int(is_asked.sum())
        return total / number


def _labels_of(dataset: SequenceDataset) -> Tensor:
    labels = dataset.labels
    assert labels is not None
    return labels
