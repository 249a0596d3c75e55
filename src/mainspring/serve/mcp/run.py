"""Carries the MCP server: standard streams for the program that started us, HTTP for others here."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Collection
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp.server.streamable_http_manager import StreamableHTTPASGIApp, StreamableHTTPSessionManager
from mcp.server.transport_security import TransportSecuritySettings
from starlette.applications import Starlette
from starlette.routing import Route
from starlette.types import ASGIApp

from mainspring.app.dispatch import log_wrong_token
from mainspring.app.operations.device_roles import Device
from mainspring.app.operations.devices import Access
from mainspring.app.operations.issued_tokens import issued_tokens
from mainspring.serve.guard import Allowed, Guard
from mainspring.serve.hub import Hub
from mainspring.serve.mcp.caller import Caller
from mainspring.serve.mcp.server import OfferedTools
from mainspring.serve.run import Listening, run_app
from mainspring.settings import Config

PATH = "/mcp"


async def serve_stdio(config: Config, caller: Caller) -> None:
    """Serves on standard input and output until the input ends; turns that run then are ended on record."""
    async with Hub() as hub, stdio_server() as (reading, writing):
        sdk = OfferedTools(config, caller, hub).sdk
        await sdk.run(reading, writing, sdk.create_initialization_options())


def serve_http(
    config: Config, caller: Caller, place: Listening, on_ready: Callable[[str, Access], None]
) -> None:
    """Serves over HTTP, behind the guard, until a signal ends it."""
    hub, access = Hub(), Access(config)
    sdk = OfferedTools(config, caller, hub).sdk
    wrong, vouched = partial(log_wrong_token, config, "mcp"), issued_tokens(config)

    def app(hosts: Collection[str]) -> ASGIApp:
        return http_app(sdk, access, hosts, hub=hub, on_wrong_token=wrong, vouched=vouched)

    run_app(app, access, place, on_ready)


def http_app(
    sdk: Server[Any],
    access: Access,
    hosts: Collection[str],
    *,
    hub: Hub | None = None,
    public: Collection[str] = (),
    on_wrong_token: Callable[[str, str, str], Awaitable[None]] | None = None,
    vouched: Callable[[str], Awaitable[Device | None]] | None = None,
    **options: Any,
) -> ASGIApp:
    """A server of the protocol behind the guard, which checks what its package would check a second time."""
    manager = StreamableHTTPSessionManager(
        sdk, security_settings=TransportSecuritySettings(enable_dns_rebinding_protection=False), **options
    )

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncGenerator[None]:
        async with hub or Hub(), manager.run():
            yield

    app = Starlette(routes=[Route(PATH, StreamableHTTPASGIApp(manager))], lifespan=lifespan)
    allowed = Allowed(hosts=hosts, public=public)
    return Guard(app, access, allowed, on_wrong_token=on_wrong_token, vouched=vouched)
