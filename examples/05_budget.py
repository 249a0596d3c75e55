"""Cap what a session may use. A cap is kept before a request is sent, and the reply says which one it was."""

from demo_model import model

import mainspring
from mainspring import Limits
from mainspring.testing import tool_call

steps = [tool_call("plan", items=[{"text": f"idea {number}"}]) for number in range(5)]
limits = Limits(max_steps=3, max_tokens=100_000, timeout_s=60)
reply = mainspring.run("Think for ever.", model=model(*steps), tools=["plan"], limits=limits)
print(f"{reply.ending}: {reply.detail}")
