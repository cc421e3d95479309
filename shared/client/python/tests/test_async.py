"""What only the asynchronous client does: cancellation and concurrency."""

from __future__ import annotations

import asyncio
import threading
import unittest
from collections.abc import AsyncGenerator, Callable
from typing import Any

from agents_client import AsyncClient, Client
from agents_client.models import AgentLogLine

from .support import LONG, Answer, Response, Seen, event, line, start_server


class AsyncTest(unittest.IsolatedAsyncioTestCase):
    async def asyncSetUp(self) -> None:
        asyncio.get_running_loop().set_debug(False)  # it would complain about a slow machine

    def serve(self, answer: Answer, **options: Any) -> tuple[AsyncClient, list[Seen]]:
        seen: list[Seen] = []
        client = AsyncClient(start_server(self, answer, seen), "key", **options)
        self.addAsyncCleanup(client.aclose)
        return client, seen

    async def cancel(self, start: Callable[[AsyncClient], Any], begin: Callable[[Response], object]) -> None:
        """Cancels what start returns when begin has answered, and waits until the connection is closed."""
        began = asyncio.Event()
        responses: list[Response] = []
        loop = asyncio.get_running_loop()

        def answer(r: Response, *_: object) -> None:
            begin(r)
            responses.append(r)
            loop.call_soon_threadsafe(began.set)

        client, seen = self.serve(answer)
        task = asyncio.ensure_future(start(client))
        await asyncio.wait_for(began.wait(), LONG)
        task.cancel()
        with self.assertRaises(asyncio.CancelledError):
            await asyncio.wait_for(task, LONG)
        self.assertTrue(await asyncio.to_thread(responses[0].closed.wait, LONG))
        self.assertEqual(len(seen), 1)

    async def test_a_canceled_call_closes_its_connection(self) -> None:
        await self.cancel(lambda client: client.get_me(), lambda r: None)

    async def test_a_call_that_is_canceled_in_its_answer_closes_its_connection(self) -> None:
        await self.cancel(lambda client: client.get_me(), lambda r: r.stream("{"))

    async def test_a_canceled_stream_closes_its_connection(self) -> None:
        async def read(client: AsyncClient) -> None:
            async for _ in client.follow_logs("a"):
                pass

        await self.cancel(read, lambda r: r.stream(event("1", "one")))

    async def test_calls_that_are_canceled_immediately_leave_no_connection(self) -> None:
        responses: list[Response] = []
        client, _ = self.serve(lambda r, *_: responses.append(r))
        for _ in range(20):
            task = asyncio.ensure_future(client.get_me())
            await asyncio.sleep(0)
            task.cancel()
            with self.assertRaises(asyncio.CancelledError):
                await task
        await asyncio.to_thread(join_threads)
        for response in responses:
            self.assertTrue(await asyncio.to_thread(response.closed.wait, LONG))

    async def test_a_pause_can_be_canceled(self) -> None:
        client, seen = self.serve(lambda r, *_: r.problem(503, "later", {"Retry-After": "60"}))
        paused = asyncio.Event()

        async def sleep(seconds: float) -> None:
            paused.set()
            await asyncio.sleep(seconds)

        client._core.driver.sleep = sleep  # type: ignore[method-assign]
        task = asyncio.ensure_future(client.get_me())
        await asyncio.wait_for(paused.wait(), LONG)
        task.cancel()
        with self.assertRaises(asyncio.CancelledError):
            await task
        self.assertEqual(len(seen), 1)

    async def test_calls_and_streams_are_concurrent(self) -> None:
        count = 40
        barrier = threading.Barrier(count)

        def answer(r: Response, _: int, s: Seen) -> None:
            barrier.wait(LONG)  # until all requests are there
            if "logs" in s.url:
                return r.stream(line("one")).end()
            r.json(200, {"id": "x"})

        client, _ = self.serve(answer)

        async def first(lines: AsyncGenerator[AgentLogLine, None]) -> str:
            return [line.message async for line in lines][0]

        calls = [client.get_agent("a") for _ in range(count // 2)]
        streams = [first(client.get_agent_logs("a")) for _ in range(count // 2)]
        answers = await asyncio.gather(*calls, *streams)
        self.assertEqual(len(answers), count)

    async def test_the_loop_is_free_while_a_request_waits(self) -> None:
        release = threading.Event()

        def answer(r: Response, *_: object) -> None:
            self.assertTrue(release.wait(LONG))
            r.json(200, {"id": "x"})

        client, _ = self.serve(answer)
        task = asyncio.ensure_future(client.get_me())
        await asyncio.sleep(0)
        self.assertFalse(task.done())
        release.set()
        self.assertEqual((await task).id, "x")

    async def test_a_loop_that_is_left_closes_its_stream(self) -> None:
        responses: list[Response] = []

        def answer(r: Response, *_: object) -> None:
            responses.append(r)
            r.stream(event("1", "one"))

        client, _ = self.serve(answer)
        async for _ in client.follow_logs("a"):
            break
        self.assertTrue(await asyncio.to_thread(responses[0].closed.wait, LONG))


    async def test_the_blocking_client_closes_a_stream_inside_a_loop(self) -> None:
        responses: list[Response] = []

        def answer(r: Response, *_: object) -> None:
            responses.append(r)
            r.stream(line("one") + "\n")

        with Client(start_server(self, answer, []), "key") as client:
            for _ in client.get_agent_logs("a"):
                break
            self.assertTrue(responses[0].closed.wait(LONG))  # although the loop cannot close it


class LeftoverTest(unittest.TestCase):
    def test_a_loop_that_ends_leaves_no_thread_waiting(self) -> None:
        responses: list[Response] = []
        begun = threading.Event()

        def answer(r: Response, *_: object) -> None:
            responses.append(r)
            begun.set()

        url = start_server(self, answer, [])

        async def main() -> None:
            client = AsyncClient(url, "key")
            asyncio.ensure_future(client.get_me())
            await asyncio.to_thread(begun.wait, LONG)

        asyncio.run(main())  # cancels what still runs
        self.assertTrue(responses[0].closed.wait(LONG))
        join_threads()


def join_threads() -> None:
    """Waits until the threads of clients have ended."""
    for thread in threading.enumerate():
        if thread.name == "agents-client":
            thread.join(LONG)
            assert not thread.is_alive()
