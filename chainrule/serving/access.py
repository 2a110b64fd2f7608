"""Access control, before any route: the Host and Origin headers, the API key, the announced length of the body.

Pages of other sites must not reach a server on this machine. The Host header reveals a foreign name that points here
(DNS rebinding), the Origin header a request that a foreign page makes. Starlette's TrustedHostMiddleware takes only a
list of names: no rule for "any address", no IPv6, and its refusals are plain text rather than OpenAI's JSON.
"""

import base64
import hmac
import ipaddress
from collections.abc import Collection
from dataclasses import dataclass

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from chainrule.serving.errors import APIError, error_response
from chainrule.serving.json_route import MOST_BYTES, too_large

LOOPBACK = ("localhost", "127.0.0.1", "::1")
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
class AccessPolicy:
    """Which requests are allowed. A server that listens beyond loopback accepts any IP address in the Host header, but
    only the names that are listed.
    """

    host: str = "127.0.0.1"
    names: Collection[str] = ()  # further names of this server
    key: str | None = None

    @property
    def is_local(self) -> bool:
        return self.host in LOOPBACK

    def check(self, headers: Headers) -> None:
        self._check_host(headers.get("host", ""))
        self._check_origin(headers)
        if self.key is not None and not self._has_key(headers.get("authorization", "")):
            raise APIError(
                401, "this server requires an API key; send it as: Authorization: Bearer KEY", "invalid_api_key"
            )
        length = headers.get("content-length", "0")
        if not length.isdecimal() or len(length) > 18:
            raise APIError(400, "the Content-Length header is not a whole number")
        if int(length) > MOST_BYTES:
            raise too_large()

    def _check_host(self, header: str) -> None:
        name = _name(header)
        if name in LOOPBACK or name == self.host.lower() or name in self.names:
            return
        if self.is_local or not _is_address(name):
            raise APIError(
                400, "the Host header names another server; to accept it, start this one with --allow-host NAME", "host"
            )

    def _check_origin(self, headers: Headers) -> None:
        origin = headers.get("origin")
        if origin is not None and origin.lower().partition("://")[2] != headers.get("host", "").lower():
            raise APIError(400, "cross-origin requests are refused", "origin")

    def _has_key(self, header: str) -> bool:
        """Whether an Authorization header has the key, as a bearer token or as the password of basic authentication."""
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


class AccessMiddleware:
    """Applies the policy, and adds to every response the security headers that restrict what a browser may do."""

    def __init__(self, app: ASGIApp, policy: AccessPolicy):
        self.app, self.policy = app, policy

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        try:
            self.policy.check(Headers(scope=scope))
        except APIError as error:
            await error_response(error)(scope, receive, send_with_headers)
            return
        await self.app(scope, receive, send_with_headers)
