"""Tasks on disk, and workspaces made of them.

A task is a folder: `task.toml` (kind, language, level, the visible test's command), `task.md` (what the agent
is told), `files/` (what it finds), `solution/` (laid over the files, it solves the task) and `check.py`,
`check.js` or `check.sh`: run in a copy of the workspace after the attempt, exit code 0 means solved. Only
`files/` ever reaches the agent's folder.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path

TASKS = Path(__file__).parent / "tasks"
_REPOSITORY = TASKS.parents[2]
_CHECK_TIMEOUT_S = 60
_INTERPRETERS = {".py": [sys.executable, "-B"], ".js": ["node"], ".sh": ["bash"]}


@dataclass(frozen=True, kw_only=True)
class Task:
    name: str
    folder: Path
    kind: str
    language: str
    level: int
    text: str
    test: str

    @property
    def check(self) -> Path:
        (found,) = self.folder.glob("check.*")
        return found

    @property
    def problem(self) -> str:
        """Why this machine cannot run it; empty when it can."""
        if self.language == "javascript" and shutil.which("node") is None:
            return "node is not installed (Debian: apt-get install nodejs)"
        return ""


@dataclass(frozen=True, kw_only=True)
class Checked:
    is_solved: bool
    detail: str


def load_tasks(folder: Path = TASKS, patterns: Sequence[str] = ()) -> list[Task]:
    """The tasks below a folder whose names meet one of the patterns, or all."""
    found = [_load(path.parent) for path in sorted(folder.glob("*/task.toml"))]
    return [task for task in found if not patterns or any(fnmatch(task.name, each) for each in patterns)]


def _load(folder: Path) -> Task:
    about = tomllib.loads((folder / "task.toml").read_text(encoding="utf-8"))
    return Task(
        name=folder.name,
        folder=folder,
        kind=about["kind"],
        language=about["language"],
        level=about["level"],
        text=(folder / "task.md").read_text(encoding="utf-8").strip(),
        test=about.get("test", ""),
    )


def make_workspace(task: Task, target: Path, *, is_solved: bool = False) -> Path:
    shutil.copytree(task.folder / "files", target)
    if is_solved:
        shutil.copytree(task.folder / "solution", target, dirs_exist_ok=True)
    return target


def check(task: Task, workspace: Path, scratch: Path, *, is_trusted: bool = False) -> Checked:
    """Runs the hidden check in a copy of the workspace, so that it can change and add what it likes."""
    copy = scratch / "checked"
    shutil.copytree(workspace, copy, symlinks=True)
    argv = [*_INTERPRETERS[task.check.suffix], str(task.check)]
    environment = {
        **os.environ,
        "PYTHONPATH": str(copy),
        "PYTHONDONTWRITEBYTECODE": "1",
        "TASK_HOME": str(copy),
    }
    if not is_trusted:
        argv = confined(argv, writable=[copy], is_online=False, hidden=[])
    try:
        done = subprocess.run(
            argv,
            cwd=copy,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_CHECK_TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return Checked(is_solved=False, detail=f"the check took over {_CHECK_TIMEOUT_S} s")
    finally:
        shutil.rmtree(copy, ignore_errors=True)
    lines = (done.stdout + done.stderr).strip().splitlines()
    return Checked(is_solved=done.returncode == 0, detail=lines[-1][:200] if lines else "")


def confined(
    argv: Sequence[str],
    *,
    writable: Sequence[Path],
    is_online: bool,
    hidden: Sequence[Path] = (TASKS,),
    readable: Sequence[Path] = (),
) -> list[str]:
    """The command under bubblewrap, where there is one: programs that a model wrote change nothing but
    `writable`, and see neither checks nor solutions. `/tmp` is an empty folder of theirs."""
    bwrap = shutil.which("bwrap")
    if bwrap is None:
        return list(argv)
    flags = ["--die-with-parent", "--new-session", "--unshare-user", "--unshare-pid", "--unshare-ipc"]
    flags += ["--cap-drop", "ALL", "--uid", "1000", "--gid", "1000", "--disable-userns"]
    flags += ["--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--tmpfs", "/tmp"]
    for path in (_REPOSITORY, Path(sys.prefix), *readable):
        flags += ["--ro-bind", str(path), str(path)]
    for path in hidden:
        flags += ["--tmpfs", str(path)]
    for path in writable:
        flags += ["--bind", str(path), str(path)]
    if not is_online:
        flags += ["--unshare-net"]
    return [bwrap, *flags, "--", *argv]
