"""Runs the command line as on another system: without the modules, functions and folders that it does not have.

    python -P tests/other_system.py darwin|win32 ARGUMENT...

It is no macOS and no Windows: it shows that a command does not need what is missing there, not that it works.
"""

import os
import shutil
import signal
import socket
import sys
import sysconfig
import tempfile
import time
from importlib import import_module
from typing import Any

# The standard library and click decide by the system what they load; they must decide for the real one.
_LOADED_BEFORE = (
    "asyncio",
    "click",
    "ctypes",
    "multiprocessing",
    "platformdirs",
    "shutil",
    "subprocess",
    "uuid",
)
_NOT_ON_MACOS = {
    os: "pidfd_open pipe2 memfd_create MFD_CLOEXEC O_PATH O_TMPFILE sched_getaffinity setns unshare",
    signal: "pidfd_send_signal",
    time: "CLOCK_BOOTTIME",
    socket: "AF_NETLINK MSG_CMSG_CLOEXEC SO_PEERCRED",
}
_NOT_ON_WINDOWS = {
    os: "O_CLOEXEC O_DIRECTORY O_NOFOLLOW O_NONBLOCK O_NOCTTY uname getuid geteuid getgid getegid fork killpg"
    " setsid pread pwrite statvfs fchmod fchown chown mkfifo posix_spawn POSIX_SPAWN_OPEN getpgid nice",
    signal: "SIGKILL SIGHUP SIGUSR1 SIGUSR2 SIGALRM SIGPIPE SIGTSTP SIGCONT SIGQUIT",
    socket: "send_fds recv_fds",
}
_MODULES_NOT_ON_WINDOWS = ("fcntl", "pwd", "grp", "resource", "termios", "tty", "pty", "curses", "syslog")


def become(system: str) -> None:
    for name in _LOADED_BEFORE:
        import_module(name)
    sysconfig.get_config_vars()
    tempfile.__dict__["_O_TMPFILE_WORKS"] = False
    for missing in (_NOT_ON_MACOS, _NOT_ON_WINDOWS) if system == "win32" else (_NOT_ON_MACOS,):
        for module, names in missing.items():
            for name in names.split():
                if hasattr(module, name):  # not every Python has all of them
                    delattr(module, name)
    if system == "win32":
        # Windows asks its own system about disks; this Python knows only the way of Unix.
        shutil.disk_usage = lambda path: shutil._ntuple_diskusage(0, 0, 0)  # type: ignore[attr-defined, assignment]
        missing_modules: dict[str, Any] = dict.fromkeys(_MODULES_NOT_ON_WINDOWS)
        sys.modules.update(missing_modules)
    readlink = os.readlink

    def readlink_elsewhere(path: str, **options: int) -> str:
        _hide_linux("open", (path,))
        return readlink(path, **options)

    os.readlink = readlink_elsewhere
    sys.platform = system
    sys.addaudithook(_hide_linux)


def _hide_linux(event: str, arguments: tuple[object, ...]) -> None:
    is_file = event in ("open", "os.listdir", "os.scandir")
    if is_file and str(arguments[0]).startswith(("/proc", "/sys/fs")):
        raise FileNotFoundError(2, "No such file or directory", str(arguments[0]))
    if event == "ctypes.dlsym" and arguments[1] in ("syscall", "prctl", "inotify_init1", "unshare", "setns"):
        raise AttributeError(f"symbol not found: {arguments[1]}")


if __name__ == "__main__":
    become(sys.argv.pop(1))
    import_module("mainspring.cli").main()
