"""What events are made of: the closed lists of words, and the parts that more than one event has."""

from typing import Annotated, Any, Literal, Self, get_args

import msgspec

from mainspring.events.base import Id, JsonText, Sealed, SealedBy, Sha256, Word

Ending = Literal["done", "failed", "blocked", "waiting", "budget", "limit", "interrupted"]
"""How a turn ended: `blocked` needs a person, `limit` is steps or wall time, `budget` is money or tokens."""

StuckAction = Literal["", "told", "sampled", "restarted", "escalated"]
"""What is changed when the same call fails again: the file is shown, replies are sampled otherwise, the
history begins anew, a stronger tier takes over."""

Outcome = Literal["ok", "error", "refused", "cancelled", "abandoned", "unknown"]
"""How a call ended. `unknown` means: it had started, and nobody saw its result."""

Stop = Literal["end", "calls", "length", "refused"]
"""Why the model stopped: it was finished, it wants calls run, it ran out of room, it declined."""

KEEPS_CALLS_OPEN: frozenset[Ending] = frozenset({"blocked", "waiting"})
"""Endings after which a person's answer continues the same calls."""

Decision = Literal["allow", "reject", "stop", "abandon", "expire"]
"""What became of an approval that was asked for; everything but `allow` means the call does not run."""

Scope = Literal["once", "session", "project", "forever"]
"""How far a person's yes reaches; more than `once` is also kept as a grant."""

SCOPES: tuple[Scope, ...] = get_args(Scope)

BlockedBy = Literal[
    "", "mode", "rule", "danger", "recurring", "unknown_price", "invalid_price", "over_cap", "no_cap", "agent"
]
"""What keeps a call from running unasked: the mode, a rule, a built-in danger, that it takes effect later or
again, its price (unknown, impossible, above what a cap leaves, or without any cap), or that the agent itself
asks a person something."""

Extent = Literal["conversation", "files", "both"]
"""What going back takes back."""

ChangeKind = Literal["created", "modified", "deleted", "renamed", "mode"]


Progress = Literal["open", "doing", "done"]
"""How far an item of a plan is."""


Effort = Literal["low", "medium", "high", "max"]
Profile = Literal["standard", "small"]
"""What a model is taken to be able to do: `small` ones get few, simple tools and short texts."""

OUTPUT_SOURCE = "mainspring:output"
"""The source of the note that says why a structured answer was not accepted."""

ATTEMPTS_SOURCE = "mainspring:attempts"
"""Who tells an attempt what the one before it failed with."""

EFFECT_SOURCE = "mainspring:effect"
"""The source of the note that asks a model once whether it is done, since it has done nothing."""

RESUMED_SOURCE = "mainspring:resumed"
"""The source of the note that says how old a resumed session is; nothing needs to be answered to it."""

PRIMING_SOURCE = "mainspring:files"
"""The source of the note that shows what a task names, before the first step."""

TESTS_SOURCE = "mainspring:tests"
"""The source of the note that tells what the project's tests say after a change."""

REGRESSIONS_SOURCE = "mainspring:regressions"
"""The source of the note that keeps a turn from ending, since tests fail that passed before it."""

CHECKS_SOURCE = "mainspring:checks"
"""The source of the note that tells what checks find in changed files."""

EVIDENCE_SOURCE = "mainspring:evidence"
"""The source of the note that tells of edits which nothing has tested, checked, reviewed or run."""

REVIEW_SOURCE = "mainspring:review"
"""The source of the note that keeps a turn from ending, since a review found something."""
"""How hard a model should think; what a provider has no word for becomes the nearest it has."""


ChosenBy = Literal["user", "settings", "failover", "router", "escalation"]
"""Why a model was chosen: somebody named it, the one before it failed, or a turn needed another tier."""


class Value(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """A part of an event."""


class Origin(Value, frozen=True):
    """Who gave the command that an event comes from, and by which face (`cli`, `python`, `daemon`, ...).
    `token` is the name of an access token, never its secret, `issuer` who vouches for the user and their
    `groups`. What is not known is empty."""

    user: str = ""
    device: str = ""
    token: str = ""
    program: str = ""
    face: Word = ""
    issuer: str = ""
    groups: tuple[str, ...] = ()


class Quorum(Value, frozen=True):
    """Whose yes a call takes, by which rule of a team: that of `of` people among `by` (names as a policy
    writes them, without groups). With `not_own` those whose command led to the call do not count."""

    rule: str
    by: tuple[str, ...] = ("*",)
    of: int = 1
    not_own: bool = False


class Blob(Value, frozen=True):
    """Content kept once in the journal, named by its SHA-256."""

    sha256: Sha256
    size: int
    media_type: Word = "text/plain"


class Media(Value, frozen=True):
    """An image or document that someone showed to the model. `suspicious` quotes what reads like orders in a
    text that a person attached."""

    blob: Blob
    name: str = ""
    suspicious: tuple[str, ...] = ()


class Text(Value, frozen=True, tag="text", tag_field="part"):
    text: str


class Thinking(Value, frozen=True, tag="thinking", tag_field="part"):
    """Reasoning, with whatever its provider needs to accept it back (`opaque`, of that `wire` only)."""

    text: Annotated[str, SealedBy("opaque")] = ""
    opaque: Sealed = ""
    wire: Word = ""


_NAMESPACES = ("functions.", "default_api.", "default_api:")


def tool_of(name: str) -> str:
    """The tool that a model means: `functions.read` is `read`, as its provider writes it inside, and blanks
    around it mean nothing."""
    name = name.strip()
    return next((name[len(space) :] for space in _NAMESPACES if name.startswith(space)), name)


class CallAsked(Value, frozen=True, tag="call", tag_field="part"):
    """A call that the model asked for, as it said it; `arguments` is the text it wrote, which may not be
    JSON."""

    call: Id
    name: str
    arguments: JsonText = ""
    provider_id: str = ""
    opaque: Sealed = ""


Part = Text | Thinking | CallAsked


class Alternative(Value, frozen=True):
    """What a model nearly wrote: `text` in place of `instead`, at so many characters of its text, or of the
    content of a file that its call of that index writes."""

    at: int
    text: str
    instead: str
    probability: float
    call: int = 0


class ToolSpec(Value, frozen=True):
    """A tool as the model sees it."""

    name: str
    description: str
    parameters: dict[str, Any]


class PromptPart(Value, frozen=True):
    """A part of a system prompt: how many characters it has, and the file it came from."""

    name: Word
    source: str = ""
    size: int = 0


class Usage(Value, frozen=True):
    """Tokens of one request. `input_tokens` counts all input, the cached and the cache-written included."""

    input_tokens: int = 0
    cached_tokens: int = 0
    cache_write_tokens: int = 0
    output_tokens: int = 0
    reasoning_tokens: int = 0

    @property
    def total_tokens(self) -> int:
        return self.input_tokens + self.output_tokens

    def plus(self, other: Self) -> Self:
        sums = {name: getattr(self, name) + getattr(other, name) for name in self.__struct_fields__}
        return msgspec.structs.replace(self, **sums)


class Speed(Value, frozen=True):
    """Tokens per second, as a local server measured them."""

    input_per_s: float
    output_per_s: float


CapScope = Literal["turn", "session", "goal", "day"]
"""What a cap holds for. A day is one of local time, and holds for all sessions of a data folder together."""


CapUnit = Literal["usd", "tokens", "steps", "calls", "time_s"]
"""What a cap counts: the fields of `Cap`."""


class Cap(Value, frozen=True, forbid_unknown_fields=True):
    """What one scope may use; None is no limit. `time_s` is time at work, not time asleep."""

    usd: float | None = None
    """US dollars."""
    tokens: int | None = None
    """Tokens, input and output."""
    steps: int | None = None
    """Model requests."""
    calls: int | None = None
    """Tool calls."""
    time_s: float | None = None
    """Seconds of work; waits do not count."""


class Limits(Value, frozen=True):
    """What may be used; None is no limit. The plain fields are the usual caps: steps, calls and time of one
    turn, tokens and money of the whole session. The scopes hold every other."""

    max_steps: int | None = None
    max_tokens: int | None = None
    max_cost_usd: float | None = None
    timeout_s: float | None = None
    max_calls: int | None = None
    turn: Cap = Cap()
    session: Cap = Cap()
    goal: Cap = Cap()
    day: Cap = Cap()


class Offer(Value, frozen=True):
    """What a yes for more than once would allow: a command pattern, a path, a host, or (with none of them)
    every call of the tool. `accepts` names the built-in dangers that it takes on; `script_sha256` binds it to
    what the script says that the command names."""

    command: str = ""
    path: str = ""
    host: str = ""
    accepts: tuple[Word, ...] = ()
    script_sha256: Sha256 = ""


class AskedScript(Value, frozen=True):
    """A script of the workspace that a command names, as it was when a person was asked. `diff` is what
    changed since the last yes to it. Texts are cut where they are long."""

    path: str
    sha256: Sha256
    text: str = ""
    diff: str = ""


class PlanItem(Value, frozen=True):
    text: str
    progress: Progress = "open"


class Evidence(Value, frozen=True):
    """A claim, and the calls whose recorded results bear it out."""

    claim: str
    calls: tuple[Id, ...]


class FileState(Value, frozen=True):
    """A file as it was. `blob` is its content, or where a link points; `reason` says why it is not kept.
    `sha256` is set when the blob stands for the content without its secrets, and is that of the content."""

    kind: Literal["file", "link", "folder", "other"] = "file"
    mode: int = 0
    size: int = 0
    blob: Blob | None = None
    sha256: Sha256 = ""
    reason: str = ""

    @property
    def content_sha256(self) -> str:
        return self.sha256 or (self.blob.sha256 if self.blob else "")


class ShownFile(Value, frozen=True):
    """A file of the workspace whose text was shown: whole, or these lines of it, counted from 1."""

    path: str
    sha256: Sha256
    first_line: int = 0
    last_line: int = 0


class FileChange(Value, frozen=True):
    """What became of one path of the workspace; nothing was there where a state is None. A renamed file was
    at `renamed_from` in the state `before`."""

    path: str
    kind: ChangeKind
    before: FileState | None = None
    after: FileState | None = None
    renamed_from: str = ""


SYNTAX = "syntax"
"""The check that reads a file as what its name says."""


class CheckFinding(Value, frozen=True):
    """What the check `by` says of a file: `rule` is its own name for that; line 0 is the whole file.
    It is about the lines from `line` to `last_line`, or about that one line where there is no `last_line`."""

    by: Word
    message: str
    rule: str = ""
    line: int = 0
    severity: Literal["error", "warning"] = "error"
    last_line: int = 0


class CheckTime(Value, frozen=True):
    """How long the check `by` took in a round, over all files; checks of one round run beside each other."""

    by: Word
    duration_s: float = 0.0


class CheckedFile(Value, frozen=True):
    """A changed file, by whom it was looked at, and what they found that was not there before."""

    path: str
    by: tuple[Word, ...] = ()
    findings: tuple[CheckFinding, ...] = ()
