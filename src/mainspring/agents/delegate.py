"""`delegate`: gives a task to an agent. What runs it is told by whoever offers the tool."""

from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from typing import Annotated, Literal

from msgspec import Meta

from mainspring.agents.files import Agent
from mainspring.approvals import Effect
from mainspring.events import Isolation
from mainspring.tools import CallContext, Output, Tool
from mainspring.tools.files import described
from mainspring.tools.schema import Arguments

NAME = "delegate"
_MAX_LIST = 1200


class DelegateArguments(Arguments, frozen=True):
    task: Annotated[str, Meta(min_length=1)]
    agent: str = ""
    model: str = ""
    isolation: Literal["", "read-only", "worktree"] = ""
    background: Annotated[bool, Meta(description="You are told its end")] = False
    budget: Annotated[float, Meta(gt=0, description="USD at most")] | None = None


def delegate_tool(
    agents: Iterable[Agent],
    run: Callable[[DelegateArguments, CallContext], Awaitable[Output]],
    effect_of: Callable[[DelegateArguments], Effect],
) -> Tool:
    """`effect_of` says whether a call gives work to somebody who writes."""
    lines = "\n".join(f"- {each.name}: {each.description}" for each in agents)
    listed = lines if len(lines) <= _MAX_LIST else f"{lines[:_MAX_LIST].rpartition(chr(10))[0]}\n…"
    return Tool(
        name=NAME,
        description=f"{described(Path(__file__))}\n{listed}",
        arguments=DelegateArguments,
        effect="write",
        effect_of=effect_of,
        goes_on=True,
        run=run,
    )


def isolation_of(arguments: DelegateArguments, agent: Agent, mode: str) -> Isolation:
    """A call may ask for less than an agent has, not for more; nor may a parent that only reads."""
    return (
        "read-only"
        if "read-only" in (arguments.isolation, agent.isolation) or mode == "plan"
        else agent.isolation
    )
