"""A team's policy in the database that machines share."""

from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec
import pytest

import mainspring
from mainspring.app.dispatch import CommandCall, begin_command, local_permission
from mainspring.app.operations.policy import set_policy, sign_policy
from mainspring.app.operations.workers import QueuePlace, enqueue, fleet
from mainspring.app.stores import shared_files
from mainspring.app.team import STORED
from mainspring.errors import AccessRefused, UsageError
from mainspring.models.scripted import Script, ScriptedModel
from mainspring.people.signing import SignatureInvalid
from mainspring.settings import Config, load_config
from tests.people.teams import PEOPLE
from tests.postgres import postgres
from tests.stage import says


def machine(home: Path, url: str, user: str) -> Config:
    config = load_config({"MAINSPRING_HOME": str(home), "HOME": str(home), "MAINSPRING_STORE": url})
    origin = msgspec.structs.replace(config.origin, user=user, face="cli")
    return msgspec.structs.replace(config, origin=origin, system=home / "etc")


def run(config: Config) -> None:
    call = CommandCall(operation="run", permission=local_permission("run"), folder="/srv/web")
    asyncio.run(begin_command(config, call))


def test_a_policy_that_one_machine_sets_holds_on_the_others_and_is_missed_when_it_is_gone(
    tmp_path: Path,
) -> None:
    url = asyncio.run(postgres().new_store()).url
    here, there = machine(tmp_path / "a", url, "admin"), machine(tmp_path / "b", url, "viewer")
    run(there)
    file = tmp_path / "policy.toml"
    file.write_text(f"serial = 1\n{PEOPLE.replace('local:admin', 'local:other')}")
    sign_policy(here, file)
    with pytest.raises(UsageError, match="would not be an admin any more"):
        asyncio.run(set_policy(here, file))
    run(there)
    file.write_text(f"serial = 1\n{PEOPLE}")
    with pytest.raises(SignatureInvalid, match=f"{file} is not signed"):
        asyncio.run(set_policy(here, file))
    sign_policy(here, file)
    asyncio.run(set_policy(here, file))
    run(here)
    with pytest.raises(AccessRefused, match="`run` takes the role developer, not viewer"):
        run(there)
    assert shared_files(here).remove(STORED)
    with pytest.raises(AccessRefused, match="it is gone"):
        run(there)


def put_back(config: Config, file: Path, address: str = "") -> None:
    permission = local_permission("policy set")
    call = CommandCall(operation="policy set", permission=permission, address=address)
    asyncio.run(begin_command(config, call))
    asyncio.run(set_policy(config, file))


def test_an_admin_puts_a_policy_back_that_is_gone_or_was_changed_and_nobody_else_another(
    tmp_path: Path,
) -> None:
    url = asyncio.run(postgres().new_store()).url
    here, there = machine(tmp_path / "a", url, "admin"), machine(tmp_path / "b", url, "viewer")
    file, theirs = tmp_path / "policy.toml", tmp_path / "theirs.toml"
    file.write_text(f"serial = 1\n{PEOPLE}")
    sign_policy(here, file)
    put_back(here, file)
    with pytest.raises(AccessRefused, match="takes the role admin"):
        put_back(there, file)
    theirs.write_text(f"serial = 2\n{PEOPLE.replace('local:admin', 'local:viewer')}")
    sign_policy(there, theirs)
    for damaged in (None, b"serial = 2\n"):
        assert shared_files(here).remove(STORED)
        if damaged:
            shared_files(here).write(STORED, damaged)
        with pytest.raises(AccessRefused, match=r"is gone|is not signed"):
            run(here)
        with pytest.raises(AccessRefused, match=r"is gone|is not signed"):
            put_back(here, file, address="10.0.0.7")
        with pytest.raises(UsageError, match="local:viewer would not be an admin"):
            put_back(there, file)
        with pytest.raises(SignatureInvalid, match="whom this machine does not know"):
            put_back(there, theirs)
        put_back(here, file)
        run(here)


def test_queues_show_only_sessions_of_projects_that_somebody_may_look_at(tmp_path: Path) -> None:
    url = asyncio.run(postgres().new_store()).url
    here, there = machine(tmp_path / "a", url, "admin"), machine(tmp_path / "b", url, "viewer")
    folder, file = tmp_path / "work", tmp_path / "policy.toml"
    folder.mkdir()
    closed = f'[[project]]\nname = "payroll"\npaths = ["{folder}"]\nclosed = true\n'
    file.write_text(f"serial = 1\n{PEOPLE}{closed}")
    sign_policy(here, file)

    async def queued() -> tuple[str, list[tuple[str, ...]]]:
        await set_policy(here, file)
        model = ScriptedModel(Script((says("done"),)))
        async with mainspring.open(folder, model=model, config=here) as session:
            await session.ask("do it")
        await enqueue(here, session.id, QueuePlace())
        found = [await fleet(config) for config in (here, there)]
        return session.id, [tuple(each.session for each in one.sessions) for one in found]

    session, shown = asyncio.run(queued())
    assert shown == [(session,), ()]
