"""`mainspring exec` and `execs`: a real process, refused without a person, and what the lists say afterwards."""

import asyncio
import json
import re

from mainspring.app.commands import Runner, run_command
from mainspring.approvals import ModePolicy
from mainspring.catalog.sqlite import SqliteSessions
from mainspring.events import CommandAsked
from mainspring.sandbox.rungs.process import PlainSandbox
from mainspring.secrets.recorder import Recorder
from mainspring.secrets.vault import Vault

TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")


def ran(machine, *argv):
    """Runs a step that is allowed, on whatever machine this is; gives its id."""

    async def run():
        async def sandbox():
            return PlainSandbox(environment=machine.environment())

        journal = await SqliteSessions(machine.home / "steps").create()
        runner = Runner(policy=ModePolicy("yolo", max_cost_usd=1.0), sandbox=sandbox)
        await run_command(
            Recorder(journal, Vault()),
            CommandAsked(argv=argv, cwd=str(machine.workspace), timeout_s=30),
            runner,
        )
        await journal.close()
        return journal.session

    return asyncio.run(run())


def rows(machine):
    return [json.loads(line) for line in machine.run("execs", "--json").stdout.splitlines()]


def test_a_step_that_nobody_approves_is_refused_and_recorded(machine):
    done = machine.run("exec", "--sandbox", "none", "--", "touch", "made")
    assert done.returncode == 3
    assert "nobody was there to approve it" in done.stderr
    assert not (machine.workspace / "made").exists()
    (row,) = rows(machine)
    assert (row["state"], row["exit_code"], row["argv"]) == ("refused", None, ["touch", "made"])
    assert TIME.fullmatch(row["start"])
    assert TIME.fullmatch(row["end"])


def test_json_is_one_object(machine):
    done = machine.run("exec", "--json", "--sandbox", "none", "--", "true")
    assert json.loads(done.stdout)["state"] == "refused"


def test_a_template_names_limits_and_unknown_ones_are_told(machine):
    machine.home.mkdir(parents=True, exist_ok=True)
    (machine.home / "config.toml").write_text('[steps.tests]\ncommands = ["pytest *"]\n')
    done = machine.run("exec", "--sandbox", "none", "--template", "tests", "--", "rm", "x")
    assert done.returncode == 3
    assert "the template tests does not allow this command" in done.stderr
    done = machine.run("exec", "--template", "other", "--", "true")
    assert done.returncode == 2
    assert "config.toml has: tests" in done.stderr


def test_steps_are_listed_and_shown_with_their_output(machine):
    first = ran(machine, "sh", "-c", "echo out; echo err >&2; exit 4")
    second = ran(machine, "true")
    assert [(row["id"], row["state"], row["exit_code"]) for row in rows(machine)] == [
        (second, "ok", 0),
        (first, "error", 4),
    ]
    listed = machine.run("execs").stdout.splitlines()
    assert listed[1].startswith(first)
    shown = machine.run("execs", "show", first[:6])
    assert shown.stdout.endswith("--- stdout\nout\n--- stderr\nerr\n")
    whole = json.loads(machine.run("execs", "show", first, "--json").stdout)
    assert (whole["stdout"], whole["stderr"], whole["bytes"], whole["exit_code"]) == ("out\n", "err\n", 8, 4)
    assert machine.run("sessions", "--json").stdout == ""


def test_a_step_that_is_not_there_is_told(machine):
    done = machine.run("execs", "show", "nothing")
    assert done.returncode == 2
    assert "There is no command nothing" in done.stderr
