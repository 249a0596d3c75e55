"""Give the agent a tool: a typed async function with a docstring."""

from demo_model import model

import mainspring
from mainspring.testing import tool_call


@mainspring.tool(effect="read")
async def population(city: str) -> str:
    """How many people live in a city."""
    return {"Ulm": "129,000", "Bern": "137,000"}.get(city, "unknown")


replies = model(tool_call("population", city="Ulm"), "129,000 people live in Ulm.")
reply = mainspring.run("How many people live in Ulm?", model=replies, tools=[population, "read"])
print(reply.text)
