"""The project's own linters and formatters: where a file of the project configures one and it is installed.

Each is a row of facts: which files it looks at, what shows that the project uses it, how it reads a file from
standard input (so that a file can be looked at as it was before), and what its output means. They run
confined, without a network and without a place to write. A program that lies in the project, and settings
that are code, are the project's code: they run only when a person approved them.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from typing import Any, Literal, NamedTuple

import msgspec

from mainspring.approvals.trust import TrustSubject
from mainspring.checks import ConfinedBy, NotChecked
from mainspring.disk.untrusted import open_untrusted, read_start
from mainspring.errors import SandboxError
from mainspring.events import CheckFinding
from mainspring.patterns import lazy_pattern
from mainspring.sandbox import Command
from mainspring.sandbox.policy import Confinement, Network
from mainspring.sandbox.streams import written

LIMIT_S = 60.0
_MAX_CONFIG = 256 * 1024
_MAX_LINTED = 200
_Severity = Literal["error", "warning"]
_Place = tuple[int, str, str, _Severity]
_ERRORS = lazy_pattern(r"(?:F[67]|F82|E9|PLE)\d+|invalid-syntax|syntax-error")
_GOFMT = lazy_pattern(rb"^<standard input>:(\d+):\d+: (.+)$", 8)


class Linter(NamedTuple):
    """`marks` are files of the project, or tables of its `pyproject.toml` (`tool.ruff`), of which one must be
    there. `arguments` have `{path}` where the name of the file goes, whose content is on standard input."""

    name: str
    program: str
    suffixes: tuple[str, ...]
    marks: tuple[str, ...]
    arguments: tuple[str, ...]
    read: Callable[[int, bytes, bytes], list[_Place]]
    is_settings_code: bool = False


def _ruff(code: int, out: bytes, err: bytes) -> list[_Place]:
    if code > 1:
        raise NotChecked(_last_line(err))
    found = msgspec.json.decode(out, type=list[dict[str, Any]])
    return [
        (
            each["location"]["row"],
            rule := each.get("code") or "invalid-syntax",
            each["message"],
            "error" if _ERRORS.fullmatch(rule) else "warning",
        )
        for each in found
    ]


def _eslint(code: int, out: bytes, err: bytes) -> list[_Place]:
    if code > 1:
        raise NotChecked(_last_line(err))
    (file,) = msgspec.json.decode(out, type=list[dict[str, Any]])[:1] or [{"messages": []}]
    return [
        (
            each.get("line", 0),
            each.get("ruleId") or "syntax",
            each["message"],
            "error" if each["severity"] == 2 else "warning",
        )
        for each in file["messages"]
    ]


def _shellcheck(code: int, out: bytes, err: bytes) -> list[_Place]:
    if code > 1:
        raise NotChecked(_last_line(err))
    comments = msgspec.json.decode(out, type=dict[str, Any])["comments"]
    return [
        (
            each["line"],
            f"SC{each['code']}",
            each["message"],
            "error" if each["level"] == "error" else "warning",
        )
        for each in comments
    ]


def _gofmt(code: int, out: bytes, err: bytes) -> list[_Place]:
    if code:
        return [
            (int(line), "syntax", text.decode("utf-8", "replace"), "error")
            for line, text in _GOFMT.findall(err)
        ]
    return [(0, "gofmt", "not formatted as gofmt would", "warning")] if out.strip() else []


def _formatter(name: str) -> Callable[[int, bytes, bytes], list[_Place]]:
    """One that exits with 1 when it would change something."""

    def read(code: int, _out: bytes, err: bytes) -> list[_Place]:
        if code > 1:
            raise NotChecked(_last_line(err))
        return [(0, name, f"not formatted as `{name}` would", "warning")] if code else []

    return read


_PYTHON = (".py", ".pyi")
_SCRIPTS = (".js", ".mjs", ".cjs", ".jsx", ".ts", ".mts", ".cts", ".tsx")
_RUFF = ("ruff.toml", ".ruff.toml")
_STDIN = ("--stdin-filename", "{path}", "-")
LINTERS = (
    Linter(
        "ruff",
        "ruff",
        _PYTHON,
        (*_RUFF, "tool.ruff"),
        ("check", "--output-format", "json", "--no-cache", "--force-exclude", *_STDIN),
        _ruff,
    ),
    Linter(
        "ruff format",
        "ruff",
        _PYTHON,
        ("tool.ruff.format",),
        ("format", "--check", "--no-cache", "--force-exclude", *_STDIN),
        _formatter("ruff format"),
    ),
    Linter("black", "black", _PYTHON, ("tool.black",), ("--check", "--quiet", *_STDIN), _formatter("black")),
    Linter(
        "eslint",
        "eslint",
        _SCRIPTS,
        tuple(f"eslint.config.{end}" for end in ("js", "mjs", "cjs", "ts", "mts", "cts"))
        + tuple(f".eslintrc{end}" for end in ("", ".js", ".cjs", ".json", ".yaml", ".yml")),
        ("--stdin", "--stdin-filename", "{path}", "--format", "json"),
        _eslint,
        is_settings_code=True,
    ),
    Linter(
        "prettier",
        "prettier",
        (*_SCRIPTS, ".css", ".html", ".json", ".md", ".yaml", ".yml"),
        tuple(f".prettierrc{end}" for end in ("", ".json", ".yaml", ".yml", ".toml", ".js", ".cjs", ".mjs"))
        + tuple(f"prettier.config.{end}" for end in ("js", "cjs", "mjs", "ts")),
        ("--check", "--stdin-filepath", "{path}"),
        _formatter("prettier"),
        is_settings_code=True,
    ),
    Linter(
        "shellcheck", "shellcheck", (".sh", ".bash"), (".shellcheckrc",), ("-f", "json1", "-"), _shellcheck
    ),
    Linter("gofmt", "gofmt", (".go",), ("go.mod",), ("-l", "-e"), _gofmt),
)


class ProjectLinter:
    """One linter of a project. `subject` is what a person must approve before it runs, None where its program
    and its settings are not code of the project."""

    def __init__(
        self, facts: Linter, program: Path, config: Path, confinement: Confinement, sandbox: ConfinedBy
    ) -> None:
        self.name = facts.name
        self._facts = facts
        self._program = program
        self._policy = msgspec.structs.replace(confinement, mode="read-only", network=Network())
        self._sandbox = sandbox
        self.subject = _subject(facts, program, config, confinement.workspace)

    def takes(self, path: str) -> bool:
        return path.endswith(self._facts.suffixes)

    async def findings(self, path: str, content: bytes) -> Sequence[CheckFinding]:
        arguments = [each.replace("{path}", path) for each in self._facts.arguments]
        try:
            sandbox = await self._sandbox()
            async with written(content) as given:
                ran = await sandbox.run(
                    Command(
                        argv=(str(self._program), *arguments),
                        cwd=self._policy.workspace,
                        timeout_s=LIMIT_S,
                        policy=self._policy,
                        stdin=given,
                        is_whole=True,
                    )
                )
        except SandboxError as error:
            raise NotChecked(error.message) from error
        if ran.stopped:
            raise NotChecked(ran.stopped)
        try:
            places = self._facts.read(ran.exit_code, ran.stdout, ran.stderr)
        except (msgspec.MsgspecError, KeyError, TypeError, ValueError) as error:
            raise NotChecked(f"its output cannot be read (exit code {ran.exit_code})") from error
        return [
            CheckFinding(by=self.name, rule=rule, line=line, message=message, severity=severity)
            for line, rule, message, severity in places[:_MAX_LINTED]
        ]


def find_linters(
    confinement: Confinement, environment: Mapping[str, str], sandbox: ConfinedBy
) -> tuple[list[ProjectLinter], dict[str, str]]:
    """The linters that a project configures: those that are installed, in the project's own environment or on
    the PATH, and why the others cannot be run, by their names."""
    found: list[ProjectLinter] = []
    missing: dict[str, str] = {}
    for facts, config, program in _configured(confinement.workspace, environment):
        if program is None:
            missing[facts.name] = f"{facts.program} is not installed"
        else:
            found.append(ProjectLinter(facts, program, config, confinement, sandbox))
    return found, missing


def linter_subjects(workspace: Path, environment: Mapping[str, str]) -> list[TrustSubject]:
    """What a person must approve before the linters of a project run."""
    found = [
        _subject(facts, program, config, workspace)
        for facts, config, program in _configured(workspace, environment)
        if program
    ]
    return [subject for subject in found if subject]


def _configured(
    workspace: Path, environment: Mapping[str, str]
) -> Iterator[tuple[Linter, Path, Path | None]]:
    """Each linter that a file of the project configures, with that file, and its program if there is one."""
    tables = _tables(workspace)
    for facts in LINTERS:
        if config := _config(facts, workspace, tables):
            yield facts, config, _program(facts.program, workspace, environment)


def _subject(facts: Linter, program: Path, config: Path, workspace: Path) -> TrustSubject | None:
    """None where neither its program nor its settings are code of the project."""
    is_projects = any(path.is_relative_to(workspace) for path in (program, program.resolve()))
    if not (facts.is_settings_code or is_projects):
        return None
    try:
        status = program.stat()
        content = _content_hash(program, status.st_ino, status.st_size, status.st_ctime_ns)
    except OSError:
        content = "unreadable"
    text = f"{program} (sha256 {content})\n{_text(config, workspace)}"
    return TrustSubject(kind="linter", path=str(config), name=facts.name, text=text)


@lru_cache(maxsize=64)
def _content_hash(program: Path, _inode: int, _size: int, _ctime_ns: int) -> str:
    """Of a program that is looked at after every step and may be large; read again if its status changed."""
    with open_untrusted(program) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _config(facts: Linter, workspace: Path, tables: dict[str, Any]) -> Path | None:
    for mark in facts.marks:
        if mark.startswith("tool."):
            if _has_table(tables, mark):
                return workspace / "pyproject.toml"
        elif (workspace / mark).is_file():
            return workspace / mark
    return None


def _tables(workspace: Path) -> dict[str, Any]:
    """What `pyproject.toml` says; nothing when there is none that can be read."""
    tomllib = import_module("tomllib")
    try:
        return tomllib.loads(_text(workspace / "pyproject.toml", workspace))
    except tomllib.TOMLDecodeError:
        return {}


def _has_table(tables: dict[str, Any], name: str) -> bool:
    *above, last = name.split(".")
    for part in above:
        tables = tables.get(part) or {}
    return last in tables


def _program(name: str, workspace: Path, environment: Mapping[str, str]) -> Path | None:
    for folder in (".venv/bin", "venv/bin", "node_modules/.bin"):
        path = workspace / folder / name
        if path.is_file() and os.access(path, os.X_OK):
            return path
    found = shutil.which(name, path=environment.get("PATH", os.defpath))
    return Path(found) if found else None


def _text(path: Path, workspace: Path) -> str:
    try:
        return read_start(path, max_bytes=_MAX_CONFIG, root=workspace).decode("utf-8", "replace")
    except OSError:
        return ""


def _last_line(err: bytes) -> str:
    lines = err.decode("utf-8", "replace").strip().splitlines()
    return lines[-1][:_MAX_LINTED] if lines else "it failed without a word"
