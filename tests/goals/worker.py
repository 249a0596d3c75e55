"""A worker process that pursues a whole goal, and is killed where it is told.

    python -m tests.goals.worker

reads lines `FOLDER KILL` and prints how a process that was forked for each of them ended.

The goal takes three iterations: files and a metric, a wait, a DONE that a check refuses, one that it accepts.
KILL is `event:N` (right after event N is durable), `commit:N` (event N is written, its transaction is not
committed), `cancel:N` (not killed: cancelled, as by a signal, right after event N) or `strike:STAGE` (while the engine, the evaluation or the check of an iteration runs, by itself).
Run again without KILL it goes on from the journal. With a file `model` in FOLDER the built-in engine asks
that model; else a fake of an outside engine takes the turns.
"""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path
from typing import Any

from mainspring.app.goals import GoalOptions, start_goal
from mainspring.events import Evaluation, GoalChecks, GoalEnded, GoalPaused
from mainspring.journal.sqlite import SqliteJournal
from mainspring.settings import load_config
from tests.worker import die, die_before_commit

GOAL = "make it small"
STAGES = ("engine-1", "engine-2", "engine-3", "evaluate-1", "evaluate-3", "check-2", "check-3")

# Speaks as `claude --print --output-format stream-json` does, because that tells what a turn cost.
ENGINE = r"""#!/bin/bash
[[ $* == *--version* ]] && { echo 'fake 1'; exit; }
prompt=$(cat)
turn=$(grep -o '^Turn [0-9]*' <<<"$prompt" | head -1 | tr -dc 0-9)
echo $turn > turn; echo $turn >> ../turns
message() { echo '{"type":"assistant","message":{"id":"'$1'","role":"assistant","content":['"$2"']}}'; }
say() { message said '{"type":"text","text":"'"$1"'"}'
  echo '{"type":"result","subtype":"success","is_error":false,"result":"'"$1"'","total_cost_usd":0.25,
  "usage":{"input_tokens":600,"output_tokens":100}}' | tr -d '\n'; echo; }
echo '{"type":"system","subtype":"init","session_id":"conversation-'$turn'"}'
message called '{"type":"tool_use","id":"toolu_'$turn'","name":"Bash","input":{"command":"./measure"}}'
sh ../strike engine
echo $turn,$((10 - turn)) > data-$turn.csv; echo $((10 - turn)) > value
[ $turn = 3 ] && echo small > result
echo '{"type":"user","message":{"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_'$turn'",
"content":[{"type":"text","text":"METRIC told='$((10 - turn))' s"}],"is_error":false}]}}' | tr -d '\n'; echo
case $turn in
1) say 'Begun.\n<wait_seconds>0.05</wait_seconds>';;
2) say 'I think so.\n<promise>DONE</promise>';;
*) say 'Now it is.\n<promise>DONE</promise>';;
esac
"""
STRIKE = """victim=$(cat ../victim 2>/dev/null)
[ "${victim% *}" = "$1-$(cat turn)" ] || exit 0
rm ../victim; kill -9 "${victim#* }"; exec sleep 300
"""
CHECK = "sh ../strike check; test -s result || { echo no result yet; exit 3; }"
EVALUATE = "sh ../strike evaluate; echo METRIC size=$(cat value) kB"


def prepare(folder: Path) -> Path:
    """The workspace, with what the goal needs beside it."""
    workspace = folder / "workspace"
    workspace.mkdir(parents=True)
    (folder / "engine.sh").write_text(ENGINE)
    (folder / "strike").write_text(STRIKE)
    (folder / "home").mkdir()
    settings = f'[engines.claude]\ncommand = ["bash", "{folder}/engine.sh"]\n'
    (folder / "home" / "config.toml").write_text(settings)
    return workspace


def options(folder: Path) -> GoalOptions:
    model = folder / "model"
    return GoalOptions(
        folder=folder / "workspace",
        profile="exploop",
        engine="builtin" if model.exists() else "claude",
        model=model.read_text() if model.exists() else "",
        allow_unpriced=True,
        mode="yolo",
        sandbox="none",
        checks=GoalChecks(commands=(CHECK,)),
        rules={"wait_s": 0.0, "max_cost_usd": 50.0},
        evaluation=Evaluation(command=EVALUATE, repeats=3, metric="size", better="lower"),
    )


def arm(folder: Path, kill: str) -> None:
    """Makes sure that this process dies where it is told."""
    kind, _, where = kill.partition(":")
    subscribe = SqliteJournal.subscribe

    def armed(self: SqliteJournal, on_appended: Any, on_durable: Any = None) -> None:
        def told(recorded: Any) -> None:
            is_there = kind in ("event", "cancel") and recorded[-1].seq >= int(where)
            if kind == "event" and is_there:
                die()
            on_appended(recorded)
            if is_there and working:
                working.pop().cancel()

        if kind == "commit":
            die_before_commit(self, int(where))
        subscribe(self, told, on_durable)

    SqliteJournal.subscribe = armed
    if kind == "strike":
        (folder / "victim").write_text(f"{where} {os.getpid()}")


working: list[asyncio.Task[GoalEnded | GoalPaused]] = []


async def pursue(folder: Path) -> None:
    environment = {"PATH": os.environ["PATH"], "HOME": str(folder), "MAINSPRING_HOME": str(folder / "home")}
    async with start_goal(GOAL, options(folder), config=load_config(environment)) as pursuit:
        working.append(asyncio.create_task(pursuit.run()))
        await working[-1]


def work(folder: Path, kill: str) -> int:
    """Pursues the goal in a process of its own; gives how that ended."""
    if pid := os.fork():
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    with (folder / "error").open("w") as errors:
        os.dup2(errors.fileno(), 2)
        if kill:
            arm(folder, kill)
        asyncio.run(pursue(folder))
        os._exit(0)


if __name__ == "__main__":
    for line in sys.stdin:
        name, told, _ = line.split("\t")
        print(work(Path(name), told), flush=True)
