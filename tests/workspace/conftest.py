import subprocess

import pytest

from tests.workspace.machine import Watched


@pytest.fixture
def root(tmp_path):
    path = tmp_path / "workspace"
    path.mkdir()
    return path


@pytest.fixture
def watched(root, tmp_path):
    made = Watched(root, tmp_path / "cache")
    yield made
    made.close()


@pytest.fixture
def git(root):
    """Runs git as a user would, with an identity, in the workspace."""

    def run(*arguments, cwd=root):
        who = ("-c", "user.name=Ada", "-c", "user.email=ada@example.org", "-c", "commit.gpgsign=false")
        allowed = ("-c", "protocol.file.allow=always", "-c", "init.defaultBranch=main")
        done = subprocess.run(
            ["git", *who, *allowed, *arguments], cwd=cwd, check=True, capture_output=True, text=True
        )
        return done.stdout.strip()

    return run
