"""Sessions as documents, and session files of other agents as sessions."""

import json
import re
from html.parser import HTMLParser
from pathlib import Path

import msgspec
import pytest

from mainspring.documents import html, markdown
from mainspring.documents.transcript import transcript
from mainspring.events import (
    AssistantSaid,
    Blob,
    CallAsked,
    CallEnded,
    Compacted,
    FileChange,
    FilesChanged,
    FileState,
    Media,
    NoteAdded,
    Recorded,
    SessionStarted,
    Text,
    Thinking,
    TurnEnded,
    Undone,
    UserSaid,
)
from tests.workspace.sessions import World, say, shell

EXPORTS = Path(__file__).parent / "exports"
BLOBS = {"a" * 64: b"one\ntwo\n", "b" * 64: b"one\n2\n", "c" * 64: b"\x00\x01"}
FACTS = {"session": "golden", "workspace": "/repo", "model": "scripted <b>"}
EVIL = "</pre><script>alert(1)</script> & \x1b[31mred ```` fence\n# not a heading"


def state(letter, size=8):
    return FileState(mode=0o644, size=size, blob=Blob(sha256=letter * 64, size=size))


EVENTS = [
    SessionStarted(session="golden", workspace="/repo", version="0.1.0"),
    UserSaid(text=f"Fix it.\n{EVIL}"),
    AssistantSaid(
        step=1,
        parts=(
            Thinking(text="Let me look."),
            Text(text="I *look* <b>first</b>."),
            CallAsked(call="c1", name="shell", arguments='{"command":"cat a.txt"}'),
        ),
        stop="calls",
    ),
    CallEnded(call="c1", outcome="error", output=EVIL, exit_code=1),
    FilesChanged(
        calls=("c1",),
        changes=(
            FileChange(path="a.txt", kind="modified", before=state("a"), after=state("b")),
            FileChange(path="b.bin", kind="created", after=state("c", 2)),
            FileChange(path="<i>", kind="deleted", before=FileState(kind="folder", mode=0o755)),
        ),
        not_covered=("node_modules (a folder of dependencies or a cache)",),
    ),
    NoteAdded(text="mind <the> tests"),
    AssistantSaid(step=2, parts=(Text(text="Done."),)),
    TurnEnded(turn=1, ending="done", steps=2),
]


def as_markdown(events, facts, get):
    return markdown.as_markdown(transcript(events, facts, get))


def as_html(events, facts, get):
    return html.as_html("Session golden", transcript(events, facts, get))


def recorded():
    return [Recorded(seq, 1_700_000_000_000_000 + seq, event) for seq, event in enumerate(EVENTS, 1)]


@pytest.mark.parametrize(("write", "name"), [(as_markdown, "session.md"), (as_html, "session.html")])
def test_a_document_is_the_golden_one(write, name):
    written = "".join(write(recorded(), FACTS, lambda blob: BLOBS[blob.sha256]))
    golden = EXPORTS / name
    if not golden.exists():
        golden.write_text(written)
        pytest.fail(f"{name} was written; look at it and commit it")
    assert written == golden.read_text()


class Tags(HTMLParser):
    def __init__(self):
        super().__init__()
        self.seen = set()

    def handle_starttag(self, tag, attrs):
        self.seen.add(tag)


def test_html_needs_nothing_else_and_runs_nothing():
    written = "".join(as_html(recorded(), FACTS, lambda blob: BLOBS[blob.sha256]))
    tags = Tags()
    tags.feed(written)
    assert not tags.seen & {"script", "b", "i", "link", "iframe"}
    assert "default-src 'none'" in written
    assert "\x1b" not in written
    assert not re.search(r'(src|href)="(?!data:)', written)


def test_markdown_cannot_be_broken_out_of():
    written = "".join(as_markdown(recorded(), FACTS, lambda blob: BLOBS[blob.sha256]))
    headings = [line for line in written.splitlines() if line.startswith("#")]
    assert set(headings) <= {"# Session golden", "## User", "## Assistant", "# not a heading"}
    assert "`````" in written


def test_code_in_a_reply_stays_as_it_was_and_tags_outside_of_it_are_text():
    text = "<b>\n```c\n#include <x>\n```\n<i>\n~~~\n<unclosed>"
    events = [Recorded(1, 0, AssistantSaid(step=1, parts=(Text(text=text),)))]
    written = "".join(as_markdown(events, {}, lambda _: b"")).splitlines()
    assert [line for line in written if line.startswith(">")] == [
        *("> &lt;b>", "> ```c", "> #include <x>", "> ```", "> &lt;i>", "> ~~~", "> <unclosed>", "> ~~~")
    ]


def test_the_command_writes_every_format(tmp_path):
    world = World(tmp_path, shell("echo one > a.txt"), say("done"))
    world.turn("go")
    for form, start in (("markdown", "# Session"), ("html", "<!doctype html>")):
        to = tmp_path / f"out.{form}"
        world.command("export", world.session, "--format", form, "-o", str(to))
        assert to.read_text().startswith(start)
        assert "a.txt" in to.read_text()
    header = json.loads(world.command("export", world.session).splitlines()[0])
    assert {"mainspring", "python", "system"} <= header["environment"].keys()


CLAUDE = [
    {"type": "summary", "summary": "A title", "leafUuid": "u9"},
    {"type": "file-history-snapshot", "messageId": "m", "snapshot": {}},
    {"type": "user", "uuid": "u1", "parentUuid": None, "sessionId": "s-1", "cwd": "/repo", "isSidechain": False,
     "timestamp": "2025-05-26T07:27:40.079Z", "message": {"role": "user", "content": "Fix the test"}},
    {"type": "user", "uuid": "m1", "parentUuid": "u1", "isMeta": True, "message": {"role": "user", "content": "caveat"}},
    {"type": "assistant", "uuid": "a1", "parentUuid": "m1", "timestamp": "2025-05-26T07:27:45.000Z",
     "message": {"id": "msg_1", "model": "claude-x", "content": [{"type": "thinking", "thinking": "hm", "signature": "s"}]}},
    {"type": "assistant", "uuid": "a2", "parentUuid": "a1",
     "message": {"id": "msg_1", "content": [{"type": "text", "text": "I look."}]}},
    {"type": "assistant", "uuid": "a3", "parentUuid": "a2",
     "message": {"id": "msg_1", "content": [{"type": "tool_use", "id": "t1", "name": "Bash", "input": {"command": "ls"}}]}},
    {"type": "assistant", "uuid": "a4", "parentUuid": "a3",
     "message": {"id": "msg_1", "content": [{"type": "tool_use", "id": "t2", "name": "Read", "input": {}}]}},
    {"type": "user", "uuid": "r1", "parentUuid": "a3",
     "message": {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "content": "a.py"}]}},
    {"type": "user", "uuid": "r2", "parentUuid": "a4", "message": {"role": "user", "content": [
        {"type": "tool_result", "tool_use_id": "t2", "is_error": True, "content": [{"type": "text", "text": "no file"}]}]}},
    {"type": "user", "uuid": "x1", "parentUuid": "r2", "message": {"role": "user", "content": "an abandoned branch"}},
    {"type": "assistant", "uuid": "side", "parentUuid": "x", "isSidechain": True,
     "message": {"id": "msg_s", "content": [{"type": "text", "text": "a sub-agent"}]}},
    {"type": "assistant", "uuid": "a5", "parentUuid": "r2",
     "message": {"id": "msg_2", "content": [{"type": "text", "text": "Fixed."}]}},
]  # fmt: skip

CODEX = [
    {"timestamp": "2025-10-29T00:59:38.317Z", "type": "session_meta",
     "payload": {"id": "0199", "cwd": "/repo", "cli_version": "0.46.0", "instructions": None}},
    {"timestamp": "2025-10-29T00:59:38.318Z", "type": "response_item", "payload": {"type": "message", "role": "user",
     "content": [{"type": "input_text", "text": "<environment_context>x</environment_context>"}]}},
    {"timestamp": "2025-10-29T00:59:38.319Z", "type": "response_item", "payload": {"type": "message", "role": "user",
     "content": [{"type": "input_text", "text": "Fix the test"}]}},
    {"timestamp": "2025-10-29T00:59:38.319Z", "type": "event_msg", "payload": {"type": "user_message", "message": "Fix the test"}},
    {"timestamp": "2025-10-29T00:59:38.320Z", "type": "turn_context", "payload": {"cwd": "/repo", "model": "gpt-x"}},
    {"timestamp": "2025-10-29T00:59:39.000Z", "type": "response_item", "payload": {"type": "reasoning",
     "summary": [{"type": "summary_text", "text": "hm"}], "encrypted_content": "xyz"}},
    {"timestamp": "2025-10-29T00:59:39.100Z", "type": "response_item", "payload": {"type": "message", "role": "assistant",
     "content": [{"type": "output_text", "text": "I look."}]}},
    {"timestamp": "2025-10-29T00:59:39.200Z", "type": "response_item", "payload": {"type": "function_call",
     "name": "Bash", "arguments": '{"command":"ls"}', "call_id": "t1"}},
    {"timestamp": "2025-10-29T00:59:39.300Z", "type": "response_item", "payload": {"type": "custom_tool_call",
     "name": "Read", "input": "a", "call_id": "t2"}},
    {"timestamp": "2025-10-29T00:59:40.000Z", "type": "response_item", "payload": {"type": "function_call_output",
     "call_id": "t1", "output": "a.py"}},
    {"timestamp": "2025-10-29T00:59:40.100Z", "type": "response_item", "payload": {"type": "custom_tool_call_output",
     "call_id": "t2", "output": '{"output":"no file","metadata":{"exit_code":1,"duration_seconds":0.1}}'}},
    {"timestamp": "2025-10-29T00:59:41.000Z", "type": "response_item", "payload": {"type": "message", "role": "assistant",
     "content": [{"type": "output_text", "text": "Fixed."}]}},
]  # fmt: skip
OLD_CODEX = [
    {"id": "0042", "timestamp": "2025-06-01T00:00:00Z", "instructions": "x"},
    {"record_type": "state"},
    *({**line["payload"]} for line in CODEX if line["type"] == "response_item"),
]
FORMATS = {"claude": CLAUDE, "codex": CODEX, "old codex": OLD_CODEX}


def write(path, lines):
    path.write_bytes(b"".join(msgspec.json.encode(line) + b"\n" for line in lines))
    return path


@pytest.fixture
def world(tmp_path):
    return World(tmp_path, say("x"), say("x"), say("I go on from there."))


@pytest.mark.parametrize("name", FORMATS)
def test_a_session_of_another_agent_becomes_one_that_goes_on(world, tmp_path, name):
    answer = world.command("import", str(write(tmp_path / "s.jsonl", FORMATS[name])), "-C", str(world.root))
    world.session = answer.split()[-1]
    events = [item.event for item in world.journal()]
    (first, last) = [event for event in events if isinstance(event, AssistantSaid)]
    assert [type(part) for part in first.parts] == [Thinking, Text, CallAsked, CallAsked]
    assert [call.name for call in first.calls] == ["Bash", "Read"]
    ended = [event for event in events if isinstance(event, CallEnded)]
    assert [(end.outcome, end.output) for end in ended] == [("ok", "a.py"), ("error", "no file")]
    assert last.text == "Fixed."
    said = [event.text for event in events if isinstance(event, UserSaid)]
    assert said == ["Fix the test"]
    assert "sound" in world.command("verify", world.session)
    events = world.turn("Go on.")
    assert any(isinstance(event, AssistantSaid) and event.text == "I go on from there." for event in events)
    assert [message["role"] for message in world.sent()] == [
        # The fifth says how old the session is.
        *("user", "user", "assistant", "results", "assistant", "user", "user", "assistant")
    ]
    assert world.command("fork", world.session)


def test_an_imported_session_keeps_its_times_and_where_it_came_from(world, tmp_path):
    world.session = world.command("import", str(write(tmp_path / "s.jsonl", CLAUDE))).split()[-1]
    journal = world.journal()
    started = journal[0].event
    assert (started.workspace, started.parent) == ("/repo", "claude-code:s-1")
    assert journal[-1].time_us == 1748244465000000


def test_calls_without_results_are_closed_as_unknown(world, tmp_path):
    for lines in (CLAUDE[:8], CODEX[:9]):
        world.session = world.command("import", str(write(tmp_path / "s.jsonl", lines))).split()[-1]
        events = [item.event for item in world.journal()]
        ended = [event.outcome for event in events if isinstance(event, CallEnded)]
        assert ended == ["unknown", "unknown"]
        assert events[-1].ending == "interrupted"


def test_a_compaction_of_another_agent_is_one_of_ours(world, tmp_path):
    claude = [
        *CLAUDE,
        {"type": "system", "subtype": "compact_boundary", "uuid": "b", "parentUuid": None, "logicalParentUuid": "a5"},
        {"type": "user", "uuid": "c", "parentUuid": "b", "isCompactSummary": True,
         "message": {"role": "user", "content": "the summary"}},
        {"type": "user", "uuid": "n", "parentUuid": "c", "message": {"role": "user", "content": "next"}},
    ]  # fmt: skip
    codex = [
        *CODEX,
        {"timestamp": "2025-10-29T01:00:00Z", "type": "compacted", "payload": {"message": "the summary"}},
        {"timestamp": "2025-10-29T01:00:01Z", "type": "response_item",
         "payload": {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "next"}]}},
    ]  # fmt: skip
    for lines in (claude, codex):
        world.session = world.command("import", str(write(tmp_path / "s.jsonl", lines))).split()[-1]
        (compacted,) = [item for item in world.journal() if isinstance(item.event, Compacted)]
        assert compacted.event.keep_from_seq == compacted.seq + 1
        assert "Fixed." in str([item.event for item in world.journal()])
        assert [message["text"] for message in world.sent()][-1] == "next"
        assert "Fixed." not in str(world.sent())


def test_lines_that_cannot_be_read_are_left_out_and_counted(world, tmp_path):
    path = write(tmp_path / "s.jsonl", CLAUDE)
    path.write_bytes(path.read_bytes() + b"{half a li")
    answer = world.command("import", str(path))
    assert "lines left out" in answer


def test_secrets_in_an_imported_session_are_not_stored(world, tmp_path):
    key = "sk-proj-Zx9Qw7Er5Ty3Zx9Qw7Er5Ty3Zx9Qw7Er5Ty3"
    lines = json.loads(json.dumps(CLAUDE).replace("I look.", f"The key is {key}."))
    world.session = world.command("import", str(write(tmp_path / "s.jsonl", lines))).split()[-1]
    files = [path for path in world.home.rglob("*") if path.is_file() and path.name != "secrets.json"]
    assert not any(key.encode() in path.read_bytes() for path in files)
    assert (world.store.directory(world.session) / "secrets.json").exists()


def test_a_file_that_is_no_session_is_refused(world, tmp_path):
    path = tmp_path / "x"
    path.write_text('{"hello": 1}\n')
    assert "not an exported session" in world.command("import", str(path), code=1)
    path.write_text('{"type": "summary", "summary": "x", "leafUuid": "y"}\n')
    assert "has no messages" in world.command("import", str(path), code=1)
    missing = world.command("import", str(write(path, CLAUDE)), "-C", str(tmp_path / "nowhere"), code=2)
    assert "is not a folder" in missing


def test_undone_is_shown_in_a_document():
    events = [*recorded(), Recorded(99, 1_700_000_000_000_099, Undone(to_seq=1, scope="both"))]
    assert "undone: everything after event 1" in "".join(as_markdown(events, FACTS, lambda _: b""))


def test_a_picture_is_in_the_page_and_named_in_markdown():
    picture = Media(blob=Blob(sha256="c" * 64, size=2, media_type="image/gif"), name="moving.gif")
    other = Media(blob=Blob(sha256="c" * 64, size=2, media_type="text/html"), name="page.html")
    events = [Recorded(1, 0, UserSaid(text="look", media=(picture, other)))]
    page = "".join(as_html(events, FACTS, lambda blob: BLOBS[blob.sha256]))
    assert 'src="data:image/gif;base64,AAE="' in page
    assert "attached page.html (text/html, 2 bytes)" in page
    assert "data:text/html" not in page
    text = "".join(as_markdown(events, FACTS, lambda blob: BLOBS[blob.sha256]))
    assert "picture: `moving.gif`, image/gif, 2 bytes" in text
