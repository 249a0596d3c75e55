"""A real session on a scripted model, for tests: real journal, real loop, real toolbox."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

from mainspring import testing
from mainspring.approvals import ModePolicy
from mainspring.catalog.sqlite import SqliteSessions
from mainspring.events import Event, Limits, TurnEnded
from mainspring.models import Price, Request, StreamItem
from mainspring.models.scripted import Script, ScriptedCall, ScriptedModel, ScriptedReply
from mainspring.sandbox import Command, CommandResult, OnOutput
from mainspring.sandbox.background import Background
from mainspring.sandbox.files import Files
from mainspring.sandbox.policy import policy as confined
from mainspring.secrets.recorder import Recorder
from mainspring.secrets.vault import Vault
from mainspring.session.opening import Opening, SessionModels
from mainspring.session.session import Session, runtime_of
from mainspring.tools import Tool
from mainspring.tools.schema import tool
from mainspring.tools.toolbox import Toolbox
from mainspring.turns.loop import run_turn
from mainspring.turns.permissions import Permissions
from mainspring.turns.runtime import Budget, Engine, Runtime, Upkeep, Workbench

SESSION = "staged"
PRICE = Price(input=1.0, output=2.0)
E = TypeVar("E", bound=Event)


class Nowhere:
    """A sandbox that contains nothing and runs nothing: the tools here need none."""

    name = "nowhere"
    is_containing = False
    is_containing_background = False
    has_own_pids = False

    async def run(self, command: Command, on_output: OnOutput | None = None) -> CommandResult:
        raise NotImplementedError

    async def start(self, command: Command, folder: Path, *, is_terminal: bool = False) -> Background:
        raise NotImplementedError

    async def end_left(self) -> None:
        pass

    async def close(self) -> None:
        return


async def nowhere() -> Nowhere:
    return Nowhere()


def built(
    recorder: Recorder, *, engine: Engine = run_turn, ready: Any = None, output: Any = None, **fields: Any
) -> Session:
    """A session from the fields of all that it is built from."""

    def taken(kind: Any) -> Any:
        return kind(**{name: fields.pop(name) for name in kind.__struct_fields__ if name in fields})

    if isinstance(parent := fields.get("parent"), Session):
        fields["parent"] = runtime_of(parent)
    models = taken(SessionModels)
    runtime = Runtime(
        recorder,
        models=models.pool(ready),
        workbench=taken(Workbench),
        permissions=taken(Permissions),
        budget=taken(Budget),
        upkeep=taken(Upkeep),
    )
    opening = Opening(models=models, **fields)
    return Session(runtime, engine=engine, opening=opening, output=output)


class PausingModel(ScriptedModel):
    """Waits in its stream, after the first delta of each reply, until it is let go on."""

    def __init__(self, script: Script, **options: Any) -> None:
        super().__init__(script, **options)
        self.is_streaming = asyncio.Event()
        self.may_go_on = asyncio.Event()

    async def stream(self, request: Request) -> AsyncGenerator[StreamItem]:
        async for item in super().stream(request):
            yield item
            self.is_streaming.set()
            await self.may_go_on.wait()


def call(name: str, arguments: dict[str, Any] | str | None = None, id_: str = "") -> ScriptedCall:
    return ScriptedCall(name=name, arguments={} if arguments is None else arguments, id=id_)


def calls(*asked: ScriptedCall, text: str = "") -> ScriptedReply:
    return ScriptedReply(text=text, calls=asked)


def says(text: str, **fields: Any) -> ScriptedReply:
    return ScriptedReply(text=text, **fields)


class Stage(testing.Stage):
    """The public stage with a session of bare parts: no settings, no sandbox, tools of its own. `effects` is
    what they did."""

    def __init__(self, folder: Path, *replies: ScriptedReply, price: Price = PRICE) -> None:
        self.store = SqliteSessions(folder)
        super().__init__(folder, *replies, price=price, sessions=self.store)
        self.session = SESSION
        self.effects: list[str] = []
        self.tools: list[Tool] = [
            tool(self.do, effect="write"),
            tool(self.publish, effect="execute"),
            tool(self.fail, effect="write"),
        ]

    async def do(self, what: str, times: int = 1) -> str:
        """Does something, unasked."""
        self.effects += [what] * times
        return f"did {what}"

    async def publish(self, what: str) -> str:
        """Does something that a person must approve."""
        self.effects.append(what)
        return f"published {what}"

    async def fail(self) -> str:
        """Raises."""
        raise ValueError("a fault of the tool")

    def built(self, recorder: Recorder, **changes: Any) -> Session:
        """A session with what a test wants otherwise, by the names of the fields."""
        usual: dict[str, Any] = {
            "model": changes.get("model") or self.model(),
            "toolbox": Toolbox(self.tools),
            "policy": ModePolicy("auto"),
            "choose_sandbox": nowhere,
            "files": Files(confined(self.store.home, home=self.store.home, data=self.store.home / "data")),
            "engine": run_turn,
            "workspace": "/",
            "mode": "auto",
            "system": "You are a test.",
        }
        return built(recorder, **(usual | changes))

    @asynccontextmanager
    async def opened(self, *, vault: Vault | None = None, **changes: Any) -> AsyncIterator[Session]:
        is_new = not (self.store.shelf.folder / SESSION).exists()
        journal = await (self.store.create(SESSION) if is_new else self.store.open(SESSION))
        async with self.built(Recorder(journal, vault or Vault()), **changes) as session:
            yield session

    def take(self, text: str = "", **changes: Any) -> TurnEnded:
        """Opens the session, takes one turn, closes it."""

        async def taken() -> TurnEnded:
            async with self.opened(**changes) as session:
                return await take(session, text)

        return asyncio.run(taken())

    def killed_after(self, folder: Path, seq: int) -> "Stage":
        """The same session as a process leaves it that dies right after an event."""

        async def copied() -> None:
            journal = await again.store.create(SESSION)
            for item in self.journal()[:seq]:
                await journal.append(item.event)
            await journal.close()

        again = Stage(folder)
        again.script, again.tools = self.script, self.tools
        asyncio.run(copied())
        return again


async def take(session: Session, text: str = "") -> TurnEnded:
    ended = None
    async for event in session.run(text):
        ended = event if isinstance(event, TurnEnded) else ended
    assert ended is not None, "the turn has no end"
    return ended


async def wait_for(session: Session, kind: type[E], *, after: int = 0) -> E:
    """The first event of a kind after a number, whenever it comes."""
    async with asyncio.timeout(60):
        async for item in session.subscribe(after):
            if isinstance(item.event, kind):
                return item.event
    raise AssertionError(f"no {kind.__name__} came")


def pass_time(seconds: float) -> None:
    """Sets the clock of the running loop forward: what is due until then is due now."""
    loop = asyncio.get_running_loop()
    now = loop.time
    loop.time = lambda: now() + seconds  # type: ignore[method-assign]


@asynccontextmanager
async def stopped_clock() -> AsyncGenerator[None]:
    """In here only `pass_time` moves the clock of the running loop: what waits for more time than that waits
    until the test is given up."""
    loop = asyncio.get_running_loop()
    running, now = loop.time, loop.time()
    loop.time = lambda: now  # type: ignore[method-assign]
    try:
        yield
    finally:
        loop.time = running  # type: ignore[method-assign]


def results(message: dict[str, Any]) -> list[tuple[str, bool]]:
    return [(result["text"], result["is_error"]) for result in message["results"]]


def texts(messages: Sequence[dict[str, Any]]) -> list[str]:
    """Who said what, shortly."""
    short: list[str] = []
    for message in messages:
        match message:
            case {"role": "user", "text": text}:
                short.append(f"user: {text}")
            case {"role": "results", "results": given}:
                short.append("results: " + ", ".join(result["text"] for result in given))
            case {"role": "assistant", "parts": parts}:
                short.append("assistant: " + ", ".join(part.get("text") or part["name"] for part in parts))
    return short


def limits(**fields: Any) -> dict[str, Any]:
    return {"limits": Limits(**fields)}


def staged(folder: Path, files: dict[str, str], *replies: Any) -> testing.Stage:
    """A session whose workspace has these files."""
    stage = testing.Stage(folder, *replies)
    for path, text in files.items():
        (stage.workspace / path).parent.mkdir(parents=True, exist_ok=True)
        (stage.workspace / path).write_text(text, encoding="utf-8")
    return stage
