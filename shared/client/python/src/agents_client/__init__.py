"""Calls the public API of the control plane: create agents, wait for them, set their secrets, read their logs."""

from ._base import AsyncPages, Page, Pages
from ._client import AsyncClient, Client
from ._drivers import AsyncToken, Token
from ._errors import AgentsError, AnswerError, APIConnectionError, APIError, OperationError, Violation
from ._model import UNSET, Model, Unset
from ._version import VERSION as __version__

__all__ = [
    "UNSET",
    "APIConnectionError",
    "APIError",
    "AgentsError",
    "AnswerError",
    "AsyncClient",
    "AsyncPages",
    "AsyncToken",
    "Client",
    "Model",
    "OperationError",
    "Page",
    "Pages",
    "Token",
    "Unset",
    "Violation",
    "__version__",
]
