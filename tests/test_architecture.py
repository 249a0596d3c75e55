"""The rules of the house, checked on the source itself. A failure says the rule that was broken."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Collection, Iterator
from functools import cache
from pathlib import Path

import pytest

from mainspring.events import STORED

SOURCE = Path(__file__).parent.parent / "src" / "mainspring"

# From the lowest layer up; a room imports rooms of lower layers, and along the arrows drawn inside its own.
LAYERS: list[tuple[str, tuple[str, ...]]] = [
    ("words", ("events", "errors", "patterns", "version")),
    ("net and disk", ("net", "disk", "system", "formats")),
    ("stores and ports", ("journal", "catalog", "models", "sandbox", "jobs")),
    ("policy", ("secrets", "approvals", "hooks", "workspace", "folds", "waits", "context", "people")),
    ("tools", ("tools",)),
    ("turns", ("turns",)),
    ("session", ("session",)),
    (
        "work",
        (
            "checks",
            "index",
            "engines",
            "mcp",
            "evidence",
            "documents",
            "goals",
            "report",
            "notify",
            "plugins",
            "agents",
            "forge",
            "telemetry",
        ),
    ),
    ("application", ("settings", "daemon", "app")),
    ("faces", ("cli", "chat", "protocols", "serve", "client", "testing")),
]
ARROWS: dict[str, set[str]] = {
    "events": {"patterns"},
    "chat": {"cli"},
    "cli": {"client"},
    "disk": {"system"},
    "catalog": {"journal"},
    "jobs": {"sandbox"},
    "approvals": {"people", "secrets"},
    "hooks": {"approvals", "secrets"},
    "workspace": {"secrets"},
    "folds": {"approvals", "secrets"},
    "waits": {"folds"},
    "context": {"waits", "workspace", "secrets"},
    "goals": {"evidence"},
    "agents": {"documents", "evidence"},
    "checks": {"documents", "index"},
    "notify": {"documents"},
    "forge": {"checks", "documents"},
    "plugins": {"engines", "mcp"},
    "report": {"documents", "evidence", "goals"},
    "daemon": {"settings"},
    "app": {"daemon", "settings"},
}
LAYER_OF = {each: number for number, (_, rooms) in enumerate(LAYERS) for each in rooms}
FACES = {"client", "cli", "chat", "protocols", "serve", "testing", "__main__"}

LONG_FILES: dict[str, int] = {
    "session/session.py": 419,  # what a person commands and watches, in one class
    "sandbox/attacks.py": 440,  # one table of attacks
}
LONG_FUNCTIONS: dict[str, int] = {"app/build.py:open": 112}  # names every part of a session once
BROAD_EXCEPTS = {
    "agents/children.py": "a fault of a child is on record in its own journal, and told to its parent",
    "protocols/acp/hosted.py": "a fault of one session, on record there, leaves a client's other sessions alone",
    "app/blocking.py": "an error of a thread is raised where it is waited for",
    "secrets/key_store.py": "every keyring has errors of its own; they are told by whoever needs the key",
    "tools/toolbox.py": "a tool's fault is an answer to the model",
    "plugins/loading.py": "a plugin's fault is told, and everything else works",
    "app/extensions.py": "as above",
    "serve/hub.py": "a fault of one session is recorded there, and the others go on",
    "session/session.py": "a fault in a turn is recorded, then raised again",
    "mcp/broker.py": "whatever a server or the SDK does is told to the process that asked",
    "mcp/connection.py": "as above",
    "journal/postgres/journal.py": "a fault of a write is raised to everybody who waits for it",
}
TASKS_OUTSIDE_GROUPS = {
    "agents/children.py": "children run beside a session, whose block a group would wrap; closing ends them",
    "app/retention.py": "a group would wrap what the caller's block raises; the block ends the task",
    "catalog/postgres.py": "as above",
    "journal/postgres/journal.py": "a journal is written and its lease renewed until it is closed",
    "app/extensions.py": "as above",
    "checks/rounds.py": "a linter goes on beside the next step; closing ends it",
    "checks/syntax.py": "the reader runs until it is ended",
    "checks/server_process.py": "the server runs until it is ended",
    "serve/channels.py": "a channel lives for as long as its readers, which are requests",
    "serve/server.py": "a stream is a generator that its request closes; it ends the task",
    "serve/mcp/server.py": "each call is a task that its answer ends; a group would be cancelled again and again",
    "app/notifications.py": "as app/retention.py; closing ends them",
    "app/hook_follower.py": "as app/retention.py; closing ends it",
    "app/session_jobs.py": "as app/retention.py; closing ends it",
    "app/session_machine.py": "as above",
    "mcp/broker.py": "each request is a task that its answer ends; the broker ends with its socket",
    "mcp/connection.py": "the SDK's scopes of a server must end in the task where they began",
    "mcp/hub.py": "servers start beside a session, whose block a group would wrap; closing ends them",
    "mcp/link.py": "reads as long as the broker lives, whoever asks",
    "mcp/process.py": "a server runs until it is ended",
    "tools/toolbox.py": "a tool that ignores its cancellation must not hold a group",
    "turns/session_sandbox.py": "it is chosen while the model thinks, and awaited by the call or at the end",
}
IMPORTS_IN_FUNCTIONS = {
    "app/operations/goal_list.py": "reports are read only for goals from before there were grades",
    "app/retention.py": "what deletes is needed once a day",
    "cli/__init__.py": "--version must not wait for the other commands",
    "__init__.py": "importing the package costs nothing",
    "testing/__init__.py": "the model server does not wait for what else is for tests",
    "app/engines.py": "outside agents are not loaded for a session that takes its own turns",
    "app/stores.py": "listing sessions does not wait for what runs commands",
    "app/policies.py": "the shell parser and the sandbox are not loaded before the first call needs them",
}
WRITERS = {
    "secrets/recorder.py": "the one writer: a journal and its vault",
    "app/records.py": "opens a journal and hands it to a Recorder",
    "app/permitted_sessions.py": "passes a journal on to who may write it",
}
KEEPERS_OF_SESSIONS = {
    "app/stores.py": "chooses where sessions are kept",
    "daemon/files.py": "its lock is one of this machine and no session's",
}
WRITING_MODULES = ("journal.sqlite", "journal.writer", "catalog.compose", "catalog.fork")
# What the command line and the chat may import besides themselves; all else they ask of app/.
CLI_IMPORTS = (
    "mainspring.__version__",
    "mainspring.app",
    "mainspring.secrets.screen",  # text made safe for a terminal
    "mainspring.cli",
    "mainspring.protocols",
    "mainspring.chat",
    "mainspring.client",
    "mainspring.documents",  # events as lines, sessions as documents
    "mainspring.settings",
    "mainspring.errors",
    "mainspring.events",
    "mainspring.mcp.settings",  # what a server that is added may be
    "mainspring.session.session",  # what `mainspring.open` gives
    "mainspring.system",  # what works here, who is at work
)
CLI_EXCEPTIONS = {
    "cli/ask.py": ("mainspring.approvals",),  # says why a question is asked
    "cli/demo.py": ("mainspring.catalog.folder",),  # counts what is in a journal, to prove what it says
}
NO_EVENTS = {
    "people/signed_tokens.py": "names of kinds of keys",
    "app/hook_follower.py": "names events of hooks, two of which are called like ours",
    "__init__.py": "names what the package gives, events among them",
    "testing/__init__.py": "as above",
    "testing/journals.py": "a journal must stand being asked for kinds that do not exist",
}
# Who opens a file without `disk/untrusted.py`; nothing here may read what a repository brings.
OTHER_READERS = {
    "app/operations/security.py": "the files of a journal that it made itself",
    "cli/streams.py": "a standard stream that was closed",
    "disk/scratch.py": "locks of folders that mainspring itself made",
    "journal/anchor.py": "the anchor that mainspring itself wrote",
    "disk/untrusted.py": "the one way to read what a repository brings",
    "sandbox/files.py": "files of tools, under the policy: regular ones only, bounded, no links",
    "workspace/stable_read.py": "files of the workspace with their status: regular ones only, bounded, no links",
    "workspace/contents.py": "our own data",
    "workspace/linked_worktrees.py": "locks the folder of a repository",
    "workspace/worktrees.py": "copies regular files, and looks at none of them",
    "catalog/day.py": "our own data",
    "journal/chained_log.py": "our own data",
    "disk/files.py": "our own data",
    "disk/shared_files.py": "our own data",
    "secrets/sealed_files.py": "our own key",
    "disk/owner.py": "our own data, and /proc",
    "disk/scan.py": "folders",
    "goals/lock.py": "our own data",
    "goals/control.py": "our own data",
    "daemon/files.py": "our own data",
    "daemon/launch.py": "our own data",
    "daemon/processes.py": "our own data",
    "approvals/trust.py": "our own data",
    "secrets/key_store.py": "our own data",
    "evidence/artifact_scan.py": "our own data",
    "notify/outbox.py": "our own data",
    "models/capabilities.py": "our own data",
    "models/model_lists.py": "our own data",
    "models/pricelist.py": "our own data, and what is shipped",
    "turns/checkpoint.py": "our own data",
    "tools/files.py": "what is shipped",
    "jobs/machines.py": "what is shipped, and lists that are received",
    "jobs/remote.py": "what is shipped",
    "jobs/shells.py": "archives that mainspring itself made, or receives",
    "app/operations/bundle.py": "our own debug log",
    "app/team.py": "our own data",
    "app/operations/devices.py": "our own data",
    "app/operations/servers.py": "our own data",
    "app/operations/daemon.py": "our own log",
    "cli/daemon.py": "our own log",
    "cli/demo.py": "what the demo made itself",
    "serve/answer_links.py": "what is shipped",
    "serve/certificate.py": "the certificate of our own server",
    "serve/pages.py": "what is shipped",
    "settings.py": "the clock of the system",
    "system.py": "/proc",
    "waits/namespaces.py": "/proc",
    "waits/processes.py": "/proc",
    "waits/services.py": "/proc",
}
OTHER_HTTP = {
    "mcp/connection.py": "runs in the broker, on the client of the protocol's SDK",
    "mcp/http.py": "as above",
    "mcp/oauth.py": "as above",
}
LOOP_LINES = 250


def files() -> list[Path]:
    return sorted(SOURCE.rglob("*.py"))


def name(path: Path) -> str:
    return str(path.relative_to(SOURCE))


def room(path: Path) -> str:
    first = path.relative_to(SOURCE).parts[0]
    return first.removesuffix(".py")


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def imported(path: Path) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            if node.level:
                # The guard is started as a program of its own, outside the package.
                is_program = "custody" in path.parts
                assert is_program, f"{name(path)}:{node.lineno}: imports are written in full"
                continue
            yield node.lineno, node.module or ""
            yield from ((node.lineno, f"{node.module}.{alias.name}") for alias in node.names)


def type_checking_lines(path: Path) -> set[int]:
    lines: set[int] = set()
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            lines |= set(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return lines


def journal_writes(path: Path) -> Iterator[tuple[int, str]]:
    """Where a journal is appended to, or opened for writing: `append` of a list has no value to use, and files
    are not awaited."""
    nodes = list(ast.walk(tree(path)))
    unused = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
    awaited = {id(node.value) for node in nodes if isinstance(node, ast.Await)}
    for node in nodes:
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
            continue
        if node.func.attr == "append" and id(node) not in unused:
            yield node.lineno, "only a Recorder appends to a journal"
        elif node.func.attr in ("open", "create") and (id(node) in awaited or is_store(node.func.value)):
            yield node.lineno, "app/records.py opens journals for writing, with their vault"


def is_store(receiver: ast.expr) -> bool:
    """Whether an expression is called a store, or makes one."""
    called = receiver.func if isinstance(receiver, ast.Call) else receiver
    found = called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")
    return found.lower().endswith("store")


def only_in(
    rooms: set[str], forbidden: tuple[str, ...], sentence: str, excepted: Collection[str] = ()
) -> None:
    for path in files():
        if room(path) in rooms or name(path) in excepted:
            continue
        for line, module in imported(path):
            is_found = any(module == banned or module.startswith(banned + ".") for banned in forbidden)
            assert not is_found, f"{name(path)}:{line} imports {module}: {sentence}"


def imported_rooms(path: Path) -> Iterator[tuple[int, str, str]]:
    """Each line that imports another room of ours when it is run: its number, the module, the room."""
    skipped = type_checking_lines(path)
    for line, module in imported(path):
        parts = module.split(".")
        is_ours = parts[0] == "mainspring" and len(parts) > 1 and parts[1] in LAYER_OF
        if is_ours and line not in skipped and parts[1] != room(path):
            yield line, module, parts[1]


def test_imports_point_down_the_layers() -> None:
    for path in files():
        if room(path) in ("__main__", "__init__"):
            continue
        assert room(path) in LAYER_OF, f"{name(path)}: every file belongs to a room of a layer"
        mine = LAYER_OF[room(path)]
        for line, module, target in imported_rooms(path):
            is_drawn = target in ARROWS.get(room(path), set())
            assert LAYER_OF[target] < mine or is_drawn, (
                f"{name(path)}:{line} imports {module}: imports point to lower layers, or along an arrow"
            )


def test_arrows_stay_inside_their_layer_are_used_and_make_no_circle() -> None:
    used = {(room(path), target) for path in files() for _, _, target in imported_rooms(path)}
    for start, targets in ARROWS.items():
        for target in targets:
            assert LAYER_OF[start] == LAYER_OF[target], f"{start} → {target} is no arrow inside a layer"
            assert (start, target) in used, f"{start} → {target} is drawn, and nothing uses it"
    left = {each: set(ARROWS.get(each, ())) for each in LAYER_OF}
    while free := [each for each, targets in left.items() if not targets & left.keys()]:
        for each in free:
            del left[each]
    assert not left, f"these rooms import each other in a circle: {', '.join(left)}"


def test_the_design_shows_the_layers_as_they_are() -> None:
    design = (SOURCE.parent.parent / "docs" / "design.md").read_text(encoding="utf-8")
    for layer, rooms in LAYERS:
        assert any(layer in line and all(each in line for each in rooms) for line in design.splitlines()), (
            f"docs/design.md has no line with the layer {layer} and all its rooms"
        )
    for start, targets in ARROWS.items():
        for target in targets:
            assert f"{start} --> {target}" in design, f"docs/design.md does not draw {start} --> {target}"


def test_a_public_class_name_means_one_thing() -> None:
    homes: dict[str, str] = {}
    for path in files():
        for node in tree(path).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                assert node.name not in homes, f"{node.name} is in {homes[node.name]} and in {name(path)}"
                homes[node.name] = name(path)


def test_http_is_spoken_through_one_file() -> None:
    forbidden = (
        "httpx2",
        "httpx",
        "urllib.request",
        "http.client",
        "openai",
        "anthropic",
        "aiohttp",
        "requests",
    )
    only_in(FACES, forbidden, "what speaks HTTP goes through net/http.py", OTHER_HTTP)


def test_processes_are_started_only_by_sandbox_and_workspace() -> None:
    only_in(
        {"sandbox", "workspace", *FACES}, ("subprocess",), "processes are started in sandbox/ and workspace/"
    )
    for path in files():
        if room(path) in {"sandbox", "workspace", *FACES}:
            continue
        for node in ast.walk(tree(path)):
            if isinstance(node, ast.Call) and isinstance(called := node.func, ast.Attribute):
                banned = {
                    "create_subprocess_exec",
                    "create_subprocess_shell",
                    "system",
                    "popen",
                    "posix_spawn",
                }
                is_os = isinstance(called.value, ast.Name) and called.value.id in {"os", "asyncio"}
                assert not (is_os and called.attr in banned), (
                    f"{name(path)}:{node.lineno}: processes are started in sandbox/ and workspace/"
                )


def test_sql_stays_in_the_journal() -> None:
    only_in(
        {"journal", "catalog", "index"},
        ("sqlite3", "apsw", "asyncpg", "psycopg"),
        "SQL belongs in journal/, catalog/ and index/",
    )


def test_sessions_are_used_through_their_port() -> None:
    """How journals are kept is known in journal/ and catalog/, and chosen in one file."""
    for path in files():
        if room(path) in ("journal", "catalog", "testing") or name(path) in KEEPERS_OF_SESSIONS:
            continue
        for line, module in imported(path):
            is_concrete = any(
                module.startswith(f"mainspring.journal.{each}") for each in modules_of("journal")
            )
            is_concrete |= any(
                module.startswith(f"mainspring.catalog.{each}") for each in modules_of("catalog")
            )
            assert not is_concrete, f"{name(path)}:{line} imports {module}: use mainspring.catalog.Sessions"


def modules_of(package: str) -> list[str]:
    return [
        path.stem
        for path in (SOURCE / package).glob("*.py")
        if path.stem not in ("__init__", "settings", "chained_log")
    ]


def test_only_the_recorder_writes_journals() -> None:
    """The type that can write is named, and a journal opened for writing, only where it gets its vault."""
    writers = ("mainspring.journal.Journal", *(f"mainspring.{each}" for each in WRITING_MODULES))
    for path in files():
        if room(path) in ("journal", "catalog", "testing") or name(path) in WRITERS:
            continue
        for line, module in imported(path):
            is_writer = any(module == each or module.startswith(each + ".") for each in writers)
            assert not is_writer, f"{name(path)}:{line} imports {module}: write through a Recorder"
        found = [f"{name(path)}:{line}: {sentence}" for line, sentence in journal_writes(path)]
        assert not found, found[0]


@pytest.mark.parametrize(
    "source",
    [
        "from mainspring.journal import Journal",
        "from mainspring.journal.sqlite import SqliteJournal",
        "from mainspring.catalog.fork import fork",
        "async def f(a):\n    await a.append(1)",
        "async def f(a):\n    group.create_task(a.append(1))",
        "async def f(home):\n    a = await Store(home).open('s')",
        "async def f(self):\n    return await self._store.create()",
        "async def f(shelf):\n    a = await shelf.open('s')",
        "def f(store):\n    group.create_task(store.open('s'))",
    ],
)
def test_the_rule_about_writers_finds_each_way_around_it(
    source: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.modules[__name__], "SOURCE", tmp_path)
    (tmp_path / "rewind.py").write_text(source)
    with pytest.raises(AssertionError, match=r"rewind\.py"):
        test_only_the_recorder_writes_journals()


def file_reads(path: Path) -> Iterator[int]:
    """The lines in which a file is opened for reading, or may be."""
    for node in ast.walk(tree(path)):
        if not isinstance(node, ast.Call):
            continue
        called, owner = node.func, ""
        if isinstance(called, ast.Attribute):
            owner = called.value.id if isinstance(called.value, ast.Name) else ""
        method = called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")
        if method in ("read_text", "read_bytes") and isinstance(called, ast.Attribute):
            yield node.lineno
        elif method == "open" and (owner == "os" or isinstance(called, ast.Name)):
            if "O_WRONLY" not in ast.dump(node):
                yield node.lineno
        elif method == "open" and node.args and isinstance(mode := node.args[0], ast.Constant):
            if isinstance(mode.value, str) and mode.value in ("r", "rb", "rt", "r+", "r+b", "rb+"):
                yield node.lineno
        elif method == "load" and owner in ("tomllib", "json", "pickle"):
            yield node.lineno


def test_what_a_repository_brings_is_read_in_one_way() -> None:
    for path in files():
        if room(path) == "testing" or "custody" in path.parts:
            continue
        is_sandbox = room(path) == "sandbox"  # reads /proc, cgroups and its own folders
        if is_sandbox or name(path) in OTHER_READERS:
            continue
        lines = list(file_reads(path))
        assert not lines, f"{name(path)}:{lines[0]}: read files with disk/untrusted.py, or list why not"


def test_the_list_of_other_readers_is_short() -> None:
    for listed in OTHER_READERS:
        assert any(file_reads(SOURCE / listed)), f"{listed} reads no file by itself; take it off the list"


@pytest.mark.parametrize(
    "source",
    [
        "text = path.read_text()",
        "data = (folder / 'x').read_bytes()",
        "with path.open('rb') as file: pass",
        "with open(path) as file: pass",
        "fd = os.open(path, os.O_RDONLY)",
        "json.load(file)",
    ],
)
def test_the_rule_about_readers_finds_each_way_around_it(
    source: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.modules[__name__], "SOURCE", tmp_path)
    (tmp_path / "skills.py").write_text(source)
    with pytest.raises(AssertionError, match=r"skills\.py"):
        test_what_a_repository_brings_is_read_in_one_way()


def test_screens_stay_in_faces() -> None:
    forbidden = ("rich", "prompt_toolkit", "textual", "starlette", "uvicorn", "fastapi", "flask", "click")
    only_in(FACES, forbidden, "screens and web frameworks belong in faces")


def test_the_environment_is_read_only_by_config() -> None:
    for path in files():
        if room(path) == "settings" or room(path) in ("sandbox", "testing"):
            continue
        for node in ast.walk(tree(path)):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "os":
                assert node.attr not in ("environ", "getenv", "environb"), (
                    f"{name(path)}:{node.lineno}: only settings.py looks at the environment"
                )


def test_only_faces_print() -> None:
    for path in files():
        if room(path) in FACES:
            continue
        for node in ast.walk(tree(path)):
            is_print = (
                isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print"
            )
            assert not is_print, f"{name(path)}:{getattr(node, 'lineno', 0)}: only faces print"


def test_broad_excepts_are_listed() -> None:
    for path in files():
        for node in ast.walk(tree(path)):
            if not isinstance(node, ast.ExceptHandler):
                continue
            caught = node.type
            is_broad = caught is None or (isinstance(caught, ast.Name) and caught.id == "Exception")
            if isinstance(caught, ast.Name) and caught.id == "BaseException":
                last = node.body[-1]
                is_broad = not (isinstance(last, ast.Raise) and last.exc is None)
            assert not is_broad or name(path) in BROAD_EXCEPTS, (
                f"{name(path)}:{node.lineno}: a broad except hides faults; list it here with its reason"
            )


def test_tasks_live_in_groups() -> None:
    for path in files():
        if name(path) in TASKS_OUTSIDE_GROUPS or room(path) == "testing":
            continue
        for node in ast.walk(tree(path)):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                owner = node.func.value
                is_loose = node.func.attr in ("create_task", "ensure_future") and (
                    isinstance(owner, ast.Name) and owner.id in ("asyncio", "loop")
                )
                assert not is_loose, f"{name(path)}:{node.lineno}: tasks live only in TaskGroups"


def test_imports_stand_at_the_top() -> None:
    for path in files():
        if name(path) in IMPORTS_IN_FUNCTIONS:
            continue
        for node in ast.walk(tree(path)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                inner = [item for item in ast.walk(node) if isinstance(item, ast.Import | ast.ImportFrom)]
                assert not inner, f"{name(path)}:{inner[0].lineno}: heavy imports are lazy by module"


@pytest.mark.parametrize("path", files(), ids=name)
def test_files_and_functions_are_short(path: Path) -> None:
    lines = len(path.read_text(encoding="utf-8").splitlines())
    assert lines <= LONG_FILES.get(name(path), 400), f"{name(path)} has {lines} lines: split it by meaning"
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            length = (node.end_lineno or 0) - node.lineno + 1
            allowed = LONG_FUNCTIONS.get(f"{name(path)}:{node.name}", 60)
            assert length <= allowed, f"{name(path)}:{node.lineno} {node.name} has {length} lines: split it"


def test_the_loop_stays_on_a_few_pages() -> None:
    lines = len((SOURCE / "turns" / "loop.py").read_text(encoding="utf-8").splitlines())
    assert lines <= LOOP_LINES, (
        f"turns/loop.py has {lines} lines; telemetry, hooks, modes, quirks and texts go elsewhere"
    )


@pytest.mark.parametrize("path", files(), ids=name)
def test_every_module_says_what_it_promises(path: Path) -> None:
    docstring = ast.get_docstring(tree(path))
    assert docstring, f"{name(path)} needs a docstring that says what it promises"
    assert len(docstring.splitlines()) <= (60 if name(path) == "errors.py" else 12), (
        f"{name(path)}: a module docstring is short"
    )


def test_the_command_line_only_asks_operations_and_renders_what_they_give() -> None:
    for path in files():
        if room(path) not in ("cli", "chat", "protocols"):
            continue
        for line, module in imported(path):
            is_known = any(module == each or module.startswith(f"{each}.") for each in CLI_IMPORTS)
            is_listed = any(module.startswith(each) for each in CLI_EXCEPTIONS.get(name(path), ()))
            assert not module.startswith("mainspring.") or is_known or is_listed, (
                f"{name(path)}:{line} imports {module}: what a command does belongs in app/operations/"
            )


def test_operations_leave_the_terminal_and_the_exit_to_faces() -> None:
    for path in sorted((SOURCE / "app" / "operations").glob("*.py")):
        for node in ast.walk(tree(path)):
            if isinstance(node, ast.Attribute):
                is_face = node.attr in ("isatty", "stdin", "stdout", "stderr", "cwd") or (
                    node.attr == "exit" and isinstance(node.value, ast.Name) and node.value.id == "sys"
                )
                is_own = isinstance(node.value, ast.Name) and node.value.id not in ("sys", "Path", "os")
                assert not is_face or is_own, (
                    f"{name(path)}:{node.lineno} uses {node.attr}: operations take and return values"
                )


def test_every_tool_has_its_text_for_the_model() -> None:
    tools = [
        path for path in (SOURCE / "tools").glob("*.py") if "\nTOOL = " in path.read_text(encoding="utf-8")
    ]
    assert tools
    for path in tools:
        assert path.with_suffix(".md").read_text(encoding="utf-8").strip(), (
            f"{name(path)} needs a .md beside it"
        )


def test_types_of_events_and_arguments_are_no_texts() -> None:
    """Types that are kept as texts are compiled when a struct is first read or shown to a model, again and
    again in each process."""
    for path in files():
        bases = {
            base.id
            for node in ast.walk(tree(path))
            if isinstance(node, ast.ClassDef)
            for base in node.bases
            if isinstance(base, ast.Name)
        }
        if bases & {"Event", "Value", "Arguments"}:
            assert ("__future__", "annotations") not in {
                (node.module, each.name)
                for node in tree(path).body
                if isinstance(node, ast.ImportFrom)
                for each in node.names
            }, (
                f"{name(path)} has events or arguments of tools: leave out `from __future__ import annotations`"
            )


def test_names_say_what_things_are() -> None:
    banned = ("Manager", "Helper", "Handler", "Util", "Base", "Impl")
    for path in files():
        for node in ast.walk(tree(path)):
            if isinstance(node, ast.ClassDef):
                assert not node.name.endswith(banned), (
                    f"{name(path)}:{node.lineno} {node.name}: name what it is"
                )


def event_names(module: ast.Module) -> Iterator[tuple[int, str]]:
    """Every string of a module that is used as the kind of an event: what a journal is asked for, what `kind` is
    compared with, what stands in a name like `_KINDS`, and whatever stands together with the name of an event."""
    assigned = {
        target.id: node.value
        for node in module.body
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value
        for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
        if isinstance(target, ast.Name) and target.id != "__all__"
    }
    used = [value for named, value in assigned.items() if "KIND" in named]
    for node in ast.walk(module):
        if isinstance(node, ast.Call):
            is_asked = isinstance(node.func, ast.Attribute) and node.func.attr in ("last", "count")
            used += node.args if is_asked else []
            used += [keyword.value for keyword in node.keywords if keyword.arg == "kinds"]
        elif isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
            is_kind = any(isinstance(side, ast.Attribute) and side.attr == "kind" for side in sides)
            used += sides if is_kind else []
    stored = {kind.__name__ for kind in STORED}
    for value in assigned.values():
        if isinstance(value, ast.Tuple | ast.List | ast.Set | ast.Dict | ast.Call):
            used += [value] if any(text in stored for _, text in _strings(value, {})) else []
    for value in used:
        yield from (
            (line, text) for line, text in _strings(value, assigned) if re.fullmatch(r"[A-Z]\w+", text)
        )


def _strings(value: ast.AST, assigned: dict[str, ast.expr]) -> Iterator[tuple[int, str]]:
    for node in ast.walk(value):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.lineno, node.value
        elif isinstance(node, ast.Name) and node.id in assigned:
            others = {named: other for named, other in assigned.items() if named != node.id}
            yield from _strings(assigned[node.id], others)


def test_only_events_that_exist_are_looked_for() -> None:
    stored = {kind.__name__ for kind in STORED}
    found = {
        (name(path), *use)
        for path in files()
        for use in event_names(tree(path))
        if name(path) not in NO_EVENTS
    }
    assert {text for *_, text in found} >= {"SessionStarted", "UserSaid", "CallStarted", "ArtifactsChanged"}
    unknown = sorted(use for use in found if use[-1] not in stored)
    assert not unknown, f"no event has such a name: {unknown}"


@pytest.mark.parametrize(
    "source",
    [
        'journal.last("UserSaid", "ThingStarted")',
        '_TOLD = ("ThingStarted",)\njournal.last(*_TOLD)',
        'journal.count("ThingStarted", after=3)',
        'journal.read(kinds=("ThingStarted",))',
        'journal.read(kinds={*KINDS, "ThingStarted"})',
        'LOOKED_FOR = frozenset({"ThingStarted"})\njournal.read(kinds=LOOKED_FOR)',
        'is_found = recorded.kind == "ThingStarted"',
        'is_found = recorded.kind in ("UserSaid", "ThingStarted")',
        '_KINDS = ("ThingStarted",)',
        '_PROGRESS = frozenset({"PlanSet", "ThingStarted"})',
        '_ORDER = {"PlanSet": 1, "ThingStarted": 2}',
    ],
)
def test_a_made_up_event_name_is_found_wherever_it_is_used(source: str) -> None:
    assert "ThingStarted" in {text for _, text in event_names(ast.parse(source))}


def test_folders_of_tests_mirror_the_source() -> None:
    tests = Path(__file__).parent
    for path in tests.rglob("test_*.py"):
        folder = path.parent.relative_to(tests)
        is_mirrored = (SOURCE / folder).is_dir() or folder.parts[0] in ("upgrades", "bench")
        assert is_mirrored, f"{folder}: tests lie in the folder of the room that they are about"
