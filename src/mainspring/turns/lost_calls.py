"""What calls did to files that were running when their process died: recorded before the turn goes on.

Only the time machine can tell; it does not know which of several calls, or who else, made a change.
"""

from __future__ import annotations

import msgspec

from mainspring.events import FileChange, FilesChanged
from mainspring.turns.runtime import Runtime


async def record_lost(runtime: Runtime) -> None:
    """Records what calls did to files before the process that ran them died."""
    lost = (call.asked for call in runtime.state.open_calls if call.is_lost)
    tools = [(asked.call, runtime.workbench.toolbox.tool(asked.name)) for asked in lost]
    calls = [call for call, tool in tools if not (tool and tool.effect in ("none", "read"))]
    if calls:
        changed = await runtime.workbench.time_machine.end(
            calls, runtime.recorder.put_blobs, is_certain=False
        )
        changed = await _unrecorded(runtime, changed) if changed else None
        await runtime.record(*([changed] if changed else []))


async def _unrecorded(runtime: Runtime, found: FilesChanged) -> FilesChanged | None:
    """Without what is on record: a call that ran beside the lost ones, and ended, may have made it."""
    last: dict[str, FileChange] = {}
    for item in await runtime.journal.read(kinds=("FilesChanged",)):
        if isinstance(item.event, FilesChanged):
            last |= {each.path: each for each in item.event.changes}
    left = tuple(
        each for each in found.changes if each.path not in last or last[each.path].after != each.after
    )
    return msgspec.structs.replace(found, changes=left) if left or found.not_covered else None
