"""What turns of the small profile do otherwise."""

from __future__ import annotations

from collections.abc import Sequence

from mainspring.context.mentions import is_source
from mainspring.events import (
    EFFECT_SOURCE,
    TESTS_SOURCE,
    CallStarted,
    FileChange,
    FilesChanged,
    NoteAdded,
    ShownFile,
)
from mainspring.models.drafts import WRITE, asked, paths_in
from mainspring.tools import MAX_TEXT
from mainspring.turns.runtime import Runtime
from mainspring.turns.stuck import hotter
from mainspring.workspace.affected import is_test

_RESULT_TEXT = 6_000
_MAX_SAID_AGAIN = 800
_MAX_WHOLE_BYTES = 4_000
_SAID_AGAIN = "\n--- your task, to be done now\n{task}\n\n{form}"
_PASSED = "If all that was asked is done, answer now."
_IDLE = (
    "You have changed nothing and run nothing. If the task needs that, do it now with the tools; otherwise"
    " repeat your answer."
)


_UNCHANGED = "Nothing has changed: the files are as they were. Do the task now."
_FENCE = "```"
_DROPPED = "One action a reply: only your first was done, {count} behind it not. Send what is still needed."
_DEEDS = ("FilesChanged", "CallStarted", "NoteAdded")


def result_text(runtime: Runtime) -> int:
    """Characters that the model is sent of one call at most."""
    return _RESULT_TEXT if runtime.state.prompt.profile == "small" else MAX_TEXT


def told_dropped(count: int) -> list[NoteAdded]:
    """Tells a model of the actions that did not count."""
    return [NoteAdded(text=_DROPPED.format(count=count), source="mainspring")] if count else []


def said_again(runtime: Runtime, task: str, shown: Sequence[ShownFile]) -> str:
    """A short task once more, behind the files that were shown for it, and in which form to change them where
    all of them were shown whole: small models do what stands last. A file that the task names and that is not
    there yet is the example: it is what is wanted."""
    if runtime.state.prompt.profile != "small" or not shown or len(task) > _MAX_SAID_AGAIN:
        return ""
    is_whole = not any(item.first_line for item in shown)
    paths = [item.path for item in shown]
    wanted = next((path for path in paths_in(task) if not (runtime.state.workspace / path).exists()), "")
    form = asked(wanted or _example(paths)) if is_whole and _may_write(runtime) else ""
    return _SAID_AGAIN.format(task=task, form=form).rstrip()


def after_tests(runtime: Runtime, changes: Sequence[FileChange], *, is_passed: bool) -> str:
    """What to do about the result of tests after these changes."""
    if runtime.state.prompt.profile != "small" or not _may_write(runtime):
        return ""
    if is_passed:
        return f"\n{_PASSED}"
    are_short = all(change.after and change.after.size <= _MAX_WHOLE_BYTES for change in changes)
    return f"\n\n{asked(_example([change.path for change in changes]))}" if are_short else ""


async def tell_untested(runtime: Runtime) -> None:
    """After a change that nothing tests: without a word a small model makes the same change again."""
    if runtime.state.prompt.profile == "small":
        await runtime.record(NoteAdded(text=_PASSED, source=TESTS_SOURCE), is_durable=False)


def _may_write(runtime: Runtime) -> bool:
    state = runtime.state
    return state.mode != "plan" and any(tool.name == WRITE for tool in state.prompt.tools)


def _example(paths: Sequence[str]) -> str:
    """The file that will most likely change: the first of the program, no test and no data."""
    own = [path for path in paths if not is_test(path)]
    return next((path for path in own if is_source(path)), (own or paths)[0])


async def is_asked_for_effect(runtime: Runtime) -> bool:
    """Asks a model once a turn that wants to end without having done anything; whether it was asked now. One
    that wrote files as they are, or showed code, meant to change something: it is asked for that, and sampled
    otherwise."""
    state = runtime.state
    if state.prompt.profile != "small" or not state.prompt.tools or state.is_effect_asked:
        return False
    began = await runtime.journal.last("TurnStarted")
    done = await runtime.journal.read(after=began.seq if began else 0, kinds=_DEEDS)
    tools = [item.event.tool for item in done if isinstance(item.event, CallStarted)]
    if any(isinstance(item.event, FilesChanged) for item in done) or any(tool != WRITE for tool in tools):
        return False
    is_meant = bool(tools) or _FENCE in state.last_reply.text
    notes = [item.event for item in done if isinstance(item.event, NoteAdded)]
    paths = [shown.path for note in notes for shown in note.files]
    text = f"{_UNCHANGED} {asked(_example(paths))}" if is_meant and paths and _may_write(runtime) else _IDLE
    more = [hotter(runtime)] if is_meant else []
    await runtime.record(*more, NoteAdded(text=text, source=EFFECT_SOURCE))
    return True
