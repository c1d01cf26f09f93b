"""A producer and a consumer on an embedded cluster: ten orders go in, ten come out.

The client is Staticfire's own RocketMQ client for asyncio. It is the one that Staticfire puts under load in its
campaigns.
"""

from __future__ import annotations

import asyncio

from staticfire import LocalCluster
from staticfire.system_under_test.client.consumer.push.consumer_config import ConsumerConfig
from staticfire.system_under_test.client.consumer.push.push_consumer import PushConsumer
from staticfire.system_under_test.client.producer.producer import Producer, ProducerConfig
from staticfire.system_under_test.protocol.bodies import MessageQueue
from staticfire.system_under_test.protocol.message import Message
from staticfire.system_under_test.runtime.real_env import make_env

TOPIC, ORDERS = "Orders", 10


async def main() -> None:
    async with LocalCluster(flush="sync") as cluster:
        received: asyncio.Queue[str] = asyncio.Queue()

        async def listener(messages: list[Message], queue: MessageQueue) -> bool:
            print("received", len(messages), "of queue", queue.queue_id)
            for message in messages:
                received.put_nowait(message.body.decode())
            return True  # False: these messages come again later

        producer_config = ProducerConfig(
            group="billing", name_servers=cluster.name_servers, client_id="127.0.0.1@producer"
        )
        consumer_config = ConsumerConfig(
            group="shipping",
            name_servers=cluster.name_servers,
            client_id="127.0.0.1@consumer",
            topic=TOPIC,
        )
        producer = Producer(make_env("producer"), producer_config)
        consumer = PushConsumer(make_env("consumer"), consumer_config, listener)
        await producer.start()
        for number in range(ORDERS):
            result = await producer.send(Message(topic=TOPIC, body=f"order {number}".encode()))
            print("sent", result.status.name, result.queue.queue_id, result.queue_offset)
        await consumer.start()  # a new group begins at the first message
        orders = [await asyncio.wait_for(received.get(), 20) for _ in range(ORDERS)]
        print("done:", len(orders), "orders, from", min(orders), "to", max(orders))
        await consumer.stop()
        await producer.stop()


if __name__ == "__main__":
    asyncio.run(main())
