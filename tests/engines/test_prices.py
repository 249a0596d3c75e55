"""What an outside agent cost is known before its last line, or the whole of what was set aside is taken."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from mainspring.engines.settings import EngineSettings
from mainspring.events import Cap, Limits, SpendReserved, SpendSettled
from tests.engines.house import House
from tests.engines.test_outside import of, take

AGENT = """import json, sys
print(json.dumps({{"type": "system", "subtype": "init", "session_id": "s", "model": {model!r}}}))
usage = {{"input_tokens": {tokens}, "output_tokens": 0}}
print(json.dumps({{"type": "assistant", "message": {{"id": "m", "content": "hm " + str(sys.argv), "usage": usage}}}}))
raise SystemExit(1)
"""


def spent(folder: Path, model: str, tokens: int, *, cap_usd: float | None = 1.0) -> tuple[float, float, str]:
    """What was reserved and settled for an agent that dies without its last line, and what it was told."""
    script = folder / "claude.py"
    script.write_text(AGENT.format(model=model, tokens=tokens))
    agent = EngineSettings(command=(sys.executable, str(script)), readable=(str(folder),))
    limits = Limits(session=Cap(usd=cap_usd))
    events = take(House(folder, claude=agent), "work", engine="claude", limits=limits)
    (reserved,), (settled,) = of(events, SpendReserved), of(events, SpendSettled)
    return reserved.usd, settled.usd, json.dumps([str(event) for event in events])


def test_the_model_that_an_agent_names_gives_the_price(tmp_path: Path) -> None:
    reserved, settled, _ = spent(tmp_path, "claude-sonnet-4-5", 100_000)
    assert (reserved, settled) == (1.0, pytest.approx(0.3))


def test_tokens_of_unknown_price_take_what_is_left_of_the_cap(tmp_path: Path) -> None:
    assert spent(tmp_path, "somebodys-model", 2_100_000)[:2] == (1.0, 1.0)


def test_without_tokens_or_without_a_cap_nothing_is_taken(tmp_path: Path) -> None:
    assert spent(tmp_path, "somebodys-model", 0)[:2] == (1.0, 0.0)


def test_what_is_set_aside_for_a_run_is_its_own_to_spend(tmp_path: Path) -> None:
    assert "'--max-budget-usd', '1.0000'" in spent(tmp_path, "somebodys-model", 5)[2].replace("\\", "")
