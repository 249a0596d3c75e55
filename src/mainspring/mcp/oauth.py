"""Logging in to servers, by the SDK's own flow. Tokens lie in a private file of the data folder, and are
changed under its lock, so that of two processes only one refreshes them. Only the broker loads this module.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import httpx2
import msgspec
from mcp.client.auth import AuthorizationCodeResult, OAuthClientProvider
from mcp.shared.auth import OAuthClientInformationFull, OAuthClientMetadata, OAuthToken

from mainspring.disk.files import locked, write_private
from mainspring.mcp import wire
from mainspring.mcp.tokens import read_tokens

_NAME = "mainspring"


class LoginNeeded(Exception):
    """Nobody is there who could log in."""


class TokenFile:
    """The tokens of one server, as the SDK wants to keep them."""

    def __init__(self, path: Path) -> None:
        self._path = path

    async def get_tokens(self) -> OAuthToken | None:
        found = read_tokens(self._path).tokens
        return OAuthToken.model_validate(found) if found else None

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self._change(tokens=tokens.model_dump(mode="json", exclude_none=True))

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        found = read_tokens(self._path).client
        return OAuthClientInformationFull.model_validate(found) if found else None

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self._change(client=client_info.model_dump(mode="json", exclude_none=True))

    def _change(self, **fields: Any) -> None:
        with locked(self._path):
            kept = msgspec.structs.replace(read_tokens(self._path), **fields)
            write_private(self._path, msgspec.json.encode(kept))


def auth_of(
    asked: wire.ConnectServer, visit: Callable[[str], Awaitable[dict[str, Any]]]
) -> httpx2.Auth | None:
    """How requests to a server are signed: by its headers where they say so, else with tokens."""
    if not asked.token_file or any(name.lower() == "authorization" for name in asked.headers):
        return None
    came: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()

    async def redirect(url: str) -> None:
        if not asked.is_login:
            raise LoginNeeded("a person must log in")
        came.set_result(await visit(url))

    async def callback() -> AuthorizationCodeResult:
        found = await came
        if not found.get("code"):
            raise LoginNeeded(str(found.get("error") or "the login was not finished"))
        return AuthorizationCodeResult(code=found["code"], state=found.get("state"), iss=found.get("iss"))

    return OAuthClientProvider(
        server_url=asked.url,
        client_metadata=OAuthClientMetadata(
            client_name=_NAME,
            redirect_uris=[asked.redirect_url or "http://127.0.0.1/callback"],  # pyright: ignore[reportArgumentType]
            grant_types=["authorization_code", "refresh_token"],
            response_types=["code"],
        ),
        storage=TokenFile(Path(asked.token_file)),
        redirect_handler=redirect,
        callback_handler=callback,
    )
