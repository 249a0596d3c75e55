"""The rung for places where namespaces are closed: Landlock for files, seccomp for the rest.

Writes stay in the workspace and a private temporary folder; secrets outside the workspace cannot be
read. Landlock grants whole folders and takes nothing back, so a protected path inside the workspace is
repaired after the run instead, and a `.env` there can be read. In a workspace that holds keys or our own
data, commands change what is there, and make nothing new in the folders around those. Network off means: no
sockets but pairs.
"""

from __future__ import annotations

import ctypes
import os
import struct
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path

from mainspring.disk.files import closing_descriptor
from mainspring.disk.scan import Scan
from mainspring.disk.scratch import ScratchFolder
from mainspring.errors import SandboxError
from mainspring.sandbox.custody.kernel import (
    SYS_LANDLOCK_ADD_RULE,
    SYS_LANDLOCK_CREATE_RULESET,
    syscall,
)
from mainspring.sandbox.launch import Launch
from mainspring.sandbox.policy import Confinement
from mainspring.sandbox.rungs.confined import Confined, PreparedRun
from mainspring.sandbox.rungs.masks import root_only
from mainspring.sandbox.rungs.seccomp import INET, UNIX, filter_for, is_known_machine
from mainspring.sandbox.survey import SurveyFindings

ASK_VERSION = 1
RULE_PATH = 1
EXECUTE, WRITE_FILE, READ_FILE, READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
TRUNCATE, IOCTL_DEV = 1 << 14, 1 << 15
READ = EXECUTE | READ_FILE | READ_DIR
ON_FILES = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEV
BASE_RIGHTS = (1 << 13) - 1
LATER_RIGHTS = {2: 1 << 13, 3: TRUNCATE, 5: IOCTL_DEV}
SCOPE_ABSTRACT_SOCKETS_AND_SIGNALS = 3
SCOPED_SINCE = 6
DEVICES = ("null", "zero", "full", "random", "urandom", "tty", "ptmx")
SHARED = (Path("/dev/shm"), Path("/dev/pts"))  # noqa: S108 - semaphores live there
REMEDY = "Use a kernel with Landlock enabled: add `landlock` to the `lsm=` boot parameter"


def abi() -> int:
    """The kernel's Landlock version; 0 when it has none."""
    try:
        none = ctypes.c_void_p(None)
        return syscall(SYS_LANDLOCK_CREATE_RULESET, none, ctypes.c_size_t(0), ctypes.c_uint32(ASK_VERSION))
    except OSError:
        return 0


class LandlockSandbox(Confined):
    """`environment` is the host's, of which an allow-list is passed on."""

    name = "landlock"
    is_containing_background = False
    has_own_pids = False

    def __init__(
        self, policy: Confinement, *, environment: Mapping[str, str], scan: Scan | None = None
    ) -> None:
        self._abi = abi()
        if self._abi == 0 or not is_known_machine():
            raise SandboxError("This kernel has no Landlock.", remedy=REMEDY)
        self._built: tuple[Confinement, dict[str, int], int] | None = None
        self._scratch_folder = ScratchFolder()
        self._temporary = self._scratch_folder.path
        self._for_root_alone = tuple(root_only()) if os.geteuid() == 0 else ()
        scratch = {"TMPDIR": str(self._temporary), "GOCACHE": str(self._temporary / "go-build")}
        super().__init__(policy, environment, scratch=scratch, scan=scan)

    async def close(self) -> None:
        await super().close()
        self._forget()
        self._scratch_folder.close()

    def launch(self, prepared: PreparedRun) -> Launch:
        policy = prepared.policy
        # A Unix socket leads to whoever listens, Landlock or not: a container engine, an agent with keys.
        families = UNIX | INET if policy.network.mode == "full" else frozenset[int]()
        return Launch(
            argv=(prepared.program, *prepared.command.argv[1:]),
            env=prepared.env,
            cwd=str(prepared.command.cwd),
            rlimits=prepared.rlimits,
            cgroups=prepared.cgroups,
            drop=os.geteuid() == 0,
            ruleset=self._ruleset(policy),
            seccomp=filter_for(families),
        )

    def loose(self, found: SurveyFindings) -> Iterable[Path]:
        hooks = {git_dir / "hooks" for git_dir in found.git_dirs}
        return hooks | found.protected.keys()

    def _ruleset(self, policy: Confinement) -> int:
        """A descriptor of the rules; built again only when a folder that was listed for them has changed."""
        if self._built is None or self._built[0] != policy or _times(self._built[1]) != self._built[1]:
            listed: dict[str, int] = {}
            ruleset = self._build(policy, listed)
            self._forget()
            self._built = (policy, listed, ruleset)
        return os.dup(self._built[2])

    def _forget(self) -> None:
        if self._built is not None:
            os.close(self._built[2])
            self._built = None

    def _build(self, policy: Confinement, listed: dict[str, int]) -> int:
        everything = BASE_RIGHTS
        for since, right in LATER_RIGHTS.items():
            everything |= right if self._abi >= since else 0
        scoped = SCOPE_ABSTRACT_SOCKETS_AND_SIGNALS if self._abi >= SCOPED_SINCE else 0
        fields = struct.pack("=QQQ", everything, 0, scoped)[: 24 if scoped else 8]
        ruleset = syscall(
            SYS_LANDLOCK_CREATE_RULESET, fields, ctypes.c_size_t(len(fields)), ctypes.c_uint32(0)
        )
        hidden = {Path(os.path.realpath(path)) for path in (*policy.hidden_paths, *self._for_root_alone)}
        hidden = {path for path in hidden if not policy.is_shown(path)}
        for path in (*carve(Path("/"), hidden, listed), *policy.readable, *policy.shown_paths):
            _allow(ruleset, path, READ & everything)
        for path in (*policy.roots(), self._temporary, *SHARED):
            held = _held_in(path, policy, hidden)
            for each in carve(path, held, listed):
                _allow(ruleset, each, everything)
            if held:
                _allow(ruleset, path, READ_DIR)
        for name in DEVICES:
            _allow(ruleset, Path("/dev", name), (READ_FILE | WRITE_FILE | IOCTL_DEV) & everything)
        return ruleset


def _held_in(root: Path, policy: Confinement, hidden: Iterable[Path]) -> set[Path]:
    """What a command must not touch in a folder that it may write, when a secret lies in there; nothing new
    can be made beside that. Without a secret it is nothing: what is protected is put back after the run."""
    if policy.mode == "full":
        return set()
    inside = {path for path in hidden if root in path.parents and path.exists()}
    protected = {path for path in policy.protected_paths if root in path.parents}
    return inside | protected if inside else set()


def _times(folders: Iterable[str]) -> dict[str, int]:
    return {folder: os.stat(folder).st_mtime_ns for folder in folders}  # noqa: PTH116 - quick


def carve(folder: Path, hidden: Iterable[Path], listed: dict[str, int]) -> list[Path]:
    """Paths that together hold everything below a folder except what is hidden.

    Notes the folders that had to be listed, with their modification times.
    """
    inside = [path for path in hidden if path.is_relative_to(folder)]
    if not inside:
        return [folder]
    if folder in inside:
        return []
    covered: list[Path] = []
    with suppress(OSError):
        listed.update(_times([str(folder)]))
        for entry in os.scandir(folder):
            if not entry.is_symlink():
                covered += carve(Path(entry.path), inside, listed) if entry.is_dir() else [Path(entry.path)]
    return [path for path in covered if path not in inside]


def _allow(ruleset: int, path: Path, rights: int) -> None:
    try:
        fd = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        # What is not there, or not for us, cannot be granted.
        return
    with closing_descriptor(fd):
        if not path.is_dir():
            rights &= ON_FILES
        rule = struct.pack("=Qi", rights, fd)
        syscall(
            SYS_LANDLOCK_ADD_RULE, ctypes.c_int(ruleset), ctypes.c_int(RULE_PATH), rule, ctypes.c_uint32(0)
        )
