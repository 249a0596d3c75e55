"""A model around another: the same in everything but how it streams."""

from __future__ import annotations

from mainspring.models import Message, Model, Price


class Around:
    def __init__(self, model: Model) -> None:
        self._model = model

    @property
    def name(self) -> str:
        return self._model.name

    @property
    def context_tokens(self) -> int | None:
        return self._model.context_tokens

    @property
    def price(self) -> Price | None:
        return self._model.price

    def encode(self, message: Message) -> bytes:
        return self._model.encode(message)

    async def close(self) -> None:
        await self._model.close()
