"""The real command in a process that kills itself right before its Nth change to a folder.

python dying.py FOLDER N COMMAND...
"""

import os
import signal
import sys

from mainspring.cli.commands import run_command

CHANGES = {
    "os.rename",
    "os.remove",
    "os.chmod",
    "os.mkdir",
    "os.rmdir",
    "os.symlink",
    "os.link",
    "os.truncate",
}


def main() -> None:
    folder, left = sys.argv[1], [int(sys.argv[2])]
    sys.argv = ["mainspring", *sys.argv[3:]]

    def watch(event: str, arguments: tuple[object, ...]) -> None:
        is_written = (
            event == "open" and isinstance(arguments[2], int) and arguments[2] & (os.O_WRONLY | os.O_RDWR)
        )
        if not is_written and event not in CHANGES:
            return
        if any(isinstance(each, str) and each.startswith(folder) for each in map(_plain, arguments)):
            left[0] -= 1
            if left[0] == 0:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(watch)
    run_command()


def _plain(value: object) -> object:
    return os.fspath(value) if isinstance(value, os.PathLike) else value


if __name__ == "__main__":
    main()
