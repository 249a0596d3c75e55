"""Tokens that an issuer signed: which are taken, and each way in which one can be forged, stale or another's."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa, utils

from mainspring.errors import MainspringError
from mainspring.people.issuer import Issuer, IssuerFailed
from mainspring.people.logins import person_who
from mainspring.people.settings import LoginSettings
from mainspring.people.signed_tokens import (
    Expected,
    IssuerKey,
    KeyNotKnown,
    TokenExpired,
    TokenRefused,
    checked_claims,
    issuer_keys,
)

NOW = 1_800_000_000.0
ISSUER = "https://login.example.org"
EXPECTED = Expected(issuer=ISSUER, client_id="mainspring", audiences=("https://server.example.org",))
CLAIMS: dict[str, Any] = {
    "iss": ISSUER,
    "sub": "248289761001",
    "aud": "mainspring",
    "exp": NOW + 600,
    "iat": NOW - 10,
}
Sign = Callable[[bytes], bytes]

RSA = rsa.generate_private_key(public_exponent=65537, key_size=2048)
SMALL = rsa.generate_private_key(public_exponent=65537, key_size=1024)
EC = ec.generate_private_key(ec.SECP256R1())
ED = ed25519.Ed25519PrivateKey.generate()
STRANGER = rsa.generate_private_key(public_exponent=65537, key_size=2048)


def b64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def number(value: int) -> str:
    return b64(value.to_bytes((value.bit_length() + 7) // 8, "big"))


def rsa_jwk(key: rsa.RSAPrivateKey, kid: str, **more: Any) -> dict[str, Any]:
    public = key.public_key().public_numbers()
    return {"kty": "RSA", "kid": kid, "n": number(public.n), "e": number(public.e), **more}


JWKS: list[dict[str, Any]] = [
    rsa_jwk(RSA, "rsa", alg="RS256", use="sig"),
    rsa_jwk(SMALL, "small"),
    rsa_jwk(STRANGER, "for-secrets", use="enc"),
    {
        "kty": "EC",
        "kid": "ec",
        "crv": "P-256",
        "x": b64(EC.public_key().public_numbers().x.to_bytes(32, "big")),
        "y": b64(EC.public_key().public_numbers().y.to_bytes(32, "big")),
    },
    {"kty": "OKP", "kid": "ed", "crv": "Ed25519", "x": b64(ED.public_key().public_bytes_raw())},
    {"kty": "oct", "kid": "shared", "k": b64(b"a secret that should not be here")},
    {"kid": "no kind"},
]
KEYS = issuer_keys(json.dumps({"keys": JWKS}).encode())


def rs256(key: rsa.RSAPrivateKey) -> Sign:
    return lambda data: key.sign(data, padding.PKCS1v15(), hashes.SHA256())


def es256(data: bytes) -> bytes:
    first, second = utils.decode_dss_signature(EC.sign(data, ec.ECDSA(hashes.SHA256())))
    return first.to_bytes(32, "big") + second.to_bytes(32, "big")


def hs256(secret: bytes) -> Sign:
    return lambda data: hmac.new(secret, data, hashlib.sha256).digest()


def token(
    claims: dict[str, Any] | None = None,
    *,
    alg: str = "RS256",
    kid: str | None = "rsa",
    sign: Sign | None = None,
    **header: Any,
) -> str:
    named = {"alg": alg, **({} if kid is None else {"kid": kid}), **header}
    told = {name: value for name, value in (CLAIMS | (claims or {})).items() if value is not None}
    signed = f"{b64(json.dumps(named).encode())}.{b64(json.dumps(told).encode())}"
    return f"{signed}.{b64((sign or rs256(RSA))(signed.encode()))}"


def id_of(value: str) -> str:
    """What a test is called: not the token, which each process that runs tests makes for itself."""
    return value if " " in value else "token"


def check(text: str, expected: Expected = EXPECTED) -> dict[str, Any]:
    return checked_claims(text, KEYS, expected, NOW)


@pytest.mark.parametrize(
    "text",
    [
        token(),
        token(alg="ES256", kid="ec", sign=es256),
        token(alg="EdDSA", kid="ed", sign=ED.sign),
        token(alg="EdDSA", kid=None, sign=ED.sign),
        token({"aud": ["mainspring", "another"], "azp": "mainspring"}),
        token({"aud": "https://server.example.org", "azp": "another", "client_id": "another"}, typ="at+jwt"),
        token({"exp": NOW - 59, "iat": NOW + 59, "nbf": NOW + 59}, typ="JWT"),
    ],
    ids=id_of,
)
def test_genuine_tokens_are_taken(text: str) -> None:
    assert check(text)["sub"] == CLAIMS["sub"]


HEAD, BODY, SIGNATURE = token().split(".")
DEEP = b'{"a":' + b"[" * 9_000
PEM = RSA.public_key().public_bytes(
    serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (token(alg="none", sign=lambda _: b""), "is not signed with one of"),
        (token(alg="NONE", sign=lambda _: b""), "is not signed with one of"),
        (token(alg="none", kid=None, sign=lambda _: b""), "is not signed with one of"),
        (token(alg="HS256", sign=hs256(PEM)), "is not signed with one of"),
        (
            token(alg="HS256", kid="shared", sign=hs256(b"a secret that should not be here")),
            "not signed with one",
        ),
        (token(alg="RS256", kid="ec", sign=rs256(RSA)), "has no such key for RS256"),
        (token(alg="ES256", kid="rsa", sign=es256), "has no such key for ES256"),
        (token(alg="EdDSA", kid="rsa", sign=hs256(PEM)), "has no such key for EdDSA"),
        (token(alg="RS256", kid=None), "has no such key for RS256"),  # two would do: which is not said
        (token(kid="for-secrets", sign=rs256(STRANGER)), "a key that the issuer does not have"),
        (token(kid="shared"), "has no such key for RS256"),
        (token(kid="small", sign=rs256(SMALL)), "less than 2048 bits"),
        (token(kid="another"), "a key that the issuer does not have"),
        (token(sign=rs256(STRANGER)), "not that of the issuer"),
        (token(sign=lambda _: b""), "not that of the issuer"),
        (token(alg="ES256", kid="ec", sign=lambda _: bytes(64)), "not that of the issuer"),
        (
            token(alg="ES256", kid="ec", sign=lambda data: EC.sign(data, ec.ECDSA(hashes.SHA256()))),
            "not that of",
        ),
        (token(alg="EdDSA", kid="ed", sign=lambda _: bytes(64)), "not that of the issuer"),
        (
            f"{HEAD}.{b64(json.dumps(CLAIMS | {'sub': 'root'}).encode())}.{SIGNATURE}",
            "not that of the issuer",
        ),
        (f"{HEAD}.{BODY}.", "not that of the issuer"),
        (f"{HEAD}.{BODY}", "is no signed token"),
        (f"{HEAD}.{BODY}.{SIGNATURE}.more", "is no signed token"),
        (f"{HEAD}.{BODY}=.{SIGNATURE}", "is no signed token"),
        (f"{HEAD}.{b64(b'[]')}.{SIGNATURE}", "is no signed token"),
        ("", "is no signed token"),
        (f"{HEAD}.{b64(DEEP)}.{SIGNATURE}", "is no signed token"),
        ("a" * 100_000 + "..", "is no signed token"),
        (token(crit=["exp"]), "something that is not known"),
        (token(jwk=rsa_jwk(STRANGER, "rsa"), sign=rs256(STRANGER)), "not that of the issuer"),
        (token(typ="logout+jwt"), "of another kind"),
        (token({"events": {}}), "of another kind"),
        (token({"iss": "https://evil.example.org"}), "of another issuer"),
        (token({"iss": ISSUER + "/"}), "of another issuer"),
        (token({"iss": None}), "of another issuer"),
        (token({"aud": "another"}), "for somebody else"),
        (token({"aud": "https://server.example.org/"}), "for somebody else"),
        (token({"aud": None}), "whom it is for"),
        (token({"aud": {"mainspring": 1}}), "whom it is for"),
        (token({"aud": ["mainspring", "another"]}), "for another client"),
        (token({"azp": "another"}), "for another client"),
        (token({"sub": None}), "whom it is about"),
        (token({"exp": NOW - 60}), "has expired"),
        (token({"exp": None}), "since when and until when"),
        (token({"iat": None}), "since when and until when"),
        (token({"exp": str(int(NOW) + 600)}), "exp is no time"),
        (token({"exp": True}), "exp is no time"),
        (token({"iat": NOW + 61}), "not good yet"),
        (token({"nbf": NOW + 61}), "not good yet"),
    ],
    ids=id_of,
)
def test_what_is_forged_stale_or_another_s_is_refused(text: str, why: str) -> None:
    with pytest.raises(TokenRefused, match=why):
        check(text)


@pytest.mark.parametrize("nonce", [None, "another", 5])
def test_the_answer_to_another_login_is_refused(nonce: object) -> None:
    expected = Expected(issuer=ISSUER, client_id="mainspring", nonce="ours")
    assert check(token({"nonce": "ours"}), expected)
    with pytest.raises(TokenRefused, match="not the answer to this login"):
        check(token({"nonce": nonce}), expected)


def test_only_a_token_that_was_good_has_expired() -> None:
    with pytest.raises(TokenExpired):
        check(token({"exp": NOW - 60}))
    for text in (token({"exp": NOW - 60, "aud": "another"}), token({"exp": NOW - 60}, sign=rs256(STRANGER))):
        with pytest.raises(TokenRefused) as caught:
            check(text)
        assert not isinstance(caught.value, TokenExpired)


def test_keys_that_cannot_be_used_are_left_out() -> None:
    assert [each.kid for each in KEYS] == ["rsa", "small", "ec", "ed", "shared"]
    with pytest.raises(KeyNotKnown):
        checked_claims(token(), (IssuerKey(kty="RSA", kid="old"),), EXPECTED, NOW)


SETTINGS = LoginSettings(issuer=ISSUER, client_id="mainspring")


@pytest.mark.parametrize(
    ("claims", "settings", "name"),
    [
        ({"email": "ada@example.org", "email_verified": True}, SETTINGS, "ada@example.org"),
        ({"sub": "ada"}, LoginSettings(name_claim="sub"), "login:ada"),
        ({"sub": "local:bob@example.org"}, LoginSettings(name_claim="sub"), "login:local:bob@example.org"),
        ({"sub": "local:bob"}, LoginSettings(name_claim="sub"), "login:local:bob"),
        ({"sub": "*"}, LoginSettings(name_claim="sub"), "login:*"),
        ({"sub": "@core"}, LoginSettings(name_claim="sub"), "login:@core"),
    ],
)
def test_a_name_of_an_issuer_is_no_account_program_or_group(
    claims: dict[str, Any], settings: LoginSettings, name: str
) -> None:
    assert person_who(claims, settings).name == name


@pytest.mark.parametrize(
    "claims",
    [
        {"email": "ada@example.org"},
        {"email": "ada@example.org", "email_verified": False},
        {"email_verified": True},
        {"email": ["ada@example.org"], "email_verified": True},
        {"email": "ada\n@example.org", "email_verified": True},
    ],
)
def test_who_has_no_verified_name_is_nobody(claims: dict[str, Any]) -> None:
    with pytest.raises(TokenRefused):
        person_who(claims, SETTINGS)


@pytest.mark.parametrize("address", ["http://login.example.org", "ftp://127.0.0.1", "login.example.org"])
def test_an_issuer_is_not_asked_where_others_can_listen(address: str, tmp_path: Path) -> None:
    with pytest.raises(IssuerFailed, match="neither https nor on this machine"):
        Issuer(LoginSettings(issuer=address, client_id="mainspring"), {}, tmp_path / "issuer.json")


class PublishedKeys:
    """An issuer on loopback whose keys change, and which counts how often it is asked for them."""

    def __init__(self) -> None:
        self.keys, self.asked, self.address, self.calls_itself = JWKS[1:], 0, "", ""

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        if b"/keys" in head:
            self.asked += 1
            told: dict[str, Any] = {"keys": self.keys}
        else:
            told = {"issuer": self.calls_itself or self.address, "jwks_uri": f"{self.address}/keys"}
        body = json.dumps(told).encode()
        writer.write(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
        await writer.drain()
        writer.close()


def test_an_unknown_key_has_the_keys_fetched_again_once(tmp_path: Path) -> None:
    published, now = PublishedKeys(), [NOW]

    async def run() -> None:
        async with await asyncio.start_server(published.answer, "127.0.0.1", 0) as server:
            published.address = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
            settings = LoginSettings(issuer=published.address, client_id="mainspring")
            file = tmp_path / "login" / "issuer.json"
            issuer = Issuer(settings, {}, file, lambda: now[0])
            expected = Expected(issuer=published.address, client_id="mainspring")
            ours, unknown = token({"iss": published.address}), token({"iss": published.address}, kid="never")
            by_ec = token({"iss": published.address}, alg="ES256", kid="ec", sign=es256)
            await issuer.checked(by_ec, expected)
            assert published.asked == 1
            published.keys = JWKS
            await issuer.checked(ours, expected)
            assert published.asked == 2
            for _ in range(5):  # who invents names of keys does not make us ask each time
                with pytest.raises(KeyNotKnown):
                    await issuer.checked(unknown, expected)
            assert published.asked == 2
            now[0] += 31
            with pytest.raises(KeyNotKnown):
                await issuer.checked(unknown, expected)
            assert published.asked == 3
            assert file.stat().st_mode & 0o777 == 0o600
            await Issuer(settings, {}, file, lambda: now[0]).checked(ours, expected)
            assert published.asked == 3  # kept for a day
            published.calls_itself = "https://another.example.org"
            with pytest.raises(MainspringError, match="calls itself https://another"):
                await Issuer(settings, {}, tmp_path / "other.json", lambda: now[0]).facts()

    asyncio.run(run())
