"""How a session gets a person's yes: the question is on record before anybody hears of it, the answer before
anything follows from it."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable

import msgspec

from mainspring.approvals import Policy
from mainspring.approvals.grants import Grant, GrantFile, arguments_sha256
from mainspring.approvals.permit import Gate
from mainspring.approvals.questions import Approver, Questions
from mainspring.disk.inbox import Inbox
from mainspring.errors import UsageError
from mainspring.events import SCOPES, ApprovalAsked, ApprovalGiven, CallAsked, Scope
from mainspring.folds.state import State
from mainspring.secrets.recorder import Recorder
from mainspring.secrets.redaction import redacted
from mainspring.secrets.vault import Vault
from mainspring.tools.ask import NAME as ASK


class Permissions(msgspec.Struct, frozen=True, kw_only=True):
    """What may run, and who answers where the policy says to ask. Without a file for grants a yes is for
    once; `inbox` holds the commands that other processes left."""

    policy: Policy
    grants: GrantFile | None = None
    approver: Approver | None = None
    timeout_s: float | None = None
    inbox: Inbox | None = None


class Approvals:
    """A session, seen by `permit`. `bad_edit` says why a call cannot have other arguments."""

    def __init__(
        self,
        recorder: Recorder,
        permissions: Permissions,
        state: Callable[[], State],
        bad_edit: Callable[[CallAsked, str], str],
    ) -> None:
        self._recorder = recorder
        self._grants = permissions.grants
        self.inbox = permissions.inbox
        self._state = state
        self._asked = itertools.count(1)
        self._bad_edit = bad_edit
        self.policy = permissions.policy
        self.gate: Gate | None = None
        """What has a say in calls besides the policy, where people set up hooks."""
        self.questions = Questions(
            self._refusal,
            approver=permissions.approver,
            timeout_s=permissions.timeout_s,
            inbox=permissions.inbox,
            bad_edit=self._unusable,
        )

    @property
    def vault(self) -> Vault:
        return self._recorder.vault

    @property
    def scopes(self) -> tuple[Scope, ...]:
        """How far a person's yes can reach."""
        return SCOPES if self._grants else SCOPES[:1]

    async def ask_person(self, question: ApprovalAsked) -> ApprovalGiven | None:
        """The recorded answer of a person, or None when there is nobody to ask."""
        sha256, open_call = question.arguments_sha256, self._state().open_call(question.call)
        if open_call and open_call.answer and open_call.answer.arguments_sha256 == sha256:
            return open_call.answer
        if earlier := self._state().requests.earlier_answer(question):
            await self._recorder.record(question, earlier)
            return earlier
        with self.questions.opened(question):
            on_record = open_call.question if open_call else None
            if on_record is None or on_record.arguments_sha256 != sha256:
                await self._recorder.record(question)
            given = await self.questions.first_answer(question.call)
        if given is not None:
            await self._recorder.record(given)
            self.questions.recorded(question.call)
        return given

    async def ask_question(self, call: str, question: str) -> str | None:
        """What a person answers while a call runs; None when they refuse or nobody can be asked."""
        text = msgspec.json.encode({"question": question}).decode()
        asked = ApprovalAsked(
            call=f"{call}.{next(self._asked)}",
            tool=ASK,
            arguments=text,
            arguments_sha256=arguments_sha256(text),
            reason=question,
            is_editable=False,
            scopes=SCOPES[:1],
        )
        asked = redacted(asked, self.vault)
        given = await self.ask_person(asked)
        if given is None:  # the call goes on without an answer, so nobody is to give one any more
            sha256 = asked.arguments_sha256
            given = ApprovalGiven(call=asked.call, arguments_sha256=sha256, decision="expire")
            await self._recorder.record(given)
        return given.feedback if given.decision == "allow" else None

    async def grant(self, *grants: Grant) -> None:
        """Keeps what a person allowed for more than once."""
        if self._grants is None:
            raise UsageError("This session has no file for grants; answer with the scope once.")
        for grant in grants:
            await asyncio.to_thread(self._grants.add, grant)

    def _unusable(self, given: ApprovalGiven) -> str:
        call = self._state().open_call(given.call)
        if call is None or given.edited_arguments is None:
            return ""
        return self._bad_edit(call.asked, given.edited_arguments)

    def _refusal(self, given: ApprovalGiven) -> str:
        return self._state().requests.refusal(given)
