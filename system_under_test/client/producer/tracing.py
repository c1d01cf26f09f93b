"""Message trace: sends records of what happened to messages to a topic (RocketMQ: AsyncTraceDispatcher)."""

from __future__ import annotations

import asyncio
from collections import deque

from staticfire.system_under_test.client.listening import ConsumeResult, Listener, has_succeeded
from staticfire.system_under_test.client.message_properties import KEYS, TRACE_ON, UNIQUE_KEY
from staticfire.system_under_test.client.producer.async_send import AsyncSends
from staticfire.system_under_test.client.producer.send_result import SendFailed, SendResult
from staticfire.system_under_test.client.producer.sender import Sender, SendOptions
from staticfire.system_under_test.client.producer.transactions import TransactionEnd
from staticfire.system_under_test.client.routing.client_instance import ClientInstance
from staticfire.system_under_test.client.trace.trace_records import (
    ContextCode,
    TraceRecord,
    consumed,
    consuming,
    published,
    transaction_ended,
)
from staticfire.system_under_test.protocol.bodies import MessageQueue
from staticfire.system_under_test.protocol.message import Message, offset_message_id

TRACE_TOPIC = "RMQ_SYS_TRACE_TOPIC"
RECORDS_MAX = 1024  # RocketMQ: the queue of the dispatcher; further records are dropped
CHARACTERS_MAX = 118_000  # in one trace message
DELAY_S = 0.5  # longest wait of a record
SEND_TIMEOUT_S = 5.0
STATE_NAMES = {0: "UNKNOW", 8: "COMMIT_MESSAGE", 12: "ROLLBACK_MESSAGE"}  # RocketMQ's spelling


class TraceBuffer:
    """Buffers records, and joins them to trace messages."""

    def __init__(self) -> None:
        self._records: deque[TraceRecord] = deque()
        self.characters = 0
        self.dropped = 0

    def __len__(self) -> int:
        return len(self._records)

    def add(self, record: TraceRecord) -> None:
        """Keep the record, or drop it if too many wait."""
        if len(self._records) >= RECORDS_MAX:
            self.dropped += 1
        else:
            self._records.append(record)
            self.characters += len(record.text)

    def take(self) -> tuple[str, list[str]] | None:
        """Text and keys of the next trace message; None if no record waits."""
        if not self._records:
            return None
        texts: list[str] = []
        keys: dict[str, None] = {}
        size = 0
        while self._records and (not texts or size + len(self._records[0].text) <= CHARACTERS_MAX):
            record = self._records.popleft()
            texts.append(record.text)
            keys.update(dict.fromkeys(record.keys))
            size += len(record.text)
        self.characters -= size
        return "".join(texts), list(keys)


class Tracing:
    """The trace of one client. Its failures never make a send or a consumption fail."""

    def __init__(self, client: ClientInstance, group: str) -> None:
        self.group = group
        self._client = client
        self._buffer = TraceBuffer()
        self._loop = asyncio.get_running_loop()
        self._flush_timer: asyncio.TimerHandle | None = None
        options = SendOptions(group=f"_INNER_TRACE_PRODUCER-{group}", send_timeout_s=SEND_TIMEOUT_S)
        self._sends = AsyncSends(Sender(client, options))
        self._requests = 0

    def sent(self, message: Message, outcome: SendResult | SendFailed, cost_ms: int) -> None:
        """Record the outcome of a send."""
        if message.topic == TRACE_TOPIC:
            return
        result = outcome if isinstance(outcome, SendResult) else None
        if result is not None and not result.is_traced:
            return
        self._add(
            published(
                message,
                now_ms=self._now_ms(),
                region=None if result is None else result.region,
                group=self.group,
                message_id=message.properties.get(UNIQUE_KEY, ""),
                store_host=None if result is None else self._host(result.queue),
                cost_ms=cost_ms,
                offset_message_id=None if result is None else result.offset_message_id,
                succeeded=result is not None,
            )
        )

    def ended(self, end: TransactionEnd) -> None:
        """Record the outcome of a transaction that was or is being sent to its broker."""
        self._add(
            transaction_ended(
                end.message,
                now_ms=self._now_ms(),
                region=end.region,
                group=self.group,
                message_id=id_of(end.message),
                store_host=end.broker,
                state=STATE_NAMES[end.state],
                from_check=end.from_check,
            )
        )

    def traced(self, listener: Listener, *, timeout_s: float) -> Listener:
        """Wrap a listener so that its calls are traced. A call of `timeout_s` or longer counts as timed out."""

        async def listen(messages: list[Message], queue: MessageQueue) -> bool | ConsumeResult:
            traced = [message for message in messages if self._is_traced(message)]
            request_id = self._begin(traced)
            started_s = self._loop.time()
            try:
                result = await listener(messages, queue)
            except BaseException:
                cost_s = self._loop.time() - started_s
                self._end(traced, request_id, cost_s, ContextCode.EXCEPTION, succeeded=False)
                raise
            succeeded = has_succeeded(result)
            cost_s = self._loop.time() - started_s
            code = ContextCode.SUCCESS if succeeded else ContextCode.FAILED
            if cost_s >= timeout_s:
                code = ContextCode.TIME_OUT
            self._end(traced, request_id, cost_s, code, succeeded=succeeded)
            return result

        return listen

    def _is_traced(self, message: Message) -> bool:
        """False for trace messages themselves, which would never end, and if the broker has switched trace off."""
        return message.topic != TRACE_TOPIC and message.properties.get(TRACE_ON) != "false"

    def _begin(self, messages: list[Message]) -> str:
        self._requests += 1
        request_id = f"{self._client.client_id}-{self._requests}"
        for message in messages:
            self._add(
                consuming(
                    message,
                    now_ms=self._now_ms(),
                    group=self.group,
                    request_id=request_id,
                    message_id=id_of(message),
                )
            )
        return request_id

    def _end(
        self,
        messages: list[Message],
        request_id: str,
        cost_s: float,
        code: ContextCode,
        *,
        succeeded: bool,
    ) -> None:
        for message in messages:
            self._add(
                consumed(
                    message,
                    now_ms=self._now_ms(),
                    group=self.group,
                    request_id=request_id,
                    message_id=id_of(message),
                    cost_ms=int(cost_s * 1000) // max(len(messages), 1),
                    code=code,
                    succeeded=succeeded,
                )
            )

    def _add(self, record: TraceRecord) -> None:
        self._buffer.add(record)
        if self._buffer.characters >= CHARACTERS_MAX:
            self.flush()
        elif self._flush_timer is None:
            self._flush_timer = self._loop.call_later(DELAY_S, self.flush)

    def flush(self) -> None:
        """Send the waiting records."""
        if self._flush_timer is not None:
            self._flush_timer.cancel()
            self._flush_timer = None
        while (batch := self._buffer.take()) is not None:
            text, keys = batch
            message = Message(TRACE_TOPIC, text.encode(), {KEYS: " ".join(keys)})
            try:
                self._sends.begin(message, self._is_reported)
            except SendFailed as error:
                self._is_reported(error)

    def _is_reported(self, outcome: SendResult | SendFailed) -> None:
        if isinstance(outcome, SendFailed):
            self._client.env.log.info("trace was not sent", error=str(outcome))

    async def stop(self) -> None:
        """Send the waiting records, and wait a moment for that."""
        self.flush()
        deadline_s = self._loop.time() + 1.0
        while len(self._sends) and self._loop.time() < deadline_s:
            await asyncio.sleep(0.01)
        self._sends.stop()

    def _host(self, queue: MessageQueue) -> str | None:
        return self._client.master(queue.broker_name)

    def _now_ms(self) -> int:
        return self._client.env.clock.wall_ms()


def id_of(message: Message) -> str:
    """RocketMQ: MessageClientExt.getMsgId."""
    own_id = offset_message_id(*message.store_host, message.physical_offset)
    return message.properties.get(UNIQUE_KEY, own_id)
