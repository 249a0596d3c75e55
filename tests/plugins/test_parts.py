"""What else packages bring: models, engines, checks and commands."""

from __future__ import annotations

from tests.plugins.conftest import HEAD, Site

PARTS = HEAD + (
    "from mainspring.engines.settings import EngineSettings\n"
    "from mainspring.models.scripted import Script, ScriptedModel, ScriptedReply\n\n"
    "def make(name, environment):\n"
    "    text = f'I am {name} with ' + environment.get('ACME_KEY', 'no key')\n"
    "    return ScriptedModel(Script(replies=(ScriptedReply(text=text),)), name=f'acme/{name}')\n\n"
    'PLUGIN = Plugin(name="parts", api=1, models={"acme": make},\n'
    '    engines={"parrot": EngineSettings(command=("sh", "-c", "echo squawk"), protocol="exec")},\n'
    '    checks={"there": "test -e made"},\n'
    '    commands={"greet": "---\\ndescription: Greets\\n---\\nSay hello to $1."})\n'
)


def said(site: Site) -> list[str]:
    events = site.machine.events(site.machine.only_session()["id"])
    return [event["body"]["text"] for event in events if event["kind"] == "UserSaid"]


def test_a_model_of_a_plugin_is_asked_by_its_name_and_found_again(site: Site) -> None:
    site.install("parts", PARTS)
    assert "I am tiny with no key" in site.run("run", "--model", "acme/tiny", "--allow-unpriced", "who?")
    session = site.machine.only_session()["id"]
    assert "I am tiny" in site.run("retry", session)


def test_an_engine_of_a_plugin_takes_a_turn(site: Site) -> None:
    site.install("parts", PARTS)
    assert "squawk" in site.run("run", "--engine", "parrot", "--mode", "auto", "speak")
    assert "parrot" in site.run("engines")


def test_a_check_of_a_plugin_is_recorded_as_its_command(site: Site) -> None:
    site.install("parts", PARTS)
    model = site.machine.serve({"text": "<promise>DONE</promise>"}, {"text": "<promise>DONE</promise>"})
    (site.machine.workspace / "made").touch()
    site.run(
        "goal", "start", "--model", model, "--max-iterations", "1", "--check", "plugin:parts/there", "go on"
    )
    events = site.machine.events(site.machine.only_session()["id"])
    checks = [event["body"] for event in events if event["kind"] == "CheckEnded"]
    assert [(each["check"], each["passed"]) for each in checks] == [("test -e made", True)]
    refused = site.machine.run(
        "goal", "start", "--model", model, "--check", "plugin:parts/no", "x y", **site.variables
    )
    assert refused.returncode == 2
    assert "plugin:parts/there" in refused.stderr


def test_a_command_of_a_plugin_is_given_by_its_name(site: Site) -> None:
    site.install("parts", PARTS)
    site.run("run", "/parts:greet Ann", "--model", site.machine.serve({"text": "Hello."}))
    assert said(site) == ["Say hello to Ann."]
    assert "/parts:greet: Greets" in site.run("commands")
