"""The first pages of a PDF as pictures. It is foreign and its reader is C++, so that runs confined: without
writing, without a network, and with little time and memory."""

from __future__ import annotations

import asyncio
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

import msgspec

from mainspring.app.policies import confine, confinement_of
from mainspring.errors import SandboxError
from mainspring.sandbox import MIB, Command, CommandResult, ProcessLimits
from mainspring.sandbox.programs import confined_to_reading
from mainspring.settings import Config

_PROGRAM = Path(__file__).parents[2] / "formats" / "pdf_drawing.py"
_LIMITS = ProcessLimits(cpu_s=20, memory_bytes=1024 * MIB)
_WITHIN_S = 60.0
_MAX_BYTES, _MAX_OUTPUT_BYTES = 50_000_000, 16 * MIB
_one_at_a_time = asyncio.Semaphore(1)


class PdfPages(msgspec.Struct, frozen=True, kw_only=True):
    """`pictures` are PNG, of the first of `count` pages; `why_not` says why there are none."""

    pictures: tuple[bytes, ...] = ()
    count: int = 0
    why_not: str = ""


async def draw_pdf(config: Config, data: bytes) -> PdfPages:
    if find_spec("pypdfium2") is None:
        return PdfPages(
            why_not="To show PDFs here, install the package pypdfium2: pip install mainspring[documents]"
        )
    if len(data) > _MAX_BYTES:
        return PdfPages(why_not="This PDF is too large to be shown here.")
    try:
        async with _one_at_a_time:
            done = await _run(config, data)
    except SandboxError as error:
        return PdfPages(why_not=f"This PDF cannot be shown: {error.message}")
    if done.stopped:
        return PdfPages(why_not=f"This PDF cannot be shown: its reader was ended ({done.stopped}).")
    if done.exit_code or done.dropped_bytes:
        return PdfPages(why_not="This PDF cannot be read: it is damaged, or needs a password.")
    return _parsed(done.stdout)


async def _run(config: Config, data: bytes) -> CommandResult:
    with tempfile.TemporaryDirectory(prefix="mainspring-pdf-") as folder, tempfile.TemporaryFile() as given:
        given.write(data)
        given.seek(0)
        policy = confined_to_reading(
            confinement_of(Path(folder), "plan", config),
            Path(sys.prefix),
            Path(sys.base_prefix),
            _PROGRAM.parent,
        )
        sandbox = await confine("", policy, config)
        try:
            return await sandbox.run(
                Command(
                    argv=(sys.executable, "-I", str(_PROGRAM)),
                    cwd=policy.workspace,
                    timeout_s=_WITHIN_S,
                    max_output_bytes=_MAX_OUTPUT_BYTES,
                    limits=_LIMITS,
                    stdin=given.fileno(),
                    is_whole=True,
                )
            )
        finally:
            await sandbox.close()


def _parsed(output: bytes) -> PdfPages:
    count, _, rest = output.partition(b"\n")
    pictures: list[bytes] = []
    while rest:
        length, _, rest = rest.partition(b"\n")
        pictures.append(rest[: int(length)])
        rest = rest[int(length) :]
    return PdfPages(pictures=tuple(pictures), count=int(count))
