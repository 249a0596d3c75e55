"""What checks say of the files that a session changed, read from its journal."""

from __future__ import annotations

import msgspec

from mainspring.app.operations.sessions import journal_of
from mainspring.events import ChangesChecked, CheckedFile, CheckFinding
from mainspring.journal import events_in
from mainspring.settings import Config


class ChecksOverview(msgspec.Struct, frozen=True, kw_only=True):
    """All that was checked; `duration_s` is what that took, in so many `rounds`."""

    session: str
    files: tuple[CheckedFile, ...] = ()
    not_checked: tuple[str, ...] = ()
    rounds: int = 0
    duration_s: float = 0.0


async def checks_of(config: Config, session: str) -> ChecksOverview:
    """What stands now; a later look of a check replaces an earlier one."""
    found: dict[str, dict[str, tuple[CheckFinding, ...]]] = {}
    unchecked: dict[str, None] = {}
    rounds, duration_s = 0, 0.0
    async with journal_of(config, session) as reader:
        async for recorded in events_in(reader, kinds=("ChangesChecked",)):
            if not isinstance(recorded.event, ChangesChecked):
                continue
            event = recorded.event
            rounds, duration_s = rounds + 1, duration_s + event.duration_s
            unchecked |= dict.fromkeys(event.not_checked)
            for file in event.files:
                by_check = found.setdefault(file.path, {})
                for by in file.by:
                    by_check[by] = tuple(each for each in file.findings if each.by == by)
        session = reader.session
    files = [
        CheckedFile(
            path=path, by=tuple(sorted(by)), findings=tuple(each for one in by.values() for each in one)
        )
        for path, by in found.items()
    ]
    return ChecksOverview(
        session=session,
        files=tuple(files),
        not_checked=tuple(unchecked),
        rounds=rounds,
        duration_s=round(duration_s, 6),
    )
