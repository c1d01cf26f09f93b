"""Mutants of RMQ-TXN."""

from __future__ import annotations

from typing import Any

import pytest

from staticfire.harness.conformance.wire import Wire
from staticfire.system_under_test.broker.config import BrokerConfig
from staticfire.system_under_test.broker.delivery.half_messages import HalfMessages
from staticfire.system_under_test.broker.delivery.transaction_check import TransactionCheck
from staticfire.system_under_test.broker.metadata.topics import Topics
from staticfire.system_under_test.protocol.codes import RequestCode, ResponseCode
from staticfire.system_under_test.protocol.command import RemotingCommand
from staticfire.system_under_test.remoting.connection import Connection
from tests.conformance.mutants.mutant import Answer, answers, requests, system

PREPARED = "4"


@requests("RMQ-TXN-01", RequestCode.SEND_MESSAGE)
def half_messages_are_whole(request: RemotingCommand) -> RemotingCommand:
    request.ext_fields["sysFlag"] = "0"
    request.ext_fields["properties"] = request.ext_fields["properties"].replace(
        "TRAN_MSG", "TRAN_MSX"
    )
    return request


@answers("RMQ-TXN-02", RequestCode.PULL_MESSAGE)
def committed_messages_lose_their_tag(_: RemotingCommand, answer: Answer) -> Answer:
    answer.body = answer.body.replace(b"TAGS\x01", b"TAGZ\x01")
    return answer


@requests("RMQ-TXN-03", RequestCode.END_TRANSACTION)
def rollbacks_are_commits(request: RemotingCommand) -> RemotingCommand:
    request.ext_fields["commitOrRollback"] = "8"
    return request


@system("RMQ-TXN-04")
def no_producer_is_asked(patch: pytest.MonkeyPatch) -> None:
    _options(patch, transaction_check_interval_s=100_000.0)


def _options(patch: pytest.MonkeyPatch, **options: Any) -> None:
    made = BrokerConfig.__init__

    def otherwise(self: BrokerConfig, **fields: Any) -> None:
        made(self, **{**fields, **options})

    patch.setattr(BrokerConfig, "__init__", otherwise)


@requests("RMQ-TXN-05", RequestCode.SEND_MESSAGE)
def immunity_is_ignored(request: RemotingCommand) -> RemotingCommand:
    text = request.ext_fields["properties"]
    request.ext_fields["properties"] = text.replace("CHECK_IMMUNITY", "CHECK_IMMUNITX")
    return request


@requests("RMQ-TXN-06", RequestCode.UPDATE_BROKER_CONFIG)
def never_gives_up(request: RemotingCommand) -> RemotingCommand:
    request.body = b"transactionCheckMax=15\n"
    return request


@system("RMQ-TXN-06")
def it_gives_up_into_a_topic_that_is_not_there(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(TransactionCheck, "_has_topic", lambda _self, _name: True)


@requests("RMQ-TXN-07", RequestCode.END_TRANSACTION)
def groups_are_not_compared(request: RemotingCommand) -> RemotingCommand:
    if request.ext_fields["producerGroup"] == "another":
        request.ext_fields["producerGroup"] = "conform-txn-07-p2"
    return request


@requests("RMQ-TXN-08", RequestCode.END_TRANSACTION)
def rollbacks_are_unknown(request: RemotingCommand) -> RemotingCommand:
    if request.ext_fields["commitOrRollback"] == "12":
        request.ext_fields["commitOrRollback"] = "8"
    return request


@answers("RMQ-TXN-09", RequestCode.END_TRANSACTION)
def open_transactions_are_forgotten(_: RemotingCommand, answer: Answer) -> Answer:
    answer.code = ResponseCode.SYSTEM_ERROR
    return answer


@system("RMQ-TXN-10")
def only_the_sender_is_asked(patch: pytest.MonkeyPatch) -> None:
    received = Wire._received

    def deaf(self: Wire, command: RemotingCommand) -> None:
        if command.code != RequestCode.CHECK_TRANSACTION_STATE or command.is_response:
            received(self, command)

    patch.setattr(Wire, "_received", deaf)


@answers("RMQ-TXN-11", RequestCode.END_TRANSACTION)
def any_offsets_will_do(_: RemotingCommand, answer: Answer) -> Answer:
    answer.code = ResponseCode.SUCCESS
    return answer


@system("RMQ-TXN-13")
def half_messages_go_with_any_topic(patch: pytest.MonkeyPatch) -> None:
    delete, is_over = Topics.delete, HalfMessages.is_over
    removed: list[str] = []

    def noting(self: Topics, topic: str) -> bool:
        removed.append(topic)
        return delete(self, topic)

    def forgetting(self: HalfMessages, half_offset: int) -> bool:
        return bool(removed) or is_over(self, half_offset)

    patch.setattr(Topics, "delete", noting)
    patch.setattr(HalfMessages, "is_over", forgetting)


@system("RMQ-TXN-16")
def the_first_producer_is_asked(patch: pytest.MonkeyPatch) -> None:
    def first(self: TransactionCheck, group: str) -> Connection | None:
        return next((member.connection for member in self._clients.producers(group)), None)

    patch.setattr(TransactionCheck, "_choose_producer", first)
