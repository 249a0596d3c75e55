"""Logging in at the issuer of the settings, and out: in a browser that comes back to a port of this machine
(authorization code with PKCE), or by a code that a person enters wherever they have a browser.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import secrets
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, NoReturn
from urllib.parse import urlencode

import msgspec

from mainspring.app.browser_return import VISIT_WITHIN_S, browser_return
from mainspring.app.login import (
    ID_TOKEN,
    REFRESH_TOKEN,
    Login,
    current_login,
    issuer_of,
    keep_login,
)
from mainspring.errors import AccessRefused, MainspringError, UsageError
from mainspring.people.issuer import GivenTokens, Issuer, TokensRefused
from mainspring.people.logins import expected_of, person_who
from mainspring.people.persons import Person
from mainspring.people.signed_tokens import TokenRefused
from mainspring.secrets.key_store import change_keys, read_keys
from mainspring.settings import Config

_DEVICE_GRANT = "urn:ietf:params:oauth:grant-type:device_code"
_SLOWER_S = 5.0


class LoggedIn(msgspec.Struct, frozen=True, kw_only=True):
    """A login that is stored, until when it is good by itself, and whether it is renewed then."""

    person: Person
    until_s: float
    is_renewed: bool
    place: str = ""


class AskedLogin(msgspec.Struct, frozen=True, kw_only=True):
    """A login for which somebody was sent to the issuer, at `address`, and comes `back`."""

    address: str
    back: str
    state: str
    nonce: str
    verifier: str


async def log_in(config: Config, visit: Callable[[str], None]) -> LoggedIn:
    """Logs in with a browser; `visit` shows a person the address. An earlier login is replaced."""
    issuer, state = issuer_of(config), secrets.token_urlsafe(32)
    await issuer.facts()

    def is_ours(given: Mapping[str, str]) -> bool:
        return secrets.compare_digest(given.get("state", "").encode(), state.encode())

    async with browser_return(issuer.settings.port, is_ours=is_ours) as back:
        asked = await ask_login(issuer, back.url, state)
        visit(asked.address)
        try:
            came = await asyncio.wait_for(back.came, VISIT_WITHIN_S)
        except TimeoutError as error:
            raise UsageError("Nobody came back from the login in time.", remedy="Try again.") from error
    given = await given_for(issuer, asked, came)
    return await _accept(config, issuer, given, asked.nonce)


async def ask_login(issuer: Issuer, back: str, state: str) -> AskedLogin:
    """Where to send a browser, which comes `back` with the `state`."""
    facts, scope = await issuer.facts(), await _scope(issuer)
    nonce, verifier = secrets.token_urlsafe(32), secrets.token_urlsafe(32)
    digest = hashlib.sha256(verifier.encode()).digest()
    asked = {
        "response_type": "code",
        "client_id": issuer.settings.client_id,
        "redirect_uri": back,
        "scope": scope,
        "state": state,
        "nonce": nonce,
        "code_challenge": base64.urlsafe_b64encode(digest).rstrip(b"=").decode(),
        "code_challenge_method": "S256",
    }
    if "offline_access" in scope.split():
        asked["prompt"] = "consent"  # without it no means to renew are given (OpenID Connect Core, 11)
    joint = "&" if "?" in facts.authorization_endpoint else "?"
    address = f"{facts.authorization_endpoint}{joint}{urlencode(asked)}"
    return AskedLogin(address=address, back=back, state=state, nonce=nonce, verifier=verifier)


async def given_for(issuer: Issuer, asked: AskedLogin, came: Mapping[str, str]) -> GivenTokens:
    """The tokens for what a browser came back with."""
    facts = await issuer.facts()
    if came.get("iss", facts.issuer) != facts.issuer or (
        facts.authorization_response_iss_parameter_supported and "iss" not in came
    ):
        _refuse("the browser came back from another issuer")
    if not came.get("code"):
        _refuse(came.get("error_description") or came.get("error") or "it was not finished")
    form = {
        "grant_type": "authorization_code",
        "code": came["code"],
        "redirect_uri": asked.back,
        "code_verifier": asked.verifier,
    }
    try:
        return await issuer.tokens(form)
    except TokensRefused as error:
        _refuse(str(error))


async def log_in_by_code(
    config: Config,
    show: Callable[[str, str, str], None],
    pause: Callable[[float], Awaitable[object]] = asyncio.sleep,
) -> LoggedIn:
    """Logs in with a code; `show` shows a person where to enter it, what it is, and an address with it."""
    issuer = issuer_of(config)
    try:
        code = await issuer.device_code(await _scope(issuer))
    except TokensRefused as error:
        _refuse(str(error))
    show(code.verification_uri, code.user_code, code.verification_uri_complete)
    pause_s, ends_s = code.interval, time.monotonic() + code.expires_in
    while time.monotonic() < ends_s:
        await pause(pause_s)
        try:
            form = {"grant_type": _DEVICE_GRANT, "device_code": code.device_code}
            given = await issuer.tokens(form)
        except TokensRefused as error:
            if error.code not in ("authorization_pending", "slow_down"):
                _refuse(str(error))
            pause_s += _SLOWER_S if error.code == "slow_down" else 0
            continue
        return await _accept(config, issuer, given, nonce=None)
    raise UsageError("Nobody entered the code in time.", remedy="Try again.")


async def offers_codes(config: Config) -> bool:
    """Whether somebody can log in with a code."""
    return bool((await issuer_of(config).facts()).device_authorization_endpoint)


async def login_status(config: Config) -> Login:
    """Who is logged in now."""
    issuer_of(config)
    return await current_login(config)


async def log_out(config: Config) -> tuple[bool, str]:
    """Forgets the login; whether there was one, and what the issuer did not do about it."""
    stored = read_keys(config.folder).values
    change_keys(config.folder, {ID_TOKEN: "", REFRESH_TOKEN: ""})
    problem = ""
    if refresh := stored.get(REFRESH_TOKEN, ""):
        try:
            if not await issuer_of(config).revoke(refresh):
                problem = "The issuer does not offer to end what renews a login; it ends by itself."
        except (MainspringError, TokensRefused) as error:
            problem = f"The issuer did not end what renews the login: {error}"
    return ID_TOKEN in stored, problem


async def _scope(issuer: Issuer) -> str:
    known = (await issuer.facts()).scopes_supported
    return " ".join(each for each in issuer.settings.scopes if not known or each in known)


async def _accept(config: Config, issuer: Issuer, given: GivenTokens, nonce: str | None) -> LoggedIn:
    claims = await checked_login(issuer, given, nonce)
    person = person_who(claims, issuer.settings)
    place = await asyncio.to_thread(keep_login, config, given)
    return LoggedIn(
        person=person, until_s=float(claims["exp"]), is_renewed=bool(given.refresh_token), place=place
    )


async def checked_login(issuer: Issuer, given: GivenTokens, nonce: str | None) -> dict[str, Any]:
    """What the tokens of a login say, which name somebody."""
    try:
        claims = await issuer.checked(given.id_token, expected_of(issuer.settings, nonce))
        person_who(claims, issuer.settings)
    except TokenRefused as error:
        _refuse(f"its token is refused, because {error}")
    return claims


def _refuse(why: str) -> NoReturn:
    raise AccessRefused(f"The login failed: {why}.", remedy="Try again: mainspring login", rule="login")
