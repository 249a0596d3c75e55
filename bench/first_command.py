"""One new process with one session, whose model thinks for so many seconds and then asks for commands. Prints
how long each took, from the reply to the next request, as JSON.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import tempfile
import time
from collections.abc import AsyncGenerator
from pathlib import Path

import mainspring
from mainspring.models import Request, StreamItem
from mainspring.models.scripted import Script, ScriptedCall, ScriptedModel, ScriptedReply
from mainspring.settings import load_config

COMMANDS = 4


class ThinkingModel(ScriptedModel):
    """Waits before its first reply, and knows when a request came and when a reply was whole."""

    def __init__(self, thinks_s: float) -> None:
        calls = [ScriptedCall("shell", {"command": f"true {number}"}) for number in range(COMMANDS)]
        super().__init__(Script(replies=tuple(ScriptedReply(calls=(call,)) for call in calls)))
        self.thinks_s = thinks_s
        self.asked: list[float] = []
        self.replied: list[float] = []

    async def stream(self, request: Request) -> AsyncGenerator[StreamItem]:
        self.asked.append(time.perf_counter())
        if len(self.asked) == 1:
            await asyncio.sleep(self.thinks_s)
        items = [item async for item in super().stream(request)]
        self.replied.append(time.perf_counter())
        for item in items:
            yield item


async def main(thinks_s: float) -> list[float]:
    model = ThinkingModel(thinks_s)
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder) / "work"
        work.mkdir()
        environment = {"MAINSPRING_HOME": f"{folder}/home", "PATH": os.environ["PATH"], "HOME": folder}
        config = load_config(environment)
        async with mainspring.open(work, model=model, mode="auto", config=config) as session:
            async for _ in session.run("go"):
                pass
    return [asked - replied for replied, asked in zip(model.replied, model.asked[1:], strict=False)]


if __name__ == "__main__":
    print(json.dumps(asyncio.run(main(float(sys.argv[1])))))
