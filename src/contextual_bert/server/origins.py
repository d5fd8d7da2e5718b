"""Checks of Host and Origin: the server that a request is meant for, and the page that sent it.

A page of any website can let the browser of its reader ask a server of the reader's machine. After DNS rebinding the
browser even takes the answers for the page's own. Such a request names the website in Host or in Origin.
"""

import ipaddress
import re
from collections.abc import Iterable, Mapping, MutableMapping, Sequence
from functools import lru_cache
from typing import Any

from contextual_bert.errors import ConfigurationError
from contextual_bert.server.problems import ProblemError
from contextual_bert.server.process import ProcessState

# No website can be called so: browsers resolve these names themselves.
LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
ANY = "*"
_DEFAULT_PORTS = {"http": 80, "https": 443}
_AUTHORITY = re.compile(r"(?P<name>\[[0-9a-fA-F:.]+\]|[A-Za-z0-9._~-]+)(?::(?P<port>\d{1,5}))?")
_ORIGIN = re.compile(r"(?P<scheme>https?)://(?P<authority>[^/]+)")
_FOREIGN = frozenset({b"cross-site", b"same-site"})


def split_authority(text: str) -> tuple[str, int | None] | None:
    """Return name and port of a Host header, None where it is neither a name nor an address.

    Example:
        >>> split_authority("Shop.Example:8000"), split_authority("[::1]:80"), split_authority("a b")
        (('shop.example', 8000), ('::1', 80), None)
    """
    if (found := _AUTHORITY.fullmatch(text.strip())) is None:
        return None
    name = found["name"].strip("[]").rstrip(".").lower()
    return _plain_address(name), int(found["port"]) if found["port"] else None


def check_hosts(hosts: Iterable[str]) -> None:
    """Raise ConfigurationError unless each is a name, ``*.name``, an address, or ``*``; a port may follow."""
    for host in hosts:
        if host != ANY and split_authority(host.removeprefix("*.")) is None:
            raise ConfigurationError(
                f"allowed_hosts has {host!r}, which is no host",
                allowed="Allowed: a name or an address, *.name for all below a name, * for all; a port may follow.",
                fix="Give 'shop.example', for instance.",
            )


def check_origins(origins: Iterable[str]) -> None:
    """Raise ConfigurationError unless each is a scheme, a name and perhaps a port."""
    for origin in origins:
        found = _ORIGIN.fullmatch(origin)
        if found is None or split_authority(found["authority"]) is None:
            raise ConfigurationError(
                f"allowed_origins has {origin!r}, which is no origin",
                allowed="Allowed: a scheme, a name and perhaps a port.",
                fix="Give 'https://shop.example', for instance.",
            )


class OriginCheck:
    """The hosts that a server answers for, and the websites whose pages may ask it.

    Args:
        hosts: allowed beside the server's own, as ``check_hosts`` takes them. Their pages under https are the server's.
        origins: allowed beside the server's own, as ``check_origins`` takes them.
        process: says where the server is bound.
    """

    def __init__(self, hosts: Sequence[str], origins: Sequence[str], process: ProcessState) -> None:
        self._hosts, self._process = tuple(hosts), process
        self._origins = frozenset(each.lower() for each in origins)

    def check(self, scope: MutableMapping[str, Any], headers: Mapping[bytes, bytes]) -> None:
        """Let a request pass.

        Raises:
            ProblemError: it is meant for another host, or a page of another website sent it.
        """
        host = headers.get(b"host", b"").decode("latin-1")
        if host or scope.get("http_version") != "1.0":  # which no browser speaks
            self._check_host(host, scope)
        given = scope.get("headers") or [*headers.items()]
        origins = [value.decode("latin-1") for name, value in given if name == b"origin"]
        sites, modes = (
            {value for name, value in given if name == each} for each in (b"sec-fetch-site", b"sec-fetch-mode")
        )
        if len(origins) > 1:  # each of two servers could take another one for the page
            raise _foreign(f"it has {len(origins)} Origins")
        if origins:
            self._check_origin(origins[0], host)
        elif sites & _FOREIGN and modes != {b"navigate"}:
            # A link to the server may be followed; a picture or a script of another website gets nothing.
            raise _foreign("it is part of a page of another website")

    def _check_host(self, host: str, scope: MutableMapping[str, Any]) -> None:
        found = split_authority(host)
        if ANY in self._hosts:
            return
        if found is not None:
            name, _ = found
            server = (scope.get("server") or ("", None))[0] or ""
            own = {_plain_address(server.lower()), (self._process.bound_host or "").lower()}
            if name in LOOPBACK or name in own or any(_is_allowed(found, each) for each in self._hosts):
                return
        raise ProblemError(
            "wrong-host",
            f"The Host {host[:80]!r} is not one of this server. Allowed: the address it listens on, localhost, and "
            "what --allow-host (allowed_hosts) names. Start the server with --allow-host NAME if the name is right.",
        )

    def _check_origin(self, origin: str, host: str) -> None:
        if origin.lower() in self._origins:
            return
        found = _ORIGIN.fullmatch(origin.lower())
        own, theirs = split_authority(host), split_authority(found["authority"]) if found is not None else None
        if found is not None and own is not None and theirs is not None:
            default = _DEFAULT_PORTS[found["scheme"]]
            if own[0] == theirs[0] and (own[1] or default) == (theirs[1] or default):
                return
            # Behind a proxy that ends TLS, Host may be the address of this process, or lack the port.
            port = theirs[1] or default
            is_named = any(each != ANY and _is_allowed((theirs[0], port), each) for each in self._hosts)
            if found["scheme"] == "https" and is_named:
                return
        raise _foreign(f"its Origin is {origin[:80]!r}")


@lru_cache(1024)
def _plain_address(name: str) -> str:
    """Return an address in its usual form, an IPv4 one without its IPv6 clothes; a name as it is."""
    try:
        address = ipaddress.ip_address(name)
    except ValueError:
        return name
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return str(mapped or address)


def _is_allowed(found: tuple[str, int | None], allowed: str) -> bool:
    wanted = split_authority(allowed.removeprefix("*."))
    if wanted is None or (wanted[1] is not None and wanted[1] != found[1]):
        return False
    return found[0].endswith(f".{wanted[0]}") if allowed.startswith("*.") else found[0] == wanted[0]


def _foreign(why: str) -> ProblemError:
    return ProblemError(
        "cross-origin",
        f"The request comes from another website: {why}. Allowed: pages of this server, and what --allow-origin "
        "(allowed_origins) names. Start the server with --allow-origin if the website is yours.",
    )
