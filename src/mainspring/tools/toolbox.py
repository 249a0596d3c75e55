"""Validates and runs calls. Whatever a tool does, the answer is an `Output`: this never raises for it.

A call passes prepare → run. Cancelling `run` cancels the tool, gives it a second to clean up, and then goes
on without it: a tool that ignores cancellation cannot hold a session.
"""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Sequence
from typing import Any, get_args

import msgspec

from mainspring.approvals import Effect
from mainspring.errors import JournalError, UsageError
from mainspring.events import CallAsked, ToolSpec
from mainspring.tools import CallContext, FileVersions, Output, Tool, ToolFailed
from mainspring.tools.bounds import bounded
from mainspring.tools.schema import decode_arguments, spec_of
from mainspring.tools.text import whole_characters

_GRACE_S = 0.8


class Prepared(msgspec.Struct, frozen=True):
    """A call whose tool exists and whose arguments fit. `cost_usd` is an estimate, None when unknown."""

    call: str
    tool: Tool
    arguments: msgspec.Struct
    text: str
    effect: Effect
    cost_usd: float | None = 0.0
    is_recurring: bool = False

    @property
    def is_repeatable(self) -> bool:
        """Whether a call that may have run already can simply be run again."""
        return self.tool.goes_on or self.is_harmless

    @property
    def is_harmless(self) -> bool:
        """Whether a call leaves everything as it was."""
        return self.effect in ("none", "read")


class Toolbox:
    def __init__(self, tools: Sequence[Tool]) -> None:
        self._tools = {tool.name: tool for tool in tools}
        if len(self._tools) != len(tools):
            raise UsageError("Two tools have the same name; each name must be unique.")
        self.specs: tuple[ToolSpec, ...] = tuple(spec_of(tool) for tool in self._tools.values())
        self.seen = FileVersions()
        self._leftover: set[asyncio.Task[Any]] = set()

    def tool(self, name: str) -> Tool | None:
        return self._tools.get(name)

    def prepare(self, asked: CallAsked, edited: str | None = None) -> Prepared | Output:
        """The call, ready to be judged and run, or the error that the model is told instead."""
        tool = self._tools.get(asked.name)
        if tool is None:
            names = ", ".join(sorted(self._tools))
            return Output(
                text=f"There is no tool named {asked.name!r}. The tools are: {names}.", is_error=True
            )
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

    def edit_problem(self, asked: CallAsked, edited: str) -> str:
        """Why a call cannot be run with these arguments instead; empty when it can."""
        prepared = self.prepare(asked, edited)
        return prepared.text if isinstance(prepared, Output) else ""

    async def run(self, prepared: Prepared, place: CallContext) -> Output:
        # Not in a TaskGroup: a group would wait for a tool that ignores its cancellation.
        task = asyncio.create_task(_run(prepared, place))
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError:
            task.cancel()
            self._leftover.add(task)
            task.add_done_callback(self._leftover.discard)
            await asyncio.wait({task}, timeout=_GRACE_S)
            raise
        if task.cancelled():  # by the tool itself: nobody asked this session to stop
            return Output(text=f"The tool {prepared.tool.name} failed: it was cancelled.", is_error=True)
        return task.result()


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
