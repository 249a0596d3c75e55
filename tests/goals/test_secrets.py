"""What checks and evaluations print reaches the journal without secrets, as everything does."""

import msgspec
import pytest

from mainspring.events import (
    CheckEnded,
    Claim,
    ClaimChecked,
    ClaimsRead,
    Event,
    GoalEnded,
    GoalPaused,
    GoalSet,
    IterationEnded,
    MeasurementsTaken,
    WaitEnded,
)
from mainspring.secrets.redaction import redacted
from mainspring.secrets.vault import Vault

KEY = "ghp_" + "a1B2c3D4e5" * 4
SAID = f"exit code 1: the token {KEY} was refused"


@pytest.mark.parametrize(
    "event",
    [
        GoalSet(text=SAID),
        GoalPaused(reason=SAID),
        GoalEnded(ending="failed", reason=SAID),
        IterationEnded(iteration=1, outcome="failed", detail=SAID),
        CheckEnded(iteration=1, check="x", kind="command", passed=False, detail=SAID),
        ClaimChecked(iteration=1, claim="a", status="open", detail=SAID),
        ClaimsRead(iteration=1, claims=(Claim(name="a", statement=SAID, check=SAID, note=SAID),)),
        MeasurementsTaken(iteration=1, flags=(SAID,)),
        WaitEnded(wait="w1", cause="met", summary=SAID),
    ],
    ids=lambda event: type(event).__name__,
)
def test_no_secret_of_a_goal_is_recorded(event: Event) -> None:
    recorded = msgspec.json.encode(redacted(event, Vault()))
    assert KEY.encode() not in recorded
    assert b"was refused" in recorded
