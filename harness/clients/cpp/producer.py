"""librocketmq's producer as a client process: one send at a time, with outcomes exactly as the library reports."""

from __future__ import annotations

import asyncio
import ctypes
import os
import threading
from typing import Any

from staticfire.checkers.model.message_contents import digest_of_text
from staticfire.checkers.op_kinds.values import SendResult
from staticfire.harness.clients.configuration import Configuration
from staticfire.harness.clients.cpp.library import (
    LOG_FILE_MIB,
    LOG_FILES,
    Library,
    LibraryError,
    Sent,
)
from staticfire.harness.clients.cpp.stopping import stop_in_time
from staticfire.harness.clients.payload import make_body
from staticfire.harness.clients.port import ONE_WAY, ClientSide, Outcome, Request
from staticfire.system_under_test.protocol.message import java_string_hash

STATUSES = ("SEND_OK", "FLUSH_DISK_TIMEOUT", "FLUSH_SLAVE_TIMEOUT", "SLAVE_NOT_AVAILABLE")
ATTEMPTS_MAX = 15  # librocketmq accepts no more
DEFAULT_RETRIES = 2
NOT_THERE = {
    "send_batch": "librocketmq's batches are stored as one message, so none was sent",
    "transact": "librocketmq has no transactions in its C interface, so nothing was sent",
    "request": "librocketmq has no requests in its C interface, so nothing was sent",
}
CANNOT = {  # unsupported options, with the reasons
    "trace": "librocketmq's C interface has no message trace",
    "avoids_as_rocketmq": "librocketmq avoids no slow brokers",
}
NO_CHOICE = "librocketmq's C interface cannot send to a given queue, so nothing was sent"


class CppProducer:
    """A producer of the library, started."""

    def __init__(self, library: Library, fields: Configuration) -> None:
        """Raises LibraryError."""
        self._library = library
        self._dll = dll = library.dll
        self._sending = threading.Lock()
        self._handle = dll.CreateProducer(fields["group"].encode())
        set_up = [
            dll.SetProducerLogFileNumAndSize(self._handle, LOG_FILES, LOG_FILE_MIB),
            dll.SetProducerNameServerAddress(
                self._handle, ";".join(fields["name_servers"]).encode()
            ),
            dll.SetProducerInstanceName(self._handle, fields["client_id"].encode()),
        ]
        if "send_timeout_s" in fields:  # in this library the time-out of one attempt
            milliseconds = max(int(fields["send_timeout_s"] * 1000), 1)
            set_up.append(dll.SetProducerSendMsgTimeout(self._handle, milliseconds))
        if credentials := fields.get("credentials"):
            keys = (credentials[name].encode() for name in ("access_key", "secret_key"))
            set_up.append(dll.SetProducerSessionCredentials(self._handle, *keys, b"staticfire"))
        attempts = 1 + fields.get("retries", DEFAULT_RETRIES)
        library.set_retry_times(self._handle, min(attempts, ATTEMPTS_MAX))
        for status in (*set_up, dll.StartProducer(self._handle)):
            library.check(status)

    def stop(self) -> None:
        """Leave the group. If a send is under way, end the process, since the library would wait for the send."""
        if not self._sending.acquire(blocking=False):
            os._exit(0)
        self._dll.ShutdownProducer(self._handle)

    def send(self, request: Request) -> Outcome:
        """Send one message, and wait for the answer, through all attempts. Raises LibraryError."""
        with self._sending:
            return self._send_message(request)

    def _send_message(self, request: Request) -> Outcome:
        key = request["key"].encode()
        body = make_body(request["key"], request["size"])
        message = self._dll.CreateMessage(request["topic"].encode())
        try:
            self._library.check(self._dll.SetMessageKeys(message, key))
            self._library.check(self._dll.SetByteMessageBody(message, body, len(body)))
            self._set_properties(message, request)
            if request.get("one_way"):
                return self._send_one_way(message)
            if "sharding_key" in request:
                return self._send_in_order(message, request["sharding_key"])
            return self._send(message)
        finally:
            self._dll.DestroyMessage(message)

    def _set_properties(self, message: int, request: Request) -> None:
        check = self._library.check
        if "tag" in request:
            check(self._dll.SetMessageTags(message, request["tag"].encode()))
        if "delay_level" in request:
            check(self._dll.SetDelayTimeLevel(message, request["delay_level"]))
        for name, value in request.get("properties", {}).items():
            check(self._dll.SetMessageProperty(message, name.encode(), value.encode()))

    def _send(self, message: int) -> Outcome:
        sent = self._library.begin_send()
        result = self._library.ffi._CSendResult()
        status = self._dll.SendMessageSync(self._handle, message, ctypes.pointer(result))
        return self._outcome(status, sent, result)

    def _send_in_order(self, message: int, key: str) -> Outcome:
        """Send to the key's queue, with one attempt (RocketMQ: SelectMessageQueueByHash)."""
        number = abs(java_string_hash(key))
        selector = self._library.ffi.QUEUE_SELECTOR_CALLBACK(
            lambda queues, _message, _argument: number % queues
        )
        not_null = ctypes.create_string_buffer(
            1
        )  # the library refuses a selector without an argument
        sent = self._library.begin_send()
        result = self._library.ffi._CSendResult()
        status = self._dll.SendMessageOrderly(
            self._handle, message, selector, not_null, 0, ctypes.pointer(result)
        )
        return self._outcome(status, sent, result)

    def _outcome(self, status: int, sent: Sent, result: Any) -> Outcome:
        if status:
            return self._failed(sent)
        if (sent.message_id, sent.queue_offset) != (result.msgId, result.offset):
            raise LibraryError(
                "librocketmq's result of a send is not the one that it was asked for"
            )
        value = sent_value(sent, STATUSES[result.sendStatus])
        if value["status"] == "SEND_OK":
            return Outcome("ok", value)
        return Outcome("info", value, value["status"])

    def _send_one_way(self, message: int) -> Outcome:
        sent = self._library.begin_send()
        if self._dll.SendMessageOneway(self._handle, message):
            return self._failed(sent)
        return Outcome("info", {"attempts": sent.attempts}, ONE_WAY)

    def _failed(self, sent: Sent) -> Outcome:
        """Return the outcome of a failed send.

        Any attempt may have succeeded, since the library does not report their ends.
        """
        text = f"{self._library.last_error()} (attempts: {sent.attempts})"
        return Outcome("info" if sent.attempts else "fail", {"attempts": sent.attempts}, text)


def sent_value(sent: Sent, status: str) -> SendResult:
    return {
        "broker": sent.broker,
        "queue": sent.queue,
        "queue_offset": sent.queue_offset,
        "physical_offset": int(sent.offset_message_id[-16:], 16),
        "status": status,
        "attempts": sent.attempts,
        "id": digest_of_text(sent.message_id.decode()),
    }


async def serve_cpp_producer(library: Library, fields: Configuration, port: ClientSide) -> None:
    """Apply requests one at a time until the process ends. Raises PortClosed when there are no more, LibraryError.

    `open` keeps the same producer, which holds no state of a send. While brokers come and go, the shutdown of a
    producer may abort the library (an uncaught boost::thread_interrupted).
    """
    for name, reason in CANNOT.items():
        if fields.get(name):
            port.emit("fail", "open", {}, reason)
            return
    producer = await asyncio.to_thread(CppProducer, library, fields)
    port.emit("ok", "open", {}, None)
    try:
        while True:
            request, reply = await port.next()
            reply(await carry_out(producer, request))
    finally:
        await stop_in_time(producer.stop)


async def carry_out(producer: CppProducer, request: Request) -> Outcome:
    """Carry out a request; `fail`, without an effect, for one that the library does not support."""
    if request["f"] == "open":
        return Outcome("ok", {})
    if request["f"] in NOT_THERE:
        return Outcome("fail", {}, NOT_THERE[request["f"]])
    if "queue" in request:
        return Outcome("fail", {}, NO_CHOICE)
    return await asyncio.to_thread(producer.send, request)
