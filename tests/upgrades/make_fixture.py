"""Writes an installation with everything that this version keeps, for later versions to open. Run it with the
code of the version that the fixture is of, on a host whose name says nothing:

unshare --uts sh -c 'hostname fixture; .venv/bin/python -m tests.upgrades.make_fixture v0.1'
"""

from __future__ import annotations

import json
import os
import sys
import tarfile
import time
from pathlib import Path
from typing import Any

from mainspring.secrets.vault import PLACEHOLDER
from tests.upgrades.installation import MODEL, ROOT, Installation, locked

KEY = "sk-proj-" + "Zx9Qw7Er5Ty3" * 3
CONFIG = f"""\
model = "{MODEL}"
fallback = ["openai/fixture-2"]
compact_at = 0.7
approval_timeout_s = 86400.0

[tiers]
fast = "{MODEL}"
coder = {{ openai = "openai/fixture-2" }}

[prices."{MODEL}"]
input = 2.0
output = 8.0

[prices."openai/fixture-2"]
input = 4.0
output = 16.0

[caps.turn]
steps = 40
[caps.session]
usd = 5.0
[caps.day]
usd = 50.0

[steps.test]
commands = ["echo *"]
timeout_s = 60.0

[retry]
max_requests = 3

[daemon]
max_running = 3
"""
RULES = """\
[[rule]]
name = "no-pushes"
answer = "deny"
command = "git push"
reason = "a person pushes"
match = ["git push origin main"]
not_match = ["git status"]
"""
CLAIMS = """\
[[claim]]
name = "main"
statement = "2 + 2 = 4"
depends_on = ["lemma"]
check = "sh main.sh"
goal = true

[[claim]]
name = "lemma"
statement = "1 + 1 = 2"
check = "sh lemma.sh"
"""
FREE = ("--mode", "yolo")
REFUSAL = {
    "kind": "status",
    "status": 400,
    "body": {
        "error": {
            "message": "Unsupported parameter: 'reasoning_effort'",
            "type": "invalid_request_error",
            "code": "unsupported_parameter",
            "param": "reasoning_effort",
        }
    },
}


def call(name: str, **arguments: Any) -> dict[str, Any]:
    return {"calls": [{"name": name, "arguments": arguments}]}


def shell(command: str, **more: Any) -> dict[str, Any]:
    return call("shell", command=command, **more)


def write_settings(here: Installation) -> None:
    here.settings.mkdir(parents=True)
    (here.settings / "config.toml").write_text(CONFIG)
    (here.settings / "approvals.toml").write_text(RULES)


def write_undone(here: Installation) -> None:
    """Two turns that wrote files; the second is undone."""
    (here.work / "undone" / "list.txt").write_text("milk\n")
    here.serve(
        call("read", path="list.txt"),
        call("write", path="list.txt", content="milk\nbread\n"),
        {"text": "Bread is on the list."},
        shell("echo eggs >> list.txt; mkdir old; mv list.txt old/list.txt"),
        {"text": "Eggs too."},
    )
    here.run("run", *FREE, "Add bread", folder="undone")
    here.run("resume", here.session("undone"), "Add eggs", *FREE, folder="undone")
    here.run("undo", here.session("undone"), folder="undone")


def write_secret(here: Installation) -> None:
    """A session that read a key."""
    (here.work / "secret" / "settings.toml").write_text(f'api_key = "{KEY}"\n')
    here.serve(call("read", path="settings.toml"), {"text": "I have seen it."})
    here.run("run", *FREE, "Read the settings", folder="secret")
    assert PLACEHOLDER.search(json.dumps(here.sent[-1]))


def write_grants(here: Installation) -> None:
    """A grant of each scope."""
    for scope in ("session", "project", "forever"):
        here.serve(shell(f"touch {scope}"), {"text": f"Made {scope}."})
        here.run("run", "--mode", "ask", f"Make {scope}", folder="grants", code=3)
        here.run("approve", here.session("grants"), "--scope", scope, folder="grants")


def write_blocked(here: Installation) -> None:
    """A session with an open question."""
    here.serve(shell("touch allowed"), {"text": "It is there."})
    here.run("run", "--mode", "ask", "Make a file", folder="blocked", code=3)


def write_goal(here: Installation) -> None:
    """A goal that used up its iterations, with artifacts, metrics, an evaluation and a memory file."""
    folder = here.work / "goal"
    (folder / "bench.sh").write_text('echo "METRIC time=$(cat value) s"\n')
    (folder / "value").write_text("9\n")
    replies = [
        {
            "contains": f"Turn {turn} of",
            "replies": [
                shell(f"echo {9 - turn} > value; echo a,{turn} > out-{turn}.csv"),
                {"text": f"Idea {turn} helped."},
            ],
        }
        for turn in (1, 2)
    ]
    here.serve(cases=replies)
    measured = ("--evaluate", "sh bench.sh", "--frozen", "bench.sh", "--minimize", "time")
    wanted = ("--check", "test -e finished", "--target", "time<=5", "--max-cost-usd", "2")
    here.run(
        "goal", "start", "Make it fast", *FREE, *measured, *wanted, "--max-iterations", "2",
        folder="goal", code=5,
    )  # fmt: skip


def write_derivation(here: Installation) -> None:
    """A derivation whose claims are proved."""
    folder = here.work / "derivation"
    (folder / "main.sh").write_text("test $((2 + 2)) -eq 4\n")
    (folder / "lemma.sh").write_text("test $((1 + 1)) -eq 2\n")
    here.serve(
        call("write", path="projects/claims.toml", content=CLAIMS),
        {"text": "Both are written down.\n<promise>DONE</promise>"},
    )
    here.run("drvloop", "Show that 2 + 2 = 4", *FREE, "--max-cost-usd", "2", folder="derivation")


def write_crashed(here: Installation) -> None:
    """A session whose process was killed in its turn, with a background process that ended after it."""
    here.serve(
        shell("echo served; until test -e end; do sleep 0.05; done", background=True),
        shell("echo beside"),
        {"text": "never said", "faults": [{"kind": "slow", "seconds": 600}]},
    )
    run = here.start("run", "--json", *FREE, "Serve", folder="crashed")
    assert run.stdout is not None
    ended = 0
    for line in run.stdout:
        ended += json.loads(line)["kind"] == "CallEnded"
        if ended == 2 and json.loads(line)["kind"] == "SpendReserved":
            break
    run.kill()
    run.wait()
    process = here.home / "sessions" / here.session("crashed") / "processes" / "p1"
    (here.work / "crashed" / "end").touch()
    while not (process / "exit.json").exists():
        time.sleep(0.05)
    assert (process / "held.json").exists()


def write_healed(here: Installation) -> None:
    """A model that was found not to take an effort."""
    here.serve({"text": "Without effort."}, faults=[REFUSAL])
    here.run("run", *FREE, "--effort", "high", "Think", folder="healed")
    assert (here.home / "healed.json").exists()


def write_the_rest(here: Installation) -> None:
    """A step, project memory, a schedule, and what the daemon wrote down."""
    here.run("step", "--template", "test", "--", "echo", "one step", folder="undone")
    here.run("memory", "add", "The tests need a database", folder="undone")
    here.run("memory", "add", "Releases are made on Mondays", folder="undone")
    limits = ("--max-cost-usd", "1", "--catch-up", "no", "--yes")
    here.run("goal", "schedule", "0 2 1 1 *", "Tidy up", *FREE, *limits, folder="goal")
    here.run("daemon", "run", "--once")


def pack(to: Path) -> None:
    with tarfile.open(to, "w:xz") as archive:
        for path in sorted(ROOT.iterdir()):
            archive.add(path, path.name, filter=_without_user)


def _without_user(member: tarfile.TarInfo) -> tarfile.TarInfo:
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    return member


def main(name: str) -> None:
    to = Path(__file__).parent / f"{name}.tar.xz"
    if to.exists():
        sys.exit(f"{to.name} exists: a fixture is never written again")
    if os.uname().nodename != "fixture":
        sys.exit(__doc__)
    with locked():
        here = Installation()
        for folder in ["undone", "secret", "grants", "blocked", "goal", "derivation", "crashed", "healed"]:
            (here.work / folder).mkdir(parents=True)
        (ROOT / "user").mkdir()
        write_settings(here)
        for write in (
            write_undone,
            write_secret,
            write_grants,
            write_blocked,
            write_goal,
            write_derivation,
            write_crashed,
            write_healed,
            write_the_rest,
        ):
            write(here)
        here.run("sessions")
        here.close()
        pack(to)


if __name__ == "__main__":
    main(sys.argv[1])
