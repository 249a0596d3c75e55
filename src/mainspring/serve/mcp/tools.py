"""The tools of the MCP server, in one table: who may call each, what it takes, and what it does."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec

from mainspring.app.goals import GoalOptions
from mainspring.app.operations.answers import is_question, nobody
from mainspring.app.operations.approve import ApprovalReply, open_questions
from mainspring.app.operations.artifacts import artifacts_of
from mainspring.app.operations.commands import load_command, load_output
from mainspring.app.operations.device_roles import Role, role_for
from mainspring.app.operations.goal_list import graded_goals
from mainspring.app.operations.goals import Ordered, begin_in_background, order_goal
from mainspring.app.operations.messages import Delivery, note, stop
from mainspring.app.operations.reports import goal_report, report_markdown
from mainspring.app.operations.sessions import find_session, folder_of, journal_of, list_sessions
from mainspring.app.step import run_command
from mainspring.disk.untrusted import read_untrusted
from mainspring.errors import UsageError
from mainspring.events import GoalChecks
from mainspring.serve.hub import Hub, StartSession
from mainspring.serve.mcp import values
from mainspring.serve.mcp.caller import Caller
from mainspring.serve.mcp.watching import Progress, Watch
from mainspring.settings import Config

_MAX_ARTIFACT = 1 << 20
_MAX_OUTPUT = 50_000


class ToolCall(msgspec.Struct, frozen=True, kw_only=True):
    """One call: `config` says in its origin who calls; `session` is the whole id of the one that is named."""

    hub: Hub
    caller: Caller
    config: Config
    taken: Any
    progress: Progress
    session: str = ""


class ServedTool(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    operation: str
    description: str
    takes: type[msgspec.Struct]
    answer: Callable[[ToolCall], Awaitable[Any]]

    @property
    def role(self) -> Role:
        """The least role of a device that may call it."""
        return role_for(self.operation)


async def found_session(call: ToolCall, role: Role) -> str:
    """The session that the arguments name, if they do; raises when it is not the caller's to use."""
    given = getattr(call.taken, "session", "")
    if not given:
        return ""
    session = await find_session(call.config, given)
    await call.caller.check(call.config, session, is_steered=role != "watch")
    return session


async def _sessions(call: ToolCall) -> Any:
    root = call.caller.folder.resolve()
    rows = [row for row in await list_sessions(call.config) if Path(row.workspace).is_relative_to(root)]
    return rows[: call.taken.limit]


async def _start(call: ToolCall) -> Any:
    given: values.StartAsked = call.taken
    started = StartSession(
        text=given.text,
        workspace=str(call.caller.folder_at(given.workspace)),
        model=given.model,
        engine=given.engine,
        effort=given.effort,
        mode=call.caller.mode_of(given.mode),
        max_cost_usd=call.caller.capped("max_cost_usd", given.max_cost_usd),
        max_steps=call.caller.capped("max_steps", given.max_steps),
        timeout_s=call.caller.capped("timeout_s", given.timeout_s),
    )
    return await _watched(call, await call.hub.start(call.config, started), 0)


async def _say(call: ToolCall) -> Any:
    after = await last_seq(call)
    await call.hub.say(call.config, call.session, call.taken.text)
    return await _watched(call, call.session, after)


async def _note(call: ToolCall) -> Delivery:
    return await note(call.session, call.taken.text, config=call.config)


async def _watch(call: ToolCall) -> Any:
    return await _watched(call, call.session, call.taken.after)


async def _stop(call: ToolCall) -> Delivery:
    return await stop(call.session, config=call.config)


async def _questions(call: ToolCall) -> Any:
    return await open_questions(call.config, call.session)


async def _answer(call: ToolCall) -> Any:
    given: values.AnswerAsked = call.taken
    after = await last_seq(call)
    asked = [
        each for each in await open_questions(call.config, call.session) if each.call.startswith(given.call)
    ]
    is_said = given.decision == "allow" and bool(asked) and all(map(is_question, asked))
    reply = ApprovalReply(decision=given.decision, feedback=given.text, is_said=is_said)
    await call.hub.answer(call.config, call.session, reply, given.call)
    return await _watched(call, call.session, after)


async def turn_since(call: ToolCall, session: str, after: int) -> values.Watched:
    """How far the turn is that was begun, or told something, after an event."""
    return await Watch(call.config, session, after, call.progress, is_one_turn=True).until_idle(0)


async def last_seq(call: ToolCall) -> int:
    """The last event of the session that is named; 0 without one."""
    if not call.session:
        return 0
    async with journal_of(call.config, call.session) as reader:
        return await reader.last_seq()


async def _watched(call: ToolCall, session: str, after: int) -> values.Watched:
    return await Watch(call.config, session, after, call.progress).until_idle(call.taken.wait_s)


async def _goals(call: ToolCall) -> Any:
    root = call.caller.folder.resolve()
    rows = [row for row in await graded_goals(call.config) if Path(row.workspace).is_relative_to(root)]
    return rows[: call.taken.limit]


async def _start_goal(call: ToolCall) -> Any:
    given: values.GoalAsked = call.taken
    cost = call.caller.capped("max_cost_usd", given.max_cost_usd)
    rules = {
        "max_cost_usd": cost,
        "max_iterations": given.max_iterations,
        "iteration_steps": call.caller.max_steps,
        "iteration_time_s": call.caller.timeout_s,
    }
    options = GoalOptions(
        folder=call.caller.folder_at(given.workspace),
        profile=given.profile,
        engine=given.engine,
        model=given.model,
        mode=call.caller.mode_of(given.mode),
        checks=GoalChecks(commands=given.checks),
        rules={name: value for name, value in rules.items() if value is not None},
    )
    return {"session": await begin_in_background(call.config, given.text, options)}


async def _order_goal(call: ToolCall) -> Ordered:
    return await order_goal(call.config, call.session, call.taken.order)


async def _report(call: ToolCall) -> str:
    return report_markdown(await goal_report(call.config, call.session))


async def _artifacts(call: ToolCall) -> Any:
    return (await artifacts_of(call.config, call.session)).made


async def _read_artifact(call: ToolCall) -> str:
    made = (await artifacts_of(call.config, call.session)).made
    if call.taken.path not in {each.path for each in made}:
        raise UsageError(f"{call.taken.path} is no artifact of {call.session}.", remedy="See `artifacts`.")
    folder = await folder_of(call.config, call.session)
    try:
        data = read_untrusted(folder / call.taken.path, max_bytes=_MAX_ARTIFACT, root=folder)
    except OSError as error:
        raise UsageError(f"{call.taken.path} cannot be read: {error.strerror}.") from error
    return data.decode("utf-8", "replace")


async def _run_command(call: ToolCall) -> values.RanCommand:
    given: values.CommandAskedFor = call.taken
    name = await run_command(
        given.argv,
        folder=call.caller.folder_at(given.workspace),
        timeout_s=call.caller.capped("timeout_s", given.timeout_s),
        mode=call.caller.mode_of(given.mode),
        approver=nobody,
        config=call.config,
    )
    record = await load_command(call.config, name)
    stdout, stderr = await load_output(call.config, record)
    return values.RanCommand(
        command=name,
        state=record.state,
        exit_code=record.exit_code,
        reason=record.reason,
        stdout=stdout[-_MAX_OUTPUT:].decode("utf-8", "replace"),
        stderr=stderr[-_MAX_OUTPUT:].decode("utf-8", "replace"),
    )


def _tool(
    name: str,
    operation: str,
    takes: type[msgspec.Struct],
    answer: Callable[[ToolCall], Awaitable[Any]],
    description: str,
) -> ServedTool:
    return ServedTool(name=name, operation=operation, takes=takes, answer=answer, description=description)


_V = values
TOOLS: tuple[ServedTool, ...] = (
    _tool("sessions", "sessions", _V.ListAsked, _sessions, "Sessions of agents, the newest first."),
    _tool(
        "start_session",
        "run",
        _V.StartAsked,
        _start,
        "Give an agent a task in a folder. With wait_s the answer has how it went; else use `watch`.",
    ),
    _tool(
        "say",
        "say",
        _V.SayAsked,
        _say,
        "Say something to a session: it steers the running turn, or starts the next one.",
    ),
    _tool("note", "note", _V.NoteAsked, _note, "Tell a session something that needs no answer."),
    _tool(
        "watch",
        "show",
        _V.WatchAsked,
        _watch,
        "What happened in a session; waits until its turn ends or it asks something.",
    ),
    _tool("stop", "stop", _V.SessionNamed, _stop, "Stop the running turn of a session."),
    _tool("questions", "show", _V.SessionNamed, _questions, "What a session waits for an answer to."),
    _tool("answer", "approve", _V.AnswerAsked, _answer, "Allow or reject, once, what a session asks."),
    _tool("goals", "goal list", _V.ListAsked, _goals, "Goals, the newest first."),
    _tool(
        "start_goal",
        "goal start",
        _V.GoalAsked,
        _start_goal,
        "Start a goal: an agent works on it in the background, iteration after iteration.",
    ),
    _tool("order_goal", "goal stop", _V.OrderAsked, _order_goal, "Pause or stop a goal."),
    _tool("report", "goal report", _V.SessionNamed, _report, "The report of a goal, as Markdown."),
    _tool("artifacts", "artifacts list", _V.SessionNamed, _artifacts, "The files that a goal made."),
    _tool(
        "read_artifact", "artifacts show", _V.ArtifactAsked, _read_artifact, "One of these files, as text."
    ),
    _tool(
        "run_command",
        "exec",
        _V.CommandAskedFor,
        _run_command,
        "Run one command in the sandbox, when the mode allows it.",
    ),
)
