"""What is sent of the notices of one session, to whom and when. Pure: values in, values out.

At most one message of a kind in five minutes; what comes sooner is gathered and sent together then. What
happens in quiet hours is gathered until they end. A message that is not taken is tried again, ever more
seldom, for a day. A question that was answered meanwhile is not asked any more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timedelta, tzinfo

import msgspec

from mainspring.notify.notices import SessionNotice, Withdrawn, shortened
from mainspring.notify.settings import NoticeKind, NotifySettings

SECOND_US = 1_000_000
GATHER_US = 300 * SECOND_US
GIVE_UP_US = 24 * 3600 * SECOND_US
_CLAIM_US = 120 * SECOND_US
_FIRST_RETRY_S, _MAX_RETRY_S = 2, 3600
_MAX_ITEMS = 20
_MAX_TEXT = 1500
_FORMAT = 1


class Attempt(msgspec.Struct, frozen=True, kw_only=True):
    """How far a message is on its way to one channel; `claimed_us` is when somebody began to send it."""

    tries: int = 0
    due_us: int = 0
    claimed_us: int = 0


class Message(msgspec.Struct, frozen=True, kw_only=True):
    """One message, with all that it tells, and the channels that have not taken it yet."""

    id: str
    kind: NoticeKind
    due_us: int
    items: tuple[SessionNotice, ...]
    channels: dict[str, Attempt]
    left_out: int = 0

    @property
    def is_tried(self) -> bool:
        return any(each.tries or each.claimed_us for each in self.channels.values())

    @property
    def text(self) -> str:
        lines = [each.text for each in self.items]
        if len(lines) == 1:
            return lines[0]
        count = len(lines) + self.left_out
        share = max(60, _MAX_TEXT // len(lines))
        return "\n".join([f"{count} messages:", *(shortened(line, share) for line in lines)])


class SessionNotices(msgspec.Struct, frozen=True, kw_only=True):
    """What is on its way for one session. Events up to `seen_seq` were looked at; `always` are the channels
    that somebody named for this session, whoever goes on with it."""

    session: str
    folder: str = ""
    seen_seq: int = 0
    last_us: dict[NoticeKind, int] = {}
    messages: tuple[Message, ...] = ()
    always: tuple[str, ...] = ()
    format_version: int = _FORMAT


class NoticeRules(msgspec.Struct, frozen=True, kw_only=True):
    """What holds for the notices of one session. `always` are channels that are told whatever a face shows;
    `shown_us` says when a person was last at a face that shows the session, 0 for never; `is_attended` that
    the process that runs it has one."""

    settings: NotifySettings
    zone: tzinfo
    always: tuple[str, ...] = ()
    is_attended: bool = False
    shown_us: Callable[[], int] = lambda: 0


def planned(
    state: SessionNotices, found: SessionNotice | Withdrawn, rules: NoticeRules, *, now_us: int, seq: int
) -> SessionNotices:
    """The plan after an event; one that was looked at already changes nothing."""
    replace = msgspec.structs.replace
    if seq <= state.seen_seq:
        return state
    state = replace(state, seen_seq=max(seq, state.seen_seq))
    if isinstance(found, Withdrawn):
        return replace(state, messages=tuple(_without(state.messages, found.call)))
    if now_us - found.at_us > GIVE_UP_US:
        return state
    due_us = _after_quiet(found.kind, rules, now_us)
    away_us = int(rules.settings.away_s * SECOND_US)
    shown_until_us = rules.shown_us() + away_us
    if shown_until_us > now_us and found.kind != "question":
        return _added(state, found, rules.always, due_us, now_us)
    if found.kind == "question":
        due_us = max(due_us, shown_until_us, now_us + away_us if rules.is_attended else 0)
    return _added(state, found, _channels(found.kind, rules), due_us, now_us)


def due(state: SessionNotices, now_us: int) -> Iterator[tuple[Message, str]]:
    """What to send now. A claim that lasts too long, or lies in the future, is void: who made it has
    ended, or the clock was set."""
    for message in state.messages:
        for name, attempt in message.channels.items():
            is_claimed = 0 <= now_us - attempt.claimed_us < _CLAIM_US
            if max(message.due_us, attempt.due_us) <= now_us and not is_claimed:
                yield message, name


def next_due_us(state: SessionNotices) -> int | None:
    times = [
        max(message.due_us, each.due_us, each.claimed_us + _CLAIM_US if each.claimed_us else 0)
        for message in state.messages
        for each in message.channels.values()
    ]
    return min(times, default=None)


def claimed(state: SessionNotices, message: str, channel: str, now_us: int) -> SessionNotices:
    return _changed(state, message, channel, lambda each: msgspec.structs.replace(each, claimed_us=now_us))


def sent(state: SessionNotices, message: str, channel: str) -> SessionNotices:
    """A channel took the message, or never will."""
    return _changed(state, message, channel, lambda _: None)


def failed(
    state: SessionNotices, message: str, channel: str, now_us: int, wait_s: float = 0
) -> SessionNotices:
    """The message is tried again later, unless it is too old; `wait_s` is what the server asked for."""

    def later(attempt: Attempt) -> Attempt | None:
        pause_s = max(wait_s, min(_FIRST_RETRY_S * 3**attempt.tries, _MAX_RETRY_S))
        return Attempt(tries=attempt.tries + 1, due_us=now_us + int(pause_s * SECOND_US))

    oldest_us = min((each.items[0].at_us for each in state.messages if each.id == message), default=now_us)
    is_given_up = now_us - oldest_us > GIVE_UP_US
    return sent(state, message, channel) if is_given_up else _changed(state, message, channel, later)


def _added(
    state: SessionNotices, notice: SessionNotice, channels: Sequence[str], due_us: int, now_us: int
) -> SessionNotices:
    """With a message that tells it, or among those that wait to be told together."""
    if not channels:
        return state
    replace = msgspec.structs.replace
    kind = notice.kind
    for message in state.messages:
        if message.kind == kind and not message.is_tried and message.due_us > now_us:
            is_full = len(message.items) >= _MAX_ITEMS
            grown = replace(
                message,
                items=message.items if is_full else (*message.items, notice),
                left_out=message.left_out + is_full,
                channels={**dict.fromkeys(channels, Attempt()), **message.channels},
            )
            return replace(
                state, messages=tuple(grown if each is message else each for each in state.messages)
            )
    last_us = state.last_us.get(kind, 0)
    if 0 <= now_us - last_us < GATHER_US:
        due_us = max(due_us, last_us + GATHER_US)
    made = Message(
        id=f"{state.session}-{notice.seq}",
        kind=kind,
        due_us=due_us,
        items=(notice,),
        channels=dict.fromkeys(channels, Attempt()),
    )
    return replace(state, messages=(*state.messages, made), last_us={**state.last_us, kind: due_us})


def _channels(kind: NoticeKind, rules: NoticeRules) -> tuple[str, ...]:
    wanted = [
        name
        for name, channel in rules.settings.channels.items()
        if channel.always and kind in (rules.settings.kinds if channel.kinds is None else channel.kinds)
    ]
    return tuple(dict.fromkeys((*wanted, *rules.always)))


def _after_quiet(kind: NoticeKind, rules: NoticeRules, now_us: int) -> int:
    """Now, or the end of the quiet hours that it is in."""
    hours = rules.settings.quiet_hours
    if hours is None or kind in rules.settings.urgent:
        return now_us
    now = datetime.fromtimestamp(now_us / 1e6, rules.zone)
    begin, end = hours
    for day in (now.date() - timedelta(days=1), now.date()):
        starts = datetime.combine(day, begin, rules.zone)
        ends = datetime.combine(day if end > begin else day + timedelta(days=1), end, rules.zone)
        if starts <= now < ends:
            return int(ends.timestamp() * 1e6)
    return now_us


def _without(messages: Sequence[Message], call: str) -> Iterator[Message]:
    """Questions that are answered are left out of what was not sent yet."""
    for message in messages:
        if message.kind != "question" or message.is_tried:
            yield message
            continue
        items = tuple(each for each in message.items if call and each.call != call)
        if items:
            yield msgspec.structs.replace(message, items=items)


def _changed(
    state: SessionNotices, message: str, channel: str, change: Callable[[Attempt], Attempt | None]
) -> SessionNotices:
    replace = msgspec.structs.replace
    kept: list[Message] = []
    for each in state.messages:
        if each.id == message and channel in each.channels:
            attempt = change(each.channels[channel])
            rest = {name: other for name, other in each.channels.items() if name != channel}
            each = replace(each, channels=rest if attempt is None else {**rest, channel: attempt})
        if each.channels:
            kept.append(each)
    return replace(state, messages=tuple(kept))
