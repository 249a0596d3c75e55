"""Decides which folders may be a workspace: one function for every command and for programs.

A project has no say in it. System folders, and folders of keys or of ours, are never one. A folder that
holds the home folder, our settings or our data needs a person: an answer at the terminal, or a flag.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from mainspring.disk.files import make_folder
from mainspring.errors import UsageError
from mainspring.sandbox.places import secrets_of
from mainspring.settings import Config
from mainspring.system import account_home

AllowHome = bool | Callable[[str], bool]
"""Whether a workspace may hold the home folder, or who is asked; the question is a text for people."""

_SYSTEM = """
    /bin /boot /dev /etc /lib /lib32 /lib64 /libx32 /proc /run /sbin /sys /usr /var
    /Library /System /private/etc /private/var"""
_PLACES_OF_WORK = """
    /dev/shm /run/media /run/user /usr/local/src /usr/src /var/folders /var/opt /var/task /var/tmp /var/www
    /private/var/folders /private/var/tmp"""
_HOMES_OF_SERVICES = (Path("/var"), Path("/private/var"))


def check_workspace(place: Path, config: Config, *, allow_home: AllowHome = False) -> bool:
    """Raises `UsageError` when a resolved folder may not be a workspace. Otherwise says whether a person had
    to allow it, because it holds their home folder, our settings or our data."""
    ours = {"mainspring's data": config.home.resolve(), "mainspring's settings": config.folder.resolve()}
    home = Path(config.variable("HOME") or "/").resolve()
    if refusal := _refusal(place, home, ours):
        raise UsageError(
            f"The workspace {place} {refusal}.", remedy="Choose the folder of one project with -C."
        )
    homes = {home, Path(account_home()).resolve()} - {Path("/")}
    named = [*(("your home folder", each) for each in homes), *ours.items()]
    held = dict.fromkeys(what for what, folder in named if folder.is_relative_to(place))
    if not held:
        return False
    holds = f"The workspace {place} holds {' and '.join(held)}."
    if allow_home is True or (callable(allow_home) and allow_home(holds)):
        # A folder that is missing cannot be held, and whoever makes it grants themselves what they like.
        make_folder(config.folder)
        return True
    remedy = "Choose the folder of one project with -C, or insist: --allow-home (in Python: allow_home=True)."
    raise UsageError(holds, remedy=remedy)


def _refusal(place: Path, home: Path, ours: dict[str, Path]) -> str:
    if place == Path("/") or _is_system(place, home):
        return "is a folder of the system"
    if inside := next((what for what, folder in ours.items() if place.is_relative_to(folder)), ""):
        return f"belongs to {inside}"
    if not {place, *place.parents}.isdisjoint(secrets_of(home)):
        return "is a place for keys and passwords"
    return ""


def _is_system(place: Path, home: Path) -> bool:
    above = {str(folder) for folder in (place, *place.parents)}
    if not above.isdisjoint(_PLACES_OF_WORK.split()):
        return False
    is_of_service = home.parent != Path("/") and place.is_relative_to(home)
    if is_of_service and any(home.is_relative_to(folder) for folder in _HOMES_OF_SERVICES):
        return False
    return not above.isdisjoint(_SYSTEM.split())
