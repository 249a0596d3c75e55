"""Answers to a question by a link in a notification, without a paired device.

The code stands in the fragment of the link, so chats that fetch links to show a preview send nothing and
change nothing: a GET gives the same empty page to everybody. The page shows the question by a POST with the
code, and only a second POST, by a button, answers; that takes the code away.
"""

from __future__ import annotations

from importlib.resources import files
from pathlib import PurePath
from typing import Literal

import msgspec

from mainspring.app.dispatch import CommandCall, dispatched
from mainspring.app.operations.answers import is_question
from mainspring.app.operations.approve import ApprovalReply, open_questions
from mainspring.app.operations.devices import Access, AnswerLink
from mainspring.approvals.quorums import BY_LINK
from mainspring.documents.lines import as_text
from mainspring.errors import UsageError
from mainspring.people.roles import Permission
from mainspring.serve.hub import Hub
from mainspring.settings import Config

FILES = ("answer.html", "answer.js", "answer.css")
KINDS = {".html": "text/html; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".css": "text/css"}


class LinkCode(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    code: str


class LinkAnswer(LinkCode, frozen=True, kw_only=True, forbid_unknown_fields=True):
    decision: Literal["allow", "reject"]
    feedback: str = ""


class LinkedQuestion(msgspec.Struct, frozen=True, kw_only=True):
    session: str
    title: str
    text: str
    is_question: bool


def link_file(name: str) -> tuple[bytes, str]:
    """A file of the page, and its kind."""
    return (files("mainspring.serve") / "answer" / name).read_bytes(), KINDS[PurePath(name).suffix]


class AnswerLinks:
    def __init__(self, config: Config, access: Access, hub: Hub) -> None:
        self._config = config
        self._access = access
        self._hub = hub

    async def show(self, code: str) -> LinkedQuestion | None:
        """The question that a code may answer; None for a code that is not good."""
        link = self._access.linked(code)
        if link is None:
            return None
        asked = {each.call: each for each in await open_questions(self._config, link.session)}
        if link.call not in asked:
            raise UsageError("This question was answered, or is no longer asked.")
        question = asked[link.call]
        return LinkedQuestion(
            session=link.session,
            title=question.tool,
            text=as_text(question, whole=True),
            is_question=is_question(question),
        )

    async def answer(self, given: LinkAnswer) -> bool:
        """Answers; False for a code that is not good. Of two that use it at once, one is refused."""
        link = self._access.linked(given.code)
        if link is None or not self._access.use_link(link):
            return False
        reply = ApprovalReply(decision=given.decision, feedback=given.feedback)
        config = self._asking(link)
        call = CommandCall(
            operation="approve",
            permission=Permission(is_allowed=True, rule="a link to this question"),
            session=link.session,
            arguments={"call": link.call, "decision": given.decision},
        )
        async with dispatched(config, call):
            await self._hub.answer(config, link.session, reply, link.call)
        return True

    def _asking(self, link: AnswerLink) -> Config:
        """The settings, with who answers: whoever the notification reached."""
        replace = msgspec.structs.replace
        origin = replace(self._config.origin, device=BY_LINK, token=link.sha256[:8], face="web")
        return replace(self._config, origin=origin)
