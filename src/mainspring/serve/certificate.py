"""A certificate of our own for https where nobody else gives one: made once by the `openssl` program, kept
privately, and told by its fingerprint, which a person compares when a device is paired."""

from __future__ import annotations

import hashlib
import ssl
import time
from collections.abc import Sequence
from ipaddress import ip_address
from pathlib import Path
from urllib.parse import urlsplit

from mainspring.disk.files import make_folder, write_private
from mainspring.errors import UsageError
from mainspring.sandbox.detached import run_program
from mainspring.settings import Config

_DAYS = 825
_RENEW_S = 700 * 24 * 3600
_WITHIN_S = 60.0
_SHOWN_WITHIN_S = 5.0
_CURVE = "ec_paramgen_curve:prime256v1"


def self_signed(config: Config, names: Sequence[str]) -> tuple[Path, Path]:
    """The certificate and its key, for these names and addresses; made when there is none for them yet."""
    folder = config.home / "web"
    cert, key, kept = folder / "self-signed.pem", folder / "self-signed.key", folder / "self-signed.names"
    wanted = "\n".join(sorted(set(names)))
    is_kept = cert.exists() and key.exists() and kept.exists() and kept.read_text("utf-8") == wanted
    if is_kept and time.time() - cert.stat().st_mtime < _RENEW_S:
        return cert, key
    make_folder(folder)
    write_private(key, b"")  # private before there is anything in it
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", _CURVE, "-nodes"]
    command += ["-days", str(_DAYS), "-subj", "/CN=mainspring", "-keyout", str(key), "-out", str(cert)]
    command += ["-addext", f"subjectAltName={','.join(map(_entry, sorted(set(names))))}"]
    try:
        ended = run_program(command, environment=config.environment, timeout_s=_WITHIN_S)
    except FileNotFoundError as error:
        raise UsageError(
            "A certificate is made with `openssl`, which is not installed.",
            remedy="Install it, or give --cert and --key.",
        ) from error
    if ended.exit_code:
        raise UsageError(f"openssl made no certificate: {ended.errors.strip()[-300:]}")
    write_private(kept, wanted.encode())
    return cert, key


def fingerprint(cert: Path) -> str:
    """SHA-256 of the (first) certificate in a file, as browsers show it."""
    text = cert.read_text("ascii", "replace")
    end = "-----END CERTIFICATE-----"
    return _fingerprint(text[text.index("-----BEGIN CERTIFICATE-----") : text.index(end) + len(end)])


def served_fingerprint(address: str) -> str:
    """That of the certificate which a server shows at this address; nothing without https."""
    place = urlsplit(address)
    if place.scheme != "https" or not place.hostname:
        return ""
    try:
        return _fingerprint(
            ssl.get_server_certificate((place.hostname, place.port or 443), timeout=_SHOWN_WITHIN_S)
        )
    except OSError as error:
        raise UsageError(
            f"No server answers at {address}: {error.strerror or error}.",
            remedy="Give the address as `mainspring serve` prints it.",
        ) from error


def _fingerprint(pem: str) -> str:
    der = ssl.PEM_cert_to_DER_cert(pem)
    digest = hashlib.sha256(der).hexdigest().upper()
    return ":".join(digest[at : at + 2] for at in range(0, len(digest), 2))


def _entry(name: str) -> str:
    try:
        return f"IP:{ip_address(name)}"
    except ValueError:
        return f"DNS:{name}"
