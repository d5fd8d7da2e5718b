"""``/v1/complete-jointly`` and ``/v1/explain``: what takes the model seconds, one at a time beside the batches.

They have a thread and a queue of their own, so that no completion waits for them.
"""

import asyncio
import time
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import asdict
from typing import Annotated, Any, NamedTuple, TypeVar

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response

from contextual_bert import inference
from contextual_bert.inference.completion_answers import JointAnswer, Method
from contextual_bert.inference.explain.explanation import Explanation
from contextual_bert.inference.explain.text_explanation import TextExplanation
from contextual_bert.inference.queries import Request as ReadQuery
from contextual_bert.inference.texts.text_queries import TextRequest
from contextual_bert.server.middleware import DisconnectedError
from contextual_bert.server.problems import ProblemError
from contextual_bert.server.prometheus import Metrics
from contextual_bert.server.protocol import AS_WRITTEN
from contextual_bert.server.queueing import Job, WorkQueue
from contextual_bert.server.requests import DEADLINE_ABOUT, client_of, read_completion_request
from contextual_bert.server.settings import ServerSettings
from contextual_bert.server.state import Serving, Version

JOINTLY, EXPLAIN = "/v1/complete-jointly", "/v1/explain"
LONGEST_NAME, LARGEST_SEED = 2_000, (1 << 32) - 1
Found = TypeVar("Found")


class Computation(NamedTuple):
    """What is to be computed; ``kind``: which clock of the metrics it is for."""

    kind: str
    compute: Callable[[], Any]


class Computed(NamedTuple):
    """Result of a computation and its seconds."""

    found: Any
    queue_seconds: float
    model_seconds: float


class ComputationQueue:
    """Computes what takes the model seconds, one after the other.

    Args:
        settings: how many may wait.
        metrics: told about computations.
    """

    def __init__(self, settings: ServerSettings, metrics: Metrics) -> None:
        self._metrics = metrics
        self.queue = WorkQueue[Computation](
            self._compute,
            name="contextual-bert-computations",
            max_size=settings.max_computations,
            on_dropped=metrics.dropped.inc,
        )
        metrics.computation_queue.set_function(lambda: self.queue.size)

    async def find(
        self, kind: str, compute: Callable[[], Any], *, deadline_seconds: float, client: str = ""
    ) -> Computed:
        """Return the result of ``compute``. ``client`` gets a fair share of the queue.

        Raises:
            QueueFullError, DrainingError, DeadlineError: it was not computed, or too late.
            Exception: what ``compute`` raised.
        """
        return await self.queue.ask(Computation(kind, compute), deadline_seconds=deadline_seconds, client=client)

    def _compute(self, batch: list[Job[Computation]]) -> None:
        [job] = batch
        started = time.monotonic()
        try:
            found = job.work.compute()
        except Exception as error:
            job.future.set_exception(error)
            return
        seconds, waited = time.monotonic() - started, started - job.queued_at
        self._metrics.computation_seconds.labels(job.work.kind).observe(seconds)
        self._metrics.computation_queue_seconds.observe(waited)
        job.future.set_result(Computed(found, waited, seconds))


async def while_awaited(request: Request, finding: Coroutine[Any, Any, Found]) -> Found:
    """Return the result for a request whose body was read. It is given up as soon as the client is gone.

    Raises:
        DisconnectedError: it is gone.
        Exception: what ``finding`` raised.
    """
    tasks = found, _ = asyncio.create_task(finding), asyncio.create_task(_until_gone(request))
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        if not found.done():
            raise DisconnectedError
        return found.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _until_gone(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _only_query(version: Version, content: Any) -> list[Any]:
    return version.reader.read(content, is_single=True)


class ComputationAnswerer:
    """Answers the long questions, each about one query.

    Args:
        serving: the version that answers.
        computations: computes.
        settings: limits of the server.
    """

    def __init__(self, serving: Serving, computations: ComputationQueue, settings: ServerSettings) -> None:
        self._serving, self._computations, self.settings = serving, computations, settings
        self.longest_milliseconds = round(1000 * settings.computation_deadline_seconds)

    async def __call__(
        self,
        request: Request,
        capability: str,
        compute: Callable[[Any, Any], Any],
        *,
        parameters: Mapping[str, Any],
        deadline_milliseconds: int,
    ) -> Response:
        """Answer with the result of ``compute`` for the query of a request.

        Args:
            request: whose body has the query.
            capability: that the run needs for it.
            compute: from the pipeline and the query to the answer.
            parameters: of the address, by the names that the pipeline has for them.
            deadline_milliseconds: of the address.
        """
        asked = await read_completion_request(request, self._serving, self.settings, read_queries=_only_query)
        if (reason := asked.version.missing_capabilities[capability]) is not None:
            raise ProblemError("conflict", reason)
        pipeline, [query] = asked.version.pipeline, asked.queries
        seconds = asked.seconds_left(deadline_milliseconds)
        try:
            finding = self._computations.find(
                capability, lambda: compute(pipeline, query), deadline_seconds=seconds, client=client_of(request)
            )
            computed = await while_awaited(request, finding)
        except Exception as error:
            raise asked.problem(error, parameters) from error
        return asked.answer(computed.found, queue_seconds=computed.queue_seconds, model_seconds=computed.model_seconds)


def computation_routes(answered: ComputationAnswerer) -> APIRouter:
    """The routes of the long questions about sets.

    Args:
        answered: answers.
    """
    router, settings = APIRouter(tags=["computations"]), answered.settings
    longest = answered.longest_milliseconds
    deadline = Query(ge=1, le=longest, description=DEADLINE_ABOUT)
    most = settings.max_completions
    usual = min(5, most)

    @router.post(JOINTLY, response_model=JointAnswer, summary="Fill all blanks of a set together")
    async def complete_jointly(
        request: Request,
        num_completions: Annotated[
            int, Query(ge=1, le=most, description="Whole sets, best first."), AS_WRITTEN
        ] = usual,
        diversity: Annotated[
            int,
            Query(ge=1, le=settings.max_blanks, description="So many items differ between any two sets."),
            AS_WRITTEN,
        ] = 1,
        method: Annotated[
            Method, Query(description="How to search; auto is exact where the server's forward passes suffice.")
        ] = "auto",
        seed: Annotated[int, Query(ge=0, le=LARGEST_SEED, description="Of the draws of gibbs."), AS_WRITTEN] = 0,
        deadline_milliseconds: Annotated[int, deadline, AS_WRITTEN] = longest,
    ) -> Response:
        """Propose whole sets, in which the items of the blanks belong together. The body is one query.

        A budget and at_most_one_per hold for every set as a whole. A set without a [MASK] gets one item more.
        """
        parameters: dict[str, Any] = {
            "num_completions": num_completions,
            "diversity": diversity,
            "method": method,
            "seed": seed,
        }

        def compute(pipeline: Any, query: ReadQuery) -> Any:
            limits = {"max_forward_passes": settings.max_forward_passes, "batch_size": settings.max_batch}
            return pipeline.complete_jointly(query, **parameters, **limits)

        return await answered(
            request,
            "complete_jointly",
            compute,
            parameters=parameters,
            deadline_milliseconds=deadline_milliseconds,
        )

    @router.post(EXPLAIN, response_model=Explanation, summary="Why this item")
    async def explain_one(
        request: Request,
        item: Annotated[
            str | None, Query(max_length=LONGEST_NAME, description="What to explain; left out, the best item.")
        ] = None,
        slot: Annotated[
            int, Query(ge=0, lt=settings.max_blanks, description="Which [MASK], counted from 0."), AS_WRITTEN
        ] = 0,
        deadline_milliseconds: Annotated[int, deadline, AS_WRITTEN] = longest,
    ) -> Response:
        """Say what each field of the context and each item of the set did, and what others would get.

        The body is one query. Only models that were trained with field_dropout can be explained.
        """

        def compute(pipeline: Any, query: ReadQuery) -> Any:
            most, batch_size = settings.max_exact_fields, settings.max_batch
            # A server of an export has no use for what explains, which imports torch.
            found = inference.explain(
                pipeline, query, item=item, slot=slot, max_exact_fields=most, batch_size=batch_size
            )
            return asdict(found)

        return await answered(
            request,
            "explain",
            compute,
            parameters={"item": item, "slot": slot},
            deadline_milliseconds=deadline_milliseconds,
        )

    return router


def text_computation_routes(answered: ComputationAnswerer) -> APIRouter:
    """The routes of the long questions about texts.

    Args:
        answered: answers.
    """
    router, settings = APIRouter(tags=["computations"]), answered.settings
    longest = answered.longest_milliseconds

    @router.post(EXPLAIN, response_model=TextExplanation, summary="Why this label")
    async def explain_label(
        request: Request,
        label: Annotated[
            str | None, Query(max_length=LONGEST_NAME, description="What to explain; left out, the likeliest label.")
        ] = None,
        deadline_milliseconds: Annotated[
            int, Query(ge=1, le=longest, description=DEADLINE_ABOUT), AS_WRITTEN
        ] = longest,
    ) -> Response:
        """Say what each field of the context and each word of the text did, and what others would get.

        The body is one query. Only labels can be explained, of models that were trained with field_dropout.
        """

        def compute(pipeline: Any, query: TextRequest) -> Any:
            limits = {"max_exact_fields": settings.max_exact_fields, "batch_size": settings.max_batch}
            # A server of an export has no use for what explains, which imports torch.
            return asdict(inference.explain_text(pipeline, query, label=label, **limits))

        return await answered(
            request,
            "explain",
            compute,
            parameters={"label": label},
            deadline_milliseconds=deadline_milliseconds,
        )

    return router
