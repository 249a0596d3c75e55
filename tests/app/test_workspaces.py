"""Which folders may be a workspace, and that every way into one asks the same function."""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import mainspring
from mainspring.app.goals import GoalOptions, start_goal
from mainspring.app.loops import ExploopConfig, run_exploop
from mainspring.app.operations.forks import fork
from mainspring.app.operations.schedules import plan_schedule
from mainspring.app.stores import sessions_of
from mainspring.app.workspaces import check_workspace
from mainspring.errors import UsageError
from mainspring.events import SessionResumed, SessionStarted
from mainspring.models.scripted import Script, ScriptedModel
from mainspring.settings import Config, Settings, load_config


def config_in(home: Path, **variables: str) -> Config:
    """As without MAINSPRING_HOME: data and settings lie in the home folder."""
    return Config(
        home=home / ".local/share/mainspring",
        folder=home / ".config/mainspring",
        settings=Settings(),
        environment={"HOME": str(home), "PATH": os.environ["PATH"], **variables},
    )


@pytest.fixture
def home(tmp_path: Path) -> Path:
    for name in (".config/mainspring", ".local/share/mainspring", ".ssh", "project"):
        (tmp_path / "home" / name).mkdir(parents=True)
    return tmp_path / "home"


@pytest.mark.parametrize(
    "place",
    [
        "/",
        "/etc",
        "/etc/ssl",
        "/usr",
        "/usr/bin",
        "/bin",
        "/boot",
        "/dev",
        "/proc",
        "/sys",
        "/var",
        "/var/lib",
    ],
)
def test_folders_of_the_system_are_refused_even_when_somebody_insists(place: str, home: Path) -> None:
    if not Path(place).is_dir():
        pytest.skip(f"there is no {place} here")
    with pytest.raises(UsageError, match="folder of the system"):
        check_workspace(Path(place).resolve(), config_in(home), allow_home=True)


@pytest.mark.parametrize("name", ["", ".config", ".local", ".local/share", ".."])
def test_a_folder_with_the_home_settings_or_data_in_it_needs_a_person(name: str, home: Path) -> None:
    place, asked = (home / name).resolve(), list[str]()

    def says(answer: bool) -> Any:
        return lambda text: asked.append(text) or answer

    for allow in (False, says(answer=False)):
        with pytest.raises(UsageError, match="--allow-home"):
            check_workspace(place, config_in(home), allow_home=allow)
    assert check_workspace(place, config_in(home), allow_home=says(answer=True))
    assert check_workspace(place, config_in(home), allow_home=True)
    assert len(asked) == 2
    assert all(f"{place} holds" in text for text in asked)


@pytest.mark.parametrize("name", [".config/mainspring", ".local/share/mainspring/sessions", ".ssh"])
def test_folders_of_ours_and_of_keys_are_refused_even_when_somebody_insists(name: str, home: Path) -> None:
    with pytest.raises(UsageError, match=r"belongs to mainspring|keys and passwords"):
        check_workspace(home / name, config_in(home), allow_home=True)


@pytest.mark.parametrize(
    "place", ["/app", "/workspace", "/opt/x", "/srv/www", "/usr/src/app", "/var/www/x", "/tmp/x"]
)
def test_ordinary_folders_need_nobody(place: str, home: Path) -> None:
    assert not check_workspace(Path(place), config_in(home))
    assert not check_workspace(home / "project", config_in(home))


def test_the_home_of_a_service_may_lie_in_var() -> None:
    config = config_in(Path("/var/lib/builder"))
    assert not check_workspace(Path("/var/lib/builder/job"), config)
    with pytest.raises(UsageError, match="folder of the system"):
        check_workspace(Path("/var/lib/other"), config)


def test_data_moved_elsewhere_is_found_there(home: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "work" / "kept"
    elsewhere.mkdir(parents=True)
    config = load_config({"HOME": str(home), "MAINSPRING_HOME": str(elsewhere)})
    with pytest.raises(UsageError, match="mainspring's data"):
        check_workspace(tmp_path / "work", config)


@pytest.fixture
def shared_memory() -> Iterator[Path]:
    if not os.access("/dev/shm", os.W_OK):
        pytest.skip("no /dev/shm here")
    made = Path(tempfile.mkdtemp(dir="/dev/shm"))
    yield made
    shutil.rmtree(made)


def test_a_home_on_another_file_system_is_found_through_a_link(shared_memory: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(shared_memory)
    with pytest.raises(UsageError, match="your home folder"):
        asyncio.run(_open(tmp_path / "link", config_in(shared_memory)))


async def _open(workspace: Path, config: Config, **options: Any) -> str:
    model = ScriptedModel(Script(replies=()))
    async with mainspring.open(workspace, model=model, config=config, **options) as session:
        return session.id


async def _start(workspace: Path, config: Config) -> None:
    async with start_goal("x", GoalOptions(folder=workspace, model="scripted@none"), config=config):
        pass


async def _fork(workspace: Path, config: Config) -> None:
    made = await _open(Path(config.environment["HOME"]) / "project", config)
    await fork(config, made, folder=workspace)


async def _schedule(workspace: Path, config: Config) -> None:
    options = GoalOptions(folder=workspace, model="scripted@none")
    await plan_schedule(config, "@daily", "x", options, is_uncapped=True, by="me")


async def _step(workspace: Path, config: Config) -> None:
    await mainspring.run_step_async(["true"], cwd=workspace, config=config)


@pytest.mark.parametrize("way", [_open, _start, _fork, _schedule, _step])
def test_every_way_into_a_workspace_is_refused(way: Any, home: Path, tmp_path: Path) -> None:
    script = tmp_path / "none"
    script.write_text('{"replies": []}')
    for place in (home, home.parent):
        with pytest.raises(UsageError, match="holds your home folder"):
            asyncio.run(way(place, config_in(home)))


def test_a_loop_of_a_program_is_refused(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("MAINSPRING_HOME", str(home / ".local/share/mainspring"))
    with pytest.raises(UsageError, match="holds your home folder"):
        run_exploop(ExploopConfig(goal="x", workspace=home))


def test_what_a_person_allowed_is_on_record_and_counts_when_the_session_goes_on(home: Path) -> None:
    config = config_in(home)

    async def main() -> list[Any]:
        session = await _open(home, config, allow_home=True)
        await _open(home, config, session=session)
        reader = await sessions_of(config).read(session)
        try:
            return [recorded.event for recorded in await reader.read()]
        finally:
            await reader.close()

    events = asyncio.run(main())
    assert [each.allows_home for each in events if isinstance(each, SessionStarted | SessionResumed)] == [
        True,
        True,
    ]
