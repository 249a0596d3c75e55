"""Which hooks there are: files with a member `hooks` in the form of Claude Code's settings, read as data.

A file that a project brings, or that was written for another program, is code: none of its hooks runs before
a person approved them as they are (`TrustSubject`). What they run inside the workspace belongs to that:
scripts that their commands name are part of what is approved, and a script that changed since is not run.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any

import msgspec

from mainspring.approvals.trust import TrustSubject
from mainspring.disk.untrusted import read_untrusted_text
from mainspring.events import HOOK_EVENTS, HookEvent
from mainspring.events.decoding import DECODE_ERRORS
from mainspring.hooks.answers import GUARDING
from mainspring.hooks.code import NOT_THERE, PLUGIN_VARIABLES, ROOT_VARIABLES, code_of, sha256_of

_MAX_BYTES = 1 << 20
_MAX_HOOKS = 200
DEFAULT_TIMEOUT_S = 60.0
_MAX_TIMEOUT_S = 600.0
_EVERYTHING = ("", "*")


class HookSource(msgspec.Struct, frozen=True, kw_only=True):
    """A file that may have hooks. `is_own`: the user wrote it for mainspring, so nothing has to be approved.
    `plugin` is the folder of the plugin that brings it, which was approved as a whole. `label` names it for
    people."""

    path: Path
    label: str
    is_own: bool = False
    plugin: Path | None = None


class Hook(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """A command that runs when something happens. `problem` says why it cannot be run; `code` has the hashes
    of files in the workspace that it runs, `unknown` says why these may not be all."""

    event: HookEvent
    command: str
    matcher: str = ""
    timeout_s: float = DEFAULT_TIMEOUT_S
    fail_open: bool = False
    source: str = ""
    problem: str = ""
    plugin: str = ""
    code: tuple[tuple[str, str], ...] = ()
    unknown: tuple[str, ...] = ()

    @cached_property
    def _pattern(self) -> re.Pattern[str] | None:
        try:
            return re.compile(self.matcher)
        except re.error:
            return None

    @property
    def is_matcher_valid(self) -> bool:
        return self.matcher in _EVERYTHING or self._pattern is not None

    def matched(self, names: Sequence[str]) -> str | None:
        """The first of these names that it is for; a matcher that is not valid is for all, which is safe."""
        if self.matcher in _EVERYTHING or self._pattern is None:
            return names[0] if names else ""
        return next((name for name in names if self._pattern.fullmatch(name)), None)

    def why_changed(self, workspace: Path) -> str:
        """Which file that it runs is no longer what it was; empty when none is."""
        for name, sha256 in self.code:
            if sha256_of(workspace / name, workspace) != sha256:
                return f"{name} changed since the session began"
        return ""


class HookFile(msgspec.Struct, frozen=True, kw_only=True):
    """What a source has. `problem` says why nothing of it can be used; with a `subject` a person must have
    approved it."""

    source: HookSource
    hooks: tuple[Hook, ...] = ()
    problem: str = ""
    subject: TrustSubject | None = None


class _Entry(msgspec.Struct, frozen=True):
    type: str = "command"
    command: str = ""
    timeout: Annotated[float, msgspec.Meta(gt=0, le=10 * 365 * 24 * 3600)] = DEFAULT_TIMEOUT_S
    fail_open: bool = False


class _Group(msgspec.Struct, frozen=True):
    matcher: str = ""
    hooks: tuple[_Entry, ...] = ()


class _Content(msgspec.Struct, frozen=True):
    hooks: dict[str, tuple[_Group, ...]] = {}
    disableAllHooks: bool = False  # noqa: N815 - a name of the contract


def read_sources(sources: Sequence[HookSource], workspace: Path) -> list[HookFile]:
    """What these files have, those that are missing or have no hooks left out. Nothing is run or approved."""
    found = (_read(source, workspace) for source in sources if os.path.lexists(source.path))
    return [file for file in found if file.hooks or file.problem]


def _read(source: HookSource, workspace: Path) -> HookFile:
    root = None if source.is_own else (source.plugin or workspace)
    try:
        text = read_untrusted_text(source.path, max_bytes=_MAX_BYTES, root=root)
        content = msgspec.json.decode(text, type=_Content)
        raw = msgspec.json.decode(text, type=dict[str, Any]).get("hooks", {})
    except OSError as error:
        return HookFile(source=source, problem=f"it cannot be read: {error.strerror or error}")
    except DECODE_ERRORS as error:
        return HookFile(source=source, problem=f"it is not valid: {error}")
    if content.disableAllHooks:
        return HookFile(source=source)
    hooks = [
        _hook(event, group, entry, source, workspace)
        for event, groups in content.hooks.items()
        if event in HOOK_EVENTS
        for group in groups
        for entry in group.hooks
    ]
    if len(hooks) > _MAX_HOOKS:
        return HookFile(source=source, problem=f"it has more than {_MAX_HOOKS} hooks")
    return HookFile(source=source, hooks=tuple(hooks), subject=_subject(source, raw, hooks))


def _hook(event: HookEvent, group: _Group, entry: _Entry, source: HookSource, workspace: Path) -> Hook:
    problem = ""
    if entry.type != "command":
        problem = f"hooks of the type {entry.type} are not run here, only commands"
    elif not entry.command.strip():
        problem = "it has no command"
    code = code_of(entry.command, workspace, source.plugin, with_tasks=event in GUARDING)
    return Hook(
        event=event,
        command=entry.command,
        matcher=group.matcher,
        timeout_s=min(entry.timeout, _MAX_TIMEOUT_S),
        fail_open=entry.fail_open,
        source=source.label,
        problem=problem,
        plugin=str(source.plugin or ""),
        code=code.files,
        unknown=code.unknown,
    )


def _subject(source: HookSource, raw: Any, hooks: Sequence[Hook]) -> TrustSubject | None:
    if source.is_own or source.plugin or not hooks:
        return None
    code = dict(pair for hook in hooks for pair in hook.code)
    lines = [f"# {name}: {sha256}" for name, sha256 in sorted(code.items()) if sha256 != NOT_THERE]
    unknown = dict.fromkeys(f"# {why}" for hook in hooks for why in hook.unknown)
    if unknown:
        lines += ["# These hooks may run files that an agent can change unnoticed:", *unknown]
    text = msgspec.json.format(msgspec.json.encode(raw, order="sorted"), indent=2).decode()
    name = f"hooks:{source.label}"
    return TrustSubject(kind="hook", path=str(source.path), name=name, text="\n".join([text, *lines]))


def variables_of(hook: Hook, workspace: Path) -> Mapping[str, str]:
    """Environment variables that a hook gets besides the usual ones."""
    given: dict[str, str] = dict.fromkeys(ROOT_VARIABLES, str(workspace))
    if hook.plugin:
        given |= dict.fromkeys(PLUGIN_VARIABLES, hook.plugin)
    return given
