"""Long work as tasks, for clients that know the protocol's extension for them (2026-07-28): a call that would
wait is answered at once with a task, which the client asks for until it is over.

A task is no state of ours: its id says the session and where in its journal the work began, so that it can be
asked for after any restart, by whoever may watch the session.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import mcp_types as types
import msgspec
from mcp import MCPError
from mcp.server.context import ServerRequestContext

from mainspring.app.operations.sessions import is_run
from mainspring.errors import UsageError
from mainspring.serve.mcp.values import Watched
from mainspring.settings import Config

EXTENSION = "io.modelcontextprotocol/tasks"
_MODERN = "2026"
_POLL_MS = 1000


class TaskNamed(types.RequestParams):
    """What all requests about a task take."""

    task_id: str


class TaskId(msgspec.Struct, frozen=True):
    """A session, the event before the work, and when it began."""

    session: str
    after: int
    created_s: int

    def __str__(self) -> str:
        return f"{self.session}:{self.after}:{self.created_s}"


def knows_tasks(context: ServerRequestContext[Any]) -> bool:
    """Whether whoever makes this request says that they know tasks."""
    able = context.session.client_capabilities
    return context.protocol_version >= _MODERN and EXTENSION in ((able and able.extensions) or {})


def check_knows(context: ServerRequestContext[Any]) -> None:
    if not knows_tasks(context):
        wanted = types.ClientCapabilities(extensions={EXTENSION: {}})
        data = types.MissingRequiredClientCapabilityErrorData(required_capabilities=wanted)
        raise MCPError(
            code=types.MISSING_REQUIRED_CLIENT_CAPABILITY,
            message=f"The client did not say that it knows {EXTENSION}.",
            data=data.model_dump(by_alias=True, mode="json", exclude_none=True),
        )


def begun(session: str, after: int) -> TaskId:
    return TaskId(session, after, int(datetime.now(UTC).timestamp()))


def task_named(text: str) -> TaskId:
    session, _, rest = text.partition(":")
    after, _, created = rest.partition(":")
    if not (session and after.isdecimal() and created.isdecimal()):
        raise UsageError(f"There is no task {text!r}.")
    return TaskId(session, int(after), int(created))


async def is_working(config: Config, watched: Watched) -> bool:
    """Whether there is more to come of what was asked for."""
    is_idle = watched.is_ended or bool(watched.questions)
    return not is_idle and await is_run(config, watched.session)


def task_result(task: TaskId, status: str, **fields: Any) -> dict[str, Any]:
    """A task as the protocol has it. It stays as long as its session does."""
    now, created = datetime.now(UTC), datetime.fromtimestamp(task.created_s, UTC)
    times = {"createdAt": created.isoformat(), "lastUpdatedAt": now.isoformat()}
    return {
        "taskId": str(task),
        "status": status,
        **times,
        "ttlMs": None,
        "pollIntervalMs": _POLL_MS,
        **fields,
    }
