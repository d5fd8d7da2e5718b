"""Encoded sequences with their contexts as tensors, whole batches of them, and the order of training.

`__getitems__` lets a DataLoader fetch a batch at once, several times faster than row by row. A collator masks the
batch or passes its labels on. Batches have sets of one length, so that padding is not paid for. Their order is a pure
function of (seed, epoch). Only ids are known here, neither vocabulary nor schema.
"""

from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor
from torch.utils.data import Dataset, Sampler

from contextual_bert.context.interactions import ITEM, NO_ITEM
from contextual_bert.context.kinds import MULTI_PADDING
from contextual_bert.data.hashing import Draw, hash_counters
from contextual_bert.data.ragged import places_of
from contextual_bert.data.ragged_rows import RaggedRows, rows_of, without_padding
from contextual_bert.data.spelt_tokens import SpeltTokens
from contextual_bert.errors import ConfigurationError, DataError

IGNORED_LABEL = -100  # what losses of torch and transformers leave out
_OF_SEQUENCES = ("start_positions", "end_positions", "next_sentence_label")
Ids = Tensor | NDArray[Any] | Sequence[int]


@dataclass(frozen=True, eq=False, kw_only=True)
class SequenceBatch:
    """Some sequences, padded to the longest.

    Shapes: input_ids (batch, length), lengths, example_ids, masked_position, start_positions, end_positions and
    next_sentence_label (batch,), token_type_ids and goes_on_phrase (batch, length), labels (batch, ...) or
    (batch, length), context each (batch, ...), characters (batch, length, places).

    Args:
        input_ids: ids of the items or tokens; padding behind the end of a sequence.
        lengths: number of items or tokens of each sequence.
        example_ids: the row of the table that each sequence is of.
        context: encoded context, a tensor a feature.
        labels: what is learned of each sequence, or of each token.
        token_type_ids: 1 in the second half of a pair; of sequences of items the gap of time before each, see
            ``time_gaps``.
        start_positions: where the answer to a question begins.
        end_positions: where it ends.
        masked_position: the one position to mask, where that is fixed.
        earlier_ids: (batch, n), padded: items of long sequences that stand before those of input_ids.
        goes_on_phrase: True for each token that goes on the phrase of the one before it; both are masked, or none.
        next_sentence_label: of pairs of sentences, 0 where the second follows, 1 where it is of another text.
        characters: of texts with spellings, the bytes of the word of each token, see ``SpeltTokens``.
    """

    input_ids: Tensor
    lengths: Tensor
    example_ids: Tensor
    context: dict[str, Tensor]
    labels: Tensor | None = None
    token_type_ids: Tensor | None = None
    start_positions: Tensor | None = None
    end_positions: Tensor | None = None
    masked_position: Tensor | None = None
    earlier_ids: Tensor | None = None
    goes_on_phrase: Tensor | None = None
    next_sentence_label: Tensor | None = None
    characters: Tensor | None = None

    def __len__(self) -> int:
        return len(self.input_ids)

    def __iter__(self) -> Iterator["SequenceBatch"]:
        """Yield the batch itself: transformers' Trainer looks through what it takes for rows, for unused columns."""
        yield self

    @property
    def is_real(self) -> Tensor:
        """(batch, length): False for padding."""
        return torch.arange(self.input_ids.shape[1]) < self.lengths[:, None]

    def inputs(self) -> dict[str, Any]:
        """Return what ``forward`` takes of it, labels and answers included where there are some."""
        found: dict[str, Any] = {"input_ids": self.input_ids, "attention_mask": self.is_real.long()}
        for name in (*_OF_SEQUENCES, "token_type_ids", "labels", "characters"):
            if (values := getattr(self, name)) is not None:
                found[name] = values
        return {**found, "context": self.context} if self.context else found


def take_context(context: Mapping[str, Tensor], index: Tensor) -> dict[str, Tensor]:
    """The context of these rows; lists of values as wide as the longest of them, not of the table's.

    Example:
        >>> take_context({"brands": torch.tensor([[4, 5, 6], [4, 0, 0]])}, torch.tensor([1]))
        {'brands': tensor([[4]])}
    """
    rows = {name: values[index] for name, values in context.items()}
    for name, values in rows.items():
        is_trimmed = isinstance(context[name], RaggedRows)
        if values.dim() > 1 and not values.is_floating_point() and not is_trimmed:
            is_filled = values != MULTI_PADDING if values.dim() == 2 else values[..., ITEM] != NO_ITEM
            filled = is_filled.any(dim=0).nonzero()
            rows[name] = values[:, : int(filled.max()) + 1 if len(filled) else 1]
    return rows


class SequenceDataset(Dataset[dict[str, Any]]):
    """Sequences as one flat tensor of ids and offsets, with a row of context for each, and labels where there are some.

    Give ``collate_fn`` as the ``data_collator`` of a Trainer for labels, a ``MaskingCollator`` for masked items.

    Shapes: input_ids and token_type_ids (items of all sequences,), offsets (sequences + 1,), context each (sequences,
    ...), labels (sequences, ...) or (items of all sequences,), example_ids (sequences,), spans (sequences, 2).

    Args:
        input_ids: ids of all items or tokens, one sequence after the other; [CLS] and [SEP] of a text included.
        offsets: sequence i is `input_ids[offsets[i] : offsets[i + 1]]`; no sequence is empty.
        context: a tensor a feature with a row a sequence, or ``RaggedRows``; empty where there is no context.
        labels: what is to be learned; None where items are masked.
        token_type_ids: 1 in the second half of a pair of texts, or the gap of time before each item, see
            ``time_gaps``; None: there are neither.
        spans: the places in each text where the answer to a question begins and ends; None where none is asked.
        example_ids: the row of the table that each sequence is of, from which masks are drawn. Windows of one question
            have one. None: they are numbered.
        pad_id: id behind the end of a sequence.

    Attributes:
        earlier_starts: of pieces of long sequences, set by ``in_pieces``: the place in ``input_ids`` where the whole
            sequence of each begins. Batches then have the items before each piece. None: sequences are whole.
        goes_on_phrase: of texts with phrases, set by ``with_phrases``: (tokens,), True for each token that goes on the
            phrase of the one before it.
        spelt: of texts whose words are read by their characters, set by ``with_spelling``.

    Raises:
        ConfigurationError: parts that do not fit each other.
        DataError: a sequence is empty.

    Example:
        >>> dataset = SequenceDataset([5, 6, 7], [0, 2, 3], context={"age": torch.tensor([1, 2])}, example_ids=[0, 4])
        >>> dataset.__getitems__([1, 0]).input_ids
        tensor([[7, 0],
                [5, 6]])
    """

    def __init__(
        self,
        input_ids: Ids,
        offsets: Ids,
        *,
        context: Mapping[str, Tensor],
        labels: Tensor | None = None,
        token_type_ids: Ids | None = None,
        spans: Tensor | None = None,
        example_ids: Ids | None = None,
        pad_id: int = 0,
    ) -> None:
        self.earlier_starts: Tensor | None = None
        self.goes_on_phrase: Tensor | None = None
        self.spelt: SpeltTokens | None = None
        self.input_ids, self.offsets, self.pad_id = _long(input_ids), _long(offsets), pad_id
        self.labels, self.context, self.spans = labels, dict(context), spans
        self.token_type_ids = torch.as_tensor(token_type_ids) if token_type_ids is not None else None
        count, length = len(self.offsets) - 1, len(self.input_ids)
        self.example_ids = torch.arange(count) if example_ids is None else _long(example_ids)
        if count < 0 or int(self.offsets[0]) != 0 or int(self.offsets[-1]) != length:
            raise ConfigurationError(
                f"offsets must go from 0 to the number of ids, {length}",
                fix="Use those of the table that the ids come from.",
            )
        if count and int(self.offsets.diff().min()) < 1:
            raise DataError(
                f"the sequence {int(self.offsets.diff().argmin())} is empty, nothing in it can be masked or read",
                fix="Leave empty ones out, as read_sets does.",
            )
        self.has_label_per_token = labels is not None and len(labels) == length and len(labels) != count
        rows = {"example_ids": self.example_ids, "spans": spans, **self.context}
        rows |= {} if self.has_label_per_token else {"labels": labels}
        for name, values in rows.items():
            if values is not None and len(values) != count:
                raise ConfigurationError(
                    f"{name!r} has {len(values)} rows for {count} sequences",
                    fix="Give one row a sequence, in the same order.",
                )
        if token_type_ids is not None and len(token_type_ids) != length:
            raise ConfigurationError(
                f"'token_type_ids' has {len(token_type_ids)} values for {length} ids",
                fix="Give one value an id, in the same order.",
            )

    def __len__(self) -> int:
        return len(self.example_ids)

    @property
    def sizes(self) -> NDArray[np.int64]:
        """Number of items or tokens of each sequence: what the sampler needs."""
        return self.offsets.diff().numpy()

    def by_length(self, *, is_descending: bool = False) -> Tensor:
        """Return the indices from short to long, or from long to short: batches of one length need no padding."""
        return self.offsets.diff().argsort(descending=is_descending, stable=True)

    def parts(self) -> dict[str, Any]:
        """Return the arguments that make this data set."""
        names = ("input_ids", "offsets", "context", "labels", "token_type_ids", "spans", "example_ids", "pad_id")
        return {name: getattr(self, name) for name in names}

    def with_context(self, context: Mapping[str, Tensor]) -> "SequenceDataset":
        """Return the same sequences for other people; this data set stays as it is."""
        return self._with(context=context)

    def with_labels(self, labels: Tensor) -> "SequenceDataset":
        """Return the same sequences with other labels, a row each; this data set stays as it is.

        Args:
            labels: (sequences, ...).
        """
        return self._with(labels=labels)

    def _with(self, **changed: Any) -> "SequenceDataset":
        changed = self.parts() | changed
        return SequenceDataset(**changed).with_phrases(self.goes_on_phrase).with_spelling(self.spelt)

    def with_phrases(self, goes_on_phrase: Tensor | None) -> Self:
        """Return the same texts with phrases, which ``TextMaskingCollator`` masks as a whole; this one stays as it is.

        Args:
            goes_on_phrase: (tokens,), True for each token that goes on the phrase of the one before it; None: no text
                has phrases.

        Raises:
            ConfigurationError: another number of values.
        """
        if goes_on_phrase is not None and len(goes_on_phrase) != len(self.input_ids):
            raise ConfigurationError(
                f"'goes_on_phrase' has {len(goes_on_phrase)} values for {len(self.input_ids)} ids",
                fix="Give one value an id, in the same order.",
            )
        found = copy(self)
        found.goes_on_phrase = goes_on_phrase
        return found

    def with_spelling(self, spelt: SpeltTokens | None) -> Self:
        """Return the same texts, whose batches have the characters of each token's word; this one stays as it is.

        Args:
            spelt: of the tokens; None: batches have ids alone.
        """
        found = copy(self)
        found.spelt = spelt
        return found

    def without_segments(self) -> Self:
        """Return the same sequences without ``token_type_ids``; this data set stays as it is."""
        if self.token_type_ids is None:
            return self
        found = copy(self)
        found.token_type_ids = None
        return found

    def without_padding(self) -> Self:
        """Return the same sequences with histories as ``RaggedRows``: a few long ones widen no others."""
        found = copy(self)
        found.context = without_padding(self.context)
        return found

    def context_rows(self, index: Tensor) -> Tensor:
        """Return the rows of ``context`` that these sequences have: their own."""
        return index

    def subset(self, rows: Ids) -> "SequenceDataset":
        """Return the sequences of these indices, in that order.

        Example:
            >>> sets = SequenceDataset([5, 6, 7], [0, 2, 3], context={"age": torch.tensor([1, 2])}, example_ids=[0, 4])
            >>> sets.subset([1]).input_ids, sets.subset([1]).context
            (tensor([7]), {'age': tensor([2])})
        """
        index = _long(rows)
        lengths = self.offsets.diff()[index]
        offsets = torch.cat([torch.zeros(1, dtype=torch.int64), lengths.cumsum(0)])
        places = torch.arange(int(offsets[-1])) + torch.repeat_interleave(self.offsets[index] - offsets[:-1], lengths)

        def chosen(values: Tensor | None, by: Tensor = index) -> Tensor | None:
            return values[by] if values is not None else None

        found = SequenceDataset(
            self.input_ids[places],
            offsets,
            context={name: rows_of(values, self.context_rows(index)) for name, values in self.context.items()},
            labels=chosen(self.labels, places if self.has_label_per_token else index),
            token_type_ids=chosen(self.token_type_ids, places),
            spans=chosen(self.spans),
            example_ids=self.example_ids[index],
            pad_id=self.pad_id,
        )
        return found.with_phrases(chosen(self.goes_on_phrase, places)).with_spelling(
            self.spelt.at(places) if self.spelt is not None else None
        )

    def __getitem__(self, index: int) -> dict[str, Any]:
        """Return one sequence, without padding; its context is as wide as that of the others."""
        if not -len(self) <= index < len(self):
            raise IndexError(f"sequence {index} of {len(self)}: give a number from 0 to {len(self) - 1}.")
        index %= len(self)
        row = {name: values[0] for name, values in self.__getitems__([index]).inputs().items() if name != "context"}
        other = int(self.context_rows(torch.tensor([index])))
        context = {name: values[other].clone() for name, values in self.context.items()}
        if self.goes_on_phrase is not None:
            row["goes_on_phrase"] = self.goes_on_phrase[self.offsets[index] : self.offsets[index + 1]]
        return {**row, "context": context, "example_id": int(self.example_ids[index])}

    def __getitems__(self, indices: Sequence[int] | Tensor) -> SequenceBatch:
        index = torch.as_tensor(indices, dtype=torch.int64)
        starts = self.offsets[index]
        lengths = self.offsets[index + 1] - starts
        places = torch.arange(int(lengths.max()))
        real = places < lengths[:, None]
        flat = (starts[:, None] + places).clamp_(max=len(self.input_ids) - 1)
        labels, segments, bounds = self.labels, None, (None, None)
        if labels is not None:
            labels = labels[flat].masked_fill_(~real, IGNORED_LABEL) if self.has_label_per_token else labels[index]
        if self.token_type_ids is not None:
            segments = self.token_type_ids[flat].long().masked_fill_(~real, 0)
        if self.spans is not None:
            bounds = self.spans[index].unbind(dim=1)
        return SequenceBatch(
            input_ids=self.input_ids[flat].masked_fill_(~real, self.pad_id),
            lengths=lengths,
            example_ids=self.example_ids[index],
            context=take_context(self.context, self.context_rows(index)),
            labels=labels,
            token_type_ids=segments,
            start_positions=bounds[0],
            end_positions=bounds[1],
            earlier_ids=self.ids_before(index),
            goes_on_phrase=self.goes_on_phrase[flat] & real if self.goes_on_phrase is not None else None,
            characters=self.spelt.characters(flat, real) if self.spelt is not None else None,
        )

    def ids_before(self, index: Tensor) -> Tensor | None:
        """Return the items before some pieces, (batch, n) padded; None where each begins its sequence."""
        if self.earlier_starts is None:
            return None
        return self.ids_between(self.earlier_starts[index], self.offsets[index])

    def ids_between(self, starts: Tensor, ends: Tensor) -> Tensor | None:
        """Return the ids from some places to others, (places, n) padded; None where there are none."""
        sizes = ends - starts
        if not (longest := int(sizes.max()) if len(sizes) else 0):
            return None
        places = torch.arange(longest)
        flat = (starts[:, None] + places).clamp_(max=len(self.input_ids) - 1)
        return self.input_ids[flat].masked_fill_(places >= sizes[:, None], self.pad_id)

    def collate_fn(self, batch: SequenceBatch | Sequence[Any]) -> dict[str, Any]:
        """Return the inputs of a batch as it came from `__getitems__`; rows one by one are put together."""
        if not isinstance(batch, SequenceBatch) and len(batch) == 1 and isinstance(batch[0], SequenceBatch):
            batch = batch[0]  # as transformers' Trainer hands it on, which looks through it for unused columns
        if isinstance(batch, SequenceBatch):
            return batch.inputs()
        padding = {"input_ids": self.pad_id, "labels": IGNORED_LABEL}
        whole: dict[str, Any] = {}
        for name in batch[0]:
            values = [row[name] for row in batch]
            if name == "context":
                context = {feature: torch.stack([value[feature] for value in values]) for feature in values[0]}
                whole |= {"context": context} if context else {}
            elif name in _OF_SEQUENCES or (name == "labels" and not self.has_label_per_token):
                whole[name] = torch.stack(values)
            elif name not in ("example_id", "goes_on_phrase"):
                whole[name] = torch.nn.utils.rnn.pad_sequence(
                    values, batch_first=True, padding_value=padding.get(name, 0)
                )
        return whole


class EveryPosition(Dataset[dict[str, Any]]):
    """Each (set, position) of a dataset once: what evaluation masks.

    Ordered by the length of the set, then by set and position: consecutive batches need next to no padding. Keeps two
    numbers a position, never a copy of the sets. docs/protocol.md, "Masks".

    Args:
        dataset: the sets.
        leave_out: ids that are not masked: [CLS] and [SEP] of a text.
        most: how many positions to keep at most, those with the smallest hash of (example id, position). So the sample
            is the same for every run on these rows; None keeps all.

    Example:
        >>> dataset = SequenceDataset([5, 6, 7], [0, 2, 3], context={}, example_ids=[0, 4])
        >>> len(EveryPosition(dataset, most=2))
        2
        >>> every = EveryPosition(dataset)
        >>> list(zip(every.set_index.tolist(), every.positions.tolist()))
        [(1, 0), (0, 0), (0, 1)]
    """

    def __init__(self, dataset: SequenceDataset, *, leave_out: Sequence[int] = (), most: int | None = None) -> None:
        self.dataset = dataset
        sizes = dataset.sizes
        order = np.argsort(sizes, kind="stable")
        set_index = torch.from_numpy(np.repeat(order, sizes[order]))
        positions = torch.from_numpy(places_of(sizes[order]))
        is_asked = slice(None)
        if leave_out:
            is_asked = ~torch.isin(dataset.input_ids[dataset.offsets[set_index] + positions], _long(leave_out))
        self.set_index, self.positions = set_index[is_asked], positions[is_asked]
        self.num_possible = len(self.positions)
        if most is not None and most < self.num_possible:
            ids = dataset.example_ids[self.set_index].numpy()
            keys = hash_counters(0, 0, Draw.SCORED_POSITION, ids, self.positions.numpy())
            kept = torch.from_numpy(np.sort(np.argpartition(keys, most)[:most]))
            self.set_index, self.positions = self.set_index[kept], self.positions[kept]

    def __len__(self) -> int:
        return len(self.positions)

    @property
    def sizes(self) -> np.ndarray:
        """Number of items of the set of each row."""
        return self.dataset.sizes[self.set_index.numpy()]

    def __getitem__(self, index: int) -> dict[str, Any]:
        if not -len(self) <= index < len(self):
            raise IndexError(f"row {index} of {len(self)}: give a number from 0 to {len(self) - 1}.")
        example = self.dataset[int(self.set_index[index])]
        return {**example, "masked_position": int(self.positions[index])}

    def __getitems__(self, indices: Sequence[int] | Tensor) -> SequenceBatch:
        index = torch.as_tensor(indices, dtype=torch.int64)
        return replace(self.dataset.__getitems__(self.set_index[index]), masked_position=self.positions[index])


def _long(values: Ids) -> Tensor:
    return torch.as_tensor(
        np.ascontiguousarray(values) if isinstance(values, np.ndarray) else values, dtype=torch.int64
    )


class LengthBucketSampler(Sampler[int]):
    """Every index once, in an order whose consecutive chunks of `batch_size` have one length, but for a few.

    Sets are shuffled within their length and cut into batches from short to long: only where one length ends and the
    next begins is a batch mixed, so there are fewer mixed batches than lengths. Whole batches are then shuffled among
    each other; the one incomplete batch, of the longest sets, comes last.

    Args:
        sizes: number of items of each set.
        batch_size: that of the DataLoader: of one process, where there are several.
        seed: seed of the order.
        drop_last: the DataLoader leaves the incomplete batch out: it is drawn anew from all sets in each epoch, so that
            the longest are not those that nothing is ever learned from.

    Relation to its siblings: `transformers`' group_by_length sorts within windows of a shuffled order, so
    most of its batches are padded.

    Example:
        >>> sampler = LengthBucketSampler([2, 3, 2, 3, 2], batch_size=2)
        >>> sorted(sampler)
        [0, 1, 2, 3, 4]
    """

    def __init__(self, sizes: ArrayLike, *, batch_size: int, seed: int = 0, drop_last: bool = False) -> None:
        if batch_size < 1:
            raise ConfigurationError("is not allowed", setting="batch_size", value=batch_size, fix="Give at least 1.")
        self.sizes = np.asarray(sizes, dtype=np.int64)
        if self.sizes.ndim != 1:
            raise ConfigurationError(f"sizes has the shape {self.sizes.shape}", fix="Give one number a set.")
        self.batch_size, self.seed, self.drop_last, self.epoch = batch_size, seed, drop_last, 0

    def __len__(self) -> int:
        return len(self.sizes)

    def set_epoch(self, epoch: int) -> None:
        """Another order; accelerate and transformers call it."""
        self.epoch = epoch

    def __iter__(self) -> Iterator[int]:
        return iter(self.order().tolist())

    def order(self) -> NDArray[np.int64]:
        """The indices in the order of this epoch."""
        count, batch_size = len(self.sizes), self.batch_size
        keys = hash_counters(self.seed, self.epoch, np.arange(count))
        complete = count // batch_size * batch_size
        by_length = np.lexsort((keys, self.sizes))
        if self.drop_last:
            is_rest = np.zeros(count, dtype=np.bool_)
            is_rest[np.argsort(keys, kind="stable")[complete:]] = True
            by_length = by_length[np.argsort(is_rest[by_length], kind="stable")]
        batches = by_length[:complete].reshape(-1, batch_size)
        # The batch number is the last counter and the epoch is negated, so that these keys are not those of the rows.
        batch_keys = hash_counters(self.seed, -1 - self.epoch, np.arange(len(batches)))
        return np.concatenate([batches[np.argsort(batch_keys, kind="stable")].ravel(), by_length[complete:]])
