"""Programs of PATH in folders that a sandbox replaces: which are shown, which are not and why, on every rung."""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from mainspring.errors import SandboxError
from mainspring.sandbox import Command, CommandResult
from mainspring.sandbox.policy import Confinement
from mainspring.sandbox.policy import policy as make_policy
from mainspring.sandbox.probe import build
from mainspring.sandbox.programs import ProgramFolder, confined_to_reading, program_folders, projects_of

SYSTEM = "/usr/local/bin:/usr/bin:/bin"


@pytest.fixture(params=["/tmp", "/var/tmp", "/run", "/dev/shm"])
def replaced(request: pytest.FixtureRequest) -> Iterator[Path]:
    """A folder where a sandbox puts an empty one."""
    if not os.access(request.param, os.W_OK):
        pytest.skip(f"{request.param} is not ours to write")
    folder = Path(tempfile.mkdtemp(prefix="mainspring test ä-", dir=request.param)).resolve()
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def temporary() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="mainspring-test-", dir="/tmp"))
    yield folder
    shutil.rmtree(folder)


def program(folder: Path, says: str = "reached") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "tool"
    path.write_text(f"#!/bin/sh\necho {says}\n")
    path.chmod(0o755)
    return path


def environment(work: Path, *entries: Path | str) -> dict[str, str]:
    return {"PATH": ":".join([*map(str, entries), SYSTEM]), "HOME": str(work / "home")}


def policy_of(folder: Path) -> Confinement:
    work = folder / "work"
    work.mkdir(exist_ok=True)
    return make_policy(work, home=folder / "home")


def decided(
    folder: Path, *entries: Path | str, policy: Confinement | None = None
) -> dict[str, ProgramFolder]:
    found = program_folders(environment(folder, *entries), policy or policy_of(folder))
    return {each.entry: each for each in found}


def ran(name: str, policy: Confinement, env: dict[str, str], script: str) -> CommandResult:
    async def run() -> CommandResult:
        try:
            sandbox = build(name, policy, env)
        except SandboxError as error:
            pytest.skip(error.message)
        try:
            return await sandbox.run(Command(argv=("sh", "-c", script), cwd=policy.workspace, timeout_s=60))
        finally:
            await sandbox.close()

    return asyncio.run(run())


@pytest.mark.parametrize("rung", ["bwrap", "landlock"])
def test_a_program_is_reached_and_nothing_beside_it_can_be_written(
    rung: str, replaced: Path, tmp_path: Path
) -> None:
    program(replaced / "venv" / "bin")
    (replaced / "venv" / "pyvenv.cfg").write_text("home = /usr/bin\n")
    if rung == "landlock" and replaced.is_relative_to("/dev/shm"):
        pytest.skip("Landlock leaves /dev/shm writable, as its report says")
    (replaced / "venv" / "share").mkdir()
    (replaced / "venv" / "share" / "data").write_text("beside\n")
    script = f"tool; cat '{replaced}/venv/share/data'; echo changed > '{replaced}/venv/bin/tool' || echo kept"
    done = ran(rung, policy_of(tmp_path), environment(tmp_path, replaced / "venv" / "bin"), script)
    assert done.stdout.decode().split() == ["reached", "beside", "kept"]


def test_only_the_prefix_of_a_program_is_shown(replaced: Path, tmp_path: Path) -> None:
    program(replaced / "tools" / "bin")
    (replaced / "tools" / "notes").write_text("not for commands")
    script = f"tool; ls '{replaced}/tools'; touch '{replaced}/made' && echo made inside"
    done = ran("bwrap", policy_of(tmp_path), environment(tmp_path, replaced / "tools" / "bin"), script)
    assert done.stdout.decode().splitlines() == ["reached", "bin", "made inside"]
    assert not (replaced / "made").exists()


def test_a_linked_environment_and_its_interpreter_are_reached(replaced: Path, tmp_path: Path) -> None:
    """As pyenv and a symlinked project do it: the environment lies behind a link, its interpreter elsewhere."""
    program(replaced / "versions" / "3" / "bin")
    (replaced / "versions" / "3" / "lib").mkdir()
    (replaced / "real" / "venv" / "bin").mkdir(parents=True)
    (replaced / "real" / "venv" / "pyvenv.cfg").write_text(f"home = {replaced}/versions/3/bin\n")
    (replaced / "real" / "venv" / "bin" / "tool").symlink_to(replaced / "versions" / "3" / "bin" / "tool")
    (replaced / "link").symlink_to("real")
    entry = replaced / "link" / "venv" / "bin"
    done = ran("bwrap", policy_of(tmp_path), environment(tmp_path, entry), f"tool; '{entry}/tool'")
    assert done.stdout.decode().split() == ["reached", "reached"], done.stderr
    shown = {path for each in decided(tmp_path, entry).values() for path in each.shown}
    assert {replaced / "real" / "venv", replaced / "versions" / "3"} <= shown


@pytest.mark.parametrize("rung", ["bwrap", "landlock"])
def test_what_is_hidden_stays_hidden_in_a_prefix(rung: str, temporary: Path, tmp_path: Path) -> None:
    program(temporary / ".local" / "bin")
    (temporary / ".local" / "lib").mkdir()
    secret = temporary / ".local" / "share" / "keyrings" / "login"
    secret.parent.mkdir(parents=True)
    secret.write_text("LEAKED")
    (tmp_path / "work").mkdir()
    policy = make_policy(tmp_path / "work", home=temporary)
    env = {"PATH": f"{temporary}/.local/bin:{SYSTEM}", "HOME": str(temporary)}
    done = ran(rung, policy, env, f"tool; cat {secret}")
    assert done.stdout.decode().split() == ["reached"]
    assert done.exit_code != 0


def _relative(_: Path) -> str:
    return "tools/bin"


def _root(_: Path) -> str:
    return "/"


def _home(folder: Path) -> str:
    (folder / "home").mkdir()
    return str(folder / "home")


def _around_home(folder: Path) -> str:
    (folder / "home").mkdir()
    return str(folder)


def _writable(folder: Path) -> str:
    program(folder / "open").parent.chmod(0o777)
    return str(folder / "open")


def _hidden(folder: Path) -> str:
    program(folder / "home" / ".ssh" / "bin")
    return str(folder / "home" / ".ssh" / "bin")


def _everything(_: Path) -> str:
    return "/run"


@pytest.mark.parametrize(
    ("entry", "why_not"),
    [
        (_relative, "relative"),
        (_root, "root of all files"),
        (_home, "is the home folder"),
        (_around_home, "home folder lies in it"),
        (_writable, "anybody can write"),
        (_hidden, "hidden secret"),
        (_everything, "every program"),
    ],
)
def test_some_entries_are_never_shown(entry: Callable[[Path], str], why_not: str, temporary: Path) -> None:
    named = entry(temporary)
    folder = decided(temporary, named)[named]
    assert (folder.shown, folder.links) == ((), ())
    assert why_not in folder.why_not


def test_data_of_our_own_is_never_shown(temporary: Path) -> None:
    program(temporary / "data" / "bin")
    policy = make_policy(temporary / "work", home=temporary / "home", data=temporary / "data")
    folder = decided(temporary, temporary / "data" / "bin", policy=policy)[str(temporary / "data" / "bin")]
    assert "own data" in folder.why_not


def test_a_prefix_that_may_not_be_shown_leaves_its_programs(temporary: Path) -> None:
    """`bin` with `lib` beside it, in a home folder."""
    program(temporary / "home" / "bin")
    (temporary / "home" / "lib").mkdir()
    entry = temporary / "home" / "bin"
    assert decided(temporary, entry)[str(entry)].shown == (entry,)


def test_links_are_not_followed_out_of_what_commands_can_write(temporary: Path) -> None:
    program(temporary / "others" / "bin")
    policy = policy_of(temporary)
    (temporary / "work" / "bin").symlink_to(temporary / "others" / "bin")
    assert str(temporary / "work" / "bin") not in decided(temporary, temporary / "work" / "bin")
    done = ran("bwrap", policy, environment(temporary, temporary / "work" / "bin"), "tool")
    assert done.exit_code == 127


def test_the_usual_path_needs_nothing(tmp_path: Path) -> None:
    found = decided(tmp_path)
    assert not any(entry in found for entry in SYSTEM.split(":"))


def test_the_interpreter_that_runs_us_is_reached(tmp_path: Path) -> None:
    """Wherever it lies, also without its folder in PATH."""
    done = ran("bwrap", policy_of(tmp_path), environment(tmp_path), f"'{sys.executable}' -c 'print(6 * 7)'")
    assert done.stdout == b"42\n", done.stderr


def test_what_belongs_to_a_program_is_shown_and_nothing_beside_it(temporary: Path, tmp_path: Path) -> None:
    """A program of npm needs packages that lie beside its own."""
    modules, policy = temporary / "project" / "node_modules", policy_of(tmp_path)
    tool = program(modules / "tool" / "bin", says="$(cat $(dirname $0)/../../needed/data)")
    (modules / "needed").mkdir()
    (modules / "needed" / "data").write_text("needed\n")
    (temporary / "other").write_text("not for programs")
    assert projects_of([tool], policy) == (modules,)
    (temporary / "project" / "package.json").write_text("{}")
    assert projects_of([tool], policy) == (modules.parent,)

    confined = confined_to_reading(policy, program=tool)
    script = f"{tool}; ls {temporary}; echo changed > {tool} || echo kept"
    done = ran("bwrap", confined, environment(tmp_path), script)
    assert done.stdout.decode().split() == ["needed", "project", "kept"]


def test_no_folder_around_a_workspace_or_secrets_is_shown_for_a_program(temporary: Path) -> None:
    (temporary / "package.json").write_text("{}")
    policy = policy_of(temporary)  # the workspace and the home lie beside the program
    packages = temporary / "node_modules" / ".bin"
    assert projects_of([program(packages)], policy) == (packages.parent,)
    assert projects_of([program(temporary)], policy) == (temporary / "tool",)
    inside = program(policy.workspace / "tools")
    (temporary / "else").mkdir()
    leading = policy.workspace / "leading"
    leading.symlink_to(program(temporary / "else"))
    assert projects_of([inside, leading], policy) == ()


def test_a_program_that_lies_directly_in_a_replaced_folder_is_shown_alone(tmp_path: Path) -> None:
    with tempfile.NamedTemporaryFile(dir="/tmp") as file:
        assert projects_of([Path(file.name)], policy_of(tmp_path)) == (Path(file.name),)
