"""Goals, schedules, the daemon and the machine, as functions on values."""

from __future__ import annotations

import asyncio
from pathlib import Path

import click
import pytest

from mainspring.app.goals import GoalOptions
from mainspring.app.operations import daemon, goal_list, goals, memory, models, schedules
from mainspring.app.operations.artifacts import artifacts_of
from mainspring.app.operations.doctor import diagnose
from mainspring.app.operations.reports import goal_report, report_markdown, report_page
from mainspring.app.operations.schedule_arguments import FLAGS, arguments_of, options_of
from mainspring.cli.goal_options import start_options
from mainspring.errors import ConfigError, UsageError
from mainspring.events import Evaluation, GoalChecks, Origin, Target
from tests.workspace.sessions import World, say


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path, say("not yet"))


def begun(world: World) -> str:
    options = GoalOptions(folder=world.root, model=world.model, checks=GoalChecks(files=("result",)))
    return asyncio.run(goals.begin_goal(world.config, "make a result", options))


def test_a_goal_is_on_record_before_anybody_works_on_it(world: World) -> None:
    session = begun(world)
    (row,) = asyncio.run(goal_list.list_goals(world.config))
    assert (row.id, row.goal) == (session, "make a result")
    assert asyncio.run(goal_list.newest_goal(world.config, world.root)) == session
    with pytest.raises(UsageError):
        asyncio.run(goal_list.newest_goal(world.config, world.home))
    standing = asyncio.run(goals.goal_standing(world.config, session[:6]))
    assert standing.goal.checks.files == ("result",)
    assert (standing.last, standing.ended) == (None, None)


def test_an_order_is_recorded_once_and_an_ended_goal_takes_none(world: World) -> None:
    session = begun(world)
    assert asyncio.run(goals.order_goal(world.config, session, "pause")).ending == ""
    assert asyncio.run(goal_list.list_goals(world.config))[0].goal_state == "paused"
    assert asyncio.run(goals.order_goal(world.config, session, "stop")).done
    again = asyncio.run(goals.order_goal(world.config, session, "stop"))
    assert (again.session, again.ending, again.done) == (session, "stopped", "")
    assert goals.take_order(world.config, session) is None


@pytest.mark.parametrize(
    ("left", "order", "origin"),
    [
        (b'{"order":"stop","origin":{"user":"bea","face":"web"}}', "stop", Origin(user="bea", face="web")),
        (b"stop", "stop", Origin()),
        (b"pause", "pause", Origin()),
    ],
)
def test_an_order_names_who_gave_it_and_the_word_that_0_1_0_wrote_is_read(
    world: World, left: bytes, order: str, origin: Origin
) -> None:
    session = begun(world)
    (world.config.home / "sessions" / session / "order").write_bytes(left)
    taken = goals.take_order(world.config, session)
    assert taken is not None
    assert (taken.order, taken.origin) == (order, origin)
    assert goals.take_order(world.config, session) is None


def test_a_report_has_the_same_facts_as_a_page_and_as_markdown(world: World) -> None:
    session = begun(world)
    report = asyncio.run(goal_report(world.config, session))
    assert "make a result" in report_markdown(report)
    assert asyncio.run(report_page(world.config, report)).startswith("<!doctype html>")


def test_a_goal_without_artifacts_says_so(world: World) -> None:
    session = begun(world)
    assert asyncio.run(artifacts_of(world.config, session)).made == ()
    with pytest.raises(UsageError):
        asyncio.run(artifacts_of(world.config))


def planned(world: World, cron: str = "@daily", **options: object) -> schedules.Schedule:
    given = GoalOptions(folder=world.root, model=world.model, **options)  # pyright: ignore[reportArgumentType]
    plan = schedules.plan_schedule(world.config, cron, "tidy up", given, by="a test")
    return asyncio.run(plan)


def test_a_schedule_is_planned_kept_fired_and_forgotten(world: World) -> None:
    plan = planned(world, rules={"max_iterations": 4})
    assert asyncio.run(schedules.list_schedules(world.config)) == []
    kept = schedules.keep_schedule(world.config, plan)
    assert kept.next_us is not None
    assert not kept.is_daemon_running
    (row,) = asyncio.run(schedules.list_schedules(world.config))
    assert (row.schedule, row.last) == (kept.schedule, None)
    session = asyncio.run(schedules.fire_schedule(world.config, kept.schedule.id))
    goal = asyncio.run(goals.goal_standing(world.config, session)).goal
    assert (goal.text, goal.rules.max_iterations, goal.by) == ("tidy up", 4, kept.schedule.name)
    assert schedules.forget_schedule(world.config, kept.schedule.id) == kept.schedule
    assert asyncio.run(schedules.list_schedules(world.config)) == []


def test_schedules_for_the_same_minute_are_both_shown_as_coming(world: World) -> None:
    for _ in range(2):
        schedules.keep_schedule(world.config, planned(world))
    status = asyncio.run(daemon.daemon_status(world.config))
    assert status.owner is None
    assert len({each.at_us for each in status.coming}) == 1
    assert len(status.coming) == 2


def test_every_option_of_a_goal_survives_being_written_down() -> None:
    options = GoalOptions(
        profile="exploop",
        engine="codex",
        checks=GoalChecks(
            commands=("make test", "true"),
            files=("a b",),
            targets=(Target(metric="time", relation="<=", value=1.23456789),),
        ),
        rules={"max_cost_usd": 2.5, "max_tokens": 900, "max_iterations": 4, "wait_s": 0.5},
        evaluation=Evaluation(
            command="./measure", repeats=5, frozen=("measure",), better="higher", metric="speed"
        ),
        memory="notes.md",
        model="one",
        fallback=("two", "three"),
        effort="high",
        sandbox="bwrap",
        allow_unpriced=True,
    )
    assert options_of(arguments_of(options)) == options
    assert options_of(()) == GoalOptions(profile="goal")
    with pytest.raises(ConfigError):
        options_of(("--unheard-of", "1"))


def test_what_a_schedule_can_write_down_is_what_goal_start_takes() -> None:
    command = click.command("start")(start_options(lambda **_: None))
    flags = {option.opts[0] for option in command.params}
    assert flags - {"-C", "--json", "--no-gateway"} == FLAGS


def test_the_daemon_that_does_not_run_cannot_be_woken_or_stopped(world: World) -> None:
    assert not daemon.wake_daemon(world.config)
    assert daemon.stop_daemon(world.config) is None
    unit = daemon.service_unit(world.config)
    assert f"MAINSPRING_HOME={world.home}" in unit.text
    assert unit.path.name == daemon.UNIT


def test_memory_is_added_to_and_forgotten_by_number(world: World) -> None:
    assert memory.remember(world.config, world.root, "use make") == ()
    assert [each.text for each in memory.load_memory(world.config, world.root).remarks] == ["use make"]
    assert memory.forget(world.config, world.root, 1).text == "use make"
    assert memory.load_memory(world.config, world.root).remarks == ()


def test_models_that_can_be_fetched_are_listed_and_others_refused(world: World) -> None:
    listed = models.list_local_models(world.config)
    assert [each.is_here for each in listed] == [False] * len(listed)
    assert models.find_pullable(listed[0].name).name == listed[0].name
    with pytest.raises(UsageError):
        models.find_pullable("nothing")

    def failing(command: list[str]) -> int:
        assert "--require-hashes" in command
        return 1

    with pytest.raises(UsageError, match="exit code 1"):
        models.pull_model(
            world.config, models.find_pullable(listed[0].name), run=failing, progress=lambda _: None
        )


def test_a_diagnosis_names_what_is_missing(world: World) -> None:
    diagnosis = asyncio.run(diagnose(world.config, world.root))
    checks = {check.name: check for check in diagnosis.checks}
    assert checks["data folder"].found == str(world.home)
    assert diagnosis.keys == ()
    assert diagnosis.is_healthy == (bool(diagnosis.rung) and checks["git"].is_ok)
