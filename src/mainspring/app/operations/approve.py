"""Answers to what a session waits for, from any process.

`prepare_answers` finds the open questions and judges the answer to each. `deliver_answer` gives one to the
process that runs the session; when there is none, whoever goes on with the session (`mainspring.open`) gives
it with `Session.answer`.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

import msgspec

from mainspring.app.operations.answers import edited, is_question, lasting
from mainspring.app.operations.messages import deliver
from mainspring.app.operations.sessions import journal_of, list_sessions, rows_in
from mainspring.app.records import recording
from mainspring.app.stores import sessions_of
from mainspring.approvals.answers import Requests
from mainspring.approvals.quorums import OpenRequest, check_entitled
from mainspring.catalog import running
from mainspring.disk.inbox import AnswerCommand
from mainspring.errors import UsageError
from mainspring.events import ApprovalAdded, ApprovalAsked, ApprovalGiven, Origin, Scope
from mainspring.folds.state import load_state
from mainspring.settings import Config

PersonDecision = Literal["allow", "reject", "stop"]
"""What a person can decide; that nobody answered is for nobody to say."""


class ApprovalReply(msgspec.Struct, frozen=True, kw_only=True):
    """What a person says to a question. `edit` are other arguments as JSON, or another command; `lasts` is
    how long a yes holds that is not for once: 30m, 8h, 7d. With `is_said` the feedback answers a question of
    the agent's own."""

    decision: PersonDecision = "allow"
    feedback: str = ""
    scope: Scope = "once"
    pattern: str = ""
    lasts: str | None = None
    edit: str | None = None
    is_said: bool = False


class OpenAnswers(msgspec.Struct, frozen=True, kw_only=True):
    """Answers that fit the open questions of a session; with `has_goal` its turn belongs to a goal.
    `missing` says whose yes it still takes after them, by call, where a team wants to know.
    `other_version` says so when a process of another version runs the session."""

    session: str
    answers: tuple[ApprovalGiven, ...]
    has_goal: bool
    other_version: str = ""
    missing: Mapping[str, str] = {}

    @property
    def decides(self) -> bool:
        """Whether something follows from one of these."""
        return any(given.call not in self.missing for given in self.answers)


async def open_questions(config: Config, session: str) -> tuple[ApprovalAsked, ...]:
    """What a session waits for a person to answer."""
    _, requests, _ = await _requests(config, session)
    return tuple(request.shown for request in map(requests.request, requests.open) if request)


async def waiting_session(config: Config, folder: Path) -> str:
    """The one session in a folder that waits for an answer; `UsageError` when there is none, or several."""
    rows = await rows_in(folder, await list_sessions(config), config)
    waiting = [row.id for row in rows if row.state != "damaged" and await open_questions(config, row.id)]
    if not waiting:
        raise UsageError(
            "No session of this folder waits for an answer.",
            remedy="`mainspring sessions` lists all sessions.",
        )
    if len(waiting) > 1:
        raise UsageError(
            f"{len(waiting)} sessions of this folder wait for an answer: {', '.join(waiting)}.",
            remedy="Name one of them: mainspring approve SESSION.",
        )
    return waiting[0]


async def prepare_answers(
    config: Config, session: str, reply: ApprovalReply, *, call: str = ""
) -> OpenAnswers:
    """The reply as an answer to the open questions whose call begins so, or to all of them."""
    session, requests, has_goal = await _requests(config, session)
    asked = [question for name, question in requests.open.items() if name.startswith(call)]
    if not asked:
        why = requests.closed.get(call, "nothing is asked")
        raise UsageError(
            f"Session {session} does not wait for an answer{f' to {call}' if call else ''}: {why}.",
            remedy=f"`mainspring show {session}` shows what happened.",
        )
    answers = tuple(_given(question, requests, reply, config.origin) for question in asked)
    owner = await running(sessions_of(config), session)
    other = owner.other_version if owner else ""
    missing = {
        given.call: _missing(requests.request(given.call), added)
        for given in answers
        if isinstance(added := requests.counted(given), ApprovalAdded)
    }
    return OpenAnswers(
        session=session, answers=answers, has_goal=has_goal, other_version=other, missing=missing
    )


async def deliver_answer(config: Config, session: str, given: ApprovalGiven) -> str:
    """Gives an answer to the process that runs the session, and names that process; empty when there is none,
    or it ends without having taken it."""
    delivery = await deliver(config, session, AnswerCommand(given))
    return delivery.owner if delivery else ""


async def record_answers(config: Config, session: str, answers: Sequence[ApprovalGiven]) -> None:
    """Puts answers on record in a session that nobody runs, for whoever goes on with it."""
    async with recording(session, config) as recorder:
        requests = (await load_state(recorder.journal)).requests
        for given in answers:
            check_entitled(requests.request(given.call), given)
            counted = requests.counted(given)
            await recorder.record(counted)
            requests = requests.after(counted)


async def _requests(config: Config, session: str) -> tuple[str, Requests, bool]:
    """The whole id of a session, what it asks, and whether that is for a goal."""
    async with journal_of(config, session) as reader:
        state = await load_state(reader)
        return reader.session, state.requests, state.has_goal


def _missing(request: OpenRequest | None, added: ApprovalAdded) -> str:
    return request.missing(added) if request else ""


def _given(
    question: ApprovalAsked, requests: Requests, reply: ApprovalReply, origin: Origin
) -> ApprovalGiven:
    if reply.scope == "once" and (reply.pattern or reply.lasts):
        raise UsageError("--pattern and --for need a --scope other than once.")
    if reply.is_said and not is_question(question):
        raise UsageError(
            f"--say answers a question of the agent; {question.call} is a call of {question.tool}.",
            remedy="Allow it without --say, or refuse it with --reject TEXT.",
        )
    if reply.edit is not None and len(requests.open) > 1:
        raise UsageError(
            "--edit applies to one call, and several are waiting.",
            remedy=f"Name one of {', '.join(requests.open)}.",
        )
    given = ApprovalGiven(
        call=question.call,
        arguments_sha256=question.arguments_sha256,
        decision=reply.decision,
        feedback=reply.feedback,
        edited_arguments=None if reply.edit is None else edited(question, reply.edit),
        scope=reply.scope,
        pattern=reply.pattern,
        expires_us=None if reply.lasts is None else lasting(reply.lasts, now_us=time.time_ns() // 1000),
        origin=origin,
    )
    check_entitled(requests.request(question.call), given)
    if why := requests.refusal(given):
        raise UsageError(f"The call {question.call} cannot be answered like this: {why}.")
    return given
