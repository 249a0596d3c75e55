"""Named outputs of any session: kept by their content, in versions, shown, compared, searched and exported.

They lie in the session's own journal, with everything else. A session that another process runs gets them
through its inbox.
"""

from __future__ import annotations

import asyncio
import mimetypes
import re
from collections.abc import Sequence
from pathlib import Path, PurePosixPath

import msgspec

from mainspring.app.operations.messages import deliver
from mainspring.app.operations.sessions import journal_of, list_sessions
from mainspring.app.records import recording, vault_of
from mainspring.app.stores import sessions_of
from mainspring.disk.files import write_private
from mainspring.disk.inbox import SaveCommand
from mainspring.disk.untrusted import read_untrusted
from mainspring.errors import JournalDamaged, JournalError, UsageError
from mainspring.events import ArtifactSaved, FileChange, FileState, SessionStarted
from mainspring.evidence.kept import KINDS, KeptVersion, read_kept
from mainspring.journal import JournalReader, last_event
from mainspring.settings import Config
from mainspring.tools.read import image_type
from mainspring.workspace.diffs import unified

MAX_BYTES = 16_000_000
_MAX_SEARCHED = 1_000_000
_MAX_NAME = 200
_WRONG = re.compile(r"[\x00-\x1f\x7f\\]")
_TYPES = {".csv": "text/csv", ".md": "text/markdown", ".ipynb": "application/x-ipynb+json"}
_INDEX = "artifacts.json"


class ArtifactContent(msgspec.Struct, frozen=True, kw_only=True):
    version: KeptVersion
    data: bytes


class FoundArtifact(msgspec.Struct, frozen=True, kw_only=True):
    """The newest version of an output that a search found, and the first line of it that has the words."""

    version: KeptVersion
    line: str = ""


async def kept_artifacts(config: Config, session: str) -> tuple[KeptVersion, ...]:
    """Every version of every output of a session, the oldest first."""
    async with journal_of(config, session) as reader:
        return tuple(await read_kept(reader))


async def newest_keeping(config: Config, name: str = "") -> str:
    """The newest session that keeps an output of this name, or any."""
    for row in await list_sessions(config):
        try:
            async with journal_of(config, row.id) as reader:
                if await reader.last(*KINDS) is None:
                    continue
                if any(not name or each.name == name for each in await read_kept(reader)):
                    return row.id
        except JournalError:
            continue  # a damaged session is not the one that was meant
    raise UsageError(
        f"No session keeps an artifact{f' {name!r}' if name else ''}.",
        remedy="`mainspring artifacts search` finds them; `mainspring artifacts save` keeps one.",
    )


async def save_artifact(
    config: Config, session: str, name: str, data: bytes, *, note: str = "", source: str = ""
) -> KeptVersion:
    """Keeps an output under a name. The same content again is no new version."""
    name = _checked_name(name)
    if len(data) > MAX_BYTES:
        raise UsageError(
            f"{name} has {len(data):,} bytes; an artifact may have {MAX_BYTES:,} at most.",
            remedy="Keep a part of it, or a file that says where it is.",
        )
    session = await sessions_of(config).find(session)
    kind = media_type_of(name, data)
    save = SaveCommand(name=name, data=data, media_type=kind, note=note, source=source)
    if await deliver(config, session, save) is None:
        async with recording(session, config) as recorder:
            blob = await recorder.put_blob(data, kind)
            await recorder.record(ArtifactSaved(name=name, blob=blob, note=note, source=source))
    async with journal_of(config, session) as reader:
        return _pick(await read_kept(reader), name, None)


async def save_file(
    config: Config, session: str, path: str, *, name: str = "", note: str = ""
) -> KeptVersion:
    """Keeps a file of the session's workspace."""
    async with journal_of(config, session) as reader:
        started, session = await last_event(reader, SessionStarted), reader.session
    if started is None:
        raise UsageError("This session is empty: nothing was recorded in it.")
    root = Path(vault_of(sessions_of(config), session, config).expand(started.workspace))
    data = await asyncio.to_thread(_read_inside, root, path)
    return await save_artifact(config, session, name or path, data, note=note, source=path)


async def artifact_content(
    config: Config, session: str, name: str, version: int | None = None
) -> ArtifactContent:
    """A version of an output, by default the newest."""
    async with journal_of(config, session) as reader:
        found = _pick(await read_kept(reader), name, version)
        return ArtifactContent(version=found, data=await reader.get(found.blob))


async def diff_artifact(
    config: Config, session: str, name: str, old: int | None = None, new: int | None = None
) -> tuple[str, ...]:
    """The lines of a unified diff between two versions, by default the last two."""
    async with journal_of(config, session) as reader:
        kept = await read_kept(reader)
        after = _pick(kept, name, new)
        before = _pick(kept, name, max(after.version - 1, 1) if old is None else old)
        one, other = await reader.get(before.blob), await reader.get(after.blob)
    change = FileChange(path=name, kind="modified", before=FileState(), after=FileState())
    return tuple(unified(change, one, other))


async def search_artifacts(config: Config, words: str, session: str = "") -> tuple[FoundArtifact, ...]:
    """The outputs of all sessions whose name, note or text has the words, the newest session first."""
    wanted = words.casefold()
    names = [session] if session else [row.id for row in await list_sessions(config)]
    found: list[FoundArtifact] = []
    for name in names:
        try:
            async with journal_of(config, name) as reader:
                if await reader.last(*KINDS) is not None:
                    found += await _matching(reader, wanted)
        except JournalError:
            continue  # a damaged session is in no search; `sessions` says that it is
    return tuple(found)


async def export_artifacts(
    config: Config, session: str, folder: Path, names: Sequence[str] = ()
) -> tuple[Path, ...]:
    """Writes the newest version of each output, or of those named, into a folder, with a list of them."""
    async with journal_of(config, session) as reader:
        kept = await read_kept(reader)
        newest = {each.name: each for each in kept}
        chosen = [_pick(kept, name, None) for name in names] if names else list(newest.values())
        written: list[Path] = []
        for each in chosen:
            path = folder / _checked_name(each.name)
            await asyncio.to_thread(_write, path, await reader.get(each.blob))
            written.append(path)
    if written:
        index = msgspec.json.format(msgspec.json.encode(chosen), indent=2)
        await asyncio.to_thread(_write, folder / _INDEX, index + b"\n")
    return tuple(written)


def media_type_of(name: str, data: bytes) -> str:
    """What a content is, by its first bytes, else by its name; what is no text is only bytes."""
    if kind := image_type(data) or ("application/pdf" if data.startswith(b"%PDF-") else ""):
        return kind
    try:
        is_text = "\0" not in data.decode()
    except UnicodeDecodeError:
        is_text = False
    if not is_text:
        return "application/octet-stream"
    suffix = PurePosixPath(name).suffix.lower()
    kind = _TYPES.get(suffix) or mimetypes.guess_type(name, strict=False)[0] or ""
    is_known = kind.startswith("text/") or kind.endswith(("json", "xml"))
    return kind if is_known else "text/plain"


async def _matching(reader: JournalReader, wanted: str) -> list[FoundArtifact]:
    newest = {each.name: each for each in await read_kept(reader)}
    found: list[FoundArtifact] = []
    for each in newest.values():
        line = ""
        is_text = each.blob.media_type.startswith("text/") or each.blob.media_type.endswith("json")
        if is_text and each.blob.size <= _MAX_SEARCHED:
            try:
                text = (await reader.get(each.blob)).decode("utf-8", "replace")
            except JournalDamaged:
                text = ""
            line = next((each for each in text.splitlines() if wanted in each.casefold()), "")
        if line or wanted in f"{each.name}\n{each.note}".casefold():
            found.append(FoundArtifact(version=each, line=" ".join(line.split())[:_MAX_NAME]))
    return found


def _pick(kept: Sequence[KeptVersion], name: str, version: int | None) -> KeptVersion:
    versions = [each for each in kept if each.name == name]
    if not versions:
        names = ", ".join(sorted({each.name for each in kept})[:10])
        raise UsageError(
            f"This session keeps no artifact {name!r}.",
            remedy=f"It keeps {names}." if names else "`mainspring artifacts save` keeps one.",
        )
    if version is None:
        return versions[-1]
    if not 1 <= version <= len(versions):
        raise UsageError(f"{name} has no version {version}: there are {len(versions)}.")
    return versions[version - 1]


def _checked_name(name: str) -> str:
    path = PurePosixPath(name)
    leads_elsewhere = {"..", ".git"} & {part.casefold() for part in path.parts}
    is_wrong = not path.name or path.is_absolute() or leads_elsewhere or _WRONG.search(name)
    if is_wrong or len(name) > _MAX_NAME:
        raise UsageError(
            f"{name!r} cannot be the name of an artifact.",
            remedy="Take a relative path without `..` and `.git`, of 200 characters at most.",
        )
    return str(path)


def _read_inside(root: Path, path: str) -> bytes:
    if Path(path).is_absolute() or ".." in Path(path).parts:
        raise UsageError(f"{path} is not in the workspace of the session.")
    return read_artifact_file(root / path, root=root)


def read_artifact_file(file: Path, root: Path | None = None) -> bytes:
    """A file that shall be kept; with a `root`, one below it."""
    try:
        return read_untrusted(file, max_bytes=MAX_BYTES, root=root)
    except OSError as error:
        raise UsageError(f"{file} cannot be read: {error.strerror}.") from error


def _write(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.is_symlink():
        raise UsageError(f"{path} is a link; nothing was written through it.")
    write_private(path, data)
