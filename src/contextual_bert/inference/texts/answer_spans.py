"""From windows to answers: which piece of a text is the likeliest one, and how likely it is that there is none.

It knows a model's logits and where its tokens stand in the texts, no query and no metric.
"""

import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from contextual_bert.data import SequenceDataset
from contextual_bert.inference.scoring import check_finite, to_device
from contextual_bert.inference.texts.encode_questions import NO_ANSWER, EncodedQuestions
from contextual_bert.models import span_logits

MAX_ANSWER_TOKENS = 30  # as for BERT on SQuAD


class Batch(NamedTuple):
    """Some windows: their numbers, what the model was given, and the logarithms of the probabilities (windows, 2,
    length) that the answer begins, or ends, at each place.
    """

    numbers: Tensor
    inputs: dict[str, Any]
    shares: Tensor


class Answers(NamedTuple):
    """The answers to questions, one row a question: ``text[start:end]``, with its probability and that of none."""

    starts: NDArray[np.int64]
    ends: NDArray[np.int64]
    probabilities: NDArray[np.float64]
    no_answer_probabilities: NDArray[np.float64]

    @property
    def is_none(self) -> NDArray[np.bool_]:
        """Return the mask of questions for which no answer is likelier than the best one."""
        return self.no_answer_probabilities > self.probabilities

    def pieces(self, texts: Sequence[str]) -> list[str]:
        """The answers letter by letter."""
        bounds = zip(texts, self.starts.tolist(), self.ends.tolist(), strict=True)
        return [text[start:end] for text, start, end in bounds]


def span_batches(
    model: Any,
    dataset: SequenceDataset,
    *,
    batch_size: int,
    dtype: torch.dtype = torch.float32,
    progress: Callable[[int, int], None] | None = None,
) -> Iterator[Batch]:
    """All windows, the longest first: what does not fit into memory fails at once.

    Args:
        model: answers questions; put it in ``eval()`` mode before.
        dataset: the windows.
        batch_size: windows a forward pass.
        dtype: bfloat16 runs the model under autocast.
        progress: called with (windows done, windows in all) after each batch.

    Raises:
        NonFiniteError: the model gives no numbers.
    """
    device = next(model.parameters()).device
    autocast = torch.autocast(device.type, dtype=dtype) if dtype != torch.float32 else nullcontext()
    order = dataset.by_length(is_descending=True)
    for start in range(0, len(order), batch_size):
        numbers = order[start : start + batch_size]
        inputs = dataset.__getitems__(numbers).inputs()
        with torch.inference_mode(), autocast:
            outputs = model(**to_device(without_answers(inputs), device))
        yield Batch(numbers, inputs, log_shares(model, outputs, inputs))
        if progress is not None:
            progress(min(start + batch_size, len(order)), len(order))


def without_answers(inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Return the inputs of a batch without the true answers, which a model would turn into a loss."""
    return {name: value for name, value in inputs.items() if name not in ("start_positions", "end_positions")}


def log_shares(model: Any, outputs: Mapping[str, Tensor], inputs: dict[str, Any]) -> Tensor:
    """Return the logarithms of the probabilities that an answer begins, or ends, at each place.

    Shapes: -> (windows, 2, length).

    Raises:
        NonFiniteError: the model gives no numbers.
    """
    logits = {name: outputs[name].float().cpu() for name in ("start_logits", "end_logits")}
    for each in logits.values():
        check_finite(each, model)
    return span_logits(logits, inputs).log_softmax(dim=-1)


def read_spans(questions: EncodedQuestions, batch: Batch, *, max_tokens: int) -> Tensor:
    """(windows, 4) of a batch: the probabilities of the best span and of no answer, that span's first and last
    character.
    """
    first, last, best = best_spans(*batch.shares.unbind(dim=1), max_tokens=max_tokens)
    bounds = bounds_of(questions, batch.numbers, first, last)
    none = batch.shares[:, :, NO_ANSWER].sum(dim=1)
    return torch.stack([best.double().exp(), none.double().exp(), *(each.double() for each in bounds)], dim=1)


def bounds_of(questions: EncodedQuestions, numbers: Tensor, first: Tensor, last: Tensor) -> tuple[Tensor, Tensor]:
    """Return the first and the last character, in its text, of a span of tokens of each window.

    Args:
        questions: whose windows they are.
        numbers: (windows,) of the windows.
        first, last: (windows,) tokens, counted from the window's first.
    """
    starts, characters = questions.dataset.offsets[numbers], torch.from_numpy(questions.characters)
    return characters[starts + first, 0], characters[starts + last, 1]


def best_spans(start: Tensor, end: Tensor, *, max_tokens: int) -> tuple[Tensor, Tensor, Tensor]:
    """The first and the last token of the likeliest span of each row that does not begin at [CLS], and the logarithm of
    its probability; of those alike the shortest.

    Shapes:
        start, end (batch, length), log-probabilities -> (batch,) each.

    Example:
        >>> share = torch.tensor([[0.5, 0.1, 0.4]]).log()
        >>> [each.tolist()[0] for each in best_spans(share, share.flip(1), max_tokens=2)][:2]
        [2, 2]
    """
    first, last = torch.zeros(2, len(start), dtype=torch.int64)
    best = torch.full((len(start),), -torch.inf)
    for distance in range(min(max_tokens, start.shape[1] - 1)):  # a square of positions would be large for long texts
        joint = start[:, 1 : start.shape[1] - distance] + end[:, 1 + distance :]
        found, place = joint.max(dim=1)
        is_better = found > best
        best = torch.where(is_better, found, best)
        first = torch.where(is_better, place + 1, first)
        last = torch.where(is_better, place + 1 + distance, last)
    return first, last, best


def answers_of(questions: EncodedQuestions, spans: NDArray[np.float64]) -> Answers:
    """The answer to each question: the likeliest span of its windows; none is as likely as where it is least so.

    Args:
        questions: whose windows they are.
        spans: (windows, 4), as ``read_spans`` gives them.
    """
    numbers = question_numbers(questions.dataset)
    best = np.lexsort((np.arange(len(spans)), -spans[:, 0], numbers))
    best = best[np.unique(numbers, return_index=True)[1]]  # windows of a question are together
    none = np.full(len(best), np.inf)
    np.minimum.at(none, numbers, spans[:, 1])
    starts, ends = np.maximum(spans[best, 2:], 0).astype(np.int64).T  # a text may have no token at all
    for row, text in enumerate(questions.texts):
        end = int(ends[row])
        while starts[row] < end < len(text) and unicodedata.category(text[end]).startswith("M"):
            end += 1  # accents by themselves belong to the letter, and a tokenizer drops them
        ends[row] = end
    return Answers(starts, ends, spans[best, 0], none)


def question_numbers(dataset: SequenceDataset) -> NDArray[np.int64]:
    """The number of each window's question, from 0 on.

    Example:
        >>> windows = SequenceDataset(torch.arange(3), torch.arange(4), context={}, example_ids=torch.tensor([7, 7, 3]))
        >>> question_numbers(windows).tolist()
        [0, 0, 1]
    """
    rows = dataset.example_ids.numpy()
    return np.concatenate([np.zeros(min(1, len(rows)), dtype=np.int64), np.cumsum(np.diff(rows) != 0)])
