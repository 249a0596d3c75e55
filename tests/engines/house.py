"""Fake agents, set up as engines of real sessions."""

from __future__ import annotations

import hashlib
import json
import os
import shlex
import sys
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Literal

import mainspring
from mainspring.engines.settings import EngineSettings
from mainspring.errors import BadRequest, ModelError
from mainspring.events import TextDelta
from mainspring.models import ReplyFinished, Request, StreamItem
from mainspring.models.scripted import Script, ScriptedCall, ScriptedModel, ScriptedReply
from mainspring.session.session import Session
from mainspring.settings import Config, Settings

FAKES = Path(__file__).parent / "fakes"
ROOT = Path(__file__).parent.parent.parent
PROTOCOLS: dict[str, Literal["exec", "acp"]] = {"plain": "exec", "acp_agent": "acp"}
NAMES = ("codex", "claude", "gemini", "opencode", "plain", "acp_agent")


def settings(name: str, *more: str, **options: Any) -> EngineSettings:
    return EngineSettings(
        command=(sys.executable, str(FAKES / f"{name}.py"), *more),
        protocol=PROTOCOLS.get(name, ""),
        readable=(str(ROOT),),
        **options,
    )


class House:
    """A home, a workspace and the fakes, in an empty folder."""

    def __init__(self, folder: Path, **engines: EngineSettings) -> None:
        self.workspace = folder / "workspace"
        self.workspace.mkdir(exist_ok=True)
        self.home = folder / "user"
        self.home.mkdir(exist_ok=True)
        known = {name: settings(name) for name in NAMES} | engines
        environment = {"PATH": os.environ["PATH"], "HOME": str(self.home), "LANG": "C.UTF-8"}
        data = folder / "data"
        self.config = Config(
            home=data, folder=data, settings=Settings(engines=known), environment=environment
        )
        self.session = ""

    @asynccontextmanager
    async def opened(self, **options: Any) -> AsyncIterator[Session]:
        """A new session, or the same one again."""
        place = {"session": self.session} if self.session else {"workspace": self.workspace}
        async with mainspring.open(**place, config=self.config, **options) as session:
            self.session = session.id
            yield session


class Acting(ScriptedModel):
    """The built-in engine's part: a model that does what is said."""

    def __init__(self, said: str) -> None:
        super().__init__(Script(replies=_replies(said)), on_request=self._refused)
        self._said = said

    def _refused(self, request: Request) -> ModelError | None:
        return BadRequest("it broke") if self._said.startswith("fail") else None

    async def stream(self, request: Request) -> AsyncGenerator[StreamItem]:
        async for item in super().stream(request):
            if self._said.startswith("size") and not isinstance(item, ReplyFinished):
                texts = (json.loads(message).get("text", "") for message in request.messages)
                text = next(text for text in texts if text.startswith("size"))
                item = TextDelta(text=f"{len(text)} {hashlib.sha256(text.encode()).hexdigest()}")
            yield item


def _replies(said: str) -> tuple[ScriptedReply, ...]:
    if said.startswith("hang"):
        script = "import time; print('hanging here\\nand here', flush=True); time.sleep(600)"
        command = f'trap : TERM; {shlex.quote(sys.executable)} -c "{script}" {said.split()[1]}'
        return (ScriptedReply(calls=(ScriptedCall("shell", {"command": command}),)),)
    if said.startswith("work"):
        return (
            ScriptedReply(text="First.", calls=(ScriptedCall("shell", {"command": "true"}),)),
            ScriptedReply(text="Finished.\nDONE"),
        )
    return (ScriptedReply(text="x"),)
