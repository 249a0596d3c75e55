"""The recorder: what it writes holds no secrets, and what stands in for them is kept first."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from mainspring.catalog.sqlite import SqliteSessions
from mainspring.disk.shared_files import LocalFiles
from mainspring.events import (
    STORED,
    ApprovalGiven,
    BranchMoved,
    Compacted,
    Event,
    GoalEnded,
    GoalPaused,
    GoalSet,
    ModelChosen,
    NoteAdded,
    Origin,
    UserSaid,
)
from mainspring.secrets.recorder import Recorder
from mainspring.secrets.vault import StoredVault, Vault, open_vault

KEY = "sk-proj-" + "Zx9Qw7Er5Ty3" * 3


def with_recorder(
    folder: Path, vault: Vault, work: Callable[[Recorder], Awaitable[None]], origin: Origin | None = None
) -> list[Event]:
    """Lets `work` write a new journal; gives what is in it."""

    async def working() -> list[Event]:
        recorder = Recorder(await SqliteSessions(folder).create("s"), vault, origin)
        try:
            await work(recorder)
        finally:
            await recorder.close()
        reader = await SqliteSessions(folder).read("s")
        try:
            return [item.event for item in await reader.read()]
        finally:
            await reader.close()

    return asyncio.run(working())


def journal_bytes(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())


def test_events_are_recorded_without_secrets_and_told_as_they_were_recorded(tmp_path: Path) -> None:
    vault, told = Vault(), list[Event]()

    async def work(recorder: Recorder) -> None:
        recorder.subscribe(lambda items: told.extend(item.event for item in items))
        first, second = await recorder.record(UserSaid(text=f"use {KEY}"), NoteAdded(text="and go"))
        assert (first.seq, second.seq) == (1, 2)
        assert recorder.session == recorder.journal.session == "s"

    said, noted = with_recorder(tmp_path, vault, work)
    assert told == [said, noted]
    assert isinstance(said, UserSaid)
    assert KEY not in said.text
    assert vault.expand(said.text) == f"use {KEY}"
    assert KEY.encode() not in journal_bytes(tmp_path)


def test_a_text_is_kept_without_secrets_and_other_bytes_as_they_are(tmp_path: Path) -> None:
    async def work(recorder: Recorder) -> None:
        text = await recorder.put_blob(f"key={KEY}\n".encode())
        other = await recorder.put_blob(b"\xff\x00" + KEY.encode(), "application/octet-stream")
        hidden = await recorder.get_blob(text)
        assert KEY.encode() not in hidden
        assert recorder.vault.expand_bytes(hidden) == f"key={KEY}\n".encode()
        assert await recorder.get_blob(other) == b"\xff\x00" + KEY.encode()

    with_recorder(tmp_path, Vault(), work)


def test_nothing_is_recorded_when_what_stands_in_for_a_secret_cannot_be_kept(tmp_path: Path) -> None:
    def full(_: StoredVault) -> None:
        raise OSError("no space left")

    async def work(recorder: Recorder) -> None:
        with pytest.raises(OSError, match="no space"):
            await recorder.record(UserSaid(text=f"use {KEY}"))
        with pytest.raises(OSError, match="no space"):
            await recorder.put_blob(KEY.encode())

    assert with_recorder(tmp_path, Vault(keep=full), work) == []


def test_another_process_puts_back_what_was_hidden(tmp_path: Path) -> None:
    async def work(recorder: Recorder) -> None:
        await recorder.record(UserSaid(text=KEY))

    (said,) = with_recorder(tmp_path / "home", open_vault(LocalFiles(tmp_path), {}), work)
    assert isinstance(said, UserSaid)
    assert open_vault(LocalFiles(tmp_path), {}).expand(said.text) == KEY


ADA = Origin(user="ada", face="cli")
BEA = Origin(user="bea", token="phone", face="web")


def test_what_a_person_commanded_is_recorded_with_its_origin_and_nothing_else_is(tmp_path: Path) -> None:
    commanded: list[Event] = [
        UserSaid(text="go"),
        NoteAdded(text="mind the tests"),
        ModelChosen(model="m"),
        ApprovalGiven(call="c", arguments_sha256="", decision="allow"),
        Compacted(summary="", keep_from_seq=1, reason="asked"),
        BranchMoved(action="merged", branch="b", base="main", commit=""),
        GoalSet(text="g"),
        GoalPaused(),
        GoalEnded(ending="stopped"),
    ]
    others: list[Event] = [
        NoteAdded(text="cut off", source="mainspring"),
        ModelChosen(model="m", by="failover"),
        ApprovalGiven(call="c", arguments_sha256="", decision="expire", by="mainspring"),
        Compacted(summary="", keep_from_seq=1, reason="window"),
        BranchMoved(action="committed", branch="b", base="main", commit=""),
        GoalSet(text="g", by="nightly"),
        GoalPaused(by="signal"),
        GoalEnded(ending="done"),
    ]

    async def work(recorder: Recorder) -> None:
        await recorder.record(*commanded, *others, UserSaid(text="mine", origin=BEA))

    *recorded, last = with_recorder(tmp_path, Vault(), work, ADA)
    origins = [getattr(event, "origin", None) for event in recorded]
    assert origins == [ADA] * len(commanded) + [None] * len(others)
    assert last == UserSaid(text="mine", origin=BEA), "a command can have another origin"


def test_without_an_origin_none_is_made_up_and_its_texts_hold_no_secrets(tmp_path: Path) -> None:
    async def work(recorder: Recorder) -> None:
        await recorder.record(UserSaid(text="go"), UserSaid(text="go", origin=Origin(user=f"ada {KEY}")))

    first, second = with_recorder(tmp_path, Vault(), work)
    assert first == UserSaid(text="go")
    assert KEY not in str(second)


def test_every_kind_that_a_command_causes_can_carry_an_origin() -> None:
    kinds = {kind.__name__ for kind in STORED if "origin" in kind.__struct_fields__}
    assert kinds == {
        *(
            "SessionStarted",
            "SessionResumed",
            "UserSaid",
            "NoteAdded",
            "ApprovalAdded",
            "ApprovalGiven",
            "CommandAsked",
            "ArtifactSaved",
        ),
        *(
            "ModelChosen",
            "EffortChosen",
            "ModeChosen",
            "EngineChosen",
            "Compacted",
            "RewindStarted",
            "Undone",
        ),
        *("BranchMoved", "GoalSet", "GoalPaused", "GoalEnded", "TurnEnded"),
        *("FindingSettled", "DocsStarted", "PageJudged"),
    }
