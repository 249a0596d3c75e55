"""Secrets hidden from model, journal and screen by placeholders that turn back into them on write and exec.

A `Vault` knows the values of secret variables and learns strings that look like keys. `redact` replaces them;
`expand` puts them back, so a redacted file written back is the file as it was. Placeholders are made of word
characters, survive quoting and JSON, and carry a keyed hash, so they say nothing about the value and never
stand for another one. `RedactingStream` does the same for text that arrives in pieces.
"""

from __future__ import annotations

import hashlib
import re
import secrets
import threading
from collections.abc import Callable, Mapping
from typing import cast

import msgspec

from mainspring.disk.formats import refuse_newer_json
from mainspring.disk.shared_files import SharedFiles
from mainspring.errors import ConfigError
from mainspring.patterns import lazy_pattern
from mainspring.secrets.encodings import DIGIT_RUN, digit_forms, last_digits, wrapped_forms, written_forms
from mainspring.secrets.shapes import MAX_LEAD, is_hinted, shapes_in

PLACEHOLDER = lazy_pattern(r"__secret_\w*?_[0-9a-f]{10}__")

_FORMAT = 1
_FILE = "secrets.json"
MIN_CHARS = 6
"""No secret is shorter."""

_MIN_VALUE_CHARS = 8
_SURELY_CHARS = 16
_KINDS = ("[a-z]", "[A-Z]", "[0-9]", r"[^a-zA-Z0-9_./ -]")
_PLAIN_URL = lazy_pattern(r"\w+://[^@]*")
_FOREIGN = lazy_pattern(r"[^\x00-\x7f]+")
_WORD = lazy_pattern(r"\S+")
_SPACED = lazy_pattern(r"\s|[^\x00-\x7f]")
_MAX_HELD_CHARS = 64 * 1024
_KEPT_CHARS = 8 * 1024
_SECRET_NAME = lazy_pattern(
    r"(?i)(secret|token|passw(or)?d|passphrase|api_?key|private_?key|credential|auth)"
    r"(?!or|s?_?(file|path|url|dir))"
)


class StoredVault(msgspec.Struct, frozen=True):
    """A vault as it is stored: privately, beside the journal and never in it."""

    key: bytes
    secrets: dict[str, str]
    format_version: int = _FORMAT


class Vault:
    """`known` are secret variables by name. A vault restored from `kept` understands its old placeholders;
    `keep` stores it privately."""

    def __init__(
        self,
        known: Mapping[str, str] | None = None,
        *,
        kept: StoredVault | None = None,
        keep: Callable[[StoredVault], None] | None = None,
    ) -> None:
        self._keep = keep
        self._learning = threading.Lock()
        self._issued = set(kept.secrets) if kept else set[str]()
        self._saved = len(self._issued)
        self._key = kept.key if kept else secrets.token_bytes(16)
        self._values: dict[str, str] = dict(kept.secrets) if kept else {}
        self._placeholders = {value: placeholder for placeholder, value in self._values.items()}
        self._digits: tuple[str, ...] = ()
        self.know(known or {})

    def know(self, known: Mapping[str, str]) -> None:
        """Hides these values from now on, by their names."""
        known = {name: value for name, value in known.items() if len(value) >= MIN_CHARS}
        for name, value in known.items():
            for form in (*written_forms(value), *digit_forms(value)):
                self._learn(name, form)
        digits = {form for value in known.values() for form in digit_forms(value)}
        more = digits.difference(*map(written_forms, known.values()))
        self._digits = tuple(dict.fromkeys((*self._digits, *more)))
        self._longest_digits = max(map(len, self._digits), default=0)
        self._recompile()

    def redact(self, text: str) -> str:
        """The text without secrets. Placeholders already in it stay as they are."""
        if not (self._placeholders or is_hinted(text)):
            return text
        while (hidden := self._redact_once(text)) != text:
            text = hidden  # what was hidden may have been glued to a secret and made it look like another
        return text

    def redact_bytes(self, data: bytes) -> bytes:
        """The bytes of a text without secrets; bytes that are no text stay as they are."""
        return self.redact(data.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")

    def holds_secrets(self, data: bytes) -> bool:
        """Whether these bytes hold secrets, or our placeholders; nothing is learned from them."""
        text = data.decode("utf-8", "surrogateescape")
        patterns = (self._showing, *(shape for _, shape in shapes_in(text)))
        is_known = bool(self._values_in(text)) or bool(wrapped_forms(text, self._digits))
        return is_known or any(pattern.search(text) for pattern in patterns)

    def expand_bytes(self, data: bytes) -> bytes:
        return self.expand(data.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")

    def _redact_once(self, text: str) -> str:
        fresh = [
            (name, found[0])
            for piece in (PLACEHOLDER.split(text) if is_hinted(text) else ())
            for name, shape in shapes_in(piece)
            for found in shape.finditer(piece)
            if found[0] not in self._placeholders
        ]
        fresh += [
            (secret_name(self._placeholders[form]), found)
            for form, found in wrapped_forms(text, self._digits)
            if found not in self._placeholders
        ]
        if fresh:
            with self._learning:  # a long text is redacted in a thread, beside the others
                for name, value in fresh:
                    self._learn(name, value)
                self._recompile()
        return self._hiding(values, text).sub(self._hide, text) if (values := self._values_in(text)) else text

    def _values_in(self, text: str) -> list[str]:
        """The values that a text holds, the longest first. Looking for each is much faster than a pattern of
        all, and the many forms in digits are looked for only where there are digits enough."""
        found = [value for value in self._written if value in text]
        if self._digits and (runs := DIGIT_RUN.findall(text)):
            digits = "\n".join(runs)
            found += [value for value in self._digits if value in digits]
        return sorted(found, key=len, reverse=True)

    def _hiding(self, values: list[str], text: str) -> re.Pattern[str]:
        """Our placeholders come first, so that none is ever broken up; then the longest value wins."""
        placeholders = [each for each in self._values if each in text] if "__secret_" in text else []
        return re.compile("|".join(map(re.escape, (*placeholders, *values))) or r"(?!)")

    def _hide(self, found: re.Match[str]) -> str:
        placeholder = self._placeholders.get(found[0])
        if placeholder is None:
            return found[0]
        self._issued.add(placeholder)
        return placeholder

    def expand(self, text: str) -> str:
        """The text with its secrets. A placeholder that is not ours stays."""
        return self._showing.sub(lambda found: self._values[found[0]], text)

    def expand_all(self, value: object) -> object:
        """Decoded arguments with the secrets in all their texts (a quote would break encoded ones)."""
        return in_texts(self.expand, value)

    def unresolved(self, text: str) -> tuple[str, ...]:
        """Placeholders that this vault cannot expand: writing them would damage a file."""
        return tuple(PLACEHOLDER.findall(self._showing.sub("", text)))

    def stream(self) -> RedactingStream:
        return RedactingStream(self)

    def kept(self) -> StoredVault:
        """What this vault has replaced so far; secrets that nobody has seen are not kept."""
        return StoredVault(self._key, {each: self._values[each] for each in sorted(self._issued)})

    def save(self) -> None:
        """Keeps what was replaced since the last time; to be called before a replacement is recorded."""
        if self._keep is not None and not self.is_saved:
            self._keep(self.kept())
            self._saved = len(self._issued)

    @property
    def is_saved(self) -> bool:
        return self._keep is None or len(self._issued) == self._saved

    def held_from(self, text: str) -> int:
        """From where on a text could be the beginning of a secret or of a placeholder."""
        words = [found.start() for found in _WORD.finditer(text)]
        at = words[-2] if len(words) > 1 else 0
        if text.endswith("\n"):
            at = len(text)  # a secret that goes on in the next line is looked for by itself below
        if not is_hinted(text[at:]):  # every shape begins with ASCII; many scripts have no spaces
            at = max((found.end() for found in _FOREIGN.finditer(text, at)), default=at)
        opened = text.rfind("-----BEGIN ")
        if opened >= 0 and "-----END " not in text[opened:]:
            at = min(at, opened)
        for value in self._spaced:  # any other lies within the last word of ASCII, which is held already
            at = min(at, _overlap(text, value))
        at = min(at, self._open_digits(text))
        if len(text) - at > _MAX_HELD_CHARS:
            at = len(text) - _KEPT_CHARS
        known = [found for _, found in wrapped_forms(text, self._digits)] + self._values_in(text)
        spans: list[tuple[int, int]] = []
        if known or "__secret_" in text:
            spans += [found.span() for found in self._hiding(known, text).finditer(text)]
        for _, shape in shapes_in(text):  # what stands before it tells what it is
            spans += [(max(found.start() - MAX_LEAD, 0), found.end()) for found in shape.finditer(text)]
        for start, end in sorted(spans, key=lambda span: span[1], reverse=True):
            at = start if start < at <= end else at  # also what stands behind it may tell
        return at

    def _open_digits(self, text: str) -> int:
        """From where on the digits in the last lines could be the beginning of a form broken into lines."""
        places = last_digits(text, self._longest_digits) if self._digits and "\n" in text else []
        joined = "".join(text[at] for at in places)
        begun = min((_overlap(joined, form) for form in self._digits), default=len(joined))
        return places[begun] if begun < len(joined) else len(text)

    def _learn(self, name: str, value: str) -> None:
        if len(value) < MIN_CHARS or value in self._placeholders:
            return
        digest = hashlib.blake2b(
            value.encode("utf-8", "surrogatepass"), key=self._key, digest_size=5
        ).hexdigest()
        placeholder = f"__secret_{re.sub(r'[^A-Za-z0-9]+', '_', name).strip('_')}_{digest}__"
        self._values[placeholder] = value
        self._placeholders[value] = placeholder

    def _recompile(self) -> None:
        digits = set(self._digits)
        self._written = tuple(value for value in self._placeholders if value not in digits)
        self._spaced = tuple(value for value in self._written if _SPACED.search(value))
        self._showing = re.compile("|".join(map(re.escape, self._values)) or r"(?!)")


class RedactingStream:
    """Redacts text that comes in pieces: what could still become a secret is held back until it is known."""

    def __init__(self, vault: Vault) -> None:
        self._vault = vault
        self._held = ""

    def feed(self, piece: str) -> str:
        self._held += piece
        at = self._vault.held_from(self._held)
        ready, self._held = self._held[:at], self._held[at:]
        return self._vault.redact(ready)

    def end(self) -> str:
        ready, self._held = self._held, ""
        return self._vault.redact(ready)


def open_vault(files: SharedFiles, known: Mapping[str, str]) -> Vault:
    """The vault of a session, kept in a private file beside its journal, with the secrets that are known by
    name."""
    try:
        data = files.read(_FILE)
        if data is not None:
            refuse_newer_json(files.shown(_FILE), data, _FORMAT)
        kept = None if data is None else msgspec.json.decode(data, type=StoredVault)
    except (OSError, msgspec.MsgspecError) as error:
        raise ConfigError(
            f"The secrets in {files.shown(_FILE)} cannot be read: {error}.",
            remedy="Move the file away; what was hidden in this session can then not be written back.",
        ) from error
    return Vault(known, kept=kept, keep=lambda content: keep_vault(files, content))


def keep_vault(files: SharedFiles, content: StoredVault) -> None:
    """Keeps what a vault has replaced beside a journal."""
    files.write(_FILE, msgspec.json.encode(content))


def secret_name(placeholder: str) -> str:
    """The variable or the kind of key that a placeholder stands for."""
    return placeholder.removeprefix("__secret_")[: -len("_0123456789__")]


def secret_variables(environment: Mapping[str, str]) -> dict[str, str]:
    """The variables that hold a secret by their name and by the look of their value."""
    return {name: value for name, value in environment.items() if is_secret_name(name) and is_telling(value)}


def is_telling(value: str) -> bool:
    """Whether a value is worth hiding: hiding a word, a number or a path would garble what it is not."""
    if len(value) < _MIN_VALUE_CHARS or value.startswith(("/", "./", "~/")) or _PLAIN_URL.fullmatch(value):
        return False
    return len(value) >= _SURELY_CHARS or sum(bool(re.search(kind, value)) for kind in _KINDS) > 1


def is_secret_name(name: str) -> bool:
    """Whether a variable of this name is expected to hold a secret."""
    return bool(_SECRET_NAME.search(name))


def in_texts(change: Callable[[str], str], value: object) -> object:
    """Decoded JSON with all its texts changed, the keys among them."""
    match value:
        case str():
            return change(value)
        case dict():
            pairs = cast("dict[object, object]", value).items()
            return {in_texts(change, key): in_texts(change, each) for key, each in pairs}
        case list():
            return [in_texts(change, each) for each in cast("list[object]", value)]
        case _:
            return value


def _overlap(text: str, value: str) -> int:
    """Where the end of a text begins to look like a value; its length when it does not."""
    start = max(0, len(text) - len(value) + 1)
    while (start := text.find(value[0], start)) >= 0:
        if value.startswith(text[start:]):
            return start
        start += 1
    return len(text)
