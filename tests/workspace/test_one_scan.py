"""How often a shell call reads the folders of a workspace, and that sharing what was read hides nothing."""

import asyncio
import os
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import mainspring
from mainspring.disk.scan import Scan
from mainspring.disk.unfinished import unfinished_name
from mainspring.models import Request
from mainspring.models.scripted import Script, ScriptedCall, ScriptedModel, ScriptedReply
from mainspring.sandbox.files import Files
from mainspring.sandbox.policy import policy
from mainspring.sandbox.survey import Survey
from mainspring.settings import load_config
from mainspring.workspace.tree import Tree

FOLDERS = 30
_reads: list[str] = []


def _note_read(event: str, arguments: tuple[Any, ...]) -> None:
    if event in ("os.scandir", "os.listdir"):
        where = arguments[0]
        _reads.append(os.readlink(f"/proc/self/fd/{where}") if isinstance(where, int) else str(where))


@pytest.fixture(scope="module", autouse=True)
def _hook() -> None:
    sys.addaudithook(_note_read)


@pytest.fixture
def work(tmp_path: Path) -> Path:
    work = (tmp_path / "work").resolve()
    for number in range(FOLDERS):
        (work / f"a{number}").mkdir(parents=True)
        (work / f"a{number}/file.txt").write_text("x")
    return work


def reads_of_calls(work: Path, *commands: str, is_resumed: bool = False) -> list[Counter[str]]:
    """How often each folder was read in each shell call; the first with the start of the session, or with its
    going on."""
    taken: list[Counter[str]] = []

    def on_request(_: Request) -> None:
        found = [path for path in _reads if path == str(work) or path.startswith(f"{work}/a")]
        taken.append(Counter(found))
        if len(taken) > 1:
            _reads.clear()

    calls = [ScriptedCall("shell", {"command": command}) for command in commands]
    replies = (*(ScriptedReply(calls=(call,)) for call in calls), ScriptedReply(text="done"))
    model = ScriptedModel(Script(replies=replies), on_request=on_request)
    home = work.parent
    config = load_config({"PATH": os.environ["PATH"], "HOME": str(home), "MAINSPRING_HOME": f"{home}/data"})

    async def run() -> None:
        earlier = ""
        if is_resumed:
            async with mainspring.open(work, model=model, mode="auto", config=config) as session:
                earlier = session.id
        _reads.clear()
        async with mainspring.open(work, session=earlier, model=model, mode="auto", config=config) as session:
            async for _ in session.run("go"):
                pass

    asyncio.run(run())
    return taken[1:]


def test_a_folder_is_read_once_and_again_only_when_it_changed(
    work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mainspring.disk.scan.SETTLED_NS", 0)  # as if all were older than a second
    first, second, third = reads_of_calls(work, "true", "echo 1 > a3/new.txt", "true 2")
    # The prompt lists the workspace itself before the session has a scan.
    first.pop(str(work))
    assert first == {f"{work}/a{number}": 1 for number in range(FOLDERS)}
    assert second == {f"{work}/a3": 1}
    assert third == {}


def test_what_changed_since_a_session_was_left_is_read_with_the_rest(
    work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mainspring.disk.scan.SETTLED_NS", 0)
    monkeypatch.setattr("mainspring.session.opening._OLD_S", 0.0)
    first, second = reads_of_calls(work, "true", "true 2", is_resumed=True)
    assert {path: times for path, times in first.items() if path != str(work)} == {
        f"{work}/a{number}": 1 for number in range(FOLDERS)
    }
    assert second == {}


def test_a_shell_call_reads_no_folder_more_than_before_and_after(work: Path) -> None:
    _, second, third = reads_of_calls(work, "true", "echo 1 > a3/new.txt", "echo 2 > a3/other.txt")
    assert max(second.values()) <= 2
    assert max(third.values()) <= 2


def test_a_shell_call_asks_a_file_for_its_status_once_before_and_once_after(
    work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lstat = os.lstat

    def noted(path: Any, **options: Any) -> os.stat_result:
        if os.path.basename(path) == "file.txt":
            _reads.append(f"{work}/asked")
        return lstat(path, **options)

    monkeypatch.setattr(os, "lstat", noted)
    _, second, third = reads_of_calls(work, "true", "true 2", "echo 1 > a3/file.txt")
    assert second[f"{work}/asked"] == third[f"{work}/asked"] == 2 * FOLDERS


def test_what_comes_right_after_the_time_machine_looked_is_found(work: Path) -> None:
    scan = Scan()
    tree, survey = Tree(work, scan=scan), Survey(scan, is_watching=False)
    rules = policy(work, home=work.parent)
    files = Files(policy(work, home=work.parent, granted=(".env", ".vscode")), scan)
    for number in range(200):
        name = work / f"a{number % FOLDERS}" / (".vscode" if number % 2 else ".env")
        tree.look()
        name.touch()
        found = survey.look(rules)
        assert name in found.protected or name in found.hidden
        assert name.name in {entry.name for entry in files.entries(name.parent)}
        tree.look()
        name.unlink()
        found = survey.look(rules)
        assert name not in found.protected
        assert name not in found.hidden


@pytest.mark.parametrize("is_watching", [True, False])
def test_a_time_that_was_set_back_hides_no_protected_path(work: Path, is_watching: bool) -> None:
    folder, rules = work / "a1", policy(work, home=work.parent)
    os.utime(folder, (1, 1))
    scan = Scan()
    tree, survey = Tree(work, scan=scan), Survey(scan, is_watching=is_watching)
    tree.look()
    assert not survey.look(rules).protected
    (folder / ".vscode").mkdir()
    os.utime(folder, (1, 1))
    assert folder / ".vscode" in survey.look(rules).protected
    survey.close()


def test_a_link_in_the_place_of_a_folder_is_not_listed(work: Path) -> None:
    scan = Scan()
    tree = Tree(work, scan=scan)
    tree.look()
    (work / "a2/file.txt").unlink()
    (work / "a2").rmdir()
    (work / "a2").symlink_to(work / "a3")
    (work / "a3/.vscode").mkdir()
    rules = policy(work, home=work.parent)
    assert set(Survey(scan, is_watching=False).look(rules).protected) == {work / "a3/.vscode"}
    assert {change.path for change in tree.look() if change.new is None} == {"a2/file.txt"}


def test_what_this_process_is_about_to_move_into_place_is_no_change_and_nothing_hides_behind_its_name(
    tmp_path: Path,
) -> None:
    tree = Tree(tmp_path)
    tree.look()
    ours = unfinished_name()
    theirs = f"{ours[:-16]}{'0' * 16}"
    for name in (ours, theirs):
        (tmp_path / name).write_text("x")
    assert [difference.path for difference in tree.look()] == [theirs]
    (tmp_path / ours).rename(tmp_path / "done")
    assert "done" in [difference.path for difference in tree.look()]
