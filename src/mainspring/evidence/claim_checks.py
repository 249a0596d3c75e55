"""Runs the checks of claims that need it, in the sandbox, each claim after those that it stands on.

Exit code 0 proves a claim; a line `REFUTED` with another exit code refutes it; anything else leaves it open
with what the check said, and so does a check that cannot fail, or passes for a wrong statement or in a wrong
version (`claim_mutants.py`) as well. A proof is kept until statement, check or a file that the check names is
another. A claim that stands on a refuted one is not tried.
"""

from __future__ import annotations

import asyncio
import hashlib
import shlex
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress

import msgspec

from mainspring.errors import PathRefused
from mainspring.events import Claim, ClaimChecked, ClaimStatus
from mainspring.evidence.claim_mutants import Mutant, mutants
from mainspring.evidence.claim_review import (
    CLAIM,
    SCRIPTS,
    cannot_fail,
    takes_claim,
    touches,
    wrong_statement,
)
from mainspring.evidence.claims import Claims, in_order
from mainspring.evidence.commands import Ran, kept, run_line
from mainspring.evidence.evaluation import content_hash
from mainspring.evidence.frozen_copy import copy_with
from mainspring.sandbox import Sandbox
from mainspring.sandbox.files import Files
from mainspring.workspace import Keep

RecordClaim = Callable[[ClaimChecked], Awaitable[None]]
REFUTED = "REFUTED"
UNTOUCHED = "it mentions nothing of what it claims"
_MAX_FILES = 50
_MAX_TEXT = 1_000_000
_MAX_STATEMENT = 20_000


class CheckLimits(msgspec.Struct, frozen=True, kw_only=True):
    """How long one check may take, and all of one round; claims that are not reached stay as they are."""

    check_s: float = 120.0
    all_s: float = 1800.0


_BOUNDS = CheckLimits()


async def check_claims(
    claims: Claims,
    *,
    iteration: int,
    sandbox: Sandbox,
    files: Files,
    keep: Keep,
    record: RecordClaim,
    bounds: CheckLimits = _BOUNDS,
    is_everything: bool = False,
) -> None:
    """Runs what needs running, or with `is_everything` all, and records each result as it comes. The fold is
    told too; telling it again changes nothing."""

    async def note(event: ClaimChecked) -> None:
        await record(event)
        claims.apply(event)

    ends = time.monotonic() + bounds.all_s
    for name in in_order(claims.all, claims.all):
        claim = claims.all.get(name)
        if claim is None or not claim.check or claim.status == "refuted" or claims.refuted_below(name):
            continue
        fingerprint = await asyncio.to_thread(fingerprint_of, claims, name, files)
        if not is_everything and not _needs_check(claims, name, fingerprint):
            continue
        left_s = ends - time.monotonic()
        if left_s <= 0:
            await note(_not_reached(name, iteration))
            continue
        run = _Run(sandbox, files, claim, min(bounds.check_s, left_s))
        ran = await run.with_statement(claim.statement)
        is_changed = await asyncio.to_thread(fingerprint_of, claims, name, files) != fingerprint
        status, detail = ("open", "it changed while it was checked") if is_changed else judged(ran)
        doubt = await run.reviewed() if status == "proved" else ""
        if doubt and doubt != UNTOUCHED:
            status, detail = "open", f"its check proves nothing: {doubt}"
        proofs = [above for above in claims.dependents(name) if claims.status(above) == "proved"]
        await note(
            ClaimChecked(
                iteration=iteration,
                claim=name,
                status=status,
                exit_code=ran.finished.exit_code,
                statement_sha256=fingerprint,
                detail=detail,
                output=await kept(ran, keep),
                duration_s=ran.finished.duration_s,
                doubt=doubt,
            )
        )
        for above in proofs if status == "refuted" else ():
            said = f"open again: it stands on {name}, which was refuted"
            await note(ClaimChecked(iteration=iteration, claim=above, status="open", detail=said))


class _Run(msgspec.Struct, frozen=True):
    """The check of one claim, to be run with its statement or another."""

    sandbox: Sandbox
    files: Files
    claim: Claim
    timeout_s: float

    async def with_statement(self, statement: str) -> Ran:
        env = {CLAIM: statement[:_MAX_STATEMENT].replace("\0", "")}
        return await run_line(self.sandbox, self.files, self.claim.check, self.timeout_s, env=env)

    async def reviewed(self) -> str:
        """What speaks against a check that passed; empty when nothing does."""
        scripts = await asyncio.to_thread(scripts_of, self.claim.check, self.files)
        text = "\n".join([self.claim.check, *scripts.values()])
        idle = [why for name, script in scripts.items() if (why := cannot_fail(name, script))]
        if idle and len(idle) == len(scripts):
            return idle[0]
        for mutant in mutants(self.claim, scripts):
            if await self._passes(mutant):
                return f"it does not depend on the claim: it also passes {mutant.what}"
        if takes_claim(text):
            wrong = wrong_statement(self.claim.statement)
            if (await self.with_statement(wrong)).is_passed:
                return f"it also passes for a wrong statement, {wrong[:100]!r}"
        return "" if touches(self.claim, text) else UNTOUCHED

    async def _passes(self, mutant: Mutant) -> bool:
        """Whether a wrong version of the check passes, in a copy of the workspace."""
        if str(self.files.policy.workspace) in self.claim.check:
            return False
        env = {CLAIM: self.claim.statement[:_MAX_STATEMENT].replace("\0", "")}
        async with copy_with(self.files, mutant.contents) as copy:
            if copy is None:
                return False
            ran = await run_line(self.sandbox, copy, mutant.line, self.timeout_s, policy=copy.policy, env=env)
            return ran.is_passed


def scripts_of(check: str, files: Files) -> dict[str, str]:
    """The code that a check runs, as far as it is found: scripts that it names, or what follows `-c`."""
    found: dict[str, str] = {}
    for path in named_files(check, files):
        with suppress(OSError, PathRefused):
            if path.endswith(SCRIPTS):
                found[path] = files.read(path, max_bytes=_MAX_TEXT).data.decode("utf-8", "replace")
    try:
        words = shlex.split(check)
    except ValueError:
        return found
    if "-c" in words[:-1] and "python" in words[0]:
        found["-c.py"] = words[words.index("-c") + 1]
    return found


def judged(ran: Ran) -> tuple[ClaimStatus, str]:
    """What the end of a check says of its claim."""
    lines = ran.finished.stdout.decode("utf-8", "replace").splitlines()
    is_refuted = any(line.strip() == REFUTED for line in lines)
    if ran.finished.stopped:
        return "open", ran.told
    if ran.finished.exit_code == 0:
        return ("open", "it says REFUTED and exits with 0") if is_refuted else ("proved", ran.told)
    return ("refuted" if is_refuted else "open"), ran.told


def fingerprint_of(claims: Claims, name: str, files: Files) -> str:
    """What a check of the claim is about, as one hash: its definition and the files that the check names."""
    named = [(path, content_hash(files, path)) for path in named_files(claims.all[name].check, files)]
    return hashlib.sha256(msgspec.json.encode([claims.definition(name), named])).hexdigest()


def named_files(check: str, files: Files) -> tuple[str, ...]:
    """The files of the workspace that a command line names, also as modules and below `cd`."""
    try:
        words = shlex.split(check, comments=True)
    except ValueError:
        words = check.split()
    words = [word.strip(";&|()<>") for word in words]
    found: dict[str, None] = {}
    folders = [""]
    for number, word in enumerate(words):
        if number and words[number - 1] == "cd":
            folders.append(f"{word}/")
        module = f"{word.replace('.', '/')}.py" if number and words[number - 1] == "-m" else ""
        for candidate in filter(None, (word, word.partition("=")[2], module)):
            for folder in folders:
                if _is_file(files, folder + candidate):
                    found[folder + candidate] = None
    return tuple(found)[:_MAX_FILES]


def _is_file(files: Files, path: str) -> bool:
    if "\0" in path or len(path) > 1000:
        return False
    try:
        return (files.policy.workspace / path).is_file()
    except OSError:
        return False


def _needs_check(claims: Claims, name: str, fingerprint: str) -> bool:
    """An open claim is tried every time: what its check reads is not all known."""
    checked = claims.checked(name)
    is_decided = checked is not None and checked.status in ("proved", "refuted")
    return not (is_decided and checked is not None and checked.statement_sha256 == fingerprint)


def _not_reached(name: str, iteration: int) -> ClaimChecked:
    """An old proof of what is another now does not hold meanwhile."""
    return ClaimChecked(
        iteration=iteration, claim=name, status="open", detail="there was no time left for its check"
    )
