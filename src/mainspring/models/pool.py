"""The models that a session may use, by name: the one at hand, and those it may go on with."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from mainspring.errors import UsageError
from mainspring.models import Model


class ModelPool:
    """`current` is the model at hand. `connect` makes one that is named later; `ready` prepares one before it
    is used, and gives what to use."""

    def __init__(
        self,
        current: Model,
        others: Sequence[Model] = (),
        *,
        connect: Callable[[str], Model] | None = None,
        ready: Callable[[Model], Awaitable[Model]] | None = None,
    ) -> None:
        self._models = [current, *others]
        self._connect = connect
        self._ready = ready
        self.current = current

    def find(self, name: str) -> Model:
        """The model of this name, or of what this name stands for, made now if need be."""
        known = {model.name: model for model in reversed(self._models)}
        if name in known:
            return known[name]
        if self._connect is None:
            raise UsageError(f"This session has no model {name}.", remedy=f"It has {', '.join(known)}.")
        model = self._connect(name)
        if model.name not in known:
            self._models.append(model)
        return known.get(model.name, model)

    async def take(self, name: str) -> Model:
        """Makes the model of this name the current one."""
        found = self.find(name)
        self.current = await self._ready(found) if self._ready else found
        self._models = [self.current if model is found else model for model in self._models]
        return self.current

    async def close(self) -> None:
        for model in self._models:
            await model.close()
