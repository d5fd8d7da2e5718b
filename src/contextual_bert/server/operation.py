"""Routes for operators: health, readiness, status, reload, stock."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, cast

from fastapi import APIRouter, Depends, Request
from fastapi.responses import Response
from prometheus_client import CONTENT_TYPE_LATEST
from pydantic import BaseModel, ConfigDict, ValidationError

from contextual_bert.errors import ConfigurationError, QueryError, UnknownNameError
from contextual_bert.inference.query_schema import Names, query_error
from contextual_bert.server.description import VersionAnswer
from contextual_bert.server.keys import key_check
from contextual_bert.server.problems import ProblemError, problem_of
from contextual_bert.server.process import ProcessState
from contextual_bert.server.prometheus import Metrics
from contextual_bert.server.queueing import WorkQueue
from contextual_bert.server.reloading import Reloader
from contextual_bert.server.requests import beside_the_loop, parse_body, read_body
from contextual_bert.server.settings import ServerSettings
from contextual_bert.server.state import Serving, is_for_texts
from contextual_bert.server.worker_messages import WorkerFailedError, WorkerLink

ADMIN, STOCK = "/v1/admin", "/v1/admin/stock"
_SECONDS_FOR_METRICS = 5.0


class StockChanges(BaseModel):
    """Items that are in stock from now on, and items that are not."""

    model_config = ConfigDict(extra="forbid")

    in_stock: Names = []
    out_of_stock: Names = []


class StatusAnswer(BaseModel):
    """Status of the server."""

    status: str


class StockAnswer(BaseModel):
    """``changed``: items whose stock was set; ``unknown_items``: those that the model does not know."""

    changed: int
    unknown_items: list[str]


def shared_handlers(
    serving: Serving, reloader: Reloader, metrics: Metrics
) -> Mapping[str, Callable[[Any], "Future[Any]"]]:
    """Return what one of several workers does when its supervisor asks: subject -> handler, see ``WorkerLink``."""

    def reload(number: int) -> "Future[Any]":
        serving.next_number = number
        done = Future[Any]()

        def tell(loaded: "Future[Any]") -> None:
            error = WorkerFailedError("it was given up") if loaded.cancelled() else loaded.exception()
            if error is not None:
                done.set_exception(WorkerFailedError(str(error)))
            else:
                done.set_result(loaded.result().number)

        reloader.ask().add_done_callback(tell)
        return done

    def at_once(work: Callable[[Any], Any]) -> Callable[[Any], "Future[Any]"]:
        def run(content: Any) -> "Future[Any]":
            done = Future[Any]()
            try:
                done.set_result(work(content))
            except Exception as error:
                done.set_exception(error)
            return done

        return run

    read_metrics, set_stock = at_once(lambda _: metrics.text().decode()), at_once(serving.set_stock)
    return {"reload": reload, "metrics": read_metrics, "stock": set_stock}


def health_routes(
    queues: Sequence[WorkQueue[Any]], metrics: Metrics, process: ProcessState, link: WorkerLink | None = None
) -> APIRouter:
    """The routes for whoever starts, stops and watches the server."""
    router = APIRouter(tags=["operation"])

    @router.head("/healthz", include_in_schema=False)
    @router.get("/healthz", response_model=StatusAnswer, summary="Is the process alive")
    async def healthz() -> StatusAnswer:
        """Fails if a thread that computes has died: start the server again."""
        if not all(queue.is_alive for queue in queues):
            raise ProblemError("not-ready", "A thread that computes is not running.")
        return StatusAnswer(status="alive")

    @router.head("/readyz", include_in_schema=False)
    @router.get("/readyz", response_model=StatusAnswer, summary="Does it take queries")
    async def readyz() -> StatusAnswer:
        """Fails while the server starts and while it stops."""
        if process.is_stopping or not all(queue.is_taking for queue in queues):
            raise ProblemError("not-ready", "The server is starting or stopping.")
        return StatusAnswer(status="ready")

    @router.get("/metrics", response_class=Response, summary="Metrics for Prometheus")
    async def read_metrics() -> Response:
        """In Prometheus' text format; of several workers those of each, with its number as a label."""
        text: Any = None
        if link is not None:
            with suppress(OSError, WorkerFailedError, TimeoutError):  # then at least one's own
                text = await asyncio.wait_for(asyncio.wrap_future(link.ask("metrics")), _SECONDS_FOR_METRICS)
        return Response(metrics.text() if text is None else text, media_type=CONTENT_TYPE_LATEST)

    return router


def admin_routes(
    serving: Serving, reloader: Reloader, settings: ServerSettings, link: WorkerLink | None = None
) -> APIRouter:
    """The routes that change what is served, by all workers where there are several; only with the key.

    A run of texts has no stock.
    """
    router = APIRouter(prefix=ADMIN, tags=["operation"], dependencies=[Depends(key_check(settings))])

    @router.post("/reload", response_model=VersionAnswer, summary="Load the run and the catalogue again")
    async def reload() -> VersionAnswer:
        """Read the run and the catalogue anew; queries that came in before are answered by the version before.

        If they cannot be loaded, the present version goes on. Stock that was posted stays as it was posted. A reload
        that runs already is waited for, and a new one follows it: files may have changed since it read them.
        """
        if not serving.can_reload:
            raise ProblemError("conflict", "This server was made from a pipeline and has nothing to reload from.")
        try:
            await asyncio.wrap_future(reloader.ask() if link is None else link.ask("reload"))
        except Exception as error:
            raise ProblemError("reload-failed", "The version before goes on. The server's log says why.") from error
        version = serving.current
        return VersionAnswer(number=version.number, loaded_at=version.loaded_at)

    if is_for_texts(serving.current.pipeline):
        return router
    body = {
        "requestBody": {"required": True, "content": {"application/json": {"schema": StockChanges.model_json_schema()}}}
    }

    @router.post(
        STOCK.removeprefix(ADMIN), response_model=StockAnswer, summary="Say what is in stock", openapi_extra=body
    )
    async def stock(request: Request) -> StockAnswer:
        """Set single items to be in stock or not; all others stay as they are."""
        body = await read_body(request, timeout_seconds=settings.deadline_seconds)

        def read() -> dict[str, bool]:
            content = parse_body(body, settings)
            try:
                return _changes(content)
            except (QueryError, UnknownNameError) as error:
                raise problem_of(error, content) from None

        changes = await beside_the_loop(body, read)
        try:
            unknown = serving.set_stock(changes)
        except ConfigurationError as error:
            raise ProblemError("conflict", str(error)) from None
        if link is not None:
            await asyncio.wrap_future(link.ask("stock", changes))
        return StockAnswer(changed=len(changes) - len(unknown), unknown_items=list(unknown))

    return router


def _changes(content: Any) -> dict[str, bool]:
    """Return item -> whether it is in stock from now on.

    Raises:
        QueryError, UnknownNameError: what is wrong in the body, and where.
    """
    if not isinstance(content, dict):
        fix = f"Give lists of items: {', '.join(StockChanges.model_fields)}."
        raise QueryError("it is no record", value=content, fix=fix)
    try:
        changes = StockChanges.model_validate(content)
    except ValidationError as error:
        raise query_error(error, cast("dict[str, Any]", content), known=StockChanges.model_fields) from None
    in_stock = {*changes.in_stock}
    for number, name in enumerate(changes.out_of_stock):
        if name in in_stock:
            fix = "Name every item once."
            raise QueryError("the item is in both lists", location=("out_of_stock", number), value=name, fix=fix)
    return dict.fromkeys(changes.in_stock, True) | dict.fromkeys(changes.out_of_stock, False)
