"""Which tier a turn gets: by declared rules, or one more after repeated failure. The decisions are pure.

The router is off unless the settings turn it on, and never overrules a person who named a model or a tier.
Escalation goes up the tiers until its circuit breaker opens. A model that is no tier's goes to the strongest
tier of its own provider, never to another provider.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

import msgspec

from mainspring.events import (
    AssistantSaid,
    CallEnded,
    ChosenBy,
    Event,
    ModelChosen,
    Recorded,
    RoutingWarned,
    UserSaid,
)
from mainspring.events.counts import plural
from mainspring.folds.state import State
from mainspring.folds.task import Task
from mainspring.journal import JournalReader, last_event
from mainspring.models.tiers import USUAL, Breaker
from mainspring.patterns import lazy_pattern

_LARGE_TOKENS = 100_000
_LONG_TURNS = 5
_RECENT_EVENTS = 200
_STRONG_WORDS = lazy_pattern(
    r"\b(think (hard|deeply|carefully|step by step)|root cause|prove|proof|architecture|trade-?offs?)\b",
    re.IGNORECASE,
)
_LIGHT_WORDS = lazy_pattern(r"\b(quick(ly)?|typos?|rename|reformat|one-liner|trivial)\b", re.IGNORECASE)
_TESTS = lazy_pattern(
    r"\b(pytest|unittest|tox|nox|jest|vitest|ctest|(cargo|go|mvn|gradle|npm|yarn|pnpm|npm run) test"
    r"|make (test|check)\S*)\b"
)


class RoutingFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What the rules look at."""

    said: str = ""
    context_tokens: int = 0
    are_tests_failing: bool = False


class Routed(msgspec.Struct, frozen=True):
    tier: str
    reason: str


class TierHold(msgspec.Struct, frozen=True):
    """Why there is no escalation although one is due."""

    reason: str


def route(facts: RoutingFacts, tiers: Sequence[str]) -> Routed:
    """The tier for a turn; the first rule that fits decides."""
    fast, usual, strong = _roles(tiers)
    if found := _STRONG_WORDS.search(facts.said):
        return Routed(strong, f"it was said: {found[0]}")
    if facts.are_tests_failing:
        return Routed(strong, "tests are failing")
    if facts.context_tokens > _LARGE_TOKENS:
        return Routed(strong, f"the context is larger than {_LARGE_TOKENS:,} tokens")
    if found := _LIGHT_WORDS.search(facts.said):
        return Routed(fast, f"it was said: {found[0]}")
    return Routed(usual, "nothing speaks for another tier")


def escalate(
    task: Task, tiers: Sequence[str], breaker: Breaker, *, kin: Sequence[str] = ()
) -> Routed | TierHold | None:
    """The next tier once a task has failed often enough, unless the breaker is open. `kin` are the tiers that
    a model of no tier can go to."""
    above = tiers[tiers.index(task.tier) + 1 :] if task.tier in tiers else kin[-1:]
    if not breaker.after_failures or task.failures < breaker.after_failures or not above:
        return None
    if task.attempts >= breaker.max_attempts:
        return TierHold(f"this task had {plural(task.attempts, 'attempt')}")
    if task.escalations >= breaker.max_escalations:
        return TierHold(f"this task was escalated {plural(task.escalations, 'time')}")
    if breaker.max_usd is not None and task.usd >= breaker.max_usd:
        return TierHold(f"this task has cost {task.usd:.2f} USD")
    return Routed(above[0], f"{plural(task.failures, 'turn')} in a row failed")


def are_tests_failing(recent: Sequence[Recorded]) -> bool:
    """Whether the last run of tests among these replies and results failed."""
    tests = {
        call.call
        for item in recent
        if isinstance(item.event, AssistantSaid)
        for call in item.event.calls
        if _TESTS.search(call.arguments)
    }
    ended = [event for item in recent if isinstance(event := item.event, CallEnded) and event.call in tests]
    return bool(ended) and bool(ended[-1].exit_code)


class Router:
    """Decides before each turn. `models` are the names of the tiers' models, the weakest tier first; `home`
    says where a model is asked, by its name."""

    def __init__(
        self, models: Mapping[str, str], *, is_on: bool, breaker: Breaker, home: Callable[[str], str]
    ) -> None:
        self._models = models
        self._tiers = tuple(models)
        self._home = home
        self._is_on = is_on
        self._breaker = breaker

    async def before_turn(self, state: State, journal: JournalReader, context_tokens: int) -> Sequence[Event]:
        """What to record before a turn begins."""
        task, events = state.task, list[Event]()
        by: ChosenBy = "escalation"
        chosen = escalate(task, self._tiers, self._breaker, kin=self._kin(state.model))
        if isinstance(chosen, TierHold):
            failing = f"The tier {task.tier}" if task.tier else state.model
            message = f"{failing} keeps failing and there is no escalation: {chosen.reason}."
            events.append(RoutingWarned(message=message))
        elif chosen is None and self._is_on and not task.is_forced and not task.escalations:
            chosen, by = route(await gather(journal, context_tokens), self._tiers), "router"
        tier = task.tier
        if isinstance(chosen, Routed) and chosen.tier != tier:
            tier, model = chosen.tier, self._models[chosen.tier]
            rest = tuple(name for name in state.fallbacks if name != model)
            events.append(ModelChosen(model=model, reason=chosen.reason, fallbacks=rest, tier=tier, by=by))
        turns = task.tier_turns + 1 if tier == task.tier else 1
        if tier == _roles(self._tiers)[-1] and len(self._tiers) > 1 and turns % _LONG_TURNS == 0:
            message = f"This is turn {turns} in a row with {tier}, the strongest tier; it is dear and slow."
            events.append(RoutingWarned(message=message))
        return events

    def after_attempts(self, state: State, failed: int) -> ModelChosen | None:
        """The next tier once so many attempts in a row failed at a task, if that is often enough."""
        if failed < self._breaker.after_failures:
            return None
        return self.stronger(state, f"{plural(failed, 'attempt')} in a row failed")

    def stronger(self, state: State, reason: str = "the same call kept failing") -> ModelChosen | None:
        """The next tier for a turn that is stuck, unless there is none or the breaker is open."""
        task = state.task
        above = self._tiers[self._tiers.index(task.tier) + 1 :] if task.tier in self._tiers else ()
        above = above or self._kin(state.model)[-1:]
        is_spent = self._breaker.max_usd is not None and task.usd >= self._breaker.max_usd
        is_open = is_spent or task.escalations >= self._breaker.max_escalations
        if not above or is_open or not self._breaker.after_failures:
            return None
        model = self._models[above[0]]
        rest = tuple(name for name in state.fallbacks if name != model)
        return ModelChosen(model=model, reason=reason, fallbacks=rest, tier=above[0], by="escalation")

    def _kin(self, model: str) -> tuple[str, ...]:
        """The tiers of the provider that a model is asked for from; none when the model is one of theirs."""
        if model in self._models.values():
            return ()
        home = self._home(model)
        return tuple(tier for tier, name in self._models.items() if self._home(name) == home)


async def gather(journal: JournalReader, context_tokens: int) -> RoutingFacts:
    """The facts of a turn that is about to begin."""
    last_seq = await journal.last_seq()
    said = await last_event(journal, UserSaid)
    recent = await journal.read(after=max(last_seq - _RECENT_EVENTS, 0), kinds=("AssistantSaid", "CallEnded"))
    return RoutingFacts(
        said=said.text if said else "",
        context_tokens=context_tokens,
        are_tests_failing=are_tests_failing(recent),
    )


def usual_tier(tiers: Sequence[str]) -> str:
    """The tier for usual work, or nothing where there are no tiers."""
    return _roles(tiers)[1] if tiers else ""


def _roles(tiers: Sequence[str]) -> tuple[str, str, str]:
    """The tiers for light, usual and hard work, whatever they are called."""
    ranks = zip(USUAL, (tiers[0], tiers[(len(tiers) - 1) // 2], tiers[-1]), strict=True)
    fast, usual, strong = (name if name in tiers else other for name, other in ranks)
    return fast, usual, strong
