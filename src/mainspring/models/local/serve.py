"""The program that holds a local model: llama.cpp's own server, in a process beside ours.

It is a process because loading holds the interpreter for seconds, and because a fault in native code, or the
kernel ending what uses too much memory, must not take a session with it. It reads its settings as one line of
JSON, says its address as another, and ends when its standard input does, which is when its parent is gone.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import threading
from importlib import import_module
from typing import Any

import msgspec

from mainspring.models.local import LocalAnswer, LocalSettings

_PR_SET_PDEATHSIG = 1


def main() -> None:
    _die_with_parent()
    settings = msgspec.json.decode(sys.stdin.buffer.readline(), type=LocalSettings)
    threading.Thread(target=_wait_for_end, daemon=True).start()
    # What the library prints belongs to the log; only the answer goes to whoever asked.
    answers = os.dup(1)
    os.dup2(2, 1)
    try:
        server = _serve(settings)
        answer = LocalAnswer(url=server.listening_address)
    except (RuntimeError, ValueError, OSError) as error:
        server, answer = None, LocalAnswer(error=f"{type(error).__name__}: {error}")
    os.write(answers, msgspec.json.encode(answer) + b"\n")
    os.close(answers)
    if server is None:
        sys.exit(1)
    threading.Event().wait()


def _serve(settings: LocalSettings) -> Any:
    xllamacpp: Any = import_module("xllamacpp")  # an extra: not there where types are checked
    params = xllamacpp.CommonParams()
    params.model.path = settings.path
    params.n_ctx = settings.context_tokens
    params.n_parallel = 1
    params.cpuparams.n_threads = settings.threads
    params.cpuparams_batch.n_threads = settings.threads
    params.hostnames = ["127.0.0.1"]
    params.port = 0
    params.api_keys = [settings.key]
    params.sampling.temp = settings.temperature
    params.cache_ram_mib = 0
    params.use_jinja = True
    params.offline = True
    params.warmup = False
    params.ui = False
    return xllamacpp.Server(params)


def _wait_for_end() -> None:
    sys.stdin.buffer.read()
    os._exit(0)


def _die_with_parent() -> None:
    """The kernel ends us with our parent also while loading holds the interpreter."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


if __name__ == "__main__":
    main()
