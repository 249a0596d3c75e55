"""Builds the wheel and the sdist, checks both, and writes the release notes beside them: `make release`.

It uploads nothing. What is checked: name, version and licences in the metadata, that everything that must be
shipped is and nothing else, that the README is a page whose links lead somewhere, and that the changelog has
a section for the version.
"""

import argparse
import email
import os
import re
import shutil
import sys
import tarfile
import tomllib
import zipfile
from email.message import Message
from pathlib import Path

import uv_build
from markdown_it import MarkdownIt

ROOT = Path(__file__).parent.parent
SHIPPED = ("models/prices.json", "py.typed", "goals/profiles/goal.toml", "tools/read.md", "cli/__init__.py")
LICENCES = ("LICENSE", "THIRD-PARTY.md")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-o", "--out", type=Path, default=ROOT / "dist")
    out: Path = parser.parse_args().out.resolve()
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    version = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["version"]
    notes = release_notes((ROOT / "CHANGELOG.md").read_text("utf-8"), version)
    wheel, sdist = build(ROOT, out)
    problems = [*check_wheel(wheel, version), *check_sdist(sdist, wheel)]
    if not notes:
        problems.append(f"CHANGELOG.md has no section `## {version}`")
    for problem in problems:
        print(f"error: {problem}", file=sys.stderr)
    if problems:
        sys.exit(1)
    (out / "RELEASE_NOTES.md").write_text(notes, "utf-8")
    for path in (wheel, sdist):
        print(f"{path.name}: {path.stat().st_size / 1e6:.1f} MB, checked")
    if f"## {version} (unreleased)" in (ROOT / "CHANGELOG.md").read_text("utf-8"):
        print(f"note: CHANGELOG.md calls {version} unreleased; write the day there before it is uploaded")
    print(f"nothing was uploaded; to do so: uv publish {wheel} {sdist}")


def build(source: Path, out: Path) -> tuple[Path, Path]:
    """The wheel and the sdist of a source tree, by its own build backend, without a network."""
    before, path = Path.cwd(), os.environ["PATH"]
    os.chdir(source)
    # The backend is a program that lies beside this Python.
    os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{path}"
    try:
        return out / uv_build.build_wheel(str(out)), out / uv_build.build_sdist(str(out))
    finally:
        os.chdir(before)
        os.environ["PATH"] = path


def check_wheel(wheel: Path, version: str) -> list[str]:
    """What is wrong with a wheel."""
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        folder = f"mainspring-{version}.dist-info"
        metadata = email.message_from_bytes(archive.read(f"{folder}/METADATA"))
    problems = [f"{wheel.name} lacks {each}" for each in SHIPPED if f"mainspring/{each}" not in names]
    problems += [
        f"{wheel.name} lacks {each}" for each in LICENCES if f"{folder}/licenses/{each}" not in names
    ]
    problems += [
        f"{wheel.name} has {each}, which is not ours to ship"
        for each in names
        if not each.startswith(("mainspring/", f"{folder}/")) or each.endswith((".pyc", ".so"))
    ]
    return problems + check_metadata(metadata, version)


def check_metadata(metadata: Message, version: str) -> list[str]:
    wanted = {
        "Name": "mainspring",
        "Version": version,
        "License-Expression": "MIT",
        "Requires-Python": ">=3.11",
        "Description-Content-Type": "text/markdown",
    }
    problems = [
        f"the metadata says {name}: {metadata[name]}, not {value}"
        for name, value in wanted.items()
        if metadata[name] != value
    ]
    return problems + check_readme(str(metadata.get_payload()))


def check_readme(text: str) -> list[str]:
    """A page with one title and all of its headings, whose links to files lead to files."""
    source = re.sub(r"^```.*?^```$", "", text, flags=re.DOTALL | re.MULTILINE)
    headings = re.findall(r"^#+ ", source, flags=re.MULTILINE)
    page = MarkdownIt("commonmark").enable("table").render(text)
    problems: list[str] = []
    if page.count("<h1>") != 1:
        problems.append(f"the README has {page.count('<h1>')} titles")
    if len(re.findall(r"<h\d>", page)) != len(headings):
        problems.append("headings of the README are not rendered: a block of code may not be closed")
    local = re.findall(r'(?:href|src)="(?!https?://|#)([^"]*)"', page)
    return problems + [
        f"the README links to {each}, which is not there" for each in local if not (ROOT / each).exists()
    ]


def check_sdist(sdist: Path, wheel: Path) -> list[str]:
    """An sdist has what the wheel is built of."""
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    with zipfile.ZipFile(wheel) as archive:
        wanted = {f"src/{name}" for name in archive.namelist() if name.startswith("mainspring/")}
    wanted = {name for name in wanted if not name.endswith("/")} | {"pyproject.toml", "README.md", *LICENCES}
    return [f"{sdist.name} lacks {name}" for name in sorted(wanted - names)]


def release_notes(changelog: str, version: str) -> str:
    """The section of a version, without its heading; empty when there is none."""
    for section in re.split(r"^## ", changelog, flags=re.MULTILINE)[1:]:
        heading, _, text = section.partition("\n")
        if heading.split()[0] == version:
            return text.strip() + "\n"
    return ""


if __name__ == "__main__":
    main()
