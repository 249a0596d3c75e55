"""Language servers: one table of facts, and what a user's settings change about it.

A server runs where the project configures its language or the server itself, and it is installed. One that
lies in the project, or that runs what the project brings, is code of the project and wants approval.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from mainspring.checks.settings import ChecksSettings, LanguageServerSettings


class ServerFacts(msgspec.Struct, frozen=True):
    """`languages` are what the protocol calls files by the end of their names. `waits_for` is the message
    by which a server tells that it knows the project, where it answers wrongly or not at all before;
    `asks_tsserver` says that diagnostics are had by a command of its own; `is_linter` that it knows of no
    symbols; `is_ours` that the project did not ask for it, so that nobody misses it;
    `is_nesting` that it looks for the settings of each file by itself, in the folders around that.
    `environment` is what it is told besides."""

    name: str
    program: str
    languages: Mapping[str, str]
    marks: tuple[str, ...]
    arguments: tuple[str, ...] = ()
    options: Mapping[str, Any] = {}
    runs: tuple[str, ...] = ()
    is_settings_code: bool = False
    waits_for: str = ""
    asks_tsserver: bool = False
    is_linter: bool = False
    is_ours: bool = False
    is_nesting: bool = False
    environment: Mapping[str, str] = {}

    @property
    def suffixes(self) -> tuple[str, ...]:
        return tuple(self.languages)


_PYTHON = {".py": "python", ".pyi": "python"}
_SCRIPTS = {
    **dict.fromkeys((".ts", ".mts", ".cts"), "typescript"),
    ".tsx": "typescriptreact",
    **dict.fromkeys((".js", ".mjs", ".cjs"), "javascript"),
    ".jsx": "javascriptreact",
}
_C = {
    **dict.fromkeys((".c", ".h"), "c"),
    **dict.fromkeys((".cc", ".cpp", ".cxx", ".hpp", ".hh", ".hxx"), "cpp"),
}
RUFF = "ruff"
RUFF_SECURITY = "ruff security"
_DANGERS = (
    *("S103", "S201", "S202", "S302", "S304", "S305", "S306", "S312", "S313", "S314", "S315", "S316", "S317"),
    *("S318", "S319", "S321", "S324", "S502", "S503", "S504", "S505", "S507", "S508", "S509", "S601", "S609"),
    *("S610", "S611", "S612", "S701", "S702", "S704"),
)
"""What our own rules have not, without those that are right more seldom than wrong."""
_PRIVATE_FOLDER = "/tmp"  # noqa: S108 - of the sandbox, and gone with it
_WATCHES = "client/registerCapability"
SERVER_STATUS = "experimental/serverStatus"
"""Says also whether the project was read."""
SERVERS = (
    ServerFacts(
        RUFF,
        "ruff",
        _PYTHON,
        ("ruff.toml", ".ruff.toml", "tool.ruff"),
        ("server",),
        is_linter=True,
        is_nesting=True,
    ),
    ServerFacts(
        RUFF_SECURITY,
        "ruff",
        _PYTHON,
        ("pyproject.toml", "ruff.toml", ".ruff.toml", "setup.py", "setup.cfg", "requirements.txt"),
        ("server",),
        {"settings": {"configurationPreference": "editorOnly", "lint": {"select": _DANGERS}}},
        is_linter=True,
        is_ours=True,
        is_nesting=True,
    ),
    ServerFacts("ty", "ty", _PYTHON, ("ty.toml", "tool.ty"), ("server",)),
    ServerFacts(
        "basedpyright",
        "basedpyright-langserver",
        _PYTHON,
        ("pyrightconfig.json", "tool.basedpyright", "tool.pyright"),
        ("--stdio",),
    ),
    ServerFacts(
        "pyrefly",
        "pyrefly",
        _PYTHON,
        ("pyrefly.toml", "tool.pyrefly"),
        ("lsp",),
        runs=(".venv/bin/python", "venv/bin/python"),
    ),
    ServerFacts(
        "typescript",
        "typescript-language-server",
        _SCRIPTS,
        ("tsconfig.json", "jsconfig.json"),
        ("--stdio",),
        {"disableAutomaticTypingAcquisition": True, "tsserver": {"useSyntaxServer": "never"}},
        runs=("node_modules/typescript/lib/tsserver.js",),
        asks_tsserver=True,
        is_nesting=True,
    ),
    ServerFacts(
        "biome",
        "biome",
        {**_SCRIPTS, ".json": "json", ".css": "css"},
        ("biome.json", "biome.jsonc"),
        ("lsp-proxy",),
        waits_for=_WATCHES,
        environment={"XDG_CACHE_HOME": _PRIVATE_FOLDER},  # its own server listens there
        is_linter=True,
    ),
    ServerFacts(
        "oxlint",
        "oxlint",
        _SCRIPTS,
        (".oxlintrc.json", ".oxlintrc.jsonc"),
        ("--lsp",),
        is_settings_code=True,  # plugins
        waits_for=_WATCHES,
        is_linter=True,
    ),
    ServerFacts("gopls", "gopls", {".go": "go"}, ("go.mod", "go.work")),
    ServerFacts(
        "rust-analyzer",
        "rust-analyzer",
        {".rs": "rust"},
        ("Cargo.toml",),
        is_settings_code=True,  # build scripts and macros of the project
        waits_for=SERVER_STATUS,
    ),
    ServerFacts(
        "clangd",
        "clangd",
        _C,
        ("compile_commands.json", "build/compile_commands.json", "compile_flags.txt", ".clangd"),
        is_nesting=True,
    ),
)


def server_rows(settings: ChecksSettings) -> list[ServerFacts]:
    """The servers that may be used: those of the table, with what the settings change, and the user's own."""
    if settings.language_servers == "off":
        return []
    known = {facts.name: facts for facts in SERVERS}
    if settings.security == "off":
        del known[RUFF_SECURITY]
    known |= {name: _changed(known.get(name), name, said) for name, said in settings.servers.items()}
    off = {name for name, said in settings.servers.items() if not said.enabled}
    return [facts for name, facts in known.items() if name not in off]


def _changed(known: ServerFacts | None, name: str, said: LanguageServerSettings) -> ServerFacts:
    facts = known or ServerFacts(name, name, {}, ())
    if said.command:
        facts = msgspec.structs.replace(facts, program=said.command[0], arguments=said.command[1:])
    if said.files:
        language = said.language or name
        facts = msgspec.structs.replace(
            facts, languages={end: facts.languages.get(end, language) for end in said.files}
        )
    return msgspec.structs.replace(
        facts, marks=said.marks or facts.marks, options={**facts.options, **said.options} or facts.options
    )
