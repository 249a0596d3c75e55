"""The fresh environment of a command: an allow-list of the host's, and answers that stop prompts.

Tokens, `LD_PRELOAD`, `BASH_ENV`, `PYTHONSTARTUP` and whatever else is not on the list stay outside.
"""

from __future__ import annotations

from collections.abc import Mapping

_PASSED_ON = """
    PATH HOME USER LOGNAME SHELL LANG LANGUAGE TZ COLUMNS LINES
    VIRTUAL_ENV CONDA_PREFIX CONDA_DEFAULT_ENV PYENV_ROOT PYENV_VERSION NVM_DIR NVM_BIN VOLTA_HOME
    JAVA_HOME GOPATH GOROOT GOFLAGS CARGO_HOME RUSTUP_HOME RUSTUP_TOOLCHAIN GEM_HOME RBENV_ROOT ASDF_DIR
    SSL_CERT_FILE SSL_CERT_DIR NIX_SSL_CERT_FILE REQUESTS_CA_BUNDLE CURL_CA_BUNDLE NODE_EXTRA_CA_CERTS
    PIP_CERT PIP_FIND_LINKS GIT_SSL_CAINFO PYTHONDONTWRITEBYTECODE PYTHONUNBUFFERED
    CUDA_HOME CUDA_VISIBLE_DEVICES OMP_NUM_THREADS MKL_NUM_THREADS OPENBLAS_NUM_THREADS SLURM_CONF
    LD_LIBRARY_PATH PKG_CONFIG_PATH CC CXX XDG_CACHE_HOME XDG_CONFIG_HOME XDG_DATA_HOME"""

PASSED_ON = frozenset(_PASSED_ON.split())

UNATTENDED: Mapping[str, str] = {
    "CI": "1",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_EDITOR": "true",
    "EDITOR": "true",
    "VISUAL": "true",
    "PAGER": "cat",
    "GIT_PAGER": "cat",
    "DEBIAN_FRONTEND": "noninteractive",
    "TERM": "dumb",
}

SCRATCH: Mapping[str, str] = {
    "GOCACHE": "/tmp/.cache/go-build",  # noqa: S108 - private in the sandbox
    "UV_CACHE_DIR": "/tmp/.cache/uv",  # noqa: S108
    "npm_config_cache": "/tmp/.cache/npm",  # noqa: S108
}
"""Caches of tools that fail, rather than do without, when their usual folder is read-only."""

DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def fresh(host: Mapping[str, str], wanted: Mapping[str, str]) -> dict[str, str]:
    """What a command sees; `wanted` is the caller's own and wins."""
    passed = {name: host[name] for name in host if name in PASSED_ON or name.startswith("LC_")}
    return {"PATH": DEFAULT_PATH, "LANG": "C.UTF-8", **passed, **UNATTENDED, **wanted}
