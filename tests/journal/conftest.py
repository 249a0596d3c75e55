import subprocess
import sys
from pathlib import Path

import pytest

from mainspring.catalog.sqlite import SqliteSessions


@pytest.fixture
def store(tmp_path):
    return SqliteSessions(tmp_path)


@pytest.fixture
def worker(tmp_path):
    """Starts one of workers.py's processes on this test's home; what still runs at the end is killed."""
    started: list[subprocess.Popen[str]] = []

    def start(what: str) -> subprocess.Popen[str]:
        command = [sys.executable, str(Path(__file__).with_name("workers.py")), what, str(tmp_path)]
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()
