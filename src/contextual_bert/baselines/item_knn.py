"""Items by what they come with in sets; new items by what those come with that are like them.

Counted, not trained: a few numbers are chosen on validation.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple, cast

import numpy as np
import scipy  # which imports scipy.optimize on its first use
import torch
from scipy import sparse
from torch import Tensor, nn
from torch.nn import functional

from contextual_bert.baselines.bag import MASK_ID, score_by_logits
from contextual_bert.baselines.shares import Observations, ShareModel
from contextual_bert.candidates import MaskedScores, SoftmaxOver
from contextual_bert.context.kinds.feature import MISSING, MULTI_MISSING
from contextual_bert.item_features import ItemAttributes, ItemLayout

MAX_PARTNERS = 1000  # of an item, those that it comes with most, are kept
NUM_NEIGHBOURS = (1, 4, 16, 64)  # among which the number of neighbours of a new item is chosen
TEMPERATURES = (0.03, 0.1, 0.3)  # among which that of their weights is chosen
USUAL = (16, 0.1)  # number and temperature where nothing can be chosen
ADVANTAGES = (-12.0, 4.0)  # the range of a new item's advantage over its neighbours, in nats
BLOCK_ELEMENTS = 2**22  # of a matrix that is made for some items at a time
FITTED_ELEMENTS, FEWEST_FITTED = 2**22, 1000  # scores by which numbers are chosen, and masked items at least
EVERY = 5  # known item stands for a new one, where validation asks for none
MAX_STEPS = 80  # of the search for the numbers


class WeightedItems(NamedTuple):
    """Some items for each item, with weights; 0 where there are no more.

    Shapes: ids, weights (items, places).
    """

    ids: Tensor
    weights: Tensor

    @classmethod
    def none(cls, num_items: int) -> "WeightedItems":
        """Return no items for each."""
        return cls(torch.zeros(num_items, 1, dtype=torch.int64), torch.zeros(num_items, 1))

    def of(self, items: Tensor) -> "WeightedItems":
        """Return those of some items."""
        return WeightedItems(self.ids[items], self.weights[items])

    def weighted(self, number: int, temperature: float) -> "WeightedItems":
        """Return the first of them, with the softmax of how near they are as weights; 0 for what is not near at all."""
        near = self.weights[:, :number]
        shares = (near / temperature).masked_fill(near <= 0, -torch.inf).softmax(dim=1).nan_to_num()
        return WeightedItems(self.ids[:, :number], shares)


class ItemKNN(nn.Module):
    """Predicts the masked item by how often the visible items come with it, and by its popularity.

    Formula:
        logits_w = b log p_w + g log(1 + s_w / e);  s_w = sum over the visible items v of C_wv / sqrt(n_w n_v);
        of a new item u s_u = sum over its neighbours w of a_uw s_w, p_u = sum of a_uw p_w, and its logit is higher by
        d; a_uw = softmax over the k nearest w of (f_u . f_w / t);  without visible items b = 1

    Symbols:
        C_wv sets of the training that hold w and v, 0 for w = v; n_w those that hold w; p the shares of ``ShareModel``;
        f_w the features of w, each scaled to length 1 and divided by the root of their number; b, g, e, k, t, d are
        chosen. k and t rank the known items as if they were new. Where validation asks for no new items, some known
        ones stand for them when d is chosen. A new item that is visible comes with what its neighbours come with.

    Shapes:
        input_ids and labels (batch, length), labels -100 where nothing is asked; scores (masked,).

    Args:
        vocab_size: items, reserved ids included.
        num_reserved: ids below this are no items.
        softmax_over: what scores go over, see ``candidates``.
        item_layout: of the items' features, whose values ``attributes`` is given before ``fit``; None: new items are
            known by nothing.

    Relation to its siblings:
        ``ItemPopularity`` reads no items, ``BagOfItems`` is trained. No context is read.

    Reference:
        Sarwar et al. (2001), "Item-based Collaborative Filtering Recommendation Algorithms": cosine similarity. The
        neighbours of new items are those of content-based filtering.

    Example:
        >>> knn = ItemKNN(7)
        >>> sets = torch.tensor([3, 4, 3, 4, 5, 6])
        >>> _ = knn.fit(Observations(sets, torch.tensor([0, 0, 1, 1, 2, 2]), {}))
        >>> knn.score_masked(torch.tensor([[5, 1]]), labels=torch.tensor([[-100, 6]])).num_better
        tensor([0])
    """

    def __init__(
        self,
        vocab_size: int,
        *,
        num_reserved: int = 3,
        softmax_over: SoftmaxOver = "vocabulary",
        item_layout: ItemLayout | None = None,
    ) -> None:
        super().__init__()
        self.softmax_over: SoftmaxOver = softmax_over
        self.num_reserved = num_reserved
        self.shares = ShareModel(vocab_size, layout=(), num_reserved=num_reserved)
        self.attributes = (
            ItemAttributes(item_layout, vocab_size, num_reserved=num_reserved) if item_layout is not None else None
        )
        self.log_shares, self.advantages = torch.zeros(vocab_size), torch.zeros(vocab_size)
        self.new_ids = torch.zeros(0, dtype=torch.int64)
        self.partners = self.neighbours = WeightedItems.none(vocab_size)
        self.nearest: WeightedItems | None = None
        self.settings: dict[str, float] = {}

    @property
    def device(self) -> torch.device:
        """Return the device of the shares."""
        return self.log_shares.device

    def fit(self, training: Observations, validation: Observations | None = None) -> dict[str, float]:
        """Count what comes with what, choose the numbers of the formula, and return them.

        Args:
            training: the items of the sets, whose rows are the sets.
            validation: what the numbers are chosen by. Without it they are chosen by a tenth of the training sets,
                with counts of the others.

        Raises:
            DataError: there is nothing to count.
        """
        is_held = training.rows % 10 == 9
        if validation is not None:
            self._count(training, validation)
            chosen = self._chosen(validation)
        elif bool(is_held.any()) and not bool(is_held.all()):
            self._count(_where(training, ~is_held), None)
            chosen = self._chosen(_where(training, is_held))
            self._count(training, None)
        else:
            self._count(training, None)
            chosen = {}
        self._take(chosen)
        return {**self.shares.settings, **self.settings}

    def _count(self, training: Observations, validation: Observations | None) -> None:
        """Count shares and partners, and find the nearest items of each by its features."""
        membership = _membership(training, self.num_reserved, len(self.log_shares))
        is_known = torch.from_numpy(membership.sum(axis=0) > 0)
        if validation is not None and self.attributes is not None:  # new items have the shares of their neighbours
            validation = _where(validation, is_known[validation.targets])
        self.shares.fit(training, validation, is_without_visible=self.softmax_over == "candidates")
        self.partners = _partners(membership)
        self.new_ids = self.num_reserved + (~is_known[self.num_reserved :]).nonzero().flatten()
        is_needed = self.attributes is not None and len(self.new_ids) > 0
        self.nearest = _nearest(cast(ItemAttributes, self.attributes), is_known) if is_needed else None
        self._take({})

    def _take(self, chosen: Mapping[str, float]) -> None:
        """Take the numbers that were chosen, and the usual ones for the others."""
        self.settings = {"popularity_weight": 1.0, "score_weight": 1.0, "score_scale": 1.0}
        if self.nearest is not None:
            self.settings |= {"num_neighbours": USUAL[0], "temperature": USUAL[1], "advantage_of_new": 0.0}
        self.settings |= chosen
        self.log_shares, self.advantages = self.shares.log_shares.clone(), torch.zeros(len(self.log_shares))
        self.log_shares[: self.num_reserved] = 0.0  # no items, and no numbers to count with
        new = self.new_ids
        if self.nearest is None:
            return
        number, temperature = int(self.settings["num_neighbours"]), self.settings["temperature"]
        self.neighbours = self.nearest.of(new).weighted(number, temperature)
        self.log_shares[new] = _shares_of_neighbours(self.neighbours, self.log_shares, self.log_shares[new])
        self.advantages[new] = self.settings["advantage_of_new"]
        self.partners = _with_rows(self.partners, new, self.neighbours)

    def _chosen(self, asked: Observations) -> dict[str, float]:
        """Return the numbers that are best for masked items of these sets."""
        examples = _Examples.of(asked, self.num_reserved, len(self.log_shares))
        is_new = torch.zeros(len(self.log_shares), dtype=torch.bool)
        is_new[self.new_ids] = True
        is_asked = ~is_new[examples.targets]
        if not bool(is_asked.any()):
            return {}
        sums, allowed = self._sums(examples.input_ids), examples.allowed(self.softmax_over, self.num_reserved)
        of_asked = sums[is_asked], examples.targets[is_asked], (allowed & ~is_new)[is_asked]
        log_shares = self.shares.log_shares.clone()
        log_shares[: self.num_reserved] = 0.0

        def of_known(numbers: Any) -> float:
            logits = _logits(of_asked[0], log_shares, numbers[0], numbers[1], float(np.exp(numbers[2])))
            return _mean_loss(logits, *of_asked[1:])

        scale = float(np.log(max(float(sums.max()), 1e-6) / 10))
        found = scipy.optimize.minimize(
            of_known,
            (0.5, 1.0, scale),
            method="Nelder-Mead",
            bounds=((0.0, 2.0), (0.0, 50.0), (scale - 10, scale + 10)),
            options={"maxfev": MAX_STEPS, "xatol": 0.01, "fatol": 1e-4},
        )
        best = found.x if found.fun < of_known((1.0, 0.0, scale)) else (1.0, 0.0, scale)
        numbers = (float(best[0]), float(best[1]), float(np.exp(best[2])))
        chosen = dict(zip(("popularity_weight", "score_weight", "score_scale"), numbers, strict=True))
        return chosen | self._chosen_of_new(examples, sums, allowed, log_shares, numbers)

    def _chosen_of_new(
        self, examples: "_Examples", sums: Tensor, allowed: Tensor, log_shares: Tensor, numbers: tuple[float, ...]
    ) -> dict[str, float]:
        """Return the numbers of new items that are best, given those of the known ones; none where none is needed."""
        if self.nearest is None:
            return {}
        nearest, is_new = self.nearest, torch.zeros(len(log_shares), dtype=torch.bool)
        is_new[self.new_ids] = True

        def as_if_new(setting: tuple[int, float]) -> tuple[Tensor, Tensor]:
            neighbours = nearest.weighted(*setting)
            return _sums_of_neighbours(neighbours, sums), _shares_of_neighbours(neighbours, log_shares, log_shares)

        def loss_as_if_new(setting: tuple[int, float]) -> float:
            return _mean_loss(_logits(*as_if_new(setting), *numbers), examples.targets, allowed)

        setting = min(((number, each) for number in NUM_NEIGHBOURS for each in TEMPERATURES), key=loss_as_if_new)
        chosen = {"num_neighbours": setting[0], "temperature": setting[1]}
        if not bool(is_new[examples.targets].any()):  # some known ones stand for them
            allowed = allowed & ~is_new
            is_new = ~is_new & (torch.arange(len(is_new)) % EVERY == 0)
        of_neighbours, shares = as_if_new(setting)
        logits = _logits(torch.where(is_new, of_neighbours, sums), torch.where(is_new, shares, log_shares), *numbers)

        def loss(advantage: float) -> float:
            return _mean_loss(logits + advantage * is_new, examples.targets, allowed)

        found = scipy.optimize.minimize_scalar(loss, bounds=ADVANTAGES, method="bounded", options={"xatol": 0.05})
        return {**chosen, "advantage_of_new": float(found.x) if found.fun < loss(0.0) else 0.0}

    def logits(self, input_ids: Tensor) -> Tensor:
        """Return the logits of each set: (batch, vocabulary)."""
        numbers = (self.settings[name] for name in ("popularity_weight", "score_weight", "score_scale"))
        logits = _logits(self._sums(input_ids), self.log_shares, *numbers) + self.advantages
        logits[:, : self.num_reserved] = -torch.inf
        return logits

    def _sums(self, input_ids: Tensor) -> Tensor:
        """Return s of each item: (batch, vocabulary)."""
        sums = _mixed(WeightedItems(input_ids, torch.ones(input_ids.shape)), self.partners)
        if self.nearest is not None:
            sums[:, self.new_ids] = _sums_of_neighbours(self.neighbours, sums)
        return sums

    @torch.no_grad()
    def score_masked(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        context: Mapping[str, Tensor] | None = None,
        labels: Tensor | None = None,
    ) -> MaskedScores:
        """Rank the true item of each masked position: (masked,) each."""
        return score_by_logits(
            self.logits(input_ids), input_ids, labels, softmax_over=self.softmax_over, num_reserved=self.num_reserved
        )


class _Examples(NamedTuple):
    """Sets with a masked item each.

    Shapes: input_ids (n, length), targets (n,).
    """

    input_ids: Tensor
    targets: Tensor
    vocab_size: int

    @classmethod
    def of(cls, asked: Observations, num_reserved: int, vocab_size: int) -> "_Examples":
        """Mask the items of some sets, evenly spread where there are many."""
        row, counts = torch.unique_consecutive(asked.rows, return_inverse=True, return_counts=True)[1:]
        place = torch.arange(len(row)) - (counts.cumsum(0) - counts)[row]
        sets = torch.zeros(len(counts), int(counts.max()) if len(counts) else 0, dtype=torch.int64)
        sets[row, place] = asked.targets
        chosen = (asked.targets >= num_reserved).nonzero().flatten()
        most = max(FEWEST_FITTED, FITTED_ELEMENTS // vocab_size)
        if len(chosen) > most:
            chosen = chosen[torch.arange(most) * len(chosen) // most]
        input_ids = sets[row[chosen]]
        input_ids[torch.arange(len(chosen)), place[chosen]] = MASK_ID
        return cls(input_ids, asked.targets[chosen], vocab_size)

    def allowed(self, softmax_over: SoftmaxOver, num_reserved: int) -> Tensor:
        """Return which items each masked position can hold: (n, vocabulary)."""
        found = torch.ones(len(self.targets), self.vocab_size, dtype=torch.bool)
        if softmax_over == "candidates":
            found.scatter_(1, self.input_ids, False)
            found.scatter_(1, self.targets[:, None], True)
        found[:, :num_reserved] = False
        return found


def _where(observed: Observations, is_chosen: Tensor) -> Observations:
    return Observations(observed.targets[is_chosen], observed.rows[is_chosen], observed.context)


def _membership(observed: Observations, num_reserved: int, vocab_size: int) -> Any:
    """Return a sparse matrix of ones (sets, items): which items each set holds."""
    items, rows = observed.targets.numpy(), observed.rows.numpy()
    is_item = items >= num_reserved
    shape = (int(rows.max(initial=-1)) + 1, vocab_size)
    found = sparse.csr_array((np.ones(int(is_item.sum())), (rows[is_item], items[is_item])), shape=shape)
    found.sum_duplicates()
    found.data[:] = 1.0
    return found


def _partners(membership: Any) -> WeightedItems:
    """Return the items that each comes with, and the cosine similarity of the sets that hold them."""
    counts = membership.sum(axis=0)
    scale = np.divide(1.0, np.sqrt(counts), out=np.zeros(len(counts)), where=counts > 0)
    scaled = sparse.csr_array(membership * scale)
    transposed, size = sparse.csr_array(scaled.T), max(1, BLOCK_ELEMENTS // len(counts))
    blocks: list[WeightedItems] = []
    for start in range(0, len(counts), size):
        block = torch.from_numpy((transposed[start : start + size] @ scaled).toarray().astype(np.float32))
        block.diagonal(start).zero_()
        blocks.append(_largest(block))
    return _joined(blocks)


def _largest(block: Tensor) -> WeightedItems:
    """Return the places of the largest of each row that are not 0."""
    weights, ids = block.topk(min(MAX_PARTNERS, block.shape[1]), dim=1)
    width = max(1, int((weights > 0).sum(dim=1).max()))
    return WeightedItems(ids[:, :width].contiguous(), weights[:, :width].contiguous())


def _joined(blocks: list[WeightedItems]) -> WeightedItems:
    """Return the rows of all blocks, at the width of the widest."""
    width = max(block.ids.shape[1] for block in blocks)
    ids, weights = (
        torch.cat([functional.pad(each, (0, width - each.shape[1])) for each in column])
        for column in zip(*blocks, strict=True)
    )
    return WeightedItems(ids, weights)


def _with_rows(partners: WeightedItems, items: Tensor, neighbours: WeightedItems) -> WeightedItems:
    """Return the partners with those of new items, which come with what their neighbours come with."""
    blocks: list[WeightedItems] = []
    for chosen in torch.arange(len(items)).split(max(1, BLOCK_ELEMENTS // len(partners.ids))):
        blocks.append(_largest(_mixed(neighbours.of(chosen), partners)))
    new = _joined(blocks)
    width = max(new.ids.shape[1], partners.ids.shape[1])
    whole = WeightedItems(*(functional.pad(each, (0, width - each.shape[1])) for each in partners))
    whole.ids[items] = functional.pad(new.ids, (0, width - new.ids.shape[1]))
    whole.weights[items] = functional.pad(new.weights, (0, width - new.weights.shape[1]))
    return whole


def _nearest(attributes: ItemAttributes, is_known: Tensor) -> WeightedItems:
    """Return the known items that each is nearest to by its features, never itself, and how near: 0 for no more."""
    lengths = _of_length_one(attributes)
    known = is_known.nonzero().flatten()
    of_known, size = lengths[known].T.contiguous(), max(1, BLOCK_ELEMENTS // max(1, len(known)))
    blocks: list[WeightedItems] = []
    for block in torch.arange(len(lengths)).split(size):
        likeness = lengths[block] @ of_known
        likeness.masked_fill_(block[:, None] == known, 0.0)
        near, places = likeness.clamp(min=0).topk(min(max(NUM_NEIGHBOURS), len(known)), dim=1)
        blocks.append(WeightedItems(known[places], near))
    return _joined(blocks)


def _of_length_one(attributes: ItemAttributes) -> Tensor:
    """Return the features of all items, each of length 1 / root of their number: (vocabulary, values + components).

    What is missing is like nothing.
    """
    layout, dense = attributes.layout, attributes.dense()
    values, *vectors = dense.split([layout.num_values, *(each.vector_size for each in layout.vectors)], dim=1)
    parts = [*vectors]
    for feature, start, stop in zip(layout.features, layout.starts[:-1], layout.starts[1:], strict=True):
        if feature.form != "vector":
            missing = MISSING if feature.form == "id" else MULTI_MISSING
            parts.append(values[:, start + missing + 1 : stop])
    parts = [functional.normalize(part, dim=1) for part in parts]
    return torch.cat(parts, dim=1) / len(parts) ** 0.5


def _mixed(items: WeightedItems, partners: WeightedItems) -> Tensor:
    """Return the weighted sums of the rows of ``partners``: (rows, items)."""
    sums = torch.zeros(len(items.ids), len(partners.ids))
    for ids, weights in zip(items.ids.T, items.weights.T, strict=True):
        sums.scatter_add_(1, partners.ids[ids], partners.weights[ids] * weights[:, None])
    return sums


def _sums_of_neighbours(neighbours: WeightedItems, sums: Tensor) -> Tensor:
    """Return for each set the weighted sums of what the neighbours of each item have: (batch, items)."""
    return functional.embedding_bag(
        neighbours.ids, sums.T.contiguous(), per_sample_weights=neighbours.weights, mode="sum"
    ).T


def _shares_of_neighbours(neighbours: WeightedItems, log_shares: Tensor, own: Tensor) -> Tensor:
    """Return the logarithm of the mean share of each item's neighbours, its own where it has none."""
    shares = (neighbours.weights * log_shares[neighbours.ids].exp()).sum(dim=1)
    return torch.where(shares > 0, shares.log(), own)


def _logits(sums: Tensor, log_shares: Tensor, popularity: float, weight: float, scale: float) -> Tensor:
    """Return the logits of the formula: (batch, items); where nothing visible comes with anything log p alone."""
    says_nothing = ~(sums > 0).any(dim=1, keepdim=True)
    return torch.where(says_nothing, log_shares, popularity * log_shares + weight * (sums / scale).log1p())


def _mean_loss(logits: Tensor, targets: Tensor, allowed: Tensor) -> float:
    own = logits.gather(1, targets[:, None]).squeeze(1)
    return float((logits.masked_fill(~allowed, -torch.inf).logsumexp(dim=1) - own).double().mean())
