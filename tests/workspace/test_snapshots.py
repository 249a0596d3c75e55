"""What the time machine sees of a call, on real files."""

import asyncio
import os
import subprocess
from pathlib import Path

import pytest

from mainspring.workspace import stable_read as reading
from mainspring.workspace.quiet import Quiet
from mainspring.workspace.snapshots import Snapshots
from tests.workspace.machine import Watched, picture


def shell(root, command):
    return lambda: subprocess.run(["bash", "-c", command], cwd=root, check=True)


def test_an_edit_keeps_the_content_before_and_after(watched, root):
    (root / "a.py").write_text("old\n")
    (change,) = watched.changes(lambda: (root / "a.py").write_text("new\n")).values()
    assert (change.path, change.kind) == ("a.py", "modified")
    assert (watched.content(change.before), watched.content(change.after)) == (b"old\n", b"new\n")


def test_the_contents_of_many_files_are_kept_together(root, tmp_path, monkeypatch):
    kept: list[int] = []
    watched = Watched(root, tmp_path / "cache")
    keep = watched.keep

    async def counted(contents):
        kept.append(len(contents))
        return await keep(contents)

    monkeypatch.setattr(watched, "keep", counted)
    changes = watched.changes(
        lambda: [(root / f"f{number}").write_text(f"{number}") for number in range(900)]
    )
    watched.close()
    assert kept == [900]
    assert {watched.content(change.after).decode() for change in changes.values()} == {
        str(number) for number in range(900)
    }


def test_a_first_look_takes_the_status_of_a_settled_file_once(tmp_path, monkeypatch):
    again: list[int] = []
    made = reading.entry_of
    monkeypatch.setattr(reading, "entry_of", lambda found: again.append(found.st_ino) or made(found))
    settled = Path(__file__).parent.parent / "journals"
    watched = Watched(settled, tmp_path / "cache")
    assert watched.call(lambda: None) is None
    watched.close()
    assert again == []


def test_calls_that_begin_together_lose_no_change(root, tmp_path):
    for number in range(200):
        (root / f"d{number}").mkdir()
        (root / f"d{number}/old").touch()
    watched = Watched(root, tmp_path / "cache")

    async def act(name):
        await watched.machine.begin(name)
        for number in range(200):
            (root / f"d{number}/{name}").touch()

    async def together():
        await watched.machine.prepare()
        await asyncio.gather(act("c1"), act("c2"))
        return await watched.machine.end(["c1", "c2"], watched.keep)

    changed = watched.run(together())
    watched.close()
    assert {change.path for change in changed.changes} == {
        f"d{number}/{name}" for number in range(200) for name in ("c1", "c2")
    }


def looked_at_early(watched, meanwhile):
    """What a call is said to change that changes nothing, when others do something between the look that was
    made for it and its start; and whether its start looks at the folder again."""
    looks: list[str] = []
    lstat = os.lstat

    def noted_lstat(path, **options):
        if str(path).startswith(str(watched.root)):
            looks.append(str(path))
        return lstat(path, **options)

    async def story():
        await watched.machine.prepare()
        watched.machine.expect()
        await asyncio.wait({watched.machine._early})
        meanwhile()
        os.lstat = noted_lstat
        try:
            await watched.machine.begin("c1")
        finally:
            os.lstat = lstat
        return await watched.machine.end(["c1"], watched.keep)

    return watched.run(story()), bool(looks)


@pytest.fixture
def early(root, tmp_path, monkeypatch):
    if not Quiet(str(root)).has_held():
        pytest.skip("nobody tells here what happens in folders")
    monkeypatch.setattr("mainspring.workspace.snapshots._LONG_LOOK_S", -1)
    (root / "folder/below").mkdir(parents=True)
    (root / "folder/file").write_text("1")
    (root / "folder/below/file").write_text("1")
    watched = Watched(root, tmp_path / "cache")
    yield watched
    watched.close()


def test_a_look_while_the_call_is_written_counts_when_nothing_happened_since(early):
    assert looked_at_early(early, lambda: None) == (None, False)


@pytest.mark.parametrize(
    "meanwhile",
    [
        "echo 22 > folder/below/file",
        "printf 2 | dd of=folder/file conv=notrunc status=none",
        "touch folder/new",
        "mkdir -p folder/other/deep && echo 1 > folder/other/deep/file",
        "rm folder/file",
        "rm -r folder",
        "mv folder/file folder/below/moved",
        "mv folder elsewhere",
        "chmod 600 folder/file",
        "chmod 700 folder/below",
        "ln -s file folder/link",
    ],
)
def test_what_others_do_after_that_look_is_none_of_the_calls_doing(early, meanwhile):
    found = looked_at_early(
        early, lambda: subprocess.run(["bash", "-c", meanwhile], cwd=early.root, check=True)
    )
    assert found == (None, True)


def test_a_call_that_changes_nothing_leaves_no_event(watched, root):
    (root / "a.py").write_text("old\n")
    assert watched.call((root / "a.py").read_text) is None
    assert watched.call(lambda: os.utime(root / "a.py")) is None


def test_a_change_of_the_same_size_in_the_same_tick_is_seen(watched, root):
    path = root / "a"
    path.write_text("0000")
    for number in range(1, 30):
        (change,) = watched.changes(lambda number=number: path.write_text(f"{number:04}")).values()
        assert watched.content(change.after) == f"{number:04}".encode()


SIDE_EFFECTS = {
    "an append in place": "echo more >> a.txt",
    "a stream edit": "sed -i s/old/new/ a.txt",
    "a deletion": "rm a.txt",
    "a folder deleted with all in it": "rm -r deep",
    "a mode": "chmod 755 a.txt",
    "a link where a file was": "ln -sf elsewhere a.txt",
    "a link that points elsewhere": "ln -sfn deep link",
    "an empty folder": "mkdir -p empty/inside",
    "a file where a folder was": "rm -r deep && echo file > deep",
    "a folder where a file was": "rm a.txt && mkdir a.txt && echo x > a.txt/x",
    "untracked and binary": r"printf '\x00\xff' > new.bin",
    "a file with a strange name": r"echo x > $'tab\t and newline\n and ünï'",
    "the mode of a folder": "chmod 700 deep",
    "all at once": "rm -r deep; mv a.txt b.txt; mkdir -p x/y; echo z > x/y/z; ln -s x link2; chmod 600 b.txt",
}


@pytest.mark.parametrize("case", SIDE_EFFECTS)
def test_what_a_command_did_can_be_put_back(watched, root, case):
    (root / "deep" / "er").mkdir(parents=True)
    (root / "a.txt").write_text("old\n")
    (root / "deep" / "er" / "b.txt").write_text("below\n")
    (root / "link").symlink_to("a.txt")
    before = picture(root)
    changed = watched.call(shell(root, SIDE_EFFECTS[case]))
    assert picture(root) != before
    watched.put_back(changed)
    assert picture(root) == before


def test_a_renamed_file_is_one_change(watched, root):
    (root / "old.py").write_text("text\n")
    (change,) = watched.changes(lambda: (root / "old.py").rename(root / "new.py")).values()
    assert (change.kind, change.renamed_from, change.path) == ("renamed", "old.py", "new.py")


def test_a_rename_that_changes_only_the_case_can_be_put_back(watched, root):
    (root / "Readme.md").write_text("text\n")
    changed = watched.call(lambda: (root / "Readme.md").rename(root / "README.md"))
    assert [(change.renamed_from, change.path) for change in changed.changes] == [("Readme.md", "README.md")]
    watched.put_back(changed)
    assert [path.name for path in root.iterdir()] == ["Readme.md"]


def test_a_large_sparse_file_is_known_and_not_read(watched, root):
    def act():
        with (root / "big").open("wb") as file:
            file.truncate(2 * 1024**3)

    (change,) = watched.changes(act).values()
    assert change.after.blob is None
    assert change.after.size == 2 * 1024**3
    assert change.after.reason == "it is larger than 10 MB"


def test_links_in_a_circle_are_not_followed(watched, root):
    (root / "a").mkdir()
    (root / "a" / "up").symlink_to("..")
    (root / "self").symlink_to("self")
    (root / "out").symlink_to("/")
    changes = watched.changes(lambda: (root / "a" / "file").write_text("x"))
    assert list(changes) == ["a/file"]


def test_a_pipe_does_not_block_a_look(watched, root):
    changes = watched.changes(lambda: os.mkfifo(root / "pipe"))
    assert changes["pipe"].after.kind == "other"


def test_heavy_folders_are_named_as_not_covered(watched, root):
    (root / "node_modules").mkdir()
    (root / "env").mkdir()
    (root / "env" / "pyvenv.cfg").write_text("home = /usr\n")
    (root / "cache").mkdir()
    (root / "cache" / "CACHEDIR.TAG").write_text("Signature: 8a477f597d28d172789f06886806bc55\n")
    changed = watched.call(shell(root, "touch node_modules/x env/y cache/z; echo x > seen"))
    assert [change.path for change in changed.changes] == ["seen"]
    assert sorted(note.split()[0] for note in changed.not_covered) == ["cache", "env", "node_modules"]


def test_files_whose_names_are_not_text_are_named_as_not_covered(watched, root, tmp_path):
    (root / os.fsdecode(b"bad\xff.txt")).write_text("old")
    command = "printf y >> $(printf 'bad\\377.txt'); mkdir $(printf 'd\\377'); touch $(printf 'd\\377')/x; echo x > seen"
    changed = watched.call(shell(root, command))
    assert [change.path for change in changed.changes] == ["seen"]
    assert changed.not_covered == ("bad\\xff.txt (its name is not text)", "d\\xff (its name is not text)")
    assert watched.call(shell(root, "touch -d @1 $(printf 'd\\377')/x")) is None
    gone = watched.call(shell(root, "rm $(printf 'bad\\377.txt')"))
    assert gone.not_covered == ("bad\\xff.txt (its name is not text)",)
    again = Watched(root, tmp_path / "cache")
    assert again.call(lambda: None) is None
    again.close()


def test_secrets_are_not_copied(root, tmp_path):
    watched = Watched(root, tmp_path / "cache", is_secret=lambda name: name.startswith(".env"))
    (root / ".env").write_text("KEY=hunter2")
    (change,) = watched.changes(lambda: (root / ".env").write_text("KEY=hunter3")).values()
    watched.close()
    assert change.before is not None
    assert change.after is not None
    assert (change.before.blob, change.after.blob) == (None, None)
    assert "secrets" in change.before.reason
    assert all(b"hunter" not in path.read_bytes() for path in tmp_path.glob("cache/**/*") if path.is_file())


@pytest.mark.parametrize(("times", "is_kept"), [(1, True), (2, True), (99, False)])
def test_a_file_that_changes_while_it_is_read_is_read_again_or_said_to_be_unknown(
    watched, root, monkeypatch, times, is_kept
):
    path = root / "busy"
    path.write_bytes(b"a" * 1000)
    watched.call(lambda: None)
    read, left = reading._read, [times]

    def disturbed(fd, size):
        data = read(fd, size)
        if left[0] > 0:
            left[0] -= 1
            path.write_bytes(b"%04d" % left[0] * 250)
        return data

    def act():
        path.write_bytes(b"b" * 1000)
        monkeypatch.setattr(reading, "_read", disturbed)

    (change,) = watched.changes(act).values()
    assert watched.content(change.before) == b"a" * 1000
    if is_kept:
        assert watched.content(change.after) == path.read_bytes()
    else:
        assert change.after.reason == "it changed while it was read"


def test_what_others_change_between_calls_belongs_to_no_call(watched, root):
    (root / "a").write_text("1")
    watched.call(lambda: None)
    (root / "a").write_text("2 by a person")
    (change,) = watched.changes(lambda: (root / "b").write_text("3")).values()
    assert change.path == "b"
    (change,) = watched.changes(lambda: (root / "a").write_text("4")).values()
    assert watched.content(change.before) == b"2 by a person"


def test_calls_that_run_at_once_share_what_changed_while_both_ran(watched, root):
    machine, run = watched.machine, watched.run
    run(machine.begin("c1"))
    run(machine.begin("c2"))
    (root / "one").write_text("1")
    first = run(machine.end(["c1"], watched.keep))
    (root / "two").write_text("2")
    second = run(machine.end(["c2"], watched.keep))
    assert (first.calls, [change.path for change in first.changes]) == (("c1", "c2"), ["one"])
    assert (second.calls, [change.path for change in second.changes]) == (("c2",), ["two"])


def test_what_a_dead_process_left_is_found_by_the_next_one(root, tmp_path):
    (root / "a").write_text("before")
    first = Watched(root, tmp_path / "cache")
    first.run(first.machine.begin("c1"))
    contents = first.machine._contents
    assert contents is not None
    os.close(contents._lock)  # what the kernel does when a process dies
    first.loop.close()
    (root / "a").write_text("after")
    second = Watched(root, tmp_path / "cache")
    second.run(second.machine.prepare())
    changed = second.run(second.machine.end(["c1"], second.keep, is_certain=False))
    second.close()
    assert (changed.calls, changed.is_certain) == (("c1",), False)
    (change,) = changed.changes
    assert second.content(change.before) == b"before"


def test_a_cache_that_was_cut_off_or_deleted_costs_time_and_nothing_else(root, tmp_path):
    (root / "a").write_text("x" * 1000)
    for spoil in (lambda path: os.truncate(path, path.stat().st_size // 2), lambda path: path.unlink()):
        for name in ("contents", "log"):
            watched = Watched(root, tmp_path / "cache")
            watched.call(lambda: None)
            watched.close()
            (cache,) = (tmp_path / "cache").iterdir()
            spoil(cache / name)
            watched = Watched(root, tmp_path / "cache")
            assert watched.call(lambda: None) is None
            (change,) = watched.changes(lambda: (root / "a").write_text("new")).values()
            assert watched.content(change.before) == b"x" * 1000
            (root / "a").write_text("x" * 1000)
            watched.close()


def test_two_sessions_in_one_workspace_do_not_disturb_each_other(watched, root, tmp_path):
    other = Watched(root, tmp_path / "cache")
    (root / "a").write_text("1")
    assert list(watched.changes(lambda: (root / "b").write_text("2"))) == ["b"]
    assert list(other.changes(lambda: (root / "c").write_text("3"))) == ["c"]
    other.close()


def test_the_contents_of_unchanged_tracked_files_stay_in_git(watched, root, git, tmp_path):
    git("init", "-q")
    for number in range(600):
        (root / f"{number}.txt").write_text(f"tracked {number}\n" * 100)
    git("add", ".")
    git("commit", "-qm", "all")
    index, head = (root / ".git/index").read_bytes(), git("rev-parse", "HEAD")
    (root / "1.txt").write_text("changed by a person\n")
    (root / "new.txt").write_text("untracked\n")
    before = picture(root)
    changed = watched.call(shell(root, "rm *.txt"))
    assert len(changed.changes) == 601
    cached = sum(path.stat().st_size for path in (tmp_path / "cache").rglob("contents"))
    assert cached == len("changed by a person\nuntracked\n")
    watched.put_back(changed)
    assert picture(root) == before
    assert ((root / ".git/index").read_bytes(), git("rev-parse", "HEAD")) == (index, head)


def test_content_that_only_git_had_and_lost_is_said_to_be_lost(watched, root, git):
    git("init", "-q")
    for number in range(600):
        (root / f"{number}.txt").write_text(f"tracked {number}\n" * 100)
    git("add", ".")
    git("commit", "-qm", "all")
    changed = watched.call(shell(root, "rm -rf .git 1.txt"))
    (change,) = changed.changes
    assert change.before.blob is None
    assert "no longer there" in change.before.reason
    assert changed.not_covered == (".git (the version control's own data)",)


def test_a_converted_file_is_kept_as_it_is_on_disk(watched, root, git):
    git("init", "-q")
    (root / ".gitattributes").write_text("*.txt text eol=crlf\n*.bin filter=lfs diff=lfs merge=lfs -text\n")
    for number in range(600):
        (root / f"{number}.txt").write_bytes(b"one\r\ntwo\r\n")
    pointer = b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"0" * 64 + b"\nsize 3\n"
    (root / "model.bin").write_bytes(pointer)
    git("-c", "filter.lfs.clean=cat", "add", ".")
    git("commit", "-qm", "all")
    (root / "model.bin").write_bytes(b"the real content")
    before = picture(root)
    changed = watched.call(shell(root, "rm 1.txt model.bin"))
    watched.put_back(changed)
    assert picture(root) == before


def test_submodules_are_covered_like_other_folders(watched, root, git, tmp_path):
    library = tmp_path / "library"
    library.mkdir()
    git("init", "-q", cwd=library)
    (library / "lib.c").write_text("int x;\n")
    git("add", ".", cwd=library)
    git("commit", "-qm", "lib", cwd=library)
    git("init", "-q")
    git("submodule", "--quiet", "add", str(library), "vendor/lib")
    git("commit", "-qm", "with a library")
    before = picture(root)
    changed = watched.call(shell(root, "echo 'int y;' >> vendor/lib/lib.c && touch vendor/lib/new"))
    assert [change.path for change in changed.changes] == ["vendor/lib/lib.c", "vendor/lib/new"]
    watched.put_back(changed)
    assert picture(root) == before
    assert git("status", "--porcelain", "--ignore-submodules=none") == ""


def test_a_worktree_is_covered_by_itself(root, git, tmp_path):
    git("init", "-q")
    (root / "a").write_text("main\n")
    git("add", ".")
    git("commit", "-qm", "a")
    tree = tmp_path / "tree"
    git("worktree", "add", "-q", str(tree), "-b", "side")
    watched = Watched(tree, tmp_path / "cache")
    changed = watched.call(shell(tree, "echo side > a"))
    assert changed is not None
    watched.put_back(changed)
    watched.close()
    assert (tree / "a").read_text() == "main\n"
    assert git("status", "--porcelain", cwd=tree) == ""


def test_our_own_data_inside_the_workspace_is_left_out(root):
    watched = Watched(root, root / "home" / "contents", left_out=(root / "home",))
    changes = watched.changes(shell(root, "touch home/journal mine"))
    watched.close()
    assert list(changes) == ["mine"]


def test_an_unreadable_or_missing_workspace_is_no_fault(watched, root):
    (root / "a").write_text("x")
    changed = watched.call(shell(root, 'rm -rf "$PWD"'))
    assert [(change.path, change.kind) for change in changed.changes] == [("a", "deleted")]


def test_a_cache_that_cannot_be_written_is_said_and_stops_nothing(root, tmp_path):
    (tmp_path / "cache").write_text("a file where a folder should be")
    (root / "a").write_text("1")
    watched = Watched(root, tmp_path / "cache")
    changed = watched.call(lambda: (root / "a").write_text("2"))
    watched.close()
    assert changed is not None
    assert any("everything" in note for note in changed.not_covered)


def test_more_changes_than_one_event_takes_are_counted(watched, root, monkeypatch):
    monkeypatch.setattr("mainspring.workspace.snapshots.MAX_CHANGES", 3)
    changed = watched.call(shell(root, "touch {1..9}"))
    assert len(changed.changes) == 3
    assert changed.not_covered == ("6 more files, too many for one call",)


def test_closing_does_not_wait_for_a_long_first_look(root, tmp_path):
    watched = Watched(root, tmp_path / "cache")
    watched.machine._is_closed = True
    assert isinstance(watched.machine, Snapshots)
    assert watched.call(lambda: None) is None
    watched.close()


def test_full_contents_are_told_once_and_covered_again_with_more_room(root, tmp_path):
    small = Watched(root, tmp_path / "cache", max_bytes=10)
    told = small.call(lambda: (root / "a").write_text("x" * 11))
    assert told is not None
    (note,) = told.not_covered
    assert "`mainspring clean` frees them" in note
    again = small.call(lambda: (root / "b").write_text("y" * 11))
    assert again is not None
    assert again.not_covered == ()
    small.close()
    large = Watched(root, tmp_path / "cache")
    (change,) = large.changes(lambda: (root / "c").write_text("z" * 11)).values()
    assert large.content(change.after) == b"z" * 11
    large.close()
