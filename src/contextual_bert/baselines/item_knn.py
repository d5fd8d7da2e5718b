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

from contextual_bert.baselines.bag import MASK_ID, masked_logits, score_by_logits
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
EVERY = 5  # so many known items have one among them that stands for a new one
SCALES = (1.0, 0.4, 0.15, 0.06, 0.02)  # among which e is chosen, in mean similarities of what comes together
MAX_STEPS, TOLERANCE = 25, 1e-3  # of the optimiser, for each scale; nats, and changes of two weights


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
        logits_w = b log p_w + g sum over the visible items v of log(1 + s_wv / e);  s_wv = C_wv / sqrt(n_w n_v);
        of a new item u s_uv = sum over its neighbours w of a_uw s_wv, p_u = sum of a_uw p_w, and its logit is higher
        by d; a_uw = softmax over the k nearest w of (f_u . f_w / t);  without visible items b = 1

    Symbols:
        C_wv sets of the training that hold w and v, 0 for w = v; n_w those that hold w; p the shares of ``ShareModel``;
        f_w the features of w, each scaled to length 1 and divided by the root of their number; b, g, e, k, t, d are
        chosen. k and t rank some known items as if they were new. These stand for new ones when d is chosen, where
        validation asks for none. A new item that is visible comes with what its neighbours come with.

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
        allowed, is_new = examples.allowed(self.softmax_over, self.num_reserved), self._among(self.new_ids)
        is_asked = ~is_new[examples.targets]
        if not bool(is_asked.any()):
            return {}
        targets, of_known = examples.targets[is_asked], (allowed & ~is_new)[is_asked]
        unit = float(self.partners.weights.sum() / (self.partners.weights > 0).sum().clamp(min=1)) or 1.0
        found: list[tuple[float, dict[str, float]]] = []
        for scale in SCALES:
            evidence = _evidence(examples.input_ids[is_asked], self.partners, scale * unit)
            for weights in (_fitted(evidence, self.log_shares, targets, of_known), (1.0, 0.0)):
                loss = _mean_loss(_logits(evidence, self.log_shares, *weights), targets, of_known)
                numbers = {"popularity_weight": weights[0], "score_weight": weights[1], "score_scale": scale * unit}
                found.append((loss, numbers))
        chosen = min(found, key=lambda each: each[0])[1]
        return chosen | self._chosen_of_new(examples, allowed, chosen) if self.nearest is not None else chosen

    def _chosen_of_new(self, examples: "_Examples", allowed: Tensor, chosen: Mapping[str, float]) -> dict[str, float]:
        """Return the numbers of new items that are best, given those of the known ones."""
        nearest, is_new = cast(WeightedItems, self.nearest), self._among(self.new_ids)
        stand_ins = torch.arange(self.num_reserved, len(is_new))
        stand_ins = stand_ins[(stand_ins % EVERY == 0) & ~is_new[stand_ins]]
        is_stand_in = self._among(stand_ins)
        weights = chosen["popularity_weight"], chosen["score_weight"]

        def logits(items: Tensor, setting: tuple[int, float], chosen_rows: Tensor) -> Tensor:
            """Return the logits where these items are known by their neighbours."""
            neighbours, log_shares = nearest.of(items).weighted(*setting), self.shares.log_shares.clone()
            log_shares[: self.num_reserved] = 0.0
            log_shares[items] = _shares_of_neighbours(neighbours, log_shares, log_shares[items])
            input_ids = examples.input_ids[chosen_rows]
            evidence = _evidence(input_ids, self.partners, chosen["score_scale"], (items, neighbours))
            return _logits(evidence, log_shares, *weights)

        setting, asks_stand_in = USUAL, is_stand_in[examples.targets]
        if bool(asks_stand_in.any()):
            targets, among = examples.targets[asks_stand_in], (allowed & is_stand_in)[asks_stand_in]
            setting = min(
                ((number, temperature) for number in NUM_NEIGHBOURS for temperature in TEMPERATURES),
                key=lambda each: _mean_loss(logits(stand_ins, each, asks_stand_in), targets, among),
            )
        if bool(is_new[examples.targets].any()):
            items, is_one = self.new_ids, is_new
        else:
            items, is_one, allowed = stand_ins, is_stand_in, allowed & ~is_new
        found = logits(items, setting, torch.ones(len(allowed), dtype=torch.bool))

        def loss(advantage: float) -> float:
            return _mean_loss(found + advantage * is_one, examples.targets, allowed)

        best = scipy.optimize.minimize_scalar(loss, bounds=ADVANTAGES, method="bounded", options={"xatol": 0.05})
        advantage = float(best.x) if best.fun < loss(0.0) else 0.0
        return {"num_neighbours": setting[0], "temperature": setting[1], "advantage_of_new": advantage}

    def _among(self, items: Tensor) -> Tensor:
        """Return True for each of these items: (vocabulary,)."""
        found = torch.zeros(len(self.log_shares), dtype=torch.bool)
        found[items] = True
        return found

    def logits(self, input_ids: Tensor) -> Tensor:
        """Return the logits of each set: (batch, vocabulary)."""
        of_new = (self.new_ids, self.neighbours) if self.nearest is not None else None
        evidence = _evidence(input_ids, self.partners, self.settings["score_scale"], of_new)
        weights = self.settings["popularity_weight"], self.settings["score_weight"]
        logits = _logits(evidence, self.log_shares, *weights) + self.advantages
        logits[:, : self.num_reserved] = -torch.inf
        return logits

    @torch.no_grad()
    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        context: Mapping[str, Tensor] | None = None,
    ) -> dict[str, Tensor]:
        """Return the logits of each place with a [MASK]: (masked, vocabulary)."""
        return masked_logits(self.logits(input_ids), input_ids)

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


def _evidence(
    input_ids: Tensor, partners: WeightedItems, scale: float, of_new: tuple[Tensor, WeightedItems] | None = None
) -> Tensor:
    """Return the sum over the visible items of log(1 + s / e): (batch, items).

    Args:
        input_ids: the sets.
        partners: what each item comes with.
        scale: e.
        of_new: items that are known by their neighbours, and these.
    """
    total = torch.zeros(len(input_ids), len(partners.ids))
    of_items = torch.zeros(len(input_ids), len(of_new[0]) if of_new is not None else 0)
    for ids in input_ids.T:
        places, weights = partners.ids[ids], partners.weights[ids]
        total.scatter_add_(1, places, (weights / scale).log1p())
        if of_new is not None:
            row = torch.zeros(total.shape).scatter_add_(1, places, weights)
            of_items += (_sums_of_neighbours(of_new[1], row) / scale).log1p()
    if of_new is not None:
        total[:, of_new[0]] = of_items
    return total


def _fitted(evidence: Tensor, log_shares: Tensor, targets: Tensor, allowed: Tensor) -> tuple[float, float]:
    """Return the weights b and g of the least cross-entropy, which is convex in them."""
    weights = torch.ones(2, requires_grad=True)
    optimiser = torch.optim.LBFGS(
        [weights],
        max_iter=MAX_STEPS,
        tolerance_grad=TOLERANCE,
        tolerance_change=TOLERANCE,
        line_search_fn="strong_wolfe",
    )

    def closure() -> Tensor:
        optimiser.zero_grad()
        logits = _logits(evidence, log_shares, weights[0], weights[1]).masked_fill(~allowed, -torch.inf)
        loss = functional.cross_entropy(logits, targets)
        loss.backward()
        return loss

    with torch.enable_grad():
        optimiser.step(cast(Any, closure))
    popularity, score = weights.detach().clamp(min=0.0).tolist()
    return popularity, score


def _logits(evidence: Tensor, log_shares: Tensor, popularity: Any, weight: Any) -> Tensor:
    """Return the logits of the formula: (batch, items); where nothing visible comes with anything log p alone."""
    says_nothing = ~(evidence > 0).any(dim=1, keepdim=True)
    return torch.where(says_nothing, log_shares, popularity * log_shares + weight * evidence)


def _mean_loss(logits: Tensor, targets: Tensor, allowed: Tensor) -> float:
    own = logits.gather(1, targets[:, None]).squeeze(1)
    return float((logits.masked_fill(~allowed, -torch.inf).logsumexp(dim=1) - own).double().mean())
