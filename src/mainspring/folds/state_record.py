"""A state as a value that can be kept and given back.

A checkpoint is made of it, which is a cache: it has the same facts as the journal, so nothing in it may be a
secret. Names and paths, which a state tells as they are, are hidden again. What this module does not know of
a state would be lost, so a test compares the fields.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from mainspring.approvals.answers import Requests
from mainspring.events import (
    AssistantSaid,
    CapScope,
    Effort,
    EngineChosen,
    Limits,
    PromptSet,
    RequestFailed,
    SamplingChosen,
    SpendReserved,
    TurnEnded,
    Usage,
    WaitEnded,
)
from mainspring.folds.children import Children
from mainspring.folds.jobs import Jobs
from mainspring.folds.ledger import HeldSpend, Ledger, OpenScope
from mainspring.folds.processes import Process, Processes
from mainspring.folds.shares import Share
from mainspring.folds.state import OpenCall, State
from mainspring.folds.task import Task
from mainspring.folds.waits import OpenWait, Waits
from mainspring.secrets.redaction import expanded, redacted
from mainspring.secrets.vault import Vault


class _Names(msgspec.Struct, frozen=True):
    """What a state tells as it is, and a journal without secrets."""

    workspace: str
    model: str
    fallbacks: tuple[str, ...]
    failed_models: dict[str, RequestFailed]
    engine: EngineChosen
    note_sources: tuple[str, ...]


class _Plain(msgspec.Struct, frozen=True):
    """What is kept as it is, by the names that a `State` has for it."""

    session: str
    effort: Effort | None
    sampling: SamplingChosen
    mode: str
    level: str
    prompt: PromptSet
    step: int
    turn: int
    is_turn_open: bool
    is_turn_wanted: bool
    is_said_late: bool
    _said_seq: int
    limits: Limits
    turn_steps: int
    turn_usage: Usage
    turn_cost_usd: float
    turn_cutoffs: int
    output_schema: dict[str, Any] | None
    wanted_schema: dict[str, Any] | None
    is_output_corrected: bool
    is_effect_asked: bool
    prompt_size: int
    compacted_tokens: int
    is_overflowing: bool
    is_shrunk: bool
    last_ending: TurnEnded | None
    was_stopped: bool
    last_reply: AssistantSaid
    are_files_changed: bool
    requests: Requests
    task: Task
    children: Children
    jobs: Jobs
    has_goal: bool
    conversation_usage: Usage
    _calls: dict[str, OpenCall]
    _last_us: int
    inherited_seq: int


class _Waits(msgspec.Struct, frozen=True):
    _open: dict[str, OpenWait]
    _ended: dict[str, WaitEnded]
    _answers: dict[str, str]


class _Ledger(msgspec.Struct, frozen=True):
    """`opened` are the scopes, those that are open now first; a spend that is held names its own by place."""

    worked_us: int
    reservations: int
    has_goal: bool
    scopes: tuple[CapScope, ...]
    opened: tuple[OpenScope, ...]
    held: dict[str, tuple[SpendReserved, tuple[int, ...]]]
    warned: tuple[tuple[CapScope, str, int, float, str], ...]
    shares: dict[str, Share]


class StateRecord(msgspec.Struct, frozen=True):
    plain: _Plain
    names: _Names
    ledger: _Ledger
    processes: dict[str, Process]
    waits: _Waits


FIELDS = frozenset({*_Plain.__struct_fields__, *_Names.__struct_fields__, "ledger", "processes", "waits"})
"""The attributes of a state that are kept."""


def record_of(state: State, vault: Vault | None) -> StateRecord:
    known: dict[str, Any] = vars(state)
    names = _Names(
        workspace=str(state.workspace),
        model=state.model,
        fallbacks=state.fallbacks,
        failed_models=state.failed_models,
        engine=state.engine,
        note_sources=tuple(sorted(state.note_sources)),
    )
    waits: dict[str, Any] = vars(state.waits)
    return StateRecord(
        plain=_Plain(*(known[name] for name in _Plain.__struct_fields__)),
        names=redacted(names, vault) if vault else names,
        ledger=_ledger_record(state.ledger),
        processes={process.handle: process for process in state.processes.all},
        waits=_Waits(*(waits[name] for name in _Waits.__struct_fields__)),
    )


def restored_state(record: StateRecord, vault: Vault | None) -> State:
    state = State(vault)
    for name in _Plain.__struct_fields__:
        setattr(state, name, getattr(record.plain, name))
    names = expanded(record.names, vault) if vault else record.names
    state.workspace, state.model, state.fallbacks = Path(names.workspace), names.model, names.fallbacks
    state.failed_models, state.engine = names.failed_models, names.engine
    state.note_sources = set(names.note_sources)
    state.ledger = _restored_ledger(record.ledger)
    state.processes, state.waits = Processes(), Waits()
    vars(state.processes)["_known"] = record.processes
    for name in _Waits.__struct_fields__:
        setattr(state.waits, name, getattr(record.waits, name))
    return state


def _ledger_record(ledger: Ledger) -> _Ledger:
    known: dict[str, Any] = vars(ledger)
    scopes: dict[CapScope, OpenScope] = known["_scopes"]
    held: dict[str, HeldSpend] = known["_held"]
    opened = list(scopes.values())
    earlier = {id(each): each for spend in held.values() for each in spend.scopes if each not in opened}
    opened += earlier.values()
    place = {id(each): number for number, each in enumerate(opened)}
    return _Ledger(
        worked_us=ledger.worked_us,
        reservations=ledger.reservations,
        has_goal=known["_has_goal"],
        scopes=tuple(scopes),
        opened=tuple(opened),
        held={
            name: (spend.reserved, tuple(place[id(each)] for each in spend.scopes))
            for name, spend in held.items()
        },
        warned=tuple(sorted(known["_warned"])),
        shares=ledger.shares.open,
    )


def _restored_ledger(record: _Ledger) -> Ledger:
    ledger = Ledger()
    scopes = dict(zip(record.scopes, record.opened, strict=False))
    held = {
        name: HeldSpend(reserved, tuple(record.opened[place] for place in places))
        for name, (reserved, places) in record.held.items()
    }
    ledger.worked_us, ledger.reservations = record.worked_us, record.reservations
    ledger.shares.open = record.shares
    vars(ledger).update(
        _scopes=scopes,
        _open=tuple(scopes.values()),
        _held=held,
        _warned=set(record.warned),
        _has_goal=record.has_goal,
    )
    return ledger
