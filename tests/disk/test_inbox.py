"""Commands left for the process that runs a session: in order, private, and decided about once."""

from __future__ import annotations

import time
from pathlib import Path

import msgspec
import pytest

from mainspring.disk.inbox import (
    FORMAT_VERSION,
    AnswerCommand,
    Inbox,
    NoteCommand,
    SayCommand,
    StopCommand,
)
from mainspring.disk.shared_files import LocalFiles
from mainspring.events import ApprovalGiven, Origin


def test_commands_come_in_the_order_in_which_they_were_left_with_who_left_them(tmp_path: Path) -> None:
    inbox, bea = Inbox(LocalFiles(tmp_path)), Origin(user="bea", face="web")
    sent = [SayCommand("one"), NoteCommand("two"), StopCommand(), SayCommand("three")]
    for command in sent:
        inbox.leave(command, bea)
    assert [(left.command, left.origin) for left in inbox.waiting()] == [(each, bea) for each in sent]
    assert [left.command for left in inbox.waiting(SayCommand)] == [sent[0], sent[3]]


def test_bytes_that_are_no_text_become_question_marks(tmp_path: Path) -> None:
    inbox = Inbox(LocalFiles(tmp_path))
    given = ApprovalGiven(call="c1", arguments_sha256="", decision="reject", by="user", feedback="no \udcff")
    for command in (SayCommand("say \udcff"), NoteCommand("note \ud800"), AnswerCommand(given)):
        inbox.leave(command)
    said, noted, answered = (left.command for left in inbox.waiting())
    assert (said, noted) == (SayCommand("say ?"), NoteCommand("note ?"))
    assert answered == AnswerCommand(msgspec.structs.replace(given, feedback="no ?"))


def test_a_clock_that_goes_back_changes_no_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    inbox = Inbox(LocalFiles(tmp_path))
    inbox.leave(SayCommand("one"))
    monkeypatch.setattr(time, "time_ns", lambda: 1)
    inbox.leave(SayCommand("two"))
    assert [left.command for left in inbox.waiting()] == [SayCommand("one"), SayCommand("two")]


def test_files_are_private_and_name_their_version(tmp_path: Path) -> None:
    path = tmp_path / "inbox" / f"{Inbox(LocalFiles(tmp_path)).leave(SayCommand('hello'))}.json"
    assert (path.stat().st_mode & 0o777, path.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    assert msgspec.json.decode(path.read_bytes())["format_version"] == FORMAT_VERSION


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ({"format_version": FORMAT_VERSION + 1}, "newer version"),
        ({"id": "x", "command": {"type": "dance"}}, "cannot be read"),
    ],
)
def test_what_cannot_be_understood_is_refused_with_the_reason(
    tmp_path: Path, content: dict[str, object], why: str
) -> None:
    inbox = Inbox(LocalFiles(tmp_path))
    left = inbox.leave(SayCommand("hello"))
    (tmp_path / "inbox" / f"{left}.json").write_bytes(msgspec.json.encode(content))
    assert not list(inbox.waiting())
    assert why in inbox.refusal_of(left)


def test_what_is_withdrawn_cannot_be_taken_and_what_is_taken_not_withdrawn(tmp_path: Path) -> None:
    inbox = Inbox(LocalFiles(tmp_path))
    first, second = inbox.leave(SayCommand("one")), inbox.leave(SayCommand("two"))
    one, two = inbox.waiting()
    assert inbox.withdraw(first)
    assert inbox.take(one) is None
    taken = inbox.take(two)
    assert taken is not None
    assert not inbox.withdraw(second)
    assert inbox.is_pending(second)
    assert [left.is_taken for left in inbox.waiting()] == [True]
    inbox.done(taken)
    assert not inbox.is_pending(second)


def test_other_files_in_the_folder_are_left_alone(tmp_path: Path) -> None:
    inbox = Inbox(LocalFiles(tmp_path))
    inbox.leave(SayCommand("one"))
    (tmp_path / "inbox" / "notes.json").write_text("mine")
    inbox.leave(SayCommand("two"))
    assert len(list(inbox.waiting())) == 2
