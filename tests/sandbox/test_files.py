"""File access: what is refused, what is preserved."""

from __future__ import annotations

import os
import stat
import subprocess
import threading
from pathlib import Path

import pytest

from mainspring.disk.untrusted import open_resolved
from mainspring.errors import PathRefused
from mainspring.sandbox.files import Files
from mainspring.sandbox.policy import policy


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "home/.ssh").mkdir(parents=True)
    (tmp_path / "home/.ssh/id").write_text("key")
    return tmp_path / "home"


@pytest.fixture
def work(tmp_path: Path) -> Path:
    (tmp_path / "work").mkdir()
    return tmp_path / "work"


@pytest.fixture
def files(work: Path, home: Path) -> Files:
    return Files(policy(work, home=home))


def test_what_is_written_is_read_back(files: Files, work: Path) -> None:
    files.write("a/b/c.txt", b"text")
    assert files.read("a/b/c.txt").data == b"text"
    assert sorted(os.listdir(work / "a/b")) == ["c.txt"]


def test_a_part_can_be_read(files: Files) -> None:
    files.write("x", b"0123456789")
    content = files.read("x", offset=3, max_bytes=4)
    assert (content.data, content.size) == (b"3456", 10)


def test_a_replaced_file_keeps_its_mode(files: Files, work: Path) -> None:
    (work / "run.sh").write_text("old")
    (work / "run.sh").chmod(0o751)
    files.write("run.sh", b"new")
    assert stat.S_IMODE((work / "run.sh").stat().st_mode) == 0o751


def test_a_hard_link_to_outside_is_cut_by_a_write(files: Files, work: Path, tmp_path: Path) -> None:
    (tmp_path / "outside").write_text("old")
    os.link(tmp_path / "outside", work / "inside")
    files.write("inside", b"new")
    assert (tmp_path / "outside").read_text() == "old"


@pytest.mark.parametrize(
    "path",
    [
        "../outside",
        "/etc/passwd",
        "a/../../outside",
        "link/file",
        "toplink",
        ".git/hooks/pre-commit",
        ".git/config",
        "sub/.git/hooks/x",
        ".git/modules/m/hooks/x",
        ".git/worktrees/w/commondir",
        ".git",
        "sub/.git",
        ".vscode/tasks.json",
        ".VSCode/tasks.json",
        "deep/down/.idea/x",
        ".envrc",
        ".mcp.json",
        ".claude/settings.json",
        ".mainspring/x",
        ".env",
        ".env.production",
        "a\0b",
        "",
        ".",
        "x" * 300,
        "d" * 5000,
    ],
)
def test_a_write_is_refused(files: Files, work: Path, tmp_path: Path, path: str) -> None:
    (work / "link").symlink_to(tmp_path)
    (work / "toplink").symlink_to(tmp_path / "outside")
    with pytest.raises((PathRefused, OSError)):
        files.write(path, b"x")
    assert not (tmp_path / "outside").exists()
    assert not (tmp_path / "file").exists()


@pytest.mark.parametrize("path", [".gitignore", "config", "hooks/x", ".env.example", "src/.github/x", "é\nü"])
def test_a_harmless_name_may_be_written(files: Files, path: str) -> None:
    files.write(path, b"x")
    assert files.read(path).data == b"x"


@pytest.mark.parametrize(
    "path",
    ["home/.ssh/id", "link", "fifo", "socket", "/proc/self/environ", "/dev/zero", "/etc/shadow", ".env", "."],
)
def test_a_read_is_refused(files: Files, work: Path, home: Path, path: str) -> None:
    (work / "home").symlink_to(home)
    (work / "link").symlink_to(home / ".ssh/id")
    (work / ".env").write_text("KEY=1")
    os.mkfifo(work / "fifo")
    os.mknod(work / "socket", stat.S_IFSOCK | 0o600)
    with pytest.raises(PathRefused):
        files.read(path)


def test_a_grant_lifts_hiding_and_protection(work: Path, home: Path) -> None:
    files = Files(policy(work, home=home, granted=(".env", ".vscode", str(home / ".ssh"))))
    files.write(".vscode/tasks.json", b"{}")
    files.write(".env", b"A=1")
    assert files.read(home / ".ssh/id").data == b"key"
    with pytest.raises(PathRefused):
        files.write(".idea/x", b"")


def test_mainsprings_own_data_is_never_written(work: Path, home: Path) -> None:
    files = Files(policy(work, home=home, data=work / "state"))
    with pytest.raises(PathRefused):
        files.write("state/journal", b"")


def test_a_read_only_session_writes_nothing(work: Path, home: Path) -> None:
    with pytest.raises(PathRefused, match="read-only"):
        Files(policy(work, home=home, mode="read-only")).write("x", b"")


def test_what_somebody_writes_while_our_copy_goes_to_the_disk_is_not_overwritten(
    files: Files, work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (work / "x").write_bytes(b"one")
    version = files.read("x", max_bytes=10).version
    fsync = os.fsync

    def slow(fd: int) -> None:
        fsync(fd)
        (work / "x").write_bytes(b"theirs")

    monkeypatch.setattr(os, "fsync", slow)
    with pytest.raises(PathRefused, match="changed"):
        files.write("x", b"ours", unchanged_since=version)
    assert (work / "x").read_bytes() == b"theirs"
    assert os.listdir(work) == ["x"]


def test_a_file_that_changed_after_it_was_read_is_not_overwritten(files: Files, work: Path) -> None:
    version = files.write("x", b"one")
    assert files.read("x").version == version
    (work / "x").write_text("two")
    with pytest.raises(PathRefused, match="changed"):
        files.write("x", b"three", unchanged_since=version)
    (work / "x").unlink()
    with pytest.raises(PathRefused, match="removed"):
        files.write("x", b"three", unchanged_since=version)


def test_a_file_marked_read_only_is_left_alone(files: Files, work: Path) -> None:
    (work / "x").write_text("keep")
    (work / "x").chmod(0o444)
    with pytest.raises(PathRefused, match="0444"):
        files.write("x", b"")


def test_hidden_entries_are_not_listed(files: Files, work: Path) -> None:
    (work / ".env").write_text("")
    (work / "a").mkdir()
    (work / "b").symlink_to("a")
    assert [(e.name, e.is_dir, e.is_link) for e in files.entries()] == [("a", True, False), ("b", True, True)]


def test_a_file_is_removed_and_a_missing_one_is_an_error(files: Files) -> None:
    files.write("x", b"")
    files.remove("x")
    with pytest.raises(FileNotFoundError):
        files.remove("x")


def test_a_folder_swapped_for_a_link_never_leads_outside(files: Files, work: Path, home: Path) -> None:
    (work / "inner").mkdir()
    (work / "inner/id").write_text("mine")
    stop = threading.Event()

    def swap() -> None:
        while not stop.is_set():
            os.rename(work / "inner", work / "aside")
            os.symlink(home / ".ssh", work / "inner")
            os.unlink(work / "inner")
            os.rename(work / "aside", work / "inner")

    swapper = threading.Thread(target=swap)
    swapper.start()
    try:
        for _ in range(2000):
            try:
                assert files.read("inner/id").data == b"mine"
            except (PathRefused, OSError):
                continue
    finally:
        stop.set()
        swapper.join()


def test_kernels_without_openat2_refuse_links_too(work: Path) -> None:
    (work / "real").mkdir()
    (work / "real/file").write_text("x")
    (work / "link").symlink_to("real")
    os.close(open_resolved(work.resolve() / "real/file", os.O_RDONLY | os.O_NOFOLLOW))
    with pytest.raises(OSError):
        open_resolved(work.resolve() / "link/file", os.O_RDONLY | os.O_NOFOLLOW)


@pytest.mark.parametrize(
    "path",
    ["store/hooks/pre-receive", "store/config", "store/config.worktree", "kept/hooks/x", "kept/config"],
)
def test_a_repository_of_any_name_is_protected(files: Files, work: Path, path: str) -> None:
    subprocess.run(["git", "init", "-q", "--bare", "store"], cwd=work, check=True)
    subprocess.run(["git", "init", "-q", "--separate-git-dir", "kept", "tree"], cwd=work, check=True)
    with pytest.raises(PathRefused, match="run code"):
        files.write(path, b"x")
    files.write("store/description", b"x")


def test_a_repository_of_any_name_is_not_made_with_settings_of_its_own(files: Files) -> None:
    for name in ("config", "refs/x", "objects/x"):
        files.write(f"made/{name}", b"x")
    with pytest.raises(PathRefused, match="made/config"):
        files.write("made/HEAD", b"ref: refs/heads/x")
    files.write("borrowing/commondir", b"../made")
    with pytest.raises(PathRefused, match="borrowing/commondir"):
        files.write("borrowing/HEAD", b"ref: refs/heads/x")
