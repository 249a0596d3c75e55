"""What a session looks like while it runs: finished text, and the few live lines below it. It takes events
and gives text; it writes nothing, and is told the time. Deltas may be missing: events are the truth."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import Literal

import msgspec

from mainspring.chat.blocks import (
    answer_block,
    call_block,
    call_title,
    changes_block,
    ended_block,
    event_block,
    said_block,
    took,
)
from mainspring.chat.markdown import MarkdownBlock, MarkdownStream
from mainspring.chat.palette import Palette
from mainspring.chat.width import clipped, clipped_name, cut_to_width, get_width, wrapped
from mainspring.events import (
    ApprovalGiven,
    AssistantSaid,
    CallAsked,
    CallDelta,
    CallEnded,
    CallStarted,
    ChildEnded,
    ChildStarted,
    EffortChosen,
    EngineChosen,
    Event,
    FilesChanged,
    ModeChosen,
    ModelChosen,
    Origin,
    OutputDelta,
    Recorded,
    RequestFailed,
    SpendReserved,
    SpendSettled,
    StatusDelta,
    TextDelta,
    Thinking,
    ThinkingDelta,
    TurnEnded,
    TurnStarted,
    UserSaid,
    WaitEnded,
)
from mainspring.events.counts import plural
from mainspring.secrets.screen import plain, plain_name, without_controls

Reasoning = Literal["on", "off", "auto"]
LIVE_LINES = 6
_STREAM_LINES = 3
_WRAPPED_CHARS = 2000
_MOSTLY = 0.8
WIDE = 160
_SOON_S = 0.3
"""What a person runs is shown when it is not done so soon."""
_OPENING = (ModelChosen, ModeChosen, EffortChosen, EngineChosen)
"""What the head of a chat says; news only once somebody has said something."""
_SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"


class _Running(msgspec.Struct):
    call: CallAsked
    since_s: float
    is_started: bool = False
    last_line: str = ""
    changes: str = ""
    child: str = ""
    child_ended: ChildEnded | None = None

    def take(self, text: str) -> None:
        """Remembers the last line of its output."""
        lines = [line for line in text.splitlines() if line.strip()]
        self.last_line = plain_name(lines[-1].strip())[:200] if lines else self.last_line


class View:
    """`render` makes terminal text of a block of Markdown. `reasoning` says how thoughts are shown: in full,
    not at all, or folded to a line."""

    def __init__(
        self,
        palette: Palette,
        render: Callable[[str], str],
        *,
        here: Origin,
        columns: Callable[[], int] = lambda: WIDE,
    ) -> None:
        self.palette = palette
        self._columns = columns
        self.reasoning: Reasoning = "auto"
        self._own: _Running | None = None
        self._render = render
        self._here = here
        self._stream = MarkdownStream()
        self._said = ""
        self._thought = ""
        self._thinking_since_s = 0.0
        self._is_thought_told = False
        self._calls: dict[str, _Running] = {}
        self._background: dict[str, _Running] = {}
        """Children that nobody waits for, by the call that began each."""
        self._writing = ""
        self._status = ""
        self._is_asking = False
        self._is_turn = False
        self.is_past = False
        """Whether what is shown was done before: questions are not shown again then."""
        self.is_begun = False
        """Whether the person has entered anything: what was chosen before that, the head says."""
        self._since_s = self._again_s = 0.0
        self._is_spaced = True

    @property
    def is_busy(self) -> bool:
        """Whether something moves, so that the live lines change by themselves."""
        return self._is_turn or bool(self._calls or self._background) or self._own is not None

    @contextmanager
    def own_work(self, name: str, command: str, now_s: float) -> Generator[Callable[[str], None]]:
        """A person runs something of their own, which gives the text that it prints meanwhile."""
        arguments = msgspec.json.encode({"command": command}).decode()
        self._own = _Running(CallAsked(call="", name=name, arguments=arguments), now_s, is_started=True)
        try:
            yield self._own.take
        finally:
            self._own = None

    def take(self, recorded: Recorded, *, now_s: float, diffs: Sequence[Sequence[str]] = ()) -> list[str]:
        """What is finished by this event, as text for the scrollback."""
        match recorded.event:
            case TextDelta(text=text):
                self._said += text
                return [*self._fold_thought(now_s), *self._blocks(self._stream.feed(text))]
            case ThinkingDelta(text=text):
                self._thinking_since_s = self._thinking_since_s or now_s
                self._thought += text
            case CallDelta(name=name):
                self._writing = name or self._writing
            case OutputDelta(call=call, text=text):
                self._take_output(call, text)
            case StatusDelta(text=text):
                self._status = text
            case FilesChanged() as changed:
                return self._take_changes(changed, diffs)
            case event:
                return self._take_event(event, now_s)
        return []

    def _take_event(self, event: Event, now_s: float) -> list[str]:
        match event:
            case UserSaid():
                self.is_begun = True
                said = said_block(
                    event, self.palette, is_steering=self._is_turn, here=self._here, columns=self._room
                )
                return [*self._finish_text(), self._spaced(said)]
            case AssistantSaid():
                return self._take_reply(event, now_s)
            case CallEnded():
                return self._take_end(event)
            case ChildStarted(node="") if event.call in self._calls:
                self._take_child(event, now_s)
                return []
            case ChildEnded() if self._take_child_end(event):
                return []
            case ApprovalGiven():
                self._take_edit(event)
                return [self._line(self._answer(event))]
            case RequestFailed(retry_in_s=retry_in_s):
                self._said, self._again_s = "", now_s + (retry_in_s or 0.0)
                return [*self._finish_text(), self._line(self._event_text(event))]
            case TurnEnded():
                self._is_turn = self._is_asking = False
                self._status, self._again_s = "", 0.0
                self._calls.clear()
                ended = ended_block(event, self.palette, columns=self._room)
                return [*self._finish_text(), self._line(ended)]
            case _:
                self._follow(event, now_s)
                text = "" if not self.is_begun and isinstance(event, _OPENING) else self._event_text(event)
                return [*self._finish_text(), self._line(text)] if text else []

    def _follow(self, event: Event, now_s: float) -> None:
        """What the live lines must know of events that are shown as any other."""
        match event:
            case TurnStarted():
                self._is_turn, self._since_s = True, now_s
            case SpendReserved(source="step"):
                self._is_asking = True
            case SpendSettled():
                self._is_asking = False
            case CallStarted(call=call) if call in self._calls:
                running = self._calls[call]
                running.is_started, running.since_s = True, now_s
            case WaitEnded():
                self._status = ""
            case _:
                pass

    def live(self, *, columns: int, now_s: float) -> list[str]:
        """The lines below the scrollback; at most six, none longer than the terminal is wide."""
        lines: list[str] = []
        if rest := self._stream.rest.strip("\n"):
            lines += _tail(plain(rest), columns, _STREAM_LINES)
        elif self._thought:
            lines.append(self.palette.paint(f"✻ thinking… {_last_words(self._thought, columns - 14)}", "dim"))
        running = [*({**self._background, **self._calls}).values()]
        if self._own and now_s - self._own.since_s >= _SOON_S:
            running.append(self._own)
        lines += [self._running(each, columns, now_s) for each in running]
        if not self._calls and not self._own and self._is_turn:
            lines.append(self._working(now_s))
        if len(lines) > LIVE_LINES:
            left = len(lines) - LIVE_LINES + 1
            lines = [*lines[: LIVE_LINES - 1], self.palette.paint(f"  … and {left} more", "dim")]
        return lines

    def unfinished(self) -> list[str]:
        """The calls that have no result, for when nobody works on them any more."""
        lines: list[str] = []
        for each in self._calls.values():
            ending = " · interrupted" if each.is_started else " · not started"
            title = clipped_name(call_title(each.call), self._columns() - len(ending) - 2)
            lines.append(self._line(self.palette.paint(f"· {title}{ending}", "yellow")))
        return lines

    @property
    def _room(self) -> int:
        """Where sentences are broken; lines without styles are for programs and screen readers, and whole."""
        return self._columns() if self.palette.is_styled else sys.maxsize

    def _event_text(self, event: Event) -> str:
        return event_block(event, self.palette, columns=self._room)

    def _working(self, now_s: float) -> str:
        what = self._status or (f"writing a call of {self._writing}" if self._writing else "")
        what = what or ("answering" if self._is_asking and self._said else "working")
        if now_s < self._again_s:
            what = f"trying again in {math.ceil(self._again_s - now_s)} s"
        mark = self.palette.paint(_spinner(now_s), "cyan")
        words = " · ".join(filter(None, (plain_name(what), took(now_s - self._since_s))))
        return f"{mark} {self.palette.paint(words, 'dim')}"

    def _running(self, running: _Running, columns: int, now_s: float) -> str:
        name, _, rest = call_title(running.call).partition(" ")
        elapsed = took(now_s - running.since_s) if running.is_started else "not started"
        said, end = self._status or running.last_line, f" · {elapsed}" if elapsed else ""
        room = max(columns - len(name) - 6, 10)
        half = clipped_name(rest, max(room // 2, room - get_width(said + end)))
        left = room - get_width(half + end)
        tail = ((clipped(said, left) if left > 2 else "") + end).removeprefix(" · ") or "started"
        mark = self.palette.paint(_spinner(now_s), "cyan")
        return f"{mark} {self.palette.paint(name, 'bold')} {half} {self.palette.paint('· ' + tail, 'dim')}"

    def _take_output(self, call: str, text: str) -> None:
        if running := self._calls.get(call) or self._background.get(call):
            running.take(text)

    def _answer(self, given: ApprovalGiven) -> str:
        """With the call that it is about, where several wait for theirs or the question is not shown."""
        running = self._calls.get(given.call) if len(self._calls) > 1 or self.is_past else None
        title = call_title(running.call) if running else ""
        return answer_block(given, self.palette, self._here, title=title, columns=self._room)

    def _take_edit(self, given: ApprovalGiven) -> None:
        """From here on the call is what the person made of it."""
        running = self._calls.get(given.call)
        if running and given.edited_arguments is not None:
            running.call = msgspec.structs.replace(running.call, arguments=given.edited_arguments)

    def _take_child(self, started: ChildStarted, now_s: float) -> None:
        """The line of the call that began it is also that of the child."""
        running = self._calls[started.call]
        running.child = started.child
        if started.is_background:
            self._background[started.call] = _Running(
                running.call, now_s, is_started=True, child=started.child
            )

    def _take_child_end(self, ended: ChildEnded) -> bool:
        """Whether the line of a call tells how it ended."""
        behind = [call for call, each in self._background.items() if each.child == ended.child]
        for call in behind:
            del self._background[call]
        owner = next((each for each in self._calls.values() if each.child == ended.child), None)
        if owner is None or behind:
            return False
        owner.child_ended = ended
        return True

    def _take_changes(self, changed: FilesChanged, diffs: Sequence[Sequence[str]]) -> list[str]:
        owner = next((self._calls[call] for call in changed.calls if call in self._calls), None)
        named = call_title(owner.call).partition(" ")[2] if owner else ""
        text = changes_block(changed, diffs, self.palette, columns=self._room, named=named)
        if owner is None:
            return [self._line(text)] if text else []
        owner.changes = "\n".join(filter(None, (owner.changes, text)))
        return []

    def _take_reply(self, said: AssistantSaid, now_s: float) -> list[str]:
        blocks: list[str] = []
        if not self._thought and not self._is_thought_told:
            self._thought = "".join(part.text for part in said.parts if isinstance(part, Thinking))
        blocks += self._fold_thought(now_s)
        self._is_thought_told = False
        blocks += self._blocks(self._stream.feed(_missing(said.text, self._said)))
        blocks += self._finish_text()
        self._calls |= {call.call: _Running(call, now_s) for call in said.calls}
        self._said = self._writing = ""
        self._is_asking = False
        return blocks

    def _take_end(self, ended: CallEnded) -> list[str]:
        running = self._calls.pop(ended.call, None)
        if running is None:
            return []
        block = call_block(
            running.call,
            ended,
            self.palette,
            columns=self._columns(),
            has_changes=bool(running.changes),
            child=running.child_ended,
        )
        line = self._line(block)
        return [line, *([running.changes] if running.changes else [])]

    def _fold_thought(self, now_s: float) -> list[str]:
        thought, self._thought = plain(self._thought).strip(), ""
        since, self._thinking_since_s = self._thinking_since_s, 0.0
        if not thought:
            return []
        self._is_thought_told = True
        paint = self.palette.paint
        if self.reasoning == "off":
            return []
        if self.reasoning == "on":
            broken = wrapped(thought, self._room - 2).split("\n")
            lines = "\n".join(paint(f"  {line}", "dim", "italic") for line in broken)
            return [self._spaced(f"{paint('✻ thinking', 'dim')}\n{lines}")]
        seconds = f" for {took(now_s - since)}" if since and took(now_s - since) else ""
        folded = f"✻ thought{seconds} ({plural(len(thought.split()), 'word')}; /reasoning on shows them)"
        return [self._line(paint(folded, "dim"))]

    def _finish_text(self) -> list[str]:
        return self._blocks(self._stream.finish())

    def _blocks(self, blocks: Sequence[MarkdownBlock]) -> list[str]:
        shown = [(self._render(plain(block.text)), block.is_joined) for block in blocks]
        return [text if is_joined else self._spaced(text) for text, is_joined in shown]

    def _spaced(self, text: str) -> str:
        """A block with an empty line above it."""
        self._is_spaced = True
        return f"\n{text}"

    def _line(self, text: str) -> str:
        """A line that stands close to others of its kind, apart from prose."""
        is_first, self._is_spaced = self._is_spaced, False
        return f"\n{text}" if is_first else text


def _missing(text: str, streamed: str) -> str:
    """What of a reply was not streamed. What is on record has no control characters and no secrets, so it may
    be a little shorter than what was streamed."""
    seen = without_controls(streamed)
    if text.startswith(seen):
        return text[len(seen) :]
    return "" if len(seen) >= _MOSTLY * len(text) else text


def _spinner(now_s: float) -> str:
    return _SPINNER[int(now_s * 8) % len(_SPINNER)]


def _last_words(text: str, room: int) -> str:
    line = plain_name(" ".join(text.split())[-300:])
    return line if len(line) <= room else "…" + line[-max(room - 1, 1) :]


def _tail(text: str, columns: int, most: int) -> list[str]:
    """The last lines of a text, broken at words; very long ones anywhere, since each frame does this."""
    lines: list[str] = []
    for line in text.split("\n")[-most:]:
        is_long = len(line) > _WRAPPED_CHARS
        lines += (cut_to_width(line, columns) if is_long else wrapped(line, columns).split("\n")) or [""]
    return lines[-most:]
