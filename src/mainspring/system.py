"""What this operating system offers: what works on it, in plain words, and the few calls that others lack.

Everything works on Linux, WSL 2 included. Elsewhere a call that is missing is an `OSError`, as from a kernel
that does not have it, so modules are imported, and read journals, on every system.
"""

from __future__ import annotations

import errno
import os
import signal
import sys
import time
from datetime import tzinfo
from pathlib import Path

import msgspec

from mainspring.errors import UsageError

if sys.platform == "win32":
    import platform
else:
    import fcntl
    import pwd

_READING = "sessions, show, tail, diff, cost, context, goal report, export, verify, models and doctor"
_USE_WSL2 = "Use WSL 2, which is Linux: wsl --install"

_CLOCK = Path("/etc/localtime")
_LOCAL_DISKS = frozenset(["bcachefs", "ext2", "ext3", "ext4", "f2fs", "overlay", "tmpfs", "xfs", "zfs"])


class System(msgspec.Struct, frozen=True, kw_only=True):
    """`limits` says what does not work here and what does, and is empty where everything does. `has_custody`
    is whether commands and engines can be started, and ended with all that they start; `has_locks` whether
    a session can be kept to one writer."""

    name: str
    limits: str = ""
    remedy: str = ""
    has_custody: bool = True
    has_locks: bool = True


LINUX = System(name="Linux")
WSL1 = System(
    name="WSL 1",
    limits="WSL 1 has no Linux kernel: no sandbox works, so commands run only with --sandbox none, and what"
    " they leave running may not be ended.",
    remedy="Make it WSL 2: wsl --set-version NAME 2",
)
MACOS = System(
    name="macOS",
    limits="There is no sandbox for macOS yet: commands, background processes, engines, checks of goals and"
    f" the daemon do not work. Sessions that only use file tools work, as do {_READING}.",
    remedy="For everything, use Linux: a container or a virtual machine.",
    has_custody=False,
)
WINDOWS = System(
    name="Windows",
    limits=f"No session can run on Windows yet; {_READING} work.",
    remedy=_USE_WSL2,
    has_custody=False,
    has_locks=False,
)
OTHER = System(
    name=sys.platform,
    limits=f"mainspring needs Linux; here only {_READING} may work.",
    remedy="Use Linux.",
    has_custody=False,
)


def this_system() -> System:
    return find_system(sys.platform, _kernel_release())


def find_system(platform: str, release: str) -> System:
    """The system of a Python platform and a kernel release. WSL 1 calls itself `…-Microsoft`, WSL 2
    `…-microsoft-standard-WSL2`."""
    match platform:
        case "linux":
            return WSL1 if "Microsoft" in release and "WSL2" not in release else LINUX
        case "darwin":
            return MACOS
        case "win32" | "cygwin":
            return WINDOWS
        case _:
            return OTHER


def lock(handle: int, *, is_shared: bool = False) -> None:
    """Waits for the lock of an open file; it ends when the file is closed, or with the process."""
    if sys.platform == "win32":
        raise _missing("locks of files")
    fcntl.flock(handle, fcntl.LOCK_SH if is_shared else fcntl.LOCK_EX)


def try_lock(handle: int, *, is_shared: bool = False) -> bool:
    if sys.platform == "win32":
        raise _missing("locks of files")
    try:
        fcntl.flock(handle, (fcntl.LOCK_SH if is_shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def host_name() -> str:
    if sys.platform == "win32":
        return platform.node()
    return os.uname().nodename


def user_name() -> str:
    """Who runs this process, as the system knows it and not as a variable says."""
    if sys.platform == "win32":
        return os.getlogin()
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return str(os.getuid())


def account_home() -> str:
    """The home folder of the account, where HOME is not set, as in a service; else "/"."""
    if sys.platform == "win32":
        return "/"
    try:
        return pwd.getpwuid(os.getuid()).pw_dir
    except KeyError:
        return "/"


def open_process(pid: int) -> int:
    """A descriptor (pidfd) that means this process and no later one of its number."""
    if sys.platform == "linux":
        return os.pidfd_open(pid)
    raise _missing("descriptors of processes")


def signal_process(handle: int, number: signal.Signals) -> None:
    if sys.platform == "linux":
        return signal.pidfd_send_signal(handle, number)
    raise _missing("descriptors of processes")


def seconds_since_boot() -> float:
    """Those asleep included, where the system counts them."""
    if sys.platform == "linux":
        return time.clock_gettime(time.CLOCK_BOOTTIME)
    return time.monotonic()


def pid_scope() -> tuple[str, str]:
    """Where a process number means something: this boot, and this pid namespace. `FileNotFoundError` on a
    system without /proc."""
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return boot, str(Path("/proc/self/ns/pid").readlink())


def boot_clock() -> tuple[str, float]:
    """Which boot of this machine this is, and the seconds since it began, also those asleep: a clock that
    nobody sets. Elsewhere than on Linux no boot is named, and the seconds mean something in this process."""
    if sys.platform == "linux":
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip(), seconds_since_boot()
    return "", seconds_since_boot()


def usable_cores() -> int:
    if sys.platform == "linux":
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _kernel_release() -> str:
    try:
        return Path("/proc/sys/kernel/osrelease").read_text(encoding="utf-8")
    except OSError:
        return ""


def _missing(what: str) -> OSError:
    return OSError(errno.ENOSYS, f"{sys.platform} has no {what} that mainspring can use")


def stop_signals() -> tuple[signal.Signals, ...]:
    """What asks this process to stop: SIGTERM, and what a terminal sends (SIGINT, SIGQUIT, SIGHUP when it is
    closed) unless that was ignored when we were started. A shell starts background jobs so, and `nohup`."""
    names = ("SIGINT", "SIGQUIT", "SIGHUP")
    found = [signal.Signals[name] for name in names if hasattr(signal, name)]  # Windows has only SIGINT
    return (
        *(number for number in found if signal.getsignal(number) is not signal.SIG_IGN),
        signal.SIGTERM,
    )


def is_local_disk(path: str) -> bool:
    """Whether only this machine writes there, as its table of mounts says of the device; False: unknown."""
    try:
        lines = Path("/proc/self/mountinfo").read_text().splitlines()
        device = Path(path).stat().st_dev
    except OSError:
        return False
    mounts = [line.partition(" - ") for line in lines]
    number = f"{os.major(device)}:{os.minor(device)}"
    kinds = [right.split()[0] for left, _, right in mounts if left.split()[2] == number]
    return bool(kinds) and kinds[-1] in _LOCAL_DISKS


def zone_name(zone: tzinfo) -> str:
    """The name under which other machines know the zone of this machine's clock."""
    name = getattr(zone, "key", "UTC")
    if name == "local" and not (name := str(_CLOCK.resolve()).partition("/zoneinfo/")[2]):
        raise UsageError(
            "The time zone of this machine has no name, by which another one could know it.",
            remedy="Name it in TZ, as in TZ=Europe/Berlin.",
        )
    return name
