"""The risk of a change: of what is not committed, of what changed since a commit, or of what a session
did."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import msgspec

from mainspring.app.modes import parse_mode
from mainspring.app.operations.changes import PLAIN_DIFF, change_at
from mainspring.app.operations.checks import standing_checks
from mainspring.app.operations.impact import look_at_impact
from mainspring.app.operations.sessions import journal_of
from mainspring.app.operations.timeline import net_diff
from mainspring.app.policies import DEFAULT_MODE
from mainspring.approvals import Mode
from mainspring.checks.risk import Risk, facts_of_change, risk_lines, risk_of, why_ask
from mainspring.context.mentions import is_source
from mainspring.errors import UsageError
from mainspring.events import ModeChosen
from mainspring.journal import last_event
from mainspring.secrets.recorder import Recorder
from mainspring.secrets.redaction import redacted
from mainspring.secrets.vault import Vault
from mainspring.settings import Config
from mainspring.workspace.affected import is_test
from mainspring.workspace.git import Git
from mainspring.workspace.impact import Impact
from mainspring.workspace.parsed_diff import DiffedFile, parse_diff

__all__ = ["ChangeRisk", "Risk", "risk_at", "risk_lines", "risk_of_branch", "risk_of_files", "session_risk"]


class ChangeRisk(msgspec.Struct, frozen=True, kw_only=True):
    """A score, which change it is about, and why a person would be asked about it; empty when nobody is."""

    subject: str
    risk: Risk
    why_ask: str = ""


async def risk_at(config: Config, workspace: Path, target: str = "") -> ChangeRisk:
    """The risk of the change that a person means, as `review` does."""
    change = await asyncio.to_thread(change_at, config, workspace, target)
    files = change.files
    is_diff = bool(target) and (workspace / target).is_file()
    impact = None if is_diff else await impact_since(config, workspace, target)
    return _judged(config, change.subject, risk_of_files(config, files, impact, change.left_out))


async def session_risk(config: Config, session: str) -> ChangeRisk:
    """The risk of all that a session changed, as its journal has it."""
    async with journal_of(config, session) as reader:
        files = parse_diff(await net_diff(reader))
        chosen = await last_event(reader, ModeChosen)
        untested = (await standing_checks(reader)).untested
    risk = risk_of_files(config, files, None, untested=untested)
    return _judged(config, f"what session {reader.session} changed", risk, _mode(chosen))


async def impact_since(config: Config, workspace: Path, since: str = "") -> Impact | None:
    """What a change reaches; None where there is no repository to ask."""
    try:
        return await look_at_impact(config, workspace, since=since)
    except UsageError:
        return None


def risk_of_files(
    config: Config,
    files: Sequence[DiffedFile],
    impact: Impact | None,
    left_out: Sequence[str] = (),
    untested: int | None = None,
) -> Risk:
    """The risk of a diff, with what is known of what it reaches. `untested` lines are those that the session
    measured; where it did not, tests that nothing reaches tell."""
    vault = Vault()
    secrets = sum(vault.holds_secrets(line.encode()) for each in files for line in each.added.values())
    if untested is None and impact and not impact.tests and not impact.not_read:
        untested = _untested(files)
    facts = facts_of_change(
        files,
        sensitive=config.settings.review.sensitive_paths,
        impact=impact,
        secrets=secrets,
        untested=untested,
        not_known=left_out,
    )
    return risk_of(facts)


def _untested(files: Sequence[DiffedFile]) -> int:
    """Added lines of source, of which no test is known."""
    return sum(
        bool(line.strip())
        for each in files
        if is_source(each.path) and not is_test(each.path)
        for line in each.added.values()
    )


def _judged(config: Config, subject: str, risk: Risk, mode: Mode = "auto") -> ChangeRisk:
    review = config.settings.review
    why = "" if review.ask == "off" else why_ask(risk, mode, review.risk_limit)
    return ChangeRisk(subject=subject, risk=risk, why_ask=why)


async def risk_of_branch(
    config: Config, recorder: Recorder, workspace: Path, base: str, branch: str
) -> ChangeRisk:
    """The risk of a branch that is about to land on the commit `base`, in the mode that its session has, told
    without its secrets."""
    reader = recorder.journal
    chosen = await last_event(reader, ModeChosen)
    untested = (await standing_checks(reader)).untested
    git = Git(workspace, config.environment)
    diff = await asyncio.to_thread(git.run, "diff", *PLAIN_DIFF, base, branch)
    impact = await impact_since(config, workspace, base)
    risk = risk_of_files(config, parse_diff(diff.decode("utf-8", "replace")), impact, untested=untested)
    told = _judged(config, f"what session {reader.session} changed", risk, _mode(chosen))
    return redacted(told, recorder.vault)


def _mode(chosen: ModeChosen | None) -> Mode:
    return parse_mode(chosen.mode)[0] if chosen else DEFAULT_MODE
