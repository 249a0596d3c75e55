"""Watch a turn as it happens: what is recorded, and what is only shown."""

import asyncio

from demo_model import model

import mainspring
from mainspring.events import CallEnded, TextDelta, TurnEnded
from mainspring.testing import tool_call


async def main() -> None:
    replies = model(tool_call("find", glob="*"), "I have looked around.")
    async with mainspring.open(model=replies, tools=["find"]) as session:
        async for event in session.run("Look around."):
            match event:
                case TextDelta():
                    print(event.text, end="", flush=True)
                case CallEnded():
                    print(f"[{event.call} {event.outcome}]")
                case TurnEnded():
                    print(f"\n[{event.ending} after {event.steps} steps]")
                case _:
                    pass


asyncio.run(main())
