"""What happens in a session: its turns, steps and calls, its money, its files, its past."""

from typing import Any, Literal

from mainspring.events.base import Event, Id, OwnPath, Sha256, Word
from mainspring.events.values import (
    Alternative,
    Blob,
    CallAsked,
    CapScope,
    CapUnit,
    ChosenBy,
    Effort,
    Ending,
    Evidence,
    Limits,
    Media,
    Origin,
    Outcome,
    Part,
    PlanItem,
    Profile,
    PromptPart,
    ShownFile,
    Speed,
    Stop,
    StuckAction,
    Text,
    ToolSpec,
    Usage,
)


class SessionStarted(Event, frozen=True):
    """`allows_home` says that a person allowed a workspace that holds their home folder, settings or data.
    With an `agent` it works for its `parent`; without one it was forked from it. `project` is the folder that
    the workspace is a copy of, whose rules of a team hold there."""

    session: Id
    workspace: str
    version: Word
    parent: str = ""
    parent_seq: int = 0
    origin: Origin | None = None
    allows_home: bool = False
    agent: str = ""
    project: str = ""


class SessionResumed(Event, frozen=True):
    """Another process took this journal over; calls it found open are closed before anything else. `limits`
    are those of the open turn from here on, when a person gave other ones; `allows_home` is that of the
    start."""

    version: Word
    host: str
    pid: int
    limits: Limits | None = None
    origin: Origin | None = None
    allows_home: bool = False


class PromptSet(Event, frozen=True):
    """System prompt and tools: recorded once, so that every request starts with the same bytes. `context` is
    the first message, about this workspace: what comes before it is the same in every session, and a
    provider's cache knows it. `profile` is what the model was taken to be able to do."""

    system: str
    tools: tuple[ToolSpec, ...] = ()
    parts: tuple[PromptPart, ...] = ()
    context: str = ""
    profile: Profile = "standard"


class ModelChosen(Event, frozen=True):
    """From the next step on. `fallbacks` are the models to go on with, in order, should this one fail; `tier`
    is the one that it stands for."""

    model: str
    reason: str = ""
    fallbacks: tuple[str, ...] = ()
    tier: str = ""
    by: ChosenBy = "user"
    origin: Origin | None = None


class RoutingWarned(Event, frozen=True):
    """Something about the choice of models that a person should know; the model is not told."""

    message: str


class MediaLeftOut(Event, frozen=True):
    """Attachments that a model is not sent, and why. What a provider refused is left out from then on; what
    was found unfit before it was sent, only for this model."""

    blobs: tuple[Sha256, ...]
    names: tuple[str, ...]
    reason: str
    model: str = ""
    is_refused: bool = False


class EffortChosen(Event, frozen=True):
    """How hard the model should think from the next step on; None is its provider's own choice."""

    effort: Effort | None = None
    origin: Origin | None = None


class ModeChosen(Event, frozen=True):
    """`level` is set when a level of autonomy (L0 to L5) was named instead of the mode that it means."""

    mode: Word
    level: Word = ""
    origin: Origin | None = None


class SandboxChosen(Event, frozen=True):
    """Where commands run from here on: the highest rung that worked, or the one that a person named."""

    rung: Word


class UserSaid(Event, frozen=True):
    """With an `output_schema` the turn that it starts has that one. `command` is the id of what another
    process left in the inbox, if it came from there."""

    text: str
    media: tuple[Media, ...] = ()
    origin: Origin | None = None
    command: Id = ""
    output_schema: dict[str, Any] | None = None


class NoteAdded(Event, frozen=True):
    """Something said aside: the model sees it between steps, and it does not start a turn.
    `suspicious` quotes what reads like orders in the note of a program; `command` as in `UserSaid`; `files`
    are those whose text it shows."""

    text: str
    source: str = "user"
    origin: Origin | None = None
    command: Id = ""
    suspicious: tuple[str, ...] = ()
    files: tuple[ShownFile, ...] = ()


class TurnStarted(Event, frozen=True):
    """With an `output_schema` the turn is done when its last reply is JSON that fits it."""

    turn: int
    limits: Limits = Limits()
    output_schema: dict[str, Any] | None = None


class SpendReserved(Event, frozen=True):
    """Money and tokens set aside before they are spent; without a settlement they count as spent.
    With the source `step` it is also the beginning of a step, and carries the hash of what is sent. Without a
    `model` it is for the one that was chosen last (`ModelChosen`). `child` names the session that spends it,
    when that is not this one: it shares the caps here, and has the same entry in its own journal."""

    spend: Id
    source: Word = "step"
    model: str = ""
    tokens: int = 0
    usd: float = 0.0
    priced: bool = True
    child: Id = ""
    request_sha256: Sha256 = ""


class SpendSettled(Event, frozen=True):
    """What was spent in truth. `total_usd` is what the session has spent by then, for whoever watches. A
    request that failed has no reply; as a step it does not count. `saved_usd` is how much more it would have
    cost without the provider's cache."""

    spend: Id
    usage: Usage = Usage()
    usd: float = 0.0
    total_usd: float = 0.0
    speed: Speed | None = None
    is_failed: bool = False
    saved_usd: float = 0.0


class BudgetWarned(Event, frozen=True):
    """A share of a cap on money or tokens is spent; `day` is the date of a cap for the day."""

    scope: CapScope
    unit: Literal["usd", "tokens"]
    percent: int
    spent: float
    cap: float
    day: Word = ""


class RequestFailed(Event, frozen=True):
    """One attempt at a model failed. `retry_in_s` is None when no further attempt follows; then `model` says
    which it was, and `resets_at_us` when its provider said that it would answer again."""

    step: int
    attempt: int
    error: Word
    message: str
    retry_in_s: float | None = None
    model: str = ""
    resets_at_us: int | None = None


class AssistantSaid(Event, frozen=True):
    """A reply. What was said after `heard_seq` came too late for its request; 0 means that nothing did.
    `alternatives` are what the model nearly wrote into files, the likeliest first."""

    step: int
    parts: tuple[Part, ...] = ()
    stop: Stop = "end"
    heard_seq: int = 0
    alternatives: tuple[Alternative, ...] = ()

    @property
    def text(self) -> str:
        return "".join(part.text for part in self.parts if isinstance(part, Text))

    @property
    def calls(self) -> tuple[CallAsked, ...]:
        return tuple([part for part in self.parts if isinstance(part, CallAsked)])


class CallStarted(Event, frozen=True):
    call: Id
    tool: str


class CallEnded(Event, frozen=True):
    """What came of a call. `output` is what the model is told; `full` keeps what did not fit; `suspicious`
    quotes what reads like orders to the model; `left_running` are processes that its command left: they end
    when its time is over, or with the process that runs the session."""

    call: Id
    outcome: Outcome
    output: str = ""
    media: tuple[Media, ...] = ()
    exit_code: int | None = None
    full: Blob | None = None
    duration_s: float = 0.0
    suspicious: tuple[str, ...] = ()
    left_running: tuple[int, ...] = ()

    @property
    def is_error(self) -> bool:
        return self.outcome != "ok"


class ProcessStarted(Event, frozen=True):
    """A call starts a command that outlives it, under this handle; its keeper writes what becomes of it to
    `folder`. It ends with its session, unless it is staying, and after `timeout_s` when that is given. The
    end of a service is not waited for."""

    handle: Id
    call: Id
    command: str
    folder: OwnPath
    is_staying: bool = False
    is_service: bool = False
    timeout_s: float = 0.0


class ProcessEnded(Event, frozen=True):
    """A background command ended. Without an exit code, how is unknown. `call` is the one in whose result
    the model is told; without it a note follows. `set_aside` are protected paths that it made or changed, and
    that were renamed or put back."""

    handle: Id
    exit_code: int | None = None
    reason: str = ""
    call: Id = ""
    set_aside: tuple[str, ...] = ()


class GuardTripped(Event, frozen=True):
    """A guard saw that the model is stuck. The model is told `message`; when it `is_final`, the turn
    ends for this reason instead. `action` is what is changed for it, on record beside this."""

    guard: Word
    message: str
    is_final: bool = False
    action: StuckAction = ""


class PlanSet(Event, frozen=True):
    """The to-do list as it is from here on."""

    items: tuple[PlanItem, ...] = ()
    call: Id = ""


class Remembered(Event, frozen=True):
    """Something that the agent wants to know later, whatever becomes of the history. After a crash the same
    call may record it again."""

    text: str
    call: Id = ""


class WorkFinished(Event, frozen=True):
    """The agent says that the work is done, and what shows it. Every call cited has a result on record."""

    summary: str
    evidence: tuple[Evidence, ...] = ()
    call: Id = ""


class Compacted(Event, frozen=True):
    """From here on the history is `summary` (unless it is empty) followed by what was recorded from
    `keep_from_seq` on; of events in `stubbed` only their size and handle are told. Nothing is lost: the
    journal keeps everything. `model` wrote the summary; without one it was put together from the journal."""

    summary: str
    keep_from_seq: int
    model: str = ""
    stubbed: tuple[int, ...] = ()
    reason: str = ""
    tokens_before: int = 0
    tokens_after: int = 0
    origin: Origin | None = None


class Crashed(Event, frozen=True):
    """A fault of ours, with its traceback."""

    traceback: str


class TurnEnded(Event, frozen=True):
    """`resume_at_us` is when a turn that is `waiting` can go on; `scope` and `unit` say
    whose cap ended it, and on what; `origin` who stopped it from another process."""

    turn: int
    ending: Ending
    detail: str = ""
    remedy: str = ""
    steps: int = 0
    usage: Usage = Usage()
    cost_usd: float = 0.0
    resume_at_us: int | None = None
    scope: CapScope | None = None
    unit: CapUnit | None = None
    origin: Origin | None = None
