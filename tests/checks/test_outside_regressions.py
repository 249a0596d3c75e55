"""What an outside agent breaks is compared like what our own loop does: told, and going back is offered."""

from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec
import pytest

import mainspring
from mainspring.engines.settings import EngineSettings
from mainspring.events import (
    REGRESSIONS_SOURCE,
    Event,
    NoteAdded,
    RollbackOffered,
    SuiteEnded,
    SuiteStarted,
    TurnEnded,
)
from mainspring.settings import Config
from tests.checks.test_regressions import ADD, CALC, PROJECT, SUM, WRONG, guarded


def with_agent(folder: Path, script: str) -> tuple[Config, Path]:
    """A project, and an agent that does what a script says."""
    place = folder / "workspace"
    place.mkdir()
    for name, text in PROJECT.items():
        (place / name).write_text(text, encoding="utf-8")
    config = guarded(folder)
    agent = EngineSettings(
        command=("sh", "-c", f"cat > said; {script}; rm -f said; echo Done."), protocol="exec"
    )
    settings = msgspec.structs.replace(config.settings, engines={"agent": agent})
    return msgspec.structs.replace(config, settings=settings), place


def taken(config: Config, place: Path, *said: str) -> list[Event]:
    async def main() -> list[Event]:
        async with mainspring.open(workspace=place, config=config, engine="agent", mode="auto") as session:
            return [event for text in said for event in [event async for event in session.run(text)]]

    return asyncio.run(main())


def test_what_an_outside_agent_breaks_is_told_twice_and_then_going_back_is_offered(tmp_path: Path) -> None:
    script = f"cp said heard; printf '%s' '{WRONG}' > calc.py; date +"  # %N" >> calc.py"
    events = taken(*with_agent(tmp_path, script), "Go")
    causes = [event.cause for event in events if isinstance(event, SuiteEnded)]
    assert causes == ["baseline", *("done", "again") * 3]
    (offered,) = [event for event in events if isinstance(event, RollbackOffered)]
    assert offered.tests == (ADD, SUM)
    assert "calc.py" in offered.files
    notes = [event for event in events if isinstance(event, NoteAdded)]
    told = [event.text for event in notes if event.source == REGRESSIONS_SOURCE]
    assert [ADD in text for text in told] == [True, True]
    assert [event.ending for event in events if isinstance(event, TurnEnded)] == ["done"] * 3
    heard = (tmp_path / "workspace" / "heard").read_text(encoding="utf-8")
    assert "2 tests that passed before this turn, and fail now" in heard


def test_an_outside_agent_that_repairs_what_it_is_told_is_done(tmp_path: Path) -> None:
    first = f"touch .done; printf '%s' '{WRONG}' > calc.py"
    script = f"if [ -e .done ]; then printf '%s' '{CALC}' > calc.py; else {first}; fi"
    config, place = with_agent(tmp_path, script)
    events = taken(config, place, "Go")
    assert len([event for event in events if isinstance(event, NoteAdded)]) == 1
    assert not [event for event in events if isinstance(event, RollbackOffered)]
    assert (place / "calc.py").read_text(encoding="utf-8") == CALC


@pytest.mark.parametrize("script", [f"printf '%s' '{CALC}# more\n' > calc.py", "true"])
def test_nothing_is_told_of_an_outside_agent_that_breaks_nothing(tmp_path: Path, script: str) -> None:
    events = taken(*with_agent(tmp_path, script), "Go")
    assert not [event for event in events if isinstance(event, RollbackOffered | NoteAdded)]
    assert len([event for event in events if isinstance(event, SuiteStarted)]) == (
        1 if script == "true" else 2
    )
