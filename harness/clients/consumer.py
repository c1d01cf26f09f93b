"""A member of a consumer group as a client process: its listener writes down what it was given.

A delivery is in the history before the listener says that it succeeded: what the history does not know was not
consumed.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

from harness.clients.payload import is_intact, key_of
from harness.clients.port import ClientSide, Outcome, Request
from system_under_test.client.push_consumer import ConsumerConfig, PushConsumer
from system_under_test.env import Env
from system_under_test.protocol.bodies import MessageQueue
from system_under_test.protocol.message import Message


@dataclass(slots=True)
class ListenerControl:
    """How badly the listener of one client node behaves, and how often it did."""

    delay_s: float = 0.0
    failing_share: float = 0.0
    delayed: int = 0
    failed: int = 0

    def apply(self, request: Request) -> Outcome:
        """Do one of the requests of faults.capabilities.ClientControl."""
        match request["f"]:
            case "slow_listener":
                self.delay_s = request["delay_s"]
            case "failing_listener":
                self.failing_share = request["share"]
            case "listener_counters":
                return Outcome("ok", {"delayed": self.delayed, "failed": self.failed})
        return Outcome("ok", {})


class RecordingListener:
    """The group's listener: records each batch, then succeeds, is slow or fails as told."""

    def __init__(self, env: Env, group: str, port: ClientSide, control: ListenerControl) -> None:
        self._random = env.random
        self._group = group
        self._port = port
        self._control = control

    async def __call__(self, messages: list[Message], queue: MessageQueue) -> bool:
        value = self._value(messages, queue)
        self._port.emit("invoke", "consume", value, None)
        if self._control.delay_s > 0:
            self._control.delayed += 1
            await asyncio.sleep(self._control.delay_s)
        if self._control.failing_share > 0 and self._random.random() < self._control.failing_share:
            self._control.failed += 1
            self._port.emit("info", "consume", value, "the listener failed")
            return False
        self._port.emit("ok", "consume", value, None)
        return True

    def _value(self, messages: list[Message], queue: MessageQueue) -> dict[str, Any]:
        return {
            "group": self._group,
            "topic": queue.topic,
            "broker": queue.broker_name,
            "queue": queue.queue_id,
            "messages": [
                [
                    key_of(message.body),
                    message.queue_offset,
                    message.physical_offset,
                    is_intact(message.body),
                    message.reconsume_times,
                ]
                for message in messages
            ],
        }


async def serve_consumer(
    env: Env, config: ConsumerConfig, port: ClientSide, control: ListenerControl
) -> None:
    """Consume until the process ends. Raises PortClosed when there are no more requests."""
    scope = {"group": config.group, "topic": config.topic}

    def on_assignment(queues: list[MessageQueue]) -> None:
        pairs = [[queue.broker_name, queue.queue_id] for queue in queues]
        port.emit("ok", "assign", {**scope, "queues": pairs}, None)

    def on_commit(offsets: dict[MessageQueue, int]) -> None:
        rows = [[queue.broker_name, queue.queue_id, offset] for queue, offset in offsets.items()]
        port.emit("ok", "commit", {**scope, "offsets": rows}, None)

    listener = RecordingListener(env, config.group, port, control)
    consumer = PushConsumer(env, config, listener, on_assignment=on_assignment, on_commit=on_commit)
    await consumer.start()
    port.emit("ok", "open", {}, None)
    try:
        while True:
            request, reply = await port.next()
            reply(control.apply(request))
    finally:
        await consumer.stop()
