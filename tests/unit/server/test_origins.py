"""Requests for another host, and of pages of other websites, are refused; answers say that they are not to be kept."""

import asyncio
import socket
from typing import Any

import pytest

from contextual_bert.errors import ConfigurationError
from contextual_bert.inference import CompletionPipeline
from contextual_bert.server import ServerSettings, exposure
from contextual_bert.server.origins import OriginCheck
from contextual_bert.server.problems import ProblemError
from contextual_bert.server.process import ProcessState

PATHS = ("/v1/schema", "/v1/items", "/openapi.json", "/metrics", "/healthz", "/", "/static/page.js")


def refusal(
    headers: dict[str, str], *, bound: str = "127.0.0.1", local: str = "127.0.0.1", version: str = "1.1", **allowed: Any
) -> str | None:
    """The kind of the problem that a request gets, None where it passes."""
    check = OriginCheck(allowed.get("hosts", ()), allowed.get("origins", ()), ProcessState(bound_host=bound))
    scope = {"server": (local, 8000), "http_version": version}
    try:
        check.check(scope, {name.lower().encode(): value.encode() for name, value in headers.items()})
    except ProblemError as problem:
        return problem.kind
    return None


@pytest.mark.parametrize(
    ("host", "settings", "expected"),
    [
        ("localhost", {}, None),
        ("localhost:8000", {}, None),
        ("LOCALHOST:9000", {}, None),  # a port that is forwarded
        ("localhost.", {}, None),
        ("127.0.0.1:8000", {}, None),
        ("[::1]:8000", {}, None),
        ("evil.example", {}, "wrong-host"),
        ("evil.example:8000", {}, "wrong-host"),
        ("localhost.evil.example", {}, "wrong-host"),
        ("127.0.0.1.evil.example", {}, "wrong-host"),
        ("evil.example#localhost", {}, "wrong-host"),
        ("localhost@evil.example", {}, "wrong-host"),
        ("localhost:8000:1", {}, "wrong-host"),
        ("", {}, "wrong-host"),
        ("192.168.0.9:8000", {}, "wrong-host"),
        ("192.168.0.9:8000", {"local": "192.168.0.9", "bound": "0.0.0.0"}, None),
        ("192.168.0.9:8000", {"local": "::ffff:192.168.0.9", "bound": "::"}, None),
        ("box.lan:8000", {"local": "192.168.0.9", "bound": "box.lan"}, None),
        ("box.lan:8000", {"local": "192.168.0.9", "bound": "0.0.0.0"}, "wrong-host"),
        ("shop.example", {"hosts": ("shop.example",)}, None),
        ("Shop.Example:443", {"hosts": ("shop.example",)}, None),
        ("a.shop.example", {"hosts": ("shop.example",)}, "wrong-host"),
        ("a.shop.example", {"hosts": ("*.shop.example",)}, None),
        ("shop.example", {"hosts": ("*.shop.example",)}, "wrong-host"),
        ("evilshop.example", {"hosts": ("*.shop.example",)}, "wrong-host"),
        ("shop.example:81", {"hosts": ("shop.example:80",)}, "wrong-host"),
        ("anything.at.all", {"hosts": ("*",)}, None),
    ],
)
def test_the_host_is_one_of_the_server(host: str, settings: dict[str, Any], expected: str | None) -> None:
    assert refusal({"Host": host}, **settings) == expected


def test_a_probe_without_a_host_passes() -> None:
    assert refusal({}, version="1.0") is None
    assert refusal({}, version="1.1") == "wrong-host"


@pytest.mark.parametrize(
    ("headers", "settings", "expected"),
    [
        ({"Origin": "http://localhost:8000"}, {}, None),
        ({"Origin": "http://LOCALHOST:8000"}, {}, None),
        ({"Origin": "http://localhost:3000"}, {}, "cross-origin"),
        ({"Origin": "http://127.0.0.1:8000"}, {}, "cross-origin"),
        ({"Origin": "http://evil.example"}, {}, "cross-origin"),
        ({"Origin": "http://localhost:8000.evil.example"}, {}, "cross-origin"),
        ({"Origin": "null"}, {}, "cross-origin"),
        ({"Origin": ""}, {}, "cross-origin"),
        ({"Origin": "file://"}, {}, "cross-origin"),
        ({"Origin": "https://shop.example"}, {"origins": ("https://shop.example",)}, None),
        ({"Origin": "https://shop.example:444"}, {"origins": ("https://shop.example",)}, "cross-origin"),
        ({"Host": "shop.example", "Origin": "https://shop.example"}, {"hosts": ("shop.example",)}, None),
        ({"Host": "shop.example:443", "Origin": "https://shop.example"}, {"hosts": ("shop.example",)}, None),
        # A proxy that ends TLS: Host without the port, with that of the process, or its address.
        ({"Host": "shop.example", "Origin": "https://shop.example:8443"}, {"hosts": ("shop.example",)}, None),
        ({"Host": "shop.example:8000", "Origin": "https://shop.example"}, {"hosts": ("shop.example",)}, None),
        ({"Origin": "https://shop.example"}, {"hosts": ("shop.example",)}, None),
        ({"Origin": "https://a.shop.example"}, {"hosts": ("*.shop.example",)}, None),
        ({"Origin": "https://a.shop.example"}, {"hosts": ("shop.example",)}, "cross-origin"),
        ({"Origin": "http://shop.example"}, {"hosts": ("shop.example",)}, "cross-origin"),
        ({"Origin": "https://shop.example:444"}, {"hosts": ("shop.example:443",)}, "cross-origin"),
        ({"Origin": "https://shop.example"}, {"hosts": ("shop.example:443",)}, None),
        ({"Origin": "https://evil.example"}, {"hosts": ("*",)}, "cross-origin"),
        ({"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"}, {}, "cross-origin"),
        ({"Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "cors"}, {}, "cross-origin"),
        ({"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}, {}, None),
        ({"Sec-Fetch-Site": "same-origin", "Sec-Fetch-Mode": "cors"}, {}, None),
        ({"Sec-Fetch-Site": "none", "Sec-Fetch-Mode": "navigate"}, {}, None),
    ],
)
def test_pages_of_other_websites_may_not_ask(
    headers: dict[str, str], settings: dict[str, Any], expected: str | None
) -> None:
    assert refusal({"Host": "localhost:8000", **headers}, **settings) == expected


@pytest.mark.parametrize("own_last", [True, False])
def test_headers_that_come_twice_let_nothing_pass(*, own_last: bool) -> None:
    check = OriginCheck((), (), ProcessState(bound_host="127.0.0.1"))
    for name, values in (
        (b"origin", [b"http://evil.example", b"http://localhost:8000"]),
        (b"origin", [b"http://localhost:8000", b"http://localhost:8000"]),
        (b"sec-fetch-site", [b"cross-site", b"same-origin"]),
    ):
        headers = [(b"host", b"localhost:8000"), *((name, each) for each in values[:: 1 if own_last else -1])]
        scope = {"server": ("127.0.0.1", 8000), "http_version": "1.1", "headers": headers}
        with pytest.raises(ProblemError) as refused:
            check.check(scope, dict(headers))
        assert refused.value.kind == "cross-origin"


def test_every_address_checks_host_and_origin(tools: Any, pipeline: CompletionPipeline) -> None:
    async def run() -> None:
        async with tools.served(tools.app(pipeline)) as client:
            for path in PATHS:
                assert (await client.get(path)).status_code == 200, path
                for headers, status, kind in (
                    ({"Host": "evil.example"}, 421, "wrong-host"),
                    ({"Origin": "http://evil.example"}, 403, "cross-origin"),
                ):
                    refused = await client.get(path, headers=headers)
                    assert refused.status_code == status, path
                    assert refused.json()["type"].endswith(kind)
                    assert refused.headers["x-request-id"] == refused.json()["request_id"]
            asked = {"json": {"items": []}, "headers": {"Origin": "http://evil.example"}}
            assert (await client.post("/v1/complete", **asked)).status_code == 403
            preflight = {"Origin": "http://evil.example", "Access-Control-Request-Method": "POST"}
            assert (await client.options("/v1/complete", headers=preflight)).status_code == 403

    asyncio.run(run())


def test_a_website_that_is_allowed_may_ask(tools: Any, pipeline: CompletionPipeline) -> None:
    settings = ServerSettings(allowed_origins=("https://shop.example",))

    async def run() -> None:
        async with tools.served(tools.app(pipeline, settings=settings)) as client:
            client.headers["Origin"] = "https://shop.example"
            wish = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "content-type"}
            preflight = await client.options("/v1/complete", headers=wish)
            answer = await client.post("/v1/complete", json={"items": []})
            for each in (preflight, answer):
                assert each.status_code == 200
                assert each.headers["access-control-allow-origin"] == "https://shop.example"

    asyncio.run(run())


def test_answers_are_neither_kept_nor_taken_for_another_type(tools: Any, pipeline: CompletionPipeline) -> None:
    async def run() -> None:
        async with tools.served(tools.app(pipeline)) as client:
            for path in (*PATHS, "/nothing", "/v1/complete"):
                headers = (await client.get(path)).headers
                assert headers.get_list("x-content-type-options") == ["nosniff"], path
                is_file = path in ("/", "/static/page.js")
                assert headers.get_list("cache-control") == ["no-cache" if is_file else "no-store"], path

    asyncio.run(run())


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ([], 415),
        ([("Content-Type", "text/plain")], 415),
        ([("Content-Type", "application/x-www-form-urlencoded")], 415),
        ([("Content-Type", "multipart/form-data; boundary=x")], 415),
        ([("Content-Type", "text/json")], 415),
        ([("Content-Type", "application/jsonp")], 415),
        ([("Content-Type", "text/plain"), ("Content-Type", "application/json")], 415),
        ([("Content-Type", "application/json"), ("Content-Encoding", "gzip")], 415),
        ([("Content-Type", "application/json")], 200),
        ([("Content-Type", "Application/JSON; charset=utf-8")], 200),
    ],
)
@pytest.mark.parametrize("url", ["/v1/complete", "/v1/admin/stock"])
def test_a_body_says_that_it_is_json(
    tools: Any, pipeline: CompletionPipeline, url: str, headers: list[tuple[str, str]], status: int
) -> None:
    async def run() -> int:
        settings = ServerSettings(api_key=tools.key if "admin" in url else None)
        async with tools.served(tools.app(pipeline, settings=settings)) as client:
            del client.headers["Content-Type"]
            request = client.build_request("POST", url, content=b"{}", headers=[*headers, ("X-API-Key", tools.key)])
            return (await client.send(request)).status_code

    assert asyncio.run(run()) == status


@pytest.mark.parametrize(
    "wrong",
    [
        {"allowed_hosts": ("http://shop.example",)},
        {"allowed_hosts": ("shop.example/",)},
        {"allowed_hosts": ("",)},
        {"allowed_origins": ("shop.example",)},
        {"allowed_origins": ("*",)},
        {"allowed_origins": ("https://shop.example/page",)},
    ],
)
def test_what_is_no_host_or_origin_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match=next(iter(wrong))):
        ServerSettings(**wrong)


def test_a_server_for_everybody_needs_a_key_or_its_names() -> None:
    key, names = {"api_key": "k" * 20}, {"allowed_hosts": ("shop.example",)}
    for host in ("0.0.0.0", "::", ""):
        with pytest.raises(ConfigurationError, match="without a key everybody"):
            exposure(ServerSettings(), host)
        assert exposure(ServerSettings(**key), host) == []
        assert "No key is set" in exposure(ServerSettings(**names), host)[0]
    assert "No key is set" in exposure(ServerSettings(), "192.168.0.9")[0]
    for host in ("127.0.0.1", "::1", "localhost", "127.0.0.2"):
        assert exposure(ServerSettings(), host) == []


def test_nothing_listens_where_a_key_is_missing(tools: Any, pipeline: CompletionPipeline) -> None:
    from contextual_bert.server import serve

    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with pytest.raises(ConfigurationError, match="without a key everybody"):
        serve(tools.app(pipeline), host="0.0.0.0", port=port)
