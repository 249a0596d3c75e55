"""Plugins by the command line: what they add, and what becomes of bad ones."""

from __future__ import annotations

import json

import pytest

from tests.cli.conftest import lines
from tests.plugins.conftest import GREETING, HEAD, Site

CALL = {"calls": [{"name": "greet", "arguments": {"name": "Ada"}}]}


def outputs(site: Site) -> list[str]:
    session = site.machine.only_session()["id"]
    return [event["body"]["output"] for event in site.machine.events(session) if event["kind"] == "CallEnded"]


def entries(site: Site) -> dict[str, dict[str, object]]:
    return {each["name"]: each for each in lines(site.run("plugins", "list", "--json"))}


def test_a_session_calls_the_tool_of_an_installed_plugin(site: Site) -> None:
    site.install("greeting", GREETING)
    site.run("run", "--model", site.machine.serve(CALL, {"text": "done"}), "greet Ada")
    assert outputs(site) == ["Hello, Ada!"]
    assert site.machine.seen[0].json()["tools"][-1]["function"]["name"] == "greet"
    assert entries(site)["greeting"]["brings"] == ["tool greet"]
    assert "greeting 1.0  ready  tool greet  (mainspring-greeting)" in site.run("plugins", "list")


BAD = {
    "import-error": ("import no_such_module_at_all\n", "no_such_module_at_all"),
    "exits": ("import sys\nsys.exit(3)\n", "SystemExit"),
    "no-plugin": ("PLUGIN = 1\n", "is no mainspring.plugins.Plugin"),
    "no-name": ("", "PLUGIN"),
    "too-new": (HEAD + 'PLUGIN = Plugin(name="too-new", api=99)\n', "version 99"),
    "other": (HEAD + 'PLUGIN = Plugin(name="another", api=1)\n', "another"),
    "hostile": (HEAD + 'PLUGIN = Plugin(name="../\\x1b[31m", api=1)\n', "lower-case"),
    "zz-double": (GREETING.replace('"greeting"', '"zz-double"'), "another tool named greet"),
    "builtin": (
        GREETING.replace("greet(", "read(").replace("(greet", "(read").replace("greeting", "builtin"),
        "named read",
    ),
    "reserved": (
        GREETING.replace("greet(", "mcp__a__b(")
        .replace("(greet", "(mcp__a__b")
        .replace("greeting", "reserved"),
        "may not have that name",
    ),
    "mapped": (HEAD + 'PLUGIN = Plugin(name="mapped", api=1, checks={"a b": "true"})\n', "a b"),
    "untyped": (HEAD + 'PLUGIN = Plugin(name="untyped", api=1, tools=(1,))\n', "tuple of Tools"),
}


def test_bad_plugins_are_named_with_their_error_and_everything_else_works(site: Site) -> None:
    site.install("greeting", GREETING)
    for name, (source, _) in BAD.items():
        site.install(name, source)
    said = site.run("run", "--model", site.machine.serve(CALL, {"text": "done"}), "greet Ada")
    assert outputs(site) == ["Hello, Ada!"]
    found = entries(site)
    for name, (_, problem) in BAD.items():
        assert found[name]["state"] == "failed"
        assert problem in str(found[name]["problem"])
        assert f"The plugin {name} is not used" in said
    assert found["greeting"]["state"] == "ready"
    checks = json.loads(site.machine.run("doctor", "--json", **site.variables).stdout)["checks"]
    assert len([each for each in checks if each["name"] == "plugin"]) == len(BAD)


def test_a_hostile_entry_point_cannot_steer_a_terminal(site: Site) -> None:
    site.install("evil", "", entry="\x1b]0;owned\x07", target="evil_plugin:PLUGIN")
    said = site.run("run", "--model", site.machine.serve({"text": "done"}), "x") + site.run("plugins", "list")
    assert "\x1b" not in said
    assert "\x07" not in said
    assert "owned" in said


def test_a_project_brings_no_plugin_by_being_opened(site: Site) -> None:
    """`python -m mainspring` looks for modules in the folder where it is started."""
    workspace = site.machine.workspace
    site.install("greeting", GREETING)
    planted = Site(workspace, site.machine)
    planted.install("planted", "import pathlib\npathlib.Path('planted').touch()\n")
    (workspace / "greeting_plugin.py").write_text("import pathlib\npathlib.Path('planted').touch()\n")
    assert list(entries(site)) == ["greeting"]
    site.run("run", "--model", site.machine.serve(CALL, {"text": "done"}), "greet Ada")
    assert outputs(site) == ["Hello, Ada!"]
    assert not (workspace / "planted").exists()


def test_what_is_installed_is_looked_for_again_when_it_changed(site: Site) -> None:
    model = site.machine.serve({"text": "done"})
    site.run("run", "--model", model, "x")
    site.install("greeting", GREETING)
    site.run("run", "--model", model, "x")
    offered = [[tool["function"]["name"] for tool in seen.json()["tools"]] for seen in site.machine.seen]
    assert ["greet" in names for names in offered] == [False, True]
    (index,) = (site.machine.home / "plugin-index").iterdir()
    assert b"greeting_plugin:PLUGIN" in index.read_bytes()
    index.write_bytes(b"not an index")
    site.run("run", "--model", model, "x")
    assert "greet" in [tool["function"]["name"] for tool in site.machine.seen[-1].json()["tools"]]


@pytest.mark.parametrize("text", ["[plugins]\nenabled = false\n", '[plugins]\ndisabled = ["greeting"]\n'])
def test_what_is_disabled_is_not_loaded(site: Site, text: str) -> None:
    site.install("greeting", "raise AssertionError('loaded')\n")
    site.machine.home.mkdir()
    (site.machine.home / "config.toml").write_text(text)
    said = site.run("run", "--model", site.machine.serve({"text": "done"}), "x")
    assert "greeting" not in said
    assert entries(site)["greeting"]["state"] == "disabled"


def test_subscribers_are_told_every_event_and_one_that_fails_disturbs_nobody(site: Site) -> None:
    source = HEAD + (
        "import pathlib\n\n"
        "async def keep(recorded):\n"
        "    with open('told', 'a') as file:\n"
        "        file.write(f'{recorded.seq} {type(recorded.event).__name__}\\n')\n\n"
        "async def fail(recorded):\n    raise RuntimeError('no')\n\n"
        'PLUGIN = Plugin(name="watching", api=1, subscribers=(fail, keep))\n'
    )
    site.install("watching", source)
    site.run("run", "--model", site.machine.serve({"text": "done"}), "hello")
    events = site.machine.events(site.machine.only_session()["id"])
    told = (site.machine.workspace / "told").read_text().splitlines()
    assert told == [f"{event['seq']} {event['kind']}" for event in events]


def test_tools_that_would_fill_the_window_are_found_and_called_by_name(site: Site) -> None:
    source = HEAD + (
        "def make(number):\n"
        "    async def work(text: str) -> str:\n"
        "        return f'{number} {text}'\n"
        "    work.__name__, work.__doc__ = f'work_{number}', 'Does much work. ' * 40\n"
        "    return mainspring.tool(work, effect='read')\n\n"
        'PLUGIN = Plugin(name="many", api=1, tools=tuple(make(number) for number in range(60)))\n'
    )
    site.install("many", source)
    find = {"calls": [{"name": "find_tools", "arguments": {"query": "work_7"}}]}
    inner = {"name": "work_7", "arguments": {"text": "x"}}
    model = site.machine.serve(find, {"calls": [{"name": "call_tool", "arguments": inner}]}, {"text": "done"})
    site.run("run", "--model", model, "x")
    names = [tool["function"]["name"] for tool in site.machine.seen[0].json()["tools"]]
    assert names[-2:] == ["find_tools", "call_tool"]
    found, called = outputs(site)
    assert "Does much work" in found
    assert called == "7 x"
