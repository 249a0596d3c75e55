"""Sessions in a database that machines share, as people use it: two homes stand for two machines."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path

import asyncpg
import msgspec
import pytest

from mainspring.app.imported import import_note
from mainspring.disk.shared_files import LocalFiles
from mainspring.journal.postgres.connection import StoreAddress
from mainspring.journal.postgres.files import PostgresFiles
from tests.cli.conftest import Machine
from tests.postgres import execute, postgres

EFFECT = {"calls": [{"name": "shell", "arguments": {"command": "echo once >> effects"}}]}
DONE = {"text": "done"}


class Shared(Machine):
    """A machine whose sessions are kept in a database."""

    url = ""

    def environment(self, **extra: str) -> dict[str, str]:
        return super().environment(**{"MAINSPRING_STORE": self.url, **extra})


@pytest.fixture
def shared(machine: Machine) -> Shared:
    machine.__class__ = Shared
    assert isinstance(machine, Shared)
    machine.url = asyncio.run(postgres().new_database())
    return machine


def on_another_machine(shared: Shared, folder: Path) -> dict[str, str]:
    return {"MAINSPRING_HOME": str(folder / "other-home")}


def work(shared: Shared, *words: str, **extra: str) -> subprocess.CompletedProcess[str]:
    limits = ("--mode", "yolo", "--max-cost-usd", "1", "--allow-unpriced")
    return shared.run("run", "--model", shared.serve(EFFECT, DONE, DONE), *limits, *words, **extra)


def test_a_database_without_tables_says_what_to_do_and_init_makes_them(shared: Shared) -> None:
    refused = shared.run("sessions")
    assert refused.returncode == 1
    assert "has no tables of mainspring" in refused.stderr
    assert "mainspring store init" in refused.stderr
    assert "the tables are made, version 3" in shared.run("store", "init").stdout
    assert "is ready" in shared.run("store", "migrate").stdout
    assert "No sessions yet" in shared.run("sessions").stderr
    unset = shared.run("store", "check", MAINSPRING_STORE="")
    assert (unset.returncode, "No database is configured" in unset.stderr) == (2, True)


def test_a_session_is_listed_shown_and_continued_on_another_machine(shared: Shared, tmp_path: Path) -> None:
    shared.run("store", "init")
    assert work(shared, "do it").stdout == "done\n"
    other = on_another_machine(shared, tmp_path)
    row = json.loads(shared.run("sessions", "--json", **other).stdout)
    assert "do it" in shared.run("show", row["id"], **other).stdout
    again = shared.run("resume", row["id"], "and on", **other)
    assert (again.returncode, again.stdout) == (0, "done\n")
    assert (shared.workspace / "effects").read_text() == "once\n"
    assert "sound" in shared.run("verify", row["id"]).stdout


def test_a_killed_run_goes_on_on_another_machine_and_nothing_is_done_twice(
    shared: Shared, tmp_path: Path
) -> None:
    shared.run("store", "init")
    model = shared.serve(EFFECT, DONE)
    worker = str(Path(__file__).with_name("killed_worker.py"))
    limits = ("--mode", "yolo", "--max-cost-usd", "1", "--allow-unpriced")
    for commits in (4, 6):
        (shared.workspace / "effects").unlink(missing_ok=True)
        killed = subprocess.run(
            [sys.executable, worker, str(commits), "run", "--model", model, *limits, f"kill {commits}"],
            cwd=shared.workspace,
            env=shared.environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
        )
        assert killed.returncode == -9
        other = on_another_machine(shared, tmp_path)
        row = json.loads(shared.run("sessions", "--json", **other).stdout.splitlines()[0])
        assert row["state"] == "crashed"
        resumed = shared.run("resume", row["id"], "--allow-unpriced", **other)
        assert resumed.returncode == 0, resumed.stderr
        effects = shared.workspace / "effects"
        assert not effects.exists() or effects.read_text() == "once\n"
        assert "sound" in shared.run("verify", row["id"]).stdout


def test_sessions_are_copied_both_ways_and_damage_is_told(shared: Shared) -> None:
    shared.run("store", "init")
    assert work(shared, "a local one", MAINSPRING_STORE="").returncode == 0
    session = json.loads(shared.run("sessions", "--json", MAINSPRING_STORE="").stdout)["id"]
    assert f"{session}: copied" in shared.run("store", "copy").stdout
    assert f"{session}: there already" in shared.run("store", "copy", session).stdout
    heads = [shared.run("verify", session, **where).stdout for where in ({}, {"MAINSPRING_STORE": ""})]
    assert heads[0] == heads[1]
    back = {"MAINSPRING_HOME": str(shared.home / "elsewhere")}
    assert (
        f"{session}: copied"
        in shared.run("store", "copy", "--from", shared.url, "--to", "local", **back).stdout
    )
    checked = json.loads(shared.run("store", "check", "--json").stdout)
    assert (checked["sessions"], checked["problems"]) == (1, [])
    execute(StoreAddress(shared.url), "UPDATE mainspring.events SET body = '{}' WHERE seq = 2")
    found = shared.run("store", "check")
    assert found.returncode == 1
    assert f"damaged: {session}: event 2 does not match its hash" in found.stdout
    same = shared.run("store", "copy", "--to", "local")
    assert (same.returncode, "Both places are the same" in same.stderr) == (2, True)


def test_a_copy_of_an_imported_session_is_an_imported_one(shared: Shared) -> None:
    shared.run("store", "init")
    here = {"MAINSPRING_STORE": ""}
    work(shared, "a local one", **here)
    session = json.loads(shared.run("sessions", "--json", **here).stdout)["id"]
    shared.run("export", session, "-o", "exported.jsonl", **here)
    shared.run("sessions", "delete", session, "--yes", **here)
    assert shared.run("import", "exported.jsonl", **here).returncode == 0
    assert f"{session}: copied" in shared.run("store", "copy").stdout
    kept = LocalFiles(shared.home / "sessions" / session)
    copied = PostgresFiles(StoreAddress(shared.url), f"sessions/{session}")
    assert import_note(copied) == import_note(kept) is not None


def test_the_password_of_the_store_reaches_neither_the_model_nor_the_record(shared: Shared) -> None:
    shared.run("store", "init")
    secret = shared.url.replace("postgres@", "postgres:pass-w0rd-of-ours@")
    model = shared.serve(
        {"calls": [{"name": "shell", "arguments": {"command": "env; echo pass-w0rd-of-ours"}}]}, DONE
    )
    limits = ("--mode", "yolo", "--max-cost-usd", "1", "--allow-unpriced")
    ran = shared.run("run", "--model", model, *limits, "look", MAINSPRING_STORE=secret)
    assert ran.returncode == 0
    told = b"".join(msgspec.json.encode(seen.body) for seen in shared.seen)
    assert b"w0rd-of-ours" not in told
    session = json.loads(shared.run("sessions", "--json").stdout)["id"]
    assert "w0rd-of-ours" not in shared.run("show", "--json", session, MAINSPRING_STORE=secret).stdout


def test_only_who_has_a_cap_takes_the_lock_that_all_machines_share(shared: Shared) -> None:
    async def locks() -> int:
        connection = await asyncpg.connect(shared.url)
        taken = await connection.fetchval("SELECT count(*) FROM mainspring.leases WHERE name = 'day'")
        await connection.close()
        return taken

    shared.run("store", "init")
    assert work(shared, "do it").returncode == 0
    assert asyncio.run(locks()) == 0
    assert work(shared, "--max-cost-usd-today", "1", "do it").returncode == 0
    assert asyncio.run(locks()) == 1


STEAL = """
CREATE FUNCTION steal() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN UPDATE mainspring.leases SET epoch = epoch + 1 WHERE name = 'day'; RETURN NULL; END $$;
CREATE TRIGGER steal AFTER INSERT ON mainspring.events FOR EACH ROW
WHEN (NEW.kind = 'SpendReserved') EXECUTE FUNCTION steal();
"""


def test_a_turn_whose_store_could_not_be_had_stays_open_and_can_be_resumed(shared: Shared) -> None:
    shared.run("store", "init")
    address = StoreAddress(shared.url)
    execute(address, STEAL)  # as if this process had stalled whenever it set money of the day aside
    broken = work(shared, "--max-cost-usd-today", "1", "do it")
    assert broken.returncode == 1
    assert "stalled while it set money of the day aside" in broken.stderr
    (row,) = [json.loads(line) for line in shared.run("sessions", "--json").stdout.splitlines()]
    assert row["state"] == "crashed"
    execute(address, "DROP TRIGGER steal ON mainspring.events")
    resumed = shared.run("resume", row["id"], "--allow-unpriced")
    assert resumed.returncode == 0, resumed.stderr
    assert (shared.workspace / "effects").read_text() == "once\n"
