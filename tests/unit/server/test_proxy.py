"""The guide's configuration of nginx, in front of a server: it is valid, and passes what it should."""

import http.client
import re
import shutil
import socket
import subprocess
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from contextual_bert.inference import CompletionPipeline
from contextual_bert.server import ServerSettings
from contextual_bert.server.serving import LimitedServer

GUIDE = Path(__file__).parents[3] / "docs" / "guides" / "serve.md"
NGINX = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")
OUTSIDE = """
pid {folder}/nginx.pid; error_log {folder}/error.log; worker_processes 1; daemon off;
events {{ worker_connections 512; }}
http {{
    access_log off;
    client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy; fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi; scgi_temp_path {folder}/scgi;
    include {folder}/site.conf;
}}
"""


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as found:
        return found.getsockname()[1]


@pytest.mark.skipif(NGINX is None, reason="needs nginx: apt-get install nginx-light")
def test_the_guides_proxy_passes_what_it_should(tools: Any, pipeline: CompletionPipeline, tmp_path: Path) -> None:
    [site] = re.findall(r"```nginx\n(.*?)```", GUIDE.read_text("utf-8"), flags=re.DOTALL)
    settings = ServerSettings(allowed_hosts=("shop.example",), api_key=tools.key)
    listener, port = socket.create_server(("127.0.0.1", 0)), free_port()
    # TLS needs a certificate, the port 443 a privilege; all else is as it stands in the guide.
    site = re.sub(r"\n +ssl_certificate.*", "", site).replace("listen 443 ssl;", f"listen 127.0.0.1:{port};")
    (tmp_path / "site.conf").write_text(site.replace("127.0.0.1:8000", f"127.0.0.1:{listener.getsockname()[1]}"))
    (tmp_path / "nginx.conf").write_text(OUTSIDE.format(folder=tmp_path))
    command = [str(NGINX), "-p", str(tmp_path), "-e", str(tmp_path / "error.log"), "-c", str(tmp_path / "nginx.conf")]
    checked = subprocess.run([*command, "-t"], capture_output=True, text=True, timeout=60, check=False)
    assert checked.returncode == 0, checked.stderr

    server = LimitedServer(tools.app(pipeline, settings=settings), listener, host="127.0.0.1")
    thread = threading.Thread(target=server.run)
    thread.start()
    nginx = subprocess.Popen(command)
    try:
        deadline = time.monotonic() + 60
        while not server.started or socket.socket().connect_ex(("127.0.0.1", port)):
            assert time.monotonic() < deadline
            time.sleep(0.05)

        def ask(method: str, path: str, body: str | None = None, **headers: str) -> int:
            client = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
            given = {"Host": "shop.example", "X-API-Key": tools.key, "Content-Type": "application/json", **headers}
            client.request(method, path, body, given)
            status = client.getresponse().status
            client.close()
            return status

        origin = {"Origin": "http://shop.example"}
        assert ask("GET", "/healthz") == 200
        assert ask("POST", "/v1/complete", "{}", **origin) == 200
        assert ask("POST", "/v1/complete", "{}", Origin="https://evil.example") == 403
        assert ask("POST", "/v1/complete", '{"items": ["' + "x" * 1_100_000 + '"]}') == 413
        assert ask("GET", "/healthz", Host="evil.example") == 421
        assert [ask("GET", path) for path in ("/metrics", "/v1/admin/stock")] == [403, 403]
        with socket.create_connection(("127.0.0.1", port)) as client:
            client.sendall(
                b"GET / HTTP/1.1\r\nHost: shop.example\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n"
            )
            assert b" 400 " in client.recv(4096)
    finally:
        nginx.terminate()
        nginx.wait(60)
        server.should_exit = True
        thread.join(60)
