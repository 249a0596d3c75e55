"""The index that a session at a terminal has made beside it."""

from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec
import pytest

from mainspring.app.background_index import begin_index
from mainspring.app.operations.index import find_in_index, index_status, update_index
from mainspring.app.session_index import session_index
from mainspring.context.work import WorkSettings
from mainspring.index import index_file
from mainspring.settings import Config
from tests.daemon.test_daemon import until_true
from tests.index.test_index import config_in, repository

MANY = {f"part{number}.py": f"def task_{number}(): ...\n" for number in range(60)}


def attended(folder: Path, index: str = "auto") -> Config:
    config = config_in(folder)
    settings = msgspec.structs.replace(config.settings, work=msgspec.convert({"index": index}, WorkSettings))
    return msgspec.structs.replace(config, is_attended=True, settings=settings)


def is_made(config: Config, root: Path) -> bool:
    return index_file(config.home, root).with_suffix(".begun").exists()


def until_made(config: Config, root: Path) -> None:
    """The process that was begun holds the lock while it works; ours waits for it, then finds nothing new."""
    file = index_file(config.home, root)
    until_true(lambda: file.exists() and not asyncio.run(update_index(config, root)).change.is_busy)


def test_a_session_at_a_terminal_has_the_index_made_once(tmp_path: Path) -> None:
    root, config = repository(tmp_path, MANY), attended(tmp_path)
    assert session_index(root, config) is None
    assert begin_index(root, config)
    assert session_index(root, config) is not None  # its first answer waits for nobody, and says so
    assert not begin_index(root, config)
    until_made(config, root)
    assert find_in_index(config, root, "task_7").symbols[0].path == "part7.py"
    assert index_file(config.home, root).with_suffix(".begun").read_text(encoding="utf-8") == ""


@pytest.mark.parametrize("why", ["small", "no git", "worktree", "off", "nobody", "home"])
def test_no_index_is_made_unasked(tmp_path: Path, why: str) -> None:
    root = repository(tmp_path, {"a.py": "x = 1\n"} if why == "small" else MANY)
    config = attended(tmp_path, "off" if why == "off" else "auto")
    if why in ("no git", "worktree"):
        (root / ".git").rmdir()
    if why == "worktree":
        (root / ".git").write_text("gitdir: /nowhere\n", encoding="utf-8")
    if why == "nobody":
        config = msgspec.structs.replace(config, is_attended=False)
    if why == "home":
        config = msgspec.structs.replace(config, environment={**config.environment, "HOME": str(root)})
    assert not begin_index(root, config)
    assert not is_made(config, root)


def test_what_is_not_read_in_time_is_left_for_the_next_update_and_told(tmp_path: Path) -> None:
    root, config = repository(tmp_path, MANY), config_in(tmp_path)
    done = asyncio.run(update_index(config, root, max_s=0))
    assert (done.change.read, done.change.left, done.status.left) == (0, 60, 60)
    done = asyncio.run(update_index(config, root))
    assert (done.change.read, done.change.left) == (60, 0)
    assert index_status(config, root).left == 0
