"""Our own calls of git: no hooks, no filters, no monitor, no settings of the machine, no prompts, no network.

The settings of the repository stay in force, because they say what its content means; what in them could
start a program is switched off: filters too, so a file that needs one is only compared, never converted.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path

from mainspring.errors import UsageError

_SAFE = (
    "--no-optional-locks",
    "--no-pager",
    *("-c", "core.hooksPath=/dev/null"),
    *("-c", "core.fsmonitor=false"),
    *("-c", "core.untrackedCache=false"),
    *("-c", "gc.auto=0"),
    *("-c", "maintenance.auto=false"),
    *("-c", "commit.gpgSign=false"),
    *("-c", "protocol.allow=never"),
)
_TIMEOUT_S = 60.0
_CLONE_TIMEOUT_S = 600.0


class GitFailed(UsageError):
    """git refused; its own words are in the message."""


class Git:
    """git in one folder. `environment` is the user's; variables that would redirect git are dropped."""

    def __init__(self, folder: Path, environment: Mapping[str, str]) -> None:
        self.folder = folder
        self.environment = environment
        self._environment = {
            **{name: value for name, value in environment.items() if not name.startswith("GIT_")},
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_NO_LAZY_FETCH": "1",
            "GIT_NO_REPLACE_OBJECTS": "1",
            "GIT_TERMINAL_PROMPT": "0",
            "LC_ALL": "C",
        }

    @cached_property
    def _unfiltered(self) -> tuple[str, ...]:
        """Settings that make every filter of the repository do nothing."""
        found = self._call("config", "--null", "--name-only", "--get-regexp", r"^filter\..*\.").stdout
        names = {name.decode("utf-8", "replace").rpartition(".")[0] for name in found.split(b"\0") if name}
        kinds = ("clean=", "smudge=", "process=", "required=false")
        return tuple(part for name in sorted(names) for kind in kinds for part in ("-c", f"{name}.{kind}"))

    def run(
        self,
        *arguments: str,
        stdin: bytes = b"",
        env: Mapping[str, str] | None = None,
        check: bool = True,
        fine: tuple[int, ...] = (0,),
    ) -> bytes:
        """What git printed; `GitFailed` when its exit code is not `fine`, or nothing without `check`."""
        try:
            done = self._call(*self._unfiltered, *arguments, stdin=stdin, env=env)
        except (OSError, subprocess.TimeoutExpired) as error:
            if not check:
                return b""
            raise GitFailed(f"git could not be run: {error}.") from error
        if done.returncode in fine:
            return done.stdout
        if check:
            said = done.stderr.decode("utf-8", "replace").strip()
            raise GitFailed(f"git {arguments[0]} failed: {said or f'exit code {done.returncode}'}")
        return b""

    def _call(
        self, *arguments: str, stdin: bytes = b"", env: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(
            ["git", *_SAFE, *arguments],
            cwd=self.folder,
            env={**self._environment, **(env or {})},
            input=stdin,
            capture_output=True,
            timeout=_TIMEOUT_S,
            check=False,
        )

    def text(self, *arguments: str, check: bool = True) -> str:
        return self.run(*arguments, check=check).decode("utf-8", "replace").strip()

    def tracked(self) -> dict[str, str]:
        """The object of each path of the index below this folder; empty without a repository."""
        listed = self.run("ls-files", "--stage", "-z", check=False)
        found: dict[str, str] = {}
        for line in listed.split(b"\0"):
            facts, _, path = line.partition(b"\t")
            mode, _, rest = facts.partition(b" ")
            if mode.startswith(b"100"):
                found[path.decode("utf-8", "replace")] = rest.partition(b" ")[0].decode()
        return found

    def objects(self, ids: Sequence[str]) -> Iterator[bytes | None]:
        """The contents of these objects in order, None for one that is missing."""
        answer = self.run("cat-file", "--batch", stdin="\n".join(ids).encode() + b"\n", check=False)
        position = 0
        for _ in ids:
            end = answer.find(b"\n", position)
            if end < 0:
                yield None
                continue
            facts = answer[position:end].split()
            position = end + 1
            if len(facts) != 3 or facts[1] != b"blob":
                yield None
                continue
            size = int(facts[2])
            yield answer[position : position + size]
            position += size + 1


def clone_commit(
    source: str, commit: str, branch: str, folder: Path, environment: Mapping[str, str], bundle: Path | None
) -> None:
    """A repository with its history, at a commit; what its remote lacks comes from a bundle. Without a source
    it has only that. This one uses the network, and the user's own settings of git."""
    user = {**environment, "GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C"}
    safe = ("-c", "core.hooksPath=/dev/null", "-c", "protocol.ext.allow=never")
    there = ("-C", str(folder))
    begin = ("clone", "--quiet", "--no-checkout", "--no-recurse-submodules", "--template=", "--", source)
    steps: list[tuple[str, ...]] = (
        [(*begin, str(folder))] if source else [("init", "--quiet", "--template=", str(folder))]
    )
    if bundle is not None:
        steps.append((*there, "fetch", "--quiet", "--no-tags", str(bundle), "HEAD"))
    steps.append((*there, "checkout", "--quiet", *(("-B", branch) if branch else ("--detach",)), commit))
    for step in steps:
        _run_plain((*safe, *step), user)


def clone(source: str, folder: Path, environment: Mapping[str, str]) -> None:
    """The newest files of somebody's repository, without its history, hooks or submodules; `GitFailed` when
    that is not possible. This one uses the network, and the user's own settings of git for it."""
    options = ("--quiet", "--depth", "1", "--no-recurse-submodules", "--template=")
    safe = ("-c", "core.hooksPath=/dev/null", "-c", "protocol.ext.allow=never")
    _run_plain(
        (*safe, "clone", *options, "--", source, str(folder)),
        {**environment, "GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C"},
    )


def _run_plain(arguments: Sequence[str], environment: Mapping[str, str]) -> None:
    name = next(word for word in arguments if word in ("clone", "init", "fetch", "checkout"))
    try:
        done = subprocess.run(
            ["git", *arguments],
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_CLONE_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise GitFailed(f"git could not be run: {error}.") from error
    if done.returncode:
        said = done.stderr.decode("utf-8", "replace").strip()
        raise GitFailed(f"git {name} failed: {said or f'exit code {done.returncode}'}")
