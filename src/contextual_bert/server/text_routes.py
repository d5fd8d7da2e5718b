"""``/v1/predict``: texts in; labels, tags, answers or other texts out, computed in the batches of all clients."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response

from contextual_bert.inference.texts.text_answers import (
    SureTextAnswer,
    TextAnswer,
    TextFilled,
    TextNumber,
    TextSpan,
    TextWritten,
)
from contextual_bert.inference.texts.text_queries import TextGives, TextRequest
from contextual_bert.server.batching import BatchedRequest, Batcher, answered
from contextual_bert.server.protocol import AS_WRITTEN
from contextual_bert.server.requests import DEADLINE_ABOUT, read_completion_request
from contextual_bert.server.settings import ServerSettings
from contextual_bert.server.state import Serving, Version

PREDICT = "/v1/predict"
# What a model reads at once is about so long; longer texts take their time to be tokenised, or have several windows.
_CHARACTERS_OF_A_TEXT = 2_000
_ANSWERS: dict[TextGives, Any] = {
    "answer": TextSpan,
    "text": TextWritten,
    "number": TextNumber,
    "words": TextFilled,
}
_SUMMARIES: dict[TextGives, str] = {
    "label": "Label one text, or many",
    "labels": "Give one text, or many, their labels",
    "number": "Give one text, or many, a number",
    "tags": "Tag the words of one text, or of many",
    "answer": "Answer one question about a text, or many",
    "text": "Write a text for one text, or for many",
    "words": "Fill the [MASK] of one text, or of many",
}


@dataclass(frozen=True)
class Predicting:
    """The question of ``/v1/predict``.

    Args:
        has_pairs: whether texts have second ones; texts with and without are not computed together.
    """

    has_pairs: bool

    def compute(self, pipeline: Any, queries: Sequence[Any], *, top_k: int, batch_size: int) -> list[Any]:
        """Return the answers to the queries; there is one a query, so ``top_k`` is 1."""
        return pipeline(queries, batch_size=batch_size)

    def check(self, version: Version, queries: Sequence[Any]) -> None:
        """Raise what computing would raise about these queries, as far as that can be told without it."""
        version.check(queries)


def batched_size(queries: Sequence[TextRequest], settings: ServerSettings) -> int:
    """Return the share of a batch and of the queue that queries have: a long text counts as several.

    Example:
        >>> batched_size([TextRequest("short"), TextRequest("long" * 1500)], ServerSettings())
        4
    """
    characters = (sum(query.sizes.values()) for query in queries)
    return min(settings.max_queue, sum(1 + (size - 1) // _CHARACTERS_OF_A_TEXT for size in characters))


class TextAnswerer:
    """Answers requests about texts, whichever way they come.

    Args:
        serving: the version that answers.
        batcher: computes.
        settings: limits of the server.
    """

    def __init__(self, serving: Serving, batcher: Batcher, settings: ServerSettings) -> None:
        self._serving, self._batcher, self._settings = serving, batcher, settings
        self.longest_milliseconds = round(1000 * settings.deadline_seconds)

    @property
    def limits(self) -> dict[str, int]:
        """The highest number that each parameter of the address may have."""
        return {"deadline_milliseconds": self.longest_milliseconds}

    async def __call__(self, request: Request, *, deadline_milliseconds: int | None = None) -> Response:
        """Return the answer to a request; the parameters of the address are within ``limits``."""
        asked = await read_completion_request(request, self._serving, self._settings, read_queries=_read)
        question = Predicting(any(query.pair is not None for query in asked.queries))
        size = batched_size(asked.queries, self._settings)
        return await answered(
            request,
            asked,
            self._batcher,
            work=BatchedRequest(asked.version, question, asked.queries, size),
            parameters={},
            deadline_milliseconds=deadline_milliseconds or self.longest_milliseconds,
        )


def _read(version: Version, content: Any) -> list[TextRequest]:
    return version.reader.read(content)


def text_routes(gives: TextGives, answerer: TextAnswerer, *, is_sure: bool = False) -> APIRouter:
    """The route of a run of texts.

    Args:
        gives: what the run answers with.
        answerer: answers.
        is_sure: whether answers have prediction sets.
    """
    router = APIRouter(tags=["prediction"])
    longest = answerer.longest_milliseconds
    answer: Any = SureTextAnswer if is_sure else _ANSWERS.get(gives, TextAnswer)

    @router.post(PREDICT, response_model=answer | list[answer], summary=_SUMMARIES[gives])
    async def predict(
        request: Request,
        deadline_milliseconds: Annotated[
            int, Query(ge=1, le=longest, description=DEADLINE_ABOUT), AS_WRITTEN
        ] = longest,
    ) -> Response:
        """Answer as ``predict`` of the command line does. The body is a query, or a list of queries; so is the answer.

        The header X-Model-Version says which version of the model answered: all queries of a request get the same.
        """
        return await answerer(request, deadline_milliseconds=deadline_milliseconds)

    return router
