"""A review of a change by the agent `review`, in a session of its own that only reads."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Literal

import msgspec

from mainspring.agents.files import READERS
from mainspring.app import build
from mainspring.app.models import delegated_model
from mainspring.app.operations.agents import agent_of, agent_refusal
from mainspring.disk.untrusted import read_untrusted_text
from mainspring.errors import UsageError
from mainspring.events import Limits
from mainspring.models import Model
from mainspring.settings import Config
from mainspring.workspace.git import Git

_MAX_DIFF = 400_000
_MAX_FILE = 8 << 20
_MAX_NEW = 200


class ReviewFinding(msgspec.Struct, frozen=True, kw_only=True):
    """Something wrong in a change: where, how bad, why, and how that was made sure."""

    file: str
    line: int
    severity: Literal["high", "medium", "low"]
    title: str
    why: str
    verified: str = ""


class ReviewAnswer(msgspec.Struct, frozen=True, kw_only=True):
    summary: str
    findings: tuple[ReviewFinding, ...] = ()


class ReviewResult(msgspec.Struct, frozen=True, kw_only=True):
    """What a review found, in which session, and at what cost."""

    session: str
    summary: str
    findings: tuple[ReviewFinding, ...]
    cost_usd: float
    is_cut: bool = False


async def review(
    config: Config,
    workspace: Path,
    target: str = "",
    *,
    model: Model | str = "",
    max_cost_usd: float | None = None,
) -> ReviewResult:
    """Reviews what is not committed, what changed since a commit, or a diff in a file."""
    agent = agent_of(config, workspace, "review")
    if why := agent_refusal(config, agent):
        raise UsageError(why)
    diff = await asyncio.to_thread(_diff, config, workspace, target)
    if not diff.strip():
        raise UsageError(
            "There is no change to review.", remedy="Name a commit or a file: mainspring review REF"
        )
    is_cut = len(diff) > _MAX_DIFF
    told = f"{diff[:_MAX_DIFF]}\n[the rest of the diff is left out]" if is_cut else diff
    opened = build.open(
        workspace,
        model=model or (agent.model and delegated_model(agent.model, config)),
        effort=agent.effort,
        mode="plan",
        limits=Limits(max_steps=agent.max_turns, max_tokens=agent.max_tokens, max_cost_usd=max_cost_usd),
        instructions=agent.text,
        tools=tuple(each for each in agent.tools if each in READERS),
        output=ReviewAnswer,
        config=config,
    )
    async with opened as session:
        reply = await session.ask(f"Review this change:\n\n```diff\n{told}\n```")
    if not isinstance(reply.output, ReviewAnswer):
        raise UsageError(
            f"The review did not come to its end: {reply.detail}",
            remedy=reply.remedy or f"See what happened: mainspring show {reply.session}",
        )
    return ReviewResult(
        session=reply.session,
        summary=reply.output.summary,
        findings=reply.output.findings,
        cost_usd=reply.cost_usd,
        is_cut=is_cut,
    )


def _diff(config: Config, workspace: Path, target: str) -> str:
    file = workspace / target if target else None
    if file is not None and file.is_file():
        return read_untrusted_text(file, max_bytes=_MAX_FILE)
    git = Git(workspace, config.environment)
    commit = git.text("rev-parse", "--verify", "--quiet", f"{target or 'HEAD'}^{{commit}}", check=False)
    if not commit:
        what = (
            f"{target!r} is neither a commit nor a file" if target else "There is no commit to compare with"
        )
        raise UsageError(
            f"{what}.", remedy="Name a commit, or a file with a diff: mainspring review FILE.diff"
        )
    plain = ("--no-color", "--no-ext-diff", "--no-textconv")
    changed = git.run("diff", *plain, commit, "--", ".").decode("utf-8", "replace")
    new = git.run("ls-files", "-z", "--others", "--exclude-standard").split(b"\0")
    names = [name.decode("utf-8", "surrogateescape") for name in new if name][:_MAX_NEW]
    added = (
        git.run("diff", *plain, "--no-index", "--", "/dev/null", name, fine=(0, 1)).decode("utf-8", "replace")
        for name in names
    )
    return changed + "".join(added)
