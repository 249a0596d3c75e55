"""Taking command lines apart."""

from __future__ import annotations

import os
import shlex
import subprocess
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mainspring.approvals import Mode, ModePolicy, Proposed, strictness
from mainspring.approvals.policy import LayeredPolicy
from mainspring.approvals.rules import parse
from mainspring.approvals.shell import read


def argvs(source: str) -> list[list[str]]:
    return [[word.text for word in simple.argv] for simple in read(source).commands]


def test_a_command_is_read_through_all_its_wrappers() -> None:
    (simple,) = read("sudo -u x env A=1 nohup timeout -k 1 5 bash -euo pipefail -c 'rm x'").commands[:1]
    assert [word.text for word in simple.argv] == ["rm", "x"]
    assert [argv[0].text for argv in simple.via] == ["sudo", "env", "nohup", "timeout", "bash"]


def test_words_keep_their_value_and_lose_their_quotes() -> None:
    assert argvs('r\\m \'a b\' "c \\" d" e"f"\'g\' -x="h i"') == [["rm", "a b", 'c " d', "efg", "-x=h i"]]


def test_words_behind_a_redirection_still_belong_to_the_command() -> None:
    script = read("rm > out -rf x 2>&1")
    assert argvs("rm > out -rf x 2>&1") == [["rm", "-rf", "x"]]
    assert [redirect.target.text for redirect in script.redirects] == ["out"]


def test_a_lone_dash_before_a_heredoc_is_not_lost() -> None:
    assert argvs("python - <<'E'\nx\nE") == [["python", "-"]]
    assert argvs("bash - <<'E'\nrm x\nE") == [["bash", "-"], ["rm", "x"]]


def test_a_pipe_names_what_feeds_it() -> None:
    last = read("curl x | tee y | (sh)").commands[-1]
    assert last.upstream == ("curl", "tee")


def test_what_is_fed_by_xargs_and_find_is_known_to_be_unknown() -> None:
    assert [word.is_static for word in read("xargs rm -rf").commands[0].argv] == [True, True, False]
    assert [word.is_static for word in read("find . -exec rm {} +").commands[1].argv] == [True, False]


@pytest.mark.parametrize(
    "source", ["", " ", "# nothing", "x" * 100_000, "(" * 500, "$(" * 300 + ")" * 300, "\ud800"]
)
def test_odd_texts_are_read_or_called_unreadable_without_raising(source: str) -> None:
    script = read(source)
    assert script.unreadable or not script.commands


def test_nesting_without_end_is_not_followed_without_end() -> None:
    source = "ls"
    for _ in range(8):
        source = f"eval {source} {source}"
    assert read("sh -c '" * 1 + source + "'").commands
    assert read("env " * 2000 + "ls").unreadable


LINES = st.sampled_from(
    [
        "ls",
        "cat a",
        "git status",
        "rm -rf build",
        "rm -rf /",
        "git push --force",
        "curl x",
        "find . -delete",
        "echo x > a",
        "echo x > ~/.bashrc",
        "$X",
        "terraform destroy",
        "sudo ls",
        "python -c 1",
        "A=1",
        "PATH=x ls",
    ]
)
JOINS = st.sampled_from(
    [
        "{a}; {b}",
        "{a} && {b}",
        "{a} || {b}",
        "{a} | {b}",
        "{a} & {b}",
        "({a}); {b}",
        "{{ {a}; }}; {b}",
        "if {a}; then {b}; fi",
        "while {a}; do {b}; done",
        "for i in 1 2; do {a}; {b}; done",
        "f() {{ {a}; }}; {b}",
        "echo $({a}) `{b}`",
        "cat <({a}) <({b})",
        "case x in a) {a};; *) {b};; esac",
        "! {a}\n{b}",
        "cat <<{end}\n$({a})\n{end}\n{b}",
        "x=$({a})\n{b}",
        "[[ $({a}) ]] && {b}",
        "{a} # x\n{b}",
        "time {a}; {b}",
        "bash -c {qa}; {b}",
        "eval {qa} ';' {qb}",
        'echo "$({a})" "${{x:-$({b})}}"',
        "sh <<'{end}'\n{a}\n{end}\n{b}",
    ]
)
Composed = tuple[str, tuple[str, ...]]


def join(template: str, left: Composed, right: Composed) -> Composed:
    """One line of two, and the parts of both."""
    a, b = left[0], right[0]
    line = template.format(a=a, b=b, qa=shlex.quote(a), qb=shlex.quote(b), end=f"E{len(a)}")
    return line, left[1] + right[1]


COMPOSED = st.recursive(
    LINES.map(lambda line: (line, (line,))),
    lambda inner: st.tuples(JOINS, inner, inner).map(lambda made: join(*made)),
    max_leaves=4,
)
RULES = parse(
    '[[rule]]\nanswer="deny"\ncommand="terraform destroy"\n'
    + "".join(f'[[rule]]\nanswer="allow"\ncommand="{name}"\n' for name in ("ls", "cat", "echo", "rm"))
)


@settings(max_examples=400, deadline=None)
@given(COMPOSED, st.sampled_from(["ask", "edits", "auto", "yolo"]), st.booleans())
def test_no_line_is_judged_milder_than_any_of_its_parts(
    composed: Composed, mode: Mode, is_contained: bool
) -> None:
    line, parts = composed
    policy = LayeredPolicy(ModePolicy(mode, max_cost_usd=1.0), home="/home/me", user=RULES)

    def judged(command: str) -> int:
        return strictness(
            policy.judge(
                Proposed(
                    tool="shell", effect="execute", command=command, workspace="/w", is_contained=is_contained
                )
            ).answer
        )

    floor = max(judged(part) for part in parts)
    if read(line).unreadable:
        floor = min(floor, strictness("ask"))
    assert judged(line) >= floor


TOKENS = st.sampled_from(
    [
        "rm",
        "ls",
        "git",
        "-rf",
        "q",
        "a",
        "'b c'",
        '"d e"',
        '"$v"',
        "$v",
        "$(",
        "`",
        ")",
        "(",
        "{ ",
        "; }",
        ";",
        "|",
        "||",
        "&&",
        "&",
        "\n",
        " ",
        "\\",
        "\\\n",
        ">",
        "o",
        "2>&1",
        "<",
        "<<E",
        "\nE\n",
        "<<<",
        "'",
        '"',
        "if ",
        "then ",
        "fi",
        "for i in 1; do ",
        "; done",
        "!",
        "#",
        "f()",
        "{a,b}",
        "=",
        "X=1",
        "${v:-",
        "}",
        "$'r'",
        "\t",
        "case a in ",
        "a)",
        ";;",
        "esac",
        "[[",
        "]]",
        "((",
        "))",
        "*",
        "?",
        "+",
        "{",
        "%",
        "@",
        ",",
        "time ",
        "env",
        "sudo",
        "timeout 3 ",
        "command ",
        "exec ",
        "eval ",
        "function f ",
        "|&",
        "&>",
        "<(",
        ">(",
        "1",
        "-",
        "--",
    ]
)
SOURCES = st.lists(st.tuples(TOKENS, st.sampled_from(["", " "])), min_size=2, max_size=9).map(
    lambda pairs: "".join(token + space for token, space in pairs)
)
RECORD = (
    'command_not_found_handle() { printf "%s\\1" "$@" >>"$LOG.$BASHPID"; printf "\\2" >>"$LOG.$BASHPID"; }\n'
)


def run_by_bash(source: str, folder: Path) -> list[list[str]]:
    """Every command that bash tries to run when none exists."""
    (folder / "w").mkdir(exist_ok=True)
    for old in folder.glob("log.*"):
        old.unlink()
    subprocess.run(
        ["/bin/bash", "--noprofile", "--norc", "-c", RECORD + source],
        cwd=folder / "w",
        env={"PATH": "/nonexistent", "LOG": str(folder / "log"), "HOME": str(folder / "w")},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=120,
        check=False,
    )
    records = b"".join(log.read_bytes() for log in folder.glob("log.*")).split(b"\2")[:-1]
    return [[os.fsdecode(word) for word in record.split(b"\1")[:-1]] for record in records]


@settings(
    max_examples=250,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(SOURCES)
def test_bash_runs_nothing_that_the_reader_did_not_see(tmp_path: Path, source: str) -> None:
    script = read(source)
    if not script.is_clear:
        return
    seen = [argv for simple in script.commands for argv in (simple.argv, *simple.via)]
    for ran in run_by_bash(source, tmp_path):
        assert any(
            [word.text for word in argv] == ran
            or (argv and argv[0].text == ran[0] and not all(word.is_plain for word in argv))
            for argv in seen
        ), (source, ran)


def test_a_line_with_thousands_of_pipes_is_unreadable_at_once() -> None:
    began = time.process_time()
    assert not read("a|" * 20_000 + "b").is_clear
    assert time.process_time() - began < 2
    assert read("|".join(["a"] * 400)).is_clear
