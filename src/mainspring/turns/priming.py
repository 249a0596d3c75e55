"""Shows the model what its task names, before the first request of a turn, as one note on record: a turn that
is resumed finds the note and sends the same bytes.

It is help, never a condition: whatever cannot be found or read is left out.
"""

from __future__ import annotations

import asyncio
from importlib import import_module

from mainspring.context.history import live, read_all, undone_ranges
from mainspring.events import PRIMING_SOURCE, AssistantSaid, NoteAdded, Recorded, ShownFile, UserSaid
from mainspring.events.escaping import whole_characters
from mainspring.secrets.injection import suspicions
from mainspring.tools.primer import Found, also_named, find_named, show_found, unchanged
from mainspring.turns.runtime import Runtime
from mainspring.turns.small import draft_page
from mainspring.turns.task_project import project_of
from mainspring.workspace.affected import command_for, is_test

_PATIENCE = 2


async def prime(runtime: Runtime) -> None:
    """Records what to show for the task of the open turn, if that is new. The iterations of a goal have a
    prompt of their own, which is not about files."""
    if not runtime.is_recalled:
        runtime.is_recalled = True
        await _recall(runtime)
    work, state = runtime.workbench.work, runtime.state
    if work.priming == "off" or state.has_goal:
        return
    said = await _unprimed(runtime)
    if said is None:
        return
    files = runtime.workbench.files
    found = await asyncio.to_thread(find_named, files, said.text)
    report = await _test_report(runtime, said.text, found)
    primed = await asyncio.to_thread(
        show_found,
        files,
        also_named(found, report),
        tokens=work.tokens_to_prime(state.prompt.profile),
        hide=runtime.recorder.vault.redact,
        has_tree=state.turn == 1,
        has_rest=state.prompt.profile == "small",
        report=report,
    )
    text = await draft_page(runtime, said.text, primed) or primed.text
    if not text:
        return
    text = whole_characters(text)
    note = NoteAdded(text=text, source=PRIMING_SOURCE, suspicious=suspicions(text), files=primed.files)
    await runtime.record(note, is_durable=False)
    for content in primed.whole:
        runtime.workbench.toolbox.seen.add(content.path, content.version)


async def _test_report(runtime: Runtime, task: str, found: Found) -> str:
    """What the tests say that a task names: by their files or ids, or by the project's own command."""
    names = [test for mention in found.mentions for test in mention.test_ids or (mention.path,)]
    tests = [name for name in names if is_test(name.partition("::")[0])]
    project = await project_of(runtime, task)
    if not project.test or not (tests or project.test in task):
        return ""
    timeout_s = _PATIENCE * runtime.workbench.work.test_timeout_s
    ran = await import_module("mainspring.turns.suite").run_suite(
        runtime, command_for(project, tests), "task", timeout_s=timeout_s
    )
    return f"--- {ran.ended.summary}" if ran and ran.ended.outcome in ("passed", "failed") else ""


async def _recall(runtime: Runtime) -> None:
    """Counts the files as seen that an earlier process of this session showed whole, unless they changed."""
    dead = undone_ranges(await read_all(runtime.journal, kinds=("Undone",)))
    notes = live(await read_all(runtime.journal, kinds=("NoteAdded",)), dead)
    expand = runtime.recorder.vault.expand
    shown = [(expand(item.path), item) for note in notes for item in _files_of(note) if not item.first_line]
    for content in await asyncio.to_thread(unchanged, runtime.workbench.files, shown):
        runtime.workbench.toolbox.seen.add(content.path, content.version)


def _files_of(recorded: Recorded) -> tuple[ShownFile, ...]:
    return recorded.event.files if isinstance(recorded.event, NoteAdded) else ()


async def _unprimed(runtime: Runtime) -> UserSaid | None:
    """The task of a turn that has just begun; None when the model was told more already."""
    last = await runtime.journal.last("UserSaid")
    if last is None or not isinstance(last.event, UserSaid):
        return None
    since = await runtime.journal.read(after=last.seq, kinds=("AssistantSaid", "NoteAdded"))
    is_known = any(
        isinstance(item.event, AssistantSaid)
        or (isinstance(item.event, NoteAdded) and item.event.source == PRIMING_SOURCE)
        for item in since
    )
    return None if is_known else last.event
