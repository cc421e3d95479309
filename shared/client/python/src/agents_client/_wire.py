"""Connections to the API: blocking, and without any rule about what to send."""

from __future__ import annotations

import base64
import http.client
import socket
import ssl
import threading
import time
import urllib.parse
import urllib.request
from collections.abc import Callable, Mapping
from typing import Any, TypeVar, cast

from ._errors import AgentsError

T = TypeVar("T")

# How many bytes one read returns at most.
_PART = 64 << 10

# How many connections wait for the next request, and for how many seconds.
_MOST_IDLE = 16
_LONGEST_IDLE = 30.0


class Exchange:
    """One request and its answer. Its methods block, except ``close``, which any thread may call."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire
        self._lock = threading.Lock()
        self._is_busy = self._is_closed = self._is_cut = False
        self._connection: http.client.HTTPConnection | None = None
        self._socket: socket.socket | None = None
        self._response: http.client.HTTPResponse | None = None
        self.status = 0
        self.headers: Mapping[str, str] = {}

    def send(self, method: str, target: str, body: bytes | None, headers: Mapping[str, str], timeout: float) -> None:
        """Sends the request, and returns when the header of the answer is there."""
        self._busy(lambda: self._send(method, target, body, headers, timeout))

    def read(self, timeout: float) -> bytes:
        """Returns the next bytes of the body as they arrive; none at its end."""
        return self._busy(lambda: self._read(timeout))

    def close(self) -> None:
        """Releases the connection. It is used again if the body was read to its end.

        If another thread is in one of the methods, that one fails, and releases the connection.
        """
        with self._lock:
            self._is_closed = True
            if self._is_busy:
                self._is_cut = True
                if self._socket is not None:
                    _shut(self._socket)
                return
        self._release()

    def _busy(self, work: Callable[[], T]) -> T:
        with self._lock:
            self._check_open()
            self._is_busy = True
        try:
            return work()
        finally:
            with self._lock:
                self._is_busy = False
                is_closed = self._is_closed
            if is_closed:
                self._release()

    def _check_open(self) -> None:
        if self._is_closed:
            raise ConnectionAbortedError("the request was canceled")

    def _send(self, method: str, target: str, body: bytes | None, headers: Mapping[str, str], timeout: float) -> None:
        until = time.monotonic() + timeout
        while connection := self._wire.take():
            try:
                return self._try(connection, until, method, target, body, headers)
            except (ConnectionError, http.client.RemoteDisconnected):
                connection.close()  # the server closed it when it was idle
                self._check_open()
        self._try(self._wire.connect(timeout), until, method, target, body, headers)

    def _try(
        self,
        connection: http.client.HTTPConnection,
        until: float,
        method: str,
        target: str,
        body: bytes | None,
        headers: Mapping[str, str],
    ) -> None:
        with self._lock:
            self._connection, self._socket = connection, connection.sock
            self._check_open()
        connection.sock.settimeout(_positive(until - time.monotonic()))
        try:
            connection.request(method, target, body, dict(headers))
        except (ConnectionError, ssl.SSLEOFError) as error:
            # A server that refuses a large body answers before its end, and closes the connection then.
            try:
                self._response = connection.getresponse()
            except (OSError, http.client.HTTPException):
                raise error from None
            self._is_cut = True
        else:
            self._response = connection.getresponse()
        self.status = self._response.status
        self.headers = cast("Mapping[str, str]", self._response.headers)  # whose names have any case

    def _read(self, timeout: float) -> bytes:
        response = self._response
        if response is None or response.isclosed():
            return b""
        if self._socket is not None:
            self._socket.settimeout(_positive(timeout))
        left = response.length
        if left is None:  # in chunks, or until the connection closes
            return response.read1(_PART)
        part = response.read(min(left, _PART))
        if left and not part:
            raise http.client.IncompleteRead(b"", left)
        return part

    def _release(self) -> None:
        with self._lock:
            connection, response = self._connection, self._response
            self._connection = self._socket = None
        if connection is None:
            return
        if response is not None and response.isclosed() and connection.sock and not self._is_cut:
            self._wire.keep(connection)
            return
        if response is not None:
            response.close()
        connection.close()


def _positive(timeout: float) -> float:
    if timeout <= 0:
        raise TimeoutError("timed out")
    return timeout


def _shut(sock: socket.socket) -> None:
    try:
        socket.socket.shutdown(sock, socket.SHUT_RDWR)  # not that of TLS, which is no method for two threads
    except OSError:
        pass  # it is closed


class _Response(http.client.HTTPResponse):
    """An answer whose header must be whole. The standard library takes the end of a connection for that of a header."""

    def begin(self) -> None:
        stream: Any = self.fp
        self.fp = cast("Any", _Header(stream))
        super().begin()
        if not self.isclosed():
            self.fp = stream


class _Header:
    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self.close, self.flush = stream.close, stream.flush

    def readline(self, limit: int) -> bytes:
        line: bytes = self._stream.readline(limit)
        if len(line) < limit and not line.endswith(b"\n"):
            raise http.client.RemoteDisconnected("Remote end closed connection without a whole response")
        return line


class Wire:
    """Connects to one server, and keeps connections for further requests."""

    def __init__(self, base: urllib.parse.SplitResult, context: ssl.SSLContext | None) -> None:
        self._host = base.hostname or ""
        self._port = base.port
        self._is_secure = base.scheme == "https"
        self._context = (context or ssl.create_default_context()) if self._is_secure else None
        self._lock = threading.Lock()
        self._idle: list[tuple[float, http.client.HTTPConnection]] = []

    def take(self) -> http.client.HTTPConnection | None:
        """Returns a connection that waited for a request; None if there is none."""
        while True:
            with self._lock:
                if not self._idle:
                    return None
                since, connection = self._idle.pop()
            if time.monotonic() - since < _LONGEST_IDLE:
                return connection
            connection.close()

    def keep(self, connection: http.client.HTTPConnection) -> None:
        """Keeps a connection whose answer was read."""
        with self._lock:
            if len(self._idle) < _MOST_IDLE:
                self._idle.append((time.monotonic(), connection))
                return
        connection.close()

    def close(self) -> None:
        """Closes the connections that wait."""
        with self._lock:
            idle, self._idle = self._idle, []
        for _, connection in idle:
            connection.close()

    def connect(self, timeout: float) -> http.client.HTTPConnection:
        """Returns a new connection."""
        timeout = _positive(timeout)
        if not self._is_secure:
            connection = http.client.HTTPConnection(self._host, self._port, timeout=timeout)
        else:
            connection = self._secure(timeout)
        connection.response_class = _Response
        try:
            connection.connect()
        except BaseException:
            connection.close()
            raise
        _keep_alive(connection.sock)
        return connection

    def _secure(self, timeout: float) -> http.client.HTTPSConnection:
        proxy = urllib.request.getproxies().get("https")
        if not proxy or urllib.request.proxy_bypass(self._host):
            return http.client.HTTPSConnection(self._host, self._port, timeout=timeout, context=self._context)
        via = urllib.parse.urlsplit(proxy if "://" in proxy else "//" + proxy)
        if not via.hostname:
            raise AgentsError("The address of the proxy in HTTPS_PROXY must look like http://proxy.example.com:3128.")
        connection = http.client.HTTPSConnection(via.hostname, via.port or 80, timeout=timeout, context=self._context)
        connection.set_tunnel(self._host, self._port, _proxy_headers(via))
        return connection


def _proxy_headers(proxy: urllib.parse.SplitResult) -> dict[str, str]:
    if proxy.username is None:
        return {}
    pair = f"{urllib.parse.unquote(proxy.username)}:{urllib.parse.unquote(proxy.password or '')}"
    return {"Proxy-Authorization": "Basic " + base64.b64encode(pair.encode()).decode()}


def _keep_alive(sock: socket.socket) -> None:
    """Makes the system notice that a silent connection is lost."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (("TCP_KEEPIDLE", 15), ("TCP_KEEPINTVL", 15), ("TCP_KEEPCNT", 9)):
        if hasattr(socket, name):
            sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
