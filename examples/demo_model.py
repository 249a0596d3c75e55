"""The model of the examples: the one that MAINSPRING_MODEL names, or else a scripted one."""

import os

from mainspring import Model
from mainspring.testing import ScriptedReply, scripted_model


def model(*replies: str | ScriptedReply) -> Model | str:
    return os.environ.get("MAINSPRING_MODEL") or scripted_model(*replies)
