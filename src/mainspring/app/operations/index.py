"""The index of a folder's repository: brought up to date, asked for names, uses and texts, and drawn as a
map. Only updating writes, and nothing of it in the workspace."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec

from mainspring.app.index import RepositoryIndex, repository_index
from mainspring.app.operations.hotspots import hotspots_of
from mainspring.errors import MainspringError, UsageError
from mainspring.index import IndexedSymbol, IndexStatus, Passage, UsedAt
from mainspring.index.conventions import Convention, convention_line, conventions
from mainspring.index.hotspots import Hotspot, hotspot_line
from mainspring.index.repository_map import MAX_FILES, RankedFile, render_map
from mainspring.index.store import IndexStore
from mainspring.index.update import IndexChange
from mainspring.secrets.vault import Vault
from mainspring.settings import Config
from mainspring.workspace.git import Git
from mainspring.workspace.instructions import repository_root

MAP_TOKENS = 2000
_MOST = 50
_COMMITS = 300


class IndexUpdate(msgspec.Struct, frozen=True, kw_only=True):
    """What became of an index. `is_busy`: another process updates it at the moment."""

    change: IndexChange
    status: IndexStatus
    seconds: float


class IndexMatches(msgspec.Struct, frozen=True, kw_only=True):
    """Symbols by their names, and passages by their words."""

    symbols: list[IndexedSymbol]
    passages: list[Passage]


class RepositoryMap(msgspec.Struct, frozen=True, kw_only=True):
    text: str
    tokens: int


async def update_index(
    config: Config,
    folder: Path,
    on_progress: Callable[[int, int], None] = lambda _done, _all: None,
    max_s: float = math.inf,
) -> IndexUpdate:
    """Reads what changed in the repository of a folder; all of it the first time. What was not read after
    `max_s` is left for the next time."""
    _check_is_project(config, folder)
    began = time.monotonic()
    async with repository_index(config, folder) as index:
        change = await index.update(on_progress, max_s)
        with index.store() as store:
            if change.read or change.removed or store.about("usual") is None:
                await asyncio.to_thread(_keep_usual, store, index.root, config)
            spots = await hotspots_of(config, index.root, store.paths())
            store.set_about(hotspots=Vault(config.secrets).redact(hotspot_line(spots)))
            status = store.status(index.root)
    return IndexUpdate(change=change, status=status, seconds=time.monotonic() - began)


def index_status(config: Config, folder: Path) -> IndexStatus:
    with _opened(config, folder) as (store, root):
        return store.status(root)


def find_in_index(config: Config, folder: Path, words: str, most: int = _MOST) -> IndexMatches:
    """Symbols whose name holds the words, and passages that hold all of them."""
    with _opened(config, folder) as (store, _):
        exact = store.definitions(words, most)
        like = [] if exact and "." in words else store.named_like(words, most)
        symbols = {(each.path, each.line, each.name): each for each in (*exact, *like)}
        return IndexMatches(symbols=list(symbols.values())[:most], passages=store.search(words, most))


def uses_of(config: Config, folder: Path, name: str) -> list[UsedAt]:
    """Where a name stands in the code of a repository, whatever it means there."""
    with _opened(config, folder) as (store, _):
        return store.references(name.rpartition(".")[2])


def conventions_of(config: Config, folder: Path) -> list[Convention]:
    """What is usual in the repository: tests, names, imports, commits."""
    with _opened(config, folder) as (store, root):
        return _conventions(store, root, config)


def _conventions(store: IndexStore, root: Path, config: Config) -> list[Convention]:
    subjects = commit_subjects(root, config)
    return conventions(store.paths(), store.named(), store.imports(), subjects)


def commit_subjects(root: Path, config: Config) -> list[str]:
    """Of the newest commits; none without a repository."""
    log = Git(root, config.environment).text(
        "log", "-n", str(_COMMITS), "--no-merges", "--format=%s", check=False
    )
    return [line for line in log.split("\n") if line]


def _keep_usual(store: IndexStore, root: Path, config: Config) -> None:
    """For the map: reading all of it takes too long when a session begins."""
    store.set_about(usual=convention_line(_conventions(store, root, config)))


async def earlier_work(config: Config, folder: Path) -> list[Hotspot]:
    """Files that sessions of this project changed again and again, found errors in, or remembered."""
    with _opened(config, folder) as (store, root):
        return await hotspots_of(config, root, store.paths())


def map_of(config: Config, folder: Path, *, tokens: int = MAP_TOKENS, about: str = "") -> RepositoryMap:
    with _opened(config, folder) as (store, root):
        text = map_text(store, root, tokens=tokens, about=about)
        return RepositoryMap(text=text, tokens=tokens)


def map_text(store: IndexStore, root: Path, *, tokens: int, about: str = "") -> str:
    """What is left out of an index that is behind the files: those that are gone."""
    files = [RankedFile(*each) for each in store.best(MAX_FILES)]
    more = [line for line in (store.about("usual"), store.about("hotspots")) if line]
    return render_map(
        files,
        store.paths(),
        tokens=tokens,
        about=about,
        more=more,
        is_there=lambda path: (root / path).is_file(),
    )


def _check_is_project(config: Config, folder: Path) -> None:
    root, home = repository_root(folder.resolve()), Path(config.variable("HOME") or "/").resolve()
    if home.is_relative_to(root):
        raise UsageError(
            f"{root} holds the home folder, which is no project.", remedy="Go to a project, or give -C."
        )


@contextmanager
def _opened(config: Config, folder: Path) -> Generator[tuple[IndexStore, Path]]:
    index = RepositoryIndex(config, folder)
    if not index.is_there:
        raise UsageError(f"{index.root} has no index yet.", remedy="Make one: mainspring index")
    with index.store() as store:
        yield store, index.root


def prompt_map(config: Config, folder: Path, *, least_files: int) -> str:
    """For the first message of a session: empty where there is no index, or so few files that they are listed
    anyway."""
    with suppress(MainspringError), _opened(config, folder) as (store, root):
        if len(store.paths()) > least_files:
            return map_text(store, root, tokens=config.settings.work.map_tokens)
    return ""
