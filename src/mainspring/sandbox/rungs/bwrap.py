"""The highest rung: bubblewrap, with its own user, pid, mount, ipc and network namespaces.

The system is read-only, the workspace writable, protected paths in it read-only, secrets masked, `/tmp`
and `/run` private but for programs of PATH. Without a network, the commands of a session share one loopback.
A command has no capabilities, cannot make user namespaces, and is not root inside even when we are root
outside. A protected path that is still missing is watched for and set aside.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path

import msgspec

from mainspring.disk.scan import Scan
from mainspring.errors import SandboxError
from mainspring.sandbox import Command, CommandResult, OnOutput
from mainspring.sandbox.background import Background
from mainspring.sandbox.environment import SCRATCH, fresh
from mainspring.sandbox.launch import FIRST_EXTRA_FD, Launch
from mainspring.sandbox.limits import share_of_machine
from mainspring.sandbox.policy import Confinement, Network
from mainspring.sandbox.programs import ProgramFolder, program_folders
from mainspring.sandbox.proxy import Proxy
from mainspring.sandbox.rungs.confined import Confined, PreparedRun, is_mountable
from mainspring.sandbox.rungs.masks import Masks
from mainspring.sandbox.rungs.nodes import KnownPaths, Node, sole_node_at
from mainspring.sandbox.rungs.seccomp import INET, UNIX, filter_for
from mainspring.sandbox.rungs.template import MountTemplate, TemplateLayout, make_template
from mainspring.sandbox.survey import SurveyFindings

UID_INSIDE = 1000
MAX_TEMPLATES = 8
PRIVATE = {Path("/tmp"): 2, Path("/var/tmp"): 8, Path("/run"): 8}  # noqa: S108 - these become private
"""Each in memory, which it may fill to one part in so many of what the command may use."""
SHARED_MEMORY = Path("/dev/shm")  # noqa: S108 - it becomes private too
SHARED_MEMORY_SHARE = 4
NAMES_OF_HOSTS = ("/run/systemd/resolve", "/run/resolvconf", "/run/NetworkManager/resolv.conf")
NAMESPACES = "--unshare-user --unshare-pid --unshare-ipc --unshare-uts --unshare-cgroup-try".split()  # noqa: SIM905
OUTSIDE = ("--unshare-user", "--uid", "0", "--gid", "0")
SHARED_MOUNTS = (
    *("--bind", "/proc", "/proc", "--dev", "/dev"),
    *("--bind-try", "/dev/shm", "/dev/shm", "--remount-ro", "/dev"),  # noqa: S108
)
"""Of a template, below its masks. What joins it makes namespaces by writing to /proc, and covers it."""
PROXY_INSIDE = "/run/mainspring-proxy"
BOOT_RELAY = (
    "import sys; sys.path.append(sys.argv[1]); from custody.relay import main; "
    f"main({PROXY_INSIDE!r}, sys.argv[2:])"
)
REMEDY = "Install it: apt-get install bubblewrap"


class BwrapSandbox(Confined):
    """`program` is bubblewrap's path; `environment` is the host's, of which an allow-list is passed on."""

    name = "bwrap"
    is_containing_background = True
    has_own_pids = True

    def __init__(
        self,
        policy: Confinement,
        *,
        environment: Mapping[str, str],
        program: str | None = None,
        scan: Scan | None = None,
    ) -> None:
        found = program or shutil.which("bwrap", path=environment.get("PATH", "/usr/bin:/bin"))
        if found is None:
            raise SandboxError("bubblewrap is not installed.", remedy=REMEDY)
        super().__init__(policy, environment, scratch=SCRATCH, scan=scan)
        self._program = found
        self._masks = Masks()
        self._known = KnownPaths()
        self._programs: dict[Confinement, tuple[ProgramFolder, ...]] = {}
        self._hiding: tuple[Confinement, list[tuple[Path, Node]], list[Path]] = (policy, [], [])
        self._templates: dict[Confinement, MountTemplate] = {}
        self._used: set[Confinement] = {policy}
        self._is_joining: bool | None = None
        self._proxies: dict[tuple[str, ...], Proxy] = {}
        self._loopbacks: dict[Network, tuple[int, ...]] = {}
        self._opening = asyncio.Lock()

    async def run(self, command: Command, on_output: OnOutput | None = None) -> CommandResult:
        await self._open(command)
        return await super().run(command, on_output)

    async def start(self, command: Command, folder: Path, *, is_terminal: bool = False) -> Background:
        await self._open(command)
        return await super().start(command, folder, is_terminal=is_terminal)

    async def close(self) -> None:
        await super().close()
        for proxy in self._proxies.values():
            await proxy.close()
        for fd in (fd for fds in self._loopbacks.values() for fd in fds):
            os.close(fd)
        self._loopbacks.clear()
        for policy in tuple(self._templates):
            self._drop(policy)
        self._masks.close()

    @property
    def is_loopback_shared(self) -> bool:
        """Whether a server that one command starts is reached by another; known after the first command."""
        return any(self._loopbacks.values())

    async def _open(self, command: Command) -> None:
        policy = command.policy or self._policy
        async with self._opening:
            await self._open_network(policy.network)
            # What is asked for only once is not worth it.
            if policy in self._used and policy not in self._templates and self._is_joining is not False:
                await self._open_mounts(policy)
            self._used.add(policy)

    async def _open_network(self, network: Network) -> None:
        if network.mode != "full" and network not in self._loopbacks:
            self._loopbacks[network] = await self._custody.loopback()
        if network.mode == "hosts" and network.hosts not in self._proxies:
            proxy = Proxy(network.hosts, self._masks.socket(len(self._proxies)))
            self._proxies[network.hosts] = proxy
            await proxy.start()

    async def _open_mounts(self, policy: Confinement) -> None:
        """Makes the mounts that the commands of a policy share, where they can be joined."""
        env = fresh(self._host, {})
        found = await self._surveyed(self._survey.look, policy)
        nodes = {each: sole_node_at(each[1]) for each in self._held(policy, found)}
        held = [each for each, node in nodes.items() if node]
        masked = [path for path in self._hidden(policy, found.hidden) if not _shown_below(path, policy)]
        argv = [self._program, *OUTSIDE, "--bind" if policy.mode == "full" else "--ro-bind", "/", "/"]
        roots = [] if policy.mode == "full" else sorted({*policy.roots()})
        for path in roots:
            argv += ["--bind", str(path), str(path)]
        argv += (*SHARED_MOUNTS, *_mounts(held))
        for path in masked:
            argv += self._masked(path, policy)
        # A user namespace around the network must also be around this one, or nothing could join both.
        around = self._loopbacks.get(policy.network, ())
        start = Launch(argv=tuple(argv), env=env, cwd="/", joins=around, is_wrapped=True)
        own = {path: sole_node_at(path) for path in roots}
        own |= {each[1]: nodes[each] for each in held if {each[1], *each[1].parents}.isdisjoint(masked)}
        layout = TemplateLayout(frozenset(masked), self._masks.nodes, frozenset(held), own)
        template = await make_template(self._custody, start, layout)
        if template and not await self._can_join(start, template):
            self._custody.leave(template.joins)
            template.close()
            template = None
        self._is_joining = template is not None
        if template is None:
            return
        if len(self._templates) >= MAX_TEMPLATES:
            self._drop(next(iter(self._templates)))
        self._templates[policy] = template

    async def _can_join(self, start: Launch, template: MountTemplate) -> bool:
        if not await self._custody.attend(template.joins) or self._is_joining is not None:
            return bool(self._is_joining)
        trial = (self._program, *_rights(), "--bind", "/", "/", "--proc", "/proc", "--", "/bin/true")
        launch = msgspec.structs.replace(start, argv=trial, joins=template.joins)
        with suppress(SandboxError):
            return (await self._custody.run(launch, Command(argv=trial, cwd=Path("/")))).exit_code == 0
        return False

    def _drop(self, policy: Confinement) -> None:
        template = self._templates.pop(policy)
        self._custody.leave(template.joins)
        template.close()

    def _template(
        self, policy: Confinement, held: Iterable[tuple[str, Path]], hidden: Iterable[Path]
    ) -> MountTemplate | None:
        """The shared mounts of a policy, unless one of them was lost or is no longer wanted."""
        template = self._templates.get(policy)
        if template and not (template.layout.is_within(held, hidden) and template.is_whole()):
            self._drop(policy)
            return None
        return template

    def launch(self, prepared: PreparedRun) -> Launch:
        policy, found = prepared.policy, prepared.found
        held, hidden = self._held(policy, found), self._hidden(policy, found.hidden)
        template = self._template(policy, held, hidden)
        arguments = self._arguments(prepared, template)
        arguments += _mounts(each for each in held if not template or template.layout.lacks(*each))
        for path in hidden:
            if not template or path not in template.layout.masked:
                arguments += self._masked(path, policy)
        seccomp = pipe_of(filter_for(UNIX | INET))
        readable, writable = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        arguments += ["--seccomp", str(FIRST_EXTRA_FD), "--json-status-fd", str(FIRST_EXTRA_FD + 1)]
        arguments += ["--chdir", str(prepared.command.cwd), "--"]
        if prepared.policy.network.mode == "hosts":
            arguments += [sys.executable, "-I", "-S", "-c", BOOT_RELAY, str(Path(__file__).parents[1])]
        return Launch(
            argv=(self._program, *arguments, prepared.program, *prepared.command.argv[1:]),
            env=prepared.env,
            cwd="/",
            rlimits=prepared.rlimits,
            cgroups=prepared.cgroups,
            extra=(seccomp, writable),
            joins=template.joins if template else self._loopbacks.get(prepared.policy.network, ()),
            status=readable,
            is_wrapped=True,
        )

    def _arguments(self, prepared: PreparedRun, template: MountTemplate | None) -> list[str]:
        policy = prepared.policy
        arguments = _rights()
        if policy.network.mode != "full" and not self._loopbacks.get(policy.network):
            arguments.append("--unshare-net")
        is_full = policy.mode == "full"
        if template:
            arguments += ["--dev-bind", "/", "/", "--proc", "/proc"]
        else:
            arguments += ["--bind" if is_full else "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc"]
        # Root outside still owns the files of /proc/sys, and may write them without any capability.
        arguments += ["--remount-ro", "/proc"]
        for folder, share in () if is_full else PRIVATE.items():
            arguments += [*_size(prepared, share), "--tmpfs", str(folder)]
        arguments += [*_size(prepared, SHARED_MEMORY_SHARE), "--perms", "1777", "--tmpfs", str(SHARED_MEMORY)]
        for name in () if is_full or policy.network.mode != "full" else NAMES_OF_HOSTS:
            arguments += ["--ro-bind-try", name, name]
        if policy.network.mode == "hosts":
            arguments += [
                "--dir",
                "/run",
                "--ro-bind",
                str(self._proxies[policy.network.hosts].path),
                PROXY_INSIDE,
            ]
        return arguments + self._shown_programs(policy) + self._roots(policy, template)

    def _masked(self, path: Path, policy: Confinement) -> list[str]:
        if not (shown := _shown_below(path, policy)):
            return ["--ro-bind", str(self._masks.for_path(path)), str(path)]
        arguments = ["--perms", "0555", "--tmpfs", str(path)]
        for each in shown:
            arguments += ["--ro-bind", str(each), str(each)]
        return [*arguments, "--remount-ro", str(path)]

    def _shown_programs(self, policy: Confinement) -> list[str]:
        """They come first: what the policy says of a path in them wins."""
        arguments: list[str] = []
        folders = self._program_folders(policy)
        shown = {path for folder in folders for path in folder.shown}
        for path in sorted(shown):
            arguments += ["--ro-bind-try", str(path), str(path)]
        links = {place: target for folder in folders for place, target in folder.links}
        for place in sorted(links):
            if not any(path in shown or path in links for path in place.parents):
                arguments += ["--symlink", str(links[place]), str(place)]
        return arguments

    def _program_folders(self, policy: Confinement) -> tuple[ProgramFolder, ...]:
        if policy.mode == "full":
            return ()
        if policy not in self._programs:
            self._programs[policy] = program_folders(self._host, policy)
        return self._programs[policy]

    def _roots(self, policy: Confinement, template: MountTemplate | None) -> list[str]:
        arguments: list[str] = []
        if policy.mode == "full":
            return arguments
        for path in sorted(policy.readable):
            arguments += ["--ro-bind-try", str(path), str(path)]
        shown = [path for folder in self._program_folders(policy) for path in folder.shown]
        covering = (*PRIVATE, SHARED_MEMORY, *policy.readable, *shown)
        for path in sorted({policy.workspace, *policy.writable}):
            if not template or any(_overlap(path, each) for each in covering):
                arguments += ["--bind" if path in policy.roots() else "--ro-bind", str(path), str(path)]
        return arguments

    def _held(self, policy: Confinement, found: SurveyFindings) -> list[tuple[str, Path]]:
        """What is mounted over itself in the folders of a policy, and how: as mount points, folders around
        protected paths cannot be renamed, and protected paths become read-only."""
        roots = policy.roots()
        held = [("--bind", path) for path in folders_above(policy)]
        for git_dir in sorted(found.git_dirs):
            if any(git_dir.is_relative_to(root) for root in roots):
                with suppress(OSError):
                    (git_dir / "hooks").mkdir(exist_ok=True)
                # A mount point cannot be renamed, so no copy with other hooks takes its place.
                held += [] if git_dir in roots else [("--bind", git_dir)]
        hooks = {git_dir / "hooks" for git_dir in found.git_dirs}
        paths = set(filter(is_mountable, hooks | found.protected.keys()))
        paths -= found.linked  # a mount follows no link
        known = policy.protected_inside()
        own = {Path(os.path.realpath(path)) for path in known}.difference(set(roots).difference(known))
        paths.update(filter(Path.exists, own))
        inside = (path for path in sorted(paths) if any(path.is_relative_to(root) for root in roots))
        return held + [("--ro-bind", path) for path in inside]

    def _hidden(self, policy: Confinement, found: Iterable[Path]) -> list[Path]:
        known = (*policy.hidden_paths, *self._masks.for_root_alone, *found)
        there = self._known.nodes(known)
        if self._hiding[:2] != (policy, there):
            paths = {path for path, _ in there}
            programs = [path for folder in self._program_folders(policy) for path in folder.shown]
            visible = (path for path in paths if _is_visible(path, policy, programs))
            hidden = {path for path in visible if not policy.is_shown(path)}
            # Under a mask there is nothing left to lay one over.
            self._hiding = (policy, there, sorted(each for each in hidden if hidden.isdisjoint(each.parents)))
        return self._hiding[2]


def folders_above(policy: Confinement) -> list[Path]:
    """The folders between a workspace and what is protected in it. As mount points they cannot be renamed, so
    that nothing else takes their place; the outermost first."""
    roots = set(policy.roots())
    inside = (path for path in policy.held_inside() if path in policy.protected_paths)
    above = {each for path in inside for each in path.parents if roots.intersection(each.parents)}
    return sorted(each for each in above if each.is_dir() and each == Path(os.path.realpath(each)))


def _rights() -> list[str]:
    """What a command may and may not be, wherever it is."""
    uid, gid = (UID_INSIDE, UID_INSIDE) if os.geteuid() == 0 else (os.geteuid(), os.getegid())
    return [*NAMESPACES, "--uid", str(uid), "--gid", str(gid), "--cap-drop", "ALL", "--disable-userns"]


def _shown_below(path: Path, policy: Confinement) -> list[Path]:
    """What can be read all the same in a hidden folder."""
    shown = [each for each in policy.readable if path in each.parents and each.is_dir()]
    return shown + [each for each in policy.shown_paths if path in each.parents and each.exists()]


def _mounts(held: Iterable[tuple[str, Path]]) -> Iterator[str]:
    for how, path in held:
        yield from (how, str(path), str(path))


def _overlap(one: Path, other: Path) -> bool:
    return one.is_relative_to(other) or other.is_relative_to(one)


def _is_visible(path: Path, policy: Confinement, programs: Iterable[Path]) -> bool:
    shown = (policy.workspace, *policy.writable, *policy.readable, *programs)
    if policy.mode == "full" or any(path.is_relative_to(root) for root in shown):
        return True
    return not any(path.is_relative_to(folder) for folder in PRIVATE)


def _size(prepared: PreparedRun, share: int) -> list[str]:
    """How large the next file system in memory may become; as large as it likes where a person said so."""
    room = prepared.command.limits.memory_bytes
    if not room and prepared.policy.memory_bytes is None:
        room = share_of_machine()
    return ["--size", str(room // share)] if room else []


def pipe_of(data: bytes) -> int:
    """A descriptor from which a small text can be read once."""
    readable, writable = os.pipe2(os.O_CLOEXEC)
    os.write(writable, data)
    os.close(writable)
    return readable
