"""What `[checks]` in `config.toml` says about looking at changed files."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec


class LanguageServerSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A language server that mainspring does not know, or what is to be different about one that it does."""

    command: tuple[str, ...] = ()
    """The program and its arguments; it speaks on its standard streams."""
    files: tuple[str, ...] = ()
    """How the names of its files end: `[".zig"]`."""
    marks: tuple[str, ...] = ()
    """Files of which a project must have one, or tables of its `pyproject.toml` (`tool.ty`)."""
    language: str = ""
    """What the protocol calls the language of these files, such as `zig`."""
    options: dict[str, Any] = {}
    """Its `initializationOptions`."""
    enabled: bool = True
    """Use this server."""


class ChecksSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Whether changed files are checked, and how long a step waits for that."""

    after_change: Literal["off", "warn", "block"] = "warn"
    """Check the files that a step changed, and tell the model what is wrong now and was not before. `block`:
    a turn is not done while errors that the session made stand; the model is asked twice, then the turn
    fails."""
    linters: Literal["on", "off"] = "on"
    """Also run the linters and formatters that the project configures."""
    language_servers: Literal["on", "off"] = "on"
    """Also ask the language servers of the languages that the project configures."""
    changed_lines: Literal["on", "off"] = "on"
    """Also tell of secrets in changed lines, of imports that no file of the project declares, of names that
    are imported from a file of the project and are not there, of packages with known vulnerabilities, and of
    blocks that stand elsewhere in the project."""
    duplication: Literal["on", "off"] = "on"
    """Tell of blocks that a change brings and that stand elsewhere in the project."""
    vulnerabilities: str = ""
    """A database of known vulnerabilities in the format of OSV, in which packages are looked up that a change
    names: a folder of JSON files, a file, or an archive as osv.dev publishes it."""
    security: Literal["on", "off"] = "on"
    """Also tell of code that a change brings and that may let others in: shells and SQL that run text put
    together of parts, `eval`, unsafe loading, unchecked certificates; in Python also by ruff's rules for
    security, where ruff is installed, whether or not the project selects them."""
    max_complexity: Annotated[int, msgspec.Meta(ge=0)] = 15
    """Also tell of functions whose cyclomatic complexity a change brought above this; 0: of none."""
    servers: dict[str, LanguageServerSettings] = {}
    """Language servers by name: `[checks.servers.NAME]`."""
    wait_ms: Annotated[int, msgspec.Meta(ge=0, le=60_000)] = 300
    """How long a step waits for linters and servers; what they find later is told at the next step."""
    regressions: Literal["on", "off"] = "on"
    """Run the project's tests before the first change of a turn (not again on the same content), those that a
    change may affect after it, and all of them before the turn is done; tell the model what passed and fails
    now, and which tests were made weaker. Only what may run without asking is run, in the sandbox."""
    suite_limit_s: Annotated[float, msgspec.Meta(gt=0, le=3600)] = 10.0
    """Seconds that all tests may take; when they take longer nothing is compared in that session."""
    coverage: Literal["on", "off"] = "on"
    """Measure runs of all tests, with the project's own coverage.py (7.13 or newer) or with node, and tell
    which changed lines no test runs, and which lines tests no longer run. Nothing is run twice for it."""
