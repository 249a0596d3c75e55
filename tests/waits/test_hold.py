"""One wait from its beginning to its one end: times, files, answers, calls from outside, and being stopped."""

from __future__ import annotations

import asyncio
import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from mainspring.errors import UsageError
from mainspring.events import (
    ApprovalGiven,
    Condition,
    ConditionMet,
    Event,
    GoalEnded,
    GoalSet,
    OnAnswer,
    OnCallback,
    OnCommand,
    OnFile,
    OnQuota,
    OnSession,
    OnTime,
    SessionStarted,
    TurnEnded,
    TurnStarted,
    UserSaid,
    WaitEnded,
    WaitStarted,
)
from mainspring.secrets.vault import Vault
from mainspring.session.session import Session, runtime_of
from mainspring.waits.hold import hold
from tests.waits.asleep import Asleep, until_open, wanted

S = 1_000_000


def now_us() -> int:
    return time.time_ns() // 1000


def test_a_time_is_waited_for_and_told_once(tmp_path: Path) -> None:
    asleep = Asleep(tmp_path)
    ended = asleep.wait(OnTime(at_us=now_us() + 50_000), deadline_us=now_us() + 60 * S)
    assert (ended.cause, ended.met, ended.late_s) == ("met", (0,), 0.0)
    assert "It is past" in ended.summary
    assert asleep.events(WaitEnded) == [ended]
    assert [started.wait for started in asleep.events(WaitStarted)] == ["w1"]


def test_a_wait_that_has_ended_is_not_waited_for_again(tmp_path: Path) -> None:
    asleep = Asleep(tmp_path)
    ended = asleep.wait(OnTime(at_us=0))
    assert asleep.wait(OnFile(path="never")) == ended
    assert asleep.events(WaitEnded) == [ended]


def test_the_maximum_ends_a_wait_and_says_what_is_missing(tmp_path: Path) -> None:
    ended = Asleep(tmp_path).wait(OnFile(path="never"), deadline_us=now_us() + 30_000)
    assert (ended.cause, ended.met) == ("deadline", ())
    assert "The time was over" in ended.summary
    assert "never to exist" in ended.summary


def test_a_clock_that_jumps_is_seen_in_the_next_slice(tmp_path: Path) -> None:
    jump_us = 0
    asleep = Asleep(tmp_path, clock=lambda: now_us() + jump_us)

    async def jumps(_: Session) -> None:
        nonlocal jump_us
        jump_us = 7200 * S

    ended = asleep.wait(OnTime(at_us=now_us() + 3600 * S), meanwhile=jumps)
    assert ended.cause == "met"
    assert 3590 < ended.late_s < 3700


@pytest.mark.parametrize(
    ("before", "on", "change", "told"),
    [
        ("", OnFile(path="f"), "echo hello > f", "f is there, 6 bytes"),
        ("touch f", OnFile(path="f", until="gone"), "rm f", "f is gone"),
        ("echo a > f", OnFile(path="f", until="changed"), "echo bb > f", "f has changed: it has 3 bytes now"),
        ("", OnFile(path="f", until="changed"), "touch f", "f has changed: it has 0 bytes now"),
        ("touch f", OnFile(path="f", until="changed"), "rm f", "f has changed: it is gone"),
        (
            "printf 'epoch 1\\nepo' > f",
            OnFile(path="f", until="matches", pattern=r"^epoch \d\d"),
            "printf 'ch 10 done\\n' >> f",
            "f has the line: epoch 10 done",
        ),
        (
            "echo something rather long > f",
            OnFile(path="f", until="matches", pattern="short"),
            "echo short > g; mv g f",
            "f has the line: short",
        ),
        ("mkfifo p", OnFile(path="p"), "true", "p is there"),
        ("mkdir d; touch -d @1 d", OnFile(path="d", until="changed"), "touch d/x", "d has changed"),
    ],
)
def test_files(tmp_path: Path, before: str, on: OnFile, change: str, told: str) -> None:
    asleep = Asleep(tmp_path)
    os.system(f"cd {asleep.work} && {before or 'true'}")

    async def changes(_: Session) -> None:
        os.system(f"cd {asleep.work} && {change}")

    ended = asleep.wait(on, meanwhile=changes)
    assert ended.cause == "met"
    assert told in ended.summary


def test_a_pipe_is_never_read(tmp_path: Path) -> None:
    asleep = Asleep(tmp_path)
    os.mkfifo(asleep.work / "p")
    ended = asleep.wait(OnFile(path="p", until="matches", pattern="x"), deadline_us=now_us() + 60 * S)
    assert ended.cause == "unknown"
    assert "pipe" in ended.summary


@pytest.mark.parametrize(
    "on",
    [
        OnFile(path="f", until="matches", pattern="("),
        OnFile(path=""),
        OnFile(path="/proc/self/mem"),
        OnCommand(command=" "),
        OnSession(session="nobody"),
        OnSession(session="staged"),
        OnCallback(token="../x"),
    ],
)
def test_what_cannot_be_waited_for_is_refused_before_anything_is_recorded(
    tmp_path: Path, on: Condition
) -> None:
    asleep = Asleep(tmp_path)
    with pytest.raises(BaseExceptionGroup) as raised:
        asleep.wait(on)
    assert raised.group_contains(UsageError)
    assert asleep.events(WaitStarted) == []


def test_a_command_is_run_until_it_succeeds(tmp_path: Path) -> None:
    asleep = Asleep(tmp_path)
    count = "echo x >> n; test $(wc -l < n) -ge 3 && echo three times"
    ended = asleep.wait(OnCommand(command=count, every_s=0))
    assert ended.cause == "met"
    assert "three times" in ended.summary
    assert (asleep.work / "n").read_text() == "x\n" * 3


def test_a_command_that_fails_is_told_with_its_output(tmp_path: Path) -> None:
    jump_us = 0
    asleep = Asleep(tmp_path, clock=lambda: now_us() + jump_us)

    async def runs_again(_: Session) -> None:
        nonlocal jump_us
        while not (asleep.work / "again").exists():
            await asyncio.sleep(0.01)
        jump_us = 3600 * S

    command = "test -e ran && touch again; touch ran; echo not yet; exit 3"
    on = OnCommand(command=command, every_s=0)
    ended = asleep.wait(on, meanwhile=runs_again, deadline_us=now_us() + 3600 * S)
    assert ended.cause == "deadline"
    assert "exit code 3" in ended.summary
    assert "not yet" in ended.summary


def test_all_conditions_are_recorded_one_by_one(tmp_path: Path) -> None:
    asleep = Asleep(tmp_path)

    async def both(_: Session) -> None:
        (asleep.work / "a").touch()

    ended = asleep.wait(OnFile(path="a"), OnTime(at_us=0), needs="all", meanwhile=both)
    assert (ended.cause, ended.met) == ("met", (0, 1))
    assert [met.condition for met in asleep.events(ConditionMet)] == [1]


def test_what_the_user_says_ends_a_wait_at_once(tmp_path: Path) -> None:
    async def speaks(session: Session) -> None:
        await runtime_of(session).record(UserSaid(text="stop that"))

    asleep = Asleep(tmp_path)
    ended = asleep.wait(OnFile(path="never"), meanwhile=speaks)
    assert ended.cause == "cancelled"
    assert "The user said something new" in ended.summary
    assert asleep.events(WaitEnded) == [ended]


def test_a_wait_that_is_cancelled_is_recorded_as_that(tmp_path: Path) -> None:
    asleep = Asleep(tmp_path)

    async def stopped() -> None:
        async with asleep.awake() as session, asyncio.TaskGroup() as group:
            holding = group.create_task(
                hold(runtime_of(session).waiting, wanted(OnCommand(command="touch on; sleep 60")))
            )
            await until_open(session, "w1")
            while not (asleep.work / "on").exists():
                await asyncio.sleep(0.01)
            holding.cancel()
            await asyncio.wait({holding})
            assert holding.cancelled()

    asyncio.run(stopped())
    (ended,) = asleep.events(WaitEnded)
    assert ended.cause == "cancelled"


def test_an_answer_is_waited_for(tmp_path: Path) -> None:
    async def answers(session: Session) -> None:
        given = ApprovalGiven(call="c1", arguments_sha256="0" * 64, decision="allow")
        await runtime_of(session).record(given)

    ended = Asleep(tmp_path).wait(OnAnswer(call="c1"), meanwhile=answers)
    assert ended.cause == "met"
    assert "answered: allow" in ended.summary


def test_a_quota_reset_is_a_time(tmp_path: Path) -> None:
    ended = Asleep(tmp_path).wait(OnQuota(model="m", at_us=now_us() + 20_000))
    assert ended.cause == "met"
    assert "m should answer again" in ended.summary


def test_status_lines_say_the_time_that_is_left_and_are_not_stored(tmp_path: Path) -> None:
    asleep = Asleep(tmp_path)
    lines = asleep.statuses(OnFile(path="never"), count=2, deadline_us=now_us() + 3600 * S)
    assert all("waiting for never to exist: " in line for line in lines)
    assert all("left" in line for line in lines)
    assert {item.kind for item in asleep.journal()} >= {"WaitStarted", "WaitEnded"}
    assert "StatusDelta" not in {item.kind for item in asleep.journal()}


def test_secrets_are_neither_shown_nor_recorded_and_the_command_has_them(tmp_path: Path) -> None:
    asleep = Asleep(tmp_path)
    asleep.vault = Vault({"API_TOKEN": "correct-horse-battery-1"})
    (line,) = asleep.statuses(OnCommand(command="test correct-horse-battery-1 = other"))
    assert "test __secret_API_TOKEN_" in line
    ended = asleep.wait(OnCommand(command="echo correct-horse-battery-1 > seen"), wait="w2")
    assert ended.cause == "met"
    assert "correct-horse" not in str(asleep.journal())
    assert (asleep.work / "seen").read_text() == "correct-horse-battery-1\n"


async def called(url: str, body: bytes = b"", *, path: str = "") -> str:
    parts = urlsplit(url)
    while True:
        try:
            reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
            break
        except ConnectionRefusedError:
            await asyncio.sleep(0)
    head = f"POST {path or parts.path} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n"
    writer.write(head.encode() + body)
    await writer.drain()
    answer = (await reader.read(1000)).decode()
    writer.close()
    return answer.split("\r\n")[0]


def callback_of(session: Session) -> OnCallback:
    known = session.state.waits.get("w1")
    assert known is not None
    condition = known.started.conditions[0]
    assert isinstance(condition, OnCallback)
    return condition


def test_a_callback_is_answered_once_it_is_on_record_and_others_are_not_let_in(tmp_path: Path) -> None:
    answers: list[str] = []

    async def calls(session: Session) -> None:
        url = callback_of(session).url
        answers.append(await called(url, b"x", path="/wrong"))
        answers.append(await called(url, b"job 7 done"))
        assert session.state.waits.get("w1") is None

    asleep = Asleep(tmp_path)
    ended = asleep.wait(OnCallback(token=""), meanwhile=calls)
    assert answers == ["HTTP/1.1 404 Not Found", "HTTP/1.1 200 OK"]
    assert ended.cause == "met"
    assert "job 7 done" in ended.summary


def test_a_long_body_is_cut_and_a_silent_caller_holds_nobody_up(tmp_path: Path) -> None:
    async def calls(session: Session) -> None:
        url = callback_of(session).url
        _, silent = await asyncio.open_connection("127.0.0.1", urlsplit(url).port)
        assert await called(url, b"y" * 60_000) == "HTTP/1.1 200 OK"
        silent.close()

    ended = Asleep(tmp_path).wait(OnCallback(token="abc"), meanwhile=calls)
    assert ended.cause == "met"
    assert "of 60,000 bytes" in ended.summary
    assert len(ended.summary) < 2000


def test_a_callback_has_the_same_address_after_a_resume(tmp_path: Path) -> None:
    asleep = Asleep(tmp_path)

    async def calls(_: Session) -> None:
        assert await called(on.url) == "HTTP/1.1 200 OK"

    with reserved_port() as port:
        on = OnCallback(token="abc", url=f"http://127.0.0.1:{port}/abc")
        seed(asleep, wanted(on))
        assert asleep.wait(OnCallback(token="abc"), meanwhile=calls).cause == "met"
    assert len(asleep.events(WaitStarted)) == 1


def test_a_callback_goes_on_with_the_file_that_is_on_record_without_the_key_in_its_name(
    tmp_path: Path,
) -> None:
    asleep, name = Asleep(tmp_path), "url-sk-proj-" + "Zx9Qw7Er5Ty3" * 3

    async def calls(_: Session) -> None:
        assert await called(on.url) == "HTTP/1.1 200 OK"

    with reserved_port() as port:
        on = OnCallback(
            token="abc", url=f"http://127.0.0.1:{port}/abc", file="url-__secret_openai_0123456789__"
        )
        seed(asleep, wanted(on))
        assert asleep.wait(OnCallback(token="abc", file=name), meanwhile=calls).cause == "met"
    assert [path.name for path in tmp_path.rglob("url-*")] == [name]
    assert len(asleep.events(WaitStarted)) == 1


def test_a_callback_whose_port_was_taken_has_a_new_address_on_record(tmp_path: Path) -> None:
    asleep = Asleep(tmp_path)

    async def taken(on: OnCallback) -> WaitEnded:
        async with asleep.awake() as session, asyncio.TaskGroup() as group:
            holding = group.create_task(hold(runtime_of(session).waiting, wanted(on)))
            while callback_of(session).url == on.url:
                await asyncio.wait({session.state.waits.stirring()})
            assert await called(callback_of(session).url) == "HTTP/1.1 200 OK"
            return await holding

    with reserved_port() as port, socket.create_server(("127.0.0.1", port)):
        on = OnCallback(token="abc", url=f"http://127.0.0.1:{port}/abc")
        seed(asleep, wanted(on))
        assert asyncio.run(taken(on)).cause == "met"
    assert len(asleep.events(WaitStarted)) == 2
    assert len(asleep.events(WaitEnded)) == 1


@contextmanager
def reserved_port() -> Iterator[int]:
    """A port that nobody is given by chance, and that one server can still listen on by its number."""
    with socket.socket() as reserved:
        reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        reserved.bind(("127.0.0.1", 0))
        yield reserved.getsockname()[1]


def seed(asleep: Asleep, *events: Event) -> None:
    """What a process left behind that was killed."""

    async def written() -> None:
        journal = await asleep.store.create("staged")
        start = SessionStarted(session="staged", workspace=str(asleep.work), version="0")
        await journal.append(start, *events)
        await journal.close()

    asyncio.run(written())


def test_conditions_met_before_a_crash_are_not_looked_at_again(tmp_path: Path) -> None:
    asleep = Asleep(tmp_path)
    both = wanted(OnFile(path="a"), OnFile(path="b"), needs="all")
    seed(asleep, both, ConditionMet(wait="w1", condition=0, detail="a was there"))
    (asleep.work / "b").touch()
    ended = asleep.wait(*both.conditions, needs="all")
    assert (ended.cause, ended.met) == ("met", (0, 1))
    assert "a was there" in ended.summary


def test_an_open_wait_for_something_that_is_gone_for_good_is_given_up(tmp_path: Path) -> None:
    asleep = Asleep(tmp_path)
    seed(asleep, wanted(OnSession(session="removed")))
    ended = asleep.wait(OnSession(session="removed"))
    assert ended.cause == "unknown"
    assert asleep.events(WaitEnded) == [ended]


def test_a_message_before_a_crash_ends_the_wait_after_it(tmp_path: Path) -> None:
    asleep = Asleep(tmp_path)
    seed(asleep, wanted(OnFile(path="a")), UserSaid(text="never mind"))
    assert asleep.wait(OnFile(path="a")).cause == "cancelled"


def other_session(asleep: Asleep, *events: Event) -> None:
    async def written() -> None:
        journal = await asleep.store.create("other")
        await journal.append(SessionStarted(session="other", workspace="/", version="0"), *events)
        await journal.close()

    asyncio.run(written())


def test_another_session_is_waited_for_by_its_journal(tmp_path: Path) -> None:
    asleep = Asleep(tmp_path)

    async def held() -> WaitEnded:
        journal = await asleep.store.create("other")
        await journal.append(SessionStarted(session="other", workspace="/", version="0"), TurnStarted(turn=1))
        async with asleep.awake() as session, asyncio.TaskGroup() as group:
            holding = group.create_task(hold(runtime_of(session).waiting, wanted(OnSession(session="oth"))))
            await until_open(session, "w1")
            await journal.append(TurnEnded(turn=1, ending="done", detail="All is well."))
            ended = await holding
        await journal.close()
        return ended

    ended = asyncio.run(held())
    assert ended.cause == "met"
    assert "Session other: its turn ended as done. All is well" in ended.summary


def test_the_goal_of_another_session_counts_more_than_its_turns(tmp_path: Path) -> None:
    asleep = Asleep(tmp_path)
    turn = (UserSaid(text="go"), TurnStarted(turn=1), TurnEnded(turn=1, ending="done"))
    other_session(asleep, GoalSet(text="all of it"), *turn)
    assert asleep.wait(OnSession(session="other"), wait="w1").cause == "unknown"
    ended = Asleep(tmp_path / "b")
    other_session(ended, GoalSet(text="all of it"), *turn, GoalEnded(ending="done", reason="It is proved."))
    told = ended.wait(OnSession(session="other"))
    assert told.cause == "met"
    assert "its goal ended as done. It is proved" in told.summary


def test_a_session_that_nobody_works_on_is_not_waited_for_for_ever(tmp_path: Path) -> None:
    asleep = Asleep(tmp_path)
    other_session(asleep, UserSaid(text="go"), TurnStarted(turn=1))
    ended = asleep.wait(OnSession(session="other"))
    assert ended.cause == "unknown"
    assert "no process works on it" in ended.summary


def test_a_pattern_that_would_take_for_ever_ends_the_wait_as_unknown(tmp_path: Path) -> None:
    asleep = Asleep(tmp_path)
    (asleep.work / "f").write_text("word " * 40 + "\n")
    ended = asleep.wait(OnFile(path="f", until="matches", pattern=r"(\w+\s*)+:done"))
    assert ended.cause == "unknown"
    assert "takes too long" in ended.summary
