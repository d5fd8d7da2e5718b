"""The page that people can play with: static files that call the routes of this server. It computes nothing."""

from collections.abc import MutableMapping
from pathlib import Path
from typing import Any

from fastapi import APIRouter, FastAPI
from fastapi.responses import FileResponse, Response
from fastapi.staticfiles import StaticFiles

STATIC, PATH = Path(__file__).parent / "static", "/static"
# Scripts and styles of this server alone; pictures may lie where the catalogue says.
POLICY = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: https:; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'self'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",  # asked again each time, and answered with 304 if nothing changed
}


class _Files(StaticFiles):
    """Static files with the page's headers; ``path``: what the metrics call them."""

    path = PATH

    async def get_response(self, path: str, scope: MutableMapping[str, Any]) -> Response:
        response = await super().get_response(path, scope)
        response.headers.update(POLICY)
        return response


def add_page(app: FastAPI, *, name: str) -> None:
    """Serve the page of this file at ``/`` and what it needs below ``PATH``; it needs no key, what it asks for does."""
    router = APIRouter(include_in_schema=False)

    @router.api_route("/", methods=["GET", "HEAD"])
    async def page() -> FileResponse:
        return FileResponse(STATIC / name, headers=POLICY)

    app.include_router(router)
    app.mount(PATH, _Files(directory=STATIC), name="static")
