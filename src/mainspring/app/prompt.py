"""The prompt of a new session: what people wrote down for agents, the skills and the memory of a project."""

from __future__ import annotations

from pathlib import Path

from mainspring.app.plugins import UsedPlugins, usable_folders
from mainspring.app.session_index import repository_map
from mainspring.approvals import Mode
from mainspring.context.prompt import PROGRAM, prompt_parts
from mainspring.events import Profile, PromptPart
from mainspring.secrets.vault import Vault
from mainspring.settings import Config
from mainspring.workspace.instructions import find_instructions, repository_root
from mainspring.workspace.kinds import skills_for
from mainspring.workspace.memory import ProjectMemory
from mainspring.workspace.project import look_at
from mainspring.workspace.skills import Broken, Skill, find_skills

_SKILL_FOLDERS = (".agents", ".mainspring", ".claude")


def compose_prompt(
    workspace: Path,
    mode: Mode,
    config: Config,
    profile: Profile = "standard",
    plugins: UsedPlugins | None = None,
) -> tuple[list[tuple[PromptPart, str]], tuple[str, ...]]:
    """The prompt of a new session, with what people wrote down for agents; and a sentence for each
    file of theirs that could not be read."""
    skills, broken = skills_of(workspace, config, plugins)
    instructions = find_instructions(workspace, config.folder)
    unread = [(item.path, item.problem) for item in instructions if item.problem]
    unread += [(item.path, item.problem) for item in broken if item.is_unreadable]
    parts = prompt_parts(
        workspace=workspace,
        mode=mode,
        instructions=[item for item in instructions if not item.problem],
        skills=[each for each in skills if profile != "small" or not each.is_ours],
        project=look_at(workspace),
        memory=memory_of(workspace, config).load(),
        repository_map=repository_map(workspace, config, profile),
        profile=profile,
    )
    return parts, tuple(f"{path} is not used: {problem}." for path, problem in unread)


def new_prompt(
    workspace: Path,
    mode: Mode,
    config: Config,
    instructions: str,
    system_prompt: str | None,
    profile: Profile,
    plugins: UsedPlugins,
    *,
    is_new: bool,
) -> tuple[list[tuple[PromptPart, str]], tuple[str, ...]]:
    """The system prompt as a program wants it, with warnings. An earlier session keeps the one that it began
    with."""
    if not is_new:
        return [], ()
    parts, warnings = list[tuple[PromptPart, str]](), tuple[str, ...]()
    if system_prompt is None:
        parts, warnings = compose_prompt(workspace, mode, config, profile, plugins)
    given = (("system", system_prompt or ""), ("instructions", instructions))
    parts += [(PromptPart(name=name, source=PROGRAM, size=len(text)), text) for name, text in given if text]
    return parts, warnings


def skills_of(
    workspace: Path, config: Config, plugins: UsedPlugins | None = None
) -> tuple[list[Skill], list[Broken]]:
    """The skills for work in a folder: the project's, the user's, those of plugins, and ours for its kind
    that none of these replaces; and those that cannot be used."""
    home = Path(config.variable("HOME") or "/")
    projects = (workspace / "skills", *(workspace / name / "skills" for name in _SKILL_FOLDERS))
    users = (config.folder / "skills", *(home / name / "skills" for name in (".agents", ".claude")))
    folders = plugins.folders if plugins else usable_folders(config, workspace)[0]
    added = (place for each in folders for place in each.skills)
    found, broken = find_skills(*projects, *users, *added, root=workspace)
    names = {each.name for each in found}
    ours = skills_for(workspace) if config.settings.work.kind_skills else []
    return sorted((*found, *(each for each in ours if each.name not in names)), key=_name), broken


def _name(skill: Skill) -> str:
    return skill.name


def memory_of(workspace: Path, config: Config, vault: Vault | None = None) -> ProjectMemory:
    """What is remembered about the project that a folder belongs to. Without the vault of a session, secrets
    are those of the settings."""
    vault = vault or Vault(config.secrets)
    return ProjectMemory(config.home, repository_root(workspace), hide=vault.redact)
