"""The index of one repository in one SQLite file, with full-text search. It may be deleted or damaged at any
moment: then it is empty, and the next update fills it. Synchronous, meant for a thread.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# (apsw's stubs name a type that Python 3.11 does not have)

from __future__ import annotations

import os
import time
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import apsw
import msgspec

from mainspring.disk.files import make_file, make_folder
from mainspring.errors import MainspringError
from mainspring.index import ImportedAt, IndexDamaged, IndexedSymbol, IndexStatus, Passage, UsedAt
from mainspring.index.ranking import UsingFile

_VERSION = 2
_BUSY_MS = 5000
_TABLES = """
CREATE TABLE files (id INTEGER PRIMARY KEY, path TEXT UNIQUE, size INTEGER, mtime_ns INTEGER,
    ctime_ns INTEGER, hash BLOB, kind TEXT, problem TEXT, names BLOB, imports BLOB, rank REAL DEFAULT 0);
CREATE TABLE symbols (id INTEGER PRIMARY KEY, file INTEGER, name TEXT, kind TEXT, line INTEGER,
    end_line INTEGER, parent TEXT, signature TEXT, doc TEXT, score REAL DEFAULT 0);
CREATE INDEX symbols_name ON symbols (name COLLATE NOCASE);
CREATE INDEX symbols_file ON symbols (file);
CREATE TABLE passages (id INTEGER PRIMARY KEY, file INTEGER, line INTEGER, title TEXT, text TEXT);
CREATE INDEX passages_file ON passages (file);
CREATE VIRTUAL TABLE passage_words USING fts5(title, text, content='passages', content_rowid='id',
    tokenize="porter unicode61 remove_diacritics 2 tokenchars '_'");
CREATE VIRTUAL TABLE uses USING fts5(names, content='', contentless_delete=1, detail=none,
    tokenize="unicode61 tokenchars '_$'");
CREATE TABLE about (key TEXT PRIMARY KEY, value);
"""
_DAMAGED = (apsw.NotADBError, apsw.CorruptError, msgspec.DecodeError)
_UNUSABLE = (apsw.BusyError, apsw.FullError, apsw.IOError, apsw.ReadOnlyError, apsw.CantOpenError)
_UNNAMED = "its name is not UTF-8"
_SYMBOL = "f.path, s.name, s.kind, s.line, s.end_line, s.parent, s.signature, s.doc, s.score"
_FROM = "FROM symbols s JOIN files f ON f.id = s.file"
_NAMES = msgspec.msgpack.Decoder(dict[str, list[int]]).decode
_IMPORTS = msgspec.msgpack.Decoder(list[tuple[int, str]]).decode


class FileStatus(msgspec.Struct, frozen=True, gc=False):
    """What a file looked like when it was read."""

    id: int
    size: int
    mtime_ns: int
    ctime_ns: int
    hash: bytes


class IndexedFile(msgspec.Struct, frozen=True, kw_only=True):
    """All that is kept about one file. With a `problem` its content is not known."""

    path: str
    size: int
    mtime_ns: int
    ctime_ns: int
    hash: bytes = b""
    kind: str = ""
    problem: str = ""
    symbols: Sequence[IndexedSymbol] = ()
    names: Mapping[str, Sequence[int]] = {}
    imports: Sequence[tuple[int, str]] = ()
    passages: Sequence[Passage] = ()


class IndexStore:
    """Use `with`, which removes a damaged file and raises `IndexDamaged`. `readers` names what can read files
    here: an index that others made is made anew."""

    def __init__(self, path: Path, readers: str = "") -> None:
        self._path = path
        make_folder(path.parent)
        version = zlib.crc32(f"{_VERSION} {readers}".encode()) >> 1
        try:
            self._open(version)
        except (*_DAMAGED, apsw.SQLError):
            self.close()
            self._delete()
            self._open(version)
        except _UNUSABLE as error:
            self.close()
            raise _unusable(path, error) from error

    def _open(self, version: int) -> None:
        make_file(self._path)
        self._db = apsw.Connection(os.fspath(self._path))
        self._db.set_busy_timeout(_BUSY_MS)
        self._db.pragma("journal_mode", "wal")
        self._db.pragma("synchronous", "off")
        if self._db.pragma("user_version") != version:
            self._db.execute("BEGIN IMMEDIATE")  # another process may be making the same tables
            if self._db.pragma("user_version") != version:
                self._drop()
                self._db.execute(_TABLES)
                self._db.pragma("user_version", version)
            self._db.execute("COMMIT")

    def _delete(self) -> None:
        for end in ("", "-wal", "-shm"):
            Path(f"{self._path}{end}").unlink(missing_ok=True)

    def _drop(self) -> None:
        names = [
            name
            for (name,) in self._db.execute(
                "SELECT name FROM sqlite_master WHERE type = 'table' AND sql NOT NULL"
                " AND name NOT LIKE 'uses_%' AND name NOT LIKE 'passage_words_%'"
            ).fetchall()
        ]
        for name in names:
            self._db.execute(f'DROP TABLE IF EXISTS "{name}"')

    def close(self) -> None:
        if hasattr(self, "_db"):
            self._db.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
        if (damage := _among(error, _DAMAGED)) is not None:
            self._delete()
            raise IndexDamaged(
                "The index of this repository was damaged, and has been removed.",
                remedy="Make it again: mainspring index",
            ) from damage
        if (failure := _among(error, _UNUSABLE)) is not None:
            raise _unusable(self._path, failure) from failure

    # Writing

    def known(self, paths: Sequence[str] | None = None) -> dict[str, FileStatus]:
        """All files, or those of these paths."""
        asked = "SELECT path, id, size, mtime_ns, ctime_ns, hash FROM files"
        if paths is not None:
            asked += f" WHERE path IN ({','.join('?' * len(paths))})"
        rows = self._db.execute(asked, tuple(paths or ()))
        return {path: FileStatus(*rest) for path, *rest in rows}

    def put(self, files: Iterable[IndexedFile]) -> None:
        with self._db:
            for each in files:
                self._forget(each.path)
                self._add(each)

    def touch(self, changed: Iterable[tuple[int, int, int, str]]) -> None:
        """Other times of files (size, mtime, ctime, path) whose content is the same."""
        with self._db:
            self._db.executemany("UPDATE files SET size=?, mtime_ns=?, ctime_ns=? WHERE path=?", changed)

    def remove(self, paths: Iterable[str]) -> None:
        with self._db:
            for path in paths:
                self._forget(path)

    def set_about(self, **values: str | int) -> None:
        with self._db:
            kept = {key: storable(each) if isinstance(each, str) else each for key, each in values.items()}
            self._db.executemany("INSERT OR REPLACE INTO about VALUES (?, ?)", kept.items())

    def set_ranks(self, files: Mapping[int, float], symbols: Mapping[int, float]) -> None:
        with self._db:
            self._db.execute("UPDATE files SET rank = 0; UPDATE symbols SET score = 0")
            self._db.executemany("UPDATE files SET rank=? WHERE id=?", ((r, i) for i, r in files.items()))
            self._db.executemany(
                "UPDATE symbols SET score=? WHERE id=?", ((score, i) for i, score in symbols.items())
            )

    def _forget(self, path: str) -> None:
        db = self._db
        for (number,) in db.execute("SELECT id FROM files WHERE path=?", (path,)).fetchall():
            gone = db.execute("SELECT id, title, text FROM passages WHERE file=?", (number,)).fetchall()
            db.executemany(
                "INSERT INTO passage_words (passage_words, rowid, title, text) VALUES ('delete', ?, ?, ?)",
                gone,
            )
            db.execute("DELETE FROM passages WHERE file=?", (number,))
            db.execute("DELETE FROM symbols WHERE file=?", (number,))
            db.execute("DELETE FROM uses WHERE rowid=?", (number,))
            db.execute("DELETE FROM files WHERE id=?", (number,))

    def _add(self, file: IndexedFile) -> None:
        db, encode = self._db, msgspec.msgpack.encode
        names = encode(file.names) if file.names else None
        imports = encode(file.imports) if file.imports else None
        row = (file.path, file.size, file.mtime_ns, file.ctime_ns, file.hash, file.kind, file.problem)
        db.execute(
            "INSERT INTO files (path, size, mtime_ns, ctime_ns, hash, kind, problem, names, imports)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (*row, names, imports),
        )
        number = db.last_insert_rowid()
        db.executemany(
            "INSERT INTO symbols (file, name, kind, line, end_line, parent, signature, doc)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            (
                (number, s.name, s.kind, s.line, s.end_line, s.parent, s.signature, s.doc)
                for s in file.symbols
            ),
        )
        if file.names:
            db.execute("INSERT INTO uses (rowid, names) VALUES (?, ?)", (number, " ".join(file.names)))
        for each in file.passages:
            values = (each.title, each.text)
            db.execute(
                "INSERT INTO passages (file, line, title, text) VALUES (?, ?, ?, ?)",
                (number, each.line, *values),
            )
            db.execute(
                "INSERT INTO passage_words (rowid, title, text) VALUES (?, ?, ?)",
                (db.last_insert_rowid(), *values),
            )

    # Asking

    def status(self, root: Path) -> IndexStatus:
        def count(what: str) -> int:
            return self._all(f"SELECT count(*) FROM {what}")[0][0]  # noqa: S608 - ours

        about: dict[str, Any] = dict(self._all("SELECT key, value FROM about"))
        problems: dict[str, int] = dict(
            self._all(
                "SELECT problem, count(*) FROM files WHERE problem != '' GROUP BY problem ORDER BY 2 DESC, 1"
            )
        )
        if unnamed := int(about.get("unnamed", 0)):
            problems[_UNNAMED] = unnamed
        return IndexStatus(
            root=str(root),
            file=str(self._path),
            files=count("files"),
            code_files=count("files WHERE kind = 'code'"),
            symbols=count("symbols"),
            passages=count("passages"),
            bytes=self._path.stat().st_size,
            updated_us=int(about.get("updated_us", 0)),
            is_cut=bool(about.get("is_cut", 0)),
            left=int(about.get("left", 0)),
            problems=problems,
        )

    def about(self, key: str) -> Any:
        found = self._db.execute("SELECT value FROM about WHERE key=?", (key,)).fetchone()
        return found[0] if found else None

    def definitions(self, name: str, most: int = 200) -> list[IndexedSymbol]:
        """Of exactly that name; `Class.method` names a method of that class."""
        parent, _, last = storable(name).rpartition(".")
        above = "AND (s.parent = ? OR s.parent LIKE '%.' || ?)" if parent else ""
        rows = self._db.execute(
            f"SELECT {_SYMBOL} {_FROM} WHERE s.name = ? COLLATE NOCASE AND s.name = ? {above}"
            " ORDER BY s.score DESC, f.path, s.line LIMIT ?",
            (last, last, *((parent, parent) if parent else ()), most),
        )
        return _symbols(rows)

    def named_like(self, words: str, most: int = 50) -> list[IndexedSymbol]:
        """Symbols whose name holds a word: as a whole first, then at the beginning, then anywhere."""
        words = storable(words)
        escaped = words.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
        rows = self._db.execute(
            f"SELECT {_SYMBOL} {_FROM} WHERE s.name LIKE ? ESCAPE '\\'"
            " ORDER BY s.name != ?, s.name NOT LIKE ? ESCAPE '\\', s.score DESC, f.path, s.line LIMIT ?",
            (f"%{escaped}%", words, f"{escaped}%", most),
        )
        return _symbols(rows)

    def outline(self, path: str) -> list[IndexedSymbol]:
        rows = self._db.execute(
            f"SELECT {_SYMBOL} {_FROM} WHERE f.path = ? ORDER BY s.line, s.id", (storable(path),)
        )
        return _symbols(rows)

    def references(self, name: str) -> list[UsedAt]:
        """Where a name stands in code, comments and texts left out."""
        quoted = '"' + storable(name).replace('"', '""') + '"'
        rows = self._db.execute(
            "SELECT f.path, f.names FROM uses u JOIN files f ON f.id = u.rowid WHERE uses MATCH ?"
            " ORDER BY f.path",
            (quoted,),
        )
        found = ((path, _NAMES(names).get(name)) for path, names in rows)
        return [UsedAt(path, tuple(lines)) for path, lines in found if lines]

    def names_in(self, path: str) -> dict[str, list[int]]:
        """The names that a file uses, with their lines."""
        row = self._db.execute("SELECT names FROM files WHERE path=? AND names NOT NULL", (path,)).fetchone()
        return _NAMES(row[0]) if row else {}

    def search(self, words: str, most: int = 20) -> list[Passage]:
        """The passages that hold all words, the best first; `text` is the place in it."""
        words = storable(words)
        asked = " ".join('"' + word.replace('"', '""') + '"' for word in words.split())
        if not asked:
            return []
        rows = self._db.execute(
            "SELECT f.path, p.line, p.title, snippet(passage_words, 1, '', '', '…', 24)"
            " FROM passage_words w JOIN passages p ON p.id = w.rowid JOIN files f ON f.id = p.file"
            " WHERE passage_words MATCH ? ORDER BY bm25(passage_words, 3.0, 1.0), f.path, p.line LIMIT ?",
            (asked, most),
        )
        return [Passage(path=path, line=line, title=title, text=text) for path, line, title, text in rows]

    def imports(self) -> Iterator[tuple[str, list[ImportedAt]]]:
        rows = self._db.execute("SELECT path, imports FROM files WHERE imports NOT NULL ORDER BY path")
        for path, data in rows:
            yield path, [ImportedAt(line, text) for line, text in _IMPORTS(data)]

    def paths(self) -> list[str]:
        return [path for (path,) in self._db.execute("SELECT path FROM files ORDER BY path")]

    def code(self) -> Iterator[UsingFile]:
        """Of each source file what it uses and imports."""
        rows = self._db.execute("SELECT id, path, names, imports FROM files WHERE names NOT NULL ORDER BY id")
        for number, path, names, imports in rows:
            texts = [text for _, text in _IMPORTS(imports)] if imports else ()
            yield UsingFile(number, path, _NAMES(names), "\n".join(texts))

    def defined(self) -> Iterator[tuple[int, int, str, str, str]]:
        """Of each symbol its number, its file's, its name, its kind and what it is in."""
        yield from self._db.execute("SELECT id, file, name, kind, parent FROM symbols ORDER BY id")

    def named(self) -> Iterator[tuple[str, str, str]]:
        """Of each symbol its path, its name and its kind."""
        yield from self._db.execute(
            "SELECT f.path, s.name, s.kind FROM symbols s JOIN files f ON f.id = s.file ORDER BY s.id"
        )

    def numbered_paths(self) -> dict[int, str]:
        return dict(self._db.execute("SELECT id, path FROM files"))

    def best(self, most: int) -> list[tuple[str, float, list[IndexedSymbol]]]:
        """The files that most of the repository stands on, each with its symbols, the most used first."""
        rows = self._all(
            "SELECT path, rank FROM files WHERE rank > 0 ORDER BY rank DESC, path LIMIT ?", (most,)
        )
        asked = (
            f"SELECT {_SYMBOL} {_FROM} WHERE f.path = ? AND s.score > 0"
            " ORDER BY s.score DESC, s.line LIMIT 12"
        )
        return [(path, rank, _symbols(self._db.execute(asked, (path,)))) for path, rank in rows]

    def _all(self, asked: str, values: tuple[Any, ...] = ()) -> list[Any]:
        return self._db.execute(asked, values).fetchall()


def storable(text: str) -> str:
    """As SQLite takes it: what is no Unicode (half of a pair, a byte of a name) becomes a question mark."""
    return text.encode("utf-8", "replace").decode()


def now_us() -> int:
    return time.time_ns() // 1000


def _among(error: BaseException | None, kinds: tuple[type[Exception], ...]) -> BaseException | None:
    """An error of these kinds, also one that came out of a group of tasks."""
    if isinstance(error, BaseExceptionGroup):
        return next((found for each in error.exceptions if (found := _among(each, kinds))), None)
    return error if isinstance(error, kinds) else None


def _unusable(path: Path, error: BaseException) -> MainspringError:
    return MainspringError(
        f"The index of this repository cannot be used: {error}.",
        remedy=f"Look at {path.parent} (free space, permissions), or try again later.",
    )


def _symbols(rows: Iterable[Any]) -> list[IndexedSymbol]:
    fields = ("path", "name", "kind", "line", "end_line", "parent", "signature", "doc", "score")
    return [IndexedSymbol(**dict(zip(fields, row, strict=True))) for row in rows]
