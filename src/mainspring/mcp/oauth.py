"""Logging in to servers, by the SDK's own flow. Tokens lie in a private file of the data folder; they are
refreshed a minute before they end, by one process at a time. Only the broker loads this module.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx2
import msgspec
from mcp.client.auth import AuthorizationCodeResult, OAuthClientProvider
from mcp.client.auth.utils import union_scopes
from mcp.shared.auth import OAuthClientInformationFull, OAuthClientMetadata, OAuthMetadata, OAuthToken

from mainspring.disk.files import locked, write_private
from mainspring.mcp import wire
from mainspring.mcp.tokens import read_tokens

_NAME = "mainspring"
_EARLY_S = 60.0


class LoginNeeded(Exception):
    """Nobody is there who could log in."""


class TokenFile:
    """The tokens of one server, as the SDK wants to keep them."""

    def __init__(self, path: Path) -> None:
        self.path = path

    async def get_tokens(self) -> OAuthToken | None:
        found = read_tokens(self.path).tokens
        return OAuthToken.model_validate(found) if found else None

    async def set_tokens(self, tokens: OAuthToken) -> None:
        ends = time.time() + tokens.expires_in if tokens.expires_in else None
        self.change(tokens=tokens.model_dump(mode="json", exclude_none=True), expires_at=ends)

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        found = read_tokens(self.path).client
        return OAuthClientInformationFull.model_validate(found) if found else None

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self.change(client=client_info.model_dump(mode="json", exclude_none=True))

    def change(self, **fields: Any) -> None:
        with locked(self.path):
            kept = msgspec.structs.replace(read_tokens(self.path), **fields)
            write_private(self.path, msgspec.json.encode(kept))


class TokenSigner(OAuthClientProvider):
    """The SDK's flow, with what another process has stored meanwhile, and with the time when tokens end."""

    def __init__(self, file: TokenFile, **options: Any) -> None:
        super().__init__(storage=file, **options)
        self._file = file
        self._given: OAuthClientInformationFull | None = None
        self.is_stopped = False

    def use_client(self, client_id: str, secret: str) -> None:
        """From here on we are the client that was registered by hand."""
        self._given = OAuthClientInformationFull(
            client_id=client_id,
            client_secret=secret or None,
            redirect_uris=self.context.client_metadata.redirect_uris,
            token_endpoint_auth_method="client_secret_basic" if secret else "none",
        )

    def stop(self) -> LoginNeeded:
        """Nobody can log in now; what is to be asked for then is kept for the next login."""
        self.is_stopped = True
        if read_tokens(self._file.path).tokens:  # what was granted is not enough
            self._file.change(scope=self.context.client_metadata.scope or "")
        return LoginNeeded("a person must log in")

    async def _perform_authorization_code_grant(self) -> tuple[str, str]:
        wanted = read_tokens(self._file.path).scope
        self.context.client_metadata.scope = union_scopes(self.context.client_metadata.scope, wanted or None)
        return await super()._perform_authorization_code_grant()

    async def async_auth_flow(
        self, request: httpx2.Request
    ) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        with ExitStack() as held:
            await self._reload()
            if not self.context.is_token_valid() and self.context.can_refresh_token():
                refreshing = self._file.path.with_name(f"{self._file.path.stem}-refresh.json")
                await asyncio.to_thread(held.enter_context, locked(refreshing))
                await self._reload()
            flow = super().async_auth_flow(request)
            try:
                outgoing = await flow.__anext__()
                while True:
                    outgoing = await flow.asend((yield outgoing))
            except StopAsyncIteration:
                self._keep_metadata()
            finally:
                await flow.aclose()

    async def _reload(self) -> None:
        stored = read_tokens(self._file.path)
        self.context.current_tokens = await self._file.get_tokens()
        self.context.client_info = self._given or await self._file.get_client_info()
        self.context.token_expiry_time = stored.expires_at - _EARLY_S if stored.expires_at else None
        if self.context.oauth_metadata is None and stored.metadata:
            self.context.oauth_metadata = OAuthMetadata.model_validate(stored.metadata)
        self._initialized = True

    def _keep_metadata(self) -> None:
        """Where tokens are refreshed is known in the next process too."""
        if (known := self.context.oauth_metadata) is not None:
            metadata = known.model_dump(mode="json", exclude_none=True)
            if metadata != read_tokens(self._file.path).metadata:
                self._file.change(metadata=metadata)


def auth_of(
    asked: wire.ConnectServer, visit: Callable[[str], Awaitable[dict[str, Any]]]
) -> TokenSigner | None:
    """How requests to a server are signed: by its headers where they say so, else with tokens."""
    if not asked.token_file or any(name.lower() == "authorization" for name in asked.headers):
        return None
    came: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()

    async def redirect(url: str) -> None:
        if not asked.is_login:
            raise provider.stop()
        came.set_result(await visit(url))

    async def callback() -> AuthorizationCodeResult:
        found = await came
        if not found.get("code"):
            raise LoginNeeded(str(found.get("error") or "the login was not finished"))
        return AuthorizationCodeResult(code=found["code"], state=found.get("state"), iss=found.get("iss"))

    is_url = asked.client_id.startswith("https://")
    provider = TokenSigner(
        TokenFile(Path(asked.token_file)),
        server_url=asked.url,
        client_metadata=OAuthClientMetadata(
            client_name=_NAME,
            redirect_uris=[asked.redirect_url or "http://127.0.0.1/callback"],  # pyright: ignore[reportArgumentType]
            grant_types=["authorization_code", "refresh_token"],
            response_types=["code"],
        ),
        redirect_handler=redirect,
        callback_handler=callback,
        client_metadata_url=asked.client_id if is_url else None,
    )
    if asked.client_id and not is_url:
        provider.use_client(asked.client_id, asked.client_secret)
    return provider
