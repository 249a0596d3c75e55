"""The claims of a goal: read after each iteration, checked where that is needed, told to the next."""

from __future__ import annotations

import asyncio

from mainspring.events import CheckEnded
from mainspring.goals.checking import check_claims
from mainspring.goals.claimfile import read_claims
from mainspring.goals.claims import Claims
from mainspring.session import Session

_KINDS = ("ClaimsRead", "ClaimChecked")
_MAX_LINES = 30


class Derivation:
    """Of a goal whose claims stand in the file `path`; without a path there are none."""

    def __init__(self, session: Session, path: str) -> None:
        self._session = session
        self._path = path
        self._claims: Claims | None = None

    async def check(self, iteration: int) -> bool:
        """Reads the claims and runs the checks that need it; whether any claim is otherwise than before."""
        if not self._path:
            return False
        claims = await self._known()
        before = {name: (claims.all[name].statement, claims.status(name)) for name in claims.all}
        read = await asyncio.to_thread(read_claims, self._session.files, self._path, iteration)
        if not read.claims and not claims.all:
            return False
        await self._session.emit(read)
        claims.apply(read)
        await self._run(claims, iteration, is_everything=False)
        return before != {name: (claims.all[name].statement, claims.status(name)) for name in claims.all}

    async def lines(self) -> list[str]:
        """Where each claim stands, the open ones on the path to the goal first."""
        claims = await self._known()
        if not claims.all:
            return [f"There are no claims in {self._path} yet."] if self._path else []
        problems = [f"{self._path}: {problem}" for problem in claims.problems]
        stand = [
            f"claim {name} is {claims.status(name)}: {claims.all[name].statement}" for name in claims.all
        ]
        return [*problems, *claims.missing(), *stand][:_MAX_LINES]

    async def proof(self, iteration: int) -> list[CheckEnded]:
        """Whether the goal stands on checked claims alone. Everything is checked again first. Where nobody
        wrote a claim there is nothing to check by."""
        claims = await self._known()
        if not self._path or not claims.all:
            return []
        await self._run(claims, iteration, is_everything=True)
        missing = claims.missing()
        detail = "; ".join(missing) or f"{len(claims.path())} claims are closed by checks that ran"
        return [
            CheckEnded(
                iteration=iteration, check=self._path, kind="claims", passed=not missing, detail=detail
            )
        ]

    async def _run(self, claims: Claims, iteration: int, *, is_everything: bool) -> None:
        await check_claims(
            claims,
            iteration=iteration,
            sandbox=await self._session.sandbox(),
            files=self._session.files,
            keep=self._session.put_blob,
            emit=self._session.emit,
            is_everything=is_everything,
        )

    async def _known(self) -> Claims:
        if self._claims is None:
            self._claims, after = Claims(), 0
            while page := await self._session.journal.read(after=after, kinds=_KINDS):
                for recorded in page:
                    self._claims.apply(recorded.event)
                after = page[-1].seq
        return self._claims
