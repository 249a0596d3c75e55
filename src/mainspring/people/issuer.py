"""An issuer of OpenID Connect over HTTP: what it says of itself, its keys, and the tokens that it gives out.

What it says of itself is kept in a file for a day, so that a command need not ask. A token that names an
unknown key has the keys fetched again, once, because issuers change theirs. Every address must be https,
unless it is on this machine.
"""

from __future__ import annotations

import asyncio
import base64
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

import msgspec

from mainspring.disk.files import make_folder, write_private
from mainspring.disk.untrusted import read_untrusted_text
from mainspring.errors import MainspringError, UsageError
from mainspring.events.decoding import DECODE_ERRORS
from mainspring.net.client import WholeAnswer, send_request
from mainspring.net.hosts import is_loopback
from mainspring.people.settings import LoginSettings
from mainspring.people.signed_tokens import Expected, IssuerKey, KeyNotKnown, checked_claims, issuer_keys

_WELL_KNOWN = "/.well-known/openid-configuration"
_KEPT_S = 24 * 3600.0
_REFETCH_S = 30.0
_TIMEOUT_S = 20.0
_MAX_BYTES = 1 << 20


class IssuerFailed(MainspringError):
    """The issuer cannot be asked, or answers what it should not."""


class TokensRefused(Exception):
    """The issuer gives no tokens for what it was shown; `code` says why, as OAuth names it."""

    def __init__(self, code: str, said: str = "") -> None:
        super().__init__(said or code)
        self.code = code


class IssuerFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What an issuer says of itself (OpenID Connect Discovery)."""

    issuer: str
    authorization_endpoint: str = ""
    token_endpoint: str = ""
    jwks_uri: str = ""
    device_authorization_endpoint: str = ""
    revocation_endpoint: str = ""
    scopes_supported: tuple[str, ...] = ()
    authorization_response_iss_parameter_supported: bool = False


class GivenTokens(msgspec.Struct, frozen=True, kw_only=True):
    """An answer of the token endpoint."""

    id_token: str = ""
    refresh_token: str = ""


class DeviceCode(msgspec.Struct, frozen=True, kw_only=True):
    """Where a person enters which code (RFC 8628)."""

    device_code: str
    user_code: str
    verification_uri: str
    verification_uri_complete: str = ""
    expires_in: float = 600.0
    interval: float = 5.0


class _OAuthError(msgspec.Struct, frozen=True):
    error: str = ""
    error_description: str = ""


class _Kept(msgspec.Struct, frozen=True, kw_only=True):
    facts: IssuerFacts
    keys: tuple[IssuerKey, ...]
    asked_s: float


class Issuer:
    """The issuer of the settings. `file` keeps what it says of itself."""

    def __init__(
        self,
        settings: LoginSettings,
        environment: Mapping[str, str],
        file: Path,
        clock: Callable[[], float] = time.time,
    ) -> None:
        if not settings.issuer or not settings.client_id:
            raise UsageError(
                "No issuer is set that people could log in at.",
                remedy="Set it: mainspring config set login.issuer URL, and login.client_id ID",
            )
        _check_address(settings.issuer, "the issuer")
        self.settings = settings
        self._environment, self._file, self._clock = environment, file, clock
        self._known: _Kept | None = None
        self._refetched_s = float("-inf")
        self._fetching = asyncio.Lock()

    async def facts(self) -> IssuerFacts:
        return (await self._kept()).facts

    async def checked(self, token: str, expected: Expected) -> dict[str, Any]:
        """What a token of this issuer says; `TokenRefused` when it proves nothing."""
        kept = await self._kept()
        try:
            return checked_claims(token, kept.keys, expected, self._clock())
        except KeyNotKnown:
            if self._clock() - self._refetched_s < _REFETCH_S:  # who invents keys must not make us ask
                raise
        self._refetched_s = self._clock()
        return checked_claims(token, (await self._fetched(kept)).keys, expected, self._clock())

    async def tokens(self, form: Mapping[str, str]) -> GivenTokens:
        """Exchanges what we have for tokens; `TokensRefused` when the issuer does not give any."""
        answer = await self._post((await self.facts()).token_endpoint, form)
        return _decoded(answer.body, GivenTokens, "tokens")

    async def device_code(self, scope: str) -> DeviceCode:
        address = (await self.facts()).device_authorization_endpoint
        if not address:
            raise UsageError(
                f"{self.settings.issuer} does not offer to log in with a code.",
                remedy="Log in with a browser: mainspring login",
            )
        return _decoded((await self._post(address, {"scope": scope})).body, DeviceCode, "a code")

    async def revoke(self, token: str) -> bool:
        """Ends a refresh token at the issuer; False when it offers no such thing."""
        address = (await self.facts()).revocation_endpoint
        if address:
            await self._post(address, {"token": token, "token_type_hint": "refresh_token"})
        return bool(address)

    async def _kept(self) -> _Kept:
        kept = self._known or self._read()
        if kept is None or not 0 <= self._clock() - kept.asked_s < _KEPT_S:
            kept = await self._fetched(kept)
        self._known = kept
        return kept

    async def _fetched(self, before: _Kept | None) -> _Kept:
        """Asks the issuer, unless another task has since."""
        async with self._fetching:
            if self._known is not None and self._known is not before:
                return self._known
            address = self.settings.issuer.rstrip("/") + _WELL_KNOWN
            facts = _decoded((await self._get(address)).body, IssuerFacts, "what it says of itself")
            if facts.issuer != self.settings.issuer:
                raise IssuerFailed(
                    f"The issuer at {self.settings.issuer} calls itself {facts.issuer}.",
                    remedy="Set login.issuer to what it calls itself, if that is whom you mean.",
                )
            try:
                keys = issuer_keys((await self._get(facts.jwks_uri)).body)
            except (msgspec.MsgspecError, TypeError, RecursionError) as error:
                raise IssuerFailed(f"The keys of {facts.issuer} cannot be read.") from error
            self._known = _Kept(facts=facts, keys=keys, asked_s=self._clock())
            make_folder(self._file.parent)
            write_private(self._file, msgspec.json.encode(self._known), is_synced=False)
            return self._known

    def _read(self) -> _Kept | None:
        try:
            kept = msgspec.json.decode(read_untrusted_text(self._file, max_bytes=_MAX_BYTES), type=_Kept)
        except (OSError, msgspec.MsgspecError):  # a cache
            return None
        return kept if kept.facts.issuer == self.settings.issuer else None

    async def _get(self, url: str) -> WholeAnswer:
        answer = await self._send("GET", url, {}, b"")
        if answer.status != 200:
            raise IssuerFailed(f"{self.settings.issuer} answered {answer.status} at {url}.")
        return answer

    async def _post(self, url: str, form: Mapping[str, str]) -> WholeAnswer:
        """As our client: with its secret in a header where it has one, else with its name alone."""
        headers = {"content-type": "application/x-www-form-urlencoded"}
        secret = self._environment.get(self.settings.client_secret_variable, "")
        if secret:
            pair = f"{quote(self.settings.client_id, safe='')}:{quote(secret, safe='')}"
            headers["authorization"] = f"Basic {base64.b64encode(pair.encode()).decode()}"
        else:
            form = {**form, "client_id": self.settings.client_id}
        answer = await self._send("POST", url, headers, urlencode(form).encode())
        if answer.status == 200:
            return answer
        if 400 <= answer.status < 500:
            refused = _decoded(answer.body, _OAuthError, "tokens or an error")
            if refused.error:
                raise TokensRefused(refused.error, refused.error_description)
        raise IssuerFailed(f"{self.settings.issuer} answered {answer.status} at {url}.")

    async def _send(self, method: str, url: str, headers: Mapping[str, str], body: bytes) -> WholeAnswer:
        _check_address(url, f"an address that {self.settings.issuer} names")
        try:
            return await send_request(
                method,
                url,
                environment=self._environment,
                headers={"accept": "application/json", **headers},
                body=body,
                timeout_s=_TIMEOUT_S,
            )
        except (OSError, ValueError) as error:
            raise IssuerFailed(
                f"The issuer {self.settings.issuer} cannot be reached: {error or type(error).__name__}.",
                remedy="Check the network, and login.issuer in the settings.",
            ) from error


def _check_address(url: str, what: str) -> None:
    parts = urlsplit(url)
    is_here = parts.scheme == "http" and is_loopback(parts.hostname or "")
    if not parts.hostname or not (parts.scheme == "https" or is_here):
        raise IssuerFailed(
            f"{url!r}, {what}, is neither https nor on this machine.",
            remedy="Who is on the way could log in as anybody; use an address with https.",
        )


def _decoded(body: bytes, kind: type[Any], what: str) -> Any:
    try:
        return msgspec.json.decode(body, type=kind)
    except DECODE_ERRORS as error:
        raise IssuerFailed(f"The issuer did not answer with {what}.") from error
