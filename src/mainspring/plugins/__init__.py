"""What a plugin is: a value that a Python distribution gives under the entry point group
`mainspring.plugins`. Its code runs in our process with our rights; what shall not is an MCP server.

    PLUGIN = Plugin(name="greeting", api=1, tools=(greet,))

`api` is the version of this module that the plugin was written for. A version stays as it is: fields are only
added, each with a default.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from mainspring.engines.settings import EngineSettings
    from mainspring.events import Recorded
    from mainspring.models import Model
    from mainspring.tools import Tool

API_VERSION = 1
ENTRY_POINTS = "mainspring.plugins"

MakeModel = Callable[[str, Mapping[str, str]], "Model"]
"""Makes the model of a name; the environment, with stored keys, is where it finds its key."""
Subscriber = Callable[["Recorded"], Awaitable[None]]


class Plugin(msgspec.Struct, frozen=True, kw_only=True):
    """What a distribution adds.

    `tools` are offered to the agent of every session, as `mainspring.tool` makes them. `models` are makers by
    the word before the slash: `{"acme": make}` is asked for `--model acme/NAME`. `engines` are agents in
    programs of their own. `checks` are command lines by name, for `goal start --check plugin:PLUGIN/NAME`.
    `commands` are texts of Markdown files by name, given as `/PLUGIN:NAME`. `subscribers` are called with
    every event that is recorded while a session is open, in order. `hooks` is a file of the package with
    hooks, in the form of `hooks.json`."""

    name: str
    api: int
    tools: tuple[Tool, ...] = ()
    models: Mapping[str, MakeModel] = {}
    engines: Mapping[str, EngineSettings] = {}
    checks: Mapping[str, str] = {}
    commands: Mapping[str, str] = {}
    subscribers: tuple[Subscriber, ...] = ()
    hooks: Path | None = None
