"""Frequencies that fade with time, of a customer and of those like her: TIFU-KNN."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse

from contextual_bert.baselines.history_baseline import BLOCK_ELEMENTS, HistoryBaseline
from contextual_bert.baselines.purchases import Purchases


class TIFUKNN(HistoryBaseline):
    """Predicts by the customer's faded counts and the mean of those of her nearest neighbours.

    Formula: s_u = alpha v_u + (1 - alpha) mean of v_w over the k histories w that are nearest to v_u, divided by the
        sum of its components;
        v_ui = 1 / G sum over groups g of r^(m - 1 - g) / |g| sum over baskets b in g with i of q^(newer baskets in g)

    Symbols: alpha ``own_weight``, k ``num_neighbours``, m ``num_groups``, r ``group_decay``, q ``within_decay``. The
        baskets of a history are cut into m groups, as equal as can be, later ones the larger, the oldest first. Of
        fewer baskets each is a group, so that G < m. Distances are Euclidean. With ``counts_sets`` the training sets
        are the newest baskets of the neighbours.

    Relation to its siblings: ``UPCF`` weighs all others by the items they share with the customer. A history without a
        known item has the popularity of all items.

    Reference: Hu et al. (2020), "Modeling Personalized Item Frequency Information for Next-basket Recommendation",
        section 4. The decay of the groups counts from m for short histories too, as their published code has it.
    """

    choices: ClassVar[Mapping[str, Sequence[Any]]] = {
        "counts_sets": (True, False),
        "num_neighbours": (100, 300, 900),
        "own_weight": (0.1, 0.3, 0.5, 0.7, 0.9),
        "num_groups": (3, 7, 15),
        "group_decay": (0.7, 0.9, 1.0),
        "within_decay": (0.7, 0.9, 1.0),
    }
    usual: ClassVar[Mapping[str, Any]] = {
        "counts_sets": True,
        "num_neighbours": 300,
        "own_weight": 0.5,
        "num_groups": 7,
        "group_decay": 0.9,
        "within_decay": 0.9,
    }

    def learn(self, pool: Purchases) -> None:
        """Make the vectors of the histories to learn from."""
        known = pool.select(np.unique(pool.rows))
        self.vectors = known.matrix(self.vocab_size, self._weights)
        self.squares = np.asarray(self.vectors.multiply(self.vectors).sum(axis=1)).ravel()

    def preferences(self, asked: Purchases) -> NDArray[np.float64]:
        """Return own vectors mixed with those of the neighbours."""
        own = asked.matrix(self.vocab_size, self._weights)
        found = np.empty(own.shape)
        size = max(1, BLOCK_ELEMENTS // max(1, len(self.squares)))
        for start in range(0, len(found), size):
            block = own[start : start + size]
            mixed = self.settings["own_weight"] * block
            if len(self.squares):
                mixed = mixed + (1 - self.settings["own_weight"]) * self._mean_of_neighbours(block)
            found[start : start + size] = mixed.toarray()
        total = found.sum(axis=1, keepdims=True)
        return np.where((np.diff(own.indptr) > 0)[:, None], found / np.where(total > 0, total, 1.0), self.popularity)

    def _mean_of_neighbours(self, own: Any) -> Any:
        """Return the mean of the nearest vectors: (histories, vocabulary)."""
        distances = torch.from_numpy(self.squares - 2 * (own @ self.vectors.T).toarray())  # without |v_u|^2
        number = min(self.settings["num_neighbours"], len(self.squares))
        nearest = distances.topk(number, dim=1, largest=False, sorted=False).indices.numpy()
        places = (np.repeat(np.arange(len(nearest)), number), nearest.ravel())
        shares = sparse.csr_array((np.full(nearest.size, 1 / number), places), shape=distances.shape)
        return shares @ self.vectors

    def _weights(self, purchases: Purchases) -> NDArray[np.float64]:
        """Return what each purchase adds to the vector of its history."""
        num_groups = self.settings["num_groups"]
        length = purchases.num_baskets[purchases.rows]
        place = length - 1 - purchases.baskets_ago  # from the oldest
        size, num_larger = length // num_groups, length % num_groups
        num_smaller = (num_groups - num_larger) * size  # baskets in groups of the smaller size
        is_smaller = place < num_smaller
        own_size = np.where(length < num_groups, 1, np.where(is_smaller, size, size + 1))
        within = np.where(is_smaller, place, place - num_smaller)
        group = within // own_size + np.where(is_smaller, 0, num_groups - num_larger)
        newer = own_size - 1 - within % own_size
        is_short = length < num_groups
        group, newer = np.where(is_short, place, group), np.where(is_short, 0, newer)
        decay = self.settings["group_decay"] ** (num_groups - 1.0 - group) * self.settings["within_decay"] ** newer
        return decay / own_size / np.where(is_short, length, num_groups)
