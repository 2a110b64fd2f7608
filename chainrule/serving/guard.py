"""What every request passes first: the name it asks for, where it comes from, its key, and how long it is.

A page of another site must not reach a server on this machine: a name of its own that it points here (DNS rebinding) is
told by the Host header, a request that it makes to ours by the Origin header.
"""

import base64
import hmac
import ipaddress
from collections.abc import Collection
from dataclasses import dataclass

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from chainrule.serving.problems import Problem

LOOPBACK = ("localhost", "127.0.0.1", "::1")
MOST_BYTES = 4 << 20  # of one request's body
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


@dataclass(frozen=True)
class Door:
    """Who is let in. Bound to another address than loopback, any address is one of ours, but not any name."""

    host: str = "127.0.0.1"
    names: Collection[str] = ()  # further names under which the server is known
    key: str | None = None

    @property
    def is_local(self) -> bool:
        return self.host in LOOPBACK

    def check(self, headers: Headers) -> None:
        self._check_host(headers.get("host", ""))
        self._check_origin(headers)
        if self.key is not None and not self._has_key(headers.get("authorization", "")):
            raise Problem(401, "this server wants its key: Authorization: Bearer KEY", "invalid_api_key")
        length = headers.get("content-length", "0")
        if not length.isdecimal() or len(length) > 18:
            raise Problem(400, "the Content-Length header is not a whole number")
        if int(length) > MOST_BYTES:
            raise too_large()

    def _check_host(self, header: str) -> None:
        name = _name(header)
        if name in LOOPBACK or name == self.host.lower() or name in self.names:
            return
        if self.is_local or not _is_address(name):
            raise Problem(400, "the Host header is not a name of this server; start it with --allow-host NAME", "host")

    def _check_origin(self, headers: Headers) -> None:
        origin = headers.get("origin")
        if origin is not None and origin.lower().partition("://")[2] != headers.get("host", "").lower():
            raise Problem(400, "requests from pages of other sites are refused", "origin")

    def _has_key(self, header: str) -> bool:
        """As a bearer token, or as the password that a browser asks for."""
        assert self.key is not None
        kind, _, given = header.partition(" ")
        if kind.lower() == "basic":
            try:
                given = base64.b64decode(given, validate=True).decode().partition(":")[2]
            except ValueError:
                return False
        elif kind.lower() != "bearer":
            return False
        return hmac.compare_digest(given.strip().encode(errors="replace"), self.key.encode())


def too_large() -> Problem:
    return Problem(413, f"the request's body is larger than {MOST_BYTES >> 20} MiB", "too_large")


def _name(host: str) -> str:
    """'localhost:8000' -> 'localhost', '[::1]:8000' -> '::1'."""
    if host.startswith("["):
        return host[1:].partition("]")[0].lower()
    return host.rpartition(":")[0].lower() if ":" in host else host.lower()


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


class Guard:
    """Every answer leaves with the headers that keep a browser from doing what the page does not need."""

    def __init__(self, app: ASGIApp, door: Door):
        self.app, self.door = app, door

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        try:
            self.door.check(Headers(scope=scope))
        except Problem as problem:
            await answer(problem)(scope, receive, send_guarded)
            return
        await self.app(scope, receive, send_guarded)


def answer(problem: Problem) -> JSONResponse:
    return JSONResponse(problem.to_json(), problem.status, problem.headers)
