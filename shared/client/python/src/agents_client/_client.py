"""The two clients."""

from __future__ import annotations

import ssl
from collections.abc import AsyncGenerator, Callable, Generator, Iterable, Mapping
from types import TracebackType
from typing import Any

from . import _follow, _waits
from ._async_calls import AsyncCalls
from ._core import Call, Core
from ._drivers import AsyncToken, BlockingDriver, Driver, ThreadDriver, Token, finish, iterate
from ._model import plain
from ._sync_calls import Calls
from .models import Agent, AgentLogLine, DashboardReachability, Event, EventType, SecretOperation


def _new_core(
    base_url: str,
    token: object,
    driver: Driver,
    attempts: int,
    user_agent: str | None,
    ssl_context: ssl.SSLContext | None,
) -> Core:
    if not token:
        raise ValueError("The token is empty. Set the API key, for example in AGENTS_API_KEY.")
    if not isinstance(token, str) and not callable(token):
        raise TypeError("The token must be a string, or a function that returns one.")
    if attempts < 1:
        raise ValueError("attempts must be 1 or more.")
    return Core(base_url, driver, attempts=attempts, user_agent=user_agent, context=ssl_context)


class Client(Calls):
    """Calls the API. It is safe for several threads.

    Each operation of the API is a method. The ids of its path are arguments, and all else are keyword parameters. A
    parameter that is left out is not sent. None is sent as null where the API takes null, which the type shows by the
    default UNSET; elsewhere, None is the same as leaving the parameter out.

    Failures that pass are repeated. A call that changes something gets an idempotency key, so that it takes effect
    once. Four parameters are the same for all methods that have them:

    - ``idempotency_key``: the call has one effect in 24 hours, however often and from wherever it is sent with it.
    - ``if_match``: the change fails with 412 if the agent has another version than ``agent.headers["ETag"]``.
    - ``dry_run``: True rehearses the call: the API checks everything and changes nothing. It returns a Rehearsal.
    - ``timeout``: how many seconds the call may take with its repeats, or a wait in all. After that, it raises a
      TimeoutError. Of a list, it limits each page.

    Args:
        base_url: Where the API is, such as https://api.example.com. It must use https, except for loopback addresses.
        token: An API key, or a function that returns the token of the next request. The function gets None, or after
            a 401 the refused token; it may return another one then, once a call.
        attempts: How often a request is sent at most; 1 repeats nothing.
        user_agent: Your program's name and version, such as deploy/1.2, for the organization's audit log.
        ssl_context: How servers prove who they are, for example with the certificates of a company.
    """

    def __init__(
        self,
        base_url: str,
        token: Token,
        *,
        attempts: int = 5,
        user_agent: str | None = None,
        ssl_context: ssl.SSLContext | None = None,
    ) -> None:
        self._core = _new_core(base_url, token, BlockingDriver(token), attempts, user_agent, ssl_context)

    def __repr__(self) -> str:
        return f"Client({self._core.origin!r})"

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Closes the connections that wait for the next request."""
        self._core.wire.close()

    def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, Any] | None = None,
        body: Any = None,
        headers: Mapping[str, str] | None = None,
        timeout: float | None = None,
    ) -> Any:
        """Sends a request that no method sends, with the same repeats, and returns the JSON of its answer."""
        return self._call(_request(method, path, query, body, headers, timeout), plain)

    def wait_until_settled(
        self, agent_id: str, *, on_change: Callable[[Agent], object] | None = None, timeout: float | None = None
    ) -> Agent:
        """Waits until an agent is running, paused, stopped or in error, and returns it.

        The API holds each request until then, so a wait costs about one request a minute; with ``on_change``, which
        gets the agent when the wait begins and whenever it has changed, one in two seconds. A running agent stays
        running while its pod is replaced: after a restart, or a change of variables, secrets or credentials, use
        wait_until_ready instead. Once the API has shown the agent, a wait bears that it is out of reach for 2 minutes.
        """
        return finish(_waits.wait_for_agent(self._core, agent_id, _waits.is_settled, on_change, timeout))

    def wait_until_ready(
        self, agent_id: str, *, on_change: Callable[[Agent], object] | None = None, timeout: float | None = None
    ) -> Agent:
        """Waits until an agent is paused, stopped, in error, or running with its newest pod, and returns it.

        It covers every change of an agent, also a restart. While a pod is replaced, it sends about one request a
        second.
        """
        return finish(_waits.wait_for_agent(self._core, agent_id, _waits.is_ready, on_change, timeout))

    def wait_until_deleted(
        self, agent_id: str, *, on_change: Callable[[Agent], object] | None = None, timeout: float | None = None
    ) -> None:
        """Waits until an agent that is being deleted is gone. It raises an error if the agent is not being deleted."""
        finish(_waits.wait_until_deleted(self._core, agent_id, on_change, timeout))

    def wait_for_secret_operations(
        self,
        operations: Iterable[SecretOperation],
        *,
        on_change: Callable[[SecretOperation], object] | None = None,
        timeout: float | None = None,
    ) -> list[SecretOperation]:
        """Waits until operations have ended, and returns them in the same order.

        An operation has ended if it succeeded, was superseded or canceled, or waits for the start of its agent
        (``error_code`` is ``agent_not_running``). A failed operation raises an OperationError. So does one at the
        stage ``store`` for more than 30 seconds: its value must be sent again.
        """
        return finish(_waits.wait_for_operations(self._core, operations, on_change, timeout))

    def wait_until_dashboard_reachable(self, agent_id: str, *, timeout: float | None = None) -> DashboardReachability:
        """Waits until an agent's dashboard answers, and returns the last check.

        It also returns, with ``reachable`` False, when waiting longer changes nothing.
        """
        return finish(_waits.wait_until_dashboard_reachable(self._core, agent_id, timeout))

    def follow_logs(
        self,
        agent_id: str,
        *,
        tail: int | None = None,
        since: str | None = None,
        last_event_id: str | None = None,
        on_event: Callable[[str], None] | None = None,
    ) -> Generator[AgentLogLine, None, None]:
        """Yields the lines of an agent's log as they are written, also across restarts of the agent.

        When the answer ends or the connection breaks, it continues after the last line, without losing or repeating
        one that the cluster still keeps. It ends when the agent was stopped, paused or deleted, or is in error. It
        raises the last error if the API cannot be reached for 2 minutes, and ``agent_not_running`` if an agent that
        should run gets no pod for 6 minutes. ``on_event`` gets the id of each line before the line is yielded;
        ``last_event_id`` continues after it, also in another process.
        """
        return iterate(
            _follow.follow_logs(
                self._core, agent_id, tail=tail, since=since, last_event_id=last_event_id, on_event=on_event
            )
        )

    def follow_events(
        self, *, cursor: str | None = None, agent_id: str | None = None, type: EventType | None = None
    ) -> Generator[Event, None, None]:
        """Yields the organization's events after a cursor, and those that are committed from then on.

        Without a cursor, it begins with the first event after the iteration began. It continues after the end of an
        answer, a lost connection and an outage of the API, without losing or repeating an event. The id of the last
        event is the cursor with which another process continues.

        It ends only with an error: that of the first stream if it cannot be opened, or one that a repeat would meet
        again. Examples are ``cursor_expired``, after an outage longer than the API keeps events, and
        ``invalid_token``.
        """
        return iterate(_follow.follow_events(self._core, cursor=cursor, agent_id=agent_id, type=type))


class AsyncClient(AsyncCalls):
    """Calls the API as Client does, with coroutines and asynchronous iterators.

    A call that is canceled closes its connection. Each request or stream that waits takes a thread.
    """

    def __init__(
        self,
        base_url: str,
        token: AsyncToken,
        *,
        attempts: int = 5,
        user_agent: str | None = None,
        ssl_context: ssl.SSLContext | None = None,
    ) -> None:
        self._core = _new_core(base_url, token, ThreadDriver(token), attempts, user_agent, ssl_context)

    def __repr__(self) -> str:
        return f"AsyncClient({self._core.origin!r})"

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Closes the connections that wait for the next request."""
        self._core.wire.close()

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, Any] | None = None,
        body: Any = None,
        headers: Mapping[str, str] | None = None,
        timeout: float | None = None,
    ) -> Any:
        """As Client.request."""
        return await self._call(_request(method, path, query, body, headers, timeout), plain)

    async def wait_until_settled(
        self, agent_id: str, *, on_change: Callable[[Agent], object] | None = None, timeout: float | None = None
    ) -> Agent:
        """As Client.wait_until_settled."""
        return await _waits.wait_for_agent(self._core, agent_id, _waits.is_settled, on_change, timeout)

    async def wait_until_ready(
        self, agent_id: str, *, on_change: Callable[[Agent], object] | None = None, timeout: float | None = None
    ) -> Agent:
        """As Client.wait_until_ready."""
        return await _waits.wait_for_agent(self._core, agent_id, _waits.is_ready, on_change, timeout)

    async def wait_until_deleted(
        self, agent_id: str, *, on_change: Callable[[Agent], object] | None = None, timeout: float | None = None
    ) -> None:
        """As Client.wait_until_deleted."""
        await _waits.wait_until_deleted(self._core, agent_id, on_change, timeout)

    async def wait_for_secret_operations(
        self,
        operations: Iterable[SecretOperation],
        *,
        on_change: Callable[[SecretOperation], object] | None = None,
        timeout: float | None = None,
    ) -> list[SecretOperation]:
        """As Client.wait_for_secret_operations."""
        return await _waits.wait_for_operations(self._core, operations, on_change, timeout)

    async def wait_until_dashboard_reachable(
        self, agent_id: str, *, timeout: float | None = None
    ) -> DashboardReachability:
        """As Client.wait_until_dashboard_reachable."""
        return await _waits.wait_until_dashboard_reachable(self._core, agent_id, timeout)

    def follow_logs(
        self,
        agent_id: str,
        *,
        tail: int | None = None,
        since: str | None = None,
        last_event_id: str | None = None,
        on_event: Callable[[str], None] | None = None,
    ) -> AsyncGenerator[AgentLogLine, None]:
        """As Client.follow_logs."""
        return _follow.follow_logs(
            self._core, agent_id, tail=tail, since=since, last_event_id=last_event_id, on_event=on_event
        )

    def follow_events(
        self, *, cursor: str | None = None, agent_id: str | None = None, type: EventType | None = None
    ) -> AsyncGenerator[Event, None]:
        """As Client.follow_events."""
        return _follow.follow_events(self._core, cursor=cursor, agent_id=agent_id, type=type)


def _request(
    method: str,
    path: str,
    query: Mapping[str, Any] | None,
    body: Any,
    headers: Mapping[str, str] | None,
    timeout: float | None,
) -> Call:
    if not path.startswith("/"):
        raise ValueError("The path must begin with a slash.")
    return Call(method.upper(), path, query=query or {}, body=body, headers=headers or {}, timeout=timeout)
