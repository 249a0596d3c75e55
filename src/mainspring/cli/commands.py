"""The table of commands, and what becomes of errors: a sentence, a remedy, an honest exit code."""

from __future__ import annotations

import os
import sys
from importlib import import_module

import click

from mainspring import __version__
from mainspring.errors import MainspringError

# name: (module, one line of help); the module holds a click command of that name with `_` for `-`.
_COMMANDS = {
    "run": ("run", "Work towards a goal, without a person at the keyboard."),
    "resume": ("run", "Go on with a session: after a crash, a limit, a question, or with something new."),
    "goal": (
        "goals",
        "Work towards a goal for hours or days: start, list, show, pause, resume, stop, report, schedule.",
    ),
    "daemon": ("daemon", "Keep schedules, and go on with interrupted goals, in the background."),
    "exploop": ("loops", "Run experiments towards a goal, and wait for what they start."),
    "drvloop": ("loops", "Derive a result claim by claim, each decided by a check."),
    "approve": ("approve", "Answer what a blocked session waits for, and go on with it."),
    "approvals": ("approvals", "Grants and rules: list, revoke, try a command, judge the past."),
    "sessions": ("sessions", "List sessions, the most recent first."),
    "show": ("sessions", "Show what happened in a session."),
    "tail": ("sessions", "Watch a session while another process runs it."),
    "ps": ("processes", "List the background processes that sessions started."),
    "stop": ("processes", "End a background process with all that it started."),
    "cost": ("cost", "Show what was spent: by model, source, session or day."),
    "diff": ("timeline", "Show what each step did to files."),
    "undo": ("timeline", "Take back the last turn: conversation, files or both."),
    "rewind": ("timeline", "Go back to how a session was after an event."),
    "land": ("branch", "Merge, squash or discard the git branch of a session."),
    "fork": ("forks", "Make a new session that shares another's history."),
    "replay": ("forks", "Run a session again, offline, and report the first difference."),
    "compare": ("forks", "Show where two sessions part, and what each did."),
    "artifacts": ("artifacts", "List the files that a goal made, and what made them."),
    "step": ("step", "Run one command in the sandbox, without an agent, and keep what it gave."),
    "steps": ("steps", "List or show the commands that were run without an agent."),
    "context": ("context", "Show what fills a session's window."),
    "compact": ("context", "Make a session's history short, or bring it back."),
    "memory": ("memory", "What is remembered about a project: show, add, forget."),
    "verify": ("transfer", "Check a session's hash chain."),
    "export": ("transfer", "Write a session to one portable file."),
    "import": ("imports", "Bring a session in: an exported one, or one of Claude Code or Codex."),
    "models": ("models", "List providers, their keys, and the models on this machine; pull a small one."),
    "engines": ("engines", "List who can take turns, whether they are installed, and their versions."),
    "doctor": ("doctor", "Say what this machine holds, what it does not, and how to fix it."),
    "demo": ("demo", "See a run that is killed in the middle and loses nothing. No key, no network."),
}


class _Commands(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        found = _COMMANDS.get(cmd_name)
        if found is None:
            return None
        module = import_module(f"mainspring.cli.{found[0]}")
        return getattr(module, f"{cmd_name}_command")

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        # Taken from the table, so that `--help` imports no command.
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, line) in _COMMANDS.items()])


_LOG = "mainspring.app.debug_log"
_SETTINGS = {"help_option_names": ["-h", "--help"], "max_content_width": 100}


@click.group(cls=_Commands, context_settings=_SETTINGS)
@click.version_option(__version__, message="mainspring %(version)s")
@click.option("--debug", "is_debug", is_flag=True, help="Append a log without secrets to a file.")
def mainspring(*, is_debug: bool) -> None:
    """An agent runtime that you can leave alone for days.

    Exit codes: 0 done, 1 failed, 2 usage, 3 blocked or waiting for a person, 4 budget spent,
    5 limit of steps or time reached, 130 interrupted.
    """
    settings = import_module("mainspring.settings")
    if is_debug or settings.is_log_wanted():
        path = import_module(_LOG).start_log(settings.load_config(), is_debug=is_debug)
        if is_debug:
            click.echo(f"log: {path}", err=True)


def run_command() -> None:
    try:
        code = mainspring.main(standalone_mode=False)
    except click.exceptions.Exit as error:
        code = error.exit_code
    except click.ClickException as error:
        error.show()
        code = 2
    except MainspringError as error:
        if _LOG in sys.modules:
            sys.modules[_LOG].log_error(error)
        click.echo(f"mainspring: {error.message}", err=True)
        if error.remedy:
            click.echo(f"  {error.remedy}", err=True)
        code = error.exit_code
    except (KeyboardInterrupt, click.Abort):
        code = 130
    except BrokenPipeError:
        # The reader of our output went away; there is nobody left to tell.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 141
    sys.exit(code if isinstance(code, int) else 0)
