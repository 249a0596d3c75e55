"""`find_tools` and `call_tool`: tools of servers that no request shows, because they would fill the window
or because their server has not answered yet. The two stay the same while servers come and go, so that
requests of a session go on beginning with the same bytes.
"""

import re
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from mainspring.tools import CallContext, Output, Tool
from mainspring.tools.files import described
from mainspring.tools.schema import Arguments, spec_of

FIND_TOOLS = "find_tools"
CALL_TOOL = "call_tool"
_SHOWN = 6
_NAMED = 40
_MAX_SCHEMA = 4000
_WORD = re.compile(r"[a-z0-9]+")


class FindToolsArguments(Arguments, frozen=True):
    query: Annotated[str, Meta(description="Words, or a full name")]


class CallToolArguments(Arguments, frozen=True):
    name: Annotated[str, Meta(min_length=1)]
    arguments: dict[str, Any] = msgspec.field(default_factory=dict[str, Any])


def find_tool(
    known: Callable[[], Awaitable[Sequence[Tool]]], servers: str, waiting: Callable[[], str]
) -> Tool:
    """`known` are the tools there are by now, `servers` a text about where they come from, and `waiting`
    tells of servers that have not answered yet."""

    async def run(arguments: FindToolsArguments, place: CallContext) -> Output:
        del place
        ranked = _ranked(await known(), arguments.query)
        lines = [_shown(tool) for tool in ranked[:_SHOWN]]
        if rest := ranked[_SHOWN : _SHOWN + _NAMED]:
            lines.append(f"Also: {', '.join(tool.name for tool in rest)}.")
        if len(ranked) > _SHOWN + _NAMED:
            lines.append(f"{len(ranked) - _SHOWN - _NAMED} more fit; use other words.")
        lines += filter(None, [waiting()])
        return Output(text="\n\n".join(lines) or "No tool fits these words.")

    return Tool(
        name=FIND_TOOLS,
        description=f"{described(Path(__file__))} {servers}".strip(),
        arguments=FindToolsArguments,
        effect="none",
        run=run,
    )


def call_tool() -> Tool:
    async def run(_arguments: CallToolArguments, _place: CallContext) -> Output:
        raise AssertionError("the call that it stands for runs in its place")

    return Tool(
        name=CALL_TOOL,
        description=described(Path(__file__).with_name("call_tool.py")),
        arguments=CallToolArguments,
        effect="execute",
        stands_for=lambda given: (given.name, msgspec.json.encode(given.arguments).decode()),
        run=run,
    )


def _ranked(tools: Sequence[Tool], query: str) -> list[Tool]:
    """The tools that have a word of the query, the most words first; a name counts more than a text."""
    wanted = set(_WORD.findall(query.lower()))
    scores: list[tuple[float, str, Tool]] = []
    for tool in tools:
        if tool.name == query.strip():
            return [tool]
        name, text = set(_WORD.findall(tool.name.lower())), set(_WORD.findall(tool.description.lower()))
        score = sum(2 * _has(word, name) + _has(word, text) for word in wanted)
        if score or not wanted:
            scores.append((-score, tool.name, tool))
    return [tool for _, _, tool in sorted(scores, key=lambda each: each[:2])]


def _has(word: str, words: set[str]) -> float:
    return 1.0 if word in words else 0.5 if any(each.startswith(word) for each in words) else 0.0


def _shown(tool: Tool) -> str:
    schema = msgspec.json.encode(spec_of(tool).parameters).decode()
    cut = schema if len(schema) <= _MAX_SCHEMA else f"{schema[:_MAX_SCHEMA]}… (cut)"
    return f"{tool.name}: {tool.description}\n{cut}"
