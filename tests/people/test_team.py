"""A team's policy: who it lets do what, what it holds everybody to, and that nobody changes it unnoticed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

import mainspring
from mainspring.app.dispatch import CommandCall, begin_command, local_permission
from mainspring.app.operations.approvals import judge_call, judge_command, list_grants, revoke_grant
from mainspring.app.operations.audit import audit_lines
from mainspring.app.operations.policy import PolicyQuestion, ask_policies, show_policies, sign_policy
from mainspring.app.operations.schedules import forget_schedule, keep_schedule, list_schedules
from mainspring.app.operations.sessions import find_session, list_sessions
from mainspring.app.project_settings import in_project, project_file
from mainspring.app.stores import shared_files
from mainspring.approvals.grants import Grant, GrantFile
from mainspring.errors import AccessRefused, ConfigError, UnknownSession
from mainspring.goals.schedules import Schedule
from mainspring.models.scripted import Script, ScriptedModel
from mainspring.people.audit import AuditLine
from mainspring.people.logins import person_who
from mainspring.people.persons import Person
from mainspring.people.roles import decide_in
from mainspring.people.settings import LoginSettings
from mainspring.people.signing import new_key
from mainspring.people.team import parse_team
from mainspring.serve.server import while_seen
from mainspring.settings import Config
from tests.people.teams import PEOPLE, Team
from tests.stage import says


@pytest.fixture
def team(tmp_path: Path) -> Team:
    return Team(tmp_path)


def give(config: Config, operation: str, folder: Path | str = "", session: str = "") -> None:
    call = CommandCall(
        operation=operation, permission=local_permission(operation), folder=str(folder), session=session
    )
    asyncio.run(begin_command(config, call))


def log_of(config: Config) -> list[AuditLine]:
    async def read() -> list[AuditLine]:
        return [each async for each in audit_lines(config)]

    return asyncio.run(read())


def work(config: Config, folder: Path, **options: Any) -> str:
    async def begin() -> str:
        opened = mainspring.open(
            folder, model=ScriptedModel(Script((says("done"),))), config=config, **options
        )
        async with opened as session:
            await session.ask("do it")
            return session.id

    return asyncio.run(begin())


def tampered(text: str) -> str:
    return text.replace("local:reviewer", "local:intruder")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (tampered, "was changed after it was signed"),
        (lambda text: text + "# more\n", "is not signed"),
        (lambda text: text.rpartition("# signed")[0], "is not signed"),
        (lambda text: text.replace("# signed by ed25519:", "# signed by ed25519:AAAA"), "was changed after"),
        (lambda _: None, "is not there"),
    ],
)
def test_a_policy_that_was_tampered_with_lets_nobody_do_anything_and_that_is_on_record(
    team: Team, change: Callable[[str], str | None], said: str
) -> None:
    team.signs(PEOPLE)
    give(team.config("developer"), "run", team.workspace)
    changed = change(team.file.read_text())
    if changed is None:
        team.file.unlink()
    else:
        team.file.write_text(changed)
    with pytest.raises(AccessRefused, match=said):
        give(team.config("admin"), "run", team.workspace)
    last = log_of(team.config("admin"))[-1].entry
    assert (last.decision, last.rule) == ("refused", "policy not valid")
    with pytest.raises(ConfigError, match=said):
        show_policies(team.config("admin"), team.workspace)


def test_an_older_policy_another_signer_and_a_change_without_a_number_are_noticed(team: Team) -> None:
    team.signs(PEOPLE)
    first = team.file.read_text()
    give(team.config("developer"), "run", team.workspace)
    team.signs(PEOPLE.replace("local:developer", "local:nobody"))
    with pytest.raises(AccessRefused, match=r"local:developer .* has no role here"):
        give(team.config("developer"), "run", team.workspace)
    team.file.write_text(first)
    with pytest.raises(AccessRefused, match="is number 1, and number 2 was in force"):
        give(team.config("developer"), "run", team.workspace)
    team.signs(PEOPLE, serial=2)
    with pytest.raises(AccessRefused, match="has changed and still is number 2"):
        give(team.config("developer"), "run", team.workspace)
    team.signs(PEOPLE, serial=3)
    give(team.config("developer"), "run", team.workspace)
    other = team.home / "other.key"
    other.write_text(new_key())
    team.file.write_text(team.file.read_text().replace("serial = 3", "serial = 4"))
    sign_policy(team.config("admin"), team.file, other)
    with pytest.raises(AccessRefused, match="whom this machine does not know"):
        give(team.config("developer"), "run", team.workspace)


def test_a_policy_that_settings_no_longer_name_still_holds_and_is_missed(team: Team, tmp_path: Path) -> None:
    team.signs(PEOPLE)
    give(team.config("developer"), "run")
    for settings in ("", f'[policy]\nfile = "{tmp_path / "other.toml"}"\n'):
        (team.home / "config.toml").write_text(settings)
        if settings:
            (tmp_path / "other.toml").write_text('serial = 1\n[roles]\nadmin = ["*"]\n')
            sign_policy(team.config("viewer"), tmp_path / "other.toml")
        with pytest.raises(AccessRefused, match="takes the role developer, not viewer"):
            give(team.config("viewer"), "run")
    team.file.unlink()
    with pytest.raises(AccessRefused, match=r"There was a policy of the team at .* and it is gone"):
        give(team.config("viewer"), "run")


def test_the_policy_of_the_machine_is_missed(team: Team) -> None:
    (team.home / "config.toml").write_text("")
    machine = team.home / "etc" / "policy.toml"
    machine.parent.mkdir()
    machine.write_text(f"serial = 1\n{PEOPLE}")
    sign_policy(team.config("admin"), machine)
    with pytest.raises(AccessRefused, match="not viewer"):
        give(team.config("viewer"), "run")
    machine.unlink()
    with pytest.raises(AccessRefused, match="and it is gone"):
        give(team.config("viewer"), "run")


def test_a_policy_names_who_may_sign_the_next_one(team: Team) -> None:
    other = team.home / "other.key"
    team.signs(PEOPLE)
    key = sign_policy(team.config("admin"), team.file, other)
    team.signs(f'keys = ["{key}"]\n{PEOPLE}')
    give(team.config("developer"), "run", team.workspace)
    team.signs(PEOPLE)
    sign_policy(team.config("admin"), team.file, other)
    give(team.config("developer"), "run", team.workspace)


CLOSED = """
[groups]
core = ["local:ada", "ada@example.org", "claim:staff"]
[roles]
admin = ["local:admin"]
developer = ["@core"]
viewer = ["*"]
[[project]]
name = "payroll"
paths = ["/srv/payroll", "/srv/payroll-*"]
closed = true
roles.reviewer = ["local:ada"]
[[project]]
name = "web"
paths = ["/srv/web"]
roles.viewer = ["@core"]
"""


@pytest.mark.parametrize(
    ("person", "folder", "role"),
    [
        ("local:ada", "/srv", "developer"),
        ("local:ada", "/srv/payroll", "reviewer"),
        ("local:ada", "/srv/payroll/deep/er", "reviewer"),
        ("local:ada", "/srv/payroll-2", "reviewer"),
        ("local:ada", "/srv/payrolls", "developer"),
        ("local:ada", "/srv/web", "viewer"),
        ("local:eve", "/srv/payroll", None),
        ("local:eve", "/srv/web", "viewer"),
        ("local:admin", "/srv/payroll", "admin"),
        ("local:ada@example.org", "/srv", "viewer"),
        ("ada@example.org", "/srv", "developer"),
        ("service:ada", "/srv", "viewer"),
    ],
)
def test_a_project_says_more_about_its_people_than_the_rest_of_the_policy(
    person: str, folder: str, role: str | None
) -> None:
    policy = parse_team(f"serial = 1\n{CLOSED}", "policy.toml")
    who = Person(name=person, known_by="a test")
    assert policy.role_of(who, policy.project_of(folder))[0] == role


def test_settings_do_not_choose_which_claim_or_client_says_who_somebody_is() -> None:
    """A person may fill in their nickname at an issuer as they like, but not their verified address."""
    policy = parse_team(
        """serial = 1
issuers = ["https://login.example.org"]
clients = ["mainspring"]
[roles]
admin = ["ada@example.org"]
developer = ["claim:core"]
""",
        "policy.toml",
    )
    settings = LoginSettings(issuer="https://login.example.org", client_id="mainspring")
    claims = {"email": "eve@example.org", "email_verified": True, "nickname": "ada@example.org"}
    claims |= {"groups": ["core"], "hobbies": ["core"], "sub": "7"}

    def role(**changes: str) -> tuple[str | None, str]:
        chosen = msgspec.structs.replace(settings, **changes)
        return policy.role_of(person_who(claims, chosen), None)

    assert role() == ("developer", "[roles]")
    assert role(name_claim="nickname") == (None, "name_claim")
    assert role(groups_claim="hobbies") == (None, "groups_claim")
    assert role(client_id="a-web-page-of-eve") == (None, "clients")
    said = decide_in(
        policy,
        person_who(claims, msgspec.structs.replace(settings, name_claim="nickname")),
        "run",
        folder="",
        where="policy",
    )
    assert (said.is_allowed, "correct [login]" in said.remedy) == (False, True)


def test_groups_of_an_issuer_count_and_a_device_does_no_more_than_it_was_paired_to() -> None:
    policy = parse_team(f"serial = 1\n{CLOSED}", "policy.toml")
    staff = Person(name="eve@example.org", known_by="a test", claims=("staff",))
    assert policy.role_of(staff, None)[0] == "developer"
    assert policy.role_of(msgspec.structs.replace(staff, at_most="reviewer"), None)[0] == "reviewer"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('[roles]\nadmin = ["ada"]', "'ada' does not say who is meant"),
        ('[roles]\nadmin = ["local:"]', "does not say who is meant"),
        ('[roles]\nadmin = ["@core"]', "there is no group '@core'"),
        ('[roles]\nchief = ["*"]', "`roles.chief` is not a setting. .roles. may set: admin, "),
        ('[roles]\nadmins = ["*"]', "`roles.admins` is not a setting; did you mean `roles.admin`?"),
        ('[groups]\na = ["@b"]\nb = ["*"]', "groups hold people, not groups"),
        ('[[project]]\nname = "a"\npaths = ["web"]', "'web' is no whole path"),
        ('[[rule]]\nname = "a"\nprojects = ["web"]', "there is no project 'web'"),
        ('[[rule]]\nname = "a"\nmodes = ["fast"]', "there is no mode 'fast'"),
        ('[[rule]]\nname = "a"\n[[rule]]\nname = "a"', "are called 'a'"),
        ('[[rule]]\nname = "a"\npeople = ["role:chief"]', "there is no role 'chief'"),
        ('[[rule]]\nname = "a"\n[[rule.call]]\nanswer = "allow"\ntool = "shell"', "can only ask or deny"),
        ('[[rule]]\nname = "a"\n[[rule.call]]\nanswer = "deny"\ncommand = "a \'b"', "quotes"),
        ('[[rule]]\nname = "a"\nperson_day_usd = -1', "person_day_usd"),
    ],
)
def test_a_policy_that_says_what_cannot_be_is_not_signed(team: Team, text: str, said: str) -> None:
    team.file.write_text(f"serial = 1\n{text}\n")
    with pytest.raises(ConfigError, match=said):
        sign_policy(team.config("admin"), team.file)


def test_sessions_of_a_closed_project_are_not_there_for_others(team: Team) -> None:
    folder = team.workspace
    other = folder.parent / "other"
    other.mkdir()
    project = f'[[project]]\nname = "payroll"\npaths = ["{folder}"]\nclosed = true\n'
    team.signs(PEOPLE + project + 'roles.developer = ["local:ada"]\n')
    hidden, seen = work(team.config("ada"), folder), work(team.config("developer"), other)

    def listed(user: str) -> set[str]:
        return {row.id for row in asyncio.run(list_sessions(team.config(user)))}

    assert listed("admin") == {hidden, seen}
    assert (listed("ada"), listed("developer")) == ({hidden}, {seen})
    with pytest.raises(UnknownSession, match=f"No session id begins with {hidden}"):
        asyncio.run(find_session(team.config("developer"), hidden))
    for length in range(1, len(hidden)):
        prefix = hidden[:length]
        if seen.startswith(prefix):
            assert asyncio.run(find_session(team.config("developer"), prefix)) == seen
        else:
            with pytest.raises(UnknownSession, match=f"^No session id begins with {prefix}[.]"):
                asyncio.run(find_session(team.config("developer"), prefix))
    with pytest.raises(UnknownSession, match=f"No session id begins with {hidden}"):
        give(team.config("developer"), "show", folder, hidden)
    assert log_of(team.config("admin"))[-1].entry.decision == "refused"
    give(team.config("ada"), "sessions", other)


def test_a_stream_ends_when_whoever_asked_for_it_may_no_longer_see_its_session(team: Team) -> None:
    team.signs(PEOPLE)
    session = work(team.config("developer"), team.workspace)

    async def frames() -> AsyncGenerator[bytes]:
        yield b"one"
        team.signs(PEOPLE.replace('"local:viewer", ', ""))
        yield b"two"

    async def seen() -> list[bytes]:
        config = team.config("viewer")
        return [each async for each in while_seen(config, session, frames(), every_s=0)]

    assert asyncio.run(seen()) == [b"one"]


def test_a_folder_is_the_one_that_it_really_is(team: Team) -> None:
    closed = team.workspace.parent / "closed"
    closed.mkdir()
    (team.workspace / "link").symlink_to(closed)
    team.signs(
        f'''[[project]]
name = "open"
paths = ["{team.workspace}"]
roles.developer = ["local:developer"]
[[project]]
name = "payroll"
paths = ["{closed}"]
closed = true
'''
    )
    config = team.config("developer")
    give(config, "goal start", team.workspace)
    for folder in (team.workspace / "link", f"{team.workspace}/../closed", f"{team.workspace}/link/deeper"):
        with pytest.raises(AccessRefused, match="has no role in project payroll"):
            give(config, "goal start", folder)
    give(config, "context")
    call = CommandCall(operation="context", permission=local_permission("context"), looks_at=str(closed))
    with pytest.raises(AccessRefused, match="has no role in project payroll"):
        asyncio.run(begin_command(config, call))


def test_schedules_of_a_closed_project_are_shown_to_and_forgotten_by_its_people_only(team: Team) -> None:
    project = f'[[project]]\nname = "payroll"\npaths = ["{team.workspace}"]\nclosed = true\n'
    team.signs(PEOPLE + project + 'roles.viewer = ["local:viewer"]\n')

    def listed(user: str) -> int:
        return len(asyncio.run(list_schedules(team.config(user))))

    made = Schedule(cron="@daily", goal="pay", folder=str(team.workspace), arguments=(), mode="plan", by="x")
    kept = keep_schedule(team.config("admin"), made).schedule
    assert (listed("admin"), listed("viewer"), listed("developer")) == (1, 1, 0)
    for user in ("viewer", "developer"):
        with pytest.raises(AccessRefused, match="in project payroll"):
            forget_schedule(team.config(user), kept.id)
    assert forget_schedule(team.config("admin"), kept.id) == kept


def test_grants_of_a_closed_project_are_shown_to_and_taken_back_by_its_people_only(team: Team) -> None:
    project = f'[[project]]\nname = "payroll"\npaths = ["{team.workspace}"]\nclosed = true\n'
    team.signs(PEOPLE + project + 'roles.viewer = ["local:viewer"]\n')
    grant = Grant(id="", scope="project", tool="shell", command="make pay", workspace=str(team.workspace))
    kept = GrantFile(shared_files(team.config("admin"))).add(grant)
    for user, count in (("admin", 1), ("viewer", 1), ("developer", 0)):
        assert len(list_grants(team.config(user))) == count
    for user in ("viewer", "developer"):
        with pytest.raises(AccessRefused, match="in project payroll"):
            revoke_grant(team.config(user), kept.id)
    revoke_grant(team.config("admin"), kept.id)
    assert list_grants(team.config("admin")) == ()


@pytest.mark.parametrize("table", ['[store]\nurl = ""', '[login]\nname_claim = "nickname"', "[audit]"])
def test_settings_of_a_project_do_not_lead_past_the_policy(team: Team, table: str) -> None:
    config = team.config("developer")
    file = project_file(config, team.workspace)
    file.parent.mkdir(parents=True)
    file.write_text(f"{table}\n# of a project\n" if "=" in table else f"{table}\nrequired = false\n")
    with pytest.raises(ConfigError, match="is for all projects together"):
        in_project(config, team.workspace)


def test_a_program_says_nothing_to_a_session_that_its_person_may_only_look_at_or_answer(team: Team) -> None:
    team.signs(PEOPLE)
    session = work(team.config("developer"), team.workspace)
    for user in ("viewer", "reviewer"):
        config = team.config(user)
        for told in (mainspring.say(session, "x", config=config), mainspring.stop(session, config=config)):
            with pytest.raises(AccessRefused, match="may not change session"):
                asyncio.run(told)
        origin = msgspec.structs.replace(config.origin, face="python")
        with pytest.raises(AccessRefused, match="may not"):
            work(msgspec.structs.replace(config, origin=origin), team.workspace, session=session)


def test_who_may_only_look_opens_no_session_in_any_way(team: Team) -> None:
    team.signs(PEOPLE)
    session = work(team.config("developer"), team.workspace)
    for options in ({}, {"session": session}):
        with pytest.raises(AccessRefused, match=r"local:viewer may not"):
            work(team.config("viewer"), team.workspace, **options)
    with pytest.raises(AccessRefused, match="`run` takes the role developer, not reviewer"):
        work(team.config("reviewer"), team.workspace)


RULES = """
[[rule]]
name = "careful"
reason = "we read first"
people = ["role:developer"]
modes = ["plan", "ask", "edits"]
models = ["scripted*"]
tools = ["read", "shell", "fetch"]
hosts = ["*.example.org"]
[[rule.call]]
answer = "deny"
command = "git push"
reason = "CI pushes"
match = ["git push origin"]
[[rule.call]]
answer = "ask"
path = "deploy/**"
"""


def test_settings_and_grants_of_a_person_only_tighten_what_the_team_says(team: Team) -> None:
    team.signs(PEOPLE + RULES)
    config, admin = team.config("developer"), team.config("admin")
    (team.home / "approvals.toml").write_text('[[rule]]\nanswer = "allow"\ncommand = "git *"\n')
    given: dict[str, Any] = {"folder": team.workspace, "mode": "yolo", "max_cost_usd": 5.0}
    pushed = judge_command(config, "cd x && git push --force", **given)
    assert (pushed.answer, pushed.reason) == ("deny", "CI pushes")
    assert "rule careful, call 1" in pushed.rule
    assert judge_command(admin, "git push", **given).answer == "allow"
    assert judge_command(config, "git status", **given).answer == "allow"
    loose = judge_command(config, "git status", **given, is_contained=False)
    assert (loose.answer, "the network may not be reached" in loose.reason) == ("deny", True)
    for tool, answer in (("read", "allow"), ("notes", "deny")):
        judged = judge_call(config, tool, {}, effect="write", **given)
        assert judged.answer == answer
    assert "(we read first)" in judge_call(config, "notes", {}, effect="write", **given).reason


def test_a_mode_and_a_model_that_a_rule_does_not_name_are_refused_with_the_rule(team: Team) -> None:
    team.signs(PEOPLE + RULES.replace("scripted*", "other"))
    with pytest.raises(AccessRefused, match=r"model scripted may not be used.*rule careful"):
        work(team.config("developer"), team.workspace)
    team.signs(PEOPLE + RULES)
    with pytest.raises(AccessRefused, match="mode auto may not be used; these may: plan, ask, edits"):
        work(team.config("developer"), team.workspace, mode="auto")
    with pytest.raises(AccessRefused, match="engine codex may not be used; these may: builtin"):
        work(team.config("developer"), team.workspace, engine="codex")
    session = work(team.config("developer"), team.workspace)
    rows = asyncio.run(list_sessions(team.config("admin")))
    assert [row.id for row in rows] == [session]


def test_the_usual_mode_becomes_the_freest_that_may_be_used(team: Team) -> None:
    team.signs(PEOPLE + RULES)

    async def mode() -> str:
        model = ScriptedModel(Script((says("done"),)))
        async with mainspring.open(team.workspace, model=model, config=team.config("developer")) as session:
            await session.ask("do it")
            return session.state.mode

    assert asyncio.run(mode()) == "edits"


def test_policy_check_says_which_rule_decided(team: Team) -> None:
    team.signs(PEOPLE + RULES)
    config = team.config("developer")

    def ask(operation: str, **more: Any) -> tuple[bool, str]:
        asked = PolicyQuestion(operation=operation, folder=str(team.workspace), **more)
        answer = ask_policies(config, asked)
        return answer.is_allowed, answer.rule.partition("), ")[2] or answer.rule

    assert ask("run") == (True, "[roles]: developer")
    assert ask("run", person="local:viewer") == (False, "[roles]: viewer")
    assert ask("run", mode="yolo") == (False, "rule careful")
    assert ask("run", mode="yolo", person="local:admin") == (True, "[roles]: admin")
    assert ask("run", host="evil.example.com") == (False, "rule careful")
    assert ask("run", host="www.example.org") == (True, "[roles]: developer")
    assert ask("policy set") == (False, "[roles]: developer")
    assert ask("config set", person="local:nobody") == (True, "own machine")
