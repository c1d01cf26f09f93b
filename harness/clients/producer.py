"""A producer as a client process: applies each send op once, and reports its outcome without claiming more."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import Any

from staticfire.checkers.model.message_contents import digest_of_text
from staticfire.checkers.model.message_ranges import condensed, nth_key
from staticfire.checkers.op_kinds import values
from staticfire.checkers.op_kinds.producer import SEND_MANY
from staticfire.harness.accounts import PLAIN
from staticfire.harness.clients.contents import ANSWERS, SHARDED_BY, digest_of_reply
from staticfire.harness.clients.payload import key_of, make_body
from staticfire.harness.clients.port import ONE_WAY, ClientSide, Outcome, Request
from staticfire.system_under_test.acl.signature import Credentials
from staticfire.system_under_test.client.message_properties import DELAY_LEVEL, KEYS, TAGS
from staticfire.system_under_test.client.producer.ordered_queues import OrderedQueues
from staticfire.system_under_test.client.producer.producer import Producer, ProducerConfig
from staticfire.system_under_test.client.producer.request_reply import RequestTimeout
from staticfire.system_under_test.client.producer.send_result import SendFailed, SendResult
from staticfire.system_under_test.client.producer.transactions import TransactionState
from staticfire.system_under_test.protocol.bodies import MessageQueue
from staticfire.system_under_test.protocol.codes import SendStatus
from staticfire.system_under_test.protocol.message import Message, parse_offset_message_id
from staticfire.system_under_test.runtime.env import Env

PADDING = "PADDING"  # a property that only adds length


async def serve_producer(
    env: Env,
    config: ProducerConfig,
    port: ClientSide,
    accounts: Mapping[str, Mapping[str, Any]] = MappingProxyType({}),
) -> None:
    """Apply requests one at a time until the process ends. `open` starts a new producer.

    `accounts` are the keys of other accounts that some sends use.

    Raises PortClosed once there are no more requests.
    """
    check = partial(answer_check, port)
    ordered = OrderedQueues()
    producer = Producer(env, config, check=check, ordered=ordered)
    others = OtherAccounts(env, config, accounts)
    await producer.start()
    port.emit("ok", "open", {}, None)
    try:
        while True:
            request, reply = await port.next()
            if request["f"] == "open":
                await producer.stop()
                producer = Producer(env, config, check=check, ordered=ordered)
                await producer.start()
                reply(Outcome("ok", {}))
            else:
                sender = await others.of(request["account"]) if "account" in request else producer
                reply(await INVOKE[request["f"]](sender, request))
    finally:
        await others.stop()
        await producer.stop()


class OtherAccounts:
    """Producers of other accounts, or without TLS, each started on first use.

    They make one attempt, so that the answer is that of one broker. Each has a group of its own, because brokers ask
    any producer of a group how a transaction ended, and these producers do not answer that.
    """

    def __init__(
        self, env: Env, config: ProducerConfig, accounts: Mapping[str, Mapping[str, Any]]
    ) -> None:
        self._env = env
        self._config = config
        self._accounts = accounts
        self._started: dict[str, Producer] = {}

    async def of(self, name: str) -> Producer:
        if name not in self._started:
            env, config = self._env, self._config
            config = replace(
                config,
                group=f"{config.group}-{name}",
                client_id=f"{config.client_id}-{name}",
                retries=0,
            )
            if name == PLAIN:
                env = replace(env, tls=None)
            else:
                keys = self._accounts[name]
                config = replace(config, credentials=Credentials(**keys) if keys else None)
            self._started[name] = Producer(env, config)
            await self._started[name].start()
        return self._started[name]

    async def stop(self) -> None:
        for producer in self._started.values():
            await producer.stop()


async def invoke_send(producer: Producer, request: Request) -> Outcome:
    """Do one send. One-way sends, weak statuses (stored, but less safely than asked) and unknown ends are `info`."""
    message = _message(request["topic"], request)
    if request.get("one_way"):
        return await _invoke_one_way(producer, message)
    try:
        if request.get("async"):
            result = await _send_async(producer, message)
        elif "sharding_key" in request:
            message.properties[SHARDED_BY] = request["sharding_key"]
            result = await producer.send_ordered(message, request["sharding_key"])
        else:
            result = await producer.send(message, _queue(request))
    except SendFailed as error:
        return _failed(error)
    return _sent(result, sent_value(result))


async def _send_async(producer: Producer, message: Message) -> SendResult:
    """Send with a callback, and wait for it. Raises SendFailed."""
    called: asyncio.Future[SendResult | SendFailed] = asyncio.get_running_loop().create_future()

    def done(outcome: SendResult | SendFailed) -> None:
        if not called.done():  # the client is ending, and with it the wait
            called.set_result(outcome)

    producer.send_async(message, done)
    outcome = await called
    if isinstance(outcome, SendFailed):
        raise outcome
    return outcome


async def invoke_batch(producer: Producer, request: Request) -> Outcome:
    """Send one batch, which ends as a whole; `messages` has the position of each message."""
    topic = request["topic"]
    messages = [_message(one.get("topic", topic), one) for one in request["messages"]]
    try:
        results = await producer.send_batch(messages)
    except SendFailed as error:
        return _failed(error)
    return _sent(results[0], {"messages": [sent_value(result) for result in results]})


async def invoke_many(producer: Producer, request: Request) -> Outcome:
    """Send one batch of `count` messages with consecutive keys from `key` on, and report it as message ranges."""
    first, count = request["key"], request["count"]
    keys = [nth_key(first, number) for number in range(count)]
    size = {"size": request["size"]}
    messages = [_message(request["topic"], {"key": key, **size}) for key in keys]
    try:
        results = await producer.send_batch(messages)
    except SendFailed as error:
        return _failed(error)
    sent = (
        (key, result.queue_offset, parse_offset_message_id(result.offset_message_id)[2], True, 0)
        for key, result in zip(keys, results, strict=True)
    )
    value = {
        "broker": results[0].queue.broker_name,
        "queue": results[0].queue.queue_id,
        "status": results[0].status.name,
        "attempts": results[0].attempts,
        "ranges": [one.to_send() for one in condensed(sent)],
    }
    return _sent(results[0], value)


async def _invoke_one_way(producer: Producer, message: Message) -> Outcome:
    try:
        await producer.send_one_way(message)
    except SendFailed as error:
        return _failed(error)
    return Outcome("info", {"attempts": 1}, ONE_WAY)


async def invoke_transact(producer: Producer, request: Request) -> Outcome:
    """Do one transaction; `state` is the end of its local part.

    `ok` means that its half message is stored as requested.
    """
    message = _message(request["topic"], request)
    message.properties[ANSWERS] = ",".join(request.get("answers") or [default_answer(request)])
    state = STATES[request["state"]]

    async def execute(_message: Message) -> TransactionState:
        return state

    try:
        result = await producer.send_in_transaction(
            message, execute, check_after_s=request.get("check_after_s")
        )
    except SendFailed as error:
        return _failed(error)
    half = sent_value(result.sent)
    value = {
        **{name: half[name] for name in ("broker", "queue", "status", "attempts", "id")},
        "half_queue_offset": half["queue_offset"],
        "half_physical_offset": half["physical_offset"],
        "state": result.state.name.lower(),
        "end_sent": result.is_reported,
    }
    return _sent(result.sent, value)


def default_answer(request: Request) -> str:
    return "commit" if request["state"] == "unknown" else str(request["state"])


async def answer_check(port: ClientSide, message: Message, broker: str | None) -> TransactionState:
    """Return the decision about a transaction, which any producer can read from the message itself.

    `broker` is the name of the one that asks, if it is known.
    """
    properties = message.properties
    answers = properties.get(ANSWERS, "rollback").split(",")
    times = int(properties.get(CHECK_TIMES, "0"))
    state = answers[min(max(times - 1, 0), len(answers) - 1)]
    value: values.CheckBackReport = {
        "topic": message.topic,
        "key": key_of(message.body),
        "times": times,
        "state": state,
    }
    if broker is not None:
        value["broker"] = broker
    port.emit("ok", "check_back", value, None)
    return STATES[state]


async def invoke_request(producer: Producer, request: Request) -> Outcome:
    """Do one request; `reply` is the key in the reply, `reply_properties` a digest.

    The outcome is `info` without a reply in time, and where no broker acknowledged the request.
    """
    message = _message(request["topic"], request)
    try:
        reply = await producer.request(message, timeout_s=request.get("timeout_s"))
    except SendFailed as error:
        return _failed(error)
    except RequestTimeout as timeout:
        return Outcome("info", sent_value(timeout.sent), str(timeout))
    value: dict[str, object] = {
        "reply": key_of(reply.message.body),
        "reply_properties": digest_of_reply(reply.message.properties),
    }
    if reply.sent is None:
        return Outcome("info", value, "a consumer replied, and no broker acknowledged the request")
    return _sent(reply.sent, {**sent_value(reply.sent), **value})


INVOKE = {
    "send": invoke_send,
    "send_batch": invoke_batch,
    SEND_MANY: invoke_many,
    "transact": invoke_transact,
    "request": invoke_request,
}
CHECK_TIMES = "TRANSACTION_CHECK_TIMES"
STATES = {state.name.lower(): state for state in TransactionState}


def _message(topic: str, wanted: dict[str, Any]) -> Message:
    """Make the message: `key` and `size`, optionally `tag`, `delay_level`, the sender's `properties`, `padding`."""
    key = wanted["key"]
    properties = {**wanted.get("properties", {}), KEYS: key}
    if "tag" in wanted:
        properties[TAGS] = wanted["tag"]
    if "padding" in wanted:
        properties[PADDING] = "x" * wanted["padding"]
    if "delay_level" in wanted:
        properties[DELAY_LEVEL] = str(wanted["delay_level"])
    return Message(topic=topic, body=make_body(key, wanted["size"]), properties=properties)


def _failed(error: SendFailed) -> Outcome:
    value: dict[str, object] = {"attempts": error.attempts}
    if error.code is not None:
        value |= {"code": error.code, "refused_by": error.broker_name}
    return Outcome("fail" if error.definite else "info", value, str(error))


def _sent(result: SendResult, value: Mapping[str, object]) -> Outcome:
    if result.status is SendStatus.SEND_OK:
        return Outcome("ok", value)
    return Outcome("info", value, result.status.name)


def _queue(request: Request) -> MessageQueue | None:
    """Return the queue that the request names (probes do), or None."""
    if "queue" not in request:
        return None
    return MessageQueue(
        topic=request["topic"], broker_name=request["broker"], queue_id=request["queue"]
    )


def sent_value(result: SendResult) -> values.SendResult:
    return {
        "broker": result.queue.broker_name,
        "queue": result.queue.queue_id,
        "queue_offset": result.queue_offset,
        "physical_offset": parse_offset_message_id(result.offset_message_id)[2],
        "status": result.status.name,
        "attempts": result.attempts,
        "id": digest_of_text(result.message_id),
    }
