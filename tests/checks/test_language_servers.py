"""Language servers tell what is new in a changed file; whatever they do otherwise, a session goes on."""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from mainspring.approvals.trust import TrustFile
from mainspring.checks import ChangedFile, NotChecked, new_findings
from mainspring.checks.language_server import LanguageServer
from mainspring.checks.programs import subjects
from mainspring.checks.server_facts import SERVERS, server_rows
from mainspring.checks.servers import SessionLanguageServers
from mainspring.checks.settings import ChecksSettings, LanguageServerSettings
from mainspring.events import ChangesChecked, CheckFinding
from mainspring.sandbox import Sandbox
from mainspring.sandbox.ladder import choose
from mainspring.sandbox.policy import policy
from tests.checks.test_after_change import configured, notes, shell, write
from tests.npm import MODULES, NODE, needs
from tests.stage import staged

PATH = f"{sys.prefix}/bin:{NODE.parent}:{MODULES}/.bin:{os.environ['PATH']}"

REAL = [
    ("ruff", "ruff", "ruff.toml", "", "a.py", "import os\n", "import os\nx = undefined\n", (2, "F821")),
    (
        "basedpyright",
        "basedpyright-langserver",
        "pyrightconfig.json",
        "{}",
        "a.py",
        'x: int = "a"\n',
        'x: int = "a"\ny: str = 2\n',
        (2, "reportAssignmentType"),
    ),
    (
        "typescript",
        "typescript-language-server",
        "tsconfig.json",
        '{"compilerOptions": {"types": [], "noEmit": true, "skipLibCheck": true}}',
        "a.ts",
        'const x: number = "a";\n',
        'const x: number = "a";\nconst y: string = 2;\n',
        (2, "TS2322"),
    ),
    (
        "clangd",
        "clangd",
        "compile_flags.txt",
        "-Wall\n",
        "a.c",
        "int f(void) { return x; }\n",
        "int f(void) { return x; }\nint g(void) { return y; }\n",
        (2, "undeclared_var_use"),
    ),
    (
        "ruff security",
        "ruff",
        "requirements.txt",
        "",
        "a.py",
        "import hashlib, os\nx = hashlib.md5(b'')\n",
        "import hashlib, os\nx = hashlib.md5(b'')\ny = hashlib.md5(b'1')\n",
        (3, "S324"),
    ),
    (
        "biome",
        "biome",
        "biome.json",
        "{}",
        "a.js",
        "if (a == 1) debugger;\n",
        "if (a == 1) debugger;\neval(a);\n",
        (2, "lint/security/noGlobalEval"),
    ),
    (
        "oxlint",
        "oxlint",
        ".oxlintrc.json",
        "{}",
        "a.js",
        "debugger;\n",
        "debugger;\neval(a);\n",
        (2, "eslint(no-eval)"),
    ),
]
"""A server, its program, what configures it, and a file before and after with what is new in it."""


@asynccontextmanager
async def served(
    place: Path, settings: ChecksSettings, path: str = PATH
) -> AsyncGenerator[tuple[list[LanguageServer], dict[str, str]]]:
    confined = policy(place, home=place)
    sandbox = await choose(confined, {"PATH": path})

    async def given() -> Sandbox:
        return sandbox

    servers = SessionLanguageServers(settings, {"PATH": path}, lambda _subject: True)
    try:
        yield await servers.usable(confined, given)
    finally:
        await servers.close()
        await sandbox.close()


def fake(*how: str) -> ChecksSettings:
    """Settings with one server of ours, for files that end with `.bad`."""
    command = (sys.executable, str(Path(__file__).with_name("fake_server.py")), *how)
    server = LanguageServerSettings(command=command, files=(".bad",), marks=("mark",))
    return ChecksSettings(servers={"fake": server}, wait_ms=60_000)


def ask_fake(
    place: Path, work: Callable[[LanguageServer], Awaitable[Any]], *how: str, text: str = "bad\n"
) -> Any:
    (place / "mark").touch()
    (place / "a.bad").write_text(text, encoding="utf-8")

    async def main() -> Any:
        async with served(place, fake(*how)) as (servers, _):
            (server,) = servers
            return await work(server)

    return asyncio.run(main())


def looked_at(before: str | None, after: str) -> Callable[[LanguageServer], Awaitable[list[CheckFinding]]]:
    return lambda server: new_findings(
        server, ChangedFile("a.bad", before.encode() if before is not None else None, after.encode())
    )


@pytest.mark.parametrize(("name", "program", "mark", "config", "path", "before", "after", "new"), REAL)
def test_real_servers_tell_what_is_new_and_nothing_else(
    tmp_path: Path,
    name: str,
    program: str,
    mark: str,
    config: str,
    path: str,
    before: str,
    after: str,
    new: tuple[int, str],
) -> None:
    if name == "clangd" and not shutil.which("clangd") and "CI" not in os.environ:
        pytest.skip("clangd is not installed")
    is_of_npm = name in ("typescript", "biome", "oxlint")
    if is_of_npm and not (MODULES / ".bin" / program).exists() and "CI" not in os.environ:
        pytest.skip("the npm tools are not installed")
    (tmp_path / mark).write_text(config, encoding="utf-8")
    (tmp_path / path).write_text(after, encoding="utf-8")

    async def main() -> None:
        async with served(tmp_path, ChecksSettings()) as (servers, missing):
            assert not missing
            (server,) = [each for each in servers if each.name == name]

            async def look(was: str | None, now: str) -> list[tuple[int, str]]:
                file = ChangedFile(path, was.encode() if was is not None else None, now.encode())
                return [(each.line, each.rule) for each in await new_findings(server, file)]

            told = await look(before, after)
            assert new in told
            assert all(line == new[0] or rule == "I001" for line, rule in told)  # the old one is silent
            assert not await look(after, f"\n{after}")  # it only moved
            assert new in await look(None, after)

    asyncio.run(main())


@pytest.mark.parametrize("how", ["pull", "push", "register", "asks", "modified"])
def test_a_server_is_understood_however_it_tells(tmp_path: Path, how: str) -> None:
    async def look(server: LanguageServer) -> list[list[int]]:
        pairs: Sequence[tuple[str | None, str]] = [
            ("fine\n", "fine\nbad\n"),
            ("bad\n", "bad\nbad here\n"),
            ("bad\n", "bad\nfine\n"),
            (None, "bad\n"),
        ]
        return [[each.line for each in await looked_at(*pair)(server)] for pair in pairs]

    assert ask_fake(tmp_path, look, how) == [[2], [2], [], [1]]


@pytest.mark.parametrize(
    ("how", "why"),
    [
        ("crash", "it broke"),
        ("noise", "no message"),
        ("broken", "no message"),
        ("huge", "too much"),
        ("flood", "too much"),
        ("refuses", "no such thing"),
        ("odd", "cannot be read"),
    ],
)
def test_what_a_server_does_wrong_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str, why: str
) -> None:
    monkeypatch.setattr("mainspring.checks.lsp._MAX_UNASKED", 1 << 20)
    with pytest.raises(NotChecked, match=why):
        ask_fake(tmp_path, looked_at(None, "bad\n"), how)


def test_a_server_that_does_not_answer_is_told_as_late(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mainspring.checks.language_server.LIMIT_S", 2.0)
    with pytest.raises(NotChecked, match="no answer"):
        ask_fake(tmp_path, looked_at(None, "bad\n"), "silent")


def test_a_server_that_ends_is_started_a_few_times_and_then_no_more(tmp_path: Path) -> None:
    async def look(server: LanguageServer) -> list[str]:
        told: list[str] = []
        for _ in range(5):
            with pytest.raises(NotChecked) as caught:
                await looked_at(None, "bad\n")(server)
            told.append(str(caught.value))
        return told

    told = ask_fake(tmp_path, look, "crash")
    assert ["it broke" in text for text in told] == [True, True, True, False, False]


def test_a_server_can_neither_write_nor_reach_the_network(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = str(listening.getsockname()[1])
        (found,) = ask_fake(tmp_path, looked_at(None, "bad\n"), "confined", port)
    assert found.message == "written=False reached=False"
    assert not (tmp_path / "stolen").exists()


def test_documents_that_are_not_on_the_disk_are_not_left_with_the_server(tmp_path: Path) -> None:
    """An earlier text of a file would make what the server says of other files wrong."""

    async def look(server: LanguageServer) -> list[bool]:
        await server.findings("a.bad", b"bad\n")
        process: Any = server._process  # pyright: ignore[reportPrivateUsage]
        shown = ["a.bad" in process._documents]
        await server.findings("a.bad", b"earlier\n")
        return [*shown, "a.bad" in process._documents]

    assert ask_fake(tmp_path, look) == [True, False]


def test_settings_add_change_and_switch_off_servers() -> None:
    settings = ChecksSettings(
        servers={
            "zls": LanguageServerSettings(command=("zls",), files=(".zig",), marks=("build.zig",)),
            "clangd": LanguageServerSettings(command=("clangd-19", "--log=error")),
            "ty": LanguageServerSettings(enabled=False),
        }
    )
    rows = {facts.name: facts for facts in server_rows(settings)}
    assert rows["zls"].languages == {".zig": "zls"}
    assert (rows["clangd"].program, rows["clangd"].arguments) == ("clangd-19", ("--log=error",))
    assert ".c" in rows["clangd"].languages
    assert "ty" not in rows
    assert not server_rows(ChecksSettings(language_servers="off"))


def in_session(folder: Path, *how: str, **checks: Any) -> Any:
    """Settings of a session in which our server is asked."""
    config = configured(folder, language_servers="on", **checks)
    servers = msgspec.structs.replace(config.settings.checks, servers=fake(*how).servers)
    return msgspec.structs.replace(config, settings=msgspec.structs.replace(config.settings, checks=servers))


def test_a_session_is_told_what_a_server_finds(tmp_path: Path) -> None:
    stage = staged(tmp_path, {"mark": "", "a.bad": "bad\n"}, shell("echo bad too >> a.bad"), "Done.")
    stage.run("Go", config=in_session(tmp_path), mode="auto")
    (note,) = notes(stage)
    assert "a.bad:2: error: bad [fake 7]" in note
    assert "a.bad:1" not in note


def test_a_late_server_is_told_at_the_next_step_and_of_the_newest_version_alone(tmp_path: Path) -> None:
    stage = staged(
        tmp_path,
        {"mark": ""},
        write("a.bad", "bad\n"),
        shell("echo fine > a.bad; echo bad > b.bad"),
        shell("touch go"),
        "Done.",
    )
    stage.run("Go", config=in_session(tmp_path, "late", wait_ms=1), mode="auto")
    (note,) = notes(stage)
    assert "b.bad:1" in note
    assert "a.bad" not in note
    assert [event.is_late for event in stage.events(ChangesChecked)][-1]


def test_a_server_that_crashes_is_told_as_not_checked(tmp_path: Path) -> None:
    stage = staged(tmp_path, {"mark": ""}, write("a.bad", "bad\n"), "Done.")
    stage.run("Go", config=in_session(tmp_path, "crash"), mode="auto")
    (note,) = notes(stage)
    assert "Not checked: a.bad by fake: it ended (exit code 1): it broke" in note


def test_a_server_that_a_project_brings_runs_only_when_a_person_approved_it(tmp_path: Path) -> None:
    stage = staged(
        tmp_path, {"go.mod": "module x\n", "a.go": "package x\n"}, shell("echo '// bad' >> a.go"), "Done."
    )
    own = stage.workspace / "node_modules" / ".bin" / "gopls"
    own.parent.mkdir(parents=True)
    text = Path(__file__).with_name("fake_server.py").read_text(encoding="utf-8")
    own.write_text(f"#!{sys.executable}\n{text}", encoding="utf-8")
    own.chmod(0o755)
    config = configured(tmp_path, language_servers="on", linters="off")
    stage.run("Go", config=config, mode="auto")
    assert "gopls: not approved" in notes(stage)[0]
    (subject,) = subjects("language-server", SERVERS, stage.workspace, {"PATH": "/usr/bin"})
    TrustFile(config.home).add(subject, now_us=1)
    again = staged(tmp_path / "again", {}, shell("echo '// bad' >> a.go"), "Done.")
    shutil.copytree(stage.workspace, again.workspace, dirs_exist_ok=True)
    again.run("Go", config=config, mode="auto")  # another folder: nobody approved anything there
    assert "gopls: not approved" in notes(again)[0]
    allowed = staged(tmp_path, {}, shell("echo '// bad' >> a.go"), "Done.")
    allowed.run("Go", config=config, mode="auto")
    assert "a.go:3: error: bad [gopls 7]" in notes(allowed)[0]


@pytest.mark.parametrize(
    ("name", "mark", "brought"),
    [
        ("typescript", "tsconfig.json", "node_modules/typescript/lib/tsserver.js"),
        ("pyrefly", "pyrefly.toml", ".venv/bin/python"),
        ("rust-analyzer", "Cargo.toml", "build.rs"),
    ],
)
def test_a_server_that_runs_code_of_the_project_wants_approval_wherever_it_lies(
    tmp_path: Path, name: str, mark: str, brought: str
) -> None:
    place, programs = tmp_path / "place", tmp_path / "programs"
    for path in (place / mark, place / brought, *(programs / facts.program for facts in SERVERS)):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
        path.chmod(0o755)
    found = subjects("language-server", SERVERS, place, {"PATH": str(programs)})
    assert [subject.name for subject in found] == [name]


def test_a_server_that_is_not_installed_is_told_once(tmp_path: Path) -> None:
    stage = staged(tmp_path, {"go.mod": ""}, write("a.go", "package x\n"), shell("echo >> a.go"), "Done.")
    stage.run("Go", config=configured(tmp_path, language_servers="on", linters="off"), mode="auto")
    (note,) = notes(stage)
    assert "gopls: gopls is not installed" in note


@needs(MODULES / "@biomejs/biome")
def test_biome_runs_in_a_session_whose_home_it_cannot_write(tmp_path: Path) -> None:
    """It begins a server of its own, which listens in a folder that must be writable."""
    stage = staged(tmp_path, {"biome.json": "{}"}, write("a.js", "if (a) debugger;\n"), "Done.")
    stage.run("Go", config=configured(tmp_path, path=PATH, language_servers="on"), mode="auto")
    assert any("[biome lint/suspicious/noDebugger]" in note for note in notes(stage))
    assert not any("by biome" in why for event in stage.events(ChangesChecked) for why in event.not_checked)
