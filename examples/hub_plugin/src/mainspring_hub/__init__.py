"""A hub of models and data (Hugging Face's interface): repositories, files, branches, pull requests.

One tool. Reading is free; what writes is asked for, by the operation that a call names. HF_TOKEN is the key,
and HF_ENDPOINT another address.
"""

from __future__ import annotations

import base64
import os
from typing import Annotated, Any, Literal
from urllib.parse import quote, urlencode

import msgspec

import mainspring
from mainspring.net.client import send_request
from mainspring.plugins import Plugin
from mainspring.tools import ToolFailed

Reading = Literal["search", "show", "files", "read", "branches", "pulls"]
Writing = Literal["create", "write", "branch", "pull", "merge"]
_READING = ("search", "show", "files", "read", "branches", "pulls")
_MAX_SHOWN = 200


def _effect(*, operation: str, **_: Any) -> Literal["read", "network"]:
    return "read" if operation in _READING else "network"


@mainspring.tool(effect=_effect)
async def hub(
    operation: Reading | Writing,
    repository: Annotated[str, "owner/name; for `search` the words"],
    kind: Literal["models", "datasets", "spaces"] = "models",
    path: Annotated[str, "a file in the repository"] = "",
    branch: str = "main",
    text: Annotated[str, "content for `write`, title for `pull`"] = "",
    number: Annotated[int, "of a pull request"] = 0,
) -> str:
    """Works with repositories of models and data on a hub: search, show, files, read, branches, pulls;
    create, write (commits a file), branch, pull (opens a pull request), merge."""
    at = f"/api/{kind}/{quote(repository)}"
    ref = quote(branch, safe="")
    if operation in _READING:
        whole = f"{'' if kind == 'models' else f'/{kind}'}/{quote(repository)}/resolve/{ref}/{quote(path)}"
        return await _read(operation, repository, f"/api/{kind}", at, ref, whole)
    if operation == "create":
        owner, _, name = repository.rpartition("/")
        given = {"name": name, "type": kind.removesuffix("s"), **({"organization": owner} if owner else {})}
        return str((await _asked("POST", "/api/repos/create", given))["url"])
    if operation == "write":
        return await _commit(f"{at}/commit/{ref}", path, text)
    if operation == "branch":
        await _asked("POST", f"{at}/branch/{ref}", {})
        return f"The branch {branch} was made."
    if operation == "pull":
        given = {"title": text, "description": "", "pullRequest": True}
        return f"#{(await _asked('POST', f'{at}/discussions', given))['num']} was opened."
    await _asked("POST", f"{at}/discussions/{number}/merge", {})
    return f"#{number} was merged."


async def _read(operation: str, words: str, listing: str, at: str, ref: str, whole: str) -> str:
    match operation:
        case "search":
            found = await _asked("GET", f"{listing}?{urlencode({'search': words, 'limit': 20})}")
            return _lines(f"{each['id']}  {each.get('downloads', 0)} downloads" for each in found)
        case "files":
            found = await _asked("GET", f"{at}/tree/{ref}?recursive=true")
            return _lines(f"{each['path']}  {each.get('size', 0)} bytes" for each in found)
        case "read":
            return (await _sent("GET", whole)).decode("utf-8", "replace")
        case "branches":
            return _lines(each["name"] for each in (await _asked("GET", f"{at}/refs"))["branches"])
        case "pulls":
            found = (await _asked("GET", f"{at}/discussions?type=pull_request"))["discussions"]
            return _lines(f"#{each['num']} {each['status']}: {each['title']}" for each in found)
        case _:
            return msgspec.json.format(msgspec.json.encode(await _asked("GET", at)), indent=1).decode()


async def _commit(url: str, path: str, text: str) -> str:
    content = base64.b64encode(text.encode()).decode()
    lines = (
        {"key": "header", "value": {"summary": f"Write {path}"}},
        {"key": "file", "value": {"path": path, "content": content, "encoding": "base64"}},
    )
    body = b"\n".join(map(msgspec.json.encode, lines))
    made = msgspec.json.decode(await _sent("POST", url, body, "application/x-ndjson"))
    return str(made.get("commitUrl", "written"))


async def _asked(method: str, path: str, body: Any = None) -> Any:
    data = await _sent(method, path, b"" if body is None else msgspec.json.encode(body), "application/json")
    return msgspec.json.decode(data) if data else {}


async def _sent(method: str, path: str, body: bytes = b"", kind: str = "application/json") -> bytes:
    base = os.environ.get("HF_ENDPOINT", "https://huggingface.co").rstrip("/")
    token = os.environ.get("HF_TOKEN", "")
    headers = {"content-type": kind, **({"authorization": f"Bearer {token}"} if token else {})}
    try:
        answer = await send_request(method, base + path, environment=os.environ, headers=headers, body=body)
    except (OSError, ValueError) as error:
        raise ToolFailed(f"The hub could not be asked: {error or type(error).__name__}.") from error
    if answer.status >= 300:
        raise ToolFailed(f"The hub answered {answer.status}: {answer.body[:300].decode('utf-8', 'replace')}")
    return answer.body


def _lines(found: Any) -> str:
    lines = list(found)
    rest = f"\n({len(lines) - _MAX_SHOWN} more)" if len(lines) > _MAX_SHOWN else ""
    return "\n".join(lines[:_MAX_SHOWN]) + rest or "Nothing was found."


PLUGIN = Plugin(name="hub", api=1, tools=(hub,))
