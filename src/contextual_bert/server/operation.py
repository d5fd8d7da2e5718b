"""Routes for operators: health, readiness, status, reload, stock."""

import asyncio
from collections.abc import Sequence
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
from contextual_bert.server.state import Serving


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


def health_routes(queues: Sequence[WorkQueue[Any]], metrics: Metrics, process: ProcessState) -> APIRouter:
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
    def read_metrics() -> Response:
        """In Prometheus' text format."""
        return Response(metrics.text(), media_type=CONTENT_TYPE_LATEST)

    return router


def admin_routes(serving: Serving, reloader: Reloader, settings: ServerSettings) -> APIRouter:
    """The routes that change what is served; only with the key."""
    router = APIRouter(prefix="/v1/admin", tags=["operation"], dependencies=[Depends(key_check(settings))])

    @router.post("/reload", response_model=VersionAnswer, summary="Load the run and the catalogue again")
    async def reload() -> VersionAnswer:
        """Read the run and the catalogue anew; queries that came in before are answered by the version before.

        If they cannot be loaded, the present version goes on. Stock that was posted stays as it was posted. A reload
        that runs already is waited for, and a new one follows it: files may have changed since it read them.
        """
        if not serving.can_reload:
            raise ProblemError("conflict", "This server was made from a pipeline and has nothing to reload from.")
        try:
            version = await asyncio.wrap_future(reloader.ask())
        except Exception as error:
            raise ProblemError("reload-failed", "The version before goes on. The server's log says why.") from error
        return VersionAnswer(number=version.number, loaded_at=version.loaded_at)

    body = {
        "requestBody": {"required": True, "content": {"application/json": {"schema": StockChanges.model_json_schema()}}}
    }

    @router.post("/stock", response_model=StockAnswer, summary="Say what is in stock", openapi_extra=body)
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
