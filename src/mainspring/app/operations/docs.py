"""Pages about the source files of a folder: having them written, how each stands, what a person decides.

All of a folder's pages are in the journal of one session, found by its title and its events. A run goes on
where the last one was: a file whose content has a verdict is not sent again.
"""

from __future__ import annotations

import asyncio
import difflib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal

import msgspec

from mainspring.app.build import open as open_session
from mainspring.app.engines import engine_name
from mainspring.app.imported import import_note
from mainspring.app.known import workspace_at
from mainspring.app.modes import parse_mode
from mainspring.app.operations.sessions import journal_of, list_sessions, rows_in
from mainspring.app.policies import DEFAULT_MODE, confinement_of
from mainspring.app.project_settings import in_project
from mainspring.app.records import recording, vault_of
from mainspring.app.stores import sessions_of
from mainspring.app.workspaces import AllowHome
from mainspring.catalog import DOCS_TITLE
from mainspring.checks.syntax import Syntax
from mainspring.engines import builtin
from mainspring.errors import MainspringError, PathRefused, UsageError
from mainspring.events import Cap, DocsEnded, DocsStarted, Limits, PageForm, PageJudged
from mainspring.forge.fold import DOCS_KINDS, DocsFold, PageState
from mainspring.forge.layout import file_of, page_text
from mainspring.forge.output import PageOnDisk, WrittenPages, look_at, remove_pages, write_pages
from mainspring.forge.prompts import SYSTEM
from mainspring.forge.run import DocsProgress, DocsStop, PageRun
from mainspring.forge.sources import choose_sources, content_hash
from mainspring.journal import JournalReader, events_in
from mainspring.models.connect import is_here, resolve_provider
from mainspring.sandbox.files import Files
from mainspring.secrets.redaction import expanded
from mainspring.secrets.vault import Vault
from mainspring.session.session import Session, runtime_of
from mainspring.settings import Config

OUTPUT = "docs/api"
TRIES = 3
AT_ONCE = 4
_LOCAL = "local"


class DocsHow(msgspec.Struct, frozen=True, kw_only=True):
    """How pages are written: for which folder and in which form, by whom, and what one run may use. `again`
    has files done anew that were rejected, or wait for a person. `at_once` of 0 is as many as suit the
    model."""

    output: str = OUTPUT
    form: PageForm = "markdown"
    model: str = ""
    max_cost_usd: float | None = None
    max_tokens: int | None = None
    tries: int = TRIES
    at_once: int = 0
    again: bool = False
    sandbox: str = ""
    allow_unpriced: bool = False
    allow_home: AllowHome = False
    on_begin: Callable[[str, DocsStarted, int], None] = lambda _session, _started, _todo: None
    on_progress: Callable[[DocsProgress], None] = lambda _: None


class DocsRun(msgspec.Struct, frozen=True, kw_only=True):
    """What came of a run. `undone` files have no verdict, because of `stop`."""

    session: str
    output: str
    left_out: tuple[str, ...]
    approved: int
    rejected: int
    person: int
    undone: int
    written: tuple[str, ...]
    left_alone: tuple[str, ...]
    cost_usd: float
    stop: DocsStop | None = None


PageSource = Literal["same", "changed", "gone"]


class PageRow(msgspec.Struct, frozen=True, kw_only=True):
    """How the page of a file stands: the verdict on its newest draft and why, whether the file has changed
    since, and how the file of the page is (empty when none was approved)."""

    path: str
    standing: str
    by: str = ""
    why: str = ""
    source: PageSource = "same"
    page: PageOnDisk | Literal[""] = ""


class DocsStatus(msgspec.Struct, frozen=True, kw_only=True):
    session: str
    output: str
    form: PageForm
    pages: tuple[PageRow, ...]


async def forge_docs(config: Config, folder: Path, paths: Sequence[str], how: DocsHow) -> DocsRun:
    """Writes pages about the files under these paths of a folder, or about all of it."""
    place = workspace_at(folder)
    if engine_name("", None, in_project(config, place)) != builtin.NAME:
        raise UsageError(
            "Pages are written by the built-in engine, and the settings name another one.",
            remedy="mainspring config set engine builtin",
        )
    opened = open_session(
        place,
        session=(session := await _session_in(config, place)),
        model=how.model,
        limits=Limits(turn=Cap(usd=how.max_cost_usd, tokens=how.max_tokens)),
        system_prompt=None if session else SYSTEM,
        tools=(),
        sandbox=how.sandbox,
        allow_unpriced=how.allow_unpriced,
        allow_home=how.allow_home,
        config=config,
    )
    async with opened as made:
        is_local = _is_on_this_machine(runtime_of(made).models.current.name, config)
        return await _forge(made, paths, how, is_local=is_local)


async def _forge(made: Session, paths: Sequence[str], how: DocsHow, *, is_local: bool) -> DocsRun:
    runtime = runtime_of(made)
    files = runtime.workbench.files
    output = _output(files, how.output)
    syntax = Syntax(files.policy, runtime.sandbox)
    try:
        chosen = await choose_sources(runtime, syntax, paths)
    finally:
        await syntax.close()
    fold = await _load(runtime.journal, runtime.recorder.vault)
    started = DocsStarted(output=output, form=how.form, files=len(chosen.files), left_out=chosen.left_out)
    await runtime.record(started)
    fold.apply(started)
    before_usd = runtime.state.ledger.spent_usd
    if how.again:
        for file in chosen.files:
            if fold.page(file.path, file.sha256).standing in ("rejected", "person"):
                again = _verdict(fold.page(file.path, file.sha256), "again", "")
                await runtime.record(again)
                fold.apply(again)
    run = PageRun(runtime, fold, chosen, tries=how.tries, on_progress=how.on_progress)
    how.on_begin(made.id, started, len(run.todo))
    at_once = how.at_once or (1 if is_local else AT_ONCE)
    ended: DocsEnded = await run.run(at_once)
    written = await _write(files, fold)
    return DocsRun(
        session=made.id,
        output=output,
        left_out=chosen.left_out,
        approved=ended.approved,
        rejected=ended.rejected,
        person=ended.person,
        undone=ended.undone,
        written=written.written,
        left_alone=written.left_alone,
        cost_usd=runtime.state.ledger.spent_usd - before_usd,
        stop=run.stop,
    )


def _is_on_this_machine(name: str, config: Config) -> bool:
    """Whether all of the work is done here: files at the same time would only wait for each other."""
    provider = name.partition("#")[0] if "@" in name else name.partition("/")[0]
    if provider == _LOCAL:
        return True
    try:
        spec = resolve_provider(provider, config.key_environment)
    except MainspringError:
        return False  # a model that a program gave
    return spec.provider.is_local or is_here(spec.base_url)


async def docs_status(config: Config, folder: Path, paths: Sequence[str] = ()) -> DocsStatus:
    """How the pages of a folder stand; with paths only those below them."""
    place = workspace_at(folder)
    session, fold, files = await _known(config, place)
    started = _started(fold)
    wanted = [state for path, state in sorted(fold.pages.items()) if _is_below(path, place, paths)]
    rows = await asyncio.to_thread(lambda: tuple(_row(files, state, started) for state in wanted))
    return DocsStatus(session=session, output=started.output, form=started.form, pages=rows)


async def judge_page(
    config: Config,
    folder: Path,
    paths: Sequence[str],
    verdict: Literal["approved", "rejected"],
    why: str = "",
) -> WrittenPages:
    """Records what a person decides about the newest drafts of files, and writes what is approved now. A page
    that was approved and is rejected is removed."""
    place = workspace_at(folder)
    session, fold, files = await _known(config, place)
    states = [_state(fold, place, path) for path in paths]
    for state in states:
        if verdict == "approved" and state.draft is None:
            raise UsageError(
                f"There is no draft of a page about {state.path}.",
                remedy=f"mainspring docs forge {state.path} --again",
            )
    approved = [state.approved for state in states]
    async with recording(session, config) as recorder:
        for state in states:
            judged = _verdict(state, verdict, why)
            await recorder.record(judged)
            fold.apply(judged)
    withdrawn = [page for page, state in zip(approved, states, strict=True) if page and not state.approved]
    started = _started(fold)
    gone = await asyncio.to_thread(remove_pages, files, started.output, withdrawn, started.form)
    done = await _write(files, fold)
    left = (*done.left_alone, *gone.left_alone)
    return msgspec.structs.replace(done, left_alone=left, removed=gone.removed)


async def page_diff(config: Config, folder: Path, path: str) -> str:
    """What the newest draft of a file changes against the page that is approved, or else on disk; empty when
    it changes nothing."""
    place = workspace_at(folder)
    _, fold, _ = await _known(config, place)
    state, started = _state(fold, place, path), _started(fold)
    if state.draft is None:
        raise UsageError(
            f"There is no draft of a page about {state.path}.",
            remedy=f"mainspring docs forge {state.path}",
        )
    name = f"{started.output}/{file_of(state.path, 'markdown')}"
    before = page_text(state.approved, "markdown") if state.approved else ""
    after = page_text(state.draft, "markdown")
    sides = (f"{name} (approved)" if before else "/dev/null", f"{name} (draft)")
    old, new = before.splitlines(keepends=True), after.splitlines(keepends=True)
    return "".join(difflib.unified_diff(old, new, *sides))


async def _session_in(config: Config, place: Path) -> str:
    """The session that has the pages of a folder; empty when there is none."""
    for row in await rows_in(place, await list_sessions(config), config):
        is_ours = import_note(sessions_of(config).files(row.id)) is None
        if is_ours and row.title.startswith(DOCS_TITLE):
            async with journal_of(config, row.id) as journal:
                if await journal.last("DocsStarted"):
                    return row.id
    return ""


async def _known(config: Config, place: Path) -> tuple[str, DocsFold, Files]:
    session = await _session_in(config, place)
    if not session:
        raise UsageError(
            f"No pages were written about {place} yet.", remedy="mainspring docs forge writes them."
        )
    store = sessions_of(config)
    async with journal_of(config, session) as journal:
        fold = await _load(journal, vault_of(store, session, config))
    mode, _ = parse_mode(config.settings.mode or DEFAULT_MODE)
    return session, fold, Files(confinement_of(place, mode, in_project(config, place)))


async def _load(journal: JournalReader, vault: Vault) -> DocsFold:
    fold = DocsFold()
    async for recorded in events_in(journal, kinds=DOCS_KINDS):
        fold.apply(expanded(recorded.event, vault))
    return fold


async def _write(files: Files, fold: DocsFold) -> WrittenPages:
    """Writes what is approved of files that are still there."""
    started = _started(fold)
    pages = [state.approved for state in fold.pages.values() if state.approved]
    there = [page for page in pages if (files.policy.workspace / page.path).is_file()]
    return await asyncio.to_thread(write_pages, files, started.output, there, started.form)


def _row(files: Files, state: PageState, started: DocsStarted) -> PageRow:
    page = look_at(files, started.output, state.approved, started.form) if state.approved else ""
    return PageRow(
        path=state.path,
        standing=state.standing,
        by=state.by,
        why=state.why,
        source=_source(files, state),
        page=page,
    )


def _source(files: Files, state: PageState) -> PageSource:
    try:
        data = files.read(state.path).data
    except (OSError, PathRefused):
        return "gone"
    return "same" if content_hash(data) == state.source else "changed"


def _state(fold: DocsFold, place: Path, path: str) -> PageState:
    name = _name(place, path)
    if state := fold.pages.get(name):
        return state
    raise UsageError(
        f"There is no page about {name} on record.",
        remedy="`mainspring docs status` lists those that there are.",
    )


def _name(place: Path, path: str) -> str:
    whole = (place / path).absolute()
    return whole.relative_to(place).as_posix() if whole.is_relative_to(place) else path


def _is_below(path: str, place: Path, paths: Sequence[str]) -> bool:
    names = [_name(place, each) for each in paths]
    return not names or any(name in (".", path) or path.startswith(f"{name}/") for name in names)


def _verdict(state: PageState, verdict: Literal["approved", "rejected", "again"], why: str) -> PageJudged:
    return PageJudged(
        path=state.path, source=state.source, verdict=verdict, by="person", attempt=state.attempt, why=why
    )


def _started(fold: DocsFold) -> DocsStarted:
    return fold.started or DocsStarted(output=OUTPUT)


def _output(files: Files, output: str) -> str:
    """The folder of all pages, from the workspace on; it must lie in it."""
    place = files.policy.workspace
    whole = files.resolve(output)
    if whole == place or not whole.is_relative_to(place):
        raise UsageError(
            f"Pages cannot be written to {output}: it is not a folder below {place}.",
            remedy="Give a folder of the project: --output docs/api",
        )
    return whole.relative_to(place).as_posix()
