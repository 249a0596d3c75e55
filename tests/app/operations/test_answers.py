"""What a typed line means."""

from __future__ import annotations

from typing import Any

import pytest

from mainspring.app.operations.answers import answers_in, help_for, lasting
from mainspring.approvals.grants import arguments_sha256
from mainspring.errors import UsageError
from mainspring.events import ApprovalAsked, ApprovalGiven, Offer

NOW = 1_000_000


def asked(
    call: str = "c1", tool: str = "shell", arguments: str = '{"command":"git push"}', **fields: Any
) -> Any:
    fields.setdefault("offers", (Offer(command="git push $"),))
    sha256 = arguments_sha256(arguments)
    return ApprovalAsked(call=call, tool=tool, arguments=arguments, arguments_sha256=sha256, **fields)


def typed(line: str, *questions: ApprovalAsked) -> list[ApprovalGiven]:
    return list(answers_in(line, questions or (asked(),), now_us=NOW))


@pytest.mark.parametrize(
    ("line", "fields"),
    [
        ("y", {"decision": "allow"}),
        ("  Yes \n", {"decision": "allow"}),
        ("1 y", {"decision": "allow"}),
        ("n", {"decision": "reject"}),
        ("n too risky", {"decision": "reject", "feedback": "too risky"}),
        ("s", {"decision": "stop"}),
        ("a", {"decision": "allow", "scope": "session"}),
        ("p 2h", {"decision": "allow", "scope": "project", "expires_us": NOW + 7_200_000_000}),
        ("f git push *", {"decision": "allow", "scope": "forever", "pattern": "git push *"}),
        (
            "f 1d git *",
            {"decision": "allow", "scope": "forever", "pattern": "git *", "expires_us": NOW + 86_400_000_000},
        ),
        ("e git status", {"decision": "allow", "edited_arguments": '{"command":"git status"}'}),
        ('e {"command": "ls"}', {"decision": "allow", "edited_arguments": '{"command": "ls"}'}),
    ],
)
def test_a_line_is_an_answer(line: str, fields: dict[str, Any]) -> None:
    expected = ApprovalGiven(call="c1", arguments_sha256=asked().arguments_sha256, **fields)
    assert typed(line) == [expected]


@pytest.mark.parametrize("line", ["", "x", "2 y", "e", "e {", "f git 'push", "7"])
def test_a_line_that_says_nothing_clear_is_no_answer(line: str) -> None:
    with pytest.raises(UsageError):
        typed(line)


def test_without_a_pattern_in_the_offer_none_can_be_given() -> None:
    with pytest.raises(UsageError, match="only as it is"):
        typed("a git *", asked(offers=()))
    assert typed("a", asked(offers=()))[0].scope == "session"


def test_a_command_without_an_agent_is_edited_as_its_words() -> None:
    step = asked(tool="step", arguments='{"argv":["git","push"]}')
    assert typed("e git log 'a b'", step)[0].edited_arguments == '{"argv":["git","log","a b"]}'
    with pytest.raises(UsageError):
        typed("e git 'log", step)


def test_only_what_will_be_honoured_is_offered_and_taken() -> None:
    engine = asked(tool="engine", arguments='{"engine":"codex"}', is_editable=False, scopes=("once",))
    assert "[e]dit" in help_for([asked()])
    assert help_for([engine]) == "[y]es, [n]o (add why), [s]top the turn, [v]iew all"
    for line, why in (("e x", "cannot be edited"), ("e {}", "cannot be edited"), ("a", "only for once")):
        with pytest.raises(UsageError, match=why):
            typed(line, engine)
    assert typed("y", engine)[0].decision == "allow"


def test_of_several_questions_each_or_all_are_answered_and_never_one_by_guess() -> None:
    both = asked("c1"), asked("c2")
    with pytest.raises(UsageError, match="which"):
        typed("y", *both)
    assert [given.call for given in typed("2 y", *both)] == ["c2"]
    assert [(given.call, given.decision) for given in typed("all n no", *both)] == [
        ("c1", "reject"),
        ("c2", "reject"),
    ]


def test_a_question_of_the_agent_takes_the_line_as_it_is() -> None:
    own = asked(tool="ask", arguments='{"question":"Which?"}', offers=())
    assert typed("y or n, who knows", own)[0].feedback == "y or n, who knows"
    assert typed("", own)[0].decision == "reject"
    both = own, asked("c2")
    assert typed("1 the blue one", *both)[0].feedback == "the blue one"
    assert [given.call for given in typed("all y", *both)] == ["c2"]


@pytest.mark.parametrize("text", ["", "1", "h", "1y", "-1h", "1 h"])
def test_a_time_is_a_number_and_a_unit(text: str) -> None:
    with pytest.raises(UsageError):
        lasting(text, now_us=NOW)
