"""Settings, read once: the environment, and `config.toml` of the user. A repository's files are not trusted
with settings. Nothing else in the house looks at the environment.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import msgspec
import platformdirs

from mainspring.errors import ConfigError
from mainspring.models import Price


class Template(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a step of that name gets (`[steps.NAME]` in `config.toml`). With `commands`, only what one of
    these patterns allows may run: words like `pytest *` or `git status $`."""

    commands: tuple[str, ...] = ()
    timeout_s: float = 600.0
    cpu_s: int = 0
    memory_mb: int = 0
    mode: str = ""


class Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What `config.toml` may say."""

    model: str = ""
    mode: str = ""
    approval_timeout_s: Annotated[float, msgspec.Meta(gt=0)] | None = None
    prices: dict[str, Price] = {}
    steps: dict[str, Template] = {}


class Config(msgspec.Struct, frozen=True, kw_only=True):
    """`home` holds what mainspring keeps, `folder` what the user writes: settings and rules."""

    home: Path
    folder: Path
    settings: Settings
    environment: Mapping[str, str]

    @property
    def model(self) -> str:
        return self.environment.get("MAINSPRING_MODEL") or self.settings.model

    def variable(self, name: str) -> str:
        """An environment variable, empty when it is not set."""
        return self.environment.get(name, "").strip()


def load_config(environment: Mapping[str, str] | None = None) -> Config:
    values = dict(os.environ if environment is None else environment)
    chosen = values.get("MAINSPRING_HOME")
    if chosen:
        home = Path(chosen).expanduser().absolute()
        folder = home
    else:
        home = platformdirs.user_data_path("mainspring", appauthor=False)
        folder = platformdirs.user_config_path("mainspring", appauthor=False)
    settings = _load_settings(folder / "config.toml")
    return Config(home=home, folder=folder, settings=settings, environment=values)


def _load_settings(file: Path) -> Settings:
    try:
        text = file.read_text(encoding="utf-8")
    except FileNotFoundError:
        return Settings()
    except OSError as error:
        raise ConfigError(f"{file} cannot be read: {error.strerror}.") from error
    try:
        return msgspec.convert(tomllib.loads(text), Settings)
    except (tomllib.TOMLDecodeError, msgspec.ValidationError) as error:
        fields = ", ".join(Settings.__struct_fields__)
        raise ConfigError(f"{file} is not valid: {error}.", remedy=f"It may set: {fields}.") from error
