"""Scoring of data sets: the one loop for masked items, labels and answers, and the scores of masked items.

No matrix of positions and items is ever stored. Anything with ``score_masked`` can be scored, a model or a baseline;
the oracle of the stylist world scores tables itself. A model that gives no numbers is refused. This module gives the
rows that ``contextual_bert.evaluation`` summarises.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from typing import Any, Literal, Protocol, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch import distributed as dist

from contextual_bert.context.interactions import times_before
from contextual_bert.data import EveryPosition, LastPosition, MaskingCollator, SequenceDataset, WholeSetCollator
from contextual_bert.errors import NAME, DataError, Message, NonFiniteError
from contextual_bert.evaluation import Scores, SetPredictions
from contextual_bert.inference.encode import set_index
from contextual_bert.inference.whole_rows import ChoiceRows, NewItemShares, ProposedItems, item_logits
from contextual_bert.models import IGNORED_LABEL, RESERVED_ITEMS

# Weights of a trained model are at most some hundreds; far beyond, their products overflow.
LARGEST_WEIGHT = 1e6


def check_finite(logits: Tensor, model: Any) -> None:
    """Raise NonFiniteError unless each row of logits can be a distribution; one item may be ruled out by -inf.

    Shapes:
        logits (..., choices).

    Example:
        >>> check_finite(torch.tensor([[0.5, -torch.inf]]), torch.nn.Identity())
    """
    # The largest of a row is NaN where any is, and infinite where none is a number: one pass, and no copy.
    if logits.numel() and not bool(logits.amax(dim=-1).isfinite().all()):
        raise nonfinite_error(model)


def nonfinite_error(model: Any, *, rows: Sequence[int] = ()) -> NonFiniteError:
    """Return the error that says whether a model's weights or its inputs are to blame.

    Args:
        model: what gave NaN or infinity; anything else than a module has no weights to look at.
        rows: of which rows of a table it gave them, if known.
    """
    weights = model.state_dict() if isinstance(model, torch.nn.Module) else {}
    checked = {name: each for name, each in weights.items() if each.is_floating_point() and not each.is_meta}
    broken = [name for name, each in checked.items() if not bool(each.isfinite().all())]
    if broken:
        return NonFiniteError(
            f"The model gives no numbers, because its weights hold NaN or infinity: {', '.join(broken[:3])} "
            f"({len(broken)} of {len(checked)} in all). Its training diverged, or its file is damaged",
            fix=Message(
                "Restore the file, or train again; after a divergence with a smaller {learning_rate}.",
                learning_rate=NAME,
            ),
        )
    largest = max((float(each.abs().max()) for each in checked.values() if each.numel()), default=0.0)
    if largest > LARGEST_WEIGHT:
        return NonFiniteError(
            f"The model gives no numbers, because its weights are as large as {largest:.2g} and overflow. Its training "
            "diverged, or its file is damaged",
            fix=Message("Restore the file, or train again with a smaller {learning_rate}.", learning_rate=NAME),
        )
    which = f" of row {', '.join(str(row + 1) for row in rows[:3])} ({len(rows)} in all)" if rows else ""
    return NonFiniteError(
        f"The model gives no numbers for the inputs{which}, though its weights are finite",
        fix="Look for numbers of the context that are far from those of training, or run it in float32.",
    )


class Scorer(Protocol):
    """Protocol for modules that rank the true item of each masked position."""

    @property
    def device(self) -> torch.device: ...

    def score_masked(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        context: Mapping[str, Tensor] | None = None,
        labels: Tensor | None = None,
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]: ...


def score(
    scorer: Scorer,
    dataset: SequenceDataset,
    *,
    batch_size: int = 1024,
    dtype: torch.dtype = torch.float32,
    is_shared: bool = False,
    tokenizer: Any = None,
    most: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Scores:
    """Mask every position of every set once, or a sample of them, and rank the true item among all items.

    Args:
        scorer: the model; put it in ``eval()`` mode before.
        dataset: the sets.
        batch_size: masked sets a forward pass.
        dtype: bfloat16 runs the model under autocast.
        is_shared: all processes of the default process group call this and share the batches; each gets all scores. The
            batches are those of one process, and so is every digit.
        tokenizer: of texts: its special tokens are not masked; None for sets.
        most: positions that are scored at most, the same for every scorer, see ``EveryPosition``; None scores all.
        progress: called with (rows done, rows in all) after each batch.

    Returns:
        Scores sorted by (example_id, position). Positions whose item is [UNK] are left out and counted.

    Raises:
        DataError: there is no set.
        NonFiniteError: the scorer gives no numbers, by its weights or for some rows.
    """
    targets = _MaskedItems(dataset, tokenizer=tokenizer, most=most)
    return _scored(scorer, targets, batch_size=batch_size, dtype=dtype, is_shared=is_shared, progress=progress)


def score_whole_sets(
    scorer: Scorer,
    dataset: SequenceDataset,
    *,
    batch_size: int = 1024,
    dtype: torch.dtype = torch.float32,
    is_shared: bool = False,
    progress: Callable[[int, int], None] | None = None,
    item_counts: NDArray[np.int64] | None = None,
    truth: SequenceDataset | None = None,
) -> Scores:
    """Hide every set whole, and rank each of its items among all items, given the context alone.

    The other items of the set are rivals like any other. An item that a set holds twice is scored once.

    Args:
        scorer, dataset, batch_size, dtype, is_shared, progress: as for ``score``.
        item_counts: how often each item behind the reserved ids is in training, for the novelty of what is proposed.
            None: what is proposed is not kept.
        truth: has these sets with their own contexts, where ``dataset`` has the contexts of others: they say which
            items are repeated. None: ``dataset``.

    Returns:
        Scores with ``SetPredictions``. Errors are those of ``score``.
    """
    settings: dict[str, Any] = {"batch_size": batch_size, "dtype": dtype, "is_shared": is_shared}
    targets = _WholeSets(dataset, truth if truth is not None else dataset)
    return _scored_with_lists(scorer, targets, item_counts, progress=progress, **settings)


def score_next_items(
    scorer: Scorer,
    dataset: SequenceDataset,
    *,
    longest: int | None = None,
    batch_size: int = 1024,
    dtype: torch.dtype = torch.float32,
    is_shared: bool = False,
    progress: Callable[[int, int], None] | None = None,
    item_counts: NDArray[np.int64] | None = None,
) -> Scores:
    """Hide the last item of every sequence, and rank it among all items, given those before it.

    Args:
        scorer, dataset, batch_size, dtype, is_shared, progress: as for ``score``.
        longest: items that are read, the hidden one among them; of longer sequences the newest. None: all.
        item_counts: as for ``score_whole_sets``.

    Returns:
        Scores with ``SetPredictions``: each last item is a set of one. Errors are those of ``score``.
    """
    settings: dict[str, Any] = {"batch_size": batch_size, "dtype": dtype, "is_shared": is_shared}
    return _scored_with_lists(scorer, _NextItems(dataset, longest), item_counts, progress=progress, **settings)


def score_new_items(
    scorer: Scorer,
    dataset: SequenceDataset,
    scores: Scores,
    is_new: Tensor,
    *,
    hide: Literal["items", "set", "next"],
    **settings: Any,
) -> NDArray[np.float64]:
    """Return the probability of all new items together, for each row of the scores: (rows,).

    Args:
        scorer, dataset: as they were scored.
        scores: what ``score`` or one of its siblings returned.
        is_new: (vocabulary,), True for items that training never saw.
        hide: what was hidden: single items, whole sets, or last items.
        **settings: of the scoring, ``longest`` of last items among them.
    """
    targets = item_rows(dataset, hide=hide, longest=settings.pop("longest", None))
    return read_rows(scorer, NewItemShares(targets, is_new), scores, **settings)[:, 0]


def item_rows(
    dataset: SequenceDataset, *, hide: Literal["items", "set", "next"], longest: int | None = None
) -> ChoiceRows:
    """Return the rows of sets in which items are chosen.

    Args:
        dataset: the sets.
        hide: what is hidden: single items, whole sets, or last items.
        longest: as for ``score_next_items``.
    """
    if hide == "set":
        return _WholeSets(dataset, dataset)
    return _NextItems(dataset, longest) if hide == "next" else _MaskedItems(dataset, tokenizer=None, most=None)


class RowReader(Protocol):
    """Protocol of what is read from whole rows: see ``whole_rows``."""

    targets: ChoiceRows


def read_rows(scorer: Any, reader: RowReader, scores: Scores, **settings: Any) -> NDArray[np.float64]:
    """Return what is read from the whole rows of scores, (rows, n), in the order of the scores.

    Args:
        scorer: as it was scored.
        reader: of the rows, such as ``NewItemShares``.
        scores: of the same rows.
        **settings: ``batch_size``, ``dtype``, ``is_shared`` and ``progress``, as for ``score``.
    """
    settings = {"batch_size": 1024, "dtype": torch.float32, "is_shared": False, "progress": None, **settings}
    found = collect(scorer, cast(Any, reader), **settings)
    return found[found[:, 0].argsort(), 1:][reader.targets.rows_of(scores)]


def _scored_with_lists(
    scorer: Scorer,
    targets: "_WholeSets | _NextItems",
    item_counts: NDArray[np.int64] | None,
    *,
    progress: Callable[[int, int], None] | None,
    **settings: Any,
) -> Scores:
    """Return the scores of hidden sets or items, and with ``item_counts`` what is proposed for them."""
    found = _scored(scorer, targets, progress=progress, **settings)
    if item_counts is None:
        return found
    lists = collect(scorer, ProposedItems(targets, len(item_counts)), progress=None, **settings)
    ids = targets.dataset.example_ids[targets.sets[lists[:, 0].astype(np.int64)]].numpy()
    predictions = replace(
        cast(SetPredictions, found.predictions), list_id=ids, lists=lists[:, 1:], item_counts=item_counts
    )
    return replace(found, predictions=predictions)


def _scored(scorer: Scorer, targets: "_MaskedItems | _WholeSets", **settings: Any) -> Scores:
    """Return the scores of what was asked for in a data set."""
    dataset, positions = targets.dataset, targets.positions
    if len(dataset) == 0:
        raise DataError("there is no set to score", fix="Give a part with at least one set.")
    rows = collect(scorer, targets, **settings)
    rows = rows[rows[:, 0].argsort()]
    is_known = ~np.isin(rows[:, 1], targets.reserved)
    is_kept = is_known & targets.is_asked(rows[:, 1].astype(np.int64))
    example_id = dataset.example_ids[positions.set_index].numpy()[is_kept]
    check_scores(rows[is_kept, 2], scorer, example_id)
    places: dict[str, Any] = {"example_id": example_id, "position": positions.positions.numpy()[is_kept]}
    return Scores(
        **places,
        **rank_columns(rows[is_kept, 2:]),
        predictions=targets.predictions(places, is_kept, rows[:, 1].astype(np.int64)),
        num_unknown_targets=targets.num_left_out + int((~is_known).sum()),
        num_possible=positions.num_possible if len(positions) < positions.num_possible else None,
    ).sorted()


class Targets(Protocol):
    """What is scored: which rows in which order, and what a batch of them gives.

    Relation to its siblings: ``collect`` goes through it. Masked items, labels and answers are its kinds.
    """

    @property
    def order(self) -> Tensor:
        """Numbers of the rows, in the order of the batches."""
        ...

    @property
    def num_results(self) -> int:
        """How many results there will be."""
        ...

    def inputs(self, numbers: Tensor) -> dict[str, Any]:
        """Return a batch of these rows."""
        ...

    def forward(self, model: Any, inputs: dict[str, Any]) -> Any:
        """Return what the model makes of a batch on its device: this alone runs under autocast."""
        ...

    def results(self, model: Any, outputs: Any, inputs: dict[str, Any], numbers: Tensor) -> Tensor:
        """Return one line of float64 a result, (results, columns)."""
        ...


def collect(
    model: Any,
    targets: Targets,
    *,
    batch_size: int,
    dtype: torch.dtype,
    is_shared: bool,
    progress: Callable[[int, int], None] | None,
) -> NDArray[np.float64]:
    """Run a model over everything that is scored and return the results, (results, columns).

    Args:
        model: in ``eval()`` mode.
        targets: what is scored.
        batch_size: rows a forward pass.
        dtype: bfloat16 runs the model under autocast.
        is_shared: all processes of the default process group call this and share the batches; each gets all results.
            The batches are those of one process, and so is every digit. The order of the results is another.
        progress: called with (rows done, rows in all) after each batch.
    """
    num_processes, process = (dist.get_world_size(), dist.get_rank()) if is_shared else (1, 0)
    device, order = _device_of(model), targets.order
    autocast = torch.autocast(device.type, dtype=dtype) if dtype != torch.float32 else nullcontext()
    # Filled in place: small results kept from each batch would pin the memory that the batch has freed.
    found: NDArray[np.float64] | None = None
    num_found = 0
    for start in range(process * batch_size, len(order), num_processes * batch_size):
        numbers = order[start : start + batch_size]
        inputs = targets.inputs(numbers)
        with torch.no_grad():
            with autocast:
                outputs = targets.forward(model, to_device(inputs, device))
            results = targets.results(model, outputs, inputs, numbers).numpy()
        if found is None:
            found = np.empty((targets.num_results, results.shape[1]))
        found[num_found : num_found + len(results)] = results
        num_found += len(results)
        if progress is not None:
            progress(min(start + batch_size, len(order)), len(order))
    own = found[:num_found] if found is not None else None
    gathered: list[Any] = [own]
    if is_shared:
        gathered = [None] * num_processes
        dist.all_gather_object(gathered, own)
    return np.concatenate([part for part in gathered if part is not None])


def rank_columns(columns: NDArray[np.float64]) -> dict[str, Any]:
    """Return the columns of ``Scores`` that a rank has, by their names.

    Shapes: columns (rows, 4): log-probability, better ones, tied ones, confidence.
    """
    log_probability, num_better, num_tied, confidence = columns.T
    return {
        "log_probability": log_probability,
        "num_better": num_better.astype(np.int64),
        "num_tied": num_tied.astype(np.int64),
        "confidence": confidence,
    }


class _MaskedItems:
    """Every position of every set, or a sample of them, masked one at a time."""

    def __init__(
        self, dataset: SequenceDataset, *, tokenizer: Any, most: int | None, positions: EveryPosition | None = None
    ) -> None:
        mask_id, pad_id = RESERVED_ITEMS.index("[MASK]"), RESERVED_ITEMS.index("[PAD]")
        self.dataset, self.num_left_out = dataset, 0
        self.reserved: Sequence[int] = range(len(RESERVED_ITEMS))
        left_out: Sequence[int] = ()
        if tokenizer is not None:
            mask_id, pad_id = tokenizer.mask_token_id, tokenizer.pad_token_id
            self.reserved = left_out = tokenizer.all_special_ids
            # Of a text's special tokens, which are not asked for, those that stand for a word are unknown answers, too.
            self.num_left_out = int((dataset.input_ids == tokenizer.unk_token_id).sum())
        self.positions = positions or EveryPosition(dataset, leave_out=left_out, most=most)
        self._collator = MaskingCollator(mask_id=mask_id, pad_id=pad_id)

    @property
    def order(self) -> Tensor:
        return torch.arange(len(self.positions))

    @property
    def num_results(self) -> int:
        return len(self.positions)

    def choice_logits(self, model: Any, inputs: dict[str, Any]) -> Tensor:
        """Return the logits of all items, see ``item_logits``."""
        return item_logits(model, inputs)

    def sequences(self, numbers: Tensor) -> Tensor:
        """Return the number of the set of each of these rows."""
        return self.positions.set_index[numbers]

    def rows_of(self, scores: Scores) -> NDArray[np.int64]:
        """Return the row of each scored position."""
        index, width = set_index(self.dataset, scores.example_id), int(self.dataset.sizes.max()) + 1
        keys = self.positions.set_index.numpy() * width + self.positions.positions.numpy()
        order = keys.argsort()
        return order[np.searchsorted(keys, index * width + scores.position, sorter=order)]

    def is_asked(self, items: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return True for each position: each is asked for."""
        return np.ones(len(items), dtype=np.bool_)

    def predictions(
        self, places: Mapping[str, NDArray[np.int64]], is_kept: NDArray[np.bool_], items: NDArray[np.int64]
    ) -> SetPredictions | None:
        """Return nothing: what is masked one at a time is judged by ranks alone."""

    def inputs(self, numbers: Tensor) -> dict[str, Any]:
        return dict(self._collator(self.positions.__getitems__(numbers)))

    def forward(self, model: Scorer, inputs: dict[str, Any]) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        return model.score_masked(**inputs)

    def results(
        self, model: Scorer, outputs: tuple[Tensor, Tensor, Tensor, Tensor], inputs: dict[str, Any], numbers: Tensor
    ) -> Tensor:
        """Return number, true id and the four columns of a rank."""
        labels = inputs["labels"]
        columns = (numbers, labels[labels != IGNORED_LABEL], *outputs)
        return torch.stack([column.cpu().double() for column in columns], dim=1)


class _NextItems(_MaskedItems):
    """The last item of every sequence: a set of one."""

    def __init__(self, dataset: SequenceDataset, longest: int | None) -> None:
        super().__init__(dataset, tokenizer=None, most=None, positions=LastPosition(dataset, longest=longest))

    @property
    def sets(self) -> Tensor:
        """The sequence of each row."""
        return self.positions.set_index

    def predictions(
        self, places: Mapping[str, NDArray[np.int64]], is_kept: NDArray[np.bool_], items: NDArray[np.int64]
    ) -> SetPredictions:
        """Return how often each item stands before in its sequence."""
        sizes, ids = self.dataset.sizes, self.dataset.input_ids.numpy()
        own = np.repeat(ids[self.dataset.offsets.numpy()[1:] - 1], sizes)
        rows = np.repeat(np.arange(len(sizes)), sizes)
        before = np.bincount(rows[ids == own], minlength=len(sizes)) - 1
        found = before[set_index(self.dataset, places["example_id"])]
        return SetPredictions(**places, set_size=np.ones(len(found), np.int64), times_before=found)


class _WholeSets:
    """Every set, hidden whole: a result each of its items, in the order of ``EveryPosition``."""

    def __init__(self, dataset: SequenceDataset, truth: SequenceDataset) -> None:
        mask_id, pad_id = RESERVED_ITEMS.index("[MASK]"), RESERVED_ITEMS.index("[PAD]")
        self.truth = truth
        self.reserved: Sequence[int] = range(len(RESERVED_ITEMS))
        self.dataset, self.positions, self.num_left_out = dataset, EveryPosition(dataset), 0
        self._collator = WholeSetCollator(mask_id=mask_id, pad_id=pad_id)
        self.sets = dataset.by_length()
        sizes = dataset.offsets.diff()[self.sets]
        self._starts = sizes.cumsum(dim=0) - sizes

    @property
    def order(self) -> Tensor:
        return torch.arange(len(self.dataset))

    @property
    def num_results(self) -> int:
        return len(self.positions)

    def choice_logits(self, model: Any, inputs: dict[str, Any]) -> Tensor:
        """Return the logits of all items, see ``item_logits``."""
        return item_logits(model, inputs)

    def sequences(self, numbers: Tensor) -> Tensor:
        """Return the number of the set of each of these rows."""
        return self.sets[numbers]

    def rows_of(self, scores: Scores) -> NDArray[np.int64]:
        """Return the row of the set of each scored item."""
        return self.sets.argsort().numpy()[set_index(self.dataset, scores.example_id)]

    def is_asked(self, items: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return False for each item that stands before in its set; unknown items may be others."""
        pairs = np.stack([self.positions.set_index.numpy(), items])
        is_first = np.zeros(len(items), dtype=np.bool_)
        is_first[np.unique(pairs, axis=1, return_index=True)[1]] = True
        return is_first | np.isin(items, self.reserved)

    def predictions(
        self, places: Mapping[str, NDArray[np.int64]], is_kept: NDArray[np.bool_], items: NDArray[np.int64]
    ) -> SetPredictions:
        """Return the sizes of the sets and how often a customer had each item before."""
        set_of = self.positions.set_index.numpy()
        sizes = np.bincount(set_of[self.is_asked(items)], minlength=len(self.dataset))
        before = np.full(int(is_kept.sum()), -1)
        rows = set_index(self.truth, places["example_id"])
        for values in self.truth.context.values():
            if values.ndim > 2:  # a history
                before = np.maximum(before, times_before(values.numpy(), rows, items[is_kept]))
        return SetPredictions(**places, set_size=sizes[set_of[is_kept]], times_before=before)

    def inputs(self, numbers: Tensor) -> dict[str, Any]:
        return dict(self._collator(self.dataset.__getitems__(self.sets[numbers])))

    def forward(self, model: Scorer, inputs: dict[str, Any]) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        return model.score_masked(**inputs)

    def results(
        self, model: Scorer, outputs: tuple[Tensor, Tensor, Tensor, Tensor], inputs: dict[str, Any], numbers: Tensor
    ) -> Tensor:
        """Return number, true id and the four columns of a rank."""
        labels = inputs["labels"]
        sets, places = (labels != IGNORED_LABEL).nonzero(as_tuple=True)
        columns = (self._starts[numbers][sets] + places, labels[sets, places], *outputs)
        return torch.stack([column.cpu().double() for column in columns], dim=1)


def _device_of(model: Any) -> torch.device:
    found = getattr(model, "device", None)
    if isinstance(found, torch.device):
        return found
    return next((parameter.device for parameter in model.parameters()), torch.device("cpu"))


def check_scores(log_probabilities: NDArray[np.float64], scorer: Any, rows: NDArray[np.int64]) -> None:
    """Raise NonFiniteError unless all are numbers; that of what a scorer rules out is minus infinity.

    Args:
        log_probabilities: of the true items or labels.
        scorer: what gave them.
        rows: of the table, one a log-probability.

    Example:
        >>> check_scores(np.array([-0.5]), None, np.array([7]))
    """
    is_none = np.isnan(log_probabilities)
    if is_none.any():
        raise nonfinite_error(scorer, rows=np.unique(rows[is_none]).tolist())


def to_device(inputs: Mapping[str, Tensor | Mapping[str, Tensor]], device: torch.device) -> dict[str, Any]:
    """The same inputs on ``device``; goes into the context's features."""
    return {
        name: {feature: tensor.to(device) for feature, tensor in value.items()}
        if isinstance(value, Mapping)
        else value.to(device)
        for name, value in inputs.items()
    }
