"""API keys, compared in constant time."""

import secrets
from collections.abc import Awaitable, Callable
from typing import Annotated

from fastapi import Security
from fastapi.security import APIKeyHeader

from contextual_bert.server.problems import ProblemError
from contextual_bert.server.settings import ServerSettings

HEADER = "X-API-Key"
Check = Callable[..., Awaitable[None]]
_scheme = APIKeyHeader(name=HEADER, auto_error=False, scheme_name="ApiKey")
_Given = Annotated[str | None, Security(_scheme)]


def key_check(settings: ServerSettings) -> Check:
    """A dependency that lets a request pass if it has the key; everything is refused where the server has none."""

    async def check(given: _Given = None) -> None:
        if settings.api_key is None:
            raise ProblemError("not-administered", "Start the server with a key to administer it.")
        # Headers arrive as Latin-1; the key itself is ASCII.
        if not secrets.compare_digest((given or "").encode("latin-1", "replace"), settings.api_key.encode()):
            raise ProblemError(
                "key-needed",
                f"Send the server's key in the header {HEADER}.",
                headers={"WWW-Authenticate": f'ApiKey header="{HEADER}"'},
            )

    return check
