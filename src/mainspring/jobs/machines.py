"""One use of a machine by commands of a session, over ssh: its copy of the workspace, and what runs there.

Everything of it is ended with it, also by the machine itself when nobody was heard of for long. A command is
run once: whoever asks for the same number again is refused there.
"""

from __future__ import annotations

import asyncio
import os
from functools import cache
from importlib import resources
from pathlib import Path

import msgspec

from mainspring.disk.files import closing_descriptor
from mainspring.errors import JobHostError
from mainspring.jobs.settings import MachineSettings
from mainspring.jobs.shells import HostShell, check_silent, last_line, number_of
from mainspring.sandbox import CommandResult, OnOutput

_COPY_S = 3600.0
_MARGIN_S = 60.0
"""For how long the far side may take to end a command whose time is over."""


class FoundThere(msgspec.Struct, frozen=True):
    """What there is after a run: `over` says how the use was ended, `end` how the run did (`never`: it did
    not begin; `lost`: nobody followed it any more). `files` has a word for each version of a file by its
    name; `others` are links, devices and names that are no text."""

    over: str
    end: str
    files: dict[str, str]
    sizes: dict[str, int]
    others: tuple[str, ...] = ()


class RemoteMachine:
    """`name` is one that no other use has."""

    def __init__(self, shell: HostShell, settings: MachineSettings, name: str) -> None:
        self._shell = shell
        self._settings = settings
        self._name = name

    async def check(self) -> str:
        said, _, found = (
            (await self._ask("check", doing="run commands of sessions")).strip().rpartition(b"\n")
        )
        check_silent(said, self._shell.place)
        return found.decode("utf-8", "replace")

    async def begin(self, limit_s: float) -> None:
        """Makes the folder, and starts what ends everything there after `limit_s`, or when we are silent."""
        silence_s = str(max(int(self._settings.silence_minutes * 60), 1))
        said = await self._ask("begin", silence_s, str(max(int(limit_s), 1)), program(), doing="begin")
        check_silent(said, self._shell.place)

    async def beat(self) -> None:
        await self._ask("beat", doing="take a sign of life")

    async def put(self, archive: Path, number: int, into: Path) -> FoundThere:
        """What is there once an archive (`gone` names what goes, `files` has what comes) was unpacked."""
        leave = (".git", *self._settings.leave_out)
        doing = "take the files"
        await self._ask(
            "put", str(number), *leave, doing=doing, stdin=archive, stdout=into, timeout_s=_COPY_S
        )
        return await asyncio.to_thread(_found, into)

    async def run(self, number: int, command: str, limit_s: float, on_output: OnOutput) -> CommandResult:
        """What was printed; whether it ran at all, and how it ended, is told by `look`. It is ended there
        when this is cancelled, or when the connection is lost."""
        theirs, ours = os.pipe()
        with closing_descriptor(theirs), closing_descriptor(ours):
            words = (self._settings.folder, self._name, "run", str(number), f"{limit_s:g}", command)
            return await self._shell.follow(
                program(), *words, stdin=theirs, timeout_s=limit_s + _MARGIN_S, on_output=on_output
            )

    async def look(self, number: int, into: Path) -> FoundThere:
        """What is there after a run. One that still goes on is ended first."""
        leave = (".git", *self._settings.leave_out)
        await self._ask("list", str(number), *leave, doing="list its files", stdout=into)
        return await asyncio.to_thread(_found, into)

    async def fetch(self, names: Path, into: Path) -> None:
        """Writes an archive of files, whose names are in a file, each after the other with a zero between."""
        await self._ask("fetch", doing="send its files", stdin=names, stdout=into, timeout_s=_COPY_S)

    async def end(self) -> tuple[float, str] | None:
        """Ends all of it; for how many seconds it was used, and why it ended. None when it never began."""
        words = (await self._ask("end", doing="end what runs there")).decode("utf-8", "replace").split()
        used_s = number_of(words[0]) if len(words) == 2 else None
        return None if used_s is None else (float(used_s), words[1])

    async def close(self) -> None:
        await self._shell.close()

    async def _ask(
        self,
        verb: str,
        *arguments: str,
        doing: str,
        stdin: Path | None = None,
        stdout: Path | None = None,
        timeout_s: float = 120.0,
    ) -> bytes:
        words = (self._settings.folder, self._name, verb, *arguments)
        done = await self._shell.run(program(), *words, stdin=stdin, stdout=stdout, timeout_s=timeout_s)
        if done.exit_code:
            why = last_line(done.stderr) or f"exit code {done.exit_code}"
            raise JobHostError(f"{self._shell.place} could not {doing}: {why}.", is_refused=True)
        return done.stdout


@cache
def program() -> str:
    """The far side, as a shell program."""
    return resources.files("mainspring.jobs").joinpath("machine.sh").read_text(encoding="utf-8")


def _found(file: Path) -> FoundThere:
    listed = file.read_bytes()
    over, end, *entries = [*listed.split(b"\0")[:-1], b"", b""][: max(listed.count(b"\0"), 2)]
    files: dict[str, str] = {}
    sizes: dict[str, int] = {}
    others: list[str] = []
    for entry in entries:
        *stamp, raw = entry.split(b" ", 4)
        size = number_of(stamp[0].decode("latin-1")) if len(stamp) == 4 else None
        name = raw.decode("utf-8", "replace").removeprefix("./")
        if size is None and stamp[:1] != [b"-"]:
            raise JobHostError("What came back is no list of files.", remedy="Check the `find` there.")
        if size is None or name.encode() != raw.removeprefix(b"./"):
            others.append(name)
            continue
        files[name], sizes[name] = b" ".join(stamp).decode("latin-1"), size
    return FoundThere(over.decode().strip(), end.decode().strip(), files, sizes, tuple(others))
