"""Messages that are stored elsewhere than they were sent to (RocketMQ, CommitLog.asyncPutMessage and
SendMessageProcessor.handleRetryAndDLQ): delayed ones, halves of transactions, and those that have used up their
retries. The send path calls this for those alone; an ordinary message never comes here."""

from __future__ import annotations

from system_under_test.broker.refusal import SendRefused
from system_under_test.protocol.codes import ResponseCode
from system_under_test.protocol.message import Message

TRANSACTION_TYPE_MASK = 0xC  # RocketMQ, MessageSysFlag: 4 prepared, 8 commit, 12 rollback
DELAY_PROPERTY = "DELAY"
TRANSACTION_PROPERTY = "TRAN_MSG"


class Diversion:
    """Rewrites topic, queue and properties of a message before it is stored."""

    def divert(self, message: Message) -> None:
        """A message with a DELAY or TRAN_MSG property, or with transaction bits; WAIT is still among its properties.

        Raises:
            SendRefused: it cannot be stored anywhere.
        """
        if (
            message.sys_flag & TRANSACTION_TYPE_MASK
            or message.properties.get(TRANSACTION_PROPERTY) == "true"
        ):
            raise SendRefused(
                ResponseCode.MESSAGE_ILLEGAL,
                "transactional messages are not supported by this broker",
            )
        if message.properties.get(DELAY_PROPERTY, "0") != "0":
            raise SendRefused(
                ResponseCode.MESSAGE_ILLEGAL, "delayed messages are not supported by this broker"
            )

    def dead_letter(self, message: Message, group: str) -> None:
        """A message to a retry topic that has been tried often enough. Raises SendRefused."""
        raise SendRefused(
            ResponseCode.MESSAGE_ILLEGAL, "dead-lettering is not supported by this broker"
        )
