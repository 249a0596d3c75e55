"""When a goal is over although it is not done, and how long to rest between two iterations. Pure."""

from __future__ import annotations

import msgspec

from mainspring.events import GoalEnding, GoalRules, Grade
from mainspring.events.counts import plural
from mainspring.goals.fold import Goal

_LONGEST_OUTAGE_WAIT_S = 900.0
_CENT_OF_A_CENT = 1e-9


class Stop(msgspec.Struct, frozen=True):
    ending: GoalEnding
    reason: str
    grade: Grade = ""


def stop_rule(
    goal: Goal, rules: GoalRules, *, now_us: int, spent_usd: float, spent_tokens: int
) -> Stop | None:
    """The first rule that ends the goal before another iteration."""
    if rules.max_failures and goal.failures >= rules.max_failures:
        detail = goal.last.detail if goal.last else ""
        return Stop("failed", f"{plural(goal.failures, 'iteration')} failed in a row. {detail}".strip())
    if rules.max_refusals and goal.refusals >= rules.max_refusals:
        return Stop(
            "failed", f"Done was said {plural(goal.refusals, 'time')} in a row and the checks failed."
        )
    if rules.max_idle_iterations and goal.idle >= rules.max_idle_iterations:
        return Stop(
            "no_progress",
            f"Nothing new in {plural(goal.idle, 'iteration')}: no file, metric, claim or plan changed.",
        )
    if rules.max_cost_usd is not None and spent_usd >= rules.max_cost_usd - _CENT_OF_A_CENT:
        return Stop("cost", f"{spent_usd:.4f} of {rules.max_cost_usd:.4f} USD are spent.")
    if rules.max_tokens is not None and spent_tokens >= rules.max_tokens:
        return Stop("tokens", f"{spent_tokens:,} of {rules.max_tokens:,} tokens are used.")
    return _out_of_time(goal, rules, now_us)


def _out_of_time(goal: Goal, rules: GoalRules, now_us: int) -> Stop | None:
    left_s = time_left_s(goal, rules, now_us)
    if left_s is not None and left_s <= 0:
        return Stop("time", f"The time limit of {rules.max_time_s:g} s is reached.")
    if rules.max_iterations and goal.iterations >= rules.max_iterations:
        told = (
            f"All {rules.max_iterations} iterations are"
            if rules.max_iterations > 1
            else "The one iteration is"
        )
        return Stop("iterations", f"{told} used up.")
    return None


def time_left_s(goal: Goal, rules: GoalRules, now_us: int) -> float | None:
    """Seconds of wall time that the whole goal has left; None without a limit. A clock that was set back
    gives no more than the limit."""
    if rules.max_time_s is None:
        return None
    return rules.max_time_s - max(now_us - goal.started_us, 0) / 1e6


def over_at_us(goal: Goal, rules: GoalRules, now_us: int) -> int | None:
    """When the time of the whole goal is over; None without a limit."""
    left_s = time_left_s(goal, rules, now_us)
    return None if left_s is None else now_us + int(left_s * 1e6)


def outage_wait_s(rules: GoalRules, outages: int) -> float:
    """How long to wait out a provider's outage: longer each time, up to a quarter of an hour."""
    return min(rules.outage_wait_s * 2**outages, max(_LONGEST_OUTAGE_WAIT_S, rules.outage_wait_s))


def rest_s(rules: GoalRules, suggested_s: float | None) -> float:
    """How long to sleep when nothing is waited for: what was suggested, never more than the maximum."""
    wanted = rules.wait_s if suggested_s is None else suggested_s
    longest_s = longest_wait_s(rules)
    return wanted if longest_s is None else min(wanted, longest_s)


def longest_wait_s(rules: GoalRules) -> float | None:
    """None is no limit."""
    return 0.0 if rules.no_waits else rules.max_wait_s or None
