"""`mainspring models`: what is set up on this machine."""

from __future__ import annotations

from mainspring.models.pricelist import SHIPPED, read_table
from mainspring.models.prices import refreshed_path
from tests.cli.conftest import Machine, lines


def test_providers_are_listed_with_their_wire_address_and_whether_they_have_a_key(machine: Machine) -> None:
    ran = machine.run("models", "--json", ANTHROPIC_API_KEY="sk-secret", GOOGLE_API_KEY="also-secret")
    assert ran.returncode == 0, ran.stderr
    assert "secret" not in ran.stdout
    rows = {row["provider"]: row for row in lines(ran.stdout)}
    assert rows["anthropic"]["has_key"]
    assert rows["gemini"]["has_key"]
    assert not rows["openai"]["has_key"]
    assert rows["anthropic"]["wire"] == "anthropic"
    assert rows["anthropic"]["base_url"] == "https://api.anthropic.com"
    assert "openai-compatible" not in rows
    shown = machine.run("models").stdout
    assert "no key: mainspring keys add openai, or set OPENAI_API_KEY" in shown


def test_a_server_on_this_machine_is_asked_what_it_serves(machine: Machine) -> None:
    machine.serve({"text": "hi"}, models=["small", "large"])
    url = machine.servers[-1].url.replace("http://", "http://me:hidden@")
    ran = machine.run("models", OLLAMA_BASE_URL=url)
    assert ran.returncode == 0, ran.stderr
    assert "ollama/small" in ran.stdout
    assert "ollama/large" in ran.stdout
    assert "hidden" not in ran.stdout
    assert "does not answer" in ran.stdout


def test_a_server_in_place_of_openai_is_listed_in_its_place(machine: Machine) -> None:
    machine.serve({"text": "hi"}, models=["small"])
    ran = machine.run("models", "--json", OPENAI_BASE_URL=machine.servers[-1].url)
    rows = {row["provider"]: row for row in lines(ran.stdout)}
    assert "openai" not in rows
    assert [model["id"] for model in rows["openai-compatible"]["serves"]] == ["small"]


def test_models_prices_and_doctor_say_which_table_of_prices_is_in_use_and_of_which_day(
    machine: Machine,
) -> None:
    shipped = read_table(SHIPPED)
    table = f"from genai-prices {shipped.version} on {shipped.day}"
    assert table in machine.run("models", "prices").stdout
    assert table in machine.run("models").stdout
    assert table in machine.run("doctor").stdout


def test_refreshing_prices_takes_over_a_newer_genai_prices_and_only_that(machine: Machine) -> None:
    ran = machine.run("models", "prices", "--refresh")
    assert ran.returncode == 0, ran.stderr
    assert "not newer" in ran.stderr
    assert not refreshed_path(machine.home).exists()
    newer = machine.home / "newer"
    metadata = newer / "genai_prices-999.1.dist-info" / "METADATA"
    metadata.parent.mkdir(parents=True)
    metadata.write_text("Metadata-Version: 2.1\nName: genai-prices\nVersion: 999.1\n")
    ran = machine.run("models", "prices", "--refresh", PYTHONPATH=str(newer))
    assert ran.returncode == 0, ran.stderr
    assert "from genai-prices 999.1 on" in ran.stdout
    assert "from genai-prices 999.1 on" in machine.run("models", "prices").stdout


def test_a_model_is_shown_with_what_is_known_and_from_where(machine: Machine) -> None:
    model = machine.serve({"text": "done"}, models=["coder-7b"], context_tokens=32_768)
    name = f"vllm@{model.partition('@')[2].partition('#')[0]}#coder-7b"
    machine.home.mkdir(exist_ok=True)
    (machine.home / "config.toml").write_text('[models."coder-7b"]\ntop_p = 0.9\n')
    shown = machine.run("models", "show", name)
    assert shown.returncode == 0, shown.stderr
    facts = {line[:17].strip(): line[17:].strip() for line in shown.stdout.splitlines()[1:]}
    assert facts["profile"] == "small (billions, name)"
    assert facts["tools"] == "schema (profile)"
    assert facts["window"] == "32,768 tokens (server)"
    assert facts["top_p"] == "0.9 (config)"
    assert facts["images"] == "unknown"
