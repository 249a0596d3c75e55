"""Draws `docs/images/page-*.png`, the views of `mainspring serve`: `make pictures`.

A real server in a temporary home, real sessions with a scripted model, and Debian's Chromium. Paths of this
machine are replaced. People look at the pictures, so no test compares them; tests/serve opens the same views.
"""

import json
import os
import shutil
import struct
import subprocess
import sys
import tempfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

import httpx2
from playwright.sync_api import Browser, Page, sync_playwright

PICTURES = Path(__file__).parent.parent / "docs" / "images"
PRICE = {"input": 3.0, "output": 15.0}
DESKTOP, PHONE = (1100, 760), (360, 740)
AGENT = """\
n=$(cat model 2>/dev/null || echo 0); n=$((n + 1))
echo $n > model
printf 'step,loss\\n' > curve.csv
for i in 1 2 3 4; do printf '%s,0.%s\\n' $i $((9 - n - i)) >> curve.csv; done
test $n -lt 5 || echo '<promise>DONE</promise>'
"""
MEASURE = 'n=$(cat model); for d in 2 0 1; do echo "METRIC loss=0.$((92 - 14 * n + 2 * d))"; done\n'
CODE = "def total(prices, discount_percent=0):\n    return sum(prices) * (1 - discount_percent / 10)\n"
FIXED = [
    {"text": "I look at the code and run its test.", "calls": [
        {"name": "read", "arguments": {"path": "shop.py"}},
        {"name": "shell", "arguments": {"command": "python3 -B test_shop.py"}},
    ]},
    {"text": "The discount is divided by 10 where a percentage needs 100.", "calls": [
        {"name": "edit", "arguments": {"path": "shop.py", "edits": [
            {"old": "discount_percent / 10)", "new": "discount_percent / 100)"}]}},
        {"name": "shell", "arguments": {"command": "python3 -B test_shop.py"}},
    ]},
    {"text": "Fixed: `shop.py` divided the percentage by **10**.\n\n"
     "| case | before | after |\n|---|---|---|\n| 10 % off 30 | 0 | 27 |\n\nThe test passes."},
]  # fmt: skip
PLAIN = """([from, to]) => {
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) texts.currentNode.data = texts.currentNode.data.replaceAll(from, to);
  for (const field of document.querySelectorAll('input')) field.value = field.value.replaceAll(from, to);
}"""
ASKS = {
    "deploy": ("Publish the new docs", "rsync -a site/ web01:/srv/docs/"),
    "api": ("Move the database to version 7", "alembic upgrade head"),
}


def main() -> None:
    PICTURES.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="page-") as folder, Stage(Path(folder).resolve()) as stage:
        shop, goal = stage.tell()
        with browser() as chromium:
            page = stage.page(chromium, DESKTOP, "light")
            shot(page, stage, "", "sessions", ".card")
            shot(page, stage, f"s/{goal}/goal", "goal", ".plot")
            shot(page, stage, f"s/{shop}/artifacts", "artifacts", ".artifact", click=".artifact summary")
            shot(page, stage, f"s/{shop}/back", "back", ".diff")
            shot(page, stage, "inbox", "inbox", ".question")
            page = stage.page(chromium, DESKTOP, "dark")
            shot(page, stage, f"s/{shop}", "session", ".part.end")
            phone = stage.page(chromium, PHONE, "dark")
            shot(phone, stage, "inbox", "phone-inbox", ".question")
            phone = stage.page(chromium, PHONE, "light")
            shot(phone, stage, f"s/{shop}", "phone-session", ".part.end")
            shot(phone, stage, f"s/{goal}/goal", "phone-goal", ".plot")


@contextmanager
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        yield playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])


def shot(page: Page, stage: "Stage", view: str, name: str, wait: str, click: str = "") -> None:
    page.goto(f"{stage.address}/#/{view}")
    page.wait_for_selector(wait)
    if click:
        page.click(click)
        page.wait_for_selector(".preview .actions")
    page.wait_for_load_state("load")
    page.wait_for_timeout(400)
    if "session" not in name:
        page.evaluate("scrollTo(0, 0)")
    page.evaluate(PLAIN, [f"{stage.root}/work", "~"])
    page.evaluate(PLAIN, [f"scripted@{stage.root}/", "scripted@"])
    page.screenshot(path=PICTURES / f"page-{name}.png")


class Stage:
    """A server in a home of its own, with sessions that show what there is."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.address = self.token = ""

    def __enter__(self) -> Self:
        home = self.root / "home"
        home.mkdir(mode=0o700)
        (home / "config.toml").write_text('[checks]\nregressions = "off"\n')  # tests of this machine's Python
        self.server = subprocess.Popen(
            self.argv("serve", "--port", "0"), env=self.environment, stdout=subprocess.PIPE, text=True
        )
        assert self.server.stdout is not None
        self.address, self.token = self.server.stdout.readline().strip().split("/#token=")
        return self

    def __exit__(self, *_: object) -> None:
        self.server.terminate()
        self.server.communicate(timeout=60)

    @property
    def environment(self) -> dict[str, str]:
        kept = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
        return {**kept, "MAINSPRING_HOME": str(self.root / "home"), "TZ": "UTC", "LANG": "C.UTF-8"}

    def argv(self, *arguments: str) -> list[str]:
        return [sys.executable, "-m", "mainspring", *arguments]

    def folder(self, name: str) -> Path:
        path = self.root / "work" / name
        path.mkdir(parents=True, exist_ok=True)
        return path

    def run(self, folder: Path, *arguments: str) -> None:
        subprocess.run(
            self.argv(*arguments), cwd=folder, env=self.environment, stdin=subprocess.DEVNULL,
            capture_output=True, check=True,
        )  # fmt: skip

    def model(self, name: str, replies: list[dict[str, Any]]) -> str:
        path = self.root / f"{name}.json"
        path.write_text(json.dumps({"price": PRICE, "replies": replies}))
        return f"scripted@{path}"

    def tell(self) -> tuple[str, str]:
        """Makes sessions, and gives that of the shop and that of the goal."""
        for name, (text, command) in ASKS.items():
            replies = [{"text": "This needs your word.", "calls": [
                {"name": "shell", "arguments": {"command": command}}]}]  # fmt: skip
            self.begin(name, text, replies, mode="ask")
        work = self.folder("experiment")
        (work / "train.sh").write_text(AGENT)
        (work / "measure.sh").write_text(MEASURE)
        (work / "loss.png").write_bytes(picture())
        self.run(
            work, "exploop", "Bring the loss below 0.3", "--engine", "exec:sh train.sh",
            "--target", "loss<0.3", "--evaluate", "sh measure.sh", "--frozen", "measure.sh", "--mode", "auto",
        )  # fmt: skip
        goal = next(row["id"] for row in self.get("/sessions") if row["goal"])
        work = self.folder("shop")
        (work / "shop.py").write_text(CODE)
        (work / "test_shop.py").write_text(
            "import sys\nfrom shop import total\n\nfound = total([10, 20], discount_percent=10)\n"
            'print(f"expected 27, found {found:g}")\nsys.exit(found != 27)\n'
        )
        shop = self.begin("shop", "Make the failing test pass", FIXED, mode="auto")
        (work / "sales.png").write_bytes(picture())
        for note, text in (
            ("first figures", "day,sales\nMon,12\n"),
            ("with Tuesday", "day,sales\nMon,12\nTue,31\n"),
        ):
            (work / "sales.csv").write_text(text)
            self.post(f"/sessions/{shop}/kept", {"path": "sales.csv", "note": note})
        self.post(f"/sessions/{shop}/kept", {"path": "sales.png", "note": "sales by day"})
        return shop, goal

    def begin(self, name: str, text: str, replies: list[dict[str, Any]], mode: str) -> str:
        body = {
            "text": text,
            "workspace": str(self.folder(name)),
            "model": self.model(name, replies),
            "mode": mode,
        }
        session = self.post("/sessions", body)["session"]
        with self.client() as client, client.stream("GET", f"/api/v1/sessions/{session}/stream") as answer:
            for line in answer.iter_lines():
                if '"TurnEnded"' in line:
                    return session
        raise SystemExit("the session did not end")

    def client(self) -> httpx2.Client:
        headers = {"authorization": f"Bearer {self.token}"}
        return httpx2.Client(base_url=self.address, headers=headers, timeout=60, trust_env=False)

    def get(self, path: str) -> Any:
        with self.client() as client:
            return client.get(f"/api/v1{path}").raise_for_status().json()

    def post(self, path: str, body: dict[str, Any]) -> Any:
        with self.client() as client:
            answer = client.post(f"/api/v1{path}", json=body)
        if answer.status_code != 200:
            raise SystemExit(f"{path}: {answer.text}")
        return answer.json()

    def page(self, chromium: Browser, size: tuple[int, int], scheme: Any) -> Page:
        context = chromium.new_context(
            viewport={"width": size[0], "height": size[1]}, color_scheme=scheme, timezone_id="UTC"
        )
        page = context.new_page()
        page.goto(f"{self.address}/#token={self.token}")
        page.wait_for_selector("nav")
        return page


def picture() -> bytes:
    """A small bar chart as PNG, made by hand."""
    width, height, bars = 480, 200, (60, 95, 80, 130, 150, 170)
    rows = bytearray()
    for y in range(height):
        rows.append(0)
        for x in range(width):
            bar, inside = divmod(x, 80)
            is_bar = 14 <= inside < 66 and height - 14 - y <= bars[bar] and y < height - 14
            rows += b"\x1b\x5e\x52" if is_bar else b"\xd9\xdd\xd7" if y == height - 14 else b"\xff\xff\xff"

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", head)
        + chunk(b"IDAT", zlib.compress(bytes(rows), 9))
        + chunk(b"IEND", b"")
    )


if __name__ == "__main__":
    main()
