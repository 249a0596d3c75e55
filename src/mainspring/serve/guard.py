"""What every request to a server of ours passes before anything else looks at it.

Host and Origin are checked (a page elsewhere, or a name that was made to point here, gets nothing), bodies
are bounded, the token is looked up, and answers carry headers that forbid foreign code. It is default deny:
a path that is not listed as public needs a token. A cookie alone is none: browsers send it to every port of a
machine, also to a server that an agent runs there; it counts together with a key that the page keeps for
itself. Which role an operation needs is said where it is declared (`api.py`); the guard says who asks, in
`scope["state"]["device"]`.
"""

from __future__ import annotations

import hashlib
import hmac
import time
from collections import deque
from collections.abc import Awaitable, Callable, Collection
from http.cookies import CookieError, SimpleCookie

import msgspec
from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from mainspring.app.operations.device_roles import Device
from mainspring.app.operations.devices import Access
from mainspring.errors import AccessRefused, MainspringError

COOKIE, PAGE_KEY = "mainspring", "x-mainspring-key"
MAX_BODY_BYTES = 1 << 20
_HEADERS = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self';"
    " img-src 'self' data: blob:; connect-src 'self'; manifest-src 'self'; worker-src 'self';"
    " base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}
_FAILURES, _FAILURES_WITHIN_S, _ADDRESSES = 8, 60.0, 1000


class Allowed(msgspec.Struct, frozen=True, kw_only=True):
    """What the guard lets through: `hosts` as a Host header may name them (with the port), `public` paths
    that need no token, and `entrances` where a token or a code is tried, which are slowed down for who
    guesses. `tunnel` is the address of one that leads here, of another scheme perhaps."""

    hosts: Collection[str]
    scheme: str = "http"
    tunnel: str = ""
    public: Collection[str] = ()
    entrances: Collection[str] = ()


class Guard:
    """ASGI middleware around everything that a server of ours answers."""

    def __init__(
        self,
        app: ASGIApp,
        access: Access,
        allowed: Allowed,
        clock: Callable[[], float] = time.monotonic,
        on_wrong_token: Callable[[str, str, str], Awaitable[None]] | None = None,
        vouched: Callable[[str], Awaitable[Device | None]] | None = None,
        issued: Callable[[str], str] = lambda _: "",
    ) -> None:
        """`on_wrong_token` is told from where, for what and why it was refused; `vouched` says who has a
        token that is none of ours, or raises, and `issued` which one a page's token means."""
        self._on_wrong_token, self._vouched, self._issued = on_wrong_token, vouched, issued
        self._app = app
        self._access = access
        self._allowed = allowed
        self._tries = _Tries(clock)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
        elif scope["type"] == "http":
            await self._answer(scope, receive, _with_headers(send))
        else:  # a WebSocket: there is none here
            await send({"type": "websocket.close", "code": 1008})

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers, path = Headers(scope=scope), scope["path"]
        refusal = self._foreign(headers) or _too_large(headers)
        address = client_address(scope)
        if refusal is None and path in self._allowed.entrances and (wait := self._tries.wait_s(address)):
            refusal = refused(429, "Too many wrong tokens or codes.", remedy=f"Try again in {wait} seconds.")
            refusal.headers["retry-after"] = str(wait)
        if refusal is None:
            token = token_of(headers)
            is_whole = _is_from_program(headers) or _has_page_key(headers, token)
            device, why = await self._holder(headers, token) if token and is_whole else (None, None)
            scope.setdefault("state", {})["device"] = device
            if device is None and path not in self._allowed.public:
                if token:
                    await self._wrong_token(address, path, why.message if why else "")
                refusal = _no_token(why)
        if refusal is not None:
            await refusal(scope, receive, send)
            return
        await self._app(scope, _bounded(receive), self._watched(send, path, address))

    async def _holder(self, headers: Headers, token: str) -> tuple[Device | None, MainspringError | None]:
        """Who has a token, or why one that an issuer would have signed is not taken."""
        device = self._access.holder(token)
        issued = token if _is_from_program(headers) else self._issued(token)
        if device is not None or self._vouched is None or not issued:
            return device, None
        try:
            return await self._vouched(issued), None
        except MainspringError as error:
            return None, error

    async def _wrong_token(self, address: str, path: str, why: str) -> None:
        """Counts a guess; of an address that guesses on and on, the first ones are logged."""
        if self._on_wrong_token is not None and not self._tries.wait_s(address):
            await self._on_wrong_token(address, path, why)
        self._tries.failed(address)

    def _foreign(self, headers: Headers) -> Response | None:
        """Another site's page, or another name for this address."""
        if headers.get("host", "").lower() not in self._allowed.hosts:
            return refused(403, "This server does not answer to that host name.", remedy=_HOST)
        origin = headers.get("origin")
        if origin is not None and origin.lower() not in {
            self._allowed.tunnel or None,
            *(f"{self._allowed.scheme}://{host}" for host in self._allowed.hosts),
        }:
            return refused(403, "Pages of other sites may not use this server.")
        is_navigation = (
            headers.get("sec-fetch-mode") == "navigate" and headers.get("sec-fetch-dest") == "document"
        )
        if headers.get("sec-fetch-site", "none") in ("cross-site", "same-site") and not is_navigation:
            return refused(403, "Pages of other sites may not use this server.")
        return None

    def _watched(self, send: Send, path: str, address: str) -> Send:
        if path not in self._allowed.entrances:
            return send

        async def watched(message: Message) -> None:
            if message["type"] == "http.response.start":
                if message["status"] == 401:
                    self._tries.failed(address)
                elif message["status"] == 200:  # what cannot be understood proves nothing
                    self._tries.forget(address)
            await send(message)

        return watched


class _Tries:
    """Wrong tokens by address, of the last minute."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._by_address: dict[str, deque[float]] = {}

    def failed(self, address: str) -> None:
        self._by_address.setdefault(address, deque(maxlen=_FAILURES)).append(self._clock())
        while len(self._by_address) > _ADDRESSES:
            self._by_address.pop(next(iter(self._by_address)))

    def forget(self, address: str) -> None:
        self._by_address.pop(address, None)

    def wait_s(self, address: str) -> int:
        """How many seconds this address has to wait; 0 when it need not."""
        tries = self._by_address.get(address)
        if not tries or len(tries) < _FAILURES:
            return 0
        return max(0, int(tries[0] + _FAILURES_WITHIN_S - self._clock()) + 1)


_TOKEN = "`mainspring serve` prints it; send it as `Authorization: Bearer TOKEN`."  # noqa: S105 - no token
_HOST = "Use the address that `mainspring serve` prints, or start it with --host NAME."


def refused(status: int, message: str, *, remedy: str = "") -> Response:
    """An error as every route gives it."""
    body = msgspec.json.encode({"error": {"message": message, "remedy": remedy}})
    response = Response(body, status, media_type="application/json")
    if status == 401:
        response.headers["www-authenticate"] = "Bearer"
    return response


def _no_token(why: MainspringError | None) -> Response:
    if why is None:
        return refused(401, "This needs the server's token, or a paired device.", remedy=_TOKEN)
    return refused(401 if isinstance(why, AccessRefused) else 503, why.message, remedy=why.remedy)


def client_address(scope: Scope) -> str:
    """The network address that a request came from."""
    return (scope.get("client") or ("",))[0]


def _too_large(headers: Headers) -> Response | None:
    length = headers.get("content-length", "0")
    if not length.isdecimal() or int(length) > MAX_BODY_BYTES:
        return refused(413, f"A body has at most {MAX_BODY_BYTES:,} bytes here.")
    return None


def _bounded(receive: Receive) -> Receive:
    """A body without a length that grows too large ends as if the client had gone."""
    left = MAX_BODY_BYTES

    async def bounded() -> Message:
        nonlocal left
        message = await receive()
        left -= len(message.get("body", b""))
        return {"type": "http.disconnect"} if left < 0 else message

    return bounded


def token_of(headers: Headers) -> str:
    """The token that a request carries, as a header of programs or as the cookie of the page."""
    scheme, _, token = headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer":
        return token.strip()
    cookies = SimpleCookie()
    try:
        cookies.load(headers.get("cookie", ""))
    except CookieError:
        return ""
    return cookies[COOKIE].value if COOKIE in cookies else ""


def page_key(token: str) -> str:
    """What the page sends beside the cookie. It is told at a login, and no other page sees it."""
    return hmac.new(token.encode("utf-8", "surrogatepass"), b"page", hashlib.sha256).hexdigest()


def _is_from_program(headers: Headers) -> bool:
    return headers.get("authorization", "").lower().startswith("bearer ")


def _has_page_key(headers: Headers, token: str) -> bool:
    return hmac.compare_digest(headers.get(PAGE_KEY, "").encode(), page_key(token).encode())


def _with_headers(send: Send) -> Send:
    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in _HEADERS.items():
                headers.setdefault(name, value)
        await send(message)

    return sending
