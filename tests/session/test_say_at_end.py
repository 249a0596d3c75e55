"""What is said at the very end of a blocked turn abandons its open questions, as it does a moment later."""

from __future__ import annotations

import asyncio
from pathlib import Path

from mainspring.events import ApprovalAsked, CallEnded, TurnEnded
from tests.stage import Stage, call, calls, says


def test_a_message_right_after_a_blocked_turn_abandons_its_question(tmp_path: Path) -> None:
    stage = Stage(tmp_path, calls(call("publish", {"what": "it"})), says("fine"))

    async def nobody(_: ApprovalAsked) -> None:
        return None

    async def talk() -> None:
        async with stage.opened(approver=nobody) as session:
            async for event in session.run("publish it"):
                if isinstance(event, TurnEnded):
                    assert event.ending == "blocked"
                    assert session.is_running
                    await session.say("never mind")
                    break
            async for recorded in session.subscribe():
                if isinstance(recorded.event, CallEnded):
                    assert recorded.event.outcome == "abandoned"
                    return

    asyncio.run(talk())
    assert stage.effects == []
