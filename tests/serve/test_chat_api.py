"""Chats that speak OpenAI's protocols talk to an agent: a conversation is a session."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx2

from tests.cli.conftest import Machine, lines
from tests.serve.test_sessions import call


@contextmanager
def endpoint(machine: Machine, model: str, *options: str) -> Iterator[tuple[httpx2.Client, str]]:
    """A client of a server, and its token."""
    process = machine.start("serve", "--port", "0", *options, MAINSPRING_MODEL=model)
    try:
        assert process.stdout is not None
        address, _, token = process.stdout.readline().strip().partition("/#token=")
        headers = {"authorization": f"Bearer {token}"}
        with httpx2.Client(base_url=address, headers=headers, timeout=60, trust_env=False) as client:
            yield client, token
    finally:
        process.terminate()
        try:
            process.communicate(timeout=60)
        finally:
            process.kill()


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def frames(client: httpx2.Client, path: str, body: dict[str, Any]) -> list[dict[str, Any]]:
    with client.stream("POST", path, json={**body, "stream": True}) as answer:
        assert answer.status_code == 200
        found = [line[6:] for line in answer.iter_lines() if line.startswith("data: ")]
    return [json.loads(line) for line in found if line != "[DONE]"]


def test_a_conversation_is_one_session_with_hands(machine: Machine) -> None:
    model = machine.serve(
        call("touch made"), {"text": "made it"}, {"text": "and more"}, {"text": "third"}, {"text": "fourth"}
    )
    with endpoint(machine, model, "--openai") as (client, _):
        assert [each["id"] for each in client.get("/v1/models").json()["data"]] == ["mainspring"]
        path, asked = "/v1/chat/completions", [{"role": "system", "content": "Be brief."}, user("make it")]
        first = client.post(path, json={"model": "mainspring", "messages": asked}).json()
        message = first["choices"][0]["message"]
        assert (message["content"], first["choices"][0]["finish_reason"]) == ("made it", "stop")
        assert first["usage"]["total_tokens"] > 0
        assert (machine.workspace / "made").exists()
        assert "Be brief." in machine.seen[0].body.decode()
        asked += [message, user("more")]
        found = frames(client, path, {"model": "mainspring", "messages": asked})
        text = "".join(each["choices"][0]["delta"].get("content", "") for each in found)
        assert (text, found[-1]["choices"][0]["finish_reason"]) == ("and more", "stop")
        assert len(lines(machine.run("sessions", "--json").stdout)) == 1
        changed = [user("something else was said"), message, user("go on")]
        assert client.post(path, json={"messages": changed}).status_code == 200
        assert len(lines(machine.run("sessions", "--json").stdout)) == 2
        again = [*asked[:-1], user("in other words")]
        assert client.post(path, json={"messages": again}).status_code == 200
        assert len(lines(machine.run("sessions", "--json").stdout)) == 3
        picture = [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}]
        assert client.post(path, json={"messages": picture}).status_code == 400
        assert client.post(path, json={"messages": []}).status_code == 400
        assert client.post(path, json={}, headers={"authorization": "Bearer wrong"}).status_code == 401
        assert client.post(path, json={}, headers={"origin": "http://evil.example"}).status_code == 403


def test_responses_name_the_session_that_they_go_on_with(machine: Machine) -> None:
    model = machine.serve({"text": "one"}, {"text": "two"})
    with endpoint(machine, model, "--openai") as (client, _):
        first = client.post("/v1/responses", json={"input": "begin"}).json()
        assert (first["status"], first["output"][0]["content"][0]["text"]) == ("completed", "one")
        body = {"input": [user("go on")], "previous_response_id": first["id"]}
        found = frames(client, "/v1/responses", body)
        kinds = [each["type"] for each in found]
        assert (kinds[0], kinds[-1]) == ("response.created", "response.completed")
        assert [each["sequence_number"] for each in found] == list(range(len(found)))
        text = "".join(each["delta"] for each in found if each["type"] == "response.output_text.delta")
        assert text == "two" == found[-1]["response"]["output"][0]["content"][0]["text"]
        assert len(lines(machine.run("sessions", "--json").stdout)) == 1
        unknown = client.post("/v1/responses", json={"input": "x", "previous_response_id": "resp_nobody_1"})
        assert unknown.status_code == 404


def test_a_question_is_told_as_text(machine: Machine) -> None:
    machine.home.mkdir()
    (machine.home / "config.toml").write_text('mode = "ask"\n')
    with endpoint(machine, machine.serve(call("touch made")), "--openai") as (client, _):
        done = client.post("/v1/chat/completions", json={"messages": [user("make it")]}).json()
        assert "mainspring approve" in done["choices"][0]["message"]["content"]
    assert not (machine.workspace / "made").exists()


def test_a_client_that_goes_away_stops_its_turn(machine: Machine) -> None:
    with endpoint(machine, machine.serve(call("sleep 60")), "--openai") as (client, _):
        body = {"messages": [user("wait")], "stream": True}
        with client.stream("POST", "/v1/chat/completions", json=body) as answer:
            told = answer.iter_lines()
            name = json.loads(next(told)[6:])["id"]
            session = name.removeprefix("chatcmpl-").rpartition("_")[0]
            seen(client, session, "CallStarted")
        ended = seen(client, session, "TurnEnded")
    assert ended["body"]["ending"] == "interrupted"


def seen(client: httpx2.Client, session: str, kind: str) -> dict[str, Any]:
    """The first event of a kind, waited for."""
    with client.stream("GET", f"/api/v1/sessions/{session}/stream") as answer:
        for line in answer.iter_lines():
            if line.startswith("data: ") and (event := json.loads(line[6:]))["kind"] == kind:
                return event
    raise AssertionError(kind)


def test_our_own_client_speaks_to_it_in_both_protocols(machine: Machine) -> None:
    with endpoint(machine, machine.serve({"text": "an agent's word"}), "--openai") as (client, token):
        for provider in ("openai-compatible", "openai"):
            model = f"{provider}@{str(client.base_url).rstrip('/')}/v1#mainspring"
            ran = machine.run("run", "--mode", "plan", "--model", model, "hello", OPENAI_API_KEY=token)
            assert "an agent's word" in ran.stdout, (provider, ran.stdout, ran.stderr)


def test_it_is_off_unless_it_was_asked_for(machine: Machine) -> None:
    with endpoint(machine, machine.serve({"text": "never"})) as (client, _):
        assert client.get("/v1/models").status_code == 404


def test_a_conversation_goes_on_for_who_had_it_only(machine: Machine) -> None:
    """Who knows, or guesses, what another said does not get into their session."""
    token = machine.run("devices", "token", "ci", "--role", "steer", "--for", "1d").stdout.strip()
    model = machine.serve({"text": "hello"}, {"text": "for ci"}, {"text": "for me"})
    with endpoint(machine, model, "--openai") as (client, _):
        path, asked = "/v1/chat/completions", [user("hi")]
        first = client.post(path, json={"messages": asked}).json()
        more = {"messages": [*asked, first["choices"][0]["message"], user("more")]}
        assert client.post(path, json=more, headers={"authorization": f"Bearer {token}"}).status_code == 200
        assert len(lines(machine.run("sessions", "--json").stdout)) == 2
        assert client.post(path, json=more).status_code == 200
        assert len(lines(machine.run("sessions", "--json").stdout)) == 2
