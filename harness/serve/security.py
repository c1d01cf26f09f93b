"""Rules for every answer: allowed clients and hosts, and what a browser may do with a page."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Mapping
from contextlib import suppress
from http.cookies import CookieError, SimpleCookie

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

LOGIN = "/login"
ICON = "/favicon.ico"
OPEN_PATHS = (LOGIN, "/style.css", ICON)  # answered without a token
URL_BYTES_MAX = 8192
METHODS = ("GET", "HEAD")
LOOPBACK = ("127.0.0.1", "localhost", "::1")
HEADERS = {
    "content-security-policy": (
        "default-src 'none'; style-src 'self'; img-src 'self' data:; form-action 'self'; "
        "base-uri 'none'; frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "same-origin",
    "cache-control": "no-store",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}
# For a page from a run's folder: its scripts run, but as those of a foreign site that can request nothing.
SANDBOXED = (
    "sandbox allow-scripts allow-downloads allow-modals; default-src 'none'; script-src 'unsafe-inline'; "
    "style-src 'unsafe-inline'; img-src data:; font-src data:; frame-ancestors 'none'"
)


class TokenCheck:
    """Compares a client's secret with the token, in constant time."""

    def __init__(self, token: str, port: int) -> None:
        """`port` is part of the cookie's name, since browsers send a host's cookies to all its ports."""
        self._token = _digest(token)
        self._secret = secrets.token_bytes(32)  # another server cannot use the cookie
        self.cookie_name = f"staticfire_{port}"

    @property
    def cookie(self) -> str:
        """The cookie's value, which stands for the token."""
        return hmac.new(self._secret, self._token, hashlib.sha256).hexdigest()

    def is_token(self, given: str) -> bool:
        """Whether text is the token."""
        return hmac.compare_digest(_digest(given), self._token)

    def allows(self, headers: Mapping[str, str]) -> bool:
        """Whether a request has the token, as `Authorization: Bearer`, or the cookie."""
        scheme, _, given = headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer" and self.is_token(given.strip()):
            return True
        try:
            cookies = SimpleCookie(headers.get("cookie", ""))
        except CookieError:
            return False
        found = cookies.get(self.cookie_name)
        return found is not None and hmac.compare_digest(_digest(found.value), _digest(self.cookie))


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode(errors="surrogatepass")).digest()


class Guard:
    """Guards the pages. Without a token it answers only requests for a loopback name (DNS rebinding)."""

    def __init__(self, app: ASGIApp, token: TokenCheck | None) -> None:
        self._app, self._token = app, token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, or hand the request on."""
        if scope["type"] != "http":
            return

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        refusal = self._refusal(scope)
        # The failure has been answered and printed. Raised further, it would print a traceback.
        with suppress(Exception):
            await (refusal or self._app)(scope, receive, send_guarded)

    def _refusal(self, scope: Scope) -> Response | None:
        headers, path = Headers(scope=scope), scope["path"]
        if len(scope.get("raw_path") or b"") + len(scope["query_string"]) > URL_BYTES_MAX:
            return PlainTextResponse("The address is too long.\n", 414)
        if self._token is None:
            if _host_name(headers.get("host", "")) not in LOOPBACK:
                text = "This server answers for localhost only; --token allows other names.\n"
                return PlainTextResponse(text, 421)
        elif path not in OPEN_PATHS and not self._token.allows(headers):
            if "text/html" in headers.get("accept", ""):
                return RedirectResponse(LOGIN, 303)
            return PlainTextResponse(
                "A token is needed.\n", 401, {"WWW-Authenticate": 'Bearer realm="staticfire"'}
            )
        if scope["method"] not in METHODS and not (path == LOGIN and scope["method"] == "POST"):
            return PlainTextResponse("The method is not allowed.\n", 405, {"Allow": "GET, HEAD"})
        return None


def _host_name(host: str) -> str:
    """The name of a Host header, without the port."""
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0].lower()
