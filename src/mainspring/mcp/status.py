"""How servers stand, for other processes: a small file for each, written by whoever runs the server."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

import msgspec

from mainspring.disk.files import make_folder
from mainspring.disk.untrusted import read_untrusted
from mainspring.mcp.servers import McpServer

_MAX_BYTES = 1 << 16


class ServerStatus(msgspec.Struct, frozen=True, kw_only=True):
    """`state` is configured, known, starting, ready, needs-auth or failed; `since` is when it became that."""

    state: str
    since: float
    detail: str = ""
    pid: int = 0


class StatusFile:
    """It only informs: one that is missing, or of a process that is gone, says nothing but failures."""

    def __init__(self, home: Path, server: McpServer) -> None:
        self._path = home / "mcp" / "status" / f"{server.sha256}.json"

    def write(self, status: ServerStatus) -> None:
        with suppress(OSError):  # a full disk must not end a session
            make_folder(self._path.parent)
            fresh = self._path.with_suffix(f".{os.getpid()}")
            fresh.write_bytes(msgspec.json.encode(status))
            fresh.chmod(0o600)
            fresh.replace(self._path)

    def read(self) -> ServerStatus | None:
        try:
            found = msgspec.json.decode(read_untrusted(self._path, max_bytes=_MAX_BYTES), type=ServerStatus)
        except (OSError, msgspec.MsgspecError):
            return None
        is_lasting = found.state in ("failed", "needs-auth")
        return found if is_lasting or _is_alive(found.pid) else None

    def forget(self) -> None:
        """Ends what was true while this process ran; how a start failed is told until the next one."""
        found = self.read()
        if found is not None and found.pid == os.getpid() and found.state in ("starting", "ready"):
            with suppress(OSError):
                self._path.unlink()


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True
