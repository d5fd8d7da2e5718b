"""It is trained, how do I predict? Raw values in, raw values out.

A query is a set of item names with [MASK] where something is missing, the context of the person who asks, and constraints. The run directory
is all that is needed. This module knows no table and no training.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Self, TypedDict

import numpy as np
import torch

from contextual_bert.context import unknown_values
from contextual_bert.errors import ConfigurationError, DataError, RunDirectoryError, UnknownNameError, did_you_mean
from contextual_bert.inference.constraints import CONSTRAINTS, known_ids, names_of, permitted_items
from contextual_bert.inference.scoring import to_device
from contextual_bert.models import ContextualBertForMaskedLM, ContextualBertProcessor, check_layout

MASK = "[MASK]"
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

    ``items``: the set as it was completed; ``slots``: one a [MASK]; ``unknown_items`` and ``unknown_context``: values that the model
    never saw, treated as unknown; ``notes``: what the reader should know.
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
        Several [MASK] in one set are filled each by itself, given the visible items, not jointly. ``inference.scoring`` scores whole data
        sets.

    Reference:
        Denk and Peleteiro Ramallo (2020), Figure 2.

    Example:
        >>> from contextual_bert.models import ContextualBertConfig
        >>> config = ContextualBertConfig(vocab_size=5, hidden_size=8, num_attention_heads=2, num_hidden_layers=1, intermediate_size=16)
        >>> pipeline = CompletionPipeline(ContextualBertForMaskedLM(config), ContextualBertProcessor.from_items(["coat", "hat"]))
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
                f"The processor knows {len(processor.items)} items and the model {model.config.vocab_size}. Load both from one run directory."
            )
        check_layout(model.config, processor.schema.layout if processor.schema is not None else ())
        self.model = model.eval() if device is None else model.to(torch.device(device)).eval()
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
                f"{directory} is no complete run directory: {', '.join(missing)} missing. Train again, or name the folder given as --output."
            )
        model = ContextualBertForMaskedLM.from_pretrained(directory)
        return cls(model, ContextualBertProcessor.from_pretrained(directory), device=device)

    def __call__(
        self, queries: Mapping[str, Any] | Sequence[Mapping[str, Any]], *, top_k: int = 5, batch_size: int = 256
    ) -> Answer | list[Answer]:
        """Complete one query or many.

        Args:
            queries: {"items": [...], "context": {...}} and, if wished, "allow": [...], "deny": [...], "repeats": true. Without a [MASK]
                the set is completed by one more item. A context feature that is not named is missing.
            top_k: proposals a slot.
            batch_size: queries a forward pass.

        Returns:
            An Answer for one query, a list of them for a list.

        Raises:
            DataError, UnknownNameError: a faulty query, named by its row.
        """
        if top_k < 1:
            raise ConfigurationError(f"top_k={top_k}: give 1 or more.")
        if isinstance(queries, Mapping):
            return next(self.complete([queries], top_k=top_k))
        return [
            answer
            for start in range(0, len(queries), batch_size)
            for answer in self.complete(queries[start : start + batch_size], top_k=top_k, first_row=start)
        ]

    def complete(self, queries: Sequence[Mapping[str, Any]], *, top_k: int, first_row: int = 0) -> Iterator[Answer]:
        """The answers of one batch, in order."""
        for row, query in enumerate(queries, start=first_row):
            check_query(query, row=row)
        sets = [names_of(query.get("items", []), key="items") for query in queries]
        sets = [items if MASK in items else [*items, MASK] for items in sets]
        contexts = [query.get("context") or {} for query in queries] if self.processor.schema is not None else None
        vocabulary = self.processor.items
        permitted = np.stack(
            [
                permitted_items(vocabulary, items, {name: query[name] for name in CONSTRAINTS if name in query})
                for items, query in zip(sets, queries, strict=True)
            ]
        )
        inputs = to_device(self.processor(items=sets, context=contexts), self.model.device)
        with torch.inference_mode():
            logits = self.model(**inputs).logits.float()
        positions = [[index for index, item in enumerate(items) if item == MASK] for items in sets]
        rows = np.repeat(np.arange(len(sets)), [len(slots) for slots in positions])
        allowed = torch.from_numpy(permitted).to(logits.device)[torch.from_numpy(rows).to(logits.device)]
        probabilities = logits.masked_fill(~allowed, -torch.inf).softmax(dim=-1)
        best = probabilities.topk(min(top_k, probabilities.shape[-1]), dim=-1)
        values, ids = best.values.cpu().tolist(), best.indices.cpu().tolist()
        num_permitted = permitted.sum(axis=1)
        slot = 0
        for row, (query, items) in enumerate(zip(queries, sets, strict=True)):
            slots: list[Slot] = []
            for position in positions[row]:
                kept = min(top_k, int(num_permitted[row]))
                pairs = zip(ids[slot][:kept], values[slot][:kept], strict=True)
                candidates = [Candidate(item=vocabulary.value_of(index), probability=value) for index, value in pairs]
                slots.append(Slot(position=position, candidates=candidates))
                slot += 1
            yield self.answer(query, items, slots, num_permitted=int(num_permitted[row]))

    def answer(self, query: Mapping[str, Any], items: list[str], slots: list[Slot], *, num_permitted: int) -> Answer:
        """The answer with what the reader should know about it."""
        context, schema, vocabulary = query.get("context") or {}, self.processor.schema, self.processor.items
        notes: list[str] = []
        if num_permitted == 0:
            notes.append("No permitted item is left: loosen allow or deny.")
        if context and schema is None:
            notes.append("The context was not used: this model was trained with conditioning='none'.")
        for name in ("allow", "deny"):
            strangers = [item for item in query.get(name, ()) if not known_ids(vocabulary, [item])]
            if strangers:
                notes.append(f"{name} names {len(strangers)} unknown items, which change nothing: {', '.join(strangers[:5])}.")
        return Answer(
            items=items,
            slots=slots,
            unknown_items=[item for item in items if item not in vocabulary],
            unknown_context=unknown_values(schema, context) if schema is not None else {},
            notes=notes,
        )


def check_query(query: Mapping[str, Any], *, row: int) -> None:
    """Raise unless the query has the known keys and a context that is a record."""
    known = ("items", "context", *CONSTRAINTS)
    for key in query:
        if key not in known:
            raise UnknownNameError(f"Query {row}: unknown key {key!r}. {did_you_mean(key, known)}")
    if not isinstance(query.get("context") or {}, Mapping):
        raise DataError(f"{query['context']!r} is not a record", row=row, column="context", fix='Give {"feature": value, ...}.')
