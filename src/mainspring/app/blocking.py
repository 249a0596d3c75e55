"""Waits for async work from code that is not async, also where an event loop already runs (Jupyter)."""

from __future__ import annotations

import asyncio
import contextvars
import functools
import inspect
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


def run_blocking(work: Coroutine[Any, Any, T]) -> T:
    """The result of a coroutine. Where a loop runs in this thread already, the work gets a thread and a loop
    of its own; Ctrl-C then cancels the work and waits until it has ended in order."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work)
    return _Elsewhere(work).result()


def blocking(function: Callable[P, Coroutine[Any, Any, T]]) -> Callable[P, T]:
    """The function `NAME_async` as `NAME`, with the same parameters, for code that is not async."""

    @functools.wraps(function)
    def waited(*args: P.args, **kwargs: P.kwargs) -> T:
        return run_blocking(function(*args, **kwargs))

    about = "for code that is not async; also inside a running event loop, such as Jupyter's."
    waited.__name__ = waited.__qualname__ = function.__name__.removesuffix("_async")
    waited.__doc__ = f"As `{function.__name__}`, {about}\n\n{inspect.getdoc(function)}"
    return waited


class _Elsewhere:
    """Work in a thread with a loop of its own."""

    def __init__(self, work: Coroutine[Any, Any, Any]) -> None:
        self._work = work
        self._future: Future[Any] = Future()
        self._task: asyncio.Task[Any] | None = None
        context = contextvars.copy_context()
        self._thread = threading.Thread(target=context.run, args=(self._run,), name="mainspring")

    def result(self) -> Any:
        self._thread.start()
        try:
            return self._future.result()
        except KeyboardInterrupt:
            if (task := self._task) is not None:
                task.get_loop().call_soon_threadsafe(task.cancel)
                return self._future.result()
            raise
        finally:
            self._thread.join()

    def _run(self) -> None:
        try:
            self._future.set_result(asyncio.run(self._main()))
        except BaseException as error:  # noqa: BLE001 - raised again where it is waited for
            self._future.set_exception(error)

    async def _main(self) -> Any:
        self._task = asyncio.current_task()
        return await self._work
