"""For tests of your own: a stage, a scripted model and model server, sessions in memory, and one conformance
suite per port.

    stage = mainspring.testing.Stage(tmp_path, tool_call("read", path="a.txt"), "Done.")
    assert stage.run("…").text == "Done."

    model = mainspring.testing.scripted_model("Done.")
    reply = mainspring.run("…", model=model)

Names below are loaded when they are first used. The suites are modules: `mainspring.testing.journals`, ...
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mainspring.models.scripted import Script, ScriptedCall, ScriptedModel, ScriptedReply
    from mainspring.testing.memory import MemoryJournal, MemorySessions
    from mainspring.testing.replies import scripted_model, tool_call
    from mainspring.testing.server import ModelServer
    from mainspring.testing.stage import Stage

__all__ = [
    "MemoryJournal",
    "MemorySessions",
    "ModelServer",
    "Script",
    "ScriptedCall",
    "ScriptedModel",
    "ScriptedReply",
    "Stage",
    "scripted_model",
    "tool_call",
]

_NAMES = {
    "models.scripted": "Script ScriptedCall ScriptedModel ScriptedReply",
    "testing.memory": "MemoryJournal MemorySessions",
    "testing.replies": "scripted_model tool_call",
    "testing.server": "ModelServer",
    "testing.stage": "Stage",
}
_HOMES = {name: home for home, names in _NAMES.items() for name in names.split()}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'mainspring.testing' has no attribute {name!r}")
    from importlib import import_module  # noqa: PLC0415 - not needed by the model server

    return getattr(import_module(f"mainspring.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return __all__
