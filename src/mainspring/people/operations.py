"""Every operation by the name that it has on the command line, with the right that it takes.

One table for all faces: the command line has an operation for each of its commands, the routes of the server
and the tools of MCP name theirs, and so do the methods of ACP. What is not in it does not exist.
"""

from __future__ import annotations

from typing import Literal

Right = Literal["see", "approve", "start", "own", "manage"]
"""What an operation takes: to look; to answer questions; to start, steer, stop and undo work; to change the
settings of a machine, which its own user always may; and to change what holds for others (people, policy,
devices, the store)."""

_SEE = """
agents; agents list; agents show; approvals check; approvals list; approvals rules; approvals simulate;
artifacts diff; artifacts list; artifacts search; artifacts show; audit verify; checks; commands;
compare; completion; config; config get; config list; config validate; context; cost; daemon logs; daemon
status; demo; diff; docs diff; docs status; doctor; engines; evidence; execs; execs show; export; fleet;
goal list; goal profiles; goal report; goal schedules; goal show; hooks list; hooks log; impact; index;
index conventions; index find; index hotspots; index map; index status; index uses; jobs; jobs list;
jobs logs; jobs show; keys list; mcp list; mcp tools; memory; memory show; models; models list;
models show; notify; plugins list; policy;
policy check; policy show; ps; replay; reviews; reviews calibration; schema; sessions; sessions open-tasks;
show; skills; store check; tail; traces; traces export; trust list; trust show; usage; verify
"""
_APPROVE = """
approve; docs approve; docs reject; push; reviews dismiss; reviews fixed
"""
_START = """
acp; approvals revoke; artifacts export; artifacts save; chat; compact; daemon run; daemon start; docs
forge; drvloop; effort; exec; exploop; farm; fix; fleet move; fleet retry; fork; goal best; goal change;
goal fire; goal pause; goal resume; goal schedule; goal start; goal stop; goal unschedule; import;
jobs cancel; land; mcp serve; memory add; memory forget; mode; model; note; notify deliver; repository impact;
resume; retry; review; rewind; run; say; serve; stop; tasks; undo; worker
"""
_OWN = """
clean; config edit; config set; config unset; daemon stop; daemon unit; hooks test; keys add; keys
remove; login; logout; mcp add; mcp import; mcp login; mcp logout; mcp remove; mcp test; models prices;
models pull; notify test; plugins add; plugins new; plugins remove; plugins trust; policy sign; setup;
trust add; trust revoke; trust session; uninstall
"""
_MANAGE = """
audit; audit export; audit prune; audit show; devices; devices pair; devices renew; devices revoke;
devices token; fleet drain; policy set; sessions delete; store copy; store init; store migrate
"""


def _names(text: str) -> list[str]:
    return [" ".join(each.split()) for each in text.split(";")]


_RIGHTS: dict[Right, str] = {
    "see": _SEE,
    "approve": _APPROVE,
    "start": _START,
    "own": _OWN,
    "manage": _MANAGE,
}
OPERATIONS: dict[str, Right] = {name: right for right, text in _RIGHTS.items() for name in _names(text)}

OF_A_MACHINE = frozenset(
    _names(
        """
agents; agents list; agents show; commands; completion; config; config get; config list; config validate;
daemon logs; daemon status; demo; doctor; engines; hooks list; hooks log; keys list; mcp list; mcp tools;
models; models list; models show; plugins list; policy; policy check; policy show; schema; skills;
store check; trust list; trust show
"""
    )
).union(name for name, right in OPERATIONS.items() if right == "own")
"""What is about a machine and its user alone, for whom no policy of a team says whether they may."""
