"""Waits for the work that a call began."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

from ._core import LONGEST_RETRY_AFTER, OUTAGE_PATIENCE, Call, Core
from ._errors import AgentsError, APIError, OperationError, is_not_found, retry_after
from .models import Agent, DashboardReachability, SecretOperation

T = TypeVar("T")

# How many seconds one request waits for an agent, without and with reports. The API allows 55.
_LONG_WAIT, _SHORT_WAIT = 50, 2
# The pauses between reads of an operation, in seconds.
_FIRST_PAUSE, _MAX_PAUSE = 0.5, 4.0
# How long the API may take to know whether a value was stored. After that, an operation leaves the stage only with
# another request.
_LONGEST_STORING = 30.0

_AGENT = "/api/v1/agents/{agent_id}"
_OPERATION = "/api/v1/agents/{agent_id}/secret-operations/{operation_id}"


def is_settled(agent: Agent) -> bool:
    """Reports whether an agent's status does not change by itself, unlike pending, provisioning and deleting."""
    return agent.status in ("running", "paused", "stopped", "error")


def is_ready(agent: Agent) -> bool:
    """Reports whether an agent is paused, stopped, in error, or running with its newest pod."""
    return is_settled(agent) and not (agent.status == "running" and agent.dashboard_warming)


class _Limit:
    """How long a wait may last."""

    def __init__(self, core: Core, timeout: float | None) -> None:
        self._core = core
        self._timeout = timeout
        self._until = core.driver.now() + timeout if timeout is not None else float("inf")

    def left(self, what: str) -> float | None:
        """Returns the seconds that are left; None if there is no limit."""
        if self._timeout is None:
            return None
        left = self._until - self._core.driver.now()
        if left <= 0:
            raise TimeoutError(f"{what} after {self._timeout:g} s.")
        return left

    async def sleep(self, seconds: float, what: str) -> None:
        left = self.left(what)
        await self._core.driver.sleep(seconds if left is None else min(seconds, left))
        self.left(what)


async def wait_for_agent(
    core: Core,
    agent_id: str,
    done: Callable[[Agent], bool],
    on_change: Callable[[Agent], object] | None,
    timeout: float | None,
) -> Agent:
    """Reads an agent until it is done. The API holds a request while the status is not settled."""
    limit, version, what = _Limit(core, timeout), "", f"The agent {agent_id} was not read"
    outage = 0.0  # until the API has shown the agent
    while True:
        began, left = core.driver.now(), limit.left(what)
        wait = _SHORT_WAIT if on_change else _LONG_WAIT
        if left is not None:
            wait = min(wait, int(left))
        call = Call("GET", _AGENT, (agent_id,), query={"wait": wait}, timeout=left, outage=outage)
        agent, outage = await core.call(call, Agent), OUTAGE_PATIENCE
        etag = agent.headers.get("ETag") or ""
        if on_change is not None and (not etag or etag != version):
            on_change(agent)
        version, what = etag, f"The agent {agent_id} is still {agent.status}"
        if done(agent):
            return agent
        # The API answers immediately if too many requests wait already.
        pause = retry_after(agent.headers) or (1 if core.driver.now() - began < 1 else 0)
        if pause > 0:
            await limit.sleep(min(pause, LONGEST_RETRY_AFTER), what)


async def wait_until_deleted(
    core: Core, agent_id: str, on_change: Callable[[Agent], object] | None, timeout: float | None
) -> None:
    """Waits until an agent that is being deleted is gone."""
    try:
        agent = await wait_for_agent(core, agent_id, is_settled, on_change, timeout)
    except APIError as error:
        if is_not_found(error):
            return
        raise
    raise AgentsError(f"The agent {agent_id} is {agent.status}, not being deleted. Delete it before you wait.")


async def wait_for_operations(
    core: Core,
    operations: Iterable[SecretOperation],
    on_change: Callable[[SecretOperation], object] | None,
    timeout: float | None,
) -> list[SecretOperation]:
    """Waits until operations have ended. One rollout serves all, so the others are done when the first one is."""
    limit = _Limit(core, timeout)
    return [await _wait_for_operation(core, operation, on_change, limit) for operation in operations]


async def _wait_for_operation(
    core: Core, operation: SecretOperation, on_change: Callable[[SecretOperation], object] | None, limit: _Limit
) -> SecretOperation:
    ids, what = (operation.agent_id, operation.id), f"The operation {operation.id} has not ended"
    if on_change is not None:
        on_change(operation)
    unchanged, pause = 0.0, _FIRST_PAUSE
    while not _has_ended(operation):
        await limit.sleep(pause, what)
        unchanged += pause
        before = operation.updated_at
        call = Call("GET", _OPERATION, ids, timeout=limit.left(what), outage=OUTAGE_PATIENCE)
        operation = await core.call(call, SecretOperation)
        if operation.updated_at != before:
            unchanged = 0.0
            if on_change is not None:
                on_change(operation)
        if operation.status == "pending" and operation.stage == "store" and unchanged > _LONGEST_STORING:
            raise OperationError(operation)
        pause = min(pause * 1.5, _MAX_PAUSE)
    if operation.status == "failed":
        raise OperationError(operation)
    return operation


def _has_ended(operation: SecretOperation) -> bool:
    if operation.status == "pending":
        return operation.error_code == "agent_not_running"
    return operation.status in ("succeeded", "failed", "superseded", "canceled")  # a later release may have others


async def wait_until_dashboard_reachable(core: Core, agent_id: str, timeout: float | None) -> DashboardReachability:
    """Waits until an agent's dashboard answers, or waiting changes nothing."""
    limit, what = _Limit(core, timeout), f"The dashboard of the agent {agent_id} does not answer"
    path, outage = f"{_AGENT}/dashboard-reachability", 0.0
    while True:
        call = Call("GET", path, (agent_id,), timeout=limit.left(what), outage=outage)
        reachability, outage = await core.call(call, DashboardReachability), OUTAGE_PATIENCE
        after = reachability.retry_after_seconds
        if after is None or (reachability.reachable and not reachability.dashboard_warming):
            return reachability
        await limit.sleep(min(max(after, _FIRST_PAUSE), LONGEST_RETRY_AFTER), what)
