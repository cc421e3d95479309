"""How the two clients wait.

The rules of the client are written once, as coroutines. They wait only through a driver: for a connection, a pause or
a token. The driver of ``Client`` blocks, so that its coroutines never suspend and a plain function can run them. The
driver of ``AsyncClient`` lets threads block, one for each request or stream that waits.
"""

from __future__ import annotations

import asyncio
import inspect
import threading
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Generator
from typing import Any, Protocol, TypeVar, Union

T = TypeVar("T")

Token = Union[str, Callable[[Union[str, None]], str]]
"""An API key, or a function that returns the token of the next request. Its argument is None, or the token that the
API has just refused: once a call, the function may return another one then. The call is repeated if the function raises
an APIConnectionError, as while an identity provider is out of reach; any other error of it ends the call."""

AsyncToken = Union[str, Callable[[Union[str, None]], Union[str, Awaitable[str]]]]
"""As Token. The function may be a coroutine function."""


class Driver(Protocol):
    """Waits for what takes time."""

    async def run(self, work: Callable[[], T]) -> T:
        """Runs what blocks."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Pauses."""
        ...

    async def token(self, refused: str | None) -> str:
        """Returns the token of the next request."""
        ...

    def now(self) -> float:
        """Returns the seconds of a clock that never goes back."""
        ...


class BlockingDriver:
    """Waits in the thread of the caller."""

    def __init__(self, token: Token) -> None:
        self._token = token

    async def run(self, work: Callable[[], T]) -> T:
        return work()

    async def sleep(self, seconds: float) -> None:
        time.sleep(seconds)

    async def token(self, refused: str | None) -> str:
        return self._token if isinstance(self._token, str) else self._token(refused)

    def now(self) -> float:
        return time.monotonic()


class ThreadDriver:
    """Waits in threads for connections, and in the event loop for the rest."""

    def __init__(self, token: AsyncToken) -> None:
        self._token = token

    async def run(self, work: Callable[[], T]) -> T:
        # Executors have a limit, which streams would reach, and make the interpreter wait for their threads at its end.
        loop = asyncio.get_running_loop()
        done: asyncio.Future[T] = loop.create_future()
        threading.Thread(target=_run, args=(loop, done, work), name="agents-client", daemon=True).start()
        return await done

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    async def token(self, refused: str | None) -> str:
        if isinstance(self._token, str):
            return self._token
        token = self._token(refused)
        return await token if inspect.isawaitable(token) else token

    def now(self) -> float:
        return time.monotonic()


def _run(loop: asyncio.AbstractEventLoop, done: asyncio.Future[T], work: Callable[[], T]) -> None:
    """Gives a future the result of work, unless it was canceled."""

    def report(settle: Callable[[Any], None], value: Any) -> None:
        if not done.done():
            settle(value)

    try:
        outcome: tuple[Callable[[Any], None], Any] = (done.set_result, work())
    except BaseException as error:
        outcome = (done.set_exception, error)
    try:
        loop.call_soon_threadsafe(report, *outcome)
    except RuntimeError:
        pass  # the loop was closed, so its caller was canceled


def finish(coroutine: Coroutine[Any, Any, T]) -> T:
    """Runs a coroutine of a client whose driver blocks."""
    try:
        coroutine.send(None)
    except StopIteration as end:
        return end.value
    raise RuntimeError("a coroutine of the blocking client was suspended")


def iterate(items: AsyncGenerator[T, None]) -> Generator[T, None, None]:
    """Iterates over an asynchronous generator of a client whose driver blocks."""
    try:
        while True:
            try:
                item = finish(_next(items))
            except StopAsyncIteration:
                return
            yield item
    finally:
        finish(_close(items))


async def _next(items: AsyncGenerator[T, None]) -> T:
    return await items.__anext__()


async def _close(items: AsyncGenerator[T, None]) -> None:
    await items.aclose()
