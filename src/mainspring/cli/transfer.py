"""`export`, `import` and `verify`."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from mainspring.config import load_config
from mainspring.errors import UsageError
from mainspring.journal.shelf import Shelf
from mainspring.journal.transfer import export, import_journal


@click.command("export")
@click.argument("session")
@click.option("-o", "--output", type=click.Path(path_type=Path), help="File to write, else standard output.")
@click.option("--blobs", type=click.Path(path_type=Path), help="Folder for the blobs, else in the file.")
@click.option("--readable", "is_readable_only", is_flag=True, help="Of a damaged journal, what is readable.")
def export_command(session: str, output: Path | None, blobs: Path | None, *, is_readable_only: bool) -> None:
    """Write SESSION as JSON lines: a header, the blobs, and every event with its hash."""
    shelf = Shelf(load_config().home)
    file = shelf.file(shelf.find(session))
    try:
        if output is None:
            header = export(file, sys.stdout.buffer, blobs_beside=blobs, readable_only=is_readable_only)
            sys.stdout.flush()
        else:
            unfinished = output.with_name(f".{output.name}.part")
            try:
                with unfinished.open("wb") as to:
                    header = export(file, to, blobs_beside=blobs, readable_only=is_readable_only)
                unfinished.replace(output)
            except OSError as error:
                raise UsageError(f"{output} cannot be written: {error.strerror}.") from error
            finally:
                unfinished.unlink(missing_ok=True)
    finally:
        file.close()
    click.echo(f"{header.events} events of session {header.session}, head {header.head[:16]}", err=True)


@click.command("import")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--blobs", type=click.Path(path_type=Path), help="Folder with the blobs, when they lie beside.")
def import_command(file: Path, blobs: Path | None) -> None:
    """Bring the session in FILE in (- is standard input), checking every hash."""
    shelf = Shelf(load_config().home)
    if str(file) == "-":
        session = import_journal(shelf, sys.stdin.buffer, blobs_beside=blobs)
    else:
        try:
            with file.open("rb") as lines:
                session = import_journal(shelf, lines, blobs_beside=blobs)
        except FileNotFoundError as error:
            raise UsageError(f"There is no file {file}.") from error
    click.echo(session)


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
