"""The app: routes, problems, metrics and lifetime of a server, put together. It starts no socket."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any, cast

from fastapi import Depends, FastAPI, HTTPException, Request
from fastapi.exceptions import RequestValidationError
from fastapi.middleware.cors import CORSMiddleware
from fastapi.openapi.utils import get_openapi
from fastapi.responses import Response
from pydantic import BaseModel

from contextual_bert.pydantic_findings import wanted
from contextual_bert.server.completion import COMPLETE, SIMILAR, Batcher, completion_routes
from contextual_bert.server.computations import EXPLAIN, JOINTLY, ComputationQueue, computation_routes
from contextual_bert.server.description import description_routes
from contextual_bert.server.keys import key_check
from contextual_bert.server.logs import EVENTS
from contextual_bert.server.middleware import RECORD, RequestGuard
from contextual_bert.server.operation import admin_routes, health_routes
from contextual_bert.server.page import add_page
from contextual_bert.server.problems import KINDS, MEDIA_TYPE, InvalidValue, ProblemError, json_excerpt
from contextual_bert.server.process import ProcessState
from contextual_bert.server.prometheus import Metrics
from contextual_bert.server.reloading import Reloader
from contextual_bert.server.requests import check_query_parameters
from contextual_bert.server.settings import ServerSettings
from contextual_bert.server.state import ServedPipeline, Serving

_SECONDS_TO_END_A_RELOAD = 60
_HTTP_KINDS = {404: "not-found", 405: "method-not-allowed"}


class ProblemAnswer(BaseModel):
    """A problem document after RFC 9457."""

    type: str
    title: str
    status: int
    detail: str
    request_id: str
    errors: list[InvalidValue] | None = None


def create_app(
    pipeline: ServedPipeline,
    *,
    load: Callable[[], ServedPipeline] | None = None,
    settings: ServerSettings | None = None,
) -> "_App":
    """An ASGI app that completes sets over HTTP.

    Args:
        pipeline: a CompletionPipeline, or what has its interface.
        load: gives the pipeline of the next version, catalogue included, whenever a reload is asked for.
        settings: limits, batches and the key. Proposals a slot are no more than the first pipeline gives.

    Example:
        >>> from contextual_bert.inference import CompletionPipeline
        >>> from contextual_bert.models import (
        ...     ContextualBertConfig,
        ...     ContextualBertForMaskedLM,
        ...     ContextualBertProcessor,
        ... )
        >>> sizes = {"hidden_size": 8, "num_attention_heads": 2, "num_hidden_layers": 1, "intermediate_size": 16}
        >>> model = ContextualBertForMaskedLM(ContextualBertConfig(vocab_size=5, **sizes))
        >>> app = create_app(CompletionPipeline(model, ContextualBertProcessor.from_items(["coat", "hat"])))
        >>> sorted(app.openapi()["paths"])[:3]
        ['/healthz', '/metrics', '/readyz']
    """
    settings = settings if settings is not None else ServerSettings()
    if pipeline.max_top_k is not None:
        settings = replace(settings, max_top_k=min(settings.max_top_k, pipeline.max_top_k))
    metrics = Metrics()
    serving, process = Serving(pipeline, load=load, metrics=metrics, settings=settings), ProcessState()
    reloader = Reloader(serving)
    batcher, computations = Batcher(settings, metrics), ComputationQueue(settings, metrics)
    queues = (batcher.queue, computations.queue)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncGenerator[None]:
        for queue in queues:
            queue.start()
        reloader.start()
        EVENTS.info("started", extra={"details": {"version": serving.current.number}})
        yield
        closing = [asyncio.to_thread(queue.close) for queue in queues]
        await asyncio.gather(*closing, asyncio.to_thread(reloader.close, timeout_seconds=_SECONDS_TO_END_A_RELOAD))
        EVENTS.info("stopped")

    # Its pages of documentation load scripts from elsewhere: /openapi.json is enough. It shows values of the context,
    # and so it needs the key where there is one, by a route of its own.
    app = _App(
        title="contextual-bert",
        version="1",
        lifespan=lifespan,
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
    )
    app.serving, app.settings, app.metrics, app.process, app.reload = serving, settings, metrics, process, reloader.ask
    if settings.allowed_origins:
        app.add_middleware(
            cast(Any, CORSMiddleware),
            allow_origins=settings.allowed_origins,
            allow_methods=["GET", "POST"],
            allow_headers=["Content-Type", "X-API-Key", "X-Request-ID"],
            expose_headers=["X-Model-Version", "X-Request-ID", "Retry-After"],
        )
    app.add_middleware(cast(Any, RequestGuard), settings=settings, metrics=metrics, process=process)
    app.add_exception_handler(HTTPException, _http_problem)
    app.add_exception_handler(cast(Any, HTTPException.__mro__[1]), _http_problem)
    app.add_exception_handler(RequestValidationError, _validation_problem)
    has_key = [Depends(key_check(settings))] if settings.api_key is not None else []
    guarded = [*has_key, Depends(check_query_parameters)]
    app.include_router(completion_routes(serving, batcher, settings), dependencies=guarded)
    app.include_router(computation_routes(serving, computations, settings), dependencies=guarded)
    app.include_router(description_routes(serving, settings), dependencies=guarded)
    app.add_api_route("/openapi.json", app.openapi, dependencies=has_key, include_in_schema=False)
    app.include_router(health_routes(queues, metrics, process))
    app.include_router(admin_routes(serving, reloader, settings), dependencies=[Depends(check_query_parameters)])
    add_page(app)
    return app


class _App(FastAPI):
    """A FastAPI whose documentation follows the version that is served."""

    serving: Serving
    settings: ServerSettings
    metrics: Metrics
    process: ProcessState
    reload: Callable[[], object]
    _documented: tuple[int, dict[str, Any]] | None = None

    def openapi(self) -> dict[str, Any]:
        version = self.serving.current
        if self._documented is None or self._documented[0] != version.number:
            document = get_openapi(title=self.title, version=self.version, routes=self.routes)
            bodies = version.reader.schemas()
            components = document["components"]["schemas"]
            for name in ("HTTPValidationError", "ValidationError"):
                components.pop(name, None)
            components |= bodies.definitions
            components["ProblemAnswer"] = ProblemAnswer.model_json_schema(ref_template="#/components/schemas/{model}")
            components |= components["ProblemAnswer"].pop("$defs")
            asked = {COMPLETE: bodies.many, SIMILAR: bodies.similar, JOINTLY: bodies.single, EXPLAIN: bodies.single}
            for path, body in asked.items():
                content = {"application/json": {"schema": body}}
                document["paths"][path]["post"]["requestBody"] = {"required": True, "content": content}
            for operations in document["paths"].values():
                for operation in operations.values():
                    operation["responses"] = _responses(operation["responses"])
            self._documented = version.number, document
        return self._documented[1]


def _responses(present: Mapping[str, Any]) -> dict[str, Any]:
    """The answers of an operation, with those problems that any may have."""
    content = {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/ProblemAnswer"}}}
    statuses: dict[int, list[str]] = {}
    for status, title in KINDS.values():
        statuses.setdefault(status, []).append(title)
    problems = {str(s): {"description": "; or: ".join(titles), "content": content} for s, titles in statuses.items()}
    return {"200": present["200"], **problems}


async def _http_problem(request: Request, error: Exception) -> Response:
    """Answer errors of the framework: no such address, or not that method."""
    status = getattr(error, "status_code", 500)
    kind = _HTTP_KINDS.get(status, "malformed-request" if status < 500 else "internal-error")
    allowed = (getattr(error, "headers", None) or {}).get("Allow")
    detail = f"Allowed: {allowed}." if allowed else "The addresses are in /openapi.json."
    headers = {"Allow": allowed} if allowed else {}
    return ProblemError(kind, detail, headers=headers).response(request.scope[RECORD].request_id)


async def _validation_problem(request: Request, error: Exception) -> Response:
    """Answer errors of the framework in the parameters of the address."""
    found = cast(RequestValidationError, error).errors()
    faults = [
        InvalidValue(
            parameter=".".join(str(step) for step in each["loc"][1:] or each["loc"]),  # the first says: in the address
            value=json_excerpt(each.get("input")),
            problem="it is missing" if each["type"] == "missing" else "it is not allowed",
            allowed=wanted([each]),
        )
        for each in found
    ]
    detail = " ".join(f"{each.get('parameter')}: {each['problem']}. {each['allowed']}" for each in faults)
    return ProblemError("invalid-query", detail, faults=faults).response(request.scope[RECORD].request_id)
