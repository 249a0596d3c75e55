"""A model of which a person said what it does not take (images, an effort, several calls in one reply), and
its usual temperature.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing

import msgspec

from mainspring.events import CallDelta
from mainspring.models import Attachment, Model, Request, Retrying, StreamItem
from mainspring.models.own import ModelSettings
from mainspring.models.wrapper import ModelWrapper


class Restricted(ModelWrapper):
    def __init__(self, model: Model, own: ModelSettings) -> None:
        super().__init__(model)
        self.inner = model
        self._own = own
        self.media_problem = self._media_problem

    def _media_problem(self, attachment: Attachment, /) -> str:
        if self._own.images is False and attachment.media_type.startswith("image/"):
            return f"{self.name} takes no images, as config.toml says"
        return self._model.media_problem(attachment)

    async def stream(self, request: Request) -> AsyncGenerator[StreamItem]:
        if self._own.thinking is False:
            request = msgspec.structs.replace(request, effort=None)
        if request.temperature is None:
            request = msgspec.structs.replace(request, temperature=self._own.temperature)
        first: int | None = None
        async with aclosing(self._model.stream(request)) as items:
            async for item in items:
                if isinstance(item, Retrying):
                    first = None
                if isinstance(item, CallDelta):
                    first = item.index if first is None else first
                    if self._own.parallel_calls is False and item.index != first:
                        continue
                yield item
