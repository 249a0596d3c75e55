"""The pure decision: what was seen, what the clock shows, and clocks that jump."""

from __future__ import annotations

from typing import Any

import pytest

from mainspring.events import OnFile, OnTime
from mainspring.waits.decide import Observation, decide, late_s, sleep_s
from tests.waits.asleep import wanted

S = 1_000_000
NOW = 1_700_000_000 * S
TWO = (OnFile(path="a"), OnFile(path="b"))


def test_nothing_seen_and_time_left_is_no_end():
    assert decide(wanted(*TWO, deadline_us=NOW + 1), {}, now_us=NOW) is None
    assert decide(wanted(*TWO), {}, now_us=NOW) is None


def test_any_needs_one_and_all_needs_each():
    seen = {1: Observation("b is there", NOW)}
    one = decide(wanted(*TWO), seen, now_us=NOW)
    assert one is not None
    assert (one.cause, one.met) == ("met", (1,))
    assert decide(wanted(*TWO, needs="all"), seen, now_us=NOW) is None
    both = decide(wanted(*TWO, needs="all"), {**seen, 0: Observation("a is there", NOW - 5)}, now_us=NOW)
    assert both is not None
    assert (both.cause, both.met, both.at_us) == ("met", (0, 1), NOW)


@pytest.mark.parametrize(
    ("happened_us", "cause"),
    [(NOW - 20 * S, "met"), (NOW - 5 * S, "deadline"), (None, "met")],
)
def test_what_happened_after_the_deadline_does_not_make_up_for_it(happened_us, cause):
    started = wanted(*TWO, deadline_us=NOW - 10 * S)
    decision = decide(started, {0: Observation("a is there", happened_us)}, now_us=NOW)
    assert decision is not None
    assert decision.cause == cause


def test_a_deadline_that_passed_while_nobody_was_here_is_late():
    started = wanted(*TWO, deadline_us=NOW - 90 * S)
    decision = decide(started, {}, now_us=NOW)
    assert decision is not None
    assert decision.cause == "deadline"
    assert late_s(decision, now_us=NOW, began_us=NOW - 3600 * S) == 90.0


def test_what_was_seen_at_once_is_not_late():
    decision = decide(wanted(*TWO), {0: Observation("a is there", NOW - 2 * S)}, now_us=NOW)
    assert decision is not None
    assert late_s(decision, now_us=NOW, began_us=NOW - 60 * S) == 0.0
    assert late_s(decision, now_us=NOW, began_us=NOW - S) == 2.0


def test_a_clock_that_jumps_forward_ends_the_wait_and_one_that_jumps_back_prolongs_the_sleep_by_slices_only():
    started = wanted(OnTime(at_us=NOW), deadline_us=NOW)
    assert sleep_s(started, now_us=NOW - 86400 * S, slice_s=30) == 30
    assert sleep_s(started, now_us=NOW - S, slice_s=30) == 1
    assert sleep_s(started, now_us=NOW + 86400 * S, slice_s=30) == 0
    assert sleep_s(wanted(*TWO), now_us=NOW, slice_s=30) == 30
    assert decide(started, {}, now_us=NOW - 86400 * S) is None
    jumped = decide(started, {0: Observation("it is past", NOW)}, now_us=NOW + 86400 * S)
    assert jumped is not None
    assert jumped.cause == "met"
    assert late_s(jumped, now_us=NOW + 86400 * S, began_us=NOW - S) == 86400.0


def test_the_order_of_reasons():
    def cause(*given: Any, **how: Any) -> str:
        decision = decide(*given, now_us=NOW, **how)
        assert decision is not None
        return decision.cause

    lost = {0: Observation("nobody knows", is_lost=True)}
    assert cause(wanted(*TWO), lost) == "unknown"
    assert cause(wanted(*TWO), lost, is_interrupted=True) == "cancelled"
    met = {**lost, 1: Observation("b is there")}
    assert cause(wanted(*TWO), met, is_interrupted=True) == "met"
    assert cause(wanted(*TWO), {}, is_stalled=True) == "stalled"
    late = wanted(*TWO, deadline_us=NOW)
    assert cause(late, lost, is_interrupted=True, is_stalled=True) == "deadline"
