"""`export` and `verify`."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Generator, Mapping
from contextlib import AbstractAsyncContextManager, contextmanager
from pathlib import Path
from typing import BinaryIO

import click

from mainspring.app.operations.transfer import (
    Export,
    ExportFacts,
    accept_session,
    exporting,
    verify_session,
)
from mainspring.cli.blocking import iterate
from mainspring.cli.config import load_config
from mainspring.documents.html import as_html
from mainspring.documents.lines import when
from mainspring.documents.markdown import as_markdown
from mainspring.documents.transcript import transcript
from mainspring.errors import UsageError


@click.command("export")
@click.argument("session")
@click.option("-o", "--output", type=click.Path(path_type=Path), help="File to write, else standard output.")
@click.option(
    "--format",
    "form",
    type=click.Choice(["jsonl", "markdown", "html"]),
    default="jsonl",
    help="Default: jsonl.",
)
@click.option("--blobs", type=click.Path(path_type=Path), help="Folder for the blobs, else in the file.")
@click.option("--readable", "is_readable_only", is_flag=True, help="Of a damaged journal, what is readable.")
def export_command(
    session: str, output: Path | None, form: str, blobs: Path | None, *, is_readable_only: bool
) -> None:
    """Write SESSION to one file: as JSON lines, which can be imported, or as a document to read."""
    with asyncio.Runner() as runner, _open(runner, session) as export, written(output) as to:
        if form == "jsonl":
            header = runner.run(export.write(to, blobs=blobs, readable_only=is_readable_only))
            said = f"{header.events} events of session {header.session}, head {header.head[:16]}"
        else:
            facts = {**_facts(export.facts), **export.environment}
            events = iterate(export.events(), runner)
            blocks = transcript(events, facts, lambda blob: runner.run(export.get(blob)))
            title = f"Session {export.facts.session}"
            parts = as_html(title, blocks) if form == "html" else as_markdown(blocks)
            to.writelines(part.encode("utf-8", "replace") for part in parts)
            said = f"session {export.facts.session} as {form}"
    click.echo(said, err=True)


@click.command("verify")
@click.argument("session")
@click.option("--accept", "is_accepted", is_flag=True, help="Take a restored older copy as it is.")
def verify_command(session: str, *, is_accepted: bool) -> None:
    """Check the hash chain and every blob of SESSION; the exit code is 1 when anything is wrong.

    Number and hash of the last event are also kept in a file beside the journal, its anchor: a journal that
    ends before its anchor lost events, and one that goes on after it is sound. A damaged journal is not
    written on; `fork --at` goes on from its last sound event. After you restored an older backup, --accept
    anchors it as it is.
    """
    verify = accept_session if is_accepted else verify_session
    verdict = asyncio.run(verify(load_config(), session))
    if verdict.problem:
        click.echo(f"damaged: {verdict.problem} ({verdict.events} events before it are sound)")
        click.echo(f"  {verdict.remedy(session)}", err=True)
        sys.exit(1)
    at = verdict.anchored_seq
    anchor = "no anchor yet" if at is None else f"anchor at event {at}"
    click.echo(f"sound: {verdict.events} events, {verdict.blobs} blobs, head {verdict.head}, {anchor}")


@contextmanager
def _open(runner: asyncio.Runner, session: str) -> Generator[Export]:
    opened = exporting(load_config(), session)
    export = runner.run(_entered(opened))
    try:
        yield export
    finally:
        runner.run(_left(opened))


async def _entered(opened: AbstractAsyncContextManager[Export]) -> Export:
    return await opened.__aenter__()


async def _left(opened: AbstractAsyncContextManager[Export]) -> None:
    await opened.__aexit__(None, None, None)


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


def _facts(facts: ExportFacts) -> Mapping[str, str]:
    """What stands at the head of a document."""
    told = {
        "session": facts.session,
        "events": str(facts.events),
        "until": when(facts.until_us) if facts.events else "",
    }
    if facts.workspace:
        told |= {"started": when(facts.started_us), "workspace": facts.workspace}
    return {**told, "model": facts.model} if facts.model else told
