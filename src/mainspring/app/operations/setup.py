"""The first run: what could answer on this machine, and choosing one of it.

`run_setup` is a talk of at most four screens with a person, through whatever face gives it a `SetupDialog`.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from importlib import import_module
from importlib.util import find_spec
from typing import Protocol

import msgspec

from mainspring.app.operations.keys import KeyStatus, add_key, find_status, list_keys, remove_key
from mainspring.app.operations.settings import SettingChange, set_setting
from mainspring.errors import AuthFailed, MainspringError, ModelError, UsageError
from mainspring.models.connect import address
from mainspring.models.local.weights import DEFAULT, PULLABLE, pulled_path
from mainspring.models.probe import probe_server
from mainspring.models.providers import PROVIDERS, Provider, find_key
from mainspring.settings import Config, load_config

_PATIENCE_S = 0.3
_SHOWN = 8
_TRIES = 3
_SUGGESTED = {
    "anthropic": "claude-sonnet-4-6",
    "openai": "gpt-5",
    "gemini": "gemini-2.5-pro",
    "deepseek": "deepseek-chat",
}


class SetupDialog(Protocol):
    """How a face talks with the person who sets mainspring up."""

    def say(self, text: str) -> None: ...
    def ask(self, question: str, *, usual: str = "") -> str: ...
    def ask_secret(self, question: str) -> str: ...
    def fetch_local_model(self) -> None:
        """Downloads the small model."""
        ...


class SetupChoice(msgspec.Struct, frozen=True, kw_only=True):
    """Something that can answer. `models` are those it is known to have; without a `setting` a key is asked
    for first."""

    label: str
    setting: str = ""
    provider: str = ""
    models: tuple[str, ...] = ()
    value: str = ""


def needs_setup(config: Config) -> bool:
    """Whether nothing says which model or engine shall work."""
    settings = config.settings
    return not (config.model or settings.engine or (settings.router and settings.tiers))


async def detect_choices(config: Config) -> tuple[SetupChoice, ...]:
    """What could answer here, the readiest first: servers on this machine, keys, engines; then storing a key
    and the small model. Takes at most a third of a second."""
    local = [each for each in PROVIDERS if each.is_local]
    served = await asyncio.gather(*(_served(each, config) for each in local))
    found = [
        SetupChoice(
            label=f"{provider.title} on this machine: {_listed(names)}",
            setting="model",
            provider=provider.id,
            models=names,
        )
        for provider, names in zip(local, served, strict=True)
        if names
    ]
    with_key = [each for each in list_keys(config) if each.origin and not _is_local(each.name)]
    keyed = [
        SetupChoice(
            label=f"{each.title}, with the key from {_where(each)}", setting="model", provider=each.name
        )
        for each in with_key
        if each.key_page
    ]
    return (*keyed, *found, *_engines(config), *_always(config))


def run_setup(config: Config, dialog: SetupDialog) -> bool:
    """Leads a person to a model or an engine; False when they chose none. The settings are written."""
    choices = asyncio.run(detect_choices(config))
    used = config.settings.model or config.settings.engine
    begun = f"mainspring works with {used}." if used else "mainspring has no model yet."
    dialog.say(f"{begun} What shall do the work?\n")
    for number, each in enumerate(choices, 1):
        dialog.say(f"  {number}  {each.label}")
    dialog.say(f"  {len(choices) + 1}  nothing now\n")
    picked = _number(dialog, len(choices) + 1)
    if picked > len(choices):
        dialog.say("Nothing was changed. mainspring setup asks again.")
        return False
    choice = choices[picked - 1]
    if choice.value:
        if choice.provider == "local" and not _has_local(config):
            dialog.fetch_local_model()
        changed = set_setting(config, choice.setting, choice.value)
    else:
        provider = choice.provider or _store_key(config, dialog)
        changed = _choose_model(load_config(config.environment), dialog, provider, choice.models)
    _tell(dialog, changed)
    return True


def _store_key(config: Config, dialog: SetupDialog) -> str:
    """Asks for a key and tries it; gives the provider that it is for."""
    names = [each.name for each in list_keys(config) if each.key_page]
    dialog.say(f"\nProviders: {', '.join(names)}")
    name = ""
    while not name:
        wanted = dialog.ask("Provider", usual=names[0])
        try:
            name = find_status(config, wanted).name
        except UsageError as error:
            dialog.say(error.message)
    known = find_status(config, name)
    dialog.say(f"Get a key at {known.key_page}. It is stored for you alone, and not shown.")
    for _ in range(_TRIES):
        try:
            add_key(config, name, dialog.ask_secret(f"Key of {known.title}: "))
            asyncio.run(_list_provider(name, load_config(config.environment), is_refresh=True))
        except AuthFailed:
            remove_key(config, name)
            dialog.say(f"{known.title} refused this key.")
        except ModelError as error:
            dialog.say(f"The key is stored; it could not be tried: {error.message}")
            return name
        except UsageError as error:
            dialog.say(str(error))
        else:
            return name
    raise UsageError(f"No key of {known.title} was stored.", remedy=f"mainspring keys add {name}")


def _choose_model(
    config: Config, dialog: SetupDialog, provider: str, models: tuple[str, ...]
) -> SettingChange:
    if not models:
        with suppress(MainspringError):
            models = asyncio.run(_list_provider(provider, config))
    suggested = f"{provider}/{_SUGGESTED[provider]}" if provider in _SUGGESTED else ""
    usual = suggested if not models or suggested in models else models[0]
    if models:
        more = f" and {len(models) - _SHOWN} more" if len(models) > _SHOWN else ""
        dialog.say(f"\n{find_title(provider)} has {', '.join(models[:_SHOWN])}{more}.")
    unlisted = ""
    while True:
        name = dialog.ask("Model", usual=usual)
        name = name if "/" in name or name in ("", *models) else f"{provider}/{name}"
        if name and (not models or name in (*models, unlisted)):
            return set_setting(config, "model", name)
        unlisted = name
        dialog.say(f"It does not list {name}; give it again to take it." if name else "Name one.")


def find_title(provider: str) -> str:
    return next((each.title for each in PROVIDERS if each.id == provider), provider)


def _tell(dialog: SetupDialog, changed: SettingChange) -> None:
    dialog.say(f"\nDone: {changed.key} = {changed.after}, in {changed.file}.")
    dialog.say(f"To change it: mainspring config set {changed.key} NAME, or mainspring setup.\n")


def _number(dialog: SetupDialog, most: int) -> int:
    while True:
        answer = dialog.ask(f"Your choice, 1 to {most}", usual="1")
        if answer.isdecimal() and 1 <= int(answer) <= most:
            return int(answer)
        dialog.say(f"Please give a number from 1 to {most}.")


async def _served(provider: Provider, config: Config) -> tuple[str, ...]:
    environment = config.key_environment
    try:
        async with asyncio.timeout(_PATIENCE_S):
            key = find_key(provider, environment)
            models = await probe_server(address(provider, environment), key, timeout_s=_PATIENCE_S)
    except (ModelError, TimeoutError):
        return ()
    return tuple(f"{provider.id}/{each.id}" for each in models)


async def _list_provider(name: str, config: Config, *, is_refresh: bool = False) -> tuple[str, ...]:
    lists = import_module("mainspring.app.operations.model_lists")
    listed = await lists.list_provider(name, config, is_refresh=is_refresh)
    return tuple(listed.name_of(each) for each in listed.models)


def _engines(config: Config) -> list[SetupChoice]:
    catalog = import_module("mainspring.engines.catalog")
    return [
        SetupChoice(
            label=f"{facts.title}, which is installed here and has a login of its own",
            setting="engine",
            value=name,
        )
        for name, facts in catalog.COMMANDS.items()
        if catalog.find_program(facts.program, config.environment)
    ]


def _always(config: Config) -> tuple[SetupChoice, SetupChoice]:
    weights = PULLABLE[DEFAULT]
    size = "which is here" if _has_local(config) else f"{weights.size / 1e6:.0f} MB to download"
    needs = "" if find_spec("xllamacpp") else '; needs pip install "mainspring[local]"'
    return (
        SetupChoice(label="a provider that I have a key of"),
        SetupChoice(
            label=f"a small model on this machine, for a first look ({size}{needs})",
            setting="model",
            provider="local",
            value="local",
        ),
    )


def _has_local(config: Config) -> bool:
    return pulled_path(config.home, PULLABLE[DEFAULT]).exists()


def _is_local(name: str) -> bool:
    return any(each.id == name and each.is_local for each in PROVIDERS)


def _where(key: KeyStatus) -> str:
    return f"the environment ({key.variables[0]})" if key.origin == "environment" else f"the {key.origin}"


def _listed(names: tuple[str, ...]) -> str:
    first = names[0].partition("/")[2]
    return first if len(names) == 1 else f"{first} and {len(names) - 1} more"
