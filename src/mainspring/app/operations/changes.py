"""The change that a person means: what is not committed in a folder, what changed since a commit, or a diff
in a file."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from mainspring.checks.reviewer import ReviewedChange
from mainspring.disk.untrusted import read_untrusted
from mainspring.errors import UsageError
from mainspring.events import ReviewedFile
from mainspring.settings import Config
from mainspring.workspace.git import Git, GitFailed
from mainspring.workspace.parsed_diff import DiffedFile

PLAIN_DIFF = ("--no-color", "--no-ext-diff", "--no-textconv", "--src-prefix=a/", "--dst-prefix=b/")
"""Options of git for a diff that programs read."""
_MAX_FILE = 8 << 20
_MAX_NEW = 200


def change_at(config: Config, workspace: Path, target: str = "") -> ReviewedChange:
    """The change against a commit (`HEAD` by default), new files included, or the diff in the file
    `target`."""
    file = workspace / target if target else None
    content, git = content_in(workspace), Git(workspace, config.environment)
    if file is not None and file.is_file():
        return _in_file(git, file, target, content)
    if target.startswith("-"):
        raise UsageError(f"{target} is no commit.", remedy="Give the name of a commit, a branch or a file.")
    commit = git.text("rev-parse", "--verify", "--quiet", f"{target or 'HEAD'}^{{commit}}", check=False)
    if not commit and target:
        raise UsageError(
            f"{target!r} is neither a commit nor a file.",
            remedy="Name a commit, or a file with a diff: mainspring review FILE.diff",
        )
    if not commit and git.text("rev-parse", "--is-inside-work-tree", check=False) != "true":
        raise UsageError(
            f"{workspace} is not in a git repository.",
            remedy="Go to one, or name a file with a diff: mainspring review FILE.diff",
        )
    commit = commit or git.text("hash-object", "-t", "tree", os.devnull)  # nothing is committed yet
    changed = git.run("diff", *PLAIN_DIFF, "--relative", commit, "--", ".").decode("utf-8", "replace")
    new = git.run("ls-files", "-z", "--others", "--exclude-standard").split(b"\0")
    names = [name.decode("utf-8", "surrogateescape") for name in new if name]
    added = (
        git.run("diff", *PLAIN_DIFF, "--no-index", "--", "/dev/null", name, fine=(0, 1)).decode(
            "utf-8", "replace"
        )
        for name in names[:_MAX_NEW]
    )
    left = (f"{len(names) - _MAX_NEW} more new files",) if len(names) > _MAX_NEW else ()
    subject = f"what changed since {target}" if target else "what is not committed"
    return ReviewedChange(subject=subject, diff=changed + "".join(added), content=content, left_out=left)


def _in_file(git: Git, file: Path, name: str, content: Callable[[str], str | None]) -> ReviewedChange:
    """A diff in a file, which may be of files that are not UTF-8, and of other files than those here."""
    try:
        data = read_untrusted(file, max_bytes=_MAX_FILE)
    except OSError as error:
        raise UsageError(
            f"{name} cannot be read: {error.strerror or error}.",
            remedy=f"A diff may have {_MAX_FILE >> 20} MiB.",
        ) from error
    change = ReviewedChange(
        subject=f"the diff in {name}", diff=data.decode("utf-8", "replace"), content=content
    )
    if not change.files:
        raise UsageError(f"{name} holds no diff.", remedy="Make one: git diff > FILE.diff")
    is_fitting = _applies(git, data) or _applies(git, data, "--reverse")
    left = () if is_fitting else ("how it fits the files here: it applies to none of their contents",)
    return msgspec.structs.replace(change, left_out=left)


def _applies(git: Git, diff: bytes, *options: str) -> bool:
    """Whether the files here are what a diff begins from; with `--reverse`, what it leads to."""
    try:
        git.run("apply", "--check", *options, "-", stdin=diff)
    except GitFailed:
        return False
    return True


def content_in(workspace: Path) -> Callable[[str], str | None]:
    """What gives files of a folder as text, and of no other."""

    def content(path: str) -> str | None:
        data = _bytes(workspace, path)
        return None if data is None or b"\0" in data[:8192] else data.decode("utf-8", "replace")

    return content


def reviewed_files(workspace: Path, files: Sequence[DiffedFile]) -> tuple[ReviewedFile, ...]:
    """The files of a change with what they hold now."""
    return tuple(
        ReviewedFile(
            path=each.path,
            sha256=hashlib.sha256(data).hexdigest() if (data := _bytes(workspace, each.path)) else "",
        )
        for each in files
    )


def _bytes(workspace: Path, path: str) -> bytes | None:
    place = Path(os.path.normpath(workspace / path))
    if not place.is_relative_to(workspace):
        return None
    try:
        return read_untrusted(place, max_bytes=_MAX_FILE, root=workspace)
    except (OSError, ValueError):
        return None  # gone, no file, or too large to be looked at: whoever asks says so
