"""A model around another: the same in everything but how it streams, or what it takes."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable

from mainspring.models import Message, Model, Price, Request, StreamItem


class ModelWrapper:
    def __init__(self, model: Model) -> None:
        self._model = model
        self.media_problem = model.media_problem

    @property
    def encode(self) -> Callable[[Message], bytes]:
        # The innermost model's own: a long history is tens of thousands of calls.
        return self._model.encode

    @property
    def name(self) -> str:
        return self._model.name

    @property
    def context_tokens(self) -> int | None:
        return self._model.context_tokens

    @property
    def price(self) -> Price | None:
        return self._model.price

    async def close(self) -> None:
        await self._model.close()


class SharedModel(ModelWrapper):
    """A model of another session, which closes it."""

    def stream(self, request: Request) -> AsyncGenerator[StreamItem]:
        return self._model.stream(request)

    async def close(self) -> None:
        return


class WithContextSize(ModelWrapper):
    """A model of which somebody has said how many tokens it takes."""

    def __init__(self, model: Model, context_tokens: int) -> None:
        super().__init__(model)
        self._context_tokens = context_tokens

    @property
    def context_tokens(self) -> int:
        return self._context_tokens

    def stream(self, request: Request) -> AsyncGenerator[StreamItem]:
        return self._model.stream(request)
