"""The table of commands, and what becomes of errors: a sentence, a remedy, an honest exit code."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import NamedTuple

import click
from click.shell_completion import CompletionItem

from mainspring import __version__
from mainspring.cli.streams import is_person_there
from mainspring.errors import MainspringError, UsageError


class Entry(NamedTuple):
    """A command in the table. `module`, in this folder, holds the click command as `<name>_command`."""

    module: str
    summary: str
    is_common: bool = False


# A summary has at most 58 characters, so that the three columns of `--help` fit 80.
GROUPS: dict[str, dict[str, Entry]] = {
    "Work": {
        "chat": Entry("chat", "Talk with an agent in this folder; the default.", is_common=True),
        "run": Entry("run", "Give an agent a task, with nobody at the keyboard.", is_common=True),
        "resume": Entry("resume", "Continue a session, or tell it something new.", is_common=True),
        "goal": Entry("goals", "Pursue a goal for hours or days, or on a schedule.", is_common=True),
        "approve": Entry("approve", "Answer a blocked session's question, and continue it.", is_common=True),
        "fix": Entry("fix", "Make a command pass that fails, and verify it."),
        "farm": Entry("farm", "Attempt a task in parallel worktrees, and land the best."),
        "tasks": Entry("tasks", "Have a graph of tasks done by agents, side by side."),
        "review": Entry("review", "Review a change: findings with file, line and severity."),
        "docs": Entry("docs", "Write pages about source files, checked and judged."),
        "retry": Entry("resume", "Ask the last question again, perhaps of another model."),
        "say": Entry("messages", "Say something to a session that is running."),
        "note": Entry("messages", "Tell a session something, without asking for anything."),
        "exec": Entry("exec_run", "Run one command in the sandbox, without an agent."),
        "acp": Entry("acp", "Be the agent of an editor (Agent Client Protocol)."),
        "exploop": Entry("loops", "Run experiments towards a goal."),
        "drvloop": Entry("loops", "Derive a result claim by claim, each decided by a check."),
    },
    "Look": {
        "sessions": Entry("sessions", "List sessions, the most recent first.", is_common=True),
        "show": Entry("sessions", "Show what happened in a session.", is_common=True),
        "tail": Entry("sessions", "Watch a session that another process runs."),
        "diff": Entry("timeline", "Show which files each step changed.", is_common=True),
        "artifacts": Entry("artifacts", "Keep and compare outputs; list what a goal made."),
        "checks": Entry("checks", "List what checks find in the files that a session changed."),
        "evidence": Entry("evidence", "Show which changed lines were tested, checked or reviewed."),
        "reviews": Entry("reviews", "List reviews, and what became of their findings."),
        "impact": Entry("impact", "Show the API, callers and tests that a change reaches."),
        "index": Entry("index", "Find symbols, uses and texts of a repository; draw a map."),
        "compare": Entry("forks", "Show where two sessions differ."),
        "context": Entry("context", "Show what fills a session's context window."),
        "execs": Entry("exec_list", "List or show the commands run with `exec`."),
        "replay": Entry("forks", "Run a session again offline; report the first difference."),
        "traces": Entry("traces", "Export what sessions did to OpenTelemetry."),
        "verify": Entry("transfer", "Check a session's hash chain."),
    },
    "Go back": {
        "undo": Entry("timeline", "Undo the last turn: conversation, files or both.", is_common=True),
        "rewind": Entry("timeline", "Go back to an earlier event of a session."),
        "fork": Entry("forks", "Start a new session from another's history.", is_common=True),
        "land": Entry("branch", "Merge, squash or discard a session's git branch."),
        "compact": Entry("context", "Shorten a session's history, or restore it."),
    },
    "Money": {
        "cost": Entry("cost", "Show what was spent.", is_common=True),
        "usage": Entry("usage", "Show who spent what, and export it."),
    },
    "Machine": {
        "clean": Entry("disk", "Free disk space: old logs, records, caches."),
        "models": Entry("models", "List providers, keys and local models.", is_common=True),
        "setup": Entry("setup", "Choose what does the work: a model, a server, an agent."),
        "keys": Entry("keys", "Store, list and remove the keys of providers.", is_common=True),
        "config": Entry("config_commands", "List and change settings, with where each comes from."),
        "completion": Entry("completion", "Print a script that completes words in your shell."),
        "doctor": Entry("doctor", "Check this machine, and say how to fix what is missing.", is_common=True),
        "demo": Entry("demo", "See a run survive being killed. No key, no network.", is_common=True),
        "approvals": Entry("approvals", "List, try and revoke grants and rules."),
        "policy": Entry("policy", "Show who may do what in a team, and why."),
        "serve": Entry("serve", "Show and steer everything in a browser, or on a phone.", is_common=True),
        "devices": Entry("devices", "List, pair and revoke devices that may use `serve`."),
        "notify": Entry("notify", "List and try who is told when nobody looks."),
        "daemon": Entry("daemon", "Run schedules and interrupted goals in the background."),
        "worker": Entry("worker", "Work on sessions from a queue that machines share."),
        "fleet": Entry("fleet", "Show workers of all machines, and what waits for them."),
        "engines": Entry("engines", "List the agents that can take turns."),
        "mcp": Entry("mcp", "Add, list and try MCP servers, whose tools agents use."),
        "plugins": Entry("plugins", "List, add and begin plugins, which add to mainspring."),
        "agents": Entry("agents", "List the agents that a session can give work to."),
        "hooks": Entry("hooks", "List, try and follow commands that have a say in calls."),
        "commands": Entry("user_commands", "List the commands that you or a project wrote."),
        "skills": Entry("skills", "List the skills that an agent can read in a folder."),
        "memory": Entry("memory", "Show, add or forget what is remembered about a project."),
        "ps": Entry("processes", "List the background processes of sessions."),
        "jobs": Entry("jobs", "List and cancel jobs of sessions on other machines."),
        "schema": Entry("schema", "Print the JSON Schema of `run --input-format jsonl`."),
        "stop": Entry("processes", "Stop a session's turn, or a background process."),
        "store": Entry("store", "Keep sessions in a database that machines share."),
        "export": Entry("transfer", "Write a session to one portable file."),
        "import": Entry("imports", "Import a session, also from Claude Code or Codex."),
        "trust": Entry("trust", "List and revoke what you approved of what projects bring."),
        "login": Entry("login", "Log in at your team's issuer, or say who is logged in."),
        "logout": Entry("login", "Forget that login."),
        "audit": Entry("audit", "Show, verify and export the log of commands."),
        "uninstall": Entry("disk", "List all that mainspring wrote on this machine; remove it."),
    },
}
COMMANDS = {name: entry for group in GROUPS.values() for name, entry in group.items()}
ALIASES = {"step": "exec", "steps": "execs"}
"""Old names of commands, which still work and are not listed."""

_NAME_COLUMN, _SUMMARY_COLUMN = 10, 21
_OWN_OPTIONS = ("-h", "--help", "--version", "--all", "--debug")
"""Other options before any command are those of a chat: `mainspring --model NAME`."""


class _Commands(click.Group):
    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if args[:1] == ["help"]:
            args = [*args[1:], "--help"]
        elif args and args[0].startswith("-") and args[0] not in _OWN_OPTIONS:
            args = ["chat", *args]
        elif not args and not ctx.resilient_parsing and is_person_there() and sys.stdout.isatty():
            args = ["chat"]
        return super().parse_args(ctx, args)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        is_known = name in COMMANDS or name in ALIASES or name.startswith("-")
        if not is_known and not ctx.resilient_parsing:
            # Comparing words is loaded only when a name is wrong.
            nearest = import_module("mainspring.disk.settings_errors").nearest_word(name, COMMANDS)
            meant = f"Did you mean `mainspring {nearest}`?" if nearest else "See mainspring --help --all."
            raise UsageError(f"There is no command {name!r}.", remedy=meant)
        return super().resolve_command(ctx, args)

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return list(COMMANDS)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        found = {name: entry for name, entry in COMMANDS.items() if name.startswith(incomplete)}
        words = [CompletionItem(name, help=entry.summary) for name, entry in found.items()]
        return [*words, *click.Command.shell_complete(self, ctx, incomplete)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        name = ALIASES.get(cmd_name, cmd_name)
        found = COMMANDS.get(name)
        if found is None:
            return None
        module = import_module(f"mainspring.cli.{found.module}")
        command = import_module("mainspring.cli.dispatch").logged(getattr(module, f"{name}_command"), name)
        # A shell asks for words: `completion` knows those of arguments.
        return (
            import_module("mainspring.cli.completion").prepare(command) if ctx.resilient_parsing else command
        )

    def get_help_option(self, ctx: click.Context) -> click.Option | None:
        # Not eager, so that `--all` is seen first, wherever it stands.
        if option := super().get_help_option(ctx):
            option.is_eager = False
        return option

    def format_help(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        write_help(formatter, is_all=False)


def write_help(formatter: click.HelpFormatter, *, is_all: bool) -> None:
    """The commands by group, taken from the table, so that `--help` imports none of them."""
    formatter.write("Usage: mainspring COMMAND [OPTIONS] [ARGS]...\n\n")
    formatter.write("An agent runtime that you can leave alone for days.\n\n")
    for group, entries in GROUPS.items():
        heading = group
        for name, entry in entries.items():
            if entry.is_common or is_all:
                row = heading.ljust(_NAME_COLUMN) + name.ljust(_SUMMARY_COLUMN - _NAME_COLUMN)
                formatter.write(row + entry.summary + "\n")
                heading = ""
    formatter.write("\nOptions: -h, --help; --version; --all (every command); --debug (write a log)\n")
    if is_all:
        formatter.write(f"\n{_EXIT_CODES}\n")
    else:
        formatter.write("`mainspring help COMMAND` describes a command.\n")


_EXIT_CODES = """\
Exit codes: 0 done, 1 failed, 2 usage, 3 blocked or waiting for a person,
4 budget spent, 5 limit of steps or time reached, 130 interrupted."""


def _show_all(ctx: click.Context, param: click.Parameter, value: bool) -> None:  # noqa: ARG001, FBT001
    if value:
        formatter = ctx.make_formatter()
        write_help(formatter, is_all=True)
        click.echo(formatter.getvalue(), nl=False)
        ctx.exit()


_LOG = "mainspring.app.debug_log"
_SETTINGS = {"help_option_names": ["-h", "--help"], "max_content_width": 100}


@click.group(cls=_Commands, context_settings=_SETTINGS)
@click.version_option(__version__, message="mainspring %(version)s")
@click.option("--all", is_flag=True, is_eager=True, expose_value=False, callback=_show_all)
@click.option("--debug", "is_debug", is_flag=True, help="Append a log without secrets to a file.")
def mainspring(*, is_debug: bool) -> None:
    """An agent runtime that you can leave alone for days."""
    settings = import_module("mainspring.settings")
    if is_debug or settings.is_log_wanted():
        path = import_module(_LOG).start_log(settings.load_config(is_config_optional=True), is_debug=is_debug)
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
    sys.exit(code if isinstance(code, int) else 0)
