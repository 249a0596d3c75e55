"""How a session gets a person's yes: the question is on record before anybody hears of it, the answer before
anything follows from it."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

import msgspec

from mainspring.approvals import Policy
from mainspring.approvals.grants import Grant, GrantFile, arguments_sha256
from mainspring.approvals.questions import Approver, Questions
from mainspring.approvals.quorums import NotEntitled, OpenRequest, check_entitled
from mainspring.disk.inbox import Inbox
from mainspring.errors import UsageError
from mainspring.events import SCOPES, ApprovalAdded, ApprovalAsked, ApprovalGiven, CallAsked, Origin, Scope
from mainspring.folds.state import State
from mainspring.secrets.recorder import Recorder
from mainspring.secrets.redaction import redacted
from mainspring.secrets.vault import Vault
from mainspring.tools.ask import NAME as ASK

if TYPE_CHECKING:
    from mainspring.approvals.permit import Gate


class Permissions(msgspec.Struct, frozen=True, kw_only=True):
    """What may run, and who answers where the policy says to ask. Without a file for grants a yes is for
    once; `inbox` holds the commands that other processes left. `on_refused` is told of answers of people who
    may not give them; `led_by` says whose commands led to the work of the session above."""

    policy: Policy
    grants: GrantFile | None = None
    approver: Approver | None = None
    timeout_s: float | None = None
    inbox: Inbox | None = None
    on_refused: Callable[[NotEntitled], Awaitable[None]] | None = None
    led_by: Callable[[], tuple[str, ...]] = tuple


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
        self._led_by_above = permissions.led_by
        self.policy = permissions.policy
        self.gate: Gate | None = None
        """What has a say in calls besides the policy, where people set up hooks."""
        self.questions = Questions(
            self._refusal,
            approver=permissions.approver,
            timeout_s=permissions.timeout_s,
            inbox=permissions.inbox,
            bad_edit=self._unusable,
            check_entitled=self._check_entitled,
            on_refused=permissions.on_refused,
        )

    @property
    def vault(self) -> Vault:
        return self._recorder.vault

    @property
    def scopes(self) -> tuple[Scope, ...]:
        """How far a person's yes can reach."""
        return SCOPES if self._grants else SCOPES[:1]

    def led_by(self) -> tuple[str, ...]:
        """Whose commands led to what is asked now, here and above."""
        return *self._state().requests.everybody, *self._led_by_above()

    async def ask_person(self, question: ApprovalAsked) -> ApprovalGiven | None:
        """The recorded answer of a person, or of the last of several; None when there is nobody to ask."""
        if question.quorums:
            owners = dict.fromkeys((*question.owners, *self.led_by()))
            question = msgspec.structs.replace(question, owners=tuple(owners))
        sha256, open_call = question.arguments_sha256, self._state().open_call(question.call)
        if open_call and open_call.answer and open_call.answer.arguments_sha256 == sha256:
            return open_call.answer
        if earlier := self._state().requests.earlier_answer(question):
            await self._recorder.record(question, earlier)
            return earlier
        on_record = open_call.question if open_call else None
        is_recorded = on_record is not None and on_record.arguments_sha256 == sha256
        while True:
            request = self._state().requests.request(question.call) if is_recorded else None
            with self.questions.opened((request or OpenRequest(question)).shown):
                if not is_recorded:
                    await self._recorder.record(question)
                    is_recorded = True
                given = await self.questions.first_answer(question.call)
            if given is None:
                return None
            counted = await self._count(given)
            self.questions.recorded(question.call)
            if isinstance(counted, ApprovalGiven):
                return counted

    async def take(self, given: ApprovalGiven) -> None:
        """Takes the answer of a person, also where nobody waits for it."""
        given = msgspec.structs.replace(given, agreed=())
        if not self.questions.answer(given):
            await self._count(given)

    async def _count(self, given: ApprovalGiven) -> ApprovalGiven | ApprovalAdded:
        """Puts an answer on record: that it decides, or that one of several people agreed."""
        counted = self._state().requests.counted(self._named(given))
        await self._recorder.record(counted)
        return counted

    def _named(self, given: ApprovalGiven) -> ApprovalGiven:
        """The answer with who gives it: whoever gives the commands here, unless it says somebody else."""
        if given.origin is not None or given.by != "user":
            return given
        return msgspec.structs.replace(given, origin=self._recorder.origin or Origin())

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
        return self._state().requests.refusal(self._named(given))

    def _check_entitled(self, given: ApprovalGiven) -> None:
        named = self._named(given)
        check_entitled(self._state().requests.request(given.call), named)
