"""What is found in a workspace, what is put back, and how rungs are described."""

from __future__ import annotations

import asyncio
import os
import random
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from mainspring.errors import SandboxError
from mainspring.sandbox import Command, ProcessLimits
from mainspring.sandbox.git_settings import safe_settings
from mainspring.sandbox.launch import FIRST_EXTRA_FD
from mainspring.sandbox.output import HeadAndTail
from mainspring.sandbox.policy import Confinement, policy
from mainspring.sandbox.probe import SUBJECTS, Rung, SandboxReport, build, probe
from mainspring.sandbox.protect import MAX_KEPT_FILES, remember, repair
from mainspring.sandbox.rungs.bwrap import BwrapSandbox
from mainspring.sandbox.rungs.container import ContainerSandbox
from mainspring.sandbox.survey import Survey

ENGINE = """#!/bin/sh
# Stands in for docker: notes its arguments and runs what follows the image.
echo "$@" >> "{log}"
while [ $# -gt 0 ] && [ "$1" != image ]; do shift; done
shift
exec "$@"
"""


@pytest.fixture
def work(tmp_path: Path) -> Path:
    (tmp_path / "work").mkdir()
    return tmp_path / "work"


@pytest.fixture
def rules(work: Path, tmp_path: Path) -> Confinement:
    return policy(work, home=tmp_path)


def names(paths: object, work: Path) -> set[str]:
    return {str(Path(path).relative_to(work)) for path in paths}  # type: ignore[attr-defined]


def test_repositories_are_found_at_any_depth_and_when_they_are_new(work: Path, rules: Confinement) -> None:
    survey = Survey()
    assert survey.look(rules).git_dirs == {}
    for name in (".", "a/b/c"):
        (work / name).mkdir(parents=True, exist_ok=True)
        subprocess.run(["git", "init", "-q", "."], cwd=work / name, check=True)
    subprocess.run(["git", "init", "-q", "--bare", "store"], cwd=work, check=True)
    found = survey.look(rules)
    assert names(found.git_dirs, work) == {".git", "a/b/c/.git", "store"}
    assert {".git/hooks", ".git/config", "a/b/c/.git/hooks", "store/config"} <= names(found.protected, work)


def changed_at_random(work: Path, chance: random.Random) -> None:
    """One of the things that commands do to folders."""
    folders = sorted(path for path in work.rglob("*") if path.is_dir() and not path.is_symlink())
    at = chance.choice([work, *folders])
    fresh = at / chance.choice("abc")
    match chance.randrange(7):
        case 0 | 1:
            (fresh / chance.choice("abc")).mkdir(parents=True, exist_ok=True)
        case 2:
            (fresh / ".git/hooks").mkdir(parents=True, exist_ok=True)
        case 3:
            (at / chance.choice((".env", ".vscode", "notes.txt"))).touch()
        case 4 if at != work:
            shutil.rmtree(at)
        case 5 if at != work and (target := work / chance.choice("abc")) and not target.exists():
            at.rename(target)
        case _ if at != work:
            shutil.rmtree(at)
            (at / ".git").mkdir(parents=True)
        case _:
            pass


@pytest.mark.parametrize("seed", range(25))
def test_a_look_that_is_told_what_changed_sees_what_a_first_look_sees(
    work: Path, rules: Confinement, seed: int
) -> None:
    chance, survey = random.Random(seed), Survey()
    for _ in range(40):
        for _ in range(chance.randrange(1, 4)):
            changed_at_random(work, chance)
        fresh = Survey(is_watching=False).look(rules)
        assert survey.look(rules) == fresh
    survey.close()


def test_when_the_kernel_lost_count_everything_is_looked_at_again(work: Path, rules: Confinement) -> None:
    survey = Survey()
    survey.look(rules)
    room = int(Path("/proc/sys/fs/inotify/max_queued_events").read_text())
    for number in range(room // 2 + 10):
        (work / f"x{number % 2}").touch()
        (work / f"x{number % 2}").unlink()
    (work / "late/.git").mkdir(parents=True)
    assert names(survey.look(rules).git_dirs, work) == {"late/.git"}
    survey.close()


def test_a_workspace_with_too_many_folders_is_said_to_be_held_in_part(
    work: Path, rules: Confinement, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(5):
        (work / f"{number}").mkdir()
    assert not Survey().look(rules).is_partial
    monkeypatch.setattr("mainspring.sandbox.survey.MAX_FOLDERS", 3)
    assert Survey().look(rules).is_partial


def test_pointers_are_followed_to_what_they_point_at(work: Path, rules: Confinement) -> None:
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b"]
    (work / "main").mkdir()
    for arguments in (
        ["init", "-q"],
        ["commit", "-q", "--allow-empty", "-m", "x"],
        ["worktree", "add", "-q", "../tree"],
    ):
        subprocess.run([*git, *arguments], cwd=work / "main", check=True, capture_output=True)
    found = names(Survey().look(rules).git_dirs, work)
    assert found == {"main/.git", "main/.git/worktrees/tree"}


def test_branches_of_a_remote_are_no_repository(work: Path, rules: Confinement) -> None:
    module = work / ".git/modules/lib"
    (module / "objects").mkdir(parents=True)
    for folder in (module, module / "refs/remotes/origin", module / "logs"):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "HEAD").write_text("ref: refs/heads/main\n")
    assert names(Survey().look(rules).git_dirs, work) == {".git", ".git/modules/lib"}


def test_an_empty_folder_of_hooks_is_nothing_to_set_aside(work: Path, rules: Confinement) -> None:
    (work / ".git/worktrees/tree").mkdir(parents=True)
    for name in ("HEAD", "commondir"):
        (work / ".git/worktrees/tree" / name).write_text("../..\n")
    survey = Survey()
    before = survey.look(rules)
    hooks = work / ".git/worktrees/tree/hooks"
    hooks.mkdir()
    assert repair(rules, before, survey.look(rules), {}) == ()
    assert hooks.is_dir()
    (hooks / "pre-commit").write_text("theirs")
    assert repair(rules, before, survey.look(rules), {}) == (".git/worktrees/tree/hooks",)


def test_env_files_are_hidden_and_their_examples_are_not(work: Path, rules: Confinement) -> None:
    (work / "a").mkdir()
    for name in (".env", "a/.env.local", ".env.example", "env"):
        (work / name).write_text("")
    assert names(Survey().look(rules).hidden, work) == {".env", "a/.env.local"}


def test_what_was_only_moved_is_left_alone(work: Path, rules: Confinement) -> None:
    (work / "a/.vscode").mkdir(parents=True)
    survey = Survey()
    before = survey.look(rules)
    (work / "a").rename(work / "b")
    assert repair(rules, before, survey.look(rules), {}) == ()


def test_what_is_too_much_to_keep_is_set_aside_when_it_changes(work: Path, rules: Confinement) -> None:
    folder = work / ".vscode"
    folder.mkdir()
    for number in range(MAX_KEPT_FILES + 1):
        (folder / f"{number}").touch()
    survey = Survey()
    before = survey.look(rules)
    remembered = remember(before.protected)
    assert repair(rules, before, survey.look(rules), remembered) == ()
    (folder / "7").write_text("theirs")
    (folder / "new").write_text("theirs")
    assert repair(rules, before, survey.look(rules), remembered) == (".vscode/7", ".vscode/new")
    assert not (folder / "7").exists()


def test_a_changed_file_is_put_back_with_its_mode(work: Path, rules: Confinement) -> None:
    subprocess.run(["git", "init", "-q", "."], cwd=work, check=True)
    hook = work / ".git/hooks/pre-commit"
    hook.write_text("mine")
    hook.chmod(0o755)
    survey = Survey()
    before = survey.look(rules)
    remembered = remember(before.protected)
    hook.unlink()
    hook.write_text("theirs")
    assert repair(rules, before, survey.look(rules), remembered) == (".git/hooks/pre-commit",)
    assert (hook.read_text(), hook.stat().st_mode & 0o777) == ("mine", 0o755)
    assert (work / ".git/hooks/pre-commit.set-aside").read_text() == "theirs"


def test_settings_that_run_programs_are_dropped_and_others_stay() -> None:
    text = '[core]\n\tbare = false\n\tpager = sh\n[filter "x"]\n\tclean = sh\n[remote "origin"]\n\turl = u\n'
    assert safe_settings(text) == '[core]\n\tbare = false\n[remote "origin"]\n\turl = u\n'
    assert safe_settings("[alias] x = !sh\n[core] fsmonitor = sh\n") == ""


@pytest.mark.parametrize(
    "text",
    [
        "[core]\n\tfsmonitor = sh #]\n",
        "[core]\n\thooksPath = evil]dir\n",
        "[core][alias]x = !sh\n",
        "[core] [alias]\n\tx = !sh\n",
        "\u00ef\u00bb\u00bf[alias]\n\tx = !sh\n",
        "[core]\n\tbare = false\\\n\tfsmonitor = sh\n",
        "[init]\n\ttemplateDir = hooks\n",
    ],
)
def test_a_setting_that_git_reads_otherwise_than_we_is_dropped(text: str) -> None:
    assert not {"sh", "evil", "hooks"} & set(re.findall(r"[a-z]+", safe_settings(text)))


@pytest.mark.parametrize("kind", ["bytes that are no text", "a link", "behind a lot"])
def test_the_settings_of_a_new_repository_are_read_however_they_are_kept(
    work: Path, rules: Confinement, kind: str
) -> None:
    survey = Survey()
    before = survey.look(rules)
    subprocess.run(["git", "init", "-q", "."], cwd=work, check=True)
    config = work / ".git/config"
    if kind == "a link":
        config.rename(work / "mine")
        config.symlink_to("../mine")
    elif kind == "behind a lot":
        config.write_bytes(config.read_bytes() + b"#\n" * (1 << 20) + b"[core]\n\tfsmonitor = touch x\n")
    else:
        config.write_bytes(config.read_bytes() + b"# \xff\n[core]\n\tfsmonitor = touch x\n")
    assert repair(rules, before, survey.look(rules), {}) == (".git/config",)
    assert not config.is_symlink()
    assert b"fsmonitor" not in config.read_bytes()
    assert b"bare = false" in config.read_bytes()


@pytest.mark.parametrize("name", [".git", "new/.git/config", "new/.git/hooks", "new/.git/commondir"])
def test_a_pipe_in_the_place_of_a_file_of_git_holds_nobody(work: Path, rules: Confinement, name: str) -> None:
    """Opened for reading it would, for ever."""
    survey = Survey()
    before = survey.look(rules)
    subprocess.run(["git", "init", "-q", "new"], cwd=work, check=True)
    (work / "other").mkdir()
    (work / "other/.git").write_text("gitdir: ../new/.git")
    shutil.rmtree(work / name, ignore_errors=True)
    (work / name).unlink(missing_ok=True)
    os.mkfifo(work / name)
    aside = repair(rules, before, survey.look(rules), remember(before.protected))
    assert name == ".git" or aside == (name,)


@pytest.mark.parametrize("target", [b"loop", b"a\0b", b"n" * 4000, b"x/" * 2000])
def test_a_pointer_to_nowhere_is_no_repository(work: Path, rules: Confinement, target: bytes) -> None:
    (work / "loop").symlink_to("loop")
    (work / ".git").write_bytes(b"gitdir: " + target)
    assert Survey().look(rules).git_dirs == {}
    (work / ".git").unlink()
    subprocess.run(["git", "init", "-q", "."], cwd=work, check=True)
    with (work / ".git/config").open("ab") as file:
        file.write(b"[core]\n\thooksPath = " + target + b"\n")
    assert names(Survey().look(rules).git_dirs, work) == {".git"}


def test_a_repository_that_borrows_from_another_is_one_too(work: Path, rules: Confinement) -> None:
    """git takes a folder with `HEAD` and `commondir` in it for a repository, whatever its name is."""
    survey = Survey()
    before = survey.look(rules)
    for folder in ("worktrees/a", "b/objects", "b/refs"):
        (work / folder).mkdir(parents=True)
    (work / "worktrees/a/HEAD").write_text("ref: refs/heads/x\n")
    (work / "worktrees/a/commondir").write_text("../../b\n")
    (work / "b/config").write_text("[alias]\n\tx = !sh\n")
    assert repair(rules, before, survey.look(rules), {}) == ("b/config",)
    assert (work / "b/config").read_text() == ""


@pytest.mark.parametrize("sizes", [[1] * 5000, [5000], [700] * 7, [99, 4901]])
def test_head_and_tail_are_exact_for_any_pieces(sizes: list[int]) -> None:
    data = bytes(index % 251 for index in range(sum(sizes)))
    kept = HeadAndTail(1000)
    start = 0
    for size in sizes:
        kept.feed(data[start : start + size])
        start += size
    text = kept.text(mark="")
    assert (text, kept.dropped) == (data[:500] + data[-500:], len(data) - 1000)


def test_short_output_is_whole() -> None:
    kept = HeadAndTail(10)
    kept.feed(b"0123456789")
    assert (kept.text(), kept.dropped) == (b"0123456789", 0)


def test_every_standing_rung_says_what_it_holds(tmp_path: Path) -> None:
    report = asyncio.run(probe({"PATH": os.environ["PATH"], "HOME": str(tmp_path)}))
    for rung in report.rungs:
        if rung.is_available:
            assert set(rung.holds) == set(SUBJECTS)
        else:
            assert rung.why_not
            assert rung.remedy


def test_none_is_never_chosen_silently() -> None:
    nothing = Rung(name="bwrap", is_available=False, why_not="gone", remedy="apt-get install bubblewrap")
    with pytest.raises(SandboxError, match="apt-get install bubblewrap"):
        SandboxReport((nothing, Rung(name="none", is_available=True))).best()
    with pytest.raises(SandboxError, match="no sandbox"):
        build("magic", Confinement(workspace=Path("/")), {})


@pytest.mark.parametrize("before", ["", f"exec {FIRST_EXTRA_FD}>&-\n"])  # no word of its child, and its end
def test_a_sandbox_that_cannot_be_set_up_is_our_failure_not_the_commands(
    work: Path, rules: Confinement, before: str
) -> None:
    async def main() -> None:
        (work / "fake").write_text(f"#!/bin/bash\n{before}echo 'bwrap: cannot' >&2\nread line\nexit 1\n")
        (work / "fake").chmod(0o755)
        sandbox = BwrapSandbox(rules, environment={"PATH": os.environ["PATH"]}, program=str(work / "fake"))
        with pytest.raises(SandboxError, match="bwrap: cannot"):
            await sandbox.run(Command(argv=("true",), cwd=work))
        await sandbox.close()

    asyncio.run(main())


def test_a_container_gets_no_network_no_powers_and_its_limits(
    work: Path, rules: Confinement, tmp_path: Path
) -> None:
    async def main() -> None:
        engine = tmp_path / "engine"
        engine.write_text(ENGINE.format(log=tmp_path / "log"))
        engine.chmod(0o755)
        (work / ".vscode").mkdir()
        sandbox = ContainerSandbox(rules, environment={}, program=str(engine), image="image")
        limits = ProcessLimits(memory_bytes=1 << 28, processes=50)
        done = await sandbox.run(Command(argv=("sh", "-c", "echo in; exit 3"), cwd=work, limits=limits))
        assert (done.exit_code, done.stdout) == (3, b"in\n")
        late = await sandbox.run(Command(argv=("sleep", "100"), cwd=work, timeout_s=0.3))
        assert late.stopped == "timed out after 0.3 s"
        await sandbox.close()
        first, *_, last = (tmp_path / "log").read_text().splitlines()
        for wanted in (
            "--network none",
            "--cap-drop ALL",
            "--read-only",
            "--memory 268435456",
            "--pids-limit 50",
        ):
            assert wanted in first
        assert f"{work}/.vscode:{work}/.vscode:ro" in first
        assert last.startswith("rm --force mainspring-")

    asyncio.run(main())
