"""The log of commands: what is in it, what is never in it, and that nobody changes it unnoticed."""

from __future__ import annotations

import asyncio
import json
import os
import resource
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import msgspec
import pytest

from mainspring.app.dispatch import CommandCall, begin_command, dispatched, local_permission
from mainspring.app.operations.audit import anchor_audit, audit_lines, prune_audit, verify_audit
from mainspring.app.stores import audit_log_of
from mainspring.cli.commands import COMMANDS, mainspring
from mainspring.errors import AccessRefused, JournalError, JournalUnwritable
from mainspring.journal.chained_log import LogHead, next_lines
from mainspring.people.audit import AuditEntry, AuditLine
from mainspring.people.audit_exports import exported
from mainspring.people.operations import OPERATIONS
from mainspring.people.roles import Permission
from mainspring.serve.api import ROUTES
from mainspring.serve.mcp.tools import TOOLS
from mainspring.settings import Config, load_config

SECRET = "sk-proj-abcdefghijklmnopqrstuvwxyz012345"


def config_in(folder: Path, **audit: Any) -> Config:
    config = load_config({"MAINSPRING_HOME": str(folder / "home"), "HOME": str(folder)})
    return msgspec.structs.replace(
        config,
        settings=msgspec.structs.replace(
            config.settings, audit=msgspec.structs.replace(config.settings.audit, **audit)
        ),
    )


def give(config: Config, operation: str, *, is_allowed: bool = True, **arguments: Any) -> None:
    permission = local_permission(operation) if is_allowed else Permission(is_allowed=False, rule="a test")
    call = CommandCall(operation=operation, permission=permission, arguments=arguments)
    asyncio.run(begin_command(config, call))


def entries(config: Config) -> list[AuditLine]:
    async def read() -> list[AuditLine]:
        return [each async for each in audit_lines(config)]

    return asyncio.run(read())


def problems(config: Config, against: Path | None = None) -> tuple[str, ...]:
    return asyncio.run(verify_audit(config, against)).problems


def filled(folder: Path, count: int = 6) -> tuple[Config, Path]:
    config = config_in(folder)
    for number in range(count):
        give(config, "config set", key="caps.turn.steps", value=str(number))
    assert problems(config) == ()
    return config, config.home / "audit" / "log.jsonl"


def _swap(lines: list[bytes]) -> list[bytes]:
    return [*lines[:2], lines[3], lines[2], *lines[4:]]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda lines: [lines[0].replace(b'"0"', b'"9"'), *lines[1:]], "entry 1 was changed"),
        (lambda lines: [*lines[:3], lines[3].replace(b'"3"', b'"9"'), *lines[4:]], "entry 4 was changed"),
        (lambda lines: [*lines[:-1], lines[-1].replace(b'"5"', b'"9"')], "entry 6 was changed"),
        (lambda lines: lines[:-1], "its end was cut off"),
        (lambda lines: [], "its end was cut off"),
        (lambda lines: [*lines[:2], *lines[3:]], "entries 3 to 3 are missing"),
        (lambda lines: lines[2:], "no checkpoint says that they were dropped"),
        (_swap, "entries 3 to 3 are missing"),
        (lambda lines: [*lines[:2], b"{}\n", *lines[2:]], "a line that is no entry"),
        (lambda lines: [*lines, lines[-1]], "lines were moved or repeated"),
        (
            lambda lines: [*lines[:2], b'{"body":' + b"[" * 99_999 + b"\n", *lines[2:]],
            "a line that is no entry",
        ),
    ],
)
def test_tampering_truncation_and_reordering_are_noticed(
    tmp_path: Path, change: Callable[[list[bytes]], list[bytes]], said: str
) -> None:
    config, path = filled(tmp_path)
    lines = path.read_bytes().splitlines(keepends=True)
    changed = change(lines)
    assert changed != lines
    path.write_bytes(b"".join(changed))
    assert any(said in each for each in problems(config)), problems(config)


def test_a_gap_stays_visible_after_further_commands(tmp_path: Path) -> None:
    config, path = filled(tmp_path)
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:3]))
    give(config, "config unset", key="mode")
    assert "entries 4 to 6 are missing" in problems(config)
    assert entries(config)[-1].seq == 7


def test_a_line_that_a_crash_left_half_written_is_cut_off(tmp_path: Path) -> None:
    config, path = filled(tmp_path, 2)
    with path.open("ab") as file:
        file.write(b'{"seq":3,"time_us"')
    give(config, "config unset", key="mode")
    assert problems(config) == ()
    assert [each.seq for each in entries(config)] == [1, 2, 3]


def test_a_log_that_was_rewritten_whole_is_found_out_by_what_was_kept_elsewhere(tmp_path: Path) -> None:
    config, _ = filled(tmp_path)
    export = tmp_path / "export.jsonl"
    export.write_bytes(b"".join(exported(each, "jsonl") + b"\n" for each in entries(config)))
    give(config, "config unset", key="mode")
    assert problems(config, export) == ()
    for each in (config.home / "audit").iterdir():
        each.unlink()
    for number in range(7):
        give(config, "config set", key="caps.turn.steps", value=f"forged {number}")
    assert problems(config) == ()
    assert "entry 1 is not the one that was there before" in problems(config, export)


def test_a_daily_anchor_finds_it_out_too(tmp_path: Path) -> None:
    config, _ = filled(tmp_path, 2)
    journal = msgspec.structs.replace(config.settings.journal, daily_anchor=str(tmp_path / "anchors"))
    config = msgspec.structs.replace(
        config, settings=msgspec.structs.replace(config.settings, journal=journal)
    )
    asyncio.run(anchor_audit(config))
    assert problems(config) == ()
    for each in (config.home / "audit").iterdir():
        each.unlink()
    give(config, "config unset", key="mode")
    assert "entry 2, which was kept elsewhere, is missing" in problems(config)


def test_what_is_pruned_after_the_last_daily_anchor_is_still_tied_to_it(tmp_path: Path) -> None:
    config, _ = filled(tmp_path, 2)
    journal = msgspec.structs.replace(config.settings.journal, daily_anchor=str(tmp_path / "anchors"))
    config = msgspec.structs.replace(
        config, settings=msgspec.structs.replace(config.settings, journal=journal)
    )
    asyncio.run(anchor_audit(config))
    give(config, "config unset", key="mode")
    assert asyncio.run(prune_audit(config, 0)).until == 3
    assert problems(config) == ()


def test_pruning_keeps_the_chain_and_says_what_was_dropped(tmp_path: Path) -> None:
    config, path = filled(tmp_path)
    export = tmp_path / "export.jsonl"
    export.write_bytes(b"".join(exported(each, "jsonl") + b"\n" for each in entries(config)))
    pruned = asyncio.run(prune_audit(config, 0))
    assert (pruned.entries, pruned.until) == (6, 6)
    give(config, "config unset", key="mode")
    assert [(each.seq, each.entry.kind) for each in entries(config)] == [(7, "checkpoint"), (8, "asked")]
    assert problems(config, export) == ()
    assert asyncio.run(prune_audit(config, 1)).entries == 0
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(lines[1])  # without the checkpoint the beginning is missed
    assert any("no checkpoint" in each for each in problems(config))


def test_a_forged_log_that_begins_with_a_checkpoint_is_found_out_by_an_export(tmp_path: Path) -> None:
    config, path = filled(tmp_path)
    export = tmp_path / "export.jsonl"
    export.write_bytes(b"".join(exported(each, "jsonl") + b"\n" for each in entries(config)))

    def forged(dropped_seq: int) -> tuple[str, ...]:
        """A whole new log, of which the entries up to this are said to have been dropped."""
        before = LogHead(dropped_seq, "ab" * 32)
        entry = AuditEntry(
            id="x",
            kind="checkpoint",
            operation="audit prune",
            dropped_seq=before.seq,
            dropped_hash=before.hash,
        )
        (line,) = next_lines(before, [msgspec.json.encode(entry)])
        path.write_bytes(msgspec.json.encode(line) + b"\n")
        (path.parent / "head.json").write_bytes(msgspec.json.encode(LogHead(line.seq, line.hash)))
        assert problems(config) == ()
        return problems(config, export)

    assert forged(6) == ("entry 6 was dropped as another one than was there before",)
    assert "entry 6 is not the one that was there before" in forged(5)
    assert "ends with entry 6, and the log begins with 9" in forged(8)[0]


def test_a_log_that_is_not_sound_is_not_pruned(tmp_path: Path) -> None:
    config, path = filled(tmp_path)
    path.write_bytes(path.read_bytes().replace(b'"3"', b'"9"'))
    before = path.read_bytes()
    with pytest.raises(Exception, match="not sound"):
        asyncio.run(prune_audit(config, 0))
    assert path.read_bytes() == before


def test_looking_is_logged_only_when_it_is_wanted_or_refused(tmp_path: Path) -> None:
    config = config_in(tmp_path)
    give(config, "sessions")
    assert entries(config) == []
    with pytest.raises(AccessRefused):
        give(config, "sessions", is_allowed=False)
    give(config_in(tmp_path, reads=True), "sessions")
    assert [each.entry.decision for each in entries(config)] == ["refused", "allowed"]


def test_a_refusal_in_the_middle_of_a_command_is_logged_with_its_rule(tmp_path: Path) -> None:
    config = config_in(tmp_path)

    async def refused() -> None:
        call = CommandCall(operation="run", permission=local_permission("run"))
        async with dispatched(config, call):
            raise AccessRefused("Not this model.", rule="models of the policy")

    with pytest.raises(AccessRefused):
        asyncio.run(refused())
    assert [(each.entry.decision, each.entry.rule) for each in entries(config)] == [
        ("allowed", "local user: admin"),
        ("refused", "models of the policy"),
    ]


def test_no_secret_gets_into_the_log(tmp_path: Path) -> None:
    config = msgspec.structs.replace(config_in(tmp_path), environment={"MY_API_KEY": "correct horse battery"})
    give(config, "config set", key="search.key", value=SECRET)
    give(config, "config set", key="notify.channels.me.token", value="hunter2hunter2hunter2")
    give(config, "mcp add", env=["PASS=swordfish9"], header=["Authorization: Basic c3dvcmRmaXNo"])
    give(config, "run", task=f"use {SECRET} and correct horse battery", more=[{"deep": SECRET}])
    text = (config.home / "audit" / "log.jsonl").read_text()
    for secret in (SECRET, "hunter2", "swordfish9", "c3dvcmRmaXNo", "horse battery"):
        assert secret not in text
    assert "PASS" in text
    assert (config.home / "audit" / "log.jsonl").stat().st_mode & 0o077 == 0


def test_a_command_that_cannot_be_logged_is_told_or_refused(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    config = config_in(tmp_path)
    config.home.mkdir()
    (config.home / "audit").write_text("a file where the folder should be")
    give(config, "config unset", key="mode")
    assert "not in the audit log" in caplog.text
    with pytest.raises(JournalUnwritable, match="cannot be written"):
        give(config_in(tmp_path, required=True), "config unset", key="mode")


def test_processes_that_append_at_once_make_one_chain(tmp_path: Path) -> None:
    config = config_in(tmp_path)
    bodies = [b'{"id":"x","kind":"asked","operation":"run"}'] * 3

    async def append_all() -> None:
        async with asyncio.TaskGroup() as group:
            for _ in range(8):
                group.create_task(audit_log_of(config).add(bodies))

    asyncio.run(append_all())
    assert problems(config) == ()
    assert [each.seq for each in entries(config)] == list(range(1, 25))


def test_exports_are_what_other_systems_read(tmp_path: Path) -> None:
    config = config_in(tmp_path)
    with pytest.raises(AccessRefused):
        give(config, "config set", is_allowed=False, key="a=b|c", value="x\ny")
    (line,) = entries(config)
    cef = exported(line, "cef").decode()
    assert cef.startswith("CEF:0|mainspring|mainspring|")
    assert "\n" not in cef
    assert "act=refused" in cef
    assert r"a\=b|c" in cef
    ocsf = json.loads(exported(line, "ocsf"))
    assert (ocsf["class_uid"], ocsf["type_uid"], ocsf["status_id"]) == (6003, 600303, 2)
    assert ocsf["api"]["operation"] == "config set"
    assert ocsf["time"] == line.time_us // 1000
    assert ocsf["actor"]["authorizations"] == [{"decision": "refused", "policy": {"name": "a test"}}]
    assert "" not in (
        ocsf.get("status_detail"),
        *ocsf["src_endpoint"].values(),
        ocsf["actor"]["user"]["name"],
    )
    assert json.loads(exported(line, "jsonl"))["hash"] == line.hash


@pytest.mark.parametrize(("address", "field"), [("10.0.0.7", "src"), ("fe80::7", "c6a2"), ("", "")])
def test_an_export_names_an_address_where_its_kind_belongs(address: str, field: str) -> None:
    entry = AuditEntry(id="1", kind="asked", operation="login", address=address)
    line = AuditLine(seq=1, time_us=1, hash="0" * 64, entry=entry)
    cef = exported(line, "cef").decode()
    assert [name for name in ("src", "c6a2") if f" {name}=" in cef] == ([field] if field else [])
    ocsf = json.loads(exported(line, "ocsf"))
    assert ocsf["src_endpoint"] == {"name": "unknown"} | ({"ip": address} if address else {})
    assert ocsf["actor"]["authorizations"] == [{"decision": "allowed"}]


def leaves(name: str, command: click.Command) -> list[str]:
    if not isinstance(command, click.Group):
        return [name]
    below = [leaf for word, each in command.commands.items() for leaf in leaves(f"{name} {word}", each)]
    return [name, *below] if command.invoke_without_command else below


def test_every_command_route_and_tool_is_an_operation() -> None:
    context = click.Context(mainspring)
    names = set[str]()
    for name in COMMANDS:
        command = mainspring.get_command(context, name)
        assert command is not None
        names.update(leaves(name, command))
    assert names - set(OPERATIONS) == set()
    assert {each.operation for each in (*ROUTES, *TOOLS)} - set(OPERATIONS) == set()
    for route in ROUTES:
        assert route.method == "GET" or OPERATIONS[route.operation] != "see", route.path


def test_an_entry_that_the_disk_takes_half_of_is_not_in_the_log(tmp_path: Path) -> None:
    config, log = filled(tmp_path)
    config = config_in(tmp_path, required=True)
    before, (soft, hard) = log.read_bytes(), resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(before) + 50, hard))
    try:
        with pytest.raises(JournalUnwritable):
            give(config, "config set", key="mode", value="auto")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert log.read_bytes() == before
    give(config, "config set", key="mode", value="auto")
    assert problems(config) == ()


@pytest.mark.parametrize("make", [os.mkdir, os.mkfifo])
def test_a_log_that_is_no_file_hangs_nothing_and_is_told(
    tmp_path: Path, make: Callable[[Path], None], caplog: pytest.LogCaptureFixture
) -> None:
    config, log = filled(tmp_path)
    log.unlink()
    make(log)
    give(config, "config set", key="mode", value="auto")
    assert "not in the audit log" in caplog.text
    with pytest.raises(JournalError, match="cannot be read"):
        problems(config)


def test_a_command_whose_words_are_no_utf_8_is_logged(tmp_path: Path) -> None:
    config = config_in(tmp_path)
    give(config, "run", prompt="a\udcffb", attach=("\udcff",))
    assert entries(config)[0].entry.arguments == {"prompt": "a?b", "attach": ["?"]}
