"""The commit that a workspace stands on, and how its files differ from it: what another machine needs to have
the same files, together with what was recorded since.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import msgspec

from mainspring.events import FileChange, FileState
from mainspring.workspace.git import Git

MAX_BUNDLE_BYTES = 64_000_000
BUNDLE = "commits.bundle"
"""The file beside a journal with the commits of its workspace that no remote has."""


class BaseCommit(msgspec.Struct, frozen=True, kw_only=True):
    """`changed` differ from the commit, each with the state that it has there; `known` are all other files of
    it, and `.git`. `folder` is where the workspace lies in its repository. Without a commit nothing is
    known."""

    remote: str = ""
    commit: str = ""
    branch: str = ""
    folder: str = ""
    known: frozenset[str] = frozenset()
    changed: Mapping[str, FileState | None] = {}


def base_commit(root: Path, environment: Mapping[str, str]) -> BaseCommit:
    """Where a folder stands now."""
    git = Git(root, environment)
    commit = git.text("rev-parse", "--verify", "--quiet", "HEAD", check=False)
    if not commit:
        return BaseCommit()
    tracked = _names(git.run("ls-tree", "-r", "-z", "--name-only", "HEAD"))
    differing = _names(git.run("diff", "--name-only", "--no-renames", "-z", "--relative", "HEAD"))
    return BaseCommit(
        remote=_remote(git),
        commit=commit,
        branch=git.text("symbolic-ref", "--short", "--quiet", "HEAD", check=False),
        folder=git.text("rev-parse", "--show-prefix", check=False).rstrip("/"),
        known=(frozenset(tracked) - frozenset(differing)) | {".git"},
        changed=_states(git, [name for name in differing if name in set(tracked)]),
    )


def unpushed(root: Path, environment: Mapping[str, str]) -> tuple[bytes, str]:
    """The commits that no remote has as a bundle, or why they cannot be had; nothing when there are none."""
    git = Git(root, environment)
    if not git.text("rev-list", "--max-count=1", "HEAD", "--not", "--remotes", check=False):
        return b"", ""
    bundle = git.run("bundle", "create", "--quiet", "-", "HEAD", "--not", "--remotes", check=False)
    if not bundle:
        return b"", "git could not bundle them"
    if len(bundle) > MAX_BUNDLE_BYTES:
        return b"", f"they have more than {MAX_BUNDLE_BYTES // 1_000_000} MB"
    return bundle, ""


def deleted(base: BaseCommit, root: Path) -> list[FileChange]:
    """The files of the commit that are not in the workspace."""
    gone = [path for path in base.changed if not (root / path).is_symlink() and not (root / path).exists()]
    return [FileChange(path=path, kind="deleted", before=base.changed[path]) for path in gone]


def _remote(git: Git) -> str:
    """Where the repository came from, without a password; a path of this machine is made whole."""
    names = git.text("remote", check=False).splitlines()
    name = "origin" if "origin" in names else next(iter(names), "")
    url = git.text("remote", "get-url", name, check=False) if name else ""
    if "://" in url:
        parts = urlsplit(url)
        if parts.scheme in ("http", "https"):
            parts = parts._replace(netloc=parts.netloc.rpartition("@")[2])
        return urlunsplit(parts)
    if url.startswith("."):
        top = git.text("rev-parse", "--show-toplevel", check=False)
        return str((Path(top) / url).resolve())
    return url


def _states(git: Git, names: list[str]) -> dict[str, FileState | None]:
    """Files as the commit has them; their content is in git, so only its hash is told."""
    found: dict[str, FileState | None] = {}
    for name, data in zip(names, git.objects([f"HEAD:./{name}" for name in names]), strict=True):
        sha256 = hashlib.sha256(data).hexdigest() if data is not None else ""
        found[name] = FileState(size=len(data or b""), sha256=sha256, reason="git has it")
    return found


def _names(listed: bytes) -> list[str]:
    return [name.decode("utf-8", "surrogateescape") for name in listed.split(b"\0") if name]
