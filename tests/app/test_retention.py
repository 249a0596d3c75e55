"""`[retention]` is applied beside a session that runs: once a day, and never to what runs."""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path

import mainspring
from mainspring.app.retention import LOG
from mainspring.models.scripted import Script, ScriptedModel, ScriptedReply
from mainspring.settings import Config, load_config

OLD = "[retention]\nsessions_days = 0.00000001\n"


def config_of(folder: Path, settings: str) -> Config:
    home = folder / "home"
    home.mkdir(exist_ok=True)
    (home / "config.toml").write_text(settings)
    return load_config({"MAINSPRING_HOME": str(home), "HOME": str(folder), "PATH": os.environ["PATH"]})


async def worked(folder: Path, config: Config, *, waits: bool = False) -> str:
    """The session of some work, which lasts until retention was applied when it `waits`."""
    work = folder / "work"
    work.mkdir(exist_ok=True)
    model = ScriptedModel(Script(replies=(ScriptedReply(text="hi"),)))
    async with mainspring.open(work, model=model, config=config) as session:
        await session.ask("hello")
        while waits and not (config.home / LOG).exists():
            await asyncio.sleep(0.02)
        return session.id


def sessions(config: Config) -> set[str]:
    return {path.name for path in (config.home / "sessions").glob("[!.]*") if path.is_dir()}


def test_old_sessions_go_beside_one_that_runs_and_once_a_day(tmp_path: Path) -> None:
    async def main() -> None:
        first = await worked(tmp_path, config_of(tmp_path, ""))
        config = config_of(tmp_path, OLD)
        second = await worked(tmp_path, config, waits=True)
        assert sessions(config) == {second}
        assert "deleted 1 session " in (config.home / LOG).read_text()
        third = await worked(tmp_path, config)
        assert sessions(config) == {second, third}, "it was applied today"
        yesterday = time.time() - 25 * 3600
        os.utime(config.home / LOG, (yesterday, yesterday))
        (config.home / LOG).rename(config.home / "before.log")
        fourth = await worked(tmp_path, config, waits=True)
        assert sessions(config) == {fourth}
        assert first not in sessions(config)

    asyncio.run(main())


def test_without_the_setting_nothing_is_looked_at(tmp_path: Path) -> None:
    config = config_of(tmp_path, "")
    first = asyncio.run(worked(tmp_path, config))
    second = asyncio.run(worked(tmp_path, config))
    assert sessions(config) == {first, second}
    assert not (config.home / LOG).exists()
