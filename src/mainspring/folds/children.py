"""The children of a session, folded from its journal: which are at work, and how those of this turn ended."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from mainspring.events import ChildEnded, ChildStarted, TurnStarted


class Children(msgspec.Struct, frozen=True):
    """`open` have no end on record, in the order in which they began; `ended` did so since the last turn
    began. `calls` are those that asked for one of either."""

    open: Mapping[str, ChildStarted] = {}
    ended: Mapping[str, ChildEnded] = {}
    calls: Mapping[str, ChildStarted] = {}

    def after(self, event: ChildStarted | ChildEnded | TurnStarted) -> Children:
        """The children once this was recorded."""
        match event:
            case ChildStarted():
                return Children(
                    {**self.open, event.child: event}, self.ended, {**self.calls, event.call: event}
                )
            case ChildEnded():
                still = {child: each for child, each in self.open.items() if child != event.child}
                return Children(still, {**self.ended, event.child: event}, self.calls)
            case TurnStarted():
                return Children(self.open, {}, {each.call: each for each in self.open.values()})
