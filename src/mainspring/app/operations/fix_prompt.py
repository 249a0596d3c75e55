"""What the agent is told that is to fix something. Pure.

The command stands there without code quotes: in quotes it would be taken for the test command of the task,
and run once more for its baseline.
"""

from __future__ import annotations

from mainspring.events import FaultReproduced, FixStarted
from mainspring.events.counts import plural
from mainspring.workspace.test_results import excerpt

_MAX_OUTPUT = 6_000
_MAX_TESTS = 10
_MAX_EXCERPTS = 3
_TASK = """\
A command fails here. Find out why, and remove the cause.

Command: {command}
{said}

How to work:
1. Before you change anything, write what could be the cause, each on a line of its own:
HYPOTHESIS 1: <one sentence>
2. Test the likeliest one: read the code, run something small. Say what came of it on a line of its own,
REFUTED 1: <what showed it>   or   CONFIRMED 1: <what showed it>
and when it is refuted go on with the next one.
3. Make the smallest change that removes the cause. {tests}
4. Run the command. It is run again after you, {widened}; only that counts, not what you say about it.
"""
_STRONG_TESTS = (
    "A change that makes a test weaker (deleted, skipped, fewer or other assertions) is refused: when you are"
    " sure that the test is wrong and the code is right, change nothing and say so."
)
_WEAK_TESTS = "Tests may be changed where they are wrong."


def fix_task(started: FixStarted, found: FaultReproduced, output: str, *, has_suite: bool) -> str:
    """The task of every attempt."""
    facts = [_runs(started, found), *_tests(found, output)]
    if found.places:
        at = ", ".join(
            f"{each.path}:{each.line}{' (changed lately)' * each.is_recent}" for each in found.places
        )
        facts.append(f"It points to: {at}")
    if found.recent:
        facts.append("Changed lately:\n" + "\n".join(f"- {line}" for line in found.recent))
    if started.hint:
        facts.append(f"The user says: {started.hint}")
    facts.append(f"The end of its output:\n~~~\n{_end(output)}\n~~~")
    further = f" and so are: {', '.join(started.checks)}" if started.checks else ""
    return _TASK.format(
        command=started.command,
        said="\n".join(facts),
        tests=_WEAK_TESTS if started.allows_weaker else _STRONG_TESTS,
        widened=("and so are all tests of the project" if has_suite else "by mainspring") + further,
    )


def _runs(started: FixStarted, found: FaultReproduced) -> str:
    code = "it was stopped" if found.exit_code is None else f"exit code {found.exit_code}"
    if found.failed == found.runs:
        return f"It failed each time that it was run ({plural(found.runs, 'run')}, {code})."
    often = f"It must pass {started.repeat} times in a row."
    return f"It is flaky: {found.failed} of {plural(found.runs, 'run')} on the same files failed. {often}"


def _tests(found: FaultReproduced, output: str) -> list[str]:
    if not found.tests:
        return []
    more = len(found.tests) - _MAX_TESTS
    names = ", ".join(found.tests[:_MAX_TESTS]) + (f" and {more} more" if more > 0 else "")
    shown = [text for name in found.tests[:_MAX_EXCERPTS] if (text := excerpt(output, name))]
    return [f"Failing tests: {names}", *(f"~~~\n{text}\n~~~" for text in shown if len(output) > _MAX_OUTPUT)]


def _end(output: str) -> str:
    text = output.strip()
    return f"…{text[-_MAX_OUTPUT:]}" if len(text) > _MAX_OUTPUT else text
