"""What servers offered when they were last asked, on disk: a session knows their tools without starting them.

A file for each configuration (by its hash) in `mcp/manifests` of the data folder. It is a cache: one that is
damaged or of another form is as if it were not there.
"""

from __future__ import annotations

import time
from pathlib import Path

import msgspec

from mainspring.disk.files import make_folder, write_private
from mainspring.disk.untrusted import read_untrusted
from mainspring.mcp.servers import McpServer
from mainspring.mcp.wire import Offers

_FORM = 1
_MAX_BYTES = 16 << 20
_USUAL_TTL_S = 24 * 3600.0
_MAX_TTL_S = 30 * 24 * 3600.0


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """What a server offered, and when it said so."""

    offers: Offers
    taken_at: float
    form: int = _FORM

    def is_stale(self, now: float) -> bool:
        """Whether the server is to be asked again; what it said counts until it has answered."""
        ttl_s = self.offers.ttl_s
        kept_s = _USUAL_TTL_S if ttl_s is None else min(ttl_s, _MAX_TTL_S)
        return not self.taken_at <= now < self.taken_at + kept_s


def load_manifest(home: Path, server: McpServer) -> Manifest | None:
    try:
        data = read_untrusted(_path(home, server), max_bytes=_MAX_BYTES)
        found = msgspec.json.decode(data, type=Manifest)
    except (OSError, msgspec.MsgspecError):
        return None
    return found if found.form == _FORM else None


def keep_manifest(home: Path, server: McpServer, offers: Offers) -> Manifest:
    made = Manifest(offers=offers, taken_at=time.time())
    path = _path(home, server)
    make_folder(path.parent)
    data = msgspec.json.encode(made)
    if len(data) <= _MAX_BYTES:
        write_private(path, data)
    return made


def _path(home: Path, server: McpServer) -> Path:
    return home / "mcp" / "manifests" / f"{server.sha256}.json"
