"""How somebody gets in at the page: with a token, with a code that an owner made, or by the issuer of the
settings; and links of which each answers one question without a login."""

from __future__ import annotations

from functools import partial

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from mainspring.app.dispatch import CommandCall, log_command, log_wrong_token
from mainspring.app.operations.device_roles import Device, asked_by
from mainspring.app.operations.devices import Access
from mainspring.app.operations.issued_tokens import issued_tokens
from mainspring.app.operations.page_logins import PageLogins
from mainspring.errors import AccessRefused, UsageError
from mainspring.people.roles import Permission
from mainspring.serve.answer_links import FILES, AnswerLinks, LinkAnswer, LinkCode, link_file
from mainspring.serve.bodies import json_answer, read_json
from mainspring.serve.guard import COOKIE, client_address, page_key, refused, token_of
from mainspring.serve.routes import PREFIX
from mainspring.settings import Config

_LOGIN, _PAIR, _LOGOUT = f"{PREFIX}/login", f"{PREFIX}/pair", f"{PREFIX}/logout"
_ISSUER, _BEGIN, _FINISH = f"{_LOGIN}/issuer", f"{_LOGIN}/begin", f"{_LOGIN}/finish"
_LINK, _LINK_ANSWER = f"{PREFIX}/link", f"{PREFIX}/link/answer"
_LINK_PATHS = {"/answer": FILES[0], **{f"/answer/{name}": name for name in FILES[1:]}}
_COOKIE_AGE_S = 365 * 24 * 3600
ENTRANCES = (_LOGIN, _PAIR, _BEGIN, _FINISH, _LINK, _LINK_ANSWER)
"""Where a token or a code is tried, or another server is asked."""
PUBLIC = (*ENTRANCES, _LOGOUT, _ISSUER, *_LINK_PATHS)


class _Entered(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    token: str


class _PairingAsked(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    code: str
    name: str = "a device"


class _Came(msgspec.Struct, frozen=True, kw_only=True):
    """With what a browser came back from an issuer."""

    given: dict[str, str]


class Entrances:
    """`access` knows tokens and codes, `links` what one answers; `is_secure` is a server with https."""

    def __init__(self, config: Config, access: Access, links: AnswerLinks, *, is_secure: bool) -> None:
        self._config, self._access, self._links, self._is_secure = config, access, links, is_secure
        self.logins, self.vouched, self.tunnel = PageLogins(config), issued_tokens(config), ""

    def routes(self) -> list[Route]:
        return [
            Route(_LOGIN, self._login, methods=["POST"]),
            Route(_ISSUER, self._issuer, methods=["GET"]),
            Route(_BEGIN, self._begin, methods=["POST"]),
            Route(_FINISH, self._finish, methods=["POST"]),
            Route(_PAIR, self._pair, methods=["POST"]),
            Route(_LOGOUT, self._logout, methods=["POST"]),
            Route(_LINK, self._link, methods=["POST"]),
            Route(_LINK_ANSWER, self._link_answer, methods=["POST"]),
            *(Route(path, partial(_link_file, name), methods=["GET"]) for path, name in _LINK_PATHS.items()),
        ]

    async def _login(self, request: Request) -> Response:
        token = (await read_json(request, _Entered)).token
        device = self._access.holder(token)
        if device is None:
            await log_wrong_token(self._config, "web", client_address(request.scope), _LOGIN)
            return refused(
                401, "This token is not known.", remedy="`mainspring serve` prints the server's own."
            )
        return self._with_cookie(request, {"name": device.name, "role": device.role}, token)

    async def _issuer(self, _: Request) -> Response:
        return json_answer({"issuer": self.logins.place})

    async def _begin(self, request: Request) -> Response:
        """Where the page goes now; it keeps the state, by which it knows what it comes back with."""
        if not (origin := request.headers.get("origin", "")):
            raise UsageError("Only the page can log in by an issuer.", remedy="Programs: mainspring login")
        asked = await self.logins.begin(f"{origin}/")
        return json_answer({"address": asked.address, "state": asked.state})

    async def _finish(self, request: Request) -> Response:
        came = (await read_json(request, _Came)).given
        try:
            token, issued = await self.logins.finish(came)
            device = await self.vouched(issued) if self.vouched else None
        except AccessRefused as error:
            address = client_address(request.scope)
            await log_wrong_token(self._config, "web", address, _FINISH, error.message)
            raise
        assert device is not None  # noqa: S101 - its signature was checked
        await self._log(request, device, "login", "a login at the issuer", {})
        return self._with_cookie(request, {"name": device.name, "role": device.role}, token)

    async def _pair(self, request: Request) -> Response:
        given = await read_json(request, _PairingAsked)
        paired = self._access.pair(given.code, given.name)
        if paired is None:
            await log_wrong_token(self._config, "web", client_address(request.scope), _PAIR)
            return refused(
                401,
                "This code is not known, was used, or is too old.",
                remedy="Pair again: codes last 90 seconds.",
            )
        told = {"name": paired.device.name, "role": paired.device.role}
        await self._log(request, paired.device, "devices pair", "a code that an owner made", told)
        return self._with_cookie(request, {**told, "token": paired.token}, paired.token)

    async def _logout(self, request: Request) -> Response:
        self.logins.forget(token_of(request.headers))
        response = json_answer({})
        response.delete_cookie(COOKIE, path="/")
        return response

    async def _link(self, request: Request) -> Response:
        found = await self._links.show((await read_json(request, LinkCode)).code)
        return _bad_link() if found is None else json_answer(found)

    async def _link_answer(self, request: Request) -> Response:
        is_taken = await self._links.answer(await read_json(request, LinkAnswer))
        return json_answer({}) if is_taken else _bad_link()

    async def _log(
        self, request: Request, device: Device, operation: str, rule: str, arguments: dict[str, str]
    ) -> None:
        call = CommandCall(
            operation=operation,
            permission=Permission(is_allowed=True, rule=rule),
            address=client_address(request.scope),
            arguments=arguments,
        )
        await log_command(asked_by(self._config, device, "web"), call)

    def _with_cookie(self, request: Request, told: dict[str, str], token: str) -> Response:
        """The answer to a login, with the key that the page keeps; through a tunnel it is https outside."""
        response = json_answer({**told, "key": page_key(token)})
        is_tunnel = request.headers.get("host", "").lower() == self.tunnel.partition("://")[2]
        response.set_cookie(
            COOKIE,
            token,
            max_age=_COOKIE_AGE_S,
            path="/",
            secure=self._is_secure or (is_tunnel and self.tunnel.startswith("https:")),
            httponly=True,
            samesite="strict",
        )
        return response


def _bad_link() -> Response:
    return refused(401, "This link was used, or is too old.", remedy="Answer at the page or a terminal.")


async def _link_file(name: str, _: Request) -> Response:
    data, kind = link_file(name)
    return Response(data, media_type=kind)
