"""One test for each line of the protocol's own test kit (agentclientprotocol/acp-tck, version 1 of the protocol).

`line` binds a test to its lines. All that are mandatory, all of the capabilities that we have, and all that are
advice stand here; a line is missing only where we do not say that we can do it: audio (ACP-PROMPTCAP-002), further
folders (ACP-ADDDIRS-001), logging in and out (ACP-AUTH-003, -004). What the kit only reports (ACP-INFO-*,
ACP-STDERR-001) is in `test_acp_input.py`.

Messages are checked with the schema that npm's `@agentclientprotocol/sdk` brings (`make node-tools`).
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest
from jsonschema import Draft202012Validator

from tests.cli.conftest import Machine
from tests.npm import MODULES, needs
from tests.protocols.test_acp import PNG, call
from tests.protocols.wire import HELLO, AcpWire, Message

SCHEMA = MODULES / "@agentclientprotocol/sdk/schema/schema.json"
needs_schema = needs(SCHEMA)
STOP_REASONS = {"end_turn", "max_tokens", "max_turn_requests", "refusal", "cancelled"}
HISTORY = {"user_message_chunk", "agent_message_chunk", "agent_thought_chunk"}
MANDATORY = {
    *("ACP-TRANSPORT-001", "ACP-TRANSPORT-002", "ACP-JSONRPC-001", "ACP-JSONRPC-002", "ACP-JSONRPC-003"),
    *("ACP-INIT-001", "ACP-INIT-002", "ACP-INIT-003", "ACP-SCHEMA-001", "ACP-SESSION-001", "ACP-SESSION-002"),
    *("ACP-PROMPT-001", "ACP-PROMPT-002", "ACP-CANCEL-001", "ACP-CANCEL-002", "ACP-CONFIG-003"),
    *("ACP-AUTH-002", "ACP-CLIENTCAP-001", "ACP-CLIENTCAP-002", "ACP-CLIENTCAP-003", "ACP-EXT-001"),
}
CAPABILITY = {
    *("ACP-LOAD-001", "ACP-LOAD-002", "ACP-RESUME-001", "ACP-RESUME-002", "ACP-LIST-001", "ACP-LIST-002"),
    *("ACP-DELETE-001", "ACP-CLOSE-001", "ACP-CLOSE-002", "ACP-MODES-001", "ACP-MODES-002"),
    *("ACP-CONFIG-001", "ACP-CONFIG-002", "ACP-PROMPTCAP-001", "ACP-PROMPTCAP-003"),
}
ADVISORY = {
    *("ACP-JSONRPC-004", "ACP-JSONRPC-005", "ACP-INIT-004", "ACP-PROMPT-003", "ACP-LOAD-003"),
    *("ACP-DELETE-002", "ACP-AUTH-001", "ACP-AUTH-005", "ACP-META-001", "ACP-ERROR-001"),
    *("ACP-SHUTDOWN-001", "ACP-SCHEMA-002"),
}
TESTED: dict[str, str] = {}
LONG = {"contains": "take long", "replies": [call("shell", command="echo it has begun to run; sleep 1000")]}
ASKING = {
    "contains": "use everything",
    "replies": [
        call("shell", command="echo one"),
        call("write", path="made.txt", content="x\n"),
        call("ask", question="Which?", choices=["red", "blue"]),
        {"text": "done"},
    ],
}
Test = TypeVar("Test", bound=Callable[..., None])


def line(*names: str) -> Callable[[Test], Test]:
    """Binds a test to lines of the kit."""

    def bind(test: Test) -> Test:
        TESTED.update(dict.fromkeys(names, test.__name__))
        return test

    return bind


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    machine = Machine(tmp_path_factory.mktemp("kit"))
    machine.serve(*[{"text": "Grüße."}] * 20, cases=[LONG, ASKING])
    yield machine
    for server in machine.servers:
        server.__exit__(None, None, None)


@pytest.fixture(scope="module")
def wire(place: Machine) -> Iterator[AcpWire]:
    """One agent for all tests that do not end it."""
    with begun(place) as begun_wire:
        yield begun_wire


def begun(place: Machine) -> AcpWire:
    wire = AcpWire(place, "--mode", "edits", "--model", f"openai-compatible@{place.servers[0].url}#test")
    wire.get("initialize", HELLO)
    return wire


def is_update(message: Message, session: str, status: str) -> bool:
    params = message.get("params", {})
    return params.get("sessionId") == session and params.get("update", {}).get("status") == status


def cancelled(wire: AcpWire, session: str, method: str) -> Message:
    """The answer to a prompt that was interrupted in the middle of a command."""
    said = [{"type": "text", "text": "take long"}]
    number = wire.begin("session/prompt", {"sessionId": session, "prompt": said})
    wire.until(lambda message: is_update(message, session, "in_progress"))
    if method == "session/cancel":
        wire.send({"method": method, "params": {"sessionId": session}})
    else:
        assert wire.get(method, {"sessionId": session}) == {}
    return wire.answer(number)


def test_every_line_of_the_kit_has_a_test() -> None:
    assert set(TESTED) == MANDATORY | CAPABILITY | ADVISORY
    assert set(TESTED.values()) <= set(globals())


@line("ACP-JSONRPC-001")
def test_an_answer_has_the_id_of_its_request(wire: AcpWire) -> None:
    for number in (4711, "a-word", "4711", -1, 0):
        assert wire.ask("session/list", {}, number)["id"] == number


@line("ACP-JSONRPC-002", "ACP-ERROR-001")
def test_an_answer_is_a_result_or_an_error_with_a_code_and_a_sentence(wire: AcpWire) -> None:
    assert set(wire.ask("session/list")) == {"jsonrpc", "id", "result"}
    for method, params in (
        ("session/new", {"cwd": 1}),
        ("session/prompt", {"sessionId": "none"}),
        ("_no", {}),
    ):
        failed = wire.ask(method, params)
        assert set(failed) == {"jsonrpc", "id", "error"}
        error = failed["error"]
        assert (type(error["code"]), type(error["message"])) == (int, str)
        assert error["message"].strip()
        assert "\n" not in error["message"]


@line("ACP-JSONRPC-003", "ACP-SHUTDOWN-001")
def test_a_notification_has_no_answer_and_the_agent_ends_with_its_input(place: Machine) -> None:
    with begun(place) as wire:
        for method in ("session/cancel", "_kit/unheard_of", "unheard_of", "$/cancel_request"):
            wire.send({"method": method, "params": {"sessionId": "none", "requestId": 1}})
            wire.send({"method": method})
        assert wire.end() == 0
        assert len(wire.heard) == 1


@line("ACP-JSONRPC-004", "ACP-JSONRPC-005", "ACP-EXT-001")
def test_an_unknown_method_is_answered_and_the_next_request_works(wire: AcpWire) -> None:
    for method in ("kit/unheard_of", "_kit/unheard_of"):
        assert wire.ask(method)["error"]["code"] == -32601
    assert "result" in wire.ask("session/list")


@line("ACP-INIT-001", "ACP-INIT-002", "ACP-INIT-004")
@needs_schema
def test_initialize_gives_the_version_that_was_asked_for_and_who_we_are(place: Machine) -> None:
    with AcpWire(place) as wire:
        hello = wire.get("initialize", HELLO)
        check("initialize", hello)
        assert (type(hello["protocolVersion"]), hello["protocolVersion"]) == (int, 1)
        assert hello["agentInfo"]["name"]
        assert hello["agentInfo"]["version"]


@line("ACP-INIT-003", "ACP-AUTH-001", "ACP-AUTH-002")
def test_a_version_from_the_future_gets_our_newest_one(place: Machine) -> None:
    with AcpWire(place) as wire:
        info = {"name": "kit", "version": "1"}
        hello = wire.get("initialize", {**HELLO, "protocolVersion": 65535, "info": info, "clientInfo": info})
        assert hello["protocolVersion"] == 1
        methods = hello["authMethods"]
        assert len({each["id"] for each in methods}) == len(methods)
        assert all(each.get("type") != "terminal" for each in methods)


@line("ACP-SESSION-001", "ACP-SESSION-002", "ACP-AUTH-005")
def test_each_new_session_has_an_id_of_its_own(wire: AcpWire) -> None:
    first, second = wire.new(), wire.new()
    assert first
    assert second
    assert first != second


@line("ACP-PROMPT-001", "ACP-PROMPT-002")
@needs_schema
def test_a_prompt_ends_with_a_known_reason_and_its_updates_are_of_its_session(wire: AcpWire) -> None:
    session, since = wire.new(), len(wire.heard)
    assert wire.prompt(session)["stopReason"] in STOP_REASONS
    told = [each for each in wire.heard[since:] if each.get("method") == "session/update"]
    assert told
    for each in told:
        check("session/update", each["params"])
    assert {each["params"]["sessionId"] for each in told} == {session}


@line("ACP-PROMPT-003", "ACP-META-001", "ACP-PROMPTCAP-001", "ACP-PROMPTCAP-003")
@pytest.mark.parametrize(
    "block",
    [
        {"type": "resource_link", "name": "a", "uri": "file:///a.txt"},
        {"type": "image", "mimeType": "image/png", "data": b64encode(PNG).decode()},
        {"type": "resource", "resource": {"uri": "file:///a.txt", "text": "words"}},
        {"type": "text", "text": "with meta", "_meta": {"example.com/a": [1]}},
    ],
    ids=lambda block: block["type"],
)
def test_what_we_say_that_we_take_is_taken(wire: AcpWire, block: Message) -> None:
    trace = "00-0af7651916cd43dd8448eb211c80319c-00f067aa0ba902b7-01"
    answer = wire.prompt(wire.new(), block, _meta={"traceparent": trace})
    assert answer["stopReason"] == "end_turn"


@line("ACP-CANCEL-001")
def test_a_cancelled_prompt_ends_as_cancelled(wire: AcpWire) -> None:
    assert cancelled(wire, wire.new(), "session/cancel")["result"]["stopReason"] == "cancelled"


@line("ACP-CANCEL-002")
def test_nothing_is_told_after_the_end_of_a_cancelled_prompt(place: Machine) -> None:
    with begun(place) as wire:
        session = wire.new()
        ended = cancelled(wire, session, "session/cancel")
        assert wire.end() == 0
        assert wire.updates(session, wire.heard.index(ended)) == []


@line("ACP-CLIENTCAP-001", "ACP-CLIENTCAP-002", "ACP-CLIENTCAP-003")
def test_nothing_is_called_that_the_client_does_not_have(wire: AcpWire) -> None:
    link = {"type": "resource_link", "name": "a", "uri": f"file://{wire.workspace}/made.txt"}
    assert wire.prompt(wire.new(), link, text="use everything")["stopReason"] == "end_turn"
    assert {each["method"] for each in wire.asked} == {"session/request_permission"}


@line("ACP-LOAD-001", "ACP-LOAD-003")
@needs_schema
def test_a_session_can_be_loaded(wire: AcpWire) -> None:
    session = wire.new()
    wire.prompt(session)
    params = {"sessionId": session, "cwd": wire.workspace, "mcpServers": []}
    check("session/load", wire.get("session/load", params))


@line("ACP-LOAD-002")
@pytest.mark.parametrize("is_open", [True, False])
def test_the_past_is_told_before_a_load_is_answered_and_nothing_after(place: Machine, is_open: bool) -> None:
    with begun(place) as wire:
        session = wire.new()
        wire.prompt(session)
        if not is_open:
            wire.get("session/close", {"sessionId": session})
        since = len(wire.heard)
        loaded = wire.ask("session/load", {"sessionId": session, "cwd": wire.workspace, "mcpServers": []})
        assert "result" in loaded
        assert wire.end() == 0
        kinds = [each["sessionUpdate"] for each in wire.updates(session, since)]
        assert {"user_message_chunk", "agent_message_chunk", "available_commands_update"} <= set(kinds)
        assert wire.updates(session, wire.heard.index(loaded)) == []


@line("ACP-RESUME-001", "ACP-RESUME-002")
@needs_schema
def test_a_resumed_session_is_not_told_again(wire: AcpWire) -> None:
    session = wire.new()
    wire.prompt(session)
    wire.get("session/close", {"sessionId": session})
    since = len(wire.heard)
    check("session/resume", wire.get("session/resume", {"sessionId": session, "cwd": wire.workspace}))
    assert not {each["sessionUpdate"] for each in wire.updates(session, since)} & HISTORY


@line("ACP-LIST-001", "ACP-LIST-002")
@needs_schema
def test_sessions_are_listed_and_a_folder_without_any_has_none(wire: AcpWire) -> None:
    session = wire.new()
    listed = wire.get("session/list")
    check("session/list", listed)
    assert session in [each["sessionId"] for each in listed["sessions"]]
    empty = Path(wire.workspace) / "empty"
    empty.mkdir()
    assert wire.get("session/list", {"cwd": str(empty)})["sessions"] == []


@line("ACP-DELETE-001", "ACP-DELETE-002")
def test_a_deleted_session_is_gone_and_deleting_what_is_not_there_succeeds(wire: AcpWire) -> None:
    session = wire.new()
    for name in (session, session, "never-created"):
        assert wire.get("session/delete", {"sessionId": name}) == {}
    assert session not in [each["sessionId"] for each in wire.get("session/list")["sessions"]]


@line("ACP-CLOSE-001")
def test_an_idle_session_can_be_closed(wire: AcpWire) -> None:
    assert wire.get("session/close", {"sessionId": wire.new()}) == {}


@line("ACP-CLOSE-002")
def test_closing_a_session_cancels_its_prompt(wire: AcpWire) -> None:
    assert cancelled(wire, wire.new(), "session/close")["result"]["stopReason"] == "cancelled"


@line("ACP-MODES-001", "ACP-MODES-002")
@needs_schema
def test_modes_are_offered_and_another_one_can_be_set(wire: AcpWire) -> None:
    made = wire.get("session/new", {"cwd": wire.workspace, "mcpServers": []})
    check("session/new", made)
    names = [each["id"] for each in made["modes"]["availableModes"]]
    assert made["modes"]["currentModeId"] in names
    session, since = made["sessionId"], len(wire.heard)
    other = next(name for name in names if name != made["modes"]["currentModeId"])
    check("session/set_mode", wire.get("session/set_mode", {"sessionId": session, "modeId": other}))
    wire.prompt(session)
    told = [each for each in wire.updates(session, since) if each["sessionUpdate"] == "current_mode_update"]
    assert [each["currentModeId"] for each in told] == [other]


@line("ACP-CONFIG-001", "ACP-CONFIG-002", "ACP-CONFIG-003")
@needs_schema
def test_options_have_values_of_theirs_and_setting_one_gives_them_all(wire: AcpWire) -> None:
    made = wire.get("session/new", {"cwd": wire.workspace, "mcpServers": []})
    options = made["configOptions"]
    for option in options:
        assert option["type"] == "select"  # nobody said that they know boolean ones
        assert option["currentValue"] in [each["value"] for each in option["options"]]
    params = {"sessionId": made["sessionId"], "configId": "effort", "value": "high"}
    given = wire.get("session/set_config_option", params)
    check("session/set_config_option", given)
    assert [each["id"] for each in given["configOptions"]] == [each["id"] for each in options]
    assert [each["currentValue"] for each in given["configOptions"] if each["id"] == "effort"] == ["high"]


@line("ACP-TRANSPORT-001", "ACP-TRANSPORT-002", "ACP-SCHEMA-001", "ACP-SCHEMA-002")
@needs_schema
def test_all_that_was_said_so_far_is_lines_of_json_and_fits_the_schema(wire: AcpWire) -> None:
    wire.prompt(wire.new(), text="use everything")
    assert len(wire.lines) == len(wire.heard) > 10
    for text, message in zip(wire.lines, wire.heard, strict=True):
        assert text.endswith(b"\n")
        assert json.loads(text.decode("utf-8")) == message
        assert message["jsonrpc"] == "2.0"
        if "method" in message:
            check(message["method"], message["params"])
        elif "result" in message:
            check(wire.methods[message["id"]], message["result"])


def check(method: str, value: Any) -> None:
    """Checks what we said with the protocol's schema: its form, and that it has no keys of ours."""
    if not VALIDATORS:
        schema = json.loads(SCHEMA.read_text())
        for name, part in schema["$defs"].items():
            is_ours = part.get("x-side") == ("agent" if name.endswith("Response") else "client")
            if is_ours and "x-method" in part:
                whole = {"$defs": schema["$defs"], "$ref": f"#/$defs/{name}"}
                VALIDATORS[part["x-method"]] = Draft202012Validator(whole), set(part["properties"])
    validator, keys = VALIDATORS[method]
    validator.validate(value)
    assert set(value) <= keys


VALIDATORS: dict[str, tuple[Draft202012Validator, set[str]]] = {}
