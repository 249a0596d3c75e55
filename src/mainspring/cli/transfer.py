"""`export` and `verify`."""

from __future__ import annotations

import platform
import sys
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

import click

from mainspring import __version__
from mainspring.app.records import vault_of
from mainspring.cli.documents import as_html, as_markdown
from mainspring.cli.render import when
from mainspring.config import Config, load_config
from mainspring.errors import UsageError
from mainspring.events import ModelChosen, Recorded, SessionStarted
from mainspring.journal.file import JournalFile
from mainspring.journal.shelf import Shelf
from mainspring.journal.transfer import export
from mainspring.workspace.git import Git

_DOCUMENTS = {"markdown": as_markdown, "html": as_html}


@click.command("export")
@click.argument("session")
@click.option("-o", "--output", type=click.Path(path_type=Path), help="File to write, else standard output.")
@click.option(
    "--format", "form", type=click.Choice(["jsonl", *_DOCUMENTS]), default="jsonl", help="Default: jsonl."
)
@click.option("--blobs", type=click.Path(path_type=Path), help="Folder for the blobs, else in the file.")
@click.option("--readable", "is_readable_only", is_flag=True, help="Of a damaged journal, what is readable.")
def export_command(
    session: str, output: Path | None, form: str, blobs: Path | None, *, is_readable_only: bool
) -> None:
    """Write SESSION to one file: as JSON lines, which can be imported, or as a document to read."""
    config = load_config()
    shelf = Shelf(config.home)
    file = shelf.file(shelf.find(session))
    try:
        environment = _environment(file, config)
        with written(output) as to:
            if form == "jsonl":
                header = export(
                    file,
                    to,
                    blobs_beside=blobs,
                    readable_only=is_readable_only,
                    environment=environment,
                )
                said = f"{header.events} events of session {header.session}, head {header.head[:16]}"
            else:
                facts = {"session": file.session, **_facts(file), **environment}
                parts = _DOCUMENTS[form](_events(file), facts, file.get)
                to.writelines(part.encode("utf-8", "replace") for part in parts)
                said = f"session {file.session} as {form}"
    finally:
        file.close()
    click.echo(said, err=True)


@click.command("verify")
@click.argument("session")
def verify_command(session: str) -> None:
    """Check the hash chain and every blob of SESSION; the exit code is 1 when anything is wrong."""
    shelf = Shelf(load_config().home)
    file = shelf.file(shelf.find(session))
    try:
        verdict = file.verify()
    finally:
        file.close()
    if verdict.problem:
        click.echo(f"damaged: {verdict.problem} ({verdict.events} events before it are sound)")
        sys.exit(1)
    click.echo(f"sound: {verdict.events} events, {verdict.blobs} blobs, head {verdict.head}")


@contextmanager
def written(output: Path | None) -> Generator[BinaryIO]:
    """Where to write: standard output, a file that appears whole or not at all, or what else is there."""
    if output is None:
        yield sys.stdout.buffer
        sys.stdout.flush()
        return
    real = output.resolve()
    is_replaced = real.is_file() or not real.exists()
    # A device such as /dev/null, or a pipe, is written to: a file would take its place for everybody.
    unfinished = real.with_name(f".{real.name}.part") if is_replaced else real
    try:
        with unfinished.open("wb") as to:
            yield to
        if is_replaced:
            unfinished.replace(real)
    except OSError as error:
        raise UsageError(
            f"{output} cannot be written: {error.strerror}.",
            remedy="Name a file in a folder that is there, and yours to write.",
        ) from error
    finally:
        if is_replaced:
            unfinished.unlink(missing_ok=True)


def _events(file: JournalFile) -> Iterator[Recorded]:
    after = 0
    while page := file.read(after=after):
        yield from page
        after = page[-1].seq


def _facts(file: JournalFile) -> Mapping[str, str]:
    """What stands at the head of a document."""
    started, model, last = file.last("SessionStarted"), file.last("ModelChosen"), file.last()
    facts = {"events": str(last.seq if last else 0), "until": when(last.time_us) if last else ""}
    if started and isinstance(started.event, SessionStarted):
        facts |= {"started": when(started.time_us), "workspace": started.event.workspace}
    if model and isinstance(model.event, ModelChosen):
        facts["model"] = model.event.model
    return facts


def _environment(file: JournalFile, config: Config) -> Mapping[str, str]:
    """Where an export was made: enough to tell whether a difference may come from there."""
    found = {
        "mainspring": __version__,
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
    }
    started = file.last("SessionStarted")
    if started and isinstance(started.event, SessionStarted):
        vault = vault_of(Shelf(config.home), file.session, config)
        folder = Path(vault.expand(started.event.workspace))
        git = Git(folder, config.environment)
        if folder.is_dir() and (commit := git.text("rev-parse", "--verify", "HEAD", check=False)):
            found["commit"] = commit
    return found
