"""What stores must do whose journals can be damaged, or whose owners can be lost, as checks that any test
runner can run: each is given the means to do that harm.
"""

from __future__ import annotations

import io
from collections.abc import Callable

from mainspring.catalog import Sessions
from mainspring.errors import JournalDamaged, JournalOwned
from mainspring.events import NoteAdded, SessionStarted, UserSaid
from mainspring.testing.journals import raises
from mainspring.testing.sessions import closing, filled, started, turn


async def a_journal_that_lost_its_end_is_not_written(
    sessions: Sessions, cut: Callable[[str, int], None]
) -> None:
    """`cut` deletes what comes after so many events of a session, where its journal is kept."""
    await filled(sessions, "one", UserSaid(text="go"), *turn("done"), UserSaid(text="more"))
    async with closing(sessions.open("one")) as journal:
        before = await journal.verify()
    assert (before.problem, before.anchored_seq) == ("", before.events)
    kept = before.events - 1
    cut("one", kept)
    reader = await sessions.read("one")
    verdict = await reader.verify()
    await reader.close()
    assert (verdict.events, verdict.broken_seq) == (kept, kept + 1)
    assert "1 event is lost" in verdict.problem
    with raises(JournalDamaged, says=f"mainspring fork one --at {kept}"):
        await sessions.open("one")
    with raises(JournalDamaged):
        await sessions.export("one", io.BytesIO())
    made, shared = await sessions.fork("one", at=kept)
    assert shared == kept
    async with closing(sessions.open(made)) as journal:
        await journal.append(UserSaid(text="the fork goes on"))
        assert (await journal.verify()).anchored_seq == kept
    assert (await sessions.accept("one")).events == kept
    async with closing(sessions.open("one")) as journal:
        await journal.append(UserSaid(text="accepted"))
        assert (await journal.verify()).problem == ""


async def an_altered_journal_is_not_written(sessions: Sessions, alter: Callable[[str, int], None]) -> None:
    """`alter` changes the body of an event of a session, where its journal is kept."""
    await filled(sessions, "one", *(UserSaid(text=str(number)) for number in range(20)))
    alter("one", 7)
    with raises(JournalDamaged, says="mainspring fork one --at 6"):
        await sessions.open("one")
    with raises(JournalDamaged):
        await sessions.accept("one")
    made, _ = await sessions.fork("one", at=6)
    async with closing(sessions.open(made)) as journal:
        await journal.append(UserSaid(text="the fork goes on"))
        assert (await journal.verify()).problem == ""


async def a_journal_may_be_ahead_of_its_anchor(sessions: Sessions, lose: Callable[[str], None]) -> None:
    """`lose` takes a session away from its owner, as if that had died."""
    journal = await sessions.create("one")
    await journal.append(SessionStarted(session="one", workspace="/work", version="0"))
    await journal.anchor()
    await journal.append(UserSaid(text="never anchored"))
    verdict = await journal.verify()
    assert (verdict.problem, verdict.events, verdict.anchored_seq) == ("", 2, 1)
    lose("one")
    async with closing(sessions.open("one")) as again:
        await again.append(UserSaid(text="goes on"))
        assert (await again.verify()).problem == ""
    await journal.close()


async def a_lost_owner_writes_nothing_more(sessions: Sessions, lose: Callable[[str], None]) -> None:
    """For stores whose ownership can be lost while the journal is open: `lose` makes that happen."""
    lost = await sessions.create("one")
    await lost.append(started("one"))
    lose("one")
    owner = await sessions.owner("one")
    assert owner is not None
    assert not owner.is_alive
    with raises(JournalOwned):
        await lost.append(NoteAdded(text="too late"))
    async with closing(sessions.open("one")) as journal:
        for _ in range(2):
            with raises(JournalOwned):
                await lost.append(NoteAdded(text="too late"))
        await lost.close()
        with raises(JournalOwned):
            await sessions.open("one")
        await journal.append(NoteAdded(text="mine"))
        assert [item.kind for item in await journal.read()] == ["SessionStarted", "NoteAdded"]
