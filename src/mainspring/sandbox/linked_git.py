"""What a commit in a linked worktree of git writes outside of it.

It is told by files that come with the workspace, so nothing is believed unless the repository itself points
back at this worktree, and folders that are links are left out."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec

from mainspring.sandbox.git_settings import file_start, pointer

_WRITTEN = ("objects", "refs", "logs")
_BRANCH = b"ref: refs/heads/"


class LinkedGit(msgspec.Struct, frozen=True):
    """`writable` is what a commit needs, `readable` the repository, `protected` the branches that somebody
    else stands on."""

    writable: tuple[Path, ...] = ()
    readable: tuple[Path, ...] = ()
    protected: tuple[Path, ...] = ()


def linked_git(workspace: Path) -> LinkedGit:
    """What lies outside a workspace that is a linked worktree; nothing for any other."""
    place = workspace.resolve() / ".git"
    if place.is_symlink() or not place.is_file():
        return LinkedGit()
    own = pointer(place, b"gitdir:")
    common = pointer(own / "commondir", b"") if own else None
    if not own or not common or own.parent != common / "worktrees":
        return LinkedGit()
    if pointer(own / "gitdir", b"") != place:
        return LinkedGit()
    parts = (own, *(common / name for name in _WRITTEN))
    return LinkedGit(
        writable=tuple(each for each in parts if each.is_dir() and each.resolve() == each),
        readable=(common,),
        protected=tuple(_branches_of_others(common, own)),
    )


def _branches_of_others(common: Path, own: Path) -> Iterator[Path]:
    for folder in (common, *sorted((common / "worktrees").iterdir())):
        head = (file_start(folder / "HEAD", 4096) or b"").strip()
        if folder != own and head.startswith(_BRANCH):
            name = Path(head.removeprefix(_BRANCH).decode("utf-8", "surrogateescape"))
            if ".." not in name.parts and not name.is_absolute():
                yield common / "refs" / "heads" / name
