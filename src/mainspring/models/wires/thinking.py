"""Where thoughts stand in a history for Anthropic, which refuses them in the middle of a loop of calls."""

from __future__ import annotations

from collections.abc import Sequence

# How messages begin and end in our encoding, whose keys are sorted.
REPLY_END = b'"role":"assistant"}'
_RESULTS = b'{"content":[{"content":'
THOUGHTS = (b'{"content":[{"signature":', b'{"content":[{"data":')


def open_loop(messages: Sequence[bytes]) -> int | None:
    """Where the first reply stands of those whose calls the last message answers; None when there is none.
    What is said between results and the next reply belongs to the loop."""
    start, is_answered = None, False
    for position in range(len(messages) - 1, -1, -1):
        if messages[position].startswith(_RESULTS):
            is_answered = True
        elif messages[position].endswith(REPLY_END):
            if not is_answered:
                break
            start, is_answered = position, False
    return start
