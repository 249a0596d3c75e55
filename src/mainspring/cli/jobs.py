"""`jobs`: jobs that sessions submitted to other machines."""

from __future__ import annotations

import asyncio

import click

from mainspring.app.operations.jobs import LOG_BYTES, JobRow, cancel_job, job_logs, list_jobs, show_job
from mainspring.cli.config import load_config, load_config_or_defaults
from mainspring.cli.json_output import json_line
from mainspring.secrets.screen import plain

_COMMAND = 60


@click.group("jobs", invoke_without_command=True)
@click.pass_context
def jobs_command(context: click.Context) -> None:
    """List, look into and cancel jobs that sessions submitted to other machines.

    Those are named in config.toml: [jobs.NAME].
    """
    if context.invoked_subcommand is None:
        context.invoke(list_command)


@jobs_command.command("list")
@click.argument("session", default="")
@click.option("--json", "is_json", is_flag=True, help="Print one job per line as JSON.")
def list_command(session: str, *, is_json: bool) -> None:
    """List the jobs of SESSION, or of all sessions, as they are on record."""
    rows = asyncio.run(list_jobs(load_config_or_defaults(), session))
    for row in rows:
        click.echo(json_line(row) if is_json else _line(row))
    if not rows and not is_json:
        click.echo("No jobs.", err=True)


@jobs_command.command("show")
@click.argument("session")
@click.argument("job")
@click.option("--json", "is_json", is_flag=True, help="Print it as JSON.")
def show_command(session: str, job: str, *, is_json: bool) -> None:
    """Show JOB of SESSION, and ask its host how it is now."""
    row = asyncio.run(show_job(load_config(), session, job))
    click.echo(json_line(row) if is_json else plain("\n".join(_lines(row))))


@jobs_command.command("logs")
@click.argument("session")
@click.argument("job")
@click.option("--bytes", "max_bytes", default=LOG_BYTES, show_default=True, help="Bytes of its end.")
def logs_command(session: str, job: str, max_bytes: int) -> None:
    """Print the end of what JOB of SESSION wrote."""
    click.echo(plain(asyncio.run(job_logs(load_config(), session, job, max_bytes))), nl=False)


@jobs_command.command("cancel")
@click.argument("session")
@click.argument("job")
def cancel_command(session: str, job: str) -> None:
    """Cancel JOB of SESSION on its host."""
    click.echo(_line(asyncio.run(cancel_job(load_config(), session, job))))


def _line(row: JobRow) -> str:
    command = plain(row.command.strip().partition("\n")[0])[:_COMMAND]
    cost = "price unknown" if row.usd is None else f"${row.usd:.2f}"
    state = row.state.replace("_", " ")
    return f"{row.session}  {row.job:<4} {plain(row.host):<10} {state:<9}  {cost:<8}  {command}"


def _lines(row: JobRow) -> list[str]:
    cost = "unknown" if row.usd is None else f"${row.usd:.4f}"
    facts = {
        "session": row.session,
        "job": row.job,
        "host": row.host,
        "hardware": row.hardware,
        "name there": row.name,
        "id there": row.remote or "not known",
        "state": row.state.replace("_", " "),
        "exit code": "" if row.exit_code is None else str(row.exit_code),
        "ran": "" if row.ran_s is None else f"{row.ran_s:.0f} s",
        "cost": cost,
        "detail": row.detail,
        "outputs": ", ".join(row.outputs),
        "stays": "yes" if row.stays else "",
        "command": row.command,
    }
    return [f"{name:<11} {value}" for name, value in facts.items() if value]
