"""How much a reply may have: what can be paid and the effort needs, with room for an answer beside thinking."""

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest

from mainspring.events import Cap, Limits
from mainspring.models import Request, UserMessage
from mainspring.models.capabilities import Capabilities
from mainspring.models.retry import Retried
from mainspring.models.scripted import Fault, Script, ScriptedReply
from mainspring.testing.server import ModelServer
from tests.models.every_wire import Wired, build

EFFORTS = ("low", "medium", "high", "max")
THINKERS = [
    ("anthropic", "claude-sonnet-4-5"),
    ("anthropic", "claude-opus-4-1"),
    ("gemini", "gemini-2.5-flash"),
]


def sizes(wire: str, model: str, effort: Any, limit: int | None) -> tuple[int, int]:
    """The limit of the output, and the budget for thinking."""
    body = msgspec.json.decode(
        build(wire, model=model).body(Request("s", (), [], max_output_tokens=limit, effort=effort))
    )
    if wire == "anthropic":
        return body["max_tokens"], body.get("thinking", {}).get("budget_tokens", 0)
    settings = body["generationConfig"]
    return settings.get("maxOutputTokens", 65_536), settings["thinkingConfig"].get("thinkingBudget", 0)


@pytest.mark.parametrize(("wire", "model"), THINKERS)
@pytest.mark.parametrize("limit", [None, 8_192, 12_345, 32_000, 64_000])
def test_more_effort_thinks_more_and_leaves_room_for_the_answer(
    wire: str, model: str, limit: int | None
) -> None:
    found = [sizes(wire, model, effort, limit) for effort in EFFORTS]
    budgets = [budget for _, budget in found]
    assert budgets == sorted(set(budgets)), "each effort thinks more than the one before"
    assert all(budget <= output * 3 / 4 for output, budget in found)


@pytest.mark.parametrize(("wire", "model"), [*THINKERS, ("gemini", "gemini-2.5-pro")])
@pytest.mark.parametrize("effort", [None, *EFFORTS])
@pytest.mark.parametrize("limit", [200, 1_024, 2_047, 2_048, 4_096])
def test_a_small_limit_still_has_room(wire: str, model: str, effort: Any, limit: int) -> None:
    output, budget = sizes(wire, model, effort, limit)
    assert output == limit
    assert budget <= limit * 3 / 4


def level(wire: str, model: str, effort: Any, limit: int | None) -> str:
    """The level of thinking that is asked for."""
    request = Request("s", (), [], max_output_tokens=limit, effort=effort)
    body = msgspec.json.decode(build(wire, model=model).body(request))
    match wire:
        case "anthropic":
            return body["output_config"]["effort"]
        case "gemini":
            return body["generationConfig"]["thinkingConfig"]["thinkingLevel"]
        case "responses":
            return body["reasoning"]["effort"]
        case _:
            return body["reasoning_effort"]


@pytest.mark.parametrize(
    ("wire", "model", "most"),
    [
        ("anthropic", "claude-opus-4-7", "max"),
        ("gemini", "gemini-3-pro", "high"),
        ("responses", "gpt-5", "xhigh"),
        ("chat", "x", "high"),
    ],
)
def test_a_model_that_is_told_a_level_thinks_no_longer_than_leaves_room(
    wire: str, model: str, most: str
) -> None:
    # 4,000, 10,000 and 16,000 tokens of thinking are usual for the lower ones, 48,000 for the highest.
    limits = (1_000, 9_886, 13_400, 21_400, 64_000, None)
    assert [level(wire, model, "max", limit) for limit in limits][-2:] == [most, most]
    assert [level(wire, model, "high", limit) for limit in limits[:4]] == ["low", "low", "medium", "high"]
    assert {level(wire, model, "low", limit) for limit in limits} == {"low"}


@pytest.mark.parametrize(
    ("cap", "effort", "least"),
    [
        (Limits(max_cost_usd=50.0), "max", 60_000),
        (Limits(max_cost_usd=50.0), None, 30_000),
        (Limits(session=Cap(tokens=1_000_000)), "high", 30_000),
        (Limits(session=Cap(tokens=10_000)), "max", 1),
    ],
)
def test_a_cap_that_is_far_away_does_not_make_replies_short(
    cap: Limits, effort: Any, least: int, tmp_path: Path
) -> None:
    stage = Wired(tmp_path, ScriptedReply("so"))
    options = {"allow_unpriced": True, "effort": effort, "limits": cap}
    assert stage.run("anthropic", "go", name="claude-sonnet-4-5", **options)[-1].ending == "done"
    assert least <= stage.seen[0].json()["max_tokens"] <= max(least * 1.1, 8_192)


REFUSED = {
    "openai": ("chat", "max_tokens is too large: 32000. This model supports at most 16384 completion tokens.", 16_384),
    "responses": ("responses", "max_output_tokens is too large: 32000. This model supports at most 9000 output tokens", 9000),
    "anthropic": ("anthropic", "max_tokens: 32000 > 8192, which is the maximum allowed number of output tokens", 8_192),
    "gemini": (
        "gemini",
        ("Unable to submit request because it has a maxOutputTokens value of 32000 but the supported range is from 1"
        " (inclusive) to 8193 (exclusive)."),
        8_192,
    ),
    "deepseek": ("chat", "Invalid max_tokens value, the valid range of max_tokens is [1, 8192]", 8_192),
    "groq": ("chat", "`max_tokens` must be less than or equal to `8192`, the maximum value for this model", 8_192),
    "vllm": (
        "chat",
        ("'max_tokens' or 'max_completion_tokens' is too large: 32000. This model's maximum context length is 32768"
        " tokens and your request has 1000 input tokens"),
        16_000,
    ),
}  # fmt: skip


def limit_of(body: dict[str, Any]) -> int:
    body = body.get("generationConfig", body)
    return next(body[name] for name in body if name.startswith("max"))


@pytest.mark.parametrize("provider", REFUSED)
def test_a_limit_that_a_model_does_not_take_is_lowered_and_remembered(provider: str, tmp_path: Path) -> None:
    wire, said, most = REFUSED[provider]
    fault = Fault(kind="status", status=400, body={"error": {"message": said}})

    async def run() -> list[int]:
        healed = Capabilities(tmp_path / "healed.json")
        async with ModelServer(Script((ScriptedReply("so"),) * 2, (fault,))) as server:
            for _ in range(2):
                inner = build(wire, server, healed=healed)
                model = Retried(inner, heal=inner.heal, keep=inner.keep)
                request = Request("s", (), [inner.encode(UserMessage("hi"))], max_output_tokens=32_000)
                _ = [item async for item in model.stream(request)]
                await model.close()
            return [limit_of(seen.json()) for seen in server.seen]

    assert asyncio.run(run()) == [32_000, most, most]
