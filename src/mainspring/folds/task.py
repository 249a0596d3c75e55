"""How the work at hand goes: a fold of what a task has cost and how often it failed. A task is what is worked
at until a turn is done.
"""

from __future__ import annotations

import msgspec

from mainspring.events import (
    ModelChosen,
    RequestFailed,
    SpendSettled,
    TurnEnded,
    TurnStarted,
)

Telling = ModelChosen | TurnStarted | RequestFailed | SpendSettled | TurnEnded
"""The events that tell how a task goes."""


class Task(msgspec.Struct, frozen=True):
    """`failures` are turns in a row that failed, since the last escalation or a person's choice of a model;
    those in which no model could be reached do not count. `tier_turns` are turns in a row with the same tier.
    A tier is forced when a person named it, or the model."""

    tier: str = ""
    is_forced: bool = True
    tier_turns: int = 0
    attempts: int = 0
    failures: int = 0
    escalations: int = 0
    usd: float = 0.0
    is_cut_off: bool = False

    def after(self, event: Telling) -> Task:
        """The task once this was recorded."""
        replace = msgspec.structs.replace
        match event:
            case SpendSettled():
                is_cut_off = self.is_cut_off and not event.usage.output_tokens
                return replace(self, usd=self.usd + event.usd, is_cut_off=is_cut_off)
            case ModelChosen():
                return self._with(event)
            case TurnStarted():
                return replace(self, attempts=self.attempts + 1, tier_turns=self.tier_turns + 1)
            case RequestFailed(retry_in_s=None):
                return replace(self, is_cut_off=True)
            case TurnEnded(ending="done"):
                return Task(tier=self.tier, is_forced=self.is_forced, tier_turns=self.tier_turns)
            case TurnEnded(ending="failed" | "limit"):
                return replace(self, failures=self.failures + (not self.is_cut_off), is_cut_off=False)
            case _:
                return self

    def _with(self, chosen: ModelChosen) -> Task:
        is_same = chosen.tier == self.tier
        is_escalation = chosen.by == "escalation"
        return msgspec.structs.replace(
            self,
            tier=chosen.tier,
            tier_turns=self.tier_turns if is_same else 0,
            is_forced=chosen.by == "user" or (self.is_forced and chosen.by in ("escalation", "failover")),
            escalations=self.escalations + is_escalation,
            failures=0 if is_escalation or chosen.by == "user" else self.failures,
        )
