"""How everything that spends does it: reserve, then call, then settle, with a name for what it was for.

A reservation is on record before the request is made, in this session's journal and in that of every session
above it, whose caps hold as well. Under a cap for the day it is made while no other process can make one.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import msgspec

from mainspring.approvals import Allowance
from mainspring.catalog import local_day
from mainspring.events import Cap, Event, Limits, Speed, SpendReserved, SpendSettled, Usage
from mainspring.folds.caps import TeamLeft, is_spend_capped
from mainspring.folds.ledger import (
    CALL,
    LEAST_OUTPUT_TOKENS,
    MODEST_OUTPUT_TOKENS,
    STEP,
    Refusal,
    Tally,
    most_usd,
)
from mainspring.models import Model, Price
from mainspring.models.output import wanted_output
from mainspring.turns.runtime import Runtime, lineage

RETRY = "retry"
"""The source of a spend that is an attempt which broke off, and was made again."""


class Reservation(msgspec.Struct, frozen=True):
    """What was set aside, at which price. `max_output_tokens` is what the reply may have at most, None when
    nothing is capped. `today` is what all sessions had spent by then, if that is capped."""

    reserved: SpendReserved
    max_output_tokens: int | None
    price: Price | None
    today: Tally | None = None


async def reserve(
    runtime: Runtime,
    *,
    source: str,
    input_tokens: int,
    spend: str = "",
    model: Model | None = None,
    request_sha256: str = "",
    unpriced_usd: float = 0.0,
) -> Reservation | Refusal:
    """Sets aside what one request of a model (else the turn's) may cost at most (without a price,
    `unpriced_usd`), or says why it may not be made."""
    model = model or runtime.models.current
    line, price = tuple(lineage(runtime)), model.price
    async with _today(line) as (today, team):
        outputs: list[int] = []
        for each in line:
            limits = _within(each.limits, today, team)
            fitting = each.state.ledger.affordable_output(
                price,
                input_tokens,
                limits,
                wanted=_wanted(runtime, model, input_tokens) if source == STEP else MODEST_OUTPUT_TOKENS,
                is_step=source == STEP,
                today=_day_of(limits, today),
                child=_child(each, runtime),
            )
            if isinstance(fitting, Refusal):
                return _by_team(fitting, team) if limits != each.limits else fitting
            outputs.append(fitting)
        usage = Usage(input_tokens=input_tokens, output_tokens=min(outputs))
        reserved = SpendReserved(
            spend=spend or f"{source}:{runtime.state.ledger.reservations + 1}",
            source=source,
            model="" if model.name == runtime.state.model else model.name,
            tokens=usage.total_tokens,
            usd=most_usd(price, usage) if price else unpriced_usd,
            priced=price is not None,
            request_sha256=request_sha256,
        )
        for each in line:
            each.state.ledger.hold(_seen_by(each, runtime, reserved))
        is_capped = team is not None or any(is_spend_capped(each.limits) for each in line)
        reservation = Reservation(reserved, usage.output_tokens if is_capped else None, price, today)
        try:
            for each in reversed(line):
                await each.record(_seen_by(each, runtime, reserved))
        except asyncio.CancelledError:
            # It is on record all the same, and nothing will be asked for it.
            await settle(runtime, reservation, Usage())
            raise
    return reservation


def _wanted(runtime: Runtime, model: Model, input_tokens: int) -> int:
    """How much a step may have back if it can be paid: what its effort needs, and the model's window holds.
    The input is an estimate, so not all of the rest is asked for."""
    wanted = wanted_output(runtime.state.effort)
    if model.context_tokens is None:
        return wanted
    return min(wanted, max((model.context_tokens - input_tokens) * 3 // 4, LEAST_OUTPUT_TOKENS))


def spend_of(call: str) -> str:
    return f"{CALL}:{call}"


class CallMoney:
    """The money for the calls of a turn, under the caps of the turn and of all above it."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._line = tuple(lineage(runtime))

    @asynccontextmanager
    async def left(self, call: str) -> AsyncGenerator[Allowance | None]:
        """What every cap above a call leaves for it; until this ends nobody else can take it. None when money
        is not capped. What the call itself has reserved already, before a crash, is still its own."""
        own = self._runtime.state.ledger.reserved_usd(spend_of(call)) or 0.0
        async with _today(self._line) as (today, team):
            left = allowance(self._runtime, today, team)
            yield left and msgspec.structs.replace(left, left_usd=left.left_usd + own)

    async def reserve(self, call: str, tool: str, usd: float | None) -> None:
        """Sets aside what a call may cost; one of unknown price is on record without a sum."""
        if self._runtime.state.ledger.reserved_usd(spend_of(call)) is not None:
            return
        reserved = SpendReserved(
            spend=spend_of(call),
            source=CALL,
            model=f"tool:{tool}",
            usd=max(usd or 0.0, 0.0),
            priced=usd is not None,
        )
        for each in self._line:
            each.state.ledger.hold(_seen_by(each, self._runtime, reserved))
        for each in reversed(self._line):
            await each.record(_seen_by(each, self._runtime, reserved))


async def settle_call(
    runtime: Runtime, call: str, usd: float | None, *events: Event, is_going_on: bool = False
) -> None:
    """Records what a call cost (what was set aside, when nobody knows better), and `events` with it; they are
    durable with the next request, if the call cost nothing. What is going on is settled when it ends."""
    held = runtime.state.ledger.reserved_usd(spend_of(call))
    if held is None or is_going_on:
        await runtime.record(*events, is_durable=False)
        return
    reserved = SpendReserved(spend=spend_of(call), source=CALL, usd=held)
    await settle(
        runtime,
        Reservation(reserved, None, None),
        Usage(),
        *events,
        usd=usd if usd is not None and usd >= 0 else held,
    )


async def settle(
    runtime: Runtime,
    reservation: Reservation,
    usage: Usage,
    *events: Event,
    speed: Speed | None = None,
    usd: float | None = None,
    is_failed: bool = False,
) -> None:
    """Records what was spent, and `events` in the same commit. `usd` is what somebody who knows said."""
    usd = cost_usd(reservation, usage) if usd is None else usd
    for each in lineage(runtime):
        reserved = _seen_by(each, runtime, reservation.reserved)
        ledger = each.state.ledger
        settled = SpendSettled(
            spend=reserved.spend,
            usage=usage,
            usd=usd,
            total_usd=max(ledger.spent_usd - reserved.usd, 0.0) + usd,
            speed=speed,
            is_failed=is_failed,
            saved_usd=reservation.price.saved_usd(usage) if reservation.price else 0.0,
        )
        limits, today = each.limits, _day_of(each.limits, reservation.today)
        warnings = (*ledger.warnings(settled, limits), *ledger.day_warnings(settled, limits, today))
        await each.record(settled, *warnings, *(events if each is runtime else ()))


async def settle_broken(
    runtime: Runtime, reservation: Reservation, usage: Usage, attempt: int
) -> Refusal | None:
    """Records what an attempt cost that broke off, of a request that is made again under the same
    reservation; why it may not be, if that has become too dear."""
    reserved = msgspec.structs.replace(
        reservation.reserved,
        spend=f"{reservation.reserved.spend}:{attempt}",
        source=RETRY,
        tokens=usage.total_tokens,
        usd=cost_usd(reservation, usage),
        request_sha256="",
    )
    for each in lineage(runtime):
        each.state.ledger.hold(_seen_by(each, runtime, reserved))
    for each in reversed(tuple(lineage(runtime))):
        await each.record(_seen_by(each, runtime, reserved))
    await settle(runtime, msgspec.structs.replace(reservation, reserved=reserved), usage)
    held = reservation.reserved
    return overspent(runtime, reservation, Usage(input_tokens=held.tokens), held.usd)


def _day_of(limits: Limits, today: Tally | None) -> Tally | None:
    return today if limits.day != Cap() else None


def _within(limits: Limits, today: Tally | None, team: TeamLeft | None) -> Limits:
    """The limits, with a cap for the day that leaves no more than the team does."""
    if today is None or team is None:
        return limits
    usd = today.usd + max(team.cap_usd - team.spent_usd, 0.0)
    if limits.day.usd is not None and limits.day.usd <= usd:
        return limits
    return msgspec.structs.replace(limits, day=msgspec.structs.replace(limits.day, usd=usd))


def _by_team(refusal: Refusal, team: TeamLeft | None) -> Refusal:
    """The refusal by a cap that stood in for the team's, as that one's."""
    if team is None or (refusal.scope, refusal.unit) != ("day", "usd"):
        return refusal
    message = (
        f"The cap of {team.about} leaves too little for another request: {team.spent_usd:.4f} of"
        f" {team.cap_usd:.4f} USD are spent or set aside ({team.rule})."
    )
    remedy = "`mainspring usage --by person,project,day` says by whom. Ask an admin."
    return Refusal(message, remedy, "day", "usd")


def cost_usd(reservation: Reservation, usage: Usage) -> float:
    return reservation.price.cost_usd(usage) if reservation.price else 0.0


def overspent(runtime: Runtime, reservation: Reservation, usage: Usage, usd: float) -> Refusal | None:
    """Why what a reservation has cost so far is too much, here or above."""
    for each in lineage(runtime):
        reserved, ledger = _seen_by(each, runtime, reservation.reserved), each.state.ledger
        if refusal := ledger.refuse_spent(reserved, usage.total_tokens, usd, each.limits):
            return refusal
    return None


def allowance(runtime: Runtime, today: Tally | None = None, team: TeamLeft | None = None) -> Allowance | None:
    """What the cap on money leaves that leaves the least, here or above; None when none is capped."""
    lefts = [
        Allowance(*left)
        for each in lineage(runtime)
        if (limits := _within(each.limits, today, team))
        and (left := each.state.ledger.least_left(limits, _day_of(limits, today), _child(each, runtime)))
    ]
    return min(lefts, key=lambda left: left.left_usd, default=None)


def left_usd(runtime: Runtime) -> float | None:
    """The least money that any cap leaves, here or above; None when none is capped."""
    left = allowance(runtime)
    return left.left_usd if left else None


def share_usd(runtime: Runtime) -> float | None:
    """What one turn of a goal may take at most, here or above; None when no money is capped."""
    shares = [each.state.ledger.share_usd(each.limits) for each in lineage(runtime)]
    return min((share for share in shares if share is not None), default=None)


def _child(ancestor: Runtime, spender: Runtime) -> str:
    return "" if ancestor is spender else spender.state.session


def _seen_by(ancestor: Runtime, spender: Runtime, reserved: SpendReserved) -> SpendReserved:
    if ancestor is spender:
        return reserved
    child, model = spender.state.session, reserved.model or spender.state.model
    return msgspec.structs.replace(reserved, spend=f"{child}/{reserved.spend}", model=model, child=child)


@asynccontextmanager
async def _today(line: tuple[Runtime, ...]) -> AsyncGenerator[tuple[Tally | None, TeamLeft | None]]:
    """What all sessions spent today, and what the team's caps leave, which stays so until this ends; None
    when nothing of that is capped."""
    day, caps = line[0].budget.day, line[0].budget.team
    is_capped = any(each.limits.day != Cap() for each in line) or (
        caps is not None and await caps.is_capped()
    )
    if day is None or not is_capped:
        yield None, None
        return
    async with day.held() as spent:
        date = local_day(time.time_ns() // 1000)
        team = await caps.left() if caps else None
        yield Tally(usd=spent.usd, tokens=spent.tokens, steps=spent.steps, day=date), team
