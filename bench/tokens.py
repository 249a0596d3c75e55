"""What every request of a new session weighs before anything was said, counted by a real tokenizer.

The tokenizer is gpt-tokenizer (o200k) from npm, locked in `requirements/node`; it is installed there first.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

from bench.measure import row
from mainspring.app.build import DEFAULT_TOOLS
from mainspring.context.prompt import context_message, prompt_parts, system_prompt
from mainspring.tools.toolbox import Toolbox

NODE = Path(__file__).parent.parent / "requirements" / "node"
_COUNT = """
const { encode } = require("gpt-tokenizer");
const texts = JSON.parse(require("fs").readFileSync(0));
console.log(JSON.stringify(texts.map((text) => encode(text).length)));
"""


def main() -> None:
    parts = prompt_parts(workspace=Path("/home/somebody/project"), mode="auto")
    tools = [
        {
            "type": "function",
            "function": {"name": each.name, "description": each.description, "parameters": each.parameters},
        }
        for each in Toolbox(DEFAULT_TOOLS).specs
    ]
    system, about, schemas = tokens([system_prompt(parts), context_message(parts), _json(tools)])
    row("system prompt", f"{system:,} tokens")
    row(f"schemas of {len(tools)} tools", f"{schemas:,} tokens")
    row("about the workspace, in the first message", f"{about:,} tokens")
    row(
        "start-up, before the user's text",
        f"{system + schemas + about:,} tokens",
        target="target 2,000 tokens",
    )


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
