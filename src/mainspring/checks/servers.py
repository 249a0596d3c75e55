"""Language servers: one table of facts, what a user's settings say about them, and those of one session.

A server runs where the project configures its language or the server itself, and it is installed. One that
lies in the project, or that runs what the project brings, is code of the project and wants approval.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from mainspring.approvals.trust import TrustSubject
from mainspring.checks import ConfinedBy
from mainspring.checks.language_server import LanguageServer
from mainspring.checks.programs import configured, subject_of
from mainspring.checks.settings import ChecksSettings, LanguageServerSettings
from mainspring.sandbox.policy import Confinement


class ServerFacts(NamedTuple):
    """`languages` are what the protocol calls files by the end of their names. `waits_until_ready` says that
    it answers before it knows the project, and tells when it does; `asks_tsserver` that diagnostics are had
    by a command of its own."""

    name: str
    program: str
    languages: Mapping[str, str]
    marks: tuple[str, ...]
    arguments: tuple[str, ...] = ()
    options: Mapping[str, Any] = {}
    runs: tuple[str, ...] = ()
    is_settings_code: bool = False
    waits_until_ready: bool = False
    asks_tsserver: bool = False

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
SERVERS = (
    ServerFacts(RUFF, "ruff", _PYTHON, ("ruff.toml", ".ruff.toml", "tool.ruff"), ("server",)),
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
    ),
    ServerFacts("gopls", "gopls", {".go": "go"}, ("go.mod", "go.work")),
    ServerFacts(
        "rust-analyzer",
        "rust-analyzer",
        {".rs": "rust"},
        ("Cargo.toml",),
        is_settings_code=True,  # build scripts and macros of the project
        waits_until_ready=True,
    ),
    ServerFacts(
        "clangd",
        "clangd",
        _C,
        ("compile_commands.json", "build/compile_commands.json", "compile_flags.txt", ".clangd"),
    ),
)


def server_rows(settings: ChecksSettings) -> list[ServerFacts]:
    """The servers that may be used: those of the table, with what the settings change, and the user's own."""
    if settings.language_servers == "off":
        return []
    known = {facts.name: facts for facts in SERVERS}
    known |= {name: _changed(known.get(name), name, said) for name, said in settings.servers.items()}
    off = {name for name, said in settings.servers.items() if not said.enabled}
    return [facts for name, facts in known.items() if name not in off]


def _changed(known: ServerFacts | None, name: str, said: LanguageServerSettings) -> ServerFacts:
    facts = known or ServerFacts(name, name, {}, ())
    if said.command:
        facts = facts._replace(program=said.command[0], arguments=said.command[1:])
    if said.files:
        language = said.language or name
        facts = facts._replace(languages={end: facts.languages.get(end, language) for end in said.files})
    return facts._replace(
        marks=said.marks or facts.marks, options={**facts.options, **said.options} or facts.options
    )


class SessionLanguageServers:
    """The servers of one session, started when first asked and ended with it."""

    def __init__(
        self,
        settings: ChecksSettings,
        environment: Mapping[str, str],
        is_trusted: Callable[[TrustSubject], bool],
    ) -> None:
        self.rows = server_rows(settings)
        self._environment = environment
        self._is_trusted = is_trusted
        self._servers: dict[tuple[str, ...], LanguageServer] = {}

    async def usable(
        self, confinement: Confinement, sandbox: ConfinedBy
    ) -> tuple[list[LanguageServer], dict[str, str]]:
        """Those that may be asked in a workspace, and why others may not, by their names."""
        found: list[LanguageServer] = []
        missing: dict[str, str] = {}
        place = confinement.workspace
        rows = await asyncio.to_thread(lambda: [*configured(self.rows, place, self._environment)])
        for facts, config, program in rows:
            if program is None:
                missing[facts.name] = f"{facts.program} is not installed"
                continue
            subject = subject_of("language-server", facts, program, config, place)
            if subject and not self._is_trusted(subject):
                missing[facts.name] = f"not approved; a person can: mainspring trust add {facts.name!r}"
                continue
            key = (facts.name, str(program), subject.sha256 if subject else "", str(place))
            server = self._servers.get(key)
            if server is None:
                server = self._servers[key] = LanguageServer(facts, program, confinement, sandbox)
            found.append(server)
        return found, missing

    def changed(self, kinds: Mapping[str, int]) -> None:
        """Tells those that run which files were made (1), changed (2) or deleted (3)."""
        for server in self._servers.values():
            server.changed(kinds)

    async def close(self) -> None:
        servers: Sequence[LanguageServer] = [*self._servers.values()]
        self._servers.clear()
        await asyncio.gather(*(server.close() for server in servers))
