"""Every model in the house, through the suite that outsiders use as well."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager

import msgspec
import pytest

from mainspring.models import Model, scripted
from mainspring.models.retry import Retried
from mainspring.models.scripted import Fault, Script, ScriptedModel, ScriptedReply
from mainspring.testing.models import CHECKS, ModelStage
from mainspring.testing.server import ModelServer
from tests.models.every_wire import WIRES, build


class Played:
    @asynccontextmanager
    async def open(self, replies: Sequence[scripted.ScriptedReply]) -> AsyncIterator[Model]:
        yield ScriptedModel(scripted.Script(tuple(replies)))


class Served:
    """A wire against the scripted server, over which every first request may fail."""

    def __init__(self, wire: str, *faults: Fault) -> None:
        self._wire = wire
        self._faults = faults

    @asynccontextmanager
    async def open(self, replies: Sequence[scripted.ScriptedReply]) -> AsyncIterator[Model]:
        served = tuple(ScriptedReply(**msgspec.structs.asdict(reply)) for reply in replies)
        async with ModelServer(Script(served, self._faults)) as server:
            wire = build(self._wire, server)
            model = Retried(wire, heal=wire.heal, sleep=lambda _: asyncio.sleep(0)) if self._faults else wire
            yield model
            await model.close()


STAGES: dict[str, ModelStage] = {
    "scripted": Played(),
    **{wire: Served(wire) for wire in WIRES},
    **{f"{wire} retried": Served(wire, Fault(kind="drop", at="text")) for wire in WIRES},
}


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_a_model_keeps_the_contract(stage: str, check: Callable[[ModelStage], Awaitable[None]]) -> None:
    async def run() -> None:
        await check(STAGES[stage])

    asyncio.run(run())
