"""Any agent that speaks the Agent Client Protocol, as a child process: `acp:COMMAND`.

The protocol's own package is loaded when a turn begins, from the extra `acp`.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from importlib.util import find_spec

from mainspring.engines.facts import EngineDescription
from mainspring.engines.messages import Item
from mainspring.engines.outside import Outside
from mainspring.engines.runner import EngineRun, Follow
from mainspring.errors import UsageError
from mainspring.sandbox import CommandResult as Exited
from mainspring.sandbox import Confinement, Sandbox
from mainspring.turns.endings import End


class _NoReader:
    """Its messages are read by the protocol's package."""

    def read(self, line: bytes) -> Iterator[Item]:
        raise NotImplementedError


FACTS = EngineDescription(
    name="acp",
    title="an agent that speaks ACP",
    reader=_NoReader,
    has_version=False,
)


def check_installed() -> None:
    if find_spec("acp") is None:
        raise UsageError(
            "Agents that speak ACP need a package that is not installed.",
            remedy='Install it: pip install "mainspring[acp]".',
        )


async def follow(
    outside: Outside, run: EngineRun, sandbox: Sandbox, policy: Confinement, prompt: str
) -> tuple[End, Exited | None]:
    converse: Follow = import_module("mainspring.engines.acp.talk").converse
    return await converse(outside, run, sandbox, policy, prompt)
