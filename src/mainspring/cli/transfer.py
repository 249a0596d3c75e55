"""`export` and `verify`."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path

import click

from mainspring.app.operations.forks import fork
from mainspring.app.operations.sessions import newest_session
from mainspring.app.operations.transfer import (
    Export,
    ExportFacts,
    accept_session,
    exporting,
    verify_session,
)
from mainspring.cli.blocking import iterate
from mainspring.cli.config import load_config_or_defaults, newest_here
from mainspring.cli.made_forks import tell_fork
from mainspring.cli.output_file import written
from mainspring.documents.figures import when
from mainspring.documents.html import as_html
from mainspring.documents.markdown import as_markdown
from mainspring.documents.transcript import transcript
from mainspring.errors import UsageError
from mainspring.events.counts import plural

_FORMATS = {
    "": "jsonl",
    ".jsonl": "jsonl",
    ".json": "jsonl",
    ".md": "markdown",
    ".markdown": "markdown",
    ".html": "html",
    ".htm": "html",
}
"""The format of an export by the suffix of its file."""


@click.command("export")
@click.argument("session", default="")
@click.option("-o", "--output", type=click.Path(path_type=Path), help="File to write, else standard output.")
@click.option(
    "--format",
    "form",
    type=click.Choice(["jsonl", "markdown", "html"]),
    help="Default: by the file's suffix, else jsonl.",
)
@click.option("--blobs", type=click.Path(path_type=Path), help="Folder for the blobs, else in the file.")
@click.option("--readable", "is_readable_only", is_flag=True, help="Of a damaged journal, what is readable.")
def export_command(
    session: str, output: Path | None, form: str | None, blobs: Path | None, *, is_readable_only: bool
) -> None:
    """Write SESSION (by default the newest of this folder) to one file: as JSON lines, which can be imported,
    or as a document to read."""
    form = form or _format_of(output)
    with asyncio.Runner() as runner, _open(runner, session) as export, written(output) as to:
        if form == "jsonl":
            header = runner.run(export.write(to, blobs=blobs, readable_only=is_readable_only))
            said = f"{plural(header.events, 'event')} of session {header.session}, head {header.head[:16]}"
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
@click.argument("session", default="")
@click.option("--accept", "is_accepted", is_flag=True, help="Take a restored older copy as it is.")
@click.option(
    "--repair", "is_repaired", is_flag=True, help="If it is damaged, make a new session of what can be read."
)
def verify_command(session: str, *, is_accepted: bool, is_repaired: bool) -> None:
    """Check the hash chain and every blob of SESSION (by default the newest of this folder); the exit code is
    1 when anything is wrong.

    Number and hash of the last event are also kept in a file beside the journal, its anchor: a journal that
    ends before its anchor lost events, and one that goes on after it is sound. A damaged journal is not
    written on; `fork --at` goes on from its last sound event. After you restored an older backup, --accept
    anchors it as it is. --repair does what `fork --repair` does: the damaged journal stays, and the id of the
    new session is printed.
    """
    if is_accepted and is_repaired:
        raise UsageError("--accept and --repair exclude each other.", remedy="Give one of them.")
    config = load_config_or_defaults()
    session = session or newest_here(config)
    verify = accept_session if is_accepted else verify_session
    verdict = asyncio.run(verify(config, session))
    if verdict.problem:
        damage = f"damaged: {verdict.problem} (sound before it: {plural(verdict.events, 'event')})"
        click.echo(damage, err=is_repaired)
        if is_repaired:
            tell_fork(asyncio.run(fork(config, session, is_repaired=True)))
            return
        click.echo(f"  {verdict.remedy(session)}", err=True)
        sys.exit(1)
    at = verdict.anchored_seq
    anchor = "no anchor yet" if at is None else f"anchor at event {at}"
    counted = f"{plural(verdict.events, 'event')}, {plural(verdict.blobs, 'blob')}"
    click.echo(f"sound: {counted}, head {verdict.head}, {anchor}")


def _format_of(output: Path | None) -> str:
    suffix = "" if output is None else output.suffix.lower()
    if suffix not in _FORMATS:
        raise UsageError(
            f"The format of {output} is unknown: exports end in {', '.join(filter(None, _FORMATS))}.",
            remedy="Name the format: --format jsonl, markdown or html.",
        )
    return _FORMATS[suffix]


@contextmanager
def _open(runner: asyncio.Runner, session: str) -> Generator[Export]:
    config = load_config_or_defaults()
    opened = exporting(config, session or runner.run(newest_session(config, Path.cwd())))
    export = runner.run(opened.__aenter__())
    try:
        yield export
    finally:
        runner.run(opened.__aexit__(None, None, None))


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
