"""What a terminal does to a chat, and what a chat must never do to a terminal."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from itertools import product
from pathlib import Path

import pytest

from mainspring.chat.palette import Palette
from mainspring.chat.view import View
from mainspring.chat.width import get_width, packed, wrapped
from mainspring.events import AssistantSaid, CallAsked, CallEnded, Origin, Recorded, Text, TextDelta, UserSaid
from tests.chat.conftest import FREE, Tmux, chat_process, eventually

SLOW = {"text": "word " * 120 + "\n\nthe end", "chunk_size": 5, "delay_s": 0.05}
SEQUENCES = [
    *(f"\x1b[{number}{letter}" for number, letter in product(("2", "31", "?1049", "999;999"), "JKHmhlrAB")),
    *(f"\x1b]{number};{text}{end}" for number, text, end in product((0, 8, 52, 1337), ("x", "c;aGk="), ("\x07", "\x1b\\"))),
    *(f"\x9b{number}{letter}" for number, letter in product(("2", "31"), "JKHm")),
    *(f"\x1b{letter}" for letter in "cDEMH78=>NOPXZ^_"),
    *"\x00\x07\x08\x0b\x0c\x0e\x0f\x7f\x85\x84\x88\x8d\x90\x9c\u202e\u2066\u200b\ufeff",
    "\x1bP+q544e\x1b\\", "\x1b_Gf=100;AAAA\x1b\\", "\x1b[200~rm\x1b[201~", "safe\rover", "a\x1b[6n", "\x1b[c",
]  # fmt: skip
UNSAFE = re.compile("[\x00-\x08\x0b-\x1a\x1c-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\u200b\ufeff]")


def test_there_are_a_hundred_hostile_sequences() -> None:
    assert len(set(SEQUENCES)) >= 100


@pytest.mark.parametrize("styled", [True, False])
def test_no_hostile_sequence_reaches_the_terminal(styled: bool) -> None:
    for sequence in SEQUENCES:
        text = f"before {sequence} after `{sequence}`\n\n```sh\n{sequence}\n```\n"
        view = View(Palette(is_styled=styled), lambda block: block, here=Origin())
        asked = CallAsked(
            call="c1", name="shell", arguments=f'{{"command": "echo {sequence.encode().hex()}"}}'
        )
        odd = CallAsked(call="c2", name=sequence, arguments=sequence)
        events = (
            UserSaid(text=text),
            *(TextDelta(text=piece) for piece in re.findall(r"(?s).{1,3}", text)),
            AssistantSaid(step=1, parts=(Text(text=text), asked, odd)),
        )
        shown: list[str] = []
        for number, event in enumerate(events):
            shown += view.take(Recorded(number, 0, event), now_s=0.0)
            shown += view.live(columns=60, now_s=1.0)
        for call in ("c1", "c2"):
            shown += view.take(Recorded(9, 0, CallEnded(call=call, outcome="error", output=text)), now_s=0.0)
        written = re.sub(r"\x1b\[[\d;]*m", "", "".join(shown))
        assert "\x1b" not in written, repr(sequence)
        assert not UNSAFE.search(written), repr(sequence)


def test_a_resize_in_the_middle_of_an_answer_leaves_nothing_behind(tmux: Tmux) -> None:
    tmux.open("chat", "--model", tmux.machine.serve(SLOW), *FREE)
    tmux.type("go", "Enter")
    tmux.until("word word")
    for columns in (40, 120, 60, 300, 50, 80):
        before = re.findall(r"answering · .*", tmux.screen())
        tmux.resize(columns)
        tmux.until(lambda _: before != re.findall(r"answering · .*", tmux.screen()))  # noqa: B023 - called at once
    seen = tmux.until("■ done")
    assert seen.count("the end") == 1
    assert seen.count("word") == 120
    assert seen.count("answering") == 0


def test_no_line_keeps_an_erased_end_that_the_terminal_would_wrap(tmux: Tmux, tmp_path: Path) -> None:
    answer = {"text": "word " * 120, "chunk_size": 5, "delay_s": 0.02}
    tmux.open("chat", "--model", tmux.machine.serve(answer), *FREE)
    tmux.record(tmp_path / "written")
    tmux.type("go", "Enter")
    tmux.until("■ done")
    frames = (tmp_path / "written").read_bytes().decode("utf-8", "replace").split("\x1b[?2026h")
    ends = [re.split(r"(?<!\r)(?<!\x1b7)\x1b\[K", frame) for frame in frames]
    shortened = [end[-1] for end in ends if len(end) > 1 and "word" in end[0] + end[-1]]
    assert all("\x1b7\x1b[K" in end for end in shortened), "then all lines are erased and drawn again"
    assert any("\x1b7\x1b[K" in frame for frame in frames), "lines become shorter while an answer is written"


def test_wide_characters_and_emoji_keep_their_places(tmux: Tmux) -> None:
    text = "你好世界" * 40 + " 👨‍👩‍👧 \U0001f600\n\n| 名前 | n |\n|---|---|\n| 東京 | 1 |\n| x | 2 |\n"
    tmux.open("chat", "--model", tmux.machine.serve({"text": text, "chunk_size": 2, "delay_s": 0.002}), *FREE)
    tmux.type("你好", "Enter")
    seen = tmux.until("■ done")
    assert "› 你好" in seen
    assert re.sub(r"\s", "", seen).count("你好世界" * 40) == 1
    rows = [line for line in seen.splitlines() if line.strip().endswith((" 1", " 2"))]
    assert [row.rstrip() for row in rows] == ["東京  1", "x     2"]


def test_a_chat_that_is_killed_goes_on_where_it_was(tmux: Tmux) -> None:
    waits = {"calls": [{"name": "shell", "arguments": {"command": "touch begun; sleep 1000"}}]}
    model = tmux.machine.serve(waits, {"text": "Back again."})
    tmux.open("chat", "--model", model, *FREE)
    tmux.type("begin", "Enter")
    tmux.until(lambda _: (tmux.machine.workspace / "begun").exists())
    session = tmux.machine.only_session()["id"]
    os.kill(chat_process(session), signal.SIGKILL)
    tmux.until("Killed")
    tmux.type("reset", "Enter")
    tmux.open("chat", "--resume", session)
    seen = tmux.until("/continue goes on")
    assert "› begin" in seen
    assert "says something\nelse" in seen, "words are not broken"
    assert "· shell touch begun; sleep 1000 · interrupted" in seen
    tmux.type("/continue", "Enter")
    tmux.until("Back again.")


def test_a_closed_terminal_ends_the_turn_on_record(tmux: Tmux) -> None:
    waits = {"calls": [{"name": "shell", "arguments": {"command": "touch begun; sleep 1000"}}]}
    tmux.open("chat", "--model", tmux.machine.serve(waits), *FREE)
    tmux.type("begin", "Enter")
    tmux.until(lambda _: (tmux.machine.workspace / "begun").exists())
    session = tmux.machine.only_session()["id"]
    process = chat_process(session)
    tmux.close()
    subprocess.run(["tail", f"--pid={process}", "-f", "/dev/null"], check=True, timeout=60)
    events = tmux.machine.events(session)
    assert [event["body"]["ending"] for event in events if event["kind"] == "TurnEnded"] == ["interrupted"]


def test_a_chat_that_leaves_the_gateway_out_is_not_handed_to_a_daemon_that_does_not(tmux: Tmux) -> None:
    waits = {"calls": [{"name": "shell", "arguments": {"command": "touch begun; sleep 1000"}}]}
    tmux.machine.home.mkdir(mode=0o700)
    gateway = '[gateway]\nurl = "http://127.0.0.1:9"\n'
    (tmux.machine.home / "config.toml").write_text(f"[daemon]\nsessions = true\n{gateway}")
    tmux.open("chat", "--no-gateway", "--model", tmux.machine.serve(waits, {"text": "No."}), *FREE)
    tmux.type("begin", "Enter")
    tmux.until(lambda _: (tmux.machine.workspace / "begun").exists())
    process = chat_process(tmux.machine.only_session()["id"])
    tmux.close()
    subprocess.run(["tail", f"--pid={process}", "-f", "/dev/null"], check=True, timeout=60)
    try:
        assert "not running" in tmux.machine.run("daemon", "status").stdout
        assert tmux.machine.only_session()["state"] == "interrupted"
    finally:
        tmux.machine.run("daemon", "stop")


def test_the_daemon_goes_on_when_the_terminal_is_closed(tmux: Tmux) -> None:
    waits = {"calls": [{"name": "shell", "arguments": {"command": "touch begun; sleep 1000"}}]}
    model = tmux.machine.serve(waits, {"text": "Finished without you."}, {"text": "And this."})
    tmux.open("chat", "--keep-going", "--model", model, *FREE)
    tmux.type("begin", "Enter")
    tmux.until(lambda _: (tmux.machine.workspace / "begun").exists())
    tmux.type("and then")
    tmux.keys("M-Enter")
    tmux.until("1 queued")
    session = tmux.machine.only_session()["id"]
    process = chat_process(session)
    tmux.close()
    subprocess.run(["tail", f"--pid={process}", "-f", "/dev/null"], check=True, timeout=60)
    try:
        eventually(lambda: tmux.machine.only_session()["last_line"] == "And this.")
        endings = [e["body"]["ending"] for e in tmux.machine.events(session) if e["kind"] == "TurnEnded"]
        assert endings[:2] == ["interrupted", "done"]
        said = [e["body"]["text"] for e in tmux.machine.events(session) if e["kind"] == "UserSaid"]
        assert said == ["begin", "and then"]
    finally:
        tmux.machine.run("daemon", "stop")


def test_ctrl_z_gives_the_shell_and_fg_comes_back(tmux: Tmux) -> None:
    tmux.open("chat", "--model", tmux.machine.serve({"text": "Awake."}), *FREE)
    tmux.keys("C-z")
    tmux.until(lambda seen: "Stopped" in seen and seen.rstrip().endswith("shell$"))
    tmux.type("fg", "Enter")
    tmux.until(lambda _: "›" in tmux.screen().splitlines()[-1] or "test · yolo" in tmux.screen())
    tmux.type("hello", "Enter")
    tmux.until("Awake.")


def test_in_vi_insert_mode_escape_first_leaves_insert(tmux: Tmux) -> None:
    waits = {"calls": [{"name": "shell", "arguments": {"command": "sleep 1000"}}]}
    tmux.open("chat", "--vi", "--model", tmux.machine.serve(waits), *FREE)
    tmux.type("wait", "Enter")
    tmux.until("shell sleep 1000")
    tmux.type("one two")
    tmux.keys("Escape")
    tmux.keys("b", "i")
    tmux.type("and ")
    tmux.until("› one and two")
    assert "interrupted" not in tmux.scrollback()
    tmux.keys("Escape")
    tmux.keys("Escape")
    tmux.until("■ interrupted")


def test_a_new_line_begins_in_insert_mode(tmux: Tmux) -> None:
    tmux.open("chat", "--vi", "--model", tmux.machine.serve({"text": "One."}, {"text": "Two."}), *FREE)
    tmux.type("first")
    tmux.keys("Escape")
    tmux.until("› first")
    tmux.keys("Enter")
    tmux.until("■ done")
    tmux.type("hello there")
    tmux.until("\n› hello there")


def test_no_color_leaves_the_colours_out(tmux: Tmux) -> None:
    tmux.type("export NO_COLOR=1", "Enter")
    tmux.open(
        "chat",
        "--model",
        tmux.machine.serve({"text": "# Title\n\n`code` and\n\n```python\nx = 1\n```\n"}),
        *FREE,
    )
    tmux.type("go", "Enter")
    tmux.until("■ done")
    codes = {
        code
        for found in re.findall(r"\x1b\[([\d;]*)m", tmux.screen(is_styled=True))
        for code in found.split(";")
    }
    assert not {code for code in codes if code.isdigit() and 30 <= int(code) <= 37}


@pytest.mark.parametrize("columns", [40, 300])
def test_narrow_and_wide_terminals_are_right(tmux: Tmux, columns: int) -> None:
    tmux.resize(columns)
    tmux.open("chat", "--model", tmux.machine.serve({"text": "word " * 60}), *FREE)
    tmux.type("go", "Enter")
    tmux.until("■ done")
    lines = tmux.screen().splitlines()
    assert max(len(line.rstrip()) for line in lines if line.startswith("word")) <= min(columns, 100)
    assert any(line.startswith(" test · yolo") for line in lines)


def test_what_mainspring_writes_fits_a_narrow_terminal(tmux: Tmux) -> None:
    long = {
        "name": "shell",
        "arguments": {"command": "for word in one two three; do echo $word and more; done; exit 3"},
    }
    tmux.resize(40)
    tmux.open("chat", "--model", tmux.machine.serve({"calls": [long]}, {"text": "Done."}), *FREE)
    tmux.type("go", "Enter")
    tmux.until("■ done")
    lines = tmux.scrollback(is_joined=False).splitlines()
    at = next(at for at, line in enumerate(lines) if line.startswith("✗ shell"))
    assert "exit code 3" in lines[at], "a call takes one line"
    tmux.type("/help", "Enter")
    tmux.until("Leave the chat")
    listed = tmux.scrollback(is_joined=False).partition("Commands\n")[2].splitlines()
    assert "  /copy" in [line.rstrip() for line in listed], "names stand above what is said of them"


def test_choices_are_not_broken_between_a_key_and_its_meaning() -> None:
    assert packed(["y once", "a always in this session", "s stop"], 30) == [
        "y once",
        "a always in this session",
        "s stop",
    ]
    assert packed(["y once", "n no", "s stop"], 30) == ["y once · n no · s stop"]


def test_words_stay_whole_also_beside_wide_and_long_ones() -> None:
    text = "  ! not guaranteed · 日本語 " + "a protected path that is made by a command " * 3 + "x" * 90
    lines = wrapped(text, 40).split("\n")
    assert all(get_width(line) <= 40 and line.startswith("  ") for line in lines)
    assert "".join(text.split()) == "".join("".join(lines).split())
    assert [word for line in lines for word in line.split()][:-3] == text.split()[:-1]
