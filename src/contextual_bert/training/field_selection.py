"""Which fields of the context help to predict an item: decided before a training, from the training part alone.

A field that says nothing is learned by heart, and costs more than any method gains. A small model is fitted to one half
of the training part and asked about the other. A field stays if the other half is predicted better with its values than
without them, and better than with the values of other sets. Knows no recipe and no run. Paper: not there; decision 036.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from contextual_bert.context import FeatureLayout
from contextual_bert.context.forms import FORMS
from contextual_bert.data import SequenceDataset, cooccurrence_vectors
from contextual_bert.errors import ConfigurationError

FEWEST_SETS, FEWEST_CLUSTERS = 1_000, 100  # below either, chance decides too often: all fields stay
LEAST_Z = 3.0  # standard errors that a gain must lie above 0: one field of nothing in 700 does
HIDDEN_SIZE = 128
FIELD_DROPOUT, DROPOUT = 0.5, 0.1
LEARNING_RATE, FORGOTTEN_PER_EPOCH, MOST_DECAY = 3e-3, 0.12, 2.0
EPOCHS, FEWEST_STEPS, MOST_STEPS = 10, 600, 2_000
ITEMS_A_STEP, LARGEST_BATCH = 1_536, 256
ITEMS_ASKED = 20_000  # of both halves together
WARM_UP = 0.1
_FIRST_SCALE = 0.05


@dataclass(frozen=True)
class FieldGain:
    """What a field gains on sets that the small model was not fitted to, in nats an item.

    Args:
        name: of the field.
        alone: cross-entropy without any field minus that with this field alone.
        alone_z: how many standard errors it is below that with the values of other sets.
        last: cross-entropy with all other fields minus that with all fields.
        last_z: the same of ``last``.

    Example:
        >>> FieldGain("age", alone=0.02, alone_z=9.0, last=-0.001, last_z=0.2).is_useful
        True
        >>> FieldGain("noise", alone=-0.002, alone_z=0.5, last=-0.001, last_z=0.2).is_useful
        False
    """

    name: str
    alone: float
    alone_z: float
    last: float
    last_z: float

    @property
    def is_useful(self) -> bool:
        """Whether the field helps alone, or beside the others. One that others can stand in for helps alone."""
        return (self.alone > 0 and self.alone_z > LEAST_Z) or (self.last > 0 and self.last_z > LEAST_Z)


class Fold(NamedTuple):
    """Places of the sets that are fitted to, and of those that are asked about."""

    fitted: NDArray[np.int64]
    asked: NDArray[np.int64]


def halves(clusters: NDArray[np.int64], *, seed: int) -> list[Fold]:
    """Split sets into two halves, each asked about once; the sets of one cluster stay together.

    Args:
        clusters: number of the customer of each set.
        seed: of the draw.

    Example:
        >>> first, second = halves(np.array([0, 0, 1, 2]), seed=0)
        >>> sorted([*first.asked, *second.asked])
        [np.int64(0), np.int64(1), np.int64(2), np.int64(3)]
    """
    numbers = np.unique(clusters)
    order = np.random.default_rng(seed).permutation(len(numbers))
    is_first = np.isin(clusters, numbers[order[: len(numbers) // 2]])
    first, second = np.flatnonzero(is_first), np.flatnonzero(~is_first)
    return [Fold(first, second), Fold(second, first)]


def can_select(num_sets: int, num_clusters: int) -> bool:
    """Return whether there are enough sets, and customers, to tell a useful field from chance."""
    return num_sets >= FEWEST_SETS and num_clusters >= FEWEST_CLUSTERS


def field_gains(
    dataset: SequenceDataset,
    layout: Sequence[FeatureLayout],
    folds: Sequence[Fold],
    clusters: NDArray[np.int64],
    *,
    vocab_size: int,
    seed: int = 0,
    progress: Callable[[int, int], None] | None = None,
) -> list[FieldGain]:
    """Measure what each field of the context helps to predict an item from the others of its set.

    Formula:
        h = ReLU(W mean(x_j of the other items) + sum over the fields f of k_f (t_f - mean t_f) + b);
        Pr(item w) = softmax(U h + d)_w over the items of the batch that the set does not show

    Symbols:
        t_f the vector of the field's value; k_f 0 or 1, drawn at random while fitting, so that one model serves every
        choice of fields. The mean is taken off, so that a field without a message is the same as no field.

    Args:
        dataset: the training sets.
        layout: the fields, in any order.
        folds: of ``halves``, or the earlier sets and the later ones.
        clusters: number of the customer of each set; standard errors are over customers.
        vocab_size: ids are below it.
        seed: of the weights, the order and the permutations.
        progress: called with (parts done, parts in all).

    Raises:
        ConfigurationError: a fold has no set to fit to, or none to ask about.
    """
    if any(len(fold.fitted) == 0 or len(fold.asked) == 0 for fold in folds):
        raise ConfigurationError("A fold has no set on one side. Give more sets, or more customers.")
    context, dataset = _Terms(layout, dataset.context), dataset.with_context({})
    most = ITEMS_ASKED // len(folds)

    def told(done: int) -> None:
        if progress is not None:
            progress(done, len(folds) + len(layout))

    probes: list[_Probe] = []
    for number, fold in enumerate(folds):
        generator = torch.Generator().manual_seed(2 * seed + number)
        fitted = dataset.subset(torch.from_numpy(fold.fitted))
        model = _fit(fitted, context, torch.from_numpy(fold.fitted), vocab_size, generator)
        probes.append(_Probe(model, dataset, context, fold.asked, most, generator))
        told(number + 1)
    owners = np.unique(np.concatenate([clusters[probe.owners] for probe in probes]), return_inverse=True)[1]

    def losses(kept: Tensor, permuted: int | None = None) -> NDArray[np.float64]:
        return np.concatenate([probe.losses(kept, permuted) for probe in probes])

    num_fields = len(layout)
    every, none = torch.ones(num_fields), torch.zeros(num_fields)
    with_all, without = losses(every), losses(none)
    gains: list[FieldGain] = []
    for number, shape in enumerate(layout):
        others, own = every.clone(), none.clone()
        others[number], own[number] = 0.0, 1.0
        with_own = losses(own)
        gains.append(
            FieldGain(
                shape.name,
                alone=float((without - with_own).mean()),
                alone_z=_standard_errors(losses(own, number) - with_own, owners),
                last=float((losses(others) - with_all).mean()),
                last_z=_standard_errors(losses(every, number) - with_all, owners),
            )
        )
        told(len(folds) + number + 1)
    return gains


class _Terms:
    """The encoded context as weights that are added up: their places in one table, and how much each counts."""

    def __init__(self, layout: Sequence[FeatureLayout], context: Mapping[str, Tensor]) -> None:
        places: list[Tensor] = []
        amounts: list[Tensor] = []
        fields: list[int] = []
        start = 0
        for number, shape in enumerate(layout):
            form = FORMS[shape.form]
            own_places, own_amounts = form.terms(shape, context[shape.name])
            places.append(start + own_places)
            amounts.append(own_amounts.float())
            fields += [number] * own_places.shape[1]
            start += form.num_terms(shape)
        self.places, self.amounts = torch.cat(places, dim=1), torch.cat(amounts, dim=1)
        self.field_of_column = torch.tensor(fields)
        num_terms = torch.tensor([FORMS[shape.form].num_terms(shape) for shape in layout])
        self.field_of_term = torch.repeat_interleave(torch.arange(len(layout)), num_terms)
        self.num_fields, self.num_terms = len(layout), start

    def means(self, rows: Tensor) -> Tensor:
        """Return how much each term counts on average, apart for each field: (fields, terms)."""
        shares = torch.zeros(self.num_terms)
        shares.index_add_(0, self.places[rows].flatten(), self.amounts[rows].flatten())
        means = torch.zeros(self.num_fields, self.num_terms)
        means[self.field_of_term, torch.arange(self.num_terms)] = shares / len(rows)
        return means


class _SmallModel(nn.Module):
    """The model of ``field_gains``."""

    def __init__(self, vocab_size: int, means: Tensor, counts: Tensor, generator: torch.Generator) -> None:
        super().__init__()

        def drawn(*shape: int) -> nn.Parameter:
            return nn.Parameter(_FIRST_SCALE * torch.randn(*shape, generator=generator))

        self.means = means
        self.items, self.output = drawn(vocab_size, HIDDEN_SIZE), drawn(vocab_size, HIDDEN_SIZE)
        self.terms = drawn(means.shape[1], HIDDEN_SIZE)
        self.mixing = nn.Parameter(torch.eye(HIDDEN_SIZE))
        self.bias = nn.Parameter(torch.zeros(HIDDEN_SIZE))
        self.popularity = nn.Parameter(((counts + 0.5) / (counts + 0.5).sum()).log())

    def start_with(self, inputs: NDArray[np.float64], outputs: NDArray[np.float64]) -> None:
        """Take vectors of items from which of them occur together."""
        for weight, vectors in ((self.items, inputs), (self.output, outputs)):
            rows = np.flatnonzero(vectors.any(axis=1))
            if len(rows):
                scaled = vectors[rows] * (_FIRST_SCALE / max(vectors[rows].std(), 1e-12))
                weight.data[torch.from_numpy(rows)] = torch.from_numpy(scaled).to(weight)

    def states(self, sets: "_Sets", places: Tensor, amounts: Tensor, kept: Tensor) -> Tensor:
        """Return h of each position: (sets, length, hidden)."""
        vectors = self.items[sets.ids] * sets.is_real[..., None]
        others = (vectors.sum(dim=1, keepdim=True) - vectors) / (sets.lengths - 1).clamp(min=1)[:, None, None]
        told = functional.embedding_bag(places, self.terms, per_sample_weights=amounts, mode="sum")
        told = told - kept @ (self.means @ self.terms)
        return (others @ self.mixing + told[:, None] + self.bias).relu()

    def losses(self, states: Tensor, sets: "_Sets") -> Tensor:
        """Return the cross-entropy of each real position among the items of the batch that its set does not show."""
        candidates, targets = torch.unique(sets.ids[sets.is_real], return_inverse=True)
        logits = states[sets.is_real] @ self.output[candidates].T + self.popularity[candidates]
        places = torch.full_like(sets.ids, -1)
        places[sets.is_real] = targets
        of_set = sets.is_real.nonzero()[:, 0]
        shown = places[of_set]
        is_shown = torch.zeros(len(targets), len(candidates) + 1, dtype=torch.bool)
        is_shown.scatter_(1, torch.where(shown < 0, len(candidates), shown), True)
        is_shown[torch.arange(len(targets)), targets] = False
        return functional.cross_entropy(logits.masked_fill(is_shown[:, :-1], -torch.inf), targets, reduction="none")


class _Sets(NamedTuple):
    """Some sets, padded: ids, is_real (sets, length), lengths (sets,)."""

    ids: Tensor
    is_real: Tensor
    lengths: Tensor

    @classmethod
    def of(cls, dataset: SequenceDataset, rows: Tensor) -> "_Sets":
        batch = dataset.__getitems__(rows)
        return cls(batch.input_ids, torch.arange(batch.input_ids.shape[1]) < batch.lengths[:, None], batch.lengths)


def _fit(
    dataset: SequenceDataset,
    context: _Terms,
    rows: Tensor,
    vocab_size: int,
    generator: torch.Generator,
) -> _SmallModel:
    """Fit the model to sets whose contexts are these rows; each field is left out at random."""
    counts = torch.bincount(dataset.input_ids, minlength=vocab_size).float()
    model = _SmallModel(vocab_size, context.means(rows), counts, generator)
    vectors = cooccurrence_vectors(dataset, vocab_size=vocab_size, size=HIDDEN_SIZE, seed=0, has_context=False)
    model.start_with(*vectors)
    batch_size = int(np.clip(ITEMS_A_STEP / float(dataset.sizes.mean()), 1, min(LARGEST_BATCH, len(dataset))))
    steps_of_epoch = max(1, len(dataset) // batch_size)
    num_steps = min(MOST_STEPS, max(FEWEST_STEPS, EPOCHS * steps_of_epoch))
    weights = [model.items, model.output, model.terms, model.mixing]
    decay = min(FORGOTTEN_PER_EPOCH / (LEARNING_RATE * steps_of_epoch), MOST_DECAY)
    groups = [
        {"params": weights, "weight_decay": decay},
        {"params": [model.bias, model.popularity], "weight_decay": 0.0},
    ]
    optimizer = torch.optim.AdamW(groups, lr=LEARNING_RATE)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, LEARNING_RATE, total_steps=num_steps + 1, pct_start=WARM_UP
    )
    order = torch.randperm(len(dataset), generator=generator)
    with torch.enable_grad():
        for step in range(num_steps):
            place = step % steps_of_epoch
            if place == 0 and step:
                order = torch.randperm(len(dataset), generator=generator)
            chosen = order[place * batch_size : (place + 1) * batch_size]
            sets, own = _Sets.of(dataset, chosen), rows[chosen]
            kept = (torch.rand(len(chosen), context.num_fields, generator=generator) >= FIELD_DROPOUT).float()
            amounts = context.amounts[own] * kept[:, context.field_of_column]
            states = model.states(sets, context.places[own], amounts, kept)
            is_on = torch.rand(states.shape, generator=generator) >= DROPOUT
            loss = model.losses(states * is_on / (1 - DROPOUT), sets).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
    return model


class _Probe:
    """A fitted model and the sets that it is asked about."""

    def __init__(
        self,
        model: _SmallModel,
        dataset: SequenceDataset,
        context: _Terms,
        asked: NDArray[np.int64],
        most_items: int,
        generator: torch.Generator,
    ) -> None:
        num_sets = max(2, int(most_items / float(dataset.sizes[asked].mean())))
        chosen = torch.from_numpy(asked)[torch.randperm(len(asked), generator=generator)[:num_sets]]
        self.rows, donors = chosen.sort().values, chosen
        self.donors = donors  # the rows in another order: each has the context of another set
        self.model, self.context = model, context
        size = max(1, min(LARGEST_BATCH, int(ITEMS_A_STEP / float(dataset.sizes[asked].mean()))))
        self.blocks = [
            (_Sets.of(dataset, self.rows[start : start + size]), slice(start, start + size))
            for start in range(0, len(self.rows), size)
        ]
        self.owners = np.repeat(self.rows.numpy(), dataset.sizes[self.rows.numpy()])

    @torch.no_grad()
    def losses(self, kept: Tensor, permuted: int | None) -> NDArray[np.float64]:
        """Return the cross-entropy of each item with these fields, one of them with the values of other sets."""
        context, found = self.context, list[Tensor]()
        for sets, block in self.blocks:
            rows = self.rows[block]
            places, amounts = context.places[rows], context.amounts[rows]
            if permuted is not None:
                is_field = context.field_of_column == permuted
                donors = self.donors[block]
                places[:, is_field] = context.places[donors][:, is_field]
                amounts[:, is_field] = context.amounts[donors][:, is_field]
            amounts = amounts * kept[context.field_of_column]
            states = self.model.states(sets, places, amounts, kept.expand(len(rows), -1))
            found.append(self.model.losses(states, sets))
        return torch.cat(found).double().numpy()


def _standard_errors(differences: NDArray[np.float64], owners: NDArray[np.int64]) -> float:
    """Return the mean of differences in standard errors over their owners."""
    mean = float(differences.mean())
    sums = np.bincount(owners, weights=differences - mean)
    error = float(np.sqrt((sums**2).sum())) / len(differences)
    return mean / error if error > 0 else 0.0
