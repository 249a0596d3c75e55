"""What happens in the workspace: commands without an agent, changed files, branches, going back."""

from typing import Literal

from mainspring.events.base import Event, Id, Sha256
from mainspring.events.values import (
    SYNTAX,
    Blob,
    CheckedFile,
    CheckFinding,
    CheckTime,
    Extent,
    FileChange,
    Origin,
    Outcome,
)


class CommandAsked(Event, frozen=True):
    """A command that a person wants run without an agent, and the limits it gets (0 is none). `label` is the
    caller's own name for it."""

    argv: tuple[str, ...]
    cwd: str
    template: str = ""
    timeout_s: float = 0.0
    cpu_s: int = 0
    memory_bytes: int = 0
    label: str = ""
    origin: Origin | None = None


class CommandStarted(Event, frozen=True):
    """It was allowed, for this reason. Without a `CommandEnded` its outcome is unknown."""

    reason: str = ""


class CommandEnded(Event, frozen=True):
    """How it ended: `refused` commands never started; `exit_code` is None when there was none. `is_timeout`
    says that the error is that its time was over."""

    outcome: Outcome
    reason: str = ""
    exit_code: int | None = None
    stdout: Blob | None = None
    stderr: Blob | None = None
    output_bytes: int = 0
    duration_s: float = 0.0
    is_timeout: bool = False


class FilesChanged(Event, frozen=True):
    """What changed in the workspace while these calls ran; without calls, what going back changed.

    `not_covered` names what changed and cannot be put back. `is_certain` is False after an interruption:
    someone else may have made some of these changes."""

    calls: tuple[Id, ...] = ()
    changes: tuple[FileChange, ...] = ()
    not_covered: tuple[str, ...] = ()
    is_certain: bool = True


class WorkspaceKept(Event, frozen=True):
    """What the workspace was where the session began, as far as other machines need it to make it again: the
    commit it stands on, and how its files differ from that. `folder` is where it lies in its repository.
    With `has_commits`, commits that no remote has lie beside the journal. `left_out` does not travel."""

    host: str = ""
    machine: Sha256 = ""
    remote: str = ""
    commit: Sha256 = ""
    branch: str = ""
    folder: str = ""
    has_commits: bool = False
    changes: tuple[FileChange, ...] = ()
    left_out: tuple[str, ...] = ()


class WorkspaceMoved(Event, frozen=True):
    """The session goes on in the workspace of another machine, which was made, or brought up to date, from
    what is recorded. `left` was changed by someone else there; the content of `lost` is not recorded."""

    host: str = ""
    machine: Sha256 = ""
    is_new: bool = False
    files: int = 0
    left: tuple[str, ...] = ()
    lost: tuple[str, ...] = ()


SuiteCause = Literal["task", "change", "baseline", "done", "again"]
"""Why tests run by themselves: the task names them, a change may have broken them, a first change is about to
be made, the agent wants to be done, or those that failed are run once more on the same content."""


class SuiteStarted(Event, frozen=True):
    """Tests of the project are about to run by themselves. Without a `SuiteEnded` their result is unknown."""

    command: str
    cause: SuiteCause
    timeout_s: float = 0.0


class SuiteEnded(Event, frozen=True):
    """What they said, in short. A command that was too slow does not run again by itself in this session, and
    none does after one that could not run here. `content` names what the workspace held before, `results`
    has the tests by name. `regressions` passed before the turn and fail now; `flaky` ones passed and failed
    on the same content; `missing` ones passed before the turn and are no longer run. `is_known` says that
    nothing was run: the same command was, on the same content. Of `lines` that can run the tests `reached` so
    many, by file in `coverage`; `not_covered` says why that was to be measured and is not known."""

    command: str
    outcome: Literal["passed", "failed", "slow", "unusable"]
    exit_code: int | None = None
    duration_s: float = 0.0
    summary: str = ""
    cause: SuiteCause | None = None
    content: Sha256 = ""
    results: Blob | None = None
    passed: int = 0
    failed: int = 0
    regressions: tuple[str, ...] = ()
    flaky: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    is_known: bool = False
    coverage: Blob | None = None
    lines: int = 0
    reached: int = 0
    not_covered: str = ""


class RollbackOffered(Event, frozen=True):
    """Tests that passed before the turn fail after it, and the agent was told so twice. Nothing was taken
    back: undoing the turn does that, when somebody wants it. `files` are what the turn changed."""

    turn: int
    tests: tuple[str, ...] = ()
    files: tuple[str, ...] = ()


class ChangesChecked(Event, frozen=True):
    """What checks found in changed files that was not in them before the session, and what they could not
    look at. It takes the place of what the same checks said of the same files before. `is_late` says that the
    agent took another step first; `times` says what each check took."""

    files: tuple[CheckedFile, ...] = ()
    not_checked: tuple[str, ...] = ()
    duration_s: float = 0.0
    is_late: bool = False
    times: tuple[CheckTime, ...] = ()

    @property
    def unreadable(self) -> tuple[tuple[str, CheckFinding], ...]:
        """Why files cannot be read as what their names say, with their paths."""
        return tuple((file.path, each) for file in self.files for each in file.findings if each.by == SYNTAX)


class BranchMoved(Event, frozen=True):
    """What became of the git branch that this session works on; it began at `base` and lands there.
    `left_out` names files that the session changed and that no commit of ours has, and why. `risk` is the
    score of what landed, as it was told before. `drafted_by` is the model that was asked for the
    subject of the commit; with a `draft_problem` it is what the user said."""

    action: Literal["started", "committed", "merged", "squashed", "discarded"]
    branch: str
    base: str
    commit: Sha256
    files: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    origin: Origin | None = None
    risk: int | None = None
    drafted_by: str = ""
    draft_problem: str = ""


class ArtifactSaved(Event, frozen=True):
    """A named output that a person keeps, by its content; a later one of that name is its next version.
    `source` is the file that it was read from; `command` is the id of what another process left."""

    name: str
    blob: Blob
    note: str = ""
    source: str = ""
    command: Id = ""
    origin: Origin | None = None


class RewindStarted(Event, frozen=True):
    """Files are about to be put back as they were at `to_seq`, except those in `left_out`; `Undone` follows,
    now or on resuming."""

    to_seq: int
    scope: Extent = "files"
    origin: Origin | None = None
    left_out: tuple[str, ...] = ()


class Undone(Event, frozen=True):
    """Everything recorded after `to_seq` no longer counts, as said, as done to files, or both. It stays in
    the journal; `FilesChanged` before it tells what that did to files."""

    to_seq: int
    scope: Extent = "conversation"
    origin: Origin | None = None
