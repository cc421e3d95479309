"""A server for one test, and clients of it that do not pause."""

from __future__ import annotations

import asyncio
import inspect
import json
import socket
import struct
import threading
import unittest
from collections.abc import AsyncGenerator, Callable, Generator, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, cast

from agents_client import AsyncClient, AsyncPages, Client

# How many seconds a test waits for what must happen.
LONG = 30.0


@dataclass
class Seen:
    """A request that the server got."""

    method: str
    url: str
    headers: Mapping[str, str]
    body: str


class Response:
    """What a server answers to one request."""

    def __init__(self, handler: BaseHTTPRequestHandler) -> None:
        self._handler = handler
        self.has_ended = False
        self.closed = threading.Event()
        """Is set when the client has closed the connection."""

    def send(self, status: int, body: bytes, headers: Mapping[str, str] | None = None) -> None:
        """Answers with a body."""
        self._head(status, {"Content-Length": str(len(body)), **(headers or {})})
        self._handler.wfile.write(body)
        self.has_ended = True

    def json(self, status: int, body: object, headers: Mapping[str, str] | None = None) -> None:
        """Answers with JSON."""
        self.send(status, json.dumps(body).encode(), {"Content-Type": "application/json", **(headers or {})})

    def problem(self, status: int, code: str, headers: Mapping[str, str] | None = None) -> None:
        """Answers with an error of the API."""
        body = {"detail": f"It is {code}.", "code": code, "status": status, "title": "", "request_id": "r"}
        self.json(status, body, headers)

    def stream(self, text: str | bytes = "", kind: str = "text/event-stream") -> Response:
        """Begins a stream, which stays open until the client closes it, or the test ends or breaks it."""
        self._head(200, {"Content-Type": kind, "Transfer-Encoding": "chunked"})
        self.write(text)
        return self

    def write(self, text: str | bytes) -> None:
        """Sends a part of a stream."""
        part = text.encode() if isinstance(text, str) else text
        if part:
            self._handler.wfile.write(f"{len(part):x}\r\n".encode() + part + b"\r\n")

    def end(self) -> None:
        """Ends a stream."""
        self._handler.wfile.write(b"0\r\n\r\n")
        self.has_ended = True

    def part(self, raw: bytes) -> None:
        """Sends bytes as they are, and breaks the connection."""
        self._handler.wfile.write(raw)
        self.destroy()

    def destroy(self) -> None:
        """Breaks the connection."""
        self._handler.connection.shutdown(socket.SHUT_RDWR)
        self._handler.close_connection = self.has_ended = True

    def reset(self) -> None:
        """Breaks the connection with an error."""
        linger = struct.pack("ii", 1, 0)
        self._handler.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        self._handler.rfile.close()
        self._handler.connection.close()
        self._handler.close_connection = self.has_ended = True

    def await_close(self) -> None:
        """Returns when the client has closed the connection."""
        self._handler.connection.settimeout(LONG)
        try:
            self._handler.rfile.read(1)
        except (OSError, ValueError):
            pass
        self.closed.set()
        self._handler.close_connection = True

    def _head(self, status: int, headers: Mapping[str, str]) -> None:
        (self._handler.send_response_only if "Date" in headers else self._handler.send_response)(status)
        for name, value in headers.items():
            self._handler.send_header(name, value)
        self._handler.end_headers()


Answer = Callable[[Response, int, Seen], object]


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 200

    def handle_error(self, request: Any, client_address: Any) -> None:
        pass  # clients leave


def start_server(test: unittest.TestCase, answer: Answer, seen: list[Seen]) -> str:
    """Starts a server whose n-th request is answered by answer, with n from 1, and returns its URL."""
    lock = threading.Lock()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def log_message(self, format: str, *args: Any) -> None:
            pass

        def handle_one_request(self) -> None:
            try:
                super().handle_one_request()
            except OSError:
                self.close_connection = True

        def _answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode()
            request = Seen(self.command, self.path, cast("Any", self.headers), body)
            with lock:
                seen.append(request)
                n = len(seen)
            response = Response(self)
            answer(response, n, request)
            if not response.has_ended:
                response.await_close()

        do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = do_CONNECT = _answer

    server = _Server(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    test.addCleanup(server.server_close)
    test.addCleanup(server.shutdown)
    return f"http://127.0.0.1:{server.server_address[1]}"


class Driven:
    """An AsyncClient that a test uses like a Client."""

    def __init__(self, client: AsyncClient) -> None:
        self.client = client
        self.loop = asyncio.new_event_loop()

    def __getattr__(self, name: str) -> Any:
        attribute: Any = getattr(self.client, name)
        return (lambda *args, **options: self._run(attribute(*args, **options))) if callable(attribute) else attribute

    def _run(self, result: Any) -> Any:
        if inspect.isawaitable(result):
            return self.loop.run_until_complete(cast("Any", result))
        if isinstance(result, AsyncPages):
            return _DrivenPages(self, cast("AsyncPages[Any]", result))
        return self.iterate(cast("Any", result)) if inspect.isasyncgen(result) else result

    def iterate(self, items: AsyncGenerator[Any, None]) -> Generator[Any, None, None]:
        async def following() -> Any:
            return await items.__anext__()

        try:
            while True:
                try:
                    yield self.loop.run_until_complete(following())
                except StopAsyncIteration:
                    return
        finally:
            self.loop.run_until_complete(items.aclose())


class _DrivenPages:
    def __init__(self, driven: Driven, pages: AsyncPages[Any]) -> None:
        self._driven, self._pages = driven, pages

    def __iter__(self) -> Generator[Any, None, None]:
        return self._driven.iterate(self._pages.__aiter__())

    def pages(self) -> Generator[Any, None, None]:
        return self._driven.iterate(self._pages.pages())


@dataclass
class Fixture:
    """A server for one test, and a client of it."""

    url: str
    client: Client
    seen: list[Seen]
    """The requests, in their order."""
    pauses: list[float] = field(default_factory=lambda: [])
    """The pauses that the client asked for, in seconds."""
    virtual: bool = False
    now: float = 1000.0
    """The time of the client's clock, if it is virtual: only pauses advance it."""


class ClientTest(unittest.TestCase):
    """A test of Client. A subclass with is_async runs the same tests with AsyncClient."""

    is_async = False

    def serve(self, answer: Answer, *, token: Any = "key", virtual: bool = False, **options: Any) -> Fixture:
        """Starts a server, and returns it with a client that does not pause."""
        seen: list[Seen] = []
        url = start_server(self, answer, seen)
        fixture = Fixture(url, self.client(url, token, **options), seen, virtual=virtual)
        driver: Any = cast("Any", fixture.client)._core.driver

        async def sleep(seconds: float) -> None:
            fixture.pauses.append(seconds)
            fixture.now += seconds

        driver.sleep = sleep
        if virtual:
            driver.now = lambda: fixture.now
        return fixture

    def client(self, url: str, token: Any = "key", **options: Any) -> Client:
        """Returns a client, which the test closes."""
        if not self.is_async:
            client = Client(url, token, **options)
            self.addCleanup(client.close)
            return client
        driven = Driven(AsyncClient(url, token, **options))
        self.addCleanup(driven.loop.close)
        self.addCleanup(lambda: driven.loop.run_until_complete(driven.loop.shutdown_asyncgens()))
        self.addCleanup(driven.aclose)
        return cast("Client", driven)

    def assert_headers(self, seen: list[Seen], name: str, want: list[str | None]) -> None:
        """Compares a header of all requests."""
        self.assertEqual([s.headers.get(name) for s in seen], want)


def agent(status: str, stage: str = "running") -> dict[str, Any]:
    """Returns an agent."""
    config = {"provisioning_stages": [{"name": "runtime", "status": stage}]}
    return {"id": "a", "name": "A", "status": status, "dashboard_warming": False, "config": config}


def line(message: str) -> str:
    """Returns a line of a log."""
    return json.dumps({"time": None, "message": message, "stream": "combined"}, ensure_ascii=False)


def event(id: str, message: str) -> str:
    """Returns an event with a line of a log."""
    return f"id: {id}\ndata: {line(message)}\n\n"
