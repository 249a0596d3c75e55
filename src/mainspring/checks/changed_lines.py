"""What changed lines bring that no linter is asked about: secrets, by the patterns of the vault, and imports
that nothing declares. Both read lines, not syntax, and say so little that they are right: what may be meant
by a declared name is taken for it."""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

import msgspec

from mainspring.checks import ChangeChecker, ChangedFile, Checker
from mainspring.checks.duplication import Duplication
from mainspring.checks.settings import ChecksSettings
from mainspring.checks.vulnerabilities import Vulnerabilities
from mainspring.disk.formats import parse_toml
from mainspring.disk.untrusted import read_start
from mainspring.events import CheckFinding
from mainspring.patterns import lazy_pattern
from mainspring.sandbox.files import Files
from mainspring.secrets.vault import Vault
from mainspring.workspace.affected import is_test
from mainspring.workspace.git import Git

_MAX_BYTES = 512 * 1024
_MAX_LINE = 4096
_MAX_FOUND = 20
_PYTHON = (".py", ".pyi")
_SCRIPTS = (".js", ".mjs", ".cjs", ".jsx", ".ts", ".mts", ".cts", ".tsx")
_FROM = lazy_pattern(r"\s*from\s+([A-Za-z_]\w*)[\w.]*\s+import\b")
_IMPORT = lazy_pattern(r"\s*import\s+([A-Za-z_][\w., ]*)")
_SCRIPT = lazy_pattern(r"""(?:\bfrom|\brequire\(|\bimport\(|^\s*import)\s*["']([@\w][\w./@-]*)["']""")
_NAME = lazy_pattern(r"[A-Za-z0-9][\w.-]*")
_ASSIGNED = lazy_pattern(
    rb"(?i)(?:passw(?:or)?d|passphrase|secret(?:[_-]?key)?|api[_-]?key|access[_-]?key|(?:auth|access|api|bot)[_-]?token"
    rb"|private[_-]?key|client[_-]?secret)[\"']?(?:\s*:\s*\w+)?\s*(?::=|=>|=|:)\s*[\"'`]([^\"'`\s]{8,200})[\"'`]",
    8,
)
_NO_SECRET = lazy_pattern(
    rb"(?i)[{}<>$%()\[\]*]|\.\.\.|^[./]|://|example|change.?me|placeholder|your|xxx|dummy|fake|sample|test|redacted",
    8,
)
_SECRETS = {
    "secret": "a secret stands here",
    "password": "what looks like a password or key stands here: read it from the environment",
}
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


def line_checks(settings: ChecksSettings, files: Files, vault: Vault) -> tuple[Checker | ChangeChecker, ...]:
    """Those that the settings want."""
    if settings.changed_lines == "off":
        return ()
    database = Path(settings.vulnerabilities).expanduser() if settings.vulnerabilities else None
    repeated = (Duplication(files),) if settings.duplication == "on" else ()
    return (Secrets(vault), Imports(files.policy.workspace), Vulnerabilities(database), *repeated)


class Secrets:
    """Lines that hold a secret: a known one, or what looks like a key."""

    name = "secrets"

    def __init__(self, vault: Vault) -> None:
        self._vault = vault

    def takes(self, path: str) -> bool:
        return bool(path)

    async def findings(self, path: str, content: bytes) -> Sequence[CheckFinding]:
        if b"\0" in content[:_MAX_LINE]:
            return ()
        has_known = self._vault.holds_secrets(content)
        if not (has_known or _looks_secret(path, content)):
            return ()
        lines = enumerate(content.split(b"\n"), 1)
        found = [
            (number, rule)
            for number, line in lines
            if (
                rule := "secret"
                if has_known and self._vault.holds_secrets(line)
                else "password"
                if _looks_secret(path, line)
                else ""
            )
        ]
        return [
            CheckFinding(by=self.name, rule=rule, line=line, message=_SECRETS[rule], severity="warning")
            for line, rule in found[:_MAX_FOUND]
        ]


def _looks_secret(path: str, content: bytes) -> bool:
    """Whether a text in quotes is given to a name of a password or key; those of tests are none."""
    if is_test(path) or "/tests/" in f"/{path}":
        return False
    return any(
        not _NO_SECRET.search(found[1]) and re.search(rb"\d", found[1]) and re.search(rb"[A-Za-z]", found[1])
        for found in _ASSIGNED.finditer(content)
    )


class Unignored:
    """A new file that holds secrets by its name, whose content nobody is shown, where git would commit it."""

    name = "secrets"

    def __init__(self, git: Git) -> None:
        self._git = git

    def takes(self, path: str) -> bool:
        return bool(path)

    async def new(self, changed: ChangedFile) -> list[CheckFinding]:
        at = self._git.folder / changed.path
        folder = Git(at.parent if at.parent.is_dir() else self._git.folder, self._git.environment)
        found = await asyncio.to_thread(
            folder.run, "ls-files", "-z", "-co", "--exclude-standard", "--", at.name, check=False
        )
        if not found:
            return []
        message = "secrets usually stand in files of this name, and git does not ignore it"
        return [CheckFinding(by=self.name, rule="unignored", message=message, severity="warning")]


class Imports:
    """Imports of packages that no file of the project declares, where one declares any."""

    name = "imports"

    def __init__(self, workspace: Path) -> None:
        self._workspace = workspace

    def takes(self, path: str) -> bool:
        return path.endswith((*_PYTHON, *_SCRIPTS))

    async def findings(self, path: str, content: bytes) -> Sequence[CheckFinding]:
        is_python = path.endswith(_PYTHON)
        declared = self._python_names() if is_python else self._script_names(path)
        if declared is None:
            return ()
        imported = (_python_imports if is_python else _script_imports)(content)
        is_known = self._is_known_python if is_python else _is_known_script
        found = [
            CheckFinding(
                by=self.name,
                rule="undeclared",
                line=line,
                message=f"`{name}` is imported, and nothing declares it",
                severity="warning",
            )
            for line, name in imported
            if not is_known(name, declared, path)
        ]
        return found[:_MAX_FOUND]

    def _python_names(self) -> frozenset[str] | None:
        """What the project declares; None where it does not, or by a program."""
        if (self._workspace / "setup.py").exists() or (self._workspace / "setup.cfg").exists():
            return None
        texts = [_text(file) for file in sorted(self._workspace.glob("*requirements*.txt"))[:20]]
        lines = [line for text in texts for line in text.splitlines()]
        project = _project(_text(self._workspace / "pyproject.toml"))
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
        if any("paths" in (text := _text(each / "tsconfig.json")) or "baseUrl" in text for each in folders):
            return None
        names, is_declaring = set[str](), False
        for text in filter(None, (_text(folder / "package.json") for folder in folders)):
            try:
                package = msgspec.json.decode(text, type=_Package)
            except (msgspec.MsgspecError, RecursionError):
                return None
            own = (package.dependencies, package.dev, package.peer, package.optional)
            names |= {package.name, *(name for each in own for name in each)}
            is_declaring = True
        return frozenset(names) if is_declaring else None


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
