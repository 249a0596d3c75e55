"""`/NAME` for commands that people wrote as Markdown files, and for prompts of MCP servers."""

from __future__ import annotations

from pathlib import Path

from mainspring.app.operations.mcp_offers import list_prompts
from mainspring.app.operations.trust import list_user_commands
from mainspring.app.operations.user_commands import prepare_line
from mainspring.chat.desk import Desk
from mainspring.settings import Config


async def run_user_command(desk: Desk, line: str) -> bool:
    """Says what the command of that name stands for; False when there is none."""
    state = desk.session.state
    prepared = await prepare_line(
        desk.config,
        state.workspace,
        line,
        mode=state.mode,
        sandbox=desk.options.sandbox,
        allow_home=True,  # as the session was allowed when it was opened in this very folder
    )
    if prepared is None:
        return False
    for notice in prepared.notices:
        desk.write(notice)
    if prepared.model:
        await desk.own.set_model(prepared.model)
    await desk.say(prepared.text)
    return True


def user_command_help(config: Config, workspace: Path) -> dict[str, str]:
    """A line for each, by its name."""
    found = {**list_user_commands(config, workspace)[0], **list_prompts(config, workspace)}
    return {name: " ".join(filter(None, (each.hint, each.description))) for name, each in found.items()}
