"""A session that works for another one, and spends from its caps."""

import asyncio

from demo_model import model

import mainspring
from mainspring import Limits


async def main() -> None:
    async with mainspring.open(model=model("Ready."), limits=Limits(max_tokens=50_000)) as parent:
        print((await parent.ask("Get ready.")).text)
        async with mainspring.open(model=model("Three files."), tools=["find"], parent=parent) as child:
            found = await child.ask("How many files are here?")
        print(found.text)
        print(f"both together: {parent.state.ledger.spent_tokens:,} tokens")


asyncio.run(main())
