"""Which calls are repeated, when, and with what."""

from __future__ import annotations

import email.utils
import http.client
import socket
import ssl
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from unittest import mock

from agents_client import AnswerError, APIConnectionError, APIError
from agents_client import _core as core
from agents_client import _wire as wire

from .support import ClientTest, Fixture, Response, Seen


class RepeatTest(ClientTest):
    def test_a_change_is_repeated_with_the_same_key_and_body(self) -> None:
        for status in (408, 429, 502, 503, 504):
            with self.subTest(status):
                f = self.serve(lambda r, n, _: r.problem(status, "later") if n < 3 else r.json(201, {"id": "a"}))
                self.assertEqual(f.client.create_agent(name="A", resource_plan="starter").id, "a")
                self.assertEqual(len(f.seen), 3)
                self.assertEqual({s.body for s in f.seen}, {'{"name":"A","resource_plan":"starter"}'})
                keys = {s.headers.get("Idempotency-Key") for s in f.seen}
                self.assertEqual(len(keys), 1)
                self.assertRegex(str(keys.pop()), r"^[0-9a-f-]{36}$")

    def test_a_call_is_repeated_while_the_first_one_with_its_key_runs(self) -> None:
        def answer(r: Response, n: int, _: Seen) -> None:
            if n < 2:
                return r.problem(409, "idempotency_in_progress", {"Retry-After": "2"})
            r.json(200, {})

        f = self.serve(answer)
        f.client.restart_agent("a")
        self.assertEqual(len(f.seen), 2)
        self.assertTrue(2 <= f.pauses[0] <= 2.5, f.pauses)

    def test_a_permanent_error_is_not_repeated(self) -> None:
        for status, code in ((400, "bad_request"), (409, "agent_state_conflict"), (500, "internal_error")):
            with self.subTest(code):
                f = self.serve(lambda r, *_: r.problem(status, code))
                with self.assertRaises(APIError) as caught:
                    f.client.restart_agent("a")
                self.assertEqual((caught.exception.status, caught.exception.code, len(f.seen)), (status, code, 1))

    def test_the_connection_may_break_anywhere(self) -> None:
        breaks = [
            Response.destroy,
            Response.reset,
            lambda r: r.part(b"HTTP/1.1 200"),
            lambda r: r.part(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n["),
            lambda r: r.part(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n[]\r\n"),
            lambda r: r.part(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n9\r\n[]"),
        ]
        f = self.serve(lambda r, n, _: breaks[n - 1](r) if n <= len(breaks) else r.json(200, []), attempts=7)
        self.assertEqual(f.client.list_plans(), [])
        self.assertEqual(len(f.seen), 7)

    def test_an_answer_that_breaks_off_is_no_answer(self) -> None:
        f = self.serve(lambda r, *_: r.part(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n[]"), attempts=1)
        with self.assertRaises(APIConnectionError) as caught:
            f.client.list_plans()
        self.assertIsInstance(caught.exception.__cause__, http.client.IncompleteRead)

    def test_an_answer_before_the_end_of_the_request_counts(self) -> None:
        listener = socket.create_server(("127.0.0.1", 0))
        self.addCleanup(listener.close)

        def refuse() -> None:
            for connection in (listener.accept()[0] for _ in range(2)):
                connection.recv(1 << 10)
                body = b'{"detail": "It is too large.", "code": "body_too_large"}'
                connection.sendall(b"HTTP/1.1 413 Too Large\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
                connection.close()  # without the rest of the body

        threading.Thread(target=refuse, daemon=True).start()
        client = self.client(f"http://127.0.0.1:{listener.getsockname()[1]}", attempts=1)
        for _ in range(2):  # the connection is not used again
            with self.assertRaises(APIError) as caught:
                client.put_agent_files("a", path="/data/large", content=bytes(64 << 20))
            self.assertEqual((caught.exception.status, caught.exception.code), (413, "body_too_large"))

    def test_the_status_of_an_error_that_breaks_off_counts(self) -> None:
        f = self.serve(lambda r, *_: r.part(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 1000\r\n\r\n{"))
        with self.assertRaises(APIError) as caught:
            f.client.list_plans()
        self.assertEqual((caught.exception.status, len(f.seen)), (403, 1))

    def test_a_call_without_an_answer_is_repeated(self) -> None:
        def answer(r: Response, n: int, _: Seen) -> None:
            if n > 1:
                return r.json(200, [])
            patch.stop()  # the others have their time

        patch = mock.patch.object(core, "PATIENCE", 0.05)
        patch.start()
        f = self.serve(answer)
        self.assertEqual(f.client.list_plans(), [])
        self.assertGreaterEqual(len(f.seen), 2)

    def test_a_request_waits_two_minutes_unless_its_answer_takes_longer(self) -> None:
        f = self.serve(lambda r, *_: r.json(200, []))
        f.client.list_plans()
        for call, want in (
            (f.client.list_plans, 120),
            (lambda: self.exec_for(f, 300), 420),
            (lambda: self.assertRaises(AnswerError, f.client.verify_audit_log), 720),
            (lambda: f.client.get_agent_files("a", path="/data/large"), 720),
        ):
            with mock.patch("socket.socket.settimeout") as timeouts:
                call()
            longest = max(call.args[0] for call in timeouts.call_args_list if call.args[0])
            self.assertTrue(want - 5 < longest <= want, longest)

    def exec_for(self, f: Fixture, seconds: int) -> None:
        """Runs a command, whose answer comes when it has ended."""
        with self.assertRaises(AnswerError):
            f.client.exec_in_agent("a", command=["sleep"], timeout_seconds=seconds)

    def test_a_connection_is_used_again(self) -> None:
        ports: set[Any] = set()

        def answer(r: Response, *_: object) -> None:
            ports.add(r._handler.client_address)
            r.json(200, [])

        f = self.serve(answer)
        for _ in range(3):
            f.client.list_plans()
        self.assertEqual(len(ports), 1)
        with mock.patch.object(wire, "_LONGEST_IDLE", 0):  # it may have been lost
            f.client.list_plans()
        self.assertEqual(len(ports), 2)

    def test_a_connection_that_the_server_closed_is_not_used_again(self) -> None:
        def answer(r: Response, *_: object) -> None:
            r.json(200, [])
            r.destroy()

        f = self.serve(answer, attempts=1)
        for _ in range(3):
            f.client.list_plans()
        self.assertEqual(len(f.seen), 3)

    def test_an_invalid_certificate_is_not_repeated(self) -> None:
        f = self.serve(lambda r, *_: r.json(200, []))
        failed = ssl.SSLCertVerificationError("self-signed certificate")
        with mock.patch("http.client.HTTPConnection.connect", side_effect=failed) as connect:
            with self.assertRaises(APIConnectionError) as caught:
                f.client.list_plans()
        self.assertIs(caught.exception.__cause__, failed)
        self.assertEqual(connect.call_count, 1)

    def test_the_proxy_of_the_environment_is_used_and_does_not_get_the_token(self) -> None:
        proxy = self.serve(lambda r, *_: r.send(407, b""))
        address = proxy.url.replace("http://", "http://user:pa%40ss@")
        client = self.client("https://api.example.com", "SECRET", attempts=1)
        with mock.patch("urllib.request.getproxies", return_value={"https": address}):
            with self.assertRaisesRegex(APIConnectionError, "407") as caught:
                client.get_me()
        self.assertNotIn("pa@ss", str(caught.exception))
        self.assertEqual([(s.method, s.url) for s in proxy.seen], [("CONNECT", "api.example.com:443")])
        self.assert_headers(proxy.seen, "Proxy-Authorization", ["Basic dXNlcjpwYUBzcw=="])
        self.assert_headers(proxy.seen, "Authorization", [None])

    def test_a_call_gives_up_after_the_given_attempts(self) -> None:
        broken = self.serve(lambda r, *_: r.destroy(), attempts=3)
        with self.assertRaises(APIConnectionError):
            broken.client.get_me()
        self.assertEqual(len(broken.seen), 3)
        busy = self.serve(lambda r, *_: r.problem(503, "store_unavailable"), attempts=1)
        with self.assertRaises(APIError):
            busy.client.get_me()
        self.assertEqual(len(busy.seen), 1)

    def test_each_repeat_is_logged_without_the_token(self) -> None:
        f = self.serve(lambda r, n, _: r.problem(503, "later") if n < 3 else r.json(200, {}), token="SECRET")
        with self.assertLogs("agents_client", "INFO") as logs:
            f.client.get_me()
        self.assertEqual(len(logs.output), 2)
        self.assertRegex(logs.output[0], r"GET /api/v1/me: It is later\. \(503 later\) It is repeated in 0\.\d s\.")
        self.assertNotIn("SECRET", str(logs.output))

    def test_pauses_double_and_are_random(self) -> None:
        f = self.serve(lambda r, *_: r.problem(503, "later"), attempts=8)
        with self.assertRaises(APIError):
            f.client.get_me()
        longest = [0.25, 0.5, 1, 2, 4, 8, 8]
        self.assertEqual(len(f.pauses), len(longest))
        for pause, limit in zip(f.pauses, longest):
            self.assertTrue(limit / 2 <= pause <= limit, f.pauses)

    def test_retry_after_may_be_a_date(self) -> None:
        at = email.utils.formatdate(time.time() + 30, usegmt=True)
        f = self.serve(lambda r, n, _: r.problem(503, "later", {"Retry-After": at}) if n < 2 else r.json(200, {}))
        f.client.get_me()
        self.assertTrue(1 < f.pauses[0] <= 37.5, f.pauses)

    def test_retry_after_as_a_date_is_of_the_servers_clock(self) -> None:
        sent, at = (email.utils.formatdate(time.time() + ahead, usegmt=True) for ahead in (3600, 3630))
        late = {"Date": sent, "Retry-After": at}
        f = self.serve(lambda r, n, _: r.problem(503, "later", late) if n < 2 else r.json(200, {}))
        f.client.get_me()
        self.assertTrue(1 < f.pauses[0] <= 38.75, f.pauses)

    def test_a_long_retry_after_is_not_waited_for(self) -> None:
        f = self.serve(lambda r, *_: r.problem(429, "rate_limited", {"Retry-After": "61"}))
        with self.assertRaises(APIError) as caught:
            f.client.get_me()
        self.assertEqual((caught.exception.retry_after, len(f.seen)), (61, 1))

    def test_a_call_ends_after_its_timeout(self) -> None:
        f = self.serve(lambda r, *_: r.problem(503, "later", {"Retry-After": "10"}), virtual=True)
        with self.assertRaises(TimeoutError) as caught:
            f.client.get_me(timeout=25)
        self.assertIsInstance(caught.exception.__cause__, APIError)
        self.assertTrue(1 <= len(f.pauses) <= 2, f.pauses)
        for attempts in (1, 5):
            stuck = self.serve(lambda *_: None, attempts=attempts)
            with self.assertRaises(TimeoutError):
                stuck.client.get_me(timeout=0.05)

    def test_each_attempt_has_the_token_of_its_time_and_the_user_agent(self) -> None:
        tokens = iter(["one", "two"])
        f = self.serve(
            lambda r, n, _: r.problem(503, "later") if n < 2 else r.json(200, {}),
            token=lambda _: next(tokens),
            user_agent="deploy/1.2",
        )
        f.client.get_me()
        self.assert_headers(f.seen, "Authorization", ["Bearer one", "Bearer two"])
        self.assert_headers(f.seen, "User-Agent", ["deploy/1.2 agents-python"] * 2)

    def test_a_refused_token_is_renewed_once_a_call(self) -> None:
        def answer(r: Response, _: int, s: Seen) -> None:
            if s.headers.get("Authorization") == "Bearer new":
                return r.json(200, {})
            r.problem(401, "unauthorized")

        for renewed, requests, succeeds in (("new", 2, True), ("bad", 2, False), ("old", 1, False)):
            with self.subTest(renewed):
                refusals: list[str | None] = []

                def token(refused: str | None) -> str:
                    refusals.append(refused)
                    return "old" if refused is None else renewed

                f = self.serve(answer, token=token, attempts=1)
                if succeeds:
                    f.client.get_me()
                else:
                    with self.assertRaises(APIError):
                        f.client.get_me()
                self.assertEqual((refusals, len(f.seen)), ([None, "old"], requests))
        f = self.serve(answer)
        with self.assertRaises(APIError):
            f.client.get_me()
        self.assertEqual(len(f.seen), 1)

    def test_a_token_function_that_lost_its_connection_is_called_again(self) -> None:
        asked: list[str | None] = []

        def token(refused: str | None) -> str:
            asked.append(refused)
            if len(asked) % 2:
                raise APIConnectionError("no route to the issuer")
            return "new" if refused else "old"

        f = self.serve(lambda r, n, _: r.problem(401, "unauthorized") if n < 2 else r.json(200, {}), token=token)
        f.client.get_me()
        self.assertEqual((asked, len(f.pauses)), ([None, None, "old", "old"], 2))
        self.assert_headers(f.seen, "Authorization", ["Bearer old", "Bearer new"])

    def test_an_error_of_the_token_function_is_not_repeated(self) -> None:
        def token(_: str | None) -> str:
            raise OSError("signed out")

        f = self.serve(lambda r, *_: r.json(200, {}), token=token)
        with self.assertRaisesRegex(OSError, "signed out"):
            f.client.get_me()
        self.assertEqual(len(f.seen), 0)

    def test_redirects_are_refused_and_the_token_stays_with_the_api(self) -> None:
        other = self.serve(lambda r, *_: r.json(200, {}))
        f = self.serve(lambda r, *_: r.send(307, b"", {"Location": other.url}))
        with self.assertRaisesRegex(APIError, "redirect"):
            f.client.get_me()
        self.assertEqual((len(f.seen), len(other.seen)), (1, 0))


class ThreadTest(ClientTest):
    def test_threads_share_a_client(self) -> None:
        f = self.serve(lambda r, _, s: r.json(200, {"id": s.url.rpartition("/")[2]}))

        def read(id: int) -> bool:
            return f.client.get_agent(str(id)).id == str(id)

        with ThreadPoolExecutor(16) as threads:
            self.assertTrue(all(threads.map(read, range(200))))


class AsyncRepeatTest(RepeatTest):
    is_async = True

    def test_the_token_function_may_be_a_coroutine_function(self) -> None:
        async def token(refused: str | None) -> str:
            return "new" if refused else "old"

        f = self.serve(lambda r, n, _: r.problem(401, "unauthorized") if n < 2 else r.json(200, {}), token=token)
        f.client.get_me()
        self.assert_headers(f.seen, "Authorization", ["Bearer old", "Bearer new"])
