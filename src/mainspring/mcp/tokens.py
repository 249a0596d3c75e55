"""The file with the tokens of one server, private in the data folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from mainspring.disk.files import write_private
from mainspring.disk.untrusted import read_untrusted


class StoredTokens(msgspec.Struct, frozen=True, kw_only=True):
    """What an authorization server gave: tokens, who we are there, when the tokens end,
    and where they are refreshed. `scope` is what the next login asks for beside the usual."""

    tokens: dict[str, Any] | None = None
    client: dict[str, Any] | None = None
    expires_at: float | None = None
    metadata: dict[str, Any] | None = None
    scope: str = ""


def token_file(home: Path, sha256: str) -> Path:
    return home / "mcp" / "tokens" / f"{sha256}.json"


def forget_login(home: Path, sha256: str) -> None:
    """Before another login: only what it must ask for stays."""
    path = token_file(home, sha256)
    wanted = read_tokens(path).scope
    path.unlink(missing_ok=True)
    if wanted:
        write_private(path, msgspec.json.encode(StoredTokens(scope=wanted)))


def read_tokens(path: Path) -> StoredTokens:
    """What is kept; nothing when there is no such file, or it is damaged: then a person logs in again."""
    try:
        return msgspec.json.decode(read_untrusted(path, max_bytes=1 << 20), type=StoredTokens)
    except (OSError, msgspec.MsgspecError):
        return StoredTokens()
