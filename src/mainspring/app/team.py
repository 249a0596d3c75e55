"""Which policies of a team are in force on a machine, and who is asking.

There can be one in the database that machines share, one of whoever runs this machine, and one in a file
that the settings name; all hold together. Each must be signed. What was accepted is remembered (its serial,
and who may sign the next one), so an older one, another signer or none at all is noticed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Generator
from importlib import import_module
from pathlib import Path

import msgspec

from mainspring.disk.files import locked, make_folder, write_private
from mainspring.disk.shared_files import SharedFiles
from mainspring.disk.untrusted import read_untrusted_text
from mainspring.errors import ConfigError
from mainspring.events.decoding import DECODE_ERRORS
from mainspring.people.persons import Person, local_name, person_on_record, recorded_name
from mainspring.people.roles import Permission, decide_in
from mainspring.people.team import TeamApproval, TeamPolicy, TeamRule, parse_team
from mainspring.settings import Config
from mainspring.system import user_name

STORED = "team/policy.toml"
OF_THE_MACHINE = "policy.toml"
_MAX_BYTES = 1 << 20
_FOLDER = "team"


class InForce(msgspec.Struct, frozen=True, kw_only=True):
    """A policy that was accepted; `place` says where it is."""

    policy: TeamPolicy
    place: str
    signer: str

    @property
    def name(self) -> str:
        """Which it is, as rules are named by it."""
        return f"policy of {self.place} ({self.policy.serial})"


class _Known(msgspec.Struct, frozen=True, kw_only=True):
    """What was accepted last from a place."""

    place: str
    serial: int
    sha256: str
    keys: tuple[str, ...]


def may_have_policy(config: Config) -> bool:
    """Whether there can be a policy at all; asked before anything else is read."""
    is_named = bool(config.store_url or config.settings.policy.file) or _of_machine(config).exists()
    return is_named or bool(_remembered_files(config))


def policies_in(config: Config, files: SharedFiles | None) -> tuple[InForce, ...]:
    """The policies in force, of the shared `files` and of this machine; `ConfigError` when one was tampered
    with, or is gone."""
    return tuple(
        accepted(config, place, text)
        for place, text in _found(config, files)
        if text is not None or _known(config, place) is not None
    )


def person_of(config: Config) -> Person:
    """Who gives the commands: who was found out by a face, else the account of this machine."""
    if config.person is not None:
        return config.person
    origin = config.origin
    if not origin.user:
        try:
            origin = msgspec.structs.replace(origin, user=user_name())
        except OSError:  # Windows, without a terminal
            origin = msgspec.structs.replace(origin, user="")
    return person_on_record(origin, "an account of this machine")


def account_name(user: str) -> str:
    """The name under which an account of this machine is recorded: one that looks like an address is told
    from the address that an issuer vouches for."""
    return recorded_name(Person(name=local_name(user), known_by="")) if user else ""


def permission_in(
    policies: tuple[InForce, ...], person: Person, operation: str, folder: str | None
) -> Permission | None:
    """What the policies say to a command about a folder, or about whatever a person may see: the first that
    refuses it, else the first; None when there is none."""
    found = [decide_in(each.policy, person, operation, folder=folder, where=each.name) for each in policies]
    return next((each for each in found if not each.is_allowed), found[0] if found else None)


def sees(policies: tuple[InForce, ...], person: Person, folder: str) -> bool:
    """Whether a person may look at what is in a folder."""
    return all(
        each.policy.role_of(person, each.policy.project_of(folder))[0] is not None for each in policies
    )


def rules_in(policies: tuple[InForce, ...], person: Person, folder: str) -> tuple[tuple[str, TeamRule], ...]:
    """The rules that hold for a person in a folder, each with the name by which it is told."""
    return tuple(
        (f"{each.name}, rule {rule.name}", rule)
        for each in policies
        for rule in each.policy.rules_for(person, folder)
    )


def approvals_in(policies: tuple[InForce, ...], folder: str) -> tuple[tuple[str, TeamApproval], ...]:
    """What holds for answers about calls in a folder, each with the name by which it is told."""
    return tuple(
        (f"{each.name}, approval {approval.name}", approval)
        for each in policies
        for approval in each.policy.approvals_for(folder)
    )


def accepted(config: Config, place: str, text: str | None) -> InForce:
    """The policy of a place, if it may be the one after the last; from then on it is the last."""
    known = _known(config, place)
    sha256 = hashlib.sha256((text or "").encode()).hexdigest()
    cached = _CACHE.get((str(config.home), place))
    if cached and known and cached[0] == sha256 == known.sha256:
        return cached[1]
    if text is None:
        raise ConfigError(
            f"There was a policy of the team at {place}, and it is gone.",
            remedy="An admin puts it back: mainspring policy set FILE. To go on without one, remove"
            f" {_memory(config, place)}.",
        )
    made = checked(config, place, text)
    if known is None or known.sha256 != sha256:
        _remember(config, place, made, sha256)
    _CACHE[str(config.home), place] = sha256, made
    return made


def checked(config: Config, place: str, text: str) -> InForce:
    """The policy that a text is, if it may follow the one that was known of its place."""
    signing = import_module("mainspring.people.signing")
    signer, known = signing.signer_of(text, place), _known(config, place)
    policy = parse_team(text, place)
    trusted = known.keys if known else config.settings.policy.keys
    if trusted and signer not in trusted:
        raise signing.SignatureInvalid(
            f"The policy of {place} is signed by {signer}, whom this machine does not know.",
            remedy="One of these may sign it: " + ", ".join(trusted),
        )
    if known and policy.serial < known.serial:
        raise ConfigError(
            f"The policy of {place} is number {policy.serial}, and number {known.serial} was in force.",
            remedy="An older one was put back. An admin puts the newest there: mainspring policy set FILE",
        )
    sha256 = hashlib.sha256(text.encode()).hexdigest()
    if known and policy.serial == known.serial and sha256 != known.sha256:
        raise ConfigError(
            f"The policy of {place} has changed and still is number {known.serial}.",
            remedy="Whoever changes it gives it the next `serial` and signs it.",
        )
    return InForce(policy=policy, place=place, signer=signer)


def store_place(files: SharedFiles) -> str:
    """The place of the policy of shared files."""
    return files.shown(STORED).rpartition(" of ")[2] or STORED


_CACHE: dict[tuple[str, str], tuple[str, InForce]] = {}


def _found(config: Config, files: SharedFiles | None) -> Generator[tuple[str, str | None]]:
    """Every place with what stands there."""
    if files is not None:
        stored = files.read(STORED)
        yield store_place(files), None if stored is None else stored.decode("utf-8", "replace")
    chosen = config.settings.policy.file
    own = Path(chosen).expanduser().absolute() if chosen else None
    for path in dict.fromkeys(filter(None, (_of_machine(config), own, *_remembered_files(config)))):
        yield str(path), _text(path, is_wanted=path == own)


def _text(path: Path, *, is_wanted: bool) -> str | None:
    try:
        return read_untrusted_text(path, max_bytes=_MAX_BYTES)
    except FileNotFoundError as error:
        if is_wanted:
            raise ConfigError(f"The policy {path} is not there.", remedy="Correct [policy] file.") from error
        return None
    except OSError as error:
        raise ConfigError(
            f"The policy {path} cannot be read: {error.strerror}.", remedy="Make it readable."
        ) from error


def _of_machine(config: Config) -> Path:
    return config.system / OF_THE_MACHINE


def _memory(config: Config, place: str) -> Path:
    return config.home / _FOLDER / f"{hashlib.sha256(place.encode()).hexdigest()[:16]}.json"


def _remembered_files(config: Config) -> tuple[Path, ...]:
    """The files of policies that were accepted. They hold on when settings no longer name them: else whoever
    is held to one could take it out."""
    try:
        memories = sorted((config.home / _FOLDER).glob("*.json"))
    except OSError:
        return ()
    places = (_read_memory(path).place for path in memories)
    return tuple(Path(place) for place in places if Path(place).is_absolute())


def _known(config: Config, place: str) -> _Known | None:
    try:
        return _read_memory(_memory(config, place))
    except FileNotFoundError:
        return None


def _read_memory(path: Path) -> _Known:
    try:
        return msgspec.json.decode(path.read_bytes(), type=_Known)
    except DECODE_ERRORS as error:
        raise ConfigError(
            f"{path}, which says what policy was in force, is damaged.",
            remedy="Ask an admin, then remove it.",
        ) from error


def _remember(config: Config, place: str, made: InForce, sha256: str) -> None:
    path = _memory(config, place)
    make_folder(path.parent)
    keys = tuple(dict.fromkeys((made.signer, *made.policy.keys)))
    known = _Known(place=place, serial=made.policy.serial, sha256=sha256, keys=keys)
    with locked(path):
        write_private(path, msgspec.json.encode(known) + b"\n")
