"""A team's policy in a file, and people who work under it, for tests."""

from __future__ import annotations

from pathlib import Path

import msgspec

from mainspring.app.operations.policy import sign_policy
from mainspring.settings import Config, load_config

ROLES = ("nobody", "viewer", "reviewer", "developer", "admin")
PEOPLE = """
[roles]
viewer = ["local:viewer", "service:viewer"]
reviewer = ["local:reviewer", "service:reviewer"]
developer = ["local:developer", "service:developer"]
admin = ["local:admin", "service:admin"]
"""


class Team:
    """A home whose settings name a signed policy, and a folder to work in."""

    def __init__(self, folder: Path) -> None:
        self.home, self.workspace, self.file = folder / "home", folder / "work", folder / "policy.toml"
        self.home.mkdir()
        self.workspace.mkdir()
        (self.home / "config.toml").write_text(f'[policy]\nfile = "{self.file}"\n')
        self.serial = 0

    def signs(self, text: str, *, serial: int | None = None) -> None:
        """Puts a policy in force, as the next one."""
        self.serial = self.serial + 1 if serial is None else serial
        self.file.write_text(f"serial = {self.serial}\n{text}")
        sign_policy(self.config("admin"), self.file)

    def config(self, user: str) -> Config:
        """The settings of somebody at this machine."""
        config = load_config({"MAINSPRING_HOME": str(self.home), "HOME": str(self.home)})
        origin = msgspec.structs.replace(config.origin, user=user, face="cli")
        return msgspec.structs.replace(config, origin=origin, system=self.home / "etc")
