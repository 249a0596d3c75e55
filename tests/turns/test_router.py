"""Which tier a turn gets: tables of decisions, and sessions that change their tier."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from mainspring.errors import ConfigError, Overloaded, UsageError
from mainspring.events import (
    AssistantSaid,
    CallAsked,
    CallEnded,
    Event,
    ModelChosen,
    Recorded,
    RoutingWarned,
    TurnEnded,
)
from mainspring.folds.task import Task
from mainspring.models.scripted import ScriptedModel
from mainspring.models.tiers import find_tier, model_of, ranked
from mainspring.turns.router import (
    Breaker,
    Routed,
    Router,
    RoutingFacts,
    TierHold,
    are_tests_failing,
    escalate,
    route,
)
from tests.stage import Stage, limits, says, take

TIERS = ("fast", "coder", "reasoner")


@pytest.mark.parametrize(
    ("facts", "tier"),
    [
        (RoutingFacts(said="add a flag"), "coder"),
        (RoutingFacts(said="Think hard about this."), "reasoner"),
        (RoutingFacts(said="find the root cause"), "reasoner"),
        (RoutingFacts(said="fix the typo in the README"), "fast"),
        (RoutingFacts(said="Quickly rename it"), "fast"),
        (RoutingFacts(said="quick: find the root cause"), "reasoner"),
        (RoutingFacts(said="the prover is typographic"), "coder"),
        (RoutingFacts(said="add a flag", are_tests_failing=True), "reasoner"),
        (RoutingFacts(said="fix the typo", are_tests_failing=True), "reasoner"),
        (RoutingFacts(said="add a flag", context_tokens=100_000), "coder"),
        (RoutingFacts(said="add a flag", context_tokens=100_001), "reasoner"),
    ],
)
def test_the_first_rule_that_fits_decides(facts: RoutingFacts, tier: str) -> None:
    assert route(facts, TIERS).tier == tier


@pytest.mark.parametrize(
    ("tiers", "chosen"),
    [
        (("small", "middle", "large"), ("small", "middle", "large")),
        (("small", "large"), ("small", "small", "large")),
        (("coder", "reasoner"), ("coder", "coder", "reasoner")),
        (("fast", "coder"), ("fast", "coder", "coder")),
        (("only",), ("only", "only", "only")),
    ],
)
def test_tiers_of_any_name_and_number_are_routed_by_rank(
    tiers: tuple[str, ...], chosen: tuple[str, ...]
) -> None:
    said = ("a typo", "a flag", "think hard")
    assert tuple(route(RoutingFacts(said=text), tiers).tier for text in said) == chosen


@pytest.mark.parametrize(
    ("task", "decision"),
    [
        (Task(tier="fast", failures=1, attempts=1), None),
        (Task(tier="fast", failures=2, attempts=2), Routed("coder", "2 turns in a row failed")),
        (Task(tier="coder", failures=3, attempts=3), Routed("reasoner", "3 turns in a row failed")),
        (Task(tier="reasoner", failures=9, attempts=9), None),
        (Task(tier="", failures=9, attempts=9), None),
        (Task(tier="fast", failures=2, attempts=5), TierHold("this task had 5 attempts")),
        (Task(tier="fast", failures=2, escalations=1), TierHold("this task was escalated 1 time")),
        (Task(tier="fast", failures=2, usd=3.0), TierHold("this task has cost 3.00 USD")),
    ],
)
def test_a_task_that_keeps_failing_gets_the_next_tier_until_the_breaker_opens(
    task: Task, decision: Routed | TierHold | None
) -> None:
    breaker = Breaker(after_failures=2, max_attempts=5, max_escalations=1, max_usd=3.0)
    assert escalate(task, TIERS, breaker) == decision


@pytest.mark.parametrize(
    ("tier", "kin", "decision"),
    [
        ("", ("fast", "coder"), Routed("coder", "2 turns in a row failed")),
        ("", (), None),
        ("coder", ("fast",), Routed("reasoner", "2 turns in a row failed")),
        ("reasoner", TIERS, None),
    ],
)
def test_a_model_of_no_tier_gets_the_strongest_tier_of_its_kin(
    tier: str, kin: tuple[str, ...], decision: Routed | None
) -> None:
    assert escalate(Task(tier=tier, failures=2), TIERS, Breaker(), kin=kin) == decision


def test_escalation_can_be_turned_off() -> None:
    assert escalate(Task(tier="fast", failures=99), TIERS, Breaker(after_failures=0)) is None


@pytest.mark.parametrize(
    ("command", "exit_code", "is_failing"),
    [("pytest -q", 1, True), ("pytest -q", 0, False), ("ls", 1, False), ("make test-fast", 2, True)],
)
def test_a_failing_run_of_tests_is_seen(command: str, exit_code: int, *, is_failing: bool) -> None:
    asked = CallAsked(call="c1", name="shell", arguments=f'{{"command":"{command}"}}')
    events: list[Event] = [
        AssistantSaid(step=1, parts=(asked,)),
        CallEnded(call="c1", outcome="error" if exit_code else "ok", exit_code=exit_code),
    ]
    assert are_tests_failing([Recorded(1, 1, event) for event in events]) is is_failing


MAPPED = {
    "reasoner": "openai/gpt-large",
    "fast": {"openai": "openai/gpt-small", "anthropic": "anthropic/claude-small", "ollama": "ollama/tiny"},
    "mine": "ollama/mine",
}


@pytest.mark.parametrize(
    ("name", "environment", "usual", "model"),
    [
        ("reasoner", {}, "", "openai/gpt-large"),
        ("mine", {}, "", "ollama/mine"),
        ("fast", {}, "", "ollama/tiny"),
        ("fast", {"ANTHROPIC_API_KEY": "k"}, "", "anthropic/claude-small"),
        ("fast", {"ANTHROPIC_API_KEY": "k"}, "openai/gpt-large", "openai/gpt-small"),
        ("fast", {"OPENAI_API_KEY": "k"}, "claude-large", "anthropic/claude-small"),
        ("anthropic/fast", {}, "", "anthropic/claude-small"),
        ("anthropic/other", {}, "", "anthropic/other"),
        ("gpt-5", {}, "", "gpt-5"),
    ],
)
def test_a_tier_stands_for_a_model(name: str, environment: dict[str, str], usual: str, model: str) -> None:
    assert model_of(name, MAPPED, environment, usual=usual) == model


def test_tiers_are_ranked_by_their_usual_order_then_as_they_are_written() -> None:
    assert ranked(MAPPED) == ("fast", "reasoner", "mine")
    assert ranked({"large": "a", "small": "b"}) == ("large", "small")
    assert find_tier("mine", MAPPED) == "mine"


def test_a_tier_without_a_model_says_where_to_set_one() -> None:
    with pytest.raises(UsageError, match="coder") as raised:
        model_of("coder", MAPPED, {})
    assert "[tiers]" in raised.value.remedy
    with pytest.raises(ConfigError, match="none of them has a key"):
        model_of("fast", {"fast": {"openai": "openai/x"}}, {})


class Tiered:
    """A session on tiers; the model of each tier has its tier's name."""

    def __init__(self, folder: Path, *, tier: str = "coder", is_on: bool = True, **breaker: Any) -> None:
        self.stage = Stage(folder, *(says(f"{number}.") for number in range(20)))
        self.asked: list[str] = []
        self.is_down = False
        models = {name: self._model(name) for name in TIERS}
        self.parts = {
            "model": models[tier],
            "tier": tier,
            "tiers": models,
            "chosen_by": "settings",
            "router": Router(
                {name: name for name in TIERS},
                is_on=is_on,
                breaker=Breaker(**breaker),
                home=lambda name: "here" if name in (*TIERS, "plain") else name,
            ),
        }

    def _model(self, name: str) -> ScriptedModel:
        def on_request(_: object) -> Overloaded | None:
            self.asked.append(name)
            return Overloaded("It is down.") if self.is_down else None

        return ScriptedModel(self.stage.script, name=name, on_request=on_request)

    def say(self, *said: str, **changes: Any) -> list[TurnEnded]:
        async def scene() -> list[TurnEnded]:
            async with self.stage.opened(**{**self.parts, **changes}) as session:
                return [await take(session, text) for text in said]

        return asyncio.run(scene())


def test_a_session_is_routed_turn_by_turn_and_each_change_is_recorded(tmp_path: Path) -> None:
    tiered = Tiered(tmp_path)
    tiered.say("add a flag", "fix the typo", "another typo", "think hard")
    assert tiered.asked == ["coder", "fast", "fast", "reasoner"]
    chosen = tiered.stage.events(ModelChosen)[1:]
    assert [(event.tier, event.by) for event in chosen] == [("fast", "router"), ("reasoner", "router")]


def test_a_tier_that_a_person_named_is_not_routed_and_a_long_row_of_the_strongest_is_warned_of(
    tmp_path: Path,
) -> None:
    tiered = Tiered(tmp_path, tier="reasoner")
    tiered.say(*(["fix the typo"] * 4), chosen_by="user")
    assert tiered.stage.events(RoutingWarned) == []
    tiered.say("fix the typo", chosen_by="user")
    assert set(tiered.asked) == {"reasoner"}
    (warned,) = tiered.stage.events(RoutingWarned)
    assert "turn 5" in warned.message


def test_a_tier_that_fails_twice_is_escalated_and_not_routed_down_until_the_task_is_done(
    tmp_path: Path,
) -> None:
    tiered = Tiered(tmp_path, tier="fast", after_failures=2)
    tiered.stage.script = Stage(tmp_path / "cut", *(says("…", stop="refused") for _ in range(20))).script
    failing = {**tiered.parts, "model": tiered._model("fast"), "tiers": {n: tiered._model(n) for n in TIERS}}
    ended = tiered.say("fix the typo", "a typo", "a typo", **failing)
    assert [end.ending for end in ended] == ["failed"] * 3
    assert tiered.asked == ["fast", "fast", "coder"]
    assert tiered.stage.events(ModelChosen)[-1].by == "escalation"


REFUSING = tuple(says("…", stop="refused") for _ in range(20))


@pytest.mark.parametrize(
    ("model", "asked"),
    [("plain", ["plain", "plain", "reasoner"]), ("elsewhere", ["elsewhere"] * 3)],
)
def test_a_plain_model_that_fails_twice_is_escalated_to_a_tier_of_its_own_provider_only(
    tmp_path: Path, model: str, asked: list[str]
) -> None:
    tiered = Tiered(tmp_path, is_on=False, after_failures=2)
    tiered.stage.script = Stage(tmp_path / "cut", *REFUSING).script
    plain = {"model": tiered._model(model), "tier": "", "chosen_by": "user"}
    tiered.say("one", "two", "three", **plain, tiers={name: tiered._model(name) for name in TIERS})
    assert tiered.asked == asked


def test_a_person_who_names_a_model_again_is_not_overruled_at_once(tmp_path: Path) -> None:
    tiered = Tiered(tmp_path, is_on=False, after_failures=2)
    tiered.stage.script = Stage(tmp_path / "cut", *REFUSING).script
    plain = {"tier": "", "chosen_by": "user"}
    tiered.say("one", "two", model=tiered._model("plain"), **plain)
    tiered.say("three", model=tiered._model("other"), **plain)
    tiered.say("four", model=tiered._model("plain"), **plain)
    assert tiered.asked == ["plain", "plain", "other", "plain"]


def test_a_plain_model_whose_breaker_is_open_stays_and_is_named(tmp_path: Path) -> None:
    tiered = Tiered(tmp_path, is_on=False, after_failures=1, max_attempts=1)
    tiered.stage.script = Stage(tmp_path / "cut", *REFUSING).script
    tiered.say("one", "two", model=tiered._model("plain"), tier="", chosen_by="user")
    assert tiered.asked == ["plain", "plain"]
    (warned,) = tiered.stage.events(RoutingWarned)
    assert warned.message.startswith("plain keeps failing")


def test_an_outage_is_not_a_failure_of_the_tier(tmp_path: Path) -> None:
    tiered = Tiered(tmp_path, tier="fast", is_on=False, after_failures=1)
    tiered.is_down = True
    tiered.say("one", "two", "three")
    assert tiered.asked == ["fast", "fast", "fast"]


def test_a_breaker_that_is_open_is_told_and_the_tier_stays(tmp_path: Path) -> None:
    tiered = Tiered(tmp_path, tier="fast", is_on=False, after_failures=1, max_attempts=1)
    ended = tiered.say("one", **limits(max_steps=1))
    assert ended[0].ending == "done"
    tiered.stage.script = Stage(tmp_path / "cut", *(says("…", stop="refused") for _ in range(20))).script
    tiered.say("two", "three", model=tiered._model("fast"))
    assert tiered.asked == ["fast", "fast", "fast"]
    (warned,) = tiered.stage.events(RoutingWarned)
    assert "1 attempt" in warned.message
