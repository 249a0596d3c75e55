"""Commands run without an agent: each has a journal of its own, written before and after.

A command is asked for, decided by the policy, run in the sandbox, and ended, each on record; one that was
refused, or whose process died, stays so and is never run again by itself. Steps lie on a shelf beside the
sessions.
"""

from __future__ import annotations

import asyncio
import shlex
import time
from codecs import getincrementaldecoder
from collections.abc import Awaitable, Callable
from pathlib import Path

import msgspec

from mainspring import __version__
from mainspring.approvals import Policy, Proposed, Verdict
from mainspring.approvals.grants import GrantFile, arguments_sha256, grants_of
from mainspring.approvals.patterns import allows, words_of
from mainspring.approvals.secrets import Vault
from mainspring.approvals.wrappers import Word
from mainspring.catalog import Sessions
from mainspring.config import Template
from mainspring.errors import ConfigError, JournalError, MainspringError
from mainspring.events import (
    ApprovalAsked,
    ApprovalGiven,
    Blob,
    CommandAsked,
    CommandEnded,
    CommandStarted,
    Outcome,
    SessionStarted,
)
from mainspring.journal import Reader
from mainspring.recorder import Recorder
from mainspring.sandbox import Command, Finished, Limits, OnOutput, Sandbox

_STEP = "step"
_MAX_OUTPUT_BYTES = 64 * 1024 * 1024


class Runner(msgspec.Struct, frozen=True, kw_only=True):
    """What a step is run with. Without an approver there is nobody to ask."""

    policy: Policy
    sandbox: Callable[[], Awaitable[Sandbox]]
    template: Template = Template()
    grants: GrantFile | None = None
    approver: Callable[[ApprovalAsked], Awaitable[ApprovalGiven | None]] | None = None
    on_output: OnOutput | None = None


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """A step as its journal tells it. `state` is its outcome, or running, or crashed."""

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


async def run_step(recorder: Recorder, asked: CommandAsked, runner: Runner) -> CommandEnded:
    """Takes a new journal from the question to its end. Every way out of it is on record."""
    started = SessionStarted(session=recorder.session, workspace=asked.cwd, version=__version__)
    await recorder.record(started, asked)
    sandbox: Sandbox | None = None
    try:
        sandbox = await runner.sandbox()
        permitted = await _permit(recorder, asked, runner, sandbox)
        if isinstance(permitted, CommandEnded):
            ended = permitted
        else:
            await recorder.record(permitted)
            ended = await _run(recorder, asked, runner, sandbox)
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


async def _permit(
    recorder: Recorder, asked: CommandAsked, runner: Runner, sandbox: Sandbox
) -> CommandStarted | CommandEnded:
    verdict = judge(asked, runner.template, runner.policy, is_contained=sandbox.is_containing)
    if verdict.answer == "allow":
        return CommandStarted(reason=verdict.reason)
    if verdict.answer == "deny":
        return CommandEnded(outcome="refused", reason=verdict.reason)
    arguments = msgspec.json.encode({"argv": asked.argv}).decode()
    sha256 = arguments_sha256(arguments)
    question = ApprovalAsked(
        call=_STEP,
        tool=_STEP,
        arguments=arguments,
        arguments_sha256=sha256,
        reason=verdict.reason,
        offers=verdict.offers,
    )
    await recorder.record(question)
    given = await runner.approver(question) if runner.approver else None
    if given is None:
        return CommandEnded(outcome="refused", reason=f"nobody was there to approve it: {verdict.reason}")
    await recorder.record(given)
    if given.decision != "allow":
        return CommandEnded(outcome="refused", reason=given.feedback or "a person refused it")
    if given.edited_arguments is not None:
        return CommandEnded(
            outcome="refused", reason="a step runs as it was asked for; ask for the other one"
        )
    if given.scope != "once" and runner.grants is not None:
        now_us = time.time_ns() // 1000
        bounds = {"session": recorder.session, "workspace": asked.cwd, "exactly_sha256": sha256}
        for grant in grants_of(question, given, **bounds, now_us=now_us):
            await asyncio.to_thread(runner.grants.add, grant)
    return CommandStarted(reason="a person allowed it")


def judge(asked: CommandAsked, template: Template, policy: Policy, *, is_contained: bool) -> Verdict:
    """What the template says, and then the policy."""
    if template.commands:
        argv = tuple(Word(text) for text in asked.argv)
        if not any(allows(_words(pattern), argv) for pattern in template.commands):
            reason = f"the template {asked.template} does not allow this command"
            return Verdict(answer="deny", reason=reason, rule=f"template:{asked.template}")
    proposed = Proposed(
        tool=_STEP,
        effect="execute",
        arguments={"argv": asked.argv},
        command=shlex.join(asked.argv),
        workspace=asked.cwd,
        cwd=asked.cwd,
        is_contained=is_contained,
    )
    return policy.judge(proposed)


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
        limits=Limits(cpu_s=asked.cpu_s, memory_bytes=asked.memory_bytes),
    )
    show, last = _shown(runner.on_output, recorder.vault)
    finished = await sandbox.run(command, show)
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


def _reason(finished: Finished) -> str:
    reasons = [finished.stopped]
    if finished.dropped_bytes:
        reasons.append(f"{finished.dropped_bytes:,} bytes of output were dropped")
    if finished.is_partly_held:
        reasons.append("the workspace has too many folders for all protected files to be held")
    if finished.left_running:
        reasons.append(f"it left {len(finished.left_running)} processes running, which were ended")
    return "; ".join(filter(None, reasons))


async def load_step(steps: Sessions, step: str) -> Step | None:
    """The step of this id; None when it was not even asked for."""
    reader = await steps.read(step)
    try:
        owner = await steps.owner(step)
        return await read_step(reader, is_running=owner is not None and owner.is_alive)
    finally:
        await reader.close()


async def read_step(reader: Reader, *, is_running: bool) -> Step | None:
    """The step of a journal; None when it was not even asked for."""
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
    return Step(
        id=reader.session,
        state=ended.outcome if ended else "running" if is_running else "crashed",
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
    )


async def newest_steps(steps: Sessions, limit: int) -> list[Step]:
    """The steps whose journals changed last, the newest first; damaged ones are left out."""
    found: list[Step] = []
    for name in (await steps.names())[:limit]:
        try:
            step = await load_step(steps, name)
        except JournalError:
            continue
        if step is not None:
            found.append(step)
    return found
