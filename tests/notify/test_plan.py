"""One message of a kind in five minutes, none in quiet hours, none for what is shown or answered."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

import msgspec
import pytest

from mainspring.notify.notices import SessionNotice, Withdrawn
from mainspring.notify.plan import (
    GATHER_US,
    NoticeRules,
    SessionNotices,
    claimed,
    due,
    failed,
    next_due_us,
    planned,
    sent,
)
from mainspring.notify.settings import ChannelSettings, NoticeKind, NotifySettings

S = 1_000_000
NOON = int(datetime(2026, 3, 2, 12, tzinfo=UTC).timestamp()) * S


def rules(shown_us: Callable[[], int] = lambda: 0, **settings: object) -> NoticeRules:
    given = {"channels": {"hook": ChannelSettings(type="webhook", url="http://x")}, **settings}
    return NoticeRules(settings=NotifySettings(**given), zone=UTC, shown_us=shown_us)


def notice(kind: NoticeKind, seq: int, at_us: int, call: str = "") -> SessionNotice:
    return SessionNotice(kind=kind, seq=seq, at_us=at_us, text=f"text {seq}", call=call)


def told(
    state: SessionNotices, by: NoticeRules, kind: NoticeKind, seq: int, at_us: int, call: str = ""
) -> SessionNotices:
    return planned(state, notice(kind, seq, at_us, call), by, now_us=at_us, seq=seq)


def test_what_comes_within_five_minutes_is_gathered_into_one_message() -> None:
    state = told(SessionNotices(session="s"), rules(), "failed", 1, NOON)
    ((first, channel),) = due(state, NOON)
    state = sent(state, first.id, channel)
    for seq in range(2, 30):
        state = told(state, rules(), "failed", seq, NOON + seq * S)
    state = told(state, rules(), "ended", 40, NOON + 40 * S)
    assert [message.kind for message, _ in due(state, NOON + 60 * S)] == ["ended"]
    messages = [message for message, _ in due(state, NOON + GATHER_US) if message.kind == "failed"]
    assert [message.text.splitlines()[0] for message in messages] == ["28 messages:"]
    assert len(messages[0].text) < 2000
    assert state.seen_seq == 40


def test_quiet_hours_hold_all_but_what_is_urgent_in_the_zone_of_the_settings() -> None:
    night = int(datetime(2026, 3, 2, 23, 30, tzinfo=UTC).timestamp()) * S
    quiet = rules(quiet="22:00-07:00", urgent=("question",))
    state = told(SessionNotices(session="s"), quiet, "ended", 1, night)
    state = told(state, quiet, "question", 2, night)
    assert [message.kind for message, _ in due(state, night)] == ["question"]
    morning = int(datetime(2026, 3, 3, 7, tzinfo=UTC).timestamp()) * S
    assert {message.kind for message, _ in due(state, morning - S)} == {"question"}
    assert {message.kind for message, _ in due(state, morning)} == {"question", "ended"}


def test_what_an_open_face_shows_is_not_told_and_a_question_only_when_it_stays_open() -> None:
    open_face = rules(shown_us=lambda: NOON - 10 * S)
    state = told(SessionNotices(session="s"), open_face, "ended", 1, NOON)
    state = told(state, open_face, "question", 2, NOON, call="c1")
    assert list(due(state, NOON)) == []
    assert [message.kind for message, _ in due(state, NOON + 50 * S)] == ["question"]
    answered = planned(state, Withdrawn("c1"), open_face, now_us=NOON + S, seq=3)
    assert (answered.messages, next_due_us(answered)) == ((), None)
    asked_twice = told(state, open_face, "question", 3, NOON, call="c2")
    (left,) = planned(asked_twice, Withdrawn("c1"), open_face, now_us=NOON + S, seq=4).messages
    assert [item.call for item in left.items] == ["c2"]


def test_a_failed_message_is_tried_ever_more_seldom_for_a_day() -> None:
    state = told(SessionNotices(session="s"), rules(), "failed", 1, NOON)
    now, pauses = NOON, []
    while found := list(due(state, now)):
        state = failed(claimed(state, found[0][0].id, "hook", now), found[0][0].id, "hook", now)
        pauses.append(((next_due_us(state) or now) - now) // S)
        now = next_due_us(state) or now
    assert pauses[:5] == [2, 6, 18, 54, 162]
    assert max(pauses) == 3600
    assert 24 * 3600 <= (now - NOON) // S <= 26 * 3600
    assert state.messages == ()


@pytest.mark.parametrize("jump_s", [-3600, 3600])
def test_a_claim_is_exclusive_and_void_when_the_clock_jumps(jump_s: int) -> None:
    state = told(SessionNotices(session="s"), rules(), "failed", 1, NOON - 7200 * S)
    state = claimed(state, "s-1", "hook", NOON)
    assert list(due(state, NOON + S)) == []
    assert [message.id for message, _ in due(state, NOON + jump_s * S)] == ["s-1"]


def test_settings_that_cannot_be_read_are_refused() -> None:
    for wrong in ({"quiet": "at night"}, {"quiet": "25:00-07:00"}, {"zone": "Mars/Olympus"}):
        with pytest.raises(msgspec.ValidationError):
            msgspec.convert(wrong, NotifySettings)
