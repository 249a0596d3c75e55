"""Kinds of loops, as data: what the agent is told, what counts, what is remembered, when it ends.

A profile is a TOML file. Ours lie beside this one; a user's lie in `profiles/` of the settings folder, and
one of the same name takes the place of ours. What a profile does not say is the default of its field.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import msgspec

from mainspring.disk.formats import parse_toml
from mainspring.disk.settings_errors import explain_invalid
from mainspring.disk.untrusted import read_untrusted_text
from mainspring.errors import ConfigError, UsageError
from mainspring.events import Evaluation, GoalChecks, GoalEnding, GoalRules
from mainspring.goals.memory import Sections
from mainspring.goals.protocol import DONE

FOLDER = "profiles"
_MAX_BYTES = 1 << 20
USUAL_EXIT_CODES: dict[GoalEnding, int] = {
    "done": 0,
    "iterations": 5,
    "cost": 4,
    "tokens": 4,
    "steps": 5,
    "time": 5,
    "no_progress": 5,
    "blocked": 3,
    "failed": 1,
    "stopped": 130,
    "max_wait": 5,
}

_Name = Annotated[str, msgspec.Meta(pattern=r"^[a-z][a-z0-9_-]{0,40}$")]


class Profile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`history` says whether an iteration remembers the ones before it by itself (`kept`) or only by the
    memory file and what it is told (`fresh`). `waits` says what is waited for between two iterations: only
    time, also what the agent `named`, or also every background process. `claims` names the file of claims.
    A loop that `passes_exit_code` ends with that of the engine that failed."""

    name: _Name
    """The name for `--profile`; by default that of the file."""
    description: str = ""
    """One line about it."""
    prompt: str
    """What the agent is told about this kind of work."""
    done: str = DONE
    """What the agent writes when it is done."""
    history: Literal["fresh", "kept"] = "fresh"
    """`fresh`: an iteration knows the memory file and its prompt; `kept`: also the conversation before."""
    waits: Literal["time", "named", "processes"] = "named"
    """What is waited for between iterations: time, also what the agent named, also background work."""
    memory: str = "projects/memory.md"
    """The memory file, in the workspace."""
    sections: Sections = Sections()
    """Names of the sections of the memory file."""
    artifacts: tuple[str, ...] = ("**",)
    """Patterns of files that count as artifacts."""
    claims: str = ""
    """The file of claims; empty: none."""
    rules: GoalRules = GoalRules()
    """When a goal ends without being done."""
    checks: GoalChecks = GoalChecks()
    """What must hold before it counts as done."""
    evaluation: Evaluation = Evaluation()
    """How results are measured."""
    exit_codes: dict[GoalEnding, int] = {}
    """Exit codes by ending, where they are not the usual ones."""
    passes_exit_code: bool = False
    """End with the exit code of an engine that failed."""

    def exit_code(self, ending: GoalEnding) -> int:
        return self.exit_codes.get(ending, USUAL_EXIT_CODES[ending])


def load_profile(name: str, folder: Path) -> Profile:
    """The profile of a name, or of a path that ends in `.toml`."""
    is_path = name.endswith(".toml")
    path = Path(name).expanduser() if is_path else _find(name, folder)
    try:
        root = Path() if is_path else None
        text = read_untrusted_text(path, max_bytes=_MAX_BYTES, root=root)
        written = {"name": path.stem, **parse_toml(text)}
        # The structs of events take unknown fields, and a misspelt rule must not go unnoticed.
        if problem := explain_invalid(written, Profile):
            raise ConfigError(f"The profile {path} is not valid: {problem}", remedy="Edit this file.")
        return msgspec.convert(written, Profile)
    except OSError as error:
        raise ConfigError(
            f"The profile {path} cannot be read: {error.strerror}.", remedy="Check the path and the file."
        ) from error
    except (ValueError, msgspec.ValidationError) as error:
        fields = ", ".join(Profile.__struct_fields__)
        raise ConfigError(
            f"The profile {path} is not valid: {error}.", remedy=f"It may set: {fields}."
        ) from error


def profile_names(folder: Path) -> list[str]:
    places = (folder / FOLDER, Path(__file__).parent)
    return sorted({path.stem for place in places for path in place.glob("*.toml")})


def _find(name: str, folder: Path) -> Path:
    for place in (folder / FOLDER, Path(__file__).parent):
        if name in {path.stem for path in place.glob("*.toml")}:
            return place / f"{name}.toml"
    raise UsageError(
        f"There is no profile {name!r}.",
        remedy=f"There are: {', '.join(profile_names(folder))}; yours go to {folder / FOLDER}.",
    )
