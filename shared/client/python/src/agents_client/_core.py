"""What every call obeys: how it is sent, repeated and read."""

from __future__ import annotations

import http.client
import json
import logging
import random
import re
import ssl
import urllib.parse
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NoReturn, TypeVar

from ._drivers import Driver
from ._errors import AgentsError, AnswerError, APIConnectionError, APIError, read_error
from ._model import encode, query_text
from ._wire import Exchange, Wire

T = TypeVar("T")

JSON = "application/json"
LINES = "application/x-ndjson"
EVENTS = "text/event-stream"
BYTES = "application/octet-stream"
ARCHIVE = "application/x-tar"

# How many seconds a request waits for its answer. The API holds a request for a minute at most.
PATIENCE = 120.0
# How many seconds the API may be out of reach before a follower or a wait gives up.
OUTAGE_PATIENCE = 120.0

# The pauses between attempts, in seconds, and the longest one that the API may ask for.
FIRST_PAUSE, MAX_PAUSE = 0.25, 8.0
LONGEST_RETRY_AFTER = 60.0

# How many bytes are read of an answer that is no stream, and of one that is an error.
MAX_BODY = 64 << 20
MAX_ERROR_BODY = 1 << 20

_log = logging.getLogger("agents_client")


@dataclass(frozen=True)
class Call:
    """One call: an operation with its parameters."""

    method: str
    path: str
    ids: tuple[str, ...] = ()
    query: Mapping[str, Any] = field(default_factory=lambda: {})
    # A body in JSON, and one of bytes; None for none.
    body: Any = None
    content: bytes | None = None
    content_type: str = JSON
    accept: str = JSON
    headers: Mapping[str, str | None] = field(default_factory=lambda: {})
    dry_run: bool = False
    # How many seconds the call may take with its repeats; None for no limit.
    timeout: float | None = None
    # How many seconds the API may hold the request in addition to the usual.
    held: float = 0
    # For how many seconds after its first failure the call is repeated, if its attempts take less; one that is sent
    # once is not.
    outage: float = 0


@dataclass(frozen=True)
class _Request:
    """What each attempt of a call sends."""

    method: str
    target: str
    body: bytes | None
    headers: Mapping[str, str]


class Core:
    """Sends calls, whichever way its driver waits."""

    def __init__(
        self, base_url: str, driver: Driver, *, attempts: int, user_agent: str | None, context: ssl.SSLContext | None
    ) -> None:
        base = check_base_url(base_url)
        self.driver = driver
        self.wire = Wire(base, context)
        self.origin = f"{base.scheme}://{base.netloc}"
        self._prefix = base.path.rstrip("/")
        self._attempts = attempts
        self._user_agent = f"{user_agent} agents-python" if user_agent else "agents-python"

    async def call(self, call: Call, decode: Callable[[Any], T]) -> T:
        """Sends a call, and decodes its answer."""
        body, headers = await self.content(call)
        try:
            result = decode(json.loads(body) if body else None)
        except (ValueError, TypeError, AttributeError, KeyError) as error:
            raise AnswerError(
                f"The answer to {call.method} {call.path} is not the expected JSON. Check the base URL."
            ) from error
        if hasattr(result, "headers"):
            result.headers = headers  # type: ignore[attr-defined]
        return result

    async def content(self, call: Call) -> tuple[bytes, Mapping[str, str]]:
        """Sends a call, and returns the body and the headers of its answer."""
        return await self._retry(call, self._fetch)

    async def open(self, call: Call) -> Exchange:
        """Sends a call, and returns the exchange, whose body the caller reads and closes."""
        return await self._retry(call, self._begin)

    async def read(self, exchange: Exchange, timeout: float, what: str) -> bytes:
        """Returns the next bytes of an answer; none at its end."""
        try:
            return await self.driver.run(lambda: exchange.read(timeout))
        except (OSError, http.client.HTTPException) as error:
            _broken(what, error)

    async def _retry(self, call: Call, send: Callable[[_Request, str, float], Any]) -> Any:
        """Sends a call until it succeeds, fails for good, or was sent often enough.

        Every request is safe to repeat: it reads, or it has an idempotency key.
        """
        request, now = self._request(call), self.driver.now
        deadline = now() + call.timeout if call.timeout is not None else float("inf")
        token, is_renewed, attempt, failing = "", False, 1, 0.0
        refusal: APIError | None = None  # of the token that must be replaced
        while True:
            try:
                following = await self._token(token if refusal else None)
                if refusal is not None:
                    is_renewed = True
                    if following == token:
                        raise refusal
                    refusal = None
                token = following
                return await send(request, token, min(now() + PATIENCE + call.held, deadline))
            except (APIError, APIConnectionError) as error:
                if isinstance(error, APIError) and error.status == 401 and not is_renewed:
                    refusal = error
                    continue
                failing = failing or now()
                is_late = isinstance(error, APIConnectionError) and now() >= deadline
                if not is_late and (self._is_over(attempt, now() - failing, call) or not may_pass(error)):
                    raise
                pause = _pause(attempt, error)
                if now() + pause >= deadline:
                    raise TimeoutError(f"No time was left to repeat {call.method} {call.path}: {error}") from error
                _log.info("%s %s: %s It is repeated in %.1f s.", call.method, call.path, error, pause)
            await self.driver.sleep(pause)
            attempt += 1

    def _is_over(self, attempt: int, seconds: float, call: Call) -> bool:
        return attempt >= self._attempts and (self._attempts == 1 or seconds >= call.outage)

    async def _token(self, refused: str | None) -> str:
        token = await self.driver.token(refused)
        if re.search(r"[^\x21-\x7e]", token):  # the standard library's error would show it
            raise ValueError(
                "The API token has a space, a line break or another character that a token cannot have. "
                "Check how it was copied or read from its file."
            )
        return token

    async def _fetch(self, request: _Request, token: str, until: float) -> tuple[bytes, Mapping[str, str]]:
        exchange = await self._begin(request, token, until)
        try:
            return await self._body(exchange, until, MAX_BODY, request), exchange.headers
        finally:
            exchange.close()

    async def _begin(self, request: _Request, token: str, until: float) -> Exchange:
        headers = {**request.headers, **({"Authorization": f"Bearer {token}"} if token else {})}
        exchange, timeout = Exchange(self.wire), until - self.driver.now()
        what = f"{request.method} {self.origin}{request.target.partition('?')[0]}"
        try:
            await self.driver.run(
                lambda: exchange.send(request.method, request.target, request.body, headers, timeout)
            )
            if not 200 <= exchange.status < 300:
                raise read_error(exchange.status, exchange.headers, await self._error_body(exchange, until, request))
        except BaseException as error:
            exchange.close()
            if isinstance(error, (OSError, http.client.HTTPException)):
                _broken(what, error)
            raise
        return exchange

    async def _body(self, exchange: Exchange, until: float, most: int, request: _Request) -> bytes:
        body = bytearray()
        while part := await self.read(exchange, until - self.driver.now(), f"{request.method} {request.target}"):
            body += part
            if len(body) > most:
                raise AnswerError(f"The answer to {request.method} {request.target} is longer than {most >> 20} MiB.")
        return bytes(body)

    async def _error_body(self, exchange: Exchange, until: float, request: _Request) -> bytes:
        try:
            return await self._body(exchange, until, MAX_ERROR_BODY, request)
        except AgentsError:
            return b""  # the status is known, so an answer that breaks off is no other error

    def _request(self, call: Call) -> _Request:
        """Checks a call and encodes it."""
        target = self._prefix + _fill(call)
        query = query_text(call.query)
        if call.dry_run:
            query["dry_run"] = "true"
        if query:
            target += "?" + urllib.parse.urlencode(query, quote_via=urllib.parse.quote)
        body = call.content if call.body is None else encode(call.body)
        headers = {"User-Agent": self._user_agent, "Accept": call.accept}
        if body is not None:
            headers["Content-Type"] = call.content_type
        if call.method != "GET":
            headers["Idempotency-Key"] = str(uuid.uuid4())
        headers |= {name: value for name, value in call.headers.items() if value is not None}
        for name, value in headers.items():
            if re.search(r"[^\t\x20-\x7e]", value):
                raise ValueError(f"The header {name} has a character that headers cannot have, such as a line break.")
        return _Request(call.method, target, body, headers)


def _broken(what: str, error: Exception) -> NoReturn:
    raise APIConnectionError(
        f"{what}: the connection to the API failed: {error or type(error).__name__}. "
        "Check the network and the base URL."
    ) from error


def may_pass(error: Exception) -> bool:
    """Reports whether a request that failed may succeed later."""
    if isinstance(error, APIConnectionError):
        return not isinstance(error.__cause__, ssl.SSLCertVerificationError)
    if not isinstance(error, APIError):
        return False
    passing = error.status in (408, 429, 502, 503, 504) or (
        error.status == 409 and error.code == "idempotency_in_progress"
    )
    return passing and error.retry_after <= LONGEST_RETRY_AFTER


def _pause(attempt: int, error: Exception) -> float:
    """Returns how long to wait after an attempt.

    It is what the API asks for and up to a quarter more, or else a random time that doubles, so that clients which
    failed together do not return together.
    """
    if isinstance(error, APIError) and error.retry_after > 0:
        return error.retry_after * (1 + random.random() / 4)
    return min(FIRST_PAUSE * 2 ** (attempt - 1), MAX_PAUSE) * (1 + random.random()) / 2


def _fill(call: Call) -> str:
    """Puts the ids into a path. An empty one would name another resource."""
    path = call.path
    names: list[str] = re.findall(r"\{(\w+)\}", path)
    for name, value in zip(names, call.ids):
        if not isinstance(value, str) or value in ("", ".", ".."):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ValueError(f"{call.method} {call.path}: {name} must be an id, not {value!r}.")
        path = path.replace("{" + name + "}", urllib.parse.quote(value, safe=""))
    return path


_FORM = "The API's base URL must look like https://api.example.com."


def check_base_url(text: str) -> urllib.parse.SplitResult:
    """Returns the parts of a base URL. It must use https, except for loopback addresses."""
    try:
        base = urllib.parse.urlsplit(text)
        host, _ = base.hostname, base.port
    except ValueError:
        raise ValueError(_FORM) from None
    if base.scheme not in ("http", "https") or not host or "@" in base.netloc or base.query or base.fragment:
        raise ValueError(_FORM)
    if re.search(r"[^\x21-\x7e]", text):
        raise ValueError(_FORM)
    if base.scheme == "http" and not re.fullmatch(r"(.+\.)?localhost|127(\.[0-9]+){3}|::1", host):
        raise ValueError(
            f"The API's base URL must use https, because http shows the token to the network: {base.scheme}://{host}."
        )
    return base
