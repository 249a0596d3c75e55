"""The project's own linters and formatters: where a file of the project configures one and it is installed.

Each is a row of facts (`linter_facts`). They run confined, without a network and without a place to write. A
program that lies in the project, and settings that are code, are the project's code: they run only when a
person approved them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import msgspec

from mainspring.checks import ConfinedBy, NotChecked
from mainspring.checks.linter_facts import Linter, LinterOutput
from mainspring.checks.programs import Configured, configured, settings_folder, subject_of
from mainspring.errors import SandboxError
from mainspring.events import CheckFinding
from mainspring.sandbox import Command
from mainspring.sandbox.policy import Confinement
from mainspring.sandbox.programs import confined_to_reading
from mainspring.sandbox.streams import written

LIMIT_S = 60.0
_MAX_LINTED = 200
_LAID_OVER = (
    'd=$(mktemp -d) && cat > "$d/content" && printf "%s%s%s" "$1" "$d/content" "$2" > "$d/overlay" && shift 2'
    ' && exec "$@" "--vfsoverlay=$d/overlay"'
)
"""Runs a program of clang that sees a content in the place of a file; it cannot read standard input."""


class ProjectLinter:
    """One linter of a project. `subject` is what a person must approve before it runs, None where its program
    and its settings are not code of the project."""

    def __init__(
        self, found: Configured[Linter], program: Path, confinement: Confinement, sandbox: ConfinedBy
    ) -> None:
        self.name = found.facts.name
        self._facts = found.facts
        self._folder = found.folder
        self._program = program
        self._policy = confined_to_reading(confinement, program=program)
        self._sandbox = sandbox
        workspace = confinement.workspace
        self.subject = subject_of("linter", found.facts, program, found.config, workspace, found.folder)

    def takes(self, path: str) -> bool:
        """Files of its kind that its settings are the nearest of."""
        is_its_kind = path.endswith(self._facts.suffixes)
        return is_its_kind and settings_folder(self._facts, self._policy.workspace, path) == self._folder

    async def findings(self, path: str, content: bytes) -> Sequence[CheckFinding]:
        place, path = self._policy.workspace / self._folder, path.removeprefix(self._folder).lstrip("/")
        argv = (str(self._program), *(each.replace("{path}", path) for each in self._facts.arguments))
        argv = laid_over(place / path, argv) if self._facts.needs_file else argv
        try:
            sandbox = await self._sandbox()
            async with written(content) as given:
                ran = await sandbox.run(
                    Command(
                        argv=argv,
                        cwd=place,
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
            said = LinterOutput(ran.exit_code, ran.stdout, ran.stderr, path, content)
            places = self._facts.read(said)
        except (msgspec.MsgspecError, KeyError, TypeError, ValueError) as error:
            raise NotChecked(f"its output cannot be read (exit code {ran.exit_code})") from error
        return [
            CheckFinding(by=self.name, rule=rule, line=line, message=message, severity=severity)
            for line, rule, message, severity in places[:_MAX_LINTED]
        ]


def laid_over(file: Path, argv: Sequence[str]) -> tuple[str, ...]:
    """A command that sees what is on its standard input as the content of a file."""
    mapped = {"type": "file", "name": str(file), "external-contents": "\0"}
    overlay = {"version": 0, "use-external-names": False, "roots": [mapped]}
    head, _, tail = msgspec.json.encode(overlay).decode().partition("\\u0000")
    return ("sh", "-c", _LAID_OVER, "sh", head, tail, *argv)


def find_linters(
    confinement: Confinement,
    environment: Mapping[str, str],
    sandbox: ConfinedBy,
    rows: Iterable[Linter],
    folders: Iterable[str] = ("",),
) -> tuple[list[ProjectLinter], dict[str, str]]:
    """The linters that a project configures in these folders: those that are installed, and why the others
    cannot be run, by their names."""
    found: list[ProjectLinter] = []
    missing: dict[str, str] = {}
    for each in configured(rows, confinement.workspace, environment, folders):
        if each.program is None:
            missing[each.facts.name] = f"{each.facts.program} is not installed"
        else:
            found.append(ProjectLinter(each, each.program, confinement, sandbox))
    return found, missing
