"""A workspace that holds the home folder: work goes on in it, settings, data and secrets stay out of reach. The attacks
on it are in the table of attacks."""

from __future__ import annotations

import asyncio
import os
import tempfile
from pathlib import Path

import pytest

from mainspring.errors import PathRefused
from mainspring.sandbox import Command, CommandResult
from mainspring.sandbox.files import Files
from mainspring.sandbox.policy import Confinement, policy
from mainspring.sandbox.probe import build
from mainspring.sandbox.rungs.container import ContainerSandbox
from mainspring.sandbox.survey import Survey
from tests.sandbox.test_conformance import report

DATA, SETTINGS = ".local/share/mainspring", ".config/mainspring"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    for name in (
        f"{DATA}/sessions/s/journal",
        f"{SETTINGS}/skills/x/SKILL.md",
        ".ssh/id",
        "code/main.py",
        ".bashrc",
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(f"text of {name}")
    return tmp_path


@pytest.fixture
def rules(home: Path) -> Confinement:
    return policy(home, home=home, data=home / DATA, settings=home / SETTINGS)


def run(rung: str, rules: Confinement, script: str) -> CommandResult:
    if not report().rung(rung).is_available:
        pytest.skip(f"{rung} is not available")

    async def main() -> CommandResult:
        sandbox = build(rung, rules, {"PATH": os.environ["PATH"], "HOME": str(rules.workspace)})
        try:
            return await sandbox.run(Command(argv=("bash", "-c", script), cwd=rules.workspace))
        finally:
            await sandbox.close()

    return asyncio.run(main())


@pytest.mark.parametrize("rung", ["bwrap", "landlock"])
def test_commands_still_work_in_it_and_read_skills(rung: str, rules: Confinement, home: Path) -> None:
    script = (
        f"ls && echo changed > code/main.py && echo new > code/new.py && cat {SETTINGS}/skills/x/SKILL.md"
    )
    done = run(rung, rules, script)
    assert done.exit_code == 0, done.stderr
    assert b"text of" in done.stdout
    assert (home / "code/new.py").read_text() == "new\n"
    assert done.set_aside == ()


@pytest.mark.parametrize("target", ["dotfiles", "{home}/dotfiles"])
def test_settings_behind_a_link_are_held_and_put_back(home: Path, target: str) -> None:
    """As people have them who keep their settings in a repository."""
    (home / ".config").rename(home / "dotfiles")
    (home / "dotfiles/git").mkdir()
    (home / "dotfiles/git/config").write_text("ours")
    (home / ".config").symlink_to(target.format(home=home))
    rules = policy(home, home=home, data=home / DATA, settings=home / SETTINGS)
    assert run("bwrap", rules, "echo theirs >> .config/git/config").exit_code
    assert run("bwrap", rules, "echo theirs >> dotfiles/git/config").exit_code
    assert (home / ".config/git/config").read_text() == "ours"
    done = run("bwrap", rules, "rm .config && mkdir -p .config/git && echo theirs > .config/git/config")
    assert done.set_aside == (".config/git/config",)
    assert (home / ".config/git/config").read_text() == "ours"


def test_bwrap_makes_new_files_beside_secrets(rules: Confinement, home: Path) -> None:
    assert run("bwrap", rules, "echo new > answer.txt && mkdir -p .config/other").exit_code == 0
    assert (home / "answer.txt").exists()


def test_landlock_lets_the_whole_home_be_written_when_nothing_secret_lies_in_it(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (home / ".bashrc").write_text("original")
    rules = policy(home, home=home, data=tmp_path / "data", settings=tmp_path / "settings")
    done = run("landlock", rules, "echo new > answer.txt; echo x >> .bashrc")
    assert (home / "answer.txt").exists()
    assert (home / ".bashrc").read_text() == "original"
    assert done.set_aside == (".bashrc",)


def test_file_tools_neither_read_nor_write_them(rules: Confinement, home: Path) -> None:
    files = Files(rules)
    for name in (f"{DATA}/sessions/s/journal", ".ssh/id", f"{SETTINGS}/approvals.toml"):
        with pytest.raises(PathRefused):
            files.read(name)
    for name in (
        ".bashrc",
        ".config/autostart/x.desktop",
        ".config/systemd/user/x.service",
        f"{SETTINGS}/skills/y",
    ):
        with pytest.raises(PathRefused):
            files.write(name, b"")
    assert files.read(f"{SETTINGS}/skills/x/SKILL.md").data
    files.write("code/main.py", b"")


def test_secrets_are_found_where_the_variables_say(tmp_path: Path) -> None:
    rules = policy(tmp_path, home=tmp_path / "home", environment={"XDG_CONFIG_HOME": str(tmp_path / "conf")})
    assert rules.refuses_read(tmp_path / "conf/gh/hosts.yml")
    assert rules.refuses_read(tmp_path / "home/.config/gh/hosts.yml")
    assert rules.protected_part(tmp_path / "conf/autostart/x.desktop")


def test_a_container_gets_no_secrets_and_no_way_around(
    home: Path, rules: Confinement, tmp_path: Path
) -> None:
    log, engine = tmp_path / "code/log", tmp_path / "code/engine"
    engine.write_text(f'#!/bin/sh\necho "$@" >> "{log}"\n')
    engine.chmod(0o755)

    async def main() -> None:
        sandbox = ContainerSandbox(rules, environment={"PATH": os.environ["PATH"]}, program=str(engine))
        try:
            await sandbox.run(Command(argv=("true",), cwd=home))
        finally:
            await sandbox.close()

    asyncio.run(main())
    given = log.read_text()
    for hidden in (DATA, SETTINGS, ".ssh"):
        assert f"--tmpfs {home / hidden}:ro,mode=000" in given
    assert f"--volume {home / '.bashrc'}:{home / '.bashrc'}:ro" in given
    assert f"--volume {home / '.config'}:{home / '.config'}:rw" in given


def test_a_home_too_large_to_be_looked_through_is_not_called_contained(
    rules: Confinement, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mainspring.sandbox.survey.MAX_FOLDERS", 2)
    assert Survey().look(rules).is_partial
    work = policy(home / "code", home=home)
    (home / "code/a/b/c").mkdir(parents=True)

    async def main(each: Confinement) -> bool:
        sandbox = build(report().best().name, each, {"PATH": os.environ["PATH"], "HOME": str(home)})
        try:
            assert sandbox.is_containing
            await sandbox.run(Command(argv=("true",), cwd=each.workspace))
            return sandbox.is_containing
        finally:
            await sandbox.close()

    assert not asyncio.run(main(rules))
    assert asyncio.run(main(work))


@pytest.mark.parametrize("rung", ["bwrap", "landlock"])
def test_a_home_in_shared_memory_is_held_as_any_other(rung: str) -> None:
    if not os.access("/dev/shm", os.W_OK):
        pytest.skip("no /dev/shm here")
    with tempfile.TemporaryDirectory(dir="/dev/shm") as made:
        home = Path(made)
        for name in (f"{SETTINGS}/approvals.toml", f"{DATA}/index.sqlite", ".ssh/id_rsa", "code/main.py"):
            (home / name).parent.mkdir(parents=True, exist_ok=True)
            (home / name).write_text("LEAKED")
        rules = policy(home, home=home, data=home / DATA, settings=home / SETTINGS)
        script = f"echo x >> {SETTINGS}/approvals.toml; mv .config c; cat {DATA}/index.sqlite .ssh/id_rsa; echo x > code/y"
        done = run(rung, rules, script)
        assert b"LEAKED" not in done.stdout
        assert (home / SETTINGS / "approvals.toml").read_text() == "LEAKED"
        assert (home / "code/y").exists()
