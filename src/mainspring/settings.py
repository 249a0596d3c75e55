"""Settings, read once: the environment, and `config.toml` of the user. A repository's files are not trusted
with settings. Nothing else in the house looks at the environment.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping, Sequence
from datetime import UTC, tzinfo
from pathlib import Path
from typing import Annotated
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import msgspec
import platformdirs

from mainspring.context.guards import IDLE_STEPS
from mainspring.disk.formats import read_toml
from mainspring.engines.settings import EngineSettings
from mainspring.errors import ConfigError, UsageError
from mainspring.events import Cap, Effort, Limits, Origin
from mainspring.folds.caps import filled
from mainspring.models import Price
from mainspring.models.retry import RetryPolicy
from mainspring.system import account_home
from mainspring.turns.router import Breaker
from mainspring.waits.reach import Patience

_FORMAT = 1
_CLOCK = Path("/etc/localtime")


class Caps(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Caps for every run, by scope; what a run is told itself replaces them."""

    turn: Cap = Cap()
    """Of one turn."""
    session: Cap = Cap()
    """Of one session, however often it is resumed."""
    goal: Cap = Cap()
    """Of one goal, over all its iterations."""
    day: Cap = Cap()
    """Of all sessions together, in one day (UTC); not on calls or time."""


class Template(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a step of that name gets (`[steps.NAME]` in `config.toml`). With `commands`, only what one of
    these patterns allows may run: words like `pytest *` or `git status $`."""

    commands: tuple[str, ...] = ()
    """Patterns of what may run; empty: whatever the policy allows."""
    timeout_s: float = 600.0
    """Seconds that the command may take."""
    cpu_s: int = 0
    """Seconds of processor time; 0 is no limit."""
    memory_mb: int = 0
    """Megabytes of memory; 0 is no limit."""
    mode: str = ""
    """The mode to judge it in; empty: the usual one."""


class DaemonSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What `mainspring daemon` does by itself (`[daemon]` in `config.toml`): how many goals it runs at once,
    how old an interruption may be, whether plain sessions are resumed too, and how it treats what crashes."""

    max_running: Annotated[int, msgspec.Meta(ge=1)] = 2
    """Goals at work at once; one that waits does not count."""
    resume_within_days: Annotated[float, msgspec.Meta(gt=0)] = 7.0
    """What was interrupted earlier is left alone."""
    sessions: bool = False
    """Also resume crashed sessions without a goal."""
    max_crashes: Annotated[int, msgspec.Meta(ge=1)] = 3
    """In a row, without getting on; then a goal is left alone."""
    crash_wait_s: Annotated[float, msgspec.Meta(ge=0)] = 10.0
    """Seconds before a crashed goal is resumed."""


class Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What `config.toml` may say."""

    model: str = ""
    """The default model, as `--model` takes it; MAINSPRING_MODEL comes first."""
    models: tuple[str, ...] = ()
    """The default model and, after it, those to go on with when it fails."""
    fallback: tuple[str, ...] = ()
    """More models to go on with when one fails, in order."""
    effort: Effort | None = None
    """How hard the model thinks; without it, as the provider does by itself."""
    tiers: dict[str, str | dict[str, str]] = {}
    """Models by strength; a tier is a model, or one per provider: the first with a key is taken."""
    router: bool = False
    """Choose a tier for each turn by what was said, failing tests and the size of the context."""
    escalation: Breaker = Breaker()
    """When failing turns go to the next tier."""
    retry: RetryPolicy = RetryPolicy()
    """How often a failed request is made again, and after how long."""
    mode: str = ""
    """What may be done without asking: plan, ask, edits, auto, yolo, or L0 to L5."""
    approval_timeout_s: Annotated[float, msgspec.Meta(gt=0)] | None = None
    """Seconds until an unanswered question counts as a no; without it, as long as it takes."""
    prices: dict[str, Price] = {}
    """Prices of models by name, instead of those in the shipped table."""
    caps: Caps = Caps()
    """What may be used, by scope."""
    local_context_tokens: int = 16 * 1024
    """The context of a model that runs on this machine, in tokens."""
    context_tokens: dict[str, int] = {}
    """The context of models by name, in tokens, where it is not known."""
    compact_at: Annotated[float, msgspec.Meta(gt=0, le=1)] = 0.8
    """The share of the context that is filled before history is made short."""
    compaction_model: str = ""
    """Writes summaries of long histories; without it, or when it fails, the session's own model does."""
    idle_steps: Annotated[int, msgspec.Meta(ge=0)] = IDLE_STEPS
    """Steps in which nothing new happens before a turn is ended; 0 is never."""
    steps: dict[str, Template] = {}
    """What `mainspring exec --template NAME` gets."""
    waits: Patience = Patience()
    """How long is waited."""
    engine: str = ""
    """Who takes the turns; empty is builtin."""
    engines: dict[str, EngineSettings] = {}
    """Other agents, by name."""
    daemon: DaemonSettings = DaemonSettings()
    """What the daemon does by itself."""


FACE = "MAINSPRING_FACE"
"""The variable by which the daemon tells the commands that it starts that no person gave them."""


class Config(msgspec.Struct, frozen=True, kw_only=True):
    """`home` holds what mainspring keeps, `folder` what the user writes: settings and rules. `origin` is who
    gives the commands, for the journals."""

    home: Path
    folder: Path
    settings: Settings
    environment: Mapping[str, str]
    origin: Origin = Origin(face="python")

    @property
    def model(self) -> str:
        return self.environment.get("MAINSPRING_MODEL") or next(iter(self._models), "")

    @property
    def fallback(self) -> tuple[str, ...]:
        """The models to go on with, in order, when the first one fails."""
        line = dict.fromkeys((*self._models, *self.settings.fallback))
        return tuple(name for name in line if name != self.model)

    @property
    def _models(self) -> tuple[str, ...]:
        settings = self.settings
        return (settings.model, *settings.models) if settings.model else settings.models

    @property
    def zone(self) -> tzinfo:
        """The zone of this machine's clock, as it is set now."""
        name = self.variable("TZ").removeprefix(":")
        try:
            if name:
                return ZoneInfo(name)
            with _CLOCK.open("rb") as file:
                return ZoneInfo.from_file(file, key="local")
        except (ZoneInfoNotFoundError, OSError, ValueError):
            return UTC

    @property
    def log_file(self) -> Path:
        """Where the debug log is written when somebody asks for one."""
        return Path(self.variable("MAINSPRING_LOG") or self.home / "debug.log").expanduser().absolute()

    def variable(self, name: str) -> str:
        """An environment variable, empty when it is not set."""
        return self.environment.get(name, "").strip()


def load_config(environment: Mapping[str, str] | None = None) -> Config:
    """The settings, read from the environment and `config.toml`; MAINSPRING_HOME moves all data elsewhere."""
    values = dict(os.environ if environment is None else environment)
    values["HOME"] = values.get("HOME") or account_home()
    chosen = values.get("MAINSPRING_HOME")
    if chosen:
        home = Path(chosen).expanduser().absolute()
        folder = home
    else:
        home = platformdirs.user_data_path("mainspring", appauthor=False)
        folder = platformdirs.user_config_path("mainspring", appauthor=False)
    settings = _load_settings(folder / "config.toml")
    return Config(home=home, folder=folder, settings=settings, environment=values)


def is_log_wanted(environment: Mapping[str, str] | None = None) -> bool:
    """Whether the environment asks for a debug log; asked before anything else is read."""
    return bool((os.environ if environment is None else environment).get("MAINSPRING_LOG", "").strip())


def _load_settings(file: Path) -> Settings:
    try:
        text = file.read_text(encoding="utf-8")
    except FileNotFoundError:
        return Settings()
    except OSError as error:
        raise ConfigError(
            f"{file} cannot be read: {error.strerror}.",
            remedy="Check who may read it, and MAINSPRING_HOME if that is set.",
        ) from error
    return read_toml(text, Settings, file=file, known=_FORMAT)


def with_caps(limits: Limits, caps: Caps) -> Limits:
    """The limits of one run, with the settings' caps where the run was told nothing."""
    replace = msgspec.structs.replace
    session = replace(
        caps.session,
        usd=caps.session.usd if limits.max_cost_usd is None else None,
        tokens=caps.session.tokens if limits.max_tokens is None else None,
    )
    turn = replace(
        caps.turn,
        steps=caps.turn.steps if limits.max_steps is None else None,
        calls=caps.turn.calls if limits.max_calls is None else None,
        time_s=caps.turn.time_s if limits.timeout_s is None else None,
    )
    told = replace(
        limits,
        turn=filled(limits.turn, turn),
        session=filled(limits.session, session),
        goal=filled(limits.goal, caps.goal),
        day=filled(limits.day, caps.day),
    )
    if told.day.calls is not None or told.day.time_s is not None:
        raise UsageError(
            "A day has no cap on calls or time.", remedy="Cap its usd, tokens or steps, or cap the session."
        )
    return told


def stop_signals() -> tuple[signal.Signals, ...]:
    """What asks this process to stop: SIGTERM, and what a terminal sends (SIGINT, SIGQUIT, SIGHUP when it is
    closed) unless that was ignored when we were started. A shell starts background jobs so, and `nohup`."""
    names = ("SIGINT", "SIGQUIT", "SIGHUP")
    found = [signal.Signals[name] for name in names if hasattr(signal, name)]  # Windows has only SIGINT
    return (
        *(number for number in found if signal.getsignal(number) is not signal.SIG_IGN),
        signal.SIGTERM,
    )


def is_repeated(number: signal.Signals, received: Sequence[signal.Signals]) -> bool:
    """Whether somebody asks again, and wants the end at once. A terminal that is closed sends SIGHUP, and its
    shell once more."""
    return bool(received) and number.name != "SIGHUP"
