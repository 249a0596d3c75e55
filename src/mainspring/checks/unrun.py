"""Tells which tests passed before a turn and no longer run, where no changed test says why: settings leave
them out, the command of the tests runs something else, or nothing can run any more.
"""

from __future__ import annotations

import re

from mainspring.checks.weakened import texts_of_tests, weakened_since
from mainspring.context.history import read_all
from mainspring.events import CHECKS_SOURCE, ChangesChecked, NoteAdded, SuiteEnded
from mainspring.events.counts import plural
from mainspring.patterns import lazy_pattern
from mainspring.secrets.injection import suspicions
from mainspring.turns.runtime import Runtime
from mainspring.turns.suite import results_of
from mainspring.workspace.affected import is_test
from mainspring.workspace.test_results import TestResults

_SHOWN = 5
_MARKS = lazy_pattern(r"::| > |\.(?=\w+$)")
_TOLD = "{what}\nIf the task does not ask for that, let them run again; otherwise say so in your answer."


async def tell_unrun(runtime: Runtime, ended: SuiteEnded, before: TestResults, began: int) -> None:
    """Says once what the last run of all tests no longer ran; `began` is where the work began."""
    if ended.outcome in ("passed", "failed"):
        names = await _unexplained(runtime, ended, before, began)
        more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
        count = plural(len(names), "test")
        what = f"{count} that passed before this turn no longer run: {', '.join(names[:_SHOWN])}{more}"
        what = what if names else ""
    else:
        what = f"the tests ran before this turn, and no longer do. {ended.summary}"
    text = _TOLD.format(what=f"{what[:1].upper()}{what[1:]}")
    known = await read_all(runtime.journal, kinds=("NoteAdded",), after=began)
    if not what or any(isinstance(item.event, NoteAdded) and item.event.text == text for item in known):
        return
    note = NoteAdded(text=text, source=CHECKS_SOURCE, suspicious=suspicions(text))
    await runtime.record(
        ChangesChecked(not_checked=(what.partition("\n")[0],), is_late=True), note, is_durable=False
    )


async def _unexplained(runtime: Runtime, ended: SuiteEnded, before: TestResults, began: int) -> list[str]:
    """The missing tests, without those that moved, and those that a changed file of tests no longer has."""
    if not ended.missing:
        return []
    now = await results_of(runtime, ended)
    moved = {_short(name) for name in (*now.passed, *now.failed) if name not in before.passed}
    texts = await texts_of_tests(runtime, began)
    found = await weakened_since(runtime, began)
    told = [finding.message for findings in found.values() for finding in findings]

    def is_explained(name: str) -> bool:
        if is_test(name):  # a runner that names files
            return name in texts and texts[name][1] is None
        word = re.compile(rf"(?<!\w){re.escape(_short(name))}(?!\w)")
        gone = (old and word.search(old) and not word.search(new or "") for old, new in texts.values())
        return _short(name) in moved or any(map(word.search, told)) or any(gone)

    return [name for name in ended.missing if not is_explained(name)]


def _short(name: str) -> str:
    """The name of a test without what holds it."""
    return _MARKS.split(name.partition("[")[0])[-1]
