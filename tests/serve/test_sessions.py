"""Sessions over HTTP: started and steered by the server, or watched while another process runs them."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.cli.conftest import until
from tests.daemon.test_daemon import until_true
from tests.serve.conftest import Served

LIMITS = {"mode": "yolo", "max_cost_usd": 1.0}
WAIT = "while [ ! -e go ]; do sleep 0.05; done"


def call(command: str) -> dict[str, object]:
    return {"calls": [{"name": "shell", "arguments": {"command": command}}]}


def begin(served: Served, *replies: dict[str, object], mode: str = "auto") -> str:
    model = served.machine.serve(*replies)
    body = {"text": "begin", "workspace": str(served.machine.workspace), "model": model, "mode": mode}
    return served.post("/sessions", body)["session"]


def test_a_session_is_started_watched_and_goes_on_when_something_is_said(served: Served) -> None:
    session = begin(served, {"text": "hello"}, {"text": "again"})
    seen = served.until(session, "TurnEnded")
    numbers = [event["seq"] for event in seen if event["seq"]]
    assert numbers == list(range(1, len(numbers) + 1))
    started = next(event["body"] for event in seen if event["kind"] == "SessionStarted")
    assert (started["origin"]["face"], started["origin"]["token"]) == ("web", "owner")
    served.post(f"/sessions/{session}/say", {"text": "more"})
    more = served.until(session, "TurnEnded", after=numbers[-1])
    said = [event["body"]["text"] for event in more if event["kind"] == "UserSaid"]
    assert said == ["more"]
    assert [row["id"] for row in served.get("/sessions")] == [session]
    assert served.get(f"/sessions/{session}")["state"] == "done"


def test_text_is_streamed_while_the_model_writes(served: Served) -> None:
    session = begin(served, {"text": "hello"}, {"text": "streamed text"})
    last = served.until(session, "TurnEnded")[-1]["seq"]
    events = served.stream(f"/sessions/{session}/stream", after=last - 1)
    assert next(events)["seq"] == last
    served.post(f"/sessions/{session}/say", {"text": "more"})
    texts = []
    for event in events:
        if event["kind"] == "TextDelta":
            texts.append(event["body"]["text"])
        if event["kind"] == "TurnEnded":
            break
    assert "".join(texts) == "streamed text"


def test_a_question_blocks_and_its_answer_goes_on(served: Served) -> None:
    session = begin(served, call("touch made"), {"text": "done"}, mode="ask")
    first = served.until(session, "TurnEnded")
    assert first[-1]["body"]["ending"] == "blocked"
    (asked,) = served.get("/questions")
    assert (asked["session"], asked["question"]["tool"]) == (session, "shell")
    served.post(f"/sessions/{session}/answer", {"reply": {"decision": "allow"}})
    rest = served.until(session, "TurnEnded", after=first[-1]["seq"])
    (given,) = [event["body"] for event in rest if event["kind"] == "ApprovalGiven"]
    assert given["origin"]["face"] == "web"
    assert rest[-1]["body"]["ending"] == "done"
    assert (served.machine.workspace / "made").exists()
    assert served.get("/questions") == []


def test_a_session_of_another_process_is_watched_steered_and_stopped(served: Served) -> None:
    model = served.machine.serve(call(WAIT), {"text": "done"}, call("sleep 60"))
    run = served.machine.start("run", "--json", "--model", model, "--mode", "auto", "begin")
    session = until(run, "CallStarted")[0]["body"]["session"]
    told = served.post(f"/sessions/{session}/say", {"text": "use tabs"})
    assert (told["state"], f"process {run.pid}" in told["owner"]) == ("recorded", True)
    (served.machine.workspace / "go").touch()
    seen = served.until(session, "TurnEnded")
    numbers = [event["seq"] for event in seen]
    assert numbers == list(range(1, len(numbers) + 1))
    heard = [event["body"] for event in seen if event["kind"] == "UserSaid"][1]
    assert (heard["text"], heard["origin"]["face"]) == ("use tabs", "web")
    run.communicate(timeout=60)
    assert run.returncode == 0


def test_a_running_turn_is_stopped_and_the_last_one_is_taken_back(served: Served) -> None:
    session = begin(served, call("echo x > made"), {"text": "made it"}, call("sleep 60"))
    first = served.until(session, "TurnEnded")
    served.post(f"/sessions/{session}/say", {"text": "again"})
    served.until(session, "CallStarted", after=first[-1]["seq"])
    served.post(f"/sessions/{session}/stop")
    ended = served.until(session, "TurnEnded", after=first[-1]["seq"])
    assert ended[-1]["body"]["ending"] == "interrupted"
    made = Path(served.machine.workspace / "made")
    assert made.exists()
    assert served.post(f"/sessions/{session}/back")["said"] == "again"
    assert served.post(f"/sessions/{session}/back", {"scope": "both"})["said"] == "begin"
    assert not made.exists()
    (change, *_) = served.get(f"/sessions/{session}/changes")
    assert "+x" in str(change["diffs"])


def test_a_stream_goes_on_after_a_restart_without_a_gap_or_a_double(served: Served) -> None:
    session = begin(served, {"text": "one"}, {"text": "two"})
    first = served.until(session, "TurnEnded")
    served.end()
    served.start()
    served.post(f"/sessions/{session}/say", {"text": "more"})
    rest = served.until(session, "TurnEnded", after=first[-1]["seq"])
    numbers = [event["seq"] for event in (*first, *rest) if event["seq"]]
    assert numbers == list(range(1, len(numbers) + 1))


def test_ending_the_server_ends_its_turns_on_record(served: Served) -> None:
    session = begin(served, call("sleep 60"))
    served.until(session, "CallStarted")
    served.end()
    ended = [event["body"] for event in served.machine.events(session) if event["kind"] == "TurnEnded"]
    assert [each["ending"] for each in ended] == ["interrupted"]
    served.start()


def test_a_session_that_is_just_being_closed_takes_commands(served: Served) -> None:
    machine = served.machine
    hook = {"type": "command", "command": f"touch closing; {WAIT}"}
    machine.home.mkdir(exist_ok=True)
    (machine.home / "hooks.json").write_text(json.dumps({"hooks": {"SessionEnd": [{"hooks": [hook]}]}}))
    session = begin(served, {"text": "one"})
    served.until(session, "TurnEnded")

    def go_back() -> int:
        with served.client() as client:
            return client.post(f"/api/v1/sessions/{session}/back", json={"scope": "conversation"}).status_code

    with ThreadPoolExecutor(5) as threads:
        asked = [threads.submit(go_back)]
        until_true((machine.workspace / "closing").exists)
        asked += [threads.submit(go_back) for _ in range(4)]
        served.get("/sessions")
        (machine.workspace / "go").touch()
        statuses = [each.result() for each in asked]
    assert statuses.count(200) == 1
    assert set(statuses) <= {200, 400, 409}
