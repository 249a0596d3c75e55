"""What frees disk space, as a person runs it."""

from __future__ import annotations

import pytest

from tests.cli.conftest import Machine, lines
from tests.cli.test_cost import record, two_sessions


def test_deleting_needs_a_yes_and_says_what_it_freed(machine: Machine) -> None:
    two_sessions(machine)
    assert all(row["bytes"] > 1000 for row in lines(machine.run("sessions", "--json", "--sizes").stdout))
    refused = machine.run("sessions", "delete", "first")
    assert (refused.returncode, "--yes" in refused.stderr) == (2, True)
    assert "Would delete 1 session, " in machine.run("sessions", "delete", "first", "--dry-run").stdout
    assert len(lines(machine.run("sessions", "--json").stdout)) == 2
    told = machine.run("sessions", "delete", "first", "--yes")
    assert (told.returncode, "Deleted 1 session, " in told.stdout) == (0, True)
    assert machine.only_session()["id"] == "second"


@pytest.mark.parametrize(
    "arguments",
    [(), ("first", "--older-than", "90d"), ("--older-than", "90"), ("--older-than", "1d", "--waiting")],
)
def test_which_sessions_are_meant_must_be_clear(machine: Machine, arguments: tuple[str, ...]) -> None:
    two_sessions(machine)
    assert machine.run("sessions", "delete", *arguments, "--yes").returncode == 2
    assert len(lines(machine.run("sessions", "--json").stdout)) == 2


def test_the_daemon_deletes_what_is_too_old_by_the_settings_and_says_so(machine: Machine) -> None:
    record(machine, "one")
    machine.run("daemon", "run", "--once")
    assert machine.only_session()["id"] == "one"
    (machine.home / "config.toml").write_text("[retention]\nsessions_days = 0.00000001\n")
    told = machine.run("daemon", "run", "--once")
    assert "retention: deleted 1 session and 0 other files" in told.stderr
    assert machine.run("sessions", "--json").stdout == ""


def test_a_machine_is_left_as_it_was_before(machine: Machine) -> None:
    two_sessions(machine)
    assert "session" in machine.run("doctor").stdout
    assert machine.run("uninstall").returncode == 2
    told = machine.run("uninstall", "--yes")
    assert told.returncode == 0
    assert "pip uninstall mainspring" in told.stdout
    assert not machine.home.exists()


def test_what_stays_after_all_is_told_with_an_exit_code(machine: Machine) -> None:
    record(machine, "one")
    (machine.home / "config.toml").write_text("[journal]\ndaily_anchor = '/proc/version'\n")
    told = machine.run("uninstall", "--yes")
    assert (told.returncode, told.stderr) == (1, "could not be removed: /proc/version\n")
    assert "Not everything was removed." in told.stdout
    assert not machine.home.exists()


def test_cleaning_goes_on_after_what_it_cannot_remove(machine: Machine) -> None:
    record(machine, "one")
    contents = machine.home / "contents"
    (contents / "b-0").mkdir(parents=True)
    (machine.home / "elsewhere").mkdir()
    (contents / "a-0").symlink_to(machine.home / "elsewhere")
    told = machine.run("clean")
    assert told.returncode == 0
    assert told.stderr.startswith(f"stays: {contents / 'a-0'}\n")
    assert not (contents / "b-0").exists()
    assert (machine.home / "elsewhere").exists()


def test_what_would_be_lost_with_a_worktree_is_told_before_it_is_removed(machine: Machine) -> None:
    record(machine, "one")
    copy = machine.home.with_name("home-worktrees") / "child"
    (copy / "work").mkdir(parents=True)
    (copy / "ready").touch()
    for options, stays in ((("--dry-run",), True), ((), True), (("--discard-work",), False)):
        told = machine.run("clean", *options)
        assert told.returncode == 0
        unknown = "whether anything in it was changed is unknown"
        assert (f"stays: {copy} ({unknown}; --discard-work removes it)" in told.stderr) == stays
        assert (unknown in told.stdout) != stays
        assert copy.exists() == stays
