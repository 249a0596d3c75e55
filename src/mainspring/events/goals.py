"""What happens on the way to a goal: its iterations, what they left behind, and how it was judged."""

from typing import Annotated, Literal

from mainspring.events.base import Event, Exempt, Sha256, Word
from mainspring.events.values import Blob, Origin, Value

GoalEnding = Literal[
    "done",
    "iterations",
    "cost",
    "tokens",
    "steps",
    "time",
    "no_progress",
    "blocked",
    "failed",
    "stopped",
    "max_wait",
]
"""Why a goal is over; everything but `done` can be resumed with more room."""

IterationOutcome = Literal["continued", "done", "refused", "failed"]
"""What an iteration came to; `refused` said that it was done and was not."""

ClaimStatus = Literal["open", "proved", "refuted", "assumed"]

Grade = Literal["", "verified", "checked", "claimed"]
"""What evidence is worth: shown by what the agent could not have written or changed, by what it wrote or
changed itself, or only said by it. Empty in journals from before grades."""

SetBy = Annotated[str, Exempt("a schedule's name, by which the daemon finds the goals that it began")]
Conversation = Annotated[str, Exempt("an outside agent's name of its conversation, needed to go on with it")]


class Target(Value, frozen=True):
    """A value that a metric must reach."""

    metric: str
    """The name of the metric."""
    relation: Literal["<", "<=", ">", ">=", "=="]
    """How it is compared."""
    value: float
    """With what."""


class GoalChecks(Value, frozen=True):
    """What must hold before a goal counts as done."""

    commands: tuple[str, ...] = ()
    """Commands that must exit with 0."""
    files: tuple[str, ...] = ()
    """Files that must exist."""
    targets: tuple[Target, ...] = ()
    """Values that metrics must reach."""
    needs_claims: bool = False
    """Every claim must be proved."""


class GoalRules(Value, frozen=True):
    """When a goal ends without being done. Zero or None is no limit. Steps, cost and time of one iteration
    have their own; the rest is for the whole goal."""

    max_iterations: int = 0
    """Iterations; 0 is no limit."""
    max_cost_usd: float | None = None
    """US dollars for the whole goal."""
    max_tokens: int | None = None
    """Tokens for the whole goal."""
    max_time_s: float | None = None
    """Seconds at work for the whole goal."""
    max_idle_iterations: int = 0
    """Iterations in a row without progress; 0 is no limit."""
    max_failures: int = 0
    """Failed iterations in a row; 0 is no limit."""
    max_refusals: int = 0
    """Times in a row that done is said and a check fails; 0 is no limit."""
    wait_s: float = 0.0
    """Seconds of pause between iterations."""
    max_wait_s: float = 0.0
    """Seconds of the longest wait; 0 is no limit."""
    no_waits: bool = False
    """Wait for nothing between iterations, whatever the longest wait is."""
    stall_s: float | None = None
    """Seconds without a sign of life before a wait counts as stalled."""
    at_max_wait: Literal["continue", "stop"] = "continue"
    """What happens after the longest wait."""
    outage_wait_s: float = 60.0
    """Seconds of the first pause when no model answers; later ones are longer."""
    iteration_steps: int | None = None
    """Model requests in one iteration."""
    iteration_cost_usd: float | None = None
    """US dollars for one iteration."""
    iteration_time_s: float | None = None
    """Seconds at work for one iteration."""
    attempts: int = 1
    """Attempts at each iteration, from the same files, until its checks pass."""


class FrozenFile(Value, frozen=True):
    """A file that must stay as it was; without a hash, one that must not be there."""

    path: str
    """The file."""
    sha256: Sha256 = ""
    """Its hash when the goal was set; written by mainspring."""


class Evaluation(Value, frozen=True):
    """How results are measured by us, not by the agent: a command, how often it is repeated, and the files
    that must stay as they were. `hashes` are those files when the goal was set."""

    command: str = ""
    """The command that measures."""
    repeats: int = 0
    """How often it is run."""
    frozen: tuple[str, ...] = ()
    """Files that must stay as they were."""
    better: Literal["", "lower", "higher"] = ""
    """Which direction is better."""
    metric: str = ""
    """The metric that counts."""
    hashes: tuple[FrozenFile, ...] = ()
    """The frozen files when the goal was set; written by mainspring."""
    results: tuple[str, ...] = ()
    """CSV and JSON files of which every number is a metric; in others only what the goal names is."""


class GoalSet(Event, frozen=True):
    """What this session works towards from here on. A later one changes it; the first names where it came
    from. `profile` is the name of the kind of loop, `engine` who takes its turns, `by` who set it: a person,
    or a schedule. `sandbox` and `allow_unpriced` are what was allowed then, for whoever resumes it.
    `suspicious` quotes what reads like hidden orders in a text that was read from a file."""

    text: str
    source: str = ""
    profile: str = "goal"
    engine: str = "builtin"
    memory: str = ""
    checks: GoalChecks = GoalChecks()
    rules: GoalRules = GoalRules()
    evaluation: Evaluation = Evaluation()
    by: SetBy = "user"
    sandbox: Word = ""
    allow_unpriced: bool = False
    origin: Origin | None = None
    suspicious: tuple[str, ...] = ()


class IterationStarted(Event, frozen=True):
    """The prompt follows as `UserSaid`. `goal_sha256` tells which text of the goal it works on, and
    `max_iterations` how many there may be; 0 is no limit."""

    iteration: int
    goal_sha256: Sha256 = ""
    max_iterations: int = 0


class ArtifactChange(Value, frozen=True):
    """What became of one file; `made_by` is the command that ran when it changed, as far as that is known."""

    path: str
    kind: Literal["new", "modified", "deleted", "renamed"]
    sha256: Sha256 = ""
    size: int = 0
    mtime_us: int = 0
    renamed_from: str = ""
    made_by: str = ""


class ArtifactsChanged(Event, frozen=True):
    """What the goal's folder holds otherwise than before. `changes` are the first of them; when there are
    more, all are in `listing`. `previews` are the contents, kept for the report, of small ones by hash;
    `frozen` are those of frozen files, from which an evaluation is run when they are changed later."""

    iteration: int
    new: int = 0
    modified: int = 0
    deleted: int = 0
    renamed: int = 0
    changes: tuple[ArtifactChange, ...] = ()
    listing: Blob | None = None
    previews: tuple[Blob, ...] = ()
    frozen: tuple[Blob, ...] = ()


class Measurement(Value, frozen=True):
    """One value of one metric, and where it was read: a command, or a file."""

    metric: str
    value: float
    unit: str = ""
    source: str = ""


class Parameter(Value, frozen=True):
    """With what a measurement was made, as a `PARAM name=value` line told it."""

    name: str
    value: str


class ResultFile(Value, frozen=True):
    """How far a result file was read: its rows, their hash, and that of the file. Later rows are new."""

    path: str
    rows: int = 0
    rows_sha256: Sha256 = ""
    sha256: Sha256 = ""


class MeasurementsTaken(Event, frozen=True):
    """`is_ours` when the controller ran the evaluation itself, with the exit code of each run and the end of
    their output; `flags` say what makes them doubtful. `parameters` are what it was measured with, `files`
    how far result files were read; iteration 0 only notes what they held before the goal."""

    iteration: int
    values: tuple[Measurement, ...] = ()
    is_ours: bool = False
    flags: tuple[str, ...] = ()
    exit_codes: tuple[int, ...] = ()
    output: Blob | None = None
    duration_s: float = 0.0
    parameters: tuple[Parameter, ...] = ()
    files: tuple[ResultFile, ...] = ()


class Claim(Value, frozen=True):
    """A statement, what it stands on, and the command that decides it. Only a check proves a claim."""

    name: str
    statement: str
    depends_on: tuple[str, ...] = ()
    check: str = ""
    status: ClaimStatus = "open"
    is_goal: bool = False
    note: str = ""


class ClaimsRead(Event, frozen=True):
    """The claims as they are written down now; `problems` say what in the file could not be used."""

    iteration: int
    claims: tuple[Claim, ...] = ()
    problems: tuple[str, ...] = ()


class ClaimChecked(Event, frozen=True):
    """A claim's check ran, or the claim was reopened because one that it stands on was refuted.
    `statement_sha256` is what was checked: statement, check and the files that the check names. `doubt` says
    why the check shows little although it passed."""

    iteration: int
    claim: str
    status: ClaimStatus
    exit_code: int | None = None
    statement_sha256: Sha256 = ""
    detail: str = ""
    output: Blob | None = None
    duration_s: float = 0.0
    doubt: str = ""


class CheckEnded(Event, frozen=True):
    """One condition of being done was looked at: a command was run, a file looked for, a metric compared.
    `grade` is what it is worth when it passed; `written` are files that decide and that the agent wrote or
    changed, `doubts` what else speaks against it."""

    iteration: int
    check: str
    kind: Literal["command", "file", "target", "claims"]
    passed: bool
    exit_code: int | None = None
    detail: str = ""
    output: Blob | None = None
    sha256: Sha256 = ""
    duration_s: float = 0.0
    grade: Grade = ""
    written: tuple[str, ...] = ()
    doubts: tuple[str, ...] = ()


class IterationEnded(Event, frozen=True):
    """What came of an iteration, and what measurable is `changed` since the one before: files, metrics,
    claims, the plan. Nothing at all is no progress, unless it waits for something."""

    iteration: int
    outcome: IterationOutcome
    detail: str = ""
    is_waiting: bool = False
    exit_code: int | None = None
    changed: tuple[Word, ...] = ()
    cost_usd: float = 0.0
    tokens: int = 0


class MemoryKeptAside(Event, frozen=True):
    """A memory file that could not be used was put here, and a new one begun."""

    path: str
    reason: str


class GoalPaused(Event, frozen=True):
    """Nobody works on the goal from here on. What a signal interrupted goes on by itself; what a person
    paused waits for that person."""

    reason: str = ""
    by: Literal["user", "signal"] = "user"
    origin: Origin | None = None


class GoalEnded(Event, frozen=True):
    """How the goal ended. `grade` is that of its weakest evidence when it is done; `is_verified` when that is
    the best there is. `left_running` are the processes that outside engines had started and that lived until
    then: done and stopped end them, after any other ending they go on."""

    ending: GoalEnding
    reason: str = ""
    exit_code: int = 0
    is_verified: bool = False
    origin: Origin | None = None
    grade: Grade = ""
    left_running: tuple[int, ...] = ()


class EngineChosen(Event, frozen=True):
    """Who takes the turns from here on; an outside agent with the program and the version that it names, and
    its own name of the conversation once it has told it."""

    engine: str
    program: str = ""
    version: str = ""
    conversation: Conversation = ""
    origin: Origin | None = None


class EngineEnded(Event, frozen=True):
    """How the program of an outside agent ended. Without an exit code we ended it, for `reason`.
    `unread_lines` were not of its format: `unread` has the first of them. `left_running` were still alive
    when it had exited; they were ended, unless it works for a goal, which may wait for them."""

    exit_code: int | None = None
    reason: str = ""
    stderr: str = ""
    unread_lines: int = 0
    unread: str = ""
    left_running: tuple[int, ...] = ()
    duration_s: float = 0.0
