"""Runs a check that passed once more, with the files that decide it as they were when the goal was set.

A check is worth more when it passes in a copy of the workspace in which every such file that the agent
changed was put back. Scripts, tests and settings are put back first, then also what they import, which may be
the work itself. A copy in which the check fails whatever is put back shows nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping

import msgspec

from mainspring.errors import SandboxError
from mainspring.events import CheckEnded
from mainspring.evidence.artifacts import Artifacts
from mainspring.evidence.commands import Ran, run_line
from mainspring.evidence.frozen_copy import Fetch, copy_with
from mainspring.evidence.grades import named
from mainspring.evidence.loaded_files import Deciding, ReadText
from mainspring.sandbox import Sandbox
from mainspring.sandbox.files import Files

LONGEST_S = 300.0
"""A check that takes longer is not run again."""

_LEAST_S = 10.0
_TIMES_AS_LONG = 5
"""With other files it may wait for something that never comes."""

MAX_WRITTEN = 20
_THEN = "as when the goal was set"
_MAX_ROUNDS = 20
_Contents = Mapping[str, bytes | None]


class _Impossible(Exception):
    """There is no copy in which the check could be tried; says why."""


class PutBack(msgspec.Struct, frozen=True):
    """One check of a goal. `decide` says which files decide it, given how their texts are read."""

    line: str
    decide: Callable[[ReadText], Deciding]
    artifacts: Artifacts
    read: ReadText
    files: Files
    sandbox: Sandbox
    fetch: Fetch
    limit_s: float = 2 * LONGEST_S

    async def graded(self, check: CheckEnded) -> CheckEnded:
        """A look that passed, with what it is worth."""
        limit_s = max(_LEAST_S, _TIMES_AS_LONG * check.duration_s)
        return await msgspec.structs.replace(self, limit_s=limit_s)._graded(check)

    async def _graded(self, check: CheckEnded) -> CheckEnded:
        deciding = await asyncio.to_thread(self.decide, self.read)
        if not deciding.written:
            return msgspec.structs.replace(check, grade="verified")
        check = _written(check, deciding.written)
        back: dict[str, bytes | None] = {}
        try:
            self._refuse(check, deciding)
            deciding = await self._put_back(back)
            if back and (doubt := await self._doubt(back)):
                return msgspec.structs.replace(check, doubts=(*check.doubts, doubt))
        except _Impossible as reason:
            return _not_tried(check, reason)
        if back:
            check = _told(check, f"passes with {named(tuple(back))} {_THEN}")
        left = tuple(path for path in deciding.written if path not in back)
        if not left:
            return msgspec.structs.replace(check, grade="verified", written=())
        check = _written(check, left)
        return check if deciding.is_open else await self._with_imports(check, left, back)

    async def _with_imports(
        self, check: CheckEnded, left: Collection[str], back: dict[str, bytes | None]
    ) -> CheckEnded:
        """Tries it also with what is imported as it was; the check fails then when that is the work."""
        try:
            await self._put_back(back, left)
            ran = await self._ran(back)
        except _Impossible as reason:
            return _not_tried(check, reason)
        if not ran.is_passed:
            return _told(check, f"{ran.told} with {named(tuple(left))} {_THEN}")
        told = _told(check, f"passes with {named(tuple(left))} {_THEN}")
        return msgspec.structs.replace(told, grade="verified", written=())

    async def _doubt(self, back: _Contents) -> str:
        """What speaks against the check: it fails with these files put back, and only then."""
        ran = await self._ran(back)
        if ran.is_passed:
            return ""
        unchanged = await self._ran({})
        if not unchanged.is_passed:
            raise _Impossible(f"in a copy of the workspace it fails in any case, {unchanged.told}")
        files = named(tuple(back))
        return f"passes only with the agent's changed {files}; {ran.told} with {files} {_THEN}"

    def _refuse(self, check: CheckEnded, deciding: Deciding) -> None:
        if str(self.files.policy.workspace) in self.line:
            raise _Impossible("it names the workspace by its full path")
        if check.duration_s > LONGEST_S:
            raise _Impossible(f"it takes longer than {LONGEST_S:g} s")
        if new := sorted(path for path in deciding.scripts if path not in self.artifacts.first):
            raise _Impossible(f"{named(new)} was not there then")

    async def _put_back(self, back: dict[str, bytes | None], also: Collection[str] = ()) -> Deciding:
        """Adds what was changed as it was: scripts, tests and settings, and `also` what is imported. What is
        put back may load other files than what stands there now."""
        for _ in range(_MAX_ROUNDS):
            deciding = await asyncio.to_thread(self.decide, self._read_with(back))
            wanted = deciding.all if also and not deciding.is_open else {*deciding.judging, *also}
            new = [path for path in deciding.written if path in wanted and path not in back]
            if not new:
                break
            for path in new:
                back[path] = await self._original(path)
        else:
            raise _Impossible("too many files load each other")
        if also and any(path not in back for path in deciding.written):
            raise _Impossible("it may load any file")
        return deciding

    def _read_with(self, back: _Contents) -> ReadText:
        texts = {
            path: data.decode("utf-8", "replace") if data is not None else None for path, data in back.items()
        }
        return lambda path: texts[path] if path in texts else self.read(path)

    async def _original(self, path: str) -> bytes | None:
        """What a file held when the goal was set; None when it was not there."""
        first = self.artifacts.first.get(path)
        if first is None:
            return None
        data = await self.fetch(first.sha256) if first.sha256 else None
        if data is None:
            raise _Impossible(f"what {path} held then was not kept")
        return data

    async def _ran(self, contents: _Contents) -> Ran:
        async with copy_with(self.files, contents) as copy:
            if copy is None:
                raise _Impossible("the workspace is too large to be copied")
            try:
                return await run_line(self.sandbox, copy, self.line, self.limit_s, policy=copy.policy)
            except SandboxError as error:
                raise _Impossible(error.message) from error


def _written(check: CheckEnded, files: Collection[str]) -> CheckEnded:
    return msgspec.structs.replace(check, grade="checked", written=tuple(files)[:MAX_WRITTEN])


def _told(check: CheckEnded, more: str) -> CheckEnded:
    return msgspec.structs.replace(check, detail=f"{check.detail}; {more}")


def _not_tried(check: CheckEnded, reason: _Impossible) -> CheckEnded:
    return _told(check, f"not tried with {named(check.written)} {_THEN}: {reason}")
