"""The calls of a session as they were proposed, and what was decided about each; a fold of its journal."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from mainspring.app import policies
from mainspring.app.build import DEFAULT_TOOLS
from mainspring.app.modes import parse_mode
from mainspring.app.policies import DEFAULT_MODE
from mainspring.approvals import Answer, Proposed
from mainspring.approvals.simulate import PastCall
from mainspring.events import (
    ApprovalAsked,
    AssistantSaid,
    CallEnded,
    Event,
    Limits,
    ModeChosen,
    SandboxChosen,
    SessionStarted,
    TurnStarted,
)
from mainspring.sandbox.files import Files
from mainspring.secrets.vault import Vault
from mainspring.settings import Config
from mainspring.tools import Output
from mainspring.tools.toolbox import Toolbox
from mainspring.turns.calls import proposed_of

KINDS = (
    "SessionStarted",
    "ModeChosen",
    "SandboxChosen",
    "TurnStarted",
    "AssistantSaid",
    "ApprovalAsked",
    "CallEnded",
)


class PastCalls:
    def __init__(self, config: Config, vault: Vault) -> None:
        self._config = config
        self._vault = vault
        self._toolbox = Toolbox(DEFAULT_TOOLS)
        self._answered: dict[str, tuple[Proposed, Answer]] = {}
        self._session = ""
        self._is_contained = True
        self.workspace = Path()
        self.mode = DEFAULT_MODE
        self.limits = Limits()

    def apply(self, event: Event) -> None:
        match event:
            case SessionStarted():
                self._session = event.session
                self.workspace = Path(self._vault.expand(event.workspace))
            case ModeChosen():
                self.mode = event.level or event.mode
            case SandboxChosen():
                self._is_contained = event.rung != "none"
            case TurnStarted():
                self.limits = event.limits
            case AssistantSaid():
                self._propose(event)
            case ApprovalAsked():
                self._decide(event.call, "ask")
            case CallEnded(outcome="refused"):
                self._decide(event.call, "deny")
            case _:
                pass

    def calls(self) -> Iterator[PastCall]:
        return (PastCall(call, proposed, answer) for call, (proposed, answer) in self._answered.items())

    def _propose(self, said: AssistantSaid) -> None:
        mode, _ = parse_mode(self.mode)
        files = Files(policies.confinement_of(self.workspace, mode, self._config))
        for asked in said.calls:
            prepared = self._toolbox.prepare(asked)
            if isinstance(prepared, Output):
                continue  # it never came as far as a decision
            proposed = proposed_of(
                prepared,
                files=files,
                workspace=self.workspace,
                session=self._session,
                is_contained=self._is_contained,
            )
            self._answered[asked.call] = proposed, "allow"

    def _decide(self, call: str, answer: Answer) -> None:
        proposed, before = self._answered.get(call, (None, "allow"))
        if proposed is not None and before == "allow":
            self._answered[call] = proposed, answer
