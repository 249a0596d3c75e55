"""Blocks that a change brings and that stand elsewhere in the project already. Only changed lines are looked
for, in files of the same kind, within a time limit; lines that say little (imports, comments, brackets) do
not count, and tests may repeat themselves."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath

from mainspring.checks import MAX_BYTES, ChangedFile, NotChecked
from mainspring.checks.grammars import GRAMMARS
from mainspring.errors import PathRefused
from mainspring.events import CheckFinding
from mainspring.patterns import lazy_pattern
from mainspring.sandbox.files import Files
from mainspring.tools.walk import walked
from mainspring.workspace.affected import is_test

BLOCK_LINES = 8
_BLOCK_CHARS = 160
_MAX_FILES = 5_000
_MAX_FOUND = 5
_LIMIT_S = 5.0
_SAYS_LITTLE = lazy_pattern(
    r"(?:import|from|use|using|package|include|require)\b|[#*]|//|/\*|\W*$|(?:else|end|fi|done)\W*$"
)
_OTHER = (".yaml", ".yml", ".html", ".css")

_Lines = list[tuple[int, str]]


class Duplication:
    """Looks for what a change adds in the other files of a workspace."""

    name = "duplication"

    def __init__(self, files: Files) -> None:
        self._files = files

    def takes(self, path: str) -> bool:
        suffix = PurePosixPath(path).suffix.lower()
        return suffix in GRAMMARS and suffix not in _OTHER and not is_test(path)

    async def new(self, changed: ChangedFile) -> list[CheckFinding]:
        after, before = _lines(changed.after), _lines(changed.before or b"")
        wanted = _added_blocks(after, before)
        return await asyncio.to_thread(self._find, changed, after, wanted) if wanted else []

    def _find(self, changed: ChangedFile, after: _Lines, wanted: dict[int, int]) -> list[CheckFinding]:
        anchors = {after[at][1].encode() for at in wanted.values() if at % (BLOCK_LINES // 2) == 0}
        anchors |= {after[at][1].encode() for at in (min(wanted.values()), max(wanted.values()))}
        found = [*_same_blocks(changed.path, after, wanted, own=after)]
        for other, data in self._others(changed.path):
            if any(anchor in data for anchor in anchors):
                found += _same_blocks(other, _lines(data), wanted)
        return _told(self.name, sorted(found), after)

    def _others(self, path: str) -> Iterator[tuple[str, bytes]]:
        suffix, deadline = PurePosixPath(path).suffix, time.monotonic() + _LIMIT_S
        listing = walked(self._files, self._files.policy.workspace, lambda count: count > _MAX_FILES)
        for other in listing.paths:
            if time.monotonic() > deadline:
                raise NotChecked(f"looking through the project takes more than {_LIMIT_S:g} s")
            if other == path or not other.endswith(suffix) or is_test(other):
                continue
            try:
                yield other, self._files.read(other, max_bytes=MAX_BYTES).data
            except (OSError, PathRefused):
                continue  # it went away, or may not be seen


def _lines(content: bytes) -> _Lines:
    """The lines that say something, with their numbers, without their indentation."""
    lines = (
        (number, line.strip())
        for number, line in enumerate(content.decode("utf-8", "replace").split("\n"), 1)
    )
    return [(number, line) for number, line in lines if not _SAYS_LITTLE.match(line)]


def _hashes(lines: _Lines) -> Iterator[tuple[int, int]]:
    """Each block with where it begins."""
    texts = [line for _, line in lines]
    for at in range(len(texts) - BLOCK_LINES + 1):
        yield at, hash(tuple(texts[at : at + BLOCK_LINES]))


def _added_blocks(after: _Lines, before: _Lines) -> dict[int, int]:
    """The blocks of which most is new, by their hash, with where they begin."""
    added = Counter(line for _, line in after) - Counter(line for _, line in before)
    if added.total() < BLOCK_LINES // 2:
        return {}
    old, wanted = {block for _, block in _hashes(before)}, dict[int, int]()
    for at, block in _hashes(after):
        texts = [line for _, line in after[at : at + BLOCK_LINES]]
        is_new = sum(line in added for line in texts) > BLOCK_LINES // 2
        if block not in old and is_new and sum(map(len, texts)) >= _BLOCK_CHARS:
            wanted.setdefault(block, at)
    return wanted


def _same_blocks(
    path: str, lines: _Lines, wanted: dict[int, int], own: _Lines | None = None
) -> Iterator[tuple[int, str, int]]:
    """Where a block begins in the change, and where it stands too."""
    for at, block in _hashes(lines):
        if block in wanted and (own is None or at >= wanted[block] + BLOCK_LINES):
            yield wanted[block], path, lines[at][0]


def _told(by: str, found: Sequence[tuple[int, str, int]], after: _Lines) -> list[CheckFinding]:
    """One finding for blocks that follow each other."""
    told: list[CheckFinding] = []
    last = -BLOCK_LINES
    for at, path, line in found:
        if at > last + 1 and at >= last + BLOCK_LINES // 2:
            message = f"{BLOCK_LINES} lines or more from here stand also in {path}:{line}"
            told.append(CheckFinding(by=by, rule=by, line=after[at][0], message=message, severity="warning"))
        last = max(last, at)
    return told[:_MAX_FOUND]
