"""A process that runs a session and kills itself around the recording of what another process left for it.

    python -m tests.session.command_worker FOLDER say|note [before|after]

It leaves commands for itself once the session is open, as another process would. `before` kills it when what
they ask for is written and not committed, `after` when it is durable and the command is not removed. Without
either it opens the session, lets it go on with what was said, and ends.
"""

import asyncio
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mainspring.disk.inbox import Inbox, NoteCommand, SayCommand
from mainspring.disk.shared_files import LocalFiles
from mainspring.events import NoteAdded, Origin, UserSaid
from mainspring.journal.sqlite import SqliteJournal
from mainspring.models.scripted import Script, ScriptedModel, ScriptedReply
from mainspring.secrets.recorder import Recorder
from mainspring.secrets.vault import Vault
from tests.stage import Stage
from tests.worker import die, die_before_commit

COMMANDS = {"say": SayCommand("what I say"), "note": NoteCommand("what I note")}


async def work(folder: Path, what: str, kill: str) -> None:
    stage = Stage(folder)
    is_new = not (stage.store.shelf.folder / stage.session).exists()
    journal = await (stage.store.create(stage.session) if is_new else stage.store.open(stage.session))
    if kill == "after":
        die_after(journal)
    inbox = Inbox(LocalFiles(folder))
    model = ScriptedModel(Script(replies=(ScriptedReply(text="Heard."),)))
    async with stage.built(Recorder(journal, Vault()), inbox=inbox, model=model) as session:
        if not kill:
            async for _ in session.run():
                pass
            return
        if kill == "before":
            die_before_commit(journal, await journal.last_seq() + 1)
        inbox.leave(COMMANDS[what], Origin(user="bea", face="cli"))
        await asyncio.Event().wait()


def die_after(journal: SqliteJournal) -> None:
    subscribe = journal.subscribe

    def watched(on_appended: Callable[..., None], on_durable: Any = None) -> None:
        def told(recorded: Any) -> None:
            if any(isinstance(item.event, UserSaid | NoteAdded) for item in recorded):
                die()
            on_appended(recorded)

        subscribe(told, on_durable)

    journal.subscribe = watched


if __name__ == "__main__":
    asyncio.run(work(Path(sys.argv[1]), sys.argv[2], "".join(sys.argv[3:])))
