"""Folders that killed processes left under the temporary folder: swept, and nothing else with them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from mainspring.disk.scratch import PREFIX, ScratchFolder, remove, sweep

HOLD = """
import sys
import tempfile
from mainspring.disk.scratch import ScratchFolder
folder = ScratchFolder()
(folder.path / "closed").mkdir(mode=0)
print(folder.path, flush=True)
sys.stdin.read()
"""


@pytest.fixture
def holder(tmp_path: Path) -> Iterator[tuple[subprocess.Popen[str], Path]]:
    """A process that has a scratch folder."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD],
        env={**os.environ, "TMPDIR": str(tmp_path)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    yield process, Path(process.stdout.readline().strip())
    process.kill()
    process.communicate()


def killed(process: subprocess.Popen[str]) -> None:
    process.send_signal(signal.SIGKILL)
    process.communicate()


def test_a_killed_process_leaves_its_folder_until_the_next_start(
    holder: tuple[subprocess.Popen[str], Path], tmp_path: Path
) -> None:
    process, folder = holder
    sweep(tmp_path)
    assert folder.is_dir()  # its process lives
    killed(process)
    assert folder.is_dir()
    done = subprocess.run(
        [sys.executable, "-c", "from mainspring.disk.scratch import ScratchFolder; ScratchFolder().close()"],
        env={**os.environ, "TMPDIR": str(tmp_path)},
        check=False,
    )
    assert done.returncode == 0
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_a_running_command_has_as_its_tmpdir_stays(
    holder: tuple[subprocess.Popen[str], Path], tmp_path: Path
) -> None:
    process, folder = holder
    killed(process)
    command = subprocess.Popen(["cat"], env={"TMPDIR": str(folder)}, stdin=subprocess.PIPE)
    sweep(tmp_path)
    assert folder.is_dir()
    command.communicate()
    sweep(tmp_path)
    assert not folder.exists()


def test_what_is_not_a_folder_of_ours_stays(tmp_path: Path) -> None:
    target = tmp_path / "precious"
    target.mkdir()
    (target / "file").touch()
    (tmp_path / f"{PREFIX}abcdefgh").symlink_to(target)
    (tmp_path / f"{PREFIX}abcdefg1").touch()
    os.mkfifo(tmp_path / f"{PREFIX}abcdefg2")
    (tmp_path / f"{PREFIX}of-another-program").mkdir()
    (tmp_path / "mainspring-older").mkdir()
    before = sorted(tmp_path.rglob("*"))
    sweep(tmp_path)
    assert sorted(tmp_path.rglob("*")) == before


def test_a_folder_of_an_older_version_is_swept_when_nobody_used_it_for_a_day(tmp_path: Path) -> None:
    left, changed, used, open_to_all = (tmp_path / f"mainspring-abcdefg{number}" for number in range(4))
    for folder in (left, changed, used, open_to_all):
        folder.mkdir(mode=0o700)
        (folder / "file").touch()
    open_to_all.chmod(0o755)
    for path in (*tmp_path.iterdir(), *tmp_path.glob("*/file")):
        if path != changed / "file":
            os.utime(path, (0, 0))
    command = subprocess.Popen(["cat"], cwd=used, stdin=subprocess.PIPE)
    sweep(tmp_path)
    assert sorted(tmp_path.iterdir()) == [changed, used, open_to_all]
    command.communicate()
    sweep(tmp_path)
    assert sorted(tmp_path.iterdir()) == [changed, open_to_all]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder to somebody else")
def test_a_folder_of_another_user_stays(tmp_path: Path) -> None:
    folder = tmp_path / f"{PREFIX}abcdefgh"
    folder.mkdir()
    os.chown(folder, 65534, 65534)
    sweep(tmp_path)
    assert folder.is_dir()


def test_a_link_in_a_folder_is_removed_and_not_followed(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    kept.mkdir()
    (kept / "file").touch()
    folder = tmp_path / f"{PREFIX}abcdefgh"
    folder.mkdir()
    (folder / "link").symlink_to(kept)
    remove(folder)
    assert not folder.exists()
    assert (kept / "file").exists()


def test_a_closed_folder_is_gone() -> None:
    with ScratchFolder() as folder:
        (folder.path / "closed").mkdir(mode=0)
        assert folder.path.stat().st_mode & 0o777 == 0o700
    assert not folder.path.exists()


def test_a_folder_that_another_process_sweeps_before_it_is_opened_is_made_again(monkeypatch) -> None:
    make, made = tempfile.mkdtemp, list[Path]()

    def swept(prefix: str) -> str:
        made.append(Path(make(prefix=prefix)))
        if len(made) == 1:
            made[0].rmdir()
        return str(made[-1])

    monkeypatch.setattr(tempfile, "mkdtemp", swept)
    with ScratchFolder() as folder:
        assert folder.path == made[1]
        assert folder.path.is_dir()
