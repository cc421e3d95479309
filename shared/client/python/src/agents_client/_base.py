"""How the generated methods of the two clients call the API."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Generator, Mapping
from contextlib import aclosing
from typing import Any, Generic, TypeVar

from ._core import Call, Core
from ._drivers import finish, iterate
from ._model import listed
from ._streams import json_lines, parts
from .models import Rehearsal

T = TypeVar("T")


def either(dry_run: bool, decode: Callable[[Any], T]) -> Callable[[Any], T | Rehearsal]:
    """Returns the decoder of a call that may be rehearsed."""
    return Rehearsal if dry_run else decode


class Page(list[T]):
    """The items of one page of a list."""

    next_cursor: str | None = None
    """The cursor of the next page; None if this is the last one."""
    headers: Mapping[str, str] = {}
    """The headers of the answer."""


async def _read_pages(core: Core, call: Call, decode: Callable[[Any], T]) -> AsyncGenerator[Page[T], None]:
    def page_of(items: Any) -> Page[T]:
        return Page(listed(decode)(items))

    query = dict(call.query)
    while True:
        page = await core.call(
            Call(call.method, call.path, call.ids, query=query, headers=call.headers, timeout=call.timeout), page_of
        )
        page.next_cursor = page.headers.get("X-Next-Cursor") or None
        yield page
        if page.next_cursor is None:
            return
        query["cursor"] = page.next_cursor


class Pages(Generic[T]):
    """A list that comes in pages. Iterate over its items, or over ``pages()``. A page is read when it is needed."""

    def __init__(self, core: Core, call: Call, decode: Callable[[Any], T]) -> None:
        self._core, self._call, self._decode = core, call, decode

    def __iter__(self) -> Generator[T, None, None]:
        for page in self.pages():
            yield from page

    def pages(self) -> Generator[Page[T], None, None]:
        """Iterates over the pages."""
        return iterate(_read_pages(self._core, self._call, self._decode))


class AsyncPages(Generic[T]):
    """A list that comes in pages. Iterate over its items, or over ``pages()``. A page is read when it is needed."""

    def __init__(self, core: Core, call: Call, decode: Callable[[Any], T]) -> None:
        self._core, self._call, self._decode = core, call, decode

    async def __aiter__(self) -> AsyncGenerator[T, None]:
        async with aclosing(self.pages()) as pages:
            async for page in pages:
                for item in page:
                    yield item

    def pages(self) -> AsyncGenerator[Page[T], None]:
        """Iterates over the pages."""
        return _read_pages(self._core, self._call, self._decode)


class SyncBase:
    """What the methods of ``Client`` use."""

    _core: Core

    def _call(self, call: Call, decode: Callable[[Any], T]) -> T:
        return finish(self._core.call(call, decode))

    def _bytes(self, call: Call) -> bytes:
        return finish(self._core.content(call))[0]

    def _pages(self, call: Call, decode: Callable[[Any], T]) -> Pages[T]:
        return Pages(self._core, call, decode)

    def _stream(self, call: Call, decode: Callable[[Any], T]) -> Generator[T, None, None]:
        return iterate(json_lines(self._core, call, decode))

    def _parts(self, call: Call) -> Generator[bytes, None, None]:
        return iterate(parts(self._core, call))


class AsyncBase:
    """What the methods of ``AsyncClient`` use."""

    _core: Core

    async def _call(self, call: Call, decode: Callable[[Any], T]) -> T:
        return await self._core.call(call, decode)

    async def _bytes(self, call: Call) -> bytes:
        return (await self._core.content(call))[0]

    def _pages(self, call: Call, decode: Callable[[Any], T]) -> AsyncPages[T]:
        return AsyncPages(self._core, call, decode)

    def _stream(self, call: Call, decode: Callable[[Any], T]) -> AsyncGenerator[T, None]:
        return json_lines(self._core, call, decode)

    def _parts(self, call: Call) -> AsyncGenerator[bytes, None]:
        return parts(self._core, call)
