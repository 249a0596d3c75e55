"""The one way to a yes: whoever wants to do something for an agent or a program asks `permit` first.

It judges, asks a person where the policy says so, holds the answer against the question, runs what a person
edited through the policy again, keeps what was allowed for more than once, and sets the price aside. What
comes of it (events, sentences, the end of a turn) is told by the caller.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import Generic, Literal, Protocol, TypeVar

import msgspec

from mainspring.approvals import Allowance, Judgement, Policy, Proposed
from mainspring.approvals.answers import misfit
from mainspring.approvals.grants import Grant, arguments_sha256, grants_of
from mainspring.approvals.quorums import in_words
from mainspring.errors import UsageError
from mainspring.events import ApprovalAsked, ApprovalGiven, BlockedBy, Scope
from mainspring.secrets.redaction import redacted, redacted_arguments
from mainspring.secrets.vault import Vault

_Action = TypeVar("_Action")


class Vetted(msgspec.Struct, frozen=True, kw_only=True):
    """What a gate says to a call: nothing, ask a person in any case, no, or end the turn. `arguments` is what
    is to be run instead, judged as if it had been wanted."""

    answer: Literal["pass", "ask", "deny", "stop"] = "pass"
    reason: str = ""
    arguments: str | None = None


class Gate(Protocol):
    """What people put before calls besides the policy (hooks). It can only be stricter than the policy."""

    def concerns(self, proposed: Proposed) -> bool:
        """Whether it has anything to say to such a call."""
        ...

    async def vet_call(self, call: str, proposed: Proposed, arguments: str) -> Vetted:
        """What it says before a call runs; `arguments` are those of the call, without secrets, as JSON."""
        ...

    async def vet_question(self, call: str, proposed: Proposed, arguments: str) -> Vetted:
        """What it says before a person is asked about a call."""
        ...


class Asker(Protocol):
    """Who wants something: a turn, or a command without an agent."""

    @property
    def gate(self) -> Gate | None: ...

    @property
    def policy(self) -> Policy: ...

    @property
    def vault(self) -> Vault: ...

    @property
    def scopes(self) -> tuple[Scope, ...]:
        """How far a yes can reach here."""
        ...

    async def ask_person(self, question: ApprovalAsked) -> ApprovalGiven | None:
        """The recorded answer of a person, or None when there is nobody to ask."""
        ...

    async def grant(self, *grants: Grant) -> None:
        """Keeps what a person allowed for more than once."""
        ...


class Money(Protocol):
    """Where the prices of calls are set aside."""

    def left(self, call: str) -> AbstractAsyncContextManager[Allowance | None]:
        """What the caps leave for a call; until this ends nobody else can take it."""
        ...

    async def reserve(self, call: str, tool: str, usd: float | None) -> None:
        """Sets aside what a call may cost, once; None is an unknown price."""
        ...


class Wanted(msgspec.Struct, Generic[_Action], frozen=True, kw_only=True):
    """What somebody wants to do. `action` is what the caller runs if it may; `arguments` are shown to the
    person, those of `proposed` when empty. `about` begins the reason, `question` is what the agent itself
    asks a person, `asked` is the question about this call that is on record already, perhaps with other
    arguments."""

    call: str
    action: _Action
    proposed: Proposed
    arguments: str = ""
    is_priced: bool = False
    about: str = ""
    question: str = ""
    asked: ApprovalAsked | None = None


class Permitted(msgspec.Struct, Generic[_Action], frozen=True):
    """What may run, perhaps not what was wanted."""

    action: _Action
    reason: str
    edited_by: Literal["", "person", "hook"] = ""


class Refused(msgspec.Struct, frozen=True):
    """`by` says what refused it: a rule, a hook, a person, the clock, a new message, or an edit that is
    unusable."""

    by: Literal["rule", "hook", "person", "expired", "abandoned", "edit"]
    reason: str
    feedback: str = ""


class Blocked(msgspec.Struct, frozen=True):
    """Nobody is there to be asked; the question stays open."""

    question: ApprovalAsked


class Stopped(msgspec.Struct, frozen=True):
    """A person, or a hook, refused it and wants the turn to end."""

    feedback: str
    is_by_hook: bool = False


Edit = Callable[[str], Awaitable[Wanted[_Action] | str]]
"""What a person wants run instead, from the arguments that they typed; a sentence when that cannot be."""


async def permit(
    asker: Asker,
    wanted: Wanted[_Action],
    *,
    edit: Edit[_Action] | None = None,
    money: Money | None = None,
) -> Permitted[_Action] | Refused | Blocked | Stopped:
    """Without `edit` a person can only say yes or no to exactly this."""
    vetted = await _vetted(asker, wanted, edit)
    if isinstance(vetted, Refused | Stopped):
        return vetted
    verdict = await _judge(asker, vetted.wanted, money, must_ask=vetted.must_ask)
    if verdict.answer == "ask" and asker.gate is not None:
        before, vetted = vetted, await _vetted_question(asker, asker.gate, vetted, edit)
        if isinstance(vetted, Refused | Stopped):
            return vetted
        if vetted is not before:
            verdict = await _judge(asker, vetted.wanted, money, must_ask=vetted.must_ask)
    wanted = vetted.wanted
    if verdict.answer == "deny":
        return Refused("rule", verdict.reason)
    if verdict.answer == "allow" and not wanted.question:
        return Permitted(wanted.action, verdict.reason, vetted.edited_by)
    return await _asked(asker, vetted, verdict, edit, money)


async def _asked(
    asker: Asker,
    vetted: _AsVetted[_Action],
    verdict: Judgement,
    edit: Edit[_Action] | None,
    money: Money | None,
) -> Permitted[_Action] | Refused | Blocked | Stopped:
    """What a person says."""
    wanted = vetted.wanted
    question = _on_record(asker, wanted) or _question(asker, wanted, verdict, is_editable=edit is not None)
    given = await asker.ask_person(question)
    if given is None:
        return Blocked(question)
    if why := misfit(question, given):
        raise UsageError(f"The call {question.call} cannot be answered like this: {why}.")
    if given.decision != "allow":
        return _refused(given)
    if given.edited_arguments is not None and edit is not None:
        return await _edited(asker, await edit(given.edited_arguments), edit, money, question)
    if given.scope != "once":
        await asker.grant(*_grants(wanted.proposed, question, given))
    await _reserve(wanted, money)
    return Permitted(wanted.action, "a person allowed it", vetted.edited_by)


def permit_unasked(asker: Asker, wanted: Wanted[_Action]) -> Permitted[_Action] | None:
    """What may run at once; None where `permit` has to refuse it, ask somebody or the gate, or pay."""
    if wanted.question or wanted.is_priced or (asker.gate and asker.gate.concerns(wanted.proposed)):
        return None
    verdict = asker.policy.judge(wanted.proposed)
    return Permitted(wanted.action, verdict.reason) if verdict.answer == "allow" else None


def edited_as(kind: type[_Action], arguments: str, vault: Vault) -> _Action | str:
    """The arguments that a person typed, with secrets put back, or why they cannot be used."""
    if unknown := vault.unresolved(arguments):
        return f"{unknown[0]} stands for a secret that is not known here"
    try:
        return msgspec.convert(vault.expand_all(msgspec.json.decode(arguments)), kind)
    except msgspec.MsgspecError as error:
        return f"the edited arguments cannot be used: {error}"


class _AsVetted(msgspec.Struct, Generic[_Action], frozen=True):
    """What is wanted once the gate has spoken; with `must_ask` a person is asked in any case."""

    wanted: Wanted[_Action]
    must_ask: str = ""
    edited_by: Literal["", "hook"] = ""


async def _vetted(
    asker: Asker, wanted: Wanted[_Action], edit: Edit[_Action] | None
) -> _AsVetted[_Action] | Refused | Stopped:
    """What the gate says, and what it changed; it is not asked about what a rule forbids anyway."""
    if asker.gate is None or not asker.gate.concerns(wanted.proposed):
        return _AsVetted(wanted)
    if (verdict := asker.policy.judge(wanted.proposed)).answer == "deny":
        return Refused("rule", verdict.reason)
    said = await asker.gate.vet_call(wanted.call, wanted.proposed, _arguments(asker, wanted))
    if no := _objection(said):
        return no
    must_ask = said.reason if said.answer == "ask" else ""
    if said.arguments is None:
        return _AsVetted(wanted, must_ask)
    changed = await _changed(said.arguments, edit)
    return changed if isinstance(changed, Refused) else _AsVetted(changed, must_ask, "hook")


def _objection(said: Vetted) -> Refused | Stopped | None:
    match said.answer:
        case "deny":
            return Refused("hook", said.reason)
        case "stop":
            return Stopped(said.reason, is_by_hook=True)
        case "ask" | "pass":
            return None


async def _changed(arguments: str, edit: Edit[_Action] | None) -> Wanted[_Action] | Refused:
    """What a gate wants instead."""
    changed = await edit(arguments) if edit is not None else "it can only run as it is"
    if isinstance(changed, str):
        return Refused("hook", f"what a hook wants instead cannot be used: {changed}")
    return changed


async def _vetted_question(
    asker: Asker, gate: Gate, vetted: _AsVetted[_Action], edit: Edit[_Action] | None
) -> _AsVetted[_Action] | Refused | Stopped:
    """What the gate says before a person is asked; what it wants instead passes it as a call. A question on
    record has passed it, and one of the agent itself is none of consent."""
    wanted = vetted.wanted
    if wanted.question or _on_record(asker, wanted):
        return vetted
    said = await gate.vet_question(wanted.call, wanted.proposed, _arguments(asker, wanted))
    if no := _objection(said):
        return no
    if said.arguments is None:
        return vetted
    changed = await _changed(said.arguments, edit)
    if isinstance(changed, Refused):
        return changed
    again = await _vetted(asker, changed, edit)
    if isinstance(again, Refused | Stopped):
        return again
    return _AsVetted(again.wanted, again.must_ask or vetted.must_ask, "hook")


async def _edited(
    asker: Asker,
    edited: Wanted[_Action] | str,
    edit: Edit[_Action],
    money: Money | None,
    question: ApprovalAsked,
) -> Permitted[_Action] | Refused | Stopped:
    """What a person wants run instead; what it may not do, or takes the yes of others too, is refused."""
    if isinstance(edited, str):
        return Refused("edit", edited)
    vetted = await _vetted(asker, edited, edit)
    if isinstance(vetted, Refused | Stopped):
        return vetted
    verdict = asker.policy.judge(vetted.wanted.proposed)
    if verdict.answer == "deny":
        return Refused("rule", "a rule forbids the edited call")
    others = [each for each in verdict.quorums if each not in question.quorums]
    if verdict.answer == "ask" and others:
        return Refused(
            "rule", f"the edited call takes {in_words(others)}; it is asked about once it is wanted"
        )
    await _reserve(vetted.wanted, money)
    by = vetted.edited_by or "person"
    return Permitted(vetted.wanted.action, "a person edited and allowed it", by)


async def _judge(
    asker: Asker, wanted: Wanted[_Action], money: Money | None, *, must_ask: str = ""
) -> Judgement:
    """What the policy says. The price of what it lets run is set aside before anything else is judged, so
    that two calls that fit alone do not overspend together."""
    if money is None or not wanted.is_priced:
        return _stricter(asker.policy.judge(wanted.proposed), must_ask)
    async with money.left(wanted.call) as allowance:
        judged = asker.policy.judge(msgspec.structs.replace(wanted.proposed, allowance=allowance))
        verdict = _stricter(judged, must_ask)
        if verdict.answer == "allow" and not wanted.question:
            await _reserve(wanted, money)
    return verdict


def _stricter(verdict: Judgement, must_ask: str) -> Judgement:
    if not must_ask or verdict.answer != "allow":
        return verdict
    return Judgement(
        answer="ask",
        reason=must_ask,
        rule="hook",
        blocked_by="rule",
        allowance=verdict.allowance,
        quorums=verdict.quorums,
    )


def _arguments(asker: Asker, wanted: Wanted[_Action]) -> str:
    """The arguments of a call as they may be shown."""
    text = wanted.arguments or msgspec.json.encode(wanted.proposed.arguments).decode()
    return redacted_arguments(text, asker.vault)


def _on_record(asker: Asker, wanted: Wanted[_Action]) -> ApprovalAsked | None:
    """The question that is on record, if it is about what is wanted now: a hook may want something else."""
    asked = wanted.asked
    is_same = asked and asked.arguments_sha256 == arguments_sha256(_arguments(asker, wanted))
    return asked if is_same else None


async def _reserve(wanted: Wanted[_Action], money: Money | None) -> None:
    if money is not None and wanted.is_priced:
        await money.reserve(wanted.call, wanted.proposed.tool, wanted.proposed.cost_usd)


def _question(
    asker: Asker, wanted: Wanted[_Action], verdict: Judgement, *, is_editable: bool
) -> ApprovalAsked:
    proposed, vault, text = wanted.proposed, asker.vault, _arguments(asker, wanted)
    is_spending = wanted.is_priced or proposed.allowance is not None
    allowance = verdict.allowance if is_spending else None
    blocked_by: BlockedBy = "agent" if wanted.question else verdict.blocked_by
    quorums = () if wanted.question else verdict.quorums
    needs_several = len(quorums) > 1 or any(each.of > 1 for each in quorums)
    question = ApprovalAsked(
        call=wanted.call,
        tool=proposed.tool,
        arguments=text,
        arguments_sha256=arguments_sha256(text),
        reason=wanted.question or wanted.about + verdict.reason,
        offers=verdict.offers,
        is_editable=is_editable and not needs_several,
        scopes=asker.scopes,
        rule=verdict.rule,
        blocked_by=blocked_by,
        estimate_usd=proposed.cost_usd if wanted.is_priced else None,
        remaining_usd=max(allowance.left_usd, 0.0) if allowance else None,
        cap_usd=allowance.cap_usd if allowance else None,
        cap_scope=allowance.scope if allowance else None,
        scripts=verdict.scripts,
        quorums=quorums,
    )
    return redacted(question, vault)


def _refused(given: ApprovalGiven) -> Refused | Stopped:
    match given.decision:
        case "stop":
            return Stopped(given.feedback)
        case "expire":
            return Refused("expired", "nobody approved it in time")
        case "abandon":
            return Refused("abandoned", "something new was said instead of an answer")
        case _:
            said = f": {given.feedback}" if given.feedback else ""
            return Refused("person", f"a person refused it{said}", given.feedback)


def _grants(proposed: Proposed, question: ApprovalAsked, given: ApprovalGiven) -> tuple[Grant, ...]:
    return grants_of(
        question,
        given,
        session=proposed.session,
        workspace=proposed.workspace,
        exactly_sha256=arguments_sha256(proposed.arguments),
        now_us=time.time_ns() // 1000,
    )
