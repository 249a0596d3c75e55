"""Rules: their files, their examples, their order, and who may tighten whom."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mainspring.approvals import Answer, Effect, Judgement, Mode, ModePolicy, Proposed, strictness
from mainspring.approvals.policy import LayeredPolicy
from mainspring.approvals.rules import load, parse
from mainspring.errors import ConfigError


def rule(**fields: object) -> str:
    def written(value: object) -> str:
        if isinstance(value, tuple):
            return "[" + ", ".join(f"'''{each}'''" for each in value) + "]"
        return str(value) if isinstance(value, float) else f"'''{value}'''"

    return "[[rule]]\n" + "".join(f"{name} = {written(value)}\n" for name, value in fields.items())


def judge(
    proposed: Proposed, user: str = "", project: str = "", *, mode: Mode = "ask", cap: float | None = 5.0
) -> Judgement:
    policy = LayeredPolicy(
        ModePolicy(mode, max_cost_usd=cap),
        home="/home/me",
        user=parse(user),
        project=parse(project, source="project"),
    )
    return policy.judge(proposed)


def shell(command: str, **more: Any) -> Proposed:
    return Proposed(tool="shell", effect="execute", command=command, workspace="/home/me/w", **more)


def touch(path: str, effect: Effect = "write") -> Proposed:
    return Proposed(tool="edit", effect=effect, paths=(path,), workspace="/home/me/w")


def test_the_first_rule_that_fits_answers_and_a_deny_anywhere_wins() -> None:
    text = rule(answer="ask", command="git push") + rule(answer="allow", command="git")
    assert judge(shell("git push"), text).rule == "user:1"
    assert judge(shell("git status"), text).rule == "user:2"
    text += rule(answer="deny", command="git push * main", reason="main is protected", name="main")
    verdict = judge(shell("git push origin main"), text)
    assert (verdict.answer, verdict.rule, verdict.reason) == ("deny", "user:main", "main is protected")


def test_no_rule_means_the_answer_of_the_mode() -> None:
    assert judge(shell("ls")).rule == "mode:ask"
    assert judge(shell("ls", is_contained=True), mode="auto").answer == "allow"


def test_plan_mode_stays_read_only_whatever_rules_say() -> None:
    assert judge(shell("ls"), rule(answer="allow", command="ls"), mode="plan").answer == "deny"
    assert judge(touch("a", "read"), mode="plan").answer == "allow"


@pytest.mark.parametrize(
    ("pattern", "command", "answer"),
    [
        ("git status", "git status -s", "allow"),
        ("git status $", "git status -s", "ask"),
        ("git status $", "git status", "allow"),
        ("git *", "git", "allow"),
        ("npm run test*", "npm run test:unit", "allow"),
        ("npm run test*", "npm run deploy", "ask"),
        ("cat src/*", "cat src/a.py", "allow"),
        ("cat src/*", "cat src/../../x", "ask"),
        ("cat src/*", "cat $X", "ask"),
        ("cat *", "cat $X", "allow"),
        ("ls", "/usr/bin/ls", "allow"),
        ("ls", "/tmp/ls", "ask"),
        ("./run", "./run", "allow"),
    ],
)
def test_an_allowing_pattern_is_a_prefix_of_known_words(pattern: str, command: str, answer: Answer) -> None:
    assert judge(shell(command), rule(answer="allow", command=pattern)).answer == answer


@pytest.mark.parametrize(
    ("command", "answer"),
    [
        ("kubectl delete pod", "deny"),
        ("kubectl -n x delete pod", "deny"),
        ("/opt/kubectl delete pod", "deny"),
        ("sudo kubectl delete pod", "deny"),
        ("kubectl $X", "ask"),
        ("$X delete", "ask"),
        ("kubectl get pod", "allow"),
    ],
)
def test_a_denying_pattern_finds_its_words_wherever_they_stand(command: str, answer: Answer) -> None:
    text = rule(answer="deny", command="kubectl delete")
    assert judge(shell(command, is_contained=True), text, mode="auto").answer == answer


@pytest.mark.parametrize(
    ("pattern", "path", "answer"),
    [
        ("src/**", "src/a/b.py", "allow"),
        ("src/*", "src/a/b.py", "ask"),
        ("src/**", "src/../x", "ask"),
        ("~/notes/*", "/home/me/notes/a", "allow"),
        ("**/*.md", "a/b/c.md", "allow"),
        ("**", ".git/hooks/pre-commit", "ask"),
        ("**", "approvals.toml", "ask"),
    ],
)
def test_path_rules_are_rooted_in_the_workspace(pattern: str, path: str, answer: Answer) -> None:
    assert judge(touch(path), rule(answer="allow", path=pattern)).answer == answer


def test_every_path_of_a_call_must_be_allowed() -> None:
    both = Proposed(tool="edit", effect="write", paths=("src/a", "b"), workspace="/home/me/w")
    assert judge(both, rule(answer="allow", path="src/**")).answer == "ask"
    assert judge(both, rule(answer="deny", path="src/**")).answer == "deny"


def test_a_redirection_needs_a_path_rule_of_its_own() -> None:
    text = rule(answer="allow", command="echo")
    assert judge(shell("echo x > out.txt"), text).answer == "ask"
    assert (
        judge(shell("echo x > out.txt"), text + rule(answer="allow", path="*.txt", effect="write")).answer
        == "allow"
    )
    assert judge(shell("echo x > out.txt"), text, mode="edits").answer == "allow"
    assert judge(shell("echo x > $F"), text, mode="edits").answer == "ask"


def test_host_rules() -> None:
    fetch = Proposed(tool="fetch", effect="network", hosts=("Docs.Example.org:443",))
    assert judge(fetch, rule(answer="allow", host="*.example.org")).answer == "allow"
    assert judge(fetch, rule(answer="allow", host="example.org")).answer == "ask"
    assert judge(fetch, rule(answer="deny", host="*.org")).answer == "deny"


def test_cost_rules() -> None:
    job = Proposed(tool="job", effect="other", cost_usd=2.0)
    cheap = rule(answer="allow", tool="job", cost_up_to_usd=3.0)
    assert judge(job, cheap, cap=None).answer == "allow"
    assert judge(job, rule(answer="allow", tool="job"), cap=None).answer == "ask"
    assert judge(job, rule(answer="deny", tool="job", cost_over_usd=1.0)).answer == "deny"
    unknown = Proposed(tool="job", effect="other", cost_usd=None)
    assert judge(unknown, cheap).answer == "ask"
    assert judge(unknown, rule(answer="deny", tool="job", cost_over_usd=1.0)).answer == "deny"


def test_what_recurs_is_asked_whatever_rules_say() -> None:
    daily = Proposed(tool="job", effect="other", is_recurring=True)
    for text in (rule(answer="allow", tool="job"), rule(answer="allow", tool="job", cost_up_to_usd=9.0)):
        assert judge(daily, text).answer == "ask"
        assert judge(daily, text, mode="yolo").answer == "ask"


def test_an_allow_covers_a_danger_only_by_its_name() -> None:
    assert (
        judge(shell("git push --force"), rule(answer="allow", command="git push")).rule
        == "builtin:push-force"
    )
    accepting = rule(answer="allow", command="git push", accepts=("push-force",))
    assert judge(shell("git push --force"), accepting).answer == "allow"


def test_a_rule_that_asks_is_asked_even_in_yolo() -> None:
    assert judge(shell("deploy"), rule(answer="ask", command="deploy"), mode="yolo").answer == "ask"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (rule(answer="allow", command="git", match=("ls",)), "rule 1: it should match 'ls'"),
        (rule(answer="allow", command="git", not_match=("git x",)), "it should not match 'git x'"),
        (rule(answer="allow", name="n", command="git", match=("git a; ls",)), r"rule 1 \(n\)"),
        (rule(answer="allow", command="a", path="b"), "only one of"),
        (rule(answer="allow", command="a 'b"), "quotes"),
        (rule(answer="allow", accepts=("rm-root",)), "no danger that can be accepted"),
        (rule(answer="maybe"), "somewhere.toml is not valid"),
        (rule(answer="allow", comand="git"), "comand"),
        ("[[rule]", "somewhere.toml is not valid"),
    ],
)
def test_a_wrong_rule_is_named_with_its_file(text: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said) as caught:
        parse(text, file="somewhere.toml")
    assert "somewhere.toml" in str(caught.value)


@pytest.mark.parametrize(
    ("subject", "match", "not_match"),
    [
        ({"answer": "allow", "command": "git"}, ("git a && git b",), ("git a && ls", "$X", "git 'x")),
        ({"answer": "deny", "command": "rm -r"}, ("ls; sudo rm -v -r x",), ("rm x", "echo rm -r")),
        ({"answer": "ask", "path": "~/x/**"}, ("~/x/a",), ("~/y",)),
        ({"answer": "ask", "host": "*.org"}, ("a.org",), ("a.com",)),
        ({"answer": "deny", "tool": "mcp_*"}, ("mcp_a",), ("shell",)),
    ],
)
def test_examples_are_tried_as_the_rule_would_decide(
    subject: dict[str, str], match: tuple[str, ...], not_match: tuple[str, ...]
) -> None:
    (read,) = parse(rule(**subject, match=match, not_match=not_match)).rules
    assert read.answer == subject["answer"]
    for example in not_match:
        with pytest.raises(ConfigError):
            parse(rule(**subject, match=(example,)))
    for example in match:
        with pytest.raises(ConfigError):
            parse(rule(**subject, not_match=(example,)))


def test_a_missing_file_has_no_rules_and_an_unreadable_one_is_an_error(tmp_path: Path) -> None:
    assert load(tmp_path / "approvals.toml", source="user", home="/h").rules == ()
    (tmp_path / "approvals.toml").write_text(rule(answer="ask", tool="x"))
    assert load(tmp_path / "approvals.toml", source="user", home="/h").rules[0].tool == "x"
    (tmp_path / "approvals.toml").write_bytes(b"\xff")
    with pytest.raises(ConfigError, match="cannot be read"):
        load(tmp_path / "approvals.toml", source="user", home="/h")


RULE = st.builds(
    lambda answer, command: rule(answer=answer, command=command),
    st.sampled_from(["allow", "ask", "deny"]),
    st.sampled_from(["ls", "git", "git push", "rm", "ls *"]),
)
COMMANDS = st.sampled_from(
    ["ls", "git push --force", "git status; ls", "rm -rf x", "$X", "ls | xargs git push"]
)


@settings(max_examples=200, deadline=None)
@given(
    st.lists(RULE, max_size=3), st.lists(RULE, max_size=3), COMMANDS, st.sampled_from(["ask", "auto", "yolo"])
)
def test_a_project_can_only_tighten(user: list[str], project: list[str], command: str, mode: Mode) -> None:
    without = judge(shell(command, is_contained=True), "".join(user), mode=mode)
    with_it = judge(shell(command, is_contained=True), "".join(user), "".join(project), mode=mode)
    assert strictness(with_it.answer) >= strictness(without.answer)
