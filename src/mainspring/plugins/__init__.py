"""What a plugin is: a value that a Python distribution gives under the entry point group
`mainspring.plugins`. Its code runs in our process with our rights; what shall not is an MCP server.

    PLUGIN = Plugin(name="greeting", api=1, tools=(greet,))

`api` is the version of this module that the plugin was written for. A version stays as it is: fields are only
added, each with a default.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from mainspring.events import Recorded
    from mainspring.tools import Tool

API_VERSION = 1
ENTRY_POINTS = "mainspring.plugins"

Subscriber = Callable[["Recorded"], Awaitable[None]]


class Plugin(msgspec.Struct, frozen=True, kw_only=True):
    """What a distribution adds.

    `tools` are offered to the agent of every session, as `mainspring.tool` makes them. `subscribers` are
    called with every event that is recorded while a session is open, in order."""

    name: str
    api: int
    tools: tuple[Tool, ...] = ()
    subscribers: tuple[Subscriber, ...] = ()
