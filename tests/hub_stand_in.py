"""A stand-in for the Hub's HTTP interface, for the tests of what is sent there: repositories and commits in memory."""

import base64
import hashlib
import json
import threading
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar

TOKEN = "hf_that_may_write"


@dataclass
class Hub:
    """What was sent.

    Args:
        repositories: name -> whether it is private.
        files: name -> the files of its last commit.
        paths: all paths that were asked for.
        failing_with: the status of each answer; None: as the Hub would answer.
    """

    address: str = ""
    repositories: dict[str, bool] = field(default_factory=dict[str, bool])
    files: dict[str, dict[str, bytes]] = field(default_factory=dict[str, dict[str, bytes]])
    paths: list[str] = field(default_factory=list[str])
    failing_with: int | None = None


class _Handler(BaseHTTPRequestHandler):
    hub: ClassVar[Hub]
    stored: ClassVar[dict[str, bytes]]

    def _answer(self, status: int, body: Any) -> None:
        content = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def _is_let_in(self) -> bool:
        self.hub.paths.append(self.path)
        if self.hub.failing_with is not None:
            self._answer(self.hub.failing_with, {"error": "as it was told"})
        elif self.headers.get("Authorization") != f"Bearer {TOKEN}":
            self._answer(401, {"error": "Invalid username or password."})
        else:
            return True
        return False

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if not self._is_let_in():
            return
        parts = self.path.split("?")[0].strip("/").split("/")
        if parts == ["api", "repos", "create"]:
            asked = json.loads(body)
            name = f"{asked['organization']}/{asked['name']}" if asked.get("organization") else asked["name"]
            is_private = asked.get("visibility") == "private" or bool(asked.get("private"))
            self.hub.repositories.setdefault(name, is_private)
            self._answer(200, {"url": f"{self.hub.address}/{name}", "name": name, "id": name})
        elif parts[-2] == "preupload":
            asked = json.loads(body)["files"]
            modes = [{"path": each["path"], "uploadMode": _mode(each["path"]), "shouldIgnore": False} for each in asked]
            self._answer(200, {"files": modes})
        elif parts[-1] == "batch":
            asked = json.loads(body)["objects"]
            objects = [
                {**each, "actions": {"upload": {"href": f"{self.hub.address}/stored/{each['oid']}"}}} for each in asked
            ]
            self._answer(200, {"transfer": "basic", "objects": objects})
        elif parts[-2] == "commit":
            name = "/".join(parts[2:4])
            lines = [json.loads(line) for line in body.splitlines()]
            self.hub.files[name] = {
                line["value"]["path"]: self._content(line) for line in lines if line["key"] != "header"
            }
            self._answer(
                200, {"success": True, "commitOid": "0" * 40, "commitUrl": f"{self.hub.address}/{name}/commit/0"}
            )
        else:
            self._answer(200, {"errors": [], "warnings": []})  # validate-yaml, of the card

    def do_PUT(self) -> None:
        content = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.stored[hashlib.sha256(content).hexdigest()] = content
        self._answer(200, {})

    def do_GET(self) -> None:
        if self._is_let_in():
            self._answer(404, {"error": "not here"})

    def _content(self, line: dict[str, Any]) -> bytes:
        value = line["value"]
        return self.stored[value["oid"]] if line["key"] == "lfsFile" else base64.b64decode(value["content"])

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  (its name there)
        """Say nothing."""


def _mode(path: str) -> str:
    return "lfs" if path.endswith(".safetensors") else "regular"


@contextmanager
def hub_stand_in() -> Generator[Hub]:
    """A hub of this machine, at its ``address``."""
    hub = Hub()
    handler = type("Handler", (_Handler,), {"hub": hub, "stored": {}})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        hub.address = f"http://127.0.0.1:{server.server_address[1]}"
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield hub
        finally:
            server.shutdown()
            thread.join()
