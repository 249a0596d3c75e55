"""Hooks: commands of people that run when something happens, and what they said to it."""

from typing import Literal, get_args

from mainspring.events.base import Event, Id, JsonText

HookEvent = Literal[
    "PreToolUse",
    "PostToolUse",
    "PostToolUseFailure",
    "PermissionRequest",
    "UserPromptSubmit",
    "SessionStart",
    "SessionEnd",
    "Stop",
    "SubagentStart",
    "SubagentStop",
    "PreCompact",
    "Notification",
    "IterationEnded",
    "GoalEnded",
]
"""When a hook runs. All but the last two are named as in Claude Code."""

HOOK_EVENTS: tuple[HookEvent, ...] = get_args(HookEvent)

HookVerdict = Literal["passed", "ask", "changed", "denied", "held", "stopped", "failed"]
"""What a hook said: nothing against it, ask a person, other arguments, no, go on instead of ending, end the
turn; or it could not say anything."""

HOOK_SOURCE = "hook"
"""How the source of a note begins that a hook gave."""


class HookStarted(Event, frozen=True):
    """A hook is about to run. Without a `HookEnded` what it said is unknown, and nothing followed from it: it
    runs again when the same thing happens again."""

    run: Id
    event: HookEvent
    command: str
    source: str = ""
    tool: str = ""
    call: Id = ""


class HookEnded(Event, frozen=True):
    """What a hook said. `reason` is told to the model, `message` to a person; `arguments` are what it
    wants instead. A hook that failed with `is_refusing` counts as a no. `output` begins what it printed."""

    run: Id
    verdict: HookVerdict
    reason: str = ""
    message: str = ""
    arguments: JsonText = ""
    exit_code: int | None = None
    duration_s: float = 0.0
    cpu_s: float = 0.0
    output: str = ""
    is_refusing: bool = False
