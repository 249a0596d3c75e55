"""Completion of slash commands and of `@path`, and what fits a few letters best. Pure but for the adapter."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from heapq import nsmallest

from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document

from mainspring.secrets.screen import plain_name

_PATH = re.compile(r"(?:^|\s)@(\S*)$")
_MOST = 30


def best_fits(query: str, candidates: Sequence[str], most: int = _MOST) -> list[str]:
    """The candidates that have the letters of the query in their order, the best first: those whose last
    part begins with it, then those that hold it whole, then the others, short ones first."""
    wanted = query.lower()
    if not wanted:
        return list(candidates[:most])
    scattered = re.compile(".*?".join(map(re.escape, wanted)))
    scored: list[tuple[int, int, str]] = []
    for candidate in candidates:
        low = candidate.lower()
        at = low.find(wanted)
        if at < 0:
            if scattered.search(low):
                scored.append((3, len(candidate), candidate))
            continue
        name = low.rpartition("/")[2]
        rank = 0 if name.startswith(wanted) else 1 if wanted in name else 2
        scored.append((rank, len(candidate), candidate))
    return [candidate for *_, candidate in nsmallest(most, scored)]


class ChatCompleter(Completer):
    """`commands` gives a sentence for each, `files` the paths, as far as they are known by now."""

    def __init__(self, commands: Callable[[], Mapping[str, str]], files: Callable[[], Sequence[str]]) -> None:
        self._commands = commands
        self._files = files

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:  # noqa: ARG002
        before = document.text_before_cursor
        if before.startswith("/") and not re.search(r"\s", before):
            commands = self._commands()
            for name in best_fits(before[1:], tuple(commands)):
                yield Completion(f"{name} ", -len(before) + 1, f"/{name}", commands[name])
        elif found := _PATH.search(before):
            for path in best_fits(found[1], self._files()):
                yield Completion(f"{path} ", -len(found[1]), plain_name(path))
