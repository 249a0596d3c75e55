"""Who is logged in at this machine, by the tokens that are stored as keys are.

The ID token is checked again by each command, with its signature, so that a stored token cannot be altered
unnoticed. Who can write the files of this account can still put the keys of another issuer there: only a
server holds people to who they are. A token that has ended is renewed where the issuer gave the means to;
else the login has expired.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import msgspec

from mainspring.app.blocking import run_blocking
from mainspring.app.team import person_of
from mainspring.disk.files import locked, make_folder
from mainspring.errors import MainspringError
from mainspring.people.issuer import GivenTokens, Issuer, TokensRefused
from mainspring.people.logins import expected_of, person_who
from mainspring.people.persons import Person, recorded_by
from mainspring.people.signed_tokens import TokenExpired, TokenRefused
from mainspring.secrets.key_store import change_keys, read_keys
from mainspring.settings import FACE, Config

ID_TOKEN, REFRESH_TOKEN = "MAINSPRING_LOGIN_ID_TOKEN", "MAINSPRING_LOGIN_REFRESH_TOKEN"
_FOLDER = "login"


class Login(msgspec.Struct, frozen=True, kw_only=True):
    """Who is logged in until when, or in `problem` why nobody is: what an account of a machine is said to be
    instead."""

    person: Person | None = None
    until_s: float = 0.0
    problem: str = ""
    subject: str = ""


def issuer_of(config: Config, clock: Callable[[], float] = time.time) -> Issuer:
    """The issuer of the settings; `UsageError` when there is none."""
    return Issuer(config.settings.login, config.environment, config.home / _FOLDER / "issuer.json", clock)


def with_login(config: Config) -> Config:
    """The settings, with who is logged in as who gives the commands. What the daemon begins is nobody's
    command; who said it is on record."""
    if not config.settings.login.issuer or config.variable(FACE):
        return config
    login = run_blocking(current_login(config))
    if login.person is None:
        person = msgspec.structs.replace(
            person_of(config),
            known_by=f"an account of this machine, {login.problem}",
            remedy="Log in: mainspring login",
        )
        return msgspec.structs.replace(config, person=person)
    origin = recorded_by(config.origin, login.person)
    return msgspec.structs.replace(config, person=login.person, origin=origin)


async def current_login(config: Config, clock: Callable[[], float] = time.time) -> Login:
    """Who is logged in now; renews a login that has ended."""
    where = config.settings.login.issuer
    if not read_keys(config.folder).values.get(ID_TOKEN):
        return Login(problem=f"not logged in at {where}")
    try:
        issuer = issuer_of(config, clock)
        try:
            return await _stored(config, issuer)
        except TokenExpired:
            return await _renewed(config, issuer)
    except TokenRefused as error:
        return Login(problem=f"whose login at {where} cannot be used: {error}")
    except TokensRefused:
        return Login(problem=f"whose login at {where} has expired")
    except MainspringError as error:
        return Login(problem=f"whose login at {where} cannot be checked: {error.message}")


def keep_login(config: Config, given: GivenTokens) -> str:
    """Stores the tokens of a login, in place of an earlier one; says where."""
    kept = {ID_TOKEN: given.id_token, REFRESH_TOKEN: given.refresh_token}
    return change_keys(config.folder, kept)[ID_TOKEN].place


def login_in(claims: dict[str, Any], issuer: Issuer) -> Login:
    """The login that the checked claims of an ID token are."""
    return Login(
        person=person_who(claims, issuer.settings), until_s=float(claims["exp"]), subject=claims["sub"]
    )


async def _stored(config: Config, issuer: Issuer) -> Login:
    token = read_keys(config.folder).values.get(ID_TOKEN, "")
    return login_in(await issuer.checked(token, expected_of(issuer.settings)), issuer)


async def _renewed(config: Config, issuer: Issuer) -> Login:
    """One process at a time: an issuer may take a refresh token that comes twice for a stolen one."""
    with ExitStack() as held:
        turn = config.home / _FOLDER / "renewing"
        make_folder(turn.parent)
        await asyncio.to_thread(held.enter_context, locked(turn))
        try:
            return await _stored(config, issuer)
        except TokenExpired as error:
            subject = error.claims["sub"]
        before = read_keys(config.folder).values.get(REFRESH_TOKEN, "")
        if not before:
            raise TokensRefused("expired")
        given = await issuer.tokens({"grant_type": "refresh_token", "refresh_token": before})
        claims = await issuer.checked(given.id_token, expected_of(issuer.settings))
        if claims["sub"] != subject:
            raise TokenRefused("it was renewed for somebody else")
        login = login_in(claims, issuer)
        keep_login(config, msgspec.structs.replace(given, refresh_token=given.refresh_token or before))
        return login
