"""A story against a cloud."""

from __future__ import annotations

import asyncio
import os
import unittest
import uuid

from agents_client import APIError, AsyncClient, Client

BASE_URL, API_KEY = os.environ.get("AGENTS_BASE_URL", ""), os.environ.get("AGENTS_API_KEY", "")


@unittest.skipUnless(BASE_URL, "AGENTS_BASE_URL is not set")
class StoryTest(unittest.TestCase):
    def test_an_agent_is_created_gets_a_secret_is_followed_listed_and_deleted(self) -> None:
        with Client(BASE_URL, API_KEY, user_agent="story/1.0") as api:
            with self.assertRaises(APIError) as caught:
                api.create_agent(name="", resource_plan="starter", env_vars={"PORT": "1"})
            self.assertEqual(caught.exception.status, 422)
            self.assertGreaterEqual(len(caught.exception.violations), 2)
            self.assertNotEqual(caught.exception.request_id, "")

            cursor = next(api.list_events(limit=1).pages()).headers["X-Event-Cursor"]
            created = api.create_agent(name=f"Python {uuid.uuid4()}", resource_plan="hobby")
            self.see_the_stages(api, created.id)
            self.set_a_secret(api, created.id)
            self.read_and_follow_the_log(api, created.id)
            self.read_what_there_is(api, created.id)
            asyncio.run(self.do_the_same_asynchronously(created.id))

            api.delete_agent(created.id)
            api.wait_until_deleted(created.id, timeout=300)
            with self.assertRaises(APIError) as caught:
                api.get_agent(created.id)
            self.assertEqual((caught.exception.status, caught.exception.code), (404, "agent_not_found"))
            self.follow_its_life(api, created.id, cursor)

    def see_the_stages(self, api: Client, id: str) -> None:
        seen: set[tuple[str, str]] = set()
        agent = api.wait_until_settled(
            id, on_change=lambda a: seen.update((s.name, s.status) for s in a.config.provisioning_stages), timeout=300
        )
        self.assertEqual(agent.status, "running", agent.error_message)
        self.assertIn(("ready", "succeeded"), seen)
        self.assertTrue(api.wait_until_dashboard_reachable(id, timeout=300).reachable)

    def set_a_secret(self, api: Client, id: str) -> None:
        key = str(uuid.uuid4())
        first, second = (
            api.put_secrets(id, secrets={"GREETING_TOKEN": "hello"}, idempotency_key=key).operations for _ in range(2)
        )
        self.assertEqual(first[0].id, second[0].id)
        stages: list[str] = []
        ended = api.wait_for_secret_operations(first, on_change=lambda o: stages.append(o.stage), timeout=300)
        self.assertEqual((ended[0].status, stages[-1]), ("succeeded", "complete"))
        self.assertEqual([(s.key, s.in_sync) for s in api.list_secrets(id)], [("GREETING_TOKEN", True)])

    def read_and_follow_the_log(self, api: Client, id: str) -> None:
        read = list(api.get_agent_logs(id))
        self.assertGreater(len(read), 0)
        ids: list[str] = []
        for line in api.follow_logs(id, tail=len(read), on_event=ids.append):
            self.assertEqual(line.stream, "combined")
            break
        self.assertRegex(ids[-1], r"^[0-9a-f]{16}-")

    def read_what_there_is(self, api: Client, id: str) -> None:
        found = [agent.id for agent in api.list_agents(limit=1)]
        self.assertIn(id, found)
        self.assertEqual(len(set(found)), len(found))
        self.assertEqual(api.stop_agent(id, dry_run=True).would.status, "stopped")
        agent = api.get_agent(id)
        self.assertEqual(agent.status, "running")
        api.update_agent(id, name=f"{agent.name} 2", if_match=agent.headers["ETag"])
        with self.assertRaises(APIError) as caught:
            api.update_agent(id, name="B", if_match=agent.headers["ETag"])
        self.assertEqual(caught.exception.status, 412)
        api.put_agent_files(id, path="/data/hello.txt", content=b"\x00hello")
        self.assertEqual(api.get_agent_files(id, path="/data/hello.txt"), b"\x00hello")
        api.delete_agent_files(id, path="/data/hello.txt")

    async def do_the_same_asynchronously(self, id: str) -> None:
        async with AsyncClient(BASE_URL, API_KEY) as api:
            agent, me, plans = await asyncio.gather(api.wait_until_ready(id), api.get_me(), api.list_plans())
            self.assertEqual(agent.status, "running")
            self.assertEqual(me.auth_type, "api_key")
            self.assertIn("hobby", [plan.id for plan in plans])
            self.assertIn(id, [a.id async for a in api.list_agents()])
            async for line in api.follow_logs(id, tail=1):
                self.assertEqual(line.stream, "combined")
                break

    def follow_its_life(self, api: Client, id: str, cursor: str) -> None:
        want = ["agent.created", "agent.running", "agent.deleting", "agent.deleted"]
        types: list[str] = []
        for event in api.follow_events(cursor=cursor, agent_id=id):
            types.append(event.type)
            if event.type == "agent.deleted":
                break
        self.assertEqual([type for type in types if type in want], want)
        actions = [entry.action for entry in api.export_audit_log() if entry.target.id == id]
        self.assertGreaterEqual(len(actions), 3)
