"""`--server URL`: the same command for a machine elsewhere, by way of its `mainspring serve`."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from importlib import import_module
from typing import Any

import click


def with_server(name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Adds the option. When it is given, the function of this name in `cli/remote.py` is called instead, with
    the same arguments; nothing of it is loaded otherwise."""

    def add(command: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(command)
        def chosen(*arguments: Any, server: str, **options: Any) -> Any:
            if not server:
                return command(*arguments, **options)
            return getattr(import_module("mainspring.cli.remote"), name)(server, **options)

        return click.option(
            "--server",
            default="",
            metavar="URL",
            help="Do it on the machine that serves there.",
        )(chosen)

    return add
