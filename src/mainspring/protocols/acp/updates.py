"""What is recorded, and what is shown while it happens, as the protocol's updates of a session.

One object follows one session in order. What streams is told as it comes; the whole reply then adds only what
was missed of it.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Literal

from acp import helpers, schema

from mainspring.documents.lines import as_text
from mainspring.events import (
    ApprovalAsked,
    ApprovalGiven,
    AssistantSaid,
    Blob,
    BudgetWarned,
    CallAsked,
    CallEnded,
    CallStarted,
    Compacted,
    Event,
    FileChange,
    FilesChanged,
    FileState,
    GuardTripped,
    HookEnded,
    MediaLeftOut,
    Origin,
    OutputDelta,
    PlanItem,
    PlanSet,
    Recorded,
    RequestFailed,
    RollbackOffered,
    RoutingWarned,
    SpendReserved,
    SpendSettled,
    SuiteEnded,
    SuiteStarted,
    TextDelta,
    Thinking,
    ThinkingDelta,
    TurnEnded,
    UserSaid,
)
from mainspring.protocols.acp.calls import ShownCall

FACE = "acp"
_PROGRESS: dict[str, Literal["pending", "in_progress", "completed"]] = {
    "open": "pending",
    "doing": "in_progress",
    "done": "completed",
}
_ASIDE = (
    RequestFailed,
    GuardTripped,
    BudgetWarned,
    Compacted,
    MediaLeftOut,
    RoutingWarned,
    SuiteStarted,
    SuiteEnded,
    RollbackOffered,
    HookEnded,
)
"""What a person should know while it happens, and the protocol has no update for."""
_MAX_DIFF_BYTES = 1_000_000
_MAX_TITLE = 80
Update = Any
"""One of the protocol's updates of a session."""


class SessionUpdates:
    """`blob` gives kept content; `window` is how many tokens the model takes, if anybody knows."""

    def __init__(
        self,
        workspace: Path,
        blob: Callable[[Blob], Awaitable[bytes]],
        window: Callable[[], int | None],
        *,
        has_terminals: bool,
    ) -> None:
        self._workspace = workspace
        self._blob = blob
        self._window = window
        self._has_terminals = has_terminals
        self._text = self._thought = ""
        self._calls: dict[str, ShownCall] = {}
        self._steps: set[str] = set()
        self._is_titled = False

    async def of(self, recorded: Recorded, *, is_past: bool = False) -> list[Update]:
        """The updates that an event means; of the past also what this client itself had said."""
        event = recorded.event
        match event:
            case TextDelta() | ThinkingDelta() | OutputDelta():
                return self._streamed(event)
            case AssistantSaid():
                return self._reply(event)
            case UserSaid():
                return await self._said(event, is_past=is_past)
            case PlanSet(items=items):
                return [helpers.update_plan([_entry(item) for item in items])]
            case SpendReserved() | SpendSettled():
                return self._usage(event)
            case FilesChanged():
                return await self._files(event)
            case TurnEnded(ending="blocked" | "waiting" | "budget" | "limit") if not is_past:
                return [helpers.update_agent_message_text(f"\n\n{event.detail} {event.remedy}".rstrip())]
            case _ if isinstance(event, _ASIDE):
                return [] if is_past else self._aside(event)
            case _:
                return self._call(event)

    def is_known(self, call: str) -> bool:
        return call in self._calls

    def announce(self, asked: CallAsked) -> list[Update]:
        """Says that there is a call, unless that was said."""
        if asked.call in self._calls:
            return []
        shown = ShownCall(asked, self._workspace, has_terminals=self._has_terminals)
        self._calls[asked.call] = shown
        return [shown.started()]

    def known_call(self, question: ApprovalAsked) -> ShownCall:
        """The call that a question is about."""
        return self._calls[question.call]

    def _streamed(self, delta: TextDelta | ThinkingDelta | OutputDelta) -> list[Update]:
        match delta:
            case TextDelta(text=text):
                self._text += text
                return [helpers.update_agent_message_text(text)]
            case ThinkingDelta(text=text):
                self._thought += text
                return [helpers.update_agent_thought_text(text)] if text else []
            case OutputDelta(call=call, text=text):
                return [shown.printed(text)] if (shown := self._calls.get(call)) else []

    def _aside(self, event: Event) -> list[Update]:
        if isinstance(event, RequestFailed):  # what streamed of this reply is not the beginning of the next
            self._text = self._thought = ""
        return [helpers.update_agent_thought_text(f"{line}\n")] if (line := as_text(event)) else []

    def _reply(self, said: AssistantSaid) -> list[Update]:
        thought = "".join(part.text for part in said.parts if isinstance(part, Thinking))
        updates: list[Update] = []
        if missed := _missed(self._thought, thought):
            updates.append(helpers.update_agent_thought_text(missed))
        if missed := _missed(self._text, said.text):
            updates.append(helpers.update_agent_message_text(missed))
        self._text = self._thought = ""
        return [*updates, *(each for asked in said.calls for each in self.announce(asked))]

    def _call(self, event: Any) -> list[Update]:
        match event:
            case ApprovalAsked(call=call):
                return self.announce(CallAsked(call=call, name=event.tool, arguments=event.arguments))
            case CallStarted(call=call) if shown := self._calls.get(call):
                return [shown.running()]
            case ApprovalGiven(call=call) if shown := self._calls.get(call):
                is_ours = event.origin is None or event.origin.face == FACE
                return (
                    [] if is_ours else [shown.noted(f"{as_text(event).strip()} {_by(event.origin)}".strip())]
                )
            case CallEnded(call=call) if shown := self._calls.pop(call, None):
                return [shown.ended(event)]
            case _:
                return []

    async def _said(self, said: UserSaid, *, is_past: bool) -> list[Update]:
        """What was said elsewhere, or long ago; and the title of the session, which is how it began."""
        updates: list[Update] = []
        if not self._is_titled and said.text.strip():
            self._is_titled = True
            title = said.text.strip().splitlines()[0][:_MAX_TITLE]
            updates.append(schema.SessionInfoUpdate(session_update="session_info_update", title=title))
        if not is_past and (said.origin is None or said.origin.face == FACE):
            return updates
        updates.append(helpers.update_user_message_text(said.text))
        for media in said.media:
            if media.blob.media_type.startswith("image/"):
                data = b64encode(await self._blob(media.blob)).decode()
                updates.append(helpers.update_user_message(helpers.image_block(data, media.blob.media_type)))
        return updates

    def _usage(self, event: SpendReserved | SpendSettled) -> list[Update]:
        """How full the window is, after each step; other requests (a summary) do not fill it."""
        if isinstance(event, SpendReserved):
            if event.source == "step":
                self._steps.add(event.spend)
            return []
        is_step = event.spend in self._steps
        self._steps.discard(event.spend)
        if not is_step or not event.usage.input_tokens or not (window := self._window()):
            return []
        cost = schema.Cost(amount=event.total_usd, currency="USD")
        used = event.usage.total_tokens
        return [schema.UsageUpdate(session_update="usage_update", used=used, size=window, cost=cost)]

    async def _files(self, event: FilesChanged) -> list[Update]:
        updates: list[Update] = []
        calls = [shown for call in event.calls if (shown := self._calls.get(call))]
        for change in event.changes if calls else ():
            path = self._workspace / change.path
            texts = await self._texts(change)
            if texts is not None:
                shown = next((each for each in calls if each.concerns(path)), calls[0])
                updates.append(shown.changed(path, *texts))
        return updates

    async def _texts(self, change: FileChange) -> tuple[str | None, str] | None:
        """A file before and after; None when it is no text, was not kept, or only its mode changed."""
        if change.kind == "mode":
            return None
        before = None if change.before is None else await self._content(change.before)
        after = "" if change.after is None else await self._content(change.after)
        if after is None or (change.before is not None and before is None):
            return None
        return before, after

    async def _content(self, state: FileState) -> str | None:
        if state.kind != "file" or state.blob is None or state.blob.size > _MAX_DIFF_BYTES:
            return None
        try:
            return (await self._blob(state.blob)).decode()
        except UnicodeDecodeError:
            return None


def _missed(streamed: str, whole: str) -> str:
    """What a client was not told of a text; all of it when what it was told is something else."""
    return whole.removeprefix(streamed) if whole.startswith(streamed) else f"\n\n{whole}"


def _entry(item: PlanItem) -> schema.PlanEntry:
    return helpers.plan_entry(item.text, status=_PROGRESS[item.progress])


def _by(origin: Origin | None) -> str:
    """Who gave an answer, when that was not the person at this client."""
    if origin is None or origin.face == FACE:
        return ""
    where = f" on {origin.device}" if origin.device else ""
    return f"(by {origin.user or 'somebody'}{where}, through {origin.face or 'another face'})"
