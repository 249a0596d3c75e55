"""The conformance suite of the sandbox port: set up a ground, attack from inside, look what happened.

A rung passes when `broken` finds nothing for any attack of the table, or when what it finds is listed in
the rung's own report as a gap. Use it for a sandbox of your own: `with ground(folder, path) as here`.
"""

from __future__ import annotations

import os
import secrets
import socket
import subprocess
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import msgspec

from mainspring.disk.files import closing_descriptor
from mainspring.sandbox import Command, CommandResult, Confinement, Sandbox
from mainspring.sandbox.attacks import ATTACKS, Attack
from mainspring.sandbox.policy import policy as make_policy
from mainspring.sandbox.probe import Rung

__all__ = ["ATTACKS", "Attack", "Ground", "broken", "ground", "is_listed"]

SECRET_FILES = (
    ".ssh/id",
    ".aws/credentials",
    ".netrc",
    ".config/gh/hosts.yml",
    ".mozilla/firefox/logins.json",
    ".local/share/keyrings/login.keyring",
)
OWN_FILES = (
    ".config/mainspring/approvals.toml",
    ".local/share/mainspring/index.sqlite",
    ".local/share/mainspring/sessions/s/journal.sqlite",
    ".local/share/mainspring/memory/project.md",
)
RUNNABLE = (".sample", ".set-aside")


class Ground(msgspec.Struct, frozen=True):
    """A workspace with repositories and settings in it, a home with secrets, and listeners outside."""

    folder: Path
    policy: Confinement
    home_policy: Confinement
    environment: Mapping[str, str]
    variables: Mapping[str, str]
    listeners: tuple[socket.socket, ...]

    @property
    def workspace(self) -> Path:
        return self.policy.workspace


@contextmanager
def ground(folder: Path, path: str) -> Generator[Ground]:
    """Makes everything below an empty folder. `path` is the PATH of commands."""
    workspace, outside, home = folder / "work", folder / "outside", folder / "home"
    for made in (workspace, outside, home):
        made.mkdir(parents=True)
    (outside / "file").write_text("original")
    (home / ".bashrc").write_text("original")
    (home / "dotfiles").mkdir()
    (home / "dotfiles/zshrc").write_text("original")
    (home / ".zshrc").symlink_to("dotfiles/zshrc")
    for name in (*SECRET_FILES, *OWN_FILES):
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text("LEAKED")
    _fill(workspace)
    abstract = f"mainspring-{secrets.token_hex(8)}"
    listeners = (_listen(("127.0.0.1", 0)), _listen(f"\0{abstract}"), _listen_in(outside), _hear())
    victim = subprocess.Popen(["sleep", "600"], env={"TOKEN": "LEAKED", "PATH": path})
    variables = {
        "OUT": str(outside),
        "SECRETS": str(home),
        "VICTIM": str(victim.pid),
        "TCP": str(listeners[0].getsockname()[1]),
        "ABSTRACT": abstract,
        "SOCKET": str(outside / "socket"),
        "UDP": str(listeners[3].getsockname()[1]),
    }
    host = {
        "PATH": path,
        "HOME": str(home),
        "GITHUB_TOKEN": "LEAKED",
        "LD_PRELOAD": "LEAKED",
        "BASH_ENV": "LEAKED",
    }
    try:
        data, settings = home / ".local/share/mainspring", home / ".config/mainspring"
        rules = partial(make_policy, home=home, data=data, settings=settings)
        yield Ground(folder, rules(workspace), rules(home), host, variables, listeners)
    finally:
        victim.kill()
        victim.wait()
        for listener in listeners:
            listener.close()


async def broken(attack: Attack, sandbox: Sandbox, on: Ground) -> str:
    """Runs one attack; what did not hold, or nothing."""
    before = _state(on, in_home=attack.in_home)
    command = Command(
        argv=("bash", "-c", attack.script),
        cwd=on.home_policy.workspace if attack.in_home else on.workspace,
        policy=on.home_policy if attack.in_home else None,
        timeout_s=attack.timeout_s,
        env=on.variables,
        limits=attack.limits,
        max_output_bytes=1 << 20,
    )
    done = await sandbox.run(command)
    return _said(attack, done) or _changed(before, _state(on, in_home=attack.in_home)) or _reached(on)


def is_listed(attack: Attack, rung: Rung) -> bool:
    return "*" in rung.gaps or attack.gap in rung.gaps or attack.name in rung.gaps


def _said(attack: Attack, done: CommandResult) -> str:
    text = (done.stdout + done.stderr).decode(errors="replace")
    if "ESCAPED" in done.stdout.decode(errors="replace") or "LEAKED" in text:
        return f"it got through: {text[-500:]}"
    if attack.stopped and attack.stopped not in done.stopped:
        return f"it was not ended ({attack.stopped}): {done.exit_code} {done.stopped} {text[-500:]}"
    if attack.exit_codes and done.exit_code not in attack.exit_codes:
        return f"its exit code is {done.exit_code}: {text[-500:]}"
    if attack.timeout_s < done.duration_s - 1.5:
        return f"it took {done.duration_s:.1f} s to end"
    return ""


def _changed(before: dict[str, str], after: dict[str, str]) -> str:
    gone = {path for path, content in before.items() if after.get(path) != content}
    fresh = {path for path in after if path not in before}
    return f"changed: {sorted(gone | fresh)}" if gone or fresh else ""


def _reached(on: Ground) -> str:
    try:
        on.listeners[3].recv(100)
    except BlockingIOError:
        return ""
    return "a datagram came out"


def _state(on: Ground, *, in_home: bool) -> dict[str, str]:
    """What must not change: all outside the workspace, and whatever in it could be run by others."""
    state: dict[str, str] = {}
    for folder in (on.folder / "outside", on.folder / "home"):
        for path in folder.rglob("*"):
            # A new folder alone makes nothing run; what is put in it would.
            if in_home and (path.is_dir() or any(".set-aside" in part for part in path.parts)):
                continue
            state[str(path)] = f"{path.lstat().st_mode:o} " + (path.read_text() if path.is_file() else "")
    for path in on.workspace.rglob("*"):
        if path.is_file() and _is_run_by_others(path) and not any(mark in path.name for mark in RUNNABLE):
            content = path.read_text(errors="replace")
            if "LEAKED" in content:
                state[str(path)] = content
    return state


def _is_run_by_others(path: Path) -> bool:
    parts = path.parts
    is_git = (
        path.name in ("config", "config.worktree", "commondir", "attributes")
        or "hooks" in parts
        or "githooks" in parts
    )
    is_set_aside = any(".set-aside" in part for part in parts)
    names = {".vscode", ".idea", ".zed", ".claude", ".codex", ".envrc", ".mcp.json", ".mainspring"} | {
        *(".gitconfig-team", ".gitconfig-missing", "clean.sh", ".husky", "hgrc", ".jj", ".npmrc", ".yarnrc"),
        *(
            ".yarnrc.yml",
            ".pnpmfile.cjs",
            ".pre-commit-config.yaml",
            "AGENTS.md",
            "CLAUDE.md",
            "copilot-instructions.md",
        ),
    }
    # A hooks folder counts only where git would look, which is beside a HEAD.
    is_live = path.name != "config" or (path.parent / "HEAD").exists()
    return not is_set_aside and ((is_git and is_live) or not names.isdisjoint(parts))


def _fill(workspace: Path) -> None:
    git = ["git", "-c", "init.defaultBranch=main", "-c", "user.name=a", "-c", "user.email=a@b"]
    for name in ("", "nested", ".git/modules/sub"):
        folder = workspace / name
        folder.mkdir(parents=True, exist_ok=True)
        subprocess.run(
            [*git, "init", "-q", *(["--bare"] if "modules" in name else []), "."], cwd=folder, check=True
        )
    (workspace / ".git/hooks/post-checkout").write_text("#!/bin/sh\n")
    (workspace / "bare-bones/.git").mkdir(parents=True)
    (workspace / "bare-bones/.git/HEAD").write_text("ref: refs/heads/main\n")
    (workspace / "linked").mkdir()
    (workspace / "linked/.git").write_text("gitdir: ../nested/.git\n")
    (workspace / "githooks").mkdir()
    (workspace / "githooks/pre-push").write_text("#!/bin/sh\n")
    subprocess.run([*git, "config", "core.hooksPath", "githooks"], cwd=workspace, check=True)
    for key, value in (("include.path", "../.gitconfig-team"), ("filter.x.clean", "sh scripts/clean.sh %f")):
        subprocess.run([*git, "config", key, value], cwd=workspace, check=True)
    subprocess.run(
        [*git, "config", "--add", "include.path", "../.gitconfig-missing"], cwd=workspace, check=True
    )
    for name in (
        ".gitconfig-team",
        "scripts/clean.sh",
        ".husky/pre-commit",
        ".hg/hgrc",
        ".npmrc",
        "AGENTS.md",
    ):
        (workspace / name).parent.mkdir(exist_ok=True)
        (workspace / name).write_text("# ours\n")
    (workspace / "githooks/large").write_bytes(b"#!/bin/sh\n" + b"#" * (1 << 20))
    (workspace / ".vscode").mkdir()
    (workspace / ".vscode/settings.json").write_text("{}")
    (workspace / "zed-settings").mkdir()
    (workspace / ".zed").symlink_to("zed-settings")
    (workspace / ".env").write_text("KEY=LEAKED")
    (workspace / "deep").mkdir()
    (workspace / "deep/.env.local").write_text("KEY=LEAKED")
    (workspace / "deep/id_ed25519").write_text("LEAKED")
    (workspace / "deep/server.pem").write_text(
        "-----BEGIN PRIVATE KEY-----\nLEAKED\n-----END PRIVATE KEY-----\n"
    )
    for name in ("secrets.toml", "deep/secrets.yaml"):
        (workspace / name).write_text("key: LEAKED")
    for name in (".env", ".env.local"):
        (workspace.parent / name).write_text("KEY=LEAKED")


def _listen(address: str | tuple[str, int]) -> socket.socket:
    listener = socket.socket(socket.AF_UNIX if isinstance(address, str) else socket.AF_INET)
    listener.bind(address)
    listener.listen()
    return listener


def _listen_in(folder: Path) -> socket.socket:
    """On `socket` in a folder; its whole path may be longer than the kernel takes."""
    with closing_descriptor(os.open(folder, os.O_RDONLY | os.O_DIRECTORY)) as descriptor:
        return _listen(f"/proc/self/fd/{descriptor}/socket")


def _hear() -> socket.socket:
    listener = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    listener.bind(("127.0.0.1", 0))
    listener.settimeout(0)
    return listener
