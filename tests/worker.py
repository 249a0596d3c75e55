"""A worker process that takes one scripted turn with real effects, and kills itself where it is told.

    python worker.py FOLDER [KILL]

KILL is `event:N` (right after event N is written), `power:N` (the same, and the file `synced` says how much of
the WAL a machine without power would still have), `commit:N` (event N is written, its transaction is not
committed), `before:LABEL` or `after:LABEL` (the call with this label has started, and its effect has not
happened yet, or has). Run again without KILL it goes on from the journal.
"""

import asyncio
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from mainspring.approvals import ModePolicy
from mainspring.catalog.sqlite import SqliteSessions
from mainspring.events import ApprovalAsked, ApprovalGiven, Limits
from mainspring.journal.sqlite import SqliteJournal
from mainspring.models import Price, Request
from mainspring.models.scripted import Script, ScriptedCall, ScriptedModel, ScriptedReply
from mainspring.sandbox.files import Files
from mainspring.sandbox.policy import Confinement
from mainspring.secrets.recorder import Recorder
from mainspring.secrets.vault import Vault
from mainspring.tools import Tool
from mainspring.tools.schema import tool
from mainspring.tools.toolbox import Toolbox
from mainspring.turns.loop import run_turn
from tests.stage import built, nowhere
from tests.synced_disk import SyncedDisk

SESSION = "killed"


def _call(name: str, label: str) -> ScriptedCall:
    return ScriptedCall(name=name, arguments={"label": label})


SCRIPT = Script(
    price=Price(input=3.0, output=15.0),
    replies=(
        ScriptedReply(text="Two at once.", calls=(_call("append", "1a"), _call("append", "1b"))),
        ScriptedReply(calls=(_call("publish", "2a"),)),
        ScriptedReply(
            calls=(_call("append", "3a"), _call("publish", "3b"), _call("look", "3c"), _call("append", "3d"))
        ),
        ScriptedReply(
            calls=(_call("nothing", "4a"), ScriptedCall(name="append", arguments="[]"), _call("fail", "4c"))
        ),
        ScriptedReply(text="Nearly.", calls=(_call("append", "5a"), _call("publish", "5b"))),
        ScriptedReply(text="All done."),
    ),
)


class Folder:
    """What survives the process besides the journal."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.store = SqliteSessions(path / "home")

    def add(self, name: str, line: bytes) -> None:
        handle = os.open(self.path / name, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        os.write(handle, line + b"\n")
        os.fsync(handle)
        os.close(handle)

    def lines(self, name: str) -> list[str]:
        path = self.path / name
        return path.read_text().splitlines() if path.exists() else []


class Killer:
    def __init__(self, spec: str) -> None:
        self.kind, _, self.where = spec.partition(":")
        self.disk: SyncedDisk | None = None

    def at(self, kind: str, label: str) -> None:
        if (kind, label) == (self.kind, self.where):
            die()

    def watch(self, journal: SqliteJournal) -> None:
        if self.kind == "commit":
            die_before_commit(journal, int(self.where))
        elif self.kind in ("event", "power"):
            _die_after(journal, int(self.where))


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _die_after(journal: SqliteJournal, seq: int) -> None:
    subscribe = journal.subscribe

    def watched(on_appended: Callable[..., None], on_durable: Any = None) -> None:
        def told(recorded: Any) -> None:
            if recorded[-1].seq >= seq:
                die()
            on_appended(recorded)

        subscribe(told, on_durable)

    journal.subscribe = watched


def die_before_commit(journal: SqliteJournal, seq: int) -> None:
    connection = journal._writer._connection
    is_written = False

    def on_row(_type: int, _database: str, table: str, row: int) -> None:
        nonlocal is_written
        is_written = is_written or (table == "events" and row >= seq)

    def on_commit() -> bool:
        if is_written:
            die()
        return False

    connection.set_update_hook(on_row)
    connection.set_commit_hook(on_commit)


def tools(folder: Folder, killer: Killer) -> list[Tool]:
    async def effect(label: str, file: str = "effects") -> str:
        killer.at("before", label)
        folder.add(file, label.encode())
        killer.at("after", label)
        await asyncio.sleep(0)
        return f"did {label}"

    async def append(label: str) -> str:
        """Appends a line."""
        return await effect(label)

    async def publish(label: str) -> str:
        """Appends a line that a person must approve."""
        return await effect(label)

    async def look(label: str) -> str:
        """Changes nothing that counts, so it may be run again."""
        return await effect(label, "looks")

    async def fail(label: str) -> str:
        """Appends a line, then raises."""
        await effect(label)
        raise ValueError("as it was told")

    return [
        tool(append, effect="write"),
        tool(publish, effect="execute"),
        tool(look, effect="read"),
        tool(fail, effect="write"),
    ]


def model(folder: Folder) -> ScriptedModel:
    def keep(request: Request) -> None:
        folder.add("requests", b"[" + b",".join(request.messages) + b"]")

    return ScriptedModel(SCRIPT, on_request=keep)


async def work(folder: Folder, killer: Killer) -> None:
    async def approve(question: ApprovalAsked) -> ApprovalGiven:
        folder.add("questions", f"{question.call} {os.getpid()}".encode())
        return ApprovalGiven(
            call=question.call, arguments_sha256=question.arguments_sha256, decision="allow", by="test"
        )

    store = folder.store
    if killer.kind == "power":
        killer.disk = SyncedDisk(lambda size: (folder.path / "synced").write_text(str(size)))
    is_new = not (store.shelf.folder / SESSION).exists()
    journal = await (store.create(SESSION) if is_new else store.open(SESSION))
    killer.watch(journal)
    session = built(
        Recorder(journal, Vault()),
        model=model(folder),
        toolbox=Toolbox(tools(folder, killer)),
        policy=ModePolicy("auto"),
        choose_sandbox=nowhere,
        files=Files(Confinement(workspace=folder.path)),
        engine=run_turn,
        workspace=str(folder.path),
        mode="auto",
        system="You are a test.",
        limits=Limits(max_steps=40, max_cost_usd=5.0),
        approver=approve,
    )
    was_asked = await journal.last("UserSaid")
    async with session:
        async for _ in session.run("" if was_asked else "Do six steps."):
            pass


if __name__ == "__main__":
    arguments = msgspec.convert(sys.argv[1:], tuple[str, ...])
    asyncio.run(work(Folder(Path(arguments[0])), Killer(arguments[1] if len(arguments) > 1 else "")))
