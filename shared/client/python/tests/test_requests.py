"""What a call sends, and what its answer becomes."""

from __future__ import annotations

import copy
import pickle
import threading
import unittest
from datetime import datetime, timedelta, timezone
from typing import Any, cast

from agents_client import UNSET, AnswerError, APIConnectionError, APIError, AsyncClient, Client, OperationError
from agents_client import models
from agents_client._model import Model, timestamp

from .support import LONG, ClientTest, agent


class RequestTest(ClientTest):
    def test_a_read_has_no_key_and_ids_are_escaped(self) -> None:
        f = self.serve(lambda r, *_: r.json(200, {}))
        f.client.restart_agent("a/b", idempotency_key="mine", if_match='"7"')
        f.client.get_me()
        f.client.delete_secret("é%2f", "a?b#c d")
        self.assertEqual(f.seen[0].url, "/api/v1/agents/a%2Fb/restart")
        self.assertEqual(f.seen[2].url, "/api/v1/agents/%C3%A9%252f/secrets/a%3Fb%23c%20d")
        self.assert_headers(f.seen[:2], "Idempotency-Key", ["mine", None])
        self.assert_headers(f.seen[:2], "If-Match", ['"7"', None])
        self.assertIsNotNone(f.seen[2].headers.get("Idempotency-Key"))

    def test_calls_differ_in_their_keys(self) -> None:
        f = self.serve(lambda r, *_: r.json(200, {}))
        f.client.restart_agent("a")
        f.client.restart_agent("a")
        self.assertNotEqual(*(s.headers.get("Idempotency-Key") for s in f.seen))

    def test_an_empty_id_is_refused(self) -> None:
        f = self.serve(lambda r, *_: r.json(200, {}))
        for bad in ("", ".", "..", cast("str", None)):
            with self.assertRaisesRegex(ValueError, "agent_id must be an id"):
                f.client.delete_agent(bad)
        self.assertEqual(len(f.seen), 0)

    def test_a_header_that_cannot_be_sent_is_refused(self) -> None:
        f = self.serve(lambda r, *_: r.json(200, {}))
        for bad in ("a\nb", "a\r\nX: b", "ä"):
            with self.assertRaisesRegex(ValueError, "The header Idempotency-Key"):
                f.client.restart_agent("a", idempotency_key=bad)
        self.assertEqual(len(f.seen), 0)

    def test_a_query_is_encoded(self) -> None:
        f = self.serve(lambda r, *_: r.json(200, []))
        list(f.client.list_agents(name="ä b&c=d", limit=5))
        zone = timezone(timedelta(hours=2))
        list(f.client.list_audit_log(from_=datetime(2026, 1, 2, 3, 4, 5, 600, zone)))
        self.assertEqual(f.seen[0].url, "/api/v1/agents?limit=5&name=%C3%A4%20b%26c%3Dd")
        self.assertIn("from=2026-01-02T01%3A04%3A05.000600Z", f.seen[1].url)
        with self.assertRaisesRegex(ValueError, "time zone"):
            list(f.client.list_audit_log(to=datetime(2026, 1, 2)))

    def test_none_is_sent_where_null_has_a_meaning(self) -> None:
        f = self.serve(lambda r, *_: r.json(200, {}))
        f.client.update_agent("a", name="B")
        f.client.update_agent("a", files=None, public_paths=[], sleep={"after_seconds": None}, image=UNSET)
        f.client.update_agent("a", public_paths=None, image_policy=None)
        f.client.put_secrets("a", secrets={"OLD_KEY": None})
        f.client.migrate_agent_sandbox("a")
        f.client.migrate_agent_sandbox("a", enabled=False)
        f.client.wake_agent_at("a", at=None)
        self.assertEqual(
            [s.body for s in f.seen],
            [
                '{"name":"B"}',
                '{"sleep":{"after_seconds":null},"files":null,"public_paths":[]}',
                "{}",
                '{"secrets":{"OLD_KEY":null}}',
                "",
                '{"enabled":false}',
                '{"at":null}',
            ],
        )
        self.assert_headers(f.seen[4:6], "Content-Type", [None, "application/json"])

    def test_an_object_of_an_answer_can_be_sent(self) -> None:
        window = {"days": ["monday"], "start": "02:00", "hours": 2, "timezone": "UTC", "new": 1}
        f = self.serve(lambda r, *_: r.json(200, {**agent("running"), "image": {"maintenance_window": window}}))
        image = f.client.get_agent("a").image
        self.assertIsNotNone(image and image.maintenance_window)
        at = datetime(2026, 1, 2, tzinfo=timezone.utc)
        f.client.update_agent("a", maintenance_window=image.maintenance_window if image else None)
        f.client.wake_agent_at("a", at=at)
        self.assertIn('"new":1', f.seen[1].body)
        self.assertEqual(f.seen[2].body, '{"at":"2026-01-02T00:00:00Z"}')

    def test_a_rehearsal_returns_what_the_call_would_do(self) -> None:
        would = {"status": "stopped", "restarts": False, "downtime_seconds_estimate": None}

        def answer(r: Any, n: int, _: object) -> None:
            if n == 1:
                return r.problem(503, "store_unavailable")
            r.json(200, {"would": would, "agent": agent("stopped")})

        f = self.serve(answer)
        rehearsal = f.client.stop_agent("a", dry_run=True)
        self.assertEqual((rehearsal.would.status, rehearsal.agent.id), ("stopped", "a"))
        created = f.client.create_agent(name="A", resource_plan="hobby", dry_run=True)
        self.assertIs(created.would.restarts, False)
        self.assertEqual(
            [(s.method, s.url) for s in f.seen],
            [("POST", "/api/v1/agents/a/stop?dry_run=true")] * 2 + [("POST", "/api/v1/agents?dry_run=true")],
        )

    def test_files_are_bytes(self) -> None:
        f = self.serve(lambda r, *_: r.send(200, b"\x00\xff") if len(f.seen) % 2 else r.send(204, b""))
        self.assertEqual(f.client.get_agent_files("a", path="/data/x y"), b"\x00\xff")
        self.assertIsNone(f.client.put_agent_files("a", path="/data/x", content=b"text"))
        f.client.get_agent_files("a", path="/data", archive=True)
        f.client.put_agent_files("a", path="/data", content=b"tar", archive=True)
        self.assertEqual(f.seen[0].url, "/api/v1/agents/a/files?path=%2Fdata%2Fx%20y")
        self.assertEqual(f.seen[1].body, "text")
        self.assert_headers(f.seen[::2], "Accept", ["application/octet-stream", "application/x-tar"])
        self.assert_headers(f.seen[1::2], "Content-Type", ["application/octet-stream", "application/x-tar"])

    def test_an_archive_comes_in_parts(self) -> None:
        rest = threading.Event()

        def answer(r: Any, n: int, _: object) -> None:
            if n == 1:
                return r.problem(503, "snapshot_copy_not_ready")
            r.stream(b"\x00" * 512, "application/x-tar")
            if n == 2:
                self.assertTrue(rest.wait(LONG))  # the first part is there before the last one is sent
                r.write(b"\xff" * 512)
                return r.end()
            r.destroy()

        f = self.serve(answer)
        parts = f.client.export_snapshot("a", "s")
        self.assertEqual(next(parts), b"\x00" * 512)
        rest.set()
        self.assertEqual(b"".join(parts), b"\xff" * 512)
        self.assertEqual(f.seen[1].url, "/api/v1/agents/a/snapshots/s/export")
        self.assert_headers(f.seen, "Accept", ["application/x-tar"] * 2)
        with self.assertRaises(APIConnectionError):
            list(f.client.export_snapshot("a", "s"))

    def test_a_request_of_no_method_is_sent_as_others(self) -> None:
        f = self.serve(lambda r, n, _: r.problem(503, "later") if n < 2 else r.json(200, {"new": 1}))
        got = f.client.request("post", "/api/v1/new", query={"a": True}, body={"b": None}, headers={"X-C": "d"})
        self.assertEqual(got, {"new": 1})
        self.assertEqual([(s.method, s.url, s.body) for s in f.seen], [("POST", "/api/v1/new?a=true", '{"b":null}')] * 2)
        self.assert_headers(f.seen, "X-C", ["d", "d"])

    def test_the_path_of_the_base_url_comes_first(self) -> None:
        f = self.serve(lambda r, *_: r.json(200, {}))
        self.client(f.url + "/control/").get_me()
        self.assertEqual(f.seen[0].url, "/control/api/v1/me")


class AsyncRequestTest(RequestTest):
    is_async = True


class AnswerTest(ClientTest):
    def test_an_answer_keeps_what_this_version_does_not_know(self) -> None:
        sent = {**agent("hibernating"), "new_field": {"x": 1}, "created_at": "2026-01-02T03:04:05.123456789Z"}
        f = self.serve(lambda r, *_: r.json(200, sent, {"ETag": '"3"'}))
        got = f.client.get_agent("a")
        self.assertEqual(got.status, "hibernating")
        self.assertEqual(got.raw["new_field"], {"x": 1})
        self.assertEqual(got.created_at, datetime(2026, 1, 2, 3, 4, 5, 123456, timezone.utc))
        self.assertEqual(got.headers["etag"], '"3"')
        self.assertEqual(got.config.provisioning_stages[0].name, "runtime")
        self.assertIsNone(got.error_message)
        self.assertEqual(got, models.Agent(sent))
        self.assertEqual(pickle.loads(pickle.dumps(got)), copy.deepcopy(got))

    def test_an_answer_without_a_body_is_none(self) -> None:
        f = self.serve(lambda r, *_: r.send(204, b""))
        self.assertIsNone(f.client.revoke_api_key("k"))

    def test_an_error_has_all_that_the_api_says(self) -> None:
        violation = {"loc": ["body", "env_vars", "PORT"], "msg": "is reserved", "type": "value_error"}
        invalid = {"detail": [violation], "code": "invalid_request"}
        conflict = {"detail": "It is paused.", "code": "agent_state_conflict", "meta": {"status": "paused"}}

        def answer(r: Any, n: int, _: object) -> None:
            r.json(422, invalid, {"X-Request-Id": "r1"}) if n < 2 else r.json(409, conflict)

        f = self.serve(answer)
        with self.assertRaises(APIError) as caught:
            f.client.restart_agent("a")
        error = caught.exception
        self.assertEqual(str(error), "body.env_vars.PORT: is reserved (422 invalid_request, request r1)")
        self.assertEqual((error.violations[0].path, error.request_id), ("body.env_vars.PORT", "r1"))
        again = pickle.loads(pickle.dumps(error))
        self.assertEqual((str(again), again.violations), (str(error), error.violations))
        with self.assertRaises(APIError) as caught:
            f.client.restart_agent("a")
        error = caught.exception
        self.assertEqual((error.detail, error.meta), ("It is paused.", {"status": "paused"}))
        self.assertEqual(str(error), "It is paused. (409 agent_state_conflict)")

    def test_an_answer_of_another_server_is_an_error(self) -> None:
        bodies = [b"<html>", b"null", b"[]", b'{"detail": 1, "code": 2, "meta": 3}', b'{"detail": [1]}', b"\xff"]
        f = self.serve(lambda r, n, _: r.send(403, bodies[n - 1]) if n <= len(bodies) else r.send(200, b"<html>"))
        for body in bodies:
            with self.subTest(body), self.assertRaisesRegex(APIError, "status 403") as caught:
                f.client.get_me()
            self.assertEqual(caught.exception.code, "")
        with self.assertRaisesRegex(AnswerError, "GET /api/v1/me is not the expected JSON"):
            f.client.get_me()

    def test_an_answer_of_another_form_is_an_error(self) -> None:
        bodies: list[object] = [[], "text", {"created_at": "today"}, {"config": 1}, {"files": 1}, None]
        f = self.serve(lambda r, n, _: r.json(200, bodies[n - 1]))
        for body in bodies:
            with self.subTest(body), self.assertRaises(AnswerError):
                f.client.get_agent("a")

    def test_times_of_every_form_are_read(self) -> None:
        want = datetime(2026, 1, 2, 3, 4, 5, tzinfo=timezone.utc)
        for text in ("2026-01-02T03:04:05Z", "2026-01-02t03:04:05z", "2026-01-02T05:04:05.000000+02:00"):
            self.assertEqual(timestamp(text), want)
        self.assertEqual(timestamp("2026-01-02T03:04:05.5Z") - want, timedelta(milliseconds=500))
        with self.assertRaises(ValueError):
            timestamp("2026-01-02")


class CreationTest(unittest.TestCase):
    def test_the_base_url_must_use_https_except_for_loopback(self) -> None:
        for make in (Client, AsyncClient):
            for refused in (
                "http://api.example.com", "http://localhost.a", "ftp://a", "a.b", "", "https://u:p@a", "https://a?b",
                "https://a#b", "http://127.0.0.1.example.com", "https://a:port", "https://a b", "https://[::1",
            ):  # fmt: skip
                with self.subTest(refused), self.assertRaisesRegex(ValueError, "base URL") as caught:
                    make(refused, "so_key")
                self.assertNotIn("u:p", str(caught.exception))
            for accepted in (
                "https://a/b/", "http://localhost:1", "http://api.localhost", "http://127.0.0.1", "http://[::1]:80",
            ):  # fmt: skip
                make(accepted, "so_key")

    def test_an_empty_token_is_refused(self) -> None:
        for make in (Client, AsyncClient):
            for token in ("", None):
                with self.assertRaisesRegex(ValueError, "AGENTS_API_KEY"):
                    make("https://a", cast("str", token))
            with self.assertRaises(TypeError):
                make("https://a", cast("str", 5))
            with self.assertRaisesRegex(ValueError, "attempts"):
                make("https://a", "so_key", attempts=0)


class SecretTest(ClientTest):
    def test_errors_and_representations_do_not_show_the_token(self) -> None:
        f = self.serve(lambda r, *_: r.destroy(), token="SECRET", attempts=1)
        for token in ("SECRET\n", "SEC RET", "SECRET\x00", "SECRÉT", "SECRET"):
            client = self.client(f.url, token, attempts=1)
            with self.subTest(token), self.assertRaises(Exception) as caught:
                client.get_me()
            error: BaseException | None = caught.exception
            while error is not None:
                self.assertNotIn("SEC", repr(error) + str(error))
                error = error.__cause__ or error.__context__
            core = cast("Any", client)._core
            for thing in (client, core, core.driver, core.wire):
                self.assertNotIn("SEC", repr(thing))
        self.assertEqual(len(f.seen), 1)

    def test_representations_of_answers_do_not_show_secrets(self) -> None:
        fields: dict[type[Model], list[str]] = {
            models.CreatedAPIKey: ["secret"],
            models.CreatedWebhook: ["secret"],
            models.RotatedWebhook: ["secret"],
            models.Credentials: ["dashboard_password", "tenant_api_key"],
            models.BillingSession: ["url"],
            models.Agent: ["dashboard_handoff_url"],
        }
        for model, hidden in fields.items():
            for name in hidden:
                shown = repr(model({name: "SECRET", "id": "x"}))
                self.assertNotIn("SECRET", shown)
                self.assertIn(f"{name}=<hidden>", shown)
        self.assertIn("key='TOKEN'", repr(models.Secret({"key": "TOKEN"})))

    def test_an_operation_error_names_the_key(self) -> None:
        raw = {"id": "o", "key": "TOKEN", "status": "failed", "stage": "sync", "error_code": "x"}
        error = OperationError(models.SecretOperation(raw))
        self.assertIn("on TOKEN failed at the stage sync: x", str(error))
        self.assertEqual(str(pickle.loads(pickle.dumps(error))), str(error))


class AsyncSecretTest(SecretTest):
    is_async = True
