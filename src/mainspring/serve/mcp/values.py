"""What the tools of the MCP server take and give, where operations and the web face have no value for it.

The descriptions of fields are read by models that call these tools.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from mainspring.events import ApprovalAsked, Effort

_Wait = Annotated[
    float,
    Meta(ge=0, le=3600, description="Seconds to wait for the end of the turn, or for a question. 0: none."),
]
_Session = Annotated[str, Meta(description="Id of a session, or how it begins.")]
_Workspace = Annotated[str, Meta(description="Folder to work in, by default the one of this server.")]
_Mode = Annotated[str, Meta(description="plan, ask, edits, auto or yolo; never freer than the server's own.")]


class _Taken(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The arguments of a tool."""


class _OfSession(_Taken, frozen=True):
    session: _Session


class ListAsked(_Taken, frozen=True):
    limit: Annotated[int, Meta(ge=1, le=1000)] = 50


class StartAsked(_Taken, frozen=True):
    text: Annotated[str, Meta(description="The task.")]
    workspace: _Workspace = ""
    model: str = ""
    engine: str = ""
    effort: Effort | None = None
    mode: _Mode = ""
    max_cost_usd: float | None = None
    max_steps: int | None = None
    timeout_s: float | None = None
    wait_s: _Wait = 0.0


class SayAsked(_OfSession, frozen=True):
    text: str
    wait_s: _Wait = 0.0


class NoteAsked(_OfSession, frozen=True):
    text: str


class SessionNamed(_OfSession, frozen=True):
    pass


class WatchAsked(_OfSession, frozen=True):
    after: Annotated[int, Meta(description="Tell what comes after this event; as `last_seq` said.")] = 0
    wait_s: _Wait = 60.0


class AnswerAsked(_OfSession, frozen=True):
    decision: Literal["allow", "reject"]
    call: Annotated[str, Meta(description="The call that is asked about; all open ones when empty.")] = ""
    text: Annotated[str, Meta(description="Why not; or the answer to a question of the agent.")] = ""
    wait_s: _Wait = 0.0


class GoalAsked(_Taken, frozen=True):
    text: Annotated[str, Meta(description="What is to be reached.")]
    workspace: _Workspace = ""
    checks: Annotated[tuple[str, ...], Meta(description="Commands that decide whether it is reached.")] = ()
    profile: str = ""
    engine: str = ""
    model: str = ""
    mode: _Mode = ""
    max_cost_usd: float | None = None
    max_iterations: int | None = None


class OrderAsked(_OfSession, frozen=True):
    order: Literal["pause", "stop"]


class ArtifactAsked(_OfSession, frozen=True):
    path: Annotated[str, Meta(description="As `artifacts` names it.")]


class CommandAskedFor(_Taken, frozen=True):
    argv: Annotated[tuple[str, ...], Meta(min_length=1, description="The command and its arguments.")]
    workspace: _Workspace = ""
    mode: _Mode = ""
    timeout_s: float | None = None


class Watched(msgspec.Struct, frozen=True, kw_only=True):
    """How a session stands, and what happened since. `text` is the last thing that the agent said; `is_ended`
    says that the turn has ended since."""

    session: str
    state: str
    is_ended: bool = False
    text: str = ""
    lines: tuple[str, ...] = ()
    last_seq: int = 0
    questions: tuple[ApprovalAsked, ...] = ()
    cost_usd: float = 0.0


class RanCommand(msgspec.Struct, frozen=True, kw_only=True):
    """How a command went. Of a long output the end is here; the whole of it is on record."""

    command: str
    state: str
    exit_code: int | None
    reason: str = ""
    stdout: str = ""
    stderr: str = ""
