"""Runs an agent that is a command: the prompt on its standard input, a line after another on its output.

It runs in the session's sandbox and dies with us, however we die. It is stopped when what it reports passes a
cap; whatever becomes of it, its calls are closed, its spending is settled and its end is on record.
"""

from __future__ import annotations

import asyncio
import time
from typing import Protocol

import msgspec

from mainspring.context.history import estimated_tokens
from mainspring.engines.messages import AgentFinished, Failed, Item, LineReader, Named, Unread, Used
from mainspring.engines.outside import Outside, prepare, prompt_of
from mainspring.engines.recorder import EngineRecorder, StopAgent
from mainspring.errors import SandboxError
from mainspring.events import EngineEnded, RequestFailed, Usage
from mainspring.events.counts import plural
from mainspring.events.decoding import DECODE_ERRORS
from mainspring.folds.ledger import ENGINE, Refusal
from mainspring.models import Price
from mainspring.sandbox import Command, Confinement, Sandbox
from mainspring.sandbox import CommandResult as Exited
from mainspring.sandbox.streams import Line, Printed, printed, written
from mainspring.turns.endings import UNCLEAN, UNREVIEWED, End, failed, refused, run_to_end
from mainspring.turns.runtime import Runtime
from mainspring.turns.spend import Reservation, left_usd, overspent, reserve, settle, share_usd

_FOREVER_S = 30 * 24 * 3600.0
_MAX_PRINTED = 1024**3
_MAX_UNREAD = 8 * 1024
_MAX_STDERR = 64 * 1024
_TOLD_STDERR = 2000
_REST_WITHIN_S = 30.0
_NOT_FOUND = 127


class Meter:
    """What a run has used so far, by what it reports."""

    def __init__(self, runtime: Runtime, reservation: Reservation, before: Usage) -> None:
        """`before` is what earlier turns used of what the agent reports for all of them."""
        self._runtime = runtime
        self._reservation = reservation
        self._before = before
        self._price = reservation.price
        self._parts: dict[str, Used] = {}
        self._total: Used | None = None

    def add(self, used: Used) -> None:
        """Raises `StopAgent` when it is too much."""
        if used.key:
            self._parts[used.key] = used
        else:
            self._total = msgspec.structs.replace(used, usage=_less(used.usage, self._before))
        if refusal := overspent(self._runtime, self._reservation, self.usage, self.usd):
            raise StopAgent(refused(refusal))

    def price(self, price: Price | None) -> None:
        """What the model costs that the agent says it uses; a price that was known before is kept."""
        self._price = self._price or price

    @property
    def reserved_usd(self) -> float:
        return self._reservation.reserved.usd

    @property
    def model(self) -> str:
        return self._reservation.reserved.model or self._runtime.state.model

    @property
    def usage(self) -> Usage:
        counted = [self._total] if self._total else list(self._parts.values())
        names = Usage.__struct_fields__
        return Usage(**{name: sum(getattr(used.usage, name) for used in counted) for name in names})

    @property
    def usd(self) -> float:
        counted = [self._total] if self._total else list(self._parts.values())
        told = [used.usd for used in counted if used.usd is not None]
        if told:
            return sum(told)
        return self._price.cost_usd(self.usage) if self._price else 0.0

    async def settle(self) -> None:
        """Tokens of unknown price cost all that was set aside."""
        is_told = any(used.usd is not None for used in (self._total, *self._parts.values()) if used)
        is_unknown = self.usage.total_tokens > 0 and self._price is None and not is_told
        usd = self.reserved_usd if is_unknown else self.usd
        await settle(self._runtime, self._reservation, self.usage, usd=usd)


def _less(usage: Usage, before: Usage) -> Usage:
    names = Usage.__struct_fields__
    counts = {name: getattr(usage, name) - getattr(before, name) for name in names}
    return Usage(**counts) if min(counts.values()) >= 0 else usage


class EngineRun:
    """One run of an agent as it is told: what it said of its end, and what could not be read."""

    def __init__(self, runtime: Runtime, reservation: Reservation, outside: Outside) -> None:
        self.runtime = runtime
        self._outside = outside
        self.teller = EngineRecorder(runtime)
        is_counted = outside.facts.counts_conversation and outside.conversation(runtime)
        before = runtime.state.conversation_usage if is_counted else Usage()
        self.meter = Meter(runtime, reservation, before)
        self.failed: Failed | None = None
        self.finished: AgentFinished | None = None
        self.unread_lines = 0
        self._unread = ""
        self._began = time.monotonic()

    async def take(self, item: Item) -> None:
        match item:
            case Used():
                self.meter.add(item)
            case Named():
                self.meter.price(self._outside.price_of(item.model) if item.model else None)
                await self._name(item.conversation)
            case Failed():
                self.failed = item
            case AgentFinished():
                self.finished = item
            case Unread():
                self.unread_lines += 1
                if len(self._unread) < _MAX_UNREAD:
                    self._unread += item.text[: _MAX_UNREAD - len(self._unread)] + "\n"
            case _:
                await self.teller.tell(item)

    async def conclude(self, exited: Exited | None, end: End) -> None:
        """Closes and records everything but the end of the turn itself."""
        is_done = end.ending == "done"
        await self.teller.end(self.finished.text if self.finished else "", is_done=is_done)
        ended = EngineEnded(
            exit_code=exited.exit_code if exited else None,
            reason="" if is_done or exited else end.detail,
            stderr=tail_of(exited.stderr) if exited else "",
            unread_lines=self.unread_lines,
            unread=self._unread.rstrip("\n"),
            left_running=exited.left_running if exited else (),
            duration_s=round(time.monotonic() - self._began, 6),
        )
        await self.runtime.record(ended, *self._outage(end))
        await self.meter.settle()

    def _outage(self, end: End) -> list[RequestFailed]:
        """On record as a failed request of our own is, so that whoever waits for providers waits for this."""
        failed = self.failed
        if failed is None or not failed.outage or end.ending != "failed":
            return []
        step, model = self.runtime.state.step, self.meter.model
        return [RequestFailed(step=step, attempt=1, error=failed.outage, message=failed.message, model=model)]

    async def _name(self, conversation: str) -> None:
        known = self.runtime.state.engine
        if conversation and conversation != known.conversation:
            await self.runtime.record(msgspec.structs.replace(known, conversation=conversation))


class Follow(Protocol):
    """Runs an agent to its end. Raises `StopAgent` after the agent and all that it started were ended."""

    async def __call__(
        self, outside: Outside, run: EngineRun, sandbox: Sandbox, policy: Confinement, prompt: str, /
    ) -> tuple[End, Exited | None]:
        """How the turn ended, and how the agent did, if it ended by itself."""
        ...


class OutsideEngine:
    """Takes turns by running an agent, one run for each turn."""

    def __init__(self, outside: Outside, follow: Follow) -> None:
        self.outside = outside
        self._follow = follow

    async def __call__(self, runtime: Runtime) -> None:
        await run_to_end(runtime, self._work)

    def _unpriced_usd(self, runtime: Runtime) -> float:
        """What an agent may cost that says so only at its end, which it may not live to see: all that is
        left. A goal would be over after one crash, so each of its turns has a share."""
        if not self.outside.facts.reports_cost:
            return 0.0
        left = share_usd(runtime) if runtime.state.has_goal else left_usd(runtime)
        return max(left or 0.0, 0.0)

    async def _work(self, runtime: Runtime) -> End:
        prepared = await prepare(runtime, self.outside)
        if isinstance(prepared, End):
            return prepared
        if runtime.upkeep.guard:  # nobody knows which call of the agent will be its first change
            await runtime.upkeep.guard.before_calls(runtime)
        prompt = await prompt_of(runtime)
        reservation = await reserve(
            runtime,
            source=ENGINE,
            input_tokens=estimated_tokens(len(prompt)),
            model=self.outside.model,
            unpriced_usd=self._unpriced_usd(runtime),
        )
        if isinstance(reservation, Refusal):
            return refused(reservation)
        run = EngineRun(runtime, reservation, self.outside)
        end, exited = End("interrupted", "stopped before it was done"), None
        try:
            await run.teller.begin()
            end, exited = await self._follow(self.outside, run, *prepared, prompt)
        except StopAgent as enough:
            end = enough.end
        except SandboxError as error:
            end = failed(error)
        finally:
            await run.conclude(exited, end)
        if runtime.upkeep.checks and (problem := await runtime.upkeep.checks(runtime)):
            return End("failed", problem, UNCLEAN)
        if end.ending == "done" and runtime.upkeep.guard:
            await runtime.upkeep.guard.after_step(runtime)
        if end.ending == "done" and (review := runtime.upkeep.review) and (problem := await review(runtime)):
            return End("failed", problem, UNREVIEWED)
        return End("done", last_line(runtime)) if end.ending == "done" else end


def command_of(
    outside: Outside, run: EngineRun, sandbox: Sandbox, policy: Confinement, stdin: int, out: int
) -> Command:
    task = outside.task(run.runtime, sandbox, run.meter.reserved_usd)
    return Command(
        argv=(*outside.command, *outside.facts.arguments(task), *outside.settings.args),
        cwd=run.runtime.state.workspace,
        env=outside.variables(sandbox),
        timeout_s=_FOREVER_S,
        policy=policy,
        max_output_bytes=_MAX_STDERR,
        stdin=stdin,
        stdout=out,
        is_whole=not run.runtime.state.has_goal,
        outlives=run.runtime.state.has_goal,
    )


async def follow_lines(
    outside: Outside, run: EngineRun, sandbox: Sandbox, policy: Confinement, prompt: str
) -> tuple[End, Exited | None]:
    """An agent that reads its prompt from standard input and prints a line after another."""
    async with written(prompt.encode(errors="replace")) as given, printed() as output:
        command = command_of(outside, run, sandbox, policy, given, output.theirs)
        try:
            async with asyncio.TaskGroup() as group:
                reading = group.create_task(_read(outside, run, output))
                exited = await sandbox.run(command)
                await output.end()
                await asyncio.wait({reading}, timeout=_REST_WITHIN_S)
                reading.cancel()
        except BaseExceptionGroup as errors:
            raise errors.exceptions[0] from errors
    return judged(outside, run, exited), exited


async def _read(outside: Outside, run: EngineRun, output: Printed) -> None:
    reader = outside.facts.reader()
    async for line in output.lines():
        for item in items_of(reader, line):
            await run.take(item)
        if output.total_bytes > _MAX_PRINTED:
            raise StopAgent(End("failed", f"{outside.name} printed more than {_MAX_PRINTED // 1024**3} GiB."))


def items_of(reader: LineReader, line: Line) -> list[Item]:
    """What a line says; one that is not of the format is kept as it is."""
    try:
        return list(reader.read(line.data))
    except DECODE_ERRORS:
        text = line.data.strip().decode(errors="replace")
        return [Unread(text)] if text else []


def last_line(runtime: Runtime) -> str:
    """What a turn that is done is known by."""
    lines = [line for line in runtime.state.last_reply.text.splitlines() if line.strip()]
    return lines[-1].strip() if lines else ""


def judged(outside: Outside, run: EngineRun, exited: Exited) -> End:
    """How the turn ended, by what the agent said and by its exit code: both must be good."""
    stderr = tail_of(exited.stderr)
    if exited.exit_code == _NOT_FOUND and not outside.is_here:
        return outside.missing
    if run.failed is not None:
        return _failed(outside, run, run.failed, stderr if exited.exit_code else "")
    if exited.exit_code or exited.stopped:
        how = exited.stopped or f"exited with code {exited.exit_code}"
        return End("failed", f"{outside.name} {how}{_told(run)}. {stderr}".strip(), "")
    if outside.facts.needs_end and run.finished is None:
        return End("failed", f"{outside.name} ended without saying that it was done{_told(run)}. {stderr}")
    return End("done", "")


def _failed(outside: Outside, run: EngineRun, failed: Failed, stderr: str) -> End:
    detail = f"{outside.name} failed: {failed.message} {stderr}".strip()
    if failed.resets_at_us is not None:
        return End("waiting", detail, "Resume when its provider answers again.", failed.resets_at_us)
    if failed.ending == "budget" and run.runtime.state.has_goal:
        # It was told its share: the goal's own rules say whether that was the last.
        return End("budget", detail, scope="turn", unit="usd")
    return End(failed.ending, detail)


def _told(run: EngineRun) -> str:
    return f" ({plural(run.unread_lines, 'line')} could not be read)" if run.unread_lines else ""


def tail_of(stderr: bytes) -> str:
    text = stderr.decode(errors="replace").strip()
    return text if len(text) <= _TOLD_STDERR else f"…{text[-_TOLD_STDERR:]}"
