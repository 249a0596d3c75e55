"""A session whose command on another machine, which is this one, kills it.

python -m tests.jobs.killed_there FOLDER SSH_SETTINGS
"""

import os
import sys
from pathlib import Path

from mainspring.catalog.sqlite import SqliteSessions
from mainspring.testing import Stage, tool_call
from tests.jobs.machine_stage import config_there
from tests.jobs.stage import free


def main(folder: Path, ssh_settings: str) -> None:
    command = f"kill -9 {os.getpid()}; sleep 300"
    sessions = SqliteSessions(folder / "store")
    stage = Stage(folder, tool_call("shell", command=command), sessions=sessions)
    stage.run("go", **free(config_there(folder, ("-F", ssh_settings))))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
