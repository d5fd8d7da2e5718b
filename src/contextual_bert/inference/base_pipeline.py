"""The part of completing sets that every backend shares: queries in, answers out, around the ranking of ids.

A query is a set of item names with [MASK] where something is missing, the context of the person who asks, and
constraints. It knows names, masks and arrays. It imports no torch: ``CompletionPipeline`` ranks with torch,
``OnnxCompletionPipeline`` with onnxruntime.
"""

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, cast

import numpy as np
from numpy.typing import NDArray

from contextual_bert.errors import ConfigurationError, QueryError, SchemaError, UnknownNameError
from contextual_bert.inference.applied_calibration import OF_GUIDANCE, OF_ONE_BLANK, AppliedCalibration, SureAnswers
from contextual_bert.inference.capabilities import Model, guidance_notes
from contextual_bert.inference.catalogue import Catalogue
from contextual_bert.inference.completion_answers import (
    Answer,
    Candidate,
    Remarks,
    Slot,
    SureSlot,
    estimate_notes,
    new_candidates,
    new_item_notes,
    notes_on,
    slot_of,
)
from contextual_bert.inference.constraints import ConstraintInput, Permitted, permitted_items
from contextual_bert.inference.context_notes import ContextNotes
from contextual_bert.inference.queries import (
    MASK,
    Request,
    TrainedSets,
    check_count,
    check_queries,
    check_separated,
    check_set,
    cut_notes,
    encode_contexts,
    loss_notes,
    newest_of,
    read_request,
)
from contextual_bert.inference.query_schema import existing_keys
from contextual_bert.inference.verdicts import FieldVerdicts
from contextual_bert.json_text import json_text
from contextual_bert.models.compatibility import check_processor
from contextual_bert.places import QueryPlace
from contextual_bert.softmax_over import SoftmaxOver

Query = Mapping[str, Any] | Request  # as it was given, or read already
Gaps = Sequence[NDArray[np.int64]]  # one array a set


class Ranking(NamedTuple):
    """The best permitted items of each [MASK], set after set.

    Shapes: ids, probabilities (blanks, proposals); excluded, errors (blanks,).

    ``probabilities`` are renormalised over what is permitted; ``excluded`` is the probability that the model gives to
    what is not permitted. Of fewer permitted items than proposals, the rest are forbidden ones. ``errors`` are relative
    standard errors of the probabilities, where an index estimated the sum over the items; None where all are exact.
    """

    ids: NDArray[np.int64]
    probabilities: NDArray[np.floating[Any]]
    excluded: NDArray[np.floating[Any]]
    errors: NDArray[np.floating[Any]] | None = None


class SetModel(Model, Protocol):
    """Protocol of a model that completes sets, as a pipeline asks it: its settings and what it learned to go without.

    ``config``: a ``ContextualBertConfig``, or what has its fields.
    """

    @property
    def unlearned_absences(self) -> tuple[str, ...]: ...


class BaseCompletionPipeline(ABC):
    """Base of the pipelines that complete sets. A subclass ranks ids.

    Formula:
        Pr(M = w | w_-i, c, permitted) = Pr(M = w | w_-i, c) / sum of the same over the permitted items

    Args:
        model: its settings are read, its weights are not.
        processor: of the model.
        catalogue: the shop's table of items, for constraints on attributes, prices and stock.

    Raises:
        ConfigurationError: model, processor and catalogue do not belong together.
    """

    no_logits: str | None = None  # why there are none, in a pipeline that ranks without them
    max_top_k: int | None = None  # where it can give no more
    verdicts: FieldVerdicts | None = None  # what the run's report says of each field; None where it does not
    # Shape (vocabulary,): which items no set of training held; None where items are names alone.
    is_new: NDArray[np.bool_] | None = None
    origin_notes: Sequence[str] = ()  # of an export, on the run that it came from
    calibration: AppliedCalibration | None = None  # what answers are calibrated by; None: they are as the model's
    sets = TrainedSets()  # how the run read its sets; what ``from_pretrained`` finds in the folder

    def __init__(self, model: SetModel, processor: Any, *, catalogue: Catalogue | None = None) -> None:
        config = model.config
        if len(processor.items) != config.vocab_size:
            raise ConfigurationError(
                f"The processor knows {len(processor.items)} items and the model {config.vocab_size}",
                fix="Load both from one run directory.",
            )
        check_processor(config, processor)
        if catalogue is not None and catalogue.vocabulary != processor.items:
            raise ConfigurationError(
                "The catalogue is aligned to another vocabulary", fix="Make it with processor.items."
            )
        self.model: Any = model
        self.processor = processor
        # The settings of a model are slow to ask, once a query.
        self._has_context = bool(config.layout)
        self._over: SoftmaxOver = "candidates" if config.softmax_over == "candidates" else "items"
        self.catalogue = catalogue

    @abstractmethod
    def rank_permitted(
        self,
        sets: Sequence[Sequence[str]],
        context: Any,
        permitted: NDArray[np.bool_],
        *,
        top_k: int,
        guidance: Sequence[float] | float = 1.0,
        gaps: Gaps | None = None,
    ) -> Ranking:
        """Rank the permitted items of each [MASK] of a batch.

        Shapes:
            permitted (blanks, vocabulary).

        Args:
            sets: names of items.
            context: encoded features by name, a row a set; or the encoding of customers that ``encode_context`` gave.
                None: the model reads none.
            permitted: which items each blank may get.
            top_k: proposals a blank.
            guidance: one number a set, or one for all.
            gaps: of time before each item of each set, see ``query_gaps``; None: not known, or not read.
        """

    @abstractmethod
    def weights_digest(self) -> str:
        """Return a hash of the weights."""

    def model_digest(self) -> str:
        """Return a hash of the weights, of the items that are proposed no more, and of what answers are calibrated by.

        Completions of a table are gone on with by the same model alone.
        """
        weights, removed = self.weights_digest(), self.processor.removed_items
        found = hashlib.sha256(json_text([weights, *removed]).encode()).hexdigest() if removed else weights
        return f"{found} {self.calibration.digest()}" if self.calibration is not None else found

    def __call__(
        self, queries: Query | Sequence[Query], *, top_k: int = 5, batch_size: int = 256
    ) -> Answer | list[Answer]:
        """Complete one query or many.

        Args:
            queries: {"items": [...], "context": {...}} and, if wished, constraints: "allow", "deny", "owned",
                "repeats", "in_stock", "where", "max_price", "budget", "at_most_one_per". Without a [MASK] the set is
                completed by one more item. A context feature that is not named is missing. Of a run that reads time
                gaps "times" has one an item, None where it is not known, as of the [MASK]. "guidance": 0 is what
                anybody would get, 1 the model as it is, above 1 is more personal.
            top_k: proposals a slot.
            batch_size: queries a forward pass.

        Returns:
            An Answer for one query, a list of them for a list.

        Raises:
            DataError, UnknownNameError: a faulty query, named by its row, before anything is computed.
            NonFiniteError: the model gives no numbers.
        """
        for name, value in (("top_k", top_k), ("batch_size", batch_size)):
            check_count(name, value)
        if isinstance(queries, Mapping | Request):
            return next(self.complete([queries], top_k=top_k, batch_size=1))
        return list(self.complete(check_queries(queries), top_k=top_k, batch_size=batch_size))

    def complete(self, queries: Sequence[Query], *, top_k: int, batch_size: int) -> Iterator[Answer]:
        """The answers, in order; everything but what the catalogue knows is checked before the first one."""
        requests = [read_request(query, row=row) for row, query in enumerate(queries)]
        context = encode_contexts(requests, self.processor)
        schema = self.processor.schema
        unknown: list[dict[str, list[str]] | None] = [None] * len(requests)  # to be looked for, row by row
        if context is not None and len(requests) == 1:  # what was read once need not be read again
            unknown = [{name: list(values) for name, values in context.unknown.items()}]
        elif context is not None and schema is not None:
            unknown = [None if has else {} for has in context.has_unknown(schema)]
        notes = ContextNotes(context, schema, self.model)
        for start in range(0, len(requests), batch_size):
            batch = requests[start : start + batch_size]
            encoded = context.arrays_of(slice(start, start + batch_size)) if context is not None else None
            permitted = [self.permitted(request, row=row) for row, request in enumerate(batch, start)]
            how: dict[str, Any] = {"top_k": top_k, "guidance": [each.guidance for each in batch]}
            gaps = self.gaps_of(batch, row=start)
            filled = self.fill([each.items for each in batch], encoded, permitted, gaps=gaps, **how)
            for row, (request, slots) in enumerate(zip(batch, filled, strict=True), start):
                yield self.answer(request, slots, unknown=unknown[row], context_notes=notes.of(row))

    def calibrate_by(self, calibration: AppliedCalibration) -> None:
        """Give tempered probabilities from now on, and a prediction set with each slot. All items are ranked.

        Raises:
            ConfigurationError: the pipeline ranks some items alone.
        """
        if self.max_top_k is not None:
            raise ConfigurationError(
                f"A prediction set is chosen from all items, and this export ranks {self.max_top_k:,}",
                fix="Name the run that it was made from.",
            )
        self.calibration = calibration

    def permitted(self, request: Request, *, row: int) -> Permitted:
        """Return the permitted items of each blank of the query."""
        check_set(request, self.model.config, row=row)
        self.gaps_of([request], row=row)
        check_separated(request.items, self.processor.items, self.sets, row=row)
        try:
            return permitted_items(self.asked(request), request.settings)
        except (QueryError, UnknownNameError, SchemaError) as error:
            raise error.at(QueryPlace((row, *existing_keys(request.given, error.location)))) from None

    def gaps_of(self, requests: Sequence[Request], *, row: int = 0) -> Gaps | None:
        """Return the gap of time before each item of some requests; None where the model reads none.

        Raises:
            QueryError: as ``query_gaps``; ``row`` is the number of the first request.
        """
        config = self.model.config
        found = [each.gaps(config, row=number) for number, each in enumerate(requests, row)]
        return None if config.time_gaps is None else cast(Gaps, found)

    def read_of(self, sets: Sequence[Sequence[str]], gaps: Gaps | None) -> tuple[Sequence[Sequence[str]], Gaps | None]:
        """Return the items that are read of each set, and their gaps: the first one that is read keeps its own."""
        read = [newest_of(items, self.model.config) for items in sets]
        if gaps is None:
            return read, None
        return read, [each[len(each) - len(kept) :] for each, kept in zip(gaps, read, strict=True)]

    def asked(self, request: Request) -> ConstraintInput:
        """Return the input of the constraints for a query."""
        return ConstraintInput(
            self.processor.items,
            request.items,
            self.catalogue,
            can_repeat=self._over == "items",
            removed_items=self.processor.removed_items,
        )

    def fill(
        self,
        sets: Sequence[Sequence[str]],
        context: Any,
        permitted: Sequence[Permitted],
        *,
        top_k: int,
        guidance: Sequence[float] | float = 1.0,
        gaps: Gaps | None = None,
    ) -> Iterator[list[Slot]]:
        """Yield the slots of each set of one batch.

        Args:
            sets, context, top_k, guidance, gaps: see ``rank_permitted``.
            permitted: the permitted items of each set.
        """
        each_blank = np.concatenate([each.items for each in permitted])
        read, gaps = self.read_of(sets, gaps)
        if self.calibration is not None:
            blanks_of = [list(items).count(MASK) for items in sets]
            sure = self._sure(read, context, blanks_of, guidance=guidance, gaps=gaps)
            return self._sure_slots(sets, permitted, each_blank, sure, top_k=top_k)
        found = self.rank_permitted(read, context, each_blank, top_k=top_k, guidance=guidance, gaps=gaps)
        errors = found.errors.tolist() if found.errors is not None else [0.0] * len(found.ids)
        ranked = zip(found.ids.tolist(), found.probabilities.tolist(), found.excluded.tolist(), errors, strict=True)
        return self.slots(sets, permitted, ranked)

    def _sure(
        self,
        sets: Sequence[Sequence[str]],
        context: Any,
        blanks_of: Sequence[int],
        *,
        guidance: Sequence[float] | float,
        gaps: Gaps | None,
    ) -> SureAnswers:
        """Return the tempered probabilities of all items for each blank, and its prediction set."""
        vocabulary = self.processor.items
        rows = np.repeat(np.arange(len(sets)), blanks_of)
        choices = np.ones((len(sets), len(vocabulary)), dtype=np.bool_)
        choices[:, : len(vocabulary.reserved)] = False
        if self._over == "candidates":  # what a set shows is no choice, as in training
            for row, items in enumerate(sets):
                choices[row, [index for item in items if (index := vocabulary.id_of_value(item)) is not None]] = False
        ranked = self.rank_permitted(sets, context, choices[rows], top_k=len(vocabulary), guidance=guidance, gaps=gaps)
        shares = np.zeros((len(rows), len(vocabulary)))
        np.put_along_axis(shares, ranked.ids, ranked.probabilities.astype(np.float64), axis=1)
        own = {name: np.asarray(values)[rows] for name, values in (context or {}).items()}
        return cast(AppliedCalibration, self.calibration).read(shares * choices[rows], own, self.processor.schema)

    def _sure_slots(
        self,
        sets: Sequence[Sequence[str]],
        permitted: Sequence[Permitted],
        each_blank: NDArray[np.bool_],
        sure: SureAnswers,
        *,
        top_k: int,
    ) -> Iterator[list[Slot]]:
        """Yield the slots of each set, with a prediction set each."""
        shares = np.where(each_blank, sure.shares, 0.0)
        inside = shares.sum(axis=1)
        order = np.argsort(np.where(each_blank, -sure.shares, np.inf), axis=1, kind="stable")
        proposed = np.take_along_axis(shares, order, axis=1) / np.maximum(inside, np.finfo(float).tiny)[:, None]
        count = min(top_k, order.shape[1])
        excluded = np.clip(1 - inside, 0.0, 1.0).tolist()
        ranked = zip(order[:, :count].tolist(), proposed[:, :count].tolist(), excluded, [0.0] * len(order), strict=True)
        kept = sure.is_in_set & each_blank
        num_forbidden, coverage = (sure.is_in_set & ~each_blank).sum(axis=1), self.calibration
        blank = 0
        for slots in self.slots(sets, permitted, ranked):
            found: list[Slot] = []
            for slot in slots:
                ids = order[blank][kept[blank, order[blank]]].tolist()
                names = [self.processor.items.value_of(index) for index in ids]
                found.append(
                    SureSlot(
                        **slot,
                        prediction_set=names,
                        coverage=cast(AppliedCalibration, coverage).coverage,
                        num_forbidden=int(num_forbidden[blank]),
                    )
                )
                blank += 1
            yield found

    def slots(
        self,
        sets: Sequence[Sequence[str]],
        permitted: Sequence[Permitted],
        ranked: Iterator[tuple[list[int], list[float], float, float]],
    ) -> Iterator[list[Slot]]:
        """The slots of each set from the best ids of each blank, their probabilities, what is excluded and errors."""
        for items, each in zip(sets, permitted, strict=True):
            slots: list[Slot] = []
            for blank, position in enumerate(index for index, item in enumerate(items) if item == MASK):
                ids, values, outside, error = next(ranked)
                # Of fewer than top_k permitted items, the rest of the best are forbidden ones.
                pairs = list(zip(ids, values, strict=True))[: each.num_items(blank)]
                proposals = [self._candidate(key, probability) for key, probability in pairs]
                slot = slot_of(position, proposals, each, blank=blank, excluded_probability=outside)
                slots.append({**slot, "probability_error": error} if error else slot)
            yield slots

    def _candidate(self, index: int, probability: float) -> Candidate:
        found = Candidate(item=self.processor.items.value_of(index), probability=probability)
        if self.is_new is not None:
            found["is_new"] = bool(self.is_new[index])
        return found

    def answer(
        self,
        request: Request,
        slots: list[Slot],
        *,
        unknown: dict[str, list[str]] | None = None,
        context_notes: Sequence[str] = (),
    ) -> Answer:
        """The answer with what the reader should know about it.

        Args:
            request: the query as it was read.
            slots: what was found.
            unknown: values of the context that the model never saw, by feature; None: they are looked for.
            context_notes: of its context.
        """
        notes = [f"Item {slot['position'] + 1}: {slot['reason']}" for slot in slots if slot["reason"]]
        apart = [name for name in ("budget", "at_most_one_per") if name in request.settings]
        if apart and len(slots) > 1:
            notes.append(
                f"Each blank is filled by itself: a choice of proposals for all {len(slots)} may break "
                f"{' and '.join(apart)}. complete_jointly (--joint) proposes whole sets."
            )
        notes += estimate_notes(slots)
        if self.calibration is not None:
            notes += [OF_ONE_BLANK] * (len(slots) > 1) + [OF_GUIDANCE] * (request.guidance != 1)
        remarks = self.remarks(request, [*notes, *context_notes], unknown=unknown)
        remarks["notes"] += new_item_notes(new_candidates(slots))  # last, see ``shortened``
        return Answer(items=request.items, slots=slots, **remarks)

    def new_among(self, items: Sequence[str]) -> list[str]:
        """Return the items that no set of training held; none where items are names alone."""
        if self.is_new is None:
            return []
        ids = {item: index for item in items if (index := self.processor.items.id_of_value(item)) is not None}
        return [item for item, index in ids.items() if self.is_new[index]]

    def notes(self) -> list[str]:
        """Return sentences on what was loaded: an export whose run is another one now, a catalogue unlike the model."""
        return [*self.origin_notes, *(self.catalogue.notes() if self.catalogue is not None else ())]

    def remarks(
        self, request: Request, notes: Sequence[str], *, unknown: dict[str, list[str]] | None = None
    ) -> Remarks:
        """Return unknown items and values of a query, with notes after those given."""
        vocabulary = self.processor.items
        visible = [item for item in request.items if item != MASK]
        return Remarks(
            unknown_items=[item for item in visible if vocabulary.id_of_value(item) is None],
            unknown_context=self.processor.unknown_values(request.context) if unknown is None else unknown,
            notes=[
                *notes,
                *notes_on(
                    request,
                    vocabulary,
                    has_context=self._has_context,
                    can_repeat=self._over == "items",
                    catalogue=self.catalogue,
                    sets=self.sets,
                ),
                *cut_notes(request, self.model.config),
                *loss_notes(self.model.config),
                *guidance_notes(self.model, request.guidance),
                *new_item_notes(self.new_among(visible), of_the_set=True),
            ],
        )
