"""Command lines that decide something look at the files as they are."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

from mainspring.evidence.commands import run_line
from mainspring.sandbox.files import Files
from mainspring.sandbox.ladder import choose
from mainspring.sandbox.policy import policy


def test_a_file_of_the_same_size_and_second_is_judged_by_its_new_text(tmp_path: Path) -> None:
    confined = policy(tmp_path, home=tmp_path / "home")

    async def work() -> list[bool]:
        sandbox, passed = await choose(confined, {"PATH": os.environ["PATH"]}), list[bool]()
        try:
            for text in ("VALUE = 1\n", "VALUE = 2\n"):
                module = tmp_path / "module.py"
                module.write_text(text)
                os.utime(module, (1_700_000_000, 1_700_000_000))
                line = "python3 -c 'import module; assert module.VALUE == 2'"
                passed.append((await run_line(sandbox, Files(confined), line, 60)).is_passed)
        finally:
            await sandbox.close()
        return passed

    assert asyncio.run(work()) == [False, True]
