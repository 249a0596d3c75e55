"""The policy in use: built-in dangers, the user's rules, the project's rules, grants, and the mode last.

A call is taken into parts (each simple command, redirection, path and host); every part is judged, and the
strictest answer is the call's. A deny always wins. An allow, by rule or grant, covers a danger only when it
names it. The project's file is laid over the rest and can only make an answer stricter. Pure.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterable

import msgspec

from mainspring.approvals import (
    Answer,
    Finding,
    Judgement,
    ModePolicy,
    Proposed,
    absolute,
    strictness,
)
from mainspring.approvals.dangerous import DANGERS, of_command, of_path, of_redirect
from mainspring.approvals.grants import Grant, arguments_sha256, scripts_sha256
from mainspring.approvals.places import PathLocation, cwds_of
from mainspring.approvals.rules import Rule, Rules, Subject, accepted, first, fits
from mainspring.approvals.scripts import NamedScript, scripts_of, since
from mainspring.approvals.shell import SimpleCommand, read
from mainspring.events import AskedScript, BlockedBy, Offer


class _Part(msgspec.Struct, frozen=True):
    """A subject of rules together with the built-in dangers found in it."""

    subject: Subject
    dangers: frozenset[str] = frozenset()
    script: AskedScript | None = None


def _no_grants(proposed: Proposed) -> Iterable[Grant]:
    del proposed
    return ()


class LayeredPolicy:
    """`grants` gives those live for a call; it is asked anew each time, so a revocation counts at once.
    `scripts` reads the scripts that a command names, in a workspace."""

    def __init__(
        self,
        mode: ModePolicy,
        *,
        home: str,
        user: Rules | None = None,
        project: Rules | None = None,
        grants: Callable[[Proposed], Iterable[Grant]] = _no_grants,
        scripts: Callable[[Iterable[NamedScript], str], AskedScript | None] = lambda _named, _workspace: None,
    ) -> None:
        self.mode = mode
        self._home = home
        self._user = user or Rules("user")
        self._project = project or Rules("project")
        self._grants = grants
        self._scripts = scripts

    def judge(self, proposed: Proposed) -> Judgement:
        grants = tuple(self._grants(proposed))
        parts = self._parts(proposed)
        sha256 = scripts_sha256(part.script for part in parts if part.script)
        exact = next((grant for grant in grants if _is_exactly(grant, proposed, sha256)), None)
        judged = [(part, self._judge_part(part, proposed, grants, exact)) for part in parts]
        findings = tuple(finding for part, finding in judged if not _is_idle(part, finding))
        worst = max(findings, key=lambda finding: strictness(finding.answer))
        return Judgement(
            answer=worst.answer,
            reason=worst.reason,
            rule=worst.rule,
            findings=findings,
            blocked_by=worst.blocked_by,
            allowance=self.mode.allowance(proposed),
        )

    def _parts(self, proposed: Proposed) -> list[_Part]:
        parts = self._of_shell(proposed) if proposed.command else []
        cwd = proposed.cwd or proposed.workspace
        is_write = proposed.effect not in ("none", "read")
        for path in proposed.paths:
            full = absolute(path, cwd=cwd)
            subject = _subject(proposed, text=path, paths=(full,))
            parts.append(_Part(subject, frozenset(of_path(full, is_write=is_write))))
        parts.extend(_Part(_subject(proposed, text=host, host=host)) for host in proposed.hosts)
        return parts or [_Part(_subject(proposed, text=proposed.tool))]

    def _of_shell(self, proposed: Proposed) -> list[_Part]:
        script = read(proposed.command)
        cwd = proposed.cwd or proposed.workspace
        cwds = cwds_of((each.argv for each in script.commands), cwd=cwd, home=self._home)
        place = PathLocation(workspace=proposed.workspace, cwds=cwds, home=self._home)
        parts = [self._of_command(each, proposed, place) for each in script.commands]
        for each in script.redirects:
            subject = _subject(proposed, text=each.target.text, paths=place.paths(each.target))
            subject = msgspec.structs.replace(subject, effect="write" if each.is_write else "read")
            parts.append(_Part(subject, frozenset(of_redirect(each, place))))
        for danger, reasons in (("opaque", script.opaque), ("unreadable", script.unreadable)):
            for why in reasons:
                subject = msgspec.structs.replace(_subject(proposed, text=why), is_opaque=True)
                parts.append(_Part(subject, frozenset({danger})))
        return parts

    def _of_command(self, simple: SimpleCommand, proposed: Proposed, place: PathLocation) -> _Part:
        named = scripts_of(simple.argv, place)
        if simple.is_guess:
            named = tuple(msgspec.structs.replace(each, is_needed=False) for each in named)
        return _Part(
            _subject(proposed, text=simple.text, simple=simple),
            frozenset(of_command(simple, place)),
            self._scripts(named, proposed.workspace) if named else None,
        )

    def _judge_part(
        self, part: _Part, proposed: Proposed, grants: tuple[Grant, ...], exact: Grant | None
    ) -> Finding:
        """The strictest of: built-in denials, the user's side, the project's rules."""
        findings = [self._by_user(part, proposed, grants), *self._by_project(part, proposed)]
        findings += [
            _finding(part, "deny", DANGERS[name].reason, f"builtin:{name}", blocked_by="danger")
            for name in sorted(part.dangers)
            if DANGERS[name].answer == "deny"
        ]
        worst = max(findings, key=lambda finding: strictness(finding.answer))
        if worst.answer == "ask" and exact is not None and not proposed.is_recurring:
            return _finding(part, "allow", "a person allowed this very call", f"grant:{exact.id}")
        if part.script is None or worst.answer != "ask":
            return worst
        before = [grant for grant in reversed(grants) if self._covers(grant, part, proposed)]
        diff = since(part.script, (grant.script_text for grant in before))
        reason = "the script changed since it was allowed" if diff else worst.reason
        script = msgspec.structs.replace(part.script, diff=diff)
        return msgspec.structs.replace(worst, script=script, reason=reason)

    def _by_project(self, part: _Part, proposed: Proposed) -> list[Finding]:
        rule, label, match = first(self._project, part.subject, workspace=proposed.workspace, home=self._home)
        if rule is None or rule.answer == "allow":
            return []
        return [_by_rule(part, rule, label, is_sure=match == "yes")]

    def _by_user(self, part: _Part, proposed: Proposed, grants: tuple[Grant, ...]) -> Finding:
        by_mode = self._by_mode(part, proposed)
        if by_mode.answer == "deny":
            return by_mode
        rule, label, match = first(self._user, part.subject, workspace=proposed.workspace, home=self._home)
        if rule is not None and rule.answer != "allow":
            return _by_rule(part, rule, label, is_sure=match == "yes")
        allowed = [(rule.reason or "a rule allows it", label, accepted(rule))] if rule is not None else []
        is_free = not self.mode.why_not_free(proposed)
        is_priced = rule is not None and rule.cost_up_to_usd is not None
        if is_priced and proposed.allowance is None and not proposed.is_recurring:
            is_free = True
        allowed += [
            ("a person allowed it", f"grant:{grant.id}", grant.accepts)
            for grant in grants
            if not grant.arguments_sha256 and _is_same(grant, part) and self._covers(grant, part, proposed)
        ]
        for reason, source, accepts in allowed:
            if is_free and not self._holding(part, proposed, accepts):
                return _finding(part, "allow", reason, source)
        return by_mode

    def _by_mode(self, part: _Part, proposed: Proposed) -> Finding:
        """What the mode says to this part, and the dangers that it does not take on itself."""
        subject = part.subject
        paths = proposed.paths if subject.simple or not subject.paths else _known(subject.paths)
        verdict = self.mode.judge(msgspec.structs.replace(proposed, effect=subject.effect, paths=paths))
        held = self._holding(part, proposed, ())
        if verdict.answer != "deny" and held:
            reason = DANGERS[held[0]].reason
            if subject.is_opaque:
                reason = f"{reason}: {subject.text}"
            found = _finding(part, "ask", reason, f"builtin:{held[0]}", accepts=held, blocked_by="danger")
        else:
            found = _finding(
                part, verdict.answer, verdict.reason, verdict.rule, blocked_by=verdict.blocked_by
            )
        if found.answer != "ask" or self.mode.why_not_free(proposed):
            return found
        offer = None if proposed.is_exact else _offer(subject, accepts=found.accepts)
        if offer is not None and part.script is not None:
            offer = msgspec.structs.replace(offer, script_sha256=part.script.sha256)
        return msgspec.structs.replace(found, offer=offer)

    def _holding(self, part: _Part, proposed: Proposed, accepts: tuple[str, ...]) -> tuple[str, ...]:
        """The dangers that must be asked about here, the worst first.

        Even yolo asks when a line cannot be read, because a denial could hide in it.
        """
        if self.mode.mode == "yolo":
            return ("unreadable",) if "unreadable" in part.dangers and "unreadable" not in accepts else ()
        is_guarded = self.mode.mode == "auto" and proposed.is_contained
        return tuple(
            name
            for name, danger in DANGERS.items()
            if name in part.dangers and name not in accepts and (danger.holds_inside or not is_guarded)
        )

    def _covers(self, grant: Grant, part: _Part, proposed: Proposed) -> bool:
        rule = Rule(
            answer="allow",
            tool=grant.tool,
            command=grant.command,
            path=grant.path,
            host=grant.host,
            arguments=grant.arguments,
        )
        return (
            not proposed.is_exact
            and fits(rule, part.subject, workspace=proposed.workspace, home=self._home) == "yes"
        )


def _subject(
    proposed: Proposed,
    *,
    text: str,
    simple: SimpleCommand | None = None,
    paths: tuple[str | None, ...] = (),
    host: str = "",
) -> Subject:
    return Subject(
        tool=proposed.tool,
        effect=proposed.effect,
        text=text,
        cost_usd=proposed.cost_usd,
        simple=simple,
        paths=paths,
        host=host,
        arguments=proposed.arguments,
    )


def _is_idle(part: _Part, finding: Finding) -> bool:
    """Whether something that perhaps does not run is nothing to forbid: its wrapper is judged anyway."""
    is_guess = part.subject.simple is not None and part.subject.simple.is_guess
    return is_guess and finding.blocked_by not in ("danger", "rule")


def _known(paths: tuple[str | None, ...]) -> tuple[str, ...]:
    """The paths, or a place that is surely outside when one of them is not known."""
    return tuple("/" if path is None else path for path in paths)


def _is_exactly(grant: Grant, proposed: Proposed, scripts: str) -> bool:
    is_call = grant.tool == proposed.tool and grant.arguments_sha256 == arguments_sha256(proposed.arguments)
    return is_call and grant.script_sha256 in ("", scripts)


def _is_same(grant: Grant, part: _Part) -> bool:
    """Whether the script is still what it was; a grant without a hash is for the command alone."""
    return grant.script_sha256 in ("", part.script.sha256 if part.script else "")


def _by_rule(part: _Part, rule: Rule, label: str, *, is_sure: bool) -> Finding:
    if is_sure:
        reason = rule.reason or f"a rule says {rule.answer}"
        return _finding(part, rule.answer, reason, label, blocked_by="rule")
    reason = f"it may be what a rule means: {rule.reason or rule.command or rule.path}"
    return _finding(part, "ask", reason, label, blocked_by="rule")


def _offer(subject: Subject, *, accepts: tuple[str, ...]) -> Offer | None:
    """The narrowest grant that covers a subject; None when no pattern can say exactly this."""
    if subject.is_opaque:
        return None
    if subject.simple:
        argv = subject.simple.argv
        words = [re.sub(r"([*?[])", r"[\1]", word.text) for word in argv]
        is_sure = bool(argv) and all(word.is_plain for word in argv)
        return Offer(command=f"{shlex.join(words)} $", accepts=accepts) if is_sure else None
    if subject.paths:
        (path, *more) = subject.paths
        return None if path is None or more or re.search(r"[*?]", path) else Offer(path=path, accepts=accepts)
    return Offer(host=subject.host, accepts=accepts)


def _finding(
    part: _Part,
    answer: Answer,
    reason: str,
    rule: str,
    *,
    accepts: tuple[str, ...] = (),
    blocked_by: BlockedBy = "",
) -> Finding:
    argv = part.subject.simple.argv if part.subject.simple else ()
    return Finding(
        subject=part.subject.text,
        answer=answer,
        reason=reason,
        rule=rule,
        argv=tuple(word.text for word in argv),
        accepts=accepts,
        blocked_by=blocked_by,
    )
