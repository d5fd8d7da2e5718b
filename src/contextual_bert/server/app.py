"""The app: routes, problems, metrics and lifetime of a server, put together. It starts no socket."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any, NamedTuple, cast

from fastapi import APIRouter, Depends, FastAPI, HTTPException, Request
from fastapi.exceptions import RequestValidationError
from fastapi.middleware.cors import CORSMiddleware
from fastapi.openapi.utils import get_openapi
from fastapi.responses import Response
from pydantic import BaseModel

from contextual_bert.pydantic_findings import wanted
from contextual_bert.server.batching import Batcher
from contextual_bert.server.completion import COMPLETE, SIMILAR, CompletionAnswerer, completion_routes
from contextual_bert.server.computations import (
    EXPLAIN,
    JOINTLY,
    ComputationAnswerer,
    ComputationQueue,
    computation_routes,
    text_computation_routes,
)
from contextual_bert.server.description import ITEMS, description_routes, text_description_routes
from contextual_bert.server.direct_answers import DirectAnswers
from contextual_bert.server.keys import key_check
from contextual_bert.server.logs import EVENTS
from contextual_bert.server.middleware import RECORD, RequestGuard
from contextual_bert.server.operation import STOCK, admin_routes, health_routes, shared_handlers
from contextual_bert.server.page import add_page
from contextual_bert.server.problems import KINDS, MEDIA_TYPE, InvalidValue, ProblemError, json_excerpt
from contextual_bert.server.process import ProcessState
from contextual_bert.server.prometheus import Metrics
from contextual_bert.server.queueing import WorkQueue
from contextual_bert.server.reloading import Reloader
from contextual_bert.server.requests import check_query_parameters
from contextual_bert.server.settings import ServerSettings
from contextual_bert.server.state import (
    AnyServedPipeline,
    ServedTextPipeline,
    Serving,
    Version,
    is_for_texts,
    what_is_given,
)
from contextual_bert.server.text_routes import PREDICT, TextAnswerer, text_routes
from contextual_bert.server.worker_messages import WorkerLink

_Bodies = Callable[[Version], tuple[Mapping[str, Any], Mapping[str, Any]]]
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
    pipeline: AnyServedPipeline,
    *,
    load: Callable[[], AnyServedPipeline] | None = None,
    settings: ServerSettings | None = None,
    link: WorkerLink | None = None,
) -> "_App":
    """An ASGI app that answers the queries of a run over HTTP.

    Args:
        pipeline: a CompletionPipeline, TextPipeline or QuestionAnsweringPipeline, or what has the interface of one.
        load: gives the pipeline of the next version, catalogue included, whenever a reload is asked for.
        settings: limits, batches and the key. Proposals a slot are no more than the first pipeline gives.
        link: to the supervisor, in one of several workers.

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
    if not is_for_texts(pipeline) and pipeline.max_top_k is not None:
        settings = replace(settings, max_top_k=min(settings.max_top_k, pipeline.max_top_k))
    metrics = Metrics()
    number = link.version if link is not None else 1
    serving = Serving(pipeline, load=load, metrics=metrics, settings=settings, number=number)
    process = ProcessState()
    reloader = Reloader(serving)
    batcher = Batcher(settings, metrics)
    offered = (_text_operations if is_for_texts(pipeline) else _set_operations)(serving, batcher, settings, metrics)
    queues = (batcher.queue, *offered.queues)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncGenerator[None]:
        for queue in queues:
            queue.start()
        reloader.start()
        if link is not None:
            link.start(shared_handlers(serving, reloader, metrics))
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
    app.bodies = offered.bodies
    direct = {"path": offered.path, "answer": offered.answerer, "limits": offered.answerer.limits}
    app.add_middleware(cast(Any, DirectAnswers), **direct, settings=settings)
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
    for router in offered.routers:
        app.include_router(router, dependencies=guarded)
    app.include_router(_routes_of_others(offered), dependencies=has_key)
    app.add_api_route("/openapi.json", app.openapi, dependencies=has_key, include_in_schema=False)
    app.include_router(health_routes(queues, metrics, process, link))
    app.include_router(admin_routes(serving, reloader, settings, link), dependencies=[Depends(check_query_parameters)])
    add_page(app, name=offered.page)
    return app


class _Operations(NamedTuple):
    """What a server offers for its kind of run.

    Args:
        path: of what is asked most.
        answerer: answers it.
        routers: its routes.
        queues: further ones, beside the batches.
        bodies: from a version to address -> schema of the body, and the definitions that these name.
        others: addresses that only runs of the other kind have.
        says: that, as a sentence.
        page: the file of the page.
    """

    path: str
    answerer: CompletionAnswerer | TextAnswerer
    routers: Sequence[APIRouter]
    queues: Sequence[WorkQueue[Any]]
    bodies: _Bodies
    others: Sequence[str]
    says: str
    page: str


def _set_operations(serving: Serving, batcher: Batcher, settings: ServerSettings, metrics: Metrics) -> _Operations:
    computations = ComputationQueue(settings, metrics)
    answerer = CompletionAnswerer(serving, batcher, settings)

    def bodies(version: Version) -> tuple[dict[str, Any], Mapping[str, Any]]:
        found = version.reader.schemas()
        asked = {COMPLETE: found.many, SIMILAR: found.similar, JOINTLY: found.single, EXPLAIN: found.single}
        return asked, found.definitions

    routers = (
        completion_routes(serving, batcher, settings, answerer),
        computation_routes(ComputationAnswerer(serving, computations, settings)),
        description_routes(serving, settings),
    )
    says = f"This server has a run of sets and answers {COMPLETE}; texts are for runs of texts."
    queues = (computations.queue,)
    return _Operations(COMPLETE, answerer, routers, queues, bodies, (PREDICT,), says, "index.html")


def _text_operations(serving: Serving, batcher: Batcher, settings: ServerSettings, metrics: Metrics) -> _Operations:
    computations = ComputationQueue(settings, metrics)
    answerer = TextAnswerer(serving, batcher, settings)

    def bodies(version: Version) -> tuple[dict[str, Any], Mapping[str, Any]]:
        found = version.reader.schemas()
        return {PREDICT: found.many, EXPLAIN: found.single}, found.definitions

    gives = what_is_given(cast(ServedTextPipeline, serving.current.pipeline))
    routers = (
        text_routes(gives, answerer, is_sure=serving.current.coverage is not None),
        text_computation_routes(ComputationAnswerer(serving, computations, settings)),
        text_description_routes(serving, settings),
    )
    says = f"This server has a run of texts and answers {PREDICT}; sets and items are for runs of sets."
    others, queues = (COMPLETE, SIMILAR, JOINTLY, ITEMS, STOCK), (computations.queue,)
    return _Operations(PREDICT, answerer, routers, queues, bodies, others, says, "texts.html")


def _routes_of_others(offered: _Operations) -> APIRouter:
    """Routes that say which run has the operations that this one does not have."""
    router = APIRouter(include_in_schema=False)

    async def elsewhere() -> Response:
        raise ProblemError("not-found", offered.says)

    for path in offered.others:
        router.add_api_route(path, elsewhere, methods=["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD"])
    return router


class _App(FastAPI):
    """A FastAPI whose documentation follows the version that is served."""

    serving: Serving
    settings: ServerSettings
    metrics: Metrics
    process: ProcessState
    reload: Callable[[], object]
    bodies: _Bodies
    _documented: tuple[int, dict[str, Any]] | None = None

    def openapi(self) -> dict[str, Any]:
        version = self.serving.current
        if self._documented is None or self._documented[0] != version.number:
            document = get_openapi(title=self.title, version=self.version, routes=self.routes)
            asked, definitions = self.bodies(version)
            components = document["components"]["schemas"]
            for name in ("HTTPValidationError", "ValidationError"):
                components.pop(name, None)
            components |= definitions
            components["ProblemAnswer"] = ProblemAnswer.model_json_schema(ref_template="#/components/schemas/{model}")
            components |= components["ProblemAnswer"].pop("$defs")
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
