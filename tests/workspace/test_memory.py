"""The memory of a project: a file that people can read, edit and share with other processes."""

import multiprocessing
import stat
from pathlib import Path

import pytest

from mainspring.errors import UsageError
from mainspring.secrets.vault import Vault
from mainspring.workspace.memory import MAX_BYTES, ProjectMemory

TOKEN = "xyzzy-Plugh-4242-token"


def memory(tmp_path: Path, **known: str) -> ProjectMemory:
    return ProjectMemory(tmp_path / "home", tmp_path / "repo", hide=Vault(known).redact)


def test_what_is_remembered_comes_back_with_where_it_came_from(tmp_path):
    kept = memory(tmp_path)
    kept.add("the tests need\n  a database", "user")
    kept.add("build with make", "agent, session abc")
    kept.add("build with make", "agent, session other")
    assert [remark.text for remark in kept.load()] == ["the tests need a database", "build with make"]
    assert kept.load()[1].source.startswith("agent, session abc, 20")
    text = kept.path.read_text()
    assert text.startswith(
        f"# What to remember about {tmp_path / 'repo'}\n# format_version: 1\n\n- the tests need a database (user, 20"
    )
    assert not kept.path.is_relative_to(tmp_path / "repo")


def test_bytes_that_are_no_text_become_question_marks(tmp_path):
    kept = ProjectMemory(tmp_path / "home", tmp_path / "repo \udcff", hide=Vault().redact)
    for _ in range(2):
        kept.add("half \ud800 a character", "user")
    assert [remark.text for remark in kept.load()] == ["half ? a character"]


def test_two_projects_of_one_name_do_not_share_a_memory(tmp_path):
    one, other = (ProjectMemory(tmp_path, tmp_path / folder / "repo", hide=Vault().redact) for folder in "ab")
    one.add("only here", "user")
    assert other.load() == []


def test_lines_that_a_person_wrote_are_kept(tmp_path):
    kept = memory(tmp_path)
    kept.add("first", "user")
    with kept.path.open("a") as file:
        file.write("by hand (with brackets) and more\n- another\n\n## a heading\n")
    kept.add("last", "user")
    assert [remark.text for remark in kept.load()] == [
        "first",
        "by hand (with brackets) and more",
        "another",
        "last",
    ]


def test_when_it_is_full_the_oldest_lines_go_and_are_told(tmp_path):
    kept = memory(tmp_path)
    gone = [remark for number in range(60) for remark in kept.add(f"{number} " + "x" * 900, "user")]
    assert gone[0].text.startswith("0 ")
    assert kept.path.stat().st_size <= MAX_BYTES
    assert kept.load()[-1].text.startswith("59 ")
    with pytest.raises(UsageError, match="at most"):
        kept.add("x" * 5000, "user")
    with pytest.raises(UsageError, match="empty"):
        kept.add(" \n", "user")


def test_secrets_are_remembered_by_name_only_and_files_are_private(tmp_path):
    kept = memory(tmp_path, DEPLOY_TOKEN=TOKEN)
    kept.add(f"deploy with {TOKEN} and {Vault({'X': 'other-secret-1'}).redact('other-secret-1')}", "user")
    assert TOKEN not in kept.path.read_text()
    assert [remark.text for remark in memory(tmp_path).load()] == [
        "deploy with [secret DEPLOY_TOKEN] and [secret X]"
    ]
    assert stat.S_IMODE(kept.path.stat().st_mode) == 0o600
    assert stat.S_IMODE(kept.path.parent.stat().st_mode) == 0o700


def test_a_secret_that_is_known_only_later_is_hidden_when_it_is_read_and_gone_after_the_next_change(tmp_path):
    memory(tmp_path).add(f"deploy with {TOKEN}", "user")
    path = memory(tmp_path).path
    path.chmod(0o644)
    path.parent.chmod(0o755)
    kept = memory(tmp_path, DEPLOY_TOKEN=TOKEN)
    assert [remark.text for remark in kept.load()] == ["deploy with [secret DEPLOY_TOKEN]"]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    kept.add("another", "user")
    assert TOKEN not in path.read_text()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_a_line_is_forgotten_by_its_number(tmp_path):
    kept = memory(tmp_path)
    for text in "abc":
        kept.add(text, "user")
    assert kept.forget(2).text == "b"
    assert [remark.text for remark in kept.load()] == ["a", "c"]
    with pytest.raises(UsageError, match="no line 3"):
        kept.forget(3)


def _add(folder: Path, who: int) -> None:
    for number in range(20):
        memory(folder).add(f"{who}-{number}", "test")


def test_processes_that_write_at_once_lose_nothing(tmp_path):
    context = multiprocessing.get_context("spawn")
    writers = [context.Process(target=_add, args=(tmp_path, who)) for who in range(3)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert {remark.text for remark in memory(tmp_path).load()} == {
        f"{who}-{number}" for who in range(3) for number in range(20)
    }
