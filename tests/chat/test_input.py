"""The input line: steering and queueing, history, completion, chips, attachments, the editor."""

from __future__ import annotations

import base64
import os
import signal
import stat

import pytest

from mainspring.chat.completion import best_fits
from mainspring.chat.line import Chips
from tests.chat.conftest import FREE, Tmux, chat_process, eventually
from tests.hooks.test_cli import trust
from tests.hooks.test_cli import write as write_hooks

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
WAITS = {"calls": [{"name": "shell", "arguments": {"command": "until test -e go; do sleep 0.05; done"}}]}


def test_enter_steers_and_alt_enter_queues(tmux: Tmux) -> None:
    tmux.open("chat", "--model", tmux.machine.serve(WAITS, {"text": "Steered."}, {"text": "Next."}), *FREE)
    tmux.type("wait", "Enter")
    tmux.until("shell until test")
    tmux.type("later please")
    tmux.keys("M-Enter")
    tmux.until("⋯ queued: later please")
    tmux.type("use blue", "Enter")
    tmux.until("⋯ steering: use blue")
    (tmux.machine.workspace / "go").touch()
    seen = tmux.until("Next.")
    assert "› use blue  (steers the turn)" in seen
    assert (
        seen.index("› use blue") < seen.index("Steered.") < seen.index("› later please") < seen.index("Next.")
    )
    assert b"use blue" in tmux.machine.seen[1].body
    assert b"later please" not in tmux.machine.seen[1].body


def test_what_is_entered_while_a_command_runs_is_shown_and_taken_back(tmux: Tmux) -> None:
    tmux.open("chat", "--model", tmux.machine.serve({"text": "Fine."}), *FREE)
    tmux.type("!until [ -e go ]; do sleep 0.05; done", "Enter")
    tmux.until(lambda _: "! until" in tmux.screen())
    tmux.type("say this", "Enter")
    tmux.until(lambda _: "⋯ next: say this" in tmux.screen())
    tmux.keys("Up")
    tmux.until(lambda _: "› say this" in tmux.screen() and "⋯ next" not in tmux.screen())
    tmux.type(" instead", "Enter")
    tmux.until(lambda _: "⋯ next: say this instead" in tmux.screen())
    (tmux.machine.workspace / "go").touch()
    tmux.until("■ done")
    assert b"say this instead" in tmux.machine.seen[-1].body
    assert len(tmux.machine.seen) == 1


def test_a_queued_message_is_taken_back(tmux: Tmux) -> None:
    tmux.open("chat", "--model", tmux.machine.serve(WAITS, {"text": "Done."}), *FREE)
    tmux.type("wait", "Enter")
    tmux.until("shell until test")
    tmux.type("never mind")
    tmux.keys("M-Enter")
    tmux.until("⋯ queued: never mind")
    tmux.keys("Up")
    tmux.until(lambda _: "⋯ queued" not in tmux.screen() and "› never mind" in tmux.screen())


def test_a_steer_is_taken_back_edited_and_dropped_before_the_model_hears_it(tmux: Tmux) -> None:
    tmux.open("chat", "--model", tmux.machine.serve(WAITS, {"text": "Done."}), *FREE)
    tmux.type("wait", "Enter")
    tmux.until("shell until test")
    for text in ("paint it red", "sing loudly", "dance"):
        tmux.type(text, "Enter")
        tmux.until(f"⋯ steering: {text}")
    tmux.keys("Up")
    tmux.until(lambda _: "› dance" in tmux.screen() and "⋯ steering: dance" not in tmux.screen())
    tmux.keys("C-u")
    tmux.type("/queue drop 2", "Enter")
    tmux.until(lambda _: "⋯ steering: sing" not in tmux.screen())
    tmux.type("/queue 1", "Enter")
    tmux.until(lambda _: "› paint it red" in tmux.screen() and "⋯ steering" not in tmux.screen())
    tmux.type("dish", "Enter")
    tmux.until("⋯ steering: paint it reddish")
    (tmux.machine.workspace / "go").touch()
    tmux.until("■ done")
    heard = tmux.machine.seen[-1].body
    assert b"paint it reddish" in heard
    assert b"sing loudly" not in heard
    assert b"dance" not in heard
    said = [
        e["body"]["text"]
        for e in tmux.machine.events(tmux.machine.only_session()["id"])
        if e["kind"] == "UserSaid"
    ]
    assert said == ["wait", "paint it reddish"]


def test_stopping_a_turn_gives_back_what_it_did_not_hear(tmux: Tmux) -> None:
    tmux.open("chat", "--model", tmux.machine.serve(WAITS, {"text": "Done."}), *FREE)
    tmux.type("wait", "Enter")
    tmux.until("shell until test")
    tmux.type("rather this", "Enter")
    tmux.until("⋯ steering: rather this")
    tmux.keys("Escape")
    tmux.until("■ interrupted")
    tmux.until(lambda _: "› rather this" in tmux.screen() and "⋯ steering" not in tmux.screen())
    tmux.keys("Enter")
    tmux.until("■ done")


def test_a_steer_outlives_its_chat(tmux: Tmux) -> None:
    tmux.open("chat", "--model", tmux.machine.serve(WAITS, {"text": "Done."}), *FREE)
    tmux.type("wait", "Enter")
    tmux.until("shell until test")
    tmux.type("do not lose this", "Enter")
    tmux.until("⋯ steering: do not lose this")
    session = tmux.machine.only_session()["id"]
    os.kill(chat_process(session), signal.SIGKILL)
    tmux.until("Killed")
    tmux.type("reset", "Enter")
    (tmux.machine.workspace / "go").touch()
    tmux.open("chat", "--resume", session)
    tmux.until("/continue goes on")
    tmux.type("/continue", "Enter")
    tmux.until("■ done")
    assert tmux.machine.seen[-1].body.count(b"do not lose this") == 1


def test_what_is_queued_outlives_a_chat_that_is_killed_and_comes_in_its_order(tmux: Tmux) -> None:
    model = tmux.machine.serve(WAITS, {"text": "Done."}, {"text": "Tested."}, {"text": "Released."})
    tmux.open("chat", "--model", model, *FREE)
    tmux.type("wait", "Enter")
    tmux.until("shell until test")
    for number, text in enumerate(("run the tests", "!echo shelled", "release it", "never mind"), 1):
        tmux.type(text)
        tmux.keys("M-Enter")
        tmux.until(f"{number} queued")
    session = tmux.machine.only_session()["id"]
    os.kill(chat_process(session), signal.SIGKILL)
    tmux.until("Killed")
    tmux.type("reset", "Enter")
    (tmux.machine.workspace / "go").touch()
    tmux.open("chat", "--resume", session)
    tmux.until("4 queued")
    tmux.type("/queue drop 4", "Enter")
    tmux.until(lambda _: "3 queued" in tmux.screen())
    tmux.type("/continue", "Enter")
    seen = tmux.until("Released.")
    order = ["Done.", "› run the tests", "Tested.", "shelled", "› release it", "Released."]
    places = [seen.rindex(each) for each in order]
    assert places == sorted(places)
    assert not [each for each in tmux.machine.events(session) if "never mind" in str(each["body"])]
    said = [e["body"]["text"] for e in tmux.machine.events(session) if e["kind"] == "UserSaid"]
    assert said == ["wait", "run the tests", "release it"]


def test_what_is_queued_waits_when_the_turn_is_stopped(tmux: Tmux) -> None:
    tmux.open("chat", "--model", tmux.machine.serve(WAITS, {"text": "Other."}, {"text": "Next."}), *FREE)
    tmux.type("wait", "Enter")
    tmux.until("shell until test")
    tmux.type("and then this")
    tmux.keys("M-Enter")
    tmux.until("⋯ queued: and then this")
    tmux.keys("Escape")
    tmux.until("■ interrupted")
    tmux.type("rather that", "Enter")
    seen = tmux.until("Next.")
    assert seen.rindex("Other.") < seen.rindex("› and then this") < seen.rindex("Next.")


def test_a_message_that_waits_and_is_refused_by_a_hook_is_said_to_be(tmux: Tmux) -> None:
    refusing = "grep -q forbidden && { echo not here >&2; exit 2; }; exit 0"
    write_hooks(tmux.machine, UserPromptSubmit=("", refusing))
    trust(tmux.machine)
    tmux.open("chat", "--model", tmux.machine.serve(WAITS, {"text": "Done."}), *FREE)
    tmux.type("wait", "Enter")
    tmux.until("shell until test")
    tmux.type("forbidden later")
    tmux.keys("M-Enter")
    tmux.until("⋯ queued: forbidden later")
    tmux.type("forbidden now", "Enter")
    tmux.until("⋯ steering: forbidden now")
    (tmux.machine.workspace / "go").touch()
    seen = tmux.until(lambda seen: seen.count("It was not said") == 2)
    assert "\n  forbidden now" in seen
    assert "\n  forbidden later" in seen
    tmux.until(lambda _: "⋯" not in tmux.screen())
    assert all(b"forbidden" not in asked.body for asked in tmux.machine.seen)


def test_ctrl_j_makes_a_line_and_history_brings_it_back_in_the_next_chat(tmux: Tmux) -> None:
    tmux.open("chat", "--model", tmux.machine.serve({"text": "Two lines."}), *FREE)
    tmux.type("one")
    tmux.keys("C-j")
    tmux.type("two", "Enter")
    tmux.until("■ done")
    assert b"one\\ntwo" in tmux.machine.seen[-1].body
    tmux.type("/quit", "Enter")
    assert tmux.left() == 0
    tmux.open("chat", "--model", tmux.machine.serve({"text": "Again."}), *FREE)
    tmux.keys("C-r")
    tmux.type("nothing of it")
    tmux.until(lambda _: "search: nothing" in tmux.screen())
    tmux.keys("C-c")
    tmux.until(lambda _: "search:" not in tmux.screen())
    tmux.keys("C-r")
    tmux.type("on")
    tmux.until(lambda _: "search: on" in tmux.screen() and "› one" in tmux.screen())
    tmux.keys("Enter", "Enter")
    tmux.until("Again.")
    assert b"one\\ntwo" in tmux.machine.seen[-1].body


def test_what_is_queued_is_listed_edited_and_dropped_by_its_number(tmux: Tmux) -> None:
    tmux.open("chat", "--model", tmux.machine.serve(WAITS, {"text": "Done."}, {"text": "Next."}), *FREE)
    tmux.type("wait", "Enter")
    tmux.until("shell until test")
    for text in ("alpha-x", "beta-x", "gamma-x"):
        tmux.type(text)
        tmux.keys("M-Enter")
        tmux.until(f"queued: {text}" if text != "gamma-x" else "3 queued")
    tmux.type("/queue drop 1", "Enter")
    tmux.until(lambda _: "2 queued" in tmux.screen())
    tmux.type("/queue 1", "Enter")
    tmux.until(lambda _: "1 queued" in tmux.screen() and "› beta-x" in tmux.screen())
    (tmux.machine.workspace / "go").touch()
    tmux.until("Next.")
    assert b"gamma-x" in tmux.machine.seen[-1].body
    assert b"alpha-x" not in tmux.machine.seen[-1].body


@pytest.mark.parametrize("report", ["\x1b[27;2;13~", "\x1b[13;2u"])
def test_shift_enter_makes_a_line_where_the_terminal_reports_it(tmux: Tmux, report: str) -> None:
    tmux.open("chat", "--model", tmux.machine.serve({"text": "Two lines."}), *FREE)
    tmux.type("one")
    tmux.keys("-H", *(f"{byte:x}" for byte in report.encode()))
    tmux.type("two", "Enter")
    tmux.until("■ done")
    assert b"one\\ntwo" in tmux.machine.seen[-1].body


def test_the_terminal_is_asked_to_report_shift_enter(tmux: Tmux) -> None:
    tmux.set("extended-keys", "on")
    tmux.open("chat", "--model", tmux.machine.serve({"text": "Two lines."}), *FREE)
    tmux.type("one")
    tmux.keys("S-Enter")
    tmux.type("two", "Enter")
    tmux.until("■ done")
    assert b"one\\ntwo" in tmux.machine.seen[-1].body


def test_paths_are_completed_by_a_few_letters(tmux: Tmux) -> None:
    (tmux.machine.workspace / ".gitignore").write_text("hidden*\n")
    (tmux.machine.workspace / "src").mkdir()
    for name in ("src/payment_service.py", "src/other.py", "hidden_payment.py"):
        (tmux.machine.workspace / name).touch()
    tmux.open("chat", "--model", tmux.machine.serve({"text": "Seen."}), *FREE)
    tmux.type("look at @paysv")
    tmux.until("src/payment_service.py")
    assert "hidden_payment" not in tmux.screen()
    tmux.keys("Tab", "Enter")
    tmux.until("› look at @src/payment_service.py")


def test_a_path_that_was_typed_before_the_files_are_known_is_completed_once_they_are(tmux: Tmux) -> None:
    for number in range(40):
        (tmux.machine.workspace / f"folder{number}").mkdir()
        for name in range(50):
            (tmux.machine.workspace / f"folder{number}" / f"file{name}.py").touch()
    tmux.start("chat", "--model", tmux.machine.serve({"text": "Seen."}), *FREE)
    tmux.until(lambda _: "opening the session" in tmux.screen())
    tmux.type("look at @er7fi49")
    tmux.until("folder7/file49.py")


def test_a_file_that_was_made_meanwhile_is_completed(tmux: Tmux) -> None:
    tmux.open("chat", "--model", tmux.machine.serve({"text": "Seen."}), *FREE)
    (tmux.machine.workspace / "made_later.py").touch()

    def is_completed() -> bool:
        tmux.keys("C-u")
        tmux.type("@made_l")
        try:
            tmux.until(lambda _: "  made_later.py" in tmux.screen(), timeout_s=1)
        except AssertionError:
            return False
        return True

    eventually(is_completed)


def test_a_long_paste_is_a_chip_and_the_model_gets_all_of_it(tmux: Tmux) -> None:
    tmux.open("chat", "--model", tmux.machine.serve({"text": "Long."}), *FREE)
    tmux.paste("\n".join(f"line {number}" for number in range(5000)))
    tmux.until("[paste 1: 5,000 lines]")
    tmux.keys("Enter")
    tmux.until("■ done")
    assert b"line 4999" in tmux.machine.seen[-1].body


def set_clipboard(tmux: Tmux, script: str) -> None:
    """A stand-in for the program that reads the clipboard."""
    programs = tmux.machine.home.parent / "bin"
    programs.mkdir()
    paste = programs / "wl-paste"
    paste.write_text(f"#!/bin/sh\n{script}\n")
    paste.chmod(paste.stat().st_mode | stat.S_IXUSR)
    tmux.type(f"export PATH='{programs}':$PATH", "Enter")


def test_images_come_by_path_and_from_the_clipboard(tmux: Tmux) -> None:
    (tmux.machine.workspace / "pic.png").write_bytes(PNG)
    set_clipboard(tmux, f"cat '{tmux.machine.workspace}/pic.png'")
    tmux.open("chat", "--model", tmux.machine.serve({"text": "A pixel."}), *FREE)
    tmux.type("compare pic.png with ")
    tmux.keys("C-v")
    tmux.until("[image 1]")
    tmux.keys("Enter")
    seen = tmux.until("■ done")
    assert "attached pic.png (image/png" in seen
    assert "attached image-1.png (image/png" in seen
    assert tmux.machine.seen[-1].body.count(b"data:image/png;base64") == 2


def test_a_clipboard_without_an_image_is_told_and_holds_nothing_up(tmux: Tmux) -> None:
    set_clipboard(tmux, f"until test -e '{tmux.machine.workspace}/go'; do sleep 0.05; done; exit 1")
    tmux.open("chat", "--model", tmux.machine.serve({"text": "A pixel."}), *FREE)
    tmux.keys("C-v")
    tmux.type("typed meanwhile")
    tmux.until("› typed meanwhile")
    (tmux.machine.workspace / "go").touch()
    tmux.until("! There is no image in the clipboard.")


def test_an_image_that_is_queued_outlives_a_chat_that_is_killed(tmux: Tmux) -> None:
    (tmux.machine.home.parent / "pic.png").write_bytes(PNG)
    set_clipboard(tmux, f"cat '{tmux.machine.home.parent}/pic.png'")
    model = tmux.machine.serve(WAITS, {"text": "Done."}, {"text": "A pixel."})
    tmux.open("chat", "--model", model, *FREE)
    tmux.type("wait", "Enter")
    tmux.until("shell until test")
    tmux.type("what is ")
    tmux.keys("C-v")
    tmux.until("what is [image 1]")
    tmux.keys("M-Enter")
    tmux.until("1 queued")
    session = tmux.machine.only_session()["id"]
    os.kill(chat_process(session), signal.SIGKILL)
    tmux.until("Killed")
    tmux.type("reset", "Enter")
    (tmux.machine.workspace / "go").touch()
    tmux.open("chat", "--resume", session)
    tmux.type("/continue", "Enter")
    seen = tmux.until("A pixel.")
    assert "attached image-1.png (image/png" in seen
    assert b"data:image/png;base64," + base64.b64encode(PNG) in tmux.machine.seen[-1].body


def test_the_editor_gives_its_text_back(tmux: Tmux) -> None:
    editor = tmux.machine.home.parent / "editor"
    editor.write_text('#!/bin/sh\necho "written in the editor" > "$1"\n')
    editor.chmod(0o755)
    tmux.type(f"export EDITOR='{editor}'", "Enter")
    tmux.open("chat", "--model", tmux.machine.serve({"text": "Read."}), *FREE)
    tmux.type("draft")
    tmux.keys("C-x", "C-e")
    tmux.until("› written in the editor")
    tmux.keys("Enter")
    tmux.until("■ done")
    assert b"written in the editor" in tmux.machine.seen[-1].body


def test_ctrl_c_in_the_editor_ends_the_editor_alone(tmux: Tmux) -> None:
    editor = tmux.machine.home.parent / "editor"
    editor.write_text("#!/bin/sh\necho the editor is open\nexec cat\n")
    editor.chmod(0o755)
    tmux.type(f"export EDITOR='{editor}'", "Enter")
    tmux.open("chat", "--model", tmux.machine.serve({"text": "Read."}), *FREE)
    tmux.type("draft")
    tmux.keys("C-x", "C-e")
    tmux.until("the editor is open")
    tmux.keys("C-c")
    tmux.until(lambda _: "› draft" in tmux.screen())
    tmux.keys("Enter")
    tmux.until("■ done")
    assert b"draft" in tmux.machine.seen[-1].body


def test_what_fits_best_comes_first_among_many() -> None:
    paths = [f"pkg{number // 100}/module_{number}.py" for number in range(50_000)]
    assert best_fits("module_4242", paths)[0] == "pkg42/module_4242.py"
    assert best_fits("pkg7mod_71", paths)[0].startswith("pkg7")
    assert best_fits("zzz", paths) == []


def test_chips_stand_for_what_they_hold() -> None:
    chips = Chips()
    assert chips.paste("short") == "short"
    chip = chips.paste("x\n" * 100)
    assert "100 lines" in chip
    assert chips.whole(f"see {chip}!") == "see " + "x\n" * 100 + "!"
    assert chips.whole("see [paste 9: 2 lines]") == "see [paste 9: 2 lines]"
    assert chips.images_in(chips.image(PNG)) == [("[image 2]", PNG)]
    line = chips.take_over("[image 2] and [image 1]", [("[image 2]", PNG), ("[image 1]", b"other")])
    assert line == "[image 2] and [image 3]"
    assert chips.images_in(line) == [("[image 2]", PNG), ("[image 3]", b"other")]
