"""Agents as Markdown files: a head that says what one may use, and a text that tells it what to do.

A head gives `name` and `description`, and may give `tools`, `model`, `effort`, `max-turns`, `isolation`,
`skills` and `max-tokens`. Names of tools are ours or those of Claude Code. Without `tools` an agent has those
of a session. Files are read here; nothing is run.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import cast, get_args

import msgspec

from mainspring.events import Effort, Isolation
from mainspring.patterns import lazy_pattern
from mainspring.workspace.skills import Broken, frontmatter, read_whole
from mainspring.workspace.user_commands import markdown_files, without_head

BUILTIN = Path(__file__).parent / "builtin"
_MAX_BYTES = 64 * 1024
_MAX_AGENTS = 100
_NAME = lazy_pattern(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
_WORD = lazy_pattern(r"[A-Za-z_][\w.-]*")

READERS = ("read", "find", "grep", "plan", "note")
"""Tools that leave everything as it was."""
_WORKING = ("read", "write", "edit", "patch", "find", "grep", "shell", "process", "wait")
CHILD_TOOLS = (*_WORKING, "fetch", "web_search", "plan")
"""What a child may have at most, the search where one is set up; its parent asks people what it needs."""
_OTHER_NAMES = {
    "Read": "read",
    "NotebookRead": "read",
    "Write": "write",
    "Edit": "edit",
    "MultiEdit": "edit",
    "NotebookEdit": "edit",
    "Grep": "grep",
    "Glob": "find",
    "LS": "find",
    "Bash": "shell",
    "BashOutput": "process",
    "KillShell": "process",
    "WebFetch": "fetch",
    "WebSearch": "web_search",
    "TodoWrite": "plan",
}
_WRITERS = frozenset({"write", "edit", "patch", "shell", "process"})


class Agent(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`tools` are ours, and `unknown_tools` what else its file names. `text` is told to the model; `whole` is
    the file. `is_projects`: it came with the workspace."""

    name: str
    description: str
    path: Path
    text: str
    whole: str
    tools: tuple[str, ...] = CHILD_TOOLS
    unknown_tools: tuple[str, ...] = ()
    model: str = ""
    effort: Effort | None = None
    max_turns: int | None = None
    max_tokens: int | None = None
    isolation: Isolation = "read-only"
    skills: tuple[str, ...] = ()
    is_projects: bool = False

    @property
    def is_widening(self) -> bool:
        """Whether it may do more than read the workspace, or chooses who is sent what it read: then a
        project's must be approved."""
        return bool(self.model) or not set(self.tools) <= set(READERS)


GENERAL = Agent(
    name="general",
    description="Any task, with the tools of this session.",
    path=BUILTIN,
    text="",
    whole="",
    isolation="worktree",
)
"""Who works where nobody is named."""


def find_agents(folders: Iterable[tuple[Path, bool]], root: Path) -> tuple[dict[str, Agent], list[Broken]]:
    """The agents in these folders and, behind them, ours, by name; a folder comes with whether it is the
    project's. Of two with one name the one found first is taken. What lies below `root` must not lead out."""
    found: dict[str, Agent] = {}
    broken: list[Broken] = []
    for folder, is_projects in (*folders, (BUILTIN, False)):
        for path in markdown_files(folder):
            agent = read_agent(path, root, is_projects=is_projects)
            if isinstance(agent, Broken):
                broken.append(agent)
            elif agent.name == GENERAL.name:
                broken.append(Broken(path, f"{GENERAL.name} is who works where no agent is named"))
            elif agent.name not in found and len(found) < _MAX_AGENTS:
                found[agent.name] = agent
            elif folder != BUILTIN:
                broken.append(Broken(path, f"there is another agent named {agent.name}"))
    return dict(sorted(found.items())), broken


def read_agent(path: Path, root: Path | None = None, *, is_projects: bool = False) -> Agent | Broken:
    whole = read_whole(path, root, max_bytes=_MAX_BYTES)
    if isinstance(whole, Broken):
        return whole
    head = frontmatter(whole)
    if head is None:
        return Broken(path, "it does not begin with a head between two lines of ---")
    text = without_head(whole).strip()
    name = head.get("name", "").strip() or path.stem
    if problem := _problem(name, head, text):
        return Broken(path, problem)
    named = _WORD.findall(head["tools"]) if "tools" in head else list(CHILD_TOOLS)
    tools = dict.fromkeys(_OTHER_NAMES.get(each, each) for each in named)
    known = tuple(each for each in tools if each in CHILD_TOOLS)
    effort, limit = head.get("effort", ""), _number(head, "max-turns", "max_turns", "maxTurns")
    return Agent(
        name=name,
        description=" ".join(head["description"].split()),
        path=path,
        text=text,
        whole=whole,
        tools=known,
        unknown_tools=tuple(each for each in tools if each not in CHILD_TOOLS),
        model="" if head.get("model") == "inherit" else head.get("model", ""),
        effort=next((each for each in get_args(Effort) if each == effort), None),
        max_turns=limit,
        max_tokens=_number(head, "max-tokens", "max_tokens", "maxTokens"),
        isolation=_isolation(head.get("isolation", ""), known),
        skills=tuple(_WORD.findall(head.get("skills", ""))),
        is_projects=is_projects,
    )


def _problem(name: str, head: dict[str, str], text: str) -> str:
    if not _NAME.fullmatch(name):
        return f"the name {name!r} may have letters, digits, hyphens and underscores"
    if not head.get("description", "").strip():
        return "its head needs a description"
    isolation, effort = head.get("isolation", ""), head.get("effort", "")
    if isolation and isolation not in get_args(Isolation):
        return f"isolation can be {', '.join(get_args(Isolation))}, not {isolation}"
    if effort and effort not in get_args(Effort):
        return f"effort can be {', '.join(get_args(Effort))}, not {effort}"
    for each in ("max-turns", "max_turns", "maxTurns", "max-tokens", "max_tokens", "maxTokens"):
        if each in head and not (head[each].isdecimal() and int(head[each])):
            return f"{each} must be a whole number above 0"
    return "" if text else "it has no text"


def _number(head: dict[str, str], *names: str) -> int | None:
    return next((int(head[name]) for name in names if name in head), None)


def _isolation(said: str, tools: Iterable[str]) -> Isolation:
    """What its file says; else by whether it has tools that change something."""
    if said in get_args(Isolation):
        return cast("Isolation", said)
    return "worktree" if _WRITERS.intersection(tools) else "read-only"
