"""One turn of an agent over the protocol: begin, ask, and end the process whatever it answered."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from typing import Any, cast

import msgspec
from acp import PROTOCOL_VERSION, Client, RequestError, schema, text_block
from acp.client.connection import ClientSideConnection

from mainspring import __version__
from mainspring.engines.acp.client import OurSide
from mainspring.engines.acp.updates import used
from mainspring.engines.messages import Unread
from mainspring.engines.outside import Outside
from mainspring.engines.recorder import StopAgent
from mainspring.engines.runner import EngineRun, command_of, tail_of
from mainspring.events import Ending
from mainspring.events.decoding import DECODE_ERRORS
from mainspring.sandbox import Command, Confinement, Sandbox
from mainspring.sandbox import CommandResult as Exited
from mainspring.sandbox.streams import Line, Printed, conversation, printed
from mainspring.turns.endings import End

_BEGIN_WITHIN_S = 60.0
_SILENT_WITHIN_S = 20.0
"""How long an agent that has not begun may say nothing at all."""
_MAX_SIGNS = 64 * 1024
_CANCEL_WITHIN_S = 0.2
_DIE_WITHIN_S = 1.0
_ENDINGS: dict[str, Ending] = {
    "max_tokens": "limit",
    "max_turn_requests": "limit",
}


class Messages:
    """The protocol's messages as lines of the agent's pipes; a line that is none is put aside."""

    def __init__(self, output: Printed, writer: asyncio.StreamWriter, side: OurSide) -> None:
        self._lines: AsyncGenerator[Line] = output.lines()
        self._writer = writer
        self._side = side

    async def send(self, message: dict[str, Any]) -> None:
        self._writer.write(msgspec.json.encode(message) + b"\n")
        await self._writer.drain()

    async def receive(self) -> dict[str, Any] | None:
        async for line in self._lines:
            try:
                return msgspec.json.decode(line.data, type=dict[str, Any])
            except DECODE_ERRORS:
                if text := line.data.strip().decode(errors="replace"):
                    self._side.put(Unread(text))
        return None

    async def close(self) -> None:
        return


async def converse(
    outside: Outside, run: EngineRun, sandbox: Sandbox, policy: Confinement, prompt: str
) -> tuple[End, Exited | None]:
    """How the turn ended, and how the agent did if it ended by itself. Raises `StopAgent` as a run does."""
    async with printed() as output, conversation() as (writer, theirs):
        command = command_of(outside, run, sandbox, policy, theirs, output.theirs)
        try:
            async with asyncio.TaskGroup() as group:
                side = OurSide(run, sandbox, group)
                signs = _Signs()
                running = group.create_task(_run(sandbox, command, output, signs))
                telling = group.create_task(side.tell())
                connection = ClientSideConnection(cast("Client", side), Messages(output, writer, side))
                try:
                    end = await _talk(connection, outside, run, prompt, signs)
                    await side.told()
                except ConnectionError:
                    end = await _died(outside, side, running)
                finally:
                    await connection.close()
                    side.end()
                    exited = running.result() if running.done() and not running.cancelled() else None
                    running.cancel()
                    telling.cancel()
        except BaseExceptionGroup as errors:
            raise errors.exceptions[0] from errors
    return end, exited


class _Signs:
    """What an agent writes to its standard error: a sign of life while it begins, and the reason when it
    does not."""

    def __init__(self) -> None:
        self._kept = b""
        self._limit: asyncio.Timeout | None = None
        self._latest = 0.0

    def __call__(self, chunk: bytes) -> None:
        self._kept = (self._kept + chunk)[-_MAX_SIGNS:]
        self._prolong()

    @asynccontextmanager
    async def beginning(self) -> AsyncGenerator[None]:
        """Raises `TimeoutError` when nothing is said for too long, or the beginning takes too long."""
        self._latest = asyncio.get_running_loop().time() + _BEGIN_WITHIN_S
        async with asyncio.timeout(_SILENT_WITHIN_S) as self._limit:
            try:
                yield
            finally:
                self._limit = None

    def _prolong(self) -> None:
        if self._limit is not None and not self._limit.expired():
            now = asyncio.get_running_loop().time()
            self._limit.reschedule(min(now + _SILENT_WITHIN_S, self._latest))

    @property
    def said(self) -> str:
        return tail_of(self._kept) or "It said nothing."


async def _run(sandbox: Sandbox, command: Command, output: Printed, signs: _Signs) -> Exited:
    try:
        return await sandbox.run(command, signs)
    finally:
        output.let_go()


async def _talk(
    connection: ClientSideConnection, outside: Outside, run: EngineRun, prompt: str, signs: _Signs
) -> End:
    session = ""
    try:
        async with signs.beginning():
            session = await _begin(connection, outside, run)
        answer = await connection.prompt(session_id=session, prompt=[text_block(prompt)])
    except TimeoutError:
        return End("failed", f"{outside.name} did not begin a session in time. {signs.said}")
    except RequestError as error:
        return End("failed", f"{outside.name} failed: {_told(error)}", _remedy(error))
    except asyncio.CancelledError:
        if session:
            with suppress(TimeoutError, ConnectionError):
                async with asyncio.timeout(_CANCEL_WITHIN_S):
                    await connection.cancel(session_id=session)
        raise
    if answer.usage is not None:
        run.meter.add(used(answer.usage))
    match answer.stop_reason:
        case "end_turn":
            return End("done")
        case reason:
            return End(_ENDINGS.get(reason, "failed"), f"{outside.name} stopped: {reason}.")


async def _begin(connection: ClientSideConnection, outside: Outside, run: EngineRun) -> str:
    is_reading = run.runtime.state.mode == "plan"
    able = schema.ClientCapabilities(
        fs=schema.FileSystemCapabilities(read_text_file=True, write_text_file=not is_reading),
        terminal=not is_reading,
    )
    ours = schema.Implementation(name="mainspring", version=__version__)
    hello = await connection.initialize(
        protocol_version=PROTOCOL_VERSION, client_capabilities=able, client_info=ours
    )
    if hello.protocol_version != PROTOCOL_VERSION:
        theirs = hello.protocol_version
        text = f"{outside.name} speaks version {theirs} of the protocol, and we speak {PROTOCOL_VERSION}."
        raise StopAgent(End("failed", text, "Use a version of the agent that speaks ours."))
    session = await connection.new_session(cwd=str(run.runtime.state.workspace), mcp_servers=[])
    return session.session_id


async def _died(outside: Outside, side: OurSide, running: asyncio.Task[Exited]) -> End:
    """The end of a turn whose agent went away without an answer."""
    await asyncio.wait({running}, timeout=_DIE_WITHIN_S)
    await side.told()
    if not running.done():
        return End("failed", f"{outside.name} closed its output before it answered.")
    exited = running.result()
    how = exited.stopped or f"exited with code {exited.exit_code}"
    return End("failed", f"{outside.name} {how} before it answered. {tail_of(exited.stderr)}".strip())


def _told(error: RequestError) -> str:
    details: Any = error.data.get("details", "") if isinstance(error.data, dict) else error.data or ""  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    return f"{error} {details}".strip()


def _remedy(error: RequestError) -> str:
    return (
        "Log in with the agent itself, then resume."
        if error.code == RequestError.auth_required().code
        else ""
    )
