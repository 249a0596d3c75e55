"""The memory file of a goal: bounded, written whole, and nobody's words are lost."""

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring.errors import PathRefused
from mainspring.events import ArtifactChange, ArtifactsChanged
from mainspring.goals.memory import (
    DEFAULT_PATH,
    MAX_LOG_LINES,
    Damaged,
    GoalMemory,
    Sections,
    new_memory,
    read_memory,
    update_memory,
)
from mainspring.goals.pages import MemoryPage, owned
from mainspring.sandbox.files import Files
from mainspring.sandbox.policy import policy

AT_US = 1_700_000_000_000_000
SECTIONS = Sections()


def files_of(folder: Path) -> Files:
    workspace = folder / "workspace"
    workspace.mkdir(exist_ok=True)
    return Files(policy(workspace, home=folder / "home"))


def begun(request: str = "Make it fast\n## Plan\nand keep it right") -> GoalMemory:
    return new_memory(SECTIONS, request=request, source="goal.md", at_us=AT_US)


def progressed(memory: GoalMemory, iteration: int) -> GoalMemory:
    return memory.with_progress(iteration, "continued", f"did part {iteration}", AT_US + iteration)


def place(files: Files) -> Path:
    return files.policy.workspace / DEFAULT_PATH


def written(files: Files, text: str | bytes) -> None:
    place(files).parent.mkdir(exist_ok=True)
    place(files).write_bytes(text if isinstance(text, bytes) else text.encode())


def test_a_new_memory_has_header_request_and_every_section(tmp_path: Path) -> None:
    files = files_of(tmp_path)
    memory = update_memory(files, DEFAULT_PATH, begun()).memory
    text = place(files).read_text()
    assert text == memory.text
    for line in ("- schema: 1", "- started: 2023-11-14T22:13:20Z", "- prompt source: goal.md", "> ## Plan"):
        assert line in text.splitlines()
    names = [name for _, _, name in MemoryPage(text).headings()]
    assert names.count("Plan") == 1
    for name in (*SECTIONS.short_term, *SECTIONS.long_term, "Original request", "Changes of the goal"):
        assert name in names


def test_every_change_of_the_goal_is_on_record() -> None:
    memory = begun().with_goal("Make it faster", AT_US).with_goal("Make it\nright", AT_US, by="daemon")
    told = memory.section("Changes of the goal")
    assert "> Make it faster" in told
    assert "by daemon:\n\n> Make it\n> right" in told
    assert "> Make it fast" in memory.section("Original request")


def test_an_iteration_that_is_told_twice_has_one_line() -> None:
    memory = progressed(progressed(begun(), 1), 1).with_progress(1, "refused", "again", AT_US)
    assert memory.section("Progress log") == "- 2023-11-14T22:13:20Z iteration 1 refused: again"


def test_old_lines_of_the_log_are_folded_into_one() -> None:
    memory = begun()
    for iteration in range(1, 501):
        memory = memory.with_progress(
            iteration, "failed" if iteration % 10 == 0 else "continued", "x" * 5000, AT_US
        )
    log = memory.section("Progress log").splitlines()
    assert len(log) <= MAX_LOG_LINES + 1
    assert len(memory.text) < 30_000
    first = int(log[1].split(" iteration ")[1].split()[0])
    failed = sum(1 for number in range(1, first) if number % 10 == 0)
    assert log[0].startswith(
        f"- iterations 1-{first - 1}: {first - 1 - failed} continued, {failed} failed; last: x"
    )
    assert " iteration 500 failed" in log[-1]


def test_twenty_thousand_changed_files_are_a_count_and_a_handle() -> None:
    changes = tuple(ArtifactChange(path=f"out/{n:05}.csv", kind="new") for n in range(50))
    changed = ArtifactsChanged(iteration=3, new=20_000, changes=changes)
    memory = begun().with_artifacts(changed, "`mainspring artifacts s1`", AT_US)
    assert len(memory.text) - len(begun().text) < 500
    assert "20,000 new" in memory.section("State")
    assert "and 19,992 more); all: `mainspring artifacts s1`" in memory.section("State")


def test_a_note_is_replaced_and_taken_away_again() -> None:
    memory = begun().with_note("pids", "still running: 12, 13", AT_US)
    memory = memory.with_note("pids", "still running: 13", AT_US)
    assert memory.section("State") == "- still running: 13"
    assert memory.with_note("pids", "", AT_US).section("State") == ""


def test_a_line_that_somebody_edited_is_theirs() -> None:
    memory = begun().with_note("pids", "still running: 12", AT_US)
    edited = GoalMemory(memory.text.replace("running: 12", "running: 12 (leave it alone)"), SECTIONS)
    after = edited.with_note("pids", "still running: 13", AT_US)
    assert "running: 12 (leave it alone)" in after.text
    assert "- still running: 13" in after.section("State")


def test_what_the_agent_writes_between_two_of_our_changes_is_kept(tmp_path: Path) -> None:
    files = files_of(tmp_path)
    update_memory(files, DEFAULT_PATH, begun(), lambda memory: progressed(memory, 1))

    times = 0

    def change(memory: GoalMemory) -> GoalMemory:
        nonlocal times
        times += 1
        if times == 1:
            text = place(files).read_text()
            written(files, text.replace("### Plan\n", "### Plan\n\n1. measure first\n"))
        return progressed(memory, 2)

    update_memory(files, DEFAULT_PATH, begun(), change)
    text = place(files).read_text()
    assert times == 2
    assert "1. measure first" in text
    assert "iteration 2 continued" in text


def test_a_file_that_appears_while_a_new_one_is_begun_is_not_overwritten(tmp_path: Path) -> None:
    files = files_of(tmp_path)

    def change(memory: GoalMemory) -> GoalMemory:
        if not place(files).exists():
            written(files, begun("the agent's own").text)
        return progressed(memory, 1)

    update_memory(files, DEFAULT_PATH, begun("ours"), change)
    assert "> the agent's own" in place(files).read_text()
    assert "> ours" not in place(files).read_text()


def test_the_mode_is_kept_and_nothing_is_left_beside_the_file(tmp_path: Path) -> None:
    files = files_of(tmp_path)
    update_memory(files, DEFAULT_PATH, begun())
    place(files).chmod(0o640)
    inode = place(files).stat().st_ino
    update_memory(files, DEFAULT_PATH, begun(), lambda memory: progressed(memory, 1))
    assert place(files).stat().st_mode & 0o777 == 0o640
    assert place(files).stat().st_ino != inode, "a file that is written in place can be seen half written"
    assert [path.name for path in place(files).parent.iterdir()] == ["memory.md"]


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"\x00\x01\x02binary", "it is not text"),
        ("Gr\u00fc\u00dfe".encode("latin-1"), "it is not UTF-8 text"),
        (b"# My own notes\n\nkeep me\n", "it has no header of ours"),
        (b"# Memory\n\n- schema: 99\n", "its schema is 99, and this version knows 1"),
        (b"# Memory\n\n- schema: 1\n" + b"x" * 2_000_001, "it is larger than 2 MB"),
    ],
)
def test_a_file_that_cannot_be_used_is_kept_aside_and_reported(
    tmp_path: Path, content: bytes, reason: str
) -> None:
    files = files_of(tmp_path)
    written(files, content)
    for number in (1, 2):
        updated = update_memory(files, DEFAULT_PATH, begun(), lambda memory: progressed(memory, 1))
        assert updated.kept_aside is not None
        assert updated.kept_aside.reason == reason
        assert updated.kept_aside.path == f"projects/memory.aside-{number}.md"
        assert (files.policy.workspace / updated.kept_aside.path).read_bytes() == content
        assert updated.kept_aside.path in updated.memory.section("State")
        assert "> Make it fast" in place(files).read_text()
        written(files, content)


@pytest.mark.parametrize("kind", ["folder", "pipe", "link out", "broken link", "loop"])
def test_what_is_no_file_is_kept_aside(tmp_path: Path, kind: str) -> None:
    files = files_of(tmp_path)
    place(files).parent.mkdir()
    outside = tmp_path / "outside.md"
    outside.write_text("untouched")
    match kind:
        case "folder":
            place(files).mkdir()
        case "pipe":
            os.mkfifo(place(files))
        case "link out":
            place(files).symlink_to(outside)
        case "broken link":
            place(files).symlink_to("nothing-here")
        case _:
            place(files).symlink_to("memory.md")
    updated = update_memory(files, DEFAULT_PATH, begun())
    assert updated.kept_aside is not None
    assert place(files).is_file()
    assert not place(files).is_symlink()
    assert outside.read_text() == "untouched"
    assert os.path.lexists(files.policy.workspace / updated.kept_aside.path)


def test_a_folder_outside_the_workspace_is_refused(tmp_path: Path) -> None:
    files = files_of(tmp_path)
    outside = tmp_path / "elsewhere"
    outside.mkdir()
    place(files).parent.symlink_to(outside)
    with pytest.raises(PathRefused):
        update_memory(files, DEFAULT_PATH, begun())
    assert list(outside.iterdir()) == []


def test_a_deleted_or_empty_file_is_begun_again(tmp_path: Path) -> None:
    files = files_of(tmp_path)
    assert read_memory(files, DEFAULT_PATH, SECTIONS) is None
    written(files, "\n")
    updated = update_memory(files, DEFAULT_PATH, begun())
    assert updated.kept_aside is None
    found = read_memory(files, DEFAULT_PATH, SECTIONS)
    assert isinstance(found, GoalMemory)
    assert not isinstance(found, Damaged)
    assert found.text == begun().text


def test_a_section_that_somebody_removed_is_begun_at_the_end() -> None:
    text = begun().text.replace("### Progress log\n", "")
    memory = progressed(progressed(GoalMemory(text, SECTIONS), 1), 2)
    assert memory.text.count("Progress log") == 1
    assert len(memory.section("Progress log").splitlines()) == 2


def test_a_heading_in_code_is_no_section() -> None:
    text = begun().text.replace("### Plan\n", "### Plan\n\n```\n### Progress log\n```\n")
    assert "### Progress log\n```\n" in progressed(GoalMemory(text, SECTIONS), 1).text


PIECES = st.one_of(
    st.text(max_size=30),
    st.sampled_from(
        [
            "## Plan",
            "### Progress log",
            "# State #",
            "```",
            "~~~~",
            "- schema: 7",
            "  ",
            "<!-- mainspring -->",
        ]
    ),
    st.just("- x <!-- mainspring log-1 00000000 -->"),
)
PERSON = st.lists(PIECES, min_size=1, max_size=6).map(lambda lines: "\n".join(lines) + "\n")
CHANGES = st.one_of(
    st.tuples(st.just("progress"), st.integers(1, 90), st.text(max_size=40)),
    st.tuples(st.just("goal"), st.just(0), st.text(max_size=40)),
    st.tuples(st.just("note"), st.integers(1, 2), st.text(max_size=40)),
)


def made(memory: GoalMemory, kind: str, number: int, text: str) -> GoalMemory:
    match kind:
        case "progress":
            return memory.with_progress(number, "continued", text, AT_US)
        case "goal":
            return memory.with_goal(text, AT_US)
        case _:
            return memory.with_note(f"note-{number}", text, AT_US)


@given(
    written=st.dictionaries(st.sampled_from([*SECTIONS.short_term, *SECTIONS.long_term]), PERSON, max_size=4),
    changes=st.lists(CHANGES, max_size=60),
    is_windows=st.booleans(),
)
def test_whatever_a_person_wrote_survives_any_changes_of_ours(
    written: dict[str, str], changes: list[tuple[str, int, str]], is_windows: bool
) -> None:
    text = begun().text
    for name, theirs in written.items():
        text = text.replace(f"### {name}\n", f"### {name}\n{theirs}", 1)
    text = text.replace("\n", "\r\n") if is_windows else text
    memory = GoalMemory(text, SECTIONS)
    for kind, number, said in changes:
        memory = made(memory, kind, number, said)
    after = iter(memory.text.split("\n"))
    for line in text.split("\n")[5:]:
        assert any(line == found for found in after), f"{line!r} is gone"
    ours = [line for line in memory.text.split("\n") if owned(line)]
    assert len(ours) <= MAX_LOG_LINES + 3
