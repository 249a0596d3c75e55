"""What the model still has before it of what calls and notes showed: the journal without what was undone,
made short or left out.
"""

from __future__ import annotations

from collections.abc import Sequence

from mainspring.context.history import is_live, live_compaction, read_all, undone_ranges
from mainspring.context.values import ShownText
from mainspring.events import (
    AssistantSaid,
    CallAsked,
    CallEnded,
    CallStarted,
    NoteAdded,
    Recorded,
)
from mainspring.journal import JournalReader

_KINDS = ("AssistantSaid", "CallStarted", "CallEnded", "NoteAdded")


async def shown_texts(
    journal: JournalReader, *, until: int, calls: int, most_characters: int | None = None
) -> list[ShownText]:
    """The newest first, up to an event, by which so many `calls` were started. Of results that are longer
    than `most_characters` the model was sent a part."""
    dead = undone_ranges(await read_all(journal, kinds=("Undone",), until=until))
    compacted = await live_compaction(journal, dead, until=until)
    after = compacted.keep_from_seq - 1 if compacted else 0
    hidden = frozenset(compacted.stubbed if compacted else ())
    recorded = await read_all(journal, kinds=_KINDS, after=after, until=until)
    started = [item.event for item in recorded if isinstance(item.event, CallStarted)]
    numbers = {event.call: calls - back for back, event in enumerate(reversed(started))}
    seen = [item for item in recorded if is_live(item.seq, dead) and item.seq not in hidden]
    asked = {call.call: call for item in seen for call in _calls(item)}
    tools = {event.call: event.tool for event in started}
    found: list[ShownText] = []
    for item in reversed(seen):
        match item.event:
            case CallEnded(call=call, outcome="ok", output=output) if call in asked and call in numbers:
                if most_characters is None or len(output) <= most_characters:
                    number, arguments = numbers[call], asked[call].arguments
                    found.append(ShownText(text=output, tool=tools[call], arguments=arguments, number=number))
            case NoteAdded(files=files, text=text) if files:
                found.append(ShownText(text=text, files=files))
            case _:
                pass
    return found


def _calls(item: Recorded) -> Sequence[CallAsked]:
    return item.event.calls if isinstance(item.event, AssistantSaid) else ()
