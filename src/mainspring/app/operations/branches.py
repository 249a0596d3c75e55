"""A git branch of a session's own: begin it, commit what the session did, and land it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Literal

import msgspec

from mainspring.app.imported import made_elsewhere
from mainspring.app.operations.commit_draft import CommitDraft, draft_subject
from mainspring.app.operations.risk import ChangeRisk, risk_of_branch
from mainspring.app.operations.sessions import journal_of
from mainspring.app.records import recording, vault_of
from mainspring.app.stores import sessions_of
from mainspring.context.history import live, read_all, undone_ranges
from mainspring.errors import UsageError
from mainspring.events import BranchMoved, FilesChanged, SessionStarted, UserSaid
from mainspring.journal import JournalReader, last_event
from mainspring.sandbox.policy import Confinement, is_hidden_name
from mainspring.secrets.redaction import expanded, redacted
from mainspring.secrets.vault import Vault
from mainspring.session.rewind import complete, go_back
from mainspring.session.session import Session, runtime_of
from mainspring.settings import Config
from mainspring.workspace import branches
from mainspring.workspace.git import Git

HowToLand = Literal["merge", "squash", "discard"]


class _At(msgspec.Struct, frozen=True):
    """A session's branch: where the journal says that it began, and where it is."""

    seq: int
    moved: BranchMoved


class Landed(msgspec.Struct, frozen=True):
    """What became of a branch: `tip` is its last commit, `left` are files that could not be put back, `risk`
    is what landed; a branch that was discarded has none."""

    moved: BranchMoved
    tip: str
    left: tuple[str, ...] = ()
    risk: ChangeRisk | None = None


class NotAgreed(UsageError):
    """A person must agree to a change before it lands, because of its risk. Nothing was changed."""

    exit_code = 3

    def __init__(self, session: str, told: ChangeRisk, agree: str = "", branch: str = "") -> None:
        agree = agree or f"mainspring land {session} --yes"
        look = f"git diff HEAD...{branch}" if branch else f"mainspring diff {session}"
        super().__init__(
            f"A person must agree before this lands: {told.why_ask}.",
            remedy=f"Look at it (`{look}`), then: {agree}",
        )
        self.told = told


async def begin_branch(config: Config, folder: Path, goal: str) -> BranchMoved:
    """Starts a branch for a goal, to be recorded at the beginning of its session; `UsageError` says why the
    work must happen on the user's own."""
    return await asyncio.to_thread(branches.start, Git(folder, config.environment), goal)


async def check_branch(config: Config, folder: Path) -> None:
    """`UsageError` says why no branch can be started in a folder."""
    await asyncio.to_thread(branches.check_start, Git(folder, config.environment))


async def commit_branch(config: Config, session: Session) -> BranchMoved | None:
    """Commits what a session did, on record, when it has a branch and there is something new; a refusal
    (`UsageError`) loses nothing."""
    git = Git(session.state.workspace, config.environment)
    recorder = runtime_of(session).recorder
    imported = made_elsewhere(sessions_of(config).files(session.id))
    at = await _branch(recorder.journal, recorder.vault, imported)
    if at is None:
        return None
    draft = await _draft(config, session, recorder.journal)
    made = await _commit(recorder.journal, git, at, recorder.vault, draft.subject)
    if made is None:
        return None
    made = msgspec.structs.replace(made, drafted_by=draft.model, draft_problem=draft.problem)
    await recorder.record(made)
    return redacted(made, recorder.vault)


async def branch_of(config: Config, session: str) -> BranchMoved | None:
    """The branch that a session works on and that has not landed, as it is now."""
    async with journal_of(config, session) as journal:
        vault = vault_of(sessions_of(config), journal.session, config)
        at = await _branch(journal, vault, made_elsewhere(sessions_of(config).files(journal.session)))
    return redacted(at.moved, vault) if at else None


async def land(config: Config, session: str, how: HowToLand, *, is_agreed: bool = False) -> Landed:
    """Brings the branch of a session into the branch that it began from, or gives it up. Where its risk needs
    a person, it must be `is_agreed`: else `NotAgreed`."""
    async with recording(session, config) as recorder:
        journal, vault = recorder.journal, recorder.vault
        at = await _branch(journal, vault, made_elsewhere(sessions_of(config).files(journal.session)))
        started = await last_event(journal, SessionStarted)
        if at is None or started is None:
            raise UsageError(
                "This session has no branch to merge.",
                remedy="Only `run --branch` makes one; without it, changes are in the folder already.",
            )
        root = Path(vault.expand(started.workspace))
        git = Git(root, config.environment)
        if how != "discard" and (made := await _commit(journal, git, at, vault)):
            await recorder.record(made)  # an undo since the last turn
            at = _At(at.seq, made)
        tip = await asyncio.to_thread(branches.tip_of, git, at.moved.branch)
        left: tuple[str, ...] = ()
        told: ChangeRisk | None = None
        if how == "discard":
            await complete(recorder, root)
            left = (await go_back(recorder, root, at.seq, "files")).left
            moved = await asyncio.to_thread(branches.discard, git, at.moved)
        else:
            base = git.text("merge-base", at.moved.base, tip, check=False) or at.moved.base
            told = await risk_of_branch(config, recorder, root, base, tip)
            if told.why_ask and not is_agreed:
                raise NotAgreed(journal.session, told)
            message = await _whole_message(journal, at.seq, await _drafted_subjects(journal, git, at.seq))
            moved = await asyncio.to_thread(branches.land, git, at.moved, how, message)
            moved = msgspec.structs.replace(moved, risk=told.risk.score)
        await recorder.record(moved)
    return Landed(redacted(moved, vault), tip, left, told)


async def _draft(config: Config, session: Session, journal: JournalReader) -> CommitDraft:
    """Only where something changed since the last commit."""
    moved, said = await journal.last("BranchMoved"), await last_event(journal, UserSaid)
    after = moved.seq if moved else 0
    recorded = await read_all(journal, kinds=("FilesChanged",), after=after)
    events = [item.event for item in recorded if isinstance(item.event, FilesChanged)]
    paths = {change.path for event in events for change in event.changes}
    return await draft_subject(config, session, paths, said.text if said else "") if paths else CommitDraft()


async def _commit(
    journal: JournalReader, git: Git, at: _At, vault: Vault, subject: str = ""
) -> BranchMoved | None:
    """Commits what the branch has not yet of what the session did since it began."""
    recorded = await read_all(journal, kinds=("FilesChanged",), after=at.seq)
    changed = [expanded(item.event, vault) for item in recorded if isinstance(item.event, FilesChanged)]
    message = await _message(journal, subject)
    is_secret = partial(is_hidden_name, policy=Confinement(workspace=Path()))
    commit = partial(branches.commit, git, at.moved, changed, message, is_secret=is_secret)
    return await asyncio.to_thread(commit)


async def _branch(journal: JournalReader, vault: Vault, imported: int) -> _At | None:
    """The branch that the session works on now. One that it inherited as a fork is its parent's to land; one
    that began elsewhere, in the first events that were `imported`, may be anybody's here."""
    started = await last_event(journal, SessionStarted)
    inherited = max(imported, started.parent_seq if started else 0)
    at: _At | None = None
    for item in await read_all(journal, kinds=("BranchMoved",), after=inherited):
        match item.event:
            case BranchMoved(action="started") as moved:
                at = _At(item.seq, expanded(moved, vault))
            case BranchMoved(action="committed") as moved if at:
                at = _At(at.seq, expanded(moved, vault))
            case _:
                at = None
    return at


async def _message(journal: JournalReader, subject: str = "") -> str:
    said = await last_event(journal, UserSaid)
    title = _title(said.text if said else "")
    asked = f"Asked for: {title}\n" if subject else ""
    return f"{subject or title}\n\n{asked}Session: {journal.session}"


async def _drafted_subjects(journal: JournalReader, git: Git, after: int) -> list[str]:
    """Those of the commits of a branch whose subject a model wrote."""
    moves = await read_all(journal, kinds=("BranchMoved",), after=after)
    made = [item.event for item in moves if isinstance(item.event, BranchMoved)]
    commits = [each.commit for each in made if each.drafted_by and not each.draft_problem]
    return [git.text("log", "-1", "--format=%s", each, check=False) for each in commits]


async def _whole_message(journal: JournalReader, after: int, drafted: Sequence[str] = ()) -> str:
    """A message for all that a branch has: what was drafted for its commits, or said first and then."""
    undone = await read_all(journal, kinds=("Undone",))
    said = live(await read_all(journal, kinds=("UserSaid",), after=after), undone_ranges(undone))
    told = [_title(item.event.text) for item in said if isinstance(item.event, UserSaid)]
    titles = list(dict.fromkeys(filter(None, drafted))) or told
    first, *more = titles or [_title("")]
    listed = "".join(f"- {title}\n" for title in more)
    return f"{first}\n\n{listed}{chr(10) if listed else ''}Session: {journal.session}"


def _title(text: str) -> str:
    return next((line.strip() for line in text.splitlines() if line.strip()), "Work")[:72]
