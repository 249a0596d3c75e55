"""People are told by real processes, through servers on loopback that check the documented wires."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import socketserver
import sys
import threading
import time
from email import message_from_bytes
from pathlib import Path
from typing import Any, ClassVar

import msgspec
import pytest

from mainspring.app.operations.devices import Access
from mainspring.notify.notices import SessionNotice
from mainspring.notify.outbox import Outbox
from mainspring.notify.plan import Attempt, Message
from mainspring.settings import load_config
from tests.cli.conftest import Machine, until
from tests.notify.conftest import Receiver
from tests.serve.conftest import Served

ASK = {"calls": [{"name": "shell", "arguments": {"command": "touch made"}}]}


def configure(machine: Machine, text: str) -> None:
    machine.home.mkdir(mode=0o700, exist_ok=True)
    (machine.home / "config.toml").write_text(text)


def hook(receiver: Receiver, more: str = "") -> str:
    return f'[notify.channels.hook]\ntype = "webhook"\nurl = "{receiver.url}/in"\nsecret = "${{HOOK_KEY}}"\n{more}'


def test_a_webhook_is_signed_and_told_once_that_a_run_ended(machine: Machine, receiver: Receiver) -> None:
    configure(machine, hook(receiver))
    model = machine.serve({"text": "hello"})
    assert machine.run("run", "--model", model, "begin", HOOK_KEY="a-long-secret-key").returncode == 0
    (got,) = receiver.wait(1)
    headers, body = got["headers"], got["body"]
    assert (body["kind"], body["title"]) == ("ended", "workspace has ended")
    assert machine.only_session()["id"] == body["session"]
    signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + got["raw"]
    digest = hmac.new(b"a-long-secret-key", signed, hashlib.sha256).digest()
    assert headers["webhook-signature"] == f"v1,{base64.b64encode(digest).decode()}"
    machine.serve({"text": "again"})
    assert machine.run("sessions").returncode == 0
    assert len(receiver.got) == 1


def test_a_message_that_is_not_taken_goes_out_after_the_run_and_only_once(
    machine: Machine, receiver: Receiver
) -> None:
    configure(machine, hook(receiver))
    receiver.answers = [503]
    assert (
        machine.run("run", "--model", machine.serve({"text": "x"}), "go", HOOK_KEY="k" * 20).returncode == 0
    )
    first, second = receiver.wait(2)
    assert first["headers"]["webhook-id"] == second["headers"]["webhook-id"]
    assert "hook: webhook answered 503" in machine.run("notify").stderr


def test_a_question_reaches_ntfy_slack_and_telegram_without_secrets(
    machine: Machine, receiver: Receiver
) -> None:
    configure(
        machine,
        f"""
[notify.channels.phone]
type = "ntfy"
url = "{receiver.url}/mine"
token = "tk_${{NTFY}}"
[notify.channels.team]
type = "slack"
url = "{receiver.url}/services/T/B/x"
[notify.channels.bot]
type = "telegram"
url = "{receiver.url}"
token = "1:abc"
chat = "42"
[notify.channels.quietly]
type = "slack"
url = "{receiver.url}/never"
kinds = ["budget"]
""",
    )
    secret = "sk-verysecretvalue1234567890"
    ask = {"calls": [{"name": "shell", "arguments": {"command": f"echo '<!channel> {secret}' > made"}}]}
    ran = machine.run("run", "--mode", "ask", "--model", machine.serve(ask), "go", NTFY="1", API_KEY=secret)
    assert ran.returncode == 3
    got = {each["path"]: each for each in receiver.wait(3)}
    assert got.keys() == {"/", "/services/T/B/x", "/bot1:abc/sendMessage"}
    ntfy = got["/"]
    assert (ntfy["body"]["topic"], ntfy["body"]["priority"]) == ("mine", 4)
    assert ntfy["headers"]["authorization"] == "Bearer tk_1"
    assert "&lt;!channel&gt;" in got["/services/T/B/x"]["body"]["text"]
    assert got["/bot1:abc/sendMessage"]["body"]["chat_id"] == "42"
    for each in got.values():
        assert secret not in each["raw"].decode()
        assert "needs an answer" in each["raw"].decode()
        assert len(each["raw"]) < 8000


def test_a_desktop_is_told_with_markup_escaped_and_only_when_it_is_named(
    machine: Machine, receiver: Receiver, tmp_path: Path
) -> None:
    configure(machine, '[notify.channels.desk]\ntype = "desktop"\nalways = false\n')
    programs = tmp_path / "bin"
    programs.mkdir()
    told = tmp_path / "told"
    stand_in = programs / "notify-send"
    stand_in.write_text(
        f"#!{sys.executable}\nimport json,sys\nopen({str(told)!r},'w').write(json.dumps(sys.argv[1:]))\n"
    )
    stand_in.chmod(0o755)
    path = f"{programs}:{machine.environment()['PATH']}"
    model = machine.serve({"text": "x"}, {"text": "y"})
    assert machine.run("run", "--model", model, "go", PATH=path).returncode == 0
    assert not told.exists()
    assert machine.run("run", "--notify", "desk", "--model", model, "go", PATH=path).returncode == 0
    *options, title, body = json.loads(told.read_text())
    assert options == ["--app-name=mainspring", "--urgency=normal", "--"]
    assert title == "workspace has ended"
    assert "done" in body


class Smtp(socketserver.StreamRequestHandler):
    got: ClassVar[list[bytes]] = []

    def handle(self) -> None:
        self.wfile.write(b"220 here\r\n")
        while line := self.rfile.readline():
            word = line[:4].upper()
            if word == b"DATA":
                self.wfile.write(b"354 go on\r\n")
                lines = list(iter(self.rfile.readline, b".\r\n"))
                Smtp.got.append(b"".join(lines))
            self.wfile.write(b"221 bye\r\n" if word == b"QUIT" else b"250 ok\r\n")
            if word == b"QUIT":
                return


def test_mail_is_sent_and_a_channel_can_be_tried(machine: Machine) -> None:
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Smtp) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        port = server.server_address[1]
        configure(
            machine,
            f'[notify.channels.mail]\ntype = "email"\nhost = "127.0.0.1:{port}"\ntls = "none"\n'
            'to = ["me@example.org"]\n[notify.channels.broken]\ntype = "webhook"\n',
        )
        assert machine.run("notify", "test", "mail").returncode == 0
        server.shutdown()
    mail = message_from_bytes(Smtp.got[-1])
    assert (mail["To"], mail["Subject"]) == ("me@example.org", "mainspring works")
    for name, said in (("broken", "needs url"), ("none", "There is no channel 'none'")):
        ran = machine.run("notify", "test", name)
        assert (ran.returncode != 0, said in ran.stderr) == (True, True)


def test_the_tool_is_given_only_by_configuration_and_tells_what_the_agent_says(
    machine: Machine, receiver: Receiver
) -> None:
    say = {"calls": [{"name": "notify", "arguments": {"text": "the data is here"}}]}
    configure(machine, hook(receiver, '[notify]\ntool = true\nkinds = ["message"]\n'))
    model = machine.serve(say, {"text": "done"})
    yolo = ("--mode", "yolo", "--max-cost-usd", "1", "--allow-unpriced")
    ran = machine.run("run", *yolo, "--model", model, "go", HOOK_KEY="k" * 20)
    assert ran.returncode == 0
    (got,) = receiver.wait(1)
    assert (got["body"]["kind"], got["body"]["text"]) == ("message", "the data is here")
    tools = _tool_names(machine)
    assert "notify" in tools
    configure(machine, hook(receiver))
    machine.run("run", "--model", machine.serve({"text": "x"}), "go", HOOK_KEY="k" * 20)
    assert "notify" not in _tool_names(machine)


def _tool_names(machine: Machine) -> set[str]:
    request: dict[str, Any] = json.loads(machine.seen[0].body)
    return {each["function"]["name"] for each in request["tools"]}


def test_a_link_answers_one_question_once_and_previews_of_it_change_nothing(served: Served) -> None:
    model = served.machine.serve(ASK, {"text": "done"})
    body = {"text": "begin", "workspace": str(served.machine.workspace), "model": model, "mode": "ask"}
    session = served.post("/sessions", body)["session"]
    first = served.until(session, "TurnEnded")
    (asked,) = served.get("/questions")
    access = Access(load_config(served.machine.environment()))
    assert access.address == served.address
    code = access.link(session, asked["question"]["call"])
    with served.client("") as anybody:
        for path in ("/answer", "/answer/answer.js", "/answer/answer.css"):
            assert anybody.get(path).status_code == 200
        shown = anybody.post("/api/v1/link", json={"code": code})
        assert "touch made" in shown.json()["text"]
        assert anybody.post("/api/v1/link", json={"code": "guessed"}).status_code == 401
        given = {"code": code, "decision": "allow"}
        assert [anybody.post("/api/v1/link/answer", json=given).status_code for _ in range(2)] == [200, 401]
        assert anybody.get("/api/v1/questions").status_code == 401
    rest = served.until(session, "TurnEnded", after=first[-1]["seq"])
    (answer,) = [event["body"] for event in rest if event["kind"] == "ApprovalGiven"]
    assert answer["origin"]["device"] == "a link"
    assert (served.machine.workspace / "made").exists()


def test_a_server_tells_with_a_link_and_not_what_its_page_shows(served: Served, receiver: Receiver) -> None:
    served.end()
    assert Access(load_config(served.machine.environment())).address == ""
    configure(served.machine, hook(receiver).replace("${HOOK_KEY}", "key"))
    served.start()
    model = served.machine.serve(ASK, {"text": "two"})
    body = {"text": "begin", "workspace": str(served.machine.workspace), "model": model, "mode": "ask"}
    session = served.post("/sessions", body)["session"]
    (told,) = receiver.wait(1)
    assert told["body"]["session"] == session
    address, _, code = told["body"]["link"].partition("#")
    assert (address, bool(code)) == (f"{served.address}/answer", True)
    outbox = Outbox(served.machine.home)
    assert outbox.shown_us(session) == 0
    rows = served.stream(f"/sessions/{session}/stream", view="1")
    next(rows)
    served.post(f"/sessions/{session}/answer", {"reply": {"decision": "allow"}})
    assert any("two" in str(row) for row in rows)
    assert outbox.shown_us(session) > 0


GOAL = ("goal", "start", "Make a file that is called done", "--mode", "auto", "--max-iterations", "2")


def test_the_ends_of_goals_are_told_to_whom_a_person_named_also_by_the_daemon(
    machine: Machine, receiver: Receiver
) -> None:
    """A goal in the background is worked on by another process, which was named nobody."""
    configure(machine, hook(receiver, "always = false\n").replace("${HOOK_KEY}", "key"))
    (machine.workspace / "work.sh").write_text("touch done; echo '<promise>DONE</promise>'\n")
    unknown = machine.run(*GOAL, "--notify", "hok", "--engine", "exec:sh work.sh")
    assert (unknown.returncode, "There is no channel 'hok'" in unknown.stderr) == (2, True)
    begun = machine.run(*GOAL, "--notify", "hook", "--engine", "exec:sh work.sh", "--background")
    try:
        assert begun.returncode == 0, begun.stderr
        (got,) = receiver.wait(1)
        assert (got["body"]["kind"], got["body"]["session"]) == ("ended", begun.stdout.strip())
    finally:
        machine.run("daemon", "stop")


@pytest.mark.parametrize(
    ("script", "kind"),
    [("exit 1", "failed"), ("echo x > done; echo '<promise>DONE</promise>'", "ended"), ("true", "failed")],
    ids=["fails", "is done", "uses up its iterations"],
)
def test_each_end_of_a_goal_has_its_kind(
    machine: Machine, receiver: Receiver, script: str, kind: str
) -> None:
    configure(machine, hook(receiver).replace("${HOOK_KEY}", "key"))
    (machine.workspace / "work.sh").write_text(f"{script}\n")
    machine.run(*GOAL, "--max-failures", "1", "--file", "done", "--engine", "exec:sh work.sh")
    (got,) = receiver.wait(1)
    assert got["body"]["kind"] == kind


def test_a_goal_that_a_person_stopped_tells_nobody(machine: Machine, receiver: Receiver) -> None:
    configure(machine, hook(receiver).replace("${HOOK_KEY}", "key"))
    (machine.workspace / "work.sh").write_text("touch begun; sleep 60\n")
    running = machine.start(*GOAL, "--engine", "exec:sh work.sh", "--json")
    try:
        session = until(running, "IterationStarted")[0]["body"]["session"]
        assert machine.run("goal", "stop", session).returncode == 0
        running.communicate(timeout=60)
    finally:
        running.kill()
    assert receiver.got == []


def test_four_fifths_of_a_budget_are_told_once(machine: Machine, receiver: Receiver) -> None:
    configure(machine, hook(receiver).replace("${HOOK_KEY}", "key"))
    replies = [
        {"calls": [{"name": "shell", "arguments": {"command": f"echo {n}"}}], "usage": {"input_tokens": 2000}}
        for n in range(9)
    ]
    ran = machine.run(
        *("run", "--mode", "auto", "--max-tokens", "20000", "--model", machine.serve(*replies), "go")
    )
    kinds = [each["body"]["kind"] for each in receiver.wait(2)]
    assert (sorted(kinds), ran.returncode) == (["budget", "failed"], 4)
    assert "80" in next(each["body"]["text"] for each in receiver.got if each["body"]["kind"] == "budget")


def test_the_daemon_tells_what_was_left_by_processes_that_were_killed(
    machine: Machine, receiver: Receiver
) -> None:
    """After a reboot nobody opens the session: what waits to be sent goes out, and that it was killed."""
    configure(machine, hook(receiver).replace("${HOOK_KEY}", "key"))
    wait = {"calls": [{"name": "shell", "arguments": {"command": "sleep 60"}}]}
    run = machine.start("run", "--json", "--mode", "auto", "--model", machine.serve(wait), "go")
    try:
        session = until(run, "CallStarted")[0]["body"]["session"]
    finally:
        run.kill()
        run.communicate()
    outbox = Outbox(machine.home)
    notice = SessionNotice(kind="message", seq=1, at_us=time.time_ns() // 1000, text="left behind")
    message = Message(
        id="m-1", kind="message", due_us=1, items=(notice,), channels={"hook": Attempt(claimed_us=1)}
    )
    outbox.change("other", lambda state: msgspec.structs.replace(state, messages=(message,)))
    assert machine.run("daemon", "start").returncode == 0
    try:
        got = {(each["body"]["session"], each["body"]["kind"]) for each in receiver.wait(2)}
    finally:
        machine.run("daemon", "stop")
    assert got == {("other", "message"), (session, "failed")}
    machine.run("daemon", "run", "--once")
    assert len(receiver.got) == 2
