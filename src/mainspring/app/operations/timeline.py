"""What a session did to files, and going back to how it was."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterator
from pathlib import Path

import msgspec

from mainspring.app.imported import imported_events, made_elsewhere
from mainspring.app.operations.sessions import journal_of
from mainspring.app.records import recording, vault_of
from mainspring.app.stores import sessions_of
from mainspring.context.history import live, read_all, undone_ranges
from mainspring.errors import UsageError
from mainspring.events import (
    AssistantSaid,
    Blob,
    Extent,
    FileChange,
    FilesChanged,
    RewindStarted,
    SessionStarted,
    UserSaid,
)
from mainspring.journal import JournalReader, events_in, last_event
from mainspring.secrets.redaction import redacted
from mainspring.secrets.vault import Vault
from mainspring.session.rewind import WentBack, complete, go_back, last_turn, plan_back
from mainspring.settings import Config
from mainspring.workspace.diffs import unified
from mainspring.workspace.restore import RestoreStep, as_change, conflicts, is_same, net


class StepChanges(msgspec.Struct, frozen=True, kw_only=True):
    """What a step did to files, at an event; step 0 is going back. `diffs` has the lines of a unified diff
    for each change, when they were asked for."""

    seq: int
    step: int
    changed: FilesChanged
    diffs: tuple[tuple[str, ...], ...] = ()


class BackAt(msgspec.Struct, frozen=True, kw_only=True):
    """Where a session went back to, and what a person had said there when its last turn was taken back."""

    session: str
    went: WentBack
    said: str | None = None


async def file_changes(
    config: Config, session: str, *, step: int | None = None, has_diffs: bool = True
) -> AsyncGenerator[StepChanges]:
    """What each step of a session, or one of them, did to files."""
    steps: dict[str, int] = {}
    known = 0
    async with journal_of(config, session) as reader:
        async for recorded in events_in(reader, kinds=("AssistantSaid", "FilesChanged")):
            match recorded.event:
                case AssistantSaid() as said:
                    known = max(known, said.step)
                    steps |= {call.call: said.step for call in said.calls}
                case FilesChanged() as changed:
                    numbers = {steps.get(call, 0) for call in changed.calls}
                    if step is None or step in numbers:
                        yield StepChanges(
                            seq=recorded.seq,
                            step=max(numbers, default=0),
                            changed=changed,
                            diffs=await diffs_of(reader, changed) if has_diffs else (),
                        )
                case _:
                    pass
    if step is not None and step > known:
        raise UsageError(
            f"There is no step {step}: the last one is {known}.",
            remedy="Leave --step out to see all of them.",
        )


async def diffs_of(reader: JournalReader, changed: FilesChanged) -> tuple[tuple[str, ...], ...]:
    """The lines of a unified diff for each change of files on record."""
    return tuple(
        [
            tuple(
                unified(
                    change,
                    await _content(reader, change.before.blob if change.before else None),
                    await _content(reader, change.after.blob if change.after else None),
                )
            )
            for change in changed.changes
        ]
    )


async def net_diff(reader: JournalReader, after: int = 0) -> str:
    """What a session changed since an event, all in all, as one diff with the headers of git."""
    found = await read_all(reader, kinds=("FilesChanged",), after=after)
    steps = net(item.event for item in found if isinstance(item.event, FilesChanged))
    turned = [as_change(RestoreStep(each.path, each.then, each.now)) for each in steps]
    changes = [each for each in turned if not is_same(each.before, each.after)]
    diffs = await diffs_of(reader, FilesChanged(changes=tuple(changes)))
    return "".join("".join(_with_header(*each)) for each in zip(changes, diffs, strict=True))


def _with_header(change: FileChange, lines: tuple[str, ...]) -> Iterator[str]:
    yield f"diff --git a/{change.path} b/{change.path}\n"
    if change.kind in ("created", "deleted"):
        yield f"{'new' if change.kind == 'created' else 'deleted'} file mode 100644\n"
    if lines and lines[0].startswith("--- "):
        yield from lines
    elif lines:
        yield f"Binary files a/{change.path} and b/{change.path} differ\n"


class BackPreview(msgspec.Struct, frozen=True, kw_only=True):
    """What going back to an event would do now. `said` are the messages that would no longer count, `changed`
    the files that would be put back, with a diff of each from now to then; `conflicts` were changed by
    somebody else, so that nothing would be put back; `lost` cannot be."""

    session: str
    to_seq: int
    said: tuple[str, ...] = ()
    replies: int = 0
    changed: FilesChanged = FilesChanged()
    diffs: tuple[tuple[str, ...], ...] = ()
    conflicts: tuple[str, ...] = ()
    lost: tuple[str, ...] = ()


async def preview_back(config: Config, session: str, to_seq: int | None = None) -> BackPreview:
    """What going back to after an event, or before the last turn, would change: conversation and files."""
    async with journal_of(config, session) as reader:
        last = await reader.last_seq()
        if to_seq is None:
            to_seq = (await last_turn(reader, "both"))[0] - 1
        if not 1 <= to_seq <= last:
            raise UsageError(f"There is no event {to_seq}: this session has {last}.")
        vault = vault_of(sessions_of(config), reader.session, config)
        root = await _workspace(reader, vault)
        dead = undone_ranges(await read_all(reader, kinds=("Undone",)))
        later = await read_all(reader, kinds=("UserSaid", "AssistantSaid"), after=to_seq)
        counting = [item.event for item in live(later, dead)]
        imported = made_elsewhere(sessions_of(config).files(reader.session))
        going = await plan_back(reader, RewindStarted(to_seq=to_seq, scope="both"), vault, imported)
        hidden = redacted(FilesChanged(changes=tuple(as_change(step) for step in going.steps)), vault)
        found = await asyncio.to_thread(conflicts, root, going.steps)
        return BackPreview(
            session=reader.session,
            to_seq=to_seq,
            said=tuple(event.text for event in counting if isinstance(event, UserSaid)),
            replies=sum(isinstance(event, AssistantSaid) for event in counting),
            changed=hidden,
            diffs=await diffs_of(reader, hidden),
            conflicts=tuple(vault.redact(path) for path in sorted({*going.foreign, *found})),
            lost=tuple(vault.redact(each) for each in going.lost),
        )


async def go_back_to(
    config: Config, session: str, to_seq: int | None, scope: Extent, left_out: tuple[str, ...] = ()
) -> BackAt:
    """Takes a session that nobody runs back to how it was after an event, or before its last turn; files that
    are `left_out` stay as they are."""
    said: UserSaid | None = None
    async with recording(session, config) as recorder:
        imported = await imported_events(sessions_of(config).files(recorder.session), recorder.journal)
        root = await _workspace(recorder.journal, recorder.vault)
        await complete(recorder, root, imported=imported)
        if to_seq is None:
            seq, said = await last_turn(recorder.journal, scope)
            to_seq = seq - 1
        went = await go_back(recorder, root, to_seq, scope, left_out, imported=imported)
    return BackAt(session=recorder.session, went=went, said=said.text if said else None)


async def _workspace(journal: JournalReader, vault: Vault) -> Path:
    started = await last_event(journal, SessionStarted)
    if started is None:
        raise UsageError("This session is empty: nothing was recorded in it.")
    return Path(vault.expand(started.workspace))


async def _content(reader: JournalReader, blob: Blob | None) -> bytes:
    return await reader.get(blob) if blob else b""
