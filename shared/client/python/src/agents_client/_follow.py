"""Streams that continue after an answer ends or a connection breaks, without losing or repeating an item."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any, TypeVar

from ._core import EVENTS, OUTAGE_PATIENCE, Call, Core, may_pass
from ._errors import AgentsError, APIConnectionError, APIError, is_not_found
from ._streams import ServerEvent, decode_item, server_events
from .models import Agent, AgentLogLine, Event

T = TypeVar("T")

# The pauses before the next stream, in seconds.
_FIRST_PAUSE, _MAX_PAUSE = 2.0, 30.0
# How long a running agent may be without a pod. It gets one when it restarts, and after 5 minutes at most when it waits
# for a node; then the API calls it an error.
_POD_PATIENCE = 6 * 60.0

_AGENT = "/api/v1/agents/{agent_id}"
_EVENTS = "/api/v1/events"


@dataclass
class _Follower:
    """What a follower follows, and what it remembers of its streams."""

    core: Core
    path: str
    ids: tuple[str, ...]
    query: Mapping[str, Any]
    # The id after which the next stream continues.
    last_id: str | None
    on_id: Callable[[str], None] | None = None
    pause: float = _FIRST_PAUSE
    # When a stream was open last.
    last_open: float | None = field(default=None, init=False)
    # When the API opened a stream, or said that the agent has no pod.
    last_answer: float = field(default=0, init=False)

    async def events(self) -> AsyncGenerator[ServerEvent, None]:
        """Yields the blocks with data of one stream."""
        headers = {"Last-Event-ID": self.last_id or None}
        exchange = await self.core.open(
            Call("GET", self.path, self.ids, query=self.query, headers=headers, accept=EVENTS)
        )
        if not (exchange.headers.get("Content-Type") or "").startswith(EVENTS):
            exchange.close()
            raise APIConnectionError(f"The answer to GET {self.path} is no stream of events. Check the base URL.")
        self.pause = _FIRST_PAUSE
        self._mark_open()
        try:
            async with aclosing(server_events(self.core, exchange, self.path)) as events:
                async for event in events:
                    self._note(event)
                    if event.data is not None:
                        yield event
        finally:
            exchange.close()
            self._mark_open()

    def _note(self, event: ServerEvent) -> None:
        if event.retry is not None:
            self.pause = min(event.retry, _MAX_PAUSE)
        if event.id is not None:
            self.last_id = event.id  # also without data
            if self.on_id is not None:
                self.on_id(event.id)

    def _mark_open(self) -> None:
        self.last_open = self.last_answer = self.core.driver.now()


async def _follow(
    follower: _Follower,
    decode: Callable[[Any], T],
    is_item: Callable[[ServerEvent], bool],
    has_ended: Callable[[AgentsError | None], Awaitable[bool]],
) -> AsyncGenerator[T, None]:
    """Yields the items of streams until has_ended, which gets the error of a stream, returns True or raises it."""
    while True:
        failed: AgentsError | None = None
        try:
            async with aclosing(follower.events()) as events:
                async for event in events:
                    if is_item(event):
                        yield decode_item(event.data or "", decode)
        except (APIError, APIConnectionError) as error:
            failed = error
        if await has_ended(failed):
            return
        await follower.core.driver.sleep(follower.pause)
        follower.pause = min(2 * follower.pause, _MAX_PAUSE)


async def follow_logs(
    core: Core,
    agent_id: str,
    *,
    tail: int | None,
    since: object,
    last_event_id: str | None,
    on_event: Callable[[str], None] | None,
) -> AsyncGenerator[AgentLogLine, None]:
    """Follows the log of an agent."""
    query = {"tail": tail, "since": since, "follow": True}
    follower = _Follower(core, f"{_AGENT}/logs", (agent_id,), query, last_event_id, on_event)

    async def has_ended(error: AgentsError | None) -> bool:
        return error is not None and await _log_has_ended(follower, agent_id, error)

    # Other events are for later releases of the API.
    is_line: Callable[[ServerEvent], bool] = lambda event: event.event == "message"  # noqa: E731
    async with aclosing(_follow(follower, AgentLogLine, is_line, has_ended)) as lines:
        async for line in lines:
            yield line


async def _log_has_ended(follower: _Follower, agent_id: str, error: AgentsError) -> bool:
    """A log ends when its agent gets no other pod by itself."""
    now = follower.core.driver.now()
    if follower.last_open is None:
        raise error
    if is_not_found(error):
        return True
    if isinstance(error, APIError) and error.code == "agent_not_running":
        follower.last_answer = now
        if await _has_stopped(follower.core, agent_id):
            return True
        if now - follower.last_open > _POD_PATIENCE:
            raise error
    elif not may_pass(error) or now - follower.last_answer > OUTAGE_PATIENCE:
        raise error
    return False


async def _has_stopped(core: Core, agent_id: str) -> bool:
    """Reports whether an agent without a pod gets no other one by itself."""
    try:
        agent = await core.call(Call("GET", _AGENT, (agent_id,)), Agent)
    except AgentsError as error:
        return is_not_found(error)
    return agent.status in ("deleting", "paused", "stopped", "error")


async def follow_events(
    core: Core, *, cursor: str | None, agent_id: str | None, type: str | None
) -> AsyncGenerator[Event, None]:
    """Follows the events of the organization."""
    # A stream without a cursor also begins after the newest event, but it can break off before it has sent its cursor.
    cursor = cursor or await _newest_cursor(core)
    follower = _Follower(core, f"{_EVENTS}/stream", (), {"agent_id": agent_id, "type": type}, cursor)

    async def has_ended(error: AgentsError | None) -> bool:
        if error is not None and (follower.last_open is None or not may_pass(error)):
            raise error
        return False

    async with aclosing(_follow(follower, Event, lambda _: True, has_ended)) as events:
        async for event in events:
            yield event


async def _newest_cursor(core: Core) -> str | None:
    _, headers = await core.content(Call("GET", _EVENTS, query={"limit": 1}))
    return headers.get("X-Event-Cursor")
