"""Background commands through the tools: real processes, real keepers, a real session around them."""

import asyncio
import re
from pathlib import Path

import pytest

import mainspring
from mainspring.catalog.folder import SessionFiles
from mainspring.context.compaction import INSTRUCTIONS
from mainspring.events import CallEnded, NoteAdded, ProcessEnded, ProcessStarted
from mainspring.models.scripted import Script, ScriptedModel, ScriptedReply
from mainspring.sandbox import CommandResult
from mainspring.sandbox.background import Background
from mainspring.sandbox.rungs.process import PlainSandbox
from mainspring.settings import load_config
from mainspring.tools.process import TOOL as PROCESS
from mainspring.tools.shell import TOOL as SHELL
from mainspring.tools.shell import told
from tests.tools.test_in_session import answering, call, only, take_turn
from tests.tools.workshop import Workshop


@pytest.fixture
def shop(tmp_path):
    shop = Workshop(tmp_path, SHELL, PROCESS)
    yield shop
    for process in shop.processes.all:
        shop.call("process", action="stop", handle=process.handle)


def is_alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def start(shop, command, **options):
    return shop.text("shell", command=command, background=True, **options)


def journal(folder, session):
    file = SessionFiles(folder / "home").file(session)
    try:
        return [recorded.event for recorded in file.read(limit=1000)]
    finally:
        file.close()


def test_a_background_command_gives_a_handle_output_in_turn_and_its_exit_code(shop):
    said = start(shop, "echo one; read line; echo two $line; exit 3")
    assert said.startswith("Started in the background as p1 (pid ")
    assert "p1: running" in shop.text("process", action="status", handle="p1")
    shop.text("process", action="send", handle="p1", text="and more\n")
    whole = shop.call("process", action="output", handle="p1", wait_s=60)
    assert whole.text.startswith("p1: exited with code 3")
    assert whole.text.endswith("one\ntwo and more")
    assert whole.exit_code == 3
    assert shop.text("process", action="output", handle="p1").endswith("(no new output)")
    assert shop.text("process", action="output", handle="p1", since=-5).endswith("\nmore")
    assert [type(event) for event in shop.recorded] == [ProcessStarted, ProcessEnded]
    assert shop.recorded[1] == ProcessEnded(handle="p1", exit_code=3, call="c4")


def test_a_terminal_is_there_when_asked_for(shop):
    start(shop, "test -t 0 && read -p 'name? ' name </dev/tty; echo hello $name", terminal=True)
    shop.text("process", action="send", handle="p1", text="world\n")
    assert "hello world" in shop.text("process", action="output", handle="p1", wait_s=60)


def test_stop_ends_also_what_left_its_session(shop):
    start(shop, "setsid sleep 300 & echo $! > child; sleep 300")
    start(shop, "until [ -s child ]; do sleep 0.02; done")
    shop.text("process", action="status", handle="p2", wait_s=60)
    child = int(shop.path("child").read_text())
    assert is_alive(child)
    assert "exited with code 143 (stopped)" in shop.text("process", action="stop", handle="p1")
    assert not is_alive(child)
    assert "p1: exited with code 143 (stopped)" in shop.text("process", action="stop", handle="p1")
    assert len([event for event in shop.recorded if isinstance(event, ProcessEnded)]) == 2


def test_what_a_command_leaves_running_is_said_and_ended_by_stop(shop):
    start(shop, "sleep 300 & echo $! > child")
    while "p1: running" in (exited := shop.text("process", action="output", handle="p1", wait_s=0.1)):
        pass
    assert "exited with code 0; 1 process that it started still running" in exited
    shop.text("process", action="stop", handle="p1")
    assert not is_alive(int(shop.path("child").read_text()))


def test_its_input_can_be_closed(shop):
    start(shop, "exec cat")
    shop.text("process", action="send", handle="p1", text="last words", close=True)
    assert shop.text("process", action="output", handle="p1", wait_s=60).endswith("\nlast words")
    assert "Nothing was sent. p1: exited" in shop.error("process", action="send", handle="p1", text="late")


def test_long_output_comes_in_pages_and_no_character_is_broken(shop):
    start(shop, "yes äöü | head -n 5000")
    shop.text("process", action="status", handle="p1", wait_s=60)
    pages = []
    while "(no new output)" not in (page := shop.text("process", action="output", handle="p1")):
        pages.append(re.sub(r"^p1:.*\n|\n\([\d,]+ bytes follow.*$", "", page))
    assert len(pages) == 2
    assert "".join(pages).count("ä") == "".join(pages).count("ö") == "".join(pages).count("ü") == 5000
    assert "\ufffd" not in "".join(pages)


def test_time_that_is_over_is_said(shop):
    start(shop, "sleep 300", timeout_s=0.2)
    said = shop.text("process", action="status", handle="p1", wait_s=60)
    assert "(timed out after 0.2 s)" in said


@pytest.mark.parametrize(
    ("tool", "arguments", "sentence"),
    [
        (
            "process",
            {"action": "status", "handle": "p9"},
            "no background process 'p9'. Those of this session",
        ),
        ("process", {"action": "kill"}, "action"),
        ("shell", {"command": "true", "terminal": True}, "for background=true only"),
        ("shell", {"command": "true", "timeout_s": 0}, "timeout_s must be above 0"),
        ("shell", {"command": "true", "timeout_s": -1, "background": True}, "must be 0, which is no limit"),
    ],
)
def test_what_cannot_be_done_is_said(shop, tool, arguments, sentence):
    assert sentence in shop.error(tool, **arguments)
    assert shop.recorded == []


def test_the_model_is_told_what_was_left_running_and_what_was_set_aside(shop):
    said = shop.text("shell", command="sleep 300 & echo hi")
    assert "still running" in said
    assert "background=true" in said
    finished = CommandResult(exit_code=0, stdout=b"", stderr=b"", duration_s=0.1, set_aside=(".git/hooks/x",))
    assert "set aside or put back: .git/hooks/x" in told(finished)


def test_a_compaction_names_what_commands_left_running(tmp_path):
    """The model that sums up names exactly what it is told to be open."""

    def on_request(request):
        if request.system == INSTRUCTIONS:
            still_open = re.findall(r"Still open: \w+", request.messages[0].decode())
            model._script = Script(closing=ScriptedReply(text=" ".join(["Tend the processes.", *still_open])))

    steps = [
        [call("shell", command="sleep 300 & true"), call("shell", command="exec sleep 300", background=True)],
        *([call("shell", command=f"echo {number}; yes | head -c 20000")] for number in range(6)),
    ]
    replies = tuple(ScriptedReply(calls=tuple(calls)) for calls in steps)
    model = ScriptedModel(Script(replies=(*replies, ScriptedReply(text="done"))), on_request=on_request)

    async def compacted():
        config = load_config({"MAINSPRING_HOME": str(tmp_path / "home"), "PATH": "/usr/bin:/bin"})
        (tmp_path / "work").mkdir()
        opened = mainspring.open(
            tmp_path / "work",
            model=model,
            config=config,
            sandbox="none",
            mode="auto",
            approver=answering(""),
        )
        async with opened as running:
            events = [event async for event in running.run("Tend the processes.")]
            return events, await running.compact()

    events, summed_up = asyncio.run(compacted())
    left = [pid for ended in only(events, CallEnded) for pid in ended.left_running]
    assert len(left) == 1
    assert summed_up.model == model.name
    still_open = summed_up.summary.partition("Still open")[2]
    assert "p1: " in still_open
    assert f"{left[0]}: " in still_open


def test_an_end_that_nobody_saw_is_told_once_between_steps(tmp_path):
    ended = f"{tmp_path}/home/sessions/*/processes/p1/exit.json"
    wait = call("shell", command=f"until [ -e {ended} ]; do sleep 0.02; done")
    background = call("shell", command="echo hi; exit 4", background=True)
    session, events = take_turn(
        tmp_path, [background], [wait], [call("process", action="list")], approver=answering("")
    )
    assert only(events, ProcessEnded) == [ProcessEnded(handle="p1", exit_code=4)]
    (note,) = only(events, NoteAdded)
    assert "The background process p1 has ended with exit code 4." in note.text
    assert events.index(note) < events.index(only(events, CallEnded)[2])
    assert "p1: exited with code 4" in only(events, CallEnded)[2].output
    _, events = take_turn(tmp_path, [], [], [], [], text="more", session=session)
    assert not only(events, NoteAdded)


def test_processes_end_with_their_session_unless_they_are_to_stay(tmp_path):
    session, events = take_turn(
        tmp_path,
        [
            call("shell", command="setsid sleep 300 & sleep 300", background=True),
            call("shell", command="sleep 300", background=True, stay=True),
        ],
        approver=answering(""),
    )
    started = {event.is_staying: event for event in only(events, ProcessStarted)}
    ended, staying = (Background(Path(started[stays].folder)) for stays in (False, True))
    assert ended.status().state == "exited"
    assert ended.status().left_running == ()
    assert staying.status().state == "running"
    (recorded,) = only(journal(tmp_path, session), ProcessEnded)
    assert recorded.reason == "ended with its session"
    assert recorded.exit_code == 143
    _, events = take_turn(
        tmp_path,
        [],
        [],
        [call("process", action="stop", handle=started[True].handle)],
        text="more",
        session=session,
        approver=answering(""),
    )
    (note,) = only(events, NoteAdded)
    assert "ended with its session" in note.text
    assert "exited with code 143 (stopped)" in only(events, CallEnded)[0].output
    assert asyncio.run(staying.wait(0)).state == "exited"


def test_what_is_sent_is_judged_as_a_command_and_looking_is_free(tmp_path):
    asked = []

    async def approver(question):
        asked.append(question.tool)
        return await answering("")(question)

    _, events = take_turn(
        tmp_path,
        [call("shell", command="exec bash", background=True)],
        [call("process", action="status", handle="p1")],
        [call("process", action="send", handle="p1", text="echo from the shell; exit 5\n")],
        [call("process", action="output", handle="p1", wait_s=60)],
        approver=approver,
    )
    assert asked == ["shell", "process"]
    last = only(events, CallEnded)[-1]
    assert last.output.endswith("\nfrom the shell")
    assert last.exit_code == 5


@pytest.mark.parametrize("is_contained", [True, False])
def test_a_background_command_is_asked_about_where_nothing_would_be_put_back(tmp_path, is_contained):
    class Rung(PlainSandbox):
        is_containing = True
        is_containing_background = is_contained

    asked = []

    async def approver(question):
        asked.append(question.arguments)
        return await answering("")(question)

    take_turn(
        tmp_path,
        [call("shell", command="true")],
        [call("shell", command="sleep 300", background=True)],
        approver=approver,
        sandbox=Rung(environment={"PATH": "/usr/bin:/bin"}),
    )
    assert len(asked) == (0 if is_contained else 1)
