"""Test an agent on a stage, then take its journal as a regression test: would the same be sent today?"""

import tempfile

from mainspring.events import CallEnded
from mainspring.testing import Stage, tool_call

with tempfile.TemporaryDirectory() as folder:
    stage = Stage(folder, tool_call("find", glob="*.txt"), "There is one file.")
    (stage.workspace / "a.txt").write_text("hello")

    reply = stage.run("Look around.", tools=["find"])
    assert reply.text == "There is one file."
    assert [ended.outcome for ended in stage.events(CallEnded)] == ["ok"]
    assert stage.sent()[-1]["results"][0]["text"] == "a.txt"  # what the model was told

    for request in stage.replay():
        print(f"{request.spend}: {request.verdict}")
        assert request.verdict == "same"
