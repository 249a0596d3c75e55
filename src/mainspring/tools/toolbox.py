"""Validates and runs calls. Whatever a tool does, the answer is an `Output`: this never raises for it.

A call passes prepare → run. Cancelling `run` cancels the tool, gives it a second to clean up, and then goes
on without it: a tool that ignores cancellation cannot hold a session.
"""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Callable, Sequence
from typing import Any, get_args

import msgspec

from mainspring.approvals import Effect
from mainspring.errors import JournalError, UsageError
from mainspring.events import CallAsked, ToolSpec, tool_of
from mainspring.events.escaping import whole_characters
from mainspring.models.wires.messages import wire_name
from mainspring.tools import CallContext, FileVersions, Output, Tool, ToolFailed
from mainspring.tools.bounds import bounded
from mainspring.tools.schema import decode_arguments, spec_of

_GRACE_S = 0.8
_SHOWN_NAME = 80
_PARALLEL = "multi_tool_use.parallel"


class _InnerCall(msgspec.Struct, frozen=True):
    recipient_name: str
    parameters: msgspec.Raw = msgspec.Raw(b"{}")


class _Parallel(msgspec.Struct, frozen=True):
    """What a model writes that was taught to pack several calls into one."""

    tool_uses: tuple[_InnerCall, ...]


class Prepared(msgspec.Struct, frozen=True):
    """A call whose tool exists and whose arguments fit. `cost_usd` is an estimate, None when unknown."""

    call: str
    tool: Tool
    arguments: msgspec.Struct | dict[str, Any]
    text: str
    effect: Effect
    cost_usd: float | None = 0.0
    is_recurring: bool = False

    @property
    def is_repeatable(self) -> bool:
        """Whether a call that may have run already can simply be run again."""
        return self.tool.goes_on or self.is_harmless

    @property
    def is_outside(self) -> bool:
        """Whether a call reaches out of every sandbox here."""
        return self.effect == "network" or self.tool.is_elsewhere

    @property
    def is_harmless(self) -> bool:
        """Whether a call leaves everything as it was."""
        return self.effect in ("none", "read")


class Toolbox:
    """`find` knows tools that no request shows: those of servers, which are found and called by name."""

    def __init__(
        self, tools: Sequence[Tool], find: Callable[[str], Tool | None] = lambda _name: None
    ) -> None:
        self._tools = {tool.name: tool for tool in tools}
        if len(self._tools) != len(tools):
            raise UsageError("Two tools have the same name; each name must be unique.")
        self._renamed = {wire_name(name): tool for name, tool in self._tools.items()}
        self.specs: tuple[ToolSpec, ...] = tuple(spec_of(tool) for tool in self._tools.values())
        self._find = find
        self.seen = FileVersions()
        self._leftover: set[asyncio.Task[Any]] = set()

    def tool(self, name: str) -> Tool | None:
        """The tool that is meant by this name, or by what it is called on the wire."""
        known = self._tools.get(name) or self._tools.get(tool_of(name)) or self._renamed.get(name)
        return known or self._find(name)

    def prepare(self, asked: CallAsked, edited: str | None = None) -> Prepared | Output:
        """The call, ready to be judged and run, or the error that the model is told instead."""
        tool = self.tool(asked.name)
        if tool is None:
            return Output(text=self._unknown(asked), is_error=True)
        if tool.stands_for:
            return self._prepare_inner(tool, tool.stands_for, asked, edited)
        text = asked.arguments if edited is None else edited
        arguments = decode_arguments(tool, text)
        if isinstance(arguments, str):
            return Output(text=arguments, is_error=True)
        try:
            cost_usd = tool.cost_usd(arguments) if tool.cost_usd else 0.0
            is_recurring = tool.is_recurring(arguments)
            effect = tool.effect_of(arguments) if tool.effect_of else tool.effect
        except Exception as error:  # noqa: BLE001 - a tool's fault is an answer to the model, never ours to die of
            return Output(
                text=f"The tool {tool.name} could not tell its price or effect: {error!r}.", is_error=True
            )
        if effect not in get_args(Effect):
            return Output(text=f"The tool {tool.name} told an unknown effect: {effect!r}.", is_error=True)
        return Prepared(asked.call, tool, arguments, text, effect, cost_usd, is_recurring)

    def _prepare_inner(
        self, tool: Tool, inner: Callable[[Any], tuple[str, str]], asked: CallAsked, edited: str | None
    ) -> Prepared | Output:
        """The call that a call stands for; what a person edits are the arguments of that one."""
        arguments = decode_arguments(tool, asked.arguments)
        if isinstance(arguments, str):
            return Output(text=arguments, is_error=True)
        name, text = inner(arguments)
        return self.prepare(msgspec.structs.replace(asked, name=name, arguments=text), edited)

    def edit_problem(self, asked: CallAsked, edited: str) -> str:
        """Why a call cannot be run with these arguments instead; empty when it can."""
        prepared = self.prepare(asked, edited)
        return prepared.text if isinstance(prepared, Output) else ""

    def _unknown(self, asked: CallAsked) -> str:
        inner = _inner_calls(asked)
        if inner:
            calls = [f"{tool_of(call.recipient_name)} {bytes(call.parameters).decode()}" for call in inner]
            wanted = "Call each tool directly, all in one message"
            return "\n".join([f"Not run: {asked.name} is no tool here. {wanted}:", *calls])
        name = asked.name if len(asked.name) <= _SHOWN_NAME else f"{asked.name[:_SHOWN_NAME]}…"
        return f"There is no tool named {name!r}. The tools are: {', '.join(sorted(self._tools))}."

    async def run(self, prepared: Prepared, place: CallContext) -> Output:
        # Not in a TaskGroup: a group would wait for a tool that ignores its cancellation. The task tells its
        # result itself: who waits for the end of a task hears of it a turn of the event loop later.
        told: asyncio.Future[Output] = asyncio.get_running_loop().create_future()
        task = asyncio.create_task(_run_and_tell(prepared, place, told))
        try:
            return await told
        except asyncio.CancelledError:
            task.cancel()
            self._leftover.add(task)
            task.add_done_callback(self._leftover.discard)
            await asyncio.wait({task}, timeout=_GRACE_S)
            raise


def _inner_calls(asked: CallAsked) -> tuple[_InnerCall, ...]:
    if asked.name not in (_PARALLEL, wire_name(_PARALLEL)):
        return ()
    try:
        return msgspec.json.decode(asked.arguments, type=_Parallel).tool_uses
    except (msgspec.MsgspecError, RecursionError, UnicodeError):
        return ()


async def _run_and_tell(prepared: Prepared, place: CallContext, told: asyncio.Future[Output]) -> None:
    try:
        output = await _run(prepared, place)
    except asyncio.CancelledError:  # by the tool itself, if anybody still listens
        output = Output(text=f"The tool {prepared.tool.name} failed: it was cancelled.", is_error=True)
    except Exception as error:  # whoever waits for it raises it
        if told.done():
            raise
        told.set_exception(error)
        return
    if not told.done():
        told.set_result(output)


async def _run(prepared: Prepared, place: CallContext) -> Output:
    try:
        output = await prepared.tool.run(prepared.arguments, place)
        return await _bounded(Output(text=output) if isinstance(output, str) else output, place)
    except ToolFailed as error:
        return await _bounded(Output(text=str(error), is_error=True), place)
    except JournalError:
        raise
    except (Exception, SystemExit) as error:  # noqa: BLE001 - a tool's fault is an answer to the model, never ours to die of
        trace = "".join(traceback.format_exception(error)[-3:])
        return Output(text=f"The tool {prepared.tool.name} failed: {error!r}\n{trace}", is_error=True)


async def _bounded(output: Output, place: CallContext) -> Output:
    output = msgspec.structs.replace(output, text=whole_characters(output.text))
    return await bounded(output, place, limit=place.room)
