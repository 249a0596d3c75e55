"""One archive about a session for a bug report, without secrets and, unless asked for, without contents.

Everything passes the vault of the session and of the environment once more, whatever it passed before. The
archive says itself what is in it and what is not. It is sent nowhere.
"""

from __future__ import annotations

import io
import platform
import zipfile
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path

import msgspec

from mainspring import __version__
from mainspring.app.operations.doctor import diagnose
from mainspring.app.operations.sessions import read_events
from mainspring.app.records import vault_of
from mainspring.app.stores import sessions_of
from mainspring.errors import JournalError, UsageError
from mainspring.events import Recorded
from mainspring.events.counts import plural
from mainspring.events.outline import outline
from mainspring.secrets.vault import Vault, in_texts
from mainspring.settings import Config

_LOG_BYTES = 512 * 1024


class Bundle(msgspec.Struct, frozen=True, kw_only=True):
    """What was written where. `contents` names each file of the archive and what it holds."""

    path: Path
    bytes: int
    contents: dict[str, str]
    left_out: tuple[str, ...]


async def make_bundle(
    config: Config, session: str, to: Path | None, folder: Path, *, with_contents: bool = False
) -> Bundle:
    """Writes the archive, by default into a folder; an earlier file is not overwritten."""
    sessions = sessions_of(config)
    session = await sessions.find(session)
    clean = _Cleaner(vault_of(sessions, session, config), config)
    path = to or folder / f"mainspring-{session}.zip"
    events, about_events = await _events(config, session, clean, with_contents=with_contents)
    files = {
        "doctor.json": (clean.json(await diagnose(config, folder)), "what `mainspring doctor` says"),
        "versions.json": (clean.json(_versions()), "versions of mainspring, Python, the system and packages"),
        "settings.json": (clean.json(config.settings), "config.toml as it was read"),
        "events.jsonl": (events, about_events),
        "log.txt": _log(config, clean),
    }
    contents = {name: said for name, (_, said) in files.items()}
    left_out = _left_out(with_contents=with_contents)
    readme = _readme(session, contents, left_out)
    data = _archive({"README.txt": readme, **{name: text for name, (text, _) in files.items()}})
    try:
        with path.open("xb") as file:
            path.chmod(0o600)
            file.write(data)
    except FileExistsError as error:
        raise UsageError(f"{path} exists already.", remedy="Name another file with -o.") from error
    except OSError as error:
        raise UsageError(
            f"{path} cannot be written: {error.strerror}.", remedy="Name another with -o."
        ) from error
    return Bundle(path=path, bytes=len(data), contents=contents, left_out=left_out)


class _Cleaner:
    """Takes secrets out, and the name of the home folder."""

    def __init__(self, vault: Vault, config: Config) -> None:
        self._vault = vault
        self._home = config.variable("HOME").rstrip("/")

    def text(self, text: str) -> str:
        hidden = self._vault.redact(text)
        return hidden.replace(self._home, "~") if self._home else hidden

    def json(self, value: object) -> str:
        """One line of JSON, cleaned before it is encoded, since encoding could disguise a secret."""
        plain = in_texts(self.text, msgspec.to_builtins(value, str_keys=True))
        return self.text(msgspec.json.encode(plain).decode())


async def _events(config: Config, session: str, clean: _Cleaner, *, with_contents: bool) -> tuple[str, str]:
    """The lines of events, and what they are; of a journal that is damaged, those before the damage."""
    lines: list[str] = []
    problem = ""
    try:
        async for recorded in read_events(config, session):
            line = _line(recorded, with_contents=with_contents)
            lines.append(clean.json(line))
    except JournalError as error:
        problem = f"; the rest cannot be read: {clean.text(error.message)}"
    said = f"{plural(len(lines), 'event')}, {'with' if with_contents else 'without'} contents{problem}"
    return "".join(f"{line}\n" for line in lines), said


def _line(recorded: Recorded, *, with_contents: bool) -> dict[str, object]:
    event = recorded.event
    body: object = msgspec.to_builtins(event) if with_contents else outline(event)
    return {"seq": recorded.seq, "time_us": recorded.time_us, "kind": type(event).__name__, "body": body}


def _versions() -> dict[str, object]:
    packages = {"python": platform.python_version(), "system": platform.platform()}
    for needed in requires("mainspring") or ():
        name = needed.partition(";")[0].split(">")[0].split("=")[0].split("<")[0].strip()
        try:
            packages[name] = version(name)
        except PackageNotFoundError:
            packages[name] = "not installed"
    return {"mainspring": __version__, **packages}


def _log(config: Config, clean: _Cleaner) -> tuple[str, str]:
    path = config.log_file
    try:
        with path.open("rb") as file:
            start = max(0, file.seek(0, io.SEEK_END) - _LOG_BYTES)
            file.seek(start)
            data = file.read()
    except OSError:
        return "", "empty: there is no log; `mainspring --debug` writes one"
    # A line that was cut could show the end of a secret, whose beginning no longer tells that it is one.
    text = data.partition(b"\n")[2] if start else data
    return clean.text(text.decode("utf-8", "replace")), "the end of the debug log"


def _left_out(*, with_contents: bool) -> tuple[str, ...]:
    always = (
        "secrets (replaced by placeholders)",
        "blobs: files before and after, attachments, long outputs",
    )
    contents = "prompts, replies, arguments, outputs and names of files (--with-contents puts them in)"
    return always if with_contents else (contents, *always)


def _readme(session: str, contents: dict[str, str], left_out: tuple[str, ...]) -> str:
    lines = [f"A report about session {session} of mainspring {__version__}.", "", "In it:"]
    lines += [f"  {name}: {said}" for name, said in contents.items()]
    lines += ["", "Not in it:", *(f"  {each}" for each in left_out), ""]
    return "\n".join(lines)


def _archive(files: dict[str, str]) -> bytes:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return data.getvalue()
