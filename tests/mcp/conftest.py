"""A session on a scripted model, with servers from `peer.py` in its settings."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from mainspring.app import build
from mainspring.context.work import UNASSISTED
from mainspring.events import CallEnded, Event, Recorded
from mainspring.mcp.settings import McpServerSettings, McpSettings
from mainspring.models import Request
from mainspring.models.scripted import Script, ScriptedCall, ScriptedModel, ScriptedReply
from mainspring.session.reply import Reply
from mainspring.settings import Config, load_config
from mainspring.testing.memory import MemorySessions
from mainspring.testing.replies import scripted
from tests.cli.conftest import machine as machine  # noqa: PLC0414 - a fixture

PEER = Path(__file__).with_name("peer.py")


def peer(kind: str, **settings: Any) -> McpServerSettings:
    usual = {"command": sys.executable, "args": (str(PEER), kind), "network": False}
    return McpServerSettings(**{**usual, **settings})


class Desk:
    """A folder with settings; sessions in it are kept in memory."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.workspace = folder / "workspace"
        self.workspace.mkdir()
        self.servers: dict[str, McpServerSettings] = {}
        self.share = 0.05
        self.sessions = MemorySessions(folder / "sessions")
        self.requests: list[Request] = []
        self.session = ""
        self.window: int | None = 200_000
        self.environment: dict[str, str] = {}

    @property
    def config(self) -> Config:
        usual = {"MAINSPRING_HOME": str(self.folder / "home"), "PATH": "/usr/bin:/bin"}
        config = load_config({**usual, **self.environment})
        mcp = McpSettings(servers=self.servers, find_tools_above=self.share)
        settings = msgspec.structs.replace(config.settings, work=UNASSISTED, mcp=mcp)
        return msgspec.structs.replace(config, settings=settings)

    async def ask(self, *replies: str | ScriptedReply, **options: Any) -> Reply:
        def on_request(request: Request) -> None:
            self.requests.append(request)

        model = ScriptedModel(Script(replies=scripted(replies)), on_request=on_request)
        model.context_tokens = self.window
        given = {"mode": "yolo", "config": self.config, "sessions": self.sessions, "model": model, **options}
        from mainspring.events import Limits

        async with build.open(self.workspace, limits=Limits(max_cost_usd=1.0), **given) as session:
            self.session = session.id
            return await session.ask("go on")

    async def events(self) -> list[Event]:
        from mainspring.catalog import reading

        async with reading(self.sessions, self.session) as journal:
            found: list[Recorded] = list(await journal.read(limit=1_000_000))
        return [item.event for item in found]

    async def ended(self) -> list[CallEnded]:
        return [event for event in await self.events() if isinstance(event, CallEnded)]

    def tool_names(self, request: int = 0) -> list[str]:
        return [tool.name for tool in self.requests[request].tools]


def call(name: str, **arguments: Any) -> ScriptedReply:
    """A call of a tool that no request shows."""
    asked = json.dumps({"name": name, "arguments": arguments})
    return ScriptedReply(calls=(ScriptedCall(name="call_tool", arguments=asked),))


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)
