"""Lists in pages, and waits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from agents_client import AgentsError, APIError, OperationError
from agents_client.models import SecretOperation

from .support import ClientTest, Response, Seen, agent


def operation(id: str, status: str, code: str | None = None, stage: str = "rollout", at: int = 0) -> dict[str, Any]:
    """Returns a secret operation."""
    time = f"2026-01-02T03:04:{at:02}Z"
    return {
        "id": id, "agent_id": "a", "key": id, "status": status, "error_code": code, "stage": stage, "updated_at": time,
    }  # fmt: skip


class ListTest(ClientTest):
    def test_pages_follow_the_cursor_and_keep_the_query(self) -> None:
        def answer(r: Response, n: int, _: Seen) -> None:
            r.json(200, [{"id": f"a{n}"}, {"id": f"b{n}"}], {"X-Next-Cursor": f"c{n}"} if n < 3 else {})

        f = self.serve(answer)
        ids = [a.id for a in f.client.list_agents(status="running")]
        self.assertEqual(ids, ["a1", "b1", "a2", "b2", "a3", "b3"])
        queries = ["status=running", "cursor=c1&status=running", "cursor=c2&status=running"]
        self.assertEqual([s.url.split("?")[1] for s in f.seen], queries)

    def test_a_page_is_read_when_it_is_needed(self) -> None:
        f = self.serve(lambda r, *_: r.json(200, [{}], {"X-Next-Cursor": "c"}))
        pages = f.client.list_api_keys(limit=1)
        self.assertEqual(len(f.seen), 0)
        for page in pages.pages():
            self.assertEqual((len(page), page.next_cursor, page.headers["X-Next-Cursor"]), (1, "c", "c"))
            break
        self.assertEqual(len(f.seen), 1)

    def test_a_list_can_be_read_again(self) -> None:
        f = self.serve(lambda r, n, _: r.json(200, [{"id": str(n)}]))
        pages = f.client.list_agents()
        self.assertEqual([[a.id for a in pages] for _ in range(2)], [["1"], ["2"]])


class AsyncListTest(ListTest):
    is_async = True


class WaitTest(ClientTest):
    def test_a_wait_reports_each_version_once(self) -> None:
        states = [agent("provisioning", "pending"), agent("provisioning"), agent("running", "succeeded")]

        def answer(r: Response, n: int, _: Seen) -> None:
            i = (n - 1) // 2  # each state twice
            r.json(200, states[i], {"ETag": f'"{i}"'})

        f = self.serve(answer)
        stages: list[str] = []
        settled = f.client.wait_until_settled(
            "a", on_change=lambda a: stages.append(a.config.provisioning_stages[0].status)
        )
        self.assertEqual(settled.status, "running")
        self.assertEqual(stages, ["pending", "running", "succeeded"])
        self.assertEqual((len(f.seen), f.seen[0].url), (5, "/api/v1/agents/a?wait=2"))

    def test_a_wait_bears_an_outage_of_less_than_two_minutes(self) -> None:
        pending = {**operation("o", "pending"), "stage": "bind"}
        waits: dict[str, Callable[[Any], Any]] = {
            "running": lambda client: client.wait_until_settled("a"),
            "succeeded": lambda client: client.wait_for_secret_operations([SecretOperation(pending)]),
            "reachable": lambda client: client.wait_until_dashboard_reachable("a"),
        }
        for status, wait in waits.items():
            for minutes, fails in ((1.8, False), (60, True)):
                with self.subTest(status, minutes=minutes):
                    f = self.serve(lambda r, n, _: answer(r, n), virtual=True, attempts=5)
                    began = 0.0

                    def answer(r: Response, n: int) -> None:
                        nonlocal began
                        if n == 2:
                            f.now += 50  # the API holds the request, which is no part of the outage
                            began = f.now
                        if n == 1:
                            r.json(200, {**agent("pending"), **pending, "retry_after_seconds": 1})
                        elif f.now < began + 60 * minutes:
                            r.problem(503, "unavailable")
                        else:
                            r.json(200, {**pending, **agent(status), "reachable": True})

                    if not fails:
                        wait(f.client)
                        continue
                    with self.assertRaises(APIError):
                        wait(f.client)
                    self.assertTrue(2 * 60 <= f.now - began < 3 * 60, f.now - began)

    def test_a_wait_for_what_was_never_shown_ends_with_the_error(self) -> None:
        f = self.serve(lambda r, *_: r.problem(503, "unavailable"))
        with self.assertRaises(APIError):
            f.client.wait_until_settled("a")
        self.assertEqual(len(f.seen), 5)

    def test_a_wait_without_reports_holds_its_requests_and_pauses_as_the_api_asks(self) -> None:
        f = self.serve(lambda r, n, _: r.json(200, agent("pending" if n < 2 else "error"), {"Retry-After": "3"}))
        self.assertEqual(f.client.wait_until_settled("a").status, "error")
        self.assertEqual((f.seen[0].url, f.pauses), ("/api/v1/agents/a?wait=50", [3]))

    def test_a_wait_for_a_deletion_ends_when_the_agent_is_gone(self) -> None:
        def answer(r: Response, n: int, _: Seen) -> None:
            r.json(200, agent("deleting")) if n < 3 else r.problem(404, "agent_not_found")

        f = self.serve(answer)
        f.client.wait_until_deleted("a")
        self.assertEqual(len(f.seen), 3)
        other = self.serve(lambda r, *_: r.json(200, agent("running")))
        with self.assertRaisesRegex(AgentsError, "is running, not being deleted"):
            other.client.wait_until_deleted("a")

    def test_a_wait_for_a_deletion_takes_no_page_of_a_proxy_for_the_end_of_the_agent(self) -> None:
        f = self.serve(lambda r, n, _: r.json(200, agent("deleting")) if n < 2 else r.send(404, b"<h1>Not found</h1>"))
        with self.assertRaisesRegex(APIError, "404"):
            f.client.wait_until_deleted("a")

    def test_a_wait_for_a_restart_ends_when_the_newest_pod_answers(self) -> None:
        warming = {**agent("running"), "dashboard_warming": True}
        states = [agent("provisioning"), warming, warming, agent("running")]
        f = self.serve(lambda r, n, _: r.json(200, states[n - 1]))
        self.assertIs(f.client.wait_until_ready("a").dashboard_warming, False)
        self.assertEqual((len(f.seen), f.pauses), (4, [1, 1, 1]))
        stopped = self.serve(lambda r, *_: r.json(200, {**warming, "status": "stopped"}))
        self.assertEqual(stopped.client.wait_until_ready("a").status, "stopped")

    def test_a_wait_ends_after_its_timeout(self) -> None:
        f = self.serve(lambda r, *_: r.json(200, agent("pending")), virtual=True)
        with self.assertRaisesRegex(TimeoutError, "The agent a is still pending after 4.5 s"):
            f.client.wait_until_settled("a", timeout=4.5)
        self.assertEqual([s.url for s in f.seen], [f"/api/v1/agents/a?wait={n}" for n in (4, 3, 2, 1, 0)])
        self.assertEqual(f.pauses, [1, 1, 1, 1, 0.5])
        running = [SecretOperation(operation("x", "running"))]
        f = self.serve(lambda r, *_: r.json(200, operation("x", "running")), virtual=True)
        with self.assertRaisesRegex(TimeoutError, "operation x has not ended after 5 s"):
            f.client.wait_for_secret_operations(running, timeout=5)

    def test_operations_are_waited_for_until_none_can_go_on(self) -> None:
        answers = {
            "x": [operation("x", "pending", at=1), operation("x", "running", at=2), operation("x", "succeeded", at=3)],
            "y": [operation("y", "pending", "agent_not_running", at=1)],
            "z": [operation("z", "failed", "rollout_timeout", at=1)],
        }
        f = self.serve(lambda r, _, s: r.json(200, answers[s.url[-1]].pop(0)))
        changes: list[str] = []
        ended = f.client.wait_for_secret_operations(
            [SecretOperation(operation("x", "pending")), SecretOperation(operation("y", "running"))],
            on_change=lambda o: changes.append(f"{o.id} {o.status}"),
        )
        self.assertEqual(changes, ["x pending", "x pending", "x running", "x succeeded", "y running", "y pending"])
        self.assertEqual([o.status for o in ended], ["succeeded", "pending"])
        with self.assertRaises(OperationError) as caught:
            f.client.wait_for_secret_operations([SecretOperation(operation("z", "running"))])
        self.assertEqual(caught.exception.operation.error_code, "rollout_timeout")

    def test_a_status_of_a_later_release_is_not_the_end(self) -> None:
        answers = [operation("x", "verifying"), operation("x", "succeeded", at=1)]
        f = self.serve(lambda r, n, _: r.json(200, answers[n - 1]))
        ended = f.client.wait_for_secret_operations([SecretOperation(operation("x", "running"))])
        self.assertEqual([o.status for o in ended], ["succeeded"])

    def test_a_value_that_was_not_stored_in_time_is_not_waited_for(self) -> None:
        storing = operation("x", "pending", stage="store")
        f = self.serve(lambda r, *_: r.json(200, storing))
        with self.assertRaisesRegex(OperationError, "did not store the value of x in time. Set it again"):
            f.client.wait_for_secret_operations([SecretOperation(storing)])
        self.assertTrue(30 < sum(f.pauses) < 40, f.pauses)

    def test_a_dashboard_is_waited_for_as_the_api_says(self) -> None:
        states = [
            {"reachable": False, "dashboard_warming": True, "retry_after_seconds": 2},
            {"reachable": True, "dashboard_warming": True, "retry_after_seconds": 0},
            {"reachable": True, "dashboard_warming": False, "retry_after_seconds": 5},
        ]
        f = self.serve(lambda r, n, _: r.json(200, states[n - 1]))
        self.assertTrue(f.client.wait_until_dashboard_reachable("a").reachable)
        self.assertEqual((len(f.seen), f.pauses), (3, [2, 0.5]))
        useless = {"reachable": False, "dashboard_warming": False, "retry_after_seconds": None}
        f = self.serve(lambda r, *_: r.json(200, useless))
        self.assertFalse(f.client.wait_until_dashboard_reachable("a").reachable)


class AsyncWaitTest(WaitTest):
    is_async = True
