"""A review that a turn must pass before it is done: what it changed is looked at by an agent with a fresh
context, in a child session that spends from the same caps.

What is on record decides: a change that was reviewed is not reviewed again, a review that was interrupted
goes on. Verified findings go back to the model, a few times; then the turn fails and names what is left. A
review that does not come to its end fails the turn as well: nobody knows whether the change is right."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from mainspring.agents.results import is_unbegun
from mainspring.app.models import delegated_model
from mainspring.app.operations.changes import content_in, reviewed_files
from mainspring.app.operations.review import AGENT, open_reviewer, reviewer
from mainspring.app.operations.timeline import net_diff
from mainspring.catalog import Sessions
from mainspring.checks.regressions import work_began_seq
from mainspring.checks.review_findings import at_least
from mainspring.checks.reviewer import ReviewedChange, take_review, told
from mainspring.checks.risk import sensitive_in
from mainspring.context.history import read_all
from mainspring.disk.ids import new_id
from mainspring.engines.outside import OutsideModel
from mainspring.errors import MainspringError, UsageError
from mainspring.events import (
    REVIEW_SOURCE,
    FilesChanged,
    Limits,
    NoteAdded,
    Recorded,
    ReviewEnded,
    ReviewStarted,
)
from mainspring.events.counts import plural
from mainspring.models.wrapper import SharedModel
from mainspring.secrets.injection import suspicions
from mainspring.session.child import ChildSession
from mainspring.session.session import Session, runtime_of
from mainspring.settings import Config
from mainspring.turns.runtime import Runtime
from mainspring.turns.suite import CALL_PREFIX

_KINDS = ("FilesChanged", "NoteAdded", "ReviewStarted", "ReviewEnded")


class _OnRecord(msgspec.Struct):
    """What the journal says of the open turn: where it began, its last change, the last review of exactly
    what is there now, and how often findings went back to the model."""

    began_seq: int
    changed: dict[str, None]
    started: ReviewStarted | None = None
    ended: ReviewEnded | None = None
    told: int = 0


class ReviewBeforeDone:
    """The reviews of one session, for its turns."""

    def __init__(self, session: Session, config: Config, store: Sessions, *, allow_home: bool) -> None:
        self._session = session
        self._config = config
        self._settings = config.settings.review
        self._store = store
        self._allow_home = allow_home

    async def __call__(self, runtime: Runtime) -> str:
        """Reviews what the turn changed, when it wants to be done; why it fails, when it may not be."""
        if not runtime.history.is_answered:
            return ""
        known = await _on_record(runtime)
        if not known.changed or not self._is_due(known.changed):
            return ""
        ended = known.ended or await self._review(runtime, known)
        if ended.failure:
            return f"What was changed could not be reviewed: {ended.failure}"
        blocking = at_least(ended.findings, self._settings.refuse_at)
        if not blocking:
            return ""
        if known.told >= self._settings.rounds:
            names = "; ".join(f"{each.file}:{each.line} {each.title}" for each in blocking)
            return f"A review still finds {plural(len(blocking), 'problem')}: {names}"
        text = (
            f"Not done yet. Somebody who did not write it reviewed what you changed, and found"
            f" {plural(len(blocking), 'problem')}:\n{told(blocking)}\nPut this right. Where a finding is"
            " wrong, make the code or a test show that it is."
        )
        await runtime.record(NoteAdded(text=text, source=REVIEW_SOURCE, suspicious=suspicions(text)))
        return ""

    def _is_due(self, paths: dict[str, None]) -> bool:
        is_all = self._settings.before_done is True
        return is_all or bool(sensitive_in(paths, self._settings.sensitive_paths))

    async def _review(self, runtime: Runtime, known: _OnRecord) -> ReviewEnded:
        """Has the change reviewed, or goes on with that, on record."""
        place = runtime.state.workspace
        diff = await net_diff(runtime.journal, after=known.began_seq)
        change = ReviewedChange(subject="what this turn changed", diff=diff, content=content_in(place))
        started = known.started
        if started is None:
            files = reviewed_files(place, change.files)
            started = ReviewStarted(review=new_id(), subject=change.subject, cause="turn", files=files)
            await runtime.record(started)
        try:
            ended = await self._reviewed(runtime, started.review, change)
        except MainspringError as error:
            ended = ReviewEnded(review=started.review, failure=str(error))
        await runtime.record(ended)
        return ended

    async def _reviewed(self, runtime: Runtime, review: str, change: ReviewedChange) -> ReviewEnded:
        agent = reviewer(self._config, runtime.state.workspace)
        is_outside = isinstance(runtime.models.current, OutsideModel)  # which is never asked
        name = self._settings.model or agent.model or (self._config.model if is_outside else "")
        chosen = name and delegated_model(name, self._config)
        if is_outside and not chosen:
            raise UsageError(
                "an outside agent did the work, and no model is set to review it (`model` in [review])"
            )
        model = chosen or SharedModel(runtime.models.current)
        limits = Limits(
            max_steps=agent.max_turns,
            max_tokens=agent.max_tokens,
            max_cost_usd=self._settings.max_cost_usd,
        )
        is_new = await is_unbegun(self._store, review, has_spent=False)
        opened = open_reviewer(
            self._config,
            runtime.state.workspace,
            agent,
            limits,
            model=model,
            session="" if is_new else review,
            parent=ChildSession(self._session, review, AGENT),
            allow_home=self._allow_home,
            sessions=self._store,
        )
        async with opened as session:
            return await take_review(session, change)


def attach_review(session: Session, config: Config, store: Sessions, *, allow_home: bool) -> None:
    """Puts a review before the end of the turns of a session."""
    runtime = runtime_of(session)
    review = ReviewBeforeDone(session, config, store, allow_home=allow_home)
    runtime.upkeep = msgspec.structs.replace(runtime.upkeep, review=review)


async def _on_record(runtime: Runtime) -> _OnRecord:
    seq = await work_began_seq(runtime)
    return _folded(seq, await read_all(runtime.journal, kinds=_KINDS, after=seq))


def _folded(began_seq: int, events: Sequence[Recorded]) -> _OnRecord:
    known = _OnRecord(began_seq, {})
    for item in events:
        match item.event:
            case FilesChanged(changes=changes, calls=calls) if changes:
                if not calls or not all(each.startswith(CALL_PREFIX) for each in calls):
                    known.changed |= dict.fromkeys(change.path for change in changes)
                    known.started = known.ended = None
            case ReviewStarted(cause="turn") as started:
                known.started, known.ended = started, None
            case ReviewEnded() as ended if known.started and ended.review == known.started.review:
                # One that failed is made anew, when the turn goes on.
                known.started, known.ended = (None, None) if ended.failure else (known.started, ended)
            case NoteAdded(source=source) if source == REVIEW_SOURCE:
                known.told += 1
            case _:
                pass
    return known
