"""What is settled before a session begins: whether the model can take the prompt, and what it may spend."""

import asyncio
import os
import pwd
from pathlib import Path

import msgspec
import pytest

from mainspring.app.build import DEFAULT_TOOLS
from mainspring.app.known import recall
from mainspring.app.models import check_context, check_price
from mainspring.app.policies import build_mode, confinement_of
from mainspring.catalog.sqlite import SqliteSessions
from mainspring.context.history import estimated_tokens
from mainspring.context.prompt import prompt_parts, system_prompt
from mainspring.errors import UsageError
from mainspring.events import Cap, Event, Limits, SessionResumed, SessionStarted, TurnStarted
from mainspring.folds.caps import Caps
from mainspring.models.scripted import Script, ScriptedModel
from mainspring.secrets.vault import Vault
from mainspring.settings import load_config, with_caps
from mainspring.tools.toolbox import Toolbox

SYSTEM = system_prompt(prompt_parts(workspace=Path("/repo"), mode="auto"))
TOOLS = Toolbox(DEFAULT_TOOLS).specs


def model(context_tokens: int | None) -> ScriptedModel:
    return ScriptedModel(Script(replies=(), context_tokens=context_tokens), name="tiny")


def test_the_base_prompt_is_small() -> None:
    assert estimated_tokens(len(SYSTEM) + len(msgspec.json.encode(TOOLS))) < 3000


def test_a_model_that_cannot_take_the_prompt_is_refused_with_numbers() -> None:
    with pytest.raises(
        UsageError, match=r"tiny takes 2,048 tokens\..* need about [12],\d{3}, and .* 1,024 more"
    ):
        check_context(model(2048), SYSTEM, TOOLS)
    check_context(model(8192), SYSTEM, TOOLS)
    check_context(model(None), SYSTEM, TOOLS)


@pytest.mark.parametrize(
    "limits", [Limits(max_cost_usd=1.0), Limits(day=Cap(usd=1.0)), Limits(goal=Cap(usd=1.0))]
)
def test_an_unknown_price_is_refused_under_any_cap_on_money(limits: Limits) -> None:
    unpriced = model(None)
    unpriced.price = None
    with pytest.raises(UsageError, match="unknown, so the cost limit cannot be kept"):
        check_price(unpriced, limits, allow_unpriced=False)
    check_price(unpriced, limits, allow_unpriced=True)
    check_price(unpriced, Limits(max_tokens=1), allow_unpriced=False)


def test_settings_cap_every_run_and_what_a_run_is_told_replaces_them() -> None:
    caps = Caps(turn=Cap(steps=5, usd=1.0), session=Cap(usd=2.0, tokens=9), day=Cap(usd=3.0))
    told = with_caps(Limits(max_cost_usd=10.0, max_steps=50, day=Cap(tokens=7)), caps)
    assert told == Limits(
        max_cost_usd=10.0,
        max_steps=50,
        turn=Cap(usd=1.0),
        session=Cap(tokens=9),
        day=Cap(usd=3.0, tokens=7),
    )
    assert with_caps(Limits(), Caps()) == Limits()
    with pytest.raises(UsageError, match="cannot limit calls or time"):
        with_caps(Limits(), Caps(day=Cap(calls=1)))


def test_what_a_person_told_a_session_to_spend_is_known_when_it_is_opened_again(tmp_path: Path) -> None:
    resumed = SessionResumed(version="1", host="h", pid=1)
    raised = msgspec.structs.replace(resumed, limits=Limits(session=Cap(usd=5.0, tokens=7)))

    async def recalled(*events: Event) -> Limits:
        journal = await SqliteSessions(tmp_path).create()
        await journal.append(SessionStarted(session="s", workspace=str(tmp_path), version="1"), *events)
        try:
            return (await recall(journal, Vault())).limits
        finally:
            await journal.close()

    turn = TurnStarted(turn=1, limits=Limits(max_cost_usd=1.0, session=Cap(usd=9.0)))
    assert asyncio.run(recalled()) == Limits()
    assert asyncio.run(recalled(turn, resumed)).max_cost_usd == 1.0
    told = asyncio.run(recalled(turn, raised, resumed))
    assert (told.max_cost_usd, told.max_tokens) == (5.0, 7)
    assert asyncio.run(recalled(turn, raised, turn)).max_cost_usd == 1.0


@pytest.mark.parametrize("limits", [Limits(goal=Cap(usd=5.0)), Limits(session=Cap(usd=5.0))])
def test_a_cap_of_any_scope_that_lasts_is_a_budget_for_yolo(limits: Limits) -> None:
    assert build_mode("yolo", "", limits).mode == "yolo"


@pytest.mark.parametrize("environment", [{}, {"HOME": ""}])
def test_without_home_the_secrets_of_the_account_are_hidden(
    environment: dict[str, str], tmp_path: Path
) -> None:
    config = load_config({**environment, "MAINSPRING_HOME": str(tmp_path / "home")})
    hidden = confinement_of(tmp_path, "auto", config).hidden_paths
    assert Path(pwd.getpwuid(os.getuid()).pw_dir).resolve() / ".ssh" in hidden
