"""The files of the page: read once, served with their kind and a tag, so that a browser asks only once."""

from __future__ import annotations

import hashlib
from importlib.resources import files

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route as Path

_KINDS = {
    "html": "text/html; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "svg": "image/svg+xml",
    "webmanifest": "application/manifest+json",
}
_NAMES = (
    "index.html",
    "app.js",
    "net.js",
    "parts.js",
    "fleet.js",
    "family.js",
    "session.js",
    "questions.js",
    "forms.js",
    "transcript.js",
    "diff.js",
    "branch.js",
    "standing.js",
    "charts.js",
    "goal.js",
    "back.js",
    "artifacts.js",
    "machine.js",
    "workers.js",
    "record.js",
    "push.js",
    "sw.js",
    "texts.js",
    "style.css",
    "icon.svg",
    "app.webmanifest",
    "vendor/preact.module.js",
    "vendor/hooks.module.js",
    "vendor/htm.module.js",
)
PAGE_PATHS = ("/", "/sw.js", *(f"/page/{name}" for name in _NAMES))


def page_routes() -> list[Path]:
    """One route for each file; nothing else of the folder can be asked for."""
    root = files("mainspring.serve") / "page"
    found = {name: (root / name).read_bytes() for name in _NAMES}
    # The only name in vendored code that a browser cannot resolve by itself.
    hooks = "vendor/hooks.module.js"
    found[hooks] = found[hooks].replace(b'from"preact"', b'from"./preact.module.js"')
    routes = [Path(f"/page/{name}", _file(name, data), methods=["GET"]) for name, data in found.items()]
    # A worker looks after the folder that it lies in, so its place is the root.
    root_files = (("/", "index.html"), ("/sw.js", "sw.js"))
    return [*(Path(path, _file(name, found[name]), methods=["GET"]) for path, name in root_files), *routes]


def _file(name: str, data: bytes):
    tag = f'"{hashlib.sha256(data).hexdigest()[:20]}"'
    kind = _KINDS[name.rsplit(".", 1)[1]]
    headers = {"etag": tag, "cache-control": "no-cache"}

    async def answer(request: Request) -> Response:
        if request.headers.get("if-none-match") == tag:
            return Response(status_code=304, headers=headers)
        return Response(data, media_type=kind, headers=headers)

    return answer
