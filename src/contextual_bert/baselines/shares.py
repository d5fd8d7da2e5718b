"""Shares of items or labels: counted, or given a context by a softmax regression that is fitted to convergence.

``ItemPopularity`` and ``LabelShares`` are its two faces. Nothing here is trained by gradient steps of a trainer.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, cast

import numpy as np
import scipy  # which imports scipy.optimize on its first use
import torch
from torch import Tensor, nn
from torch.nn import functional

from contextual_bert.context import FeatureLayout
from contextual_bert.context.forms import FORMS, missing_context
from contextual_bert.errors import ConfigurationError, DataError, Message

PRIORS = (1e-4, 1e4)  # the range in which the prior count of each class is looked for
UNSEEN_LABEL = 0.5  # the least prior count of labels where one was never seen: Jeffreys', with which heads start, too
STRENGTHS = (300.0, 100.0, 30.0, 10.0, 3.0, 1.0, 0.3)  # of the regularisation, from the strongest on
MAX_ITERATIONS = 500  # of the optimiser, for each strength
TOLERANCE = 1e-7  # nats a target: less than that is no progress
BLOCK_ELEMENTS = 2**22  # logits held at once
MAX_WEIGHTS = 2**26  # of the softmax regression: 256 MiB, of which the optimiser holds about ten copies


class Observations(NamedTuple):
    """Classes that were seen, several in a row of the data or one.

    Shapes:
        targets (n,), rows (n,) ascending, context (rows, ...) each.
    """

    targets: Tensor
    rows: Tensor
    context: Mapping[str, Tensor]


class ShareModel(nn.Module):
    """Logits of classes from their shares and from the context.

    Formula:
        logits_w = log (n_w + a) / (N + a V) + sum over the values j of the context of x_j W_jw;
        W = argmin of the sum of cross-entropies + s |W|^2 / 2

    Symbols:
        n_w how often class w is in training; N all counts; V classes; a the prior count; s the strength of the
        regularisation; x_j 1 for a value that is given, its share where a feature has several, the component of a
        vector. "missing" and "unknown" are values.

    Shapes:
        context as ``ContextEncoder`` takes it -> (rows, classes).

    Args:
        num_classes: classes, reserved ids included.
        layout: the context's features; empty for shares alone.
        num_reserved: ids below this are no classes: their share is 0.
        unseen_prior: the least prior count where training lacks a class and nothing shows what such classes are worth.

    Relation to its siblings:
        ``LogisticClassifier`` also reads a text. This takes many thousand classes.

    Reference:
        Additive smoothing: Lidstone (1920). Softmax regression with a quadratic penalty is convex; the optimiser is
        L-BFGS, Liu and Nocedal (1989).

    Example:
        >>> model = ShareModel(2, layout=())
        >>> model.fit(Observations(torch.tensor([0, 0, 1]), torch.arange(3), {}), prior=1.0)
        >>> model({}, num_rows=1).exp()
        tensor([[0.6000, 0.4000]])
    """

    log_shares: Tensor

    def __init__(
        self,
        num_classes: int,
        *,
        layout: Sequence[FeatureLayout],
        num_reserved: int = 0,
        unseen_prior: float = PRIORS[0],
    ) -> None:
        super().__init__()
        self.layout = tuple(layout)
        self.num_reserved, self.unseen_prior = num_reserved, unseen_prior
        starts = np.cumsum([0, *(FORMS[feature.form].num_terms(feature) for feature in self.layout)]).tolist()
        self.starts = dict(zip((feature.name for feature in self.layout), starts[:-1], strict=True))
        if starts[-1] * num_classes > MAX_WEIGHTS:
            raise ConfigurationError(
                f"A softmax regression from {starts[-1]:,} values of the context to {num_classes:,} items or "
                f"labels has {starts[-1] * num_classes:,} weights, more than {MAX_WEIGHTS:,}",
                fix=Message("Leave out the column with the most values ({exclude}), or this baseline.", exclude=...),
            )
        shares = torch.full((num_classes,), -float(np.log(max(1, num_classes - num_reserved))))
        shares[:num_reserved] = -torch.inf
        self.register_buffer("log_shares", shares)
        self.weight = nn.Parameter(torch.zeros(starts[-1], num_classes), requires_grad=False) if self.layout else None
        self.settings: dict[str, Any] = {}

    def forward(self, context: Mapping[str, Tensor] | None, *, num_rows: int) -> Tensor:
        """Return the logits; ``context=None`` is a context of which every feature is missing."""
        if self.weight is None:
            return self.log_shares.expand(num_rows, -1)
        if context is None:
            context = missing_context(self.layout, num_rows, device=self.log_shares.device)
        columns, values = self._columns(context)
        return self.log_shares + functional.embedding_bag(
            columns, self.weight, per_sample_weights=values.to(self.weight.dtype), mode="sum"
        )

    def fit(
        self,
        training: Observations,
        validation: Observations | None = None,
        *,
        is_without_visible: bool = False,
        prior: float | None = None,
        strength: float | None = None,
    ) -> None:
        """Count the shares and fit the weights to convergence.

        Args:
            training: what is learned from.
            validation: what prior and strength are chosen by. Without it the prior is chosen by leaving out each
                training target in turn, and the strength by a tenth of the training rows.
            is_without_visible: a class is not asked for where the others of its row are seen: they are out of the
                softmax.
            prior: count that each class begins with; None chooses it.
            strength: of the regularisation; None chooses it.

        Raises:
            DataError: there is nothing to learn from.
        """
        if not len(training.targets):
            raise DataError("there is nothing to count in the training part", fix="Give a larger training part.")
        chosen = _chosen_rows(validation, num_classes=len(self.log_shares), num_reserved=self.num_reserved)
        counts = torch.bincount(training.targets, minlength=len(self.log_shares)).double()[self.num_reserved :]
        if prior is None:
            prior = self._best_prior(counts, chosen, is_without_visible=is_without_visible)
        self._set_prior(counts, prior)
        self.settings = {"prior_count": prior}
        if self.weight is None:
            return
        if strength is None:
            strength = self._best_strength(training, chosen, is_without_visible=is_without_visible)
        iterations = self._fit_weights(self._blocks(training), strength, is_without_visible=is_without_visible)
        self.settings |= {"strength": strength, "iterations": iterations}

    def _set_prior(self, counts: Tensor, prior: float) -> None:
        shares = (counts + prior) / (counts.sum() + prior * len(counts))
        self.log_shares[self.num_reserved :] = shares.log().to(self.log_shares)

    def _best_prior(self, counts: Tensor, validation: Observations | None, *, is_without_visible: bool) -> float:
        """Return the prior count with the least cross-entropy of the validation, or of training targets left out."""

        def cross_entropy(prior: float) -> float:
            if validation is None:
                share = (counts - 1 + prior).clamp(min=1e-12) / (counts.sum() - 1 + prior * len(counts))
                return -float((counts * share.log()).sum())
            self._set_prior(counts, prior)
            # Of plain shares all rows are one group: the context plays no part.
            return _plain_loss(self.log_shares.double(), validation, is_without_visible=is_without_visible)

        asked = counts[validation.targets - self.num_reserved] if validation is not None else counts[counts > 0] - 1
        least = self.unseen_prior if bool((counts == 0).any()) and bool((asked > 0).all()) else PRIORS[0]
        return best_prior(cross_entropy, least=least)

    def _best_strength(
        self, training: Observations, validation: Observations | None, *, is_without_visible: bool
    ) -> float:
        """Return the strength with the least cross-entropy of what is not learned from, from the strongest on."""
        if validation is None:
            is_held = training.rows % 10 == 9
            if not bool(is_held.any()) or bool(is_held.all()):
                return STRENGTHS[1]
            training, validation = _of_rows(training, ~is_held), _of_rows(training, is_held)
        blocks, asked = self._blocks(training), self._blocks(validation)
        best, best_loss, weights = STRENGTHS[0], torch.inf, self._weight().clone()
        for strength in STRENGTHS:
            self._fit_weights(blocks, strength, is_without_visible=is_without_visible)
            loss = self._loss(asked, is_without_visible=is_without_visible)
            if loss >= best_loss:
                break
            best, best_loss = strength, loss
            weights.copy_(self._weight())
        self._weight().copy_(weights)  # where the last fit begins
        return best

    def _fit_weights(
        self,
        blocks: Sequence["_Block"],
        strength: float,
        *,
        is_without_visible: bool,
    ) -> int:
        """Minimise the mean cross-entropy from the weights as they are, and return the number of iterations."""
        weight = self._weight()
        num_targets = sum(len(block.targets) for block in blocks)
        optimiser = torch.optim.LBFGS(
            [weight],
            max_iter=MAX_ITERATIONS,
            max_eval=2 * MAX_ITERATIONS,
            tolerance_grad=1e-9,
            tolerance_change=TOLERANCE,
            history_size=10 if weight.numel() < MAX_WEIGHTS // 8 else 4,
            line_search_fn="strong_wolfe",
        )

        def closure() -> Tensor:
            gradient = torch.zeros_like(weight)
            loss = self._loss(blocks, is_without_visible=is_without_visible, scale=1 / num_targets, gradient=gradient)
            penalty = strength / num_targets
            weight.grad = gradient.add_(weight, alpha=penalty)
            squares = float(weight.double().square().sum())
            return torch.tensor(loss + penalty / 2 * squares, dtype=torch.float64)

        optimiser.step(cast(Any, closure))
        weight.grad = None
        return int(optimiser.state[weight]["n_iter"])

    @torch.no_grad()
    def _loss(
        self,
        blocks: Sequence["_Block"],
        *,
        is_without_visible: bool,
        scale: float = 1.0,
        gradient: Tensor | None = None,
    ) -> float:
        """Return the scaled sum of cross-entropies, and add its gradient by the weights to ``gradient``."""
        total = 0.0
        for block in blocks:
            logits = self.log_shares + block.terms.times(self._weight())
            with torch.enable_grad():
                logits.requires_grad_(gradient is not None)
                losses = _losses(logits, block, is_without_visible=is_without_visible) * scale
                if gradient is not None:
                    losses.backward()
            if gradient is not None:
                assert logits.grad is not None
                block.terms.add_transposed_times(logits.grad, gradient)
            total += float(losses.detach())
        return total

    def _blocks(self, observed: Observations) -> list["_Block"]:
        """Group the rows by their context, and cut the groups so that the logits of a block fit in memory."""
        grouped = _grouped(observed)
        size = max(1, BLOCK_ELEMENTS // len(self.log_shares))
        starts = range(0, grouped.num_groups, size)
        return [self._block(grouped, start, min(start + size, grouped.num_groups)) for start in starts]

    def _block(self, grouped: "_Grouped", start: int, stop: int) -> "_Block":
        bounds = torch.tensor([start, stop], device=grouped.group_of.device)
        low, high = torch.searchsorted(grouped.group_of, bounds).tolist()
        chosen = slice(low, high)
        columns, values = self._columns({name: values[start:stop] for name, values in grouped.context.items()})
        return _Block(
            grouped.targets[chosen],
            grouped.row_of[chosen],
            grouped.group_of[chosen] - start,
            _Terms.make(columns, values.to(self._weight()), num_columns=len(self._weight())),
        )

    def _weight(self) -> nn.Parameter:
        assert self.weight is not None
        return self.weight

    def _columns(self, context: Mapping[str, Tensor]) -> tuple[Tensor, Tensor]:
        """Return the rows of ``weight`` that each row of the context adds up, and how much each counts."""
        columns: list[Tensor] = []
        values: list[Tensor] = []
        for feature in self.layout:
            places, counts = FORMS[feature.form].terms(feature, context[feature.name])
            columns.append(self.starts[feature.name] + places)
            values.append(counts)
        return torch.cat(columns, dim=1), torch.cat(values, dim=1)


def best_prior(cross_entropy: Callable[[float], float], *, least: float = PRIORS[0]) -> float:
    """Return the prior count of the least cross-entropy, in the range of ``PRIORS`` from ``least`` on.

    Example:
        >>> round(best_prior(lambda prior: (prior - 3) ** 2), 1)
        3.0
    """
    found = scipy.optimize.minimize_scalar(
        lambda logarithm: cross_entropy(float(np.exp(logarithm))),
        bounds=tuple(np.log((least, PRIORS[1]))),
        method="bounded",
    )
    return float(np.exp(found.x))


class _Grouped(NamedTuple):
    """Observations whose rows are sorted by their context, each distinct context once.

    Shapes: targets, row_of, group_of (n,), ascending by group; context (groups, ...) each.
    """

    targets: Tensor
    row_of: Tensor
    group_of: Tensor
    context: Mapping[str, Tensor]
    num_groups: int


class _Terms(NamedTuple):
    """A sparse matrix of groups and values of the context, in the order of either.

    Both products read whole rows of what they add up. The gradient that autograd has of ``embedding_bag`` takes five
    times as long.

    Shapes: columns and values (groups, terms); groups and values_by_column (groups * terms,), starts (columns,).
    """

    columns: Tensor
    values: Tensor
    groups: Tensor
    values_by_column: Tensor
    starts: Tensor

    @classmethod
    def make(cls, columns: Tensor, values: Tensor, *, num_columns: int) -> "_Terms":
        order = columns.flatten().argsort(stable=True)
        counts = torch.bincount(columns.flatten(), minlength=num_columns)
        return cls(
            columns.int(),
            values,
            (order // columns.shape[1]).int(),
            values.flatten()[order],
            (counts.cumsum(0) - counts).int(),
        )

    def times(self, weight: Tensor) -> Tensor:
        """Return the product with (columns, classes)."""
        return functional.embedding_bag(self.columns, weight, per_sample_weights=self.values, mode="sum")

    def add_transposed_times(self, factors: Tensor, total: Tensor) -> None:
        """Add the product of the transposed matrix with (groups, classes) to ``total``."""
        total += functional.embedding_bag(
            self.groups, factors, self.starts, per_sample_weights=self.values_by_column, mode="sum"
        )


class _Block(NamedTuple):
    """Some of the groups, with what they add up.

    Shapes: targets, row_of, group_of (n,), ascending by group.
    """

    targets: Tensor
    row_of: Tensor
    group_of: Tensor
    terms: _Terms


def _grouped(observed: Observations) -> _Grouped:
    """Group the rows by their context: what depends on that alone is then computed once."""
    num_rows = int(observed.rows[-1]) + 1
    columns = [values[:num_rows].reshape(num_rows, -1) for values in observed.context.values()]
    group = torch.arange(num_rows, device=observed.rows.device)
    if not any(each.is_floating_point() for each in columns):  # vectors are hardly ever the same
        group = torch.unique(torch.cat(columns, dim=1), dim=0, return_inverse=True)[1]
    first = torch.full((int(group.max()) + 1,), num_rows, device=group.device)
    first.scatter_reduce_(0, group, torch.arange(num_rows, device=group.device), "amin")
    group_of = group[observed.rows]
    order = group_of.argsort(stable=True)
    context = {name: values[first] for name, values in observed.context.items()}
    # Of rows that are numbered anew, so that a block of groups has a range of them.
    row_of = torch.unique_consecutive(observed.rows[order], return_inverse=True)[1]
    return _Grouped(observed.targets[order], row_of, group_of[order], context, len(first))


def _losses(logits: Tensor, block: _Block, *, is_without_visible: bool) -> Tensor:
    """Return the sum of the cross-entropies of a block's targets."""
    shifted = logits - logits.detach().amax(dim=1, keepdim=True)
    own = shifted[block.group_of, block.targets].double()
    normaliser = shifted.exp().sum(dim=1).double()[block.group_of]
    if is_without_visible:
        normaliser = normaliser - _of_others(own.exp(), block.row_of)
    return (normaliser.clamp(min=1e-30).log() - own).sum()


def _of_others(shares: Tensor, row_of: Tensor) -> Tensor:
    """Return for each target the sum of the others of its row."""
    if not len(row_of):
        return shares
    rows = row_of - row_of.min()
    of_rows = torch.zeros(int(rows.max()) + 1, dtype=shares.dtype, device=shares.device).index_add(0, rows, shares)
    return of_rows[rows] - shares


def _plain_loss(log_shares: Tensor, observed: Observations, *, is_without_visible: bool) -> float:
    """Return the sum of the cross-entropies by shares that no context changes."""
    own = log_shares[observed.targets]
    others = _of_others(own.exp(), observed.rows) if is_without_visible else torch.zeros_like(own)
    return float(((1 - others).clamp(min=1e-30).log() - own).sum())


def _chosen_rows(observed: Observations | None, *, num_classes: int, num_reserved: int) -> Observations | None:
    """Return the observations of classes that there are, None where none is left."""
    if observed is None:
        return None
    is_known = (observed.targets >= num_reserved) & (observed.targets < num_classes)
    return _of_rows(observed, is_known) if bool(is_known.any()) else None


def _of_rows(observed: Observations, is_chosen: Tensor) -> Observations:
    return Observations(observed.targets[is_chosen], observed.rows[is_chosen], observed.context)
