"""`demo`: a real run with a scripted model, killed with SIGKILL in the middle and resumed from its journal.

Everything but the model is real: the repository, the failing test, the tools, the journal, the worker process
and its death. What is printed at the end is counted from the journal and from what the commands left behind.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import click
import msgspec

from mainspring.app.operations.sessions import read_events
from mainspring.app.operations.transfer import verify_session
from mainspring.cli.blocking import iterate
from mainspring.cli.config import load_config
from mainspring.cli.system import need_custody
from mainspring.documents.lines import as_text
from mainspring.errors import MainspringError, UsageError
from mainspring.events import AssistantSaid, CallEnded, CallStarted, Event, SessionStarted, decode
from mainspring.secrets.screen import plain

_CODE = '''\
def total(prices, discount_percent=0):
    """The sum of the prices, less a discount."""
    return sum(prices) * (1 - discount_percent / 10)
'''
_TEST = """\
import time
import unittest

from shop import total


class TotalTest(unittest.TestCase):
    def test_no_discount(self):
        self.assertEqual(total([10, 20]), 30)

    def test_discount_in_percent(self):
        time.sleep(1)  # long enough to be killed in the middle
        self.assertEqual(total([10, 20], discount_percent=10), 27)


if __name__ == "__main__":
    unittest.main()
"""
_CHECK = "echo started >> runs.log && python3 -m unittest -q test_shop.py && echo passed >> runs.log"
_GOAL = "The test of shop.py fails. Find the bug and fix it."
_SCRIPT = {
    "replies": [
        {"text": "I look at the code and run its test.", "calls": [
            {"name": "read", "arguments": {"path": "shop.py"}},
            {"name": "shell", "arguments": {"command": _CHECK}},
        ]},
        {"text": "The discount is divided by 10 where a percentage needs 100.", "calls": [
            {"name": "edit", "arguments": {"path": "shop.py", "edits": [
                {"old": "discount_percent / 10)", "new": "discount_percent / 100)"},
            ]}},
        ]},
        {"text": "Now the test again.", "calls": [{"name": "shell", "arguments": {"command": _CHECK}}]},
        {"text": "That run was interrupted, its outcome is unknown: I look before I repeat it.", "calls": [
            {"name": "shell", "arguments": {"command": "cat runs.log && git diff --stat"}},
        ]},
        {"text": "It had started and not finished. I run the test once more.", "calls": [
            {"name": "shell", "arguments": {"command": _CHECK}},
        ]},
        {"text": "Fixed: shop.py divided the percentage by 10. The test passes (exit code 0)."},
    ]
}  # fmt: skip
_KILL_AT_SHELL_CALL = 2


@click.command("demo")
@click.option("--keep", type=click.Path(path_type=Path), help="Folder to work in; a temporary one if none.")
def demo_command(keep: Path | None) -> None:
    """See a run that is killed in the middle and loses nothing. No key, no network."""
    need_custody("The demo")
    root = keep or Path(tempfile.mkdtemp(prefix="mainspring-demo-"))
    home, repository, script = root / "home", root / "repository", root / "script.json"
    try:
        _make_repository(repository)
        script.write_bytes(msgspec.json.encode(_SCRIPT))
    except OSError as error:
        raise UsageError(
            f"The demo cannot be set up in {root}: {error.strerror}.",
            remedy="Give --keep a folder that is new, or leave it out.",
        ) from error
    model = f"scripted@{script}"
    click.echo(f"The model of this demo is SCRIPTED: its replies are fixed, in {script}.")
    click.echo("The repository, the test, the tools, the journal and the kill are real.\n")

    shell_calls: list[str] = []

    def is_time_to_kill(event: Event) -> bool:
        if isinstance(event, CallStarted) and event.tool == "shell":
            shell_calls.append(event.call)
        if len(shell_calls) < _KILL_AT_SHELL_CALL:
            return False
        _wait_until_started(repository / "runs.log", times=_KILL_AT_SHELL_CALL)
        return True

    limits = ("--mode", "yolo", "--max-cost-usd", "1")
    session, code = _work(
        home, is_time_to_kill, "run", "-C", str(repository), "--model", model, *limits, _GOAL
    )
    click.echo(f"\n*** worker killed with SIGKILL in the middle of a command (exit code {code}) ***")
    click.echo(f"*** mainspring resume {session} ***\n")
    _, code = _work(home, lambda _: False, "resume", session, *limits)
    if code != 0:
        raise MainspringError(f"The resumed run ended with exit code {code}.", remedy=f"See {root}.")
    _sum_up(home, repository, session)
    click.echo(f"\nLook around:  MAINSPRING_HOME={home} mainspring show {session}")


def _make_repository(repository: Path) -> None:
    repository.mkdir(parents=True)
    (repository / "shop.py").write_text(_CODE)
    (repository / "test_shop.py").write_text(_TEST)
    (repository / ".gitignore").write_text("__pycache__/\nruns.log\n")
    who = ("-c", "user.name=demo", "-c", "user.email=demo@localhost", "-c", "commit.gpgsign=false")
    for command in (("init", "-q"), ("add", "."), (*who, "commit", "-q", "-m", "A shop with a bug")):
        subprocess.run(["git", "-C", str(repository), *command], check=True)


def _wait_until_started(log: Path, *, times: int) -> None:
    """Returns when the command itself has said that it is running, so that the kill hits it in the middle."""
    pause = threading.Event()
    for _ in range(1000):
        if log.exists() and log.read_text().count("started") >= times:
            return
        pause.wait(0.01)
    raise MainspringError("The command of the demo did not start within 10 s.")


def _work(home: Path, is_time_to_kill: Callable[[Event], bool], *arguments: str) -> tuple[str, int]:
    """Runs a worker process, shows its events, and kills it when it is time; gives session and exit code."""
    session = ""
    worker = subprocess.Popen(
        [sys.executable, "-m", "mainspring", arguments[0], "--json", *arguments[1:]],
        env={**load_config().environment, "MAINSPRING_HOME": str(home)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
    )
    assert worker.stdout is not None  # noqa: S101 - PIPE was asked for
    for line in worker.stdout:
        event = _event(line)
        if isinstance(event, SessionStarted):
            session = event.session
        if text := as_text(event):
            click.echo("  " + plain(text).replace("\n", "\n  "))
        if is_time_to_kill(event):
            os.kill(worker.pid, signal.SIGKILL)
            break
    worker.stdout.close()
    return session, worker.wait()


class _Line(msgspec.Struct, frozen=True):
    kind: str
    body: msgspec.Raw


def _event(line: bytes) -> Event:
    read = msgspec.json.decode(line, type=_Line)
    return decode(read.kind, bytes(read.body))


def _sum_up(home: Path, repository: Path, session: str) -> None:
    """Counts what the journal says and what the commands left behind, and says whether they agree."""
    config = msgspec.structs.replace(load_config(), home=home)
    events = [recorded.event for recorded in iterate(read_events(config, session))]
    verdict = asyncio.run(verify_session(config, session))
    asked = [call.call for event in events if isinstance(event, AssistantSaid) for call in event.calls]
    ended = Counter(event.call for event in events if isinstance(event, CallEnded))
    started = Counter(event.call for event in events if isinstance(event, CallStarted))
    unknown = sum(isinstance(event, CallEnded) and event.outcome == "unknown" for event in events)
    log = (repository / "runs.log").read_text().split()
    checks = [
        (f"{len(asked)} calls were asked for, and each has exactly one result",
         len(asked) == len(ended) == len(started) and set(ended.values()) == {1}),
        ("no call was started twice", set(started.values()) == {1}),
        ("the call that was killed is recorded as unknown, not as done", unknown == 1),
        ("the test command ran 3 times by its own log: 1 failed, 1 killed, 1 passed",
         log.count("started") == 3 and log.count("passed") == 1),
        (f"the hash chain over {verdict.events} events is sound", not verdict.problem),
    ]  # fmt: skip
    click.echo()
    for sentence, is_true in checks:
        click.echo(f"{'✓' if is_true else '✗'} {sentence}")
    if not all(is_true for _, is_true in checks):
        raise MainspringError("The demo did not show what it should.", remedy=f"See {home.parent}.")
