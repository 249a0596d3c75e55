"""The way of one page: pieces, draft, checks, judgement, verdict. Each step is recorded before the next one,
so a process that takes over does none of them twice. What it does next follows from the fold alone."""

from __future__ import annotations

import msgspec

from mainspring.errors import ContextOverflow
from mainspring.events import Event, PageDrafted, PageJudged, PageScore, PageVerdict, PieceDrafted
from mainspring.forge.ask import ask_for
from mainspring.forge.examples import how_to_use, try_example
from mainspring.forge.fold import DocsFold, PageState
from mainspring.forge.page_checks import described, kept_directions, page_problems, words_in
from mainspring.forge.pieces import MAX_PIECES, SourcePiece, WindowRoom, pieces_of, room_in
from mainspring.forge.prompts import (
    MAX_NAMES,
    judge_prompt,
    judge_schema,
    page_prompt,
    page_schema,
    piece_prompt,
    piece_schema,
    read_page,
    read_piece,
    read_scores,
)
from mainspring.forge.values import DocPage, PageNotes, PageScores, PieceNotes, SourceFile
from mainspring.secrets.injection import suspicions
from mainspring.turns.runtime import Runtime

_LEAST_SCORE, _ENOUGH = 3, 11
_WRONG = 2
_PIECE_TRIES = 2


class PageDrafter:
    """Drafts pages with the model of a session. `names` are those of the project; after `tries` drafts that
    are not good enough nobody tries again."""

    def __init__(self, runtime: Runtime, fold: DocsFold, names: frozenset[str], tries: int) -> None:
        self._runtime = runtime
        self._fold = fold
        self._names = names
        self._tries = tries
        density = runtime.history.bytes_per_token
        self._room: WindowRoom = room_in(runtime.models.current.context_tokens, density)

    async def finish(self, file: SourceFile) -> PageState:
        """Takes a page to its verdict; raises `OutOfBudget`, or a `ModelError` that is on record."""
        state = self._fold.page(file.path, file.sha256)
        while state.standing == "unfinished":
            room = self._room
            try:
                await self._step(file, state)
            except ContextOverflow:
                smaller = room.halved()
                if smaller is None:
                    raise
                if self._room is room:  # nobody beside us found out first
                    self._room = smaller
        return state

    async def _step(self, file: SourceFile, state: PageState) -> None:
        if state.is_judged:
            pieces = pieces_of(file, self._room.chars)
            if len(pieces) > MAX_PIECES:
                await self._judge(state, "person", "checks", f"it is too large: {len(pieces)} pieces")
                return
            notes = [await self._piece(file, piece, state) for piece in pieces]
            await self._draft(file, state, [each for each in notes if each])
        if state.problems or state.draft is None:
            await self._again_or("rejected", state, "checks", "; ".join(state.problems))
        else:
            await self._judged(file, state, state.draft)

    async def _piece(self, file: SourceFile, piece: SourcePiece, state: PageState) -> PieceNotes | None:
        key = (piece.first_line, piece.last_line)
        if key in state.pieces:
            return state.pieces[key]
        # What the file says of itself is taken word for word.
        unsaid = sorted(
            (each for each in piece.definitions if not each.doc), key=lambda each: not each.is_public
        )
        names = [each.name for each in unsaid][:MAX_NAMES]
        notes: PieceNotes | None = None
        for _ in range(_PIECE_TRIES):
            text = piece_prompt(file, piece, names)
            notes = read_piece(await ask_for(self._runtime, text, piece_schema(names), self._room))
            if notes:
                break
        await self._record(
            PieceDrafted(
                path=file.path,
                source=file.sha256,
                first_line=piece.first_line,
                last_line=piece.last_line,
                notes=msgspec.json.encode(notes).decode() if notes else "",
                problem="" if notes else "the model gave no JSON that fits",
            )
        )
        return notes

    async def _draft(self, file: SourceFile, state: PageState, notes: list[PieceNotes]) -> None:
        use = how_to_use(file.path)
        complaint = state.why if state.tried else ""
        text = page_prompt(file, notes, self._room, how_to_use=use, complaint=complaint)
        reply = await ask_for(self._runtime, text, page_schema(has_example=bool(use)), self._room)
        said = read_page(reply)
        drafted = PageDrafted(path=file.path, source=file.sha256, attempt=state.attempt + 1)
        if said is None:
            problems = ("the model gave no JSON that fits",)
            await self._record(msgspec.structs.replace(drafted, problems=problems))
            return
        page, problems, dropped = await self._checked(file, state, said, notes)
        await self._record(
            msgspec.structs.replace(
                drafted,
                page=msgspec.json.encode(page).decode(),
                problems=tuple(problems),
                dropped=tuple(dropped),
            )
        )

    async def _checked(
        self, file: SourceFile, state: PageState, said: PageNotes, notes: list[PieceNotes]
    ) -> tuple[DocPage, list[str], list[str]]:
        """The page, what is wrong with it, and what was left out of it because it does not hold."""
        known = self._names | words_in(file.text)
        holds_secrets = self._runtime.recorder.vault.holds_secrets
        problems = page_problems(said, known, holds_secrets)
        definitions, dropped = described(file, notes, known, holds_secrets)
        directions, more = kept_directions(said, known, holds_secrets)
        dropped += more
        example = said.example.strip() if how_to_use(file.path) else ""
        if example and not problems:
            tried = await try_example(self._runtime, file, example)
            if tried.problem and tried.is_worth_retry and state.tried + 1 < self._tries:
                problems.append(f"the example: {tried.problem}")
            elif tried.problem or holds_secrets(example.encode()):
                dropped.append(f"the example: {tried.problem or 'it holds what looks like a secret'}")
                example = ""
        page = DocPage(
            path=file.path,
            source=file.sha256,
            summary=said.summary.strip(),
            definitions=definitions,
            directions=directions,
            example=example,
            marks=file.outline.marks,
            tests=file.tests,
            lines=len(file.text.splitlines()),
            is_broken=file.outline.is_broken,
            model=self._runtime.models.current.name,
        )
        return page, problems, dropped

    async def _judged(self, file: SourceFile, state: PageState, page: DocPage) -> None:
        text = judge_prompt(file, page, self._room)
        scores = read_scores(await ask_for(self._runtime, text, judge_schema(), self._room))
        if scores is None:
            await self._again_or("person", state, "model", "the judge gave no scores")
            return
        given = (scores.accurate, scores.complete, scores.clear)
        if min(given) >= _LEAST_SCORE and sum(given) >= _ENOUGH:
            orders = suspicions(file.text)
            why = f"the file holds text that reads like orders to a model: {orders[0]}" if orders else ""
            await self._judge(state, "person" if orders else "approved", "model", why, scores)
            return
        why = scores.problem.strip() or "the judge gave low scores and no reason"
        verdict: PageVerdict = "rejected" if scores.accurate <= _WRONG else "person"
        await self._again_or(verdict, state, "model", why, scores)

    async def _again_or(
        self, verdict: PageVerdict, state: PageState, by: str, why: str, scores: PageScores | None = None
    ) -> None:
        """Another draft, or the verdict when there were as many as there may be."""
        await self._judge(state, "again" if state.tried < self._tries else verdict, by, why, scores)

    async def _judge(
        self, state: PageState, verdict: PageVerdict, by: str, why: str, scores: PageScores | None = None
    ) -> None:
        names = ("accurate", "complete", "clear") if scores else ()
        judged = PageJudged(
            path=state.path,
            source=state.source,
            verdict=verdict,
            by="model" if by == "model" else "checks",
            attempt=state.attempt,
            why=why,
            scores=tuple(PageScore(name=name, score=getattr(scores, name)) for name in names),
        )
        await self._record(judged)

    async def give_up(self, file: SourceFile, why: str) -> PageState:
        """Leaves a page to a person, so that nobody tries again by itself what cannot work."""
        state = self._fold.page(file.path, file.sha256)
        await self._judge(state, "person", "model", why)
        return state

    async def _record(self, event: Event) -> None:
        await self._runtime.record(event)
        self._fold.apply(event)
