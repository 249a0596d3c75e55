"""The claims of one goal at work: read from their file, checked, told to the agent, and asked about the end.

What was read and checked is folded from the journal; the file is what the agent writes.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable

from mainspring.errors import SandboxError
from mainspring.events import CheckEnded, ClaimChecked, ClaimsRead, Event
from mainspring.events.counts import plural
from mainspring.evidence.claim_checks import check_claims
from mainspring.evidence.claim_file import EXAMPLE, read_claims
from mainspring.evidence.claims import Claims
from mainspring.journal import JournalReader, events_in
from mainspring.sandbox import Sandbox
from mainspring.sandbox.files import Files
from mainspring.secrets.redaction import expanded
from mainspring.secrets.vault import Vault
from mainspring.workspace import Keep

_KINDS = ("ClaimsRead", "ClaimChecked")
_MAX_LINES = 12

_States = dict[str, tuple[str, object]]


class Derivation:
    def __init__(
        self,
        path: str,
        *,
        journal: JournalReader,
        files: Files,
        sandbox: Callable[[], Awaitable[Sandbox]],
        keep: Keep,
        record: Callable[[Event], Awaitable[None]],
        vault: Vault,
    ) -> None:
        self._path = path
        self._journal = journal
        self._files = files
        self._sandbox = sandbox
        self._keep = keep
        self._record = record
        self._vault = vault
        self._claims: Claims | None = None
        self._last: ClaimsRead | None = None
        self._began: tuple[int, _States] = (0, {})

    async def gather(self, iteration: int) -> bool:
        """Reads the file and runs the checks that need it, on record; whether anything is new."""
        claims = await self._known()
        before = self._began[1] if self._began[0] == iteration else _states(claims)
        await self._read(claims, iteration)
        await self._check(claims, iteration, is_everything=False)
        return _states(claims) != before

    async def deciding(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The checks of the claims that the goal stands on, and what speaks against them."""
        claims = await self._known()
        path = [name for name in claims.path() if name in claims.all]
        checked = [(name, claims.checked(name)) for name in path]
        doubts = tuple(f"the check of {name}: {each.doubt}" for name, each in checked if each and each.doubt)
        return tuple(claims.all[name].check for name in path), doubts

    async def proof(self, iteration: int) -> CheckEnded:
        """Whether the goal is proved, with every check run again: what a check reads is not all known."""
        claims = await self._known()
        await self._read(claims, iteration)
        trouble = await self._check(claims, iteration, is_everything=True)
        missing = (*trouble, *claims.missing())
        detail = f"{plural(len(claims.path()), 'claim')} on the path to the goal proved"
        if missing:
            more = f"; and {len(missing) - _MAX_LINES} more" if len(missing) > _MAX_LINES else ""
            detail = "; ".join(missing[:_MAX_LINES]) + more
        return CheckEnded(
            iteration=iteration, check=self._path, kind="claims", passed=not missing, detail=detail
        )

    async def lines(self) -> tuple[str, ...]:
        """What the next iteration should know."""
        claims = await self._known()
        if not self._path:
            return ()
        if not claims.all:
            shown = f"Write the claims into {self._path} like this:\n```toml\n{EXAMPLE}```"
            return (shown, *(f"In {self._path}: {item}." for item in claims.problems))
        counts = Counter(claims.status(name) for name in claims.all)
        told = ", ".join(f"{count} {status}" for status, count in sorted(counts.items())) or "none"
        missing = claims.missing()
        lines = [f"Claims: {told}.", *(f"Missing: {line}." for line in missing[:_MAX_LINES])]
        if len(missing) > _MAX_LINES:
            lines.append(f"Missing: {len(missing) - _MAX_LINES} more.")
        known = set(missing)
        return (*lines, *(f"In {self._path}: {item}." for item in claims.problems if item not in known))

    async def _known(self) -> Claims:
        if self._claims is None:
            claims = Claims()
            async for recorded in events_in(self._journal, kinds=_KINDS):
                self._take(claims, expanded(recorded.event, self._vault))
            self._claims = claims
        return self._claims

    def _take(self, claims: Claims, event: Event) -> None:
        """Folds what is on record, and notes how the claims stood before the last iteration on it."""
        if isinstance(event, ClaimsRead | ClaimChecked) and event.iteration != self._began[0]:
            self._began = (event.iteration, _states(claims))
        claims.apply(event)
        if isinstance(event, ClaimsRead):
            self._last = event

    async def _read(self, claims: Claims, iteration: int) -> None:
        """Reads the file; what is as before is not recorded again."""
        read = await asyncio.to_thread(read_claims, self._files, self._path, iteration)
        last = self._last
        if last is None or (last.claims, last.problems) != (read.claims, read.problems):
            await self._record(read)
            claims.apply(read)
            self._last = read

    async def _check(self, claims: Claims, iteration: int, *, is_everything: bool) -> tuple[str, ...]:
        """Runs checks; gives why not when our machine failed."""

        async def record(event: ClaimChecked) -> None:
            await self._record(event)

        try:
            await check_claims(
                claims,
                iteration=iteration,
                sandbox=await self._sandbox(),
                files=self._files,
                keep=self._keep,
                record=record,
                is_everything=is_everything,
            )
        except SandboxError as error:
            return (f"the checks could not run: {error.message}",)
        return ()


def _states(claims: Claims) -> _States:
    return {name: (claims.status(name), claim) for name, claim in claims.all.items()}
