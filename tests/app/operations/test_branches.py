"""A branch of the session's own, in real repositories and with the real commands."""

import os
import subprocess

import msgspec
import pytest

from mainspring.app.operations.commit_draft import _material
from mainspring.events import BranchMoved, SpendReserved
from mainspring.settings import load_config
from mainspring.workspace.git import Git
from tests.workspace.machine import picture
from tests.workspace.sessions import World, say, shell

WORK = "echo two >> a.txt; echo new > new.txt; rm old.txt; chmod +x run.sh; ln -s a.txt link; mkdir -p d; echo x > d/x"


@pytest.fixture
def world(tmp_path, root, git):
    git("init", "-q", "-b", "main")
    for name in ("a.txt", "old.txt", "run.sh"):
        (root / name).write_text("one\n")
    (root / ".gitignore").write_text("*.log\n.env\n")
    git("add", ".")
    git("commit", "-qm", "first")
    return World(tmp_path, shell(WORK), say("done"))


def run(world, *options, code=0):
    answer = world.command(
        *("run", "Fix the Bug: now!", "-C", str(world.root), "--mode", "yolo", "--sandbox", "none"),
        *("--max-cost-usd", "1", "--branch", *options),
        code=code,
    )
    world.session = world.store.shelf.names()[0]
    return answer


def test_work_happens_on_a_branch_with_only_what_the_session_changed(world, root, git):
    (root / "mine.txt").write_text("untracked, by a person")
    answer = run(world)
    assert git("symbolic-ref", "--short", "HEAD") == "mainspring/fix-the-bug-now"
    assert "branch mainspring/fix-the-bug-now committed" in answer
    names = git("diff", "--name-status", "--no-renames", "main", "HEAD").splitlines()
    assert sorted(names) == ["A\td/x", "A\tlink", "A\tnew.txt", "D\told.txt", "M\ta.txt", "M\trun.sh"]
    assert git("status", "--porcelain") == "?? mine.txt"
    assert git("log", "-1", "--format=%s") == "Fix the Bug: now!"
    assert git("rev-list", "--count", "main") == "1"


def test_the_users_identity_is_taken_and_else_a_fallback(world, root, git):
    run(world)
    assert git("log", "-1", "--format=%an <%ae>") == "mainspring <mainspring@localhost>"
    git("config", "user.name", "Grace")
    git("config", "user.email", "grace@example.org")
    world.write_script(say("x"), say("x"), shell("echo three >> a.txt"), say("done"))
    world.command("resume", world.session, "more", "--max-cost-usd", "1")
    assert git("log", "-1", "--format=%an <%ae>") == "Grace <grace@example.org>"
    assert git("rev-list", "--count", "HEAD") == "3"


def test_secrets_ignored_files_and_files_of_others_are_never_committed(world, root, git):
    (root / "notes.txt").write_text("by a person\n")
    world.write_script(
        shell("echo KEY=1 > .env.local; echo x > a.log; echo more >> notes.txt; echo ok > ok.txt"),
        say("done"),
    )
    answer = run(world)
    assert git("diff", "--name-only", "main", "HEAD").splitlines() == ["ok.txt"]
    assert "not committed: .env.local (files of that name hold secrets)" in answer
    assert "not committed: a.log (it is ignored)" in answer
    assert "not committed: notes.txt (it was there before, and not tracked)" in answer


KEPT_OUT = {
    "filter": ("echo x > data.bin", "data.bin (it needs the filter lfs, which would run a program)"),
    "submodule": ("git init -q sub; echo x > sub/file", "sub/file (it belongs to another repository)"),
}


@pytest.mark.parametrize("case", KEPT_OUT)
def test_a_branch_that_everything_was_kept_out_of_says_so_and_is_not_merged(world, root, git, case):
    (root / ".gitattributes").write_text("*.bin filter=lfs\n")
    git("add", ".")
    git("commit", "-qm", "second")
    work, kept_out = KEPT_OUT[case]
    world.write_script(shell(work), say("done"))
    answer = run(world)
    assert "branch mainspring/fix-the-bug-now has nothing new to commit" in answer
    assert f"not committed: {kept_out}" in answer
    for how in ("--merge", "--squash"):
        refused = world.command("land", world.session, how, code=2)
        assert f"there is nothing to {how[2:]}" in refused
        assert kept_out in refused
        assert "merged" not in refused
    assert git("symbolic-ref", "--short", "HEAD") == "mainspring/fix-the-bug-now"
    world.write_script(say("x"), say("x"), say("Nothing to do."))
    assert "to commit" not in world.command("resume", world.session, "more", "--max-cost-usd", "1")


def test_a_dirty_tree_is_left_alone_and_said_so(world, root, git):
    (root / "a.txt").write_text("changed by a person\n")
    index = (root / ".git/index").read_bytes()
    answer = run(world)
    assert "No branch was made: The working tree has changes that are not committed" in answer
    assert git("symbolic-ref", "--short", "HEAD") == "main"
    assert git("branch", "--list", "mainspring/*") == ""
    assert (root / ".git/index").read_bytes() == index


@pytest.mark.parametrize("case", ["no repository", "no commit", "no branch"])
def test_where_no_branch_is_possible_the_work_goes_on_without(tmp_path, root, git, case):
    if case != "no repository":
        git("init", "-q", "-b", "main")
    if case == "no branch":
        git("commit", "-q", "--allow-empty", "-m", "first")
        git("checkout", "-q", "--detach")
    world = World(tmp_path, shell("echo x > x"), say("done"))
    assert "No branch was made" in run(world)
    assert (root / "x").exists()


def test_nothing_of_the_repository_runs_with_our_rights(world, root, git, tmp_path):
    trap = tmp_path / "ran"
    hooks = root / ".git/hooks"
    for name in ("pre-commit", "post-commit", "post-checkout", "reference-transaction", "post-index-change"):
        (hooks / name).write_text(f"#!/bin/sh\ntouch {trap}\n")
        (hooks / name).chmod(0o755)
    git("config", "core.hooksPath", str(hooks))
    trap.unlink(missing_ok=True)
    for key in ("core.fsmonitor", "filter.evil.clean", "filter.evil.smudge", "filter.evil.process"):
        subprocess.run(["git", "config", key, f"touch {trap}; cat"], cwd=root, check=True)
    for key in ("gpg.program", "core.editor", "diff.external", "core.sshCommand"):
        subprocess.run(["git", "config", key, f"touch {trap}"], cwd=root, check=True)
    subprocess.run(["git", "config", "commit.gpgsign", "true"], cwd=root, check=True)
    trap.unlink(missing_ok=True)
    world.write_script(
        shell("echo '*.bin filter=evil' > .gitattributes; echo x > x.bin; echo y > y.txt"), say("done")
    )
    os.utime(root / "a.txt")
    answer = run(world)
    world.command("land", world.session, "--squash")
    assert not trap.exists()
    assert "x.bin (it needs the filter evil, which would run a program)" in answer


def test_a_merge_brings_the_commits_into_the_base(world, root, git):
    run(world)
    before = picture(root)
    assert "merged" in world.command("land", world.session)
    assert git("symbolic-ref", "--short", "HEAD") == "main"
    assert git("status", "--porcelain") == ""
    assert git("rev-list", "--count", "HEAD") == "2"
    assert git("branch", "--list", "mainspring/*") == ""
    assert picture(root) == before
    assert "no branch to merge" in world.command("land", world.session, code=2)


def test_a_squash_makes_one_commit(world, root, git):
    run(world)
    world.write_script(say("x"), say("x"), shell("echo three >> a.txt"), say("done"))
    world.command("resume", world.session, "more", "--max-cost-usd", "1")
    tip = git("rev-parse", "HEAD")
    answer = world.command("land", world.session, "--squash")
    assert f"git branch mainspring/fix-the-bug-now {tip[:12]}" in answer
    assert (
        git("log", "-1", "--format=%B", "main") == f"Fix the Bug: now!\n\n- more\n\nSession: {world.session}"
    )
    assert git("rev-list", "--count", "main") == "2"
    assert git("status", "--porcelain") == ""
    assert (root / "a.txt").read_text() == "one\ntwo\nthree\n"


def test_a_discard_puts_everything_back(world, root, git):
    (root / "mine.txt").write_text("untracked, by a person")
    before = picture(root)
    run(world)
    world.command("land", world.session, "--discard")
    assert picture(root) == before
    assert git("symbolic-ref", "--short", "HEAD") == "main"
    assert git("status", "--porcelain") == "?? mine.txt"
    assert git("branch", "--list", "mainspring/*") == ""


def test_what_was_undone_does_not_land(world, root, git):
    run(world)
    world.write_script(say("x"), say("x"), shell("echo three >> a.txt"), say("done"))
    world.command("resume", world.session, "more", "--max-cost-usd", "1")
    world.command("undo", world.session)
    world.command("land", world.session)
    assert git("show", "main:a.txt") == "one\ntwo"
    assert git("status", "--porcelain") == ""


def test_a_discard_says_what_it_could_not_put_back(world, root, git):
    world.write_script(shell("echo KEY=1 > .env; echo two >> a.txt"), say("done"))
    run(world)
    answer = world.command("land", world.session, "--discard")
    assert "not put back: .env (files of that name hold secrets)" in answer
    assert (root / ".env").exists()


def test_a_repository_with_long_names_of_objects_works_alike(tmp_path, root, git):
    git("init", "-q", "-b", "main", "--object-format=sha256")
    for name in ("a.txt", "old.txt", "run.sh"):
        (root / name).write_text("one\n")
    git("add", ".")
    git("commit", "-qm", "first")
    before = picture(root)
    world = World(tmp_path, shell(WORK), say("done"))
    assert "committed" in run(world)
    assert "D\told.txt" in git("diff", "--name-status", "--no-renames", "main", "HEAD")
    world.command("land", world.session, "--discard")
    assert picture(root) == before
    assert git("status", "--porcelain") == ""


def test_a_discard_refuses_to_destroy_what_someone_else_changed(world, root, git):
    run(world)
    (root / "new.txt").write_text("by a person")
    assert "new.txt changed since" in world.command("land", world.session, "--discard", code=1)
    assert git("symbolic-ref", "--short", "HEAD") == "mainspring/fix-the-bug-now"


def test_a_base_that_moved_on_is_left_to_a_person(world, root, git):
    run(world)
    tree = git("rev-parse", "main^{tree}")
    git("update-ref", "refs/heads/main", git("commit-tree", tree, "-p", "main", "-m", "meanwhile"))
    assert "main has moved on" in world.command("land", world.session, code=2)


def test_a_base_in_another_worktree_is_left_alone(world, root, git, tmp_path):
    run(world)
    git("worktree", "add", "-q", str(tmp_path / "tree"), "main")
    assert "another worktree" in world.command("land", world.session, code=2)


def test_a_branch_that_the_user_left_gets_no_commit(world, root, git):
    run(world)
    git("switch", "-q", "main")
    world.write_script(say("x"), say("x"), shell("echo three >> a.txt"), say("done"))
    answer = world.command("resume", world.session, "more", "--max-cost-usd", "1")
    assert "Nothing was committed: HEAD is no longer on" in answer
    assert git("log", "-1", "--format=%s") == "first"


def test_an_undo_is_committed_like_any_change(world, root, git):
    run(world)
    world.command("undo", world.session)
    world.write_script(shell("echo other > other.txt"), say("done"))
    world.command("resume", world.session, "again", "--max-cost-usd", "1")
    assert git("diff", "--name-only", "main", "HEAD") == "other.txt"
    assert git("status", "--porcelain") == ""


def test_line_ends_are_converted_as_the_repository_wants(world, root, git):
    world.write_script(
        shell(r"echo '*.txt text eol=crlf' > .gitattributes; printf 'x\r\ny\r\n' > crlf.txt"), say("done")
    )
    run(world)
    assert git("cat-file", "-s", "HEAD:crlf.txt") == "4"
    assert git("status", "--porcelain") == ""


def test_a_workspace_below_the_top_of_a_repository_commits_the_right_paths(tmp_path, root, git):
    git("init", "-q", "-b", "main", cwd=tmp_path)
    (root / "a.txt").write_text("one\n")
    (tmp_path / ".gitignore").write_text("home\nscript.json\n")
    git("add", ".", cwd=tmp_path)
    git("commit", "-qm", "first", cwd=tmp_path)
    world = World(tmp_path, shell("echo two >> a.txt"), say("done"))
    run(world)
    assert git("diff", "--name-only", "main", "HEAD", cwd=tmp_path) == "workspace/a.txt"
    assert git("status", "--porcelain", cwd=tmp_path) == ""


def test_git_variables_of_the_caller_do_not_redirect_us(root, git, tmp_path):
    git("init", "-q")
    (root / "a").write_text("x")
    git("add", "a")
    other = {**os.environ, "GIT_DIR": str(tmp_path), "GIT_INDEX_FILE": "/nowhere"}
    assert list(Git(root, other).tracked()) == ["a"]


def test_a_branch_stays_with_the_session_that_began_it_and_a_fork_cannot_land_it(world, root, git):
    run(world)
    parent, here = world.session, picture(root)
    world.command("fork", parent)
    (fork,) = [name for name in world.store.shelf.names() if name != parent]
    for how in ("--discard", "--merge"):
        assert "no branch to merge" in world.command("land", fork, how, code=2)
    assert picture(root) == here
    assert "merged" in world.command("land", parent)


def test_two_ways_to_land_at_once_are_a_usage_error_and_change_nothing(world, root, git):
    run(world)
    refused = world.command("land", world.session, "--merge", "--squash", code=2)
    assert "--merge and --squash cannot be given together" in refused
    assert git("symbolic-ref", "--short", "HEAD") == "mainspring/fix-the-bug-now"
    assert "merged" in world.command("land", world.session, "--merge", "--merge")


def test_a_person_must_agree_before_sensitive_files_land_and_what_landed_has_its_risk(world, root, git):
    world.write_script(shell("mkdir -p .github/workflows; echo x > .github/workflows/ci.yml"), say("done"))
    run(world)
    refused = world.command("land", world.session, code=3)
    assert "A person must agree before this lands: it changes .github/workflows/ci.yml" in refused
    assert "CI configuration" in refused
    assert git("rev-list", "--count", "main") == "1"
    told = world.command("diff", world.session, "--risk")
    assert "risk: 25 of 100 (low)" in told
    landed = world.command("land", world.session, "--yes")
    assert "risk: 25 of 100" in landed
    assert git("rev-list", "--count", "main") == "2"
    assert [item.event.risk for item in world.journal() if getattr(item.event, "action", "") == "merged"] == [
        25
    ]


def drafting(world, *replies, tier="scripted@{script}", more=""):
    """A tier `fast` whose model gives these replies."""
    script = world.home.parent / "fast.json"
    script.write_bytes(msgspec.json.encode({"replies": replies}))
    world.home.mkdir(exist_ok=True)
    (world.home / "config.toml").write_text(f'[tiers]\nfast = "{tier.format(script=script)}"\n{more}')


def moved(world):
    return [item.event for item in world.journal() if isinstance(item.event, BranchMoved)]


def test_a_subject_is_drafted_by_the_fast_tier_and_taken_over_by_a_squash(world, root, git):
    drafting(world, say("`Add a second line to a.txt`\n"))
    run(world)
    assert git("log", "-1", "--format=%s") == "Add a second line to a.txt"
    assert "Asked for: Fix the Bug: now!" in git("log", "-1", "--format=%b")
    assert moved(world)[-1].drafted_by.startswith("scripted@")
    spent = [item.event for item in world.journal() if isinstance(item.event, SpendReserved)]
    assert "commit message" in {each.source for each in spent}
    world.command("land", world.session, "--squash", "--yes")
    assert git("log", "-1", "--format=%s", "main") == "Add a second line to a.txt"


@pytest.mark.parametrize(
    ("replies", "tier", "more", "problem"),
    [
        ((), "scripted@{script}.gone", "", "fast.json.gone"),
        ((say("x" * 300),), "scripted@{script}", "", "it wrote no subject"),
        ((say("Never asked"),), "scripted@{script}", '[work]\ncommit_messages = "said"\n', ""),
        ((say("Never asked"),), "openai-compatible@http://127.0.0.1:9#x", "", ""),
    ],
    ids=["failing", "unfit", "off", "elsewhere"],
)
def test_without_a_draft_the_users_first_line_stands(world, git, replies, tier, more, problem):
    drafting(world, *replies, tier=tier, more=more)
    run(world)
    assert git("log", "-1", "--format=%s") == "Fix the Bug: now!"
    last = moved(world)[-1]
    assert bool(last.draft_problem) == bool(problem)
    assert problem in last.draft_problem.lower()


def test_the_drafting_model_is_shown_no_secrets(world, root, git):
    world.write_script(shell("echo KEY=hidden-value > .env.local; echo two >> a.txt"), say("done"))
    drafting(world, say("Change a.txt"))
    run(world)
    asked = [item.event for item in world.journal() if isinstance(item.event, SpendReserved)]
    assert [each for each in asked if each.source == "commit message"]
    config = load_config({"MAINSPRING_HOME": str(world.home), "PATH": "/usr/bin:/bin"})

    (root / "a.txt").write_text("three\n")
    text = _material(config, root, [".env.local", "a.txt"], "Go")
    assert "+three" in text
    assert "hidden-value" not in text
    assert ".env.local" not in text
