"""Decide in your program what may run: the approver is asked whatever the mode does not allow."""

import asyncio

from demo_model import model

import mainspring
from mainspring import ApprovalAsked, ApprovalGiven
from mainspring.testing import tool_call


@mainspring.tool
async def deploy(target: str) -> str:
    """Deploys to a target."""
    return f"deployed to {target}"


async def approve(question: ApprovalAsked) -> ApprovalGiven:
    decision = "allow" if "staging" in question.arguments else "reject"
    print(f"{question.tool} {question.arguments}: {decision}")
    return ApprovalGiven(
        call=question.call,
        arguments_sha256=question.arguments_sha256,
        decision=decision,
        feedback="not today",
    )


async def main() -> None:
    replies = model(
        tool_call("deploy", target="production"), tool_call("deploy", target="staging"), "Deployed."
    )
    async with mainspring.open(model=replies, tools=[deploy], mode="ask", approver=approve) as session:
        print((await session.ask("Deploy it.")).text)


asyncio.run(main())
