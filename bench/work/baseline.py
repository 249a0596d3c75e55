"""The two baselines without tools: `oneshot` asks once; `retry` runs the visible test and asks again, up to
four times, each time from the files as they were, with the last failure in the prompt.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import urllib.request
from pathlib import Path

_MAX_FILE = 20_000
_MAX_FAILURE = 1_500
_TEST_TIMEOUT_S = 30
_BLOCK = re.compile(r"(?P<before>[^\n]*)\n+```(?P<info>[^\n]*)\n(?P<content>.*?)(?:\n```|\Z)", re.DOTALL)
_HEAD = re.compile(r"### *([\w./-]*\w\.\w+)\n+")
_PATH = re.compile(r"[\w./-]*\w\.\w+|Makefile")
_RULES = """Answer with the complete new content of every file that you change or add, in this form:

### {example}
```{fence}
the whole file, changed
```"""
_FENCES = {".py": "python", ".js": "javascript", ".sh": "sh", ".json": "json"}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.work.baseline", description=__doc__)
    parser.add_argument("prompt_file", type=Path)
    parser.add_argument("workspace", type=Path)
    parser.add_argument("model")
    parser.add_argument("base_url")
    parser.add_argument("--attempts", type=int, default=1)
    parser.add_argument("--test", default="")
    options = parser.parse_args()
    task, start = options.prompt_file.read_text(encoding="utf-8"), read_files(options.workspace)
    failure = ""
    for attempt in range(options.attempts):
        prompt = made_prompt(task, start, failure)
        reply = ask(options.base_url, options.model, prompt, temperature=0.3 * attempt)
        print(f"== attempt {attempt + 1}\n{failure}\n== reply\n{reply}", flush=True)
        restore(options.workspace, start)
        problem = write_files(options.workspace, reply, start)
        if options.attempts == 1 or not (options.test or problem):
            return
        failure = problem or run_test(options.workspace, options.test)
        if not failure:
            return


def read_files(workspace: Path) -> dict[str, str]:
    files = [path for path in sorted(workspace.rglob("*")) if path.is_file() and not path.is_symlink()]
    return {path.relative_to(workspace).as_posix(): path.read_text("utf-8", "replace") for path in files}


def made_prompt(task: str, files: dict[str, str], failure: str) -> str:
    """Files first: small models do what stands last."""
    shown = [
        f"### {name}\n```{_fence(name)}\n{text[:_MAX_FILE].rstrip()}\n```" for name, text in files.items()
    ]
    failed = [f"An earlier attempt failed:\n```\n{failure}\n```"] if failure else []
    example = next((name for name in files if name in task), next(iter(files), "name"))
    rules = _RULES.format(example=example, fence=_fence(example))
    return "\n\n".join(["The files:", *shown, f"The task:\n{task}", *failed, rules])


def _fence(name: str) -> str:
    return _FENCES.get(Path(name).suffix, "")


def ask(base_url: str, model: str, prompt: str, *, temperature: float) -> str:
    body = {"model": model, "max_tokens": 2048, "messages": [{"role": "user", "content": prompt}]}
    if temperature:
        body["temperature"] = temperature
    request = urllib.request.Request(
        f"{base_url}/chat/completions", json.dumps(body).encode(), {"content-type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=3600) as answer:
        return json.load(answer)["choices"][0]["message"]["content"] or ""


def file_blocks(reply: str, known: dict[str, str]) -> dict[str, str]:
    """The files in a reply. A block's name stands on the line before it, after its fence or on its first
    line; a single block without a name is the only file that there is. Tests stay as they are."""
    blocks = list(_BLOCK.finditer("\n" + reply))
    found: dict[str, str] = {}
    for block in blocks:
        names = [*_PATH.findall(block["before"]), *_PATH.findall(block["info"])]
        name = next((each for each in names if each in known), names[-1] if names else "")
        if not name and len(known) == len(blocks) == 1:
            (name,) = known
        content = block["content"]
        if head := _HEAD.match(content):
            name, content = head[1], content[head.end() :]
        name = name.removeprefix("./")
        if name and not (name in known and name.startswith("test")):
            found[name] = content + "\n"
    return found


def write_files(workspace: Path, reply: str, known: dict[str, str]) -> str:
    """What is wrong with the reply; empty when its files are written."""
    files = file_blocks(reply, known)
    for name, content in files.items():
        path = (workspace / name).resolve()
        if not path.is_relative_to(workspace.resolve()) or path.is_dir():
            return f"{name} is not a file of the workspace."
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content, encoding="utf-8")
    return "" if files else "The reply had no file in the form that was asked for."


def restore(workspace: Path, start: dict[str, str]) -> None:
    for name in read_files(workspace).keys() - start.keys():
        (workspace / name).unlink()
    for name, text in start.items():
        (workspace / name).write_text(text, encoding="utf-8")


def run_test(workspace: Path, command: str) -> str:
    """What a failing test wrote; empty when it passed."""
    try:
        done = subprocess.run(
            command,
            shell=True,
            cwd=workspace,
            capture_output=True,
            text=True,
            timeout=_TEST_TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"{command} took over {_TEST_TIMEOUT_S} s."
    return "" if done.returncode == 0 else (done.stdout + done.stderr)[-_MAX_FAILURE:] or "It failed."


if __name__ == "__main__":
    main()
