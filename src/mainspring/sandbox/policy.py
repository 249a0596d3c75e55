"""What a run may write, read and reach; said once and obeyed by every rung and by the file tools.

A protected name is one that makes somebody else's program run code: a hook, an editor's task, an
agent's settings. It cannot be written inside the workspace at any depth, even while it is still missing.
A held name is one that people do ask agents to write (`AGENTS.md`, `.npmrc`): commands cannot change it
either, a file tool can, and the approval policy asks first.
A hidden path is a secret and cannot be read. Patterns are matched against resolved paths.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from contextlib import suppress
from functools import cache, lru_cache
from pathlib import Path
from typing import Literal

import msgspec

from mainspring.sandbox.hidden import (
    HIDDEN_NAMES,
    SHOWN_NAMES,
    is_key,
    is_of_package,
    may_be_key,
    names_matching,
)
from mainspring.sandbox.places import secrets_of, startup_files

Mode = Literal["read-only", "workspace-write", "full"]
PRIVATE_FOLDERS = (Path("/tmp"), Path("/var/tmp"), Path("/run"))  # noqa: S108 - a sandbox has its own of these

_PROTECTED_NAMES = """
    .vscode .idea .zed .fleet .devcontainer .envrc .exrc .nvimrc .nvim.lua .mcp.json .mainspring
    .claude .codex .gemini .cursor .agents .opencode .continue .windsurf .roo .kiro .aider.conf.yml"""

_INSTRUCTIONS = """
    agents.md claude.md gemini.md copilot-instructions.md .cursorrules .windsurfrules .clinerules
    .goosehints"""
_TOOL_SETTINGS = """
    .husky .npmrc .yarnrc .yarnrc.yml .pnpmfile.cjs .pnpmfile.mjs .pre-commit-config.yaml lefthook.yml
    .lefthook.yml .mise.toml mise.toml .gdbinit .lldbinit .dir-locals.el opencode.json opencode.jsonc"""

PROTECTED_IN_GIT = ("hooks", "config", "config.worktree", "commondir", "gitdir", "info/attributes")
_IN_REPOSITORIES = {
    "/.hg": frozenset({"hgrc", "hgrc-not-shared", "sharedpath"}),
    "/.jj": frozenset({"workspace-config.toml"}),
    "/.jj/repo": frozenset({"config.toml"}),
}
"""Settings of other version control systems that run programs, by the folder they lie in."""
_REPOSITORIES = (frozenset({"HEAD", "objects", "refs"}), frozenset({"HEAD", "commondir"}))
"""What git itself looks for in a folder of any name: a repository, or one that borrows from another."""

PROTECTED_NAMES = tuple(_PROTECTED_NAMES.split())
INSTRUCTION_NAMES = tuple(_INSTRUCTIONS.split())
HELD_NAMES = (*INSTRUCTION_NAMES, *_TOOL_SETTINGS.split())

MAX_FOLDERS = 50_000
"""How many folders of a workspace are looked through for protected and hidden names."""


class Network(msgspec.Struct, frozen=True):
    """`hosts` are reached through a proxy of ours and matter in the mode `hosts` alone: "example.org",
    "*.example.org", "localhost:8080"."""

    mode: Literal["off", "full", "hosts"] = "off"
    hosts: tuple[str, ...] = ()


class Confinement(msgspec.Struct, frozen=True, kw_only=True, cache_hash=True):
    """`workspace`, `writable` and `readable` are resolved when the policy is made (`policy`).

    `granted` lifts protection and hiding from names (".vscode", ".env") or absolute paths; `shown` (names as
    in a shell) and `shown_paths` lift hiding alone. Keys in files from before `begun_ns` are hidden.
    `memory_bytes`, `disk_bytes` and `new_files` hold for commands that have no such limit of their own; 0 is
    no limit, and memory that nobody spoke of is a share of the machine, where cgroups can limit it.
    """

    workspace: Path
    mode: Mode = "workspace-write"
    network: Network = Network()
    writable: tuple[Path, ...] = ()
    readable: tuple[Path, ...] = ()
    protected_names: tuple[str, ...] = PROTECTED_NAMES
    held_names: tuple[str, ...] = HELD_NAMES
    protected_paths: tuple[Path, ...] = ()
    hidden_names: tuple[str, ...] = HIDDEN_NAMES
    hidden_paths: tuple[Path, ...] = ()
    granted: tuple[str, ...] = ()
    shown: tuple[str, ...] = ()
    shown_paths: tuple[Path, ...] = ()
    begun_ns: int = 0
    memory_bytes: int | None = None
    disk_bytes: int = 0
    new_files: int = 0

    def roots(self) -> tuple[Path, ...]:
        """Where a command may write."""
        match self.mode:
            case "read-only":
                return self.writable
            case "workspace-write":
                return (self.workspace, *self.writable)
            case "full":
                return (Path("/"),)

    def refuses_write(self, path: Path) -> str:
        """Why a resolved path may not be written, or nothing."""
        if self.mode == "read-only":
            return "this session is read-only"
        if not any(path.is_relative_to(root) for root in self.roots()):
            return f"it is outside the workspace {self.workspace}"
        if why := self.refuses_read(path):
            return why
        if name := self.protected_part(path):
            return f"`{name}` is protected, because it can make other programs run code"
        return ""

    def refuses_read(self, path: Path) -> str:
        """Why a resolved path may not be read, or nothing."""
        if self.is_shown(path):
            return ""
        # Asked about every file of a workspace: as `is_relative_to` of each, in a fiftieth of the time.
        if not _distinct(self.hidden_paths).isdisjoint((path, *path.parents)):
            return "it is a hidden secret"
        if any(is_hidden_name(part, self) for part in path.parts):
            return "files of that name hold secrets"
        if may_be_key(path.name) and self.is_hidden_key(path):
            return "it holds a private key"
        return ""

    def is_hidden_key(self, path: Path) -> bool:
        is_shown = names_matching(self.shown)(path.name) or self.is_shown(path)
        return not is_shown and is_key(path, begun_ns=self.begun_ns)

    def is_shown(self, path: Path) -> bool:
        """Whether a person said that a path may be read, whatever it is."""
        shown = (*self.readable, *self.shown_paths)
        return any(path.is_relative_to(each) for each in shown) or self._is_granted(path)

    def names_held_in(self, folder: str) -> AbstractSet[str]:
        """Names that commands cannot change in a folder."""
        # No tool of the user looks for held names below packages.
        names = _held(self.protected_names, () if is_of_package(folder) else self.held_names)
        return names | next((more for end, more in _IN_REPOSITORIES.items() if folder.endswith(end)), _NONE)

    def protected_part(self, path: Path) -> str:
        """The part of a path that makes it protected, or nothing."""
        if self._is_granted(path):
            return ""
        if found := next((str(data) for data in self.protected_paths if path.is_relative_to(data)), ""):
            return found
        parts = path.parts
        for index, part in enumerate(parts):
            if part.casefold() in self.protected_names and part not in self.granted:
                return part
            is_inside_git = any(above.casefold() == ".git" for above in parts[:index])
            if is_inside_git and ".git" not in self.granted and _is_protected_in_git(parts[index:]):
                return f".git/{part}"
            if part in _IN_REPOSITORIES.get(_repository_end(parts[:index]), ()):
                return part
        if ".git" not in self.granted and (found := self._part_of_repository(path)):
            return found
        # A `.git` file points elsewhere, at a folder whose hooks would then run.
        is_git_itself = parts[-1:] == (".git",)
        return ".git" if is_git_itself and ".git" not in self.granted and not path.is_dir() else ""

    def _part_of_repository(self, path: Path) -> str:
        """As for `.git`, in a folder of another name that is a repository, or would become one by this."""
        for folder in path.parents:
            if not any(folder.is_relative_to(root) for root in self.roots()):
                break
            name = path.relative_to(folder).parts[0]
            names = _names_in(folder)
            if not is_repository(names | {name}):
                continue
            if _is_protected_in_git(path.relative_to(folder).parts):
                return f"{folder.name}/{name}"
            if not is_repository(names) and (found := names.intersection(PROTECTED_IN_GIT)):
                return f"{folder.name}/{min(found)}"
        return ""

    def held_inside(self) -> tuple[Path, ...]:
        """Protected and hidden paths below where a command may write: in a workspace that holds the home."""
        return _held_inside(self)

    def protected_inside(self) -> tuple[Path, ...]:
        """Protected paths that a command could otherwise write."""
        return _protected_inside(self)

    def _is_granted(self, path: Path) -> bool:
        return any(
            path.is_relative_to(grant) if grant.startswith("/") else grant in path.parts
            for grant in self.granted
            if grant != ".git"
        )


_NONE: frozenset[str] = frozenset()


# Every command asks for these, and they follow from the policy alone.
@lru_cache(maxsize=64)
def _held_inside(policy: Confinement) -> tuple[Path, ...]:
    roots = (policy.workspace, *policy.writable) if policy.mode != "full" else ()
    known = dict.fromkeys((*policy.protected_paths, *policy.hidden_paths))
    below = tuple(f"{str(root).rstrip('/')}/" for root in roots)
    return tuple(path for path in known if f"{path}".startswith(below))


@lru_cache(maxsize=64)
def _protected_inside(policy: Confinement) -> tuple[Path, ...]:
    roots = policy.roots()
    return tuple(path for path in policy.protected_paths if any(path.is_relative_to(root) for root in roots))


@lru_cache(maxsize=64)
def _distinct(paths: tuple[Path, ...]) -> frozenset[Path]:
    return frozenset(paths)


@cache
def _held(*names: tuple[str, ...]) -> frozenset[str]:
    return frozenset(name for some in names for name in some)


def _is_protected_in_git(below: tuple[str, ...]) -> bool:
    """Whether a path below a repository is, or lies in, one of its parts that run programs."""
    return not {below[0].casefold(), "/".join(below[:2]).casefold()}.isdisjoint(PROTECTED_IN_GIT)


def _repository_end(parts: tuple[str, ...]) -> str:
    return f"/{'/'.join(parts[-2:])}" if parts[-2:-1] == (".jj",) else f"/{parts[-1]}" if parts else ""


def is_repository(names: AbstractSet[str]) -> bool:
    """Whether git takes a folder with these names in it for a repository."""
    return any(names >= needed for needed in _REPOSITORIES)


def _names_in(folder: Path) -> frozenset[str]:
    """Those of the names that matter to git."""
    wanted = frozenset(PROTECTED_IN_GIT).union(*_REPOSITORIES)
    return frozenset(name for name in wanted if os.path.lexists(folder / name))


def is_instructions(path: Path) -> bool:
    """Whether a file is one in which people write down what agents shall do."""
    return path.name.casefold() in INSTRUCTION_NAMES


def is_hidden_name(name: str, policy: Confinement) -> bool:
    if not names_matching(policy.hidden_names)(name) or name in policy.granted:
        return False
    return not names_matching((*SHOWN_NAMES, *policy.shown))(name)


def policy(
    workspace: Path,
    *,
    home: Path,
    data: Path | None = None,
    settings: Path | None = None,
    environment: Mapping[str, str] | None = None,
    mode: Mode = "workspace-write",
    network: Network | None = None,
    writable: tuple[Path, ...] = (),
    readable: tuple[Path, ...] = (),
    granted: tuple[str, ...] = (),
) -> Confinement:
    """The usual policy of a workspace. `data` and `settings` are mainspring's own folders: hidden, wherever
    they lie, but for the skills and plugins among the settings. `environment` says where programs keep their
    secrets."""
    home = home.resolve()
    own = tuple(dict.fromkeys(path.resolve() for path in (data, settings) if path))
    shown = tuple(settings.resolve() / name for name in ("skills", "plugins")) if settings else ()
    made = Confinement(
        workspace=workspace.resolve(),
        mode=mode,
        network=network or Network(),
        writable=tuple(path.resolve() for path in writable),
        readable=(*(path.resolve() for path in readable), *shown),
        protected_paths=(*own, *shown, *startup_files(home, environment)),
        hidden_paths=(*secrets_of(home, environment), *own),
        granted=granted,
        begun_ns=time.time_ns(),
    )
    above = tuple(_secrets_above(made))
    return msgspec.structs.replace(made, hidden_paths=(*made.hidden_paths, *above))


def _secrets_above(made: Confinement) -> Iterator[Path]:
    """`.env` files in the folders above a workspace: programs in it would find them."""
    for folder in made.workspace.parents:
        with suppress(OSError):
            names = [name for name in os.listdir(folder) if name.startswith(".env")]
            yield from (folder / name for name in names if is_hidden_name(name, made))
