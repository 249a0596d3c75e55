"""What turns of the small profile do otherwise."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from mainspring.context.mentions import is_source
from mainspring.events import (
    ATTEMPTS_SOURCE,
    EFFECT_SOURCE,
    TESTS_SOURCE,
    AttemptStarted,
    CallStarted,
    FileChange,
    FilesChanged,
    NoteAdded,
    UserSaid,
)
from mainspring.models import Request
from mainspring.models.drafts import (
    SHELL,
    WRITE,
    alone,
    asked,
    is_asked,
    is_said,
    page,
    paths_in,
    program_asked,
    ran_program,
    without_pages,
)
from mainspring.tools import MAX_TEXT
from mainspring.tools.primer import Primed
from mainspring.turns.runtime import Runtime
from mainspring.turns.stuck import hotter, place_of
from mainspring.workspace.affected import is_test

CLOSING = "Say in one short sentence what you changed."
_ALTERNATIVES = 5
"""Tokens of each place of a reply with files that a server is asked to tell of, where tests can decide."""
_RESULT_TEXT = 6_000
_MAX_TASK = 8_000
_MAX_WHOLE_BYTES = 4_000
_PASSED = "If all that was asked is done, answer now."
_IDLE = (
    "You have changed nothing and run nothing. If the task needs that, do it now with the tools; otherwise"
    " repeat your answer."
)


_UNCHANGED = "Nothing has changed: the files are as they were. Do the task now."
_FENCE = "```"
_DATA = (".csv", ".tsv", ".json", ".jsonl", ".xml", ".log")
_ANSWER = ".txt"
_MAX_ITEM, _MAX_WORDS = 40, 3
_MOST_PROGRAMS = 2
_DROPPED = "One action a reply: only your first was done, {count} behind it not. Send what is still needed."
_OF_THE_USER = frozenset({"map", "instructions", "skills", "memory"})
_DEEDS = ("FilesChanged", "CallStarted", "NoteAdded")


def result_text(runtime: Runtime) -> int:
    """Characters that the model is sent of one call at most."""
    return _RESULT_TEXT if runtime.state.prompt.profile == "small" else MAX_TEXT


def told_dropped(count: int) -> list[NoteAdded]:
    """Tells a model of the actions that did not count."""
    return [NoteAdded(text=_DROPPED.format(count=count), source="mainspring")] if count else []


async def draft_page(runtime: Runtime, task: str, primed: Primed) -> str:
    """What a small model is asked instead of being offered tools, where all that it needs can be shown whole:
    for whole files, or for a program where an answer is to be found in data, and to stand in a file. A file
    that the task names and that is not there yet is the example: it is what is wanted."""
    if runtime.state.prompt.profile != "small" or not _may_write(runtime) or len(task) > _MAX_TASK:
        return ""
    wanted = _wanted(runtime, task)
    if not primed.is_all_whole or not (primed.files or wanted):
        return ""
    shown = [item.path for item in primed.files]
    files = zip(shown, primed.whole, strict=True)
    is_computed = (
        bool(shown)
        and wanted.endswith(_ANSWER)
        and all(_is_data(path, content.data) for path, content in files)
    )
    attempt = await runtime.journal.last("AttemptStarted")
    number = attempt.event.attempt if attempt and isinstance(attempt.event, AttemptStarted) else 1
    is_program = is_computed and _may_run(runtime) and number <= _MOST_PROGRAMS
    form = program_asked(wanted) if is_program else asked(wanted or _example(shown))
    return page(primed.blocks, primed.others, task, await _failure(runtime), form)


def _wanted(runtime: Runtime, task: str) -> str:
    """The file that a task names and that is not there yet."""
    return next((path for path in paths_in(task) if not (runtime.state.workspace / path).exists()), "")


async def _failure(runtime: Runtime) -> str:
    """What the attempt before this one failed with."""
    began = await runtime.journal.last("AttemptStarted")
    told = await runtime.journal.read(after=began.seq if began else runtime.last_seq, kinds=("NoteAdded",))
    notes = [item.event for item in told if isinstance(item.event, NoteAdded)]
    return next((note.text.partition("\n\n")[2] for note in notes if note.source == ATTEMPTS_SOURCE), "")


async def as_asked(runtime: Runtime, request: Request) -> Request:
    """A small model is sent no more than it needs: with a page the page, and with the question what was done
    the task and its files. What a program or the user's own files tell it stays. Tests that the task does not
    name are kept as they are."""
    prompt, messages = runtime.state.prompt, request.messages
    is_closing = is_said(messages, CLOSING)
    if prompt.profile != "small" or not (is_closing or is_asked(messages)):
        return request
    is_ours = any(part.name == "work" and part.size == len(request.system) for part in prompt.parts)
    is_plain = bool(prompt.context) and not any(part.name in _OF_THE_USER for part in prompt.parts)
    messages = messages[1:] if is_plain else messages
    task, shown = await _task(runtime), await _shown(runtime)
    kept = tuple(path for path in shown if is_test(path) and path not in task)
    is_off = is_closing or runtime.workbench.work.alternatives == "off"
    place = None if is_off else await place_of(runtime)
    request = msgspec.structs.replace(
        request, alternatives=_ALTERNATIVES if place and place.checks else 0, kept_files=kept
    )
    short = msgspec.structs.replace(
        request,
        system="" if is_ours else request.system,
        messages=without_pages(messages) if is_closing else alone(messages),
        tools=() if is_closing else request.tools,
    )
    return msgspec.structs.replace(request, short=short)


async def _task(runtime: Runtime) -> str:
    said = await runtime.journal.last("UserSaid")
    return said.event.text if said and isinstance(said.event, UserSaid) else ""


async def _shown(runtime: Runtime) -> list[str]:
    """The files that a note of this turn shows."""
    said = await runtime.journal.last("UserSaid")
    noted = await runtime.journal.read(after=said.seq if said else 0, kinds=("NoteAdded",))
    return [item.path for each in noted if isinstance(each.event, NoteAdded) for item in each.event.files]


def after_tests(runtime: Runtime, changes: Sequence[FileChange], *, is_passed: bool) -> str:
    """What to do about the result of tests after these changes."""
    if runtime.state.prompt.profile != "small" or not _may_write(runtime):
        return ""
    if is_passed:
        is_draft = all(call.name == WRITE for call in runtime.state.last_reply.calls)
        return f"\n{f'All tests pass. {CLOSING}' if is_draft else _PASSED}"
    are_short = all(change.after and change.after.size <= _MAX_WHOLE_BYTES for change in changes)
    return f"\n\n{asked(_example([change.path for change in changes]))}" if are_short else ""


async def tell_untested(runtime: Runtime) -> None:
    """After a change that nothing tests: without a word a small model makes the same change again."""
    if runtime.state.prompt.profile == "small":
        is_program = any(ran_program(call.arguments) for call in runtime.state.last_reply.calls)
        text = CLOSING if is_program else _PASSED
        await runtime.record(NoteAdded(text=text, source=TESTS_SOURCE), is_durable=False)


def _may_write(runtime: Runtime) -> bool:
    state = runtime.state
    return state.mode != "plan" and any(tool.name == WRITE for tool in state.prompt.tools)


def _may_run(runtime: Runtime) -> bool:
    return any(tool.name == SHELL for tool in runtime.state.prompt.tools)


def _is_data(path: str, content: bytes) -> bool:
    """Whether a file is data by its name, or a text that is a list: of numbers or of single words."""
    if not path.endswith(_ANSWER):
        return path.endswith(_DATA)
    return all(len(line) <= _MAX_ITEM and len(line.split()) <= _MAX_WORDS for line in content.splitlines())


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
    example = _wanted(runtime, await _task(runtime)) or (_example(paths) if paths else "")
    text = f"{_UNCHANGED} {asked(example)}" if is_meant and example and _may_write(runtime) else _IDLE
    more = [hotter(runtime)] if is_meant else []
    await runtime.record(*more, NoteAdded(text=text, source=EFFECT_SOURCE))
    return True
