"""Rules and grants that look into the arguments of a call, and effects that follow from them."""

from __future__ import annotations

from typing import Any

import pytest

from mainspring.approvals import Answer, Judgement, ModePolicy, Proposed
from mainspring.approvals.answers import misfit
from mainspring.approvals.grants import Grant, arguments_sha256, grants_of
from mainspring.approvals.policy import LayeredPolicy
from mainspring.approvals.rules import parse, warnings
from mainspring.errors import ConfigError
from mainspring.events import ApprovalAsked, ApprovalGiven, CallAsked, Offer
from mainspring.tools import Output
from mainspring.tools.schema import tool
from mainspring.tools.toolbox import Toolbox

RULES = """
[[rule]]
answer = "deny"
tool = "notes"
arguments = {operation = "delete*"}
match = ['{"operation": "delete_all"}']
not_match = ['{"operation": "read"}', '{}']
[[rule]]
answer = "allow"
tool = "notes"
arguments = {operation = "read*", count = "[0-9]"}
"""


def judge(arguments: dict[str, Any], *grants: Grant, rules: str = "", **more: Any) -> Judgement:
    policy = LayeredPolicy(ModePolicy("ask"), home="/home/me", user=parse(rules), grants=lambda _: grants)
    return policy.judge(Proposed(tool="notes", effect="execute", arguments=arguments, workspace="/w", **more))


@pytest.mark.parametrize(
    ("arguments", "answer"),
    [
        ({"operation": "delete"}, "deny"),
        ({"operation": "delete_all", "count": 1}, "deny"),
        ({"operation": ["read", "delete"]}, "deny"),
        ({"operation": "read", "count": 1}, "allow"),
        ({"operation": "read_all", "count": 9}, "allow"),
        ({"operation": ["read", "read_all"], "count": 9}, "allow"),
        ({"operation": ["read", "write"], "count": 9}, "ask"),
        ({"operation": "read", "count": 10}, "ask"),
        ({"operation": "read"}, "ask"),
        ({"operation": None, "count": 1}, "ask"),
        ({"operation": [], "count": 1}, "ask"),
        ({}, "ask"),
    ],
)
def test_a_rule_looks_into_the_arguments_of_a_call(arguments: dict[str, Any], answer: Answer) -> None:
    assert judge(arguments, rules=RULES).answer == answer


def test_examples_of_a_rule_about_arguments_are_tried() -> None:
    with pytest.raises(ConfigError, match="should match"):
        parse(RULES.replace("delete_all", "read"))
    with pytest.raises(ConfigError, match="JSON object"):
        parse(RULES.replace('{"operation": "delete_all"}', "delete"))


def test_a_pattern_of_a_yes_can_name_arguments() -> None:
    asked = ApprovalAsked(
        call="c1", tool="notes", arguments="{}", arguments_sha256=arguments_sha256({}), offers=(Offer(),)
    )
    given = ApprovalGiven(
        call="c1",
        arguments_sha256=asked.arguments_sha256,
        decision="allow",
        scope="forever",
        pattern="operation=read*",
    )
    assert misfit(asked, given) == ""
    (grant,) = grants_of(asked, given, session="s", workspace="/w", exactly_sha256="", now_us=0)
    assert judge({"operation": "read_all"}, grant).answer == "allow"
    assert judge({"operation": "delete"}, grant).answer == "ask"
    wrong = ApprovalGiven(
        call="c1", arguments_sha256=asked.arguments_sha256, decision="allow", scope="forever", pattern="read"
    )
    assert "names its arguments" in misfit(asked, wrong)


def test_a_yes_for_one_engine_is_not_for_another() -> None:
    broad = Grant(id="old", scope="forever", tool="notes")
    exact = Grant(id="g", scope="forever", tool="notes", arguments_sha256=arguments_sha256({"engine": "a"}))
    assert judge({"engine": "a"}, is_exact=True).offers == ()
    assert judge({"engine": "a"}, exact, is_exact=True).answer == "allow"
    assert judge({"engine": "b"}, exact, broad, is_exact=True).answer == "ask"


def test_the_effect_of_a_tool_can_follow_from_its_arguments() -> None:
    def effect_of(operation: str) -> Any:
        return {"list": "read", "delete": "write"}.get(operation, "odd")

    @tool(effect=effect_of)
    async def notes(operation: str) -> str:
        """Keeps notes."""
        return operation

    box = Toolbox([notes])

    def prepared(operation: str) -> Any:
        return box.prepare(CallAsked(call="c", name="notes", arguments=f'{{"operation": "{operation}"}}'))

    assert prepared("list").effect == "read"
    assert prepared("delete").effect == "write"
    odd = prepared("")
    assert isinstance(odd, Output)
    assert "unknown effect: 'odd'" in odd.text


@pytest.mark.parametrize(
    ("rule", "count"),
    [
        ('command = "tar *"', 1),
        ('command = "sort"', 2),
        ('command = "sort"\naccepts = ["runs-program"]', 1),
        ('command = "sort a $"', 0),
        ('command = "pytest *"', 0),
        ('tool = "notes"', 0),
    ],
)
def test_a_rule_says_which_options_of_its_program_are_still_asked(rule: str, count: int) -> None:
    found = warnings(parse(f'[[rule]]\nanswer = "allow"\nname = "x"\n{rule}\n'))
    assert len(found) == count
    assert all("still asked" in each for each in found)
    assert warnings(parse(f'[[rule]]\nanswer = "ask"\n{rule.split("accepts", maxsplit=1)[0]}\n')) == ()
