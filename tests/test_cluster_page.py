"""`docs/cluster.md` as a person follows it: a laptop and another machine, a real Postgres, real workers, Temporal."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import ROOT
from tests.cli.conftest import Machine
from tests.cli.conftest import machine as plain_machine
from tests.postgres import postgres
from tests.shared_store import Shared, ended, until_true
from tests.temporal import temporal
from tests.test_docs import commands

__all__ = ["plain_machine"]
DONE = {"text": "Done.\n<promise>DONE</promise>"}


class Reader(Shared):
    """Follows the page on a laptop, with another machine beside it. Both have a model, and nothing else yet."""

    def begin(self) -> None:
        self.other = str(self.home.parent / "other")
        self.model = self.serve(DONE, DONE)
        self.workers: list[subprocess.Popen[str]] = []
        self.queued: list[str] = []

    def environment(self, **extra: str) -> dict[str, str]:
        return Machine.environment(self, **{"MAINSPRING_MODEL": self.model, **extra})

    def follow(self, *words: str) -> str:
        """One command of the page. Settings are made on both machines; workers run on the other one, one after
        the other."""
        if words[0] == "worker":
            if self.workers:
                (name,) = [each["id"] for each in self.fleet()["workers"] if each["is_alive"]]
                self.follow("fleet", "drain", name)
                _, said = self.workers[-1].communicate(timeout=120)
                assert "told to drain" in said
            self.workers.append(self.start(*words, MAINSPRING_HOME=self.other))
            return ""
        done = self.run(*words)
        assert done.returncode == 0, (words, done.stdout, done.stderr)
        if words[0] == "config":
            assert self.run(*words, MAINSPRING_HOME=self.other).returncode == 0
        if {"--queue", "--detach"} & {*words}:
            self.queued.append(done.stdout.strip())
        return done.stdout


@pytest.fixture
def reader(plain_machine: Machine) -> Iterator[Reader]:
    plain_machine.__class__ = Reader
    assert isinstance(plain_machine, Reader)
    plain_machine.begin()
    yield plain_machine
    for worker in plain_machine.workers:
        worker.kill()
        worker.communicate()


def test_the_page_from_laptop_to_cluster_can_be_followed(reader: Reader, tmp_path: Path) -> None:
    server = temporal()
    given = {
        "postgresql://me@db.example:5432/mainspring": asyncio.run(postgres().new_database()),
        "localhost:7233": server.address,
    }
    reader.follow("run", "begun on the laptop")
    (local,) = reader.states()
    for words in commands(ROOT / "docs" / "cluster.md"):
        said = reader.follow(*(given.get(word, word) for word in words))
        if words[:2] == ["store", "init"]:
            # "Copy that file to the other machines."
            (tmp_path / "other" / "store.key").write_bytes((reader.home / "store.key").read_bytes())
            checked = reader.run("store", "check", MAINSPRING_HOME=reader.other)
            assert checked.returncode == 0, checked.stdout
        if words[:2] == ["store", "copy"]:
            elsewhere = reader.run("run", "begun elsewhere", MAINSPRING_HOME=reader.other)
            assert elsewhere.returncode == 0, elsewhere.stderr
            given["ID"] = next(session for session in reader.states() if session != local)
        if words[0] == "sessions":
            assert local in said
            assert given["ID"] in said
        if words[0] == "doctor":
            assert server.address in said
    assert len(reader.queued) == 4
    rest = reader.start("worker", "--no-temporal", MAINSPRING_HOME=reader.other)  # of the queue `default`
    until_true(lambda: all(reader.states()[session] == "done" for session in reader.queued))
    ended(rest)
    found = server.ask("workflow", "list", "--query", f"WorkflowId = '{reader.queued[-1]}'")
    assert len(found) == 1
    reader.follow("store", "check")
