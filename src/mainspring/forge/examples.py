"""Runs the example of a page in the sandbox: it reads the workspace, writes nothing and reaches no network.
An example that does not run to its end is never part of a page."""

from __future__ import annotations

from pathlib import PurePosixPath

import msgspec

from mainspring.checks.programs import last_line
from mainspring.errors import SandboxError
from mainspring.forge.page_checks import words_in
from mainspring.forge.values import SourceFile, language_of
from mainspring.sandbox import Command
from mainspring.sandbox.programs import confined_to_reading
from mainspring.turns.runtime import Runtime

_TIMEOUT_S = 20.0
_MAX_OUTPUT = 64 * 1024
_NOT_FOUND = (126, 127)
_ROOTS = ("src/", "lib/")


class ExampleResult(msgspec.Struct, frozen=True):
    """Why an example cannot be shown, empty when it can; and whether another one may run."""

    problem: str = ""
    is_worth_retry: bool = False


def how_to_use(path: str) -> str:
    """How an example gets at a file; empty where examples are not run, and so not asked for."""
    match language_of(path)[0]:
        case "Python":
            return f"import it as `{_module(path)}`."
        case "JavaScript" if not path.endswith(".jsx"):
            return f'load it from "./{path}"; it runs with node.'
        case "Ruby":
            return f'load it with require "./{path}".'
        case _:
            return ""


async def try_example(runtime: Runtime, file: SourceFile, code: str) -> ExampleResult:
    own = {each.name.rpartition(".")[2] for each in file.outline.definitions}
    own |= {PurePosixPath(file.path).stem}
    if not own & words_in(code):
        return ExampleResult("it uses nothing of the file", is_worth_retry=True)
    place = runtime.state.workspace
    try:
        sandbox = await runtime.sandbox()
        if not sandbox.is_containing:
            return ExampleResult("there is no sandbox here that could run it")
        done = await sandbox.run(
            Command(
                argv=_argv(file.path, code),
                cwd=place,
                timeout_s=_TIMEOUT_S,
                env={"PYTHONPATH": f"{place}:{place}/src", "PYTHONDONTWRITEBYTECODE": "1"},
                max_output_bytes=_MAX_OUTPUT,
                policy=confined_to_reading(runtime.workbench.files.policy),
                is_whole=True,
            )
        )
    except SandboxError as error:
        return ExampleResult(f"it could not be run: {error.message}")
    if done.exit_code in _NOT_FOUND:
        return ExampleResult(f"{_argv(file.path, '')[0]} is not installed, so it could not be run")
    if done.stopped or done.exit_code:
        said = runtime.recorder.vault.redact(last_line(done.stderr))
        return ExampleResult(f"it does not run: {done.stopped or said}", is_worth_retry=True)
    return ExampleResult()


def _argv(path: str, code: str) -> tuple[str, ...]:
    match language_of(path)[0]:
        case "Python":
            return ("python3", "-c", code)
        case "Ruby":
            return ("ruby", "-I.", "-e", code)
        case _:
            is_module = any(line.lstrip().startswith("import ") for line in code.splitlines())
            return ("node", f"--input-type={'module' if is_module else 'commonjs'}", "-e", code)


def _module(path: str) -> str:
    bare = next((path.removeprefix(root) for root in _ROOTS if path.startswith(root)), path)
    dotted = bare.rpartition(".")[0].replace("/", ".")
    return dotted.removesuffix(".__init__")
