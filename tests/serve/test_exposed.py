"""A server beyond loopback: https of its own, tunnels in custody, and the daemon as its host."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import ssl
import sys
import time
from pathlib import Path

import httpx2
import pytest

from mainspring.system import open_process
from tests.cli.conftest import Machine
from tests.serve.conftest import Served

STAND_IN = """#!{python}
import os, sys, time
open({told!r}, "w").write(f"{{os.getpid()}} {{' '.join(sys.argv[1:])}}")
print({says!r}, file=sys.stderr, flush=True)
time.sleep({lives_s})
"""


def install(folder: Path, name: str, says: str = "", lives_s: float = 600) -> Path:
    """A program of this name that says so, and keeps how it was called."""
    folder.mkdir(exist_ok=True)
    told, program = folder / "told", folder / name
    program.write_text(STAND_IN.format(python=sys.executable, told=str(told), says=says, lives_s=lives_s))
    program.chmod(0o755)
    return told


def has_ended(pid: int, within_s: float = 20) -> bool:
    deadline = time.monotonic() + within_s
    while time.monotonic() < deadline:
        try:
            os.close(open_process(pid))
        except ProcessLookupError:
            return True
        time.sleep(0.02)
    return False


def children(pid: int) -> list[int]:
    return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def answers_again(url: str, token: str, within_s: float = 60) -> bool:
    """Whether a server comes back at the same address."""
    deadline = time.monotonic() + within_s
    while time.monotonic() < deadline:
        try:
            answer = httpx2.get(url, headers={"authorization": f"Bearer {token}"}, trust_env=False)
        except httpx2.TransportError:
            time.sleep(0.05)
            continue
        return answer.status_code == 200
    return False


def test_a_certificate_of_our_own_is_kept_and_told_by_its_fingerprint(served: Served) -> None:
    served.end()
    served.start("--self-signed", "--pair")
    assert served.address.startswith("https://127.0.0.1:")
    assert served.process is not None
    assert served.process.stderr is not None
    told = served.process.stderr.readline().split()[-1]
    cert = served.machine.home / "web" / "self-signed.pem"
    key = served.machine.home / "web" / "self-signed.key"
    assert key.stat().st_mode & 0o077 == 0
    trust = ssl.create_default_context(cafile=str(cert))
    with httpx2.Client(verify=trust, trust_env=False, timeout=30) as client:
        answer = client.get(
            f"{served.address}/api/v1/about", headers={"authorization": f"Bearer {served.token}"}
        )
        assert answer.json()["role"] == "owner"
        entered = client.post(f"{served.address}/api/v1/login", json={"token": served.token})
        assert "secure" in entered.headers["set-cookie"].lower()
    seen = ssl.get_server_certificate(("127.0.0.1", int(served.port)))
    assert seen.strip() == cert.read_text().strip()
    assert told.replace(":", "").lower() == hashlib.sha256(ssl.PEM_cert_to_DER_cert(seen)).hexdigest()
    paired = served.machine.run("devices", "pair", "--address", served.address)
    assert told in paired.stderr
    assert "/#pair=" in paired.stdout
    served.end()
    served.start("--self-signed")
    assert served.process.stderr is not None
    assert ssl.get_server_certificate(("127.0.0.1", int(served.port))) == seen


@pytest.mark.parametrize("wrong", ["cert", "both"])
def test_certificates_are_checked_before_anything_is_served(
    machine: Machine, tmp_path: Path, wrong: str
) -> None:
    broken = tmp_path / "broken.pem"
    broken.write_text("nothing")
    key = ("--key", str(broken)) if wrong == "both" else ()
    ran = machine.run("serve", "--port", "0", "--cert", str(broken), *key)
    assert (ran.returncode, "token=" in ran.stdout) == (2, False)


def test_another_bind_says_what_it_exposes(served: Served) -> None:
    served.end()
    served.start("--host", "0.0.0.0")
    assert served.process is not None
    assert served.process.stderr is not None
    said = served.process.stderr.readline() + served.process.stderr.readline()
    assert ("0.0.0.0" in said, "sees all sessions" in said) == (True, True)


def test_a_tunnel_leads_here_and_ends_with_the_server_however_that_ends(
    served: Served, tmp_path: Path
) -> None:
    programs = tmp_path / "bin"
    told = install(programs, "cloudflared", "INF |  https://quiet-river.trycloudflare.com  |")
    served.end()
    missing = served.machine.run("serve", "--port", "0", "--tunnel", "tailscale", PATH=str(programs))
    assert (missing.returncode, "not installed" in missing.stderr) == (2, True)
    for number in (signal.SIGTERM, signal.SIGKILL):
        served.start("--tunnel", "cloudflared", PATH=f"{programs}:{os.environ['PATH']}")
        assert served.process is not None
        pid, *arguments = told.read_text().split()
        assert arguments[-2:] == ["--url", f"http://127.0.0.1:{served.port}"]
        name = "quiet-river.trycloudflare.com"
        with served.client(host=name, origin=f"https://{name}") as outside:
            assert outside.get("/api/v1/about").status_code == 200
            entered = outside.post("/api/v1/login", json={"token": served.token})
            assert "secure" in entered.headers["set-cookie"].lower()
        with served.client(host=name, origin="https://other.trycloudflare.com") as elsewhere:
            assert elsewhere.get("/api/v1/about").status_code == 403
        served.process.send_signal(number)
        served.process.communicate(timeout=60)
        assert has_ended(int(pid))
    served.start()


@pytest.mark.parametrize(
    ("kind", "says", "arguments", "name"),
    [
        ("tailscale", "Available within your tailnet: https://desk.tail1.ts.net/", "serve {here}", "desk.tail1.ts.net"),
        ("ssh:me@far", "", ("-N -o ExitOnForwardFailure=yes -o ServerAliveInterval=30 -o BatchMode=yes"
         " -R 127.0.0.1:{port}:127.0.0.1:{port} me@far"), "127.0.0.1:{port}"),
    ],
)  # fmt: skip
def test_tailscale_and_ssh_lead_here_as_they_are_called(
    served: Served, tmp_path: Path, kind: str, says: str, arguments: str, name: str
) -> None:
    told = install(tmp_path / "bin", kind.partition(":")[0], says)
    served.end()
    served.start("--tunnel", kind, PATH=f"{told.parent}:{os.environ['PATH']}")
    assert served.process is not None
    assert served.process.stderr is not None
    exposed = served.process.stderr.readline()
    assert "can reach this server" in exposed
    while not (told.exists() and told.read_text()):
        assert served.process.poll() is None
    pid, _, called = told.read_text().partition(" ")
    here = {"here": served.address, "port": served.port}
    assert called == arguments.format(**here)
    with served.client(host=name.format(**here)) as outside:
        assert outside.get("/api/v1/about").status_code == 200
    served.end()
    assert has_ended(int(pid))
    served.start()


def test_a_tunnel_that_ends_is_said_and_the_server_goes_on(served: Served, tmp_path: Path) -> None:
    told = install(tmp_path / "bin", "ssh", "Permission denied (publickey).", 0)
    served.end()
    served.start("--tunnel", "ssh:me@far", PATH=f"{told.parent}:{os.environ['PATH']}")
    assert served.process is not None
    assert served.process.stderr is not None
    assert any("tunnel has ended" in line and "Permission denied" in line for line in served.process.stderr)
    assert served.get("/about")["role"] == "owner"


@pytest.mark.parametrize("wanted", ["nosuch", "ssh:", "ssh:-oProxyCommand=x"])
def test_no_other_program_and_no_option_of_one_is_started(machine: Machine, wanted: str) -> None:
    ran = machine.run("serve", "--port", "0", "--tunnel", wanted)
    assert (ran.returncode, "There is no tunnel" in ran.stderr) == (2, True)


def test_the_daemon_keeps_the_page_running_and_ends_it(machine: Machine) -> None:
    started = machine.run("daemon", "start", "--web", "--web-port", "0")
    try:
        address, _, token = started.stdout.splitlines()[-1].partition("/#token=")
        about = httpx2.get(
            f"{address}/api/v1/about", headers={"authorization": f"Bearer {token}"}, trust_env=False
        )
        assert about.json()["role"] == "owner"
        status = machine.run("daemon", "status", "--json")
        (server,) = children(json.loads(status.stdout)["pid"])
        os.kill(server, signal.SIGKILL)
        assert has_ended(server)
        assert answers_again(f"{address}/api/v1/about", token)
    finally:
        machine.run("daemon", "stop")
    with pytest.raises(httpx2.ConnectError):
        httpx2.get(address, trust_env=False)


def test_another_token_shuts_out_who_has_the_old_one(served: Served) -> None:
    renewed = served.machine.run("devices", "renew").stdout.strip()
    with served.client() as old, served.client(renewed) as new:
        assert (old.get("/api/v1/about").status_code, new.get("/api/v1/about").status_code) == (401, 200)
