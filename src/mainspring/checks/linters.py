"""The project's own linters and formatters: where a file of the project configures one and it is installed.

Each is a row of facts: which files it looks at, what shows that the project uses it, how it reads a file from
standard input (so that a file can be looked at as it was before), and what its output means. They run
confined, without a network and without a place to write. A program that lies in the project, and settings
that are code, are the project's code: they run only when a person approved them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import msgspec

from mainspring.checks import ConfinedBy, NotChecked
from mainspring.checks.programs import configured, last_line, subject_of
from mainspring.checks.server_facts import RUFF, server_rows
from mainspring.checks.settings import ChecksSettings
from mainspring.errors import SandboxError
from mainspring.events import CheckFinding
from mainspring.patterns import lazy_pattern
from mainspring.sandbox import Command
from mainspring.sandbox.policy import Confinement
from mainspring.sandbox.programs import confined_to_reading
from mainspring.sandbox.streams import written

LIMIT_S = 60.0
_MAX_LINTED = 200
_Severity = Literal["error", "warning"]
_Place = tuple[int, str, str, _Severity]
_ERRORS = lazy_pattern(r"(?:F[67]|F82|E9|PLE)\d+|invalid-syntax|syntax-error")
_GOFMT = lazy_pattern(rb"^<standard input>:(\d+):\d+: (.+)$", 8)


class Linter(NamedTuple):
    """`arguments` have `{path}` where the name of the file goes, whose content is on standard input."""

    name: str
    program: str
    suffixes: tuple[str, ...]
    marks: tuple[str, ...]
    arguments: tuple[str, ...]
    read: Callable[[int, bytes, bytes], list[_Place]]
    is_settings_code: bool = False
    runs: tuple[str, ...] = ()


def _ruff(code: int, out: bytes, err: bytes) -> list[_Place]:
    if code > 1:
        raise NotChecked(last_line(err))
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
        raise NotChecked(last_line(err))
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
        raise NotChecked(last_line(err))
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
            raise NotChecked(last_line(err))
        return [(0, name, f"not formatted as `{name}` would", "warning")] if code else []

    return read


_PYTHON = (".py", ".pyi")
_SCRIPTS = (".js", ".mjs", ".cjs", ".jsx", ".ts", ".mts", ".cts", ".tsx")
_RUFF_FILES = ("ruff.toml", ".ruff.toml")
_STDIN = ("--stdin-filename", "{path}", "-")
LINTERS = (
    Linter(
        RUFF,
        "ruff",
        _PYTHON,
        (*_RUFF_FILES, "tool.ruff"),
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


def linter_rows(settings: ChecksSettings) -> list[Linter]:
    """Those that may run. Ruff is asked as a language server, which need not be started for each file."""
    is_served = any(facts.name == RUFF for facts in server_rows(settings))
    return [facts for facts in LINTERS if settings.linters == "on" and not (is_served and facts.name == RUFF)]


class ProjectLinter:
    """One linter of a project. `subject` is what a person must approve before it runs, None where its program
    and its settings are not code of the project."""

    def __init__(
        self, facts: Linter, program: Path, config: Path, confinement: Confinement, sandbox: ConfinedBy
    ) -> None:
        self.name = facts.name
        self._facts = facts
        self._program = program
        self._policy = confined_to_reading(confinement)
        self._sandbox = sandbox
        self.subject = subject_of("linter", facts, program, config, confinement.workspace)

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
    confinement: Confinement, environment: Mapping[str, str], sandbox: ConfinedBy, rows: Iterable[Linter]
) -> tuple[list[ProjectLinter], dict[str, str]]:
    """The linters that a project configures: those that are installed, and why the others cannot be run, by
    their names."""
    found: list[ProjectLinter] = []
    missing: dict[str, str] = {}
    for facts, config, program in configured(rows, confinement.workspace, environment):
        if program is None:
            missing[facts.name] = f"{facts.program} is not installed"
        else:
            found.append(ProjectLinter(facts, program, config, confinement, sandbox))
    return found, missing
