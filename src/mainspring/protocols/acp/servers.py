"""MCP servers that a client passes on: its user's, for one session, beside those in the settings."""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec
from acp import schema

from mainspring.errors import UsageError
from mainspring.mcp.settings import McpServerSettings
from mainspring.settings import Config

_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_.-]+")
_MAX_NAME = 64


def with_servers(config: Config, given: Sequence[object]) -> Config:
    """The settings with a client's servers. Of two with one name the client's counts, in its session."""
    if not given:
        return config
    named = {_name(each): _settings(each) for each in given}
    if len(named) < len(given):
        raise UsageError("Two MCP servers have the same name.", remedy="Give each a name of its own.")
    mcp = config.settings.mcp
    mcp = msgspec.structs.replace(mcp, servers={**mcp.servers, **named})
    return msgspec.structs.replace(config, settings=msgspec.structs.replace(config.settings, mcp=mcp))


def _name(server: object) -> str:
    """Its name as names of tools can have it."""
    return _NOT_IN_NAMES.sub("-", str(getattr(server, "name", ""))).strip("-.")[:_MAX_NAME] or "server"


def _settings(server: object) -> McpServerSettings:
    match server:
        case schema.McpServerStdio():
            env = {each.name: each.value for each in server.env}
            return McpServerSettings(command=server.command, args=tuple(server.args), env=env)
        case schema.HttpMcpServer() | schema.SseMcpServer():
            headers = {each.name: each.value for each in server.headers}
            return McpServerSettings(url=server.url, headers=headers, transport=server.type)
        case _:
            raise UsageError("MCP servers over the editor's own connection are not supported.")
