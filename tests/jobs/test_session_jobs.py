import asyncio
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from mainspring.app.operations.jobs import cancel_job, check_hosts, job_logs, list_jobs, show_job
from mainspring.catalog.sqlite import SqliteSessions
from mainspring.events import (
    ApprovalAsked,
    ArtifactSaved,
    CallEnded,
    FilesChanged,
    JobCancelled,
    JobCollected,
    JobEnded,
    JobPlanned,
    JobSubmitted,
    SpendReserved,
    SpendSettled,
    TurnEnded,
    WaitEnded,
)
from mainspring.testing import Stage, tool_call
from tests import ROOT
from tests.jobs.stage import COMMAND, config_of, effects, free, nobody
from tests.ssh_server import ssh_server

SUBMIT = {"host": "far", "command": COMMAND, "hours": 1}


def _state_of(folder: Path, session: str, job: str = "j1") -> str:
    file = folder / "jobs" / f"ms-{session}-{job}" / "exit"
    deadline = time.monotonic() + 60
    while not file.exists():
        assert time.monotonic() < deadline
        time.sleep(0.02)
    return file.read_text().split()[0]


def test_a_job_is_submitted_waited_for_and_collected_on_record(tmp_path: Path) -> None:
    stage = Stage(
        tmp_path,
        tool_call(
            "submit_job", **{**SUBMIT, "command": f"cat in/a.txt; {COMMAND}"}, files=["in"], outputs=["made"]
        ),
        tool_call("job", action="wait", job="j1"),
        tool_call("job", action="collect", job="j1"),
        tool_call("job", action="logs", job="j1"),
        "Done.",
    )
    (stage.workspace / "in").mkdir()
    (stage.workspace / "in/a.txt").write_text("sent\n")
    assert stage.run("go", **free(config_of(tmp_path))).is_done
    order = [item.kind for item in stage.journal() if item.kind.startswith(("Job", "Spend", "Wait"))]
    priced = [kind for kind in order if kind.startswith(("Job", "Wait"))]
    assert priced == ["JobPlanned", "JobSubmitted", "WaitStarted", "JobEnded", "WaitEnded", "JobCollected"]
    (planned,), (ended,) = stage.events(JobPlanned), stage.events(JobEnded)
    assert (planned.name, planned.usd) == (f"ms-{stage.session}-j1", 2.0)
    assert (ended.state, ended.exit_code) == ("done", 0)
    assert ended.usd is not None
    assert ended.usd < 0.1
    assert stage.events(JobCollected) == [JobCollected(job="j1", files=("made",))]
    assert (stage.workspace / "made").read_text() == "42\n"
    assert [change.path for each in stage.events(FilesChanged) for change in each.changes] == ["made"]
    assert [saved.name for saved in stage.events(ArtifactSaved)] == ["j1.log", "j1/made"]
    outputs = [each.output for each in stage.events(CallEnded)]
    assert "Sent 1 file (5 bytes)" in outputs[0]
    assert "2.00 USD" in outputs[0]
    assert outputs[3] == "sent\nsaid\n"


def test_outputs_that_may_not_be_written_here_are_named_and_the_others_come(tmp_path: Path) -> None:
    make = "mkdir -p out/.git/hooks; for each in a .env .git/hooks/x; do echo 1 > out/$each; done; ln -s a out/link"
    stage = Stage(
        tmp_path,
        tool_call("submit_job", **{**SUBMIT, "command": f"{make}; ln out/a out/again"}, outputs=["out"]),
        tool_call("job", action="wait", job="j1"),
        tool_call("job", action="collect", job="j1"),
        "Done.",
    )
    assert stage.run("go", **free(config_of(tmp_path))).is_done
    (collected,) = stage.events(JobCollected)
    assert sorted(collected.files) == ["out/a", "out/again"]
    left = sorted(each.partition(" ")[0] for each in collected.left_out)
    assert left == ["out/.env", "out/.git/hooks/x", "out/link"]
    said = stage.events(CallEnded)[-1].output
    assert "Not taken back: " in said
    assert all(each in said for each in collected.left_out)


def test_what_is_set_aside_for_a_job_stays_so_until_it_has_ended(tmp_path: Path) -> None:
    stage = Stage(
        tmp_path,
        tool_call("submit_job", **SUBMIT),
        tool_call("submit_job", **{**SUBMIT, "hours": 5}),
    )
    reply = stage.run("go", **free(config_of(tmp_path), usd=10.0))
    (asked,) = stage.events(ApprovalAsked)
    assert (reply.ending, asked.blocked_by) == ("blocked", "over_cap")
    assert asked.remaining_usd == pytest.approx(8.0)
    # The question about more money than there is came while the first job was open, and settled nothing.
    assert [each.usd for each in stage.events(SpendReserved) if each.source == "call"] == [2.0]
    assert not [each for each in stage.events(SpendSettled) if each.spend.startswith("call:")]


def test_money_that_a_job_did_not_need_can_be_spent_again(tmp_path: Path) -> None:
    stage = Stage(
        tmp_path,
        tool_call("submit_job", **{**SUBMIT, "hours": 4.9}),
        tool_call("job", action="wait", job="j1"),
        tool_call("submit_job", **{**SUBMIT, "hours": 4.9}),
        tool_call("job", action="wait", job="j2"),
        "Done.",
    )
    assert stage.run("go", **free(config_of(tmp_path), usd=10.0)).is_done
    assert [each.state for each in stage.events(JobEnded)] == ["done", "done"]


@pytest.mark.parametrize(
    ("changes", "arguments", "blocked_by"),
    [
        ({"usd_per_hour": None}, {}, "unknown_price"),
        ({"usd_per_hour": 0.0}, {"begin": "2100-01-01T00:00:00Z"}, "recurring"),
        ({"usd_per_hour": 100.0}, {}, "over_cap"),
    ],
)
def test_an_unknown_price_a_later_beginning_and_too_much_are_asked_about(
    changes: dict[str, float | None], arguments: dict[str, str], blocked_by: str, tmp_path: Path
) -> None:
    stage = Stage(tmp_path, tool_call("submit_job", **SUBMIT, **arguments), "Done.")
    reply = stage.run("go", **free(config_of(tmp_path, **changes)))
    assert reply.ending == "blocked"
    assert [asked.blocked_by for asked in stage.events(ApprovalAsked)] == [blocked_by]
    assert not stage.events(JobPlanned)


def test_nobody_is_asked_about_a_time_that_no_job_can_have(tmp_path: Path) -> None:
    stage = Stage(tmp_path, tool_call("submit_job", **{**SUBMIT, "hours": 1e308}), "Done.")
    assert stage.run("go", **free(config_of(tmp_path))).is_done
    assert stage.events(ApprovalAsked) == []
    assert "has at most 24 hours" in stage.events(CallEnded)[0].output


def test_plan_mode_submits_nothing_and_auto_asks(tmp_path: Path) -> None:
    for mode, ending in (("plan", "done"), ("auto", "blocked")):
        stage = Stage(tmp_path / mode, tool_call("submit_job", **SUBMIT), "Done.")
        stage.folder.mkdir()
        reply = stage.run("go", config=config_of(stage.folder, usd_per_hour=0.0), mode=mode, approver=nobody)
        assert (reply.ending, stage.events(JobPlanned)) == (ending, [])


def test_jobs_end_with_their_turn_unless_they_stay(tmp_path: Path) -> None:
    slow = {**SUBMIT, "command": "echo begun; sleep 300"}
    stage = Stage(
        tmp_path,
        tool_call("submit_job", **slow),
        tool_call("submit_job", **slow, stay=True),
        "Done.",
        tool_call("job", action="cancel", job="j2"),
        "Cancelled.",
    )
    config = config_of(tmp_path)
    assert stage.run("go", **free(config)).is_done
    assert [(each.job, each.why) for each in stage.events(JobCancelled)] == [("j1", "over")]
    assert [(each.job, each.state) for each in stage.events(JobEnded)] == [("j1", "cancelled")]
    assert stage.seq(TurnEnded) < stage.seq(JobCancelled) < stage.seq(JobEnded)
    assert stage.run("cancel it", **free(config)).is_done
    assert [(each.job, each.state) for each in stage.events(JobEnded)][1:] == [("j2", "cancelled")]


def test_a_host_that_refuses_a_job_costs_nothing(tmp_path: Path) -> None:
    config = config_of(tmp_path)
    (tmp_path / "slurm/down").touch()
    stage = Stage(tmp_path, tool_call("submit_job", **SUBMIT), "Failed.")
    assert stage.run("go", **free(config)).is_done
    (ended,) = stage.events(JobEnded)
    assert (ended.state, ended.usd) == ("failed", 0.0)
    assert "Unable to contact slurm controller" in ended.detail
    assert stage.events(CallEnded)[0].outcome == "error"


def test_a_machine_that_cannot_be_reached_leaves_a_job_open_until_somebody_knows(tmp_path: Path) -> None:
    server = ssh_server()
    ssh = {"kind": "ssh", "host": "machine", "ssh_options": server.options}
    stage = Stage(
        tmp_path,
        tool_call("submit_job", **SUBMIT, stay=True),
        "Unknown.",
        tool_call("job", action="status", job="j1"),
        "Known.",
    )
    server.stop()
    try:
        assert stage.run("go", **free(config_of(tmp_path, **ssh))).is_done
    finally:
        server.start()
    assert "Whether it runs is unknown" in stage.events(CallEnded)[0].output
    assert not stage.events(JobEnded)
    assert not [each for each in stage.events(SpendSettled) if each.spend.startswith("call:")]
    assert stage.run("look", **free(config_of(tmp_path, **ssh))).is_done
    (ended,) = stage.events(JobEnded)
    assert (ended.state, ended.usd, ended.detail) == ("lost", 0.0, "it was never submitted")
    assert [each.usd for each in stage.events(SpendSettled) if each.spend.startswith("call:")] == [0.0]


def test_people_list_look_into_and_cancel_jobs_of_any_session(tmp_path: Path) -> None:
    slow = {**SUBMIT, "command": "echo begun; sleep 300", "stay": True}
    config = config_of(tmp_path)
    stage = Stage(tmp_path, tool_call("submit_job", **slow), "Done.", sessions=SqliteSessions(config.home))
    assert stage.run("go", **free(config)).is_done

    async def look() -> None:
        (row,) = await list_jobs(config)
        assert (row.session, row.job, row.host, row.state, row.usd) == (
            stage.session,
            "j1",
            "far",
            "running",
            2.0,
        )
        assert (await show_job(config, stage.session[:6], "j1")).state == "running"
        while "begun" not in await job_logs(config, stage.session, "j1"):
            await asyncio.sleep(0.02)
        assert (await cancel_job(config, stage.session, "j1")).state == "cancelled"
        (check,) = await check_hosts(config)
        assert (check.name, check.is_ok) == ("far", True)

    asyncio.run(look())
    assert [each.why for each in stage.events(JobCancelled)] == ["person"]


@pytest.mark.parametrize("where", ["planned", "taken", "submitted"])
def test_a_session_killed_around_a_submission_runs_the_job_once(where: str, tmp_path: Path) -> None:
    assert _run(tmp_path, where) == -signal.SIGKILL
    assert _run(tmp_path) == 0
    stage = Stage(tmp_path, sessions=SqliteSessions(tmp_path / "store"))
    (stage.session,) = asyncio.run(_names(stage))
    assert effects(tmp_path, stage.session) == ["once"]
    assert len(stage.events(JobPlanned)) == 1
    assert [each.was_there for each in stage.events(JobSubmitted)] == [where == "taken"]
    assert [each.state for each in stage.events(JobEnded)] == ["done"]
    assert len((tmp_path / "slurm/submissions").read_text().splitlines()) == 1
    assert (stage.workspace / "made").read_text() == "42\n"
    reserved = [each.spend for each in stage.events(SpendReserved) if each.source == "call"]
    settled = [each.spend for each in stage.events(SpendSettled) if each.spend.startswith("call:")]
    assert (len(reserved), settled) == (1, reserved)


async def _names(stage: Stage) -> list[str]:
    return sorted(await stage.sessions.names())


def _run(folder: Path, where: str = "") -> int:
    done = subprocess.run(
        [sys.executable, "-m", "tests.jobs.killed", str(folder), where],
        cwd=ROOT,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        check=False,
    )
    assert done.returncode in (0, -signal.SIGKILL), done.stderr.decode()
    return done.returncode


def test_a_session_works_with_a_real_machine_over_ssh(tmp_path: Path) -> None:
    ssh = {"kind": "ssh", "host": "machine", "ssh_options": ssh_server().options}
    stage = Stage(
        tmp_path,
        tool_call("submit_job", **SUBMIT, outputs=["made", "nothing"]),
        tool_call("job", action="wait", job="j1"),
        tool_call("job", action="collect", job="j1"),
        "Done.",
    )
    assert stage.run("go", **free(config_of(tmp_path, **ssh))).is_done
    assert [each.cause for each in stage.events(WaitEnded)] == ["met"]
    assert "It did not make: nothing." in stage.events(CallEnded)[-1].output
    assert (stage.workspace / "made").read_text() == "42\n"
