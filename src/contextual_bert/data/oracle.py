"""The Bayes-optimal predictor of the stylist world: Pr(masked item | the other items, context), exactly.

No model can have a lower expected cross-entropy on outfits of its world. Deliberately knows nothing of models and
metrics: it returns plain arrays with the field names that the evaluation uses. Paper: the quantity of section 2.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from contextual_bert.arrow_types import is_list, is_text
from contextual_bert.context.columns import flatten_lists
from contextual_bert.data.checked_columns import flatten_items
from contextual_bert.data.ragged import offsets_of
from contextual_bert.data.world import StylistWorld
from contextual_bert.data.world_customers import CONTEXT_TYPES, Customers
from contextual_bert.data.world_preferences import Preferences, log_normalise
from contextual_bert.data.world_tables import CATEGORIES, Booleans, Floats, Integers
from contextual_bert.errors import ConfigurationError, DataError, SchemaError, did_you_mean

BLOCK_ELEMENTS = 4_000_000  # (masked rows x items) numbers held at once: 32 MB each of a handful of arrays
MASKED = -1


@dataclass(frozen=True)
class _Outfits:
    """Outfits as item indices, flat: `items[offsets[r]:offsets[r + 1]]` is row r; MASKED where no item is given."""

    items: Integers
    offsets: Integers
    customers: Customers
    first_row: int = 0

    def block(self, start: int, stop: int) -> "_Outfits":
        low, high = self.offsets[start], self.offsets[stop]
        customers = self.customers.take(np.arange(start, stop))
        return _Outfits(self.items[low:high], self.offsets[start : stop + 1] - low, customers, first_row=start)

    @property
    def rows(self) -> Integers:
        return np.repeat(np.arange(len(self.offsets) - 1), np.diff(self.offsets))


class Oracle:
    """Scores the outfits of a stylist world with the true conditional probabilities.

    Formula:
        Pr(i | v, x) = sum over t, s of Pr(t, s | v, x) Pr(i | category, s, x), where the posterior
        Pr(t, s | v, x) is proportional to Pr(t | x) [t = categories of v and one more] Pr(s | x) prod over j in v of
        Pr(j | s, x); the one more is the category of i.

    Symbols: v the visible items, x context (the paper's c), s style, t template.

    Shapes: probabilities (rows, num_items), columns in the order of `world.items`.

    Args:
        world: the world that the outfits come from.

    Relation to its siblings: the lower bound for every model in `evaluation`'s tables of this world.

    Reference: Denk and Peleteiro Ramallo (2020), section 2, Pr(M = w_i | w_-i, c).

    Example:
        >>> world = StylistWorld.generate(60, seed=0)
        >>> scores = Oracle(world).score_table(world.sample(5, seed=1))
        >>> bool((scores["log_probability"] < 0).all())
        True
    """

    def __init__(self, world: StylistWorld) -> None:
        self.world = world
        self.num_items = world.num_items
        self._starts = world.articles.starts
        self._slices = [slice(a, b) for a, b in zip(self._starts[:-1], self._starts[1:], strict=True)]
        bits = 1 << np.arange(len(CATEGORIES))
        self._template_bits = world.tendencies.templates @ bits
        self._template_sizes = world.tendencies.templates.sum(axis=1)

    def score_table(
        self,
        table: pa.Table,
        *,
        example_ids: Integers | None = None,
        among: Sequence[str] | None = None,
        block_elements: int = BLOCK_ELEMENTS,
        progress: Callable[[int, int], None] | None = None,
    ) -> dict[str, NDArray[np.generic]]:
        """Every position of every outfit masked once; arrays in the order of outfits, then positions.

        Args:
            table: columns `items` and the context columns, as `StylistWorld.sample` gives them; a list may be text
                with commas, as in CSV.
            example_ids: one for each row of the table; its row numbers by default.
            among: items that can be answered with, where it is known that the masked one is among them; the others
                are given no probability (and the log-probability of one that was masked is -inf). None: all.
            block_elements: how many (masked rows x items) numbers are held at once.
            progress: called with (outfits done, outfits in all) after each block.

        Returns:
            example_id, position, num_better, num_tied (int64), log_probability, confidence (float64).
        """
        if block_elements < 1:
            raise ConfigurationError(
                "holds nothing", setting="block_elements", value=block_elements, fix="Give a number of 1 or more."
            )
        outfits = self._read(table)
        ids = np.arange(table.num_rows) if example_ids is None else np.asarray(example_ids, dtype=np.int64)
        if len(ids) != table.num_rows:
            raise ConfigurationError(
                f"{len(ids)} example_ids for a table of {table.num_rows} rows", fix="Give one a row, or none."
            )
        is_answer = np.isin(self.world.items, among) if among is not None else np.ones(self.num_items, dtype=np.bool_)
        per_block = max(1, block_elements // (6 * self.num_items))
        parts: list[dict[str, NDArray[np.generic]]] = []
        for start in range(0, table.num_rows, per_block):
            stop = min(start + per_block, table.num_rows)
            block = outfits.block(start, stop)
            rows = block.rows
            target = block.items
            probability = self._probabilities(block, np.arange(len(rows)))
            self._check_possible(block, probability[np.arange(len(rows)), target] > 0)
            if not is_answer.all():
                probability = np.where(is_answer, probability, 0.0)
                probability /= np.maximum(probability.sum(axis=1, keepdims=True), np.finfo(float).tiny)
            of_target = probability[np.arange(len(rows)), target]
            parts.append(
                {
                    "example_id": ids[rows + start],
                    "position": np.arange(len(rows)) - block.offsets[rows],
                    "log_probability": np.log(of_target, out=np.full(len(rows), -np.inf), where=of_target > 0),
                    "num_better": (probability > of_target[:, None]).sum(axis=1),
                    "num_tied": (probability == of_target[:, None]).sum(axis=1),
                    "confidence": probability.max(axis=1),
                }
            )
            if progress is not None:
                progress(stop, table.num_rows)
        return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}

    def probabilities(self, table: pa.Table, positions: Sequence[int] | Integers) -> Floats:
        """Pr(item | others, context) at one position of each row: (rows, num_items), for small tables.

        What stands at the position is not looked at: it may be any item, null or '[MASK]'.
        """
        place = np.asarray(positions, dtype=np.int64)
        sizes = _item_lists(table)[1]
        if place.shape != (table.num_rows,) or (place < 0).any() or (place >= sizes).any():
            raise ConfigurationError(
                f"positions must hold, for each of the {table.num_rows} rows, a number from 0 to its number of "
                "items - 1."
            )
        masked = np.cumsum(sizes) - sizes + place
        return self._probabilities(self._read(table, masked), masked)

    def entropies(self, table: pa.Table, positions: Sequence[int] | Integers) -> Floats:
        """The expected cross-entropy (nats) at one position of each row, whatever item is there: (rows,)."""
        probability = self.probabilities(table, positions)
        return -(probability * np.log(np.where(probability > 0, probability, 1.0))).sum(axis=1)

    def _probabilities(self, outfits: _Outfits, masked: Integers) -> Floats:
        """(masked, items) for the flat positions `masked` of the outfits."""
        preferences = Preferences.of(outfits.customers, self.world.tendencies)
        scope = self.world.tendencies.size_scope
        preference = preferences.dense(slice(None), self.world.articles, slice(None), scope)  # (outfits, items)
        weights = self.world.weights
        sums = np.stack([preference[:, part] @ weights[:, part].T for part in self._slices], axis=1)
        style = self._style_posterior(outfits, masked, preference, sums)
        category = self._category_posterior(outfits, masked)
        row = outfits.rows[masked]
        probability = np.zeros((len(masked), self.num_items))
        for number, part in enumerate(self._slices):
            hit = np.flatnonzero(category[:, number] > 0)
            if len(hit):
                scale = category[hit, number, None] * style[hit] / sums[row[hit], number]
                probability[hit, part] = (scale @ weights[:, part]) * preference[row[hit], part]
        return probability

    def _style_posterior(self, outfits: _Outfits, masked: Integers, preference: Floats, sums: Floats) -> Floats:
        """Pr(style | visible items, x): (masked, styles)."""
        rows, items, is_given = outfits.rows, outfits.items, outfits.items != MASKED
        chosen = np.where(is_given, preference[rows, items], 1.0)
        self._check_possible(outfits, chosen > 0)
        likelihood = np.log(self.world.weights[:, items].T / sums[rows, self.world.articles.category[items]])
        likelihood = np.where(is_given[:, None], likelihood + np.log(chosen)[:, None], 0.0)
        row = rows[masked]
        others = np.add.reduceat(likelihood, outfits.offsets[:-1])[row] - likelihood[masked]
        logits = others + self.world.tendencies.style_log_probabilities(outfits.customers)[row]
        return np.exp(log_normalise(logits))

    def _category_posterior(self, outfits: _Outfits, masked: Integers) -> Floats:
        """Pr(category of the masked item | visible items, x): (masked, categories).

        It needs no style: style and template are independent given x, and so they stay given the visible items.
        """
        bits = np.where(outfits.items == MASKED, 0, 1 << self.world.articles.category[outfits.items])
        row = outfits.rows[masked]
        visible = (np.add.reduceat(bits, outfits.offsets[:-1])[row] - bits[masked])[:, None]
        missing = self._template_bits - visible  # one category's bit exactly if the template fits
        tendencies, customers = self.world.tendencies, outfits.customers
        template = np.exp(tendencies.template_log_probabilities(customers, self.world.has_articles))[row]
        template *= (self._template_bits & visible) == visible
        template *= self._template_sizes == np.diff(outfits.offsets)[row, None]
        category = np.stack([(template * (missing == 1 << c)).sum(axis=1) for c in range(len(CATEGORIES))], axis=1)
        total = category.sum(axis=1, keepdims=True)
        is_possible = np.ones(len(outfits.items), dtype=np.bool_)
        is_possible[masked] = total[:, 0] > 0
        self._check_possible(outfits, is_possible)
        return category / total

    def _check_possible(self, outfits: _Outfits, is_possible: Booleans) -> None:
        if is_possible.all():
            return
        row = int(outfits.rows[~is_possible][0])
        names = [
            "[MASK]" if item == MASKED else self.world.items[item]
            for item in outfits.items[outfits.offsets[row] : outfits.offsets[row + 1]].tolist()
        ]
        raise DataError(
            f"{names} cannot occur in this world for this customer",
            row=outfits.first_row + row,
            column="items",
            fix="Score only outfits that this world drew, each with its own context.",
        )

    def _read(self, table: pa.Table, masked: Integers | None = None) -> _Outfits:
        """The table as indices; the flat positions `masked` are not looked at."""
        names, sizes = _item_lists(table)
        codes = (
            pc.index_in(names, value_set=pa.array(self.world.items)).fill_null(MASKED).to_numpy(zero_copy_only=False)
        )
        items = codes.astype(np.int64)
        is_unknown = items == MASKED
        if masked is not None:
            items[masked] = MASKED
            is_unknown[masked] = False
        offsets = np.concatenate([[0], np.cumsum(sizes)])
        if is_unknown.any():
            place = int(np.flatnonzero(is_unknown)[0])
            row, name = int(np.searchsorted(offsets, place, side="right") - 1), names[place].as_py()
            raise DataError(
                f"{name!r} is not an item of this world", row=row, column="items",
                fix=f"Its items are {self.world.items[0]!r} to {self.world.items[-1]!r}; "
                "only `probabilities` takes masked items, one a row.",
            )  # fmt: skip
        return _Outfits(items, offsets, Customers.from_table(_with_lists(table), self.world.brands))


def _item_lists(table: pa.Table) -> tuple[pa.Array, Integers]:
    """The flat item names, and how many each row has."""
    if "items" not in table.column_names:
        raise SchemaError("The table has no column 'items'", allowed=did_you_mean("items", table.column_names))
    column = table.column("items").combine_chunks()
    if not is_list(column.type):
        flat = flatten_items(table.column("items"), items="items", separator=",", file=None)
        column = flat.lists(table.num_rows)
    sizes = pc.list_value_length(column).fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
    if (sizes == 0).any():
        row = int(np.flatnonzero(sizes == 0)[0])
        raise DataError("has no items", row=row, column="items", fix="Drop the row: an empty set has nothing to mask.")
    return pc.list_flatten(column).cast(pa.string()), sizes


def _with_lists(table: pa.Table) -> pa.Table:
    """The same table with lists in those columns of the context that have text instead, as from CSV."""
    for name, kind in CONTEXT_TYPES.items():
        if is_list(kind) and name in table.column_names and is_text(table[name].type):
            elements, lengths = flatten_lists(table[name].combine_chunks(), separator=",", column=name)
            lists = pa.LargeListArray.from_arrays(pa.array(offsets_of(lengths)), elements)
            table = table.set_column(table.column_names.index(name), name, lists)
    return table
