"""What all confining rungs share: prepare a run, run it in custody, repair what the kernel let through.

A rung says only how a command is launched and which protected paths its kernel mechanism does not hold.
"""

from __future__ import annotations

import asyncio
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import ParamSpec, TypeVar

import msgspec

from mainspring.disk.scan import Scan
from mainspring.errors import SandboxError
from mainspring.sandbox import Command, CommandResult, OnOutput
from mainspring.sandbox.background import Background
from mainspring.sandbox.cgroups import Cgroup, Cgroups
from mainspring.sandbox.environment import fresh
from mainspring.sandbox.held import hold
from mainspring.sandbox.launch import Custody, Launch, refused
from mainspring.sandbox.limits import name_of, rlimits
from mainspring.sandbox.policy import Confinement, is_instructions
from mainspring.sandbox.protect import State, diff_of_aside, remember, repair
from mainspring.sandbox.rungs.process import find_program
from mainspring.sandbox.starts import in_turn
from mainspring.sandbox.survey import Survey, SurveyFindings


class PreparedRun(msgspec.Struct, frozen=True):
    """A command made ready: its program found, its environment fresh, its workspace looked over."""

    command: Command
    policy: Confinement
    program: str
    env: dict[str, str]
    found: SurveyFindings
    rlimits: list[tuple[int, int]]
    cgroups: tuple[str, ...]


QUICK_S = 0.003
CLOSE_TRIES = 50
P = ParamSpec("P")
T = TypeVar("T")


class Confined(ABC):
    """A rung that confines. `scratch` are variables that point caches at a private folder. `is_elsewhere`
    says that programs are not looked for on this machine."""

    def __init__(
        self,
        policy: Confinement,
        environment: Mapping[str, str],
        *,
        scratch: Mapping[str, str],
        scan: Scan | None = None,
        is_elsewhere: bool = False,
    ) -> None:
        self._policy = policy
        self._host = environment
        self._scratch = scratch
        self._is_elsewhere = is_elsewhere
        self._survey = Survey(scan)
        self._cgroups = Cgroups()
        self._custody = Custody()
        self._lock = asyncio.Lock()
        self._look_s = QUICK_S
        self._is_holding = True

    @property
    def is_containing(self) -> bool:
        """Not where a workspace that holds the home folder is too large to be looked through."""
        return self._is_holding

    async def run(self, command: Command, on_output: OnOutput | None = None) -> CommandResult:
        async with in_turn():
            return await self._run(command, on_output)

    async def _run(self, command: Command, on_output: OnOutput | None) -> CommandResult:
        policy = command.policy or self._policy
        command = self._limited(command, policy)
        found, remembered = await self._surveyed(self._look, policy)
        with self._cgroups.enter(command.limits) as cgroup:
            launch = self._launch(command, policy, found, cgroup)
            if isinstance(launch, CommandResult):
                return launch
            try:
                finished = await self._custody.run(launch, command, on_output)
            except asyncio.CancelledError:
                await self._surveyed(self._repair, policy, found, remembered)
                raise
            finished = _name_limit(finished, cgroup, command)
        aside = await self._surveyed(self._repair, policy, found, remembered)
        if not aside and not found.is_partial:
            return finished
        diff = await asyncio.to_thread(diff_of_aside, policy.workspace, aside)
        return msgspec.structs.replace(
            finished, set_aside=aside, diff_of_aside=diff, is_partly_held=found.is_partial
        )

    async def start(self, command: Command, folder: Path, *, is_terminal: bool = False) -> Background:
        policy = command.policy or self._policy
        command = self._limited(command, policy)
        found, remembered = await self._surveyed(self._look, policy)
        await asyncio.to_thread(hold, folder, policy, found, remembered)
        # The keeper removes the cgroup, after us perhaps.
        cgroup = self._cgroups.make(command.limits)
        launch = self._launch(command, policy, found, cgroup)
        try:
            return await self._custody.keep(launch, command, folder, is_terminal=is_terminal)
        except SandboxError:
            self._cgroups.discard(cgroup)
            raise

    def _limited(self, command: Command, policy: Confinement) -> Command:
        """The command with the usual limits where it has none of its own."""
        own = command.limits
        share = policy.memory_bytes if policy.memory_bytes is not None else self._memory_share()
        limits = msgspec.structs.replace(
            own,
            memory_bytes=own.memory_bytes or share,
            disk_bytes=own.disk_bytes or policy.disk_bytes,
            new_files=own.new_files or policy.new_files,
        )
        return msgspec.structs.replace(command, limits=limits)

    def _memory_share(self) -> int:
        return self._cgroups.memory_share()

    def _launch(
        self, command: Command, policy: Confinement, found: SurveyFindings, cgroup: Cgroup
    ) -> Launch | CommandResult:
        env = fresh(self._host, {**self._scratch, **command.env})
        program = command.argv[0] if self._is_elsewhere else find_program(command, env)
        if isinstance(program, CommandResult):
            return program
        if not command.cwd.is_dir():
            return refused(str(command.cwd), "No such directory", 126)
        limits = rlimits(
            command.limits, has_memory_cgroup=cgroup.has("memory"), has_pids_cgroup=cgroup.has("pids")
        )
        folders = tuple(map(str, cgroup.folders))
        return self.launch(PreparedRun(command, policy, program, env, found, limits, folders))

    @abstractmethod
    def launch(self, prepared: PreparedRun) -> Launch:
        """How a command is launched."""

    def loose(self, found: SurveyFindings) -> Iterable[Path]:
        """Protected paths that are put back after a run: a symbolic link cannot be mounted over, what is
        below one is reached by another way when it is replaced, and git, going from one branch to another,
        replaces instructions and fails halfway when it cannot."""
        return [path for path in found.protected if not is_mountable(path) or path in found.linked]

    async def end_left(self) -> None:
        await self._custody.end_left()

    async def close(self) -> None:
        await self._custody.close()
        self._survey.close()
        # A namespace that was killed takes a moment to die.
        for _ in range(CLOSE_TRIES):
            if self._cgroups.close():
                break
            await asyncio.sleep(0.01)

    async def _surveyed(self, look: Callable[P, T], *args: P.args, **options: P.kwargs) -> T:
        """A thread costs more than a look at a small workspace, and less than a wait for a large one."""
        async with self._lock:
            started = time.monotonic()
            try:
                if self._look_s < QUICK_S:
                    return look(*args, **options)
                return await asyncio.to_thread(look, *args, **options)
            finally:
                self._look_s = time.monotonic() - started

    def _look(self, policy: Confinement) -> tuple[SurveyFindings, State]:
        found = self._survey.look(policy)
        self._is_holding = not (found.is_partial and policy.held_inside())
        return found, remember(self.loose(found))

    def _repair(self, policy: Confinement, found: SurveyFindings, remembered: State) -> tuple[str, ...]:
        return repair(policy, found, self._survey.look(policy), remembered)


def is_mountable(path: Path) -> bool:
    """Whether a protected path is held by a read-only mount over it."""
    return not path.is_symlink() and not is_instructions(path)


def _name_limit(finished: CommandResult, cgroup: Cgroup, command: Command) -> CommandResult:
    """The kernel's own count of what a cgroup refused beats a guess from the exit code."""
    passed = "" if finished.stopped else cgroup.limit_passed(finished.exit_code)
    if not passed:
        return finished
    return msgspec.structs.replace(finished, stopped=name_of(passed, command.limits))
