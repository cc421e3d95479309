"""Events that are followed without losing or repeating one."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from typing import Any

from agents_client import APIConnectionError, APIError, AnswerError

from .support import LONG, Answer, ClientTest, Fixture, Response, Seen

# The id of the newest event. The events 3 and 6 do not match the filter, so that only the cursor moves.
LAST = 6


def text_after(cursor: int) -> str:
    """Returns what a stream sends after an event."""
    text = "retry: 7\n\n"
    for id in range(cursor + 1, LAST + 1):
        body = f"id: {id}\nevent: agent.running\ndata: {{\"id\": \"{id}\"}}" if id % 3 else f": heartbeat\nid: {id}"
        text += f"{body}\n\n"
    return text


Part = Callable[[Response, str], Any]


def whole(r: Response, text: str) -> None:
    r.stream(text).end()


def breaks(r: Response, text: str) -> None:
    r.stream(text).destroy()


def refused(status: int, code: str) -> Part:
    return lambda r, _: r.problem(status, code)


def cut(how: Part, bytes: int) -> Part:
    return lambda r, text: how(r, text[:bytes])


down = refused(503, "store_unavailable")


def page(r: Response, _: str) -> None:
    """Answers as another server does, such as a proxy."""
    r.send(200, b"<html>\n\nSign in to the network\n\n</html>\n", {"Content-Type": "text/html"})


def script(*parts: Part) -> Answer:
    """Answers with a script of streams, and then that the cursor has expired. The newest event is 0 at the list."""
    left = list(parts)

    def answer(r: Response, _: int, s: Seen) -> None:
        if not s.url.startswith("/api/v1/events/stream"):
            return r.json(200, [], {"X-Event-Cursor": "0"})
        part = left.pop(0) if left else refused(400, "cursor_expired")
        part(r, text_after(int(s.headers.get("Last-Event-ID") or 0)))

    return answer


def follow(f: Fixture, **options: Any) -> tuple[str, Exception]:
    """Returns the ids of the events, and the error that ended them."""
    ids: list[str] = []
    try:
        for event in f.client.follow_events(**options):
            ids.append(event.id)
    except Exception as error:
        return " ".join(ids), error
    raise AssertionError("the events ended without an error")


class EventTest(ClientTest):
    # A stream is cut after each of its bytes.
    step = 1

    def test_no_event_is_lost_or_repeated_wherever_a_stream_is_cut(self) -> None:
        for how in (breaks, whole):
            for bytes in range(1, len(text_after(0)) + 1, self.step):
                with self.subTest(how=how, bytes=bytes):
                    answers = partial(script(cut(how, bytes), down, whole))
                    f = self.reuse(answers)
                    ids, error = follow(f)
                    self.assertEqual(ids, "1 2 4 5")
                    self.assertEqual(getattr(error, "code", error), "cursor_expired")
                    cursors = [s.headers.get("Last-Event-ID") for s in f.seen[1:]]
                    self.assertEqual((cursors[0], cursors[-1]), ("0", str(LAST)))

    def reuse(self, answer: Answer) -> Fixture:
        """Returns one fixture for many answers."""
        if not hasattr(self, "_fixture"):
            self._fixture = self.serve(lambda r, n, s: self._answer(r, n, s), attempts=1)
        self._answer = answer
        self._fixture.seen.clear()
        return self._fixture

    def test_a_stream_that_is_cut_before_its_first_byte_resumes_from_the_newest_event(self) -> None:
        # The first request is sent again, because its connection was used before and may have been closed by then.
        broken: Part = lambda r, _: r.destroy()  # noqa: E731
        f = self.serve(script(broken, broken, whole), attempts=1)
        ids, error = follow(f)
        self.assertEqual(ids, "")
        self.assertIsInstance(error, APIConnectionError)  # as of a server that does not exist
        self.assert_headers(f.seen[1:], "Last-Event-ID", ["0", "0"])
        f = self.serve(script(cut(breaks, 0), cut(breaks, 0), whole), attempts=1)
        self.assertEqual(follow(f)[0], "1 2 4 5")
        self.assert_headers(f.seen[1:], "Last-Event-ID", ["0", "0", "0", "6"])

    def test_events_are_followed_until_an_error_is_permanent(self) -> None:
        rows: dict[str, tuple[list[Part], str, str]] = {
            "an outage of an hour": ([cut(breaks, 60), *[down] * 150, whole], "1 2 4 5", "cursor_expired"),
            "a page of a proxy between streams": ([whole, page, whole], "1 2 4 5", "cursor_expired"),
            "a token that was revoked": ([whole, refused(401, "invalid_token")], "1 2 4 5", "invalid_token"),
            "access that was withdrawn": ([whole, refused(403, "role_required")], "1 2 4 5", "role_required"),
            "a refusal of the first stream": ([refused(403, "role_required")], "", "role_required"),
            "an API that is down from the first stream": ([down], "", "store_unavailable"),
        }
        for name, (parts, want, code) in rows.items():
            with self.subTest(name):
                ids, error = follow(self.serve(script(*parts), virtual=True, attempts=1))
                self.assertEqual((ids, getattr(error, "code", error)), (want, code))

    def test_events_are_followed_from_a_cursor_with_the_filter_after_the_pause_that_the_api_asks_for(self) -> None:
        f = self.serve(script(whole))
        ids, error = follow(f, cursor="2", agent_id="a", type="agent.running")
        self.assertEqual(ids, "4 5")
        self.assertIsInstance(error, APIError)
        self.assertEqual([s.url for s in f.seen], ["/api/v1/events/stream?agent_id=a&type=agent.running"] * 2)
        self.assert_headers(f.seen, "Last-Event-ID", ["2", "6"])
        self.assertEqual(f.pauses, [0.007])

    def test_a_page_of_another_server_is_no_stream(self) -> None:
        f = self.serve(script(page), attempts=1)
        self.assertRegex(str(follow(f)[1]), "no stream of events")
        self.assert_headers(f.seen[1:], "Last-Event-ID", ["0"])

    def test_an_event_that_cannot_be_read_is_an_error(self) -> None:
        f = self.serve(script(lambda r, _: r.stream("data: {\n\n").end()))
        self.assertIsInstance(follow(f)[1], AnswerError)
        self.assertEqual(len(f.seen), 2)

    def test_an_event_is_yielded_before_the_next_one_arrives(self) -> None:
        read = threading.Event()

        def slow(r: Response, text: str) -> None:
            r.stream('id: 1\ndata: {"id": "1"}\n\n')
            self.assertTrue(read.wait(LONG))
            r.write('id: 2\ndata:{"id":\ndata: "2"}\r\n\r\n')
            r.end()

        events = self.serve(script(slow)).client.follow_events()
        self.assertEqual(next(events).id, "1")
        read.set()
        self.assertEqual(next(events).id, "2")
        events.close()

    def test_the_events_of_one_answer_are_lines(self) -> None:
        f = self.serve(lambda r, *_: r.stream('{"id": "1", "data": {"a": 1}}\n').end())
        self.assertEqual([(e.id, e.data) for e in f.client.stream_events(cursor="0")], [("1", {"a": 1})])
        self.assertEqual(f.seen[0].url, "/api/v1/events/stream?cursor=0")


class AsyncEventTest(EventTest):
    is_async = True
    step = 29
