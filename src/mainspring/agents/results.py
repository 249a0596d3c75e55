"""What comes back of a child: read from its journal, whoever wrote that, and told to its parent."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from mainspring.catalog import Sessions, reading, running
from mainspring.documents.call_lines import call_line
from mainspring.errors import UnknownSession
from mainspring.events import (
    AssistantSaid,
    AttemptEnded,
    CheckEnded,
    ChildEnded,
    ChildState,
    Ending,
    Event,
    SpendReserved,
    SpendSettled,
    TurnEnded,
    Usage,
)
from mainspring.events.counts import plural, rounded_usd
from mainspring.evidence.checks import failing_text
from mainspring.journal import JournalReader, events_in, last_event
from mainspring.tools.bounds import HANDLE

MAX_TEXT = 8_000
"""Characters of a child's answer that its parent is shown."""
_STATES: dict[Ending, ChildState] = {
    "done": "done",
    "budget": "budget",
    "limit": "budget",
    "interrupted": "stopped",
}
_SUMMED = ("SpendReserved", "SpendSettled")


class ChildWork(msgspec.Struct, frozen=True, kw_only=True):
    """What the journal of a child says: how its last turn ended, what it said last, what it used."""

    ended: TurnEnded | None
    text: str = ""
    steps: int = 0
    calls: int = 0
    usage: Usage = Usage()
    cost_usd: float = 0.0
    passed: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()
    why: str = ""

    @property
    def state(self) -> ChildState:
        if self.failed and self.ended and self.ended.ending == "done":
            return "failed"
        return _STATES.get(self.ended.ending, "failed") if self.ended else "failed"

    def as_ended(self, child: str, state: ChildState, detail: str = "") -> ChildEnded:
        said = (self.ended.detail if self.ended and self.ended.ending != "done" else "") or detail or self.why
        return ChildEnded(
            child=child,
            state=state,
            detail=said,
            text=self.text,
            steps=self.steps,
            calls=self.calls,
            usage=self.usage,
            cost_usd=self.cost_usd,
            passed=self.passed,
            failed=self.failed,
        )


async def work_of(sessions: Sessions, child: str) -> ChildWork:
    """What is on record of a child; `UnknownSession` when there is no journal of it."""
    async with reading(sessions, child) as journal:
        return await _work(journal)


async def _work(journal: JournalReader) -> ChildWork:
    last = await journal.last("TurnStarted", "TurnEnded", "UserSaid")
    said = await journal.last("AssistantSaid")
    usage, held, spent, steps = Usage(), dict[str, float](), 0.0, 0
    async for recorded in events_in(journal, kinds=_SUMMED):
        match recorded.event:
            case SpendReserved() as reserved:
                held[reserved.spend] = reserved.usd
                steps += reserved.source == "step"
            case SpendSettled() as settled:
                held.pop(settled.spend, None)
                usage, spent = usage.plus(settled.usage), spent + settled.usd
            case _:
                pass
    judged = await last_event(journal, AttemptEnded)
    return ChildWork(
        ended=last.event if last and isinstance(last.event, TurnEnded) else None,
        text=said.event.text if said and isinstance(said.event, AssistantSaid) else "",
        steps=steps,
        calls=await journal.count("CallStarted"),
        usage=usage,
        cost_usd=rounded_usd(spent + sum(held.values())),
        passed=judged.passed if judged else (),
        failed=judged.failed if judged else (),
        why=await _failure(journal) if judged and judged.failed else "",
    )


async def _failure(journal: JournalReader) -> str:
    """What the first of the checks that failed last said."""
    ran = [item.event async for item in events_in(journal, kinds=("CheckEnded",))]
    check = next(each for each in ran if isinstance(each, CheckEnded) and not each.passed)
    return f"check failed: {failing_text(check, await journal.get(check.output) if check.output else b'')}"


def told(ended: ChildEnded, agent: str) -> str:
    """What the parent's model is told of the end of a child."""
    cost = f"{plural(ended.steps, 'step')}, ${ended.cost_usd:.4f}"
    head = f"[{agent} {ended.child}: {ended.state}, {cost}]"
    why = f"It ended early: {ended.detail}" if ended.detail and ended.state != "done" else ""
    said = ended.text or ("It said nothing." if ended.state != "done" else "")
    whole = (
        f"[the whole answer is {HANDLE}{ended.full.sha256}, which read pages through]" if ended.full else ""
    )
    return "\n".join(filter(None, (head, why, said, whole, *_told_changes(ended))))


def _told_changes(ended: ChildEnded) -> Iterator[str]:
    names = ", ".join(ended.files)
    diff = f"{HANDLE}{ended.diff.sha256}" if ended.diff else ""
    match ended.landing:
        case "landed":
            yield f"[its changes are in the workspace now: {names}; as a diff: {diff}]"
        case "discarded":
            yield f"[its changes were not taken over: {names}; as a diff: {diff}]"
        case "conflict":
            both = f"{HANDLE}{ended.both.sha256}" if ended.both else ""
            yield (
                f"[nothing of it was taken over, because these files changed here as well: "
                f"{', '.join(ended.conflicts)}. Your task: read both sides ({both}) and its diff"
                f" ({diff}), and make its changes to {names} yourself.]"
            )
        case "" | "unchanged":
            pass
    if ended.left_out:
        yield f"[not taken over: {', '.join(ended.left_out)}]"


def progress(event: Event) -> str:
    """What a child does now, for whoever looks at the call that began it."""
    if not isinstance(event, AssistantSaid):
        return ""
    lines = [call_line(call).removeprefix("→ ") for call in event.calls] or [event.text.strip()]
    return "".join(f"{line}\n" for line in lines if line)


async def is_open(sessions: Sessions, child: str) -> bool:
    """Whether a process has the session of a child open; one that never began has none."""
    try:
        return await running(sessions, child) is not None
    except UnknownSession:
        return False


async def is_unbegun(sessions: Sessions, child: str, *, has_spent: bool) -> bool:
    """Whether there is nothing of a child yet; one that has spent and has no journal is lost
    (`UnknownSession`)."""
    try:
        async with reading(sessions, child) as journal:
            if await journal.last_seq():
                return False
    except UnknownSession:
        if has_spent:
            raise
        return True
    await sessions.delete(child)
    return True
