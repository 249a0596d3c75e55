"""Our side of the protocol: what an agent asks for passes the policy, files and sandbox of its session.

Updates are put in line and told in order by one task. A question of the agent waits until all that it said
before is on record.
"""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, cast

import msgspec
from acp import RequestError, schema

from mainspring.approvals import Effect, Proposed, Verdict
from mainspring.approvals.grants import arguments_sha256
from mainspring.approvals.redaction import redacted_arguments
from mainspring.engines.acp.terminals import Terminal, argv_of, line_of
from mainspring.engines.acp.updates import called, items_of
from mainspring.engines.running import Run
from mainspring.engines.telling import Enough
from mainspring.engines.words import Begun, Item, Returned
from mainspring.errors import PathRefused
from mainspring.events import ApprovalAsked
from mainspring.sandbox import Sandbox
from mainspring.turns import End

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


class OurSide:
    """`group` is where commands run that the agent asks for."""

    def __init__(self, run: Run, sandbox: Sandbox, group: asyncio.TaskGroup) -> None:
        self._run = run
        self._turn = run.turn
        self._sandbox = sandbox
        self._group = group
        self._inbox: asyncio.Queue[Item | asyncio.Event | Enough] = asyncio.Queue()
        self._kinds: dict[str, str] = {}
        self._terminals: dict[str, Terminal] = {}
        self._asked = 0

    async def tell(self) -> None:
        """Tells what comes, until it is cancelled; raises `Enough` when the turn is to end."""
        while True:
            item = await self._inbox.get()
            if isinstance(item, asyncio.Event):
                item.set()
            elif isinstance(item, Enough):
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
        decision = await self._decide(kind, arguments, paths, command, call=call)
        if decision == "allow":
            self.put(Begun(foreign))
        else:
            self.put(Returned(foreign, "Refused.", is_refused=True))
        await self.told()
        return _answer(decision, options)

    async def read_text_file(
        self, session_id: str, path: str, line: int | None = None, limit: int | None = None, **kwargs: Any
    ) -> schema.ReadTextFileResponse:
        del session_id, kwargs
        try:
            found = await asyncio.to_thread(self._turn.files.read, path)
        except (PathRefused, OSError) as error:
            raise RequestError(_REFUSED, str(error)) from error
        text = found.data.decode(errors="replace")
        if line is not None or limit is not None:
            first = max((line or 1) - 1, 0)
            lines = text.splitlines(keepends=True)[first : None if limit is None else first + limit]
            text = "".join(lines)
        return schema.ReadTextFileResponse(content=text)

    async def write_text_file(
        self, session_id: str, path: str, content: str, **kwargs: Any
    ) -> schema.WriteTextFileResponse:
        del session_id, kwargs
        await self._must_be_allowed("edit", {"path": path}, [path])
        try:
            await asyncio.to_thread(self._turn.files.write, path, content.encode(errors="replace"))
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
        line = line_of(command, args)
        await self._must_be_allowed("execute", {"command": line}, [], line)
        terminal = Terminal(output_byte_limit)
        name = f"t{len(self._terminals) + 1}"
        self._terminals[name] = terminal
        where = Path(cwd) if cwd else self._turn.state.workspace
        variables = {each.name: each.value for each in env or []}
        running = terminal.run(self._sandbox, argv_of(command, args), where, variables)
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

    async def _must_be_allowed(
        self, kind: str, arguments: dict[str, Any], paths: Sequence[str], command: str = ""
    ) -> None:
        await self.told()
        if await self._decide(kind, arguments, paths, command) != "allow":
            raise RequestError(_REFUSED, "The policy of this session refuses it.")

    async def _decide(
        self,
        kind: str,
        arguments: dict[str, Any],
        paths: Sequence[str],
        command: str,
        *,
        call: str = "",
    ) -> Decision:
        effect = _EFFECTS.get(kind, "other")
        proposed = Proposed(
            tool=kind,
            effect=effect,
            arguments=arguments,
            paths=tuple(map(self._real, paths)),
            command=command,
            workspace=str(self._turn.state.workspace),
            session=self._turn.state.session,
            is_contained=self._sandbox.is_containing and effect != "network",
        )
        verdict = self._turn.policy.judge(proposed)
        if verdict.answer == "ask":
            return await self._ask(proposed, verdict, call)
        return "allow" if verdict.answer == "allow" else "reject"

    async def _ask(self, proposed: Proposed, verdict: Verdict, call: str) -> Decision:
        self._asked += 1
        text = redacted_arguments(msgspec.json.encode(proposed.arguments).decode(), self._turn.vault)
        question = ApprovalAsked(
            call=call or f"{self._run.teller.run}q{self._asked}",
            tool=proposed.tool,
            arguments=text,
            arguments_sha256=arguments_sha256(text),
            reason=verdict.reason,
            offers=verdict.offers,
        )
        answer = await self._turn.ask(question)
        if answer is None:
            detail = f"A person must approve what the agent wants: {proposed.tool}, {verdict.reason}."
            self._inbox.put_nowait(
                Enough(End("blocked", detail, "Resume in a terminal, where you can be asked."))
            )
        elif answer.decision == "stop":
            self._inbox.put_nowait(Enough(End("interrupted", "A person stopped the turn.")))
        return "allow" if answer is not None and answer.decision == "allow" else "reject"

    def _real(self, path: str) -> str:
        try:
            return str(self._turn.files.resolve(path))
        except PathRefused:
            return path


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
