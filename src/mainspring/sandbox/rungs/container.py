"""The rung for machines whose kernel walls are closed to us but whose docker or podman answers.

Each command is a fresh container: no network, no capabilities, read-only root, the workspace mounted
and its protected paths read-only. The host's tools are not inside; the image brings its own.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import shutil
from collections.abc import Mapping
from pathlib import Path

import msgspec

from mainspring.disk.scan import Scan
from mainspring.errors import SandboxError
from mainspring.sandbox import Command, CommandResult, OnOutput
from mainspring.sandbox.background import Background
from mainspring.sandbox.environment import DEFAULT_PATH
from mainspring.sandbox.launch import Launch
from mainspring.sandbox.limits import name_of, share_of_machine
from mainspring.sandbox.policy import Confinement
from mainspring.sandbox.rungs.bwrap import folders_above
from mainspring.sandbox.rungs.confined import Confined, PreparedRun, is_mountable
from mainspring.sandbox.rungs.process import PlainSandbox

IMAGE = "debian:stable-slim"
REMEDY = "Start its daemon: systemctl start docker"
KILLED_FOR_MEMORY = 137


class ContainerSandbox(Confined):
    """`image` must be on the machine; it is never pulled during a run."""

    name = "container"
    is_containing_background = True
    has_own_pids = True

    def __init__(
        self,
        policy: Confinement,
        *,
        environment: Mapping[str, str],
        program: str | None = None,
        image: str = IMAGE,
        scan: Scan | None = None,
    ) -> None:
        found = program or find_engine(environment)
        if found is None:
            raise SandboxError("Neither docker nor podman is installed.", remedy="apt-get install podman")
        super().__init__(policy, environment, scratch={}, scan=scan, is_elsewhere=True)
        self._program = found
        self._image = image
        self._plain = PlainSandbox(environment=environment)

    async def run(self, command: Command, on_output: OnOutput | None = None) -> CommandResult:
        name = _fresh_name()
        is_over = False
        try:
            finished = await super().run(_named(command, name), on_output)
            is_over = not finished.stopped
        finally:
            # The client's death does not end its container.
            if not is_over:
                await asyncio.shield(self._remove(name))
        if command.limits.memory_bytes and finished.exit_code == KILLED_FOR_MEMORY and not finished.stopped:
            return msgspec.structs.replace(finished, stopped=name_of("memory", command.limits))
        return finished

    async def start(self, command: Command, folder: Path, *, is_terminal: bool = False) -> Background:
        return await super().start(_named(command, _fresh_name()), folder, is_terminal=is_terminal)

    def _memory_share(self) -> int:
        # The container's engine makes its cgroup, whatever we may do ourselves.
        return share_of_machine()

    async def close(self) -> None:
        await super().close()
        await self._plain.close()

    async def _remove(self, name: str) -> None:
        argv = (self._program, "rm", "--force", name)
        await self._plain.run(Command(argv=argv, cwd=Path("/"), timeout_s=10))

    def launch(self, prepared: PreparedRun) -> Launch:
        return Launch(
            argv=(self._program, *self._arguments(prepared)),
            # The client needs its own settings, the command gets none of them.
            env={"PATH": DEFAULT_PATH, "HOME": prepared.env.get("HOME", "/")},
            cwd="/",
        )

    def _arguments(self, prepared: PreparedRun) -> list[str]:
        policy, limits = prepared.policy, prepared.command.limits
        name = prepared.env["MAINSPRING_CONTAINER"]
        arguments = ["run", "--rm", "--init", "--pull", "never", "--name", name, "--read-only"]
        if prepared.command.stdin >= 0:
            arguments.append("--interactive")
        room = limits.memory_bytes
        scratch = f"/tmp:exec,size={room // 2}" if room else "/tmp:exec"  # noqa: S108
        arguments += ["--cap-drop", "ALL", "--security-opt", "no-new-privileges", "--tmpfs", scratch]
        arguments += ["--user", f"{os.getuid()}:{os.getgid()}", "--workdir", str(prepared.command.cwd)]
        arguments += ["--network", "bridge" if policy.network.mode == "full" else "none"]
        arguments += ["--pids-limit", str(limits.processes or -1)]
        if limits.memory_bytes:
            arguments += ["--memory", str(limits.memory_bytes), "--memory-swap", str(limits.memory_bytes)]
        if limits.cpu_s:
            arguments += ["--ulimit", f"cpu={limits.cpu_s}"]
        arguments += _mounts(prepared)
        for key, value in prepared.env.items():
            if key not in ("PATH", "HOME"):
                arguments += ["--env", f"{key}={value}"]
        return [*arguments, self._image, *prepared.command.argv]


def _mounts(prepared: PreparedRun) -> list[str]:
    """What of the machine is inside; a later one lies over an earlier one."""
    policy = prepared.policy
    arguments: list[str] = []
    for path in sorted({policy.workspace, *policy.writable}):
        arguments += _mount(path, "rw" if path in policy.roots() else "ro")
    for path in folders_above(policy):
        arguments += _mount(path, "rw")
    for path in sorted(path for path in policy.readable if path.exists()):
        arguments += _mount(path, "ro")
    for path in sorted(filter(is_mountable, prepared.found.protected.keys() - prepared.found.linked)):
        arguments += _mount(path, "ro")
    known = (path for path in policy.held_inside() if path in policy.hidden_paths and path.exists())
    secrets = {path for path in known if not policy.is_shown(path)}
    for path in sorted(
        secrets.union(each for each in prepared.found.hidden if secrets.isdisjoint(each.parents))
    ):
        is_folder = path.is_dir()
        arguments += ["--tmpfs", f"{path}:ro,mode=000"] if is_folder else _mount(path, "ro", os.devnull)
    return arguments


def find_engine(environment: Mapping[str, str]) -> str | None:
    path = environment.get("PATH", DEFAULT_PATH)
    return shutil.which("docker", path=path) or shutil.which("podman", path=path)


def _fresh_name() -> str:
    return f"mainspring-{secrets.token_hex(8)}"


def _named(command: Command, name: str) -> Command:
    return msgspec.structs.replace(command, env={**command.env, "MAINSPRING_CONTAINER": name})


def _mount(path: Path, access: str, source: str = "") -> list[str]:
    return ["--volume", f"{source or path}:{path}:{access}"]
