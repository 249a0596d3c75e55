"""Web Push against a push service on loopback that decrypts what it is sent, as a browser would."""

from __future__ import annotations

import json
import os
import stat
from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import Any

import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from playwright.sync_api import Browser

from mainspring.app.operations.devices import Access
from mainspring.notify.settings import ChannelSettings
from mainspring.notify.subscriptions import is_push_service
from mainspring.settings import load_config
from tests.notify.conftest import Receiver
from tests.notify.test_notify import ASK, configure
from tests.serve.browsers import Visitor, browser
from tests.serve.conftest import Served

__all__ = ["browser"]


SHOWN = """async words => { const worker = await navigator.serviceWorker.ready;
  for (let tries = 0; tries < 400; tries += 1) {
    const shown = await worker.getNotifications();
    if (shown.some(each => each.body === words && each.title === '<b>title</b>')) return shown.length;
    await new Promise(resume => setTimeout(resume, 50)); } }"""
"""How many notifications there are, once one says this."""


def text(data: bytes) -> str:
    return urlsafe_b64encode(data).decode().rstrip("=")


def data(text: str) -> bytes:
    return urlsafe_b64decode(text + "=" * (-len(text) % 4))


def derived(key: bytes, salt: bytes, info: bytes, length: int) -> bytes:
    return HKDF(algorithm=hashes.SHA256(), length=length, salt=salt, info=info).derive(key)


class UserAgent:
    """The keys of a browser."""

    def __init__(self) -> None:
        self._key, self.auth = ec.generate_private_key(ec.SECP256R1()), os.urandom(16)
        self.point = self._key.public_key().public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)

    def asks(self, endpoint: str) -> dict[str, str]:
        return {"endpoint": endpoint, "p256dh": text(self.point), "auth": text(self.auth)}

    def read(self, body: bytes) -> dict[str, Any]:
        """As RFC 8188 and 8291 say."""
        salt, size, point, sealed = body[:16], int.from_bytes(body[16:20], "big"), body[21:86], body[86:]
        assert (body[20], len(sealed) <= size) == (65, True)
        theirs = ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), point)
        shared = self._key.exchange(ec.ECDH(), theirs)
        key = derived(shared, self.auth, b"WebPush: info\0" + self.point + point, 32)
        content_key = derived(key, salt, b"Content-Encoding: aes128gcm\0", 16)
        nonce = derived(key, salt, b"Content-Encoding: nonce\0", 12)
        opened = AESGCM(content_key).decrypt(nonce, sealed, None)
        assert opened.endswith(b"\x02")
        return json.loads(opened[:-1])


def check_signed(header: str, key: str, audience: str) -> None:
    """VAPID, RFC 8292: signed by the key that the browser was told."""
    fields = dict(part.split("=", 1) for part in header.removeprefix("vapid ").split(", "))
    assert fields["k"] == key
    head, claims, signature = fields["t"].split(".")
    assert json.loads(data(claims))["aud"] == audience
    numbers = data(signature)
    der = encode_dss_signature(int.from_bytes(numbers[:32], "big"), int.from_bytes(numbers[32:], "big"))
    public = ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), data(key))
    public.verify(der, f"{head}.{claims}".encode(), ec.ECDSA(hashes.SHA256()))


@pytest.fixture
def pushing(served: Served, receiver: Receiver) -> Served:
    served.end()
    configure(served.machine, f'[notify.channels.phone]\ntype = "push"\nurl = "{receiver.url}"\n')
    served.start()
    return served


def ask(served: Served) -> str:
    body = {"text": "go", "workspace": str(served.machine.workspace), "mode": "ask"}
    session = served.post("/sessions", {**body, "model": served.machine.serve(ASK)})["session"]
    served.until(session, "TurnEnded")
    return session


def test_a_question_reaches_browsers_encrypted_and_no_longer_those_that_are_gone_or_revoked(
    pushing: Served, receiver: Receiver
) -> None:
    agent, gone, revoked = UserAgent(), UserAgent(), UserAgent()
    code = pushing.post("/devices/offer", {"role": "answer", "name": "phone"})["code"]
    phone = pushing.post("/pair", {"code": code, "name": "x"}, token="")["token"]
    pushing.post("/push", revoked.asks(f"{receiver.url}/revoked"), token=phone)
    pushing.post("/push", gone.asks(f"{receiver.url}/gone"))
    pushing.post("/push", agent.asks(f"{receiver.url}/here"))
    assert pushing.machine.run("devices", "revoke", "phone").returncode == 0
    receiver.answers = [410]
    ask(pushing)
    first, second = receiver.wait(2)
    assert [first["path"], second["path"]] == ["/gone", "/here"]
    told = agent.read(second["raw"])
    assert (told["title"], "touch made" in told["text"]) == ("workspace needs an answer", True)
    assert told["link"].startswith(f"{pushing.address}/answer#")
    headers = second["headers"]
    assert (headers["content-encoding"], headers["urgency"], int(headers["ttl"]) > 0) == (
        "aes128gcm",
        "high",
        True,
    )
    check_signed(headers["authorization"], pushing.get("/push")["key"], receiver.url)
    assert b"touch made" not in second["raw"]
    access = Access(load_config(pushing.machine.environment()))
    assert [each.endpoint for each in access.subscriptions()] == [f"{receiver.url}/here"]
    assert stat.S_IMODE((pushing.machine.home / "web" / "push.pem").stat().st_mode) == 0o600
    pushing.machine.run("devices", "renew")
    assert access.subscriptions() == ()


@pytest.mark.parametrize(
    "wrong",
    [
        {"endpoint": "https://evil.example/x"},
        {"endpoint": "http://169.254.169.254/latest"},
        {"endpoint": "https://fcm.googleapis.com.evil.example/x"},
        {"endpoint": "https://x@evil.example/fcm.googleapis.com"},
        {"p256dh": "AAAA"},
        {"p256dh": "ä"},
    ],
)
def test_a_device_names_no_other_place_and_no_keys_that_are_none(
    pushing: Served, receiver: Receiver, wrong: dict[str, str]
) -> None:
    with pushing.client() as client:
        body = {**UserAgent().asks(f"{receiver.url}/x"), **wrong}
        assert client.post("/api/v1/push", json=body).status_code == 400


def test_services_of_browsers_are_known_by_their_names() -> None:
    channel = ChannelSettings(type="push")
    known = (
        "https://fcm.googleapis.com/fcm/send/x",
        "https://updates.push.services.mozilla.com/wpush/v2/x",
        "https://web.push.apple.com/x",
    )
    assert all(is_push_service(each, channel) for each in known)
    assert not is_push_service("https://fcm.googleapis.com:8443/x", channel)
    assert not is_push_service("http://fcm.googleapis.com/x", channel)


def test_the_page_asks_for_notifications_and_asks_no_more(
    browser: Browser, pushing: Served, receiver: Receiver
) -> None:
    """No push service is reached from here, so the browser's own part is stood in for."""
    visitor = Visitor(browser, pushing)
    asked = UserAgent().asks(f"{receiver.url}/page")
    keys = {"p256dh": asked["p256dh"], "auth": asked["auth"]}
    made = {"endpoint": asked["endpoint"], "keys": keys}
    visitor.context.add_init_script(f"""PushManager.prototype.getSubscription = async () => null;
        PushManager.prototype.subscribe = async (options) => {{ if (options.applicationServerKey.length !== 65) throw new Error('key');
          return {{ endpoint: {json.dumps(asked["endpoint"])}, toJSON: () => ({json.dumps(made)}), unsubscribe: async () => true }}; }};""")
    page = visitor.enter()
    visitor.to("machine")
    page.click("text=Notify this device")
    page.wait_for_selector("text=Notify this device no more")
    access = Access(load_config(pushing.machine.environment()))
    assert [(each.endpoint, each.device) for each in access.subscriptions()] == [(asked["endpoint"], "owner")]
    page.click("text=Notify this device no more")
    page.wait_for_selector("button:text-is('Notify this device')")
    assert access.subscriptions() == ()
    assert (visitor.problems, visitor.elsewhere) == ([], [])
    visitor.context.close()


def test_what_arrives_is_shown_once_as_text(browser: Browser, pushing: Served) -> None:
    """A real service worker is handed what its push service would hand it."""
    visitor = Visitor(browser, pushing)
    visitor.context.grant_permissions(["notifications"], origin=pushing.address)
    page = visitor.enter()
    page.evaluate("navigator.serviceWorker.ready.then(() => true)")
    devtools = visitor.context.new_cdp_session(page)
    found: list[str] = []
    devtools.on(
        "ServiceWorker.workerRegistrationUpdated",
        lambda told: found.extend(each["registrationId"] for each in told["registrations"]),
    )
    devtools.send("ServiceWorker.enable")
    for _ in range(100):
        if found:
            break
        page.evaluate("new Promise(resume => setTimeout(resume, 20))")  # the event is told meanwhile
    told = {"id": "m-1", "title": "<b>title</b>", "text": "first", "link": ""}
    for words in ("first", "second"):
        message = {
            "origin": pushing.address,
            "registrationId": found[0],
            "data": json.dumps({**told, "text": words}),
        }
        devtools.send("ServiceWorker.deliverPushMessage", message)
        assert page.evaluate(SHOWN, words) == 1
    visitor.context.close()
