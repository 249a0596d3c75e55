"""Settings, read once: the environment, and `config.toml` of the user. A repository's files are not trusted
with settings. Nothing else in the house looks at the environment.
"""

from __future__ import annotations

import errno
import math
import os
from collections.abc import Mapping
from datetime import UTC, tzinfo
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import msgspec

from mainspring.checks.review_settings import ReviewSettings
from mainspring.checks.settings import ChecksSettings
from mainspring.context.guards import IDLE_STEPS
from mainspring.context.work import WorkSettings
from mainspring.disk.formats import convert_toml, invalid_setting, toml_content
from mainspring.disk.untrusted import read_untrusted_text
from mainspring.engines.settings import EngineSettings
from mainspring.errors import ConfigError, MainspringError, UsageError, require_type
from mainspring.events import Effort, Limits, Origin
from mainspring.folds.caps import Caps, filled
from mainspring.jobs.settings import JobHostSettings, MachineSettings
from mainspring.journal.settings import (
    STORE_VARIABLE,
    JournalSettings,
    StoreSettings,
    TemporalSettings,
    store_secrets,
)
from mainspring.mcp.settings import McpSettings
from mainspring.models import Price
from mainspring.models.gateway import Gateway
from mainspring.models.own import ModelSettings
from mainspring.models.providers import PROVIDERS
from mainspring.models.retry import RetryPolicy
from mainspring.models.search_settings import SearchSettings
from mainspring.models.tiers import Breaker
from mainspring.notify.settings import NotifySettings
from mainspring.people.persons import Person
from mainspring.people.settings import AuditSettings, Days, LoginSettings, PolicySettings
from mainspring.plugins.settings import PluginSettings
from mainspring.sandbox.settings import SandboxSettings
from mainspring.secrets.key_store import read_keys
from mainspring.secrets.vault import secret_variables
from mainspring.system import account_home
from mainspring.telemetry.settings import TelemetrySettings
from mainspring.waits.patience import Patience

_FORMAT = 1
_MAX_BYTES = 1 << 20
_CLOCK = Path("/etc/localtime")
_YES = ("1", "true", "yes", "on")
_NO = ("0", "false", "no", "off")

_Seconds = Annotated[float, msgspec.Meta(gt=0, le=10 * 365 * 24 * 3600)]


class Template(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a command with this template gets (`[steps.NAME]` in `config.toml`). With `commands`, only what
    one of these patterns allows may run: words like `pytest *` or `git status $`."""

    commands: tuple[str, ...] = ()
    """Patterns of allowed commands; empty: whatever the approval rules allow."""
    timeout_s: _Seconds = 600.0
    """Maximum duration in seconds."""
    cpu_s: Annotated[int, msgspec.Meta(ge=0)] = 0
    """Maximum CPU time in seconds; 0: no limit."""
    memory_mb: Annotated[int, msgspec.Meta(ge=0)] = 1024
    """Maximum memory in MiB; 0: as `[sandbox]` says."""
    mode: str = ""
    """Approval mode for this command; empty: the default mode."""


class DaemonSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Settings of `mainspring daemon` (`[daemon]` in `config.toml`): how many goals it runs at once,
    how old an interruption may be, whether plain sessions are resumed too, and how it treats what crashes."""

    max_running: Annotated[int, msgspec.Meta(ge=1)] = 2
    """Maximum goals that run at the same time; waiting ones do not count."""
    resume_within_days: Days = 7.0
    """Goals that were interrupted longer ago are not resumed."""
    sessions: bool = False
    """Resume crashed sessions without a goal as well, and chats whose terminal was closed."""
    max_crashes: Annotated[int, msgspec.Meta(ge=1)] = 3
    """Crashes in a row without progress after which a goal is no longer resumed."""
    crash_wait_s: Annotated[float, msgspec.Meta(ge=0, le=10 * 365 * 24 * 3600)] = 10.0
    """Seconds before a crashed goal is resumed."""


class Retention(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is deleted by itself (`[retention]` in `config.toml`): once a day by the daemon, or beside a
    session that runs (`retention.log` in the data folder says what). Without these nothing is; `mainspring
    sessions delete` and `mainspring clean` do it by hand."""

    sessions_days: Days | None = None
    """Sessions that did not change for so many days are deleted, except what runs, waits or was forked."""
    clean_days: Days | None = None
    """As `mainspring clean` every day: records of `exec`, logs and caches that are so many days old."""
    contents_mb: Annotated[int, msgspec.Meta(ge=1)] = 1024
    """Megabytes of file contents that are kept for each workspace, so that `undo` can put them back."""


class Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What `config.toml` may say."""

    model: str = ""
    """The default model, as `--model` takes it; MAINSPRING_MODEL comes first."""
    models: tuple[str, ...] | dict[str, ModelSettings] = ()
    """The default model, followed by its fallbacks; or tables `[models."NAME"]` with what you know of one."""
    fallback: tuple[str, ...] = ()
    """Further fallback models, in order."""
    effort: Effort | None = None
    """Reasoning effort of the model; unset: the provider's default."""
    tiers: dict[str, str | dict[str, str]] = {}
    """Models by strength. A tier is one model, or one per provider: the first provider with a key is used."""
    router: bool = False
    """Choose a tier for each turn by the message, failing tests and context size."""
    escalation: Breaker = Breaker()
    """When failing turns move to the next tier."""
    retry: RetryPolicy = RetryPolicy()
    """How often failed requests are retried, and after which delay."""
    mode: str = ""
    """What needs approval: plan, ask, edits, auto, yolo, or a level L0 to L5."""
    approval_timeout_s: _Seconds | None = None
    """Seconds after which an unanswered approval counts as refused; unset: never."""
    prices: dict[str, Price] = {}
    """Prices by model name; they replace those of the built-in table."""
    caps: Caps = Caps()
    """Limits on money, tokens, steps, calls and time, by scope."""
    local_context_tokens: Annotated[int, msgspec.Meta(ge=1)] = 16 * 1024
    """Context window of local models, in tokens."""
    context_tokens: dict[str, Annotated[int, msgspec.Meta(ge=1)]] = {}
    """Context windows by model name, in tokens, where they are unknown."""
    compact_at: Annotated[float, msgspec.Meta(gt=0, le=1)] = 0.8
    """Filled share of the context window at which the history is compacted."""
    compaction_model: str = ""
    """Model that summarizes long histories; unset, or when it fails: the session's own model."""
    idle_steps: Annotated[int, msgspec.Meta(ge=0)] = IDLE_STEPS
    """Steps without progress after which a turn is ended; 0: never."""
    steps: dict[str, Template] = {}
    """Templates for `mainspring exec --template NAME`."""
    waits: Patience = Patience()
    """Limits on waiting."""
    engine: str = ""
    """Engine that takes the turns; empty: builtin."""
    engines: dict[str, EngineSettings] = {}
    """Settings of outside agents, by name."""
    gateway: Gateway = Gateway()
    """One server that all model calls go through."""
    sandbox: SandboxSettings = SandboxSettings()
    """Limits of commands that have none of their own, and what is hidden from them."""
    journal: JournalSettings = JournalSettings()
    """What is kept about journals besides themselves."""
    store: StoreSettings = StoreSettings()
    """A database that machines share, in which sessions are kept."""
    temporal: TemporalSettings = TemporalSettings()
    """A Temporal server that gives the work of that database out."""
    audit: AuditSettings = AuditSettings()
    """The log of commands."""
    policy: PolicySettings = PolicySettings()
    """A team's policy in a file."""
    login: LoginSettings = LoginSettings()
    """Who vouches for people."""
    daemon: DaemonSettings = DaemonSettings()
    """Settings of the daemon."""
    retention: Retention = Retention()
    """How long data is kept, and how much of it."""
    work: WorkSettings = WorkSettings()
    """How a model is helped before and after its own steps."""
    checks: ChecksSettings = ChecksSettings()
    """Checks of the files that an agent changes."""
    review: ReviewSettings = ReviewSettings()
    """Reviews before work is done, and asking a person because of risk."""
    mcp: McpSettings = McpSettings()
    """MCP servers, whose tools agents can use."""
    notify: NotifySettings = NotifySettings()
    """Who is told what happens while nobody looks."""
    telemetry: TelemetrySettings = TelemetrySettings()
    """Traces and metrics for a collector."""
    plugins: PluginSettings = PluginSettings()
    """Which plugins are used."""
    search: SearchSettings = SearchSettings()
    """Where agents search the web."""
    jobs: dict[str, JobHostSettings] = {}
    """Machines, clusters and hubs that run jobs for agents, by name: `[jobs.NAME]`."""
    machines: dict[str, MachineSettings] = {}
    """Machines that the commands of a session can run on, by name: `[machines.NAME]`."""


GATEWAY_VARIABLE = "MAINSPRING_GATEWAY"
"""`0` in this variable asks providers directly, whatever `[gateway]` says; `--no-gateway` sets it."""

FACE = "MAINSPRING_FACE"
"""The variable by which the daemon tells the commands that it starts that no person gave them."""


class Config(msgspec.Struct, frozen=True, kw_only=True):
    """`home` holds what mainspring keeps, `folder` what the user writes. `origin` is who gives commands, for
    journals; `is_attended` that a person is there, `notify` whom to tell; work is in a copy of `copied`."""

    home: Path
    folder: Path
    settings: Settings
    environment: Mapping[str, str]
    origin: Origin = Origin(face="python")
    notify: tuple[str, ...] = ()
    is_attended: bool = False
    machine: str = ""
    """Where the commands of a session run, by its name in `[machines]`; empty: as its journal says."""
    system: Path = Path("/etc/mainspring")
    """What whoever runs this machine writes: a policy for all its users."""
    person: Person | None = None
    """Who gives the commands, where that is not the account that this process runs as."""
    copied: Path | None = None
    problem: MainspringError | None = None
    """Why `config.toml` is not used, where the defaults do for the moment."""

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
        line = () if isinstance(settings.models, dict) else settings.models
        return (settings.model, *line) if settings.model else line

    @property
    def model_settings(self) -> dict[str, ModelSettings]:
        """What a person says of models, by their names."""
        return self.settings.models if isinstance(self.settings.models, dict) else {}

    @property
    def gateway(self) -> Gateway:
        """Where models are asked instead of at their providers; its address is empty when at none."""
        is_off = self.variable(GATEWAY_VARIABLE).lower() in _NO
        return Gateway() if is_off else self.settings.gateway

    @property
    def key_environment(self) -> Mapping[str, str]:
        """The environment, with the stored keys of providers that it has none for. Models are asked with it;
        commands and other programs get `environment`."""
        stored = read_keys(self.folder).values
        return {**self.environment, **{name: key for name, key in stored.items() if not self.has_key(name)}}

    def has_key(self, variable: str) -> bool:
        """Whether the environment has a key for the provider that this variable belongs to."""
        alike = next(
            (each.key_variables for each in PROVIDERS if variable in each.key_variables), (variable,)
        )
        return any(map(self.variable, alike))

    @property
    def secrets(self) -> dict[str, str]:
        """What is hidden wherever it turns up, by name: secret variables, and the stored keys."""
        known = secret_variables(self.environment) | store_secrets(self.store_url)
        stored = read_keys(self.folder).values
        return known | {f"{name}_stored" if name in known else name: key for name, key in stored.items()}

    @property
    def zone(self) -> tzinfo:
        """The zone of this machine's clock, as it is set now."""
        name = self.variable("TZ").removeprefix(":")
        zone = import_module("zoneinfo").ZoneInfo
        try:
            if name:
                return zone(name)
            with _CLOCK.open("rb") as file:
                return zone.from_file(file, key="local")
        except (KeyError, OSError, ValueError):  # one that is not known is a KeyError
            return UTC

    @property
    def log_file(self) -> Path:
        """Where the debug log is written when somebody asks for one."""
        chosen = self.variable("MAINSPRING_LOG")
        usual = self.home / "debug.log"
        return usual if chosen.lower() in ("", *_YES, *_NO) else Path(chosen).expanduser().absolute()

    @property
    def daily_anchor(self) -> Path | None:
        """Where the daily lines about sessions go, if anywhere."""
        chosen = self.settings.journal.daily_anchor
        return Path(chosen).expanduser().absolute() if chosen else None

    @property
    def store_url(self) -> str:
        """The database that keeps sessions; empty when files of this machine do."""
        return self.variable(STORE_VARIABLE) or self.settings.store.url

    def variable(self, name: str) -> str:
        """An environment variable, empty when it is not set."""
        return self.environment.get(name, "").strip()


def load_config(environment: Mapping[str, str] | None = None, *, is_config_optional: bool = False) -> Config:
    """The settings, read from the environment and `config.toml`; MAINSPRING_HOME moves all data elsewhere.
    One that is not valid raises; with `is_config_optional` it is left out, and `problem` says why."""
    require_type({} if environment is None else environment, Mapping, "environment")
    values = dict(os.environ if environment is None else environment)
    values["HOME"] = values.get("HOME") or account_home()
    chosen = values.get("MAINSPRING_HOME")
    if chosen:
        home = folder = Path(chosen).expanduser().absolute()
    else:
        dirs = import_module("platformdirs")
        home = dirs.user_data_path("mainspring", appauthor=False)
        folder = dirs.user_config_path("mainspring", appauthor=False)
    problem = None
    try:
        settings = _load_settings(folder / "config.toml")
    except MainspringError as error:
        if not is_config_optional:
            raise
        settings, problem = Settings(), error
    return Config(home=home, folder=folder, settings=settings, environment=values, problem=problem)


def is_log_wanted() -> bool:
    """Whether the environment asks for a debug log; asked before anything else is read."""
    chosen = os.environ.get("MAINSPRING_LOG", "").strip().lower()
    return chosen not in ("", *_NO)


def settings_text(file: Path) -> str:
    """What stands in a settings file; empty when there is none."""
    try:
        # Some editors put a mark in front of a text, which moves what stands in the first line.
        return read_untrusted_text(file, max_bytes=_MAX_BYTES).removeprefix("\ufeff")
    except FileNotFoundError:
        return ""
    except OSError as error:
        is_other_text = error.errno == errno.EILSEQ
        usual = "Check its permissions, and MAINSPRING_HOME if that is set."
        remedy = "Save it as UTF-8." if is_other_text else usual
        raise ConfigError(f"{file} cannot be read: {error.strerror}.", remedy=remedy) from error


def settings_content(text: str, file: Path) -> dict[str, Any]:
    """The values in such a text, before they are compared with what may be set."""
    return toml_content(text, file=file, known=_FORMAT) if text else {}


def parse_settings(content: dict[str, Any], file: Path, text: str) -> Settings:
    """The settings; `ConfigError` when the content, which this file has as this text, is not valid."""
    settings = convert_toml(content, Settings, file=file, text=text)
    for scope in Caps.__struct_fields__:
        for unit, limit in msgspec.structs.asdict(getattr(settings.caps, scope)).items():
            if limit is not None and not 0 <= limit < math.inf:
                said = f"must be a number at least 0, not {limit}"
                raise invalid_setting(file, text, f"caps.{scope}.{unit}", said)
    for key, said in settings.gateway.problems():
        raise invalid_setting(file, text, f"gateway.{key}", said)
    return settings


def _load_settings(file: Path) -> Settings:
    text = settings_text(file)
    return parse_settings(settings_content(text, file), file, text) if text else Settings()


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
            "The day's cap cannot limit calls or time.",
            remedy="Use usd, tokens or steps, or a cap of the session.",
        )
    return told
