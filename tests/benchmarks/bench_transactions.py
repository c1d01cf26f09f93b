"""Transactions a second of a real broker on loopback, from the half message to what consumers can see.

    PYTHONPATH=. python tests/benchmarks/bench_transactions.py [--folder DIR] [--seconds 3]

Broker, name server and this producer are a process each; bodies are 1 KiB, each transaction is committed at once. A
transaction is three writes to the log: the half message, the message that consumers see, and the mark that it is over.
"visible" counts until the last committed message is in its queue, so what commits late counts, too; the plain sends
beside it are the same producer without transactions.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from statistics import quantiles

from staticfire.system_under_test.client.producer.producer import Producer, ProducerConfig
from staticfire.system_under_test.client.producer.transactions import TransactionState
from staticfire.system_under_test.protocol.codes import RequestCode, SendStatus
from staticfire.system_under_test.protocol.command import RemotingCommand
from staticfire.system_under_test.protocol.message import Message
from staticfire.system_under_test.remoting import RemotingClient
from staticfire.system_under_test.runtime.real_env import make_env
from tests.support.local_processes import LocalPair

PLAIN_TOPIC, TOPIC = "BenchPlain", "BenchTransactions"
QUEUES = 4
BODY = b"x" * 1024
IN_FLIGHT = (1, 8, 64)
VISIBLE_BOUND_S = 30.0

Step = Callable[[], Awaitable[None]]


async def repeat(step: Step, in_flight: int, seconds: float) -> tuple[int, float, float]:
    """How many steps with so many in flight, the seconds they took, and the 99th percentile of one in ms."""
    begun = time.perf_counter()
    until = begun + seconds
    latencies: list[float] = []

    async def worker() -> None:
        while (start := time.perf_counter()) < until:
            await step()
            latencies.append((time.perf_counter() - start) * 1000)

    await asyncio.gather(*(worker() for _ in range(in_flight)))
    return len(latencies), time.perf_counter() - begun, quantiles(latencies, n=100)[98]


class Load:
    """One producer, and what it asks of its broker."""

    def __init__(self, pair: LocalPair) -> None:
        env = make_env("bench")
        config = ProducerConfig(
            group="bench", name_servers=(pair.name_server_address,), client_id="127.0.0.1@bench"
        )
        self._producer = Producer(env, config)
        self._remoting = RemotingClient(env)
        self._address = pair.master_address

    async def start(self) -> None:
        await self._producer.start()
        await self.send()
        await self.transact()
        await self.until_visible(1)

    async def stop(self) -> None:
        await self._producer.stop()
        await self._remoting.close()

    async def send(self) -> None:
        result = await self._producer.send(Message(topic=PLAIN_TOPIC, body=BODY))
        assert result.status is SendStatus.SEND_OK, result.status

    async def transact(self) -> None:
        result = await self._producer.send_in_transaction(Message(topic=TOPIC, body=BODY), _commit)
        assert result.is_reported, result

    async def visible(self) -> int:
        """Committed messages that are in their queues."""
        ends = [await self._end(queue) for queue in range(QUEUES)]
        return sum(ends)

    async def _end(self, queue_id: int) -> int:
        ext = {"topic": TOPIC, "queueId": str(queue_id)}
        request = RemotingCommand.request(RequestCode.GET_MAX_OFFSET, ext)
        return int((await self._remoting.invoke(self._address, request, 10.0)).ext_fields["offset"])

    async def until_visible(self, count: int) -> float:
        """Wait for so many; return the seconds that it took."""
        start = time.perf_counter()
        while await self.visible() < count:
            assert time.perf_counter() - start < VISIBLE_BOUND_S, "a commit was lost on the way"
            await asyncio.sleep(0.005)
        return time.perf_counter() - start


async def _commit(_message: Message) -> TransactionState:
    return TransactionState.COMMIT


async def measure(pair: LocalPair, flush: str, seconds: float) -> None:
    load = Load(pair)
    await load.start()
    for in_flight in IN_FLIGHT:
        plain, plain_s, _ = await repeat(load.send, in_flight, seconds)
        before = await load.visible()
        count, elapsed_s, p99_ms = await repeat(load.transact, in_flight, seconds)
        late_s = await load.until_visible(before + count)
        visible = count / (elapsed_s + late_s)
        print(
            f"{flush:5} flush {in_flight:3} in flight {visible:8,.0f} transactions/s visible,"
            f" {visible / (plain / plain_s):5.2f} x plain sends ({plain / plain_s:,.0f}/s),"
            f" last visible {late_s * 1000:6.1f} ms after the load   p99 {p99_ms:7.2f} ms"
        )
    await load.stop()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, help="on the disk to be measured")
    parser.add_argument("--seconds", type=float, default=3.0, help="of each figure")
    options = parser.parse_args()
    for flush in ("sync", "async"):
        with (
            tempfile.TemporaryDirectory(dir=options.folder) as name,
            LocalPair(Path(name), flush=flush) as pair,
        ):
            asyncio.run(measure(pair, flush, options.seconds))


if __name__ == "__main__":
    main()
