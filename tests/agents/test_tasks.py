"""A graph of tasks: read and refused, folded from events, and its shares."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring.agents.shares import limits_of, task_share
from mainspring.agents.task_files import MAX_DEPTH, MAX_FAN_OUT, MAX_TASKS, check_tasks, read_tasks
from mainspring.documents.task_tree import task_rows, task_tree
from mainspring.errors import UsageError
from mainspring.events import (
    CallEnded,
    ChildEnded,
    ChildStarted,
    ChildState,
    Event,
    Limits,
    PlannedTask,
    TasksStarted,
)
from mainspring.folds.task_graph import TaskGraph, graphs_in
from mainspring.models.scripted import ScriptedCall, ScriptedReply
from tests.agents.family import PARENT, Family, script_of
from tests.agents.test_shares import Node, Tree


def task(name: str, *needs: str, **fields) -> PlannedTask:
    return PlannedTask(name=name, text=f"do {name}", needs=needs, **fields)


def refused(*tasks: PlannedTask) -> UsageError:
    with pytest.raises(UsageError) as error:
        check_tasks(tasks, {"explore"}, lambda _: "")
    return error.value


def test_a_file_gives_its_tasks(tmp_path):
    file = tmp_path / "tasks.toml"
    file.write_text(
        '[[task]]\nname = "a"\ntext = " Do it. "\n'
        '[[task]]\nname = "b"\ntext = "More."\nneeds = ["a", "a"]\nagent = "explore"\ncheck = "true"\n'
        'budget = 1.5\nmodel = "x"\n[[task]]\nname = "c"\ntext = "Last."\ncheck = ["true", "false"]\n'
    )
    assert read_tasks(file) == (
        PlannedTask(name="a", text="Do it."),
        PlannedTask(
            name="b", text="More.", needs=("a",), agent="explore", checks=("true",), budget_usd=1.5, model="x"
        ),
        PlannedTask(name="c", text="Last.", checks=("true", "false")),
    )


@pytest.mark.parametrize(
    ("content", "named"),
    [
        (b"", "empty"),
        (b"# nothing\n", "empty"),
        (b"\xff\xfe", "UTF-8"),
        (b"[[task]\n", "TOML"),
        (b"task = 3\n", "[[task]]"),
        (b"[[tasks]]\nname = 'a'\n", "'tasks'"),
        (b"[[task]]\nname = 'a'\n", "text"),
        (b"[[task]]\nname = 'a'\ntext = '  '\n", "text"),
        (b"[[task]]\nname = 'a'\ntext = 'x'\nneed = ['b']\n", "'need'"),
        (b"[[task]]\nname = 'a'\ntext = 'x'\nbudget = 0\n", "budget"),
        (b"[[task]]\nname = 'a'\ntext = 'x'\nneeds = 'b'\n", "needs"),
    ],
)
def test_a_wrong_file_is_named_with_what_is_wrong(tmp_path, content, named):
    file = tmp_path / "tasks.toml"
    file.write_bytes(content)
    with pytest.raises(UsageError) as error:
        read_tasks(file)
    assert str(file) in error.value.message
    assert named in f"{error.value.message} {error.value.remedy}"
    assert error.value.remedy


@pytest.mark.parametrize("name", ["", "gone.toml"], ids=["folder", "missing"])
def test_what_is_no_file_is_refused(tmp_path, name):
    with pytest.raises(UsageError, match="cannot be read"):
        read_tasks(tmp_path / name if name else tmp_path)


def test_a_cycle_is_named_along_its_tasks():
    error = refused(task("free"), task("c", "b"), task("a", "c", "free"), task("b", "a"), task("d", "a"))
    assert "c -> b -> a -> c" in error.message
    assert "a -> a" in refused(task("a", "a")).message


def test_names_that_are_wrong_are_named_with_what_may_be_meant():
    assert refused(task("build"), task("b", "biuld")).remedy == "Did you mean build?"
    assert "'a'" in refused(task("a"), task("a")).message
    assert refused(task("a", agent="exlpore")).remedy == "Did you mean explore?"
    assert "'../x'" in refused(task("../x")).message


def test_a_graph_has_a_largest_size_depth_and_fan_out():
    chain = [task("t0"), *(task(f"t{n}", f"t{n - 1}") for n in range(1, MAX_DEPTH + 1))]
    assert f"t{MAX_DEPTH}" in refused(*chain).message
    check_tasks(chain[:-1], (), lambda _: "")
    wide = [task("root"), *(task(f"t{n}", "root") for n in range(MAX_FAN_OUT + 1))]
    assert "need root" in refused(*wide).message
    check_tasks(wide[:-1], (), lambda _: "")
    assert "65 tasks" in refused(*(task(f"t{n}") for n in range(MAX_TASKS + 1))).message


def graph(*events: Event) -> TaskGraph:
    tasks = (task("a"), task("b", "a"), task("c", "a"), task("d", "b", "c"), task("e"))
    other = ChildStarted(child="other", task="delegated", call="9")
    found = graphs_in((TasksStarted(tasks=tasks), other, *events))
    assert list(found) == [""]
    return found[""]


def ran(name: str, state: ChildState = "done", **fields) -> tuple[Event, Event]:
    started = ChildStarted(child=f"child-{name}", task="t", node=name)
    return started, ChildEnded(child=f"child-{name}", state=state, **fields)


def states(found: TaskGraph) -> dict[str, str]:
    return {each.plan.name: each.state for each in found.tasks}


def test_the_state_of_each_task_is_what_the_journal_says():
    assert states(graph()) == {"a": "ready", "b": "waiting", "c": "waiting", "d": "waiting", "e": "ready"}
    assert states(graph(ran("a")[0]))["a"] == "running"
    assert states(graph(*ran("a"), *ran("b", "failed"))) == {
        "a": "done", "b": "failed", "c": "ready", "d": "blocked", "e": "ready",
    }  # fmt: skip
    failed = graph(*ran("a", "failed", detail="check failed: false\nmore"))
    assert states(failed) == {"a": "failed", "b": "blocked", "c": "blocked", "d": "blocked", "e": "ready"}
    assert failed.of("failed")[0].why == "check failed: false"
    assert failed.of("blocked")[-1].missing == ("b", "c")
    assert states(graph(*ran("a", landing="conflict", conflicts=("x.py",))))["a"] == "failed"


def test_a_tree_shows_each_task_once_below_what_it_needs():
    shown = task_tree(task_rows(graph(*ran("a"), *ran("b", "failed")))).splitlines()
    names = [line.replace("│", " ").replace("├─", " ").replace("└─", " ").split()[1] for line in shown]
    assert names == ["a", "b", "d", "c", "e"]
    assert "also needs c" in shown[2]
    indents = [next(at for at, sign in enumerate(line) if sign in "✓✗⊘○⟳") for line in shown]
    assert indents == [0, 3, 6, 3, 0]


_BUDGETS = st.lists(st.one_of(st.none(), st.floats(0.001, 2.0)), min_size=1, max_size=8)


@given(
    usd=st.one_of(st.none(), st.floats(0.0001, 1.0)),
    tokens=st.one_of(st.none(), st.integers(1000, 200_000)),
    calls=st.one_of(st.none(), st.integers(1, 20)),
    budgets=_BUDGETS,
    reserve=st.sampled_from([0.0, 0.2]),
    acts=st.lists(st.tuples(st.integers(0, 7), st.integers(1, 3000), st.floats(0, 1)), max_size=30),
)
def test_the_caps_of_a_graph_are_never_exceeded(usd, tokens, calls, budgets, reserve, acts):
    tree = Tree(Limits(max_cost_usd=usd, max_tokens=tokens, max_calls=calls))
    left = [PlannedTask(name=f"k{at}", text="t", budget_usd=each) for at, each in enumerate(budgets)]
    for place, size, used in acts:
        if left and (size % 3 == 0 or not tree.children):
            first = left.pop(0)
            share = task_share(tree.parent.ledger, tree.parent.limits, first, left, reserve=reserve)
            if share is not None:
                limits = limits_of(share, budget_usd=None, steps=None, tokens=None)
                started = ChildStarted(child=first.name, task="t", node=first.name, limits=limits)
                tree.parent.ledger.apply(started, 2)
                tree.children[first.name] = Node(limits)
                assert first.budget_usd is None or share.usd is None or share.usd <= first.budget_usd
        names = list(tree.children)
        if names:
            who = names[place % len(names)]
            tree.spend(who, size, used)
            tree.call(who)
            if size % 5 == 0:
                tree.end(who)
        tree.check()


def test_a_task_gets_its_budget_and_the_others_share_the_rest():
    ledger, limits = Node(Limits()).ledger, Limits(max_cost_usd=3.0)
    tasks = [task("a"), task("b", budget_usd=2.0), task("c")]

    def share(first: PlannedTask, *later: PlannedTask) -> float | None:
        found = task_share(ledger, limits, first, later, reserve=0.0)
        return found and found.usd

    a, b, c = tasks
    assert share(a, b, c) == 1.0  # never less than an equal part
    assert share(b, a, c) == 2.0
    assert share(c) == 3.0
    assert share(task("d", budget_usd=9.0)) == 3.0


def test_a_model_gives_a_graph_and_is_told_what_came_of_each_task(tmp_path):
    tasks = [
        {"name": "a", "text": "ALPHA", "agent": "explore"},
        {"name": "b", "text": "BETA", "agent": "explore", "needs": ["a"], "check": "false"},
        {"name": "c", "text": "GAMMA", "needs": ["b"]},
    ]
    wrong = [{"name": "a", "text": "x", "needs": ["b"]}, {"name": "b", "text": "x", "needs": ["a"]}]
    script = script_of(
        (
            ScriptedReply(calls=(ScriptedCall("tasks", {"tasks": wrong}),)),
            ScriptedReply(calls=(ScriptedCall("tasks", {"tasks": tasks}),)),
            ScriptedReply(text="Told."),
        ),
        BETA=(ScriptedReply(text="beta said"),),
        ALPHA=(ScriptedReply(text="alpha said"),),
    )
    stage = Family(tmp_path, script)
    assert stage.run(PARENT).text == "Told."
    refused, told = stage.events(CallEnded)
    assert "a -> b -> a" in refused.output
    assert "alpha said" in told.output
    assert "check failed: false" in told.output
    assert "c: blocked" in told.output
    (found,) = graphs_in(item.event for item in stage.journal()).values()
    assert states(found) == {"a": "done", "b": "failed", "c": "blocked"}
    assert found.is_over
