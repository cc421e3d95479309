"""What the generated models and methods are made of."""

from __future__ import annotations

import enum
import json
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timezone
from typing import Any, ClassVar, Final, TypeVar, cast

T = TypeVar("T")

Decoder = Callable[[Any], Any]


class Unset(enum.Enum):
    """The type of UNSET."""

    UNSET = "UNSET"

    def __repr__(self) -> str:
        return "UNSET"


UNSET: Final = Unset.UNSET
"""The default of parameters whose None is sent as null. A parameter with this value is left out."""


class Model:
    """An object of an answer.

    The attributes are the fields that this version of the package knows. An optional field that is absent is None.
    ``raw`` is the object as it came, also with fields of a later release. ``headers`` are those of the answer, such
    as ``ETag``; they are empty for a part of another object.
    """

    _fields: ClassVar[Mapping[str, Decoder | None]] = {}
    # Fields whose values repr does not show.
    _hidden: ClassVar[frozenset[str]] = frozenset()

    raw: dict[str, Any]
    headers: Mapping[str, str]

    def __init__(self, raw: Any) -> None:
        if not isinstance(raw, dict):
            raise TypeError(f"{type(self).__name__} is no object")
        self.raw = cast("dict[str, Any]", raw)
        self.headers = {}
        for name, decode in self._fields.items():
            value = self.raw.get(name)
            setattr(self, name, value if value is None or decode is None else decode(value))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Model) and type(self) is type(other) and self.raw == other.raw

    def __repr__(self) -> str:
        shown = (f"{name}={self._shown(name)}" for name in self._fields)
        return f"{type(self).__name__}({', '.join(shown)})"

    def _shown(self, name: str) -> str:
        value = getattr(self, name)
        return "<hidden>" if name in self._hidden and value is not None else repr(value)


def listed(decode: Callable[[Any], T]) -> Callable[[Any], list[T]]:
    """Returns a decoder of lists."""
    return lambda values: [decode(value) for value in values]


def mapped(decode: Callable[[Any], T]) -> Callable[[Any], dict[str, T]]:
    """Returns a decoder of objects with keys of the user's own."""
    return lambda values: {name: decode(value) for name, value in values.items()}


def plain(value: Any) -> Any:
    """Decodes a value that is the same in Python."""
    return value


def nothing(_: Any) -> None:
    """Decodes an answer without a body."""


_TIME = re.compile(r"(\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d)(\.\d+)?([Zz]|[+-]\d\d:\d\d)")


def timestamp(text: str) -> datetime:
    """Decodes a time. Python 3.10 reads neither Z nor nanoseconds, and no Python keeps nanoseconds."""
    match = _TIME.fullmatch(text)
    if match is None:
        raise ValueError("a time is not in the format of RFC 3339")
    seconds, fraction, zone = match.groups()
    micros = (fraction or ".")[1:7].ljust(6, "0")
    return datetime.fromisoformat(f"{seconds.upper()}.{micros}{'+00:00' if zone in 'Zz' else zone}")


def time_text(value: datetime) -> str:
    """Encodes a time."""
    if value.tzinfo is None:
        raise ValueError("A time needs a time zone: datetime.now(timezone.utc), for example.")
    return value.astimezone(timezone.utc).isoformat().replace("+00:00", "Z")


def fields(sent: Mapping[str, Any], optional: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the fields of a body: those of ``sent`` that are not UNSET, and those of ``optional`` that are given."""
    body = {name: value for name, value in sent.items() if value is not UNSET}
    return body | {name: value for name, value in optional.items() if value is not None}


def encode(body: Any) -> bytes:
    """Encodes a body as JSON."""
    return json.dumps(body, default=_encodable, allow_nan=False, separators=(",", ":"), ensure_ascii=False).encode()


def _encodable(value: Any) -> Any:
    if isinstance(value, Model):
        return value.raw
    if isinstance(value, datetime):
        return time_text(value)
    if isinstance(value, Mapping):
        return dict(cast("Mapping[Any, Any]", value))
    if isinstance(value, Sequence) and not isinstance(value, (bytes, bytearray)):
        return list(cast("Sequence[Any]", value))
    raise TypeError(f"A value of the type {type(value).__name__} cannot be sent as JSON.")


def query_text(values: Mapping[str, Any]) -> dict[str, str]:
    """Returns the query parameters that are given, as text."""
    return {name: _text(value) for name, value in values.items() if value is not None}


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return time_text(value) if isinstance(value, datetime) else str(value)
