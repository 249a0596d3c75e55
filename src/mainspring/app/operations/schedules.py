"""Goals that begin again and again: schedule one, list them, forget one, begin one now.

Scheduling is an act of a person: whoever calls `keep_schedule` has shown them the plan, and they agreed.
"""

from __future__ import annotations

import time
from pathlib import Path

import msgspec

from mainspring.app.goals import GoalOptions, goal_text, is_priced
from mainspring.app.known import workspace_at
from mainspring.app.operations.daemon import wake_daemon
from mainspring.app.operations.goals import begin_goal, begin_in_queue
from mainspring.app.operations.schedule_arguments import arguments_of, options_of
from mainspring.app.operations.workers import QueuePlace
from mainspring.app.policies import DEFAULT_MODE
from mainspring.app.stores import check_folder, check_shared, folders_seen, sessions_of, shared_files
from mainspring.app.team_guard import DAEMON
from mainspring.app.workspaces import check_workspace
from mainspring.daemon.files import DaemonFiles, Handled, HandledSchedules
from mainspring.errors import UsageError
from mainspring.goals.cron import parse_cron
from mainspring.goals.profiles import load_profile
from mainspring.goals.schedules import GRACE_S, Schedule, Schedules, next_us
from mainspring.people.persons import person_on_record
from mainspring.secrets.redaction import redacted
from mainspring.secrets.vault import PLACEHOLDER, Vault, secret_name
from mainspring.settings import Config

_FACE = "schedule"


class KeptSchedule(msgspec.Struct, frozen=True, kw_only=True):
    """A schedule that the daemon keeps from now on, if it runs, or workers of its queue; `next_us` is None if
    its time never comes."""

    schedule: Schedule
    next_us: int | None
    is_daemon_running: bool


class ScheduleRow(msgspec.Struct, frozen=True, kw_only=True):
    """A schedule, when it comes next, what became of it last, and how the goal stands that it began then."""

    schedule: Schedule
    next_us: int | None
    last: Handled | None
    last_state: str


async def plan_schedule(
    config: Config,
    cron: str,
    given: str,
    options: GoalOptions,
    *,
    grace_s: float = GRACE_S,
    is_uncapped: bool = False,
    by: str,
    place: QueuePlace | None = None,
) -> Schedule:
    """The schedule by which a goal (a text, or a file as it is now) begins whenever `cron` says. It is not
    kept yet. Without a limit of its cost it must be `is_uncapped`. With a `place` workers of that queue begin
    it and work on it."""
    parse_cron(cron)
    if place is not None:
        check_shared(config)
    text, _ = goal_text(given)
    _refuse_secrets(config, text, *arguments_of(options))
    folder = workspace_at(options.folder)
    allows_home = check_workspace(folder, config, allow_home=options.allow_home)
    options = msgspec.structs.replace(options, folder=folder, allow_home=allows_home)
    cap_usd = _cost_cap(options, config)
    if cap_usd is None and not is_uncapped and await is_priced(options, config):
        raise UsageError(
            "A schedule needs a cost limit, because it spends money on every run.",
            remedy="Set --max-cost-usd (per run), or pass --no-cost-cap.",
        )
    return Schedule(
        cron=cron,
        goal=text,
        folder=str(options.folder),
        arguments=arguments_of(options),
        mode=options.mode or config.settings.mode or DEFAULT_MODE,
        max_cost_usd=cap_usd,
        grace_s=grace_s,
        by=by,
        origin=config.origin,
        scheduled_us=time.time_ns() // 1000,
        queue=place.queue if place else "",
        labels=place.labels if place else (),
    )


def keep_schedule(config: Config, schedule: Schedule) -> KeptSchedule:
    kept = Schedules(shared_files(config)).add(schedule)
    return KeptSchedule(
        schedule=kept,
        next_us=next_us(kept, kept.scheduled_us, config.zone),
        is_daemon_running=bool(kept.queue) or wake_daemon(config),
    )


async def list_schedules(config: Config) -> list[ScheduleRow]:
    """Those of folders that whoever asks may look at."""
    files, before = shared_files(config), DaemonFiles(config.home).load().handled
    found, handled = Schedules(files).all(), HandledSchedules(files, "", before).all()
    vault = Vault(config.secrets)
    found = [redacted(each, vault) for each in found]  # an earlier version kept secrets
    states = {row.id: row.goal_state for row in await sessions_of(config).rows() if row.goal}
    is_seen, now_us = await folders_seen(config), time.time_ns() // 1000
    found = [each for each in found if is_seen(each.folder)]
    return [_row(each, handled.get(each.id), states, now_us, config) for each in found]


def forget_schedule(config: Config, schedule: str) -> Schedule:
    """What it began goes on."""
    schedules = Schedules(shared_files(config))
    found = schedules.find(schedule)
    check_folder(config, found.folder, "goal unschedule")
    schedules.remove(found)
    wake_daemon(config)
    return found


async def fire_schedule(config: Config, schedule: str) -> str:
    """Begins a schedule's goal now, for the daemon or a worker to work on; gives its session. When its time
    has come, it is whoever scheduled it that begins it."""
    found = Schedules(shared_files(config)).find(schedule)
    if found.origin is not None and config.origin.face == DAEMON:
        person = person_on_record(found.origin, "who scheduled this")
        origin = msgspec.structs.replace(found.origin, face=_FACE)
        config = msgspec.structs.replace(config, person=person, origin=origin)
    given = options_of(found.arguments)
    options = msgspec.structs.replace(
        given, folder=Path(found.folder), mode=found.mode, by=found.name, set_by=found.origin
    )
    if found.queue:
        place = QueuePlace(queue=found.queue, labels=found.labels)
        return await begin_in_queue(config, found.goal, options, place)
    session = await begin_goal(config, found.goal, options)
    wake_daemon(config)
    return session


def _refuse_secrets(config: Config, *texts: str) -> None:
    """The file of schedules is no place for secrets, and what runs later may not have the variable."""
    vault = Vault(config.secrets)
    found = [name for text in texts for name in PLACEHOLDER.findall(vault.redact(text))]
    if found:
        raise UsageError(
            f"The goal or its options hold a secret ({secret_name(found[0])}); schedules are kept in a file.",
            remedy="Name the variable or file that holds it instead, and let the goal read it.",
        )


def _row(
    schedule: Schedule, last: Handled | None, states: dict[str, str], now_us: int, config: Config
) -> ScheduleRow:
    return ScheduleRow(
        schedule=schedule,
        next_us=next_us(schedule, now_us, config.zone),
        last=last,
        last_state=states.get(last.session, "") if last else "",
    )


def _cost_cap(options: GoalOptions, config: Config) -> float | None:
    rules = load_profile(options.profile or "goal", config.folder).rules
    given: float | None = options.rules.get("max_cost_usd")
    return next(
        (cap for cap in (given, rules.max_cost_usd, config.settings.caps.goal.usd) if cap is not None), None
    )
