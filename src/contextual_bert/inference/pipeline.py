"""It is trained, how do I predict? Raw values in, raw values out.

A query is a set of item names with [MASK] where something is missing, the context of the person who asks, and
constraints. The run directory is all that is needed. This module knows no table and no training.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Self, cast

import numpy as np
import torch
from torch import Tensor

from contextual_bert.candidates import SoftmaxOver, exclude, excluded_ids
from contextual_bert.data import ReadSettings
from contextual_bert.errors import (
    ConfigurationError,
    QueryError,
    QueryPlace,
    RunDirectoryError,
    SchemaError,
    UnknownNameError,
)
from contextual_bert.frames import Frame
from contextual_bert.inference.answers import Answer, Candidate, Remarks, Slot, notes_on, slot_of
from contextual_bert.inference.catalogue import Catalogue
from contextual_bert.inference.constraint_evaluation import Asked, Permitted, permitted_items
from contextual_bert.inference.context_notes import ContextNotes
from contextual_bert.inference.guidance import guidance_notes, guided_logits
from contextual_bert.inference.joint import JointAnswer, JointSearch, Method
from contextual_bert.inference.queries import (
    MASK,
    Request,
    TrainedSets,
    check_count,
    check_length,
    check_queries,
    check_separated,
    encode_contexts,
    read_request,
)
from contextual_bert.inference.query_schema import existing_keys
from contextual_bert.inference.saved import check_holds_model, load_item_model
from contextual_bert.inference.saved_files import check_run, holds_baseline, trained_sets
from contextual_bert.inference.verdicts import FieldVerdicts
from contextual_bert.models import ContextState, ContextualBertForMaskedLM, ContextualBertProcessor, check_processor

Query = Mapping[str, Any] | Request  # as it was given, or read already
RUN_FILES = ("config.json", "model.safetensors", "processor_config.json", "tokenizer.json", "tokenizer_config.json")


class CompletionPipeline:
    """Completes sets of items.

    Formula:
        Pr(M = w | w_-i, c, permitted) = Pr(M = w | w_-i, c) / sum of the same over the permitted items

    Args:
        model: the trained model.
        processor: its processor.
        device: where to run; default: where the model is.
        catalogue: the shop's table of items, for constraints on attributes, prices and stock.

    Raises:
        ConfigurationError: model, processor and catalogue do not belong together.

    Relation to its siblings:
        Called, it fills several [MASK] of one set each by itself, given the visible items; ``complete_jointly`` fills
        them together. ``inference.scoring`` scores whole data sets.

    Reference:
        Denk and Peleteiro Ramallo (2020), Figure 2.

    Example:
        >>> from contextual_bert.models import ContextualBertConfig
        >>> sizes = {"hidden_size": 8, "num_attention_heads": 2, "num_hidden_layers": 1, "intermediate_size": 16}
        >>> model = ContextualBertForMaskedLM(ContextualBertConfig(vocab_size=5, **sizes))
        >>> pipeline = CompletionPipeline(model, ContextualBertProcessor.from_items(["coat", "hat"]))
        >>> pipeline({"items": ["hat", "[MASK]"]})["slots"][0]["candidates"]
        [{'item': 'coat', 'probability': 1.0}]
    """

    no_logits: str | None = None  # why there are none, in a pipeline that ranks without them
    max_top_k: int | None = None  # where it can give no more
    verdicts: FieldVerdicts | None = None  # what the run's report says of each field; None where it does not
    sets = TrainedSets()  # how the run read its sets; what ``from_pretrained`` finds in the folder

    def __init__(
        self,
        model: ContextualBertForMaskedLM,
        processor: ContextualBertProcessor,
        *,
        device: str | torch.device | None = None,
        catalogue: Catalogue | None = None,
    ) -> None:
        if len(processor.items) != model.config.vocab_size:
            raise ConfigurationError(
                f"The processor knows {len(processor.items)} items and the model {model.config.vocab_size}",
                fix="Load both from one run directory.",
            )
        check_processor(model.config, processor)
        if catalogue is not None and catalogue.vocabulary != processor.items:
            raise ConfigurationError(
                "The catalogue is aligned to another vocabulary", fix="Make it with processor.items."
            )
        place: Any = device if device is not None else model.device
        self.model = model.to(place).eval()
        self.processor = processor
        # The settings of a model are slow to ask, once a query.
        self._has_context = bool(model.config.layout)
        self._over: SoftmaxOver = "candidates" if model.config.softmax_over == "candidates" else "items"
        self.catalogue = catalogue

    @classmethod
    def from_pretrained(
        cls,
        directory: str | Path,
        *,
        device: str | torch.device | None = None,
        catalogue: str | Path | Frame | None = None,
        reading: ReadSettings | None = None,
    ) -> Self:
        """The pipeline of a run directory, and a catalogue if there is one: a file or a table.

        ``reading`` says how the catalogue is written, as ``Catalogue`` takes it.

        Raises:
            RunDirectoryError: no such directory, an interrupted run, or a file of it is missing.
            SchemaError, UnknownNameError, DataError: a faulty catalogue.
        """
        directory = Path(directory)
        check_run(directory)
        check_holds_model(directory)
        missing = [name for name in RUN_FILES if not (directory / name).is_file()]
        if missing and not holds_baseline(directory):
            raise RunDirectoryError(
                f"{directory} is no complete run directory: {', '.join(missing)} missing",
                fix="Train again, or name the folder given as --output.",
            )
        model, processor = load_item_model(directory)
        shop = Catalogue(catalogue, processor.items, reading=reading) if catalogue is not None else None
        pipeline = cls(model, processor, device=device, catalogue=shop)
        pipeline.sets = trained_sets(directory)
        pipeline.verdicts = FieldVerdicts.from_run(directory)
        return pipeline

    def __call__(
        self, queries: Query | Sequence[Query], *, top_k: int = 5, batch_size: int = 256
    ) -> Answer | list[Answer]:
        """Complete one query or many.

        Args:
            queries: {"items": [...], "context": {...}} and, if wished, constraints: "allow", "deny", "owned",
                "repeats", "in_stock", "where", "max_price", "budget", "at_most_one_per". Without a [MASK] the set is
                completed by one more item. A context feature that is not named is missing. "guidance": 0 is what
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
        has_unknown = (
            context.has_unknown(schema) if context is not None and schema is not None else [True] * len(requests)
        )
        notes = ContextNotes(context, schema, self.model)
        for start in range(0, len(requests), batch_size):
            batch = requests[start : start + batch_size]
            encoded = context.rows(slice(start, start + batch_size)) if context is not None else None
            permitted = [self.permitted(request, row=row) for row, request in enumerate(batch, start)]
            guidance = [each.guidance for each in batch]
            filled = self.fill([each.items for each in batch], encoded, permitted, top_k=top_k, guidance=guidance)
            for row, (request, slots) in enumerate(zip(batch, filled, strict=True), start):
                yield self.answer(request, slots, has_unknown=has_unknown[row], context_notes=notes.of(row))

    def complete_jointly(
        self,
        queries: Query | Sequence[Query],
        *,
        num_completions: int = 5,
        diversity: int = 1,
        method: Method = "auto",
        max_forward_passes: int = 1000,
        batch_size: int = 256,
        seed: int = 0,
    ) -> JointAnswer | list[JointAnswer]:
        """Fill all blanks of one query or of many together: whole sets, best first.

        Args:
            queries: as for a call; a budget and ``at_most_one_per`` hold for every set as a whole.
            num_completions, diversity, method, max_forward_passes, batch_size, seed: see ``JointSearch``, which also
                says which joint distribution is meant.

        Returns:
            A JointAnswer for one query, a list of them for a list.

        Raises:
            ConfigurationError, DataError, UnknownNameError: a setting that cannot work, a faulty query.
        """
        how = JointSearch(num_completions, diversity, method, max_forward_passes, batch_size, seed)
        given = [queries] if isinstance(queries, Mapping | Request) else check_queries(queries)
        requests = [read_request(query, row=row) for row, query in enumerate(given)]
        context = encode_contexts(requests, self.processor)
        answers: list[JointAnswer] = []
        about = ContextNotes(context, self.processor.schema, self.model)
        for row, request in enumerate(requests):
            inputs: dict[str, Any] = self.processor.encode_items([request.items])
            if context is not None:
                inputs["context"] = context.rows(slice(row, row + 1))
            asked = self.asked(request)
            found = how.run(
                partial(self.logits, guidance=request.guidance),
                inputs,
                request,
                asked=asked,
                permitted=self.permitted(request, row=row),
                has_order=self.model.config.has_position_embeddings,
            )
            notes = [*([found["reason"]] if found["reason"] else []), *about.of(row)]
            answers.append({**found, **self.remarks(request, notes)})
        return answers[0] if isinstance(queries, Mapping | Request) else answers

    def permitted(self, request: Request, *, row: int) -> Permitted:
        """Return the permitted items of each blank of the query."""
        check_length(request, self.model.config, row=row)
        check_separated(request.items, self.processor.items, self.sets, row=row)
        try:
            return permitted_items(self.asked(request), request.settings)
        except (QueryError, UnknownNameError, SchemaError) as error:
            raise error.at(QueryPlace((row, *existing_keys(request.given, error.location)))) from None

    def asked(self, request: Request) -> Asked:
        """Return the input of the constraints for a query."""
        return Asked(self.processor.items, request.items, self.catalogue, can_repeat=self._over == "items")

    def logits(self, inputs: Mapping[str, Any], *, guidance: Sequence[float] | float = 1.0) -> Tensor:
        """Of every [MASK] of a batch, row after row: (masked, vocabulary), float32.

        Args:
            inputs: what ``forward`` takes; with a ``logits_at`` (batch, length), the logits are of those positions.
            guidance: how personal each row is to be, or all of them.
        """
        ids: Tensor = inputs["input_ids"]
        rows = inputs.get("logits_at", ids == self.model.config.mask_token_id).nonzero()[:, 0]
        weights = guidance if isinstance(guidance, Sequence) else [guidance] * len(ids)
        return guided_logits(self.model, inputs, weights, rows=rows)

    def fill(
        self,
        sets: Sequence[Sequence[str]],
        context: Mapping[str, Tensor] | ContextState | None,
        permitted: Sequence[Permitted],
        *,
        top_k: int,
        guidance: Sequence[float] | float = 1.0,
    ) -> Iterator[list[Slot]]:
        """The slots of each set of one batch; ``guidance`` is one number a set, or one for all."""
        inputs: dict[str, Any] = self.processor.encode_items(sets)
        if context is not None:
            inputs["context"] = context
        logits = self.logits(inputs, guidance=guidance)
        is_permitted = torch.from_numpy(np.concatenate([each.items for each in permitted])).to(logits.device)
        ids = cast(Tensor, inputs["input_ids"]).to(logits.device)
        blanks = (ids == self.model.config.mask_token_id).flatten().nonzero(as_tuple=True)[0]
        excluded_of_blanks = excluded_ids(self._over, ids, blanks, reserved=self.model.config.reserved_token_ids)
        of_all = exclude(logits, excluded_of_blanks).logsumexp(dim=-1, keepdim=True)
        logits = logits.masked_fill(~is_permitted, -torch.inf)
        # The best by logit, not by probability: that of a permitted item may be 0 too, by underflow.
        best = logits.topk(min(top_k, logits.shape[-1]), dim=-1)
        of_permitted = logits.logsumexp(dim=-1, keepdim=True)
        excluded = 1 - (of_permitted - of_all)[:, 0].clamp(max=0).exp()
        probabilities = (best.values - of_permitted).exp().cpu().tolist()
        ranked = zip(best.indices.cpu().tolist(), probabilities, excluded.cpu().tolist(), strict=True)
        return self.slots(sets, permitted, ranked)

    def slots(
        self,
        sets: Sequence[Sequence[str]],
        permitted: Sequence[Permitted],
        ranked: Iterator[tuple[list[int], list[float], float]],
    ) -> Iterator[list[Slot]]:
        """The slots of each set from the best ids of each blank, their probabilities and what is excluded."""
        for items, each in zip(sets, permitted, strict=True):
            slots: list[Slot] = []
            for blank, position in enumerate(index for index, item in enumerate(items) if item == MASK):
                ids, values, outside = next(ranked)
                # Of fewer than top_k permitted items, the rest of the best are forbidden ones.
                pairs = list(zip(ids, values, strict=True))[: each.num_items(blank)]
                proposals = [Candidate(item=self.processor.items.value_of(key), probability=p) for key, p in pairs]
                slots.append(slot_of(position, proposals, each, blank=blank, excluded_probability=outside))
            yield slots

    def answer(
        self, request: Request, slots: list[Slot], *, has_unknown: bool = True, context_notes: Sequence[str] = ()
    ) -> Answer:
        """The answer with what the reader should know about it.

        Args:
            request: the query as it was read.
            slots: what was found.
            has_unknown: False where all values of the context are known, so that nobody needs to look for others.
            context_notes: of its context.
        """
        notes = [f"Item {slot['position'] + 1}: {slot['reason']}" for slot in slots if slot["reason"]]
        apart = [name for name in ("budget", "at_most_one_per") if name in request.settings]
        if apart and len(slots) > 1:
            notes.append(
                f"Each blank is filled by itself: a choice of proposals for all {len(slots)} may break "
                f"{' and '.join(apart)}. complete_jointly (--joint) proposes whole sets."
            )
        remarks = self.remarks(request, [*notes, *context_notes], has_unknown=has_unknown)
        return Answer(items=request.items, slots=slots, **remarks)

    def remarks(self, request: Request, notes: Sequence[str], *, has_unknown: bool = True) -> Remarks:
        """Return unknown items and values of a query, with notes after those given."""
        vocabulary = self.processor.items
        return Remarks(
            unknown_items=[item for item in request.items if item != MASK and vocabulary.id_of_value(item) is None],
            unknown_context=self.processor.unknown_values(request.context) if has_unknown else {},
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
                *guidance_notes(self.model, request.guidance),
            ],
        )
