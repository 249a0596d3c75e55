"""What a journal says about pages: for each file its newest draft, the verdict on it, and the page that was
approved last. Pure; events that are not about pages are passed over."""

from __future__ import annotations

from typing import Literal

import msgspec

from mainspring.events import DocsStarted, Event, PageDrafted, PageJudged, PieceDrafted
from mainspring.forge.values import DocPage, PieceNotes

DOCS_KINDS = ("DocsStarted", "PieceDrafted", "PageDrafted", "PageJudged")

PageStanding = Literal["approved", "rejected", "person", "unfinished"]


class PageState(msgspec.Struct, kw_only=True):
    """One file at the content `source`. `pieces` are by their lines; None for one of which the model said
    nothing of use. `tried` counts drafts since a person said `again`. `why` is what the last verdict says;
    the page that was `approved` may be of an earlier content; it is none when a person rejects
    just that."""

    path: str
    source: str = ""
    pieces: dict[tuple[int, int], PieceNotes | None] = {}
    attempt: int = 0
    tried: int = 0
    draft: DocPage | None = None
    problems: tuple[str, ...] = ()
    is_judged: bool = True
    standing: PageStanding = "unfinished"
    by: str = ""
    why: str = ""
    approved: DocPage | None = None


class DocsFold:
    """All pages of a session, and what the last run was told."""

    def __init__(self) -> None:
        self.started: DocsStarted | None = None
        self.pages: dict[str, PageState] = {}

    def page(self, path: str, source: str) -> PageState:
        """The state of a file at a content; nothing of an earlier one counts but the approved page."""
        found = self.pages.get(path)
        if found is None or found.source != source:
            approved = found.approved if found else None
            found = self.pages[path] = PageState(path=path, source=source, approved=approved)
        return found

    def apply(self, event: Event) -> None:
        match event:
            case DocsStarted():
                self.started = event
            case PieceDrafted():
                notes = msgspec.json.decode(event.notes, type=PieceNotes) if event.notes else None
                state = self.page(event.path, event.source)
                state.pieces = {**state.pieces, (event.first_line, event.last_line): notes}
            case PageDrafted():
                state = self.page(event.path, event.source)
                state.draft = msgspec.json.decode(event.page, type=DocPage) if event.page else None
                state.attempt, state.problems, state.is_judged = event.attempt, event.problems, False
                state.tried += 1
            case PageJudged():
                self._judge(self.page(event.path, event.source), event)
            case _:
                pass

    def _judge(self, state: PageState, event: PageJudged) -> None:
        state.by, state.why, state.is_judged = event.by, event.why, True
        if event.verdict != "again":
            state.standing = event.verdict
            if event.verdict == "approved":
                state.approved = state.draft
            elif event.by == "person" and state.approved == state.draft:
                state.approved = None
            return
        state.standing = "unfinished"
        if event.by == "person":
            state.pieces, state.tried, state.draft, state.problems = {}, 0, None, ()
