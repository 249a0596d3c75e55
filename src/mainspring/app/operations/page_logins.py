"""People who log in at a server's page by the issuer of the settings. The issuer's token stays in the server;
the page gets one that means it for as long as it lasts, and at most until the server ends."""

from __future__ import annotations

import secrets
import time
from collections import OrderedDict
from collections.abc import Mapping
from typing import TypeVar
from urllib.parse import urlsplit

from mainspring.app.browser_return import VISIT_WITHIN_S
from mainspring.app.login import issuer_of
from mainspring.app.operations.login import AskedLogin, ask_login, checked_login, given_for
from mainspring.errors import UsageError
from mainspring.people.issuer import Issuer
from mainspring.settings import Config

PAGE_TOKEN = "page-"  # noqa: S105 - no token
"""How the tokens of pages begin."""
_MOST = 1000
_Kept = TypeVar("_Kept")


class PageLogins:
    def __init__(self, config: Config) -> None:
        self._issuer: Issuer | None = issuer_of(config) if config.settings.login.issuer else None
        self._asked: OrderedDict[str, tuple[float, AskedLogin]] = OrderedDict()
        self._issued: OrderedDict[str, tuple[float, str]] = OrderedDict()

    @property
    def place(self) -> str:
        """Where people log in, as they know it; empty when they cannot."""
        return urlsplit(self._issuer.settings.issuer).netloc if self._issuer else ""

    async def begin(self, back: str) -> AskedLogin:
        """Where a browser goes now, which comes `back`."""
        asked = await ask_login(self._the_issuer(), back, secrets.token_urlsafe(32))
        _keep(self._asked, asked.state, (time.time() + VISIT_WITHIN_S, asked))
        return asked

    async def finish(self, came: Mapping[str, str]) -> tuple[str, str]:
        """The page's token and the issuer's, for what a browser came back with. A login is finished once."""
        until_s, asked = self._asked.pop(came.get("state", ""), (0.0, None))
        if asked is None or time.time() > until_s:
            raise UsageError("This login is not known, was finished, or is too old.", remedy="Log in again.")
        issuer = self._the_issuer()
        given = await given_for(issuer, asked, came)
        claims = await checked_login(issuer, given, asked.nonce)
        token = f"{PAGE_TOKEN}{secrets.token_urlsafe(32)}"
        _keep(self._issued, token, (float(claims["exp"]), given.id_token))
        return token, given.id_token

    def issued(self, token: str) -> str:
        """The issuer's token that a page's one means; empty when it means none."""
        until_s, issued = self._issued.get(token, (0.0, ""))
        if issued and time.time() > until_s:
            self.forget(token)
            return ""
        return issued

    def forget(self, token: str) -> None:
        """Ends a login."""
        self._issued.pop(token, None)

    def _the_issuer(self) -> Issuer:
        if self._issuer is None:
            raise UsageError(
                "No issuer is set here that people could log in at.",
                remedy="Use the token that `mainspring serve` prints, or pair this device.",
            )
        return self._issuer


def _keep(kept: OrderedDict[str, _Kept], name: str, what: _Kept) -> None:
    kept[name] = what
    if len(kept) > _MOST:
        kept.popitem(last=False)
