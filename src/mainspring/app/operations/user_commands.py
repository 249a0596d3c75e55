"""Commands that people wrote (`/NAME ARGUMENTS`), made into what is said: what they run is judged, confined
and on record like any command of a person, and a project's must have been approved as it is."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec

from mainspring.app.models import delegated_model, known_spec
from mainspring.app.operations.mcp_offers import prompt_text, with_resources
from mainspring.app.operations.trust import command_subject, entry_of, list_user_commands
from mainspring.app.operations.typed_commands import TypedCommand, run_typed
from mainspring.app.workspaces import AllowHome
from mainspring.errors import UsageError
from mainspring.settings import Config
from mainspring.workspace.user_commands import UserCommand, command_line, filled

_MAX_OUTPUT = 16_000


class PreparedCommand(msgspec.Struct, frozen=True, kw_only=True):
    """What is said for a command, with the model that it asks for, if there is such a model here, and what a
    person is told beside it."""

    text: str
    model: str = ""
    notices: Sequence[str] = ()


def find_user_command(config: Config, workspace: Path, line: str) -> tuple[UserCommand, str] | None:
    """The command that a line names, and its arguments; None for any other text."""
    if not line.startswith("/"):
        return None
    name, _, arguments = line[1:].partition(" ")
    command = list_user_commands(config, workspace)[0].get(name.strip())
    return (command, arguments.strip()) if command else None


async def prepare_line(
    config: Config,
    workspace: Path,
    line: str,
    *,
    mode: str = "",
    sandbox: str = "",
    allow_home: AllowHome = False,
) -> PreparedCommand | None:
    """What is said for a line that names a command, or a prompt or resources of a server; None for any other
    text, which is said as it is."""
    if found := find_user_command(config, workspace, line):
        return await prepare_user_command(
            config, workspace, *found, mode=mode, sandbox=sandbox, allow_home=allow_home
        )
    text = await prompt_text(config, workspace, line)
    text = await with_resources(config, workspace, line) if text is None else text
    return PreparedCommand(text=text) if text != line else None


async def prepare_user_command(
    config: Config,
    workspace: Path,
    command: UserCommand,
    arguments: str,
    *,
    mode: str = "",
    sandbox: str = "",
    allow_home: AllowHome = False,
) -> PreparedCommand:
    """Runs what its text asks for, and fills it in. Whoever enters the command consents to that."""
    subject = command_subject(command)
    if subject and (entry := entry_of(config, subject)).state != "trusted":
        how = "changed since it was approved" if entry.state == "changed" else "runs commands"
        raise UsageError(
            f"/{command.name} comes with this project and {how}.",
            remedy=f"See what it would run and approve it: mainspring trust add /{command.name}",
        )
    outputs: dict[str, str] = {}
    for line in dict.fromkeys(command.runs):
        ran = await run_typed(
            config,
            workspace,
            command_line(line, arguments),
            mode=mode,
            sandbox=sandbox,
            allow_home=allow_home,
        )
        outputs[line] = _bounded(ran)
    model, notices = _model(config, command)
    return PreparedCommand(text=filled(command, arguments, outputs), model=model, notices=notices)


def _bounded(ran: TypedCommand) -> str:
    """What it printed, bounded, and how it ended when that was not well."""
    text = ran.output
    if len(text) > _MAX_OUTPUT:
        text = f"{text[:_MAX_OUTPUT]}\n[cut here: {len(text):,} characters]"
    return text if ran.is_ok else f"{text}\n[{ran.ending}]".lstrip()


def _model(config: Config, command: UserCommand) -> tuple[str, Sequence[str]]:
    """Command files of other agents name models that only those know."""
    if not command.model or command.model == "inherit":
        return "", ()
    try:
        if command.is_projects and "@" in command.model:
            delegated_model(command.model, config)  # refuses an address that the user did not set up
        known_spec(command.model, config)
    except UsageError:
        return "", (f"/{command.name} asks for the model {command.model}, which is not set up here.",)
    return command.model, ()
