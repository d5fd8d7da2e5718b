"""Base of the baselines that count what customers bought before: settings, probabilities and ranks are made here.

Reference: Li et al. (2023), "A Next Basket Recommendation Reality Check": the baselines, and how they are measured.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import scipy  # which imports scipy.optimize on its first use
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from contextual_bert.baselines.bag import masked_logits, score_by_logits
from contextual_bert.baselines.purchases import Purchases
from contextual_bert.baselines.shares import Observations
from contextual_bert.candidates import MaskedScores, SoftmaxOver
from contextual_bert.context import FeatureLayout
from contextual_bert.errors import ConfigurationError, DataError
from contextual_bert.set_ranks import SetRanks

CHOSEN_BY = 10  # k of the NDCG that settings are chosen by
MAX_ASKED = 1000  # sets that settings are chosen by
FITTED_ELEMENTS, FEWEST_FITTED = 2**22, 100  # preferences that the probabilities are fitted to, and sets at least
BLOCK_ELEMENTS = 2**23  # of a matrix that is made for some histories at a time
PRIORS = tuple(10.0**power for power in range(-7, 2))  # among which a is chosen
EXPONENTS = (0.05, 4.0)  # the range in which g is looked for

Settings = dict[str, Any]


class HistoryBaseline(nn.Module, ABC):
    """Predicts the items of a set from what the customer, and others, bought before. The set's own items are not read.

    Formula: Pr(M = i | u) = (s_ui + a)^g / sum over items j of (s_uj + a)^g

    Symbols: s_ui >= 0 the preference of the method for item i and history u; a > 0 and g > 0 are fitted to the
        cross-entropy on validation. So items have the order of s, and its ties.

    Shapes: input_ids (batch, length), labels (batch, ...), -100 where nothing is asked; scores (asked,).

    Args:
        vocab_size: items, reserved ids included.
        layout: the context's features, of which one is a history.
        num_reserved: ids below this are no items.
        softmax_over: what scores go over, see ``candidates``.

    Attributes:
        choices: setting -> the values that are tried. One setting after the other is given the value with the highest
            NDCG@10 of the whole sets of validation, the others staying as they are.
        usual: setting -> its value until another one is better.

    Raises:
        ConfigurationError: no feature is a history, or two are.

    Relation to its siblings: ``ItemPopularity`` and ``ItemKNN`` read no history.
    """

    choices: ClassVar[Mapping[str, Sequence[Any]]] = {}
    usual: ClassVar[Mapping[str, Any]] = {}

    def __init__(
        self,
        vocab_size: int,
        *,
        layout: Sequence[FeatureLayout],
        num_reserved: int = 3,
        softmax_over: SoftmaxOver = "vocabulary",
    ) -> None:
        super().__init__()
        names = [feature.name for feature in layout if feature.form == "history"]
        if len(names) != 1:
            found = (
                f"and there are {len(names)} ({', '.join(names)})" if names else "and no feature of the context is one"
            )
            raise ConfigurationError(
                f"{type(self).__name__} counts one history, {found}",
                fix="Name a column of what was bought before as a feature of the kind 'history', and no second one.",
            )
        self.vocab_size, self.num_reserved = vocab_size, num_reserved
        self.softmax_over: SoftmaxOver = softmax_over
        self.history = names[0]
        self.settings: Settings = dict(self.usual)
        self.prior, self.exponent = 1.0, 1.0
        self.popularity = self._shares(np.zeros(vocab_size))

    @property
    def device(self) -> torch.device:
        """Return the processor: sparse matrices are counted there."""
        return torch.device("cpu")

    @abstractmethod
    def learn(self, pool: Purchases) -> None:
        """Count what the method needs of the histories to learn from, as ``settings`` say."""

    @abstractmethod
    def preferences(self, asked: Purchases) -> NDArray[np.float64]:
        """Return s of each history: (histories, vocabulary), at least 0."""

    def fit(self, training: Observations, validation: Observations | None = None) -> Settings:
        """Choose the settings, learn from the training part, fit the probabilities, and return what was chosen.

        Args:
            training: the items of the sets, and the histories of their rows.
            validation: by what the settings are chosen. Without it they are chosen by a tenth of the training rows,
                with what is learned from the others.

        Raises:
            DataError: there is nothing to count.
        """
        if not len(training.targets):
            raise DataError("there is nothing to count in the training part", fix="Give a larger training part.")
        self.settings = dict(self.usual)
        whole, every = self._purchases(training), np.arange(len(training.context[self.history]))
        if validation is not None and bool((validation.targets >= self.num_reserved).any()):
            self._choose(whole, training, every, _Asked.of(self, validation, self._purchases(validation)))
        elif len(every) >= 10:
            is_held = every % 10 == 9
            self._choose(whole, training, every[~is_held], _Asked.of(self, _of_rows(training, is_held), whole))
        self._learn(whole, training, every)
        return {**self.settings, "prior": self.prior, "exponent": self.exponent}

    def logits(self, history: Tensor) -> Tensor:
        """Return g log(s + a) for each history: (batch, vocabulary) float64; minus infinity for reserved ids."""
        purchases = Purchases.of(history, num_reserved=self.num_reserved)
        logits = torch.from_numpy(self.exponent * np.log(self.preferences(purchases) + self.prior))
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
        return masked_logits(self._logits_of(context), input_ids)

    @torch.no_grad()
    def score_masked(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        context: Mapping[str, Tensor] | None = None,
        labels: Tensor | None = None,
    ) -> MaskedScores:
        """Rank the true item of each place that is asked: (asked,) each."""
        logits = self._logits_of(context)
        return score_by_logits(
            logits, input_ids, labels, softmax_over=self.softmax_over, num_reserved=self.num_reserved
        )

    def _logits_of(self, context: Mapping[str, Tensor] | None) -> Tensor:
        if context is None or self.history not in context:
            raise ConfigurationError(
                f"{type(self).__name__} reads the history {self.history!r}, and none came", fix="Give context=...."
            )
        return self.logits(context[self.history])

    def _purchases(self, observed: Observations) -> Purchases:
        return Purchases.of(observed.context[self.history], num_reserved=self.num_reserved)

    def _shares(self, counts: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the share of each item in counts, equal ones where nothing was counted."""
        items = np.arange(len(counts)) >= self.num_reserved
        total = counts[items].sum()
        return np.where(items, counts / total if total else 1.0 / max(1, items.sum()), 0.0)

    def _learn(self, whole: Purchases, training: Observations, rows: NDArray[np.int64]) -> None:
        """Learn from some rows of the training part, their sets among the baskets where the settings say so."""
        pool = whole.with_sets(training, num_reserved=self.num_reserved) if self.settings.get("counts_sets") else whole
        pool = pool.select(rows)
        self.popularity = self._shares(pool.counts(self.vocab_size))
        self.learn(pool)

    def _choose(self, whole: Purchases, training: Observations, rows: NDArray[np.int64], asked: "_Asked") -> None:
        """Choose one setting after the other by NDCG, and then prior and exponent by cross-entropy."""
        best = -1.0
        for name, values in self.choices.items():
            kept = self.settings[name]
            for value in dict.fromkeys((kept, *values)):
                if value == kept and best >= 0:
                    continue  # measured already
                self.settings = {**self.settings, name: value}
                self._learn(whole, training, rows)
                found = asked.ndcg(self)
                if found > best:
                    best, kept = found, value
            self.settings = {**self.settings, name: kept}
        self._learn(whole, training, rows)
        self.fit_probabilities(asked.fewer(max(FEWEST_FITTED, FITTED_ELEMENTS // self.vocab_size)))

    def fit_probabilities(self, asked: "_Asked") -> float:
        """Choose prior and exponent, and return the cross-entropy that they leave, in nats."""
        preferences, best = self.preferences(asked.purchases)[:, self.num_reserved :].astype(np.float32), np.inf
        own = preferences[asked.set_of, asked.items - self.num_reserved]
        for prior in PRIORS:
            of_all, of_own = np.log(preferences + prior), np.log(own + prior)

            def loss(exponent: float, of_all: NDArray[Any] = of_all, of_own: NDArray[Any] = of_own) -> float:
                normaliser = torch.from_numpy(exponent * of_all).logsumexp(dim=1).numpy()
                return float((normaliser[asked.set_of] - exponent * of_own).mean())

            found = scipy.optimize.minimize_scalar(loss, bounds=EXPONENTS, method="bounded", options={"xatol": 0.02})
            if found.fun < best:
                best, self.prior, self.exponent = float(found.fun), prior, float(found.x)
        return best


class _Asked:
    """Whole sets by which settings are chosen, with the histories before them.

    Args:
        purchases: the histories of the sets.
        set_of, items: the known items of the sets, and the number of the set of each.
        sizes: distinct items of each set, unknown ones too.
    """

    def __init__(
        self, purchases: Purchases, set_of: NDArray[np.int64], items: NDArray[np.int64], sizes: NDArray[np.int64]
    ) -> None:
        self.purchases, self.set_of, self.items, self.sizes = purchases, set_of, items, sizes

    @classmethod
    def of(cls, model: HistoryBaseline, observed: Observations, purchases: Purchases) -> "_Asked":
        """Return the sets of these rows, evenly spread where there are many."""
        pairs = np.unique(np.stack([observed.rows.numpy(), observed.targets.numpy()]), axis=1)
        is_known = pairs[1] >= model.num_reserved
        rows = np.unique(pairs[0, is_known])
        rows = rows[np.arange(min(len(rows), MAX_ASKED)) * len(rows) // min(len(rows), MAX_ASKED)]
        sizes = np.bincount(pairs[0], minlength=len(purchases.num_baskets))[rows]
        number = np.full(len(purchases.num_baskets), -1)
        number[rows] = np.arange(len(rows))
        is_kept = is_known & (number[pairs[0]] >= 0)
        return cls(purchases.select(rows), number[pairs[0, is_kept]], pairs[1, is_kept], sizes)

    def fewer(self, most: int) -> "_Asked":
        """Return so many of the sets, evenly spread."""
        if len(self.sizes) <= most:
            return self
        rows = np.arange(most) * len(self.sizes) // most
        number = np.full(len(self.sizes), -1)
        number[rows] = np.arange(most)
        is_kept = number[self.set_of] >= 0
        return _Asked(self.purchases.select(rows), number[self.set_of[is_kept]], self.items[is_kept], self.sizes[rows])

    def ndcg(self, model: HistoryBaseline) -> float:
        """Return the mean NDCG@10 of the sets, as reports have it."""
        better, tied = np.empty(len(self.items), dtype=np.int64), np.empty(len(self.items), dtype=np.int64)
        size = max(1, BLOCK_ELEMENTS // model.vocab_size)
        for start in range(0, len(self.sizes), size):
            rows = np.arange(start, min(start + size, len(self.sizes)))
            preferences = model.preferences(self.purchases.select(rows))[:, model.num_reserved :]
            asked = np.flatnonzero((self.set_of >= start) & (self.set_of < start + size))
            for chosen in np.array_split(asked, 1 + len(asked) * model.vocab_size // BLOCK_ELEMENTS):
                all_items = preferences[self.set_of[chosen] - start]
                own = np.take_along_axis(all_items, self.items[chosen, None] - model.num_reserved, axis=1)
                better[chosen], tied[chosen] = (all_items > own).sum(axis=1), (all_items == own).sum(axis=1)
        return float(SetRanks.of(self.set_of, better, tied, self.sizes).ndcg(CHOSEN_BY).mean())


def _of_rows(observed: Observations, is_chosen: NDArray[np.bool_]) -> Observations:
    is_kept = torch.from_numpy(is_chosen)[observed.rows]
    return Observations(observed.targets[is_kept], observed.rows[is_kept], observed.context)
