"""Send and read messages through our own clients, in one line each."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from staticfire.system_under_test.client.producer.producer import Producer, ProducerConfig
from staticfire.system_under_test.client.producer.send_result import SendResult
from staticfire.system_under_test.protocol.message import Message
from staticfire.system_under_test.runtime.real_env import make_env


def send(
    name_servers: Sequence[str], topic: str, *bodies: bytes, **properties: str
) -> list[SendResult]:
    """Send the bodies one after another and return what came of them."""

    async def run() -> list[SendResult]:
        config = ProducerConfig(
            group="senders", name_servers=tuple(name_servers), client_id="127.0.0.1@test"
        )
        producer = Producer(make_env("producer"), config)
        await producer.start()
        try:
            return [
                await producer.send(Message(topic=topic, body=body, properties=dict(properties)))
                for body in bodies
            ]
        finally:
            await producer.stop()

    return asyncio.run(run())
