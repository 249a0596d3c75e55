"""The claims of a goal at work: on record, the same after a crash, and strict about the end."""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from mainspring.catalog.sqlite import SqliteSessions
from mainspring.errors import SandboxError
from mainspring.events import Event
from mainspring.evidence.claim_file import DEFAULT_PATH, EXAMPLE
from mainspring.evidence.derivation import Derivation
from mainspring.sandbox import Sandbox
from mainspring.sandbox.files import Files
from mainspring.sandbox.policy import policy
from mainspring.sandbox.rungs.process import PlainSandbox
from mainspring.secrets.vault import Vault

MAIN = '[[claim]]\nname="main"\nstatement="m"\ndepends_on=["lemma"]\ncheck="sh main.sh"\ngoal=true\n'
LEMMA = '[[claim]]\nname="lemma"\nstatement="l"\ncheck="sh lemma.sh"\n'


def written(root: Path, claims: str = MAIN + LEMMA, **scripts: str) -> None:
    (root / "projects").mkdir(exist_ok=True)
    (root / DEFAULT_PATH).write_text(claims)
    for name, text in scripts.items():
        (root / f"{name}.sh").write_text(text)


@asynccontextmanager
async def derived(home: Path, root: Path, *, is_broken: bool = False) -> AsyncIterator[Derivation]:
    """A derivation as a process that was just started sees it."""
    store = SqliteSessions(home)
    journal = await (store.open("s1") if "s1" in store.shelf.names() else store.create("s1"))
    sandbox = PlainSandbox(environment=dict(os.environ))

    async def record(event: Event) -> None:
        await journal.append(event)

    async def get() -> Sandbox:
        if is_broken:
            raise SandboxError("There is no sandbox here.")
        return sandbox

    files = Files(policy(root, home=home))
    try:
        yield Derivation(
            DEFAULT_PATH,
            journal=journal,
            files=files,
            sandbox=get,
            keep=journal.put,
            record=record,
            vault=Vault(),
        )
    finally:
        await sandbox.close()
        await journal.close()


def kinds(home: Path) -> list[str]:
    file = SqliteSessions(home).shelf.file("s1")
    try:
        return [type(recorded.event).__name__ for recorded in file.read()]
    finally:
        file.close()


def test_claims_go_from_open_to_proved_and_nothing_is_run_or_recorded_twice(tmp_path: Path) -> None:
    root, home = tmp_path / "work", tmp_path / "home"
    root.mkdir()
    written(root, main="test 1 = 1", lemma="echo no idea; exit 1")

    async def first() -> None:
        async with derived(home, root) as derivation:
            (example,) = await derivation.lines()
            assert EXAMPLE in example
            assert await derivation.gather(1) is True
            assert await derivation.lines() == (
                "Claims: 1 open, 1 proved.",
                "Missing: lemma is open: exit code 1: no idea.",
            )
            ended = await derivation.proof(1)
            assert (ended.passed, ended.kind) == (False, "claims")
            assert ended.detail == "lemma is open: exit code 1: no idea"

    async def second() -> None:
        async with derived(home, root) as derivation:
            assert (await derivation.lines())[0] == "Claims: 1 open, 1 proved."
            assert await derivation.gather(2) is False
            (root / "lemma.sh").write_text("test 1 = 1")
            assert await derivation.gather(3) is True
            ended = await derivation.proof(3)
            assert ended.passed
            assert ended.detail == "2 claims on the path to the goal proved"

    asyncio.run(first())
    assert kinds(home) == ["ClaimsRead", *["ClaimChecked"] * 4]
    asyncio.run(second())
    assert kinds(home).count("ClaimsRead") == 1


def test_what_a_check_reads_without_naming_it_is_found_out_at_the_end(tmp_path: Path) -> None:
    root, home = tmp_path / "work", tmp_path / "home"
    root.mkdir()
    (root / "data").write_text("1")
    written(root, main="test 1 = 1", lemma="test -e data")

    async def scenario() -> None:
        async with derived(home, root) as derivation:
            await derivation.gather(1)
            (root / "data").unlink()
            assert await derivation.gather(2) is False
            assert (await derivation.proof(2)).passed is False

    asyncio.run(scenario())


def test_a_file_that_is_missing_or_a_machine_that_fails_proves_nothing(tmp_path: Path) -> None:
    root, home = tmp_path / "work", tmp_path / "home"
    root.mkdir()

    async def scenario() -> None:
        async with derived(home, root) as derivation:
            ended = await derivation.proof(1)
            assert not ended.passed
            assert ended.detail.startswith(f"{DEFAULT_PATH} is not there")
            written(root, main="test 1 = 1", lemma="test 1 = 1")
            assert await derivation.gather(1) is True
        async with derived(home, root, is_broken=True) as derivation:
            ended = await derivation.proof(2)
            assert (ended.passed, ended.detail) == (
                False,
                "the checks could not run: There is no sandbox here.",
            )

    asyncio.run(scenario())


def test_what_was_news_stays_news_when_the_process_dies_before_the_iteration_is_over(tmp_path: Path) -> None:
    root, home = tmp_path / "work", tmp_path / "home"
    root.mkdir()
    written(root, main="test 1 = 1", lemma="test 1 = 1")

    async def scenario() -> None:
        async with derived(home, root) as derivation:
            assert await derivation.gather(1) is True
        async with derived(home, root) as derivation:
            assert await derivation.gather(1) is True, "the same iteration, in another process"
            assert await derivation.gather(2) is False

    asyncio.run(scenario())
