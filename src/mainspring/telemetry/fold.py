"""The projection: events of a session, one after the other, become spans as these end.

A turn holds steps, a step its request and its calls; what has no step is below the turn, the goal's iteration
or the session. The span of the session itself is its opening, since a session has no end. What a fork began
with is its parent's. Texts that people, models and commands wrote are left out unless they are asked for.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import msgspec

from mainspring.events import (
    ApprovalAsked,
    ApprovalGiven,
    AssistantSaid,
    CallEnded,
    CallStarted,
    ChildEnded,
    ChildStarted,
    Compacted,
    Crashed,
    Event,
    GoalEnded,
    GuardTripped,
    IterationEnded,
    IterationStarted,
    ModelChosen,
    Recorded,
    RequestFailed,
    SessionResumed,
    SessionStarted,
    SpendReserved,
    SpendSettled,
    TurnEnded,
    TurnStarted,
    UserSaid,
    WaitEnded,
    WaitStarted,
)
from mainspring.folds.ledger import CALL, ENGINE, STEP
from mainspring.telemetry import content, describe
from mainspring.telemetry.spans import (
    ROOT,
    Attributes,
    Kind,
    OpenSpan,
    SpanEvent,
    SpanLink,
    TraceSpan,
    child_key,
    model_names,
)

_KINDS = (
    *(SessionStarted, SessionResumed, ModelChosen, UserSaid, TurnStarted, TurnEnded),
    *(SpendReserved, SpendSettled, RequestFailed, AssistantSaid, CallStarted, CallEnded),
    *(ApprovalAsked, ApprovalGiven, WaitStarted, WaitEnded, ChildStarted, ChildEnded),
    *(IterationStarted, IterationEnded, GoalEnded, Compacted, GuardTripped, Crashed),
)
FOLDED: tuple[str, ...] = tuple(kind.__name__ for kind in _KINDS)
"""The kinds of events that spans are made of."""

_Work = TurnStarted | TurnEnded | IterationStarted | IterationEnded | GoalEnded
_MOST_EVENTS = 50
_MOST_NAME = 100
_LOST = "lost"


class SpanState(msgspec.Struct, kw_only=True, omit_defaults=True):
    """What the projection knows after `seq` events: what is open, by kind and id. Small, and without texts
    unless these are asked for."""

    seq: int = 0
    session: str = ""
    agent: str = ""
    person: str = ""
    model: str = ""
    inherited_seq: int = 0
    resumed: str = ""
    last_us: int = 0
    root: OpenSpan | None = None
    open: dict[str, OpenSpan] = {}
    asked: dict[str, str] = {}
    arguments: dict[str, str] = {}
    said: str = ""


class SpanFold:
    """Takes events in order; `state` goes on where it stands. With `has_content` texts are in the spans."""

    def __init__(self, session: str, state: SpanState | None = None, *, has_content: bool = False) -> None:
        self.state = state or SpanState()
        self.state.session = session
        self._has_content = has_content
        self._ended: list[TraceSpan] = []

    def take(self, recorded: Recorded) -> Sequence[TraceSpan]:
        """The spans that end with this event."""
        state = self.state
        self._ended = []
        before = len(state.open)
        self._take_session(recorded)
        state.seq, state.last_us = recorded.seq, recorded.time_us
        if recorded.seq <= state.inherited_seq:
            return ()
        root = state.root
        if root is not None and recorded.seq == state.inherited_seq + 1:
            root.start_us = recorded.time_us
        if root is not None and (self._ended or len(state.open) > before):
            state.root = None
            self._ended.insert(0, root.ended(state.session, recorded.seq, recorded.time_us))
        return tuple(self._ended)

    def _take_session(self, recorded: Recorded) -> None:
        state, event = self.state, recorded.event
        match event:
            case SessionStarted():
                self._start_session(event, recorded)
            case SessionResumed():
                self._resume(event, recorded)
            case ModelChosen(model=model):
                state.model = model
            case UserSaid(text=text, origin=origin):
                if origin is not None and origin.user and origin.face != "daemon":
                    state.person = origin.user
                state.said = content.cut(text) if self._has_content else ""
            case TurnStarted() | TurnEnded() | IterationStarted() | IterationEnded() | GoalEnded():
                self._take_turn(event, recorded)
            case SpendReserved() | SpendSettled() | RequestFailed() | AssistantSaid():
                self._take_request(event, recorded)
            case Compacted() | GuardTripped() | Crashed():
                name, attributes = describe.moment(event)
                self._happen(name, recorded, attributes)
            case _:
                self._take_work(event, recorded)

    def _start_session(self, event: SessionStarted, recorded: Recorded) -> None:
        state = self.state
        state.agent, state.inherited_seq = event.agent, event.parent_seq
        state.person = event.origin.user if event.origin and event.origin.face != "daemon" else ""
        attributes = {**describe.session(event), "gen_ai.conversation.id": state.session}
        root = OpenSpan(key=ROOT, parent="", name="session", start_us=recorded.time_us, attributes=attributes)
        if event.parent:
            key, relation = (child_key(state.session), "agent") if event.agent else (ROOT, "fork")
            root.links = [SpanLink(event.parent, key, relation)]
        state.root = root

    def _resume(self, event: SessionResumed, recorded: Recorded) -> None:
        """What the process before had sent, and got no answer to, is lost."""
        state = self.state
        for name in [name for name in state.open if name.startswith("spend ")]:
            self._close("spend", name.removeprefix("spend "), recorded, error=_LOST, end_us=state.last_us)
        attributes = describe.resumed(event)
        self._happen("resumed", recorded, attributes)
        state.resumed = str(recorded.seq)
        span = OpenSpan(
            key=state.resumed,
            parent=ROOT,
            name="resume",
            start_us=recorded.time_us,
            attributes={**attributes, "gen_ai.conversation.id": state.session},
        )
        self._ended.append(span.ended(state.session, recorded.seq, recorded.time_us))

    def _take_turn(
        self,
        event: TurnStarted | TurnEnded | IterationStarted | IterationEnded | GoalEnded,
        recorded: Recorded,
    ) -> None:
        match event:
            case TurnStarted():
                self._start_turn(event, recorded)
            case TurnEnded():
                self._close_step(recorded)
                error = "failed" if event.ending == "failed" else ""
                self._close("turn", "", recorded, describe.turn(event), error=error)
            case IterationStarted(iteration=number):
                self._close("iteration", "", recorded)
                attributes: Attributes = {"mainspring.goal.iteration": number}
                self._open("iteration", "", "iteration", recorded, attributes)
            case IterationEnded():
                error = "failed" if event.outcome == "failed" else ""
                self._close("iteration", "", recorded, describe.iteration(event), error=error)
            case GoalEnded(ending=ending):
                self._close("iteration", "", recorded, {"mainspring.goal.ending": ending})

    def _start_turn(self, event: TurnStarted, recorded: Recorded) -> None:
        state = self.state
        self._close_step(recorded)
        self._close("turn", "", recorded, error=_LOST)
        agent = state.agent or "mainspring"
        attributes: Attributes = {
            "gen_ai.operation.name": "invoke_agent",
            "gen_ai.agent.name": agent,
            "mainspring.turn": event.turn,
        }
        if state.person:
            attributes["user.name"] = state.person
        if state.said:
            attributes["gen_ai.input.messages"] = content.said_by_user(state.said)
            state.said = ""
        opened = self._open("turn", "", f"invoke_agent {agent}", recorded, attributes)
        if state.resumed:
            opened.links.append(SpanLink(state.session, state.resumed, "resume"))

    def _take_request(
        self, event: SpendReserved | SpendSettled | RequestFailed | AssistantSaid, recorded: Recorded
    ) -> None:
        state = self.state
        match event:
            case SpendReserved(child=child) if child:
                pass  # in the child's own journal
            case SpendReserved():
                self._reserve(event, recorded)
            case SpendSettled():
                held = state.open.get(f"spend {event.spend}")
                failure = held.attributes.get("error.type", "failed") if held else ""
                error = str(failure) if event.is_failed else ""
                if held is not None and not error:
                    held.attributes.pop("error.type", None)  # an attempt failed, a later one did not
                self._close("spend", event.spend, recorded, describe.settled(event), error=error)
            case RequestFailed():
                self._fail(event, recorded)
            case AssistantSaid():
                state.asked |= {each.call: each.name[:_MOST_NAME] for each in event.calls}
                if self._has_content:
                    state.arguments |= {each.call: content.cut(each.arguments) for each in event.calls}
                self._reply(event, recorded)

    def _reserve(self, event: SpendReserved, recorded: Recorded) -> None:
        if event.source == STEP:
            self._close_step(recorded)
            self._open("step", "", "step", recorded, {})
        attributes: Attributes = {describe.SOURCE: event.source}
        if event.source == CALL:  # what a call costs, beside its own span
            self._open("spend", event.spend, "paid call", recorded, attributes)
            return
        names = model_names(event.model or self.state.model)
        operation = (
            "invoke_agent" if event.source == ENGINE else "chat"
        )  # an outside agent, with its own model
        attributes |= {"gen_ai.operation.name": operation, **names.attributes()}
        opened = self._open("spend", event.spend, f"{operation} {names.model}", recorded, attributes)
        opened.is_client = True

    def _fail(self, event: RequestFailed, recorded: Recorded) -> None:
        """Belongs to the request that began last."""
        spends = [each for name, each in self.state.open.items() if name.startswith("spend ")]
        attributes: Attributes = {"error.type": event.error, "mainspring.attempt": event.attempt}
        if self._has_content:
            attributes["exception.message"] = content.cut(event.message)
        for each in spends[-1:]:
            each.attributes["error.type"] = event.error
            _add(each, SpanEvent("request failed", recorded.time_us, attributes))

    def _reply(self, event: AssistantSaid, recorded: Recorded) -> None:
        step = self.state.open.get("step ")
        if step is None:
            return
        step.touched_us = recorded.time_us
        step.attributes |= {"mainspring.step": event.step, "mainspring.stop": event.stop}
        if self._has_content:
            step.attributes["gen_ai.output.messages"] = content.said_by_model(event)

    def _take_work(self, event: Event, recorded: Recorded) -> None:
        opened, close = self._open, partial(self._close, recorded=recorded)
        match event:
            case CallStarted(call=call, tool=tool):
                self._start_call(call, tool, recorded)
            case CallEnded():
                self._end_call(event, recorded)
            case ApprovalAsked(call=call, tool=tool):
                opened("ask", call, f"approval {tool}", recorded, describe.asked(event))
            case ApprovalGiven(call=call):
                close("ask", call, more=describe.answered(event))
            case WaitStarted(wait=wait):
                self._close("wait", wait, recorded)  # said again: its conditions have changed
                opened("wait", wait, "wait", recorded, describe.wait(event))
            case WaitEnded(wait=wait, cause=cause):
                close("wait", wait, more={"mainspring.wait.cause": cause})
            case ChildStarted():
                self._start_child(event, recorded)
            case ChildEnded(child=child):
                error = event.state if event.state in ("failed", "lost") else ""
                close("child", child, more=describe.child_ended(event), error=error)
            case _:
                pass

    def _start_call(self, call: str, tool: str, recorded: Recorded) -> None:
        attributes: Attributes = {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": tool,
            "gen_ai.tool.call.id": call,
            "gen_ai.tool.type": "function",
            "mainspring.call.is_started": True,
        }
        if arguments := self.state.arguments.pop(call, ""):
            attributes["gen_ai.tool.call.arguments"] = arguments
        self._open("call", call, f"execute_tool {tool}", recorded, attributes)

    def _end_call(self, event: CallEnded, recorded: Recorded) -> None:
        state = self.state
        name = state.asked.pop(event.call, "")
        if f"call {event.call}" not in state.open:
            if not name:
                return
            self._start_call(event.call, name, recorded)  # refused, or not valid: it never began
            state.open[f"call {event.call}"].attributes["mainspring.call.is_started"] = False
        if (step := state.open.get("step ")) is not None:
            step.touched_us = recorded.time_us
        error = event.outcome if event.is_error else ""
        more = describe.call_ended(event)
        if self._has_content:
            more["gen_ai.tool.call.result"] = content.cut(event.output)
        self._close("call", event.call, recorded, more, error=error)

    def _start_child(self, event: ChildStarted, recorded: Recorded) -> None:
        above = event.call and self.state.open.get(f"call {event.call}")
        name = f"invoke_agent {event.agent or 'agent'}"
        opened = self._open("child", event.child, name, recorded, describe.child_started(event))
        opened.key = child_key(event.child)
        opened.links.append(SpanLink(event.child, ROOT, "agent"))
        if above:
            opened.parent = above.key

    def _open(self, kind: Kind, id_: str, name: str, recorded: Recorded, attributes: Attributes) -> OpenSpan:
        state = self.state
        named: Attributes = {**attributes, "gen_ai.conversation.id": state.session}
        opened = OpenSpan(
            # A step begins with the same event as its request.
            key=f"{recorded.seq} step" if kind == "step" else str(recorded.seq),
            parent=self._above(kind),
            name=name,
            start_us=recorded.time_us,
            attributes=named,
        )
        state.open[f"{kind} {id_}"] = opened
        return opened

    def _above(self, kind: Kind) -> str:
        """The key of what a new span of a kind is below."""
        levels: dict[str, tuple[str, ...]] = {
            "iteration": (),
            "turn": ("iteration ",),
            "step": ("turn ", "iteration "),
            "wait": ("turn ", "iteration "),
        }
        for name in levels.get(kind, ("step ", "turn ", "iteration ")):
            if name in self.state.open:
                return self.state.open[name].key
        return ROOT

    def _close_step(self, recorded: Recorded) -> None:
        step = self.state.open.get("step ")
        if step is not None:
            self._close("step", "", recorded, end_us=step.touched_us or recorded.time_us)

    def _close(
        self,
        kind: Kind,
        id_: str,
        recorded: Recorded,
        more: Attributes | None = None,
        *,
        error: str = "",
        end_us: int = 0,
    ) -> None:
        opened = self.state.open.pop(f"{kind} {id_}", None)
        if opened is not None:
            opened.attributes |= more or {}
            self._ended.append(
                opened.ended(self.state.session, recorded.seq, end_us or recorded.time_us, error)
            )

    def _happen(self, name: str, recorded: Recorded, attributes: Attributes) -> None:
        """Adds a moment to the turn, when one is open."""
        if (turn := self.state.open.get("turn ")) is not None:
            _add(turn, SpanEvent(name, recorded.time_us, attributes))


def _add(opened: OpenSpan, event: SpanEvent) -> None:
    if len(opened.events) < _MOST_EVENTS:
        opened.events.append(event)
