"""The system prompt: named parts in a fixed order, and the same bytes for the same values."""

from pathlib import Path

from mainspring.context.prompt import context_message, prompt_parts, system_prompt
from mainspring.context.weights import weigh
from mainspring.events import Compacted, PromptSet, ToolSpec
from mainspring.workspace.instructions import Instructions
from mainspring.workspace.memory import Remark
from mainspring.workspace.project import Project
from mainspring.workspace.skills import Skill
from tests.context.telling import Tale

HERE = Path("/repo")


def parts(**given):
    return prompt_parts(workspace=HERE, mode="auto", **given)


def test_what_is_there_is_in_the_prompt_by_name_and_what_is_not_is_left_out():
    found = parts(
        instructions=[Instructions(HERE / "AGENTS.md", HERE, "Use tabs.", is_cut=True)],
        skills=[Skill("plots", "Draws plots.", HERE / "skills/plots/SKILL.md")],
        project=Project(("Python",), "make", "pytest", ("pyproject.toml",)),
        memory=[Remark("the disk is slow", "user")],
    )
    assert [part.name for part, _ in found] == [
        "role", "work", "end", "workspace", "project", "instructions", "skills", "memory",
    ]  # fmt: skip
    text = context_message(found)
    for needed in (
        "Use tabs.",
        "read /repo/AGENTS.md",
        "plots: Draws plots. (/repo/skills/plots/SKILL.md)",
        "test: `pytest`",
        "the disk is slow",
    ):
        assert needed in text
    assert [part.name for part, _ in parts()] == ["role", "work", "end", "workspace"]
    assert system_prompt(parts()) == system_prompt(found)
    assert context_message(parts()) == context_message(parts())


def test_of_too_many_instructions_the_nearest_stay():
    found = [Instructions(HERE / f"{number}", HERE, f"{number}" * 15_000) for number in range(4)]
    sources = [part.source for part, _ in parts(instructions=found) if part.name == "instructions"]
    assert sources == ["/repo/2", "/repo/3"]


def test_weights_name_every_part_of_a_request():
    found = parts(memory=[Remark("x" * 360)])
    prompt = PromptSet(
        system=system_prompt(found),
        context=context_message(found),
        tools=(ToolSpec(name="read", description="y" * 3600, parameters={}),),
        parts=tuple(part for part, _ in found),
    )
    tale = Tale()
    tale.user("z" * 3600)
    tale.step(("read", {"path": "a"}, "r" * 7200), text="t" * 36)
    stubbed = Compacted(summary="s" * 360, keep_from_seq=1, stubbed=(len(tale.events),))
    whole = {item.part: item.tokens for item in weigh(prompt, None, tale.events)}
    assert whole["user"] == 1000
    assert whole["results: read"] == 2000
    assert whole["tools"] > 1000
    assert whole["prompt: memory"] > 100
    assert whole["prompt"] < 10  # nothing but what stands between the parts
    short = {item.part: item.tokens for item in weigh(prompt, stubbed, tale.events)}
    assert short["summary"] == 100
    assert short["results: read"] < 200
