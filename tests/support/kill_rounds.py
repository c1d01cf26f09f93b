"""SIGKILL and restart of a real master under load, again and again: what was acknowledged must be there.

Also a command: `python -m tests.support.kill_rounds --rounds 20`.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path

from staticfire.harness.clients.payload import is_intact, key_of, make_body
from staticfire.system_under_test.client.consumer.pull.pull_consumer import (
    PullConsumer,
    PullConsumerConfig,
)
from staticfire.system_under_test.client.producer.producer import Producer, ProducerConfig
from staticfire.system_under_test.client.producer.send_result import SendFailed
from staticfire.system_under_test.protocol.codes import SendStatus
from staticfire.system_under_test.protocol.message import Message
from staticfire.system_under_test.runtime.env import Env
from staticfire.system_under_test.runtime.real_env import make_env
from tests.support.local_processes import LocalPair

TOPIC = "KillRounds"
ACKS_TIMEOUT_S = 120.0


@dataclass(slots=True)
class Load:
    """The answers that senders got: keys acknowledged with SEND_OK, and sends whose end is not known."""

    acknowledged: list[str] = field(default_factory=list)
    unclear: int = 0
    is_over: bool = False

    async def wait_for(self, count: int) -> None:
        """Until this many more sends are acknowledged; asyncio's own time limit is the caller's."""
        goal = len(self.acknowledged) + count
        while len(self.acknowledged) < goal:
            await asyncio.sleep(0.01)


async def send_until_over(load: Load, producer: Producer, sender: int) -> None:
    number = 0
    while not load.is_over:
        key = f"s{sender}-{number}"
        number += 1
        try:
            result = await producer.send(
                Message(topic=TOPIC, body=make_body(key, 200 + number % 800))
            )
        except SendFailed:
            load.unclear += 1
            await asyncio.sleep(0.05)
            continue
        if result.status is SendStatus.SEND_OK:
            load.acknowledged.append(key)


async def read_all(env: Env, pair: LocalPair) -> list[str]:
    """Keys of every message of the topic, in no particular order. Raises AssertionError for a damaged body."""
    config = PullConsumerConfig(
        group="kill-rounds", name_servers=(pair.name_server_address,), client_id="127.0.0.1@reader"
    )
    consumer = PullConsumer(env, config)
    await consumer.start()
    try:
        return [key async for key in _keys(consumer)]
    finally:
        await consumer.stop()


async def _keys(consumer: PullConsumer) -> AsyncIterator[str]:
    for queue in await consumer.fetch_queues(TOPIC):
        offset, end = await consumer.min_offset(queue), await consumer.max_offset(queue)
        while offset < end:
            result = await consumer.pull(queue, offset, count_max=32)
            for message in result.messages:
                assert is_intact(message.body), f"damaged body of {key_of(message.body)}"
                yield key_of(message.body)
            offset = result.next_offset


async def kill_rounds(pair: LocalPair, rounds: int, acks_a_round: int) -> tuple[Load, list[str]]:
    """Kill and restart the master `rounds` times under load of four senders; then read everything back."""
    env = make_env("kill-rounds")
    config = ProducerConfig(
        group="kill-rounds", name_servers=(pair.name_server_address,), client_id="127.0.0.1@sender"
    )
    producer = Producer(env, config)
    await producer.start()
    load = Load()
    try:
        async with asyncio.TaskGroup() as senders:
            for number in range(4):
                senders.create_task(send_until_over(load, producer, number))
            for _ in range(rounds):
                async with asyncio.timeout(ACKS_TIMEOUT_S):
                    await load.wait_for(acks_a_round)
                await asyncio.to_thread(pair.master.kill)
                await asyncio.to_thread(pair.master.start)
            async with asyncio.timeout(ACKS_TIMEOUT_S):
                await load.wait_for(acks_a_round)
            load.is_over = True
    finally:
        await producer.stop()
    return load, await read_all(env, pair)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--acks", type=int, default=200, help="acknowledged sends between kills")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, LocalPair(Path(folder)) as pair:
        load, keys = asyncio.run(kill_rounds(pair, options.rounds, options.acks))
    lost = sorted(set(load.acknowledged) - set(keys))
    print(
        f"{options.rounds} kills: {len(load.acknowledged)} acknowledged, {load.unclear} unclear, "
        f"{len(keys)} stored, {len(keys) - len(set(keys))} twice, {len(lost)} LOST {lost[:5]}"
    )
    return 1 if lost else 0


if __name__ == "__main__":
    sys.exit(main())
