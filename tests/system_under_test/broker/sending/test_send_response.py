"""Answers from the template are those that the encoder of commands makes."""

from __future__ import annotations

import pytest

from staticfire.system_under_test.broker.sending.send_response import SendAnswer, SendAnswers
from staticfire.system_under_test.protocol.codes import ResponseCode
from staticfire.system_under_test.protocol.command import ONEWAY_FLAG, ROCKETMQ, RemotingCommand
from tests.system_under_test.broker.bench import Peer


@pytest.mark.parametrize("region", ["DefaultRegion", '100 % "north"\\', "München"])
@pytest.mark.parametrize("code", [0, 10, 11, 12])
def test_the_template_makes_the_bytes_of_the_encoder(region: str, code: int) -> None:
    answers = SendAnswers({"MSG_REGION": region, "TRACE_ON": "true"})
    request = RemotingCommand(310, opaque=2**31 - 1)
    ext = answers.ext("0A" * 16, 3, 77)
    assert ext["MSG_REGION"] == region
    expected = RemotingCommand.response(request, code, None, ext).encode()
    assert answers.frame(request.opaque, code, "0A" * 16, 3, 77) == expected


def test_a_request_in_binary_form_is_answered_in_binary_form() -> None:
    peer = Peer()
    request = RemotingCommand(310, opaque=5, serialize_type=ROCKETMQ)
    SendAnswer(SendAnswers({}), peer.connection, request, "id", 1, 2)(ResponseCode.SUCCESS)
    answer = peer.take()
    assert (answer.serialize_type, answer.opaque) == (ROCKETMQ, 5)
    assert answer.ext_fields == {"msgId": "id", "queueId": "1", "queueOffset": "2"}


def test_a_oneway_send_is_not_answered() -> None:
    peer = Peer()
    request = RemotingCommand(310, flag=ONEWAY_FLAG)
    SendAnswer(SendAnswers({}), peer.connection, request, "id", 1, 2)(ResponseCode.SUCCESS)
    assert peer.sent == []
