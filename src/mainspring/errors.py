"""Errors for people: what happened in one sentence, what to do in another.

MainspringError
├── UsageError                 the command or call cannot be understood
│   ├── UnknownSession
│   ├── InvalidValue           an argument has a value that nothing could be recorded with
│   └── ConfigError
├── AccessRefused              whoever gave the command may not do this
├── FileTooNew                 a newer version wrote this file
├── JournalError
│   ├── JournalDamaged         bytes are missing or changed
│   ├── JournalForeign         not a journal, or one of a newer version
│   ├── JournalOwned           another process is writing it
│   └── JournalUnwritable      disk full, read-only, I/O error
│       └── JournalUnreachable  the database cannot be had just now
├── SandboxError               our machine failed, not the command
├── JobHostError               a machine that runs jobs or commands for us did not do what was asked
├── PathRefused                the policy, or the file's kind, forbids touching it
├── WorkspaceConflict          someone else changed what would be overwritten
├── OutputInvalid              the answer is not what the program asked for
└── ModelError                 a provider did not give a reply
    ├── RateLimited            may carry when it resets
    ├── Overloaded             5xx, 529
    ├── ContextOverflow        the request is larger than the model takes
    ├── BadRequest
    ├── AuthFailed
    ├── NoCredit
    ├── ModelUnknown
    ├── ContentRefused
    ├── NetworkFailed          no connection, a dropped stream, a reply that is not the protocol
    └── ModelTimeout

What a tool does wrong is not an exception here: the model is told in the call's result.
"""

from __future__ import annotations

_MOST_CHARACTERS = 8_000


class MainspringError(Exception):
    """Something that a person can act on. What its words quote is bounded, and cannot steer a terminal."""

    exit_code = 1

    def __init__(self, message: str, *, remedy: str = "") -> None:
        message, remedy = _plain(message), _plain(remedy)
        super().__init__(message)
        self.message = message
        self.remedy = remedy

    def __str__(self) -> str:
        return f"{self.message} {self.remedy}".strip()


def _plain(text: str) -> str:
    if len(text) > _MOST_CHARACTERS:
        half = _MOST_CHARACTERS // 2
        text = f"{text[:half]} … {text[-half:]}"
    return text if text.isprintable() else "".join(map(_escaped, text))


def _escaped(character: str) -> str:
    is_control = character < " " or "\x7f" <= character <= "\x9f" or "\ud800" <= character <= "\udfff"
    return repr(character)[1:-1] if is_control and character not in "\n\t" else character


class UsageError(MainspringError):
    exit_code = 2


class UnknownSession(UsageError):
    pass


class InvalidValue(UsageError, ValueError):
    """A value that an argument cannot have. Nothing was written."""


def require_type(value: object, kind: type, name: str) -> None:
    """Raises `InvalidValue` when the argument `name` is of another type."""
    if not isinstance(value, kind):
        raise InvalidValue(f"{name} must be {kind.__name__}, not {type(value).__name__}.")


class PromptRefused(UsageError):
    """A hook does not want this to be said to the model."""


class ConfigError(UsageError):
    pass


class AccessRefused(MainspringError):
    """`rule` is what decided so."""

    exit_code = 3

    def __init__(self, message: str, *, remedy: str = "", rule: str = "") -> None:
        super().__init__(message, remedy=remedy)
        self.rule = rule


class FileTooNew(MainspringError):
    pass


class JournalError(MainspringError):
    pass


class JournalDamaged(JournalError):
    def __init__(self, message: str, *, remedy: str = "", seq: int | None = None) -> None:
        super().__init__(message, remedy=remedy)
        self.seq = seq


class JournalForeign(JournalError):
    pass


class JournalOwned(JournalError):
    exit_code = 3


class JournalUnwritable(JournalError):
    pass


class JournalUnreachable(JournalUnwritable):
    """Where journals are kept cannot be had just now; who goes on with the session later finds all of it."""


class SandboxError(MainspringError):
    pass


class JobHostError(MainspringError):
    """`is_refused` says that it answered, and does not want what was asked."""

    def __init__(self, message: str, *, remedy: str = "", is_refused: bool = False) -> None:
        super().__init__(message, remedy=remedy)
        self.is_refused = is_refused


class PathRefused(MainspringError):
    pass


class WorkspaceConflict(MainspringError):
    pass


class OutputInvalid(MainspringError):
    """The model's last answer is not a value of the wanted type, also after it was told why."""


class ModelError(MainspringError):
    """`is_transient` says whether the same request may succeed later."""

    is_transient = False

    def __init__(self, message: str, *, remedy: str = "", retry_after_s: float | None = None) -> None:
        super().__init__(message, remedy=remedy)
        self.retry_after_s = retry_after_s


class RateLimited(ModelError):
    is_transient = True


class Overloaded(ModelError):
    is_transient = True


class ContextOverflow(ModelError):
    pass


class MediaRefused(ModelError):
    """An image or document of the request was not accepted."""


class BadRequest(ModelError):
    """`cause` names a refusal that a wire may be able to live with (`effort`, `parameter`, `signature`,
    `tools`, `order`), and `param` what was refused."""

    def __init__(
        self,
        message: str,
        *,
        remedy: str = "",
        retry_after_s: float | None = None,
        cause: str = "",
        param: str = "",
    ) -> None:
        super().__init__(message, remedy=remedy, retry_after_s=retry_after_s)
        self.cause = cause
        self.param = param


class AuthFailed(ModelError):
    pass


class NoCredit(ModelError):
    pass


class ModelUnknown(ModelError):
    pass


class ContentRefused(ModelError):
    pass


class NetworkFailed(ModelError):
    is_transient = True


class ModelTimeout(ModelError):
    is_transient = True


ELSEWHERE = (RateLimited, Overloaded, NetworkFailed, ModelTimeout, NoCredit)
"""Failures that another model may not have."""
