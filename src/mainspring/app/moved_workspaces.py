"""Workspaces on a store that machines share: what a session began with is recorded, so that another machine
can make its workspace, or bring the one that it has up to date.
"""

from __future__ import annotations

import asyncio
import hashlib
import shutil
import tempfile
from pathlib import Path

import msgspec

from mainspring.app.known import KnownSession
from mainspring.catalog import Sessions
from mainspring.context.history import read_all
from mainspring.disk.shared_files import SharedFiles
from mainspring.errors import UsageError
from mainspring.events import (
    RESUMED_SOURCE,
    Event,
    FilesChanged,
    NoteAdded,
    SessionStarted,
    WorkspaceKept,
    WorkspaceMoved,
)
from mainspring.journal import last_event
from mainspring.secrets.recorder import Recorder
from mainspring.secrets.redaction import expanded
from mainspring.session.moved_files import bring_up_to_date
from mainspring.session.opening import Opening
from mainspring.settings import Config
from mainspring.system import host_name
from mainspring.turns.runtime import Runtime
from mainspring.workspace.base_commit import BUNDLE, base_commit, deleted, unpushed
from mainspring.workspace.git import GitFailed, clone_commit

_SHOWN = 20


def with_workspace(opening: Opening, runtime: Runtime, config: Config, known: KnownSession) -> Opening:
    """The opening of a session whose workspace may be needed on other machines, which records it as well. An
    agent works for its parent, in the workspace of that one or in a copy of it."""
    project = str(known.project or "")
    opening = msgspec.structs.replace(opening, project=project, imported=known.imported)
    if (store := known.store) is None or opening.parent:
        return opening

    async def beginning() -> tuple[Event, ...]:
        begun = await opening.beginning() if opening.beginning else ()
        return (*begun, await _kept(Path(opening.workspace), runtime, store, config))

    return msgspec.structs.replace(opening, beginning=beginning, moved=known.moved)


async def bring_workspace(recorder: Recorder, config: Config, store: Sessions) -> tuple[Event, ...]:
    """Sees to it that the workspace of a session that goes on is here, with all that is recorded of it. On
    the machine where it was last, nothing is done as long as it is there. Gives what is to be recorded."""
    journal, vault = recorder.journal, recorder.vault
    started, kept = await last_event(journal, SessionStarted), await last_event(journal, WorkspaceKept)
    if started is None or kept is None:
        return ()
    moved = await last_event(journal, WorkspaceMoved)
    place = Path(vault.expand(started.workspace))
    is_new = not await asyncio.to_thread(place.is_dir)
    if not is_new and (moved or kept).machine == _machine(config):
        return ()
    kept = expanded(kept, vault)
    recorded = await read_all(journal, kinds=("FilesChanged",))
    changed = [expanded(item.event, vault) for item in recorded if isinstance(item.event, FilesChanged)]
    changes = [FilesChanged(changes=kept.changes), *changed]
    if is_new:
        files = store.secret_files(journal.session)
        with tempfile.TemporaryDirectory() as folder:
            made = await asyncio.to_thread(_made, kept, place, files, Path(folder), config)
        try:
            done = await bring_up_to_date(recorder, made / kept.folder, changes)
            await asyncio.to_thread(_put, made, _top(place, kept))
        finally:
            await asyncio.to_thread(shutil.rmtree, made, ignore_errors=True)
    else:
        done = await bring_up_to_date(recorder, place, changes)
    lost = (*done.lost, *kept.left_out)
    event = WorkspaceMoved(
        host=host_name(),
        machine=_machine(config),
        is_new=is_new,
        files=done.files,
        left=done.left[:_SHOWN],
        lost=lost[:_SHOWN],
    )
    return event, NoteAdded(text=_told(event, kept), source=RESUMED_SOURCE)


async def _kept(root: Path, runtime: Runtime, store: Sessions, config: Config) -> WorkspaceKept:
    recorder, environment = runtime.recorder, config.environment
    base = await asyncio.to_thread(base_commit, root, environment)
    changes, left_out = await runtime.workbench.time_machine.all_but(base.known, recorder.put_blobs)
    changes = [
        msgspec.structs.replace(each, kind="modified", before=base.changed[each.path])
        if each.path in base.changed
        else each
        for each in changes
    ]
    bundle, problem = await asyncio.to_thread(unpushed, root, environment) if base.commit else (b"", "")
    if bundle:
        files = store.secret_files(recorder.session)
        await asyncio.to_thread(files.write, BUNDLE, bundle)
    if problem:
        left_out.append(f"commits that are on no remote ({problem})")
    return WorkspaceKept(
        host=host_name(),
        machine=_machine(config),
        remote=base.remote,
        commit=base.commit,
        branch=base.branch,
        folder=base.folder,
        has_commits=bool(bundle),
        changes=(*changes, *deleted(base, root)),
        left_out=tuple(left_out[:_SHOWN]),
    )


def _made(kept: WorkspaceKept, place: Path, files: SharedFiles, folder: Path, config: Config) -> Path:
    """The repository at its commit, or an empty folder, beside where it shall be."""
    top, bundle = _top(place, kept), None
    if kept.has_commits:
        if (data := files.read(BUNDLE)) is None:
            raise _unmakeable(place, "its commits are on no remote, and this machine cannot read them")
        bundle = folder / BUNDLE
        bundle.write_bytes(data)
    try:
        top.parent.mkdir(parents=True, exist_ok=True)
        made = Path(tempfile.mkdtemp(prefix=f".{top.name}-", dir=top.parent))
    except OSError as error:
        raise _unmakeable(place, f"{top.parent}: {error.strerror}") from error
    try:
        if kept.commit:
            clone_commit(kept.remote, kept.commit, kept.branch, made, config.environment, bundle)
        (made / kept.folder).mkdir(parents=True, exist_ok=True)
    except GitFailed as error:
        shutil.rmtree(made, ignore_errors=True)
        raise _unmakeable(place, error.message.rstrip(".")) from error
    return made


def _put(made: Path, top: Path) -> None:
    made.chmod(0o755)
    made.rename(top)


def _top(place: Path, kept: WorkspaceKept) -> Path:
    for _ in Path(kept.folder).parts:
        place = place.parent
    return place


def _machine(config: Config) -> str:
    """This machine, for journals; two homes count as two."""
    return hashlib.sha256(f"{host_name()}:{config.home}".encode()).hexdigest()[:16]


def _told(event: WorkspaceMoved, kept: WorkspaceKept) -> str:
    what = "was made again" if event.is_new else "was brought up to date"
    commit = f" from commit {kept.commit[:12]}" if kept.commit and event.is_new else ""
    text = f"The session goes on on another machine, {event.host}. Its workspace {what} there{commit}"
    text += f" and from what is recorded ({event.files} files)."
    if event.left:
        text += f" Left as they are: {', '.join(event.left)}."
    if event.lost:
        text += f" Not there: {', '.join(event.lost)}."
    return text


def _unmakeable(place: Path, why: str) -> UsageError:
    return UsageError(
        f"The workspace {place} is not on this machine and cannot be made: {why}.",
        remedy="Put it there by hand, as a clone or a shared folder, and resume again.",
    )
