"""From encoded texts to the columns that say their labels: whole columns at once. It knows no words and no query."""

from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np
import pyarrow as pa
import torch
from numpy.typing import NDArray
from torch import Tensor

from contextual_bert.data import SequenceDataset
from contextual_bert.data.ragged import flat_index, offsets_of
from contextual_bert.errors import ConfigurationError
from contextual_bert.inference.guidance import guided_logits
from contextual_bert.inference.text_baseline import TextBaselineConfig
from contextual_bert.inference.texts.text_layout import NO_START
from contextual_bert.models import IGNORED_LABEL, ContextualBertConfig, best_labels, label_logits

LABEL, PROBABILITY = "predicted_label", "probability"  # a table to be labelled often has a column "label"


class LabelColumns:
    """The columns ``predicted_label``, ``probability`` and, of each label, ``probability_<label>``.

    A text that may have several labels has a list of those above one half, and of their probabilities. Words have a
    list of tags and of their probabilities, null behind the longest text that the model reads. A regression has its
    number as ``predicted_label`` and nothing else.

    Args:
        config: of the model.
        has_tags: whether the model labels words.
    """

    def __init__(self, config: ContextualBertConfig | TextBaselineConfig, *, has_tags: bool) -> None:
        given = cast(dict[int, Any], config.id2label)
        self.names: list[str] = [str(name) for _, name in sorted(given.items())]
        if sorted(given) != [*range(len(given))] or len({*self.names}) != len(given):
            raise ConfigurationError(
                "in the config of the model",
                setting="id2label",
                value=given,
                fix="Give each id from 0 on a name of its own.",
            )
        self.has_tags = has_tags
        self.has_numbers = not has_tags and (len(self.names) == 1 or config.problem_type == "regression")
        self.may_have_several = config.problem_type == "multi_label_classification"

    @property
    def schema(self) -> pa.Schema:
        """Names and types of the columns."""
        number = pa.float32()
        if self.has_numbers:
            return pa.schema([(LABEL, number if len(self.names) == 1 else pa.list_(number))])
        if self.has_tags:
            return pa.schema([(LABEL, pa.list_(pa.string())), (PROBABILITY, pa.list_(number))])
        single = [(LABEL, pa.string()), (PROBABILITY, number)]
        first = [(name, pa.list_(kind)) for name, kind in single] if self.may_have_several else single
        return pa.schema([*first, *((f"{PROBABILITY}_{name}", number) for name in self.names)])

    def read(self, logits: Tensor) -> Tensor:
        """Return the numbers or probabilities that are kept of logits (..., labels)."""
        if self.has_numbers:
            return logits
        return logits.sigmoid() if self.may_have_several else logits.softmax(dim=-1)

    def kept(
        self,
        model: Any,
        dataset: SequenceDataset,
        *,
        word_starts: NDArray[np.int64] | None,
        batch_size: int,
        guidance: Sequence[float] | None = None,
        progress: Callable[[int, int], None] | None = None,
    ) -> NDArray[np.float32]:
        """Return the kept numbers of each text, or of each token for tags, in the order of the data set.

        Args:
            model: in ``eval()`` mode.
            dataset: the texts.
            word_starts: (tokens,), as ``EncodedTexts`` has them; None where texts have labels, and not their words.
            batch_size: texts a forward pass.
            guidance: how personal each answer is to be; None: the model as it is.
            progress: called with (texts done, texts in all) after each batch.
        """
        count, width = (len(dataset.input_ids), 2) if self.has_tags else (len(dataset), len(self.names))
        kept = np.empty((count, width), dtype=np.float32)
        # Texts of one length together need no padding; the longest first: what does not fit into memory fails at once.
        order = dataset.by_length(is_descending=True)
        for start in range(0, len(order), batch_size):
            rows = order[start : start + batch_size]
            inputs = dataset.__getitems__(rows).inputs()
            weights = [1.0] * len(rows) if guidance is None else [guidance[row] for row in rows.tolist()]
            logits = guided_logits(model, inputs, weights, rows=torch.arange(len(rows)))
            if word_starts is None:
                kept[rows.numpy()] = self.read(logits).cpu().numpy()
            else:
                places, is_real = flat_index(dataset.offsets.numpy(), rows.numpy()), inputs["attention_mask"].bool()
                asked = torch.full(is_real.shape, IGNORED_LABEL)
                asked[is_real] = torch.from_numpy(np.where(word_starts[places] != NO_START, 0, IGNORED_LABEL))
                kept[places] = read_tags(model, logits, asked.to(logits.device)).cpu()[is_real].numpy()
            if progress is not None:
                progress(min(start + batch_size, len(order)), len(order))
        return kept

    def of_texts(self, kept: NDArray[np.float32]) -> pa.Table:
        """The columns of texts, from what was kept of each: (texts, labels)."""
        names, width = pa.array(self.names, pa.string()), kept.shape[1]
        if self.has_numbers:
            numbers = pa.array(kept.ravel())
            return self._table([numbers if width == 1 else _lists(numbers, np.full(len(kept), width))])
        if self.may_have_several:
            is_given = kept > 0.5
            found = names.take(pa.array(is_given.nonzero()[1])), pa.array(kept[is_given])
            first = [_lists(values, is_given.sum(axis=1)) for values in found]
        else:
            best = kept.argmax(axis=1)
            first = [names.take(pa.array(best)), pa.array(kept[np.arange(len(kept)), best])]
        return self._table([*first, *(pa.array(kept[:, label]) for label in range(width))])

    def of_words(
        self, kept: NDArray[np.float32], word_starts: NDArray[np.int64], num_words: NDArray[np.int64]
    ) -> pa.Table:
        """The columns of words, from what was kept of each token, (tokens, 2); ``num_words`` of each text."""
        is_start = word_starts != NO_START
        words = word_starts[is_start]
        is_unread = np.ones(int(num_words.sum()), dtype=np.bool_)
        tags, shares = np.zeros(len(is_unread), dtype=np.int64), np.zeros(len(is_unread), dtype=np.float32)
        is_unread[words], tags[words], shares[words] = False, kept[is_start, 0], kept[is_start, 1]
        named = pa.array(self.names, pa.string()).take(pa.array(tags, mask=is_unread))
        return self._table([_lists(values, num_words) for values in (named, pa.array(shares, mask=is_unread))])

    def _table(self, columns: list[pa.Array]) -> pa.Table:
        return pa.Table.from_arrays(columns, schema=self.schema)


def read_tags(model: Any, logits: Tensor, asked: Tensor) -> Tensor:
    """The tag of each token and the probability of that tag, (batch, length, 2).

    Args:
        model: what gave the logits; its labels may be a chain.
        logits: (batch, length, labels).
        asked: (batch, length), -100 where no word begins: there a chain does not pass, and the tag means nothing.

    Example:
        >>> read_tags(torch.nn.Identity(), torch.tensor([[[0.0, 0.0], [0.0, 9.0]]]), torch.tensor([[0, 0]]))[0, 1, 0]
        tensor(1.)
    """
    best = best_labels(model, logits, asked).clamp(min=0)
    shares = label_logits(model, logits, asked).softmax(dim=-1).gather(-1, best.unsqueeze(-1)).squeeze(-1)
    return torch.stack([best.to(shares.dtype), shares], dim=-1)


def _lists(values: pa.Array, sizes: NDArray[np.int64]) -> pa.Array:
    return pa.ListArray.from_arrays(pa.array(offsets_of(sizes), pa.int32()), values)
