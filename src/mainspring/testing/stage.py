"""A stage for tests of an agent program: a scripted model, a scratch folder, and everything on record.

    stage = Stage(tmp_path, tool_call("read", path="a.txt"), "It says hello.")
    assert stage.run("What does a.txt say?", tools=["read"]).text == "It says hello."
    assert stage.events(CallEnded)[0].outcome == "ok"

No network, no key, no cost; settings, rules, plugins and sessions of the user are not looked at. The model
gets what it was told and nothing besides (`[work]` is off), unless a `config` says otherwise.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar, Unpack

import msgspec

from mainspring.app import build
from mainspring.app.blocking import run_blocking
from mainspring.app.programs import OpenOptions
from mainspring.catalog import Sessions, reading
from mainspring.checks.settings import ChecksSettings
from mainspring.context.work import UNASSISTED
from mainspring.errors import ModelError
from mainspring.events import Event, Recorded
from mainspring.models import Price, Request
from mainspring.models.scripted import Script, ScriptedModel, ScriptedReply
from mainspring.plugins.settings import PluginSettings
from mainspring.session.replay import ReplayedRequest, replay
from mainspring.session.reply import Reply
from mainspring.session.session import Session
from mainspring.settings import Config, load_config
from mainspring.testing.memory import MemorySessions
from mainspring.testing.replies import scripted
from mainspring.tools.output import OutputType

E = TypeVar("E", bound=Event)
M = TypeVar("M", bound=ScriptedModel)


class Stage:
    """One session on a scripted model, opened as often as a test wants, in a scratch folder.

    `replies` are what the model says, one for each request. The agent works in `workspace`, a folder of
    `folder`; sessions are kept in memory, or in `sessions`. `requests` are those that the model has got;
    `errors` are those that it shall end with, by number, the first being 1."""

    def __init__(
        self,
        folder: Path | str,
        *replies: str | ScriptedReply,
        price: Price = Price(),  # noqa: B008 - frozen
        sessions: Sessions | None = None,
    ) -> None:
        self.folder = Path(folder).absolute()
        self.script = Script(replies=scripted(replies), price=price)
        self.sessions: Sessions = sessions or MemorySessions(self.folder / "sessions")
        self.session = ""
        self.requests: list[Request] = []
        self.errors: dict[int, ModelError] = {}

    @property
    def workspace(self) -> Path:
        """Where the agent works; made when it is first asked for."""
        place = self.folder / "workspace"
        place.mkdir(parents=True, exist_ok=True)
        return place

    def model(self, kind: type[M] = ScriptedModel) -> M:
        """A model that plays the script and keeps the requests that it gets."""

        def on_request(request: Request) -> ModelError | None:
            self.requests.append(request)
            return self.errors.pop(len(self.requests), None)

        return kind(self.script, on_request=on_request)

    @asynccontextmanager
    async def open(self, **options: Unpack[OpenOptions]) -> AsyncGenerator[Session]:
        """The session, new the first time and resumed from then on, with options of `mainspring.open`."""
        usual: OpenOptions = {
            "session": self.session,
            "model": self.model(),
            "config": self._config(),
            "sessions": self.sessions,
        }
        async with build.open(self.workspace, **{**usual, **options}) as session:
            self.session = session.id
            yield session

    def _config(self) -> Config:
        config = load_config({"MAINSPRING_HOME": str(self.folder / "home")})
        settings = msgspec.structs.replace(
            config.settings,
            work=UNASSISTED,
            plugins=PluginSettings(enabled=False),
            checks=ChecksSettings(after_change="off", regressions="off"),
        )
        return msgspec.structs.replace(config, settings=settings)

    async def ask(self, text: str = "", **options: Unpack[OpenOptions]) -> Reply:
        """Opens the session, says something or goes on, and closes it."""
        async with self.open(**options) as session:
            return await session.ask(text)

    def run(self, text: str = "", **options: Unpack[OpenOptions]) -> Reply:
        """As `ask`, for tests that are not async."""
        return run_blocking(self.ask(text, **options))

    def journal(self) -> list[Recorded]:
        """All that is on record, with numbers and times."""

        async def read() -> list[Recorded]:
            async with reading(self.sessions, self.session) as journal:
                return list(await journal.read(limit=1_000_000))

        return run_blocking(read())

    def events(self, kind: type[E]) -> list[E]:
        """The events of a kind, in order."""
        return [item.event for item in self.journal() if isinstance(item.event, kind)]

    def seq(self, kind: type[Event], number: int = 0) -> int:
        """The number in the journal of the first event of a kind, or of a later one."""
        return [item.seq for item in self.journal() if isinstance(item.event, kind)][number]

    def sent(self, number: int = -1) -> list[dict[str, Any]]:
        """The messages of a request, the last one by default, decoded."""
        return [msgspec.json.decode(message) for message in self.requests[number].messages]

    def replay(self, *, output: Any = None) -> list[ReplayedRequest]:
        """Each request on record, and whether the same would be sent today, also for answers of the type
        `output` when it is given."""
        schema = OutputType(output).schema if output is not None else None

        async def again() -> list[ReplayedRequest]:
            async with reading(self.sessions, self.session) as journal:
                return [item async for item in replay(journal, lambda _: self.model(), schema=schema)]

        return run_blocking(again())
