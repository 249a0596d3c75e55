"""The built-in tools, and a toolbox from what a program names: tools, their names, or functions."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

from mainspring.errors import UsageError
from mainspring.events import Profile
from mainspring.models import Model
from mainspring.system import this_system
from mainspring.tools import Output, Tool
from mainspring.tools.ask import TOOL as ASK
from mainspring.tools.edit import TOOL as EDIT
from mainspring.tools.fetch import TOOL as FETCH
from mainspring.tools.find import TOOL as FIND
from mainspring.tools.finish import TOOL as FINISH
from mainspring.tools.grep import TOOL as GREP
from mainspring.tools.note import TOOL as NOTE
from mainspring.tools.notify import TOOL as NOTIFY
from mainspring.tools.patch import TOOL as PATCH
from mainspring.tools.plan import TOOL as PLAN
from mainspring.tools.process import TOOL as PROCESS
from mainspring.tools.read import TOOL as READ
from mainspring.tools.schema import tool
from mainspring.tools.shell import TOOL as SHELL
from mainspring.tools.small import SMALL_TOOLS
from mainspring.tools.toolbox import Toolbox
from mainspring.tools.wait import TOOL as WAIT
from mainspring.tools.write import TOOL as WRITE

_RUNNING = (SHELL, PROCESS) if this_system().has_custody else ()
DEFAULT_TOOLS = (READ, WRITE, EDIT, PATCH, FIND, GREP, *_RUNNING, WAIT, FETCH, PLAN, NOTE, ASK, FINISH)

ToolChoice = Tool | str | Callable[..., Awaitable[Output | str]]
"""A tool, the name of a built-in one, or an async function as `mainspring.tool` takes it."""


class MoreTools(Protocol):
    """Where tools come from that a session has beside ours."""

    def tools(self, window: int | None) -> list[Tool]: ...
    def find(self, name: str) -> Tool | None: ...


def build_toolbox(
    choices: Sequence[ToolChoice],
    profile: Profile = "standard",
    more: Sequence[MoreTools] = (),
    model: Model | None = None,
    shell: Tool = SHELL,
    *,
    has_notify: bool = False,
) -> Toolbox:
    """The tools that a program wants; where it does not say, those of the profile, and `more` behind them.
    `shell` stands in the place of that one."""
    if choices is DEFAULT_TOOLS:
        usual = SMALL_TOOLS if profile == "small" else DEFAULT_TOOLS
        usual = (*usual, NOTIFY) if has_notify else usual
        window = model.context_tokens if model else None
        added = (tool for source in more for tool in source.tools(window))
        return Toolbox(
            [*(shell if each.name == SHELL.name else each for each in usual), *added],
            lambda name: next(filter(None, (each.find(name) for each in more)), None),
        )
    if isinstance(choices, str):
        raise UsageError(f"tools must be a list of tools, not the text {choices!r}.", remedy="Write [name].")
    return Toolbox([shell if each is SHELL else each for each in map(_tool, choices)])


def _tool(choice: ToolChoice) -> Tool:
    if isinstance(choice, Tool):
        return choice
    if not isinstance(choice, str):
        return tool(choice)
    known = {each.name: each for each in DEFAULT_TOOLS}
    if choice not in known:
        raise UsageError(
            f"There is no tool {choice!r}.", remedy=f"The built-in tools are {', '.join(known)}."
        )
    return known[choice]
