"""Ends and revives transactions: codes 37 and 323 (RocketMQ, EndTransactionProcessor, AdminBrokerProcessor)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from staticfire.system_under_test.broker.config import BrokerConfig
from staticfire.system_under_test.broker.delivery.half_messages import QUEUE_ID, HalfMessages
from staticfire.system_under_test.broker.delivery.transaction_policy import (
    FIRST_STORED_PROPERTY,
    TransactionPolicy,
)
from staticfire.system_under_test.broker.metadata.topic_redirection import (
    TRANSACTION_COMMIT,
    TRANSACTION_ROLLBACK,
    TRANSACTION_TYPE_MASK,
    TopicRedirection,
    real_destination,
)
from staticfire.system_under_test.broker.metadata.topics import CHECK_MAX_TIME_TOPIC, HALF_TOPIC
from staticfire.system_under_test.broker.refusal import SendRefused
from staticfire.system_under_test.broker.sending.internal_copies import InternalCopies
from staticfire.system_under_test.broker.sending.send import PUT_CODES, waits_for_store
from staticfire.system_under_test.protocol.codes import ResponseCode
from staticfire.system_under_test.protocol.command import RemotingCommand
from staticfire.system_under_test.protocol.header_fields import HeaderError
from staticfire.system_under_test.protocol.headers import (
    EndTransactionHeader,
    ResumeCheckHalfMessageHeader,
)
from staticfire.system_under_test.protocol.message import Message, parse_offset_message_id
from staticfire.system_under_test.remoting import Connection
from staticfire.system_under_test.store.results import PutResult, PutStatus

PRODUCER_GROUP_PROPERTY = "PGROUP"
CHECK_TIMES_PROPERTY = "TRANSACTION_CHECK_TIMES"
UNKNOWN = 0


class TransactionRequests:
    """Commits, rolls back and revives half messages."""

    def __init__(
        self,
        config: BrokerConfig,
        halves: HalfMessages,
        copies: InternalCopies,
        redirection: TopicRedirection,
        policy: TransactionPolicy,
        *,
        is_ready: Callable[[], bool],
    ) -> None:
        self._config = config
        self._halves = halves
        self._copies = copies
        self._redirection = redirection
        self._policy = policy
        self._is_ready = is_ready

    def end(self, connection: Connection, request: RemotingCommand) -> RemotingCommand | None:
        """Commit or roll back. An unknown outcome gets no answer: the check will ask again.

        Raises HeaderError: a header field is missing or malformed.
        """
        header = EndTransactionHeader.from_ext(request.ext_fields)
        if header.commit_or_rollback not in (UNKNOWN, TRANSACTION_COMMIT, TRANSACTION_ROLLBACK):
            raise HeaderError(
                f"commitOrRollback is {header.commit_or_rollback}; 0, 8 and 12 are allowed"
            )
        if self._config.is_slave:
            return RemotingCommand.response(
                request,
                ResponseCode.SLAVE_NOT_AVAILABLE,
                "Message store is slave mode, so end transaction is forbidden. ",
            )
        if header.commit_or_rollback == UNKNOWN:
            return None
        try:
            self._end(connection, request, header)
        except SendRefused as refusal:
            return refusal.answer(request)
        return None

    def _end(
        self, connection: Connection, request: RemotingCommand, header: EndTransactionHeader
    ) -> None:
        half = self._find(header)
        offset = self._open_offset(half)
        answer = partial(answer_end, connection, request)
        if header.commit_or_rollback == TRANSACTION_COMMIT:
            waits = waits_for_store(half.properties)
            check_put(self._copies.put_for(self._make_final(half), answer, waits=waits))
            # The op message goes behind the final message in the log: a recovery that finds it finds both.
            self._halves.end(offset)
        else:
            check_put(self._halves.end(offset))
            answer(ResponseCode.SUCCESS)

    def _open_offset(self, half: Message) -> int:
        """The current offset of the half message to end. Raises SendRefused if it is over."""
        if not self._policy.ends_once:
            return half.queue_offset
        offset = self._halves.open_offset(half.queue_offset)
        if offset is None:
            raise refused("The transaction has been ended")
        return offset

    def _find(self, header: EndTransactionHeader) -> Message:
        """The half message that a request names. Raises SendRefused."""
        if not self._is_ready():
            raise SendRefused(
                ResponseCode.SERVICE_NOT_AVAILABLE, "this broker does not accept messages now"
            )
        half = self._halves.read_at(header.commit_log_offset)
        if half is None or half.topic != HALF_TOPIC:
            raise refused("Find prepared transaction message failed")
        if half.properties.get(PRODUCER_GROUP_PROPERTY) != header.producer_group:
            raise refused("The producer group wrong")
        if half.queue_offset != header.tran_state_table_offset:
            raise refused("The transaction state table offset wrong")
        return half

    def _make_final(self, half: Message) -> Message:
        """The message as consumers see it. Raises SendRefused."""
        destination = real_destination(half)
        if destination is None:
            raise refused("The prepared transaction message has no topic")
        topic, queue_id = destination
        final = replace(
            half,
            topic=topic,
            queue_id=queue_id,
            properties={
                name: half.properties[name]
                for name in half.properties
                if name != FIRST_STORED_PROPERTY
            },
            sys_flag=half.sys_flag & ~TRANSACTION_TYPE_MASK | TRANSACTION_COMMIT,
            prepared_transaction_offset=half.physical_offset,
        )
        self._redirection.delay_committed(final)
        return final

    def resume(self, connection: Connection, request: RemotingCommand) -> RemotingCommand | None:
        """Put a parked message back: its check begins anew. Raises HeaderError."""
        header = ResumeCheckHalfMessageHeader.from_ext(request.ext_fields)
        try:
            half = self._find_parked(header.msg_id or "")
            check_put(self._copies.put_for(half, partial(answer_end, connection, request)))
            self._halves.revive(half.physical_offset)
        except SendRefused as refusal:
            return refusal.answer(request)
        return None

    def _find_parked(self, message_id: str) -> Message:
        if self._config.is_slave or not self._is_ready():
            raise refused("this broker does not accept messages now")
        try:
            offset = parse_offset_message_id(message_id)[2]
        except ValueError as error:
            raise refused(str(error)) from error
        parked = self._halves.read_at(offset)
        if parked is None or parked.topic != CHECK_MAX_TIME_TOPIC:
            raise refused(f"{message_id} is no message of {CHECK_MAX_TIME_TOPIC}")
        properties = parked.properties | {CHECK_TIMES_PROPERTY: "0"}
        properties.pop(FIRST_STORED_PROPERTY, None)
        return replace(parked, topic=HALF_TOPIC, queue_id=QUEUE_ID, properties=properties)


def refused(text: str) -> SendRefused:
    return SendRefused(ResponseCode.SYSTEM_ERROR, text)


def check_put(result: PutResult) -> None:
    """Raises SendRefused if the store refused the message."""
    if result.status is not PutStatus.PUT_OK:
        raise SendRefused(PUT_CODES[result.status], result.reason)


def answer_end(connection: Connection, request: RemotingCommand, code: ResponseCode) -> None:
    """Answer a stored end; Java's clients never wait for it."""
    if not request.is_oneway:
        connection.send(RemotingCommand.response(request, code))
