"""What a workspace protected held when a background command was started, kept in that command's own folder.

The command may outlive us, so this cannot be kept in memory: whoever sees that it ended repairs what the
kernel let through, as after any other command.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import msgspec

from mainspring.disk.files import make_folder
from mainspring.disk.formats import refuse_newer_json
from mainspring.sandbox.policy import Confinement
from mainspring.sandbox.protect import Kept, Stamp, State, repair
from mainspring.sandbox.survey import Survey, SurveyFindings

_FILE = "held.json"
_FORMAT = 1


class _Held(msgspec.Struct, frozen=True):
    policy: Confinement
    protected: list[tuple[Path, int]]
    git_dirs: list[tuple[Path, int]]
    remembered: list[tuple[Path, list[tuple[Path, Kept | None]]]]
    format_version: int = _FORMAT
    stamps: list[tuple[Path, list[tuple[Path, Stamp]]]] = []


def hold(folder: Path, policy: Confinement, before: SurveyFindings, remembered: State) -> None:
    """Writes down how things are before a command is started; its folder is private."""
    make_folder(folder)
    held = _Held(
        policy,
        list(before.protected.items()),
        list(before.git_dirs.items()),
        [
            (path, [(file, kept) for file, kept in files.items() if kept is None or len(kept) == 2])
            for path, files in remembered.items()
        ],
        stamps=[
            (path, [(file, stamp) for file, stamp in files.items() if stamp is not None and len(stamp) == 4])
            for path, files in remembered.items()
        ],
    )
    fd = os.open(folder / _FILE, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with os.fdopen(fd, "wb") as file:
        file.write(msgspec.json.encode(held, enc_hook=str))


def release(folder: Path) -> tuple[str, ...]:
    """Sets aside or puts back what an ended command did to protected paths; the names, the first time."""
    path = folder / _FILE
    try:
        data = path.read_bytes()
        refuse_newer_json(path, data, _FORMAT)
        held = msgspec.json.decode(data, type=_Held, dec_hook=_path)
    except (OSError, msgspec.MsgspecError):
        return ()  # it was started without protection, or this was done before
    before = SurveyFindings(dict(held.protected), {}, dict(held.git_dirs))
    remembered: State = {protected: dict(files) for protected, files in held.remembered}
    for protected, files in held.stamps:
        remembered[protected].update(files)
    changed = repair(held.policy, before, Survey(is_watching=False).look(held.policy), remembered)
    path.unlink(missing_ok=True)
    return changed


def _path(kind: type[Any], value: Any) -> Any:
    return kind(value)
