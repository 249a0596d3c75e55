"""Web Push: what is told is encrypted for one browser (RFC 8291, `aes128gcm`) and signed by this machine
(RFC 8292, VAPID), so the push service between them can read neither. Loaded only where a channel wants it."""

from __future__ import annotations

import os
from base64 import urlsafe_b64decode, urlsafe_b64encode
from hashlib import sha256
from urllib.parse import urlsplit

import msgspec
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
)

from mainspring.notify.settings import ChannelSettings
from mainspring.notify.subscriptions import PushSubscription
from mainspring.notify.wires import PRESSING, HttpMessage, Letter

_RECORD_BYTES = 4096
_VALID_S = 12 * 3600
_KEEP_S = 24 * 3600
_CURVE = ec.SECP256R1()


def new_key() -> bytes:
    """A key of this machine, as PEM."""
    made = ec.generate_private_key(_CURVE)
    return made.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def public_key(pem: bytes) -> str:
    """What a browser is told, so that nobody else can send to it."""
    return _text(_point(_loaded(pem).public_key()))


def push_message(
    channel: ChannelSettings, letter: Letter, subscription: PushSubscription, pem: bytes
) -> HttpMessage:
    """Raises `ValueError` for keys that are none. The topic lets a later try replace an earlier one."""
    told = {"id": letter.id, "title": letter.title, "text": letter.text, "link": letter.link}
    return HttpMessage(
        url=subscription.endpoint,
        body=encrypted(msgspec.json.encode(told), subscription),
        headers={
            "authorization": _vapid(subscription.endpoint, channel.sender, letter.at_s, pem),
            "content-encoding": "aes128gcm",
            "content-type": "application/octet-stream",
            "ttl": str(_KEEP_S),
            "urgency": "high" if letter.kind in PRESSING else "normal",
            "topic": _text(sha256(letter.id.encode()).digest())[:32],
        },
    )


def encrypted(data: bytes, subscription: PushSubscription) -> bytes:
    """One record that only the browser of the subscription can read."""
    theirs, secret = _bytes(subscription.p256dh), _bytes(subscription.auth)
    ours, salt = ec.generate_private_key(_CURVE), os.urandom(16)
    point = _point(ours.public_key())
    shared = ours.exchange(ec.ECDH(), ec.EllipticCurvePublicKey.from_encoded_point(_CURVE, theirs))
    key = _derived(shared, secret, b"WebPush: info\0" + theirs + point, 32)
    content_key = _derived(key, salt, b"Content-Encoding: aes128gcm\0", 16)
    nonce = _derived(key, salt, b"Content-Encoding: nonce\0", 12)
    head = salt + _RECORD_BYTES.to_bytes(4, "big") + bytes([len(point)]) + point
    return head + AESGCM(content_key).encrypt(nonce, data + b"\x02", None)


def _vapid(endpoint: str, sender: str, now_s: int, pem: bytes) -> str:
    place, key = urlsplit(endpoint), _loaded(pem)
    claims = {
        "aud": f"{place.scheme}://{place.netloc}",
        "exp": now_s + _VALID_S,
        "sub": f"mailto:{sender or 'mainspring@localhost'}",
    }
    parts = [_text(msgspec.json.encode(each)) for each in ({"typ": "JWT", "alg": "ES256"}, claims)]
    signed = key.sign(".".join(parts).encode(), ec.ECDSA(hashes.SHA256()))
    numbers = b"".join(each.to_bytes(32, "big") for each in decode_dss_signature(signed))
    return f"vapid t={'.'.join(parts)}.{_text(numbers)}, k={_text(_point(key.public_key()))}"


def _derived(key: bytes, salt: bytes, info: bytes, length: int) -> bytes:
    return HKDF(algorithm=hashes.SHA256(), length=length, salt=salt, info=info).derive(key)


def _loaded(pem: bytes) -> ec.EllipticCurvePrivateKey:
    try:
        key = load_pem_private_key(pem, None)
    except UnsupportedAlgorithm as error:
        raise ValueError(str(error)) from error
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise ValueError("the key is of another kind")
    return key


def _point(key: ec.EllipticCurvePublicKey) -> bytes:
    return key.public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)


def _text(data: bytes) -> str:
    return urlsafe_b64encode(data).decode().rstrip("=")


def _bytes(text: str) -> bytes:
    return urlsafe_b64decode(text + "=" * (-len(text) % 4))
