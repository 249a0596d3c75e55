"""Looks at changed files and says what is wrong with them now that was not before.

`Checker` is the port: it takes one changed file, gives what it finds in a text, and raises `NotChecked` when
it cannot tell. What is told apart from what stood there before is one function, for every checker alike.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol, runtime_checkable

import msgspec

from mainspring.events import CheckFinding
from mainspring.patterns import lazy_pattern
from mainspring.sandbox import Sandbox

MAX_BYTES = 1 << 20
_NUMBER = lazy_pattern(r"\d+")


ConfinedBy = Callable[[], Awaitable[Sandbox]]
"""Gives the sandbox that programs of checks run in."""


class NotChecked(Exception):
    """Why a file could not be looked at, in words for a person and a model."""


class ChangedFile(msgspec.Struct, frozen=True):
    """A file of the workspace as it was (nothing where it is new) and as it is now."""

    path: str
    before: bytes | None
    after: bytes


class Checker(Protocol):
    """One way to look at files."""

    name: str

    def takes(self, path: str) -> bool:
        """Whether it can say anything of a file of that name."""
        ...

    async def findings(self, path: str, content: bytes) -> Sequence[CheckFinding]:
        """What it finds in a content that the file at `path` has or had."""
        ...


@runtime_checkable
class ChangeChecker(Protocol):
    """One that looks at a change as a whole, where lines alone do not tell what is new."""

    name: str

    def takes(self, path: str) -> bool: ...

    async def new(self, changed: ChangedFile) -> list[CheckFinding]:
        """What the change brings; raises `NotChecked`."""
        ...


async def new_findings(checker: Checker | ChangeChecker, changed: ChangedFile) -> list[CheckFinding]:
    """What a checker finds in a file and did not find in it before the change; raises `NotChecked`."""
    if len(changed.after) > MAX_BYTES:
        raise NotChecked(f"it has more than {MAX_BYTES >> 20} MiB")
    if isinstance(checker, ChangeChecker):
        return await checker.new(changed)
    now = await checker.findings(changed.path, changed.after)
    if not now or changed.before is None:
        return list(now)
    before: Sequence[CheckFinding]
    try:
        before = await checker.findings(changed.path, changed.before)
    except NotChecked:
        before = ()
    known = Counter(_key(each, _lines(changed.before)) for each in before)
    lines, new = _lines(changed.after), list[CheckFinding]()
    for each in now:
        key = _key(each, lines)
        if known[key]:
            known[key] -= 1
        else:
            new.append(each)
    return new


def _lines(content: bytes) -> list[str]:
    return content.decode("utf-8", "replace").split("\n")


def _key(finding: CheckFinding, lines: Sequence[str]) -> tuple[str, str, str]:
    """The same for a finding that only moved: by its rule, its words without numbers, and its line's text."""
    text = lines[finding.line - 1].strip() if 0 < finding.line <= len(lines) else ""
    return finding.rule, _NUMBER.sub("0", finding.message), text
