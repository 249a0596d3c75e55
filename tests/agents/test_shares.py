"""Shares: whatever parents and children do, no cap of the tree is exceeded, and a share is really set aside."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from mainspring.agents.shares import limits_of, share_of
from mainspring.events import (
    CallStarted,
    ChildEnded,
    ChildStarted,
    Limits,
    SpendReserved,
    SpendSettled,
    TurnStarted,
    Usage,
)
from mainspring.folds.caps import cap_of
from mainspring.folds.ledger import Ledger, Refusal
from mainspring.models import Price

PRICE = Price(input=1.0, output=2.0)


@dataclass
class Node:
    limits: Limits
    ledger: Ledger = field(default_factory=Ledger)
    spends: int = 0

    def __post_init__(self) -> None:
        self.ledger.apply(TurnStarted(turn=1), 1)


class Tree:
    """A parent and its children, each with the ledger that its journal would give."""

    def __init__(self, limits: Limits) -> None:
        self.parent = Node(limits)
        self.children: dict[str, Node] = {}
        self.begun = 0

    def begin(self, beside: int) -> None:
        share = share_of(self.parent.ledger, self.parent.limits, beside=beside)
        if share is None:
            return
        self.begun += 1
        name, limits = f"k{self.begun}", limits_of(share, budget_usd=None, steps=None, tokens=None)
        self.parent.ledger.apply(ChildStarted(child=name, task="t", limits=limits), 2)
        self.children[name] = Node(limits)

    def spend(self, who: str, input_tokens: int, used: float) -> None:
        """One request, as `turns/spend.py` makes it: allowed, held and settled here and above."""
        node = self.children.get(who, self.parent)
        line = [(node, "")] if node is self.parent else [(node, ""), (self.parent, who)]
        outputs = [
            each.ledger.affordable_output(
                PRICE, input_tokens, each.limits, is_step=True, today=None, child=child
            )
            for each, child in line
        ]
        allowed = [each for each in outputs if not isinstance(each, Refusal)]
        if len(allowed) < len(outputs):
            return
        most = Usage(input_tokens=input_tokens, output_tokens=min(allowed))
        truly = Usage(input_tokens=input_tokens, output_tokens=int(most.output_tokens * used))
        node.spends += 1
        spend = f"{who}:{node.spends}"
        for each, child in line:
            each.ledger.hold(
                SpendReserved(spend=spend, tokens=most.total_tokens, usd=PRICE.cost_usd(most), child=child)
            )
        self.check()
        for each, _ in line:
            each.ledger.settle(SpendSettled(spend=spend, usage=truly, usd=PRICE.cost_usd(truly)))

    def call(self, who: str) -> None:
        node = self.children.get(who, self.parent)
        if node.ledger.refuse_calls(1, node.limits) is None:
            node.ledger.apply(CallStarted(call="c", tool="t"), 3)

    def end(self, who: str) -> None:
        if node := self.children.pop(who, None):
            calls = node.ledger.tally("session").calls
            self.parent.ledger.apply(ChildEnded(child=who, state="done", calls=calls), 4)

    def check(self) -> None:
        for node in (self.parent, *self.children.values()):
            cap, used = cap_of(node.limits, "session"), node.ledger.tally("session")
            assert cap.usd is None or used.usd <= cap.usd + 1e-9
            assert cap.tokens is None or used.tokens <= cap.tokens
        calls = [node.ledger.tally("session").calls for node in (self.parent, *self.children.values())]
        most = cap_of(self.parent.limits, "turn").calls
        assert most is None or sum(calls) <= most
        for child in self.children.values():  # what is set aside for it, the parent has left
            left = child.ledger.left(child.limits)
            above = self.parent.ledger.left(self.parent.limits)
            own = self.parent.ledger.tally("session")
            cap = cap_of(self.parent.limits, "session")
            assert cap.usd is None or (left.usd or 0.0) <= cap.usd - own.usd + 1e-9, above


_WHO = st.sampled_from(["", *(f"k{number}" for number in range(1, 6))])
_ACTS = st.lists(
    st.one_of(
        st.tuples(st.just("begin"), st.integers(0, 3)),
        st.tuples(st.just("spend"), _WHO, st.integers(1, 3000), st.floats(0, 1)),
        st.tuples(st.just("call"), _WHO),
        st.tuples(st.just("end"), _WHO),
    ),
    max_size=40,
)


@given(
    usd=st.one_of(st.none(), st.floats(0.0001, 1.0)),
    tokens=st.one_of(st.none(), st.integers(1000, 200_000)),
    calls=st.one_of(st.none(), st.integers(1, 20)),
    acts=_ACTS,
)
def test_the_caps_of_a_tree_are_never_exceeded(usd, tokens, calls, acts):
    tree = Tree(Limits(max_cost_usd=usd, max_tokens=tokens, max_calls=calls))
    for name, *given_to in acts:
        getattr(tree, name)(*given_to)
        tree.check()


def test_a_share_leaves_the_parent_enough_to_report():
    ledger = Node(Limits()).ledger
    limits = Limits(max_cost_usd=1.0, max_tokens=100_000, max_calls=10)
    for beside in (3, 2, 1, 0):
        share = share_of(ledger, limits, beside=beside)
        assert share
        own = limits_of(share, budget_usd=None, steps=None, tokens=None)
        ledger.apply(ChildStarted(child=f"k{beside}", task="t", limits=own), 2)
    left = ledger.left(limits)
    assert left.usd is not None
    assert left.usd >= 0.2
    assert left.tokens is not None
    assert left.tokens >= 20_000
