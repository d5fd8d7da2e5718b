"""One slot of one query about a set, asked for other contexts and for other items. Not in the paper."""

import difflib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from contextual_bert.context import Feature, History, canonical
from contextual_bert.errors import ConfigurationError, DataError, Message, QueryError, UnknownNameError
from contextual_bert.inference.context_notes import ContextNotes
from contextual_bert.inference.explain.question import Question
from contextual_bert.inference.pipeline import CompletionPipeline
from contextual_bert.inference.queries import MASK, Request, encode_contexts, newest_of, read_request
from contextual_bert.nouns import counted
from contextual_bert.places import SettingPlace


class SetQuestion(Question):
    """One slot of one query, and what the pipeline answers there for other contexts or other items.

    Args:
        pipeline: of the model.
        query: as the pipeline takes it.
        slot: which [MASK].
        batch_size: questions a forward pass.
    """

    def __init__(
        self, pipeline: CompletionPipeline, query: Mapping[str, Any] | Request, *, slot: int, batch_size: int
    ) -> None:
        self.request, self.slot = read_request(query, row=0), slot
        encoded = encode_contexts([self.request], pipeline.processor)
        super().__init__(pipeline, encoded, batch_size=batch_size)
        self.context_notes = ContextNotes(encoded, pipeline.processor.schema, pipeline.model).of(0)
        self.items = [*newest_of(self.request.items, pipeline.model.config)]
        self.num_cut = len(self.request.items) - len(self.items)
        self.gaps = self._gaps_of(self.request)
        self.positions = [position for position, item in enumerate(self.items) if item == MASK]
        if not 0 <= slot < len(self.positions):
            raise ConfigurationError(
                f"asks for [MASK] number {slot + 1}, and the set has {len(self.positions)}",
                setting="slot",
                value=slot,
                fix="Ask for an earlier one, or add a [MASK].",
            )
        vocabulary = pipeline.processor.items
        self.permitted = torch.from_numpy(np.flatnonzero(pipeline.permitted(self.request, row=0).items[slot]))
        self.names = [vocabulary.value_of(index) for index in self.permitted.tolist()]
        if len(self.names) < 2:
            raise QueryError(
                f"the query permits {counted(len(self.names), 'item')}, so there is no choice to explain",
                location=(0,),
                fix="Loosen the constraints.",
            )

    def place_of(self, item: str) -> int:
        """Return the index of the item among the permitted ones.

        Raises:
            UnknownNameError, DataError: it is unknown to the model, or not permitted.
        """
        name = canonical(item)
        if name in self.names:
            return self.names.index(name)
        values = self.pipeline.processor.items.values
        if name not in values:
            close = difflib.get_close_matches(name, values, n=1)
            hint = f"Did you mean {close[0]!r}?" if close else "Name one of its vocabulary."
            raise UnknownNameError(
                "is no item that the model knows", place=SettingPlace("item"), value=name, allowed=hint
            )
        problem = "is not permitted by the query: it is in the set already, or a constraint forbids it"
        error = DataError(problem, value=name, fix=Message("Loosen the constraints, or give {repeats}.", repeats=True))
        raise error.at(SettingPlace("item"))

    def value_of(self, feature: Feature, *, chosen: int) -> str:
        """Return the given value as the model reads it, of a history what it says of the item that is explained."""
        if isinstance(feature, History) and not feature.sensitive:
            return feature.said_of(self.context[feature.name].numpy()[0], self.names[chosen])
        return super().value_of(feature, chosen=chosen)

    def _gaps_of(self, request: Request) -> NDArray[np.int64] | None:
        """Return the gap of time before each item that is read; None for a model that reads none."""
        found = request.gaps(self.pipeline.model.config, row=0)
        return found[self.num_cut :] if found is not None else None

    def encoded(self, sets: Sequence[Sequence[str]], gaps: Sequence[NDArray[np.int64] | None]) -> dict[str, Tensor]:
        """Return sets as the model reads them, without a context; ``gaps`` are None of a model that reads none."""
        known = [each for each in gaps if each is not None]
        return self.pipeline.processor.encode_items(sets, known if known else None)

    def without(self, positions: Sequence[int]) -> tuple[list[list[str]], list[NDArray[np.int64] | None]]:
        """Return the set without the item at each of these positions, with the gaps of time that are then left."""
        sets, gaps, given = list[list[str]](), list[NDArray[np.int64] | None](), self.request
        for position in positions:
            sets.append(self.items[:position] + self.items[position + 1 :])
            place = position + self.num_cut
            items = [*given.items[:place], *given.items[place + 1 :]]
            times = [*given.times[:place], *given.times[place + 1 :]] if given.times is not None else None
            gaps.append(self._gaps_of(replace(given, items=items, times=times)))
        return sets, gaps

    def answers(
        self,
        context: Mapping[str, Tensor],
        others: tuple[Sequence[Sequence[str]], Sequence[NDArray[np.int64] | None]] | None = None,
    ) -> Iterator[Tensor]:
        """Yield the logits at the slot, a block of rows at a time, float64 (rows, permitted items).

        Args:
            context: a row each.
            others: sets with their gaps of time, see ``without``; None: the query's.
        """
        num_rows = len(next(iter(context.values())))
        for start in range(0, num_rows, self.batch_size):
            rows = slice(start, min(start + self.batch_size, num_rows))
            count = rows.stop - start
            own = ([self.items] * count, [self.gaps] * count)
            asked, gaps = own if others is None else (others[0][rows], others[1][rows])
            part = {name: values[rows] for name, values in context.items()}
            inputs = {**self.encoded(asked, gaps), "context": part}
            logits = self.pipeline.logits(inputs, guidance=self.request.guidance)
            yield logits.view(count, len(self.positions), -1)[:, self.slot, self.permitted].cpu().double()
