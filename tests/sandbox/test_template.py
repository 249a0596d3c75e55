"""The mounts that commands of a session share: laid once, joined by each, and never trusted to be still there."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path

import msgspec
import pytest

from mainspring.sandbox import Command, CommandResult
from mainspring.sandbox.cgroups import find_parents
from mainspring.sandbox.custody.tree import alive_below, command_line, descendants
from mainspring.sandbox.places import SECRETS_OF_HOME
from mainspring.sandbox.policy import policy
from mainspring.sandbox.rungs.bwrap import BwrapSandbox
from tests.sandbox.test_conformance import report

Run = Callable[[str], Awaitable[CommandResult]]
MOUNTS = ("--ro-bind", "--bind", "--dev-bind", "--tmpfs", "--dev", "--proc", "--ro-bind-try")


@pytest.fixture
def home(tmp_path: Path) -> Path:
    if not report().rung("bwrap").is_available:
        pytest.skip("bwrap is not available")
    folder = tmp_path / "home"
    for name in SECRETS_OF_HOME:
        if not (folder / name).exists():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text("a secret")
    return folder


def within(
    home: Path, story: Callable[[Run], Awaitable[None]], refusing: str = "no such argument"
) -> list[str]:
    """The arguments of every call of bubblewrap. It fails when its arguments hold the given words."""
    written, program = home.parent / "written", home.parent / "program"
    written.mkdir()
    calls = written / "calls"
    script = '#!/bin/sh\nprintf "%s\\n" "$*" >> {calls}\ncase "$*" in *"{refusing}"*) exit 1;; esac\nexec {real} "$@"\n'
    program.write_text(script.format(calls=calls, refusing=refusing, real=shutil.which("bwrap")))
    program.chmod(0o755)

    async def main() -> None:
        environment = {"PATH": os.environ["PATH"], "HOME": str(home)}
        rules = msgspec.structs.replace(policy(home, home=home), writable=(written,))
        sandbox = BwrapSandbox(rules, environment=environment, program=str(program))

        async def run(text: str) -> CommandResult:
            return await sandbox.run(Command(argv=("bash", "-c", text), cwd=home))

        try:
            await story(run)
        finally:
            await sandbox.close()

    asyncio.run(main())
    return calls.read_text().splitlines()


def mounts(call: str) -> int:
    return sum(word in MOUNTS for word in call.split())


def test_masks_are_laid_once_and_hide_from_every_command(home: Path) -> None:
    async def story(run: Run) -> None:
        for _ in range(3):
            done = await run("cat .netrc .ssh .config/gh; touch /dev/new; touch new && echo made")
            assert done.stdout == b"made\n"

    template, _, *commands = within(home, story)
    assert all(f"{home}/{name}" in template for name in (".netrc", ".ssh", ".config/gh"))
    assert len(commands) == 3
    for call in commands:
        assert f"{home}/.netrc" not in call
        assert mounts(call) <= 20 < 60 < mounts(template)


@pytest.mark.parametrize("how", ["removed", "replaced"])
def test_a_secret_that_lost_its_mask_is_hidden_again(home: Path, how: str) -> None:
    """The kernel takes a mount away with the file below it, and file systems give the number of a file anew."""

    async def story(run: Run) -> None:
        assert (await run("cat .netrc")).exit_code
        for _ in range(2):
            if how == "removed":
                (home / ".netrc").unlink()
                (home / ".netrc").write_text("another secret")
            else:
                (home / "other").write_text("another secret")
                (home / "other").replace(home / ".netrc")
            assert (await run("cat .netrc .ssh")).stdout == b""
        assert (await run("cat .netrc .ssh")).stdout == b""

    within(home, story)


def test_a_secret_that_comes_later_is_hidden_too(home: Path) -> None:
    (home / ".netrc").unlink()

    async def story(run: Run) -> None:
        assert b"No such file" in (await run("cat .netrc")).stderr
        (home / ".netrc").write_text("a secret")
        done = await run("cat .netrc")
        assert done.stdout == b""
        assert b"Permission denied" in done.stderr

    within(home, story)


@pytest.mark.parametrize("moved", [".netrc", ".config"])
def test_a_secret_stays_hidden_where_it_was_moved_and_linked_from(home: Path, moved: str) -> None:
    """As people do who keep their settings in a repository. A mount follows no link."""

    async def story(run: Run) -> None:
        for _ in range(3):
            done = await run("cat .netrc .config/gh kept* kept/gh; touch new && echo made")
            assert done.stdout == b"made\n", done.stderr
            if not (home / "kept").exists():
                (home / moved).rename(home / "kept")
                (home / moved).symlink_to(home / "kept")

    within(home, story)


@pytest.fixture
def repository(home: Path) -> Path:
    subprocess.run(["git", "init", "-q", str(home / "work")], check=True)
    return home / "work"


WRITE = "echo '[core]' >> .git/config; touch .git/hooks/new; mv .git moved; touch new && echo made"


def is_held(done: CommandResult) -> bool:
    counts = done.stderr.count(b"Read-only"), done.stderr.count(b"busy")
    return done.stdout == b"made\n" and counts == (2, 1)


def test_protected_paths_are_held_once_and_from_every_command(repository: Path) -> None:
    async def story(run: Run) -> None:
        for _ in range(3):
            assert is_held(await run(WRITE))

    template, _, *commands = within(repository, story)
    assert f"--ro-bind {repository}/.git/config" in template
    assert len(commands) == 3
    for call in commands:
        assert "/.git" not in call


def remove(repository: Path) -> None:
    (repository / ".git/config").unlink()
    (repository / ".git/config").write_text("[user]\n")
    shutil.rmtree(repository / ".git/hooks")
    (repository / ".git/hooks").mkdir()


def replace(repository: Path) -> None:
    (repository / "other").write_text("[user]\n")
    (repository / "other").replace(repository / ".git/config")


def move(repository: Path) -> None:
    old = repository.parent / f"old-{len(os.listdir(repository.parent))}"
    (repository / ".git").rename(old)
    shutil.copytree(old, repository / ".git")


def link(repository: Path) -> None:
    """Another name of the same file: the mount went along with the old one."""
    old = repository.parent / f"config-{len(os.listdir(repository.parent))}"
    (repository / ".git/config").rename(old)
    (repository / ".git/config").hardlink_to(old)


@pytest.mark.parametrize("change", [remove, replace, move, link])
def test_a_protected_path_that_lost_its_mount_is_held_again(
    repository: Path, change: Callable[[Path], None]
) -> None:
    """The number of a file that is removed is given to the next one, so it says nothing about the mount."""

    async def story(run: Run) -> None:
        for _ in range(4):
            assert is_held(await run(WRITE))
            change(repository)

    within(repository, story)


FORGETTING = """#!{python}
import os, sys
words = sys.argv[1:]
if {path!r} in words and "echo; read line" in words:
    at = words.index({path!r})
    del words[at - 1 : at + 2]
os.execv({real!r}, [{real!r}, *words])
"""


def test_a_mount_that_was_lost_at_once_is_not_relied_on(repository: Path) -> None:
    program, real = repository.parent / "program", shutil.which("bwrap")
    path = str(repository / ".git/config")
    program.write_text(FORGETTING.format(python=sys.executable, path=path, real=real))
    program.chmod(0o755)

    async def main() -> None:
        environment = {"PATH": os.environ["PATH"], "HOME": str(repository)}
        rules = policy(repository, home=repository)
        sandbox = BwrapSandbox(rules, environment=environment, program=str(program))
        try:
            for _ in range(3):
                command = Command(argv=("bash", "-c", WRITE), cwd=repository)
                assert is_held(await sandbox.run(command))
        finally:
            await sandbox.close()

    asyncio.run(main())


@pytest.mark.parametrize("name", ["with a space", "with\\a backslash", "with\na line"])
def test_mounts_are_shared_in_a_folder_of_any_name(home: Path, name: str) -> None:
    repository = home / name
    subprocess.run(["git", "init", "-q", str(repository)], check=True)

    async def story(run: Run) -> None:
        for _ in range(2):
            assert is_held(await run(WRITE))

    calls = within(repository, story)
    assert sum("--remount-ro /dev" in call for call in calls) == 1


def test_a_path_is_held_as_long_as_it_is_protected(repository: Path) -> None:
    config, included = repository / ".git/config", repository / "included"
    included.write_text("")

    async def story(run: Run) -> None:
        for is_included in (True, False, True):
            config.write_text(f"[include]\n\tpath = {included}\n" if is_included else "")
            for _ in range(2):
                done = await run("echo '# more' >> included && echo made")
                assert done.stdout == (b"" if is_included else b"made\n")

    within(repository, story)


def test_a_repository_that_comes_later_is_held_too(home: Path) -> None:
    work = home / "work"
    work.mkdir()

    async def story(run: Run) -> None:
        assert (await run("true")).exit_code == 0
        subprocess.run(["git", "init", "-q", str(work)], check=True)
        for _ in range(2):
            assert is_held(await run(WRITE))

    within(work, story)


def test_commands_run_when_a_repository_comes_into_a_hidden_folder(home: Path) -> None:
    """What is under a mask cannot be mounted over itself, and need not be."""
    (home / ".ssh").unlink()
    (home / ".ssh").mkdir()

    async def story(run: Run) -> None:
        assert (await run("true")).exit_code == 0
        subprocess.run(["git", "init", "-q", str(home / ".ssh/work")], check=True)
        for _ in range(2):
            done = await run("ls .ssh; touch new && echo made")
            assert done.stdout == b"made\n"

    within(home, story)


@pytest.mark.parametrize("refused", ["--remount-ro /dev", "/bin/true"])
def test_commands_run_where_mounts_cannot_be_shared(home: Path, refused: str) -> None:
    """Be it that they cannot be made, or that they cannot be joined."""

    async def story(run: Run) -> None:
        for _ in range(2):
            done = await run("cat .netrc; echo on")
            assert done.stdout == b"on\n"

    calls = within(home, story, refusing=refused)
    assert sum(refused in call for call in calls) == 1
    assert f"{home}/.netrc" in calls[-1]


MOUNTING = """
import asyncio, subprocess, sys
from pathlib import Path
from mainspring.sandbox import Command
from mainspring.sandbox.policy import policy
from mainspring.sandbox.rungs.bwrap import BwrapSandbox

async def main(work):
    sandbox = BwrapSandbox(policy(work, home=work), environment={"PATH": "/usr/bin:/bin"})
    try:
        for number in range(4):
            if number == 1:
                subprocess.run(["mount", "-t", "tmpfs", "-o", "mode=1777", "none", "/srv"], check=True)
            script = "findmnt -n -o FSTYPE /srv; touch /srv/new 2>/dev/null && echo written"
            done = await sandbox.run(Command(argv=("bash", "-c", script), cwd=work))
            print(done.stdout.decode().split())
    finally:
        await sandbox.close()

asyncio.run(main(Path(sys.argv[1])))
"""


def test_what_is_mounted_outside_later_is_read_only_for_commands(home: Path) -> None:
    """It comes to all who share mounts, as it was mounted. Nobody but this test sees it."""
    alone = ["unshare", "--user", "--map-root-user", "--mount", "--propagation", "shared"]
    if (
        subprocess.run([*alone, "true"], capture_output=True, check=False).returncode
        or not Path("/srv").is_dir()
    ):
        pytest.skip("nothing can be mounted here")
    argv = [*alone, sys.executable, "-c", MOUNTING, str(home)]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.stdout.splitlines() == ["[]", "['tmpfs']", "['tmpfs']", "['tmpfs']"], done.stderr


def test_commands_write_to_a_workspace_that_was_replaced(home: Path) -> None:
    work = home / "work"
    work.mkdir()

    async def story(run: Run) -> None:
        for number in range(3):
            assert (await run(f"touch new{number} && ls")).stdout == b"new%d\n" % number
            work.rename(home / f"old-{number}")
            work.mkdir()

    within(work, story)


def test_commands_go_on_when_the_guards_inside_their_mounts_are_killed(home: Path) -> None:
    async def story(run: Run) -> None:
        for _ in range(2):
            assert (await run("cat .netrc; echo on")).stdout == b"on\n"
            helpers = [each.pid for each in descendants(os.getpid()) if each.ppid != os.getpid()]
            assert len(helpers) >= 2
            for pid in helpers:
                with suppress(ProcessLookupError):  # the first process of a namespace takes the others along
                    os.kill(pid, signal.SIGKILL)
            while any(each.pid in helpers for each in alive_below(os.getpid())):
                await asyncio.sleep(0.01)
        assert (await run("cat .netrc .ssh; echo on")).stdout == b"on\n"

    within(home, story)


def test_a_guard_is_itself_again_once_its_command_runs(home: Path) -> None:
    """It enters the cgroups of a command to spawn it, and becomes what the kernel kills first."""

    async def main() -> None:
        environment = {"PATH": os.environ["PATH"], "HOME": str(home)}
        sandbox = BwrapSandbox(policy(home, home=home), environment=environment)
        is_running = asyncio.Event()
        command = Command(argv=("bash", "-c", "echo; sleep 1000; true"), cwd=home)
        task = asyncio.create_task(sandbox.run(command, lambda _: is_running.set()))
        try:
            await is_running.wait()
            parents = {each.pid: each.ppid for each in descendants(os.getpid())}
            inside = guard = next(pid for pid in parents if "bash -c" in command_line(pid)[:20])
            while not command_line(guard).startswith(sys.executable):
                guard = parents[guard]
            assert "/mainspring-" not in Path(f"/proc/{guard}/cgroup").read_text()
            usual = Path("/proc/self/oom_score_adj").read_text()
            assert Path(f"/proc/{guard}/oom_score_adj").read_text() == usual
            assert Path(f"/proc/{inside}/oom_score_adj").read_text() == "500\n"
            assert bool(find_parents()) == ("/mainspring-" in Path(f"/proc/{inside}/cgroup").read_text())
        finally:
            task.cancel()
            await sandbox.close()

    asyncio.run(main())
