"""The wheel and the sdist: built, checked, installed into a fresh environment, and used there.

Nothing is downloaded: the fresh environment gets links to the packages that the wheel declares, and to no other,
from the environment of the tests. So a dependency that is used and not declared is missing here, too.
"""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
import tomllib
import venv
import zipfile
from importlib.metadata import Distribution, distribution
from pathlib import Path
from types import ModuleType

import pytest
from packaging.requirements import Requirement

import mainspring

ROOT = Path(__file__).parent.parent
MAX_PACKAGES = 15
MAX_BYTES = 40_000_000
NEED_AN_EXTRA = (
    "mainspring.catalog.postgres",
    "mainspring.daemon.temporal",
    "mainspring.engines.acp.",
    "mainspring.formats.pdf_drawing",
    "mainspring.journal.postgres.",
    "mainspring.mcp.broker",
    "mainspring.mcp.connection",
    "mainspring.mcp.http",
    "mainspring.mcp.oauth",
    "mainspring.models.priceimport",
    "mainspring.notify.push",
    "mainspring.protocols.acp.",
    "mainspring.serve.",
)


def load_release() -> ModuleType:
    spec = importlib.util.spec_from_file_location("release", ROOT / "scripts" / "release.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


release = load_release()


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("dist")
    script = [sys.executable, str(ROOT / "scripts" / "release.py"), "--out", str(out)]
    ran = subprocess.run(script, cwd=out.parent, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    assert "nothing was uploaded" in ran.stdout
    return out


@pytest.fixture(scope="module")
def installed(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of a fresh environment with the wheel in it."""
    folder = tmp_path_factory.mktemp("fresh")
    venv.create(folder, with_pip=False)
    python = folder / "bin" / "python"
    wheel = next(built.glob("*.whl"))
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", str(python), "install"]
    subprocess.run([*pip, "--quiet", "--no-index", "--no-deps", str(wheel)], check=True)
    site = next(folder.glob("lib/python*/site-packages"))
    for each in declared(wheel):
        for entry in top_level(each):
            (site / entry).symlink_to(Path(str(each.locate_file(entry))))
    return python


def declared(wheel: Path) -> list[Distribution]:
    """The packages that come with a wheel when no extra is asked for, from the environment of the tests."""
    with zipfile.ZipFile(wheel) as archive:
        name = next(each for each in archive.namelist() if each.endswith(".dist-info/METADATA"))
        wanted = re.findall(r"^Requires-Dist: (.*)$", archive.read(name).decode(), re.MULTILINE)
    found: dict[str, Distribution] = {}
    while wanted:
        requirement = Requirement(wanted.pop())
        if requirement.name in found or (
            requirement.marker and not requirement.marker.evaluate({"extra": ""})
        ):
            continue
        found[requirement.name] = distribution(requirement.name)
        wanted += found[requirement.name].requires or []
    return list(found.values())


def top_level(package: Distribution) -> set[str]:
    parts = {file.parts[0] for file in package.files or ()}
    return {part for part in parts if part not in ("..", "__pycache__")}


def use(python: Path, tmp_path: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path.with_name(f"home-of-{tmp_path.name}")),
        "MAINSPRING_HOME": str(tmp_path.with_name(f"data-of-{tmp_path.name}")),
        "LANG": "C.UTF-8",
    }
    return subprocess.run(
        [str(arguments[0] if "/" in arguments[0] else python.with_name(arguments[0])), *arguments[1:]],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_installed_wheel_is_used_by_people(installed: Path, tmp_path: Path) -> None:
    version = use(installed, tmp_path, "mainspring", "--version")
    assert version.stdout == f"mainspring {mainspring.__version__}\n", version.stderr
    shown = use(installed, tmp_path, "mainspring", "--help")
    assert shown.returncode == 0, shown.stderr
    assert "doctor" in shown.stdout
    doctor = use(installed, tmp_path, "mainspring", "doctor")
    assert "✓ prices" in doctor.stdout, doctor.stderr
    assert not doctor.stderr
    demo = use(installed, tmp_path, "mainspring", "demo")
    assert demo.returncode == 0, demo.stdout + demo.stderr
    assert "the hash chain over" in demo.stdout


def test_every_module_of_the_wheel_is_imported_without_what_is_not_declared(
    installed: Path, tmp_path: Path
) -> None:
    code = (
        "import importlib, pkgutil, mainspring\n"
        "for found in pkgutil.walk_packages(mainspring.__path__, 'mainspring.'):\n"
        "    if found.name.endswith('__main__') or '.custody.' in found.name: continue\n"
        "    try: importlib.import_module(found.name)\n"
        "    except ImportError as error: print(found.name)\n"
        "print(mainspring.__file__)\n"
    )
    ran = use(installed, tmp_path, "python", "-c", code)
    assert ran.returncode == 0, ran.stderr
    *failed, where = ran.stdout.split()
    assert where.startswith(str(installed.parent.parent))
    assert all(each.startswith(NEED_AN_EXTRA) for each in failed), failed
    assert "mainspring.models.priceimport" in failed


def test_an_installation_is_small(built: Path) -> None:
    wheel = next(built.glob("*.whl"))
    packages = declared(wheel)
    assert len(packages) + 1 <= MAX_PACKAGES, [each.name for each in packages]
    with zipfile.ZipFile(wheel) as archive:
        size = sum(each.file_size for each in archive.infolist())
    for each in packages:
        files = [Path(str(each.locate_file(file))) for file in each.files or ()]
        size += sum(file.stat().st_size for file in files if file.exists() and file.suffix != ".pyc")
    assert size <= MAX_BYTES, f"{size / 1e6:.0f} MB"


def test_a_wheel_made_of_the_sdist_is_the_same(built: Path, tmp_path: Path) -> None:
    subprocess.run(["tar", "-xzf", str(next(built.glob("*.tar.gz"))), "-C", str(tmp_path)], check=True)
    source = next(each for each in tmp_path.iterdir() if each.is_dir())
    out = tmp_path / "again"
    out.mkdir()
    wheel, _ = release.build(source, out)
    assert wheel.read_bytes() == next(built.glob("*.whl")).read_bytes()


def test_release_notes_are_the_section_of_the_version() -> None:
    changelog = "# Changelog\n\n## 1.10.0 (2026-02-01)\n\n- ten\n\n## 1.1.0\n\n- one\n- two\n"
    assert release.release_notes(changelog, "1.10.0") == "- ten\n"
    assert release.release_notes(changelog, "1.1.0") == "- one\n- two\n"
    assert release.release_notes(changelog, "1.1") == ""


def test_a_readme_that_is_no_page_is_found_out() -> None:
    good = "# Title\n\n## Use\n\n```console\n# a comment\n```\n\n[design](docs/design.md)\n"
    assert release.check_readme(good) == []
    assert release.check_readme(good.replace("```\n\n[", "\n\n## Lost\n["))
    assert release.check_readme(good.replace("docs/design.md", "docs/nowhere.md"))


def test_a_wheel_that_lacks_the_prices_is_found_out(built: Path, tmp_path: Path) -> None:
    whole = next(built.glob("*.whl"))
    cut = tmp_path / whole.name
    with zipfile.ZipFile(whole) as before, zipfile.ZipFile(cut, "w") as after:
        for each in before.namelist():
            if not each.endswith("prices.json"):
                after.writestr(each, before.read(each))
    assert release.check_wheel(whole, mainspring.__version__) == []
    assert release.check_wheel(cut, mainspring.__version__) == [f"{cut.name} lacks models/prices.json"]


def test_the_version_stands_in_one_place() -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert mainspring.__version__ == version
    for path in (ROOT / "src").rglob("*.py"):
        text = path.read_text()
        if path.name == "owner.py":  # a lock without a version is one of 0.1.0
            text = text.replace('version: str = "0.1.0"', "")
        assert f'"{version}"' not in text, path


def test_the_licence_of_the_price_data_is_shipped() -> None:
    package = distribution("genai-prices")
    licence = next(file for file in package.files or () if file.name == "LICENSE")
    assert licence.read_text().strip() in (ROOT / "THIRD-PARTY.md").read_text()
