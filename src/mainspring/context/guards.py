"""Notices when a model is stuck: it repeats itself, writes broken calls, stops early, or achieves nothing.

`Guards.apply` takes each event once, in order; `check` asks each rule, a small pure function of what was
folded, and gives what must be recorded. The first time a rule speaks to the model; when that does not help,
the trip is final and the turn must end. What a person says starts everything anew.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable

import msgspec

from mainspring.context.intent import announces
from mainspring.context.repetition import REPEATS, REPEATS_AFTER_WARNING, Track, answer_in, is_repetition
from mainspring.context.values import canonical
from mainspring.events import (
    AssistantSaid,
    CallAsked,
    CallEnded,
    CallStarted,
    Event,
    GuardTripped,
    NoteAdded,
    PlanSet,
    Recorded,
    Remembered,
    Stop,
    StuckAction,
    TurnStarted,
    Undone,
    UserSaid,
    tool_of,
)
from mainspring.events.counts import plural
from mainspring.journal import JournalReader, events_in

MALFORMED = 2
FAILURES = 2
LADDER: tuple[StuckAction, ...] = ("told", "sampled", "restarted", "escalated")
EMPTY = 2
PLAN_NUDGES = 2
IDLE_STEPS = 30

_PERIODS = (1, 2, 3)
_LOOKED_BACK = 2000
_LOOKED_BACK_PER_IDLE_STEP = 20
_REMEMBERED = 4096
_WAITING = frozenset({"wait"})
_CHANGING = frozenset({"write", "edit", "patch", "plan", "note", "finish"})
_FILE_TOOLS = frozenset({"write", "edit", "patch"})
_PROGRESS = frozenset({"PlanSet", "Remembered", "FilesChanged"})
_KINDS = (
    *("UserSaid", "NoteAdded", "AssistantSaid", "CallStarted", "CallEnded", "GuardTripped", "Undone"),
    *_PROGRESS,
)
_TOLD = ("GuardTripped", "UserSaid", "Undone")
_SHOWN = 200


class Deed(msgspec.Struct, frozen=True):
    """A call and what came of it; `arguments` and `result` are only good for comparing."""

    tool: str
    arguments: str
    result: int
    exit_code: int | None = None
    is_ok: bool = True
    is_malformed: bool = False


class Recent(msgspec.Struct):
    """What the rules look at. `is_new` says that a step has come since a rule last spoke."""

    deeds: Track = msgspec.field(default_factory=lambda: Track(periods=_PERIODS))
    texts: Track = msgspec.field(default_factory=Track)
    text: str = ""
    stop: Stop = "end"
    has_stopped: bool = False
    is_new: bool = False
    malformed: dict[str, int] = {}
    malformed_told: dict[str, int] = {}
    empty: int = 0
    plan: tuple[str, ...] = ()
    idle_steps: int = 0
    idle_tools: Counter[str] = msgspec.field(default_factory=Counter[str])
    trips: Counter[str] = msgspec.field(default_factory=Counter[str])
    most_idle_steps: int = IDLE_STEPS
    failed: tuple[str, str] = ("", "")
    failures: int = 0
    rung: int = 0
    """How often the same call of a tool that changes files failed, and what was changed about that."""
    changed: tuple[str, str] = ("", "")
    is_useless: bool = False
    """The last call that changed a file, and whether the same one came again, which changes nothing."""


class Guards:
    """The fold over one turn. `final` is the trip that ends it. After `idle_steps` without anything new it is
    over; 0 is never."""

    def __init__(self, idle_steps: int = IDLE_STEPS) -> None:
        self.recent = Recent(most_idle_steps=idle_steps)
        self.final: GuardTripped | None = None
        self._asked: tuple[CallAsked, ...] = ()
        self._started: set[str] = set()
        self._ended: dict[str, CallEnded] = {}
        self._seen: dict[Hashable, int | None] = {}
        self._is_changed = False

    def check(self) -> GuardTripped | None:
        """What must be recorded now. The same as before when that was final."""
        if self.final or not self.recent.is_new:
            return self.final
        return next((trip for rule in RULES if (trip := rule(self.recent))), None)

    def apply(self, recorded: Recorded) -> None:
        self._is_changed = self._is_changed or recorded.kind == "FilesChanged"
        if recorded.kind in _PROGRESS and self._is_news(recorded.event):
            self._note_progress()
            self.recent.texts = Track()
        match recorded.event:
            case UserSaid() | TurnStarted() | Undone():
                self._restart()
            case NoteAdded(source=source) if source != "mainspring":
                self._note_progress()
            case AssistantSaid() as said:
                self._begin_step(said)
            case CallStarted(call=call):
                self._started.add(call)
            case CallEnded() as ended:
                self._ended[ended.call] = ended
                if self._asked and all(asked.call in self._ended for asked in self._asked):
                    self._end_step()
            case GuardTripped() as tripped:
                self._note_trip(tripped)
            case PlanSet(items=items):
                self.recent.plan = tuple(item.text for item in items if item.progress != "done")
            case _:
                pass

    def _is_news(self, event: Event) -> bool:
        """Whether something was done; what a model only wrote down may have been written before."""
        match event:
            case PlanSet(items=said) | Remembered(text=said):
                is_known = said in self._seen
                self._seen[said] = None
                return not is_known
            case _:
                return True

    def _restart(self) -> None:
        self.recent = Recent(plan=self.recent.plan, most_idle_steps=self.recent.most_idle_steps)
        self.final = None
        self._asked, self._started, self._ended, self._seen = (), set(), {}, {}

    def _begin_step(self, said: AssistantSaid) -> None:
        recent = self.recent
        self._asked, self._started, self._ended, self._is_changed = said.calls, set(), {}, False
        recent.text, recent.stop = answer_in(said.text), said.stop
        is_empty = not said.calls and not recent.text
        recent.has_stopped = not said.calls
        recent.empty = recent.empty + 1 if is_empty else 0
        if not said.calls:
            self._end_step()

    def _end_step(self) -> None:
        recent = self.recent
        deeds = [self._deed(asked, self._ended[asked.call]) for asked in self._asked]
        self._asked = ()
        recent.is_new = True
        if any(deed.tool in _WAITING and deed.is_ok for deed in deeds):
            return
        for deed in deeds:
            recent.deeds.add(deed)
            self._count_failure(deed)
            if deed.is_malformed:
                recent.malformed[deed.tool] = recent.malformed.get(deed.tool, 0) + 1
            else:
                recent.malformed.pop(deed.tool, None)
                recent.malformed_told.pop(deed.tool, None)
        if recent.text and recent.stop != "length":
            recent.texts.add((recent.text, tuple(deed.result for deed in deeds)))
        recent.idle_steps += 1
        recent.idle_tools.update(deed.tool for deed in deeds)
        if sum(self._is_new(deed) for deed in deeds):
            self._note_progress()

    def _count_failure(self, deed: Deed) -> None:
        recent, action = self.recent, (deed.tool, deed.arguments)
        if deed.tool not in _FILE_TOOLS or deed.is_malformed:
            return
        is_useless = deed.is_ok and action == recent.changed and not self._is_changed
        if deed.is_ok and not is_useless:
            recent.failed, recent.failures, recent.rung = ("", ""), 0, 0
            recent.changed = action
        elif action == recent.failed:
            recent.failures += 1
        else:
            recent.failed, recent.failures, recent.rung = action, 1 + is_useless, 0
        recent.is_useless = is_useless

    def _deed(self, asked: CallAsked, ended: CallEnded) -> Deed:
        is_refused_unread = ended.outcome == "error" and asked.call not in self._started
        full = ended.full.sha256 if ended.full else ""
        return Deed(
            tool=tool_of(asked.name),
            arguments=canonical(asked.arguments),
            result=hash((ended.outcome, ended.output, ended.exit_code, full)),
            exit_code=ended.exit_code,
            is_ok=ended.outcome == "ok",
            is_malformed=is_refused_unread and self.recent.stop != "length",
        )

    def _is_new(self, deed: Deed) -> bool:
        """Whether a call changed something, or told something that was not known."""
        call, result = (deed.tool, deed.arguments), (deed.tool, deed.result)
        is_new_call, is_new_result = call not in self._seen, result not in self._seen
        has_turned = not is_new_call and self._seen[call] != deed.exit_code
        self._seen[call] = deed.exit_code
        self._seen[result] = None
        while len(self._seen) > _REMEMBERED:
            del self._seen[next(iter(self._seen))]
        if deed.tool in _CHANGING:
            return is_new_call and deed.is_ok
        return has_turned or (is_new_call and is_new_result)

    def _note_progress(self) -> None:
        self.recent.idle_steps = 0
        self.recent.idle_tools.clear()

    def _note_trip(self, tripped: GuardTripped) -> None:
        recent = self.recent
        recent.is_new = False
        recent.trips[tripped.guard] += 1
        if tripped.is_final:
            self.final = tripped
        elif tripped.guard == "stuck":
            recent.rung += 1
        elif tripped.guard == "loop":
            recent.deeds.warn()
        elif tripped.guard == "echo":
            recent.texts.warn()
        elif tripped.guard == "malformed":
            recent.malformed_told = dict(recent.malformed)


async def load_guards(journal: JournalReader, idle_steps: int = IDLE_STEPS) -> Guards:
    """The guards of the turn that is running."""
    guards = Guards(idle_steps)
    plan = await journal.last("PlanSet")
    if plan:
        guards.apply(plan)
    started = await journal.last("TurnStarted")
    began = started.seq if started else 0
    # Rules look at recent steps and at what was said to the model before: a long turn is not read whole.
    looked_back = _LOOKED_BACK + idle_steps * _LOOKED_BACK_PER_IDLE_STEP
    after = max(began, await journal.last_seq() - looked_back)
    for told in await journal.read(after=began, until=after, kinds=_TOLD, limit=5000):
        guards.apply(told)
    async for recorded in events_in(journal, kinds=_KINDS, after=after, limit=5000):
        guards.apply(recorded)
    return guards


def loop(recent: Recent) -> GuardTripped | None:
    """The same calls with the same results, over and over."""
    cycle = recent.deeds.cycle
    if not cycle:
        return None
    tools = [deed.tool for deed in cycle if isinstance(deed, Deed)]
    what = f"the same call of {tools[0]}" if len(tools) == 1 else f"the cycle of calls {' → '.join(tools)}"
    if recent.deeds.warned:
        message = f"The model went on repeating {what} after it was told that nothing changes."
        return GuardTripped(guard="loop", message=message, is_final=True)
    message = (
        f"You have made {what} {REPEATS} times with the same arguments and the same results. Doing it again"
        " will not change anything. Say what you expected, then try something else or say that you are stuck."
    )
    return GuardTripped(guard="loop", message=message)


def stuck(recent: Recent) -> GuardTripped | None:
    """The same change of a file that fails again: each time something else is changed about it."""
    if recent.failures < FAILURES + recent.rung:
        return None
    what = f"The same call of {recent.failed[0]} failed {recent.failures} times"
    if recent.is_useless:
        what = f"The same call of {recent.failed[0]} was made {recent.failures} times and changed nothing"
    if recent.rung < len(LADDER):
        return GuardTripped(guard="stuck", message=f"{what}.", action=LADDER[recent.rung])
    return GuardTripped(guard="stuck", message=f"{what}, whatever was changed about it.", is_final=True)


def echo(recent: Recent) -> GuardTripped | None:
    """The same words, with nothing new between them."""
    if not recent.texts.cycle:
        return None
    shown = recent.text[:_SHOWN]
    if recent.texts.warned:
        message = f"The model went on saying the same after it was told so: {shown}"
        return GuardTripped(guard="echo", message=message, is_final=True)
    message = (
        f"You have said the same {REPEATS} times and nothing has changed: “{shown}” Take a different step"
        " now, or say what stops you."
    )
    return GuardTripped(guard="echo", message=message)


def malformed(recent: Recent) -> GuardTripped | None:
    """Calls of one tool that cannot be understood."""
    for tool, count in recent.malformed.items():
        told = recent.malformed_told.get(tool, 0)
        if told >= MALFORMED and count >= told + REPEATS_AFTER_WARNING:
            message = f"The model sent {count} calls of {tool} in a row that could not be understood."
            return GuardTripped(guard="malformed", message=message, is_final=True)
        if told < MALFORMED <= count:
            message = (
                f"{count} calls of {tool} in a row could not be understood. Change your approach: send one"
                " small JSON object with only the required fields, split long content over several calls, or"
                " do it with another tool."
            )
            return GuardTripped(guard="malformed", message=message)
    return None


def empty(recent: Recent) -> GuardTripped | None:
    """A reply with nothing in it."""
    if not recent.empty or recent.stop in ("length", "refused"):
        return None
    if recent.empty > EMPTY:
        message = f"The model gave {recent.empty} empty replies in a row."
        return GuardTripped(guard="empty", message=message, is_final=True)
    message = "Your reply was empty. Call a tool to go on, or say what you did and what is left."
    return GuardTripped(guard="empty", message=message)


def repetition(recent: Recent) -> GuardTripped | None:
    """An answer that only repeats itself."""
    if not recent.has_stopped or recent.stop == "refused" or not is_repetition(recent.text):
        return None
    if recent.trips["repetition"]:
        message = "The model's answer only repeats itself, also after it was asked again."
        return GuardTripped(guard="repetition", message=message, is_final=True)
    message = "Your answer only repeated itself. Answer again, in your own words and without repetition."
    return GuardTripped(guard="repetition", message=message)


def plan(recent: Recent) -> GuardTripped | None:
    """The model stops while its own plan is unfinished."""
    is_over = recent.has_stopped and recent.stop == "end" and not recent.text.endswith("?")
    if not is_over or not recent.plan or recent.trips["plan"] >= PLAN_NUDGES:
        return None
    items = "; ".join(recent.plan[:5])
    message = (
        f"You stopped, but your plan has unfinished items: {items}. Go on with them, or change the plan and"
        " say why they are not needed."
    )
    return GuardTripped(guard="plan", message=message)


def promise(recent: Recent) -> GuardTripped | None:
    """“I will do X”, and no call that does it."""
    is_over = recent.has_stopped and recent.stop == "end"
    if not is_over or recent.trips["promise"] or not announces(recent.text):
        return None
    message = (
        "You said what you will do next, but called no tool. Do it now; if you are finished, say what you"
        " did, not what you will do."
    )
    return GuardTripped(guard="promise", message=message)


def stall(recent: Recent) -> GuardTripped | None:
    """Nothing measurable changed for a long time."""
    if not 0 < recent.most_idle_steps <= recent.idle_steps:
        return None
    used = ", ".join(f"{tool} {plural(count, 'time')}" for tool, count in recent.idle_tools.most_common(4))
    last = f" It last said: {recent.text[-_SHOWN:]}" if recent.text else ""
    message = (
        f"Nothing has changed in {plural(recent.idle_steps, 'step')}: no new result, file, plan or note"
        f" ({used or 'no calls'}).{last}"
    )
    return GuardTripped(guard="stall", message=message, is_final=True)


RULES: tuple[Callable[[Recent], GuardTripped | None], ...] = (
    stuck,
    loop,
    malformed,
    echo,
    empty,
    repetition,
    stall,
    plan,
    promise,
)
"""In this order; the first that has something to say is heard."""
