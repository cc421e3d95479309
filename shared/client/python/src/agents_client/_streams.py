"""Answers that arrive in parts: lines of JSON, and server-sent events."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, TypeVar

from ._core import Call, Core
from ._errors import AnswerError
from ._wire import Exchange

T = TypeVar("T")

# How many seconds a stream may send nothing. The API ends each one after 10 minutes, and sends a comment in a stream of
# events every 15 seconds.
LINES_SILENCE = 11 * 60.0
EVENTS_SILENCE = 60.0

# The longest line. The API's are at most a tenth of it.
_LONGEST = 1 << 20


async def json_lines(core: Core, call: Call, decode: Callable[[Any], T]) -> AsyncGenerator[T, None]:
    """Yields the items of an answer with one JSON object a line, as they arrive."""
    exchange = await core.open(call)
    try:
        async with aclosing(text_lines(core, exchange, LINES_SILENCE, call.path)) as lines:
            async for line in lines:
                if line:
                    yield decode_item(line, decode)
    finally:
        exchange.close()


async def parts(core: Core, call: Call) -> AsyncGenerator[bytes, None]:
    """Yields the bytes of an answer as they arrive. One that is cut off raises an error."""
    exchange = await core.open(call)
    try:
        while part := await core.read(exchange, LINES_SILENCE, f"GET {call.path}"):
            yield part
    finally:
        exchange.close()


def decode_item(text: str, decode: Callable[[Any], T]) -> T:
    """Decodes an item of a stream."""
    try:
        return decode(json.loads(text))
    except (ValueError, TypeError, AttributeError, KeyError) as error:
        raise AnswerError("An item of the stream cannot be read. Check the base URL.") from error


async def text_lines(core: Core, exchange: Exchange, silence: float, what: str) -> AsyncGenerator[str, None]:
    """Yields the lines of an answer. The last one may lack its end."""
    rest = b""
    while part := await core.read(exchange, silence, f"GET {what}"):
        *whole, rest = (rest + part).split(b"\n")
        for line in whole:
            yield _text(line)
        if len(rest) > _LONGEST:
            raise AnswerError("A line of the stream is too long.")
    if rest:
        yield _text(rest)


def _text(line: bytes) -> str:
    return line.removesuffix(b"\r").decode("utf-8", "replace")


@dataclass
class ServerEvent:
    """A block of a stream of server-sent events. Not every block has data."""

    id: str | None = None
    # The type; "message" for an ordinary one.
    event: str = "message"
    data: str | None = None
    # The pause in seconds before the next stream.
    retry: float | None = None

    def add(self, line: str) -> None:
        """Adds a line that is not empty."""
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if name == "data":
            self.data = value if self.data is None else f"{self.data}\n{value}"
        elif name == "id":
            self.id = value
        elif name == "event":
            self.event = value
        elif name == "retry" and value.isascii() and value.isdigit() and len(value) <= 6:
            self.retry = int(value) / 1000


async def server_events(core: Core, exchange: Exchange, what: str) -> AsyncGenerator[ServerEvent, None]:
    """Yields the blocks of a stream. It drops one whose end did not arrive."""
    block, size = ServerEvent(), 0
    async with aclosing(text_lines(core, exchange, EVENTS_SILENCE, what)) as lines:
        async for line in lines:
            if line == "":
                yield block
                block, size = ServerEvent(), 0
                continue
            size += len(line)
            if size > _LONGEST:
                raise AnswerError("An event of the stream is too long.")
            block.add(line)
