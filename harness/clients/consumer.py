"""A member of a consumer group as a client process: its listener records every delivery.

A delivery is in the history before the listener reports success, so a message that is not in the history was not
consumed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from random import Random
from typing import TypedDict

from staticfire.checkers.model.message_ranges import condensed
from staticfire.checkers.op_kinds.consumer import CONSUME_MANY, GO_ON
from staticfire.checkers.op_kinds.values import (
    AssignReport,
    BeginReport,
    CommitReport,
    CommitToReport,
    ConsumeManyReport,
    ConsumeReport,
    OpenReport,
    ReplyReport,
    SendBackReport,
)
from staticfire.harness.clients.configuration import Listening
from staticfire.harness.clients.consumer_kinds import PUSH
from staticfire.harness.clients.contents import contents_of, digest_of_reply, properties_of_reply
from staticfire.harness.clients.forwarding import Forwarder, forwarder_config
from staticfire.harness.clients.payload import delivered_message, key_of, make_body
from staticfire.harness.clients.polling import Callbacks, polled_member
from staticfire.harness.clients.port import ClientSide, Outcome, Request
from staticfire.system_under_test.client.consumer.push.consumer_config import ConsumerConfig
from staticfire.system_under_test.client.consumer.push.push_consumer import PushConsumer
from staticfire.system_under_test.client.errors import BrokerRefused
from staticfire.system_under_test.client.listening import SUCCESS, ConsumeResult
from staticfire.system_under_test.client.offsets.offset_store import CommitSent
from staticfire.system_under_test.client.producer.producer import Producer
from staticfire.system_under_test.client.producer.request_reply import wants_reply
from staticfire.system_under_test.client.producer.send_back import SentBack
from staticfire.system_under_test.client.producer.send_result import SendFailed
from staticfire.system_under_test.protocol.bodies import MessageQueue
from staticfire.system_under_test.protocol.codes import ResponseCode, SendStatus
from staticfire.system_under_test.protocol.message import Message
from staticfire.system_under_test.runtime.ending import end_tasks
from staticfire.system_under_test.runtime.env import Env

# Replies to a request from a queue, with this body and these properties.
_Reply = Callable[[Message, MessageQueue, bytes, Mapping[str, str]], Awaitable[object]]

FAILS = "fails"  # property with the number of first deliveries for which the listener fails


@dataclass(slots=True)
class ListenerControl(Listening):
    """The faulty behaviour of one client node's listener, and counters of it."""

    delayed: int = 0
    failed: int = 0

    def fails(self, messages: list[Message], random: Random) -> bool:
        """Whether the listener fails for this batch of messages."""
        for message in messages:
            wanted = int(message.properties.get(FAILS, self.failing_tries))
            if message.reconsume_times < max(wanted, self.failing_tries):
                return True
        return self.failing_share > 0 and random.random() < self.failing_share

    def apply(self, request: Request) -> Outcome:
        """Carry out a request of `staticfire.faults.model.capabilities.ClientControl`."""
        match request["f"]:
            case "slow_listener":
                self.delay_s = request["delay_s"]
            case "failing_listener":
                self.failing_share = request["share"]
                self.failing_tries = request.get("tries", 0)
                self.delay_level = request.get("delay_level", 0)
            case "listener_counters":
                return Outcome("ok", {"delayed": self.delayed, "failed": self.failed})
        return Outcome("ok", {})


Delivery = ConsumeReport | ConsumeManyReport


class _DeliveredFrom(TypedDict):
    """The group and the queue of a delivery."""

    group: str
    topic: str
    broker: str
    queue: int


class RecordingListener:
    """The group's listener: records each batch, then succeeds, is slow or fails, as its control decides."""

    def __init__(self, env: Env, group: str, port: ClientSide, control: ListenerControl) -> None:
        self._random = env.random
        self._group = group
        self._port = port
        self._control = control
        self.reply: _Reply | None = None
        self.forwarder: Forwarder | None = None

    async def __call__(self, messages: list[Message], queue: MessageQueue) -> ConsumeResult:
        f, value = self._reported(messages, queue)
        self._port.emit("invoke", f, _with_contents(value, messages), None)
        if self._control.delay_s > 0:
            self._control.delayed += 1
            await asyncio.sleep(self._control.delay_s)
        if self._control.fails(messages, self._random):
            self._control.failed += 1
            self._port.emit("info", f, value, "the listener failed")
            return ConsumeResult(succeeded=False, delay_level=self._control.delay_level)
        for message in messages:
            if wants_reply(message):
                await self._answer(message, queue)
        error = None if self.forwarder is None else await self.forwarder.forward(messages, queue)
        if error is not None:
            self._port.emit("info", f, value, f"not sent on: {error}")
            return ConsumeResult(succeeded=False)
        self._port.emit("ok", f, value, None)
        return SUCCESS

    async def _answer(self, message: Message, queue: MessageQueue) -> None:
        """Reply to a request with its key and properties. If that fails, only the requester notices."""
        assert self.reply is not None, "the consumer calls its listener only once it is there"
        key = key_of(message.body)
        properties = properties_of_reply(key)
        value: ReplyReport = {
            "group": self._group,
            "topic": queue.topic,
            "key": key,
            "properties": digest_of_reply(properties),
        }
        try:
            await self.reply(message, queue, make_body(key, 0), properties)
        except (SendFailed, ValueError) as error:
            self._port.emit("info", "reply", value, str(error))
        else:
            self._port.emit("ok", "reply", value, None)

    def _reported(self, messages: list[Message], queue: MessageQueue) -> tuple[str, Delivery]:
        """Return f and value of the delivery, for the history."""
        origin: _DeliveredFrom = {
            "group": self._group,
            "topic": queue.topic,
            "broker": queue.broker_name,
            "queue": queue.queue_id,
        }
        rows = [delivered_message(message) for message in messages]
        if not self._control.condensed:
            each: ConsumeReport = {**origin, "messages": rows}
            return "consume", each
        ranges: ConsumeManyReport = {
            **origin,
            "ranges": [one.to_delivery() for one in condensed(rows)],
        }
        return CONSUME_MANY, ranges


def _with_contents(value: Delivery, messages: list[Message]) -> Delivery:
    """Return the value of a delivery, with the contents of each message unless it is condensed."""
    if "ranges" in value:
        return value
    rows = zip(value["messages"], messages, strict=True)
    with_contents = [[*row, contents_of(message)] for row, message in rows]
    each: ConsumeReport = {**value, "messages": with_contents}
    return each


class Reports:
    """Reports which queues a member has, where it begins in each, and which offsets it commits."""

    def __init__(self, group: str, port: ClientSide) -> None:
        self._group = group
        self._port = port
        self._assigned: dict[str, list[list[object]]] = {}  # last reported queues, by topic

    def assigned(self, queues: list[MessageQueue]) -> None:
        pairs: dict[str, list[list[object]]] = {topic: [] for topic in self._assigned}
        for queue in queues:
            pairs.setdefault(queue.topic, []).append([queue.broker_name, queue.queue_id])
        for topic, now in pairs.items():
            if self._assigned.get(topic) != now:
                self._assigned[topic] = now
                value: AssignReport = {"group": self._group, "topic": topic, "queues": now}
                self._port.emit("ok", "assign", value, None)

    def committed(self, offsets: dict[MessageQueue, int]) -> None:
        rows: dict[str, list[list[object]]] = {}
        for queue, offset in offsets.items():
            rows.setdefault(queue.topic, []).append([queue.broker_name, queue.queue_id, offset])
        for topic, ours in rows.items():
            value: CommitReport = {"group": self._group, "topic": topic, "offsets": ours}
            self._port.emit("ok", "commit", value, None)

    def commit_unclear(self, offsets: dict[MessageQueue, int]) -> None:
        for queue, offset in offsets.items():
            value: CommitReport = {
                "group": self._group,
                "topic": queue.topic,
                "offsets": [[queue.broker_name, queue.queue_id, offset]],
            }
            self._port.emit("info", "commit", value, "no broker has confirmed it")

    def commits_sent(self, sent: list[CommitSent]) -> None:
        value: CommitToReport = {"group": self._group, "brokers": [list(row) for row in sent]}
        self._port.emit("ok", "commit_to", value, None)

    def began(self, queue: MessageQueue, offset: int | None, broker_id: int) -> None:
        value: BeginReport = {
            "group": self._group,
            "topic": queue.topic,
            "broker": queue.broker_name,
            "queue": queue.queue_id,
            "offset": offset,
            "broker_id": broker_id,
        }
        self._port.emit("ok", "begin", value, None)

    def sent_back(self, message: Message, queue: MessageQueue, outcome: SentBack) -> None:
        row = [key_of(message.body), message.queue_offset, message.reconsume_times]
        value: SendBackReport = {
            "group": self._group,
            "topic": queue.topic,
            "broker": queue.broker_name,
            "queue": queue.queue_id,
            "messages": [row],
            "copied": outcome.is_copied,
        }
        if outcome.is_copied and outcome.is_asked:
            value["code"] = outcome.refusal
        if outcome.is_copied:
            value["attempts"] = outcome.attempts
        status = outcome.status
        error = "no broker took it" if status is None else status.name
        is_safe = status is SendStatus.SEND_OK
        self._port.emit("ok" if is_safe else "info", "send_back", value, None if is_safe else error)


def subscription_of(config: ConsumerConfig) -> OpenReport:
    """Return the configuration of the member, for the history."""
    return {
        "group": config.group,
        "topic": config.topic,
        "expression": config.expression,
        "model": "broadcasting" if config.broadcast else "clustering",
        "orderly": config.ordered,
    }


async def serve_consumer(
    env: Env, config: ConsumerConfig, port: ClientSide, control: ListenerControl
) -> None:
    """Consume until the process ends. Raises PortClosed once there are no more requests."""
    if control.kind != PUSH:
        await _serve_polled(env, config, port, control)
        return
    reports = Reports(config.group, port)
    listener = RecordingListener(env, config.group, port, control)
    consumer = PushConsumer(
        env,
        config,
        listener,
        on_assignment=reports.assigned,
        on_sent_back=reports.sent_back,
        on_commit=reports.committed,
        on_offset_read=reports.began,
        on_commit_sent=reports.commits_sent,
    )
    listener.reply = consumer.reply
    forwarder = listener.forwarder = _forwarder(env, config, port, control)
    if forwarder is not None:
        await forwarder.start()
    try:
        await consumer.start()
    except BrokerRefused as error:
        if error.code != ResponseCode.SUBSCRIPTION_PARSE_FAILED:
            raise  # the broker may accept the expression later
        port.emit("fail", "open", {}, str(error))
        return
    port.emit("ok", "open", subscription_of(config), None)
    try:
        while True:
            request, reply = await port.next()
            if request["f"] == GO_ON and forwarder is not None:
                forwarder.go_on(request["key"])
            reply(control.apply(request))
    finally:
        if forwarder is not None:
            forwarder.end()
        await consumer.stop()
        if forwarder is not None:
            await forwarder.stop()


async def _serve_polled(
    env: Env, config: ConsumerConfig, port: ClientSide, control: ListenerControl
) -> None:
    """Consume as a member that polls."""
    reports = Reports(config.group, port)
    listener = RecordingListener(env, config.group, port, control)
    member = polled_member(
        env,
        config,
        control.kind,
        control.share,
        listener,
        Callbacks(
            on_assignment=reports.assigned,
            on_commit=reports.committed,
            on_commit_unclear=reports.commit_unclear,
            on_offset_read=reports.began,
            on_commit_sent=reports.commits_sent,
        ),
    )
    await member.start()
    port.emit("ok", "open", subscription_of(config), None)
    loop = asyncio.get_running_loop()
    tasks = [loop.create_task(member.run()), loop.create_task(_serve_requests(port, control))]
    try:
        ended, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in ended:
            task.result()
    finally:
        await end_tasks(tasks)
        await member.stop()


async def _serve_requests(port: ClientSide, control: ListenerControl) -> None:
    """Carry out requests. Raises PortClosed once there are no more."""
    while True:
        request, reply = await port.next()
        reply(control.apply(request))


def _forwarder(
    env: Env, config: ConsumerConfig, port: ClientSide, control: ListenerControl
) -> Forwarder | None:
    if not control.forward_to:
        return None
    producer = Producer(env, forwarder_config(config))
    return Forwarder(producer, port, config.group, control.forward_to, control.process)
