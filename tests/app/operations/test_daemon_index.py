"""Which repositories the daemon keeps indexes of, and what `clean` does with those that are old."""

from __future__ import annotations

import asyncio
import os
import subprocess
from pathlib import Path

from mainspring.app.operations.cleaning import find_leftovers, remove_leftovers
from mainspring.app.operations.daemon_index import recent_repositories
from mainspring.app.operations.index import update_index
from mainspring.app.stores import sessions_of
from mainspring.settings import Config, load_config
from mainspring.testing import Stage


def config_in(folder: Path) -> Config:
    return load_config({"MAINSPRING_HOME": str(folder / "home"), "PATH": "/usr/bin:/bin", "HOME": "/nowhere"})


def test_repositories_of_recent_sessions_are_kept_and_others_are_not(tmp_path: Path) -> None:
    config = config_in(tmp_path)
    for name in ("git", "plain"):
        stage = Stage(tmp_path / name, "Done.", sessions=sessions_of(config))
        if name == "git":
            subprocess.run(["git", "init", "-q"], cwd=stage.workspace, check=True)
        stage.run("Go")
    assert asyncio.run(recent_repositories(config)) == [tmp_path / "git" / "workspace"]
    at_home = load_config({**config.environment, "HOME": str(tmp_path / "git" / "workspace" / "below")})
    assert asyncio.run(recent_repositories(at_home)) == []


def test_an_old_index_is_cleaned_away(tmp_path: Path) -> None:
    config, root = config_in(tmp_path), tmp_path / "work"
    root.mkdir()
    (root / "a.py").write_text("x = 1\n")
    asyncio.run(update_index(config, root))
    (file,) = (config.home / "code-index").glob("*.sqlite")
    assert asyncio.run(find_leftovers(config)) == ()
    for each in file.parent.iterdir():
        os.utime(each, (1, 1))
    found = asyncio.run(find_leftovers(config))
    assert {each.kind for each in found} == {"cache"}
    asyncio.run(remove_leftovers(config, found))
    assert not file.exists()
