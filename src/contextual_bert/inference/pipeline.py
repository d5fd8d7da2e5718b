"""It is trained, how do I predict? Raw values in, raw values out.

A query is a set of item names with [MASK] where something is missing, the context of the person who asks, and
constraints. The run directory is all that is needed. This module knows no table and no training.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Self, TypedDict, cast

import numpy as np
import torch
from numpy.typing import NDArray

from contextual_bert.context import unknown_values
from contextual_bert.errors import (
    ConfigurationError,
    DataError,
    RunDirectoryError,
)
from contextual_bert.inference.constraints import CONSTRAINTS, names_of, permitted_items
from contextual_bert.inference.queries import UNUSED_CONTEXT, check_query
from contextual_bert.inference.saved import load_saved
from contextual_bert.inference.scoring import to_device
from contextual_bert.models import ContextualBertForMaskedLM, ContextualBertProcessor, check_layout

MASK = "[MASK]"
QUERY = 'Give {"items": [...], "context": {...}}, or a list of such queries.'
RUN_FILES = ("config.json", "model.safetensors", "processor_config.json", "tokenizer.json", "tokenizer_config.json")


class Candidate(TypedDict):
    """One proposal: the item, and its probability among the permitted items."""

    item: str
    probability: float


class Slot(TypedDict):
    """The proposals for one [MASK]: its position in the set, and candidates from the most to the least probable."""

    position: int
    candidates: list[Candidate]


class Answer(TypedDict):
    """What a query gets.

    ``items``: the set as it was completed; ``slots``: one a [MASK]; ``unknown_items`` and ``unknown_context``: values
    that the model never saw, treated as unknown; ``notes``: what the reader should know.
    """

    items: list[str]
    slots: list[Slot]
    unknown_items: list[str]
    unknown_context: dict[str, list[str]]
    notes: list[str]


class CompletionPipeline:
    """Completes sets of items.

    Formula:
        Pr(M = w | w_-i, c, permitted) = Pr(M = w | w_-i, c) / sum of the same over the permitted items

    Args:
        model: the trained model.
        processor: its processor.
        device: where to run; default: where the model is.

    Raises:
        ConfigurationError: model and processor do not belong together.

    Relation to its siblings:
        Several [MASK] in one set are filled each by itself, given the visible items, not jointly. ``inference.scoring``
        scores whole data sets.

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

    def __init__(
        self,
        model: ContextualBertForMaskedLM,
        processor: ContextualBertProcessor,
        *,
        device: str | torch.device | None = None,
    ) -> None:
        if len(processor.items) != model.config.vocab_size:
            raise ConfigurationError(
                f"The processor knows {len(processor.items)} items and the model {model.config.vocab_size}. "
                "Load both from one run directory."
            )
        check_layout(model.config, processor.schema.layout if processor.schema is not None else ())
        place: Any = device if device is not None else model.device
        self.model = model.to(place).eval()
        self.processor = processor

    @classmethod
    def from_pretrained(cls, directory: str | Path, *, device: str | torch.device | None = None) -> Self:
        """The pipeline of a run directory.

        Raises:
            RunDirectoryError: no such directory, or a file of it is missing.
        """
        directory = Path(directory)
        missing = [name for name in RUN_FILES if not (directory / name).is_file()]
        if missing:
            raise RunDirectoryError(
                f"{directory} is no complete run directory: {', '.join(missing)} missing. "
                "Train again, or name the folder given as --output."
            )
        model, processor = load_saved(directory, ContextualBertForMaskedLM)
        return cls(model, processor, device=device)

    def __call__(
        self, queries: Mapping[str, Any] | Sequence[Mapping[str, Any]], *, top_k: int = 5, batch_size: int = 256
    ) -> Answer | list[Answer]:
        """Complete one query or many.

        Args:
            queries: {"items": [...], "context": {...}} and, if wished, "allow": [...], "deny": [...], "repeats": true.
                Without a [MASK] the set is completed by one more item. A context feature that is not named is missing.
            top_k: proposals a slot.
            batch_size: queries a forward pass.

        Returns:
            An Answer for one query, a list of them for a list.

        Raises:
            DataError, UnknownNameError: a faulty query, named by its row, before anything is computed.
        """
        for name, value in (("top_k", top_k), ("batch_size", batch_size)):
            if value < 1:
                raise ConfigurationError(f"{name}={value}: give 1 or more.")
        if isinstance(queries, Mapping):
            return next(self.complete([queries], top_k=top_k, batch_size=1))
        given = cast(object, queries)
        if isinstance(given, str) or not isinstance(given, Sequence):
            raise DataError(f"{queries!r:.80} is neither a query nor a list of them", fix=QUERY)
        return list(self.complete(queries, top_k=top_k, batch_size=batch_size))

    def complete(self, queries: Sequence[Mapping[str, Any]], *, top_k: int, batch_size: int) -> Iterator[Answer]:
        """The answers, in order; everything but the constraints is checked before the first one."""
        sets = [read_items(query, row=row) for row, query in enumerate(queries)]
        records = [query.get("context") or {} for query in queries]
        context = self.processor.encode_context(records, num_rows=len(records))
        for start in range(0, len(queries), batch_size):
            batch = slice(start, start + batch_size)
            encoded = context.rows(batch) if context is not None else None
            permitted = [
                self.permitted(query, items, row=row)
                for row, (query, items) in enumerate(zip(queries[batch], sets[batch], strict=True), start=start)
            ]
            filled = self.fill(sets[batch], encoded, np.stack(permitted), top_k=top_k)
            for query, items, allowed, slots in zip(queries[batch], sets[batch], permitted, filled, strict=True):
                yield self.answer(query, items, slots, num_permitted=int(allowed.sum()))

    def permitted(self, query: Mapping[str, Any], items: Sequence[str], *, row: int) -> NDArray[np.bool_]:
        """Which ids this query permits: (vocabulary,)."""
        settings = {name: query[name] for name in CONSTRAINTS if name in query}
        try:
            return permitted_items(self.processor.items, items, settings)
        except DataError as error:
            raise DataError(error.problem, row=row, column=error.column, fix=error.fix) from None

    def fill(
        self,
        sets: Sequence[Sequence[str]],
        context: Mapping[str, torch.Tensor] | None,
        permitted: NDArray[np.bool_],
        *,
        top_k: int,
    ) -> Iterator[list[Slot]]:
        """The slots of each set of one batch; ``permitted`` is (sets, vocabulary)."""
        inputs: dict[str, Any] = dict(self.processor(items=sets))
        if context is not None:
            inputs["context"] = context
        with torch.inference_mode():
            logits = self.model(**to_device(inputs, self.model.device)).logits.float()
        positions = [[index for index, item in enumerate(items) if item == MASK] for items in sets]
        rows = torch.tensor([row for row, slots in enumerate(positions) for _ in slots])
        logits = logits.masked_fill(~torch.from_numpy(permitted)[rows].to(logits.device), -torch.inf)
        # The best by logit, not by probability: that of a permitted item may be 0 too, by underflow.
        best = logits.topk(min(top_k, logits.shape[-1]), dim=-1)
        probabilities = (best.values - logits.logsumexp(dim=-1, keepdim=True)).exp().cpu().tolist()
        ranked = iter(zip(best.indices.cpu().tolist(), probabilities, strict=True))
        for slots, num_permitted in zip(positions, permitted.sum(axis=1).tolist(), strict=True):
            yield [
                Slot(position=position, candidates=self.candidates(*next(ranked), num_permitted=num_permitted))
                for position in slots
            ]

    def candidates(self, ids: list[int], probabilities: list[float], *, num_permitted: int) -> list[Candidate]:
        """The proposals for one slot, without those that are there only because fewer than top_k are permitted."""
        pairs = list(zip(ids, probabilities, strict=True))[:num_permitted]
        return [Candidate(item=self.processor.items.value_of(index), probability=value) for index, value in pairs]

    def answer(self, query: Mapping[str, Any], items: list[str], slots: list[Slot], *, num_permitted: int) -> Answer:
        """The answer with what the reader should know about it."""
        context, schema, vocabulary = query.get("context") or {}, self.processor.schema, self.processor.items
        notes: list[str] = []
        if num_permitted == 0:
            notes.append("No permitted item is left: loosen allow or deny.")
        if context and not self.model.config.layout:
            notes.append(UNUSED_CONTEXT)
        repeated = sorted({item for item in items if item != MASK and items.count(item) > 1})
        if repeated:
            notes.append(f"In the set more than once, and read so: {', '.join(repeated)}.")
        for name in ("allow", "deny"):
            strangers = [item for item in names_of(query.get(name, ()), key=name) if item not in vocabulary]
            if strangers:
                notes.append(
                    f"{name} names {len(strangers)} unknown items, which change nothing: {', '.join(strangers[:5])}."
                )
        return Answer(
            items=items,
            slots=slots,
            unknown_items=[item for item in items if item not in vocabulary],
            unknown_context=unknown_values(schema, context) if schema is not None else {},
            notes=notes,
        )


def read_items(query: Mapping[str, Any], *, row: int) -> list[str]:
    """The set of a query, with a [MASK] at its end where it has none.

    Raises:
        DataError, UnknownNameError: the query is no mapping, has an unknown key, or its items or context are faulty.
    """
    check_query(query, row=row, known=("items", "context", *CONSTRAINTS), fix=QUERY)
    try:
        items = names_of(query.get("items", []), key="items")
    except DataError as error:
        raise DataError(error.problem, row=row, column=error.column, fix=error.fix) from None
    return items if MASK in items else [*items, MASK]
