"""Reads a prompt and prints text."""

import sys

from acting import act, put


class Plain:
    def begin(self) -> None:
        pass

    def say(self, text: str) -> None:
        put(text)

    def call(self, command: str) -> None:
        put(f"$ {command}")

    def result(self, output: str, code: int) -> None:
        put(f"{output} ({code})")

    def end(self) -> None:
        pass


act(Plain(), sys.stdin.read())
