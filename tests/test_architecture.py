"""The rules of the house, checked on the source itself. A failure says the rule that was broken."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

SOURCE = Path(__file__).parent.parent / "src" / "mainspring"

# A room may import rooms that stand before it, and itself.
ROOMS = [
    "__init__",
    "events",
    "errors",
    "unknown_keys",
    "formats",
    "hosts",
    "http",
    "journal",
    "models",
    "caps",
    "ledger",
    "sandbox",
    "processes",
    "waits",
    "approvals",
    "workspace",
    "context",
    "web",
    "tools",
    "task",
    "state",
    "turns",
    "parts",
    "loop",
    "feed",
    "rewind",
    "replay",
    "questions",
    "session",
    "engines",
    "goals",
    "config",
    "choice",
    "steps",
    "app",
    "daemon",
    "cli",
    "serve",
    "protocols",
    "testing",
]
FACES = {"cli", "serve", "protocols", "testing", "__main__"}

LONG_FILES: dict[str, int] = {
    "session.py": 450,  # every command of a face is one method
}
LONG_FUNCTIONS: dict[str, int] = {"app/__init__.py:open": 80}  # names every part of a session once
BROAD_EXCEPTS = {
    "tools/toolbox.py": "a tool's fault is an answer to the model",
    "session.py": "a fault in a turn is recorded, then raised again",
}
TASKS_OUTSIDE_GROUPS = {"tools/toolbox.py": "a tool that ignores its cancellation must not hold a group"}
IMPORTS_IN_FUNCTIONS = {
    "cli/__init__.py": "--version must not wait for the other commands",
    "__init__.py": "importing the package costs nothing",
    "app/engines.py": "outside agents are not loaded for a session that takes its own turns",
    "app/policies.py": "the shell parser and the sandbox are not loaded before the first call needs them",
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


def only_in(rooms: set[str], forbidden: tuple[str, ...], sentence: str) -> None:
    for path in files():
        if room(path) in rooms:
            continue
        for line, module in imported(path):
            is_found = any(module == banned or module.startswith(banned + ".") for banned in forbidden)
            assert not is_found, f"{name(path)}:{line} imports {module}: {sentence}"


def test_imports_point_upwards() -> None:
    for path in files():
        if room(path) in ("__main__", "__init__"):
            continue
        assert room(path) in ROOMS, f"{name(path)}: every file belongs to a room that is listed here"
        allowed = ROOMS[: ROOMS.index(room(path)) + 1]
        skipped = type_checking_lines(path)
        for line, module in imported(path):
            parts = module.split(".")
            if parts[0] == "mainspring" and len(parts) > 1 and line not in skipped:
                target = parts[1] if parts[1] in ROOMS else "__init__"
                assert target in allowed, (
                    f"{name(path)}:{line} imports {module}: a room imports only rooms above it"
                )


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
    only_in(FACES, forbidden, "what speaks HTTP goes through http.py")


def test_processes_are_started_only_by_sandbox_and_workspace() -> None:
    only_in(
        {"sandbox", "workspace", *FACES}, ("subprocess",), "processes are started in sandbox/ and workspace/"
    )
    for path in files():
        if room(path) in {"sandbox", "workspace", *FACES}:
            continue
        for node in ast.walk(tree(path)):
            called = node.func if isinstance(node, ast.Call) else None
            if isinstance(called, ast.Attribute):
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
    only_in({"journal"}, ("sqlite3", "apsw", "asyncpg", "psycopg"), "SQL belongs in journal/")


def test_screens_stay_in_faces() -> None:
    forbidden = ("rich", "prompt_toolkit", "textual", "starlette", "uvicorn", "fastapi", "flask", "click")
    only_in(FACES, forbidden, "screens and web frameworks belong in faces")


def test_the_environment_is_read_only_by_config() -> None:
    for path in files():
        if room(path) in ("config", "sandbox", "testing"):
            continue
        for node in ast.walk(tree(path)):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "os":
                assert node.attr not in ("environ", "getenv", "environb"), (
                    f"{name(path)}:{node.lineno}: only config.py looks at the environment"
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
    lines = len((SOURCE / "loop.py").read_text(encoding="utf-8").splitlines())
    assert lines <= LOOP_LINES, (
        f"loop.py has {lines} lines; telemetry, hooks, modes, quirks and texts go elsewhere"
    )


@pytest.mark.parametrize("path", files(), ids=name)
def test_every_module_says_what_it_promises(path: Path) -> None:
    docstring = ast.get_docstring(tree(path))
    assert docstring, f"{name(path)} needs a docstring that says what it promises"
    assert len(docstring.splitlines()) <= (60 if name(path) == "errors.py" else 12), (
        f"{name(path)}: a module docstring is short"
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


def test_names_say_what_things_are() -> None:
    banned = ("Manager", "Helper", "Handler", "Util", "Base", "Impl")
    for path in files():
        for node in ast.walk(tree(path)):
            if isinstance(node, ast.ClassDef):
                assert not node.name.endswith(banned), (
                    f"{name(path)}:{node.lineno} {node.name}: name what it is"
                )
