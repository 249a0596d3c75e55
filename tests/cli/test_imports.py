"""Commands that only look, or only explain themselves, load nothing that runs an agent."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.cli.conftest import Machine

RUNS_AGENTS = (
    "mainspring.app.build",
    "mainspring.models.connect",
    "mainspring.turns",
    "mainspring.tools",
    "h11",
)
NOT_FOR_A_PLAIN_RUN = (
    "mainspring.agents.children",
    "mainspring.app.commands",
    "mainspring.app.operations.attempts",
    "mainspring.app.operations.branches",
    "mainspring.app.operations.risk",
    "mainspring.app.operations.sessions",
    "mainspring.daemon.scheduled",
    "mainspring.evidence.checks",
    "mainspring.goals.schedules",
    "mainspring.models.local.weights",
    "mainspring.models.wires.anthropic",
    "mainspring.models.wires.gemini",
    "mainspring.models.wires.responses",
    "mainspring.sandbox.held",
    "mainspring.tools.documents",
    "mainspring.waits.hold",
    "mainspring.workspace.worktrees",
    "html",
    "statistics",
    "zipfile",
    "zoneinfo",
)
NOT_BEFORE_THE_FIRST_REQUEST = (
    "mainspring.app.guarded_policy",
    "mainspring.app.impact_tool",
    "mainspring.app.moved_workspaces",
    "mainspring.app.operations.attachments",
    "mainspring.app.operations.outputs",
    "mainspring.app.permitted_sessions",
    "mainspring.app.team_money",
    "mainspring.approvals.permit",
    "mainspring.approvals.trust",
    "mainspring.catalog.compose",
    "mainspring.catalog.fork",
    "mainspring.catalog.index",
    "mainspring.catalog.transfer",
    "mainspring.cli.resume",
    "mainspring.documents.lines",
    "mainspring.mcp.servers",
    "mainspring.models.actions",
    "mainspring.people.signing",
    "mainspring.sandbox.background",
    "mainspring.sandbox.companion",
    "mainspring.secrets.sealed_files",
    "mainspring.session.reply",
    "mainspring.session.rewind",
    "mainspring.tools.diff",
    "mainspring.tools.notebook",
    "mainspring.tools.reread",
    "mainspring.turns.calls",
    "mainspring.turns.compactor",
    "mainspring.turns.suite",
    "mainspring.workspace.restore",
    "mainspring.workspace.since",
    "mainspring.workspace.test_results",
    "json",
    "platformdirs",
    "shutil",
    "tempfile",
)
MOST_MODULES = 320
"""So many of ours are loaded by the first request; each takes a tenth of a millisecond, and more if it is long."""
LOADED = """
import sys
from mainspring.cli.commands import mainspring
try:
    mainspring.main(sys.argv[2:], standalone_mode=False)
finally:
    print(*[name for name in sys.argv[1].split(",") if name in sys.modules], file=sys.stderr)
"""
AT_THE_REQUEST = """
import sys
loaded = []
def noted(event, _):
    if event == "socket.connect":
        loaded[:] = sys.modules
sys.addaudithook(noted)
from mainspring.cli.commands import mainspring
try:
    mainspring.main(sys.argv[2:], standalone_mode=False)
finally:
    ours = sum(name.startswith("mainspring.") for name in loaded)
    print(ours, *[name for name in sys.argv[1].split(",") if name in loaded], file=sys.stderr)
"""
COMPILED = """
import re, sys
by_import, compile = set(), re.compile
def noted(*asked):
    caller = sys._getframe(1)
    if caller.f_code.co_name == "<module>" and caller.f_globals["__name__"].startswith("mainspring."):
        by_import.add(caller.f_globals["__name__"])
    return compile(*asked)
re.compile = noted
from mainspring.cli.commands import mainspring
try:
    mainspring.main(sys.argv[2:], standalone_mode=False)
finally:
    print(*by_import, file=sys.stderr)
"""


@pytest.mark.parametrize(
    "command",
    [("sessions",), ("show",), ("goal", "list"), ("run", "--help"), ("resume", "--help")],
    ids=" ".join,
)
def test_a_command_that_runs_no_agent_loads_none(machine: Machine, command: tuple[str, ...]) -> None:
    machine.run("run", "--model", machine.serve({"text": "done"}), "hello")
    assert loaded(machine, (*RUNS_AGENTS, "tomllib"), command) == ""


def test_a_plain_run_loads_only_the_wire_that_it_speaks_and_nothing_for_attempts(machine: Machine) -> None:
    asked = ("run", "--model", machine.serve({"text": "done"}), "hello")
    assert loaded(machine, NOT_FOR_A_PLAIN_RUN, asked) == ""


def test_the_first_request_waits_for_nothing_that_it_does_not_need(machine: Machine) -> None:
    asked = ("run", "--json", "--model", machine.serve({"text": "done"}), "hello")
    count, *early = loaded(machine, NOT_BEFORE_THE_FIRST_REQUEST, asked, told_by=AT_THE_REQUEST).split()
    assert early == []
    assert 200 < int(count) <= MOST_MODULES


def test_no_pattern_is_compiled_because_a_module_is_loaded(machine: Machine) -> None:
    asked = ("run", "--model", machine.serve({"text": "done"}), "hello")
    assert loaded(machine, (), asked, told_by=COMPILED) == ""


def loaded(
    machine: Machine, modules: tuple[str, ...], command: tuple[str, ...], *, told_by: str = LOADED
) -> str:
    """Which of these modules a command loads."""
    ran = subprocess.run(
        [sys.executable, "-c", told_by, ",".join(modules), *command],
        cwd=machine.workspace,
        env=machine.environment(),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stderr.splitlines()[-1]


def test_goal_lists_its_commands_and_runs_those_that_are_loaded_later(machine: Machine) -> None:
    said = machine.run("goal", "--help").stdout
    names = ("best", "list", "pause", "resume", "schedule", "start", "stop")
    assert all(f"\n  {name} " in said for name in names)
    assert machine.run("goal", "show").returncode == 2
