"""Journals told in a few words."""

from __future__ import annotations

from typing import Any

import msgspec

from mainspring.events import (
    AssistantSaid,
    CallAsked,
    CallEnded,
    CallStarted,
    Event,
    Outcome,
    PlanItem,
    PlanSet,
    Progress,
    Recorded,
    Stop,
    Text,
    TurnStarted,
    UserSaid,
)


class Tale:
    """Events in order. `on` takes each as it comes."""

    def __init__(self, *folds: Any) -> None:
        self.folds = folds
        self.events: list[Recorded] = []
        self.steps = 0

    def add(self, *events: Event) -> None:
        for event in events:
            recorded = Recorded(len(self.events) + 1, 1_000_000 * len(self.events), event)
            self.events.append(recorded)
            for fold in self.folds:
                fold.apply(recorded)

    def user(self, text: str = "Fix the bug.") -> None:
        self.add(UserSaid(text=text), TurnStarted(turn=1))

    def step(self, *calls: tuple[str, Any, str], text: str = "", stop: Stop | None = None) -> None:
        """One reply and the results of its calls: (tool, arguments, output)."""
        self.steps += 1
        asked = [
            CallAsked(
                call=f"c{self.steps:05}{index:03}",
                name=name,
                arguments=arguments
                if isinstance(arguments, str)
                else msgspec.json.encode(arguments).decode(),
            )
            for index, (name, arguments, _) in enumerate(calls)
        ]
        parts = ((Text(text=text),) if text else ()) + tuple(asked)
        self.add(AssistantSaid(step=self.steps, parts=parts, stop=stop or ("calls" if calls else "end")))
        for call, (name, _, output) in zip(asked, calls, strict=True):
            self.result(call.call, name, output)

    def result(self, call: str, name: str, output: str) -> None:
        outcome: Outcome = "ok"
        if output.startswith("!"):
            self.add(CallEnded(call=call, outcome="error", output=output))
            return
        exit_code = None
        if output.startswith("exit code "):
            exit_code = int(output.split()[2])
            outcome = "error" if exit_code else "ok"
        self.add(
            CallStarted(call=call, tool=name),
            CallEnded(call=call, outcome=outcome, output=output, exit_code=exit_code),
        )


def plan_set(*items: tuple[str, Progress]) -> PlanSet:
    return PlanSet(items=tuple(PlanItem(text=text, progress=progress) for text, progress in items))
