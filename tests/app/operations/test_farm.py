"""A farm in this process: what holds in the workspace holds in the copies that attempts work in."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import msgspec
import pytest

from mainspring.app.hook_files import list_hook_files
from mainspring.app.operations.farm import Farm, FarmHow, FarmPlan, resume_farm, start_farm
from mainspring.app.operations.sessions import journal_of
from mainspring.app.operations.trust import approve
from mainspring.app.project_settings import project_file
from mainspring.context.history import read_all
from mainspring.events import AttemptEnded, AttemptStarted, CallEnded, Limits
from mainspring.models.scripted import Script, ScriptedCall, ScriptedReply
from mainspring.settings import Config
from mainspring.testing.server import HostedModelServer
from tests.agents.family import settings
from tests.workspace.test_worktrees import git


def repository(tmp_path: Path) -> Path:
    place = tmp_path / "project"
    place.mkdir()
    (place / "customers.csv").write_text("the customers\n")
    denies = {"matcher": "Write", "hooks": [{"type": "command", "command": "echo never >&2; exit 2"}]}
    (place / ".mainspring").mkdir()
    (place / ".mainspring" / "hooks.json").write_text(json.dumps({"hooks": {"PreToolUse": [denies]}}))
    git(place, "init", "-q", "-b", "main")
    git(place, "add", "-A")
    git(place, "commit", "-qm", "first")
    return place


def scripted(tmp_path: Path, *replies: ScriptedReply) -> str:
    file = tmp_path / "script.json"
    file.write_bytes(msgspec.json.encode(Script(replies=replies)))
    return f"scripted@{file}"


def attempted(config: Config, farm: Farm) -> list[CallEnded]:
    async def read() -> list[CallEnded]:
        async with journal_of(config, farm.attempts[0].started.session) as journal:
            found = await read_all(journal, kinds=("CallEnded",))
        return [each.event for each in found if isinstance(each.event, CallEnded)]

    return asyncio.run(read())


def test_an_attempt_has_the_hooks_and_the_settings_of_the_project(tmp_path):
    place, config = repository(tmp_path), settings(tmp_path / "home", XDG_CACHE_HOME=str(tmp_path / "cache"))
    for each in list_hook_files(place, config):
        if each.file.subject:
            approve(config, each.file.subject)
    file = project_file(config, place)
    file.parent.mkdir(parents=True)
    file.write_text('[sandbox]\nhide = ["customers.csv"]\n')
    calls = (
        ScriptedCall("read", {"path": "customers.csv"}),
        ScriptedCall("write", {"path": "new.txt", "content": "new\n"}),
    )
    model = scripted(tmp_path, ScriptedReply(calls=calls), ScriptedReply(text="Done."))
    plan = FarmPlan(task="Do it.", attempts=1, models=(model,))
    farm = asyncio.run(start_farm(config, place, plan, FarmHow(mode="auto")))
    read, wrote = attempted(config, farm)
    assert "the customers" not in read.output
    assert (read.outcome, wrote.outcome) == ("error", "refused")


class Killed(Exception):
    """Stands for the end of the process that began a farm."""


@pytest.mark.parametrize(("is_allowed", "ended"), [(False, "failed"), (True, "done")])
def test_a_resumed_farm_lets_models_without_a_price_work_only_if_it_was_begun_so(
    tmp_path: Path, is_allowed: bool, ended: str
) -> None:
    place = repository(tmp_path)
    config = settings(tmp_path / "home", XDG_CACHE_HOME=str(tmp_path / "cache"))
    begun: list[str] = []

    def killed(change: AttemptStarted | AttemptEnded) -> None:
        del change
        begun.extend(path.name for path in (config.home / "sessions").iterdir())
        raise Killed

    done = ScriptedReply(text="Done.")
    how = FarmHow(mode="auto", allow_unpriced=is_allowed, on_change=killed)
    with HostedModelServer(Script(replies=(done,))) as server:
        models = (scripted(tmp_path, done), f"openai-compatible@{server.url}#unpriced")
        plan = FarmPlan(task="Do it.", models=models, limits=Limits(max_cost_usd=1.0))
        with pytest.raises(ExceptionGroup):
            asyncio.run(start_farm(config, place, plan, how))
        farm = asyncio.run(resume_farm(config, begun[0], FarmHow(mode="auto")))
    ends = [each.ended for each in farm.attempts]
    assert [end and end.ending for end in ends] == ["done", ended], ends
    assert bool(server.seen) == is_allowed
