"""Tells what an outside agent does in our events, so that its turn is a part of the journal like any other.

Every call gets exactly one result, directly after the reply that asked for it: what an agent says while its
call still runs is told when that has ended. What was said to us meanwhile came too late for this run, and is
answered in the next turn.
"""

from __future__ import annotations

import time

import msgspec

from mainspring.engines.messages import Begun, Called, Item, Planned, Returned, Saying, Shown, Spoken, Thought
from mainspring.events import (
    AssistantSaid,
    Blob,
    CallAsked,
    CallEnded,
    CallStarted,
    Event,
    FilesChanged,
    Outcome,
    Part,
    PlanSet,
    Text,
    TextDelta,
    Thinking,
    ThinkingDelta,
)
from mainspring.models.reply import call_id
from mainspring.sandbox.output import HeadAndTail
from mainspring.secrets.deltas import RedactedDeltas
from mainspring.secrets.injection import suspicions
from mainspring.tools import MAX_TEXT
from mainspring.turns.endings import End, refused
from mainspring.turns.runtime import Runtime

_MAX_MESSAGE = 2 * 1024 * 1024
_MAX_LATER = 10_000
_NO_RESULT = "The agent went on without a result of this call. Its outcome is unknown."
_CHANGES_NOTHING = frozenset(
    """Read Glob Grep LS WebFetch WebSearch TodoWrite read glob grep list webfetch websearch todowrite
    read_file read_many_files list_directory search_file_content grep_search google_web_search web_search
    web_fetch search think fetch""".split()  # noqa: SIM905 - a list of words
)


class StopAgent(Exception):
    """The agent is to be stopped, and the turn to end so."""

    def __init__(self, end: End) -> None:
        super().__init__(end.detail)
        self.end = end


class _Open(msgspec.Struct):
    call: str
    name: str
    is_started: bool
    began: float


class EngineRecorder:
    """`run` names the whole run where a call would be named."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._heard_seq = runtime.history.last_seq
        self._thoughts: list[str] = []
        self._text = HeadAndTail(_MAX_MESSAGE)
        self._open: dict[str, _Open] = {}
        self._later: list[Saying] = []
        self._calls = self._replies = 0
        self._is_ending = False
        self._is_message_over = False
        self._midline_seq = -1
        self._shown = RedactedDeltas(runtime.recorder.vault, runtime.show)
        self.run = self._fresh_call()

    async def begin(self) -> None:
        await self._runtime.workbench.time_machine.begin(self.run)

    async def tell(self, item: Item) -> None:
        """Raises `StopAgent` when a limit on steps or calls is reached."""
        match item:
            case Shown():
                self._show(item.text, is_thinking=item.is_thinking)
            case Planned():
                await self._runtime.record(PlanSet(items=item.items, call=self.run))
            case Spoken() | Thought() | Called() | Begun() | Returned():
                if isinstance(item, Spoken | Thought) and not item.is_shown:
                    self._show(item.text, is_thinking=isinstance(item, Thought))
                if isinstance(item, Spoken) and not item.is_piece:
                    self._is_message_over = True
                self._later.append(item)
                await self._catch_up()
            case _:
                pass

    def call(self, foreign_id: str) -> str:
        """Our id of a call that is open, or nothing."""
        found = self._open.get(foreign_id)
        return found.call if found else ""

    async def end(self, last: str = "", *, is_done: bool) -> None:
        """Closes what is open. When the agent is done, its last message is the last word; `last` is what it
        said to be that, in case it was not told before."""
        self._is_ending = True
        while self._open or self._later:
            await self._close_open("unknown" if is_done else "cancelled")
            await self._catch_up()
        if is_done and not self._text.total and last:
            self._show(last)
            self._text.feed(last.encode())
        if is_done or self._text.total or self._thoughts:
            await self._runtime.record(self._reply())
        if changed := await self._changed(self.run):
            await self._runtime.record(changed)

    async def _catch_up(self) -> None:
        while (at := next((at for at, item in enumerate(self._later) if self._fits(item)), None)) is not None:
            await self._tell(self._later.pop(at))
        if len(self._later) > _MAX_LATER:
            await self._close_open("unknown")

    def _fits(self, item: Saying) -> bool:
        return not self._open or (isinstance(item, Returned | Begun) and item.id in self._open)

    async def _tell(self, item: Saying) -> None:
        match item:
            case Spoken():
                if not item.is_piece and self._text.total:
                    await self._say()
                self._text.feed(item.text.encode(errors="replace"))
            case Thought():
                if self._text.total:
                    await self._say()
                if item.is_piece and self._thoughts:
                    self._thoughts[-1] += item.text
                else:
                    self._thoughts.append(item.text)
            case Called():
                await self._begin_call(item)
            case Begun() if item.id in self._open:
                await self._start(self._open[item.id])
            case Returned() if item.id in self._open:
                await self._end_call(self._open.pop(item.id), item)
            case _:
                pass

    async def _say(self) -> None:
        self._count(calls=0)
        await self._runtime.record(self._reply())

    def _count(self, *, calls: int) -> None:
        limits, ledger = self._runtime.state.limits, self._runtime.state.ledger
        refusal = ledger.refuse_calls(calls, limits) or ledger.refuse_steps(self._replies + 1, limits)
        if refusal and not self._is_ending:
            raise StopAgent(refused(refusal))

    async def _begin_call(self, item: Called) -> None:
        self._count(calls=1)
        given = item.arguments
        arguments = given if isinstance(given, str) else msgspec.json.encode(given or {}).decode()
        asked = CallAsked(
            call=self._fresh_call(), name=item.name or "tool", arguments=arguments, provider_id=item.id
        )
        opened = self._open[item.id] = _Open(asked.call, asked.name, is_started=False, began=time.monotonic())
        await self._runtime.record(self._reply(asked))
        if not item.is_pending:
            await self._start(opened)

    async def _start(self, opened: _Open) -> None:
        if not opened.is_started:
            opened.is_started = True
            await self._runtime.record(CallStarted(call=opened.call, tool=opened.name))

    async def _end_call(self, opened: _Open, item: Returned) -> None:
        if item.is_refused:
            await self._runtime.record(CallEnded(call=opened.call, outcome="refused", output=item.output))
            return
        await self._start(opened)
        output, full = await self._fitted(item.output)
        outcome: Outcome = "error" if item.is_error else "ok"
        ended = CallEnded(
            call=opened.call,
            outcome=outcome,
            output=output,
            exit_code=item.exit_code,
            full=full,
            duration_s=round(time.monotonic() - opened.began, 6),
            suspicious=suspicions(output),
        )
        changed = None if opened.name in _CHANGES_NOTHING else await self._changed(opened.call)
        events: list[Event] = [changed] if changed else []
        await self._runtime.record(*events, ended)

    async def _close_open(self, outcome: Outcome) -> None:
        # A person can still answer these, when the turn is blocked.
        waiting = self._runtime.state.requests.open
        for opened in (each for each in self._open.values() if each.call not in waiting):
            output = _NO_RESULT if outcome == "unknown" else "The agent was stopped while this call ran."
            await self._runtime.record(CallEnded(call=opened.call, outcome=outcome, output=output))
        self._open.clear()

    async def _fitted(self, output: str) -> tuple[str, Blob | None]:
        if len(output) <= MAX_TEXT:
            return output, None
        full = await self._runtime.recorder.put_blob(output.encode(errors="replace"), "text/plain")
        half = MAX_TEXT // 2
        left_out = len(output) - 2 * half
        return f"{output[:half]}\n[... {left_out:,} characters left out ...]\n{output[-half:]}", full

    async def _changed(self, call: str) -> FilesChanged | None:
        """What changed since the last look; the whole run is named only where no call is."""
        changed = await self._runtime.workbench.time_machine.end([call], self._runtime.recorder.put_blobs)
        if changed is None or call == self.run:
            return changed
        return msgspec.structs.replace(changed, calls=(call,))

    def _reply(self, *calls: CallAsked) -> AssistantSaid:
        self._replies += 1
        self._shown.end()
        parts: list[Part] = [Thinking(text="\n".join(self._thoughts))] if self._thoughts else []
        if self._text.total:
            parts.append(Text(text=self._text.text().decode(errors="replace")))
        self._thoughts, self._text = [], HeadAndTail(_MAX_MESSAGE)
        return AssistantSaid(
            step=self._runtime.state.step + self._replies,
            parts=(*parts, *calls),
            stop="calls" if calls else "end",
            heard_seq=self._heard_seq,
        )

    def _fresh_call(self) -> str:
        self._calls += 1
        return "e" + call_id(self._heard_seq, self._calls - 1)[1:]

    def _show(self, text: str, *, is_thinking: bool = False) -> None:
        """A message begins on a line of its own. Whatever is recorded ends a line by itself."""
        if is_thinking:
            self._shown.feed(ThinkingDelta(text=text))
            return
        seq = self._runtime.history.last_seq
        begins = "\n" if self._is_message_over and self._midline_seq == seq else ""
        self._shown.feed(TextDelta(text=f"{begins}{text}"))
        self._is_message_over = False
        self._midline_seq = -1 if text.endswith("\n") else seq
