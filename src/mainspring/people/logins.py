"""Who a checked token says somebody is. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, cast

import msgspec

from mainspring.people.persons import LOGIN, Person
from mainspring.people.settings import LoginSettings
from mainspring.people.signed_tokens import Expected, TokenRefused

_ADDRESS = re.compile(r"[^@\s:*]+@[^@\s:*]+")
_MAX_NAME, _MAX_GROUPS = 200, 200


def expected_of(settings: LoginSettings, nonce: str | None = None) -> Expected:
    """What a token must say that counts as a login: one for our client."""
    return Expected(issuer=settings.issuer, client_id=settings.client_id, nonce=nonce)


def expected_at_server(settings: LoginSettings) -> Expected:
    """What a token must say that comes with a request: one for our client, or for a configured audience."""
    return msgspec.structs.replace(expected_of(settings), audiences=settings.audience)


def person_who(claims: Mapping[str, Any], settings: LoginSettings) -> Person:
    """The person that checked claims are about; `TokenRefused` when they do not give them a name."""
    name = claims.get(settings.name_claim)
    if not isinstance(name, str) or not name.strip() or not name.isprintable() or len(name) > _MAX_NAME:
        raise TokenRefused(f"it does not say the {settings.name_claim} of anybody (login.name_claim)")
    if settings.name_claim == "email" and claims.get("email_verified") not in (True, "true"):
        raise TokenRefused("the issuer did not verify its email (login.name_claim can name another claim)")
    return Person(
        name=name if _ADDRESS.fullmatch(name) else f"{LOGIN}{name}",
        known_by=f"logged in at {settings.issuer}",
        claims=_groups(claims.get(settings.groups_claim)),
        issuer=settings.issuer,
        read_from=(settings.name_claim, settings.groups_claim, settings.client_id),
    )


def _groups(given: object) -> tuple[str, ...]:
    every = cast("list[object]", given) if isinstance(given, list) else [given]
    named = [each for each in every if isinstance(each, str) and each and len(each) <= _MAX_NAME]
    return tuple(named[:_MAX_GROUPS])
