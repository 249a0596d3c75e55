"""What a hook says, read from its exit code and its output. Pure.

Exit code 0 with nothing printed, or a JSON object, is an answer; 2 is a no, its reason on standard error.
All else is a failure, which is a no where a hook guards something, unless it says `fail_open`.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from mainspring.events import HookEvent, HookVerdict
from mainspring.sandbox import CommandResult

GUARDING: frozenset[HookEvent] = frozenset({"PreToolUse", "PermissionRequest", "UserPromptSubmit"})
"""Events whose hooks are guards: one that fails counts as a no."""

_HOLDING: frozenset[HookEvent] = frozenset({"Stop", "SubagentStop"})
_TALKING: frozenset[HookEvent] = frozenset({"UserPromptSubmit", "SessionStart"})
_HEARD: frozenset[HookEvent] = frozenset({"PostToolUse", "PostToolUseFailure"})
_STRICT: frozenset[HookEvent] = frozenset({"PreToolUse", "PermissionRequest"})
MAX_OUTPUT_BYTES = 256 * 1024
_MAX_TEXT = 10_000
_BLOCKED = 2


class HookAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """`reason` says why not, `context` is for the model, `message` for a person; `updated` are arguments in
    Claude Code's form."""

    verdict: HookVerdict
    reason: str = ""
    context: str = ""
    message: str = ""
    updated: dict[str, Any] | None = None


class _Decision(msgspec.Struct, frozen=True):
    behavior: Literal["allow", "deny"]
    message: str = ""
    updatedInput: dict[str, Any] | None = None  # noqa: N815 - a name of the contract
    interrupt: bool = False


class _Specific(msgspec.Struct, frozen=True):
    hookEventName: str = ""  # noqa: N815
    permissionDecision: Literal["allow", "deny", "ask"] | None = None  # noqa: N815
    permissionDecisionReason: str = ""  # noqa: N815
    updatedInput: dict[str, Any] | None = None  # noqa: N815
    additionalContext: str = ""  # noqa: N815
    decision: _Decision | None = None


class _Printed(msgspec.Struct, frozen=True):
    """The JSON object that a hook prints; members that are not known are left alone."""

    is_going_on: bool = msgspec.field(name="continue", default=True)
    stopReason: str | None = None  # noqa: N815
    systemMessage: str | None = None  # noqa: N815
    decision: Literal["block", "approve", "allow", "deny"] | None = None
    reason: str | None = None
    hookSpecificOutput: _Specific | None = None  # noqa: N815


def read_answer(event: HookEvent, result: CommandResult) -> HookAnswer:
    """What a hook that has ended said."""
    if result.stopped:
        return failure(result.stopped)
    if result.exit_code == _BLOCKED:
        reason = _text(result.stderr) or "it gave no reason"
        verdict, context = _no(event), reason if event in _HEARD else ""
        message = reason if verdict == "passed" else ""
        return HookAnswer(verdict=verdict, reason=reason, context=context, message=message)
    if result.exit_code:
        said = _text(result.stderr) or _text(result.stdout)
        return failure(f"it ended with exit code {result.exit_code}" + (f": {_last(said)}" if said else ""))
    if result.dropped_bytes:
        return failure(f"it printed more than {MAX_OUTPUT_BYTES // 1024} KiB")
    return _of_output(event, result.stdout)


def failure(why: str) -> HookAnswer:
    return HookAnswer(verdict="failed", reason=why)


def _no(event: HookEvent) -> HookVerdict:
    """What a no means: nothing can be denied that has happened already."""
    if event in GUARDING:
        return "denied"
    return "held" if event in _HOLDING else "passed"


def _of_output(event: HookEvent, printed: bytes) -> HookAnswer:
    text = printed.decode("utf-8", "replace").strip()
    if not text:
        return HookAnswer(verdict="passed")
    if not text.startswith("{"):
        if event in _STRICT:
            return failure(f"it printed something that is no JSON: {_last(text)}")
        return HookAnswer(verdict="passed", context=text[:_MAX_TEXT] if event in _TALKING else "")
    try:
        found = msgspec.json.decode(printed, type=_Printed)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        return failure(f"it printed JSON that is no answer: {error}")
    special = found.hookSpecificOutput or _Specific()
    if special.hookEventName not in ("", event):
        return failure(f"it answered for {special.hookEventName[:40]}")
    return _of_object(event, found, special)


def _of_object(event: HookEvent, found: _Printed, special: _Specific) -> HookAnswer:
    decision = special.decision if event == "PermissionRequest" else None
    updated = decision.updatedInput if decision else special.updatedInput
    reason = special.permissionDecisionReason or (decision.message if decision else "") or found.reason or ""
    verdict: HookVerdict = "changed" if updated is not None and event in _STRICT else "passed"
    is_denied = special.permissionDecision == "deny" or (decision is not None and decision.behavior == "deny")
    if found.decision in ("block", "deny") or is_denied:
        verdict = _no(event)
    elif special.permissionDecision == "ask" and event == "PreToolUse":
        verdict = "ask"
    if not found.is_going_on or (decision is not None and decision.interrupt):
        verdict, reason = "stopped", found.stopReason or reason
    context = special.additionalContext
    if event in _HEARD and found.decision == "block":
        context = "\n".join(filter(None, (reason, context)))
    return HookAnswer(
        verdict=verdict,
        reason=(reason or ("it gave no reason" if verdict in ("denied", "held") else ""))[:_MAX_TEXT],
        context=context[:_MAX_TEXT],
        message=(found.systemMessage or "")[:_MAX_TEXT],
        updated=updated if event in _STRICT else None,
    )


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace").strip()[:_MAX_TEXT]


def _last(text: str) -> str:
    """The last line of what was said, in short."""
    return text.strip().splitlines()[-1][:200]
