"""Settings, read once: the environment, and `config.toml` of the user. A repository's files are not trusted
with settings. Nothing else in the house looks at the environment.
"""

from __future__ import annotations

import os
import pwd
import signal
from collections.abc import Mapping
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
from mainspring.turns.router import Breaker
from mainspring.waits.reach import Patience

_FORMAT = 1
_CLOCK = Path("/etc/localtime")


class Caps(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Caps for every run, by scope; what a run is told itself replaces them."""

    turn: Cap = Cap()
    session: Cap = Cap()
    goal: Cap = Cap()
    day: Cap = Cap()


class Template(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a step of that name gets (`[steps.NAME]` in `config.toml`). With `commands`, only what one of
    these patterns allows may run: words like `pytest *` or `git status $`."""

    commands: tuple[str, ...] = ()
    timeout_s: float = 600.0
    cpu_s: int = 0
    memory_mb: int = 0
    mode: str = ""


class DaemonSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What `mainspring daemon` does by itself (`[daemon]` in `config.toml`): how many goals it runs at once,
    how old an interruption may be, whether plain sessions are resumed too, and how it treats what crashes."""

    max_running: Annotated[int, msgspec.Meta(ge=1)] = 2
    resume_within_days: Annotated[float, msgspec.Meta(gt=0)] = 7.0
    sessions: bool = False
    max_crashes: Annotated[int, msgspec.Meta(ge=1)] = 3
    crash_wait_s: Annotated[float, msgspec.Meta(ge=0)] = 10.0


class Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What `config.toml` may say."""

    model: str = ""
    models: tuple[str, ...] = ()
    fallback: tuple[str, ...] = ()
    effort: Effort | None = None
    tiers: dict[str, str | dict[str, str]] = {}
    router: bool = False
    escalation: Breaker = Breaker()
    retry: RetryPolicy = RetryPolicy()
    mode: str = ""
    approval_timeout_s: Annotated[float, msgspec.Meta(gt=0)] | None = None
    prices: dict[str, Price] = {}
    caps: Caps = Caps()
    local_context_tokens: int = 16 * 1024
    context_tokens: dict[str, int] = {}
    compact_at: Annotated[float, msgspec.Meta(gt=0, le=1)] = 0.8
    compaction_model: str = ""
    idle_steps: Annotated[int, msgspec.Meta(ge=0)] = IDLE_STEPS
    steps: dict[str, Template] = {}
    waits: Patience = Patience()
    engine: str = ""
    engines: dict[str, EngineSettings] = {}
    daemon: DaemonSettings = DaemonSettings()


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

    def variable(self, name: str) -> str:
        """An environment variable, empty when it is not set."""
        return self.environment.get(name, "").strip()


def load_config(environment: Mapping[str, str] | None = None) -> Config:
    values = dict(os.environ if environment is None else environment)
    values["HOME"] = values.get("HOME") or _account_home()
    chosen = values.get("MAINSPRING_HOME")
    if chosen:
        home = Path(chosen).expanduser().absolute()
        folder = home
    else:
        home = platformdirs.user_data_path("mainspring", appauthor=False)
        folder = platformdirs.user_config_path("mainspring", appauthor=False)
    settings = _load_settings(folder / "config.toml")
    return Config(home=home, folder=folder, settings=settings, environment=values)


def _account_home() -> str:
    """Where secrets of the user lie when HOME is not set, as in a service; else "/"."""
    try:
        return pwd.getpwuid(os.getuid()).pw_dir
    except KeyError:
        return "/"


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
    """What asks this process to stop: SIGTERM, and SIGINT unless it was ignored when we were started. A shell
    starts background jobs so, and the Ctrl-C of its terminal is not meant for them."""
    is_ignored = signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    return (signal.SIGTERM,) if is_ignored else (signal.SIGINT, signal.SIGTERM)
