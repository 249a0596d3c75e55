"""Ask once, from code that is not async (this works in Jupyter, too)."""

from demo_model import model

import mainspring

reply = mainspring.run("Say hello in three words.", model=model("Hello, dear reader."))
print(reply.text)
print(f"{reply.ending}, {reply.usage.total_tokens} tokens, ${reply.cost_usd:.4f}, session {reply.session}")
