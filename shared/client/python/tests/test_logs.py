"""Logs that are read and followed."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from unittest import mock

from agents_client import AnswerError, APIConnectionError, APIError
from agents_client import _streams as streams
from agents_client.models import AgentLogLine

from .support import LONG, Answer, ClientTest, Response, Seen, agent, event, line


def messages(lines: Iterable[AgentLogLine]) -> list[str]:
    """Reads a log to its end."""
    return [line.message for line in lines]


def podless(opens: Callable[[int], bool], status: str) -> Answer:
    """The n-th stream is opened if opens(n); otherwise, the agent has no pod and the given status."""
    streams = 0

    def answer(r: Response, _: int, s: Seen) -> None:
        nonlocal streams
        if "/logs" not in s.url:
            return r.json(200, agent(status))
        streams += 1
        if opens(streams):
            return r.stream(event(str(streams), str(streams))).end()
        r.problem(409, "agent_not_running")

    return answer


class LogTest(ClientTest):
    def test_a_log_is_read_line_by_line_however_it_arrives(self) -> None:
        def answer(r: Response, *_: object) -> None:
            r.stream(kind="application/x-ndjson")
            for byte in f"{line('grün')}\n\r\n{line('two')}\r\n{line('three')}".encode():
                r.write(bytes([byte]))
            r.end()

        f = self.serve(answer)
        self.assertEqual(messages(f.client.get_agent_logs("a", tail=5, since="10m")), ["grün", "two", "three"])
        self.assertEqual(f.seen[0].url, "/api/v1/agents/a/logs?tail=5&since=10m")
        self.assert_headers(f.seen, "Accept", ["application/x-ndjson"])

    def test_a_line_is_yielded_before_the_answer_ends(self) -> None:
        read = threading.Event()

        def answer(r: Response, *_: object) -> None:
            r.stream(line("one") + "\n", "application/x-ndjson")
            self.assertTrue(read.wait(LONG))
            r.end()

        lines = self.serve(answer).client.get_agent_logs("a")
        self.assertEqual(next(lines).message, "one")
        read.set()
        self.assertEqual(messages(lines), [])

    def test_a_log_that_breaks_off_is_an_error(self) -> None:
        f = self.serve(lambda r, *_: r.stream(f'{line("one")}\n{{"mess').destroy())
        lines = f.client.get_agent_logs("a")
        self.assertEqual(next(lines).message, "one")
        with self.assertRaises(APIConnectionError):
            next(lines)

    def test_a_line_that_cannot_be_read_is_an_error(self) -> None:
        for text in ("{\n", "[]\n", '{"time": 1}\n'):
            f = self.serve(lambda r, *_: r.stream(text).end())
            with self.subTest(text), self.assertRaises(AnswerError):
                messages(f.client.get_agent_logs("a"))

    def test_a_line_without_an_end_is_an_error(self) -> None:
        f = self.serve(lambda r, *_: r.stream("x" * 5000))
        with mock.patch.object(streams, "_LONGEST", 1000), self.assertRaisesRegex(AnswerError, "too long"):
            messages(f.client.get_agent_logs("a"))

    def test_a_log_that_cannot_be_opened_is_repeated(self) -> None:
        f = self.serve(lambda r, n, _: r.problem(503, "later") if n < 3 else r.stream(line("one")).end())
        self.assertEqual(messages(f.client.get_agent_logs("a")), ["one"])

    def test_leaving_the_loop_closes_the_connection(self) -> None:
        responses: list[Response] = []

        def answer(r: Response, *_: object) -> None:
            responses.append(r)
            r.stream(line("one") + "\n")

        lines = self.serve(answer).client.get_agent_logs("a")
        next(lines)
        lines.close()
        self.assertTrue(responses[0].closed.wait(LONG))


class AsyncLogTest(LogTest):
    is_async = True


class FollowLogTest(ClientTest):
    def test_a_follower_continues_after_the_last_event_until_the_agent_has_stopped(self) -> None:
        def answer(r: Response, n: int, _: Seen) -> object:
            match n:
                case 1:  # the connection breaks in the middle of an event
                    text = f"retry: 7\n\n{event('1', 'one')}: heartbeat\n\n{event('2', 'two')}id: 3\ndata: {{"
                    return r.stream(text).destroy()
                case 2:
                    return r.destroy()
                case 3:
                    return r.problem(503, "cluster_unavailable")
                case 4:  # the answer ends
                    return r.stream(f"{event('3', 'three')}event: later\ndata: other\n\n").end()
                case 5:  # while it restarts
                    return r.problem(409, "agent_not_running")
                case 6:
                    return r.json(200, agent("running"))
                case 7:
                    return r.stream(event("4", "four")).end()
                case 8:
                    return r.problem(409, "agent_not_running")
            return r.json(200, agent("stopped"))

        f = self.serve(answer)
        ids: list[str] = []
        got = messages(f.client.follow_logs("a", tail=1, on_event=ids.append))
        self.assertEqual(got, ["one", "two", "three", "four"])
        self.assertEqual(ids, ["1", "2", "3", "4"])
        logs = [s for s in f.seen if s.url.endswith("/logs?tail=1&follow=true")]
        self.assert_headers(logs, "Last-Event-ID", [None, "2", "2", "2", "3", "3", "4"])
        self.assert_headers(logs, "Accept", ["text/event-stream"] * 7)
        self.assertEqual(f.pauses[0], 0.007)

    def test_a_follower_takes_no_page_of_a_proxy_for_the_end_of_the_agent(self) -> None:
        def answer(r: Response, n: int, _: Seen) -> None:
            r.stream(event("1", "1")).end() if n == 1 else r.send(404, b"<h1>Not found</h1>")

        f = self.serve(answer)
        with self.assertRaisesRegex(APIError, "404"):
            messages(f.client.follow_logs("a"))

    def test_a_follower_that_never_was_connected_raises_the_error(self) -> None:
        f = self.serve(lambda r, *_: r.problem(409, "agent_not_running"))
        with self.assertRaises(APIError) as caught:
            messages(f.client.follow_logs("a"))
        self.assertEqual((caught.exception.code, len(f.seen)), ("agent_not_running", 1))

    def test_a_follower_of_a_quiet_log_outlives_many_cut_connections(self) -> None:
        def answer(r: Response, n: int, _: Seen) -> None:
            if n <= 20:
                return r.stream("retry: 1\n\n: heartbeat\n\n").destroy()
            r.stream(event("1", "one")).end() if n == 21 else r.problem(404, "agent_not_found")

        f = self.serve(answer)
        self.assertEqual(messages(f.client.follow_logs("a")), ["one"])
        self.assertEqual(len(f.seen), 22)

    def test_a_follower_waits_for_the_pod_for_more_than_five_minutes(self) -> None:
        for status in ("running", "provisioning", "pending"):
            with self.subTest(status):
                f = self.serve(podless(lambda n: n == 1, status), virtual=True, attempts=1)
                lines, began = f.client.follow_logs("a"), f.now
                self.assertEqual(next(lines).message, "1")
                with self.assertRaisesRegex(APIError, "agent_not_running"):
                    next(lines)
                self.assertTrue(5 * 60 < f.now - began < 8 * 60, f.now - began)

    def test_a_follower_goes_on_in_the_pod_that_an_agent_gets_after_four_minutes(self) -> None:
        f = self.serve(podless(lambda n: n in (1, 12), "running"), virtual=True, attempts=1)
        lines = f.client.follow_logs("a")
        self.assertEqual([next(lines).message, next(lines).message], ["1", "12"])
        lines.close()

    def test_a_follower_ends_with_its_agent(self) -> None:
        for status in ("stopped", "paused", "error", "deleting"):
            with self.subTest(status):
                f = self.serve(podless(lambda n: n == 1, status))
                self.assertEqual(messages(f.client.follow_logs("a")), ["1"])

    def test_a_follower_gives_up_when_the_api_is_out_of_reach_for_two_minutes(self) -> None:
        def answer(r: Response, n: int, _: Seen) -> None:
            r.stream(event("1", "one")).end() if n == 1 else r.destroy()

        f = self.serve(answer, virtual=True, attempts=1)
        began = f.now
        with self.assertRaises(APIConnectionError):
            messages(f.client.follow_logs("a"))
        self.assertTrue(2 * 60 < f.now - began < 4 * 60, f.now - began)

    def test_a_follower_starts_after_the_given_event_and_leaving_it_closes_the_connection(self) -> None:
        responses: list[Response] = []

        def answer(r: Response, *_: object) -> None:
            responses.append(r)
            r.stream(event("8", "one"))

        f = self.serve(answer)
        ids: list[str] = []
        lines = f.client.follow_logs("a", last_event_id="7", on_event=ids.append)
        self.assertEqual(next(lines).message, "one")
        self.assertEqual(ids, ["8"])  # before its line is handled
        lines.close()
        self.assertTrue(responses[0].closed.wait(LONG))
        self.assert_headers(f.seen, "Last-Event-ID", ["7"])

    def test_a_follower_leaves_a_stream_that_is_silent_for_a_minute(self) -> None:
        f = self.serve(lambda r, n, _: r.stream(event("1", "one")) if n == 1 else r.problem(404, "agent_not_found"))
        self.assertEqual(streams.EVENTS_SILENCE, 60)
        with mock.patch.object(streams, "EVENTS_SILENCE", 0.05):
            self.assertEqual(messages(f.client.follow_logs("a")), ["one"])
        self.assertEqual(len(f.seen), 2)


class AsyncFollowLogTest(FollowLogTest):
    is_async = True
