"""A recorded session is a regression test: would the same requests be sent today?"""

import asyncio

import mainspring
from mainspring.session.replay import replay
from mainspring.testing import MemorySessions, scripted_model, tool_call


async def main() -> None:
    store, model = MemorySessions(), scripted_model(tool_call("find", pattern="*"), "Done.")
    async with mainspring.open(model=model, tools=["find"], sessions=store) as session:
        recorded = await session.ask("Look around.")
    journal = await store.read(recorded.session)
    async for request in replay(journal, lambda _: model):
        print(f"{request.spend}: {request.verdict}")
        assert request.verdict == "same"
    await journal.close()


asyncio.run(main())
