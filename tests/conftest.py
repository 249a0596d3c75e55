"""Property tests draw the same examples every time; `HYPOTHESIS_PROFILE=explore` looks for new ones. Processes
that tests start are not deaf to Ctrl-C, however the suite itself was started. A failure is shown when it happens:
a suite that is ended early still says what was wrong."""

from __future__ import annotations

import os
import signal
import zlib
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# A slow machine is no defect of a test.
settings.register_profile("patient", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("same", settings.get_profile("patient"), derandomize=True)
settings.register_profile("explore", settings.get_profile("patient"), max_examples=2000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "same"))

# A background job is started with SIGINT and SIGQUIT ignored (`nohup`: SIGHUP), and so is what it starts. A
# handler is not passed on: children begin with the default, and this process still takes no notice.
for _number in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP):
    if signal.getsignal(_number) is signal.SIG_IGN:
        signal.signal(_number, lambda *_: None)

_SLOW = Path(__file__).with_name("slow.txt")
_SAMPLED = {
    "agents/test_kill_matrix.py::test_writers_killed_anywhere_bring_their_files_back_once": 3,
    "agents/test_kill_matrix.py::test_a_family_killed_anywhere_completes_without_doing_anything_twice": 3,
    "cli/test_farm.py::test_a_farm_that_is_killed_at_any_commit_is_whole_when_it_is_resumed": 3,
    "goals/test_interrupts.py::test_a_signal_leaves_a_goal_on_record_and_nothing_running": 3,
    "goals/test_kill_matrix.py::test_a_goal_goes_on_wherever_it_was_cancelled": 3,
    "goals/test_kill_matrix.py::test_a_goal_goes_on_wherever_it_was_killed": 3,
    "test_kill_matrix.py::test_a_run_killed_again_while_it_resumes_completes_without_repeating_anything": 3,
    "test_kill_matrix.py::test_a_run_killed_anywhere_completes_without_repeating_anything": 3,
}
"""Proofs of which CI runs one case of so many, always the same ones; `make proof` runs all."""
_shown: list[pytest.TerminalReporter] = []


@pytest.hookimpl(trylast=True)  # the terminal is registered by then
def pytest_configure(config: pytest.Config) -> None:
    terminal = config.pluginmanager.get_plugin("terminalreporter")
    if terminal is not None and config.getoption("numprocesses", None):
        _shown.append(terminal)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.failed and _shown:
        _shown[0].write_line(f"\nFAILED {report.nodeid} ({report.when})\n{report.longreprtext[-4000:]}")


@pytest.hookimpl(tryfirst=True)  # before tests are chosen by their marks
def pytest_collection_modifyitems(items: Sequence[pytest.Item]) -> None:
    """Tests that were measured to be slow (`scripts/slow.py`) are marked so; CI runs them all the same."""
    known = frozenset(_SLOW.read_text(encoding="utf-8").split())
    for item in items:
        if item.nodeid.partition("[")[0] in known:
            item.add_marker(pytest.mark.slow)
        one_of = _SAMPLED.get(item.nodeid.partition("[")[0].removeprefix("tests/"), 1)
        if zlib.crc32(item.nodeid.encode()) % one_of:
            item.add_marker(pytest.mark.proof)
