"""The claims of a derivation as a graph: folded from the journal, closed only by checks that ran.

What an agent writes is a statement, what it stands on, and a check; it may call a claim assumed or refuted,
never proved. A proof holds for the statement, the check and the statements below it that were checked.
Refuting a claim takes the proofs of all that stand on it. Pure; `evidence/claim_checks.py` runs the checks.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from mainspring.events import Claim, ClaimChecked, ClaimsRead, ClaimStatus, Event

_Definition = tuple[str, str, tuple[tuple[str, str], ...]]


class Checked(msgspec.Struct, frozen=True):
    """The newest check of a claim, and what the claim was when it ran."""

    event: ClaimChecked
    definition: _Definition


class Claims:
    """The fold."""

    def __init__(self) -> None:
        self._claims: dict[str, Claim] = {}
        self._checked: dict[str, Checked] = {}
        self.problems: tuple[str, ...] = ()
        self.is_read = False
        self._is_unreadable = False

    @property
    def all(self) -> Mapping[str, Claim]:
        """The claims as they are written down."""
        return self._claims

    def apply(self, event: Event) -> None:
        match event:
            case ClaimsRead():
                self._read(event)
            case ClaimChecked():
                self._take(event)
            case _:
                pass

    def status(self, name: str) -> ClaimStatus:
        """What a claim is now. A claim that stands on a refuted one is open, whatever its check said."""
        claim = self._claims.get(name)
        if claim is None:
            return "open"
        if self._is_refuted(name):
            return "refuted"
        checked = self.checked(name)
        if checked is not None and checked.status == "proved" and not self.refuted_below(name):
            return "proved"
        return "assumed" if claim.status == "assumed" else "open"

    def checked(self, name: str) -> ClaimChecked | None:
        """The newest check of a claim as it is written now; None when it was changed since."""
        found = self._checked.get(name)
        if found is None or found.definition != self.definition(name):
            return None
        return found.event

    def definition(self, name: str) -> _Definition:
        """What a check of a claim is about: its statement, its check, and the statements below it."""
        claim = self._claims[name]
        below = (
            (dep, self._claims[dep].statement if dep in self._claims else "") for dep in claim.depends_on
        )
        return claim.statement, claim.check, tuple(sorted(below))

    def dependents(self, name: str) -> tuple[str, ...]:
        """Every other claim that stands on this one, directly or not."""
        found: dict[str, None] = {}
        todo = [name]
        while todo:
            below = todo.pop()
            for above, claim in self._claims.items():
                if below in claim.depends_on and above not in found and above != name:
                    found[above] = None
                    todo.append(above)
        return tuple(found)

    def path(self) -> tuple[str, ...]:
        """The claims that the goal stands on, itself included, each after those that it stands on. Names of
        claims that do not exist are among them."""
        return in_order(self._claims, [name for name, claim in self._claims.items() if claim.is_goal])

    def refuted_below(self, name: str) -> str:
        """A refuted claim that this one stands on; empty when there is none."""
        names = in_order(self._claims, [name])
        return next((below for below in names if below != name and self._is_refuted(below)), "")

    def missing(self) -> tuple[str, ...]:
        """What on the path to the goal is not closed by a check that ran; nothing when the goal is proved."""
        if not self.is_read:
            return ("the claims were not read yet",)
        if not any(claim.is_goal for claim in self._claims.values()):
            return (*self.problems, "no claim is marked `goal = true`")
        path = self.path()
        lines = [self._missing(name) for name in path]
        circles = [
            f"{' → '.join(circle)} is a circle, which proves nothing"
            for circle in cycles(self._claims)
            if set(circle) & set(path)
        ]
        return tuple(filter(None, (*self.unreadable, *circles, *lines)))

    @property
    def unreadable(self) -> tuple[str, ...]:
        """Why the file could not be read at all the last time; the claims are then those from before."""
        return self.problems if self._is_unreadable else ()

    def _is_refuted(self, name: str) -> bool:
        claim = self._claims.get(name)
        if claim is None:
            return False
        checked = self.checked(name)
        return claim.status == "refuted" or (checked is not None and checked.status == "refuted")

    def _missing(self, name: str) -> str:
        claim = self._claims.get(name)
        if claim is None:
            return f"{name} is not there, and a claim stands on it"
        if not claim.statement:
            return f"{name} has no statement"
        status = self.status(name)
        match status:
            case "proved":
                return ""
            case "assumed":
                return f"{name} is assumed, not proved"
            case "refuted":
                return f"{name} is refuted"
            case "open":
                return f"{name} {self._why_open(claim)}"

    def _why_open(self, claim: Claim) -> str:
        if not claim.check:
            return "has no check"
        if below := self.refuted_below(claim.name):
            return f"is open: it stands on {below}, which is refuted"
        checked = self.checked(claim.name)
        return f"is open: {checked.detail if checked else 'its check has not run'}"

    def _read(self, event: ClaimsRead) -> None:
        self.problems = event.problems
        self._is_unreadable = bool(event.problems) and not event.claims
        self.is_read = True
        if self._is_unreadable:
            return
        before = {name for name, claim in self._claims.items() if claim.status == "refuted"}
        self._claims = {claim.name: claim for claim in event.claims}
        self._checked = {name: found for name, found in self._checked.items() if name in self._claims}
        for name, claim in self._claims.items():
            if claim.status == "refuted" and name not in before:
                self._reopen(name)

    def _take(self, event: ClaimChecked) -> None:
        if event.claim not in self._claims:
            return
        is_proof = event.status == "proved" and event.exit_code == 0
        status = event.status if event.status != "proved" or is_proof else "open"
        kept = msgspec.structs.replace(event, status=status)
        self._checked[event.claim] = Checked(kept, self.definition(event.claim))
        if status == "refuted":
            self._reopen(event.claim)

    def _reopen(self, name: str) -> None:
        for above in self.dependents(name):
            checked = self._checked.get(above)
            if checked is not None and checked.event.status == "proved":
                del self._checked[above]


def in_order(claims: Mapping[str, Claim], names: Iterable[str]) -> tuple[str, ...]:
    """These claims and all that they stand on, each after what it stands on where there is no circle."""
    order: dict[str, None] = {}
    entered: set[str] = set()
    todo = [(name, False) for name in reversed(list(names))]
    while todo:
        name, is_left = todo.pop()
        if is_left:
            order[name] = None
        elif name not in entered:
            entered.add(name)
            todo.append((name, True))
            claim = claims.get(name)
            todo += [(below, False) for below in reversed(claim.depends_on if claim else ())]
    return tuple(order)


def cycles(claims: Mapping[str, Claim]) -> list[tuple[str, ...]]:
    """Circles of claims that stand on each other; of those that share a claim, one."""
    found: list[tuple[str, ...]] = []
    done: set[str] = set()
    for start in claims:
        trail: dict[str, None] = {}
        todo = [(start, False)]
        while todo:
            name, is_left = todo.pop()
            if is_left:
                trail.pop(name)
                done.add(name)
            elif name in trail:
                names = list(trail)
                found.append((*names[names.index(name) :], name))
            elif name not in done and name in claims:
                trail[name] = None
                todo.append((name, True))
                todo += [(below, False) for below in claims[name].depends_on]
    return found
