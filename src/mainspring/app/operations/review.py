"""A review of a change by the agent `review`, in a session of its own that only reads."""

from __future__ import annotations

import asyncio
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import msgspec

from mainspring.agents.files import READERS, Agent
from mainspring.app import build
from mainspring.app.models import delegated_model
from mainspring.app.operations.agents import agent_of, agent_refusal
from mainspring.app.operations.changes import change_at, reviewed_files
from mainspring.app.operations.risk import Risk, risk_at
from mainspring.catalog import Sessions
from mainspring.checks.review_findings import ReviewAnswer, at_least
from mainspring.checks.reviewer import take_review
from mainspring.errors import MainspringError, UsageError
from mainspring.events import Limits, ReviewFinding, ReviewStarted, Severity
from mainspring.models import Model
from mainspring.models.wrapper import SharedModel
from mainspring.session.child import ChildSession
from mainspring.session.session import Session, runtime_of
from mainspring.settings import Config

AGENT = "review"


class ReviewFailed(MainspringError):
    """A review that did not come to its end: nothing is known of the change."""

    exit_code = 3


class ReviewResult(msgspec.Struct, frozen=True, kw_only=True):
    """What a review found, in which session, and at what cost. `unverified` are findings whose file or code
    is not there, `not_reviewed` is what nobody looked at. `confidence` is the reviewer's own opinion."""

    session: str
    subject: str
    summary: str
    findings: tuple[ReviewFinding, ...] = ()
    unverified: tuple[ReviewFinding, ...] = ()
    not_reviewed: tuple[str, ...] = ()
    confidence: int | None = None
    reasons: tuple[str, ...] = ()
    cost_usd: float = 0.0
    risk: Risk | None = None

    def at_least(self, severity: Severity) -> list[ReviewFinding]:
        """The verified findings that are at least this bad."""
        return at_least(self.findings, severity)


async def review(
    config: Config,
    workspace: Path,
    target: str = "",
    *,
    model: Model | str = "",
    max_cost_usd: float | None = None,
) -> ReviewResult:
    """Reviews what is not committed, what changed since a commit, or a diff in a file."""
    agent = reviewer(config, workspace)
    change = await asyncio.to_thread(change_at, config, workspace, target)
    if not change.diff.strip():
        raise UsageError(
            "There is no change to review.", remedy="Name a commit or a file: mainspring review REF"
        )
    files = await asyncio.to_thread(lambda: reviewed_files(workspace, change.files))
    told = await risk_at(config, workspace, target)
    limits = Limits(max_steps=agent.max_turns, max_tokens=agent.max_tokens, max_cost_usd=max_cost_usd)
    async with open_reviewer(config, workspace, agent, limits, model=model) as session:
        runtime = runtime_of(session)
        await runtime.record(ReviewStarted(review=session.id, subject=change.subject, files=files))
        ended = await take_review(session, change)
        await runtime.record(ended)
    if ended.failure:
        raise ReviewFailed(
            f"The review did not come to its end: {ended.failure}",
            remedy=f"See what happened: mainspring show {session.id}",
        )
    return ReviewResult(
        session=session.id,
        subject=change.subject,
        summary=ended.summary,
        findings=ended.findings,
        unverified=ended.unverified,
        not_reviewed=ended.not_reviewed,
        confidence=ended.confidence,
        reasons=ended.reasons,
        cost_usd=ended.cost_usd,
        risk=told.risk,
    )


def reviewer(config: Config, workspace: Path) -> Agent:
    """The agent that reviews: ours, or one that a person wrote; `UsageError` when it may not be used."""
    agent = agent_of(config, workspace, AGENT)
    if why := agent_refusal(config, agent):
        raise UsageError(why)
    return agent


def open_reviewer(
    config: Config,
    workspace: Path,
    agent: Agent,
    limits: Limits,
    *,
    model: Model | str = "",
    session: str = "",
    parent: ChildSession | None = None,
    allow_home: bool = False,
    sessions: Sessions | None = None,
) -> AbstractAsyncContextManager[Session]:
    """The session of a reviewer, new or going on: it reads, and answers in the form of a review."""
    return build.open(
        workspace,
        session=session,
        model=model or (agent.model and delegated_model(agent.model, config)),
        effort=agent.effort,
        mode="plan",
        limits=limits,
        instructions="" if session else agent.text,
        tools=tuple(each for each in agent.tools if each in READERS),
        output=ReviewAnswer,
        allow_unpriced=isinstance(model, SharedModel),
        allow_home=allow_home,
        parent=parent,
        config=config,
        sessions=sessions,
    )
