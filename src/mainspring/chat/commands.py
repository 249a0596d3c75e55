"""What a person enters: a message, a slash command from the table, `!command` or `#text`.

`COMMANDS` is the one table: what is added to it is offered, completed and explained.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from mainspring.app.operations.attachments import Attached, attached, attachment, keep
from mainspring.app.operations.mcp_offers import with_resources
from mainspring.chat.desk import Desk, SlashCommand
from mainspring.chat.line import FILE_SUFFIXES, Chips, image_name
from mainspring.chat.look_commands import LOOK_COMMANDS, remember_line
from mainspring.chat.palette import LEGEND
from mainspring.chat.session_commands import SESSION_COMMANDS
from mainspring.chat.shell import run_shell
from mainspring.chat.user_commands import run_user_command, user_command_help
from mainspring.chat.width import wrapped
from mainspring.errors import UsageError
from mainspring.secrets.screen import plain

_IMAGE = re.compile(r"""@?(?:"([^"\n]+)"|'([^'\n]+)'|((?:\\.|[^\s\\])+))""")
_KEYS = (
    ("Enter", "send; while a turn runs, the message enters it between two steps"),
    ("Alt-Enter", "queue the message for after the turn"),
    ("Up", "on an empty line: take back what waits, else what was entered before"),
    ("Ctrl-J", "a new line, as Shift-Enter where the terminal reports it; Ctrl-X Ctrl-E opens your editor"),
    ("Tab", "complete a command or @path"),
    ("Shift-Tab", "choose what needs approval, as /mode"),
    ("Ctrl-R", "search in what was entered before"),
    ("Ctrl-V", "attach the image in the clipboard; a path of an image attaches that"),
    ("Esc", "stop the turn; twice: go back to an earlier message"),
    ("Ctrl-C", "stop the turn, or empty the line; twice: leave"),
    ("Ctrl-Z", "suspend; fg comes back"),
)
_ALONE = ("!", "#")
_LEAST_ROOM = 30
"""So many columns are wanted for what is said beside a name."""
_LINES = (
    ("!COMMAND", "run a command here; the model sees its output with your next message"),
    ("#TEXT", "remember something about this project"),
)


async def run_line(desk: Desk, line: str, chips: Chips) -> None:
    """Does what a line says."""
    if line.startswith("!") and line[1:].strip():
        await run_shell(desk, chips.whole(line[1:]).strip())
    elif line.startswith("#") and line[1:].strip() and "\n" not in line:
        await remember_line(desk, line[1:].strip())
    elif line.strip() in _ALONE:
        raise UsageError(f"{line.strip()} alone does nothing.", remedy="!COMMAND runs one, #TEXT remembers.")
    elif line.startswith("/") and not _is_path(line):
        await _run_command(desk, line)
    else:
        images = [attachment(image_name(chip), data) for chip, data in chips.images_in(line)]
        files = [*_named(line), *images]
        text = await with_resources(desk.config, desk.session.state.workspace, chips.whole(line))
        await (desk.own.say(text, await keep(desk.own, files)) if files else desk.say(text))


async def _run_command(desk: Desk, line: str) -> None:
    name, _, rest = line[1:].partition(" ")
    command = COMMANDS.get(name)
    if command is None and await run_user_command(desk, line):
        return
    if command is None:
        raise UsageError(f"There is no command /{name}.", remedy="/help lists them; /say TEXT says anything.")
    await command.run(desk, rest.strip())


def _is_path(line: str) -> bool:
    """Whether a line begins with a file of this machine, as when one is dropped on the terminal."""
    return "/" in line[1:].partition(" ")[0] and Path(line.partition(" ")[0]).exists()


def _named(line: str) -> list[Attached]:
    """Images and PDFs that a message names by path, as a terminal writes one that is dropped on it."""
    files: list[Attached] = []
    for found in _IMAGE.finditer(line):
        name = found[1] or found[2] or re.sub(r"\\(.)", r"\1", found[3])
        path = Path(name).expanduser()
        if name.lower().endswith(FILE_SUFFIXES) and path.is_file():
            files.append(attached(path))
    return files


async def _help(desk: Desk, name: str) -> None:
    palette = desk.surface.palette
    name = name.removeprefix("/")
    if name and name not in COMMANDS:
        raise UsageError(f"There is no command /{name}.", remedy="/help alone lists them.")
    chosen = {name: COMMANDS[name]} if name else COMMANDS
    columns = desk.surface.columns
    rows = _table([(f"/{each} {command.usage}", command.help) for each, command in chosen.items()], columns)
    has_keys, bold = not desk.surface.takes_lines, palette.paint
    keys = [bold("Keys", "bold"), *_table((*_KEYS, *_LINES) if has_keys else _LINES, columns), ""]
    legend = [bold("Marks", "bold"), *_table(LEGEND, columns), ""] if has_keys else []
    more = [] if name else [*keys, *legend]
    written = {} if name else user_command_help(desk.config, desk.session.state.workspace)
    yours = _table([(plain(f"/{each}"), plain(about)) for each, about in written.items()], columns)
    own = ["", bold("Commands that you or the project wrote", "bold"), *yours] if yours else []
    desk.write("\n".join([*more, bold("Commands", "bold"), *rows, *own]))


def _table(rows: Sequence[tuple[str, str]], columns: int) -> list[str]:
    """What is explained, and what is said of it: beside it, or below it where that is too narrow."""
    width = max((len(name) for name, _ in rows), default=0)
    room = columns - width - 4
    if room < _LEAST_ROOM:
        return [line for name, about in rows for line in (f"  {name}", wrapped(f"      {about}", columns))]
    lines: list[str] = []
    for name, about in rows:
        first, *rest = wrapped(about, room).split("\n")
        lines += [f"  {name:<{width}}  {first}", *(f"{' ' * (width + 4)}{each}" for each in rest)]
    return lines


COMMANDS: dict[str, SlashCommand] = {
    "help": SlashCommand(_help, "Commands, keys and marks.", "[COMMAND]"),
    **SESSION_COMMANDS,
    **LOOK_COMMANDS,
}
