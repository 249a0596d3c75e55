"""People who come to a server with a token that the issuer of the settings signed: an ID token of our client,
or an access token for one of the audiences. What they may do there only a team's policy says."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from urllib.parse import urlsplit

from mainspring.app.login import issuer_of
from mainspring.app.operations.device_roles import Device
from mainspring.app.stores import team_policies
from mainspring.app.team import may_have_policy
from mainspring.errors import AccessRefused
from mainspring.people.logins import expected_at_server, person_who
from mainspring.people.signed_tokens import TokenRefused
from mainspring.settings import Config

ISSUED = "login"
"""The name, on record, of every token that an issuer signed."""
_DOTS = 2


def issued_tokens(config: Config) -> Callable[[str], Awaitable[Device | None]] | None:
    """Says who has a token: None for one that no issuer signs, `AccessRefused` for one that proves nothing.
    None when the settings name no issuer."""
    if not config.settings.login.issuer:
        return None
    issuer, settings = issuer_of(config), config.settings.login

    async def holder(token: str) -> Device | None:
        if token.count(".") != _DOTS:
            return None
        try:
            claims = await issuer.checked(token, expected_at_server(settings))
            person = person_who(claims, settings)
        except TokenRefused as error:
            raise AccessRefused(f"This token is refused, because {error}.", remedy=_REMEDY) from error
        if not (may_have_policy(config) and await asyncio.to_thread(team_policies, config)):
            raise AccessRefused(
                "No policy of a team says here what somebody who logs in may do.",
                remedy="An admin puts one in force: mainspring policy set FILE",
            )
        return Device(
            id=ISSUED,
            name=f"login at {urlsplit(settings.issuer).netloc}",
            role="owner",
            sha256="",
            paired_us=0,
            person=person,
            until_us=int(claims["exp"] * 1_000_000),
        )

    return holder


_REMEDY = "Send one that the issuer made for `login.client_id`, or for one of `login.audience`."
