"""Stop rules: each has its own ending, and the first that holds is named."""

import pytest

from mainspring.events import (
    CheckEnded,
    GoalRules,
    GoalSet,
    IterationEnded,
    IterationOutcome,
    IterationStarted,
    PlanSet,
    Recorded,
    TurnEnded,
    TurnStarted,
    Usage,
    WaitEnded,
    WaitStarted,
)
from mainspring.goals.decide import outage_wait_s, over_at_us, rest_s, stop_rule, time_left_s
from mainspring.goals.fold import Goal

START_US = 1_000_000


def goal_after(*events):
    goal = Goal()
    for seq, event in enumerate((GoalSet(text="g"), *events), 1):
        goal.apply(Recorded(seq, START_US + seq, event))
    return goal


def iteration(
    number: int, outcome: IterationOutcome = "continued", *, changed=(), is_waiting=False, detail=""
):
    return (
        IterationStarted(iteration=number),
        TurnStarted(turn=number),
        TurnEnded(turn=number, ending="done", cost_usd=0.5, usage=Usage(output_tokens=10)),
        IterationEnded(
            iteration=number, outcome=outcome, changed=changed, is_waiting=is_waiting, detail=detail
        ),
    )


def stopped(goal, now_us=START_US, usd=0.0, tokens=0, **rules):
    stop = stop_rule(goal, GoalRules(**rules), now_us=now_us, spent_usd=usd, spent_tokens=tokens)
    return stop.ending if stop else None


@pytest.mark.parametrize(
    ("events", "rules", "ending"),
    [
        ((), {}, None),
        (iteration(1), {"max_iterations": 1}, "iterations"),
        (iteration(1), {"max_iterations": 2}, None),
        (iteration(1, "failed"), {"max_failures": 1}, "failed"),
        ((*iteration(1, "failed"), *iteration(2)), {"max_failures": 1}, None),
        ((*iteration(1, "failed"), *iteration(2, "failed")), {"max_failures": 2}, "failed"),
        ((*iteration(1, "refused"), *iteration(2, "refused")), {"max_refusals": 2}, "failed"),
        ((*iteration(1, "refused"), *iteration(2)), {"max_refusals": 2}, None),
        ((*iteration(1), *iteration(2)), {"max_idle_iterations": 2}, "no_progress"),
        ((*iteration(1), *iteration(2, changed=("files",))), {"max_idle_iterations": 2}, None),
        ((*iteration(1, is_waiting=True), *iteration(2, is_waiting=True)), {"max_idle_iterations": 2}, None),
    ],
)
def test_a_rule_ends_the_goal_when_it_holds(events, rules, ending):
    assert stopped(goal_after(*events), **rules) == ending


def test_money_tokens_and_time_have_endings_of_their_own():
    goal = goal_after()
    assert stopped(goal, usd=2.0, max_cost_usd=2.0) == "cost"
    assert stopped(goal, tokens=5, max_tokens=5) == "tokens"
    assert stopped(goal, now_us=START_US + 3_000_001, max_time_s=3.0) == "time"
    assert stopped(goal, now_us=START_US + 2_999_999, max_time_s=3.0) is None


def test_resuming_an_ended_goal_forgets_what_stood_against_it_and_counts_on():
    goal = goal_after(*iteration(1, "failed"), *iteration(2, "failed"))
    goal.apply(Recorded(50, START_US, GoalSet(text="g", rules=GoalRules(max_failures=2))))
    assert (goal.iterations, goal.failures) == (2, 2), "it had not ended"
    assert stopped(goal, max_failures=2) == "failed"


def test_what_happens_within_an_iteration_is_known():
    goal = goal_after(
        IterationStarted(iteration=1),
        TurnStarted(turn=1),
        PlanSet(),
        TurnEnded(turn=1, ending="done", cost_usd=0.25),
    )
    assert goal.current is not None
    assert (goal.current.is_plan_new, goal.current.turns, goal.current.cost_usd) == (True, 1, 0.25)
    assert goal.iterations == 0, "an iteration counts when it has ended"


def test_waits_are_numbered_and_the_last_wake_is_told_to_the_next_iteration():
    goal = goal_after(
        *iteration(1),
        WaitStarted(wait="goal-1", conditions=()),
        WaitEnded(wait="goal-1", cause="met", summary="it ended"),
    )
    assert goal.waits == 1
    assert goal.woke is not None
    goal.apply(Recorded(99, START_US, IterationStarted(iteration=2)))
    assert goal.woke is None


def test_pauses_are_what_was_suggested_and_never_longer_than_the_maximum():
    rules = GoalRules(wait_s=1.0, max_wait_s=60.0)
    assert [rest_s(rules, wanted) for wanted in (None, 0.0, 30.0, 6000.0)] == [1.0, 0.0, 30.0, 60.0]


def test_an_outage_is_waited_out_longer_each_time_and_never_for_more_than_a_quarter_of_an_hour():
    waits = [outage_wait_s(GoalRules(), times) for times in range(8)]
    assert waits == [60, 120, 240, 480, 900, 900, 900, 900]


def test_a_wait_inside_an_iteration_is_not_the_rest_after_it():
    begun, *rest = iteration(1)
    goal = goal_after(begun, WaitEnded(wait="call-1", cause="met", summary="inside the turn"), *rest)
    assert goal.woke is None, "what the iteration itself asks to wait for is still to be waited for"


def test_a_check_that_ran_again_after_a_crash_counts_once_and_as_it_ended_last():
    begun, *rest = iteration(1, "refused")
    looks = [
        CheckEnded(iteration=1, check=check, kind="command", passed=passed)
        for check, passed in (("a", False), ("b", False), ("a", False), ("b", True))
    ]
    goal = goal_after(begun, *looks, *rest)
    assert [check.check for check in goal.failing] == ["a"]


def test_a_clock_that_is_set_back_gives_no_extra_time_and_one_set_forward_ends_the_goal():
    rules, goal, hour_us = GoalRules(max_time_s=60.0), goal_after(*iteration(1)), 3600 * 1_000_000
    assert time_left_s(goal, rules, goal.started_us + 20_000_000) == 40.0
    assert time_left_s(goal, rules, goal.started_us - hour_us) == 60.0
    assert stopped(goal, goal.started_us + hour_us, max_time_s=60.0) == "time"
    assert over_at_us(goal, rules, goal.started_us + 20_000_000) == goal.started_us + 60_000_000
    assert over_at_us(goal, GoalRules(), goal.started_us) is None
