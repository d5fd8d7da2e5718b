"""Items by what they come with in sets; new items by what those come with that are like them.

Counted, not trained: a few numbers are chosen on validation.
"""

import itertools
from collections.abc import Mapping, Sequence
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
NUM_NEIGHBOURS = (2, 4, 8, 16, 64)  # among which the number of neighbours of an item is chosen
TEMPERATURES = (0.03, 0.1, 0.3)  # among which that of their weights is chosen
USUAL = (16, 0.1)  # number and temperature where nothing can be chosen
DOUBTS = (0.0, 10.0, 30.0, 100.0, 300.0)  # among which c is chosen, in sets
FEWEST_WEIGHED, MOST_WEIGHED = 30, 2000  # known items whose likeness says how much each feature counts
ADVANTAGES = (-12.0, 4.0)  # the range of a new item's advantage over its neighbours, in nats
BLOCK_ELEMENTS = 2**22  # of a matrix that is made for some items at a time
FITTED_ELEMENTS, FEWEST_FITTED = 2**22, 1000  # scores by which numbers are chosen, and masked items at least
EVERY = 5  # so many known items have one among them that stands for a new one
SCALES = (1.0, 0.3, 0.1, 0.03, 0.01, 0.003)  # among which e is chosen, in mean similarities of partners
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

    def matrix(self) -> Any:
        """Return them as a sparse matrix: (items, items)."""
        rows, places = (self.weights > 0).nonzero(as_tuple=True)
        entries = (self.weights[rows, places].numpy(), (rows.numpy(), self.ids[rows, places].numpy()))
        return sparse.csr_array(entries, shape=(len(self.ids), len(self.ids)))

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
        logits_w = b log p_w + g sum over the visible items v of log(1 + t_wv / e);  T = B S B^T;
        S_wv = C_wv / sqrt(n_w n_v);  B_wx = [w = x] (1 - l_w) + l_w a_wx;  l_w = c / (c + n_w),
        of a new item 1, of one without neighbours 0;
        a_wx = softmax over the k known items x nearest to w of (sum over features f of m_f (w_f . x_f) / t);
        of a new item p_u = sum of a_uw p_w, and its logit is higher by d;  without visible items b = 1

    Symbols:
        C_wv sets of the training that hold w and v, 0 for w = v; n_w those that hold w; p the shares of ``ShareModel``;
        w_f feature f of w, of length 1. So an item comes with what it was seen with, and with what its neighbours were
        seen with; the fewer sets hold it, the more its neighbours count, and a new item has nothing else. Without
        features B is the identity. m is chosen so that known items are near that come with the same (least squares, no
        weight negative, their sum 1); b, g, e, k, t, c, d are chosen on validation: k and t rank some known items as if
        they were new, which stand for new ones also when d is chosen, where validation asks for none.

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
        neighbours by features are those of content-based filtering.

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
        self.partners = WeightedItems.none(vocab_size)  # as they are used; those that were counted are ``_counted``
        self._counted: tuple[WeightedItems, Tensor] | None = None
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
        self._counted = (_partners(membership), torch.from_numpy(membership.sum(axis=0)).float())
        self.new_ids = self.num_reserved + (~is_known[self.num_reserved :]).nonzero().flatten()
        self.feature_weights: dict[str, float] = {}
        self.nearest = None
        if self.attributes is not None:
            parts = _of_length_one(self.attributes)
            weights = _weights_of_features(parts, self._counted[0], is_known)
            names = [feature.name for feature in self.attributes.layout.features]
            self.feature_weights = {f"weight_of_{name}": weight for name, weight in zip(names, weights, strict=True)}
            self.nearest = _nearest(parts, weights, is_known)
        self._take({})

    def _take(self, chosen: Mapping[str, float]) -> None:
        """Take the numbers that were chosen, and the usual ones for the others."""
        self.settings = {"popularity_weight": 1.0, "score_weight": 1.0, "score_scale": 1.0}
        if self.nearest is not None:
            usual = {"num_neighbours": USUAL[0], "temperature": USUAL[1], "num_doubted_sets": 0.0}
            self.settings |= {**self.feature_weights, **usual, "advantage_of_new": 0.0}
        self.settings |= chosen
        self.log_shares, self.advantages = self.shares.log_shares.clone(), torch.zeros(len(self.log_shares))
        self.log_shares[: self.num_reserved] = 0.0  # no items, and no numbers to count with
        self.partners = self._smoothed(self.settings.get("num_doubted_sets", 0.0))
        if self.nearest is None:
            return
        new, neighbours = self.new_ids, self._neighbours()
        self.log_shares[new] = _shares_of_neighbours(neighbours.of(new), self.log_shares, self.log_shares[new])
        self.advantages[new] = self.settings["advantage_of_new"]

    def _neighbours(self) -> WeightedItems:
        """Return the neighbours of each item, with the shares a."""
        nearest = cast(WeightedItems, self.nearest)
        return nearest.weighted(int(self.settings["num_neighbours"]), self.settings["temperature"])

    def _smoothed(
        self, num_doubted: float, stand_ins: Tensor | None = None, rows: Tensor | None = None
    ) -> WeightedItems:
        """Return what each item comes with, given that and what its neighbours come with: the largest of T.

        Args:
            num_doubted: c.
            stand_ins: known items that are known by their neighbours alone.
            rows: items whose partners are asked for; others have none. None: all.
        """
        partners, counts = cast("tuple[WeightedItems, Tensor]", self._counted)
        if self.nearest is None:
            return partners
        neighbours = self._neighbours()
        doubt = torch.where(counts > 0, num_doubted / (num_doubted + counts).clamp(min=1e-9), 1.0)
        doubt = torch.where(neighbours.weights.sum(dim=1) > 0, doubt, 0.0)  # who has none goes by its own counts
        if stand_ins is not None:
            doubt[stand_ins] = 1.0
        mixed = sparse.diags_array(doubt.numpy()) @ neighbours.matrix() + sparse.diags_array(1 - doubt.numpy())
        return _mixed(sparse.csr_array(mixed), partners.matrix(), rows)

    def _chosen(self, asked: Observations) -> dict[str, float]:
        """Return the numbers that are best for masked items of these sets."""
        examples = _Examples.of(asked, self.num_reserved, len(self.log_shares))
        allowed, is_new = examples.allowed(self.softmax_over, self.num_reserved), self._among(self.new_ids)
        is_asked = ~is_new[examples.targets]
        if not bool(is_asked.any()):
            return {}
        of_known = examples.of_rows(is_asked), (allowed & ~is_new)[is_asked]
        chosen = self._chosen_of_known(*of_known)
        if self.nearest is None:
            return chosen
        self._take(chosen)
        chosen |= self._chosen_neighbours(examples, allowed)
        for doubts, scales in ((DOUBTS, ()), ((), SCALES)):  # one after the other: each try is a fit
            self._take(chosen)
            chosen |= self._chosen_of_known(*of_known, doubts=doubts, scales=scales)
        self._take(chosen)
        return chosen | {"advantage_of_new": self._chosen_advantage(examples, allowed)}

    def _chosen_of_known(
        self, examples: "_Examples", allowed: Tensor, *, doubts: Sequence[float] = (), scales: Sequence[float] = SCALES
    ) -> dict[str, float]:
        """Return the weights, the scale and the doubt that are best for known items; without any the present one."""
        counted = cast("tuple[WeightedItems, Tensor]", self._counted)[0].weights
        unit = float(counted.sum() / (counted > 0).sum().clamp(min=1)) or 1.0
        found: list[tuple[float, dict[str, float]]] = []
        start = self.settings["popularity_weight"], self.settings["score_weight"]
        for doubt in doubts or (self.settings.get("num_doubted_sets", 0.0),):
            partners = self._smoothed(doubt, rows=examples.input_ids.unique())
            for scale in [unit * each for each in scales] or [self.settings["score_scale"]]:
                evidence = _evidence(examples.input_ids, partners, scale)
                start = _fitted(evidence, self.log_shares, examples.targets, allowed, start=start)
                for weights in (start, (1.0, 0.0)):
                    loss = _mean_loss(_logits(evidence, self.log_shares, *weights), examples.targets, allowed)
                    numbers = {"popularity_weight": weights[0], "score_weight": weights[1], "score_scale": scale}
                    found.append((loss, {**numbers, "num_doubted_sets": doubt}))
        best = min(found, key=lambda each: each[0])[1]
        return {name: best[name] for name in best if name in self.settings}

    def _chosen_neighbours(self, examples: "_Examples", allowed: Tensor) -> dict[str, float]:
        """Return the number and the temperature of neighbours that rank known items best as if they were new."""
        stand_ins = self._stand_ins()
        is_stand_in = self._among(stand_ins)
        asks = is_stand_in[examples.targets]
        if not bool(asks.any()):
            return {}
        kept, found = self.settings, list[tuple[float, dict[str, float]]]()
        for number, temperature in itertools.product(NUM_NEIGHBOURS, TEMPERATURES):
            numbers = {"num_neighbours": float(number), "temperature": temperature}
            self.settings = kept | numbers
            logits = self._logits_of_stand_ins(examples.input_ids[asks], stand_ins)
            loss = _mean_loss(logits, examples.targets[asks], (allowed & is_stand_in)[asks])
            found.append((loss, numbers))
        self.settings = kept
        return min(found, key=lambda each: each[0])[1]

    def _chosen_advantage(self, examples: "_Examples", allowed: Tensor) -> float:
        """Return d: how much higher new items are ranked, or known ones that stand for them."""
        items = self.new_ids
        if bool(self._among(items)[examples.targets].any()):
            logits = self.logits(examples.input_ids)
        else:
            allowed, items = allowed & ~self._among(items), self._stand_ins()
            logits = self._logits_of_stand_ins(examples.input_ids, items)
        is_one = self._among(items)

        def loss(advantage: float) -> float:
            return _mean_loss(logits + advantage * is_one, examples.targets, allowed)

        best = scipy.optimize.minimize_scalar(loss, bounds=ADVANTAGES, method="bounded", options={"xatol": 0.05})
        return float(best.x) if best.fun < loss(0.0) else 0.0

    def _stand_ins(self) -> Tensor:
        """Return the known items that stand for new ones."""
        found = torch.arange(self.num_reserved, len(self.log_shares))
        return found[(found % EVERY == 0) & ~self._among(self.new_ids)[found]]

    def _logits_of_stand_ins(self, input_ids: Tensor, stand_ins: Tensor) -> Tensor:
        """Return the logits where these known items are known by their neighbours alone."""
        neighbours, log_shares = self._neighbours().of(stand_ins), self.log_shares.clone()
        log_shares[stand_ins] = _shares_of_neighbours(neighbours, log_shares, log_shares[stand_ins])
        partners = self._smoothed(self.settings["num_doubted_sets"], stand_ins, input_ids.unique())
        evidence = _evidence(input_ids, partners, self.settings["score_scale"])
        return _logits(evidence, log_shares, self.settings["popularity_weight"], self.settings["score_weight"])

    def _among(self, items: Tensor) -> Tensor:
        """Return True for each of these items: (vocabulary,)."""
        found = torch.zeros(len(self.log_shares), dtype=torch.bool)
        found[items] = True
        return found

    def logits(self, input_ids: Tensor) -> Tensor:
        """Return the logits of each set: (batch, vocabulary)."""
        evidence = _evidence(input_ids, self.partners, self.settings["score_scale"])
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

    def of_rows(self, is_chosen: Tensor) -> "_Examples":
        """Return some of the examples."""
        return _Examples(self.input_ids[is_chosen], self.targets[is_chosen], self.vocab_size)

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


def _mixed(mixed: Any, partners: Any, rows: Tensor | None) -> WeightedItems:
    """Return the largest of B S B^T, 0 on its diagonal, for these rows; the others have none.

    Args:
        mixed: B, sparse.
        partners: S, sparse.
        rows: None: all.
    """
    num_items = mixed.shape[0]
    asked = torch.arange(num_items) if rows is None else rows
    transposed, blocks = sparse.csr_array(mixed.T), list[WeightedItems]()
    for chosen in asked.split(max(1, BLOCK_ELEMENTS // num_items)):
        block = torch.from_numpy((mixed[chosen.numpy()] @ partners @ transposed).toarray().astype(np.float32))
        block[torch.arange(len(chosen)), chosen] = 0.0
        blocks.append(_largest(block))
    found = _joined(blocks)
    if rows is None:
        return found
    whole = WeightedItems(*(torch.zeros(num_items, each.shape[1], dtype=each.dtype) for each in found))
    whole.ids[rows], whole.weights[rows] = found.ids, found.weights
    return whole


def _weights_of_features(parts: Sequence[Tensor], partners: WeightedItems, is_known: Tensor) -> list[float]:
    """Return how much each feature counts: the least squares by which likeness says who comes with the same, or alike.

    Args:
        parts: each feature of all items, of length 1.
        partners: what each item comes with.
        is_known: items that are in training.
    """
    equal = [1 / len(parts)] * len(parts)
    known = is_known.nonzero().flatten()
    if len(known) < FEWEST_WEIGHED or len(parts) == 1:
        return equal
    frequent = (partners.weights[known] > 0).sum(dim=1).argsort(descending=True, stable=True)[:MOST_WEIGHED]
    chosen = known[frequent].sort().values
    profiles = torch.from_numpy(partners.matrix()[chosen.numpy()][:, chosen.numpy()].toarray()).float()
    unit = float(profiles.sum() / (profiles > 0).sum().clamp(min=1)) or 1.0
    profiles = (profiles / (SCALES[-1] * unit)).log1p()
    profiles = functional.normalize(profiles - profiles.mean(dim=0), dim=1)
    pairs = torch.triu_indices(len(chosen), len(chosen), 1)

    def of_pairs(rows: Tensor) -> Tensor:
        return (rows @ rows.T)[pairs[0], pairs[1]]

    likeness = torch.stack([*(of_pairs(part[chosen]) for part in parts), torch.ones(pairs.shape[1])], dim=1).double()
    products, aims = likeness.T @ likeness, likeness.T @ of_pairs(profiles).double()
    root = torch.linalg.cholesky(products + 1e-6 * products.diagonal().mean() * torch.eye(len(products)))
    aims = torch.linalg.solve_triangular(root, aims[:, None], upper=False)[:, 0]
    bounds = ([0.0] * len(parts) + [-np.inf], np.inf)
    weights = scipy.optimize.lsq_linear(root.T.numpy(), aims.numpy(), bounds=bounds).x[:-1]
    return (weights / weights.sum()).tolist() if weights.sum() > 0 else equal


def _nearest(parts: Sequence[Tensor], weights: Sequence[float], is_known: Tensor) -> WeightedItems:
    """Return the known items that each is nearest to by its features, never itself, and how near: 0 for no more."""
    lengths = torch.cat([part * weight**0.5 for part, weight in zip(parts, weights, strict=True)], dim=1)
    known = is_known.nonzero().flatten()
    of_known, size = lengths[known].T.contiguous(), max(1, BLOCK_ELEMENTS // max(1, len(known)))
    blocks: list[WeightedItems] = []
    for block in torch.arange(len(lengths)).split(size):
        likeness = lengths[block] @ of_known
        likeness.masked_fill_(block[:, None] == known, 0.0)
        near, places = likeness.clamp(min=0).topk(min(max(NUM_NEIGHBOURS), len(known)), dim=1)
        blocks.append(WeightedItems(known[places], near))
    return _joined(blocks)


def _of_length_one(attributes: ItemAttributes) -> list[Tensor]:
    """Return each feature of all items, of length 1: (vocabulary, values or components) each. What is missing is like
    nothing.
    """
    layout, dense = attributes.layout, attributes.dense()
    values, *vectors = dense.split([layout.num_values, *(each.vector_size for each in layout.vectors)], dim=1)
    parts, given = list[Tensor](), iter(vectors)
    for feature, start, stop in zip(layout.features, layout.starts[:-1], layout.starts[1:], strict=True):
        if feature.form == "vector":
            parts.append(next(given))
        else:
            missing = MISSING if feature.form == "id" else MULTI_MISSING
            parts.append(values[:, start + missing + 1 : stop])
    return [functional.normalize(part, dim=1) for part in parts]


def _shares_of_neighbours(neighbours: WeightedItems, log_shares: Tensor, own: Tensor) -> Tensor:
    """Return the logarithm of the mean share of each item's neighbours, its own where it has none."""
    shares = (neighbours.weights * log_shares[neighbours.ids].exp()).sum(dim=1)
    return torch.where(shares > 0, shares.log(), own)


def _evidence(input_ids: Tensor, partners: WeightedItems, scale: float) -> Tensor:
    """Return the sum over the visible items of log(1 + t / e): (batch, items).

    Args:
        input_ids: the sets.
        partners: what each item comes with.
        scale: e.
    """
    total = torch.zeros(len(input_ids), len(partners.ids))
    terms = (partners.weights / scale).log1p()
    for ids in input_ids.T:
        total.scatter_add_(1, partners.ids[ids], terms[ids])
    return total


def _fitted(
    evidence: Tensor, log_shares: Tensor, targets: Tensor, allowed: Tensor, *, start: tuple[float, float]
) -> tuple[float, float]:
    """Return the weights b and g of the least cross-entropy, which is convex in them, found from ``start`` on."""
    tells = (evidence > 0).any(dim=1)  # where there is none, no weight changes anything
    if not bool(tells.any()):
        return 1.0, 0.0
    evidence, targets, is_none = evidence[tells], targets[tells], ~allowed[tells]
    weights = torch.tensor(start, requires_grad=True)
    optimiser = torch.optim.LBFGS(
        [weights],
        max_iter=MAX_STEPS,
        tolerance_grad=TOLERANCE,
        tolerance_change=TOLERANCE,
        line_search_fn="strong_wolfe",
    )

    def closure() -> Tensor:
        optimiser.zero_grad()
        logits = (weights[0] * log_shares + weights[1] * evidence).masked_fill(is_none, -torch.inf)
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
