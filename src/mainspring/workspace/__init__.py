"""The port to what files were before and after: a time machine is told when a call begins and ends.

Between the two it finds what changed, whatever changed it. It keeps contents before a call may destroy them,
and never touches the user's git index, identity or branches.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import Protocol

from mainspring.events import Blob, FileChange, FilesChanged
from mainspring.workspace.tree import TreeEntry

Keep = Callable[[bytes, str], Awaitable[Blob]]
"""Puts content of a media type into the journal."""

KeepAll = Callable[[Sequence[tuple[bytes, str]]], Awaitable[Sequence[Blob]]]
"""Puts contents, each with its media type, into the journal, and gives their blobs in this order."""


class TimeMachine(Protocol):
    async def prepare(self) -> None:
        """Looks at the workspace for the first time, so that the first call need not wait for it."""
        ...

    def expect(self) -> None:
        """A call is being written that may change files; whoever looks for long can begin."""
        ...

    async def begin(self, call: str) -> None:
        """Returns when the content of every covered file is safe, so that the call may run."""
        ...

    async def end(
        self, calls: Sequence[str], keep: KeepAll, *, is_certain: bool = True
    ) -> FilesChanged | None:
        """What changed since the last look, with its contents kept; None when nothing did. Calls that still
        run are named too. Calls that never began here are those of a process that died."""
        ...

    async def all_but(self, known: Collection[str], keep: KeepAll) -> tuple[list[FileChange], list[str]]:
        """Every covered file but these, with its content kept, as if it had just been made; and what is not
        covered, with the reason."""
        ...

    def known_content(self, path: str, entry: TreeEntry) -> str:
        """The SHA-256 of a file, by its whole path, that has this status; empty when it is not known."""
        ...

    async def content_id(self) -> str:
        """The same for the same contents under the same names, as of the last look; empty when unknown."""
        ...

    async def close(self) -> None: ...


class Unrecorded:
    """No time machine: nothing is looked at, and nothing can be put back."""

    async def prepare(self) -> None:
        return

    def expect(self) -> None:
        return

    async def begin(self, call: str) -> None:  # noqa: ARG002
        return

    async def end(
        self,
        calls: Sequence[str],  # noqa: ARG002
        keep: KeepAll,  # noqa: ARG002
        *,
        is_certain: bool = True,  # noqa: ARG002
    ) -> None:
        return

    async def all_but(
        self,
        known: Collection[str],  # noqa: ARG002
        keep: KeepAll,  # noqa: ARG002
    ) -> tuple[list[FileChange], list[str]]:
        return [], ["everything: the workspace is not looked at"]

    def known_content(self, path: str, entry: TreeEntry) -> str:  # noqa: ARG002
        return ""

    async def content_id(self) -> str:
        return ""

    async def close(self) -> None:
        return
