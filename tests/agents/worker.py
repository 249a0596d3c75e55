"""A process that gives two tasks away and kills itself where it is told.

    python -m tests.agents.worker FOLDER [KILL] [WHAT]

WHAT is `tasks` (a graph), `readers`, `writers` (they change files in copies of the workspace), or `background` (nobody waits for
them, and the second process says something new). KILL is `parent:N` or `child:N`: right after event N of that journal is written, for a child the first that gets
so far. Run again without KILL it goes on from the journals.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mainspring.app import build
from mainspring.catalog.sqlite import SqliteSessions
from mainspring.events import Limits
from mainspring.journal.sqlite import SqliteJournal
from mainspring.models import Price
from mainspring.models.scripted import ScriptedCall, ScriptedModel, ScriptedReply
from tests.agents.family import PARENT, asks, script_of, settings
from tests.worker import die

_LOOK = ScriptedReply(calls=(ScriptedCall("find", {"glob": "*"}),))
CHILD_REPLIES = 3
SCRIPT = script_of(
    (asks("FIRST task", "SECOND task", agent="explore"), ScriptedReply(text="Both are done.")),
    Price(input=1.0, output=2.0),
    FIRST=(_LOOK, _LOOK, ScriptedReply(text="first answer")),
    SECOND=(_LOOK, _LOOK, ScriptedReply(text="second answer")),
)


def _writes(path: str) -> ScriptedReply:
    return ScriptedReply(calls=(ScriptedCall("write", {"path": path, "content": f"{path}\n"}),))


WRITERS = script_of(
    (asks("FIRST task", "SECOND task"), ScriptedReply(text="Both are done.")),
    Price(input=1.0, output=2.0),
    FIRST=(_LOOK, _writes("one.txt"), ScriptedReply(text="first answer")),
    SECOND=(_LOOK, _writes("two.txt"), ScriptedReply(text="second answer")),
)
BACKGROUND = script_of(
    (
        asks("FIRST task", "SECOND task", agent="explore", background=True),
        *[ScriptedReply(text="Begun.")] * 9,
    ),
    Price(input=1.0, output=2.0),
    FIRST=(_LOOK, _LOOK, ScriptedReply(text="first answer")),
    SECOND=(_LOOK, _LOOK, ScriptedReply(text="second answer")),
)
GRAPH = (
    {"name": "first", "text": "FIRST task", "check": "true"},
    {"name": "second", "text": "SECOND task", "needs": ["first"]},
)
TASKS = script_of(
    (
        ScriptedReply(calls=(ScriptedCall("tasks", {"tasks": list(GRAPH)}),)),
        ScriptedReply(text="Both are done."),
    ),
    Price(input=1.0, output=2.0),
    SECOND=(_LOOK, _LOOK, ScriptedReply(text="second answer")),
    FIRST=(_LOOK, _LOOK, ScriptedReply(text="first answer")),
)
SCRIPTS = {"tasks": TASKS, "readers": SCRIPT, "writers": WRITERS, "background": BACKGROUND}


class KillingSessions(SqliteSessions):
    """Sessions whose process dies when a journal has so many events."""

    def __init__(self, home: Path, kill: str) -> None:
        super().__init__(home)
        self._who, _, at = kill.partition(":")
        self._at = int(at or 0)

    async def create(self, session: str | None = None) -> SqliteJournal:
        return self._watched(await super().create(session), "child" if session else "parent")

    async def open(self, session: str) -> SqliteJournal:
        parent = (self.home / "parent").read_text() if (self.home / "parent").exists() else session
        return self._watched(await super().open(session), "parent" if session == parent else "child")

    def _watched(self, journal: SqliteJournal, who: str) -> SqliteJournal:
        subscribe = journal.subscribe

        def watched(on_appended: Callable[..., None], on_durable: Any = None) -> None:
            def told(recorded: Any) -> None:
                if who == self._who and recorded[-1].seq >= self._at:
                    die()
                on_appended(recorded)

            subscribe(told, on_durable)

        journal.subscribe = watched
        return journal


async def work(folder: Path, kill: str, what: str) -> None:
    config = settings(folder / "home")
    store, known = KillingSessions(config.home, kill), config.home / "parent"
    (folder / "workspace").mkdir(exist_ok=True)
    names = await store.names()
    session = known.read_text() if known.exists() else next(iter(names), "")
    opened = build.open(
        folder / "workspace",
        session=session,
        model=ScriptedModel(SCRIPTS[what]),
        limits=Limits(max_cost_usd=5.0),
        config=config,
        sessions=store,
    )
    async with opened as parent:
        known.write_text(parent.id)
        was_asked = await parent.journal.last("UserSaid")
        again = "What came of it?" if what == "background" else ""
        async for _ in parent.run(again if was_asked else PARENT):
            pass
        while parent.state.children.open:
            await asyncio.wait({parent.state.waits.stirring()}, timeout=1)


if __name__ == "__main__":
    asyncio.run(work(Path(sys.argv[1]), *sys.argv[2:4]))
