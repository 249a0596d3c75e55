"""Linters and formatters: one table of facts, and what their output means.

A row says which files a program looks at, what shows that the project uses it, and how it reads a file from
standard input, so that a file can be looked at as it was before. Programs that read only whole packages
(golangci-lint) have no row.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import msgspec

from mainspring.checks import NotChecked
from mainspring.checks.programs import last_line
from mainspring.checks.server_facts import RUFF, server_rows
from mainspring.checks.settings import ChecksSettings
from mainspring.patterns import lazy_pattern

Place = tuple[int, str, str, Literal["error", "warning"]]
"""A line (0 is the whole file), the linter's own name of the rule, and its words."""
_ERRORS = lazy_pattern(r"(?:F[67]|F82|E9|PLE)\d+|invalid-syntax|syntax-error")
_GOFMT = lazy_pattern(rb"^<standard input>:(\d+):\d+: (.+)$", 8)
_FLAKE8 = lazy_pattern(r"^[^\n]*?:(\d+):\d+: ([A-Z]+\d+) (.+)$", 8)
_YAMLLINT = lazy_pattern(r"^[^\n]*?:(\d+):\d+: \[(error|warning)\] (.+) \(([\w-]+)\)$", 8)


class LinterOutput(NamedTuple):
    """How a linter ended, what it printed, and what it was given to look at."""

    code: int
    out: bytes
    err: bytes
    path: str
    content: bytes


class Linter(NamedTuple):
    """`arguments` have `{path}` where the name of the file goes, whose content is on standard input; a
    program that `needs_file` finds the content at that name, laid over the file by its own means. It is not
    asked where the language server `served_by` is, which tells the same."""

    name: str
    program: str
    suffixes: tuple[str, ...]
    marks: tuple[str, ...]
    arguments: tuple[str, ...]
    read: Callable[[LinterOutput], list[Place]]
    is_settings_code: bool = False
    runs: tuple[str, ...] = ()
    needs_file: bool = False
    served_by: str = ""


def _ruff(said: LinterOutput) -> list[Place]:
    _fail_above(said, 1)
    found = msgspec.json.decode(said.out, type=list[dict[str, Any]])
    return [
        (
            each["location"]["row"],
            rule := each.get("code") or "invalid-syntax",
            each["message"],
            "error" if _ERRORS.fullmatch(rule) else "warning",
        )
        for each in found
    ]


def _eslint(said: LinterOutput) -> list[Place]:
    _fail_above(said, 1)
    (file,) = msgspec.json.decode(said.out, type=list[dict[str, Any]])[:1] or [{"messages": []}]
    return [
        (
            each.get("line", 0),
            each.get("ruleId") or "syntax",
            each["message"],
            "error" if each["severity"] == 2 else "warning",
        )
        for each in file["messages"]
    ]


def _shellcheck(said: LinterOutput) -> list[Place]:
    _fail_above(said, 1)
    comments = msgspec.json.decode(said.out, type=dict[str, Any])["comments"]
    return [
        (
            each["line"],
            f"SC{each['code']}",
            each["message"],
            "error" if each["level"] == "error" else "warning",
        )
        for each in comments
    ]


def _gofmt(said: LinterOutput) -> list[Place]:
    if said.code:
        return [
            (int(line), "syntax", text.decode("utf-8", "replace"), "error")
            for line, text in _GOFMT.findall(said.err)
        ]
    return [(0, "gofmt", "not formatted as gofmt would", "warning")] if said.out.strip() else []


def _formatter(name: str) -> Callable[[LinterOutput], list[Place]]:
    """One that exits with 1 when it would change something."""

    def read(said: LinterOutput) -> list[Place]:
        _fail_above(said, 1)
        return _not_formatted(name) if said.code else []

    return read


def _prints_formatted(name: str) -> Callable[[LinterOutput], list[Place]]:
    """One that prints what it would make of a file."""

    def read(said: LinterOutput) -> list[Place]:
        if not said.out.strip() and said.content.strip():
            raise NotChecked(last_line(said.err))
        return [] if said.out == said.content else _not_formatted(name)

    return read


def _not_formatted(name: str) -> list[Place]:
    return [(0, name, f"not formatted as `{name}` would", "warning")]


def _stylelint(said: LinterOutput) -> list[Place]:
    if said.code not in (0, 2):
        raise NotChecked(last_line(said.err))
    told = said.out.strip() or said.err.strip()  # since version 16 it reports to standard error
    (file,) = msgspec.json.decode(told, type=list[dict[str, Any]])[:1] or [{"warnings": []}]
    return [
        (each["line"], each["rule"], each["text"], "error" if each["severity"] == "error" else "warning")
        for each in file["warnings"]
    ]


def _rubocop(said: LinterOutput) -> list[Place]:
    _fail_above(said, 1)
    files: list[dict[str, Any]] = msgspec.json.decode(said.out, type=dict[str, Any])["files"]
    return [
        (
            each["location"]["start_line"],
            each["cop_name"],
            each["message"],
            "error" if each["severity"] in ("error", "fatal") else "warning",
        )
        for file in files
        for each in file["offenses"]
    ]


def _clang_tidy(said: LinterOutput) -> list[Place]:
    """Compiler errors are told by exit code 1; what stands in other files is left out by the name."""
    name = rb"(?m)^(?:/[^\n]*/)?" + re.escape(said.path.encode())
    found = re.findall(name + rb":(\d+):\d+: (error|warning): (.+) \[([^\]\n]+)\]$", said.out)
    if said.code and not found:
        raise NotChecked(last_line(said.err))
    return [
        (int(line), _text(rule), _text(message), "error" if kind == b"error" else "warning")
        for line, kind, message, rule in found
    ]


def _flake8(said: LinterOutput) -> list[Place]:
    _fail_above(said, 1)
    return [
        (int(line), rule, message, "error" if rule.startswith(("E9", "F82", "F7")) else "warning")
        for line, rule, message in _FLAKE8.findall(_text(said.out))
    ]


def _yamllint(said: LinterOutput) -> list[Place]:
    _fail_above(said, 2)
    return [
        (int(line), rule, message, "error" if kind == "error" else "warning")
        for line, kind, message, rule in _YAMLLINT.findall(_text(said.out))
    ]


def _fail_above(said: LinterOutput, code: int) -> None:
    """What a linter did not finish says nothing."""
    if said.code > code:
        raise NotChecked(last_line(said.err))


def _text(said: bytes) -> str:
    return said.decode("utf-8", "replace")


_PYTHON = (".py", ".pyi")
_C = (".c", ".cc", ".cpp", ".cxx")
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
    Linter(
        "biome format",
        "biome",
        (*_SCRIPTS, ".json", ".css"),
        ("biome.json", "biome.jsonc"),
        ("format", "--stdin-file-path={path}"),
        _prints_formatted("biome format"),
    ),
    Linter(
        "stylelint",
        "stylelint",
        (".css", ".scss", ".less"),
        tuple(f".stylelintrc{end}" for end in ("", ".json", ".yaml", ".yml", ".js", ".cjs", ".mjs"))
        + tuple(f"stylelint.config.{end}" for end in ("js", "cjs", "mjs", "ts")),
        ("--stdin", "--stdin-filename", "{path}", "--formatter", "json"),
        _stylelint,
        is_settings_code=True,
    ),
    Linter(
        "clang-tidy",
        "clang-tidy",
        _C,
        (".clang-tidy",),
        ("--quiet", "{path}"),
        _clang_tidy,
        needs_file=True,
        served_by="clangd",
    ),
    Linter(
        "clang-format",
        "clang-format",
        (*_C, ".h"),
        (".clang-format", "_clang-format"),
        ("--dry-run", "-Werror", "--assume-filename={path}"),
        _formatter("clang-format"),
    ),
    Linter(
        "rustfmt", "rustfmt", (".rs",), ("rustfmt.toml", ".rustfmt.toml"), (), _prints_formatted("rustfmt")
    ),
    Linter(
        "rubocop",
        "rubocop",
        (".rb",),
        (".rubocop.yml",),
        ("--stdin", "{path}", "--format", "json", "--force-exclusion", "--cache", "false"),
        _rubocop,
        is_settings_code=True,
    ),
    Linter(
        "flake8",
        "flake8",
        _PYTHON,
        (".flake8",),
        ("--stdin-display-name", "{path}", "-"),
        _flake8,
        is_settings_code=True,
    ),
    Linter(
        "yamllint",
        "yamllint",
        (".yaml", ".yml"),
        (".yamllint", ".yamllint.yaml", ".yamllint.yml"),
        ("-f", "parsable", "-"),
        _yamllint,
    ),
)


def linter_rows(settings: ChecksSettings) -> list[Linter]:
    """Those that may run. Ruff is asked as a language server, which need not be started for each file."""
    is_served = any(facts.name == RUFF for facts in server_rows(settings))
    return [facts for facts in LINTERS if settings.linters == "on" and not (is_served and facts.name == RUFF)]
