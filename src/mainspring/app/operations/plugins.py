"""The plugins here, with what each brings and what is wrong with it; folders are added, approved and removed,
and a new package is begun."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

import msgspec

from mainspring.app.operations.trust import TrustEntry, approve, entry_of, list_trusted, revoke_trust
from mainspring.app.plugins import load_plugins, plugin_folders, why_unusable
from mainspring.approvals.trust import TrustSubject
from mainspring.disk.files import close_tree, make_folder
from mainspring.errors import UsageError
from mainspring.plugins import Plugin
from mainspring.plugins.folders import PluginFolder, read_folder
from mainspring.plugins.installed import InstalledPlugin, installed_plugins
from mainspring.plugins.loading import is_plugin_name
from mainspring.plugins.template import files_of
from mainspring.secrets.screen import plain_name
from mainspring.settings import Config
from mainspring.workspace.git import clone

PluginState = Literal["ready", "failed", "disabled", "unapproved"]
PluginKind = Literal["package", "folder"]


class PluginEntry(msgspec.Struct, frozen=True, kw_only=True):
    """`source` is where it comes from, `brings` what it adds, in words, `problem` why it is not used."""

    name: str
    kind: PluginKind
    source: str
    state: PluginState
    version: str = ""
    brings: tuple[str, ...] = ()
    problem: str = ""


class FetchedPlugin(msgspec.Struct, frozen=True, kw_only=True):
    """A folder that can be added: what it would be, and what changes from what is there under its name."""

    folder: PluginFolder
    target: Path
    entry: TrustEntry


def list_plugins(config: Config, workspace: Path) -> list[PluginEntry]:
    """All plugins for work in a folder; packages in use are loaded for it."""
    used = load_plugins(config, is_fresh=True)
    ready = {each.found: brought_by(each.plugin) for each in used.loaded}
    problems = {each.name: each.problem for each in used.failed}
    packages = [_package(found, ready, problems) for found in installed_plugins(config.home)]
    return packages + [_folder(each, config) for each in plugin_folders(config, workspace)]


def _package(
    found: InstalledPlugin, ready: dict[InstalledPlugin, tuple[str, ...]], problems: dict[str, str]
) -> PluginEntry:
    name = plain_name(found.name)[:80]
    problem = "" if found in ready else problems.get(name, "")
    return PluginEntry(
        name=name,
        kind="package",
        source=plain_name(found.package),
        state="ready" if found in ready else "failed" if problem else "disabled",
        version=plain_name(found.version),
        brings=ready.get(found, ()),
        problem=problem,
    )


def _folder(found: PluginFolder, config: Config) -> PluginEntry:
    settings = config.settings.plugins
    is_off = not settings.enabled or found.name in settings.disabled
    problem = "" if is_off else why_unusable(found, list_trusted(config))
    state = "disabled" if is_off else "failed" if found.problem else "unapproved" if problem else "ready"
    return PluginEntry(
        name=plain_name(found.name)[:80],
        kind="folder",
        source=str(found.path),
        state=state,
        version=plain_name(found.version),
        brings=_in_folder(found),
        problem=plain_name(problem),
    )


def brought_by(plugin: Plugin) -> tuple[str, ...]:
    """What a plugin adds, in words."""
    named = {
        "tool": [tool.name for tool in plugin.tools],
        "model": [f"{name}/…" for name in plugin.models],
        "engine": list(plugin.engines),
        "check": [f"plugin:{plugin.name}/{name}" for name in plugin.checks],
        "command": [f"/{plugin.name}:{name}" for name in plugin.commands],
    }
    found = [f"{what} {name}" for what, names in named.items() for name in sorted(names)]
    more = {"event subscriber": plugin.subscribers, "hooks": plugin.hooks}
    return (*found, *(what for what, value in more.items() if value))


def _in_folder(folder: PluginFolder) -> tuple[str, ...]:
    found = {"commands": folder.commands, "agents": folder.agents, "skills": folder.skills}
    servers = (f"server {entry.name}" for entry in folder.servers)
    return (*(what for what, places in found.items() if places), *(("hooks",) * bool(folder.hooks)), *servers)


def is_package(source: str) -> bool:
    """Whether what is to be added is a Python package: a name, or a folder with a `pyproject.toml`."""
    path = Path(source).expanduser()
    if source.startswith(("/", "./", "../", "~")) and not path.exists():
        raise UsageError(f"There is no {path}.", remedy="Name a folder, a git repository or a package.")
    return (path / "pyproject.toml").is_file() if path.is_dir() else not _is_repository(source)


def _is_repository(source: str) -> bool:
    return source.startswith(("git@", "git+")) or "://" in source or source.endswith(".git")


@contextmanager
def fetched_plugin(config: Config, source: str) -> Generator[FetchedPlugin]:
    """A copy of a folder, or of a repository, as it would be added; `UsageError` when it is no plugin."""
    with tempfile.TemporaryDirectory(prefix="mainspring-plugin-") as scratch:
        copy = Path(scratch) / (Path(source.rstrip("/")).name.removesuffix(".git") or "plugin")
        if (path := Path(source).expanduser()).is_dir():
            shutil.copytree(path.resolve(), copy, symlinks=True, ignore=shutil.ignore_patterns(".git"))
        else:
            clone(source.removeprefix("git+"), copy, config.environment)
            shutil.rmtree(copy / ".git", ignore_errors=True)
        folder = read_folder(copy)
        if folder.problem or not _in_folder(folder):
            why = folder.problem or "it has no commands, agents, skills, hooks or servers"
            raise UsageError(f"{source} is not a plugin that can be used: {why}.")
        target = config.folder / "plugins" / folder.name
        subject = _subject_at(folder, target)
        yield FetchedPlugin(folder=folder, target=target, entry=entry_of(config, subject))


def add_folder(config: Config, fetched: FetchedPlugin) -> None:
    """Puts a folder that a person has seen in its place, and approves it."""
    make_folder(fetched.target.parent)
    fresh = fetched.target.with_name(f".{fetched.target.name}.new")
    shutil.rmtree(fresh, ignore_errors=True)
    shutil.copytree(fetched.folder.path, fresh, symlinks=True)
    close_tree(fresh)
    if fetched.target.exists():
        shutil.rmtree(fetched.target)
    fresh.rename(fetched.target)
    approve(config, fetched.entry.subject)


def _subject_at(folder: PluginFolder, target: Path) -> TrustSubject:
    return msgspec.structs.replace(folder.subject, path=str(target))


def waiting_folders(config: Config, workspace: Path, name: str = "") -> list[TrustEntry]:
    """What of the folders, or of one, a person has not approved as it is."""
    found = [each for each in plugin_folders(config, workspace) if name in ("", each.name)]
    if name and not found:
        raise UsageError(
            f"There is no plugin folder {name!r}.", remedy="`mainspring plugins list` lists them."
        )
    entries = [entry_of(config, each.subject) for each in found if not each.problem]
    return [entry for entry in entries if entry.state != "trusted"]


def remove_folder(config: Config, name: str) -> Path | None:
    """Deletes a folder that was added, with its approval; None when there is none of that name."""
    target = config.folder / "plugins" / name
    if not is_plugin_name(name) or not target.is_dir():
        return None
    shutil.rmtree(target)
    for each in list_trusted(config):
        if (each.kind, each.path) == ("plugin", str(target)):
            revoke_trust(config, each.id)
    return target


def package_of(config: Config, name: str) -> str:
    """The package that a plugin comes from; `UsageError` when there is none."""
    found = [each.package for each in installed_plugins(config.home, is_fresh=True) if each.name == name]
    if not found:
        raise UsageError(f"There is no plugin {name!r}.", remedy="`mainspring plugins list` lists them.")
    return found[0]


def begin_plugin(name: str, folder: Path) -> Path:
    """Writes a package that is a plugin, with a test; `UsageError` when its folder is there already."""
    if not is_plugin_name(name):
        raise UsageError(
            f"{name!r} is no name for a plugin.", remedy="Use lower-case letters, digits and hyphens."
        )
    target = folder / f"mainspring-{name}"
    if target.exists():
        raise UsageError(
            f"{target} is there already.", remedy="Choose another name, or another folder with -C."
        )
    for path, text in files_of(name).items():
        file = target / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    return target
