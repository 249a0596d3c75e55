"""Imports of packages that nothing declares: those that a change brings, and those that it declares no more,
left out or misspelt. Lines are read, not syntax, and what may be meant by a declared name is taken for it.
"""

from __future__ import annotations

import asyncio
import re
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path, PurePosixPath
from typing import Any

import msgspec

from mainspring.checks import MAX_BYTES, ChangedFile, NotChecked
from mainspring.disk.formats import parse_toml
from mainspring.disk.untrusted import read_start
from mainspring.errors import PathRefused
from mainspring.events import CheckFinding
from mainspring.events.decoding import DECODE_ERRORS
from mainspring.patterns import lazy_pattern
from mainspring.sandbox.files import Files
from mainspring.tools.walk import walked

_MAX_BYTES = 512 * 1024
_MAX_LINE = 4096
_MAX_FILES = 5_000
_MAX_FOUND = 20
_LIMIT_S = 2.0
_DECLARING = lazy_pattern(r"[^/]*requirements[^/]*\.txt|pyproject\.toml|(?:.*/)?package\.json")
_WORD = lazy_pattern(rb"[A-Za-z_@][\w./-]+")
_PYTHON = (".py", ".pyi")
_SCRIPTS = (".js", ".mjs", ".cjs", ".jsx", ".ts", ".mts", ".cts", ".tsx")
_FROM = lazy_pattern(r"\s*from\s+([A-Za-z_]\w*)[\w.]*\s+import\b")
_IMPORT = lazy_pattern(r"\s*import\s+([A-Za-z_][\w., ]*)")
_SCRIPT = lazy_pattern(r"""(?:\bfrom|\brequire\(|\bimport\(|^\s*import)\s*["']([@\w][\w./@-]*)["']""")
_NAME = lazy_pattern(r"[A-Za-z0-9][\w.-]*")
_OTHER_NAMES = {
    "bs4": "beautifulsoup4",
    "cv2": "opencv",
    "google": "protobuf",
    "MySQLdb": "mysqlclient",
    "PIL": "pillow",
    "pkg_resources": "setuptools",
    "sklearn": "scikit-learn",
    "skimage": "scikit-image",
    "win32api": "pywin32",
    "wx": "wxpython",
}
"""Modules whose packages are called otherwise; one that is part of the other's name is known by that."""
_NODE = """
    assert async_hooks buffer bun child_process cluster console constants crypto dgram diagnostics_channel dns
    domain events fs http http2 https inspector module net os path perf_hooks process punycode querystring
    readline repl stream string_decoder sys timers tls trace_events tty url util v8 vm wasi worker_threads
    zlib"""
_OF_NODE = frozenset(_NODE.split())
_SHORT = 3


class Imports:
    """Imports of packages that no file of the project declares, where one declares any."""

    name = "imports"

    def __init__(self, workspace: Path, read: Callable[[Path], str] | None = None) -> None:
        self._workspace = workspace
        self._read = read or _text

    def takes(self, path: str) -> bool:
        return path.endswith((*_PYTHON, *_SCRIPTS))

    async def findings(self, path: str, content: bytes) -> Sequence[CheckFinding]:
        found = [
            CheckFinding(
                by=self.name,
                rule="undeclared",
                line=line,
                message=f"`{name}` is imported, and nothing declares it",
                severity="warning",
            )
            for line, name in self.undeclared(path, content, self.declared(path))
        ]
        return found[:_MAX_FOUND]

    def declared(self, path: str) -> frozenset[str] | None:
        """What counts as declared for the files of one kind in a folder; None where that is not known."""
        return self._python_names() if path.endswith(_PYTHON) else self._script_names(path)

    def undeclared(
        self, path: str, content: bytes, declared: frozenset[str] | None
    ) -> Iterator[tuple[int, str]]:
        """The lines of a file that import something else, with its names."""
        is_python = path.endswith(_PYTHON)
        imported = (_python_imports if is_python else _script_imports)(content)
        is_known = self._is_known_python if is_python else _is_known_script
        for line, name in imported if declared is not None else ():
            if declared is not None and not is_known(name, declared, path):
                yield line, name

    def _python_names(self) -> frozenset[str] | None:
        """What the project declares; None where it does not, or by a program."""
        if (self._workspace / "setup.py").exists() or (self._workspace / "setup.cfg").exists():
            return None
        texts = [self._read(file) for file in sorted(self._workspace.glob("*requirements*.txt"))[:20]]
        lines = [line for text in texts for line in text.splitlines()]
        project = _project(self._read(self._workspace / "pyproject.toml"))
        if project is None and not texts:
            return None
        return frozenset(
            _plain(found[0]) for line in (*lines, *(project or ())) if (found := _NAME.match(line))
        )

    def _is_known_python(self, name: str, declared: frozenset[str], path: str) -> bool:
        if name in sys.stdlib_module_names or name.startswith("_"):
            return True
        folders = [self._workspace / "src", *(self._workspace / each for each in PurePosixPath(path).parents)]
        if any((folder / name).is_dir() or (folder / f"{name}.py").exists() for folder in folders):
            return True
        wanted = [_plain(name), *filter(None, [_plain(_OTHER_NAMES.get(name, ""))])]
        return any(each in one or (len(one) >= _SHORT and one in each) for each in wanted for one in declared)

    def _script_names(self, path: str) -> frozenset[str] | None:
        """What the packages around a file declare; None where none does, or names have other meanings."""
        folders = [self._workspace / each for each in PurePosixPath(path).parents]
        if any(
            "paths" in (text := self._read(each / "tsconfig.json")) or "baseUrl" in text for each in folders
        ):
            return None
        names, is_declaring = set[str](), False
        for text in filter(None, (self._read(folder / "package.json") for folder in folders)):
            try:
                package = msgspec.json.decode(text, type=_Package)
            except DECODE_ERRORS:
                return None
            own = (package.dependencies, package.dev, package.peer, package.optional)
            names |= {package.name, *(name for each in own for name in each)}
            is_declaring = True
        return frozenset(names) if is_declaring else None


class LostDeclarations:
    """Looks at changes of the files that declare packages."""

    name = "declarations"

    def __init__(self, files: Files) -> None:
        self._files = files

    def takes(self, path: str) -> bool:
        return bool(_DECLARING.fullmatch(path))

    async def new(self, changed: ChangedFile) -> list[CheckFinding]:
        before = changed.before or b""
        if {*_WORD.findall(before)} <= {*_WORD.findall(changed.after)}:
            return []
        return await asyncio.to_thread(
            lambda: [*self._found(changed.path, before.decode("utf-8", "replace"))]
        )

    def _found(self, declaring: str, before: str) -> Iterator[CheckFinding]:
        """Each package once, with a file that imports it."""
        root = self._files.policy.workspace

        def read_before(file: Path) -> str:
            return before if file == root / declaring else _text(file)

        now, then = Imports(root), Imports(root, read_before)
        declared, declared_then = _by_folder(now), _by_folder(then)
        told, deadline = set[str](), time.monotonic() + _LIMIT_S
        listing = walked(self._files, root, lambda count: count > _MAX_FILES)
        for path in filter(now.takes, listing.paths):
            if time.monotonic() > deadline:
                raise NotChecked(f"looking for who imports what it declared takes more than {_LIMIT_S:g} s")
            content, folder = self._content(path), path.rpartition("/")[0]
            lost = dict[str, int]()
            for line, name in now.undeclared(path, content, declared(folder, path)):
                lost.setdefault(name, line)
            for _, name in then.undeclared(path, content, declared_then(folder, path)) if lost else ():
                lost.pop(name, None)
            for name, line in lost.items():
                if name not in told and len(told) < _MAX_FOUND:
                    told.add(name)
                    message = f"`{name}` is imported in {path}:{line}, and nothing declares it any more"
                    yield CheckFinding(by=self.name, rule="undeclared", message=message, severity="warning")

    def _content(self, path: str) -> bytes:
        try:
            return self._files.read(path, max_bytes=MAX_BYTES).data
        except (OSError, PathRefused):
            return b""  # it went away, or may not be seen


def _by_folder(imports: Imports) -> Callable[[str, str], frozenset[str] | None]:
    """What is declared, found out once for each folder and kind of file."""

    @cache
    def known(folder: str, suffix: str) -> frozenset[str] | None:
        return imports.declared(f"{folder}/x{suffix}".lstrip("/"))

    return lambda folder, path: known(folder, PurePosixPath(path).suffix)


class _Package(msgspec.Struct):
    name: str = ""
    dependencies: dict[str, Any] = {}
    dev: dict[str, Any] = msgspec.field(default_factory=dict[str, Any], name="devDependencies")
    peer: dict[str, Any] = msgspec.field(default_factory=dict[str, Any], name="peerDependencies")
    optional: dict[str, Any] = msgspec.field(default_factory=dict[str, Any], name="optionalDependencies")


class _Project(msgspec.Struct, rename="kebab"):
    name: str = ""
    dependencies: list[Any] = []
    optional_dependencies: dict[str, list[Any]] = {}
    dynamic: list[str] = []


class _Tables(msgspec.Struct, rename="kebab"):
    """The parts of `pyproject.toml` that declare packages."""

    project: _Project = msgspec.field(default_factory=_Project)
    dependency_groups: dict[str, list[Any]] = {}
    tool: dict[str, Any] = {}


def _project(text: str) -> list[str] | None:
    """The requirements in a `pyproject.toml`; None where it declares none in a way that is known."""
    if "dependencies" not in text:
        return None
    try:
        tables = msgspec.convert(parse_toml(text), _Tables)
    except (ValueError, msgspec.MsgspecError):
        return None
    project = tables.project
    if "poetry" in tables.tool or "dependencies" in project.dynamic:
        return None
    more = (*project.optional_dependencies.values(), *tables.dependency_groups.values())
    return [project.name, *(str(each) for one in (project.dependencies, *more) for each in one)]


def _python_imports(content: bytes) -> Iterator[tuple[int, str]]:
    for number, line in _lines(content):
        if found := _FROM.match(line):
            yield number, found[1]
        elif found := _IMPORT.match(line):
            for part in found[1].split(","):
                if name := re.match(r"\s*([A-Za-z_]\w*)", part):
                    yield number, name[1]


def _script_imports(content: bytes) -> Iterator[tuple[int, str]]:
    for number, line in _lines(content):
        for found in _SCRIPT.finditer(line):
            parts = found[1].split("/")
            yield number, "/".join(parts[:2] if found[1].startswith("@") else parts[:1])


def _is_known_script(name: str, declared: frozenset[str], _path: str) -> bool:
    scope, _, rest = name.partition("/")
    is_alias = scope in ("@", "") or (scope.startswith("@") and not rest)
    return is_alias or name in declared or name in _OF_NODE or f"@types/{name}" in declared


def _lines(content: bytes) -> Iterator[tuple[int, str]]:
    for number, line in enumerate(content.split(b"\n"), 1):
        if len(line) <= _MAX_LINE and (b"import" in line or b"require" in line or b"from" in line):
            yield number, line.decode("utf-8", "replace")


def _plain(name: str) -> str:
    return name.lower().replace("_", "-").replace(".", "-")


def _text(file: Path) -> str:
    try:
        return read_start(file, max_bytes=_MAX_BYTES).decode("utf-8", "replace")
    except OSError:
        return ""
