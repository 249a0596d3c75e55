"""A machine to run the command on."""

from tests.cli.conftest import machine

__all__ = ["machine"]
