"""A new plugin: the files of a package that is whole, with a tool, a command, a check and tests."""

from __future__ import annotations

from mainspring.plugins import API_VERSION, ENTRY_POINTS

_PYPROJECT = """\
[build-system]
requires = ["uv_build>=0.13,<0.14"]
build-backend = "uv_build"

[project]
name = "mainspring-NAME"
version = "0.0.1"
description = "A plugin of mainspring."
requires-python = ">=3.11"
dependencies = ["mainspring"]

[project.entry-points."GROUP"]
NAME = "MODULE:PLUGIN"

[tool.uv.build-backend]
module-name = "MODULE"
"""
_SOURCE = '''\
"""The plugin NAME. Its code runs inside mainspring, with the rights of whoever runs that."""

from __future__ import annotations

import mainspring
from mainspring.plugins import Plugin


@mainspring.tool(effect="read")
async def FUNCTION_hello(who: str) -> str:
    """Greets somebody."""
    return f"Hello, {who}!"


PLUGIN = Plugin(
    name="NAME",
    api=API,
    tools=(FUNCTION_hello,),
    commands={"hello": "---\\ndescription: Greets somebody\\n---\\nGreet $1 with the tool FUNCTION_hello."},
    checks={"clean": "git diff --quiet"},
)
'''
_TEST = """\
from __future__ import annotations

from pathlib import Path

from mainspring.events import CallEnded
from mainspring.testing import Stage, tool_call
from mainspring.testing.plugins import check_plugin

from MODULE import PLUGIN


def test_the_plugin_can_be_used() -> None:
    check_plugin(PLUGIN)


def test_an_agent_calls_its_tool(tmp_path: Path) -> None:
    stage = Stage(tmp_path, tool_call("FUNCTION_hello", who="Ada"), "Done.")
    assert stage.run("Greet Ada.", tools=PLUGIN.tools).text == "Done."
    assert stage.events(CallEnded)[0].output == "Hello, Ada!"
"""
_README = """\
# mainspring-NAME

A plugin of mainspring. `pip install -e .` beside mainspring installs it, `mainspring plugins list` shows it,
`pytest` tests it.
"""


def files_of(name: str) -> dict[str, str]:
    """The text of each file, by its path."""
    function = name.replace("-", "_")
    function = function if function[0].isalpha() else f"plugin_{function}"
    words = {
        "MODULE": f"mainspring_{name.replace('-', '_')}",
        "FUNCTION": function,
        "GROUP": ENTRY_POINTS,
        "API": str(API_VERSION),
        "NAME": name,
    }
    return {
        "pyproject.toml": _filled(_PYPROJECT, words),
        "README.md": _filled(_README, words),
        f"src/{words['MODULE']}/__init__.py": _filled(_SOURCE, words),
        "tests/test_plugin.py": _filled(_TEST, words),
    }


def _filled(text: str, words: dict[str, str]) -> str:
    for word, value in words.items():
        text = text.replace(word, value)
    return text
