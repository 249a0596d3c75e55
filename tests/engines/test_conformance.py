"""Every engine, against the whole suite."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from mainspring.session.session import Session
from mainspring.testing.engines import CHECKS, Stage
from tests.engines.house import NAMES, Acting, House


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("name", ["builtin", *NAMES])
def test_an_engine_keeps_the_rules(
    name: str, check: Callable[[Stage], Coroutine[Any, Any, None]], tmp_path: Path
) -> None:
    house = House(tmp_path)

    @asynccontextmanager
    async def stage(said: str) -> AsyncIterator[Session]:
        options = {"model": Acting(said)} if name == "builtin" else {}
        async with house.opened(engine=name, **options) as session:
            yield session

    asyncio.run(check(stage))
