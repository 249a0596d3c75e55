"""Session files of other agents as their newer versions write them."""

import msgspec
import pytest

from mainspring.engines.transcripts.lines import read_transcript
from mainspring.events import (
    AssistantSaid,
    CallAsked,
    CallEnded,
    Compacted,
    NoteAdded,
    TurnEnded,
    Undone,
    UserSaid,
)


def told(lines):
    first, *rest = (msgspec.json.encode(line) for line in lines)
    transcript = read_transcript(first, rest, first_seq=4)
    assert transcript is not None
    return transcript


def said(transcript):
    """What was said and called, in order, as short words."""
    words = []
    for _, event in transcript.events:
        match event:
            case UserSaid(text=text):
                words.append(f"user: {text}")
            case NoteAdded(text=text):
                words.append(f"note: {text}")
            case AssistantSaid():
                words.append(f"agent: {event.text}{''.join(f' {call.name}()' for call in event.calls)}")
            case CallEnded(outcome=outcome, output=output):
                words.append(f"{outcome}: {output}")
            case _:
                pass
    return words


def chain(*lines):
    """Lines of Claude Code, each the child of the one before."""
    made = []
    for number, line in enumerate(lines):
        parent = made[-1]["uuid"] if made else None
        made.append({"parentUuid": parent, "sessionId": "s", "uuid": f"u{number}", "cwd": "/repo", **line})
    return made


def user(content, **more):
    return {"type": "user", "message": {"role": "user", "content": content}, **more}


def agent(reply, *blocks, **more):
    return {
        "type": "assistant",
        "message": {"id": reply, "model": "claude-x", "content": list(blocks)},
        **more,
    }


def text(words):
    return {"type": "text", "text": words}


def use(call, name="Bash"):
    return {"type": "tool_use", "id": call, "name": name, "input": {}}


def result(call, output):
    return user([{"type": "tool_result", "tool_use_id": call, "content": output}])


def test_lines_that_say_nothing_are_links_of_the_branch():
    lines = chain(
        user("Fix it"),
        {"type": "attachment", "attachment": {"type": "skill_listing", "content": "x"}},
        agent("m1", use("t1")),
        {"type": "progress", "data": {"type": "hook_progress"}, "message": "not a message"},
        {"type": "system", "subtype": "turn_duration", "durationMs": 3},
        result("t1", "a.py"),
        agent("m2", text("Fixed.")),
    )
    transcript = told(lines)
    assert said(transcript) == ["user: Fix it", "agent:  Bash()", "ok: a.py", "agent: Fixed."]
    assert transcript.left_out == 0


def test_a_reply_whose_lines_stand_between_results_is_one_reply_with_all_its_results():
    first, call, one, other = chain(
        user("Go"), agent("m1", use("t1")), agent("m1", use("t2")), agent("m1", use("t3"))
    )
    results = [
        {**result(name, output), "uuid": f"r{name}", "parentUuid": parent, "sessionId": "s"}
        for name, output, parent in (("t1", "1", "u1"), ("t2", "2", "u2"), ("t3", "3", "u3"))
    ]
    lines = [first, call, one, results[0], other, results[1], results[2]]
    assert said(told(lines)) == ["user: Go", "agent:  Bash() Bash() Bash()", "ok: 1", "ok: 2", "ok: 3"]


def test_what_the_user_said_while_the_agent_worked_is_told():
    queued = {"type": "queued_command", "commandMode": "prompt", "prompt": "and the docs"}
    notice = {"type": "queued_command", "commandMode": "task-notification", "prompt": "<task-notification>"}
    lines = chain(
        user("Fix it"),
        agent("m1", use("t1")),
        result("t1", "a.py"),
        {"type": "attachment", "attachment": queued},
        {"type": "attachment", "attachment": notice},
        agent("m2", text("Both done.")),
    )
    assert said(told(lines))[-2:] == ["user: and the docs", "agent: Both done."]


def test_what_claude_code_said_itself_is_neither_a_reply_nor_a_message():
    failed = agent("x", text("API Error: 529"), isApiErrorMessage=True)
    failed["message"]["model"] = "<synthetic>"
    silent = agent("y", text("No response requested."))
    silent["message"]["model"] = "<synthetic>"
    lines = chain(
        user("<local-command-stdout>Set model to opus</local-command-stdout>"),
        user("Fix it"),
        failed,
        user("<bash-input>ls</bash-input>"),
        user("Again"),
        agent("m1", use("t1")),
        user([text("[Request interrupted by user for tool use]")]),
        silent,
    )
    transcript = told(lines)
    assert transcript.model == "claude-x"
    assert said(transcript)[:4] == [
        "user: Fix it",
        "note: <bash-input>ls</bash-input>",
        "user: Again",
        "agent:  Bash()",
    ]
    endings = [event.ending for _, event in transcript.events if isinstance(event, TurnEnded)]
    assert endings == ["done", "interrupted"]


def test_what_a_compaction_preserved_still_counts_beside_its_summary():
    lines = chain(
        user("First"),
        agent("m1", text("One.")),
        user("Second"),
        agent("m2", text("Two.")),
        {"type": "system", "subtype": "compact_boundary", "parentUuid": None, "logicalParentUuid": "u3",
         "compactMetadata": {"trigger": "auto", "preservedSegment": {"headUuid": "u2", "anchorUuid": "u5", "tailUuid": "u3"}}},
        user("The summary", isCompactSummary=True),
        user("Third"),
    )  # fmt: skip
    transcript = told(lines)
    (compacted,) = [event for _, event in transcript.events if isinstance(event, Compacted)]
    kept = transcript.events[compacted.keep_from_seq - 4][1]
    assert isinstance(kept, UserSaid | TurnEnded)
    assert "user: Second" in said(transcript)
    after = [
        event.text
        for _, event in transcript.events[compacted.keep_from_seq - 4 :]
        if isinstance(event, UserSaid)
    ]
    assert after == ["Second", "Third"]


def test_the_file_of_a_sub_agent_is_a_session_too():
    lines = chain(user("Look around", isSidechain=True), agent("m1", text("Seen."), isSidechain=True))
    assert said(told(lines)) == ["user: Look around", "agent: Seen."]


META = {
    "timestamp": "2026-01-01T00:00:00Z",
    "type": "session_meta",
    "payload": {"id": "0199", "cwd": "/repo"},
}


def line(payload, kind="response_item"):
    return {"timestamp": "2026-01-01T00:00:01Z", "type": kind, "payload": payload}


def message(role, *words):
    kind = "input_text" if role == "user" else "output_text"
    return line(raw(role, kind, words))


def raw(role, kind, words):
    return {"type": "message", "role": role, "content": [{"type": kind, "text": word} for word in words]}


def called(output):
    call = {"type": "function_call", "name": "exec_command", "arguments": "{}", "call_id": "c1"}
    return [
        META,
        message("user", "Go"),
        line(call),
        line({"type": "function_call_output", "call_id": "c1", "output": output}),
    ]


@pytest.mark.parametrize(
    ("output", "outcome"),
    [
        ("Exit code: 2\nWall time: 0.1 seconds\nOutput:\nboom", "error"),
        ("Exit code: 0\nWall time: 0.1 seconds\nOutput:\nExit code: 2\n", "ok"),
        ("Chunk ID: 04b0cc\nWall time: 0.1 seconds\nProcess exited with code 1\nOutput:\nboom", "error"),
        ("Wall time: 0.1 seconds\nProcess running with session ID 7\nOutput:\n", "ok"),
        ("a file that says\nProcess exited with code 1\n", "ok"),
        ({"content": "boom", "success": False}, "error"),
        ([{"type": "input_text", "text": "boom"}], "ok"),
        ('{"output":"boom","metadata":{"exit_code":1}}', "error"),
    ],
)
def test_codex_says_in_several_ways_that_a_command_failed(output, outcome):
    (ended,) = [event for _, event in told(called(output)).events if isinstance(event, CallEnded)]
    assert ended.outcome == outcome
    assert "{" not in ended.output


def test_what_codex_wrote_beside_the_user_is_left_out_and_the_users_words_stay():
    context = (
        "# AGENTS.md instructions for /repo\n\n<INSTRUCTIONS>\nx\n</INSTRUCTIONS>",
        "<environment_context>",
    )
    lines = [
        META,
        message("user", *context, "Fix it"),
        message("user", "<skill>\nbody\n</skill>"),
        message("user", "<user_shell_command>\nls\n</user_shell_command>"),
        message("user", "<turn_aborted>\nx\n</turn_aborted>"),
    ]
    assert said(told(lines)) == ["user: Fix it", "note: <user_shell_command>\nls\n</user_shell_command>"]


def test_turns_that_were_taken_back_in_codex_no_longer_count_and_stay_on_record():
    back = line({"type": "thread_rolled_back", "num_turns": 2}, "event_msg")
    turns = [message(role, words) for words in ("1", "2", "3") for role in ("user", "assistant")]
    transcript = told([META, *turns, back, message("user", "4")])
    (undone,) = [event for _, event in transcript.events if isinstance(event, Undone)]
    first_gone = transcript.events[undone.to_seq + 1 - 4][1]
    assert isinstance(first_gone, UserSaid)
    assert first_gone.text == "2"
    assert "user: 3" in said(transcript)


def test_a_compaction_of_codex_keeps_what_it_went_on_with():
    turns = [META, message("user", "Fix it"), message("assistant", "Done.")]
    history = [
        raw("user", "input_text", ["<environment_context>"]),
        raw("user", "input_text", ["Fix it"]),
        raw("user", "input_text", ["the summary"]),
    ]
    sealed = {"type": "compaction", "encrypted_content": "xyz"}
    for payload, summary in (
        ({"message": "the summary"}, "Fix it\n\nthe summary"),
        ({"message": "the summary", "replacement_history": history}, "Fix it\n\nthe summary"),
        ({"message": "", "replacement_history": history}, "Fix it\n\nthe summary"),
        ({"message": "", "replacement_history": [history[1], sealed]}, None),
    ):
        events = [event for _, event in told([*turns, line(payload, "compacted")]).events]
        assert [event.summary for event in events if isinstance(event, Compacted)] == (
            [summary] if summary else []
        )


def test_an_aborted_turn_of_codex_was_interrupted():
    aborted = line({"type": "turn_aborted", "reason": "interrupted"}, "event_msg")
    transcript = told([META, message("user", "Go"), aborted, message("user", "Again")])
    endings = [event.ending for _, event in transcript.events if isinstance(event, TurnEnded)]
    assert endings == ["interrupted", "done"]


def test_reasoning_without_a_summary_is_told_by_its_text():
    thought = {"type": "reasoning", "summary": [], "content": [{"type": "reasoning_text", "text": "hm"}]}
    transcript = told([META, message("user", "Go"), line(thought), message("assistant", "Yes.")])
    (reply,) = [event for _, event in transcript.events if isinstance(event, AssistantSaid)]
    assert [part.text for part in reply.parts if not isinstance(part, CallAsked)] == ["hm", "Yes."]
