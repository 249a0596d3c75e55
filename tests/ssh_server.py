"""A real sshd on loopback for tests, with keys and settings of its own: started once for each process that needs
it, ended with it."""

from __future__ import annotations

import atexit
import getpass
import os
import shutil
import subprocess
import tempfile
import time
from functools import cache
from pathlib import Path

import pytest

from tests.postgres import free_port

_SETTINGS = """
Port {port}
ListenAddress 127.0.0.1
HostKey {folder}/host
AuthorizedKeysFile {folder}/client.pub
PidFile {folder}/pid
StrictModes no
UsePAM no
PasswordAuthentication no
PermitRootLogin yes
MaxStartups 100
"""
_CLIENT = """
Host machine
    HostName 127.0.0.1
    Port {port}
    User {user}
    IdentityFile {folder}/client
    IdentitiesOnly yes
    UserKnownHostsFile {folder}/known
    StrictHostKeyChecking yes
"""


class SshServer:
    """`ssh -F {settings} machine` logs in on it."""

    def __init__(self) -> None:
        self._program = _program()
        self._folder = Path(tempfile.mkdtemp(prefix="sshd-"))
        self.port = free_port()
        for name in ("host", "client"):
            words = ["-q", "-t", "ed25519", "-N", "", "-f", f"{self._folder}/{name}"]
            subprocess.run(["ssh-keygen", *words], check=True)
        names = {"port": self.port, "folder": self._folder, "user": getpass.getuser()}
        (self._folder / "sshd_config").write_text(_SETTINGS.format(**names))
        self.settings.write_text(_CLIENT.format(**names))
        key = (self._folder / "host.pub").read_text()
        (self._folder / "known").write_text(f"[127.0.0.1]:{self.port} {key}")
        if os.getuid() == 0:  # where a server of the administrator leaves what may do nothing
            Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
        self.start()

    @property
    def settings(self) -> Path:
        return self._folder / "ssh_config"

    @property
    def options(self) -> tuple[str, ...]:
        return ("-F", str(self.settings))

    def start(self) -> None:
        log = self._folder / "log"
        self._process = subprocess.Popen(
            [self._program, "-D", "-E", str(log), "-f", f"{self._folder}/sshd_config"]
        )
        deadline = time.monotonic() + 60
        ask = ["ssh", *self.options, "machine", "true"]
        while subprocess.run(ask, capture_output=True, check=False).returncode:
            assert self._process.poll() is None, log.read_text()
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(0.05)

    def stop(self) -> None:
        self._process.terminate()
        self._process.wait()

    def end(self) -> None:
        self.stop()
        shutil.rmtree(self._folder, ignore_errors=True)


def _program() -> str:
    found = shutil.which("sshd", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin")
    if found is None or shutil.which("ssh") is None:
        if os.environ.get("CI"):
            pytest.fail("sshd is missing; requirements/system.sh installs it")
        pytest.skip("needs sshd: apt-get install openssh-server")
    return found


@cache
def ssh_server() -> SshServer:
    server = SshServer()
    atexit.register(server.end)
    return server
