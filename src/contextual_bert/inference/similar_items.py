"""Items that a model treats alike: the neighbours of an item among the vectors with which items enter the model.

Two items with one vector are the same to the model: in every set, either of them leads to the same proposals. What all
vectors have in common tells no item from another and is taken away first. For somebody whom a context names, the
model's own probabilities of a first item are weighed with the similarity. Not in the paper.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
import torch
from torch import Tensor

from contextual_bert.errors import UnknownNameError, did_you_mean
from contextual_bert.inference.completion_answers import new_item_notes
from contextual_bert.inference.constraints import Permitted
from contextual_bert.inference.context_notes import ContextNotes
from contextual_bert.inference.pipeline import CompletionPipeline
from contextual_bert.inference.queries import MASK, Request, check_count, check_queries, encode_contexts
from contextual_bert.inference.scoring import nonfinite_error
from contextual_bert.inference.similar_queries import (
    QUERY,
    SIMILARITY_WEIGHT,
    SimilarAnswer,
    SimilarItem,
    SimilarRequest,
    check_similarity_weight,
    read_similar_request,
)
from contextual_bert.models import ContextualBertForMaskedLM
from contextual_bert.places import QueryPlace


@dataclass(frozen=True)
class _Asked:
    """An item and what may be named beside it."""

    item: str
    index: int
    request: Request
    permitted: Permitted
    has_context: bool


def similar_items(
    pipeline: CompletionPipeline,
    queries: Mapping[str, Any] | Sequence[Mapping[str, Any] | SimilarRequest],
    *,
    top_k: int = 10,
    similarity_weight: float = SIMILARITY_WEIGHT,
    batch_size: int = 256,
) -> SimilarAnswer | list[SimilarAnswer]:
    """Return the items that the model treats most like an item, for one query or many.

    Formula:
        s_ij = cos(v_i - m, v_j - m); with a context, they are ordered by
        Pr(j in the place of i | c) = Pr(M = j | {}, c) exp(k s_ij) / sum of the same over the permitted items

    Symbols: v_i the input vector of item i, m the mean of all; c the context; {} a set of one [MASK]; k
        ``similarity_weight``.

    Args:
        pipeline: of a run.
        queries: {"item": ...} and, if wished, "context" and constraints as in a completion: "allow", "deny", "owned",
            "in_stock", "where", "max_price". The item itself is never named.
        top_k: items an answer.
        similarity_weight: k: how much the similarity counts beside the person; 0 leaves the person alone.
        batch_size: queries a product.

    Raises:
        DataError, UnknownNameError: a faulty query, or an item that the model does not know.
        ConfigurationError: a number below 1.
        NonFiniteError: the model gives no numbers.

    Example:
        >>> from contextual_bert.testing import miniature_model, miniature_processor
        >>> pipeline = CompletionPipeline(miniature_model("global_state"), miniature_processor())
        >>> len(similar_items(pipeline, {"item": pipeline.processor.items.values[0]}, top_k=2)["similar"])
        2
    """
    for name, value in (("top_k", top_k), ("batch_size", batch_size)):
        check_count(name, value)
    check_similarity_weight(similarity_weight)
    is_one = isinstance(queries, Mapping)
    given: Sequence[Mapping[str, Any] | SimilarRequest] = [queries] if is_one else check_queries(queries, fix=QUERY)
    asked = [_read(pipeline, query, row=row) for row, query in enumerate(given)]
    context = encode_contexts([each.request for each in asked], pipeline.processor)
    about = ContextNotes(context, pipeline.processor.schema, pipeline.model)
    directions = item_directions(pipeline.model)
    answers: list[SimilarAnswer] = []
    for start in range(0, len(asked), batch_size):
        batch = asked[start : start + batch_size]
        cosines = (directions[[each.index for each in batch]] @ directions.T).clamp(-1, 1)
        permitted = np.concatenate([each.permitted.items for each in batch])
        is_permitted = torch.from_numpy(permitted).to(cosines.device)
        scores = cosines.masked_fill(~is_permitted, -torch.inf)
        rows = [row for row, each in enumerate(batch) if each.has_context]
        if rows and context is not None:
            logits = _of_persons(pipeline, [batch[row] for row in rows], context.rows(np.array(rows) + start))
            scores[rows] = (scores[rows] * similarity_weight + logits).masked_fill(~is_permitted[rows], -torch.inf)
        best = scores.topk(min(top_k, scores.shape[1]), dim=1)
        shares = (best.values - scores.logsumexp(dim=1, keepdim=True)).exp()
        numbers = zip(*(each.tolist() for each in (best.indices, cosines.gather(1, best.indices), shares)), strict=True)
        for row, (each, found) in enumerate(zip(batch, numbers, strict=True)):
            # Of fewer than top_k permitted items, the rest of the best are forbidden ones.
            columns = list(zip(*found, strict=True))[: each.permitted.num_items(0)]
            neighbours = [_neighbour(pipeline, *column, has_context=each.has_context) for column in columns]
            context_notes = about.of(start + row) if each.has_context else []
            answers.append(_answer(pipeline, each, neighbours, context_notes=context_notes))
    return answers[0] if is_one else answers


class _Directions(NamedTuple):
    """The directions of a matrix, and which state of it they are of."""

    matrix: Tensor
    version: int | None
    trained_last: object
    directions: Tensor

    def are_of(self, model: ContextualBertForMaskedLM, matrix: Tensor, version: int | None) -> bool:
        """Return True if the model was not trained since, and has the matrix as it was."""
        is_untrained = self.trained_last is model.trained_last
        return is_untrained and self.matrix is matrix and self.version == version


_KEPT = WeakKeyDictionary[ContextualBertForMaskedLM, _Directions]()


@torch.no_grad()
def item_directions(model: ContextualBertForMaskedLM) -> Tensor:
    """Return the input vectors of all ids, less the mean of those of items, with length 1: (vocabulary, size), float32.

    Those of a model whose vectors stay as they are are made once.

    Raises:
        NonFiniteError: a row is none of numbers.
    """
    matrix = model.input_matrix()
    version = None if matrix.is_inference() else matrix._version
    if (kept := _KEPT.get(model)) is not None and kept.are_of(model, matrix, version):
        return kept.directions
    rows = matrix.float()
    is_item = torch.ones(len(rows), dtype=torch.bool, device=rows.device)
    is_item[torch.as_tensor(model.config.reserved_token_ids, device=rows.device)] = False
    centred = rows - rows[is_item].mean(dim=0)
    if not bool(centred.isfinite().all()):
        raise nonfinite_error(model)
    directions = torch.nn.functional.normalize(centred, dim=1)
    _KEPT[model] = _Directions(matrix, version, model.trained_last, directions)
    return directions


def _read(pipeline: CompletionPipeline, query: Mapping[str, Any] | SimilarRequest, *, row: int) -> _Asked:
    """Return the item of a query, and which others may be named."""
    read = read_similar_request(query, row=row)
    item, request = read.item, read.request
    index = pipeline.processor.items.id_of_value(item)
    if index is None:
        raise UnknownNameError(
            f"the model does not know {item!r:.80}",
            place=QueryPlace((row, "item")),
            value=item,
            allowed=did_you_mean(item, pipeline.processor.items.values, label="Items"),
        )
    permitted = pipeline.permitted(request, row=row)
    has_context = request.given.get("context") is not None and bool(pipeline.model.config.reads_context)
    return _Asked(item, index, replace(request, items=[MASK]), permitted, has_context)


def _of_persons(pipeline: CompletionPipeline, asked: Sequence[_Asked], context: Mapping[str, Tensor]) -> Tensor:
    """Return the logits of all ids as the first item of a set, a row a context."""
    inputs: dict[str, Any] = {**pipeline.processor.encode_items([[MASK]] * len(asked)), "context": context}
    return pipeline.logits(inputs, guidance=[each.request.guidance for each in asked])


def _neighbour(
    pipeline: CompletionPipeline, index: int, cosine: float, share: float, *, has_context: bool
) -> SimilarItem:
    found = SimilarItem(item=pipeline.processor.items.value_of(index), similarity=cosine)
    if has_context:
        found["probability"] = share
    if pipeline.is_new is not None:
        found["is_new"] = bool(pipeline.is_new[index])
    return found


def _answer(
    pipeline: CompletionPipeline, asked: _Asked, found: list[SimilarItem], *, context_notes: Sequence[str]
) -> SimilarAnswer:
    removed = {name: counts[0] for name, counts in asked.permitted.removed.items() if counts[0] and name != "repeats"}
    remarks = pipeline.remarks(asked.request, context_notes)
    asked_is_new = [f"{asked.item} is new, and known by features alone."] if pipeline.new_among([asked.item]) else []
    proposed_new = new_item_notes(each["item"] for each in found if each.get("is_new"))
    return SimilarAnswer(
        item=asked.item,
        similar=found,
        num_permitted=asked.permitted.num_items(0),
        removed=removed,
        reason=asked.permitted.reason(0),
        unknown_context=remarks["unknown_context"],
        notes=[*remarks["notes"], *asked_is_new, *proposed_new],
    )
