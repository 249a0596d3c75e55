"""`mainspring audit` over what a real command line and a real session left."""

from __future__ import annotations

from tests.cli.conftest import Machine, lines


def test_commands_are_in_the_log_with_who_gave_them_and_what_they_changed(machine: Machine) -> None:
    assert machine.run("config", "set", "mode", "auto").returncode == 0
    assert machine.run("run", "hello", "--model", machine.serve({"text": "hi"})).returncode == 0
    assert machine.run("sessions").returncode == 0
    session = machine.only_session()["id"]
    found = lines(machine.run("audit", "show", "--json").stdout)
    asked = [each["entry"] for each in found if each["entry"]["kind"] == "asked"]
    assert [each["operation"] for each in asked] == ["config set", "run", "audit show"]
    assert asked[0]["arguments"] == {"key": "mode", "value": "auto"}
    assert all(each["origin"]["user"] and each["origin"]["face"] == "cli" for each in asked)
    recorded = [each["entry"] for each in found if each["entry"]["kind"] == "recorded"]
    assert {each["session"] for each in recorded} == {session}
    said = next(each for each in recorded if each["operation"] == "say")
    events = {event["seq"]: event["kind"] for event in machine.events(session)}
    assert events[said["event"]] == "UserSaid"
    verified = machine.run("audit", "verify")
    assert verified.returncode == 0, verified.stdout
    log = machine.home / "audit" / "log.jsonl"
    log.write_bytes(log.read_bytes().replace(b'"auto"', b'"plan"'))
    broken = machine.run("audit", "verify")
    assert (broken.returncode, "entry 1 was changed" in broken.stdout) == (1, True)
    assert machine.run("audit", "prune", "--older-than-days", "0").returncode == 2


def test_ages_that_are_none_are_refused(machine: Machine) -> None:
    for age in ("nan", "inf", "1e300", "-1"):
        for command in (("prune", "--older-than-days"), ("export", "--since-days")):
            told = machine.run("audit", *command, age)
            assert (told.returncode, "Invalid value" in told.stderr) == (2, True), told.stderr


def test_the_options_of_show_count_without_it_as_well(machine: Machine) -> None:
    for key in ("auto", "plan"):
        assert machine.run("config", "set", "mode", key).returncode == 0
    found = lines(machine.run("audit", "--operation", "config", "-n", "1", "--json").stdout)
    assert [each["entry"]["arguments"]["value"] for each in found] == ["plan"]
    assert "No entry" in machine.run("audit", "--refused").stderr
    told = machine.run("audit", "--refused", "verify")
    assert (told.returncode, "cannot come before `verify`" in told.stderr) == (2, True)
