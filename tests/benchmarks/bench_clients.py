"""What our clients do a second against a real broker on loopback, end to end.

    PYTHONPATH=. python tests/benchmarks/bench_clients.py [--messages 20000] [--seconds 3]

The broker, the name server and the clients of this program are a process each. Bodies are 1 KiB, flushes asynchronous.
"push" is from the start of a consumer to its last message, of a backlog; "live" the same while they are sent, 64 at a
time; "transactions" are half message, local transaction and commit, 64 at a time; "requests" are sent, consumed, and
answered, 64 at a time.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from staticfire.system_under_test.client.consumer.push.consumer_config import ConsumerConfig
from staticfire.system_under_test.client.consumer.push.push_consumer import PushConsumer
from staticfire.system_under_test.client.producer.producer import Producer, ProducerConfig
from staticfire.system_under_test.client.producer.transactions import TransactionState
from staticfire.system_under_test.protocol.bodies import MessageQueue
from staticfire.system_under_test.protocol.message import Message
from staticfire.system_under_test.runtime.real_env import make_env
from tests.support.local_processes import LocalPair

BODY = b"x" * 1024
IN_FLIGHT = 64


class Bench:
    """Clients of one broker, and what they did."""

    def __init__(self, pair: LocalPair, messages: int, seconds: float) -> None:
        self._name_servers = (pair.name_server_address,)
        self._messages = messages
        self._seconds = seconds

    async def run(self) -> None:
        config = ProducerConfig(
            group="bench", name_servers=self._name_servers, client_id="127.0.0.1@bench"
        )
        self.producer = Producer(make_env("bench"), config)
        await self.producer.start()
        await self._fill("Backlog")
        for label, options in (
            ("push, concurrent", {}),
            ("push, 8 calls a queue", {"calls_per_queue": 8}),
            ("push, one by one", {"consume_batch": 1}),
            ("push, in order", {"ordered": True}),
        ):
            await self._consume(label, "Backlog", **options)
        await self._live()
        await self._transactions()
        await self._requests()
        await self.producer.stop()

    async def _fill(self, topic: str) -> None:
        await self.producer.send(Message(topic, BODY))  # creates the topic
        messages = [Message(topic, BODY) for _ in range(50)]
        for _ in range(self._messages // 50):
            for message in messages:
                message.properties.clear()
            await self.producer.send_batch(messages)

    async def _consume(self, label: str, topic: str, **options: Any) -> None:
        """Consume the whole backlog with a new group."""
        count, done = 0, asyncio.Event()

        async def listen(messages: list[Message], _: MessageQueue) -> bool:
            nonlocal count
            count += len(messages)
            if count >= self._messages:
                done.set()
            return True

        start = time.perf_counter()
        consumer = self._consumer(
            f"bench-{label}".replace(" ", "-").replace(",", ""), topic, listen, **options
        )
        await consumer.start()
        await done.wait()
        report(label, count, time.perf_counter() - start, "messages")
        await consumer.stop()

    def _consumer(
        self, group: str, topic: str, listen: Callable[..., Awaitable[bool]], **options: Any
    ) -> PushConsumer:
        config = ConsumerConfig(
            group=group,
            name_servers=self._name_servers,
            client_id=f"127.0.0.1@{group}",
            topic=topic,
            **options,
        )
        return PushConsumer(make_env("consumer"), config, listen)

    async def _live(self) -> None:
        got = 0

        async def listen(messages: list[Message], _: MessageQueue) -> bool:
            nonlocal got
            got += len(messages)
            return True

        await self.producer.send(Message("Live", BODY))
        consumer = self._consumer("bench-live", "Live", listen)
        await consumer.start()
        sent, elapsed_s = await self._repeat(lambda: self.producer.send(Message("Live", BODY)))
        while got < sent:
            await asyncio.sleep(0.001)
        report("live, sent and consumed", sent, elapsed_s, "messages")
        await consumer.stop()

    async def _transactions(self) -> None:
        async def execute(_: Message) -> TransactionState:
            return TransactionState.COMMIT

        await self.producer.send(Message("Money", BODY))
        count, elapsed_s = await self._repeat(
            lambda: self.producer.send_in_transaction(Message("Money", BODY), execute)
        )
        report("transactions", count, elapsed_s, "transactions")

    async def _requests(self) -> None:
        async def answer(messages: list[Message], queue: MessageQueue) -> bool:
            await asyncio.gather(
                *(consumer.reply(message, queue, b"yes") for message in messages if message.body)
            )
            return True

        consumer = self._consumer("bench-requests", "Requests", answer)
        await consumer.start()
        await self.producer.send(Message("Requests", b""))
        await asyncio.sleep(2)
        count, elapsed_s = await self._repeat(
            lambda: self.producer.request(Message("Requests", BODY), timeout_s=10.0)
        )
        report("requests", count, elapsed_s, "requests")
        await consumer.stop()

    async def _repeat(self, act: Callable[[], Awaitable[object]]) -> tuple[int, float]:
        """How often it was done, IN_FLIGHT at a time, and in how many seconds."""
        start = time.perf_counter()
        count = 0

        async def worker() -> None:
            nonlocal count
            while time.perf_counter() - start < self._seconds:
                await act()
                count += 1

        await asyncio.gather(*(worker() for _ in range(IN_FLIGHT)))
        return count, time.perf_counter() - start


def report(label: str, count: int, elapsed_s: float, what: str) -> None:
    print(f"{label:26} {count / elapsed_s:9,.0f} {what}/s")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--messages", type=int, default=20_000, help="of the backlog")
    parser.add_argument("--seconds", type=float, default=3.0, help="of each other figure")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name, LocalPair(Path(name), flush="async") as pair:
        asyncio.run(Bench(pair, options.messages, options.seconds).run())


if __name__ == "__main__":
    main()
