"""Sends messages in local transactions (RocketMQ: TransactionMQProducer, TransactionListener).

The producer first stores a half message, which no consumer sees. Then it runs the local transaction and sends the
outcome to the broker. A broker that does not receive the outcome asks some producer of the group, repeatedly.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import IntEnum

from staticfire.system_under_test.client.message_properties import (
    CHECK_IMMUNITY,
    DELAY_LEVEL,
    PRODUCER_GROUP,
    REGION,
    TRANSACTION,
    UNIQUE_KEY,
)
from staticfire.system_under_test.client.producer.send_result import SendResult
from staticfire.system_under_test.client.producer.sender import Sender
from staticfire.system_under_test.client.routing.client_instance import ClientInstance
from staticfire.system_under_test.protocol.codes import RequestCode, SendStatus
from staticfire.system_under_test.protocol.command import RemotingCommand
from staticfire.system_under_test.protocol.compression import inflate_body
from staticfire.system_under_test.protocol.headers import (
    CheckTransactionStateHeader,
    EndTransactionHeader,
)
from staticfire.system_under_test.protocol.message import (
    Message,
    decode_record,
    parse_offset_message_id,
)
from staticfire.system_under_test.remoting import Connection, RemotingError

PREPARED_FLAG = 0x4  # RocketMQ: MessageSysFlag.TRANSACTION_PREPARED_TYPE
DEFAULT_REGION = "DefaultRegion"  # RocketMQ: MixAll.DEFAULT_TRACE_REGION_ID
# RocketMQ: checkRequestHoldMax; further checks are dropped, and the broker asks again
CHECKS_MAX = 2000


class TransactionState(IntEnum):
    """The outcome of a local transaction; the numbers are those of END_TRANSACTION."""

    UNKNOWN = 0  # the broker will ask
    COMMIT = 8
    ROLLBACK = 12


Execute = Callable[[Message], Awaitable[TransactionState]]
# (half message, name of the broker that asks, None if no route has that broker) -> outcome of the transaction.
AnswerCheck = Callable[[Message, str | None], Awaitable[TransactionState]]


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionResult:
    """`sent`: position of the half message. `is_reported`: whether `state` was sent to its broker (one way)."""

    sent: SendResult
    state: TransactionState
    is_reported: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionEnd:
    """The outcome sent to a broker; `from_check`: the broker had asked. `broker`: its address, if known."""

    message: Message
    state: TransactionState
    broker: str | None
    region: str | None
    from_check: bool = False


@dataclass(frozen=True, slots=True)
class Check:
    """A broker's request for the outcome of a half message."""

    connection: Connection
    header: CheckTransactionStateHeader
    message: Message


class Transactions:
    """The transactions of one producer.

    Args:
        check: returns the outcome of the transaction of a half message; None: do not answer brokers. They may ask about
        messages of any producer of the group, even of one that no longer runs.
    """

    def __init__(
        self, client: ClientInstance, sender: Sender, group: str, check: AnswerCheck | None
    ) -> None:
        self._client = client
        self._sender = sender
        self._group = group
        self._check = check
        self.on_ended: Callable[[TransactionEnd], None] | None = None
        self._log = client.env.log
        self._checks: deque[Check] = deque()
        self._checking: asyncio.Task[None] | None = None

    async def send(
        self, message: Message, execute: Execute, check_after_s: int | None
    ) -> TransactionResult:
        """See Producer.send_in_transaction."""
        properties = message.properties
        properties.pop(DELAY_LEVEL, None)  # a half message has no delay
        properties[TRANSACTION] = "true"
        properties[PRODUCER_GROUP] = self._group
        if check_after_s is not None:
            properties[CHECK_IMMUNITY] = str(check_after_s)
        message.sys_flag |= PREPARED_FLAG
        self._sender.identify(message)
        sent = await self._sender.send(message, None, self._sender.begin())
        if sent.status is SendStatus.SEND_OK:
            state = await self._run(execute, message)
        else:
            # the half message may be lost: nothing may depend on it
            state = TransactionState.ROLLBACK
        if self.on_ended is not None:
            broker = self._client.master(sent.queue.broker_name)
            end = TransactionEnd(message=message, state=state, broker=broker, region=sent.region)
            self.on_ended(end)
        return TransactionResult(sent=sent, state=state, is_reported=self._report(sent, state))

    async def _run(self, work: Execute, message: Message) -> TransactionState:
        try:
            return await work(message)
        except Exception as error:
            self._log.warning("local transaction failed", error=repr(error))
            return TransactionState.UNKNOWN

    def _report(self, sent: SendResult, state: TransactionState) -> bool:
        address = self._client.master(sent.queue.broker_name)
        connection = None if address is None else self._client.remoting.connection(address)
        if connection is None:
            return False
        header = EndTransactionHeader(
            producer_group=self._group,
            tran_state_table_offset=sent.queue_offset,
            commit_log_offset=parse_offset_message_id(sent.offset_message_id)[2],
            commit_or_rollback=state,
            msg_id=sent.message_id,
            transaction_id=sent.message_id,
        )
        connection.invoke_oneway(end_command(header))
        return True

    # Requests of brokers

    def ask(self, connection: Connection, request: RemotingCommand) -> None:
        """Handle code 39: answer later, one check after the other, over the same connection. Raises ValueError."""
        header = CheckTransactionStateHeader.from_ext(request.ext_fields)
        message = inflate_body(decode_record(request.body))
        if self._check is None or len(self._checks) >= CHECKS_MAX:
            self._log.info("a question about a transaction stays open", message=header.msg_id)
            return
        self._checks.append(Check(connection, header, message))
        if self._checking is None:
            self._checking = asyncio.get_running_loop().create_task(self._answer_all(self._check))

    def stop(self) -> None:
        """Stop answering."""
        self._checks.clear()
        if self._checking is not None:
            self._checking.cancel()

    async def _answer_all(self, check: AnswerCheck) -> None:
        try:
            while self._checks:
                question = self._checks.popleft()
                state = await self._decision(check, question)
                self._answer(question, state)
                self._note_check(question, state)
        finally:
            self._checking = None

    async def _decision(self, check: AnswerCheck, question: Check) -> TransactionState:
        broker = self._client.routes.broker_name_of(question.connection.address)
        return await self._run(lambda half: check(half, broker), question.message)

    def _note_check(self, question: Check, state: TransactionState) -> None:
        if self.on_ended is not None:
            self.on_ended(
                TransactionEnd(
                    message=question.message,
                    state=state,
                    broker=question.connection.address,
                    region=question.message.properties.get(REGION, DEFAULT_REGION),
                    from_check=True,
                )
            )

    def _answer(self, question: Check, state: TransactionState) -> None:
        header = EndTransactionHeader(
            producer_group=self._group,
            tran_state_table_offset=question.header.tran_state_table_offset,
            commit_log_offset=question.header.commit_log_offset,
            commit_or_rollback=state,
            msg_id=question.message.properties.get(UNIQUE_KEY, question.header.msg_id or ""),
            from_transaction_check=True,
            transaction_id=question.header.transaction_id,
        )
        try:
            question.connection.invoke_oneway(end_command(header))
        except RemotingError as error:
            self._log.info("an answer about a transaction was not sent", error=str(error))


def end_command(header: EndTransactionHeader) -> RemotingCommand:
    return RemotingCommand.request(RequestCode.END_TRANSACTION, header.to_ext())
