"""Draws `docs/images`: `make pictures`.

They show what real commands printed in a temporary folder: a run with a scripted model, the report of a goal
that a small script worked on, and screens of the chat as tmux has them (`tests/chat/screens.py`). Session ids
and durations are replaced, so the same program draws the same pictures; tests compare their text.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from html import escape
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

PICTURES = Path(__file__).parent.parent / "docs" / "images"
COLUMNS = 100
CHAR_PX, LINE_PX, MARGIN_PX = 7.85, 19, 18

CODE = """\
def total(prices, discount_percent=0):
    return sum(prices) * (1 - discount_percent / 10)
"""
TEST = """\
import sys
from shop import total

found = total([10, 20], discount_percent=10)
print(f"expected 27, found {found:g}")
sys.exit(found != 27)
"""
SCRIPT = {
    "price": {"input": 3.0, "output": 15.0},
    "replies": [
        {"text": "I look at the code and run its test.", "calls": [
            {"name": "read", "arguments": {"path": "shop.py"}},
            {"name": "shell", "arguments": {"command": "python3 -B test_shop.py"}},
        ]},
        {"text": "The discount is divided by 10 where a percentage needs 100.", "calls": [
            {"name": "edit", "arguments": {"path": "shop.py", "edits": [
                {"old": "discount_percent / 10)", "new": "discount_percent / 100)"},
            ]}},
            {"name": "shell", "arguments": {"command": "python3 -B test_shop.py"}},
        ]},
        {"text": "Fixed: shop.py divided the percentage by 10. The test passes."},
    ],
}  # fmt: skip
AGENT = """\
n=$(cat model 2>/dev/null || echo 0); n=$((n + 1))
echo $n > model
test $n -lt 2 || echo '<promise>DONE</promise>'
"""
MEASURE = 'echo "METRIC loss=0.$((10 - 3 * $(cat model)))"\n'


class Theme(NamedTuple):
    back: str
    text: str
    quiet: str
    good: str
    bad: str
    strong: str


DARK = Theme("#1b1f27", "#d7dce5", "#8b95a7", "#7fd18b", "#f08a8a", "#ffffff")
COLOURS: dict[int, Callable[[Theme], str]] = {
    1: lambda theme: theme.bad,
    2: lambda theme: theme.good,
    3: lambda _: "#e5c07b",
    4: lambda _: "#7aa2f7",
    5: lambda _: "#c792ea",
    6: lambda _: "#6fc3d0",
}
LIGHT = Theme("#ffffff", "#24292f", "#6a737d", "#1a7f37", "#cf222e", "#000000")


def main() -> None:
    PICTURES.mkdir(parents=True, exist_ok=True)
    (PICTURES / "run.svg").write_text(draw(run_lines(), DARK, title="A run of mainspring"), "utf-8")
    (PICTURES / "report.svg").write_text(draw(report_lines(), LIGHT, title="The report of a goal"), "utf-8")
    sys.path.insert(0, str(PICTURES.parents[1]))
    screens: Any = import_module("tests.chat.screens")
    for name, (title, *_) in screens.SITUATIONS.items():
        picture = draw_screen(screens.screen_of(name), DARK, title=title)
        (PICTURES / f"{name}.svg").write_text(picture, "utf-8")


def run_lines() -> list[str]:
    """What a run prints in a terminal, with its command."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder).resolve()
        work = root / "shop"
        work.mkdir()
        (work / "shop.py").write_text(CODE)
        (work / "test_shop.py").write_text(TEST)
        (root / "script.json").write_text(json.dumps(SCRIPT))
        (root / "home").mkdir(mode=0o700)
        # Which runners there are is a matter of the machine.
        (root / "home" / "config.toml").write_text('[checks]\nregressions = "off"\n')
        model = ("--model", f"scripted@{root / 'script.json'}")
        asked = ("run", "make the failing test pass", "--mode", "auto", "--max-cost-usd", "1")
        printed = mainspring(root, work, *asked, *model)
    shown = '$ mainspring run "make the failing test pass" --mode auto --max-cost-usd 1'
    return [shown, *fitted(printed)]


def report_lines() -> list[str]:
    """The beginning of the report of a goal that was reached, as Markdown."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder).resolve()
        work = root / "experiment"
        work.mkdir()
        (work / "train.sh").write_text(AGENT)
        (work / "measure.sh").write_text(MEASURE)
        goal = ("exploop", "Bring the loss below 0.3", "--engine", "exec:sh train.sh", "--target", "loss<0.3")
        measured = ("--evaluate", "sh measure.sh", "--frozen", "measure.sh")
        mainspring(root, work, *goal, *measured, "--mode", "auto")
        session = next((root / "home" / "sessions").iterdir()).name
        report = mainspring(root, work, "goal", "report", session)
    head = report.partition("\n## ")[0]
    evidence = report.partition("\n## Evidence\n")[2].partition("\n### What")[0]
    shown = f"{head}\n## Evidence\n{evidence.partition('numbers.')[2]}"
    lines = [
        line for line in aligned(masked(shown).replace("`", "").splitlines()) if not line.startswith("|--")
    ]
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip().splitlines()


def mainspring(root: Path, work: Path, *arguments: str) -> str:
    """What a command prints, both streams in their order."""
    environment = {"MAINSPRING_HOME": str(root / "home"), "PATH": os.environ["PATH"], "HOME": str(root)}
    ran = subprocess.run(
        [sys.executable, "-m", "mainspring", *arguments],
        cwd=work,
        env={**environment, "TZ": "UTC", "LANG": "C.UTF-8", "PYTHONUNBUFFERED": "1"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if ran.returncode:
        raise SystemExit(f"{arguments} ended with {ran.returncode}:\n{ran.stdout}")
    return ran.stdout.replace(str(root), "~")


def masked(text: str) -> str:
    """Text without what differs from run to run."""
    text = re.sub(r"(?<=session )\w{6,}", "ab12cd34", text)
    return re.sub(r"\b\d+(\.\d+)? (s|ms)\b", "1 s", text)


def fitted(printed: str) -> list[str]:
    """Lines cut to the width of the picture."""
    lines = masked(printed).expandtabs(4).splitlines()
    return [line[: COLUMNS - 1] + "…" if len(line) > COLUMNS else line for line in lines]


def aligned(lines: list[str]) -> Iterator[str]:
    """Tables of Markdown with columns of the same width."""
    block: list[list[str]] = []
    for line in [*lines, ""]:
        if line.startswith("|"):
            block.append([cell.strip() for cell in line.strip("|").split("|")])
            continue
        widths = [max(len(row[at]) for row in block) for at in range(len(block[0]))] if block else []
        for row in block:
            is_rule = all(set(cell) <= {"-", ":"} and cell for cell in row)
            cells = (f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True))
            yield "|--" if is_rule else "  ".join(cells).rstrip()
        block = []
        yield line


def draw(lines: list[str], theme: Theme, *, title: str) -> str:
    """Lines of text as an SVG, without any program but a browser."""
    rows = [
        f"{style(line, theme)}>"
        + escape(line.lstrip("#").strip() if line.startswith("#") else line.replace("**", ""))
        for line in lines
    ]
    return framed(rows, max(map(len, lines)), theme, title)


def draw_screen(lines: list[str], theme: Theme, *, title: str) -> str:
    """Lines with the escape sequences of a terminal for colours and weight."""
    codes: set[int] = set()
    rows = ["".join(spans(line, codes, theme)) for line in lines]
    return framed([f">{row}" if row else "" for row in rows], COLUMNS - 4, theme, title)


def spans(line: str, codes: set[int], theme: Theme) -> Iterator[str]:
    """The parts of a line; `codes` are those in force, also for the lines that follow."""
    for sequence, text in re.findall(r"\x1b\[([\d;]*)m|([^\x1b]+)", line):
        if not text:
            set_codes([int(each or 0) for each in sequence.split(";")], codes)
            continue
        colours = [
            COLOURS[code % 10](theme) for code in codes if code // 10 in (3, 9) and code % 10 in COLOURS
        ]
        weight = ' font-weight="bold"' if 1 in codes else ""
        quiet = theme.quiet if 2 in codes else theme.text
        yield f'<tspan fill="{next(iter(colours), quiet)}"{weight}>{escape(text)}</tspan>'


def set_codes(given: list[int], codes: set[int]) -> None:
    for code in given:
        if code == 0:
            codes.clear()
        elif code in (1, 2):
            codes.add(code)
        elif code == 22:
            codes.difference_update((1, 2))
        elif code // 10 in (3, 9):
            codes.difference_update({each for each in codes if each // 10 in (3, 9)})
            codes.update(() if code == 39 else (code,))


def framed(rows: list[str], columns: int, theme: Theme, title: str) -> str:
    """A picture of so many columns; each row is what follows the place of its text."""
    width = round(columns * CHAR_PX + 2 * MARGIN_PX)
    height = len(rows) * LINE_PX + 2 * MARGIN_PX
    drawn = "\n".join(
        f'<text xml:space="preserve" x="{MARGIN_PX}" y="{MARGIN_PX + LINE_PX * number + 13}"{row}</text>'
        for number, row in enumerate(rows)
        if re.sub("<[^>]*>|>", "", row).strip()
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}"'
        f' height="{height}" role="img" aria-label="{escape(title)}">\n'
        f"<title>{escape(title)}</title>\n"
        f'<rect width="100%" height="100%" rx="8" fill="{theme.back}" stroke="#8884"/>\n'
        f'<g font-family="ui-monospace, SFMono-Regular, Menlo, Consolas, monospace" font-size="13"'
        f' fill="{theme.text}">\n{drawn}\n</g>\n</svg>\n'
    )


def style(line: str, theme: Theme) -> str:
    if line.startswith(("$", "#", "**")):
        return f' fill="{theme.strong}" font-weight="bold"'
    colours = {"✓": theme.good, "■": theme.good, "✗": theme.bad}
    colour = next((colours[sign] for sign in colours if line.lstrip().startswith(sign)), "")
    if not colour and line.lstrip().startswith(("→", "session", "Shown by", "▸", "·")):
        colour = theme.quiet
    return f' fill="{colour}"' if colour else ""


def text_of(svg: str) -> list[str]:
    """The lines of a picture, without those that are empty."""
    return [re.sub("<[^>]*>", "", text) for text in re.findall(r"<text [^>]*>(.*?)</text>", svg)]


if __name__ == "__main__":
    main()
