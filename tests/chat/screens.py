"""The main situations of a chat as a person sees them: golden screens, and the pictures of the documentation."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from scripts.pictures import CODE, TEST
from tests.chat.conftest import FREE, Tmux
from tests.cli.conftest import Machine

_READ = {"name": "read", "arguments": {"path": "shop.py"}}
_RUN = {"name": "shell", "arguments": {"command": "python3 -B test_shop.py"}}
_EDIT = {"name": "edit", "arguments": {"path": "shop.py", "edits": [
    {"old": "discount_percent / 10)", "new": "discount_percent / 100)"}]}}  # fmt: skip
_WAIT = {"name": "shell", "arguments": {"command": "echo 12 of 40 tests passed; sleep 1000"}}
_ANSWER = (
    "The discount was divided by **10**; a percentage needs 100:\n\n"
    "```python\nreturn sum(prices) * (1 - discount_percent / 100)\n```\n\n"
    "- `shop.py` is changed in one place\n- the test passes\n"
)
_MASKS = (
    (r"openai-compatible@\S+#", "local/"),
    (r"(?<=session )\w{6,}", "ab12cd34"),
    (r"(?m)^((?:\x1b\[[\d;]*m| )*[✓✗].*) · [\d.]+\s+m?s\b", r"\1"),  # a time is shown only when it was long
    (r"\b\d+(\.\d+)? (s|ms)\b", "1 s"),
    (r"[⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏]", "⠋"),
    (r"\b[\d,]+ tokens", "1,604 tokens"),
    (r"sandbox \w+", "sandbox bubblewrap"),
    (r"· 12 of 40[^·\n]*·", "· 12 of 40 ·"),  # the end of an unfinished line may be held back
)


def _answered(tmux: Tmux) -> None:
    calls = (
        {"text": "I look at the code and run its test.", "calls": [_READ, _RUN]},
        {"calls": [_EDIT, _RUN]},
    )
    tmux.open("chat", "--model", tmux.machine.serve(*calls, {"text": _ANSWER}), *FREE)
    tmux.type("make the failing test pass", "Enter")
    tmux.until("■ done")


def _asked(tmux: Tmux) -> None:
    reply = {"text": "The divisor is wrong. I change it and run the test.", "calls": [_EDIT, _RUN]}
    tmux.open("chat", "--mode", "ask", "--model", tmux.machine.serve({"calls": [_READ]}, reply))
    tmux.type("make the failing test pass", "Enter")
    tmux.until("capitals answer all")


def _working(tmux: Tmux) -> None:
    reply = {"text": "All tests now, to be sure.", "calls": [_WAIT]}
    tmux.open("chat", "--model", tmux.machine.serve(reply), *FREE)
    tmux.type("run all tests", "Enter")
    tmux.until("· 12 of 40")
    tmux.type("only those of the shop, please", "Enter")
    tmux.until("⋯ steering: only")
    tmux.type("then write the changelog")
    tmux.keys("M-Enter")
    tmux.until("1 queued")
    tmux.type("/di")
    tmux.until("What the session did to files.")


SITUATIONS: dict[str, tuple[str, int, Callable[[Tmux], None]]] = {
    "chat": ("A chat: what was called, what was changed, and the answer", 96, _answered),
    "chat-approval": ("A chat that asks before it changes files", 96, _asked),
    "chat-working": ("A chat while a call runs: a message enters it, another one waits", 96, _working),
    "chat-narrow": ("The same chat in 40 columns", 40, _answered),
}


@contextmanager
def situation(name: str) -> Iterator[Tmux]:
    """A terminal in one of these situations."""
    _, columns, lead = SITUATIONS[name]
    with tempfile.TemporaryDirectory() as folder:
        machine = Machine(Path(folder).resolve())
        machine.home.mkdir(mode=0o700)
        # Which runners there are is a matter of the machine.
        (machine.home / "config.toml").write_text('[checks]\nregressions = "off"\n')
        (machine.workspace / "shop.py").write_text(CODE)
        (machine.workspace / "test_shop.py").write_text(TEST)
        tmux = Tmux(machine, Path(folder), columns=columns, rows=60)
        try:
            lead(tmux)
            yield tmux
        finally:
            tmux.close()
            for server in machine.servers:
                server.__exit__(None, None, None)


def screen_of(name: str) -> list[str]:
    """The lines of a situation, with escape sequences, without what differs from run to run. What was typed
    into the shell is left out."""
    with situation(name) as tmux:
        text = tmux.screen(is_styled=True).replace(str(tmux.machine.workspace), "~/shop")
    for pattern, instead in _MASKS:
        text = re.sub(pattern, instead, text)
    lines = text.rstrip("\n").split("\n")
    head = "mainspring " if SITUATIONS[name][1] > 80 else "› "  # a narrow head differs with its folder
    first = next(at for at, line in enumerate(lines) if unstyled(line).startswith(head))
    last = max(at for at, line in enumerate(lines) if unstyled(line).strip())
    return lines[first : last + 1]


def unstyled(text: str) -> str:
    return re.sub(r"\x1b\[[\d;:]*m", "", text)
