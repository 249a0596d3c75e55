"""Writes a golden journal with every kind of event of goals and waits; see make_golden.

python tests/journals/make_goals.py v1/NAME
"""

import asyncio
import sys

import msgspec
from make_golden import ORIGIN, golden

from mainspring.catalog.sqlite import SqliteSessions
from mainspring.events import (
    ArtifactChange,
    ArtifactsChanged,
    CheckEnded,
    Claim,
    ClaimChecked,
    ClaimsRead,
    ConditionMet,
    EngineChosen,
    EngineEnded,
    Evaluation,
    FrozenFile,
    GoalChecks,
    GoalEnded,
    GoalPaused,
    GoalRules,
    GoalSet,
    IterationEnded,
    IterationStarted,
    Measurement,
    MeasurementsTaken,
    MemoryKeptAside,
    OnAnswer,
    OnCallback,
    OnCommand,
    OnFile,
    OnPid,
    OnProcess,
    OnQuota,
    OnSession,
    OnSlurm,
    OnTime,
    SessionStarted,
    Target,
    TurnEnded,
    WaitEnded,
    WaitStarted,
)

AT_US = 1_700_000_000_000_000


async def write(store: SqliteSessions, session: str) -> None:
    journal = await store.create(session)
    listed = ArtifactChange(path="b" * 200, kind="new", sha256="cd" * 32, size=3, mtime_us=AT_US)
    blob = await journal.put(msgspec.json.encode([listed] * 50), "application/json")
    await journal.append(
        SessionStarted(session=session, workspace="/w", version="1"),
        EngineChosen(
            engine="codex", program="/usr/bin/codex", version="0.44.0", conversation="t1", origin=ORIGIN
        ),
        EngineEnded(
            exit_code=1,
            reason="stopped",
            stderr="it broke",
            unread_lines=2,
            unread="not JSON",
            left_running=(7,),
            duration_s=1.5,
        ),
        GoalSet(
            origin=ORIGIN,
            text="Make it fast",
            source="goal.md",
            profile="experiment",
            engine="codex",
            memory="projects/memory.md",
            sandbox="bwrap",
            allow_unpriced=True,
            checks=GoalChecks(
                commands=("pytest -q",),
                files=("out.csv",),
                targets=(Target(metric="time", relation="<=", value=1.5),),
                needs_claims=True,
            ),
            rules=GoalRules(
                max_iterations=10,
                max_cost_usd=2.5,
                max_tokens=1000,
                max_time_s=60.0,
                max_idle_iterations=3,
                max_failures=3,
                max_refusals=2,
                wait_s=1.0,
                max_wait_s=6000.0,
                stall_s=300.0,
                at_max_wait="stop",
                outage_wait_s=5.0,
                iteration_steps=50,
                iteration_cost_usd=0.5,
                iteration_time_s=30.0,
            ),
            evaluation=Evaluation(
                command="python bench.py",
                repeats=5,
                frozen=("bench.py",),
                better="lower",
                metric="time",
                hashes=(FrozenFile(path="bench.py", sha256="34" * 32),),
            ),
            by="daemon",
        ),
        IterationStarted(iteration=1, goal_sha256="ab" * 32),
        ArtifactsChanged(
            iteration=1,
            new=1,
            modified=2,
            deleted=3,
            renamed=4,
            changes=(
                ArtifactChange(
                    path="a.csv",
                    kind="renamed",
                    sha256="cd" * 32,
                    size=3,
                    mtime_us=AT_US,
                    renamed_from="b.csv",
                    made_by="python run.py",
                ),
            ),
            listing=blob,
            previews=(blob,),
        ),
        MeasurementsTaken(
            iteration=1,
            values=(Measurement(metric="time", value=1.25, unit="s", source="bench.py"),),
            is_ours=True,
            flags=("bench.py was changed",),
            exit_codes=(0, 1),
            output=blob,
            duration_s=1.5,
        ),
        ClaimsRead(
            iteration=1,
            claims=(
                Claim(
                    name="a",
                    statement="x = y",
                    depends_on=("b",),
                    check="python a.py",
                    status="assumed",
                    is_goal=True,
                    note="given",
                ),
            ),
            problems=("line 3 is not a claim",),
        ),
        ClaimChecked(
            iteration=1,
            claim="a",
            status="proved",
            exit_code=0,
            statement_sha256="ef" * 32,
            detail="passed",
            output=blob,
            duration_s=0.5,
        ),
        WaitStarted(
            wait="w1",
            conditions=(
                OnProcess(handle="p1"),
                OnPid(pid=7, identity="boot/pid:[8]/9", name="train"),
                OnTime(at_us=AT_US),
                OnFile(path="a", until="matches", pattern="^x", before="1"),
                OnSlurm(job="12"),
                OnCommand(command="true", every_s=5.0),
                OnCallback(token="t", url="http://127.0.0.1:9/t", file="url.txt"),
                OnAnswer(call="c1"),
                OnQuota(model="m", at_us=AT_US),
                OnSession(session="s"),
            ),
            needs="all",
            deadline_us=AT_US,
            stall_s=60.0,
            reason="the experiment",
            call="c2",
        ),
        ConditionMet(wait="w1", condition=0, detail="p1 ended", at_us=AT_US),
        WaitEnded(wait="w1", cause="met", summary="p1 ended", met=(0, 2), late_s=1.5),
        CheckEnded(
            iteration=1,
            check="pytest -q",
            kind="command",
            passed=True,
            exit_code=0,
            detail="passed",
            output=blob,
            sha256="12" * 32,
            duration_s=0.25,
        ),
        IterationEnded(
            iteration=1,
            outcome="refused",
            detail="a check failed",
            is_waiting=True,
            exit_code=7,
            changed=("files",),
            cost_usd=0.5,
            tokens=10,
        ),
        TurnEnded(turn=1, ending="budget", scope="goal", unit="tokens"),
        MemoryKeptAside(path="projects/memory.1.md", reason="not ours"),
        GoalPaused(reason="asked", by="signal", origin=ORIGIN),
        GoalEnded(ending="steps", reason="all calls are used", exit_code=5),
        GoalEnded(ending="done", reason="every check passed", exit_code=0, is_verified=True, origin=ORIGIN),
    )
    await journal.close()


if __name__ == "__main__":
    golden(sys.argv[1], lambda store, name: asyncio.run(write(store, name)))
