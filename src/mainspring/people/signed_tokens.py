"""Tokens that an issuer signed (JWT, RFC 7519): whether one is genuine, meant for us and still good.

Pure: the keys of the issuer and the time are given. Only signatures with a private key count (RS256, ES256,
EdDSA), and the key decides which of them: `none` and HS256, with which anybody could sign, are not known.
"""

from __future__ import annotations

import base64
import math
import re
from collections.abc import Iterable, Mapping
from importlib import import_module
from typing import Any, cast

import msgspec

from mainspring.errors import UsageError
from mainspring.events.decoding import DECODE_ERRORS

SKEW_S = 60.0
"""How far the clock of an issuer may be from ours."""
_MAX_CHARS = 64 * 1024
_BASE64 = re.compile(r"[A-Za-z0-9_-]*")
_KINDS = {"RS256": ("RSA", ""), "ES256": ("EC", "P-256"), "EdDSA": ("OKP", "Ed25519")}
"""The kind of key, and its curve, that each algorithm takes."""
_TYPES = frozenset({"", "jwt", "at+jwt", "application/at+jwt"})
_MIN_RSA_BITS = 2048
_ES256_BYTES = 64


class TokenRefused(Exception):
    """A token that proves nothing; the text says why, and repeats nothing secret of it."""


class TokenExpired(TokenRefused):
    """It was good; `claims` is what it said."""

    def __init__(self, claims: dict[str, Any]) -> None:
        super().__init__("it has expired")
        self.claims = claims


class KeyNotKnown(TokenRefused):
    """It names a key that the issuer does not have, or did not have when it was asked."""


class IssuerKey(msgspec.Struct, frozen=True, kw_only=True):
    """A public key as an issuer publishes it (JWK, RFC 7517)."""

    kty: str
    kid: str = ""
    alg: str = ""
    use: str = ""
    key_ops: tuple[str, ...] = ("verify",)
    crv: str = ""
    n: str = ""
    e: str = ""
    x: str = ""
    y: str = ""


class Expected(msgspec.Struct, frozen=True, kw_only=True):
    """What a token must say. One for our client itself is an ID token; one for another of the `audiences` is
    an access token, which any client may have fetched. With a `nonce` it must be the answer to our login."""

    issuer: str
    client_id: str
    audiences: tuple[str, ...] = ()
    nonce: str | None = None


def issuer_keys(body: bytes) -> tuple[IssuerKey, ...]:
    """The keys of a JWKS document; `ValueError` when it is none. Keys that cannot be used are left out."""
    found = list[IssuerKey]()
    for each in msgspec.json.decode(body, type=dict[str, Any]).get("keys", ()):
        try:
            key = msgspec.convert(each, IssuerKey)
        except msgspec.ValidationError:
            continue
        if key.use in ("", "sig") and "verify" in key.key_ops:
            found.append(key)
    return tuple(found)


def checked_claims(token: str, keys: Iterable[IssuerKey], expected: Expected, now_s: float) -> dict[str, Any]:
    """What a token says, if it is genuine, for us and good now; else `TokenRefused`."""
    header, claims, signed, signature = _parts(token)
    algorithm = _algorithm(header)
    key = _key_for(algorithm, header.get("kid"), tuple(keys))
    if not _is_signed(algorithm, key, signed, signature):
        raise TokenRefused("its signature is not that of the issuer")
    _check_parties(claims, expected)
    _check_times(claims, now_s)
    return claims


def _parts(token: str) -> tuple[dict[str, Any], dict[str, Any], bytes, bytes]:
    pieces = token.split(".")
    if len(pieces) != 3 or len(token) > _MAX_CHARS:
        raise TokenRefused("it is no signed token")
    head, body, signature = map(_decoded, pieces)
    try:
        header = msgspec.json.decode(head, type=dict[str, Any])
        claims = msgspec.json.decode(body, type=dict[str, Any])
    except DECODE_ERRORS as error:
        raise TokenRefused("it is no signed token") from error
    return header, claims, f"{pieces[0]}.{pieces[1]}".encode(), signature


def _decoded(text: str) -> bytes:
    if not _BASE64.fullmatch(text) or len(text) % 4 == 1:
        raise TokenRefused("it is no signed token")
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def _algorithm(header: Mapping[str, Any]) -> str:
    algorithm, kind = header.get("alg"), header.get("typ", "")
    if not isinstance(algorithm, str) or algorithm not in _KINDS:
        raise TokenRefused(f"it is not signed with one of {', '.join(_KINDS)}")
    if "crit" in header or "b64" in header:
        raise TokenRefused("it asks for something that is not known here")
    if not isinstance(kind, str) or kind.lower() not in _TYPES:
        raise TokenRefused("it is a token of another kind")
    return algorithm


def _key_for(algorithm: str, kid: object, keys: tuple[IssuerKey, ...]) -> IssuerKey:
    """The key that a token names; without a name the only one that there is for it."""
    named = keys if kid is None else tuple(each for each in keys if each.kid == kid)
    if not named:
        raise KeyNotKnown("it is signed with a key that the issuer does not have")
    fitting = [
        each for each in named if (each.kty, each.crv) == _KINDS[algorithm] and each.alg in ("", algorithm)
    ]
    if len(fitting) != 1:
        raise TokenRefused(f"the issuer has no such key for {algorithm}")
    return fitting[0]


def _is_signed(algorithm: str, key: IssuerKey, signed: bytes, signature: bytes) -> bool:
    invalid = _crypto("exceptions").InvalidSignature
    try:
        match algorithm:
            case "RS256":
                _check_rsa(key, signed, signature)
            case "ES256":
                _check_ec(key, signed, signature)
            case _:
                ed25519 = _crypto("hazmat.primitives.asymmetric.ed25519")
                ed25519.Ed25519PublicKey.from_public_bytes(_decoded(key.x)).verify(signature, signed)
    except (ValueError, invalid):
        return False
    return True


def _check_rsa(key: IssuerKey, signed: bytes, signature: bytes) -> None:
    rsa, padding = (_crypto(f"hazmat.primitives.asymmetric.{name}") for name in ("rsa", "padding"))
    public = rsa.RSAPublicNumbers(_number(key.e), _number(key.n)).public_key()
    if public.key_size < _MIN_RSA_BITS:
        raise TokenRefused(f"the key of the issuer has less than {_MIN_RSA_BITS} bits")
    public.verify(signature, signed, padding.PKCS1v15(), _sha256())


def _check_ec(key: IssuerKey, signed: bytes, signature: bytes) -> None:
    ec, utils = (_crypto(f"hazmat.primitives.asymmetric.{name}") for name in ("ec", "utils"))
    if len(signature) != _ES256_BYTES:
        raise ValueError
    half = _ES256_BYTES // 2
    der = utils.encode_dss_signature(
        int.from_bytes(signature[:half], "big"), int.from_bytes(signature[half:], "big")
    )
    public = ec.EllipticCurvePublicNumbers(_number(key.x), _number(key.y), ec.SECP256R1()).public_key()
    public.verify(der, signed, ec.ECDSA(_sha256()))


def _number(text: str) -> int:
    return int.from_bytes(_decoded(text), "big")


def _check_times(claims: dict[str, Any], now_s: float) -> None:
    ends, issued, begins = (_time(claims, name) for name in ("exp", "iat", "nbf"))
    if ends is None or issued is None:
        raise TokenRefused("it does not say since when and until when it is good")
    if ends + SKEW_S <= now_s:
        raise TokenExpired(claims)
    if max(issued, begins or issued) > now_s + SKEW_S:
        raise TokenRefused("it is not good yet; is a clock wrong?")


def _time(claims: Mapping[str, Any], name: str) -> float | None:
    value = claims.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise TokenRefused(f"its {name} is no time")
    return float(value)


def _check_parties(claims: Mapping[str, Any], expected: Expected) -> None:
    """By whom, about whom and for whom it is."""
    if claims.get("iss") != expected.issuer:
        raise TokenRefused("it is of another issuer")
    subject = claims.get("sub")
    if not isinstance(subject, str) or not subject:
        raise TokenRefused("it does not say whom it is about")
    if "events" in claims:
        raise TokenRefused("it is a token of another kind")
    given = claims.get("aud")
    audiences = [given] if isinstance(given, str) else given
    if not isinstance(audiences, list):
        raise TokenRefused("it does not say whom it is for")
    audiences = cast("list[object]", audiences)
    party = claims.get("azp")
    if expected.client_id in audiences:
        if party not in (None, expected.client_id) or (party is None and len(audiences) > 1):
            raise TokenRefused("it was made for another client")
    elif not any(each in audiences for each in expected.audiences):
        raise TokenRefused("it is for somebody else")
    if expected.nonce is not None and claims.get("nonce") != expected.nonce:
        raise TokenRefused("it is not the answer to this login")


def _sha256() -> Any:
    return _crypto("hazmat.primitives.hashes").SHA256()


def _crypto(name: str) -> Any:
    try:
        return import_module(f"cryptography.{name}")
    except ModuleNotFoundError as error:
        raise UsageError(
            "Tokens of an issuer are signed, and checking that needs the package cryptography.",
            remedy="pip install 'mainspring[login]'",
        ) from error
