"""The errors of the client."""

from __future__ import annotations

import email.utils
import json
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from .models import SecretOperation


class AgentsError(Exception):
    """The base of the errors of this package."""


@dataclass(frozen=True)
class Violation:
    """One fault of an invalid request."""

    loc: tuple[str | int, ...]
    """The path of the faulty value, such as ``("body", "env_vars", "PORT")``."""
    msg: str
    """Describes the fault."""
    type: str
    """Names the fault for programs."""
    ctx: Mapping[str, Any] = field(default_factory=lambda: {})
    """The limits that the message mentions."""

    @property
    def path(self) -> str:
        """The location in one word, such as ``body.env_vars.PORT``."""
        return ".".join(str(part) for part in self.loc)


class APIError(AgentsError):
    """An answer of the API that is no success."""

    def __init__(
        self,
        status: int,
        code: str = "",
        detail: str = "",
        violations: tuple[Violation, ...] = (),
        request_id: str = "",
        meta: Mapping[str, Any] | None = None,
        retry_after: float = 0,
        body: bytes = b"",
    ) -> None:
        super().__init__(status, code, detail, violations, request_id, meta, retry_after, body)
        self.status = status
        """The HTTP status, such as 409."""
        self.code = code
        """Names the error for programs, such as ``agent_state_conflict``. New codes may be added. It is empty if the
        answer did not come from the API, for example from a load balancer in front of it."""
        self.detail = detail
        """What happened, and what to do."""
        self.violations = violations
        """All faults of an invalid request."""
        self.request_id = request_id
        """Identifies the request for support."""
        self.meta: Mapping[str, Any] = meta or {}
        """Further values of the error, such as ``allowed_actions``."""
        self.retry_after = retry_after
        """How many seconds the API asks to wait before the next attempt; 0 if it does not say."""
        self.body = body
        """The body of the answer as it came."""

    def __str__(self) -> str:
        what = "; ".join(f"{v.path}: {v.msg}" for v in self.violations) or self.detail
        facts = f"{self.status} {self.code}".strip()
        return f"{what} ({facts}{', request ' + self.request_id if self.request_id else ''})"

    def __repr__(self) -> str:
        return f"APIError({str(self)!r})"


def is_not_found(error: Exception) -> bool:
    """Reports whether the API says that an object does not exist. The page of another server is not that."""
    return isinstance(error, APIError) and error.status == 404 and error.code != ""


class APIConnectionError(AgentsError):
    """The API could not be reached, did not answer in time, or the connection broke, as often as the client tried.

    ``__cause__`` says which.
    """


class AnswerError(AgentsError):
    """A successful answer is not what the API sends. The base URL may be that of another server."""


class OperationError(AgentsError):
    """A change of a secret failed, or its value was not stored in time."""

    def __init__(self, operation: SecretOperation) -> None:
        super().__init__(operation)
        self.operation = operation

    def __str__(self) -> str:
        o = self.operation
        if o.status == "pending":
            return f"The operation {o.id} did not store the value of {o.key} in time. Set it again."
        failure = f"failed at the stage {o.stage}: {o.error_code or 'internal_error'}."
        return f"The operation {o.id} on {o.key} {failure} Reconcile it to retry the stage."


def read_error(status: int, headers: Mapping[str, str], body: bytes) -> APIError:
    """Reads the error in an answer. The page of another server is described by its status."""
    sent = _parse(body)
    detail: Any = sent.get("detail")
    violations = tuple(_violations(cast("list[Any]", detail))) if isinstance(detail, list) else ()
    if violations:
        detail = "The request is invalid."
    elif not isinstance(detail, str) or not detail:
        detail = _unknown(status)
    meta, code = sent.get("meta"), sent.get("code")
    return APIError(
        status,
        code if isinstance(code, str) else "",
        detail,
        violations,
        headers.get("X-Request-Id") or "",
        cast("dict[str, Any]", meta) if isinstance(meta, dict) else {},
        retry_after(headers),
        body,
    )


def _parse(body: bytes) -> dict[str, Any]:
    try:
        sent = json.loads(body)
    except ValueError:
        return {}
    return cast("dict[str, Any]", sent) if isinstance(sent, dict) else {}


def _violations(listed: list[Any]) -> list[Violation]:
    objects = [cast("dict[str, Any]", v) for v in listed if isinstance(v, dict)]
    return [
        Violation(tuple(v.get("loc") or ()), str(v.get("msg")), str(v.get("type")), v.get("ctx") or {}) for v in objects
    ]


def _unknown(status: int) -> str:
    if 300 <= status < 400:
        return (
            "The server answered with a redirect, which is not followed because requests carry a token. "
            "Check the base URL."
        )
    return f"The server answered with the status {status}."


def retry_after(headers: Mapping[str, str]) -> float:
    """Returns the header Retry-After in seconds, also if it is a date; 0 if there is none.

    A date is that of the server's clock, which the header Date shows.
    """
    value = headers.get("Retry-After") or ""
    if re.fullmatch(r"[0-9]{1,9}", value):
        return int(value)
    try:
        at = _date(value)
    except (TypeError, ValueError, OverflowError):
        return 0
    try:
        sent = _date(headers.get("Date") or "")
    except (TypeError, ValueError, OverflowError):
        sent = time.time()
    return max(at - sent, 0)


def _date(text: str) -> float:
    return email.utils.parsedate_to_datetime(text).timestamp()
