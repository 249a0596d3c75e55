"""Signatures of policies: Ed25519, in the last line of the file that they are about.

A file that is signed stays one that people can read. Who signed it says nothing about whether that person
may; whoever reads it compares the key with those that they know.
"""

from __future__ import annotations

import base64
import binascii
from importlib import import_module
from typing import Any

from mainspring.errors import ConfigError, UsageError

_MARK = "# signed by "
_CONTEXT = b"mainspring team policy 1\n"
_PREFIX = "ed25519:"


class SignatureInvalid(ConfigError):
    """A policy is not signed, or not as it is now."""


def new_key() -> str:
    """A new private key, as text."""
    return base64.urlsafe_b64encode(_ed25519().Ed25519PrivateKey.generate().private_bytes_raw()).decode()


def public_key(private: str) -> str:
    """The public half of a private key, as policies and settings name it."""
    return _PREFIX + base64.urlsafe_b64encode(_private(private).public_key().public_bytes_raw()).decode()


def signed(text: str, private: str) -> str:
    """The text with a signature in its last line, in place of one that it has."""
    body = _parts(text)[0]
    signature = base64.urlsafe_b64encode(_private(private).sign(_CONTEXT + body.encode())).decode()
    return f"{body}{_MARK}{public_key(private)} {signature}\n"


def signer_of(text: str, file: str) -> str:
    """The public key by which a text is signed; `SignatureInvalid` when it is not, or was changed since."""
    body, line = _parts(text)
    key, _, signature = line.removeprefix(_MARK).strip().partition(" ")
    if not line:
        raise SignatureInvalid(
            f"{file} is not signed.", remedy="An admin signs it: mainspring policy sign FILE"
        )
    ed25519, invalid = _ed25519(), import_module("cryptography.exceptions").InvalidSignature
    try:
        raw = base64.urlsafe_b64decode(key.removeprefix(_PREFIX))
        public = ed25519.Ed25519PublicKey.from_public_bytes(raw)
        public.verify(base64.urlsafe_b64decode(signature), _CONTEXT + body.encode())
    except (ValueError, binascii.Error, invalid) as error:
        raise SignatureInvalid(
            f"{file} was changed after it was signed, or its signature is damaged.",
            remedy="Do not rely on it. An admin who knows what it should say signs it again:"
            " mainspring policy sign FILE",
        ) from error
    return key


def check_key(text: str) -> None:
    """`ConfigError` for what is no public key."""
    try:
        is_whole = len(base64.urlsafe_b64decode(text.removeprefix(_PREFIX))) == 32
    except (ValueError, binascii.Error):
        is_whole = False
    if not (is_whole and text.startswith(_PREFIX)):
        raise ConfigError(f"{text!r} is no key.", remedy="`mainspring policy sign` prints it: ed25519:…")


def _parts(text: str) -> tuple[str, str]:
    """What is signed, and the line with the signature, which may be missing."""
    body = text if text.endswith("\n") or not text else f"{text}\n"
    head, _, last = body.rstrip("\n").rpartition("\n")
    return (f"{head}\n" if head else "", last) if last.startswith(_MARK) else (body, "")


def _private(text: str) -> Any:
    try:
        return _ed25519().Ed25519PrivateKey.from_private_bytes(base64.urlsafe_b64decode(text.strip()))
    except (ValueError, binascii.Error) as error:
        raise ConfigError("The key to sign with is damaged.", remedy="Make another one.") from error


def _ed25519() -> Any:
    try:
        return import_module("cryptography.hazmat.primitives.asymmetric.ed25519")
    except ModuleNotFoundError as error:
        raise UsageError(
            "Policies are signed, and checking that needs the package cryptography.",
            remedy="pip install 'mainspring[cluster]'",
        ) from error
