"""Artifacts: found by content, whatever the times say; nothing hangs, nothing of ours is listed."""

import asyncio
import hashlib
import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring.catalog.sqlite import SqliteSessions
from mainspring.events import (
    ArtifactChange,
    ArtifactsChanged,
    AssistantSaid,
    Blob,
    CallAsked,
    Event,
    FileChange,
    FilesChanged,
    GoalSet,
    Recorded,
    SessionStarted,
)
from mainspring.evidence import artifact_scan as looking
from mainspring.evidence.artifact_scan import GoalFolder
from mainspring.evidence.artifacts import Artifact, Artifacts, SeenFile, compare, makers, read_artifacts
from mainspring.sandbox.files import Files
from mainspring.sandbox.policy import policy
from mainspring.workspace.snapshots import Snapshots
from mainspring.workspace.tree import is_fresh


class Watch:
    """A goal's folder, its fold, and a look at it that records what it found."""

    def __init__(self, folder: Path, include: tuple[str, ...] = (), left_out: tuple[str, ...] = ()) -> None:
        self.root = (folder / "workspace").resolve()
        self.root.mkdir(exist_ok=True)
        self.cache = folder / "cache"
        self.blobs: dict[str, bytes] = {}
        self.artifacts = Artifacts()
        self.include = include
        self.left_out = tuple(self.root / name for name in left_out)
        self.iteration = 0
        self.restart()

    def restart(self) -> None:
        self.files = Files(policy(self.root, home=self.root.parent / "home"))
        self.folder = GoalFolder(
            self.files, self.root, self.cache, include=self.include, left_out=self.left_out
        )

    async def keep(self, data: bytes, media_type: str) -> Blob:
        blob = Blob(sha256=hashlib.sha256(data).hexdigest(), size=len(data), media_type=media_type)
        self.blobs[blob.sha256] = data
        return blob

    def look(self, made_by: dict[str, str] | None = None) -> ArtifactsChanged | None:
        event = asyncio.run(
            self.folder.look(self.artifacts.present, self.iteration, made_by or {}, self.keep)
        )
        self.iteration += 1
        if event is not None:
            self.artifacts.apply(event, self.blobs[event.listing.sha256] if event.listing else None)
        return event

    def changes(self, made_by: dict[str, str] | None = None) -> list[tuple[str, str]]:
        event = self.look(made_by)
        return [(change.kind, change.path) for change in event.changes] if event else []

    def write(self, path: str, data: bytes | str = b"x") -> Path:
        place = self.root / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(data if isinstance(data, bytes) else data.encode())
        return place


@pytest.fixture
def watch(tmp_path: Path) -> Watch:
    return Watch(tmp_path)


def test_new_modified_renamed_and_deleted_files_are_told_apart(watch: Watch) -> None:
    for name in ("changed", "moved", "gone", "same"):
        watch.write(f"out/{name}.txt", name)
    assert len(watch.changes()) == 4
    assert watch.look() is None
    watch.write("out/changed.txt", "otherwise")
    (watch.root / "out/moved.txt").rename(watch.root / "there.txt")
    (watch.root / "out/gone.txt").unlink()
    watch.write("new.txt", "new")
    event = watch.look({"new.txt": "python make.py"})
    assert event is not None
    assert (event.new, event.modified, event.deleted, event.renamed) == (1, 1, 1, 1)
    found = {change.path: change for change in event.changes}
    assert found["there.txt"].renamed_from == "out/moved.txt"
    assert found["new.txt"].made_by == "python make.py"
    assert found["new.txt"].sha256 == hashlib.sha256(b"new").hexdigest()
    assert {artifact.path for artifact in watch.artifacts.made} == {"there.txt", "new.txt", "out/changed.txt"}
    assert sorted(watch.artifacts.present) == ["new.txt", "out/changed.txt", "out/same.txt", "there.txt"]
    assert watch.look() is None


def test_what_the_time_machine_has_hashed_is_not_read_again(watch: Watch) -> None:
    machine = Snapshots(watch.root, watch.root.parent / "contents", environment={})
    watch.folder = GoalFolder(watch.files, watch.root, watch.cache, known_content=machine.known_content)
    known = watch.write("known.txt", "known")
    while is_fresh(known.stat().st_ctime_ns):
        """Until a later change must show in its status."""
    asyncio.run(machine.prepare())
    watch.write("changed.txt", "as the machine has not seen it")
    opened, is_over = list[str](), list[bool]()
    sys.addaudithook(
        lambda event, given: opened.append(str(given[0])) if event == "open" and not is_over else None
    )
    event = watch.look()
    is_over.append(True)  # a hook cannot be taken away
    assert event is not None
    assert {change.path: change.sha256 for change in event.changes} == {
        "known.txt": hashlib.sha256(b"known").hexdigest(),
        "changed.txt": hashlib.sha256(b"as the machine has not seen it").hexdigest(),
    }
    assert str(watch.root / "changed.txt") in opened
    assert str(known) not in opened
    asyncio.run(machine.close())


def test_a_change_that_keeps_size_and_time_is_seen(watch: Watch) -> None:
    place = watch.write("data.csv", "1,2,3")
    os.utime(place, ns=(10**18, 10**18))
    watch.look()
    place.write_text("3,2,1")
    os.utime(place, ns=(10**18, 10**18))
    assert watch.changes() == [("modified", "data.csv")]


def test_a_touched_file_with_the_same_content_is_no_change(watch: Watch) -> None:
    place = watch.write("data.csv", "1,2,3")
    watch.look()
    os.utime(place, ns=(10**18, 10**18))
    assert watch.look() is None
    place.unlink()
    watch.write("data.csv", "1,2,3")
    assert watch.look() is None


def test_deletions_are_seen_by_a_process_that_was_not_there(watch: Watch) -> None:
    watch.write("a/b/c.txt")
    watch.write("d.txt", "d")
    watch.look()
    (watch.root / "a/b/c.txt").unlink()
    (watch.root / "a/b").rmdir()
    watch.restart()
    assert watch.changes() == [("deleted", "a/b/c.txt")]


@pytest.mark.parametrize("damage", [None, b"", b"\xff\x00nonsense", b"\x83\xa5rules\xc0"])
def test_the_cache_may_be_deleted_or_damaged_at_any_time(watch: Watch, damage: bytes | None) -> None:
    watch.write("a.txt", "a")
    watch.look()
    for path in watch.cache.iterdir():
        path.unlink() if damage is None else path.write_bytes(damage)
    watch.restart()
    assert watch.look() is None
    watch.write("a.txt", "b")
    assert watch.changes() == [("modified", "a.txt")]


def test_own_files_git_dependencies_and_what_is_ignored_are_not_artifacts(tmp_path: Path) -> None:
    watch = Watch(tmp_path, left_out=("projects/memory.md", "logs"))
    for name in (".git/config", "node_modules/x.js", "projects/memory.md", "logs/run.log", ".mainspring/a"):
        watch.write(name)
    watch.write(".gitignore", "*.log\nbuild/\n")
    for name in ("noise.log", "build/deep/x.txt", "sub/build/y", ".mainspring-0f0f", "worktree/.git"):
        watch.write(name)
    watch.write("sub/.gitignore", "!keep.log\n")
    watch.write("sub/keep.log")
    watch.write("result.csv", "a,b\n1,2\n")
    expected = [".gitignore", "result.csv", "sub/.gitignore", "sub/keep.log"]
    assert [path for _, path in watch.changes()] == expected
    watch.restart()
    assert watch.look() is None


def test_what_is_left_out_from_now_on_is_left_out_in_spite_of_the_cache(watch: Watch) -> None:
    watch.write("notes/memory.md")
    watch.write("a.txt", "a")
    watch.look()
    watch.left_out = (watch.root / "notes/memory.md",)
    watch.restart()
    watch.write("notes/memory.md", "changed")
    assert watch.look() is None
    watch.write("notes/memory.md", "changed again")
    assert watch.look() is None


def test_what_is_ignored_from_now_on_was_not_deleted_and_comes_back_when_it_changes(watch: Watch) -> None:
    watch.write("noise.log", "1")
    watch.look()
    watch.write(".gitignore", "*.log\n")
    assert watch.changes() == [("new", ".gitignore")]
    watch.write("noise.log", "2")
    assert watch.look() is None
    watch.write(".gitignore", "# nothing\n")
    assert watch.changes() == [("modified", ".gitignore"), ("modified", "noise.log")]


def test_an_ignore_file_above_the_folder_counts(watch: Watch) -> None:
    (watch.root.parent / ".ignore").write_text("*.tmp\n")
    watch.write("a.tmp")
    watch.write("b.txt")
    assert watch.changes() == [("new", "b.txt")]
    (watch.root.parent / ".ignore").unlink()
    assert watch.changes() == [("new", "a.tmp")]


def test_only_what_the_patterns_name_counts(tmp_path: Path) -> None:
    watch = Watch(tmp_path, include=("*.csv", "plots/**/*.png"))
    for name in ("a/b.csv", "plots/x/y.png", "other.png", "notes.md"):
        watch.write(name)
    assert [path for _, path in watch.changes()] == ["a/b.csv", "plots/x/y.png"]


def test_a_file_that_became_something_else_is_gone(watch: Watch) -> None:
    for name in ("folder", "link", "file"):
        watch.write(name, name)
    watch.look()
    for name in ("folder", "link"):
        (watch.root / name).unlink()
    (watch.root / "folder").mkdir()
    (watch.root / "link").symlink_to("file")
    assert watch.changes() == [("deleted", "folder"), ("deleted", "link")]


def test_pipes_devices_sockets_and_links_never_hang(watch: Watch) -> None:
    os.mkfifo(watch.root / "pipe.csv")
    (watch.root / "loop").symlink_to(watch.root)
    (watch.root / "self").symlink_to("self")
    (watch.root / "zero.png").symlink_to("/dev/zero")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(os.path.relpath(watch.root / "sock"))
        watch.write("real.txt")
        assert watch.changes() == [("new", "real.txt")]


def test_a_large_file_is_hashed_while_other_work_goes_on(watch: Watch) -> None:
    size = 300_000_000
    with (watch.root / "large.bin").open("wb") as file:
        file.truncate(size)

    async def scenario() -> tuple[int, ArtifactsChanged | None]:
        beats, is_over = 0, False

        async def beat() -> None:
            nonlocal beats
            while not is_over:
                beats += 1
                await asyncio.sleep(0.001)

        async with asyncio.TaskGroup() as group:
            group.create_task(beat())
            event = await watch.folder.look({}, 0, {}, watch.keep)
            is_over = True
        return beats, event

    beats, event = asyncio.run(scenario())
    assert event is not None
    assert event.changes[0].size == size
    assert len(event.changes[0].sha256) == 64
    assert beats > 5


def test_a_file_too_large_to_hash_is_told_apart_by_size_and_time(
    watch: Watch, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(looking, "MAX_HASHED_BYTES", 3)
    watch.write("large.bin", "1234")
    event = watch.look()
    assert event is not None
    assert event.changes[0].sha256 == ""
    assert watch.look() is None
    watch.write("large.bin", "12345")
    assert watch.changes() == [("modified", "large.bin")]


def test_pictures_and_tables_are_kept_for_the_report_and_secrets_are_not(watch: Watch) -> None:
    watch.write("before.png", "old picture")
    watch.look()
    watch.write("plot.svg", "<svg/>")
    watch.write("table.csv", "a,b\n")
    watch.write("huge.json", b"x" * 200_001)
    watch.write("notes.md", "text")
    watch.write("credentials.json", '{"key": 1}')
    watch.write(".env.png", "secret")
    hidden = watch.write(".env", "KEY=1")
    event = watch.look()
    assert event is not None
    first = event.previews[0]
    assert (first.media_type, watch.blobs[first.sha256]) == ("image/svg+xml", b"<svg/>")
    kept = {watch.blobs[blob.sha256] for blob in event.previews}
    assert b"a,b\n" in kept
    assert not kept & {b"KEY=1", b"secret", b"old picture", b"text"}
    found = {change.path: change for change in event.changes}
    assert found[hidden.name].sha256 == ""


def test_previews_are_few(watch: Watch) -> None:
    watch.look()
    for number in range(30):
        watch.write(f"{number}.png", f"picture {number}")
    event = watch.look()
    assert event is not None
    assert len(event.previews) == looking.MAX_PREVIEWS


def test_many_changes_are_a_count_a_beginning_and_a_listing(watch: Watch) -> None:
    for number in range(300):
        watch.write(f"out/{number:03}.txt", str(number))
    event = watch.look()
    assert event is not None
    assert (event.new, len(event.changes)) == (300, 50)
    assert event.listing is not None
    assert len(watch.artifacts.present) == 300
    assert len(msgspec.json.encode(event)) < 20_000
    assert watch.look() is None


def test_a_look_that_was_cancelled_loses_nothing(watch: Watch) -> None:
    for number in range(50):
        watch.write(f"{number}.txt", str(number))

    async def scenario() -> None:
        looking_now = asyncio.ensure_future(watch.folder.look({}, 0, {}, watch.keep))
        await asyncio.sleep(0)
        looking_now.cancel()
        with pytest.raises(asyncio.CancelledError):
            await looking_now

    asyncio.run(scenario())
    event = watch.look()
    assert event is not None
    assert event.new == 50


def recorded(*events: Event) -> list[Recorded]:
    return [Recorded(seq=number, time_us=0, event=event) for number, event in enumerate(events, start=1)]


def test_the_command_that_made_a_file_is_known_from_the_calls() -> None:
    calls = (
        CallAsked(call="c1", name="shell", arguments='{"command": "python  run.py\\n"}'),
        CallAsked(call="c2", name="write", arguments='{"path": "notes.md"}'),
        CallAsked(call="c3", name="Bash", arguments="not json"),
    )
    changed = [
        FilesChanged(calls=("c1",), changes=(FileChange(path="sub/out.csv", kind="created"),)),
        FilesChanged(calls=("c2",), changes=(FileChange(path="sub/notes.md", kind="created"),)),
        FilesChanged(calls=("c3",), changes=(FileChange(path="elsewhere", kind="created"),)),
        FilesChanged(calls=(), changes=(FileChange(path="sub/undone", kind="created"),)),
    ]
    said = AssistantSaid(step=1, parts=calls, stop="calls")
    made = makers(recorded(said, *changed))
    assert made == {"sub/out.csv": "python run.py", "sub/notes.md": "write", "elsewhere": "Bash"}


CONTENT = st.sampled_from(["", "1", "2", "3"])
FOLDER = st.dictionaries(st.sampled_from(["a", "b", "c/a", "c/d"]), CONTENT)


def seen(files: dict[str, str]) -> dict[str, SeenFile]:
    return {
        path: SeenFile(hashlib.sha256(text.encode()).hexdigest(), len(text), 1)
        for path, text in files.items()
    }


@given(st.lists(FOLDER, max_size=6))
def test_folding_what_was_compared_gives_the_disk_again(folders: list[dict[str, str]]) -> None:
    artifacts = Artifacts()
    for iteration, files in enumerate(folders):
        now = seen(files)
        changes = compare(artifacts.present, now, {})
        artifacts.apply(ArtifactsChanged(iteration=iteration, changes=tuple(changes)))
        present = {path: SeenFile(found.sha256, found.size, 1) for path, found in artifacts.present.items()}
        assert present == now
        assert compare(artifacts.present, now, {}) == []


def test_the_journal_gives_the_artifacts_back_and_the_command_lists_them(tmp_path: Path) -> None:
    changes = [ArtifactChange(path=f"out/{n:03}.csv", kind="new", sha256=f"{n:064x}") for n in range(250)]
    made = ArtifactChange(path="plot.svg", kind="new", sha256="ab" * 32, size=1234, made_by="python plot.py")

    async def scenario() -> Artifacts:
        journal = await SqliteSessions(tmp_path).create("goal1")
        listing = await journal.put(msgspec.json.encode(changes), "application/json")
        await journal.append(
            SessionStarted(session="goal1", workspace=str(tmp_path), version="1"),
            GoalSet(text="Plot it"),
            ArtifactsChanged(iteration=0, new=250, changes=tuple(changes[:50]), listing=listing),
            ArtifactsChanged(
                iteration=2,
                new=1,
                deleted=1,
                changes=(
                    made,
                    ArtifactChange(path="out/000.csv", kind="deleted"),
                ),
            ),
        )
        found = await read_artifacts(journal)
        await journal.close()
        return found

    artifacts = asyncio.run(scenario())
    assert len(artifacts.present) == 250
    expected = Artifact(
        path="plot.svg", sha256="ab" * 32, size=1234, iteration=2, made_by="python plot.py", is_new=True
    )
    assert artifacts.made == (expected,)

    def command(*arguments: str) -> list[str]:
        ran = subprocess.run(
            [sys.executable, "-m", "mainspring", "artifacts", *arguments],
            env={"MAINSPRING_HOME": str(tmp_path), "PATH": os.environ["PATH"]},
            capture_output=True,
            text=True,
            check=True,
        )
        return ran.stdout.splitlines()

    assert command() == [f"plot.svg  1,234 B  {'ab' * 6}  -  iteration 2  python plot.py"]
    assert json.loads(command("goal1", "--json")[0])["made_by"] == "python plot.py"
    everything = command("goal", "--all")
    assert len(everything) == 251
    assert everything[0].startswith("out/000.csv (gone)")
