"""What spans say of the events that they are made of: numbers, ids and words, and no text of anybody."""

from __future__ import annotations

from mainspring.events import (
    ApprovalAsked,
    ApprovalGiven,
    CallEnded,
    ChildEnded,
    ChildStarted,
    Compacted,
    Crashed,
    GuardTripped,
    IterationEnded,
    SessionResumed,
    SessionStarted,
    SpendSettled,
    TurnEnded,
    Usage,
    WaitStarted,
)
from mainspring.telemetry.spans import Attributes

COST = "mainspring.cost.usd"
SOURCE = "mainspring.source"
"""What a spend was for; only spans that spend have it."""


def tokens(usage: Usage) -> Attributes:
    """Those of the cache are part of the input, those of reasoning part of the output."""
    counts = {
        "gen_ai.usage.input_tokens": usage.input_tokens,
        "gen_ai.usage.cache_read.input_tokens": usage.cached_tokens,
        "gen_ai.usage.cache_creation.input_tokens": usage.cache_write_tokens,
        "gen_ai.usage.output_tokens": usage.output_tokens,
        "gen_ai.usage.reasoning.output_tokens": usage.reasoning_tokens,
    }
    return dict(counts)


def session(event: SessionStarted) -> Attributes:
    found: Attributes = {"mainspring.workspace": event.workspace, "mainspring.version": event.version}
    if event.agent:
        found["gen_ai.agent.name"] = event.agent
    if event.parent:
        found |= {"mainspring.parent": event.parent, "mainspring.parent_seq": event.parent_seq}
    return found


def resumed(event: SessionResumed) -> Attributes:
    return {"host.name": event.host, "process.pid": event.pid, "mainspring.version": event.version}


def turn(event: TurnEnded) -> Attributes:
    return {
        "mainspring.turn.ending": event.ending,
        "mainspring.turn.steps": event.steps,
        **tokens(event.usage),
        COST: event.cost_usd,
    }


def iteration(event: IterationEnded) -> Attributes:
    return {"mainspring.goal.outcome": event.outcome, COST: event.cost_usd, "mainspring.tokens": event.tokens}


def settled(event: SpendSettled) -> Attributes:
    return {**tokens(event.usage), COST: event.usd, "mainspring.saved.usd": event.saved_usd}


def call_ended(event: CallEnded) -> Attributes:
    found: Attributes = {"mainspring.call.outcome": event.outcome}
    if event.exit_code is not None:
        found["process.exit.code"] = event.exit_code
    return found


def asked(event: ApprovalAsked) -> Attributes:
    found: Attributes = {"gen_ai.tool.name": event.tool, "gen_ai.tool.call.id": event.call}
    if event.blocked_by:
        found["mainspring.approval.blocked_by"] = event.blocked_by
    return found


def answered(event: ApprovalGiven) -> Attributes:
    return {"mainspring.approval.decision": event.decision, "mainspring.approval.scope": event.scope}


def wait(event: WaitStarted) -> Attributes:
    kinds = dict.fromkeys(str(each.__struct_config__.tag) for each in event.conditions)
    return {"mainspring.wait.on": tuple(kinds), "mainspring.wait.needs": event.needs}


def child_started(event: ChildStarted) -> Attributes:
    return {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.agent.name": event.agent or "agent",
        "gen_ai.agent.id": event.child,
        "mainspring.isolation": event.isolation,
    }


def child_ended(event: ChildEnded) -> Attributes:
    return {"mainspring.child.state": event.state, **tokens(event.usage), COST: event.cost_usd}


def moment(event: Compacted | GuardTripped | Crashed) -> tuple[str, Attributes]:
    """The name of something that happened in a turn, and what there is to say of it."""
    match event:
        case Compacted():
            return "compacted", {
                "mainspring.tokens.before": event.tokens_before,
                "mainspring.tokens.after": event.tokens_after,
            }
        case GuardTripped():
            return "guard tripped", {"mainspring.guard": event.guard, "mainspring.is_final": event.is_final}
        case Crashed():
            return "crashed", {}
