"""Search for the best ways to fill several blanks at once: along the chain rule, or by Gibbs sampling.

It knows ids, masks and a function that gives logits; no names and no answers. Partial sets go through the model in
whole batches. Not in the paper.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from contextual_bert.candidates import SoftmaxOver, exclude, excluded_ids
from contextual_bert.inference.constraints import ConstraintInput, Settings, permitted_beside

Ids = NDArray[np.int64]


class Found(NamedTuple):
    """Filled blanks (found, blanks) and their log-probabilities (found,), best first.

    ``log_total``: the logarithm of the probability of everything that is permitted, None where not all was seen.
    """

    filled: Ids
    scores: NDArray[np.float64]
    log_total: float | None = None


@dataclass(frozen=True)
class Blanks:
    """Permitted items of the blanks of one set: alone (``permitted``, (blanks, vocabulary)) and beside each other."""

    asked: ConstraintInput
    settings: Settings
    permitted: NDArray[np.bool_]

    @property
    def mask_id(self) -> int:
        """Return the id of a blank that is still open."""
        return self.asked.vocabulary.reserved.index("[MASK]")

    @property
    def all_open(self) -> Ids:
        """The one partial set that a search begins with: (1, blanks)."""
        return np.full((1, len(self.permitted)), self.mask_id, dtype=np.int64)

    def permitted_at(self, blank: int, filled: Ids) -> NDArray[np.bool_]:
        """Return the permitted items of one blank beside the others: (rows, vocabulary).

        Args:
            blank: which one; what ``filled`` has there is not looked at.
            filled: (rows, blanks) ids, the same blanks open in each row.
        """
        is_open = filled[0] == self.mask_id
        is_open[blank] = False
        is_chosen = ~is_open
        is_chosen[blank] = False
        asked = replace(self.asked, chosen=filled[:, is_chosen], others=self.permitted[is_open])
        return self.permitted[blank] & permitted_beside(asked, self.settings)


class Conditionals:
    """The model's distribution over all items in one blank, given what the others hold.

    Args:
        logits: gives (asked, vocabulary) for a batch of inputs; its ``logits_at`` (batch, length) says what is asked.
        inputs: of the one set that is completed, with all its blanks open.
        mask_id: of ``[MASK]``.
        reserved: ids that are no items, or none that can be asked for.
        can_repeat: whether an item that the set shows has a probability.
        batch_size: partial sets a forward pass of the machine.

    ``num_forward_passes`` counts the partial sets that went through the model.
    """

    def __init__(
        self,
        logits: Callable[[Mapping[str, Any]], Tensor],
        inputs: Mapping[str, Any],
        *,
        mask_id: int,
        reserved: Sequence[int],
        batch_size: int,
        can_repeat: bool = True,
    ) -> None:
        self.logits, self.inputs = logits, inputs
        self.mask_id, self.batch_size, self.reserved = mask_id, batch_size, reserved
        self.softmax_over: SoftmaxOver = "items" if can_repeat else "candidates"
        self.positions = (inputs["input_ids"][0] == mask_id).nonzero()[:, 0]
        self.num_forward_passes = 0

    def batches(self, filled: Ids, blank: int) -> Iterator[tuple[slice, Tensor]]:
        """(rows, log-probabilities (rows, vocabulary)) of one blank, which the caller may write into; of reserved ids
        minus infinity.

        Args:
            filled: (rows, blanks), ``mask_id`` where a blank is open, the same in each row.
            blank: which blank; it is open whatever ``filled`` has there.
        """
        filled = filled.copy()
        filled[:, blank] = self.mask_id
        for start in range(0, len(filled), self.batch_size):
            rows = slice(start, min(start + self.batch_size, len(filled)))
            inputs = _repeated(self.inputs, rows.stop - rows.start)
            inputs["input_ids"][:, self.positions] = torch.from_numpy(filled[rows])
            inputs["logits_at"] = torch.zeros_like(inputs["input_ids"], dtype=torch.bool)
            inputs["logits_at"][:, self.positions[blank]] = True
            with torch.inference_mode():
                found = self.logits(inputs)
                asked = inputs["logits_at"].flatten().nonzero(as_tuple=True)[0]
                excluded = excluded_ids(self.softmax_over, inputs["input_ids"], asked, reserved=self.reserved)
                found = exclude(found, excluded.to(found.device) if excluded is not None else None)
                found -= found.logsumexp(dim=-1, keepdim=True)
            self.num_forward_passes += rows.stop - rows.start
            yield rows, found

    def of(self, filled: Ids, blank: int, items: Ids) -> NDArray[np.float64]:
        """The log-probability of one item a row in this blank: (rows,)."""
        chosen = torch.from_numpy(items)[:, None]
        parts = [
            found.gather(1, chosen[rows].to(found.device))[:, 0].cpu() for rows, found in self.batches(filled, blank)
        ]
        return torch.cat(parts).double().numpy()


def _repeated(inputs: Mapping[str, Any], num_rows: int) -> dict[str, Any]:
    """The inputs of one set as those of a batch of equal sets."""
    return {
        name: _repeated(value, num_rows) if isinstance(value, Mapping) else value.repeat_interleave(num_rows, dim=0)
        for name, value in inputs.items()
    }


def search(
    conditionals: Conditionals, blanks: Blanks, *, keep: int, width: int | None = None, has_order: bool = False
) -> Found:
    """Fill the blanks one after the other, in the order of their positions.

    Args:
        conditionals: of the model.
        blanks: what they may hold.
        keep: completions kept of those that differ in the last blank only.
        width: partial sets kept after each blank, the best ones (beam search); None keeps all, which is exact.
        has_order: the model tells partial sets of the same items in other blanks apart; where it does not, a beam holds
            the better one of two.
    """
    found = Found(blanks.all_open, np.zeros(1), 0.0 if width is None else None)
    num_blanks = found.filled.shape[1]
    for blank in range(num_blanks - 1):
        # Of the same items in other blanks one stays, so more than the beam's width is kept until then.
        found = _extended(conditionals, blanks, found, blank, width=width and width * (blank + 1))
        if width is not None and not has_order:
            first = np.sort(np.unique(np.sort(found.filled, axis=1), axis=0, return_index=True)[1])
            found = Found(found.filled[first], found.scores[first])
        found = found._replace(filled=found.filled[:width], scores=found.scores[:width])
        if len(found.filled) == 0:
            return found
    return _extended(conditionals, blanks, found, num_blanks - 1, keep=keep)


def _extended(
    conditionals: Conditionals,
    blanks: Blanks,
    partial: Found,
    blank: int,
    *,
    keep: int | None = None,
    width: int | None = None,
) -> Found:
    """Partial sets with one blank more, best first: the ``keep`` best items of each, the ``width`` best of all.

    The logarithm of everything that is permitted is taken where ``partial`` has it: it costs as much as the search.
    """
    filled, scores, totals = [partial.filled[:0]], [partial.scores[:0]], [-np.inf]
    for batch, log_probabilities in conditionals.batches(partial.filled, blank):
        is_permitted = torch.from_numpy(blanks.permitted_at(blank, partial.filled[batch])).to(log_probabilities.device)
        with torch.inference_mode():
            log_probabilities.masked_fill_(~is_permitted, -torch.inf)
            if partial.log_total is not None:
                of_rows = log_probabilities.logsumexp(dim=1).cpu().double().numpy()
                totals.append(np.logaddexp.reduce(partial.scores[batch] + of_rows))
            limits = [limit for limit in (keep, width, log_probabilities.shape[1]) if limit is not None]
            best = log_probabilities.topk(min(limits), dim=1)
        values, ids = best.values.cpu().double().numpy(), best.indices.cpu().numpy()
        rows, places = np.isfinite(values).nonzero()
        extended = partial.filled[batch][rows]
        extended[:, blank] = ids[rows, places]
        filled.append(extended)
        scores.append(partial.scores[batch][rows] + values[rows, places])
        if width is not None:
            order = np.argsort(-np.concatenate(scores), kind="stable")[:width]
            filled, scores = [np.concatenate(filled)[order]], [np.concatenate(scores)[order]]
    order = np.argsort(-np.concatenate(scores), kind="stable")
    log_total = float(np.logaddexp.reduce(totals)) if partial.log_total is not None else None
    return Found(np.concatenate(filled)[order], np.concatenate(scores)[order], log_total)


def gibbs(
    conditionals: Conditionals, blanks: Blanks, start: Ids, *, num_sweeps: int, generator: torch.Generator
) -> Iterator[Ids]:
    """Draw each blank anew, given all the others, again and again: (chains, blanks) after every draw.

    Args:
        conditionals: of the model.
        blanks: what they may hold; a draw never leaves that.
        start: (chains, blanks), each a permitted completion.
        num_sweeps: how often every blank is drawn.
        generator: of the draws.
    """
    filled = start.copy()
    for _ in range(num_sweeps):
        for blank in range(filled.shape[1]):
            drawn: list[Ids] = []
            for batch, log_probabilities in conditionals.batches(filled, blank):
                is_permitted = torch.from_numpy(blanks.permitted_at(blank, filled[batch]))
                weights = log_probabilities.cpu().double().masked_fill_(~is_permitted, -torch.inf).softmax(dim=1)
                drawn.append(torch.multinomial(weights, 1, generator=generator)[:, 0].numpy())
            filled = filled.copy()
            filled[:, blank] = np.concatenate(drawn)
            yield filled


def chain_scores(conditionals: Conditionals, blanks: Blanks, filled: Ids) -> NDArray[np.float64]:
    """The log-probability of completions by the chain rule over the blanks in their order: (rows,)."""
    prefix = np.repeat(blanks.all_open, len(filled), axis=0)
    scores = np.zeros(len(filled))
    for blank in range(filled.shape[1]):
        scores += conditionals.of(prefix, blank, filled[:, blank])
        prefix[:, blank] = filled[:, blank]
    return scores


def pseudo_scores(conditionals: Conditionals, filled: Ids) -> NDArray[np.float64]:
    """The sum over the blanks of the log-probability of what each holds, given all the others: (rows,)."""
    scores = np.zeros(len(filled))
    for blank in range(filled.shape[1]):
        scores += conditionals.of(filled, blank, filled[:, blank])
    return scores


def diverse(found: Found, *, count: int, min_different: int) -> Ids:
    """Indices of the best completions, each of which has so many items that each better one has not.

    Args:
        found: best first.
        count: how many at most.
        min_different: how many items of the blanks; the blanks that they are in do not matter.
    """
    chosen: list[int] = []
    is_left = np.ones(len(found.filled), dtype=np.bool_)
    while len(chosen) < count and is_left.any():
        best = int(is_left.argmax())
        chosen.append(best)
        is_shared = np.zeros(found.filled.shape, dtype=np.bool_)
        for item in found.filled[best]:
            is_same = (found.filled == item) & ~is_shared
            rows = np.flatnonzero(is_same.any(axis=1))
            is_shared[rows, is_same[rows].argmax(axis=1)] = True
        is_left &= (~is_shared).sum(axis=1) >= min_different
    return np.array(chosen, dtype=np.int64)
