"""What a step costs in a long history, and what making it short costs without the model's own time.

CPU time of this process, so that a busy machine does not count.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from pathlib import Path

import mainspring
from bench.measure import ms, row, timing
from mainspring.catalog.sqlite import SqliteSessions
from mainspring.context.compaction import compose, cut, transcript
from mainspring.context.guards import Guards
from mainspring.context.history import History, load_history
from mainspring.events import (
    AssistantSaid,
    CallAsked,
    CallEnded,
    CallStarted,
    Event,
    Recorded,
    Text,
    TurnEnded,
    TurnStarted,
    UserSaid,
)
from mainspring.models.scripted import Script, ScriptedModel, ScriptedReply
from mainspring.models.wires.chat import ChatModel
from mainspring.session.session import runtime_of
from mainspring.settings import load_config
from mainspring.turns.compactor import Compactor, _read

TURNS = 1000
GOAL = "Read the pages of the report and count the words. Never change the report."
SUMMARY = "The pages of the report are read and their words counted, without changing the report."


def main() -> None:
    steps()
    asyncio.run(compaction())


def step(number: int, size: int) -> list[Event]:
    call = f"c{number:05}000"
    asked = CallAsked(call=call, name="read", arguments=f'{{"path":"page-{number}.txt"}}')
    return [
        AssistantSaid(step=number, parts=(Text(text=f"Page {number}."), asked), stop="calls"),
        CallStarted(call=call, tool="read"),
        CallEnded(call=call, outcome="ok", output=f"{number} " * (size // 5)),
    ]


def steps() -> None:
    """The incremental work between two requests: fold the new events, judge them, list the messages."""
    model = ChatModel("m", "http://127.0.0.1:9/v1", "", "m")
    history, guards = History(model.encode), Guards()
    taken: list[float] = []
    seq = 0

    async def no_blob(_: object) -> bytes:
        return b""

    async def run() -> None:
        nonlocal seq
        for turn in range(TURNS):
            events = [UserSaid(text="next"), TurnStarted(turn=turn), *step(turn, 800)]
            begun = time.process_time()
            for event in events:
                seq += 1
                recorded = Recorded(seq, seq, event)
                history.apply(recorded)
                guards.apply(recorded)
            guards.check()
            await history.messages(no_blob)
            history.estimated_tokens(20_000)
            taken.append(time.process_time() - begun)

    asyncio.run(run())
    timing("projection and guards, step at turn 10", taken[5:15])
    timing(
        f"projection and guards, step at turn {TURNS}", taken[-50:], floor=taken[5:15], target="target 5 ms"
    )


async def compaction() -> None:
    """Of a journal of 0.8 MB in a file, with a model that answers at once."""
    with tempfile.TemporaryDirectory() as folder:
        config = load_config({"MAINSPRING_HOME": str(Path(folder) / "home"), "HOME": folder})
        scripted = ScriptedModel(Script(replies=()))
        async with mainspring.open(folder, model=scripted, allow_home=True, config=config) as session:
            name = session.id
        journal = await SqliteSessions(config.home).open(name)
        events: list[Event] = [UserSaid(text=GOAL), TurnStarted(turn=1)]
        for number in range(1, TURNS + 1):
            events += step(number, 1050)
        await journal.append(*events, TurnEnded(turn=1, ending="done"))
        until = await journal.last_seq()
        begun = time.process_time()
        found = await _read(journal, until)
        read = time.process_time()
        chosen = cut(found.outline, keep=40_000)
        old = [item for item in found.events if item.seq < chosen.keep_from_seq]
        material = transcript(old, "", limit=400_000)
        summary = compose(found.facts, SUMMARY, keep_from_seq=chosen.keep_from_seq, limit=20_000)
        composed = time.process_time()
        begun_load = time.process_time()
        await load_history(journal, scripted.encode)
        loaded = time.process_time()
        await journal.close()
        size = sum(len(getattr(event, "output", "")) for event in events) / 1e6
        row(f"reading a journal of {size:.1f} MB ({until} events)", ms(read - begun))
        row("cutting, telling, composing", ms(composed - read), f"{len(material) + len(summary):,} chars")
        row("loading the whole history, for comparison", ms(loaded - begun_load))
        writer = ScriptedModel(Script(replies=(ScriptedReply(text=SUMMARY),)))
        opened = mainspring.open(session=name, model=scripted, config=config)
        async with opened as session:
            taken: list[float] = []
            for number in range(7):
                begun = time.process_time()
                compacted = await Compactor(writer)(
                    runtime_of(session), reason=f"bench {number}", until=until
                )
                taken.append(time.process_time() - begun)
                assert compacted is not None
            timing("compaction as a whole, without the model's time", taken, target="target 20 ms")
