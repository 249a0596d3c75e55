"""`exploop` and `drvloop`: the two classic loops by their names, with their options and exit codes."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

import click

from mainspring.app.goals import goal_text, made_folder
from mainspring.cli.goal_options import FOLDER, loop_options, options_of, wait_options
from mainspring.cli.goal_run import pursue


@click.command("exploop")
@click.argument("goal", nargs=-1)
@loop_options
@wait_options
@FOLDER
def exploop_command(goal: tuple[str, ...], folder: Path, *, is_json: bool, **given: Any) -> None:
    """Run experiments towards GOAL (a text, or a file that holds it) and wait for what they start.

    10 iterations, 1 s between them, waits of at most 6000 s, unless told otherwise. Exit code 0: done;
    1: iterations or the longest wait used up; 130: stopped; else that of the engine.
    """
    _run("exploop", goal, folder, is_json=is_json, **given)


@click.command("drvloop")
@click.argument("goal", nargs=-1)
@loop_options
@FOLDER
def drvloop_command(goal: tuple[str, ...], folder: Path, *, is_json: bool, **given: Any) -> None:
    """Derive GOAL (a text, or a file that holds it) claim by claim, each decided by a check.

    30 iterations unless told otherwise. Exit code 0: done; 1: iterations used up; 130: stopped; else that
    of the engine.
    """
    _run("drvloop", goal, folder, is_json=is_json, **given)


def _run(profile: str, goal: tuple[str, ...], folder: Path, *, is_json: bool, **given: Any) -> None:
    text = " ".join(goal)
    goal_text(text)
    options = options_of(made_folder(folder), profile, **given)
    sys.exit(asyncio.run(pursue(text, "", options, is_json=is_json)))
