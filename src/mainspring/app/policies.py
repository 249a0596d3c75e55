"""Builds what a session may do: its mode, its rules and grants, and what its commands are confined to."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from mainspring.app.dispatch import CommandCall, local_permission, log_refusal
from mainspring.app.stores import shared_files
from mainspring.app.team_guard import hold_of
from mainspring.approvals import MODES, Judgement, Mode, ModePolicy, Policy, Proposed, by_level
from mainspring.approvals.grants import GrantFile
from mainspring.approvals.questions import Approver
from mainspring.catalog import Sessions
from mainspring.disk.inbox import Inbox
from mainspring.disk.scan import Scan
from mainspring.errors import ConfigError
from mainspring.events import (
    Limits,
)
from mainspring.sandbox import Confinement, Sandbox
from mainspring.sandbox.limits import MIB
from mainspring.sandbox.linked_git import linked_git
from mainspring.sandbox.policy import policy as confined
from mainspring.secrets.recorder import Recorder
from mainspring.session.session import Session, runtime_of
from mainspring.settings import Config
from mainspring.turns.permissions import Permissions

if TYPE_CHECKING:
    from mainspring.approvals.rules import Rules

DEFAULT_MODE: Mode = "auto"
MODE_ABOUT: dict[str, str] = {**MODES}
"""What each mode means, in words."""
RULES_FILE = "approvals.toml"
_FOR_COMMANDS = (
    "mainspring.turns.calls",
    "mainspring.sandbox.ladder",
    "mainspring.tools.interactive",
    "mainspring.checks.regressions",
)
_FIRST_COMMAND = Proposed(
    tool="shell", effect="execute", arguments={"command": "true"}, command="true", workspace="/", session=""
)


async def confine(
    sandbox: Sandbox | str, policy: Confinement, config: Config, scan: Scan | None = None
) -> Sandbox:
    if not isinstance(sandbox, str):
        return sandbox
    from mainspring.sandbox.ladder import choose  # noqa: PLC0415 - needed by the first command, not by a start

    return await choose(policy, config.environment, name=sandbox, scan=scan)


async def outside(policy: Confinement, config: Config) -> Sandbox:
    """Where our own questions to a cluster run: unconfined, with programs that no agent can write."""
    entries = [Path(entry) for entry in config.variable("PATH").split(os.pathsep) if entry.startswith("/")]
    safe = [str(entry) for entry in entries if not _is_writable(entry.resolve(), policy)]
    confined = msgspec.structs.replace(
        config, environment={**config.environment, "PATH": os.pathsep.join(safe)}
    )
    return await confine("none", policy, confined)


def _is_writable(folder: Path, policy: Confinement) -> bool:
    return folder.is_relative_to(policy.workspace) or not policy.refuses_write(folder)


class _Late:
    """A policy that is loaded when the first call is judged."""

    def __init__(self, load: Callable[[], Policy]) -> None:
        self._load = load
        self._loaded: Policy | None = None

    def judge(self, proposed: Proposed) -> Judgement:
        self._loaded = self._loaded or self._load()
        return self._loaded.judge(proposed)


def load_for_commands(policy: Policy) -> None:
    """Loads the code that judges and runs the first command of a session, and has it read a line."""
    for module in _FOR_COMMANDS:
        import_module(module)
    if isinstance(policy, _Late):
        policy.judge(_FIRST_COMMAND)


def build_mode(mode: Mode, level: str, limits: Limits) -> ModePolicy:
    caps = (limits.max_cost_usd, limits.session.usd, limits.goal.usd)
    cap_usd = min((cap for cap in caps if cap is not None), default=None)
    return by_level(level, max_cost_usd=cap_usd) if level else ModePolicy(mode, max_cost_usd=cap_usd)


def build_policy(mode: ModePolicy, workspace: Path, config: Config) -> Policy:
    """What is one's own (`build_own_policy`), under the rules of a team."""
    return hold_of(config, workspace).laid_over(build_own_policy(mode, workspace, config))


def build_own_policy(mode: ModePolicy, workspace: Path, config: Config) -> Policy:
    """The rules of the user and of the project, the grants, and the mode. Rules that are wrong are an error
    here; without any rules, the shell parser is loaded only when a call is judged."""
    late = _Late(lambda: _layered(mode, workspace, config))
    has_rules = any(map(os.path.lexists, rule_files(workspace, config)))
    return _layered(mode, workspace, config) if has_rules else late


def permissions_of(
    recorder: Recorder,
    policy: Policy,
    approver: Approver | None,
    store: Sessions,
    config: Config,
    parent: Session | None = None,
) -> Permissions:
    """What a session may do, and who answers; an answer of somebody who may not give it is logged."""
    asked = CommandCall(operation="approve", permission=local_permission("approve"), session=recorder.session)
    return Permissions(
        policy=policy,
        grants=GrantFile(shared_files(config)),
        approver=approver,
        timeout_s=config.settings.approval_timeout_s,
        inbox=Inbox(store.files(recorder.session)),
        on_refused=partial(log_refusal, config, asked),
        led_by=runtime_of(parent).approvals.led_by if parent else tuple,
    )


def rule_files(workspace: Path, config: Config) -> tuple[Path, Path]:
    """Where the rules of the user and of the project are written."""
    return config.folder / RULES_FILE, workspace / ".mainspring" / RULES_FILE


def rule_warnings(config: Config) -> tuple[str, ...]:
    """What the rules of the user allow less than they seem to, a sentence each."""
    path = config.folder / RULES_FILE
    if not os.path.lexists(path):
        return ()
    from mainspring.approvals import rules  # noqa: PLC0415 - loads a shell parser, see `build_policy`

    return rules.warnings(rules.load(path, source="user", home=config.variable("HOME") or "/"))


def _layered(mode: ModePolicy, workspace: Path, config: Config) -> Policy:
    from mainspring.approvals import policy, rules, scripts  # noqa: PLC0415 - loads a shell parser, see `build_policy`

    home = config.variable("HOME") or "/"
    file = GrantFile(shared_files(config))
    user, project = rule_files(workspace, config)
    return policy.LayeredPolicy(
        mode,
        home=home,
        user=rules.load(user, source="user", home=home),
        project=_with_sensitive(rules.load(project, source="project", home=home), config),
        grants=lambda proposed: file.live(
            session=proposed.session, workspace=proposed.workspace, now_us=time.time_ns() // 1000
        ),
        scripts=scripts.read_scripts,
    )


def _with_sensitive(project: Rules, config: Config) -> Rules:
    """The rules of the project, and one for each sensitive path that must be asked about before a write."""
    review = config.settings.review
    if review.ask != "write":
        return project
    from mainspring.approvals.rules import Rule  # noqa: PLC0415 - loads a shell parser, see `build_policy`

    sensitive = [
        Rule(answer="ask", name="sensitive", effect="write", path=path, reason=f"this is sensitive: {what}")
        for what, paths in review.sensitive_paths.items()
        for path in paths
    ]
    return msgspec.structs.replace(project, rules=(*project.rules, *sensitive))


def confinement_of(
    workspace: Path, mode: Mode, config: Config, readable: tuple[Path, ...] = ()
) -> Confinement:
    """What file tools and commands may touch in a workspace, and read beside it. In a linked worktree that is
    also what a commit needs of its repository."""
    limits, git = config.settings.sandbox, linked_git(workspace)
    policy = confined(
        workspace,
        home=Path(config.variable("HOME") or "/"),
        data=config.home,
        settings=config.folder,
        environment=config.environment,
        mode="read-only" if mode == "plan" else "workspace-write",
        writable=() if mode == "plan" else git.writable,
        readable=(*readable, *git.readable),
    )
    hide, show = limits.hide, limits.show
    daily = (config.daily_anchor.resolve(),) if config.daily_anchor else ()
    return msgspec.structs.replace(
        policy,
        hidden_names=(*policy.hidden_names, *(name for name in hide if "/" not in name)),
        hidden_paths=(*policy.hidden_paths, *_paths_in(hide, workspace, config), *daily),
        protected_paths=(*policy.protected_paths, *daily, *git.protected),
        shown=tuple(name for name in show if "/" not in name),
        shown_paths=_shown(show, workspace, config),
        memory_bytes=limits.memory_mb if limits.memory_mb is None else limits.memory_mb * MIB,
        disk_bytes=limits.disk_mb * MIB,
        new_files=limits.new_files,
    )


def _paths_in(places: Sequence[str], workspace: Path, config: Config) -> tuple[Path, ...]:
    """Where those places lead that are paths: from the home folder, the root, or the workspace."""
    home = config.variable("HOME") or "/"
    paths = (home + place[1:] if place.startswith("~/") else place for place in places if "/" in place)
    return tuple((workspace / path).resolve() for path in paths)


def _shown(places: Sequence[str], workspace: Path, config: Config) -> tuple[Path, ...]:
    paths = _paths_in(places, workspace, config)
    for path in paths:
        for own in (config.home.resolve(), config.folder.resolve()):
            if own.is_relative_to(path) or path.is_relative_to(own):
                raise ConfigError(
                    f"{path} cannot be shown: mainspring's own settings or data lie there.",
                    remedy="Correct `show` under [sandbox] in config.toml.",
                )
    return paths
