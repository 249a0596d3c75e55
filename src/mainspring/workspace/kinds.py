"""Kinds of projects, told by the files at their top: each brings a short skill of ours, which a skill of the
same name replaces. One listing of the folder and the heads of three files; nothing is run."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from itertools import islice
from pathlib import Path

import msgspec

from mainspring.disk.untrusted import read_start
from mainspring.patterns import lazy_pattern
from mainspring.workspace.skills import Skill, read_skill

SHELF = Path(__file__).parent / "kinds"
_MAX_ENTRIES = 500
_MAX_BYTES = 64 * 1024
_DEPENDENCIES = ("package.json", "pyproject.toml", "requirements.txt")

# By kind: names of files and folders, in which a star stands for any characters, and names of packages that a
# project depends on.
_KINDS: dict[str, tuple[str, re.Pattern[str] | None]] = {
    "api": (
        "openapi.json openapi.yaml openapi.yml swagger.json swagger.yaml swagger.yml *.proto *.graphql",
        lazy_pattern(
            r"\b(?:fastapi|flask|django|starlette|litestar|express|fastify|@nestjs/core|hono|grpcio)\b"
        ),
    ),
    "database": (
        "alembic alembic.ini migrations prisma schema.sql db",
        lazy_pattern(
            r"\b(?:sqlalchemy|psycopg\w*|asyncpg|django|prisma|knex|typeorm|drizzle-orm|sequelize|mongoose)\b"
        ),
    ),
    "front-end": (
        "index.html vite.config.* next.config.* svelte.config.* angular.json",
        lazy_pattern(r'"(?:react|vue|svelte|next|nuxt|preact|solid-js|@angular/core|astro)"'),
    ),
    "python": ("pyproject.toml setup.py setup.cfg requirements.txt Pipfile tox.ini", None),
    "security": (
        ".gitleaks.toml .snyk .bandit auth authentication",
        lazy_pattern(r"\b(?:pyjwt|authlib|passlib|argon2-cffi|bcrypt|jsonwebtoken|passport|oauthlib|jose)\b"),
    ),
    "testing": (
        "test tests __tests__ spec conftest.py pytest.ini jest.config.* vitest.config.* playwright.config.*",
        None,
    ),
    "typescript": ("tsconfig.json tsconfig.*.json", None),
}


def kinds_of(folder: Path) -> list[str]:
    """What kind of project this is, sorted; a project may be of several."""
    try:
        with os.scandir(folder) as entries:
            names = [entry.name for entry in islice(entries, _MAX_ENTRIES)]
    except OSError:
        return []
    text = " ".join(_head(folder, name) for name in _DEPENDENCIES if name in names)
    return [
        kind
        for kind, (marks, packages) in _KINDS.items()
        if _has_mark(names, marks) or (text and packages and packages.search(text))
    ]


def _has_mark(names: Sequence[str], marks: str) -> bool:
    for mark in marks.split():
        start, star, end = mark.partition("*")
        if (
            (mark in names)
            if not star
            else any(each.startswith(start) and each.endswith(end) for each in names)
        ):
            return True
    return False


def skills_for(folder: Path) -> list[Skill]:
    """Our skills for work in a folder, by name."""
    found = (read_skill(SHELF / kind / "SKILL.md") for kind in kinds_of(folder))
    return [msgspec.structs.replace(each, is_ours=True) for each in found if isinstance(each, Skill)]


def _head(folder: Path, name: str) -> str:
    try:
        return read_start(folder / name, max_bytes=_MAX_BYTES, root=folder).decode("utf-8", "replace").lower()
    except OSError:
        return ""
