"""Commands without an agent: on record before and after, whatever happens."""

import asyncio
import json
import os
import signal
import subprocess
import sys

import pytest

from mainspring.app.commands import Runner, load_command, newest_commands, run_command
from mainspring.approvals import ModePolicy
from mainspring.catalog.sqlite import SqliteSessions
from mainspring.errors import SandboxError
from mainspring.events import ApprovalGiven, CommandAsked, CommandEnded, CommandStarted
from mainspring.sandbox.rungs.process import PlainSandbox
from mainspring.secrets.recorder import Recorder
from mainspring.secrets.vault import Vault
from mainspring.settings import Template
from tests import ROOT

FREE = ModePolicy("yolo", max_cost_usd=1.0)


async def plain():
    return PlainSandbox(environment=os.environ)


class Dying:
    """A sandbox in which our own process is killed while the command runs."""

    name = "dying"
    is_containing = True

    async def run(self, command, on_output=None):
        os.kill(os.getpid(), signal.SIGKILL)

    async def close(self):
        return


async def dying():
    return Dying()


def run(folder, *argv, timeout_s=30.0, cpu_s=0, memory_bytes=0, **runner):
    """Runs one step; gives how it ended and every event of its journal."""

    async def running():
        journal = await SqliteSessions(folder / "steps").create("s1")
        asked = CommandAsked(
            argv=argv,
            cwd=str(folder),
            template="t",
            timeout_s=timeout_s,
            cpu_s=cpu_s,
            memory_bytes=memory_bytes,
        )
        try:
            return await run_command(
                Recorder(journal, Vault()), asked, Runner(**{"policy": FREE, "sandbox": plain, **runner})
            )
        finally:
            await journal.close()

    return asyncio.run(running())


def recorded(folder):
    async def reading():
        steps = SqliteSessions(folder / "steps")
        reader = await steps.read("s1")
        try:
            step = await load_command(steps, "s1")
            assert step is not None
            return [item.event for item in await reader.read()], step
        finally:
            await reader.close()

    return asyncio.run(reading())


def test_a_step_is_on_record_before_it_runs_and_after(tmp_path):
    ended = run(tmp_path, "sh", "-c", "echo out; echo err >&2; exit 3")
    assert (ended.outcome, ended.exit_code, ended.output_bytes) == ("error", 3, 8)
    events, step = recorded(tmp_path)
    assert [type(event).__name__ for event in events] == [
        "SessionStarted",
        "CommandAsked",
        "CommandStarted",
        "CommandEnded",
    ]
    assert (step.state, step.reason) == ("error", "allowed: everything is free within the budget")


def test_a_refused_step_never_starts(tmp_path):
    run(tmp_path, "touch", "made", policy=ModePolicy("plan"))
    events, step = recorded(tmp_path)
    assert not any(isinstance(event, CommandStarted) for event in events)
    assert (step.state, step.exit_code) == ("refused", None)
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize(("decision", "state"), [("allow", "ok"), ("reject", "refused")])
def test_a_person_decides_what_the_policy_does_not(tmp_path, decision, state):
    async def approver(question):
        assert json.loads(question.arguments) == {"argv": ["true"]}
        return ApprovalGiven(
            call=question.call, arguments_sha256=question.arguments_sha256, decision=decision, feedback="mine"
        )

    run(tmp_path, "true", policy=ModePolicy("ask"), approver=approver)
    events, step = recorded(tmp_path)
    assert step.state == state
    assert any(isinstance(event, ApprovalGiven) for event in events)


def test_a_template_allows_only_what_it_names(tmp_path):
    ended = run(tmp_path, "git", "push", template=Template(commands=("git status *", "pytest")))
    assert (ended.outcome, ended.reason) == ("refused", "the template t does not allow this command")


def test_the_limit_that_was_hit_is_the_reason(tmp_path):
    ended = run(tmp_path, "sleep", "30", timeout_s=0.3)
    assert ended.outcome == "error"
    assert "timed out after 0.3 s" in ended.reason
    _, step = recorded(tmp_path)
    assert step.state == "timeout"


def test_a_sandbox_that_fails_is_on_record_and_raised(tmp_path):
    async def broken():
        raise SandboxError("no rung works")

    with pytest.raises(SandboxError):
        run(tmp_path, "true", sandbox=broken)
    events, step = recorded(tmp_path)
    assert isinstance(events[-1], CommandEnded)
    assert (step.state, step.reason) == ("error", "no rung works")


def test_a_step_that_is_cancelled_is_on_record(tmp_path):
    async def running():
        journal = await SqliteSessions(tmp_path / "steps").create("s1")
        begun = asyncio.Event()
        runner = Runner(policy=FREE, sandbox=plain, on_output=lambda _: begun.set())
        asked = CommandAsked(argv=("sh", "-c", "echo begun; sleep 60"), cwd=str(tmp_path), timeout_s=60)
        task = asyncio.create_task(run_command(Recorder(journal, Vault()), asked, runner))
        await begun.wait()
        task.cancel()
        await asyncio.wait({task})
        await journal.close()

    asyncio.run(running())
    assert recorded(tmp_path)[1].state == "cancelled"


CRASHING = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from tests.app import test_commands
test_commands.run(Path(sys.argv[1]), "true", sandbox=test_commands.dying)
"""


def test_a_step_whose_process_died_is_listed_as_crashed(tmp_path):
    done = subprocess.run([sys.executable, "-c", CRASHING, str(tmp_path), str(ROOT)], check=False)
    assert done.returncode == -signal.SIGKILL
    (step,) = asyncio.run(newest_commands(SqliteSessions(tmp_path / "steps"), 10))
    assert (step.state, step.exit_code, step.argv) == ("crashed", None, ("true",))


def test_the_newest_steps_come_first_and_the_list_is_bounded(tmp_path):
    async def making():
        for name in ("a", "b", "c"):
            journal = await SqliteSessions(tmp_path / "steps").create(name)
            await run_command(
                Recorder(journal, Vault()),
                CommandAsked(argv=(name,), cwd="/"),
                Runner(policy=ModePolicy("plan"), sandbox=plain),
            )
            await journal.close()

    asyncio.run(making())
    for at, name in enumerate("abc"):
        for file in (tmp_path / "steps/sessions" / name).iterdir():
            os.utime(file, (at, at))
    assert [step.id for step in asyncio.run(newest_commands(SqliteSessions(tmp_path / "steps"), 2))] == [
        "c",
        "b",
    ]


KEY = "sk-proj-" + "Zx9Qw7Er5Ty3" * 4


def test_a_step_keeps_and_shows_no_secret(tmp_path):
    shown = []
    ended = run(tmp_path, "bash", "-c", f"echo key {KEY}; echo {KEY} >&2", on_output=shown.append)
    assert ended.outcome == "ok"
    file = SqliteSessions(tmp_path / "steps").shelf.file("s1")
    try:
        kept = [file.get(blob) for blob in (ended.stdout, ended.stderr) if blob]
    finally:
        file.close()
    assert kept[0].startswith(b"key __secret_")
    assert len(kept) == 2
    assert KEY.encode() not in b"".join([*kept, *shown])
    assert b"".join(shown).count(b"__secret_") == 2, "what is shown is shown whole"
    assert KEY not in repr(recorded(tmp_path))
