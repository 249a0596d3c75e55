"""Commands run without an agent: each has a journal of its own, written before and after.

A command is asked for, decided by the policy, run in the sandbox, and ended, each on record; one that was
refused, or whose process died, stays so and is never run again by itself. Their journals lie in a
folder of their own, beside the sessions.
"""

from __future__ import annotations

import asyncio
import shlex
from codecs import getincrementaldecoder
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Annotated

import msgspec

from mainspring import __version__
from mainspring.approvals import Judgement, Policy, Proposed, why_asked
from mainspring.approvals.answers import Requests
from mainspring.approvals.grants import Grant, GrantFile
from mainspring.approvals.patterns import allows, words_of
from mainspring.approvals.permit import (
    Blocked,
    Gate,
    Permitted,
    Refused,
    Stopped,
    Wanted,
    edited_as,
    permit,
)
from mainspring.approvals.questions import Approver, Questions
from mainspring.approvals.quorums import check_entitled, name_of
from mainspring.approvals.wrappers import Word
from mainspring.catalog import Sessions, reading, running
from mainspring.errors import ConfigError, JournalError, MainspringError
from mainspring.events import (
    ApprovalAsked,
    ApprovalGiven,
    Blob,
    CommandAsked,
    CommandEnded,
    CommandStarted,
    Origin,
    Outcome,
    Scope,
    SessionStarted,
)
from mainspring.events.counts import plural
from mainspring.journal import JournalReader
from mainspring.sandbox import TIMED_OUT, Command, CommandResult, OnOutput, ProcessLimits, Sandbox
from mainspring.secrets.recorder import Recorder
from mainspring.secrets.vault import Vault
from mainspring.settings import Template

_TOOL = "step"
"""How approvals, grants and journals name such a command, since before it was called so."""
_MAX_OUTPUT_BYTES = 64 * 1024 * 1024


class Runner(msgspec.Struct, frozen=True, kw_only=True):
    """What a command is run with. Without an approver there is nobody to ask, without a file for grants a yes
    is for once. A yes for a session would be for once too: each command has a journal of its own."""

    policy: Policy
    sandbox: Callable[[], Awaitable[Sandbox]]
    template: Template = Template()
    grants: GrantFile | None = None
    approver: Approver | None = None
    approval_timeout_s: float | None = None
    on_output: OnOutput | None = None
    allows_home: bool = False
    gate: Callable[[Recorder, Sandbox], Gate | None] = lambda _recorder, _sandbox: None


class CommandRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A command as its journal tells it. `state` is its outcome, or timeout, running or crashed."""

    id: str
    state: str
    argv: tuple[str, ...]
    cwd: str
    template: str
    started_us: int
    ended_us: int | None
    exit_code: int | None
    output_bytes: int
    reason: str
    stdout: Blob | None = None
    stderr: Blob | None = None
    label: str = ""


async def run_command(recorder: Recorder, asked: CommandAsked, runner: Runner) -> CommandEnded:
    """Takes a new journal from the question to its end. Every way out of it is on record."""
    started = SessionStarted(
        session=recorder.session, workspace=asked.cwd, version=__version__, allows_home=runner.allows_home
    )
    await recorder.record(started, asked)
    sandbox: Sandbox | None = None
    try:
        sandbox = await runner.sandbox()
        permitted = await _permit(recorder, asked, runner, sandbox)
        if isinstance(permitted, CommandEnded):
            ended = permitted
        else:
            if permitted.edited_by:
                await recorder.record(permitted.action)
            await recorder.record(CommandStarted(reason=permitted.reason))
            ended = await _run(recorder, permitted.action, runner, sandbox)
    except asyncio.CancelledError:
        await recorder.record(CommandEnded(outcome="cancelled", reason="stopped by request"))
        raise
    except MainspringError as error:
        if not isinstance(error, JournalError):
            await recorder.record(CommandEnded(outcome="error", reason=str(error)))
        raise
    finally:
        if sandbox is not None:
            await sandbox.close()
    await recorder.record(ended)
    return ended


def proposed_command(asked: CommandAsked, *, session: str = "", is_contained: bool) -> Proposed:
    """A command as it is judged."""
    return Proposed(
        tool=_TOOL,
        effect="execute",
        arguments={"argv": asked.argv},
        command=shlex.join(asked.argv),
        workspace=asked.cwd,
        cwd=asked.cwd,
        session=session,
        is_contained=is_contained,
    )


def judge(proposed: Proposed, name: str, template: Template, policy: Policy) -> Judgement:
    """What the template of this name says to a command, and then the policy."""
    argv = tuple(Word(text) for text in proposed.arguments["argv"])
    if template.commands and not any(allows(_words(pattern), argv) for pattern in template.commands):
        reason = f"the template {name} does not allow this command"
        return Judgement(answer="deny", reason=reason, rule=f"template:{name}", blocked_by="rule")
    return policy.judge(proposed)


async def _permit(
    recorder: Recorder, asked: CommandAsked, runner: Runner, sandbox: Sandbox
) -> Permitted[CommandAsked] | CommandEnded:
    """The command as it may run, or its end."""

    def wanted(command: CommandAsked) -> Wanted[CommandAsked]:
        proposed = proposed_command(command, session=recorder.session, is_contained=sandbox.is_containing)
        return Wanted(call=_TOOL, action=command, proposed=proposed)

    async def edit(arguments: str) -> Wanted[CommandAsked] | str:
        edited = edited_as(_Edited, arguments, recorder.vault)
        return edited if isinstance(edited, str) else wanted(replace(asked, argv=edited.argv))

    replace = msgspec.structs.replace
    asker = _Asker(recorder, asked, runner, runner.gate(recorder, sandbox))
    outcome = await permit(asker, wanted(asked), edit=edit)
    match outcome:
        case Permitted():
            return outcome
        case Blocked(question):
            reason = f"nobody was there to approve it: {why_asked(question)}"
        case Refused():
            reason = outcome.feedback or outcome.reason
        case Stopped():
            reason = outcome.feedback or "a person refused it"
    return CommandEnded(outcome="refused", reason=reason)


class _Edited(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    argv: Annotated[tuple[str, ...], msgspec.Meta(min_length=1)]


class _Asker:
    """A command for which `permit` asks: its template is judged before the policy."""

    def __init__(self, recorder: Recorder, asked: CommandAsked, runner: Runner, gate: Gate | None) -> None:
        self.gate = gate
        self._recorder = recorder
        self._asked = asked
        self._runner = runner
        self.vault = recorder.vault
        self.scopes: tuple[Scope, ...] = ("once", "project", "forever") if runner.grants else ("once",)

    @property
    def policy(self) -> Policy:
        return self

    def judge(self, proposed: Proposed) -> Judgement:
        return judge(proposed, self._asked.template, self._runner.template, self._runner.policy)

    async def ask_person(self, question: ApprovalAsked) -> ApprovalGiven | None:
        origin = self._recorder.origin or Origin()
        if question.quorums:
            question = msgspec.structs.replace(question, owners=(name_of(origin),))
        requests = Requests({question.call: question})
        named = partial(msgspec.structs.replace, origin=origin)
        questions = Questions(
            lambda given: requests.refusal(named(given)),
            approver=self._runner.approver or _nobody,
            timeout_s=self._runner.approval_timeout_s,
            check_entitled=lambda given: check_entitled(requests.request(question.call), named(given)),
        )
        with questions.opened(question):
            await self._recorder.record(question)
            given = await questions.first_answer(question.call)
        if given is None:
            return None
        counted = requests.counted(named(given))
        await self._recorder.record(counted)
        return counted if isinstance(counted, ApprovalGiven) else None  # nobody else can be asked here

    async def grant(self, *grants: Grant) -> None:
        if (file := self._runner.grants) is not None:
            for grant in grants:
                await asyncio.to_thread(file.add, grant)


async def _nobody(_: ApprovalAsked) -> None:
    return None


def _words(pattern: str) -> tuple[str, ...]:
    try:
        return words_of(pattern)
    except ValueError as error:
        raise ConfigError(f"The command pattern {pattern!r} is not valid: {error}.") from error


async def _run(recorder: Recorder, asked: CommandAsked, runner: Runner, sandbox: Sandbox) -> CommandEnded:
    command = Command(
        argv=asked.argv,
        cwd=Path(asked.cwd),
        timeout_s=asked.timeout_s,
        max_output_bytes=_MAX_OUTPUT_BYTES,
        limits=ProcessLimits(cpu_s=asked.cpu_s, memory_bytes=asked.memory_bytes),
    )
    show, last = _shown(runner.on_output, recorder.vault)
    try:
        finished = await sandbox.run(command, show)
    finally:
        last()
    outcome: Outcome = "ok" if finished.exit_code == 0 and not finished.stopped else "error"
    return CommandEnded(
        outcome=outcome,
        reason=_reason(finished),
        exit_code=finished.exit_code,
        stdout=await _kept(recorder, finished.stdout),
        stderr=await _kept(recorder, finished.stderr),
        output_bytes=len(finished.stdout) + len(finished.stderr) + finished.dropped_bytes,
        duration_s=round(finished.duration_s, 6),
        is_timeout=finished.stopped.startswith(TIMED_OUT),
    )


async def _kept(recorder: Recorder, output: bytes) -> Blob | None:
    return await recorder.put_blob(output) if output else None


def _shown(show: OnOutput | None, vault: Vault) -> tuple[OnOutput | None, Callable[[], None]]:
    """How output is shown as it comes, without secrets, and how its end is."""
    if show is None:
        return None, lambda: None
    decoder, stream = getincrementaldecoder("utf-8")("replace"), vault.stream()
    return (
        lambda chunk: show(stream.feed(decoder.decode(chunk)).encode()),
        lambda: show((stream.feed(decoder.decode(b"", final=True)) + stream.end()).encode()),
    )


def _reason(finished: CommandResult) -> str:
    reasons = [finished.stopped]
    if finished.dropped_bytes:
        reasons.append(f"{finished.dropped_bytes:,} bytes of output were dropped")
    if finished.is_partly_held:
        reasons.append("the workspace has too many folders for all protected files to be held")
    if finished.left_running:
        reasons.append(f"it left {plural(len(finished.left_running), 'process')} running, which were ended")
    return "; ".join(filter(None, reasons))


def _state(ended: CommandEnded | None, *, is_running: bool) -> str:
    if ended is None:
        return "running" if is_running else "crashed"
    return "timeout" if ended.is_timeout else ended.outcome


async def load_command(store: Sessions, command: str) -> CommandRecord | None:
    """The command of this id; None when it was not even asked for."""
    async with reading(store, command) as reader:
        return await read_command(reader, is_running=await running(store, command) is not None)


async def read_command(reader: JournalReader, *, is_running: bool) -> CommandRecord | None:
    """The command of a journal; None when it was not even asked for."""
    asked: CommandAsked | None = None
    ended: CommandEnded | None = None
    started_us, ended_us, reason = 0, None, ""
    for recorded in await reader.read():
        match recorded.event:
            case CommandAsked() as asked:
                started_us = recorded.time_us
            case CommandStarted(reason=reason):
                pass
            case CommandEnded() as ended:
                ended_us = recorded.time_us
            case _:
                pass
    if asked is None:
        return None
    return CommandRecord(
        id=reader.session,
        state=_state(ended, is_running=is_running),
        argv=asked.argv,
        cwd=asked.cwd,
        template=asked.template,
        started_us=started_us,
        ended_us=ended_us,
        exit_code=ended.exit_code if ended else None,
        output_bytes=ended.output_bytes if ended else 0,
        reason=ended.reason if ended and ended.reason else reason and f"allowed: {reason}",
        stdout=ended.stdout if ended else None,
        stderr=ended.stderr if ended else None,
        label=asked.label,
    )


async def newest_commands(store: Sessions, limit: int) -> list[CommandRecord]:
    """The commands whose journals changed last, the newest first; damaged ones are left out."""
    found: list[CommandRecord] = []
    for name in (await store.names())[:limit]:
        try:
            command = await load_command(store, name)
        except JournalError:
            continue
        if command is not None:
            found.append(command)
    return found
