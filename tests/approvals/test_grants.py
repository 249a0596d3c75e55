"""What a person allowed, and which answers count."""

from __future__ import annotations

import stat
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import reduce
from pathlib import Path
from typing import Any

import pytest

from mainspring.approvals import Judgement, ModePolicy, Proposed
from mainspring.approvals.answers import Consenting, Requests
from mainspring.approvals.grants import Grant, GrantFile, arguments_sha256, grants_of, offered
from mainspring.approvals.policy import LayeredPolicy
from mainspring.approvals.rules import parse
from mainspring.approvals.simulate import PastCall, counts, simulate
from mainspring.disk.shared_files import LocalFiles
from mainspring.errors import ConfigError
from mainspring.events import (
    ApprovalAsked,
    ApprovalGiven,
    CallEnded,
    CallStarted,
    Offer,
    TurnEnded,
    UserSaid,
)


def judge(proposed: Proposed, *grants: Grant, user: str = "", mode: ModePolicy | None = None) -> Judgement:
    policy = LayeredPolicy(
        mode or ModePolicy("ask"), home="/home/me", user=parse(user), grants=lambda _: grants
    )
    return policy.judge(proposed)


def shell(command: str) -> Proposed:
    return Proposed(
        tool="shell", effect="execute", command=command, arguments={"command": command}, workspace="/w"
    )


def grant(**fields: object) -> Grant:
    return Grant(**{"id": "g", "scope": "forever", "tool": "shell", **fields})


def test_a_grant_lifts_an_ask_for_its_pattern_only() -> None:
    given = grant(command="pytest")
    assert judge(shell("pytest -q"), given).rule == "grant:g"
    assert judge(shell("pytest -q; ls"), given).answer == "ask"
    assert judge(shell("pytest -q > x"), given).answer == "ask"
    assert judge(Proposed(tool="other", effect="execute", command="pytest"), given).answer == "ask"


def test_a_grant_lifts_neither_a_deny_nor_a_danger_it_does_not_name() -> None:
    given = grant(command="git push")
    assert judge(shell("git push"), given).answer == "allow"
    assert judge(shell("git push --force"), given).answer == "ask"
    assert (
        judge(shell("git push --force"), grant(command="git push", accepts=("push-force",))).answer == "allow"
    )
    assert (
        judge(shell("git push"), given, user='[[rule]]\nanswer="deny"\ncommand="git push"').answer == "deny"
    )
    assert judge(shell("rm -rf /"), grant(command="rm", accepts=("rm-root", "rm-outside"))).answer == "deny"
    assert judge(shell("git push"), given, mode=ModePolicy("plan")).answer == "deny"


def test_the_verdict_names_what_a_grant_would_have_to_accept() -> None:
    (finding,) = judge(shell("git push --force origin x")).findings
    assert finding.argv == ("git", "push", "--force", "origin", "x")
    assert finding.accepts == ("push-force",)


def test_a_grant_for_once_covers_exactly_one_call() -> None:
    call = shell("git push --force; curl x | sh")
    given = grant(scope="once", session="s", arguments_sha256=arguments_sha256(call.arguments))
    assert judge(call, given).answer == "allow"
    assert judge(shell("git push --force; curl x | sh "), given).answer == "ask"


@pytest.mark.parametrize(
    ("fields", "is_live"),
    [
        ({"scope": "forever"}, True),
        ({"scope": "session", "session": "s"}, True),
        ({"scope": "session", "session": "other"}, False),
        ({"scope": "project", "workspace": "/w"}, True),
        ({"scope": "project", "workspace": "/v"}, False),
        ({"scope": "once", "session": "s", "arguments_sha256": "x"}, True),
        ({"scope": "forever", "expires_us": 101}, True),
        ({"scope": "forever", "expires_us": 100}, False),
    ],
)
def test_scope_and_expiry_bound_a_grant(tmp_path: Path, fields: dict[str, object], is_live: bool) -> None:
    file = GrantFile(LocalFiles(tmp_path))
    file.add(grant(**fields))
    assert bool(file.live(session="s", workspace="/w", now_us=100)) == is_live


def test_grants_are_kept_listed_and_revoked(tmp_path: Path) -> None:
    file = GrantFile(LocalFiles(tmp_path / "new"))
    kept = file.add(grant(id="", command="ls"))
    assert GrantFile(LocalFiles(tmp_path / "new")).all() == (kept,)
    assert stat.S_IMODE((tmp_path / "new" / "grants.json").stat().st_mode) == 0o600
    assert file.revoke(kept.id)
    assert not file.revoke(kept.id)
    assert file.all() == ()
    assert {path.name for path in (tmp_path / "new").iterdir()} == {"grants.json", "grants.lock"}


def test_two_writers_lose_nothing(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda n: GrantFile(LocalFiles(tmp_path)).add(grant(id=str(n))), range(40)))
    assert len(GrantFile(LocalFiles(tmp_path)).all()) == 40


@pytest.mark.parametrize(
    "fields", [{"scope": "session"}, {"scope": "project"}, {"scope": "once", "session": "s"}, {"tool": ""}]
)
def test_a_grant_without_its_bound_is_not_kept(tmp_path: Path, fields: dict[str, object]) -> None:
    with pytest.raises(ConfigError):
        GrantFile(LocalFiles(tmp_path)).add(grant(**fields))


def test_a_damaged_file_of_grants_is_an_error_and_not_an_empty_one(tmp_path: Path) -> None:
    (tmp_path / "grants.json").write_text("[{")
    with pytest.raises(ConfigError):
        GrantFile(LocalFiles(tmp_path)).all()


def test_the_hash_is_of_the_canonical_arguments() -> None:
    assert arguments_sha256('{"a": 1, "b": [2]}') == arguments_sha256({"b": [2], "a": 1})
    assert arguments_sha256('{"a": 1}') != arguments_sha256('{"a": 2}')
    assert arguments_sha256("{not json") != arguments_sha256("{not  json")


ARGUMENTS = '{"x": 1}'
HASH = arguments_sha256(ARGUMENTS)
ASKED = ApprovalAsked(call="c", tool="t", arguments=ARGUMENTS, arguments_sha256=HASH)
ALLOW = ApprovalGiven(call="c", arguments_sha256=HASH, decision="allow")


def requests_of(events: Iterable[Consenting]) -> Requests:
    return reduce(Requests.after, events, Requests())


def test_an_answer_to_an_open_request_counts() -> None:
    assert requests_of([ASKED]).refusal(ALLOW) == ""


@pytest.mark.parametrize(
    ("events", "said"),
    [
        ([], "nothing like it"),
        ([ASKED, ALLOW], "answered already"),
        ([ASKED, UserSaid(text="no, wait")], "abandoned"),
        ([ASKED, TurnEnded(turn=1, ending="interrupted")], "turn has ended"),
        ([ASKED, CallEnded(call="c", outcome="cancelled")], "no longer waiting"),
        ([ASKED, ALLOW, CallStarted(call="c", tool="t")], "answered already"),
        (
            [ApprovalAsked(call="c", tool="t", arguments="{}", arguments_sha256=arguments_sha256("{}"))],
            "other arguments",
        ),
        ([ApprovalAsked(call="c", tool="t", arguments="{}", arguments_sha256=HASH)], "does not fit its hash"),
    ],
)
def test_a_stale_replayed_double_or_late_answer_is_refused(events: list[Consenting], said: str) -> None:
    assert said in requests_of(events).refusal(ALLOW)


def test_a_call_asked_again_can_be_answered_again() -> None:
    assert requests_of([ASKED, ALLOW, ASKED]).refusal(ALLOW) == ""


def test_a_blocked_turn_keeps_its_requests_open() -> None:
    assert requests_of([ASKED, TurnEnded(turn=1, ending="blocked")]).refusal(ALLOW) == ""


@pytest.mark.parametrize(
    ("offers", "answer", "said"),
    [
        ((Offer(command="ls $"),), {"scope": "project", "pattern": "ls *"}, ""),
        ((Offer(command="ls $"),), {"scope": "project", "pattern": "ls 'x"}, "quotes"),
        ((Offer(path="/w/a"),), {"scope": "session", "pattern": "/w/it's"}, ""),
        ((Offer(),), {"scope": "session", "pattern": "x"}, "names its arguments"),
        ((), {"scope": "session", "pattern": "x"}, "only as it is"),
        ((), {"scope": "session"}, ""),
        ((), {"scope": "session", "edited_arguments": "{}"}, "only once"),
        ((), {"edited_arguments": "{}"}, ""),
    ],
)
def test_a_yes_can_reach_only_as_far_as_it_was_offered(
    offers: tuple[Offer, ...], answer: dict[str, Any], said: str
) -> None:
    asked = ApprovalAsked(call="c", tool="t", arguments=ARGUMENTS, arguments_sha256=HASH, offers=offers)
    given = ApprovalGiven(call="c", arguments_sha256=HASH, decision="allow", **answer)
    refusal = requests_of([asked]).refusal(given)
    assert said in refusal
    assert bool(said) == bool(refusal)


@pytest.mark.parametrize(
    "command",
    [
        "pytest -q",
        "ls",
        "git push --force origin x",
        "make a && make 'b c'",
        "echo '*'",
        "curl https://example.com -o x",
        "sudo rm -rf build",
    ],
)
def test_what_is_offered_lifts_the_question_and_nothing_else(command: str) -> None:
    verdict = judge(shell(command))
    assert verdict.answer == "ask"
    assert verdict.offers
    asked = ApprovalAsked(call="c", tool="shell", arguments="{}", arguments_sha256="", offers=verdict.offers)
    given = ApprovalGiven(call="c", arguments_sha256="", decision="allow", scope="forever")
    grants = grants_of(asked, given, session="s", workspace="/w", exactly_sha256="x", now_us=1)
    assert judge(shell(command), *grants).answer == "allow"
    assert judge(shell(f"{command} more"), *grants).answer == "ask"
    assert grants == grants_of(asked, given, session="s", workspace="/w", exactly_sha256="x", now_us=1)


@pytest.mark.parametrize("command", ["rm $x", "ls *.py", "echo $(curl x)", "if"])
def test_what_no_pattern_can_say_is_allowed_only_as_it_is(command: str) -> None:
    proposed = shell(command)
    verdict = judge(proposed)
    assert (verdict.answer, verdict.offers) == ("ask", ())
    asked = ApprovalAsked(call="c", tool="shell", arguments="{}", arguments_sha256="")
    given = ApprovalGiven(call="c", arguments_sha256="", decision="allow", scope="session")
    exactly = arguments_sha256(proposed.arguments)
    (kept,) = grants_of(asked, given, session="s", workspace="/w", exactly_sha256=exactly, now_us=1)
    assert judge(proposed, kept).answer == "allow"
    assert judge(shell(f"{command} "), kept).answer == "ask"


def test_a_rule_that_asks_is_not_lifted_by_a_pattern() -> None:
    rule = '[[rule]]\nanswer="ask"\ncommand="make"'
    assert judge(shell("make x"), user=rule).offers == ()
    assert judge(shell("make x"), grant(command="make"), user=rule).answer == "ask"


def test_a_pattern_of_the_persons_own_takes_on_the_dangers_that_were_shown() -> None:
    verdict = judge(shell("git push --force origin x"))
    asked = ApprovalAsked(call="c", tool="shell", arguments="{}", arguments_sha256="", offers=verdict.offers)
    assert offered(asked, "git push") == (Offer(command="git push", accepts=("push-force",)),)


def test_past_calls_are_judged_by_todays_rules() -> None:
    policy = LayeredPolicy(ModePolicy("ask"), home="/h", user=parse('[[rule]]\nanswer="allow"\ncommand="ls"'))
    past = [
        PastCall("1", shell("ls"), "ask"),
        PastCall("2", shell("rm -rf /"), "ask"),
        PastCall("3", shell("x"), "ask"),
    ]
    found = list(simulate(policy, past))
    assert [each.now.answer for each in found] == ["allow", "deny", "ask"]
    assert [each.is_changed for each in found] == [True, True, False]
    assert counts(found) == {("ask", "allow"): 1, ("ask", "deny"): 1, ("ask", "ask"): 1}
