"""Our calls in the names of Claude Code, so that hooks that were written for it work here, and what such a
hook changed in our names again. Pure.

A call has several names: a matcher for any of them finds it, and the hook is told the one that was found. A
patch is told once for each file that it changes, because there is no such tool there.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from mainspring.approvals import Proposed, absolute

Arguments = Mapping[str, Any]


class ToldCall(msgspec.Struct, frozen=True):
    """A call as hooks are told of it, by the first of its `names` that a hook asks for."""

    names: tuple[str, ...]
    input: dict[str, Any]


def told_calls(proposed: Proposed, arguments: Arguments) -> tuple[ToldCall, ...]:
    """The call, or its parts, in the form that hooks know. `arguments` are without secrets."""
    tell = _TOLD.get(proposed.tool)
    if tell is None:
        return (ToldCall((proposed.tool,), dict(arguments)),)
    names, made = tell(proposed, arguments)
    return tuple(ToldCall((*names, proposed.tool), each) for each in made)


def told_response(given: Arguments, output: str) -> dict[str, Any]:
    """What came of a call, in the form that hooks know."""
    if "command" in given:
        return {"stdout": output, "stderr": "", "interrupted": False, "isImage": False}
    if "file_path" in given:
        return {"filePath": given["file_path"], "success": True, "content": output}
    return {"content": output}


def changed_arguments(proposed: Proposed, arguments: Arguments, told: Arguments, updated: Arguments) -> str:
    """Our arguments with what a hook changed in them, as JSON; raises `ValueError` when that cannot be."""
    news = {name: value for name, value in updated.items() if told.get(name) != value}
    if proposed.tool == "edit" and "edits" not in told and "old_string" in told:
        return _changed_edit(arguments, {**told, **updated})
    take = _TAKEN.get(proposed.tool)
    if proposed.tool in _TOLD and take is None:
        raise ValueError(f"the arguments of {proposed.tool} cannot be changed by a hook")
    fields = dict(arguments)
    for name, value in news.items():
        if take is None:
            fields[name] = value
        elif name in take:
            fields |= take[name](value)
        else:
            raise ValueError(f"{name} of {proposed.tool} cannot be changed by a hook")
    return msgspec.json.encode(fields).decode()


def _changed_edit(arguments: Arguments, wanted: Arguments) -> str:
    """One replacement, in the form in which it was asked for."""
    replaced = {"old": wanted["old_string"], "new": wanted["new_string"]}
    if "edits" in arguments:
        replaced = {"edits": [{**replaced, "every": bool(wanted.get("replace_all"))}]}
    return msgspec.json.encode({**arguments, "path": wanted["file_path"], **replaced}).decode()


_Told = tuple[tuple[str, ...], list[dict[str, Any]]]


def _path(proposed: Proposed, arguments: Arguments) -> str:
    given = str(arguments.get("path") or next(iter(proposed.paths), "") or ".")
    return absolute(given, cwd=proposed.cwd or proposed.workspace)


def _without_none(**fields: Any) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}


def _shell(_: Proposed, given: Arguments) -> _Told:
    seconds = given.get("timeout_s")
    told = _without_none(
        command=given.get("command", ""),
        timeout=None if seconds is None else int(seconds * 1000),
        run_in_background=given.get("background") or None,
    )
    return ("Bash",), [told]


def _exec(_: Proposed, given: Arguments) -> _Told:
    argv = tuple(given.get("argv", ()))
    is_line = len(argv) == 3 and argv[:2] == ("bash", "-c")
    return ("Bash",), [{"command": argv[2] if is_line else shlex.join(argv)}]


def _sent(_: Proposed, given: Arguments) -> _Told:
    """What is written to a shell in the background is a command."""
    if given.get("action") == "send":
        return ("Bash",), [{"command": given.get("text", "")}]
    return (), [dict(given)]


def _read(proposed: Proposed, given: Arguments) -> _Told:
    told = _without_none(
        file_path=_path(proposed, given), offset=given.get("offset"), limit=given.get("limit")
    )
    return ("Read",), [told]


def _write(proposed: Proposed, given: Arguments) -> _Told:
    return ("Write",), [{"file_path": _path(proposed, given), "content": given.get("content", "")}]


def _edits(given: Arguments) -> list[dict[str, Any]]:
    """The replacements of a call that has several; none where they have another form."""
    try:
        return msgspec.convert(given.get("edits"), list[dict[str, Any]])
    except msgspec.ValidationError:
        return []


def _edit(proposed: Proposed, given: Arguments) -> _Told:
    """Several replacements are told as one text each, and one by one."""
    edits = _edits(given) or [dict(given)]
    told: dict[str, Any] = {
        "file_path": _path(proposed, given),
        "old_string": "\n".join(str(each.get("old", "")) for each in edits),
        "new_string": "\n".join(str(each.get("new", "")) for each in edits),
        "replace_all": any(each.get("every") for each in edits),
    }
    if len(edits) > 1:
        names = {"old": "old_string", "new": "new_string", "every": "replace_all"}
        told["edits"] = [{names.get(name, name): value for name, value in each.items()} for each in edits]
    return ("Edit", "MultiEdit"), [told]


def _patch(proposed: Proposed, given: Arguments) -> _Told:
    lines = str(given.get("patch", "")).splitlines()
    told = {
        "old_string": "\n".join(line[1:] for line in lines if line[:1] == "-" and line[:3] != "---"),
        "new_string": "\n".join(line[1:] for line in lines if line[:1] == "+" and line[:3] != "+++"),
        "replace_all": False,
        "patch": given.get("patch", ""),
    }
    told["content"] = told["new_string"]
    paths = proposed.paths or (".",)
    where = [absolute(path, cwd=proposed.cwd or proposed.workspace) for path in paths]
    return ("Edit", "MultiEdit", "Write"), [{"file_path": path, **told} for path in where]


def _grep(proposed: Proposed, given: Arguments) -> _Told:
    told = _without_none(
        pattern=given.get("pattern", ""),
        path=_path(proposed, given),
        glob=given.get("glob") or None,
        head_limit=given.get("limit"),
    )
    return ("Grep",), [told | ({"-i": True} if given.get("ignore_case") else {})]


def _find(proposed: Proposed, given: Arguments) -> _Told:
    if given.get("text"):  # the small profile looks for text with the same tool
        told = {"pattern": re.escape(str(given["text"])), "path": _path(proposed, given)}
        return ("Grep", "Glob"), [told]
    return ("Glob",), [{"pattern": given.get("glob") or "**/*", "path": _path(proposed, given)}]


def _fetch(_: Proposed, given: Arguments) -> _Told:
    return ("WebFetch",), [{"url": given.get("url", ""), "prompt": ""}]


def _web_search(_: Proposed, given: Arguments) -> _Told:
    return ("WebSearch",), [{"query": given.get("query", "")}]


def _delegate(_: Proposed, given: Arguments) -> _Told:
    task, agent = str(given.get("task", "")), given.get("agent") or "general-purpose"
    return ("Task", "Agent"), [{"description": task[:60], "prompt": task, "subagent_type": agent}]


def _execute(proposed: Proposed, given: Arguments) -> _Told:
    """A command that an agent over ACP asks for."""
    return ("Bash",), [{**given, "command": proposed.command}]


def _change(proposed: Proposed, given: Arguments) -> _Told:
    """A change of a file that an agent over ACP asks for, in words of its own."""
    if set(given) == {"path", "content"}:
        return _write(proposed, given)
    paths = proposed.paths or (".",)
    edits, names = _edits(given), ("old_string", "new_string")
    joined = {name: "\n".join(str(each.get(name, "")) for each in edits) for name in names if edits}
    told = {**joined, **given}
    return ("Edit", "Write", "MultiEdit"), [{**told, "file_path": path} for path in paths]


def _edit_or_change(proposed: Proposed, given: Arguments) -> _Told:
    edits = _edits(given) if "edits" in given else [given]
    is_ours = bool(edits) and all({"old", "new"} <= set(each) for each in edits)
    return _edit(proposed, given) if is_ours else _change(proposed, given)


def _search(proposed: Proposed, given: Arguments) -> _Told:
    """What an agent over ACP looks for, in words of its own."""
    return ("Grep", "Glob"), [{"path": _path(proposed, given), **given}]


_TOLD: dict[str, Callable[[Proposed, Arguments], _Told]] = {
    "shell": _shell,
    "step": _exec,
    "process": _sent,
    "read": _read,
    "write": _write,
    "edit": _edit_or_change,
    "patch": _patch,
    "grep": _grep,
    "find": _find,
    "fetch": _fetch,
    "web_search": _web_search,
    "delegate": _delegate,
    "execute": _execute,
    "search": _search,
    "delete": _change,
    "move": _change,
}
_Take = Callable[[Any], dict[str, Any]]


def _as(name: str) -> _Take:
    return lambda value: {name: value}


_PATH: dict[str, _Take] = {"file_path": _as("path")}
_TAKEN: dict[str, dict[str, _Take]] = {
    "shell": {
        "command": _as("command"),
        "timeout": lambda value: {"timeout_s": value / 1000},
        "run_in_background": _as("background"),
        "description": lambda _: {},
    },
    "step": {"command": lambda line: {"argv": ("bash", "-c", line)}, "description": lambda _: {}},
    "read": {**_PATH, "offset": _as("offset"), "limit": _as("limit")},
    "write": {**_PATH, "content": _as("content")},
    "grep": {"pattern": _as("pattern"), "path": _as("path"), "glob": _as("glob"), "head_limit": _as("limit")},
    "fetch": {"url": _as("url"), "prompt": lambda _: {}},
    "web_search": {"query": _as("query")},
}
"""What a hook may change of a call, by the names that it was told; of all other tools of ours nothing."""
