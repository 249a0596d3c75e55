"""A graph of tasks on the page: each task below what it needs, with what became of it."""

from __future__ import annotations

from tests.cli.test_tasks import FREE, GRAPH, STATES, parent_of, scripted, states, written
from tests.serve.browsers import Visitor, browser, visitor

__all__ = ["browser", "visitor"]


def test_a_graph_is_shown_as_a_tree_with_states(visitor: Visitor) -> None:
    served, machine = visitor.served, visitor.served.machine
    model = scripted(machine, machine.home.parent / "effects")
    ran = machine.run("tasks", str(written(machine, GRAPH)), "--model", model, *FREE)
    assert ran.returncode == 1, ran.stderr
    parent = parent_of(machine)
    (found,) = served.get(f"/sessions/{parent}/tasks")
    assert states(found) == STATES
    child = next(row["session"] for row in found["tasks"] if row["name"] == "base")
    assert served.get(f"/sessions/{child}/tasks") == []
    visitor.enter()
    page = visitor.to(f"s/{parent}")
    page.wait_for_selector(".tasks .member")
    shown = page.locator(".tasks .member").all_inner_texts()
    names = [text.split()[0] for text in shown]
    assert sorted(names) == sorted(GRAPH)
    assert names[0] == "base"
    assert all(STATES[name] in text for name, text in zip(names, shown, strict=True))
    assert page.locator(".tasks ul ul ul .member").count() == 2
