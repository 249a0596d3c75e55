"""What changed lines bring that no linter is asked about, first of all secrets, by the patterns of the vault.
They read lines, not syntax, and say so little that they are right.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from pathlib import Path

from mainspring.checks import ChangeChecker, ChangedFile, Checker
from mainspring.checks.duplication import Duplication
from mainspring.checks.settings import ChecksSettings
from mainspring.checks.undeclared import Imports, LostDeclarations
from mainspring.checks.vulnerabilities import Vulnerabilities
from mainspring.events import CheckFinding
from mainspring.patterns import lazy_pattern
from mainspring.sandbox.files import Files
from mainspring.secrets.vault import Vault
from mainspring.workspace.affected import is_test
from mainspring.workspace.git import Git

_MAX_LINE = 4096
_MAX_FOUND = 20
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


def line_checks(settings: ChecksSettings, files: Files, vault: Vault) -> tuple[Checker | ChangeChecker, ...]:
    """Those that the settings want."""
    if settings.changed_lines == "off":
        return ()
    database = Path(settings.vulnerabilities).expanduser() if settings.vulnerabilities else None
    repeated = (Duplication(files),) if settings.duplication == "on" else ()
    declared = (Imports(files.policy.workspace), LostDeclarations(files))
    return (Secrets(vault), *declared, Vulnerabilities(database), *repeated)


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
