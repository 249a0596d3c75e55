"""`mainspring models list`, and close names for a model that nobody knows."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.cli.conftest import Machine, lines
from tests.cli.test_gateway import KEYS, key_of, with_gateway

NAMES = ["claude-sonnet-4-5", "claude-haiku-4-5"]
VARIABLES = {
    "anthropic": ("ANTHROPIC_BASE_URL", "ANTHROPIC_API_KEY", ""),
    "gemini": ("GEMINI_BASE_URL", "GEMINI_API_KEY", "/v1beta"),
    "openai": ("OPENAI_BASE_URL", "OPENAI_API_KEY", "/v1"),
    "ollama": ("OLLAMA_BASE_URL", "OLLAMA_API_KEY", "/v1"),
}


def settings_for(machine: Machine, provider: str) -> dict[str, str]:
    address, key, path = VARIABLES[provider]
    return {address: machine.servers[-1].url.removesuffix("/v1") + path, key: "k-1"}


def age(machine: Machine, by: timedelta) -> None:
    """As if all lists had been asked for earlier."""
    file = machine.home / "model-lists.json"
    content = json.loads(file.read_text())
    for kept in content["lists"].values():
        kept["asked_at"] = (datetime.now(UTC) - by).isoformat()
    file.write_text(json.dumps(content))


@pytest.mark.parametrize("provider", VARIABLES)
def test_every_provider_is_asked_in_its_own_way(machine: Machine, provider: str) -> None:
    machine.serve(models=NAMES, context_tokens=200_000)
    ran = machine.run("models", "list", provider, "--json", **settings_for(machine, provider))
    assert ran.returncode == 0, ran.stderr
    rows = lines(ran.stdout)
    prefix = "" if provider == "openai" else f"{provider}/"  # a server in the place of OpenAI
    assert [row["name"] for row in rows] == [f"{prefix}{name}" for name in NAMES]
    assert {row["context_tokens"] for row in rows} == {200_000}
    assert all(datetime.fromisoformat(row["asked_at"]) for row in rows)
    if provider in ("anthropic", "gemini"):
        assert [key_of(seen) for seen in machine.servers[-1].looks] == ["k-1"]


def test_all_pages_are_read(machine: Machine) -> None:
    first: dict[str, Any] = {"data": [{"id": "a"}], "has_more": True, "last_id": "a"}
    second = {"data": [{"id": "b"}], "has_more": False, "last_id": "b"}
    machine.serve(pages={"/v1/models": first, "/v1/models?limit=1000&after_id=a": second})
    ran = machine.run("models", "list", "anthropic", **settings_for(machine, "anthropic"))
    assert ran.stdout.split() == ["anthropic/a", "anthropic/b"], ran.stderr
    gemini = {
        "/v1beta/models": {
            "models": [
                {"name": "models/g", "supportedGenerationMethods": ["generateContent"]},
                {"name": "models/embedding", "supportedGenerationMethods": ["embedContent"]},
            ],
            "nextPageToken": "t/2",
        },
        "/v1beta/models?pageSize=1000&pageToken=t/2": {"models": [{"name": "models/h"}]},
    }
    machine.serve(pages=gemini)
    ran = machine.run("models", "list", "google", **settings_for(machine, "gemini"))
    assert ran.stdout.split() == ["gemini/g", "gemini/h"], ran.stderr


def test_a_list_of_today_is_not_asked_for_again_unless_one_says_so(machine: Machine) -> None:
    with_gateway(machine)
    server = machine.servers[-1]
    for options in ((), (), ("--refresh",)):
        ran = machine.run("models", "list", "deepseek", *options, **KEYS)
        assert ran.stdout.split() == ["deepseek/scripted"], ran.stderr
    assert [(seen.path, key_of(seen)) for seen in server.looks] == [("/v1/models", "gw-key")] * 2
    age(machine, timedelta(days=2))
    assert machine.run("models", "list", "deepseek", **KEYS).returncode == 0
    assert len(server.looks) == 3


def test_an_old_list_stands_in_for_a_provider_that_does_not_answer(machine: Machine) -> None:
    with_gateway(machine)
    assert machine.run("models", "list", "xai", **KEYS).returncode == 0
    age(machine, timedelta(days=3))
    machine.servers.pop().__exit__(None, None, None)
    ran = machine.run("models", "list", "xai", **KEYS)
    assert ran.stdout.split() == ["xai/scripted"], ran.stderr
    assert "cannot be reached" in ran.stderr
    refreshed = machine.run("models", "list", "xai", "--refresh", **KEYS)
    assert refreshed.returncode != 0
    assert refreshed.stdout == ""


def test_a_provider_without_a_key_or_an_answer_is_told_with_what_to_do(machine: Machine) -> None:
    missing = machine.run("models", "list", "anthropic")
    assert missing.returncode == 2
    assert "ANTHROPIC_API_KEY" in missing.stderr
    unknown = machine.run("models", "list", "antropic")
    assert unknown.returncode == 2
    assert "anthropic" in unknown.stderr
    nowhere = machine.run("models", "list", "openai-compatible")
    assert "OPENAI_BASE_URL" in nowhere.stderr
    proxied = {"HTTPS_PROXY": "http://127.0.0.1:9", "ANTHROPIC_API_KEY": "k"}
    refused = machine.run("models", "list", "anthropic", **proxied)
    assert "through the proxy 127.0.0.1" in refused.stderr


def test_without_a_name_all_that_can_be_asked_are(machine: Machine) -> None:
    machine.serve(models=["served"])
    ran = machine.run("models", "list", **settings_for(machine, "ollama"))
    assert "ollama/served" in ran.stdout.split(), ran.stderr
    nothing = machine.run("models", "list", OLLAMA_BASE_URL="http://127.0.0.1:9/v1")
    assert nothing.returncode == 0
    assert "ollama/" not in nothing.stdout


def test_a_server_by_its_address_lists_names_that_can_be_used(machine: Machine) -> None:
    machine.serve({"text": "hello"}, models=["q"])
    at = f"openai-compatible@{machine.servers[-1].url}"
    (name,) = machine.run("models", "list", at).stdout.split()
    assert name == f"{at}#q"
    assert "hello" in machine.run("run", "hi", "--model", name).stdout


def test_an_unknown_name_is_answered_with_close_ones(machine: Machine) -> None:
    typo = machine.run("run", "hi", "--model", "claud-sonnet-4-5")
    assert typo.returncode == 2
    assert "anthropic/claude-sonnet-4-5" in typo.stderr
    part = machine.run("models", "show", "sonnet")
    assert part.returncode == 2
    assert "claude" in part.stderr
    shown = machine.run("models", "show", "claude-sonet-4-5", ANTHROPIC_API_KEY="k")
    assert "not known; close are" in shown.stdout
    assert "claude-sonnet-4-5" in shown.stdout
    unpriced = machine.run("run", "hi", "--model", "openai/gtp-5", "--max-cost-usd", "1", OPENAI_API_KEY="k")
    assert "openai/gpt-5" in unpriced.stderr


def test_a_name_that_its_provider_refuses_is_answered_with_those_that_it_listed(machine: Machine) -> None:
    missing = {"kind": "status", "status": 404, "times": 9}
    machine.serve(models=["wonder-large", "wonder-small"], faults=[missing])
    settings = settings_for(machine, "openai")
    before = machine.run("run", "hi", "--model", "wunder-large", **settings)
    assert before.returncode != 0
    assert "Did you mean" not in before.stderr
    assert machine.run("models", "list", "openai", **settings).returncode == 0
    after = machine.run("run", "hi", "--model", "wunder-large", **settings)
    assert "Did you mean wonder-large" in after.stderr
    assert "close are wonder-large" in machine.run("models", "show", "wunder-large", **settings).stdout
