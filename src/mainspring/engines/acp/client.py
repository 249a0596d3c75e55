"""Our side of the protocol: what an agent asks for passes the policy, files and sandbox of its session.

Updates are put in line and told in order by one task. A question of the agent waits until all that it said
before is on record.
"""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal, TypeVar, cast

import msgspec
from acp import RequestError, schema

from mainspring.approvals import Effect, Proposed, why_asked
from mainspring.approvals.permit import Blocked, Edit, Permitted, Refused, Stopped, Wanted, edited_as, permit
from mainspring.engines.acp.terminals import Terminal, argv_of, line_of
from mainspring.engines.acp.updates import called, items_of
from mainspring.engines.messages import Begun, Item, Returned
from mainspring.engines.recorder import StopAgent
from mainspring.engines.runner import EngineRun
from mainspring.errors import MainspringError, PathRefused
from mainspring.sandbox import Sandbox
from mainspring.turns.endings import End

_REFUSED = -32003
_EFFECTS: dict[str, Effect] = {
    "read": "read",
    "search": "read",
    "think": "none",
    "edit": "write",
    "delete": "write",
    "move": "write",
    "execute": "execute",
    "fetch": "network",
}
Decision = Literal["allow", "reject"]
_Action = TypeVar("_Action")


class _Write(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    path: str
    content: str


class _Read(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """Lines of a file, in the words of our own tool."""

    path: str
    offset: int | None = None
    limit: int | None = None


class _Line(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """A command of a terminal; it runs in the workspace unless it says where."""

    command: str
    cwd: str = ""
    env: dict[str, str] = {}


class OurSide:
    """`group` is where commands run that the agent asks for."""

    def __init__(self, run: EngineRun, sandbox: Sandbox, group: asyncio.TaskGroup) -> None:
        self._run = run
        self._runtime = run.runtime
        self._sandbox = sandbox
        self._group = group
        self._inbox: asyncio.Queue[Item | asyncio.Event | StopAgent | MainspringError] = asyncio.Queue()
        self._kinds: dict[str, str] = {}
        self._terminals: dict[str, Terminal] = {}
        self._asked = 0

    async def tell(self) -> None:
        """Tells what comes, until it is cancelled; raises `StopAgent` when the turn is to end."""
        while True:
            item = await self._inbox.get()
            if isinstance(item, asyncio.Event):
                item.set()
            elif isinstance(item, StopAgent | MainspringError):
                raise item
            else:
                await self._run.take(item)

    def put(self, item: Item) -> None:
        self._inbox.put_nowait(item)

    async def told(self) -> None:
        """Returns when all that came before is on record."""
        mark = asyncio.Event()
        self._inbox.put_nowait(mark)
        await mark.wait()

    async def session_update(self, session_id: str, update: Any, **kwargs: Any) -> None:
        del session_id, kwargs
        if isinstance(update, schema.ToolCallStart) and update.kind:
            self._kinds[update.tool_call_id] = update.kind
        outputs = {name: (each.output, each.exit_code) for name, each in self._terminals.items()}
        for item in items_of(update, outputs):
            self.put(item)

    async def request_permission(
        self,
        session_id: str,
        tool_call: schema.ToolCallUpdate,
        options: list[schema.PermissionOption],
        **kwargs: Any,
    ) -> schema.RequestPermissionResponse:
        del session_id, kwargs
        await self.told()
        foreign = tool_call.tool_call_id
        if not self._run.teller.call(foreign):
            self.put(called(tool_call))
            await self.told()
        kind = tool_call.kind or self._kinds.get(foreign, "other")
        arguments = _arguments(tool_call)
        paths = [place.path for place in tool_call.locations or []]
        command = _command(arguments) if kind == "execute" else ""
        call = self._run.teller.call(foreign)
        outcome = await self._permit(self._wanted(kind, arguments, paths, command, call=call))
        is_allowed = isinstance(outcome, Permitted)
        if not isinstance(
            outcome, Blocked
        ):  # a call that waits for a person stays open, so that one can answer
            self.put(Begun(foreign) if is_allowed else Returned(foreign, _refusal(outcome), is_refused=True))
        await self.told()
        return _answer("allow" if is_allowed else "reject", options)

    async def read_text_file(
        self, session_id: str, path: str, line: int | None = None, limit: int | None = None, **kwargs: Any
    ) -> schema.ReadTextFileResponse:
        del session_id, kwargs

        def wanted(read: _Read) -> Wanted[_Read]:
            return self._wanted("read", read, [read.path])

        read = (await self._permitted(_Read(path=path, offset=line, limit=limit), wanted)).action
        try:
            found = await asyncio.to_thread(self._runtime.workbench.files.read, read.path)
        except (PathRefused, OSError) as error:
            raise RequestError(_REFUSED, str(error)) from error
        text = found.data.decode(errors="replace")
        if read.offset is not None or read.limit is not None:
            first = max((read.offset or 1) - 1, 0)
            lines = text.splitlines(keepends=True)[first : None if read.limit is None else first + read.limit]
            text = "".join(lines)
        return schema.ReadTextFileResponse(content=text)

    async def write_text_file(
        self, session_id: str, path: str, content: str, **kwargs: Any
    ) -> schema.WriteTextFileResponse:
        del session_id, kwargs

        def wanted(write: _Write) -> Wanted[_Write]:
            return self._wanted("edit", write, [write.path])

        write = (await self._permitted(_Write(path=path, content=content), wanted)).action
        try:
            data = write.content.encode(errors="replace")
            await asyncio.to_thread(self._runtime.workbench.files.write, write.path, data)
        except (PathRefused, OSError) as error:
            raise RequestError(_REFUSED, str(error)) from error
        return schema.WriteTextFileResponse()

    async def create_terminal(
        self,
        session_id: str,
        command: str,
        args: list[str] | None = None,
        env: list[schema.EnvVariable] | None = None,
        cwd: str | None = None,
        output_byte_limit: int | None = None,
        **kwargs: Any,
    ) -> schema.CreateTerminalResponse:
        del session_id, kwargs
        workspace = self._runtime.state.workspace

        def wanted(line: _Line) -> Wanted[_Line]:
            return self._wanted("execute", line, command=line.command, cwd=line.cwd)

        line = _Line(
            command=line_of(command, args),
            cwd=cwd if cwd and Path(cwd) != workspace else "",
            env={each.name: each.value for each in env or []},
        )
        permitted = await self._permitted(line, wanted)
        line = permitted.action
        terminal = Terminal(output_byte_limit)
        if by := permitted.edited_by:
            command, args = line.command, None
            terminal.note(f"[a {by} changed the command to {line.command}]\n")
        name = f"t{len(self._terminals) + 1}"
        self._terminals[name] = terminal
        where = Path(line.cwd) if line.cwd else workspace
        running = terminal.run(self._sandbox, argv_of(command, args), where, line.env)
        terminal.task = self._group.create_task(running)
        return schema.CreateTerminalResponse(terminal_id=name)

    async def terminal_output(
        self, session_id: str, terminal_id: str, **kwargs: Any
    ) -> schema.TerminalOutputResponse:
        del session_id, kwargs
        found = self._terminal(terminal_id)
        status = schema.TerminalExitStatus(exit_code=found.exit_code) if found.is_over.is_set() else None
        return schema.TerminalOutputResponse(
            output=found.output, truncated=found.is_truncated, exit_status=status
        )

    async def wait_for_terminal_exit(
        self, session_id: str, terminal_id: str, **kwargs: Any
    ) -> schema.WaitForTerminalExitResponse:
        del session_id, kwargs
        found = self._terminal(terminal_id)
        await found.is_over.wait()
        return schema.WaitForTerminalExitResponse(exit_code=found.exit_code)

    async def kill_terminal(
        self, session_id: str, terminal_id: str, **kwargs: Any
    ) -> schema.KillTerminalResponse:
        del session_id, kwargs
        self._terminal(terminal_id).stop()
        return schema.KillTerminalResponse()

    async def release_terminal(
        self, session_id: str, terminal_id: str, **kwargs: Any
    ) -> schema.ReleaseTerminalResponse:
        del session_id, kwargs
        self._terminal(terminal_id).stop()
        return schema.ReleaseTerminalResponse()

    def end(self) -> None:
        """Ends the commands that still run."""
        for terminal in self._terminals.values():
            terminal.stop()

    def _terminal(self, name: str) -> Terminal:
        if name not in self._terminals:
            raise RequestError(_REFUSED, f"There is no terminal {name}.")
        return self._terminals[name]

    async def _permitted(
        self, action: _Action, wanted: Callable[[_Action], Wanted[_Action]]
    ) -> Permitted[_Action]:
        """What we may do for the agent, perhaps edited by a person; raises `RequestError` when we may not."""

        async def edit(arguments: str) -> Wanted[_Action] | str:
            edited = edited_as(type(action), arguments, self._runtime.recorder.vault)
            return edited if isinstance(edited, str) else wanted(edited)

        await self.told()
        outcome = await self._permit(wanted(action), edit)
        if not isinstance(outcome, Permitted):
            raise RequestError(_REFUSED, _refusal(outcome))
        return outcome

    async def _permit(
        self, wanted: Wanted[_Action], edit: Edit[_Action] | None = None
    ) -> Permitted[_Action] | Refused | Blocked | Stopped:
        try:
            outcome = await permit(self._runtime.approvals, wanted, edit=edit)
        except MainspringError as error:
            # Raised by `tell`: whoever is waiting here would tell nobody but the agent.
            self._inbox.put_nowait(error)
            return Refused("person", error.message)
        match outcome:
            case Blocked(question):
                detail = (
                    f"A person must approve what the agent wants: {question.tool}, {why_asked(question)}."
                )
                session = self._runtime.state.session
                remedy = f"Answer with `mainspring approve {session}`, or resume in a terminal."
                end = End("blocked", detail, remedy)
                self._inbox.put_nowait(StopAgent(end))
            case Stopped(why, is_by_hook):
                who = f"A hook ({why})" if is_by_hook else "A person"
                self._inbox.put_nowait(StopAgent(End("interrupted", f"{who} stopped the turn.")))
            case _:
                pass
        return outcome

    def _wanted(
        self,
        kind: str,
        action: _Action,
        paths: Sequence[str] = (),
        command: str = "",
        *,
        cwd: str = "",
        call: str = "",
    ) -> Wanted[_Action]:
        self._asked += 1
        effect = _EFFECTS.get(kind, "other")
        proposed = Proposed(
            tool=kind,
            effect=effect,
            arguments=msgspec.to_builtins(action),
            paths=tuple(map(self._real, paths)),
            command=command,
            cwd=cwd,
            workspace=str(self._runtime.state.workspace),
            session=self._runtime.state.session,
            is_contained=self._sandbox.is_containing and effect != "network",
        )
        return Wanted(call=call or f"{self._run.teller.run}q{self._asked}", action=action, proposed=proposed)

    def _real(self, path: str) -> str:
        try:
            return str(self._runtime.workbench.files.resolve(path))
        except PathRefused:
            return path


def _refusal(outcome: Refused | Blocked | Stopped) -> str:
    match outcome:
        case Refused():
            return f"Refused: {outcome.reason}."
        case Blocked():
            return "Refused: a person must approve it, and nobody is there to ask."
        case Stopped():
            return "Refused: a person stopped the turn."


def _arguments(tool_call: schema.ToolCallUpdate) -> dict[str, Any]:
    given: Any = tool_call.raw_input
    return cast("dict[str, Any]", given) if isinstance(given, dict) else {"title": tool_call.title or ""}


def _command(arguments: dict[str, Any]) -> str:
    given = arguments.get("command", "")
    return shlex.join(map(str, given)) if isinstance(given, list) else str(given)  # pyright: ignore[reportUnknownArgumentType]


def _answer(
    decision: Decision, options: Sequence[schema.PermissionOption]
) -> schema.RequestPermissionResponse:
    for kind in (f"{decision}_once", f"{decision}_always"):
        for option in options:
            if option.kind == kind:
                chosen = schema.AllowedOutcome(option_id=option.option_id, outcome="selected")
                return schema.RequestPermissionResponse(outcome=chosen)
    return schema.RequestPermissionResponse(outcome=schema.DeniedOutcome(outcome="cancelled"))
