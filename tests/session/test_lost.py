"""A process that dies in the middle of a command: what the command did is on record after resuming."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable

from mainspring.events import CallEnded, FilesChanged
from tests.workspace.sessions import World, say, shell

PROGRAM = """
import sys
from mainspring.cli import main
sys.argv = ["mainspring", "run", "go", "-C", sys.argv[1], "--mode", "yolo", "--sandbox", "none", "--max-cost-usd", "1"]
main()
"""


def kill(world: World, is_time: Callable[[], bool]) -> None:
    """Kills a run in the moment that is asked for."""
    environment = {**os.environ, "MAINSPRING_HOME": str(world.home), "MAINSPRING_MODEL": world.model}
    worker = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(world.root)],
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    while not is_time():
        assert worker.poll() is None
    worker.send_signal(signal.SIGKILL)
    worker.wait()
    (world.session,) = world.store.shelf.names()


def test_what_a_killed_call_did_to_files_is_recorded_on_resuming_and_can_be_undone(tmp_path):
    world = World(
        tmp_path, shell("echo half > half.txt; rm old.txt; echo ready > ready; sleep 60"), say("done")
    )
    (world.root / "old.txt").write_text("old\n")
    kill(world, (world.root / "ready").exists)
    world.command("resume", world.session, "--max-cost-usd", "1")
    journal = [item.event for item in world.journal()]
    (changed,) = [event for event in journal if isinstance(event, FilesChanged)]
    assert not changed.is_certain
    assert sorted(change.path for change in changed.changes) == ["half.txt", "old.txt", "ready"]
    assert [event.outcome for event in journal if isinstance(event, CallEnded)] == ["unknown"]
    assert journal.index(changed) < next(i for i, event in enumerate(journal) if isinstance(event, CallEnded))
    world.command("undo", world.session)
    assert {path.name: path.read_text() for path in world.root.iterdir()} == {"old.txt": "old\n"}


def test_what_a_call_beside_the_killed_one_did_is_on_record_once(tmp_path):
    both = shell("echo one > one.txt", "echo two > two.txt; sleep 60")
    world = World(tmp_path, both, say("done"))

    def is_time() -> bool:
        if not (world.root / "two.txt").exists():
            return False
        (world.session,) = world.store.shelf.names()
        return any(isinstance(item.event, CallEnded) for item in world.journal())

    kill(world, is_time)
    world.command("resume", world.session, "--max-cost-usd", "1")
    changed = [item.event for item in world.journal() if isinstance(item.event, FilesChanged)]
    assert sorted(change.path for each in changed for change in each.changes) == ["one.txt", "two.txt"]
    world.command("undo", world.session)
    assert list(world.root.iterdir()) == []
