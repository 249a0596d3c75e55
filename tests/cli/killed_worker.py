"""A command that is killed after so many commits of its journals, whichever they are."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from typing import Any

from mainspring.cli import main
from mainspring.secrets.recorder import Recorder

_record = Recorder.record
_left = iter(range(int(sys.argv.pop(1)) - 1, -1, -1))


async def _record_and_die(self: Recorder, *events: Any, is_durable: bool = True) -> Sequence[Any]:
    recorded = await _record(self, *events, is_durable=is_durable)
    if next(_left, -1) == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    return recorded


Recorder.record = _record_and_die
main()
