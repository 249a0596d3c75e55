"""Whether a call may run, must be asked, or is refused: the words, and what each mode says by itself.

A `Policy` is a pure function of what is proposed. `ModePolicy` knows only the mode; `policy.LayeredPolicy`
puts rules, grants and the built-in dangers on top of it, in a module of its own that loads a shell parser.
Paths are compared as text: whoever proposes a call has resolved symlinks before. The sandbox is the guard;
this is comfort on top of it.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Mapping
from typing import Any, Literal, Protocol

import msgspec

from mainspring.errors import ConfigError
from mainspring.events import ApprovalAsked, AskedScript, BlockedBy, CapScope, Offer, Quorum

Answer = Literal["allow", "ask", "deny"]
"""Ordered from mild to strict; `ask` means that only a person can say yes."""

Effect = Literal["none", "read", "write", "execute", "network", "other"]
"""What a call does to the world; `none` is bookkeeping of our own (plans, notes, questions)."""

Mode = Literal["plan", "ask", "edits", "auto", "yolo"]

MODES: dict[Mode, str] = {
    "plan": "read only",
    "ask": "reads are free, everything else is asked",
    "edits": "edits in the workspace are free, commands are asked",
    "auto": "free inside the sandbox, asked outside it",
    "yolo": "everything is free within a budget",
}

LEVELS: dict[str, Mode] = {
    "L0": "plan",
    "L1": "ask",
    "L2": "edits",
    "L3": "auto",
    "L4": "auto",
    "L5": "yolo",
}
"""Levels of autonomy. L4 is `auto` with money: like L5 it needs a cap, and spends within it unasked."""

LEVELS_WITH_BUDGET = frozenset({"L4", "L5"})


class Allowance(msgspec.Struct, frozen=True):
    """What may be spent unasked: the cap that leaves the least, what it leaves, and what it holds for."""

    cap_usd: float
    left_usd: float
    scope: CapScope | None = None


class Proposed(msgspec.Struct, frozen=True, kw_only=True):
    """A call before it runs.

    `cost_usd` is an estimate, and None when the price is unknown. `is_contained` says that the sandbox
    in use confines this call to the workspace. `is_recurring` says that it takes effect later or again.
    With `is_exact` a yes is for these very arguments and no others. `allowance` is what the caps leave for
    it, where somebody counts.
    """

    tool: str
    effect: Effect
    arguments: Mapping[str, Any] = {}
    paths: tuple[str, ...] = ()
    command: str = ""
    hosts: tuple[str, ...] = ()
    cost_usd: float | None = 0.0
    workspace: str = ""
    cwd: str = ""
    session: str = ""
    is_contained: bool = False
    is_recurring: bool = False
    is_exact: bool = False
    allowance: Allowance | None = None


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """What was said about one part of a call: a simple command, a path, a host, or the call itself.
    `offer` is the grant that would lift an `ask`; None when only one for the very call would."""

    subject: str
    answer: Answer
    reason: str
    rule: str
    argv: tuple[str, ...] = ()
    accepts: tuple[str, ...] = ()
    offer: Offer | None = None
    script: AskedScript | None = None
    blocked_by: BlockedBy = ""


class Judgement(msgspec.Struct, frozen=True, kw_only=True):
    """The answer, one sentence for it, the rule that gave it and the kind of that, every part that was
    judged, what the price was compared with, and whose yes it takes where a person is asked."""

    answer: Answer
    reason: str
    rule: str
    findings: tuple[Finding, ...] = ()
    blocked_by: BlockedBy = ""
    allowance: Allowance | None = None
    quorums: tuple[Quorum, ...] = ()

    @property
    def offers(self) -> tuple[Offer, ...]:
        """The grants that would together lift this `ask`; none when only one for the very call would."""
        offers = [finding.offer for finding in self.findings if finding.answer == "ask"]
        return tuple(dict.fromkeys(offer for offer in offers if offer)) if all(offers) else ()

    @property
    def scripts(self) -> tuple[AskedScript, ...]:
        """The scripts that this `ask` is about."""
        scripts = [finding.script for finding in self.findings if finding.answer == "ask"]
        return tuple(dict.fromkeys(script for script in scripts if script))


class Policy(Protocol):
    """Judges calls before they run: allow, ask a person, or deny, with a reason."""

    def judge(self, proposed: Proposed) -> Judgement: ...


_NOT_FREE: dict[BlockedBy, str] = {
    "recurring": "scheduled and recurring effects always need a person",
    "unknown_price": "its price is unknown",
    "invalid_price": "its price makes no sense",
    "over_cap": "it may cost more than is left",
    "no_cap": "it costs money, and there is no budget",
}
_IN_SCOPE: dict[CapScope | None, str] = {
    "turn": " in this turn",
    "session": " in this session",
    "goal": " for this goal",
    "day": " today",
}


def why_asked(question: ApprovalAsked) -> str:
    """Why a person is asked, with the money that it is about."""
    money: list[str] = []
    if question.estimate_usd is not None:
        money.append(f"it may cost {question.estimate_usd:.2f} USD")
    if question.remaining_usd is not None and question.cap_usd is not None:
        where = _IN_SCOPE.get(question.cap_scope, "")
        money.append(f"{question.remaining_usd:.2f} of {question.cap_usd:.2f} USD are left{where}")
    return f"{question.reason} ({', '.join(money)})" if money else question.reason


class ModePolicy:
    """What a mode says when no rule and no grant says anything."""

    def __init__(self, mode: Mode, *, max_cost_usd: float | None = None) -> None:
        if mode not in MODES:
            raise ConfigError(f"There is no mode {mode!r}.", remedy=f"Use one of {', '.join(MODES)}.")
        if max_cost_usd is not None and not 0 < max_cost_usd < float("inf"):
            raise ConfigError("A budget must be more than 0 USD and finite.", remedy="Set a number like 5.0.")
        if mode == "yolo" and max_cost_usd is None:
            raise ConfigError(
                "The mode yolo runs everything without asking, so it needs a cost limit.",
                remedy="Set one in USD: --max-cost-usd 5.",
            )
        self.mode: Mode = mode
        self.max_cost_usd = max_cost_usd

    def judge(self, proposed: Proposed) -> Judgement:
        verdict = strictest((self._of_effect(proposed), self._of_money(proposed)))
        return msgspec.structs.replace(verdict, allowance=self.allowance(proposed))

    def _of_effect(self, proposed: Proposed) -> Judgement:
        if proposed.effect in ("none", "read"):
            return self._says("allow", "reading changes nothing")
        match self.mode:
            case "plan":
                return self._says("deny", f"plan mode only reads, and {proposed.tool} does more than read")
            case "ask":
                return self._says("ask", f"{proposed.tool} does more than read")
            case "edits":
                if proposed.effect == "write" and is_workspace_edit(proposed):
                    return self._says("allow", "edits in the workspace are free")
                return self._says("ask", f"{proposed.tool} does more than edit the workspace")
            case "auto":
                if proposed.is_contained:
                    return self._says("allow", "the sandbox contains it")
                return self._says("ask", f"the sandbox does not contain {proposed.tool}")
            case "yolo":
                return self._says("allow", "everything is free within the budget")

    def _of_money(self, proposed: Proposed) -> Judgement:
        if blocked_by := self.why_not_free(proposed):
            return self._says("ask", _NOT_FREE[blocked_by], blocked_by)
        return self._says("allow", "it costs nothing unforeseen")

    def allowance(self, proposed: Proposed) -> Allowance | None:
        """What this call may cost unasked: what the caps leave, where somebody counts, else the budget."""
        if proposed.allowance is None and self.max_cost_usd is not None:
            return Allowance(self.max_cost_usd, self.max_cost_usd)
        return proposed.allowance

    def why_not_free(self, proposed: Proposed) -> BlockedBy:
        """Why this call needs a person for what it costs or repeats; empty when it does not."""
        if proposed.is_recurring:
            return "recurring"
        if proposed.cost_usd is None:
            return "unknown_price"
        if not proposed.cost_usd >= 0:
            return "invalid_price"
        allowance = self.allowance(proposed)
        if proposed.cost_usd > (max(allowance.left_usd, 0.0) if allowance else 0.0):
            return "over_cap" if allowance else "no_cap"
        return ""

    def _says(self, answer: Answer, reason: str, blocked_by: BlockedBy = "mode") -> Judgement:
        blocked_by = "" if answer == "allow" else blocked_by
        return Judgement(answer=answer, reason=reason, rule=f"mode:{self.mode}", blocked_by=blocked_by)


def by_level(level: str, *, max_cost_usd: float | None = None) -> ModePolicy:
    """The policy of a level of autonomy, L0 to L5."""
    mode = LEVELS.get(level)
    if mode is None:
        raise ConfigError(f"There is no level {level!r}.", remedy="Use L0 to L5.")
    if level in LEVELS_WITH_BUDGET and max_cost_usd is None:
        raise ConfigError(
            f"{level} spends money without asking, so it needs a cost limit.",
            remedy="Set one in USD: --max-cost-usd 5.",
        )
    return ModePolicy(mode, max_cost_usd=max_cost_usd)


_STRICTNESS: dict[Answer, int] = {"allow": 0, "ask": 1, "deny": 2}


def strictness(answer: Answer) -> int:
    return _STRICTNESS[answer]


def strictest(verdicts: Iterable[Judgement]) -> Judgement:
    """The strictest of several, the first of equals."""
    return max(verdicts, key=lambda verdict: _STRICTNESS[verdict.answer])


def absolute(path: str, *, cwd: str) -> str:
    """The path as text from the root, without `.` and `..`."""
    joined = posixpath.normpath(posixpath.join(cwd or "/", path))
    return "/" + joined.lstrip("/")


def is_inside(path: str, folder: str) -> bool:
    """Whether an absolute path is the folder or lies in it."""
    root = absolute(folder, cwd="/")
    return bool(folder) and (path == root or path.startswith(root.rstrip("/") + "/"))


def is_workspace_edit(proposed: Proposed) -> bool:
    """Whether a call names what it touches, and all of that lies in the workspace."""
    cwd = proposed.cwd or proposed.workspace
    return bool(proposed.paths) and all(
        is_inside(absolute(path, cwd=cwd), proposed.workspace) for path in proposed.paths
    )
