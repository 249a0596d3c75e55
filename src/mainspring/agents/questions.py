"""What a child may not do unasked: asked of whom its parent asks, on record there, with the child's name."""

from __future__ import annotations

import msgspec

from mainspring.approvals.questions import Approver
from mainspring.events import ApprovalAsked, ApprovalGiven, ChildStarted
from mainspring.turns.runtime import Runtime


def child_approver(parent: Runtime, started: ChildStarted) -> Approver:
    async def approve(question: ApprovalAsked) -> ApprovalGiven:
        reason = f"{started.agent} ({started.child}): {question.reason}"
        asked = msgspec.structs.replace(question, call=f"{started.child}.{question.call}", reason=reason)
        given = await parent.approvals.ask_person(asked)
        if given is None:  # nobody is there: the child goes on without it, and says so
            given = ApprovalGiven(
                call=asked.call,
                arguments_sha256=asked.arguments_sha256,
                decision="expire",
                by="mainspring",
            )
            await parent.record(given)
        return msgspec.structs.replace(given, call=question.call)

    return approve
