"""What every request of a new session weighs before anything was said, counted by a real tokenizer.

The tokenizer is gpt-tokenizer (o200k) from npm, locked in `requirements/node`; it is installed there first.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from pathlib import Path

from bench.measure import row
from mainspring.agents.delegate import DelegateArguments, delegate_tool
from mainspring.agents.files import find_agents
from mainspring.app.build import DEFAULT_TOOLS
from mainspring.context.prompt import context_message, prompt_parts, system_prompt
from mainspring.events import Profile, ToolSpec
from mainspring.models.actions import described as described_actions
from mainspring.tools import CallContext, Output, Tool
from mainspring.tools.small import SMALL_TOOLS
from mainspring.tools.toolbox import Toolbox

NODE = Path(__file__).parent.parent / "requirements" / "node"
_COUNT = """
const { encode } = require("gpt-tokenizer");
const texts = JSON.parse(require("fs").readFileSync(0));
console.log(JSON.stringify(texts.map((text) => encode(text).length)));
"""


def main() -> None:
    rows: list[tuple[Profile, Sequence[Tool], int]] = [
        ("standard", standard_tools(), 2000),
        ("small", SMALL_TOOLS, 700),
    ]
    for profile, tools, most in rows:
        parts = prompt_parts(workspace=Path("/home/somebody/project"), mode="auto", profile=profile)
        specs = Toolbox(tools).specs
        texts = [system_prompt(parts), context_message(parts), _json([_wire(each) for each in specs])]
        system, about, schemas, described = tokens([*texts, described_actions(texts[0], specs)])
        row(f"{profile}: system prompt", f"{system:,} tokens")
        row(f"{profile}: schemas of {len(specs)} tools", f"{schemas:,} tokens")
        row(f"{profile}: about the workspace, in the first message", f"{about:,} tokens")
        target = f"target {most:,} tokens"
        row(
            f"{profile}: start-up, before the user's text",
            f"{system + schemas + about:,} tokens",
            target=target,
        )
        if profile == "small":
            row(f"{profile}: the same, held to a schema", f"{described + about:,} tokens", target=target)


def standard_tools() -> Sequence[Tool]:
    """What a session has whose user wrote no agents of their own."""
    ours, _ = find_agents((), Path("/"))
    return (*DEFAULT_TOOLS, delegate_tool(ours.values(), _nobody, lambda _: "none"))


async def _nobody(arguments: DelegateArguments, place: CallContext) -> Output:
    raise NotImplementedError


def _wire(tool: ToolSpec) -> dict[str, object]:
    about = {"name": tool.name, "description": tool.description, "parameters": tool.parameters}
    return {"type": "function", "function": about}


def tokens(texts: list[str]) -> list[int]:
    """How many tokens each text has."""
    if not (NODE / "node_modules").exists():
        subprocess.run(["npm", "ci", "--silent"], cwd=NODE, check=True)
    counted = subprocess.run(
        ["node", "-e", _COUNT], cwd=NODE, input=_json(texts), capture_output=True, text=True, check=True
    )
    return json.loads(counted.stdout)


def _json(value: object) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)
