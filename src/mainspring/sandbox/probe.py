"""Find out by trying which rungs of the ladder stand here, and say what each one holds.

`bwrap`, then `landlock`, then `container`; `none` is taken only when a person says so. The report names,
for each rung, what is guaranteed, what is not, why it is not available, and the command that would fix it.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from pathlib import Path

import msgspec

from mainspring.disk.scan import Scan
from mainspring.disk.scratch import ScratchFolder
from mainspring.errors import SandboxError
from mainspring.sandbox import LADDER, Command, Name, ProcessLimits, Sandbox
from mainspring.sandbox.cgroups import find_parents
from mainspring.sandbox.policy import Confinement
from mainspring.sandbox.policy import policy as make_policy
from mainspring.sandbox.rungs import landlock as landlock_rung
from mainspring.sandbox.rungs.bwrap import BwrapSandbox
from mainspring.sandbox.rungs.container import REMEDY as START_DAEMON
from mainspring.sandbox.rungs.container import ContainerSandbox, find_engine
from mainspring.sandbox.rungs.landlock import LandlockSandbox
from mainspring.sandbox.rungs.process import PlainSandbox
from mainspring.system import this_system

SUBJECTS = ("writes", "secrets", "network", "processes", "memory", "cpu")
SIGNALS_SCOPED_SINCE = 6
SHARED = "a loopback that the commands of a session share and nobody else reaches"
ALONE = "each command has a loopback of its own, so a server in the background is not reached by others"


class Rung(msgspec.Struct, frozen=True, kw_only=True):
    """`holds` has a sentence for each of `SUBJECTS`; `gaps` are attacks by name that it does not stop."""

    name: Name
    is_available: bool
    why_not: str = ""
    remedy: str = ""
    holds: dict[str, str] = {}
    gaps: dict[str, str] = {}


class SandboxReport(msgspec.Struct, frozen=True):
    rungs: tuple[Rung, ...]

    def rung(self, name: str) -> Rung:
        return next(rung for rung in self.rungs if rung.name == name)

    def best(self) -> Rung:
        """The highest rung that stands, never `none`."""
        for rung in self.rungs:
            if rung.is_available and rung.name != "none":
                return rung
        fixes = "; ".join(f"{rung.name}: {rung.remedy}" for rung in self.rungs if rung.remedy)
        raise SandboxError("No sandbox works on this machine.", remedy=f"Do one of these: {fixes}")


async def probe(environment: Mapping[str, str]) -> SandboxReport:
    here = this_system()
    if not here.has_custody:
        why_not = f"not on {here.name} yet"
        rungs = (Rung(name=each, is_available=False, why_not=why_not, remedy=here.remedy) for each in LADDER)
        return SandboxReport(tuple(rungs))
    limited = find_parents()
    return SandboxReport(
        (
            await _bwrap(environment, limited.keys()),
            await _landlock(environment, limited.keys()),
            await _container(environment),
            Rung(name="none", is_available=True, holds=_nothing(), gaps={"*": "nothing is confined"}),
        )
    )


def build(
    name: str, policy: Confinement, environment: Mapping[str, str], *, scan: Scan | None = None
) -> Sandbox:
    check_custody()
    match name:
        case "bwrap":
            return BwrapSandbox(policy, environment=environment, scan=scan)
        case "landlock":
            return LandlockSandbox(policy, environment=environment, scan=scan)
        case "container":
            return ContainerSandbox(policy, environment=environment, scan=scan)
        case "none":
            return PlainSandbox(environment=environment)
        case _:
            raise SandboxError(f"There is no sandbox `{name}`.", remedy=f"Choose one of {', '.join(LADDER)}.")


def check_custody() -> None:
    here = this_system()
    if not here.has_custody:
        raise SandboxError(f"Commands do not run on {here.name} yet.", remedy=here.remedy)


async def _try(name: Name, environment: Mapping[str, str]) -> str:
    """Why a rung cannot run `true`, or nothing."""
    why_not, _ = await _tried(name, environment)
    return why_not


async def _tried(name: Name, environment: Mapping[str, str]) -> tuple[str, bool]:
    """Why a rung cannot run `true`, or nothing; and whether its commands share a loopback."""
    with ScratchFolder() as scratch:
        policy = make_policy(scratch.path, home=Path(environment.get("HOME", "/root")))
        try:
            sandbox = build(name, policy, environment)
        except SandboxError as error:
            return error.message, False
        try:
            done = await sandbox.run(Command(argv=("true",), cwd=policy.workspace, timeout_s=20))
            is_shared = isinstance(sandbox, BwrapSandbox) and sandbox.is_loopback_shared
        except SandboxError as error:
            return error.message, False
        finally:
            await sandbox.close()
    why_not = "" if done.exit_code == 0 else done.stderr.decode(errors="replace").strip() or done.stopped
    return why_not, is_shared


async def _bwrap(environment: Mapping[str, str], limited: Collection[str]) -> Rung:
    why_not, is_shared = await _tried("bwrap", environment)
    if why_not:
        return Rung(name="bwrap", is_available=False, why_not=why_not, remedy=_namespace_remedy(why_not))
    return Rung(
        name="bwrap",
        is_available=True,
        holds={
            "writes": "only the workspace and private /tmp, /var/tmp, /run; existing protected paths are "
            "read-only, new ones are set aside after the command",
            "secrets": "hidden in home, system and workspace",
            "network": f"off ({SHARED if is_shared else ALONE}), full, or hosts on a list",
            "processes": "own pid namespace; all ended together" + _limited(limited, "pids"),
            "memory": _memory(limited),
            "cpu": "seconds summed over all processes",
        },
        gaps={
            "protected-while-missing": "a protected path that is made by a command exists until it returns",
            "protected-in-background": "a protected path that a background command makes is set aside when "
            "its session sees that it ended",
            "reach-unix-socket-outside": "sockets that lie elsewhere than in /run, /tmp and hidden folders "
            "can be reached",
            **_without_cgroup(limited),
        },
    )


async def _landlock(environment: Mapping[str, str], limited: Collection[str]) -> Rung:
    why_not = await _try("landlock", environment)
    if why_not:
        return Rung(name="landlock", is_available=False, why_not=why_not, remedy=landlock_rung.REMEDY)
    gaps = {
        "read-env-file": "Landlock cannot hide one file in a folder that it opens",
        "new-files-beside-secrets": "in a workspace that holds keys or mainspring's data, commands make "
        "nothing new in the folders around those; MAINSPRING_HOME can move the data out of it",
        "change-modes-outside": "modes and times of files that belong to you can be changed anywhere",
        "protected-while-missing": "protected paths are put back after the command, not before",
        "protected-while-running": "protected paths are put back after the command, not before",
        "protected-in-background": "what a background command does to protected paths is put back when its "
        "session sees that it ended, so the mode auto asks before it starts one",
        "see-other-processes": "names and arguments of other processes are visible in /proc",
        "private-tmp": "/tmp is shared and readable; TMPDIR is private and writable",  # noqa: S108
        "reach-unix-socket-with-network": "with network on, any Unix socket can be reached",
        "allow-list-of-hosts": "a list of hosts needs bwrap; here it means off",
        "loopback": "with network off there is no loopback either",
        **_without_cgroup(limited),
    }
    if landlock_rung.abi() < SIGNALS_SCOPED_SINCE:
        gaps["signal-outside"] = "this kernel's Landlock does not confine signals and abstract sockets"
        gaps["abstract-socket"] = gaps["signal-outside"]
    return Rung(
        name="landlock",
        is_available=True,
        holds={
            "writes": "only the workspace, a private TMPDIR and /dev/shm; protected paths are put back after "
            "the command",
            "secrets": "hidden in home and system; not in the workspace",
            "network": "off (no sockets at all) or full",
            "processes": "subreaper; all ended together" + _limited(limited, "pids"),
            "memory": _memory(limited),
            "cpu": "seconds summed over all processes",
        },
        gaps=gaps,
    )


async def _container(environment: Mapping[str, str]) -> Rung:
    engine = find_engine(environment)
    if engine is None:
        why_not, remedy = "neither docker nor podman is installed", "apt-get install podman"
    else:
        why_not, remedy = await _engine_trouble(engine, environment), START_DAEMON
        why_not = why_not or await _try("container", environment)
    if why_not:
        return Rung(name="container", is_available=False, why_not=why_not, remedy=remedy)
    holds = {
        "writes": "only the workspace and a private /tmp; existing protected paths are read-only",
        "secrets": "the host's files are not there; hidden in the workspace",
        "network": "off or full",
        "processes": "own container, limited",
        "memory": "limited for the container",
        "cpu": "seconds for each process",
    }
    return Rung(name="container", is_available=True, holds=holds, gaps={"allow-list-of-hosts": "not offered"})


async def _engine_trouble(engine: str, environment: Mapping[str, str]) -> str:
    plain = PlainSandbox(environment=environment)
    try:
        # `info` of docker succeeds without a daemon unless it must print something of the server's.
        argv = (engine, "version", "--format", "{{.Server.Version}}")
        done = await plain.run(Command(argv=argv, cwd=Path("/"), timeout_s=5, limits=ProcessLimits()))
    finally:
        await plain.close()
    if done.exit_code == 0 and not done.stopped:
        return ""
    return done.stopped or done.stderr.decode(errors="replace").strip().splitlines()[-1]


def _nothing() -> dict[str, str]:
    return dict.fromkeys(SUBJECTS, "not confined") | {
        "processes": "subreaper; all ended together",
        "cpu": "seconds summed over all processes",
    }


def _limited(limited: Collection[str], kind: str) -> str:
    is_limited = kind in limited or os.geteuid() != 0
    return ", limited in number" if is_limited else ", not limited in number for root"


def _memory(limited: Collection[str]) -> str:
    return (
        "limited for all together"
        if "memory" in limited
        else "limited for each process, and only where a limit is set"
    )


def _without_cgroup(limited: Collection[str]) -> dict[str, str]:
    gaps: dict[str, str] = {}
    if "pids" not in limited and os.geteuid() == 0:
        gaps["fork-bomb-is-limited"] = "root has no process limit without a cgroup"
    if "memory" not in limited:
        gaps["memory-of-tree"] = "memory is limited for each process, not for all together"
    return gaps


def _namespace_remedy(why_not: str) -> str:
    """The one command that most likely opens namespaces to us."""
    if "not installed" in why_not:
        return "apt-get install bubblewrap"
    for name, closed in {
        "kernel/unprivileged_userns_clone": "0",
        "kernel/apparmor_restrict_unprivileged_userns": "1",
        "user/max_user_namespaces": "0",
    }.items():
        setting = Path("/proc/sys", name)
        if setting.exists() and setting.read_text().strip() == closed:
            opened = {"0": "1", "1": "0"}[closed] if "max" not in name else "10000"
            return f"sysctl -w {name.replace('/', '.')}={opened}"
    return "docker run --security-opt seccomp=unconfined --security-opt systempaths=unconfined …"
