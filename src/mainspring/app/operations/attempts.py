"""One task, tried several times in one session: each attempt begins with the same conversation and the same
files, a judge looks at what it left, and the first that passes, else the best, is kept.

Attempts are told apart by what is on record alone, so a process that takes the session over goes on with the
attempt that it finds, and none is made twice. What an attempt did and is not kept stays in the journal as
something undone: going back to its end takes it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing

import msgspec

from mainspring.app.operations.attempt_judges import Judge, command_judge, failure_of
from mainspring.app.operations.attempt_sizes import (
    diff_since,
    is_used_up,
    left_of,
    remaining,
    use_between,
    used,
)
from mainspring.app.operations.usual_attempts import is_enough, known_checks
from mainspring.context.history import read_all
from mainspring.errors import UsageError, WorkspaceConflict, require_type
from mainspring.events import (
    ATTEMPTS_SOURCE,
    MAX_ATTEMPTS,
    AssistantSaid,
    AttemptEnded,
    AttemptsEnded,
    AttemptsStarted,
    AttemptStarted,
    CheckEnded,
    Event,
    Media,
    NoteAdded,
    Recorded,
    SamplingChosen,
    TurnEnded,
    Undone,
    UserSaid,
)
from mainspring.folds.caps import cap_of
from mainspring.folds.processes import end_all
from mainspring.secrets.redaction import expanded
from mainspring.session.reply import Reply
from mainspring.session.session import Session, runtime_of
from mainspring.turns.runtime import Runtime

TEMPERATURES = (0.4, 0.7, 1.0)
"""Of the second attempt and those after it; the first is sampled as the model chooses."""

_NOTHING = "There was nothing to go on with."
_PAUSED = frozenset({"interrupted", "blocked", "waiting"})
_USED_UP = frozenset({"budget", "limit"})
_KINDS = ("AttemptsStarted", "AttemptStarted", "AttemptEnded", "AttemptsEnded", "Undone", "UserSaid")

Between = Callable[[Session], Awaitable[Sequence[Event]]]
"""What is recorded at the beginning of every attempt but the first, beside what failed: read from the journal
alone, so that another process would record the same."""


class _Attempt(msgspec.Struct):
    started_seq: int
    started: AttemptStarted
    ended_seq: int = 0
    ended: AttemptEnded | None = None


class _Attempts(msgspec.Struct):
    """What is on record: `seq` is where each attempt begins, `back_to` where the session went back to since
    the last one began or ended, 0 when it did not."""

    seq: int
    started: AttemptsStarted
    said: UserSaid | None = None
    made: list[_Attempt] = []
    back_to: int = 0
    is_over: bool = False

    @property
    def end_seqs(self) -> tuple[int, ...]:
        return tuple(attempt.ended_seq for attempt in self.made)

    def apply(self, recorded: Recorded) -> None:
        match recorded.event:
            case AttemptStarted() as started:
                self.made.append(_Attempt(recorded.seq, started))
                self.back_to = 0
            case AttemptEnded() as ended:
                self.made[-1].ended, self.made[-1].ended_seq = ended, recorded.seq
            case UserSaid() as said:
                self.said = self.said or said
            case AttemptsEnded():
                self.is_over = True
            case Undone(scope=scope, to_seq=to_seq) if scope != "files":
                self.back_to = to_seq
                # Somebody else went back to another place, and these attempts no longer count.
                self.is_over = self.is_over or to_seq not in (self.seq, *self.end_seqs)
            case _:
                pass


async def take_attempts(
    session: Session,
    text: str,
    media: Sequence[Media] = (),
    *,
    attempts: int,
    checks: Sequence[str] = (),
    judge: Judge | None = None,
    between: Between | None = None,
    is_usual: bool = False,
) -> AsyncGenerator[Recorded]:
    """Says something up to so many times, each from here, and gives what happens, until one attempt is kept
    or a person is needed. An attempt passes when every one of the `checks` (command lines) exits with 0;
    without any the test command of the task or project decides, and where none is known an attempt passes
    when its turn is done. A `judge` looks in their place. The caps of one turn hold for all attempts
    together. When nobody asked for them (`is_usual`), one that changes nothing is enough."""
    require_type(attempts, int, "attempts")
    if not 1 <= attempts <= MAX_ATTEMPTS:
        raise UsageError(
            f"attempts is {attempts}.", remedy=f"Give a number from 1 to {MAX_ATTEMPTS} of attempts."
        )
    if session.output is not None:
        raise UsageError(
            "Attempts cannot have a structured answer.", remedy="Leave the output type or the attempts out."
        )
    runtime = runtime_of(session)
    before = used(runtime)
    if attempts > 1 and not checks and judge is None:
        checks = await asyncio.to_thread(known_checks, session.state.workspace, text)
    opening = AttemptsStarted(
        attempts=attempts,
        checks=tuple(checks),
        cap=cap_of(runtime.budget.limits, "turn"),
        before=before,
        is_usual=is_usual,
    )
    after = session.opened_seq
    await session.say(text, media, after=(opening, AttemptStarted(attempt=1, before=before)))
    judge = judge or command_judge(opening.checks)
    async with aclosing(_go_on(session, judge, between, after)) as events:
        async for item in events:
            yield item


async def attempted_reply(
    session: Session,
    text: str = "",
    *,
    attempts: int = 1,
    checks: Sequence[str] = (),
    is_usual: bool = False,
) -> Reply:
    """As `take_attempts`, or `continue_attempts` without a text; gives the answer of the attempt that was
    kept, with what all of them cost. It is not done when a check failed."""
    runtime = runtime_of(session)
    before, kept, ended = used(runtime), None, None
    events = (
        take_attempts(session, text, attempts=attempts, checks=checks, is_usual=is_usual)
        if text
        else continue_attempts(session)
    )
    async with aclosing(events):
        async for item in events:
            kept = item.event if isinstance(item.event, AttemptsEnded) else kept
            ended = item.event if isinstance(item.event, TurnEnded) else ended
    cost = use_between(before, used(runtime)).usd
    if kept is None:
        ending, detail = (
            (ended.ending, ended.detail) if ended else ("done", "There was nothing to go on with.")
        )
        return Reply(
            text="", ending=ending, detail=detail, cost_usd=cost, session=session.id, is_new=ended is not None
        )
    end_seq = kept.end_seqs[kept.kept - 1] or runtime.last_seq
    said = await read_all(session.journal, kinds=("AssistantSaid",), until=end_seq)
    is_done = kept.is_passed or kept.ending != "done"
    return Reply(
        text=said[-1].event.text if said and isinstance(said[-1].event, AssistantSaid) else "",
        ending=("done" if kept.is_passed else kept.ending) if is_done else "failed",
        detail=kept.reason,
        cost_usd=cost,
        session=session.id,
        attempt=kept.kept,
    )


async def continue_attempts(
    session: Session,
    judge: Judge | None = None,
    between: Between | None = None,
    *,
    iteration: int | None = None,
) -> AsyncGenerator[Recorded]:
    """Goes on with attempts that a process left, and gives what happens; nothing when there are none. In a
    goal they are at one `iteration` of it."""
    found = await _load(session)
    if found is None:
        return
    judge = judge or command_judge(found.started.checks, iteration=iteration)
    async with aclosing(_go_on(session, judge, between, session.opened_seq)) as events:
        async for item in events:
            yield item


async def are_attempts_open(session: Session) -> bool:
    """Whether attempts were begun and none was kept yet."""
    return await _load(session) is not None


async def leave_attempts(session: Session, reason: str) -> None:
    """Ends attempts that a process left, where they are: something else is wanted now."""
    found = await _load(session)
    if found is not None:
        await _record_end(session, found, found.made[-1], reason)


async def _go_on(
    session: Session, judge: Judge, between: Between | None, after: int
) -> AsyncGenerator[Recorded]:
    """Each round does the next thing that the journal lacks."""
    runtime = runtime_of(session)
    budget, shown = runtime.budget, after
    try:
        async with aclosing(session.subscribe(after, deltas=True)) as events:
            while (found := await _load(session)) is not None:
                runtime.budget = msgspec.structs.replace(
                    budget, limits=remaining(found.started, runtime, budget.limits)
                )
                is_turn = await _step(session, found, judge, between)
                while shown < runtime.last_seq or (is_turn and session.is_turn_wanted):
                    item = await anext(events)
                    shown = max(shown, item.seq)
                    yield item
                if is_turn and _is_paused(session):
                    return
    finally:
        runtime.budget = budget


async def _step(session: Session, found: _Attempts, judge: Judge, between: Between | None) -> bool:
    """The next thing; whether it is a turn, which goes on when this returns."""
    current = found.made[-1]
    if current.ended is None:
        is_begun = session.is_turn_wanted or _is_paused(session)
        if is_begun and await session.proceed():
            return True
        await _judge(session, found, current, judge)
    elif (choice := _choice(found, current.ended, runtime_of(session))) is not None:
        await _keep(session, found, *choice)
    elif found.back_to != found.seq:
        await _return(session, found)
    else:
        await _begin(session, found, current, await between(session) if between else ())
        return True
    return False


async def _judge(session: Session, found: _Attempts, current: _Attempt, judge: Judge) -> None:
    runtime, ending = runtime_of(session), session.state.last_ending
    looked = await judge(session, current.started.attempt)
    checks = [event for event in looked if isinstance(event, CheckEnded)]
    files, lines = await diff_since(runtime, found.seq)
    ended = AttemptEnded(
        attempt=current.started.attempt,
        ending=ending.ending if ending else "failed",
        detail=ending.detail if ending else "",
        passed=tuple(check.check for check in checks if check.passed),
        failed=tuple(check.check for check in checks if not check.passed),
        files=files,
        changed_lines=lines,
        used=use_between(current.started.before, used(runtime)),
    )
    await runtime.record(*looked, ended)


def _choice(found: _Attempts, last: AttemptEnded, runtime: Runtime) -> tuple[_Attempt, str] | None:
    """The attempt to keep, and why; None when another one is to be made."""
    if is_enough(found.started, last):
        is_judged = last.is_passed and last.passed
        return found.made[-1], "it passes every check" if is_judged else "its turn is done"
    if last.ending == "failed" and not last.used.steps:
        why = f"the model could not be asked ({last.detail})"
    elif len(found.made) >= found.started.attempts:
        why = "no attempt passed"
    elif last.ending in _USED_UP or is_used_up(left_of(found.started, runtime)):
        why = "all that the attempts may use is used up"
    else:
        return None
    best = max(found.made, key=_rank)
    passed = len(best.ended.passed) if best.ended else 0
    total = len(found.started.checks)
    checks = f"{passed} of {total} checks passed, " if total else ""
    return best, f"{why}; {checks}and of those the smallest diff" if len(found.made) > 1 else why


def _rank(attempt: _Attempt) -> tuple[int, int, int]:
    ended = attempt.ended
    return (len(ended.passed), -ended.changed_lines, -ended.attempt) if ended else (-1, 0, 0)


async def _keep(session: Session, found: _Attempts, kept: _Attempt, reason: str) -> None:
    is_there = found.back_to == kept.ended_seq or (kept is found.made[-1] and not found.back_to)
    if not is_there:
        try:
            await _go_back(session, kept.ended_seq)
        except WorkspaceConflict as error:
            kept, reason = found.made[-1], f"no other can be taken: {error.message}"
    await _record_end(session, found, kept, reason)


async def _return(session: Session, found: _Attempts) -> None:
    """Goes back to where every attempt begins."""
    try:
        await _go_back(session, found.seq)
    except WorkspaceConflict as error:
        await _record_end(session, found, found.made[-1], f"no other can be made: {error.message}")


async def _go_back(session: Session, to_seq: int) -> None:
    runtime = runtime_of(session)
    await runtime.record(*await end_all(session.state.processes))
    await session.rewind(to_seq, "both")
    # What was put back is not the doing of the next call, also when its process dies before it looks.
    await runtime.workbench.time_machine.prepare()


async def _begin(session: Session, found: _Attempts, last: _Attempt, beside: Sequence[Event]) -> None:
    """Says the same again, to a model that is sampled otherwise and told what failed."""
    runtime, number = runtime_of(session), len(found.made) + 1
    if found.said is None:
        raise UsageError("These attempts have no task on record.", remedy="Start them again.")
    said = expanded(found.said, runtime.recorder.vault)
    heat = TEMPERATURES[min(number - 2, len(TEMPERATURES) - 1)]
    opening: list[Event] = [
        AttemptStarted(attempt=number, before=used(runtime)),
        SamplingChosen(temperature=heat, seed=number, reason=f"attempt {number}"),
        *beside,
    ]
    if told := await failure_of(runtime, last.started_seq):
        opening.append(NoteAdded(text=told, source=ATTEMPTS_SOURCE))
    await session.say(said.text, said.media, after=opening, output=said.output_schema)


async def _record_end(session: Session, found: _Attempts, kept: _Attempt, reason: str) -> None:
    ended = AttemptsEnded(
        kept=kept.started.attempt,
        reason=reason,
        is_passed=kept.ended is not None and is_enough(found.started, kept.ended),
        ending=kept.ended.ending if kept.ended else "interrupted",
        end_seqs=found.end_seqs,
    )
    usual = [] if session.state.sampling == SamplingChosen() else [SamplingChosen()]
    await runtime_of(session).record(*usual, ended)


async def _load(session: Session) -> _Attempts | None:
    """The attempts that are under way; None when there are none."""
    started = await session.journal.last("AttemptsStarted")
    if started is None or not isinstance(started.event, AttemptsStarted) or started.event.base:
        return None  # those of a farm are sessions of their own
    found = _Attempts(started.seq, started.event)
    for recorded in await read_all(session.journal, kinds=_KINDS, after=started.seq):
        found.apply(recorded)
    return found if found.made and not found.is_over else None


def _is_paused(session: Session) -> bool:
    """Whether the last turn waits for a person, a time or another process."""
    ending = session.state.last_ending
    return not session.is_turn_wanted and ending is not None and ending.ending in _PAUSED
