"""Scripts of the workspace that a command names: what a person is shown, and what a yes is bound to.

`sh t.sh`, `python3 x.py` and `./run.sh` mean what the file says at that moment. What the file itself starts
is not followed. A file that cannot be read whole gets a hash that never comes again: it is asked every time.
"""

from __future__ import annotations

import difflib
import hashlib
import posixpath
import re
import secrets
from collections.abc import Iterable
from pathlib import Path

from mainspring.approvals import is_inside
from mainspring.approvals.places import PathLocation
from mainspring.approvals.wrappers import SHELLS, Argv, Word
from mainspring.disk.untrusted import read_untrusted
from mainspring.events import AskedScript

_MAX_BYTES = 4 * 1024 * 1024
_MAX_CHARS = 16_000
_INTERPRETERS = re.compile(
    r"(?:python|pypy)[\d.]*|perl|ruby|node|bun|deno|php|lua|Rscript|tclsh|osascript|guile|\.|source|ts-node|tsx"
)
_WITH_VALUE = re.compile(r"[-+](?:[a-zA-Z]*[oOWX]|I|-rcfile|-init-file)")
_NO_FILE = re.compile(r"-[a-zA-Z]*[cmsep]|--eval|--print")


def script_path(argv: Argv, place: PathLocation) -> str:
    """The file of the workspace that a command runs as a script, by its whole path; empty when none."""
    if not argv or not argv[0].is_plain:
        return ""
    word = argv[0] if "/" in argv[0].text else None
    if argv[0].program in SHELLS or _INTERPRETERS.fullmatch(argv[0].program):
        word = _first_file(argv)
    paths = place.paths(word) if word is not None and word.is_plain else ()
    if len(paths) != 1 or paths[0] is None or not is_inside(paths[0], place.workspace):
        return ""
    return paths[0]


def read_script(path: str, workspace: str) -> AskedScript | None:
    """A script as it is now; None when there is no such file."""
    try:
        data = read_untrusted(Path(path), max_bytes=_MAX_BYTES, root=Path(workspace))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        return _unreadable(path, getattr(error, "strerror", "") or str(error))
    text = data.decode("utf-8", errors="replace")
    return AskedScript(path=path, sha256=hashlib.sha256(data).hexdigest(), text=_bounded(text))


def since(script: AskedScript, before: Iterable[str]) -> str:
    """What changed since a person said yes to it for the last time; empty when nobody did."""
    last = next((text for text in before if text), "")
    name = posixpath.basename(script.path)
    lines = difflib.unified_diff(
        last.splitlines(), script.text.splitlines(), f"{name} (allowed)", f"{name} (now)", lineterm="", n=2
    )
    return _bounded("\n".join(lines)) if last else ""


def _first_file(argv: Argv) -> Word | None:
    at = 1
    while at < len(argv) and (not argv[at].is_plain or argv[at].text[:1] in "-+" or argv[at].text == "run"):
        if not argv[at].is_plain or (argv[0].program not in SHELLS and _NO_FILE.match(argv[at].text)):
            return None
        if argv[0].program in SHELLS and re.match(r"-[a-zA-Z]*[cs]", argv[at].text):
            return None
        at += 2 if _WITH_VALUE.fullmatch(argv[at].text) else 1
    return argv[at] if at < len(argv) else None


def _unreadable(path: str, why: str) -> AskedScript:
    return AskedScript(path=path, sha256=secrets.token_hex(32), text=f"({why}, so it is asked every time)")


def _bounded(text: str) -> str:
    """Cut at the end of a line, so that no half of a secret is left that nobody would know."""
    if len(text) <= _MAX_CHARS:
        return text
    shown = text[:_MAX_CHARS].rpartition("\n")[0]
    return f"{shown}\n… {len(text) - len(shown):,} more characters"
